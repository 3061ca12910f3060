import assert from "node:assert/strict";
import test from "node:test";

import { assets, casesOf, skipWithout } from "./cases.mjs";

const { countsOf, runsOf, StringProblem, writeCounts } = await import(new URL("strings.mjs", assets));

const cases = casesOf("strings");

test("every string is read, or refused with Python's words", { skip: skipWithout(cases) }, () => {
  for (const { text, size, counts, error } of cases) {
    if (error === null) {
      assert.deepEqual(countsOf(text, size), counts, JSON.stringify(text));
    } else {
      assert.throws(
        () => countsOf(text, size),
        (problem) => {
          assert.ok(problem instanceof StringProblem);
          assert.equal(problem.message, error);
          return true;
        },
      );
    }
  }
});

test("runs merge, and writing is canonical", () => {
  assert.deepEqual(runsOf("aab{1}ba{0002}", 3), [
    ["a", 2],
    ["b", 2],
    ["a", 2],
  ]);
  assert.equal(writeCounts([2, 1, 1]), "aabc");
  assert.equal(writeCounts([2, 7, 0]), "a{2}b{7}");
  assert.equal(writeCounts([1, 0, 55]), "ac{55}");
});

test("what is written reads back", () => {
  for (const counts of [
    [1, 0, 0],
    [0, 7, 1000000000],
    [12, 1, 1],
  ])
    assert.deepEqual(countsOf(writeCounts(counts), 3), counts);
});
