// The page's pure parts: edits with undo, links, commands.

import assert from "node:assert/strict";
import test from "node:test";

import { assets } from "./cases.mjs";

const { pythonScript, shellCommand } = await import(new URL("commands.mjs", assets));
const { changeOf, describeEdits, dropChange, freeze, frozenOn, isEdited, record, redo, setChange, setValue, setWeight, startTimeline, undo } =
  await import(new URL("edits.mjs", assets));
const { readLink, readModels, writeLink } = await import(new URL("link.mjs", assets));
const { normalisedEffect } = await import(new URL("patch.mjs", assets));
const { bakedWeights } = await import(new URL("safetensors.mjs", assets));
const { makeModel, noEdits } = await import(new URL("model.mjs", assets));
const { weightShapes } = await import(new URL("shapes.mjs", assets));

const config = {
  n_letters: 3,
  d_model: 2,
  n_heads: 2,
  d_head: 1,
  d_mlp: 2,
  n_layers: 1,
  norm: "off",
  attend_cls: false,
  score_scale: "sqrt_d_head",
  task: { kind: "contains_all", letters: "ab" },
};
const weights = Object.fromEntries(
  Object.entries(weightShapes(config)).map(([name, shape]) => [
    name,
    new Array(shape.reduce((a, b) => a * b)).fill(0.5),
  ]),
);
const model = makeModel(config, weights, "walkthrough");
const names = ["walkthrough", "other"];
const firstChoice = { model: "walkthrough", beside: "nobody" };
const defaults = { text: "baac", epoch: 8, lens: 4, face: "abc", letter: "c", list: "aac baac", muteBy: "zero", mean: "aac, baac", second: "aac", kind: "outputs", circuit: true, ...firstChoice };
const known = (epochs) => ({ model, epochs, names });

test("undo and redo walk the same way back and forth", () => {
  const one = setChange(noEdits(), "head1=zero");
  const two = freeze(one, config, "aac");
  let timeline = record(record(startTimeline(), one), two);
  timeline = undo(timeline);
  assert.deepEqual(timeline.now, one);
  assert.deepEqual(undo(undo(undo(timeline))).now, noEdits());
  assert.deepEqual(redo(timeline).now, two);
  assert.deepEqual(redo(redo(timeline)).now, two);
  assert.deepEqual(redo(record(timeline, noEdits())).now, noEdits(), "a new change ends the future");
});

test("the moves of one drag are one step", () => {
  let timeline = startTimeline();
  for (const x of [1, 2, 3]) timeline = record(timeline, setValue(timeline.now, "head0.value[a]", [x]), "drag 1");
  timeline = record(timeline, setValue(timeline.now, "head0.value[a]", [9]), "drag 2");
  assert.deepEqual(undo(timeline).now.changes, ["head0.value[a]=set(3)"]);
  assert.deepEqual(undo(undo(timeline)).now, noEdits());
});

test("every change can be taken back by itself", () => {
  let edits = setWeight(setValue(freeze(setChange(noEdits(), "mlp=zero"), config, "ab"), "head1.value[b]", [0.25]), "unembed.W_U/1", 2);
  assert.deepEqual(
    describeEdits(edits, model).map(({ text }) => text),
    ["mlp=zero", "head0.pattern=patch(ab)", "head1.value[b]=set(0.25)", "unembed.W_U[1, 0] = 2"],
  );
  assert.match(describeEdits(edits, model)[1].note, /frozen as on ab; so for all 2 heads/);
  for (const { undo: takeBack } of describeEdits(edits, model)) edits = takeBack(edits);
  assert.equal(isEdited(edits), false);
  assert.deepEqual(dropChange(edits, "head0"), edits);
});

test("a part has one change, the last; a change of one head's pattern is not frozen attention", () => {
  const once = setChange(setChange(noEdits(), "head0=zero"), "head1=scale(2)");
  assert.deepEqual(setChange(once, "head0=mean(ab)").changes, ["head0=mean(ab)", "head1=scale(2)"]);
  assert.equal(changeOf(once, "head1"), "scale(2)");
  assert.equal(changeOf(once, "head1.value[a]"), null);
  assert.deepEqual(dropChange(once, "head1").changes, ["head0=zero"], "what was changed is as it was");
  const frozen = freeze(once, config, "aac");
  assert.equal(frozenOn(frozen, config), "aac");
  assert.equal(frozenOn(freeze(frozen, config, "b"), config), "b");
  assert.deepEqual(freeze(frozen, config, null), once);
  assert.equal(frozenOn(setChange(once, "head0.pattern=patch(ab)"), config), null);
  assert.equal(frozenOn(setChange(frozen, "head0.pattern=patch(ab)"), config), null);
  assert.equal(frozenOn(noEdits(), { ...config, n_heads: 0 }), null);
});

