// Run-length notation, with the rules and the error texts of tsc_interp/strings.py.

export const MAX_REPEAT = 1e9;
const WRITTEN_OUT = 4;

const ALL_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZαβγδεζηθικλμνξοπρστυφχψω";

/** A string that cannot be read: `message` is what Python would say. */
export class StringProblem extends Error {
  constructor(text, position, problem, allowed) {
    const where = position === null ? "" : ` at position ${position}`;
    super(`cannot read ${shorten(pythonRepr(text))}${where}: ${problem}; ${allowed}`);
    this.position = position;
    this.explanation = `${problem}; ${allowed}`;
  }
}

export const lettersOf = (size) => ALL_LETTERS.slice(0, size);

/** The number of a letter, from 0. */
export const letterIndex = (letter) => ALL_LETTERS.indexOf(letter);

/** The string as [letter, repeat] pairs, in order, neighbouring equal letters merged. */
export function runsOf(text, size) {
  const letters = lettersOf(size);
  const allowed = allowedText(size);
  if (text === "") throw new StringProblem(text, 0, "the string is empty", `at least one of ${allowed}`);
  // Positions are counted in characters, as Python counts them.
  const characters = Array.from(text);
  const runs = [];
  let position = 0;
  while (position < characters.length) {
    const letter = characters[position];
    if (letter.length !== 1 || !letters.includes(letter)) {
      throw new StringProblem(text, position, complaint(letter, position), allowed);
    }
    const [repeat, next] = readRepeat(text, characters, position + 1);
    const last = runs[runs.length - 1];
    if (last && last[0] === letter) last[1] += repeat;
    else runs.push([letter, repeat]);
    position = next;
  }
  return runs;
}

/** How many of each letter, never building the long form. */
export function countsOf(text, size) {
  const counts = new Array(size).fill(0);
  for (const [letter, repeat] of runsOf(text, size)) counts[ALL_LETTERS.indexOf(letter)] += repeat;
  const most = Math.max(...counts);
  if (most > MAX_REPEAT) {
    const worst = ALL_LETTERS[counts.indexOf(most)];
    throw new StringProblem(text, null, `more than ${MAX_REPEAT} of '${worst}'`, "each letter at most that often");
  }
  return counts;
}

/** The sorted string with these counts, in canonical notation. */
export function writeCounts(counts) {
  return writeRuns(counts.map((count, i) => [ALL_LETTERS[i], count]).filter(([, count]) => count > 0));
}

/** Short strings are written out, as in `aac`; in longer ones runs carry braces. */
function writeRuns(runs) {
  const length = runs.reduce((sum, [, repeat]) => sum + repeat, 0);
  if (length <= WRITTEN_OUT) return runs.map(([letter, repeat]) => letter.repeat(repeat)).join("");
  return runs.map(([letter, repeat]) => (repeat === 1 ? letter : `${letter}{${repeat}}`)).join("");
}

/** The repeat that starts at `start`, or 1 when what stands there is not a whole one; and where reading goes on. */
function readRepeat(text, characters, start) {
  if (characters[start] !== "{") return [1, start];
  let end = start + 1;
  while (end < characters.length && characters[end] >= "0" && characters[end] <= "9") end++;
  if (end === start + 1 || characters[end] !== "}") return [1, start];
  const digits = characters
    .slice(start + 1, end)
    .join("")
    .replace(/^0+/, "");
  if (digits === "" || digits.length > 10 || Number(digits) > MAX_REPEAT) {
    const allowed = `a repeat is a whole number from 1 to ${MAX_REPEAT}`;
    throw new StringProblem(text, start + 1, "the repeat is out of range", allowed);
  }
  return [Number(digits), end + 1];
}

function allowedText(size) {
  if (size === 1) return "the letter a, each with an optional repeat such as a{3}";
  return `the letters a to ${ALL_LETTERS[size - 1]}, each with an optional repeat such as a{3}`;
}

function complaint(character, position) {
  if (character === "{" && position === 0) return "a repeat needs a letter before it";
  if (character === "{") return "a repeat has one whole number in braces, directly after its letter";
  return `unexpected ${pythonRepr(character)}`;
}

export function pythonRepr(text) {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  const named = { "\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\", [quote]: `\\${quote}` };
  const escaped = Array.from(text).map((character) => {
    if (character in named) return named[character];
    if (character !== " " && /[\p{C}\p{Z}]/u.test(character)) return escapeCode(character.codePointAt(0));
    return character;
  });
  return quote + escaped.join("") + quote;
}

function escapeCode(code) {
  const hex = code.toString(16);
  if (code < 0x100) return `\\x${hex.padStart(2, "0")}`;
  return code < 0x10000 ? `\\u${hex.padStart(4, "0")}` : `\\U${hex.padStart(8, "0")}`;
}

function shorten(shown, limit = 60) {
  const characters = Array.from(shown);
  if (characters.length <= limit) return shown;
  return `${characters.slice(0, limit - 10).join("")}...${characters.slice(-7).join("")}`;
}
