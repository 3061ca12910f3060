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

/** A string in letters, where it was typed in the names of tokens, such as (()) or red{5} green (config/classifier.py). */
function spelled({ n_letters, token_names: names = [] }, text) {
  const letters = lettersOf(n_letters);
  const words = text.split(/\s+/).filter(Boolean);
  const run = (word) => (names.includes(word) ? [word, ""] : (/^(.+)(\{\d+\})$/su.exec(word)?.slice(1) ?? [word, ""]));
  let runs = words.map(run);
  if (words.length === 1 && !names.includes(runs[0][0]) && ![...text].every((each) => letters.includes(each)))
    runs = [...text.matchAll(/(.)(\{\d+\})?/gsu)].map(([, name, times = ""]) => [name, times]);
  if (runs.length === 0 || !runs.every(([name]) => names.includes(name))) return text;
  return runs.map(([name, times]) => letters[names.indexOf(name)] + times).join("");
}

/** A string of letters in the names of its tokens; `inputOf` reads it back. */
export function inTokens({ n_letters, token_names: names = [] }, text) {
  if (names.length === 0) return text;
  const letters = lettersOf(n_letters);
  const short = names.every((name) => [...name].length === 1 && !letters.includes(name));
  return runsOf(text, n_letters)
    .map(([letter, repeat]) => names[letters.indexOf(letter)] + (repeat > 1 ? `{${repeat}}` : ""))
    .join(short ? "" : " ");
}

/** A string as the model reads it; what is too long for it is a StringProblem. */
export function inputOf(config, typed) {
  const text = spelled(config, typed);
  if (!needsOrder(config)) return countInput(config, countsOf(text, config.n_letters));
  const alphabet = lettersOf(config.n_letters);
  const runs = runsOf(text, config.n_letters);
  const size = runs.reduce((sum, [, repeat]) => sum + repeat, 0);
  const most = longestOf(config);
  if (size > most) throw new StringProblem(text, null, `${size} letters`, `this page reads up to ${most}`);
  const letters = runs.flatMap(([letter, repeat]) => new Array(repeat).fill(alphabet.indexOf(letter)));
  if (!config.frame) return orderedInput(config, letters);
  const inside = insideFrame(config.frame, letters);
  if (inside === null) throw new StringProblem(text, null, `${size} letters`, "this is no input of the model's frame");
  return { ...orderedInput(config, filled(config.frame, inside)), inside };
}

/** The letters at the places of a frame, given alone or as a whole row; null if they are no input. */
function insideFrame({ rows, letters: allowed, distinct }, given) {
  const fits = (inside) => inside.every((letter, i) => allowed[i].includes(letter)) && (!distinct || new Set(inside).size === inside.length);
  if (rows[given.length] && fits(given)) return given;
  const whole = Object.values(rows).find((row) => row.length === given.length && row.every((letter, i) => letter === null || letter === given[i]));
  const inside = whole ? given.filter((_, i) => whole[i] === null) : null;
  return inside && fits(inside) ? inside : null;
}

/** The whole row. */
function filled({ rows }, inside) {
  let place = 0;
  return rows[inside.length].map((letter) => letter ?? inside[place++]);
}

/** The longest string there are positions for, or that this page reads. */
export const longestOf = (config) =>
  config.n_positions > 0 ? Math.min(LONGEST, config.n_positions - (config.reads === "last_letter" ? 0 : 1)) : LONGEST;
