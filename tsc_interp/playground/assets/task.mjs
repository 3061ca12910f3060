// What is being decided, with the rules of tsc_interp/task.py.

import { letterIndex } from "./strings.mjs";

const total = (counts) => counts.reduce((sum, count) => sum + count, 0);

const RULES = {
  contains_all: {
    label: (task, counts) => [...task.letters].every((letter) => counts[letterIndex(letter)] > 0),
    describe: (task) => `contains ${[...task.letters].join(" and ")}`,
    boxLabel(task, low, high) {
      const places = [...task.letters].map(letterIndex);
      if (places.every((i) => low[i] > 0)) return true;
      return places.some((i) => high[i] === 0) ? false : null;
    },
  },
  at_least: {
    label: (task, counts) => counts[letterIndex(task.letter)] >= task.k,
    describe: (task) => `contains at least ${task.k} ${task.letter}`,
    boxLabel(task, low, high) {
      if (low[letterIndex(task.letter)] >= task.k) return true;
      return high[letterIndex(task.letter)] < task.k ? false : null;
    },
  },
  majority: {
    label: (task, counts) => 2 * counts[letterIndex(task.letter)] > total(counts),
    describe: (task) => `more than half are ${task.letter}`,
    boxLabel(task, low, high) {
      const i = letterIndex(task.letter);
      if (low[i] > total(high) - high[i]) return true;
      return high[i] <= total(low) - low[i] ? false : null;
    },
  },
  parity: {
    label: (task, counts) => (counts[letterIndex(task.letter)] % 2 === 1) === task.odd,
    describe: (task) => `an ${task.odd ? "odd" : "even"} number of ${task.letter}`,
    boxLabel(task, low, high) {
      const i = letterIndex(task.letter);
      return low[i] === high[i] ? (low[i] % 2 === 1) === task.odd : null;
    },
  },
};

/** Rules with a class per letter, on counts. */
const CLASSES = {
  most_frequent: (counts) => counts.indexOf(Math.max(...counts)),
  maximum: (counts) => counts.findLastIndex((count) => count > 0),
};

/**
 * The class of an input as a number (of two, 1 is yes), or null where this page does not know it. `known` is what the page
 * was given: the task, its `machine` if it is an automaton, and the `truths` of its examples.
 */
export function classOf({ config, machine, truths }, input, text) {
  const task = config.frame ? config.task.task : config.task;
  const letters = input.inside ?? input.letters;
  const counts = input.counts ?? lettersCounted(letters, config.n_letters);
  if (Object.hasOwn(CLASSES, task.kind)) return CLASSES[task.kind](counts);
  if (Object.hasOwn(RULES, task.kind)) return Number(labelOf(task, counts));
  if (!letters) return truths[text] ?? null;
  if (task.kind === "before") {
    const first = letters.find((letter) => [task.first, task.second].map(letterIndex).includes(letter));
    return Number(first === letterIndex(task.first));
  }
  if (task.kind === "palindrome") return Number(letters.every((letter, i) => letter === letters.at(-1 - i)));
  if (!machine || letters.length > machine.length) return truths[text] ?? null;
  return machine.label[letters.reduce((state, letter) => machine.step[state][letter], machine.start)];
}

function lettersCounted(letters, size) {
  const counts = new Array(size).fill(0);
  for (const letter of letters) counts[letter]++;
  return counts;
}

/** True is the positive class. */
export const labelOf = (task, counts) => RULES[task.kind].label(task, counts);
export const describeTask = (task) => RULES[task.kind].describe(task);

/** The label all strings with counts from `low` to `high` share, or null if they do not (or may not). */
export const labelOfBox = (task, low, high) => RULES[task.kind].boxLabel(task, low, high);

/** The label all strings over exactly these letters share, or null if they do not. */
export function faceLabel(task, letters) {
  const has = (letter) => letters.includes(letterIndex(letter));
  if (task.kind === "contains_all") return [...task.letters].every(has);
  if (!has(task.letter)) return task.kind === "parity" ? !task.odd : false;
  return task.kind === "majority" && letters.length === 1 ? true : task.kind === "at_least" && task.k === 1 ? true : null;
}

/** Whether the label is the same for all strings with the same ratios of letters. */
export const ratiosDecide = (task) => task.kind !== "parity" && (task.k ?? 1) === 1;
