import assert from "node:assert/strict";
import test from "node:test";

import { assets, casesOf, skipWithout } from "./cases.mjs";

const {
  dot,
  drawingPlane,
  erf,
  gelu,
  geluRange,
  length,
  show,
  showCount,
  showPercent,
  showShort,
  showVector,
  sigmoid,
} = await import(new URL("maths.mjs", assets));

const erfs = casesOf("erf");

test("erf and GELU agree with Python's to 1e-14", { skip: skipWithout(erfs) }, () => {
  for (const { x, erf: expected, gelu: smooth } of erfs) {
    assert.ok(Math.abs(erf(x) - expected) < 1e-14, `erf(${x}) = ${erf(x)}, not ${expected}`);
    assert.ok(Math.abs(gelu(x) - smooth) < 1e-14 * Math.max(1, Math.abs(x)), `gelu(${x})`);
  }
});

test("erf is odd, and has its limits", () => {
  for (const x of [0.1, 0.7, 3, 5.99, 6, 40]) assert.equal(erf(-x), -erf(x));
  assert.deepEqual([erf(0), erf(Infinity), erf(-Infinity), erf(NaN)], [0, 1, -1, NaN]);
});

test("geluRange holds every value in between, and is tight", () => {
  for (const [low, high] of [
    [-3, -1],
    [-3, 2],
    [-0.5, 0.5],
    [-0.9, -0.7],
    [1, 1],
  ]) {
    const [least, most] = geluRange(low, high);
    const values = Array.from({ length: 2001 }, (_, i) => gelu(low + ((high - low) * i) / 2000));
    assert.ok(Math.min(...values) >= least && Math.max(...values) <= most);
    assert.ok(Math.min(...values) - least < 1e-6 && most - Math.max(...values) < 1e-6);
  }
});

test("sigmoid does not overflow", () => {
  assert.deepEqual([sigmoid(-1000), sigmoid(0), sigmoid(1000)], [0, 0.5, 1]);
});

test("the drawing plane is orthonormal and begins with the direction asked for", () => {
  const points = [
    [1, 2, 0, 1],
    [0, -1, 3, 0],
    [2, 2, 1, -1],
  ];
  const [one, two] = drawingPlane(points, [3, 0, 4, 0]);
  assert.ok(Math.abs(dot(one, [0.6, 0, 0.8, 0]) - 1) < 1e-12);
  assert.ok(Math.abs(length(two) - 1) < 1e-12 && Math.abs(dot(one, two)) < 1e-12);
});

test("in one dimension the plane has nothing to add", () => {
  assert.deepEqual(drawingPlane([[2], [-1]], [-5]), [[-1], [0]]);
});

test("numbers are written for people", () => {
  assert.deepEqual(
    [show(-8.29452), show(0.00001234), show(12345678), show(0), show(-Infinity)],
    ["−8.295", "1.23·10⁻⁵", "1.23·10⁷", "0", "−∞"],
  );
  assert.deepEqual([showCount(1234567), showCount(999)], ["1,234,567", "999"]);
  assert.deepEqual(
    [showPercent(1), showPercent(0.99995), showPercent(0.5), showPercent(0)],
    ["100.0%", "over 99.99%", "50.0%", "0.00%"],
  );
  assert.deepEqual(
    [showVector([1.5]), showVector([1, 2, 3], 2), showShort([3, 0, 4])],
    ["1.500", "(1.000, 2.000, … 3 numbers)", "length 5.00"],
  );
});