test("a view survives the address", () => {
  const edits = setWeight(
    setValue(freeze(setChange(setChange(noEdits(), "head1=zero"), "mlp=mean(ab{3}, c)"), config, "ab{3}"), "head0.value[c]", [1 / 3]),
    "embed.W_E/4",
    -1 / 7,
  );
  const chosen = { model: "other", beside: "walkthrough" };
  const set = { muteBy: "mean", mean: "ab, c{9}", second: "not a string", kind: "patterns", circuit: false };
  const view = { text: "ab{100}c{55}", epoch: 3, edits, lens: 2.5, face: "cab", letter: "a", list: "a bb{2}", ...set, ...chosen };
  const link = `#${writeLink(view, defaults)}`;
  assert.deepEqual(readModels(link, names, firstChoice), chosen);
  const { view: back, ignored } = readLink(link, known([1, 3, 8]), { ...defaults, ...chosen });
  assert.deepEqual(back, view);
  assert.deepEqual(ignored, []);
  assert.deepEqual(readModels("#model=nope&beside=nope", names, firstChoice), firstChoice);
});

test("links of earlier pages are read", () => {
  const deep = makeModel({ ...config, n_layers: 2 }, Object.fromEntries(
    Object.entries(weightShapes({ ...config, n_layers: 2 })).map(([name, shape]) => [name, new Array(shape.reduce((a, b) => a * b)).fill(0.5)]),
  ));
  const read = (hash, of = model) => readLink(hash, { model: of, epochs: [], names }, defaults);
  const { view, ignored } = read("#s=ab&mute=0.1,0.mlp&value=0.0.c:0.25&weight=unembed.W_U/1:2");
  assert.deepEqual(view.edits, { changes: ["head1=zero", "mlp=zero", "head0.value[c]=set(0.25)"], weights: { "unembed.W_U/1": 2 } });
  assert.deepEqual(ignored, []);
  assert.deepEqual(read("#freeze=ab{3}").view.edits, freeze(noEdits(), config, "ab{3}"));
  assert.deepEqual(read("#mute=1.0,1.mlp&value=1.1.CLS:-2", deep).view.edits.changes, ["layer1.head0=zero", "layer1.mlp=zero", "layer1.head1.value[CLS]=set(-2)"]);
});

test("a link that does not fit is left out part by part", () => {
  const bad = [
    "s=xyz",
    "s=",
    "s=a%7B",
    "epoch=99",
    "epoch=-1",
    "epoch=1e0",
    "mute=0.7",
    "mute=1.0",
    "mute=00.1",
    "mute=0.1,evil",
    "freeze=",
    "change=",
    "change=head0",
    "change=head9%3Dzero",
    "change=head0%3Dmean()",
    "change=head0%3Dmean(xyz)",
    "change=head0.value%5Bq%5D%3Dzero",
    "change=__proto__%3Dzero",
    "change=head0%3DtoString",
    "change=%3Cimg%20src%3Dx%3E",
    "by=nope",
    "kind=toString",
    "circuit=maybe",
    `mean=${"a+".repeat(3000)}`,
    `second=${"a".repeat(5000)}`,
    "value=0.0.a",
    "value=0.0.a:NaN",
    "value=0.0.a:1;2",
    "value=0.0.q:1",
    "value=0.mlp.a:1",
    "value=0.0.a.b:1",
    "weight=embed.W_E/99:1",
    "weight=nope/0:1",
    "weight=__proto__/0:1",
    "weight=embed.W_E/0:Infinity",
    "weight=embed.W_E/0:1e99",
    "lens=0",
    "lens=%3Cscript%3E",
    "face=aab",
    "face=ab",
    "face=abz",
    "letter=zz",
    "letter=",
    "model=nope",
    "beside=%3Cb%3E",
    `list=${"a+".repeat(3000)}`,
    "__proto__=1",
    "toString=1",
    "%3Cimg%20src=x%3E=1",
    "%",
  ];
  for (const part of bad) {
    const { view, ignored } = readLink(`#${part}&lens=2`, known([8]), defaults);
    assert.deepEqual(view, { ...defaults, edits: noEdits(), lens: 2 }, part);
    assert.equal(ignored.length, 1, part);
  }
  assert.deepEqual(readLink("", known([]), defaults).view, { ...defaults, edits: noEdits() });
});

