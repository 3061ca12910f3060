import assert from "node:assert/strict";
import test from "node:test";

import { assets, casesOf, skipWithout } from "./cases.mjs";

const { makeEvaluator } = await import(new URL("evaluator.mjs", assets));
const { makeModel, noEdits, prepare } = await import(new URL("model.mjs", assets));
const { isRight, nearestFlip, shortestFailure, vectorsOfLength } = await import(new URL("search.mjs", assets));

const searches = casesOf("searches");
const models = casesOf("models");

function finish(generator) {
  let last = 0;
  for (;;) {
    const { done, value } = generator.next();
    if (done) return value;
    assert.ok(value.checkedTo >= last, "progress never goes back");
    last = value.checkedTo;
  }
}

test("the shortest wrong string is the one Python found", { skip: skipWithout(searches) }, () => {
  for (const { name, config, weights, counts } of searches) {
    const evaluator = makeEvaluator(prepare(makeModel(config, weights)));
    const found = finish(shortestFailure(evaluator, config.task, config.n_letters));
    assert.deepEqual(found.counts, counts, name);
    assert.equal(found.checkedTo, counts.reduce((sum, count) => sum + count, 0) - 1, name);
  }
});

test("searching boxes and trying one string after the other find the same", { skip: skipWithout(models) }, () => {
  for (const { config, weights } of models) {
    const evaluator = makeEvaluator(prepare(makeModel(config, weights)));
    const byBoxes = finish(shortestFailure(evaluator, config.task, config.n_letters));
    const oneByOne = finish(shortestFailure({ ...evaluator, bounds: null }, config.task, config.n_letters, 20000));
    if (oneByOne.counts) assert.deepEqual(byBoxes.counts, oneByOne.counts, JSON.stringify(config));
    else assert.ok(byBoxes.checkedTo >= oneByOne.checkedTo);
  }
});

test("bounds hold for every string in the box, and close in on a single string", { skip: skipWithout(models) }, () => {
  let state = 7;
  const random = (n) => (state = (state * 48271) % 2147483647) % n;
  for (const { config, weights } of models) {
    const evaluator = makeEvaluator(prepare(makeModel(config, weights)));
    if (!evaluator.bounds) continue;
    for (let trial = 0; trial < 40; trial++) {
      const low = Array.from({ length: config.n_letters }, () => 1 + random(20));
      const high = low.map((count) => count + random(30));
      const [least, most] = evaluator.bounds(low, high);
      for (let sample = 0; sample < 30; sample++) {
        const logit = evaluator.logit(low.map((count, j) => count + random(high[j] - count + 1)));
        assert.ok(least <= logit && logit <= most, `${logit} outside [${least}, ${most}]: ${JSON.stringify(config)}`);
      }
      const [one, two] = evaluator.bounds(low, low);
      assert.ok(two - one < 1e-6 * (1 + Math.abs(one)), "a single string has a single logit");
    }
  }
});

test("with edits, too, the search agrees with trying everything", { skip: skipWithout(searches) }, () => {
  const { config, weights } = searches[0];
  for (const edits of [{ muted: ["0.0"] }, { muted: ["0.mlp"] }, { frozen: "aac" }, { values: { "0.1.b": [2] } }]) {
    const evaluator = makeEvaluator(prepare(makeModel(config, weights), { ...noEdits(), ...edits }));
    const byBoxes = finish(shortestFailure(evaluator, config.task, 3));
    assert.deepEqual(byBoxes.counts, finish(shortestFailure({ ...evaluator, bounds: null }, config.task, 3)).counts);
  }
});

test("a bound is kept and said", { skip: skipWithout(searches) }, () => {
  const { config, weights } = searches.find(({ counts }) => counts.reduce((sum, count) => sum + count, 0) > 60);
  const evaluator = makeEvaluator(prepare(makeModel(config, weights)));
  const stopped = finish(shortestFailure(evaluator, config.task, config.n_letters, 30));
  assert.equal(stopped.counts, null);
  assert.equal(stopped.complete, false);
  for (let size = 1; size <= Math.min(stopped.checkedTo, 12); size++) {
    for (const counts of vectorsOfLength(config.n_letters, size))
      assert.equal(isRight(evaluator, config.task, counts), true);
  }
});

test("flips are the nearest ones, above and below", { skip: skipWithout(searches) }, () => {
  for (const { config, weights } of searches) {
    const evaluator = makeEvaluator(prepare(makeModel(config, weights)));
    for (const counts of [
      [1, 1, 1],
      [3, 40, 0],
      [0, 0, 5],
      [200, 1, 9],
    ]) {
      for (const letter of [0, 1, 2]) {
        for (const direction of [-1, 1]) {
          const { count } = nearestFlip(evaluator, counts, letter, direction);
          assert.equal(
            count !== null && Math.abs(count - counts[letter]) <= 400 ? count : null,
            scan(evaluator, counts, letter, direction, 400),
          );
        }
      }
    }
  }
});

function scan(evaluator, counts, letter, direction, limit) {
  const now = evaluator.logit(counts) > 0;
  for (let step = 1; step <= limit; step++) {
    const at = counts.map((own, j) => (j === letter ? own + direction * step : own));
    if (at[letter] < 0 || at.every((count) => count === 0)) return null;
    if (evaluator.logit(at) > 0 !== now) return at[letter];
  }
  return null;
}

test("vectors of a length: all of them, lexicographically largest first", () => {
  assert.deepEqual(
    [...vectorsOfLength(3, 2)],
    [
      [2, 0, 0],
      [1, 1, 0],
      [1, 0, 1],
      [0, 2, 0],
      [0, 1, 1],
      [0, 0, 2],
    ],
  );
});
