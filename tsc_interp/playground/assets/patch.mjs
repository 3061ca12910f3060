// Activation patching: one string's run gets a part's activation from another string's run.
//
// The string of the page is the corrupted run, which receives; the second string is the clean run, which gives.

import { KINDS, partsOf } from "./changes.mjs";
import { h, replace } from "./dom.mjs";
import { changeOf, dropChange, setChange } from "./edits.mjs";
import { makeEvaluator } from "./evaluator.mjs";
import { show, showSigned } from "./maths.mjs";
import { prepare } from "./model.mjs";
import { countsOf, StringProblem } from "./strings.mjs";

/**
 * TransformerLens's (patched - corrupted) / (clean - corrupted), each { logit, slack }: 0 is the corrupted run, 1 the clean
 * one. null where the two cannot be told apart, so that there is nothing to restore.
 */
export function normalisedEffect(clean, corrupted, patched) {
  const apart = clean.logit - corrupted.logit;
  return Math.abs(apart) <= clean.slack + corrupted.slack ? null : (patched.logit - corrupted.logit) / apart;
}

/** { clean, corrupted, rows: [{ part, change, patched, effect }] }, of the model without its other changes. */
export function patchRows(prepared, weights, original, counts, second, kind) {
  const { config } = prepared.model;
  const plain = makeEvaluator(prepared.plain);
  const clean = plain.evaluate(countsOf(second, config.n_letters));
  const corrupted = plain.evaluate(counts);
  const rows = partsOf(config, KINDS[kind][1]).map((part) => {
    const change = `${part}=patch(${second})`;
    const patched = makeEvaluator(prepare(original, { changes: [change], weights })).evaluate(counts);
    return { part, change, patched, effect: normalisedEffect(clean, corrupted, patched) };
  });
  return { clean, corrupted, rows };
}

/** Fills the container once; { update(side, state) }. */
export function patchPanel(container, config, choose) {
  const second = h("input", {
    type: "text",
    id: "second",
    class: "code-input",
    autocomplete: "off",
    autocapitalize: "none",
    spellcheck: "false",
    "aria-describedby": "second-problem",
    oninput: () => choose({ second: second.value }),
  });
  const kinds = Object.entries(KINDS).filter(([, [, made]]) => partsOf(config, made).length > 0);
  const kind = h(
    "select",
    { "data-key": "patch-kind", onchange: () => choose({ kind: kind.value }) },
    kinds.map(([value, [name]]) => h("option", { value }, name)),
  );
  const problem = h("p", { role: "alert", class: "problem", id: "second-problem" });
  const result = h("div", {});
  container.replaceChildren(
    h("div", { class: "toolbar" }, h("label", { for: "second" }, "Clean string"), second, h("label", {}, "patch its ", kind)),
    problem,
    result,
  );
  let shown = null;
  return {
    update(side, state) {
      if (second.value !== state.second) second.value = state.second;
      kind.value = state.kind;
      problem.textContent = "";
      try {
        const wanted = [state.second, state.kind, state.text, state.timeline.now, side.original];
        if (shown?.wanted.every((each, i) => each === wanted[i])) return;
        const { weights } = state.timeline.now;
        const found = patchRows(side.prepared, weights, side.original, state.counts, state.second, state.kind);
        replace(result, patchTable(found, side, state));
        shown = { wanted };
      } catch (wrong) {
        if (!(wrong instanceof StringProblem)) throw wrong;
        problem.textContent = `The clean string: ${wrong.message}.`;
        replace(result, null);
        shown = null;
      }
    },
  };
}

const answerOf = ({ answer }) => (answer === null ? "too close to call" : answer ? "yes" : "no");

function patchTable({ clean, corrupted, rows }, side, { text, second, timeline }) {
  const same = rows.length > 0 && rows[0].effect === null;
  const column = (name, extra = "") => h("th", { scope: "col", class: extra }, name);
  const line = (name, run, effect, extra = "") =>
    h(
      "tr",
      { class: extra },
      h("th", { scope: "row" }, name),
      h("td", { class: "right" }, show(run.logit)),
      h("td", {}, answerOf(run)),
      h("td", { class: "right" }, effect),
    );
  const body = rows.map(({ part, change, patched, effect }) => {
    const on = changeOf(timeline.now, part) === change.slice(part.length + 1);
    const button = h(
      "button",
      {
        class: "small",
        "data-key": `patch-${part}`,
        "aria-pressed": String(on),
        "aria-label": `${on ? "Take back" : "Apply"} ${change}`,
        onclick: () => side.edit((edits) => (on ? dropChange(edits, part) : setChange(edits, change))),
      },
      h("code", {}, part),
    );
    return line(button, patched, effect === null ? "undefined" : showSigned(effect, 3));
  });
  const changed = timeline.now.changes.length > 0 ? " All rows are without the page's other changes." : "";
  return [
    h(
      "p",
      { class: "note" },
      "The clean run, on ",
      h("code", {}, second),
      ", gives; the corrupted run, on ",
      h("code", {}, text),
      `, receives. Press a part to patch it in the whole page.${changed}`,
    ),
    h(
      "div",
      { class: "scroller", role: "region", tabindex: 0, "aria-label": "Logit and effect of each patch" },
      h(
        "table",
        { class: "numbers patches" },
        h("thead", {}, h("tr", {}, column("run"), column("logit", "right"), column("answer"), column("effect", "right"))),
        h(
          "tbody",
          {},
          line("clean", clean, same ? "" : "1", "whole-run"),
          line("corrupted", corrupted, same ? "" : "0", "whole-run"),
          body,
        ),
      ),
    ),
    h(
      "p",
      { class: "note", "data-result": "effect-words" },
      same
        ? "The clean and the corrupted run have the same logit, so the effect (patched − corrupted) / (clean − corrupted) is undefined: there is no difference to restore. Choose another clean string."
        : "In the other rows the corrupted run has that part's activation from the clean run. Effect = (patched − corrupted) / (clean − corrupted): 0 is the corrupted run's logit, 1 the clean run's.",
    ),
  ];
}
