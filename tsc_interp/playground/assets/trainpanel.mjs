// "Train one here": options, a button, and what becomes of the loss, the horizon and the margins.

import { trainingCurves } from "./traincurves.mjs";
import { h, replace } from "./dom.mjs";
import { makeEvaluator } from "./evaluator.mjs";
import { show, showCount } from "./maths.mjs";
import { makeModel, prepare, run } from "./model.mjs";
import { shortestFailure } from "./search.mjs";
import { LONGEST_TRAINED } from "./stream.mjs";
import { writeCounts } from "./strings.mjs";
import { RECIPE, startTraining, trainEpoch } from "./trainer.mjs";

export const TRAINED_HERE = "trained here";
const MOST_EPOCHS = 200;
const HORIZON_STEPS = 20000;
const SLICE = 12; // milliseconds

// What can be chosen: name, label, whether it belongs to the classifier or the recipe, default, and what is allowed.
const OPTIONS = [
  { name: "seed", label: "Seed", of: "recipe", value: RECIPE.seed, min: 0, max: 2 ** 32 - 1 },
  { name: "max_length", label: "Longest string", of: "recipe", value: RECIPE.max_length, min: 2, max: LONGEST_TRAINED },
  { name: "alpha", label: "Mix of letters (alpha)", of: "recipe", value: RECIPE.alpha, choices: [1, 0.5, 0.1] },
  { name: "d_model", label: "Width", of: "classifier", value: 2, min: 1, max: 16 },
  { name: "n_heads", label: "Heads", of: "classifier", value: 2, min: 1, max: 8 },
  { name: "d_mlp", label: "Neurons", of: "classifier", value: 2, min: 0, max: 16 },
  { name: "norm", label: "Norm", of: "classifier", value: "off", choices: ["off", "rms", "layer"] },
  { name: "learning_rate", label: "Learning rate", of: "recipe", value: RECIPE.learning_rate, choices: [0.1, 0.03, 0.01, 0.003, 0.001] },
  { name: "weight_decay", label: "Weight decay", of: "recipe", value: RECIPE.weight_decay, choices: [0, 0.01, 0.03, 0.1, 0.3] },
];

/** The configuration with some of its numbers and words replaced, as the text Python would write. */
export function configText(text, chosen) {
  const put = (now, [name, value]) => now.replace(new RegExp(`"${name}":("\\w+"|[\\d.e+-]+)`), `"${name}":${JSON.stringify(value)}`);
  return Object.entries(chosen).reduce(put, text);
}

/** What was chosen, as it stands in an address: "seed:5,d_model:3". Defaults stay out of it, but for the seed. */
export function describeTraining(chosen) {
  const said = OPTIONS.filter(({ name, of, value }) => name === "seed" || chosen[of][name] !== value);
  return said.map(({ name, of }) => `${name}:${chosen[of][name]}`).join(",");
}

/** The same training as a file for `tsc-interp train`. */
export function experimentFile({ classifier, recipe }, epochs) {
  const lines = (part) => Object.entries(part).map(([name, value]) => `${name} = ${JSON.stringify(value)}`);
  const { seed, max_length, alpha, learning_rate, weight_decay } = recipe;
  return [
    ...[`name = "trained-here"`, `seeds = [${seed}]`, "", "[classifier]", ...lines(classifier)],
    ...["", "[training]", ...lines({ learning_rate, weight_decay, max_epochs: epochs, check_from: epochs })],
    ...["", "[training.train]", ...lines({ max_length, alpha })],
  ].join("\n");
}

/**
 * Fills the container; returns { update(state) }. `blank` is { config, examples }. The trained model goes to `show(entry, epoch)`
 * as an entry like the page's other models, with one version per epoch, again after every epoch.
 */
