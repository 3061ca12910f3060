// "When does it break?": the shortest wrong string, and where the answer flips as one count grows or shrinks.

import { countCurve } from "./curve.mjs";
import { h, replace, tokenColour } from "./dom.mjs";
import { show, showCount } from "./maths.mjs";
import { nearestFlip, shortestFailure } from "./search.mjs";
import { writeCounts } from "./strings.mjs";
import { describeTask, labelOf } from "./task.mjs";

const FIRST_BUDGET = 200000;

/** One panel: { element, update(side, view) }. It searches by itself, in slices, whenever the model changes. */
export function breakPanel(onPick, onLetter) {
  const found = h("div", { class: "found", "aria-live": "polite" });
  const flips = h("div", {});
  const element = h("div", { class: "breaks" }, found, flips);
  let searched = null;
  let job = 0;

  function search(side, budget) {
    const mine = ++job;
    const { config } = side.prepared.model;
    const steps = shortestFailure(side.evaluator, config.task, config.n_letters, budget);
    searched = side.prepared;
    element.dataset.search = "running";
    const slice = () => {
      if (mine !== job) return;
      const until = performance.now() + 12;
      let result = steps.next();
      while (!result.done && performance.now() < until) result = steps.next();
      if (result.done) {
        element.dataset.search = "done";
        replace(
          found,
          foundLines(side, result.value, onPick, () => search(side, budget * 8)),
        );
      } else {
        replace(
          found,
          h("p", {}, `Searching: every string up to length ${showCount(result.value.checkedTo)} is right so far.`),
        );
        setTimeout(slice);
      }
    };
    slice();
  }

  function update(side, view) {
    if (searched !== side.prepared) search(side, FIRST_BUDGET);
    replace(flips, flipLines(side, view, onPick, onLetter));
  }
  return { element, update };
}

function foundLines(side, { counts, checkedTo, complete, undecided }, onPick, further) {
  const { config } = side.prepared.model;
  const doubt = undecided
    ? h("p", { class: "note", "data-result": "undecided" }, `${writeCounts(undecided)} is too close to call here.`)
    : null;
  if (counts) {
    const text = writeCounts(counts);
    const logit = side.evaluator.logit(counts);
    const size = counts.reduce((sum, count) => sum + count, 0);
    const kind = logit > 0 ? "a false positive" : "a false negative";
    return [
      h("p", { class: "found-label" }, "Shortest string it gets wrong"),
      h(
        "p",
        { class: "found-string" },
        h("code", { "data-result": "shortest" }, text),
        h(
          "button",
          { class: "small", "data-key": `load-${side.id}`, onclick: () => onPick(counts) },
          "Load it",
        ),
      ),
      h(
        "p",
        { class: "note" },
        `Length ${showCount(size)}, ${kind}: ${describeTask(config.task)}? ${logit > 0 ? "No" : "Yes"}, but the logit is ${show(logit)}. ` +
          (checkedTo > 0 ? `Every string up to length ${showCount(checkedTo)} is right.` : ""),
      ),
      doubt,
    ];
  }
  if (complete && !undecided) {
    return [
      h("p", { class: "found-label" }, "No wrong string found"),
      h(
        "p",
        { class: "note" },
        "Every string with at most 10⁹ of each letter is right (in float64; tsc-interp verify proves such claims).",
      ),
    ];
  }
  return [
    h("p", { class: "found-label" }, `No wrong string up to length ${showCount(checkedTo)}`),
    h(
      "p",
      { class: "note" },
      complete ? "Nothing beyond is certainly wrong. " : "The search stopped there, at its bound. ",
      complete
        ? null
        : h(
            "button",
            { class: "small", "data-key": `further-${side.id}`, onclick: further },
            "Search further",
          ),
    ),
    doubt,
  ];
}

function flipLines(side, view, onPick, onLetter) {
  const { config } = side.prepared.model;
  const { counts } = side.trace;
  const letters = counts.map((_, i) => String.fromCharCode(97 + i));
  const chosen = letters.indexOf(view.letter);
  const truth = (at) => labelOf(config.task, at);
  const flipsOf = (letter) => [-1, 1].map((direction) => nearestFlip(side.evaluator, counts, letter, direction));
  const here = flipsOf(chosen);
  return [
    h(
      "fieldset",
      { class: "choice" },
      h("legend", {}, "Change the number of"),
      letters.map((letter, i) =>
        h(
          "label",
          { style: `--colour:${tokenColour(letter)}` },
          h("input", {
            type: "radio",
            name: `letter-${side.id}`,
            value: letter,
            checked: i === chosen,
            "data-key": `letter-${side.id}-${letter}`,
            onchange: () => onLetter(letter),
          }),
          letter,
        ),
      ),
    ),
    countCurve(
      side.evaluator,
      counts,
      chosen,
      here.map(({ count }) => count),
      truth,
    ),
    h(
      "ul",
      { class: "flips" },
      here.map((flip, i) => flipLine(side, flip, chosen, i === 0 ? -1 : 1, truth, onPick)),
    ),
  ];
}

function flipLine(side, { count, searchedTo, doubt }, letter, direction, truth, onPick) {
  const { counts } = side.trace;
  const name = String.fromCharCode(97 + letter);
  const way = direction > 0 ? "more" : "fewer";
  if (count === null) {
    if (direction < 0 && counts[letter] === 0) return null;
    const stays = `With ${way} ${name}, ${direction > 0 ? "up" : "down"} to ${showCount(searchedTo)}, the answer stays.`;
    const open = `With ${way} ${name} the answer does not certainly flip; at ${showCount(doubt ?? 0)} it is too close to call.`;
    return h("li", {}, doubt === null ? stays : open);
  }
  const at = counts.map((own, j) => (j === letter ? count : own));
  const after = !side.answer;
  const right = after === truth(at);
  return h(
    "li",
    {},
    `With ${way} ${name} the sign flips at `,
    h("strong", {}, showCount(count)),
    `: the model then says ${after ? 1 : 0}, `,
    h("span", { class: right ? "right-text" : "wrong-text" }, right ? "rightly" : "wrongly"),
    ". ",
    h(
      "button",
      {
        class: "small",
        "data-key": `flip-${side.id}-${direction}`,
        "aria-label": `Go to ${writeCounts(at)}`,
        onclick: () => onPick(at),
      },
      "Go there",
    ),
  );
}
