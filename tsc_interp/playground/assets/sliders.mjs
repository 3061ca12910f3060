// Counts by slider, by number, by example.

import { h, tokenColour } from "./dom.mjs";
import { showCount } from "./maths.mjs";
import { MAX_REPEAT } from "./strings.mjs";

// A slider's places: nothing, then 1 to 1000 evenly in the logarithm over three fifths, then to 10^9 over the rest.
const PLACES = 1000;
const ONE = 40;
const THOUSAND = 640;

export function countAt(place) {
  if (place < ONE / 2) return 0;
  if (place <= THOUSAND) return Math.round(10 ** (Math.max(0, (place - ONE) / (THOUSAND - ONE)) * 3));
  return Math.round(10 ** (3 + ((place - THOUSAND) / (PLACES - THOUSAND)) * 6));
}

export function placeOf(count) {
  if (count === 0) return 0;
  const power = Math.log10(count);
  return power <= 3 ? ONE + (power / 3) * (THOUSAND - ONE) : THOUSAND + ((power - 3) / 6) * (PLACES - THOUSAND);
}

/** One step by key: by one while counts are small, then by the factor, and always to another count. */
export function stepped(count, direction, factor) {
  const next = direction > 0 ? Math.max(count + 1, Math.round(count * factor)) : Math.round(count / factor);
  return Math.min(MAX_REPEAT, Math.max(0, direction > 0 ? next : Math.min(count - 1, next)));
}

/** A count as typed, or the reason why it is none: { count } or { problem }. */
export function readCount(text) {
  const digits = text.trim().replace(/[\s_,\u2009]/g, "");
  const allowed = `a count is a whole number from 0 to ${showCount(MAX_REPEAT)}`;
  if (digits === "") return { problem: `nothing is typed; ${allowed}` };
  if (!/^\d+$/.test(digits)) return { problem: `“${text.trim().slice(0, 20)}” is not a count; ${allowed}` };
  const count = Number(digits);
  return count <= MAX_REPEAT ? { count } : { problem: `${digits.slice(0, 20)} is too many; ${allowed}` };
}

const KEYS = { ArrowRight: [1, 1.02], ArrowUp: [1, 1.02], ArrowLeft: [-1, 1.02], ArrowDown: [-1, 1.02] };
Object.assign(KEYS, { PageUp: [1, 2], PageDown: [-1, 2] });

export function sliders(container, letters, onCounts) {
  let counts = letters.map(() => 0);
  const problem = h("p", { role: "alert", class: "problem", id: "count-problem" });
  const set = (i, count) => onCounts(counts.map((own, j) => (i === j ? count : own)));
  const complain = (box, text) => {
    box.setAttribute("aria-invalid", String(text !== ""));
    problem.textContent = text;
  };
  const rows = letters.map((letter, i) => {
    const range = h("input", {
      type: "range",
      min: 0,
      max: PLACES,
      id: `slider-${letter}`,
      "aria-label": `number of ${letter}`,
      oninput: () => set(i, countAt(Number(range.value))),
      onkeydown: (event) => {
        if (!Object.hasOwn(KEYS, event.key)) return;
        event.preventDefault();
        set(i, stepped(counts[i], ...KEYS[event.key]));
      },
    });
    const box = h("input", {
      type: "text",
      inputmode: "numeric",
      autocomplete: "off",
      id: `count-${letter}`,
      "aria-label": `number of ${letter}, exactly`,
      "aria-describedby": "count-problem",
      oninput: () => {
        const read = readCount(box.value);
        complain(box, read.problem ? `Number of ${letter}: ${read.problem}. Still ${showCount(counts[i])}.` : "");
        if (!read.problem) set(i, read.count);
      },
      onblur: () => {
        box.value = String(counts[i]);
        complain(box, "");
      },
    });
    return { range, box, letter };
  });
  container.replaceChildren(
    ...rows.map(({ range, box, letter }) =>
      h(
        "div",
        { class: "slider", style: `--colour:${tokenColour(letter)}` },
        h("span", { class: "chip", "aria-hidden": "true" }, letter),
        h("span", { class: "range" }, range, ruler()),
        box,
      ),
    ),
    problem,
  );
  return {
    update(now) {
      counts = now;
      rows.forEach(({ range, box }, i) => {
        // A place stands for a count; within it the hand may rest anywhere.
        if (countAt(Number(range.value)) !== now[i]) range.value = String(placeOf(now[i]));
        range.setAttribute("aria-valuetext", showCount(now[i]));
        const typed = document.activeElement === box;
        if (!typed || readCount(box.value).count !== now[i]) if (!typed || !problem.textContent) box.value = now[i];
      });
    },
  };
}

function ruler() {
  const mark = (count, text) => h("span", { style: `left:${placeOf(count) / (PLACES / 100)}%` }, text);
  const marks = [mark(1, "1"), mark(10, "10"), mark(100, "100"), mark(1000, "1000"), mark(1e6, "10⁶"), mark(1e9, "10⁹")];
  return h("span", { class: "ruler", "aria-hidden": "true" }, marks);
}

/** The strings to try. */
export function exampleButtons(examples, onPick) {
  const button = (text) =>
    h("button", { class: "small", "data-key": `example-${text}`, onclick: () => onPick(text) }, h("code", {}, text));
  return [h("span", { class: "note" }, "Try"), ...examples.map(button)];
}