export function trainPanel(container, blank, show_, chosenEpoch) {
  let states = [];
  let entry = null;
  let job = 0;
  let share = 0;
  const problem = h("p", { role: "alert", class: "problem" });
  const fields = OPTIONS.map((option) => field(option, () => (stop(), restart())));
  const go = h("button", { class: "main-action", "data-key": "train-go", onclick: () => (job ? stop() : start()) });
  const one = h("button", { "data-key": "train-one", onclick: () => start(1) }, "One epoch");
  const again = h("button", { "data-key": "train-again", onclick: () => (stop(), restart()) }, "Start over");
  const said = h("p", { class: "note", role: "status", "data-result": "training" });
  const curves = h("div", { class: "train-curves" });
  const file = h("pre", { class: "code", tabindex: 0, role: "region", "aria-label": "Experiment file that trains the same model", "data-result": "experiment" });
  container.replaceChildren(
    h("div", { class: "toolbar train-options" }, fields.map(({ element }) => element)),
    problem,
    h("div", { class: "toolbar" }, go, one, again),
    said,
    curves,
    h("details", { "data-key": "train-file" }, h("summary", {}, "The same in Python"), h("p", { class: "note" }, "Save this as trained-here.toml and run tsc-interp train trained-here.toml. Both draw the same numbers from the seed, so the weights agree up to rounding."), file),
  );
  draw();

  function restart() {
    [states, entry, share] = [[], null, 0];
    draw();
  }

  function stop() {
    job = 0;
    share = 0;
    draw();
  }

  function chosenNow() {
    const chosen = { classifier: {}, recipe: { ...RECIPE } };
    for (const { option, read } of fields) chosen[option.of][option.name] = read();
    return chosen;
  }

  function begin() {
    const chosen = chosenNow();
    const text = configText(blank.config, chosen.classifier);
    const config = JSON.parse(text);
    entry = {
      ...{ name: TRAINED_HERE, source: TRAINED_HERE, configText: text, config, chosen, examples: blank.examples },
      ...{ strings: [], logits: null, circuit: { why: "none was searched for in a model trained here." }, versions: new Map(), epoch: 0 },
    };
    keep(startTraining(config, chosen.recipe));
  }

  /** A state becomes a version of the model, with its horizon and margins. */
  function keep(state) {
    const model = makeModel(state.config, listed(state.weights), `trained-seed${state.recipe.seed}-epoch${state.epoch}`);
    states.push({ ...state, model, margins: marginsOf(model), horizon: null });
    entry.versions.set(state.epoch, { model, logits: null });
    Object.assign(entry, { model, epoch: state.epoch });
  }

  /** Trains what an address says (see `describeTraining`), up to its epoch; whether it fits. */
  function retrace(text, epoch) {
    stop();
    restart();
    const given = new Map(text.split(",").map((part) => part.split(":")));
    for (const { option, write } of fields) write(given.get(option.name) ?? String(option.value));
    // Options that are unknown, or that no field takes, are not those that would be written.
    const fits = epoch <= MOST_EPOCHS && fields.every(({ problem: said }) => !said()) && describeTraining(chosenNow()) === text;
    if (!fits) for (const { option, write } of fields) write(String(option.value));
    else {
      container.closest("details").open = true;
      start(epoch);
    }
    return fits;
  }

  function start(epochs = Infinity) {
    problem.textContent = fields.map(({ problem: said }) => said()).find(Boolean) ?? "";
    if (problem.textContent) return;
    if (!entry) begin();
    // Go on from the epoch that is looked at; what came after it is given up.
    const from = states.findIndex(({ epoch }) => epoch === chosenEpoch());
    if (from >= 0) for (const { epoch } of states.splice(from + 1)) entry.versions.delete(epoch);
    const last = states.at(-1);
    Object.assign(entry, { model: last.model, epoch: last.epoch });
    const mine = (job = performance.now());
    const work = training(Math.min(epochs, MOST_EPOCHS - last.epoch));
    const slice = () => {
      if (job !== mine) return;
      const until = performance.now() + SLICE;
      let step = work.next();
      while (!step.done && performance.now() < until) step = work.next();
      if (step.done) return stop();
      if (step.value !== undefined) share = step.value;
      draw();
      setTimeout(slice);
    };
    show_(entry, last.epoch);
    slice();
  }

  function* training(epochs) {
    if (states.at(-1).horizon === null) states.at(-1).horizon = yield* horizonOf(states.at(-1).model);
    for (let done = 0; done < epochs; done++) {
      const next = yield* trainEpoch(states.at(-1));
      if (!Object.values(next.weights).every((list) => list.every(Number.isFinite))) return (problem.textContent = "The weights grew beyond all numbers: choose a smaller learning rate.");
      keep(next);
      states.at(-1).horizon = yield* horizonOf(states.at(-1).model);
      show_(entry, next.epoch);
    }
  }

  function draw() {
    go.textContent = job ? "Pause" : states.length > 1 ? "Go on" : "Train";
    one.disabled = job !== 0;
    again.disabled = states.length === 0;
    const now = states.find(({ epoch }) => epoch === chosenEpoch()) ?? states.at(-1);
    said.textContent = now ? sentence(now, job ? share : 0) : "Nothing is trained yet. The defaults are the source report's; seed 5 is its walk-through model.";
    replace(curves, states.length > 1 ? trainingCurves(states, now.epoch, (epoch) => show_(entry, epoch)) : []);
    if (entry) file.textContent = experimentFile(entry.chosen, Math.max(1, states.at(-1).epoch));
    file.parentElement.hidden = !entry;
  }
  return { update: draw, retrace };
}

