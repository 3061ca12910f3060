// The weights as numbers to type into, one matrix at a time.

import { h } from "./dom.mjs";
import { forgetWeight, setWeight } from "./edits.mjs";

/** One weight matrix as a grid of numbers to type into. `pick` = { tensor, tensorHead }. */
export function weightEditor(side, pick, choose) {
  const { model } = side.prepared;
  const names = Object.keys(model.shapes);
  const name = names.includes(pick.tensor) ? pick.tensor : names[0];
  const shape = model.shapes[name];
  const slices = shape.length === 3 ? shape[0] : 1;
  const slice = Math.min(pick.tensorHead, slices - 1);
  const [rows, columns] = shape.length === 1 ? [1, shape[0]] : shape.slice(-2);
  const option = (value, text, chosen) => h("option", { value, selected: chosen }, text);
  const rowName = (row) => (name === "embed.W_E" ? ["CLS", "PAD", ...model.tokens.slice(1)][row] : String(row));
  const cells = (row) =>
    Array.from({ length: columns }, (_, column) => {
      const index = (slice * rows + row) * columns + column;
      return h("td", {}, weightInput(side, name, index, `${name}, row ${rowName(row)}, column ${column}`));
    });
  return h(
    "div",
    {},
    h(
      "div",
      { class: "toolbar" },
      h(
        "label",
        {},
        "Weight ",
        h(
          "select",
          { "data-key": "tensor", onchange: (event) => choose({ tensor: event.target.value, tensorHead: 0 }) },
          names.map((each) => option(each, `${each} (${model.shapes[each].join(" × ")})`, each === name)),
        ),
      ),
      slices > 1
        ? h(
            "label",
            {},
            "head ",
            h(
              "select",
              { "data-key": "tensor-head", onchange: (event) => choose({ tensorHead: Number(event.target.value) }) },
              Array.from({ length: slices }, (_, i) => option(i, String(i), i === slice)),
            ),
          )
        : null,
    ),
    h(
      "div",
      { class: "scroller", tabindex: 0, role: "group", "aria-label": `Entries of ${name}` },
      h(
        "table",
        { class: "weights" },
        h(
          "tbody",
          {},
          Array.from({ length: rows }, (_, row) => h("tr", {}, h("th", { scope: "row" }, rowName(row)), cells(row))),
        ),
      ),
    ),
    h("p", { role: "alert", class: "problem", id: "weight-problem" }, problem),
  );
}

let problem = ""; // about the number typed last
const LARGEST = 1e6;
const short = (x) => Number(x.toPrecision(6));

/** A weight as typed: { value }, { value: null } for "as it was", or { problem }. */
export function readWeight(text) {
  const given = text.trim().replace("−", "-");
  if (given === "") return { value: null };
  const allowed = `a weight is a number between −${LARGEST} and ${LARGEST}, such as −0.25 or 1e-3`;
  if (!/^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(given))
    return { problem: `“${given.slice(0, 20)}” is not a number; ${allowed}` };
  const value = Number(given);
  return Math.abs(value) <= LARGEST ? { value } : { problem: `${given.slice(0, 20)} is too large; ${allowed}` };
}

function weightInput(side, name, index, label) {
  const place = `${name}/${index}`;
  const value = side.prepared.model.flat[name][index];
  const original = side.original.flat[name][index];
  const edited = value !== original;
  return h("input", {
    type: "text",
    inputmode: "decimal",
    autocomplete: "off",
    value: short(value),
    "aria-label": edited ? `${label}, was ${short(original)}` : label,
    "aria-describedby": "weight-problem",
    "data-key": `weight-${place}`,
    class: edited ? "edited" : "",
    onchange: (event) => {
      const read = readWeight(event.target.value);
      problem = read.problem ? `${label}: ${read.problem}. Still ${short(value)}.` : "";
      if (read.problem) {
        event.target.value = String(short(value));
      } else if (read.value === null || read.value === short(original))
        side.edit((edits) => forgetWeight(edits, place));
      else side.edit((edits) => setWeight(edits, place, read.value));
      side.redraw();
    },
  });
}
