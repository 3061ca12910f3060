// The page's pure parts: edits with undo, links, commands, the map's geometry.

import assert from "node:assert/strict";
import test from "node:test";

import { assets } from "./cases.mjs";

const { pythonScript, shellCommand } = await import(new URL("commands.mjs", assets));
const { describeEdits, forget, freeze, isEdited, record, redo, setValue, setWeight, startTimeline, toggleMute, undo } =
  await import(new URL("edits.mjs", assets));
const { readLink, readModels, writeLink } = await import(new URL("link.mjs", assets));
const { countAt, placeOf, readCount, stepped } = await import(new URL("sliders.mjs", assets));
const { readWeight } = await import(new URL("intervene.mjs", assets));
const { readList } = await import(new URL("many.mjs", assets));
const { bakedWeights } = await import(new URL("safetensors.mjs", assets));
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
const names = ["walkthrough", "other"];
const firstChoice = { model: "walkthrough", beside: "nobody" };
const defaults = { text: "baac", epoch: 8, lens: 4, face: "abc", letter: "c", list: "aac baac", ...firstChoice };
const known = (epochs) => ({ model, epochs, names });

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
  const chosen = { model: "other", beside: "walkthrough" };
  const view = { text: "ab{100}c{55}", epoch: 3, edits, lens: 2.5, face: "cab", letter: "a", list: "a bb{2}", ...chosen };
  const link = `#${writeLink(view, defaults)}`;
  assert.deepEqual(readModels(link, names, firstChoice), chosen);
  const { view: back, ignored } = readLink(link, known([1, 3, 8]), { ...defaults, ...chosen });
  assert.deepEqual(back, view);
  assert.deepEqual(ignored, []);
  assert.deepEqual(readModels("#model=nope&beside=nope", names, firstChoice), firstChoice);
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

test("a muted head or MLP is baked into the weights; what cannot be is named", () => {
  const { weights, left } = bakedWeights(model, { ...noEdits(), muted: ["0.1", "0.mlp"] });
  assert.deepEqual(weights["blocks.0.attn.W_O"], [0.5, 0.5, 0, 0]);
  assert.deepEqual(weights["blocks.0.mlp.W_out"], [0, 0, 0, 0]);
  assert.equal(model.flat["blocks.0.mlp.W_out"][0], 0.5, "the model itself stays");
  assert.deepEqual(left, []);
  assert.deepEqual(bakedWeights(model, { ...noEdits(), frozen: "a", values: { "0.0.a": [1] } }).left, [
    "frozen attention",
    "moved values",
  ]);
});

test("a change that changes nothing is no step", () => {
  const muted = toggleMute(noEdits(), "0.1");
  let timeline = record(startTimeline(), muted);
  timeline = record(timeline, forget(muted, "values", "0.0.a"));
  timeline = record(timeline, { ...muted });
  assert.equal(timeline.past.length, 1);
  assert.deepEqual(undo(timeline).now, noEdits());
});

test("a drag that ends where it began is no step, and one that goes on afterwards is one", () => {
  let timeline = record(startTimeline(), toggleMute(noEdits(), "0.1"));
  const drag = (x, gesture) => (timeline = record(timeline, setValue(timeline.now, "0.0.a", [x]), gesture));
  drag(1, "first");
  const moved = timeline.now;
  drag(2, "drag");
  drag(1, "drag");
  assert.equal(timeline.past.length, 2);
  assert.deepEqual(timeline.now, moved);
  drag(5, "drag");
  assert.deepEqual(undo(timeline).now, moved);
  assert.deepEqual(redo(undo(timeline)).now.values, { "0.0.a": [5] });
});

test("sliders: 1 to 1000 take most of the way, evenly in the logarithm", () => {
  const places = [1, 10, 100, 1000].map(placeOf);
  assert.ok(places[3] - places[0] >= 600);
  assert.ok(Math.abs(places[1] - places[0] - (places[2] - places[1])) < 1e-9);
  assert.ok(Math.abs(places[2] - places[1] - (places[3] - places[2])) < 1e-9);
  assert.deepEqual([countAt(0), countAt(1000)], [0, 1e9]);
  for (const count of [0, 1, 2, 3, 5, 10, 17, 100, 1000, 1e6, 1e9]) assert.equal(countAt(placeOf(count)), count);
  for (let place = 1; place <= 1000; place++) assert.ok(countAt(place) >= countAt(place - 1));
});

test("sliders: every key press is another count, and small counts are all reached", () => {
  let count = 0;
  const seen = [];
  while (count < 1e9) seen.push((count = stepped(count, 1, 1.02)));
  assert.deepEqual(seen.slice(0, 50), Array.from({ length: 50 }, (_, i) => i + 1));
  assert.ok(seen.every((each, i) => i === 0 || each > seen[i - 1]));
  while (count > 0) {
    const next = stepped(count, -1, 2);
    assert.ok(next < count && next >= 0);
    count = next;
  }
});

test("numbers that cannot be used say why", () => {
  assert.deepEqual([readCount("12"), readCount(" 1 000 "), readCount("1,000,000")], [{ count: 12 }, { count: 1000 }, { count: 1e6 }]);
  for (const [text, words] of [
    ["", "nothing is typed"],
    ["-3", "“-3” is not a count"],
    ["1.5", "“1.5” is not a count"],
    ["1e3", "not a count"],
    ["twelve", "“twelve” is not a count"],
    ["1000000001", "1000000001 is too many"],
  ]) {
    assert.match(readCount(text).problem, new RegExp(words));
    assert.match(readCount(text).problem, /a whole number from 0 to 1\u2009000\u2009000\u2009000/);
  }
  assert.deepEqual([readWeight("-0.25"), readWeight("−1e-3"), readWeight(".5"), readWeight("  ")], [
    { value: -0.25 },
    { value: -1e-3 },
    { value: 0.5 },
    { value: null },
  ]);
  for (const text of ["abc", "1,5", "NaN", "Infinity", "0x10", "1e", "--1"])
    assert.match(readWeight(text).problem, /is not a number; a weight is a number between −1000000 and 1000000/);
  assert.match(readWeight("1e7").problem, /1e7 is too large/);
});

test("a list of strings: each read, or refused with the reason", () => {
  const rows = readList("aac ab{3},xyz\n\nc", 3);
  assert.deepEqual(
    rows.map(({ counts }) => counts),
    [[2, 0, 1], [1, 3, 0], null, [0, 0, 1]],
  );
  assert.match(rows[2].problem, /unexpected 'x'; the letters a to c/);
  assert.equal(readList("a ".repeat(500), 3).length, 200);
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
