import assert from "node:assert/strict";
import test from "node:test";

import { assets, casesOf, skipWithout } from "./cases.mjs";

const { makeEvaluator } = await import(new URL("evaluator.mjs", assets));
const { lossAndGradient } = await import(new URL("gradient.mjs", assets));
const { makeModel, prepare } = await import(new URL("model.mjs", assets));
const { shortestFailure } = await import(new URL("search.mjs", assets));
const { drawBatch } = await import(new URL("stream.mjs", assets));
const { writeCounts } = await import(new URL("strings.mjs", assets));
const { initialWeights, RECIPE, startTraining, trainEpoch } = await import(new URL("trainer.mjs", assets));
const { configText, experimentFile } = await import(new URL("trainpanel.mjs", assets));

const cases = casesOf("training");
const skip = skipWithout(cases);

const furthest = (ours, theirs) =>
  Math.max(...Object.entries(theirs).map(([name, list]) => Math.max(...list.map((x, i) => Math.abs(x - ours[name][i])))));

function epoch(state) {
  const work = trainEpoch(state);
  let step = work.next();
  while (!step.done) step = work.next();
  return step.value;
}

test("initial weights are torch's, draw for draw", { skip }, () => {
  for (const { config, recipe, initial } of cases) {
    const ours = initialWeights(config, recipe.seed);
    assert.deepEqual(Object.keys(ours).sort(), Object.keys(initial).sort());
    assert.ok(furthest(ours, initial) < 1e-6, `${furthest(ours, initial)} (${JSON.stringify(config)})`);
  }
});

test("training strings are NumPy's, draw for draw", { skip }, () => {
  for (const { config, recipe, rows } of cases) {
    const stream = { letters: config.n_letters, positive: [0, 1], maxLength: recipe.max_length, alpha: recipe.alpha, batchSize: recipe.batch_size };
    const drawn = [];
    for (let seed = 0; drawn.length < rows.length; ) {
      const batch = drawBatch(seed, stream);
      drawn.push(...batch.rows);
      seed = batch.next;
    }
    assert.deepEqual(drawn, rows);
  }
});

test("the gradient is the loss's, by finite differences", { skip }, () => {
  for (const { config, rows, initial } of cases) {
    const some = rows.slice(0, 7);
    const labels = some.map((counts) => counts[0] > 0 && counts[1] > 0);
    const { grads } = lossAndGradient(config, initial, some, labels);
    for (const [name, list] of Object.entries(initial)) {
      for (const i of [0, list.length - 1]) {
        const at = (step) => lossAndGradient(config, { ...initial, [name]: list.map((x, j) => (j === i ? x + step : x)) }, some, labels).loss;
        const slope = (at(1e-5) - at(-1e-5)) / (2e-5 * some.length);
        assert.ok(Math.abs(slope - grads[name][i]) < 1e-7, `${name}[${i}]: ${grads[name][i]}, not ${slope}`);
      }
    }
  }
});

test("two epochs end where Python's do", { skip }, () => {
  for (const { config, recipe, epochs } of cases) {
    let state = startTraining(config, { ...RECIPE, ...recipe });
    for (const { weights, train_loss, validation_loss } of epochs) {
      state = epoch(state);
      const far = furthest(state.weights, weights);
      assert.ok(far < 2e-4, `epoch ${state.epoch}: ${far} (${JSON.stringify(config)})`);
      assert.ok(Math.abs(state.trainLoss - train_loss) < 1e-4 * (1 + train_loss));
      assert.ok(Math.abs(state.validationLoss - validation_loss) < 1e-3 * (1 + validation_loss));
    }
  }
});

test("seed 5 for eight epochs is the source report's walk-through model", { skip }, () => {
  const { config } = cases[0];
  let state = startTraining(config, RECIPE);
  const before = state.weights;
  for (let i = 0; i < 8; i++) state = epoch(state);
  assert.notDeepEqual(Array.from(before["unembed.W_U"]), Array.from(state.weights["unembed.W_U"]));
  assert.equal(state.epoch, 8);
  const flat = Object.fromEntries(Object.entries(state.weights).map(([name, list]) => [name, Array.from(list)]));
  const search = shortestFailure(makeEvaluator(prepare(makeModel(config, flat))), config.task, 3);
  let step = search.next();
  while (!step.done) step = search.next();
  assert.equal(writeCounts(step.value.counts), "abc{2165}");
});

test("a changed configuration is the text Python writes", { skip }, () => {
  for (const { config_text, base, config } of cases) {
    const { d_model, n_heads, d_mlp, norm } = config;
    if (config.d_head !== 1 || config.attend_cls) continue;
    assert.equal(configText(base, { d_model, n_heads, d_mlp, norm }), config_text);
  }
  const text = experimentFile({ classifier: { d_model: 3, norm: "rms" }, recipe: { ...RECIPE, seed: 7, alpha: 0.5 } }, 4);
  assert.match(text, /seeds = \[7\]/);
  assert.match(text, /alpha = 0.5/);
});
