// Interventions: what was changed, and how the logit's change is shared among components.

import { h } from "./dom.mjs";
import { describeEdits, freeze, frozenOn } from "./edits.mjs";
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
  const { config } = side.prepared.model;
  const frozen = frozenOn(edits, config) !== null;
  return [
    h(
      "div",
      { class: "toolbar" },
      button("Undo", "undo", act.undo, timeline.past.length > 0, null, "Control+Z"),
      button("Redo", "redo", act.redo, timeline.future.length > 0, null, "Control+Y"),
      button("Reset all", "reset", act.reset, lines.length > 0),
      config.n_heads > 0
        ? button(
            frozen ? "Attention is frozen" : "Freeze attention",
            "freeze",
            () => side.edit((now) => freeze(now, config, frozen ? null : act.text())),
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
          lines.map(({ text, note, undo }, i) =>
            h(
              "li",
              {},
              h("span", {}, h("code", {}, text), note ? ` (${note})` : null),
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
