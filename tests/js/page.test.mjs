// The page's pure parts: edits with undo, links, commands, the map's geometry.

import assert from "node:assert/strict";
import test from "node:test";

import { assets } from "./cases.mjs";

const { pythonScript, shellCommand, weightsDocument } = await import(new URL("commands.mjs", assets));
const { describeEdits, forget, freeze, isEdited, record, redo, setValue, setWeight, startTimeline, toggleMute, undo } =
  await import(new URL("edits.mjs", assets));
const { readLink, writeLink } = await import(new URL("link.mjs", assets));
const { backThroughLens, barycentric, markPlace, nearest, nearestString, normalised, shortestString, throughLens, toPixels } = await import(
  new URL("triangle.mjs", assets)
);
const { makeModel, noEdits, weightShapes } = await import(new URL("model.mjs", assets));
const { niceTicks } = await import(new URL("curve.mjs", assets));
const { vectorsOfLength } = await import(new URL("search.mjs", assets));
const { swapInto } = await import(new URL("maptools.mjs", assets));

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
const defaults = { text: "baac", epoch: 8, lens: 4, face: "abc", letter: "c" };

test("undo and redo walk the same way back and forth", () => {
  const one = toggleMute(noEdits(), "0.1");
  const two = freeze(one, "aac");
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
  for (const x of [1, 2, 3]) timeline = record(timeline, setValue(timeline.now, "0.0.a", [x]), "drag 1");
  timeline = record(timeline, setValue(timeline.now, "0.0.a", [9]), "drag 2");
  assert.deepEqual(undo(timeline).now.values, { "0.0.a": [3] });
  assert.deepEqual(undo(undo(timeline)).now, noEdits());
});

test("every change can be taken back by itself", () => {
  let edits = setWeight(setValue(freeze(toggleMute(noEdits(), "0.mlp"), "ab"), "0.1.b", [0.25]), "unembed.W_U/1", 2);
  assert.deepEqual(
    describeEdits(edits, model).map(({ text }) => text),
    ["MLP muted", "attention frozen as on ab", "value of b in head 1 set to 0.25", "unembed.W_U[1, 0] set to 2"],
  );
  for (const { undo: takeBack } of describeEdits(edits, model)) edits = takeBack(edits);
  assert.equal(isEdited(edits), false);
  assert.deepEqual(forget(edits, "values", "0.0.a"), edits);
});

test("a view survives the address", () => {
  const edits = setWeight(
    setValue(freeze(toggleMute(toggleMute(noEdits(), "0.1"), "0.mlp"), "ab{3}"), "0.0.c", [1 / 3]),
    "embed.W_E/4",
    -1 / 7,
  );
  const view = { text: "ab{100}c{55}", epoch: 3, edits, lens: 2.5, face: "cab", letter: "a" };
  const { view: back, ignored } = readLink(`#${writeLink(view, defaults)}`, model, [1, 3, 8], defaults);
  assert.deepEqual(back, view);
  assert.deepEqual(ignored, []);
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
    "__proto__=1",
    "toString=1",
    "%3Cimg%20src=x%3E=1",
    "%",
  ];
  for (const part of bad) {
    const { view, ignored } = readLink(`#${part}&lens=2`, model, [8], defaults);
    assert.deepEqual(view, { ...defaults, edits: noEdits(), lens: 2 }, part);
    assert.equal(ignored.length, 1, part);
  }
  assert.deepEqual(readLink("", model, [], defaults).view, { ...defaults, edits: noEdits() });
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

test("the weights document has every weight, in full", () => {
  const document = JSON.parse(weightsDocument(model, noEdits()));
  assert.deepEqual(Object.keys(document.weights), Object.keys(weightShapes(config)));
  assert.deepEqual(document.weights["unembed.W_U"], { shape: [2, 1], values: [0.5, 0.5] });
});

test("map: corners, lens and back", () => {
  const u = barycentric(220, 252.7);
  assert.ok(u.every((share) => Math.abs(share - 1 / 3) < 1e-3));
  const ratios = throughLens([0.2, 0.3, 0.5], 4);
  assert.ok(Math.abs(ratios[0] / ratios[2] - (0.2 / 0.5) ** 4) < 1e-12);
  assert.ok(backThroughLens(ratios, 4).every((share, i) => Math.abs(share - [0.2, 0.3, 0.5][i]) < 1e-12));
});

test("map: outside the triangle the nearest point of an edge or corner is meant", () => {
  assert.deepEqual(nearest([0, 399], 3), [1, 0, 0]);
  assert.deepEqual(nearest([220, 399], 3), [0.5, 0.5, 0]);
  assert.deepEqual(nearest([-50, 0], 2), [1, 0]);
  assert.ok(nearest([220, 250], 3).every((share) => share > 0));
});

test("map: a string with a missing letter stands outside the triangle, on its band or disc", () => {
  assert.ok(barycentric(...markPlace([0.4, 0.6, 0]))[2] < 0);
  const corner = barycentric(...markPlace([1, 0, 0]));
  assert.ok(corner[1] < 0 && corner[2] < 0);
  assert.ok(barycentric(...markPlace([0.2, 0.3, 0.5])).every((share) => share > 0));
  assert.ok(markPlace([1, 0])[0] < 40 && markPlace([0, 1])[0] > 400);
});

test("map: ratios become whole counts, and what is there stays there", () => {
  assert.deepEqual(nearestString([0.5, 0.5, 0], 4), [2, 2, 0]);
  assert.deepEqual(nearestString([0.001, 0.999, 0], 4), [1, 3, 0]);
  assert.deepEqual(nearestString([1e-12, 1e-12, 1], 1000), [1, 1, 998]);
  assert.equal(nearestString([0.2, 0.3, 0.5], 2), null, "two letters cannot be three");
  for (let length = 3; length < 60; length++)
    assert.equal(
      nearestString([0.21, 0.34, 0.45], length).reduce((a, b) => a + b),
      length,
    );
});

test("map: a place stands for the shortest string that is about there", () => {
  const lens = 4;
  const away = (counts, [x, y]) => {
    const [px, py] = toPixels(backThroughLens(normalised(counts), lens));
    return Math.hypot(px - x, py - y);
  };
  for (const place of [
    [220, 252.7],
    [200, 250],
    [220, 150],
    [150, 300],
    [260, 220],
    [230, 330],
  ]) {
    const found = shortestString(throughLens(barycentric(...place), lens), lens);
    assert.ok(away(found, place) <= 4);
    const length = found.reduce((a, b) => a + b);
    for (let n = 3; n < Math.min(length, 80); n++)
      for (const counts of vectorsOfLength(3, n))
        if (counts.every((count) => count > 0)) assert.ok(away(counts, place) > 4, `${counts} is shorter than ${found}`);
  }
  assert.deepEqual(shortestString([0.5, 0.5, 0], lens), [1, 1, 0]);
  assert.deepEqual(shortestString([0, 0, 1], lens), [0, 0, 1]);
  assert.deepEqual(shortestString([1 / 3, 2 / 3], lens), [1, 2]);
});

test("choosing a letter that is elsewhere on the face swaps the two", () => {
  assert.deepEqual([swapInto("abc", 0, "c"), swapInto("abc", 1, "d"), swapInto("abc", 2, "c")], ["cba", "adc", "abc"]);
});

test("ticks are round and inside", () => {
  assert.deepEqual(niceTicks(-8.5, 11), [-5, 0, 5, 10]);
  for (const [low, high] of [
    [-1e-3, 2e-3],
    [3, 3000],
    [-2, 0],
  ])
    assert.ok(niceTicks(low, high).every((tick) => tick >= low && tick <= high));
});
