// The page's controls: sliders, numbers and lists that are typed, the map's geometry.

import assert from "node:assert/strict";
import test from "node:test";

import { assets } from "./cases.mjs";

const { countAt, placeOf, readCount, stepped } = await import(new URL("sliders.mjs", assets));
const { readWeight } = await import(new URL("weightgrid.mjs", assets));
const { readList } = await import(new URL("many.mjs", assets));
const { backThroughLens, barycentric, markPlace, nearest, nearestString, normalised, shortestString, throughLens, toPixels } = await import(
  new URL("triangle.mjs", assets)
);
const { niceTicks } = await import(new URL("curve.mjs", assets));
const { vectorsOfLength } = await import(new URL("search.mjs", assets));
const { swapInto } = await import(new URL("maptools.mjs", assets));

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
    assert.match(readCount(text).problem, /a whole number from 0 to 1,000,000,000/);
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
