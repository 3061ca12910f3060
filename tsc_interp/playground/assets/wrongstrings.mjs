// The shortest string that is answered wrongly: all of them in order, shortest first, then alphabetically.

import { vectorsOfLength } from "./search.mjs";
import { needsOrder } from "./shapes.mjs";
import { lettersOf, writeCounts } from "./strings.mjs";

/** All strings of a length: every order of letters or, where order does not matter, one per count vector. */
export const stringsOf = (config) =>
  function* (length) {
    if (!needsOrder(config)) {
      for (const counts of vectorsOfLength(config.n_letters, length)) yield writeCounts(counts);
      return;
    }
    const { frame } = config;
    if (frame && !frame.rows[length]) return;
    const letters = [...lettersOf(config.n_letters)];
    const every = letters.map((_, i) => i);
    const choices = Array.from({ length }, (_, i) => (frame ? frame.letters[i] : every));
    const places = new Array(length).fill(0);
    while (true) {
      const chosen = places.map((place, i) => choices[i][place]);
      if (!frame?.distinct || new Set(chosen).size === length) yield chosen.map((letter) => letters[letter]).join("");
      let at = length - 1;
      while (at >= 0 && places[at] === choices[at].length - 1) places[at--] = 0;
      if (at < 0) return;
      places[at]++;
    }
  };

/**
 * A generator that yields while it works and returns { text, checkedTo, tried, judged, complete }: the first string that
 * `judge` calls false, or null. null from `judge` is no judgement. `complete` says that every length was tried.
 */
export function* firstWrong(strings, judge, longest, budget) {
  let [tried, judged] = [0, 0];
  for (let length = 1; length <= longest; length++) {
    for (const text of strings(length)) {
      if (tried >= budget) return { text: null, checkedTo: length - 1, tried, judged, complete: false };
      tried++;
      const right = judge(text);
      if (right !== null) judged++;
      if (right === false) return { text, checkedTo: length - 1, tried, judged, complete: false };
      yield { text: null, checkedTo: length - 1, tried, judged, complete: false };
    }
  }
  return { text: null, checkedTo: longest, tried, judged, complete: true };
}