test("shell quoting", () => {
  assert.equal(
    shellCommand("walkthrough", "ab{2}", noEdits()).split("\n")[0],
    "tsc-interp eval --checkpoint walkthrough 'ab{2}'",
  );
  assert.match(shellCommand("it's here/x.safetensors", "a", noEdits()), /'it'"'"'s here\/x\.safetensors'/);
});

test("Python without edits is three lines", () => {
  assert.equal(
    pythonScript("walkthrough", "ab{2}", noEdits(), config),
    'import tsc_interp as tsc\n\nmodel = tsc.load("walkthrough")\nprint(model("ab{2}").item())\n',
  );
});

test("changes are commands that Python and a shell understand", () => {
  const edits = { changes: ["head0=zero", "neuron1=mean(aab, abc)"], weights: {} };
  assert.equal(
    shellCommand("walkthrough", "ab{2}", edits).split("\n")[0],
    "tsc-interp intervene --checkpoint walkthrough --string 'ab{2}' head0=zero 'neuron1=mean(aab, abc)'",
  );
  assert.equal(
    pythonScript("walkthrough", "ab", edits, config),
    'import tsc_interp as tsc\n\nmodel = tsc.load("walkthrough")\nchanges = [\n    "head0=zero",\n    "neuron1=mean(aab, abc)",\n]\nprint(tsc.intervene(model, ["ab"], changes).after.item())\n',
  );
  assert.match(shellCommand("walkthrough", "ab", { changes: [], weights: { "unembed.W_U/1": 2 } }), /^# without the edited weights/);
});

test("zero and scale of whole parts are baked into the weights; what cannot be is named", () => {
  const baked = (...changes) => bakedWeights(model, { ...noEdits(), changes });
  const { weights, left } = baked("head1=zero", "mlp=scale(2)", "neuron1=zero", "head0.value=scale(-1)");
  assert.deepEqual(weights["blocks.0.attn.W_O"], [0.5, 0.5, 0, 0]);
  assert.deepEqual(weights["blocks.0.mlp.W_out"], [1, 1, 0, 0]);
  assert.deepEqual(weights["blocks.0.attn.W_V"], [-0.5, -0.5, 0.5, 0.5]);
  assert.equal(model.flat["blocks.0.mlp.W_out"][0], 0.5, "the model itself stays");
  assert.deepEqual(left, []);
  const others = ["head0.pattern=patch(a)", "head0.value[a]=set(1)", "head1=mean(ab)", "head0.key[a]=zero"];
  assert.deepEqual(baked(...others).left, others);
});

test("the normalised effect is TransformerLens's, and undefined where there is nothing to restore", () => {
  const at = (logit, slack = 0) => ({ logit, slack });
  assert.equal(normalisedEffect(at(5), at(1), at(2)), 0.25);
  assert.equal(normalisedEffect(at(-3), at(1), at(1)), -0);
  assert.equal(normalisedEffect(at(-3), at(1), at(-7)), 2);
  assert.equal(normalisedEffect(at(1), at(1), at(2)), null);
  assert.equal(normalisedEffect(at(1), at(1 + 1e-15, 1e-12), at(2)), null, "not to be told apart");
});

test("a change that changes nothing is no step", () => {
  const muted = setChange(noEdits(), "head1=zero");
  let timeline = record(startTimeline(), muted);
  timeline = record(timeline, dropChange(muted, "head0.value[a]"));
  timeline = record(timeline, { ...muted });
  assert.equal(timeline.past.length, 1);
  assert.deepEqual(undo(timeline).now, noEdits());
});

test("a drag that ends where it began is no step, and one that goes on afterwards is one", () => {
  let timeline = record(startTimeline(), setChange(noEdits(), "head1=zero"));
  const drag = (x, gesture) => (timeline = record(timeline, setValue(timeline.now, "head0.value[a]", [x]), gesture));
  drag(1, "first");
  const moved = timeline.now;
  drag(2, "drag");
  drag(1, "drag");
  assert.equal(timeline.past.length, 2);
  assert.deepEqual(timeline.now, moved);
  drag(5, "drag");
  assert.deepEqual(undo(timeline).now, moved);
  assert.deepEqual(redo(undo(timeline)).now.changes, ["head1=zero", "head0.value[a]=set(5)"]);
});
