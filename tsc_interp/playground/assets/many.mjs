// Several strings at once: a list to type, and a table of what the models say.

import { h, replace } from "./dom.mjs";
import { show, showCount } from "./maths.mjs";
import { isRight } from "./search.mjs";
import { countsOf, StringProblem } from "./strings.mjs";
import { labelOf } from "./task.mjs";

const MOST = 200;

/** The strings of a list separated by spaces, commas or lines. */
export const splitList = (text) => text.split(/[\s,;]+/).filter((part) => part !== "");

/** One row per string: { text, counts or null, problem }. */
export function readList(text, size) {
  return splitList(text)
    .slice(0, MOST)
    .map((part) => {
      try {
        return { text: part, counts: countsOf(part, size), problem: null };
      } catch (problem) {
        if (!(problem instanceof StringProblem)) throw problem;
        return { text: part, counts: null, problem: problem.explanation };
      }
    });
}

/** Fills the container once; { update(sides, state) }. */
export function manyPanel(container, onList, onPick) {
  let state = null;
  const box = h("textarea", {
    id: "many",
    rows: 3,
    spellcheck: "false",
    autocapitalize: "none",
    oninput: () => onList(box.value),
  });
  const add = h(
    "button",
    {
      class: "small",
      "data-key": "many-add",
      onclick: () => onList(`${state.list.trim()} ${state.text}`.trim()),
    },
    "Add the string above",
  );
  const table = h("div", { class: "scroller", role: "region", tabindex: 0, "aria-label": "What is said of each string" });
  const summary = h("p", { class: "note", "data-result": "many" });
  container.replaceChildren(
    h("label", { for: "many", class: "note" }, "Strings, separated by spaces or lines"),
    box,
    h("div", { class: "toolbar" }, add, summary),
    table,
  );
  return {
    update(sides, names, now) {
      state = now;
      if (box.value !== now.list) box.value = now.list;
      const rows = readList(now.list, now.counts.length);
      replace(table, rows.length > 0 ? manyTable(rows, sides, names, onPick) : null);
      summary.textContent = summarise(rows, sides, splitList(now.list).length);
    },
  };
}

const verdictOf = (side, counts) => isRight(side.evaluator, side.prepared.model.config.task, counts);

function summarise(rows, sides, given) {
  const read = rows.filter(({ counts }) => counts);
  const wrong = read.filter(({ counts }) => verdictOf(sides[0], counts) === false).length;
  const unread = rows.length - read.length;
  return [
    `${wrong} of ${read.length} wrong`,
    unread > 0 ? `${unread} cannot be read` : "",
    given > MOST ? `the first ${MOST} of ${given} are shown` : "",
  ]
    .filter(Boolean)
    .join("; ");
}

function manyTable(rows, sides, names, onPick) {
  const column = (text, extra = "") => h("th", { scope: "col", class: extra }, text);
  return h(
    "table",
    { class: "numbers" },
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        column("string"),
        sides.map((_, i) => [column(sides.length > 1 ? names[i] : "answer"), column("logit", "right")]),
        column("length", "right length"),
        column("should be"),
      ),
    ),
    h(
      "tbody",
      {},
      rows.map((row, i) => manyRow(row, i, sides, onPick)),
    ),
  );
}

function manyRow({ text, counts, problem }, index, sides, onPick) {
  if (!counts) return h("tr", {}, h("td", {}, h("code", {}, text)), h("td", { colspan: 9, class: "problem" }, problem));
  const { task } = sides[0].prepared.model.config;
  return h(
    "tr",
    {},
    h(
      "td",
      {},
      h(
        "button",
        {
          class: "small",
          "data-key": `many-${index}`,
          "aria-label": `Look at ${text}`,
          onclick: () => onPick(text),
        },
        h("code", {}, text.length > 24 ? `${text.slice(0, 22)}…` : text),
      ),
    ),
    sides.map((side) => {
      const right = verdictOf(side, counts);
      const said = right === null ? "too close to call" : right ? "right" : "wrong";
      return [
        h("td", { class: right === false ? "wrong-text" : right ? "right-text" : "" }, said),
        h("td", { class: "right" }, show(side.evaluator.logit(counts))),
      ];
    }),
    h("td", { class: "right length" }, showCount(counts.reduce((sum, count) => sum + count, 0))),
    h("td", {}, labelOf(task, counts) ? "yes" : "no"),
  );
}