/** One input: { element, option, read, write, problem }. */
function field(option, onChange) {
  const { name, label, value, min, max, choices } = option;
  const id = `train-${name}`;
  const input = choices
    ? h("select", { id, "data-key": id, onchange: onChange }, choices.map((each) => h("option", { value: each, selected: each === value }, each)))
    : h("input", { type: "text", inputmode: "numeric", size: 4, id, "data-key": id, value, oninput: onChange });
  const read = () => (typeof value === "number" ? Number(input.value) : input.value);
  const wrong = () => !choices && !(/^\d+$/.test(input.value.trim()) && read() >= min && read() <= max);
  const problem = () => (wrong() ? `${label}: “${input.value.slice(0, 20)}” is not a whole number from ${min} to ${showCount(max)}.` : "");
  const write = (text) => (input.value = text);
  return { option, read, write, problem, element: h("label", {}, `${label} `, input) };
}

const listed = (weights) => Object.fromEntries(Object.entries(weights).map(([name, list]) => [name, Array.from(list)]));

/** By how much each head's score of the letter it reads most exceeds the next: [{ letter, margin }]. */
function marginsOf(model) {
  const letters = model.tokens.slice(1);
  const { scores } = run(prepare(model), letters.map(() => 1)).layers[0];
  return scores.map(([row]) => {
    const ranked = letters.map((letter, i) => ({ letter, score: row[i + 1] })).sort((a, b) => b.score - a.score);
    return { letter: ranked[0].letter, margin: ranked[0].score - ranked[1].score };
  });
}

function* horizonOf(model) {
  const { config } = model;
  const search = shortestFailure(makeEvaluator(prepare(model)), config.task, config.n_letters, HORIZON_STEPS);
  for (;;) {
    const step = search.next();
    if (step.done) return step.value;
    yield;
  }
}

function sentence({ epoch, validationLoss, horizon }, share) {
  const loss = validationLoss === null ? "" : `, validation loss ${show(validationLoss, 3)}`;
  const under = share > 0 ? ` (${Math.round(100 * share)}% of the next)` : "";
  const start = epoch === 0 ? "Before training" : `After epoch ${epoch}`;
  if (!horizon) return `${start}${loss}${under}.`;
  const failure = horizon.counts ? `${writeCounts(horizon.counts)} is the shortest string it gets wrong` : `no wrong string up to length ${showCount(horizon.checkedTo)}`;
  return `${start}${loss}: ${failure}${under}.`;
}
