import assert from "node:assert/strict";
import test from "node:test";

import { assets, casesOf, skipWithout } from "./cases.mjs";

const { makeEvaluator } = await import(new URL("evaluator.mjs", assets));
const { softmax } = await import(new URL("layers.mjs", assets));
const { makeModel, noEdits, prepare, run } = await import(new URL("model.mjs", assets));
const { weightShapes } = await import(new URL("shapes.mjs", assets));
const { countsOf } = await import(new URL("strings.mjs", assets));
const { labelOf, labelOfBox } = await import(new URL("task.mjs", assets));

const models = casesOf("models");
const edited = casesOf("edited");
const tasks = casesOf("tasks");

const close = (a, b, tolerance) => Math.abs(a - b) <= tolerance * Math.max(1, Math.abs(b));

test("weights have Python's names and shapes", { skip: skipWithout(models) }, () => {
  for (const { config, shapes } of models) assert.deepEqual(weightShapes(config), shapes);
});

test("logits equal Python's in float64, for every option", { skip: skipWithout(models) }, () => {
  for (const { config, weights, strings, logits } of models) {
    const prepared = prepare(makeModel(config, weights));
    const evaluator = makeEvaluator(prepared);
    strings.forEach((text, i) => {
      const counts = countsOf(text, config.n_letters);
      assert.ok(
        close(run(prepared, counts).logit, logits[i], 1e-10),
        `${text}: ${run(prepared, counts).logit}, not ${logits[i]} (${JSON.stringify(config)})`,
      );
      assert.ok(
        close(evaluator.logit(counts), logits[i], 1e-10),
        `fast ${text}: ${evaluator.logit(counts)}, not ${logits[i]} (${JSON.stringify(config)})`,
      );
    });
  }
});

test("every step of the first string equals Python's", { skip: skipWithout(models) }, () => {
  for (const { config, weights, strings, activations } of models) {
    const trace = run(prepare(makeModel(config, weights)), countsOf(strings[0], config.n_letters));
    trace.layers.forEach((layer, index) => {
      for (const [name, ours] of [
        ["hook_pattern", layer.pattern?.map((head) => head[0])],
        ["hook_z", layer.z?.map((head) => head[0])],
      ]) {
        const theirs = activations[`blocks.${index}.attn.${name}`];
        assert.equal(ours === undefined, theirs === undefined);
        if (theirs)
          assert.ok(
            ours.flat().every((x, i) => close(x, theirs.flat()[i], 1e-10)),
            `${name} of layer ${index}`,
          );
      }
    });
  }
});

test("contributions add up to the logit", { skip: skipWithout(models) }, () => {
  for (const { config, weights, strings } of models) {
    const trace = run(prepare(makeModel(config, weights)), countsOf(strings[0], config.n_letters));
    assert.ok(
      close(
        trace.parts.reduce((sum, part) => sum + part.contribution, 0),
        trace.logit,
        1e-12,
      ),
    );
  }
});

test("muted, frozen, moved and edited models equal Python's with hooks", { skip: skipWithout(edited) }, () => {
  for (const { config, weights, edits, strings, logits } of edited) {
    const prepared = prepare(makeModel(config, weights), { ...noEdits(), ...edits });
    const evaluator = makeEvaluator(prepared);
    strings.forEach((text, i) => {
      const counts = countsOf(text, config.n_letters);
      assert.ok(
        close(run(prepared, counts).logit, logits[i], 2e-5),
        `${text}: ${run(prepared, counts).logit}, not ${logits[i]} with ${JSON.stringify(edits)}`,
      );
      assert.ok(
        close(evaluator.logit(counts), run(prepared, counts).logit, 1e-11),
        `fast ${text} with ${JSON.stringify(edits)}`,
      );
    });
  }
});

test("labels are Python's, and a box has the label all its strings have", { skip: skipWithout(tasks) }, () => {
  for (const { task, counts, labels } of tasks) {
    counts.forEach((row, i) => assert.equal(labelOf(task, row), labels[i], `${JSON.stringify(task)} of ${row}`));
    for (const low of counts.slice(0, 20)) {
      const high = low.map((count) => count + 2);
      const label = labelOfBox(task, low, high);
      const inside = counts
        .map((row, i) => [row, labels[i]])
        .filter(([row]) => row.every((n, j) => n >= low[j] && n <= high[j]));
      if (label !== null) for (const [, truth] of inside) assert.equal(truth, label);
      assert.equal(labelOfBox(task, low, low), labelOf(task, low));
    }
  }
});

test("softmax keeps its head where exponentials overflow or vanish", () => {
  assert.deepEqual(softmax([2000, 1000], [1, 1e9]), [1, 0]);
  assert.deepEqual(softmax([5000, -900], [0, 3]), [0, 1]);
});

test("a letter far below the highest score still gets all the weight when it is alone", () => {
  const config = {
    n_letters: 2,
    d_model: 1,
    n_heads: 1,
    d_head: 1,
    d_mlp: 0,
    n_layers: 1,
    norm: "off",
    attend_cls: false,
    score_scale: "sqrt_d_head",
    task: { kind: "at_least", letter: "a", k: 1 },
  };
  const weights = {
    "embed.W_E": [1, 0, 30, -30],
    "blocks.0.attn.W_Q": [30],
    "blocks.0.attn.W_K": [1],
    "blocks.0.attn.W_V": [1],
    "blocks.0.attn.W_O": [1],
    "unembed.W_U": [1],
  };
  const evaluator = makeEvaluator(prepare(makeModel(config, weights)));
  assert.equal(evaluator.logit([0, 5]), 1 - 30);
  assert.equal(evaluator.logit([1, 5]), 1 + 30);
});
