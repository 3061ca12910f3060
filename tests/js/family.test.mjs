import assert from "node:assert/strict";
import test from "node:test";

import { assets, casesOf, skipWithout } from "./cases.mjs";

const { makeEvaluator } = await import(new URL("evaluator.mjs", assets));
const { inputOf, inTokens, longestOf } = await import(new URL("inputs.mjs", assets));
const { makeModel, prepare, run } = await import(new URL("model.mjs", assets));
const { needsOrder, weightShapes, withDefaults } = await import(new URL("shapes.mjs", assets));

const family = casesOf("family");
const options = { skip: skipWithout(family) };
const close = (a, b, tolerance) => Math.abs(a - b) <= tolerance * Math.max(1, Math.abs(b));
const told = (config) => JSON.stringify(config);

test("every option of the family has Python's weights, and order matters where Python says", options, () => {
  for (const { config, shapes, ordered } of family) {
    assert.deepEqual(weightShapes(config), shapes, told(config));
    assert.equal(needsOrder(withDefaults(config)), ordered, told(config));
  }
});

test("every output equals Python's, for every option", options, () => {
  for (const { config, weights, strings, outputs } of family) {
    const prepared = prepare(makeModel(config, weights));
    strings.forEach((text, i) => {
      const trace = run(prepared, inputOf(prepared.model.config, text));
      assert.equal(trace.outputs.length, outputs[i].length);
      // Positions are tables of float32, whose last bit may differ between two libraries' sines.
      const tolerance = ["rotary", "sinusoidal"].includes(config.positions) ? 2e-6 : 1e-9;
      trace.outputs.forEach((own, o) => assert.ok(close(own, outputs[i][o], tolerance), `${text}: ${own}, not ${outputs[i][o]} (${told(config)})`));
      const largest = outputs[i].indexOf(Math.max(...outputs[i]));
      assert.equal(trace.best, largest);
    });
  }
});

test("attention patterns equal Python's at every query that is computed", options, () => {
  for (const { config, weights, strings, patterns } of family) {
    const { model } = prepare(makeModel(config, weights));
    const trace = run(prepare(model), inputOf(model.config, strings[0]));
    trace.layers.forEach((layer, index) => {
      const theirs = patterns[`blocks.${index}.attn.hook_pattern`];
      assert.equal(layer.pattern === undefined, theirs === undefined);
      layer.pattern?.forEach((rows, head) =>
        rows.forEach((row, query) => row.forEach((weight, key) => assert.ok(close(weight, theirs[head][query][key], 2e-6), told(config)))),
      );
    });
  }
});

test("contributions add up to the logit, or to the lead of the largest output", options, () => {
  for (const { config, weights, strings } of family) {
    const { model } = prepare(makeModel(config, weights));
    for (const text of strings) {
      const trace = run(prepare(model), inputOf(model.config, text));
      const sum = trace.parts.reduce((total, part) => total + part.contribution, 0);
      assert.ok(close(sum, trace.logit, 1e-9), `${sum}, not ${trace.logit} (${told(config)})`);
    }
  }
});

test("the evaluator of counts gives the same logits", options, () => {
  for (const { config, weights, strings, outputs, ordered } of family) {
    if (ordered || (config.n_outputs ?? 1) > 1) continue;
    const { model } = prepare(makeModel(config, weights));
    const evaluator = makeEvaluator(prepare(model));
    strings.forEach((text, i) => {
      const { counts } = inputOf(model.config, text);
      const { logit, answer } = evaluator.evaluate(counts);
      assert.ok(close(logit, outputs[i][0], 1e-9));
      assert.equal(answer, outputs[i][0] > 0);
    });
  }
});

test("a string may be typed in the one-character names of tokens", () => {
  const config = withDefaults({ n_letters: 3, n_layers: 1, n_positions: 9, reads: "first" });
  const named = { ...config, token_names: ["(", ")", "END"] };
  for (const text of ["(())", "aabb"]) assert.deepEqual(inputOf(named, text).ids, inputOf(config, "aabb").ids);
  assert.throws(() => inputOf(config, "(())"));
});

test("strings are written in the names of tokens, and read back", () => {
  const config = withDefaults({ n_letters: 3, n_layers: 1, n_positions: 9, reads: "first" });
  for (const [names, written] of [
    [["red", "green", "blue"], "red{2} green{3} red"],
    [["0", "1", "+"], "0{2}1{3}0"],
    [["b", "a", "c"], "b{2} a{3} b"],
  ]) {
    const own = { ...config, token_names: names };
    assert.equal(inTokens(own, "aabbba"), written);
    assert.deepEqual(inputOf(own, written).ids, inputOf(config, "aabbba").ids);
    assert.deepEqual(inputOf(own, names.slice(0, 2).join(" ")).ids, inputOf(config, "ab").ids);
  }
  assert.equal(inTokens(config, "aab"), "aab");
});

test("a string with more letters than positions is refused in words", () => {
  const config = withDefaults({ n_letters: 2, n_layers: 1, n_positions: 5, reads: "first" });
  assert.equal(longestOf(config), 4);
  assert.equal(inputOf(config, "abab").ids.length, 5);
  assert.throws(() => inputOf(config, "a{5}"), /5 letters; this page reads up to 4/);
});
