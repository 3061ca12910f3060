// Interventions: the page's arithmetic against tsc.intervene, its notation against Python's.

import assert from "node:assert/strict";
import test from "node:test";

import { assets, casesOf, skipWithout } from "./cases.mjs";

const { ChangeProblem, readChange } = await import(new URL("changes.mjs", assets));
const { makeEvaluator } = await import(new URL("evaluator.mjs", assets));
const { makeModel, noEdits, prepare, run } = await import(new URL("model.mjs", assets));
const { logitError } = await import(new URL("rounding.mjs", assets));
const { countsOf } = await import(new URL("strings.mjs", assets));

const cases = casesOf("changes");
const notation = casesOf("notation");
const skip = skipWithout(cases);

function* everySet() {
  for (const { config, weights, sets } of cases) {
    const model = makeModel(config, weights);
    for (const { changes, strings, logits } of sets) {
      const prepared = prepare(model, { ...noEdits(), changes });
      const counts = strings.map((text) => countsOf(text, config.n_letters));
      yield { model, config, changes, prepared, evaluator: makeEvaluator(prepared), strings, counts, logits };
    }
  }
}

test("every logit under random interventions is tsc.intervene's in float64", { skip }, () => {
  let moved = 0;
  for (const { model, changes, prepared, evaluator, strings, counts, logits } of everySet()) {
    counts.forEach((row, i) => {
      const where = `${strings[i]} with ${changes.join(" and ")} (${JSON.stringify(model.config)})`;
      const size = 1e-9 * Math.max(1, Math.abs(logits[i]));
      const { logit } = run(prepared, row);
      assert.ok(Math.abs(logit - logits[i]) <= size, `${where}: ${logit}, not ${logits[i]}`);
      assert.ok(Math.abs(evaluator.logit(row) - logits[i]) <= size, `fast, ${where}: ${evaluator.logit(row)}, not ${logits[i]}`);
      if (Math.abs(logit - run(prepare(model), row).logit) > 1e-3) moved++;
    });
  }
  assert.ok(moved > 500, `only ${moved} logits were moved`);
});

test("two float64 computations of a changed model differ by no more than its slack, which stays small", { skip }, () => {
  for (const { config, changes, prepared, evaluator, strings, counts, logits } of everySet()) {
    counts.forEach((row, i) => {
      const { logit, slack } = evaluator.evaluate(row);
      const trace = run(prepared, row);
      const bound = logitError(prepared, trace);
      const where = `${strings[i]} with ${changes.join(" and ")}`;
      assert.ok(Math.abs(logit - logits[i]) <= 2 * slack, `${where}: ${logit} ± ${slack}, Python ${logits[i]}`);
      assert.ok(Math.abs(logit - trace.logit) <= slack + bound, where);
      if (config.norm === "off") assert.ok(slack < 1e-9 && bound < 1e-9, `${where}: ${slack}, ${bound}`);
    });
  }
});

test("bounds over a box hold every string in it, whatever was changed", { skip }, () => {
  for (const { config, changes, evaluator } of everySet()) {
    if (!evaluator.bounds) continue;
    const low = Array.from({ length: config.n_letters }, (_, i) => i % 2);
    const high = low.map((count) => count + 3);
    const [least, most] = evaluator.bounds(low, high);
    for (let step = 0; step <= 3; step++) {
      const inside = low.map((count, i) => count + ((step * (i + 1)) % 4));
      if (!inside.some((count) => count > 0)) continue;
      const logit = evaluator.logit(inside);
      assert.ok(least <= logit && logit <= most, `${inside} with ${changes.join(" and ")}: ${logit} not in [${least}, ${most}]`);
    }
  }
});

test("notation is written as Python writes it, and refused where Python refuses", { skip }, () => {
  const { config, written, refused } = notation;
  for (const [given, text] of written) assert.equal(readChange(given, config).text, text);
  for (const given of refused) assert.throws(() => readChange(given, config), ChangeProblem, given);
});

test("what is refused says why", { skip }, () => {
  for (const [given, words] of [
    ["head7=zero", /^head7: the model has 2 heads per layer, from head 0$/],
    ["layer1.head0=zero", /^layer1\.head0: the model has 1 layer$/],
    ["head0=mean()", /^head0=mean: the mean over no strings; name them, as in mean\(aab, abc\)$/],
    ["head0=mean(aab, xyz)", /^cannot read 'xyz' at position 0: unexpected 'x'; the letters a to c/],
    ["head0=noise(0.1)", /is no change this page makes; it makes zero, mean/],
    ["head0->logit=zero", /names no part this page can change.*tsc-interp intervene changes more/],
    ["head0.pattern=zero", /scale the head$/],
    ["head0=set(1, 2)", /2 numbers, but head has 1$/],
    ["head0.value[z]=zero", /no token is called 'z'; tokens are CLS, a, b, c$/],
    ["head0=scale(1e9)", /is not a number between/],
  ])
    assert.throws(() => readChange(given, notation.config), { message: words }, given);
  const deep = { ...notation.config, n_layers: 2 };
  assert.throws(() => readChange("head0=mean(aab, ab)", deep), { message: /no string of the mean has c$/ });
  assert.throws(() => readChange("layer1.head0.key[a]=like(b)", deep), { message: /only in the first layer$/ });
  assert.throws(() => readChange("mlp=zero", { ...deep, d_mlp: 0 }), { message: /^mlp: the model has no MLP$/ });
});
