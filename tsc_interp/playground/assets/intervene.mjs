// Interventions: what was changed, how the logit's change is shared among components, and the weights to edit.

import { h } from "./dom.mjs";
import { describeEdits, forget, freeze, setWeight } from "./edits.mjs";
import { show, showSigned } from "./maths.mjs";

/** The list of changes with undo and redo, the freeze switch, and the attribution. */
export function intervenePanel(side, timeline, act) {
  const edits = timeline.now;
  const lines = describeEdits(edits, side.prepared.model);
  const button = (text, key, onclick, enabled = true, pressed = null, shortcut = null) =>
    h(
      "button",
      {
        "data-key": key,
        onclick,
        disabled: !enabled,
        "aria-pressed": pressed === null ? null : String(pressed),
        "aria-keyshortcuts": shortcut,
      },
      text,
    );
  const frozen = edits.frozen !== null;
  return [
    h(
      "div",
      { class: "toolbar" },
      button("Undo", "undo", act.undo, timeline.past.length > 0, null, "Control+Z"),
      button("Redo", "redo", act.redo, timeline.future.length > 0, null, "Control+Y"),
      button("Reset all", "reset", act.reset, lines.length > 0),
      side.prepared.model.config.n_heads > 0
        ? button(
            frozen ? "Attention is frozen" : "Freeze attention",
            "freeze",
            () => side.edit((now) => freeze(now, frozen ? null : act.text())),
            true,
            frozen,
          )
        : null,
    ),
    lines.length === 0
      ? h(
          "p",
          { class: "note" },
          "Nothing is changed yet. Mute a head, drag a value, freeze the attention on this string and then change the string, or edit a weight. Ctrl+Z takes a change back.",
        )
      : h(
          "ul",
          { class: "edit-list" },
          lines.map(({ text, undo }, i) =>
            h(
              "li",
              {},
              h("span", {}, text),
              h(
                "button",
                {
                  class: "small",
                  "data-key": `take-back-${i}`,
                  "aria-label": `Take back: ${text}`,
                  onclick: () => side.edit(undo),
                },
                "Take back",
              ),
            ),
          ),
        ),
    lines.length > 0 ? attribution(side) : null,
  ];
}

/** Before, now and the change, per component: the logit is their sum, so the changes add up exactly. */
function attribution(side) {
  const { trace, before } = side;
  const rows = trace.parts.map((part, i) => ({
    name: part.name,
    then: before.parts[i].contribution,
    now: part.contribution,
  }));
  rows.push({ name: "logit", then: before.logit, now: trace.logit });
  const most = Math.max(...rows.map(({ then, now }) => Math.abs(now - then)), 1e-12);
  const known = side.answer !== null && before.answer !== null;
  const effect = known ? (side.answer === before.answer ? ": the answer stays." : ": the answer flips.") : ".";
  return h(
    "div",
    { class: "attribution" },
    h(
      "p",
      {},
      "The changes moved the logit by ",
      h("strong", { "data-result": "change" }, showSigned(trace.logit - before.logit)),
      effect,
    ),
    h(
      "table",
      { class: "numbers" },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          ["component", "before", "now", "change"].map((name, i) =>
            h("th", { scope: "col", class: i ? "right" : "" }, name),
          ),
          h("th", {}, h("span", { class: "hidden-text" }, "change, drawn")),
        ),
      ),
      h(
        "tbody",
        {},
        rows.map(({ name, then, now }, i) =>
          h(
            "tr",
            { class: i === rows.length - 1 ? "sum" : "" },
            h("th", { scope: "row" }, name),
            h("td", { class: "right" }, show(then)),
            h("td", { class: "right" }, show(now)),
            h("td", { class: "right" }, showSigned(now - then)),
            h(
              "td",
              { class: "track-cell" },
              h(
                "span",
                { class: "strip-track" },
                h("span", {
                  class: `strip-bar ${now > then ? "positive" : "negative"}`,
                  style: trackStyle((now - then) / most),
                }),
              ),
            ),
          ),
        ),
      ),
    ),
  );
}

const trackStyle = (share) => `left:${share < 0 ? 50 + 50 * share : 50}%;width:${50 * Math.abs(share)}%`;

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
        side.edit((edits) => forget(edits, "weights", place));
      else side.edit((edits) => setWeight(edits, place, read.value));
      side.redraw();
    },
  });
}
