// What goes in: which embeddings stand where, how often each counts, and where the answer is read (tsc_interp/model/inputs.py).

import { needsOrder } from "./shapes.mjs";
import { countsOf, lettersOf, runsOf, StringProblem } from "./strings.mjs";

/** Rows of the embedding, how often each counts, and where the answer is read: CLS and one position per letter. */
export const countInput = (config, counts) => ({
  counts,
  ids: [0, ...counts.map((_, i) => i + 2)],
  multiplicity: [config.attend_cls ? 1 : 0, ...counts],
  size: counts.reduce((sum, count) => sum + count, 0),
  reading: 0,
  causal: false,
});

/** The same with one position per token, in order; `letters` are numbers from 0. */
export function orderedInput(config, letters) {
  const tokens = letters.map((letter) => letter + 2);
  const ids = { first: [0, ...tokens], last: [...tokens, 0], last_letter: tokens }[config.reads];
  const causal = config.reads !== "first";
  return {
    letters,
    ids,
    multiplicity: ids.map((id) => Number(id > 0 || config.attend_cls)),
    size: letters.length,
    reading: causal ? ids.length - 1 : 0,
    causal,
  };
}

const LONGEST = 400; // tokens in order that a page still draws

/** A string as the model reads it; what is too long for it is a StringProblem. */
export function inputOf(config, text) {
  if (!needsOrder(config)) return countInput(config, countsOf(text, config.n_letters));
  const alphabet = lettersOf(config.n_letters);
  const runs = runsOf(text, config.n_letters);
  const size = runs.reduce((sum, [, repeat]) => sum + repeat, 0);
  const most = longestOf(config);
  if (size > most) throw new StringProblem(text, null, `${size} letters`, `this page reads up to ${most}`);
  return orderedInput(config, runs.flatMap(([letter, repeat]) => new Array(repeat).fill(alphabet.indexOf(letter))));
}

/** The longest string there are positions for, or that this page reads. */
export const longestOf = (config) =>
  config.n_positions > 0 ? Math.min(LONGEST, config.n_positions - (config.reads === "last_letter" ? 0 : 1)) : LONGEST;
