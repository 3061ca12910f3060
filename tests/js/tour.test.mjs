import assert from "node:assert/strict";
import test from "node:test";

import { assets, casesOf, skipWithout } from "./cases.mjs";

const { makeEvaluator } = await import(new URL("evaluator.mjs", assets));
const { quickFailure, startingView } = await import(new URL("models.mjs", assets));
const { makeModel, prepare, run } = await import(new URL("model.mjs", assets));
const { countsOf } = await import(new URL("strings.mjs", assets));
const { labelOf } = await import(new URL("task.mjs", assets));
const { rightNeighbour, tourSteps } = await import(new URL("tour.mjs", assets));

const searches = casesOf("searches");
const models = casesOf("models");

test("a page opens on the shortest wrong string", { skip: skipWithout(searches) }, () => {
  for (const { name, config, weights, counts } of searches) {
    const model = makeModel(config, weights);
    const failure = quickFailure(model);
    assert.deepEqual(failure.counts, counts, name);
    const view = startingView({ model, versions: new Map(), examples: ["a", "ab"], config }, failure);
    assert.deepEqual(countsOf(view.text, config.n_letters), counts);
    assert.equal(view.list.split(" ")[0], view.text);
  }
});

test("a neighbour is right and has the same label", { skip: skipWithout(searches) }, () => {
  for (const { name, config, weights, counts } of searches) {
    const evaluator = makeEvaluator(prepare(makeModel(config, weights)));
    const neighbour = rightNeighbour(evaluator, config.task, counts);
    if (neighbour === null) continue;
    const label = labelOf(config.task, counts);
    assert.equal(labelOf(config.task, neighbour.counts), label, name);
    assert.equal(evaluator.evaluate(neighbour.counts).answer, label, name);
    if (neighbour.letter !== null)
      neighbour.counts.forEach((count, j) => assert.equal(count !== counts[j], j === neighbour.letter, name));
  }
});

test("the tour of a bundled model has six steps: freezing is the fifth, and the last shows the map of the model as it is", { skip: skipWithout(searches) }, () => {
  for (const { name, config, weights } of searches.slice(-6)) {
    const prepared = prepare(makeModel(config, weights));
    const failure = quickFailure(prepared.model);
    const steps = tourSteps(prepared, makeEvaluator(prepared), failure);
    assert.equal(steps.length, 6, name);
    for (const step of steps) {
      countsOf(step.text, config.n_letters);
      assert.ok(step.lines.length > 0 && step.lines.every((line) => !/undefined|NaN|null/.test(line)), step.lines.join());
    }
    const [last, map] = steps.slice(-2);
    assert.deepEqual([map.target, map.edits.changes], ["map", []]);
    const { logit } = run(prepare(prepared.model, last.edits), failure.counts);
    const mended = logit > 0 === labelOf(config.task, failure.counts);
    assert.match(last.lines[0], mended ? /the answer is right/ : /stays wrong/);
  }
});

test("every kind of model has a tour or no failure", { skip: skipWithout(models) }, () => {
  for (const { config, weights } of models) {
    const prepared = prepare(makeModel(config, weights));
    const failure = quickFailure(prepared.model);
    if (!failure) continue;
    for (const { lines } of tourSteps(prepared, makeEvaluator(prepared), failure))
      assert.ok(lines.every((line) => !/undefined|NaN|null/.test(line)), `${lines.join()} ${JSON.stringify(config)}`);
  }
});
