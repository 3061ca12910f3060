// The page's models, and everything that is made once for the one that is looked at.

import { h, replace } from "./dom.mjs";
import { makeEvaluator } from "./evaluator.mjs";
import { NOBODY } from "./link.mjs";
import { makeModel, prepare, run } from "./model.mjs";
import { shortestFailure } from "./search.mjs";
import { countsOf, writeCounts } from "./strings.mjs";

/** What the page was given about a model, its configuration read and its weights ready. */
export function readModel(given) {
  const config = { ...JSON.parse(given.config), frame: given.frame ?? null };
  const versions = new Map(
    given.history.map(({ epoch, source, weights, logits }) => [
      epoch,
      { model: makeModel(config, weights, source), logits },
    ]),
  );
  const model = makeModel(config, given.weights, given.source);
  return { ...given, configText: given.config, config: model.config, versions, model };
}

/** The first wrong string, if a short search finds one: { counts, checkedTo } or null. */
export function quickFailure(model) {
  const { config } = model;
  const evaluator = makeEvaluator(prepare(model));
  const search = shortestFailure(evaluator, config.task, config.n_letters, evaluator.bounds ? 2000 : 300);
  let step = search.next();
  while (!step.done) step = search.next();
  return step.value.counts ? step.value : null;
}

/** Where a model's page opens: on a string it gets wrong, if there is one. */
export function startingView(main, failure) {
  const letters = main.model.tokens.slice(1);
  const epochs = [...main.versions.keys()];
  const text = failure ? writeCounts(failure.counts) : (main.examples[1] ?? main.examples[0]);
  const saysYes = (each) => run(prepare(main.model), countsOf(each, letters.length)).logit > 0;
  const most = failure ? failure.counts.indexOf(Math.max(...failure.counts)) : letters.length - 1;
  return {
    text,
    epoch: epochs.includes(main.epoch) ? main.epoch : (epochs.at(-1) ?? null),
    lens: 4,
    face: letters.slice(0, 3).join(""),
    letter: letters[most],
    list: [...new Set([text, ...main.examples])].join(" "),
    muteBy: "zero",
    mean: meanStrings(main.examples, letters).join(", "),
    second: main.examples.find((each) => saysYes(each) !== saysYes(text)) ?? main.examples[0],
    kind: "outputs",
    circuit: true,
  };
}

/** Strings to take means over: the examples, and all letters at once if those leave some out. */
function meanStrings(examples, letters) {
  const missing = letters.some((letter) => !examples.some((each) => each.includes(letter)));
  return missing ? [...examples, letters.join("")] : examples;
}

/** Of many heads, the one that adds most is the one to look at first. */
export function loudestHead(model, counts) {
  const { parts } = run(prepare(model), counts);
  const heads = parts.filter(({ id }) => /^0\.\d+$/.test(id)).map(({ contribution }) => Math.abs(contribution));
  return Math.max(0, heads.indexOf(Math.max(...heads)));
}

/** The choice of models: one to look at and, of the same alphabet, one beside it. */
export function modelChoice(container, models, chosen, choose) {
  container.hidden = models.length < 2;
  const main = models.find(({ name }) => name === chosen.model);
  const select = (key, label, names, now) =>
    h(
      "label",
      {},
      `${label} `,
      h(
        "select",
        { "data-key": `choose-${key}`, onchange: (event) => choose({ ...chosen, [key]: event.target.value }) },
        names.map((name) => h("option", { value: name, selected: name === now }, name)),
      ),
    );
  const alike = models.filter((each) => each !== main && each.config.n_letters === main.config.n_letters);
  const others = [NOBODY, ...alike.map(({ name }) => name)];
  const names = models.map(({ name }) => name);
  replace(container, select("model", "Model", names, chosen.model), select("beside", "beside", others, chosen.beside));
}
