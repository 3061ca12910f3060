// Two numbers, and the row of tokens that a model reads digit by digit (tsc_interp/playground/sums.py says where each stands).

import { orderedInput } from "./inputs.mjs";
import { run } from "./model.mjs";

/** What was typed as digits, the last one first; a string instead says what is wrong with it. */
export function digitsOf(text, { digits, base }) {
  const plain = text.replace(/[\s_,.']/g, "");
  if (plain === "") return "type a number";
  if (!/^\d+$/.test(plain)) return "digits only";
  if ([...plain].some((digit) => Number(digit) >= base)) return `digits from 0 to ${base - 1}`;
  const short = plain.replace(/^0+(?=\d)/, "");
  if (short.length > digits) return `this model adds numbers of up to ${digits} digits`;
  return Array.from({ length: digits }, (_, i) => Number(short.at(-1 - i) ?? 0));
}

/** Digits as people write them, without zeros in front. */
export const numberOf = (digits) => [...digits].reverse().join("").replace(/^0+(?=\d)/, "");

/** What comes into each digit: carries[j] is added to a_j + b_j, and the last one is the sum's first digit. */
export function carriesOf({ base }, a, b) {
  const carries = [0];
  a.forEach((digit, j) => carries.push(Number(digit + b[j] + carries[j] >= base)));
  return carries;
}

/** The tokens before the first digit of the sum. */
function promptOf({ places, fixed }, a, b) {
  const row = [...fixed];
  a.forEach((digit, j) => {
    row[places.a[j]] = digit;
    row[places.b[j]] = b[j];
  });
  return row;
}

/** What has to be written, step by step: digits of the sum, then what ends it. */
export function rightAnswer(sums, a, b) {
  const carries = carriesOf(sums, a, b);
  const { places, fixed, writes, base, digits } = sums;
  const row = writes.slice();
  places.s.forEach((place, j) => {
    row[place - fixed.length] = j < digits ? (a[j] + b[j] + carries[j]) % base : carries[j];
  });
  return row;
}

/** The sum's digit that a step writes, or null where it writes what ends the answer. */
export function digitOfStep({ places, fixed }, step) {
  const digit = places.s.indexOf(step + fixed.length);
  return digit < 0 ? null : digit;
}

/** Every step: { trace, said, truth, letters }. The model reads what it wrote itself. */
export function writeSum(prepared, sums, a, b) {
  const letters = promptOf(sums, a, b);
  return rightAnswer(sums, a, b).map((truth) => {
    const trace = run(prepared, orderedInput(prepared.model.config, letters));
    const step = { trace, said: trace.best, truth, letters: [...letters] };
    letters.push(trace.best);
    return step;
  });
}

/** Where a row's tokens stand when numbers are written below each other: { row, column } by place; column 0 is the last digit. */
export function columnsOf({ places, fixed }, length) {
  return Array.from({ length }, (_, place) => {
    for (const row of ["a", "b", "s"]) {
      const column = places[row].indexOf(place);
      if (column >= 0) return { row, column };
    }
    return { row: place >= fixed.length ? "s" : place > Math.min(...places.b) ? "s" : place > Math.min(...places.a) ? "b" : "a", column: "sign" };
  });
}

// -- all pairs -------------------------------------------------------------------------------------------

/** Shares of pairs as a number from 0 to 1; counts are text. */
export const shareOf = (count, all) => Number(BigInt(count)) / Number(BigInt(all));

/** The cells of a step that are not all right, by "carry first second": { wrong, undecided, pair }. */
export function cellsOf({ cells }) {
  return new Map((cells ?? []).map(([carry, a, b, wrong, undecided, pair]) => [`${carry} ${a} ${b}`, { wrong, undecided, pair }]));
}

/** A pair with these digits at one place and a carry, or none, coming in; the other digits are drawn by `random`. */
export function pairInCell({ digits, base }, digit, [carry, first, second], random = Math.random) {
  const drawn = () => Array.from({ length: digits }, () => Math.floor(random() * base));
  for (let tries = 0; ; tries++) {
    const [a, b] = [drawn(), drawn()];
    [a[digit], b[digit]] = [first, second];
    if (carriesOf({ base }, a, b)[digit] === carry) return [a, b];
    if (tries > 200) return null; // no carry comes into the last digit
  }
}
