// Counts by slider, by number, by example.

import { h, tokenColour } from "./dom.mjs";
import { showCount } from "./maths.mjs";
import { MAX_REPEAT } from "./strings.mjs";

// Every count to 30, then steps of four percent to a thousand million.
const STOPS = (() => {
  const stops = Array.from({ length: 31 }, (_, i) => i);
  while (stops.at(-1) < MAX_REPEAT) stops.push(Math.min(MAX_REPEAT, Math.ceil(stops.at(-1) * 1.04)));
  return stops;
})();

const stopFor = (count) =>
  STOPS.reduce((best, stop, i) => (Math.abs(stop - count) < Math.abs(STOPS[best] - count) ? i : best), 0);

export function sliders(container, letters, onCounts) {
  let counts = letters.map(() => 0);
  const set = (i, count) => onCounts(counts.map((own, j) => (i === j ? count : own)));
  const rows = letters.map((letter, i) => {
    const range = h("input", {
      type: "range",
      min: 0,
      max: STOPS.length - 1,
      id: `slider-${letter}`,
      "aria-label": `number of ${letter}`,
      oninput: (event) => set(i, STOPS[Number(event.target.value)]),
    });
    const box = h("input", {
      type: "number",
      min: 0,
      max: MAX_REPEAT,
      step: 1,
      id: `count-${letter}`,
      "aria-label": `number of ${letter}, exactly`,
      oninput: (event) =>
        Number.isInteger(event.target.valueAsNumber) &&
        event.target.valueAsNumber >= 0 &&
        event.target.valueAsNumber <= MAX_REPEAT &&
        set(i, event.target.valueAsNumber),
      onblur: (event) => (event.target.value = String(counts[i])),
    });
    container.append(
      h(
        "div",
        { class: "slider", style: `--colour:${tokenColour(letter)}` },
        h("span", { class: "chip", "aria-hidden": "true" }, letter),
        range,
        box,
      ),
    );
    return { range, box };
  });
  return {
    update(now) {
      counts = now;
      rows.forEach(({ range, box }, i) => {
        const stop = stopFor(now[i]);
        if (Number(range.value) !== stop) range.value = String(stop);
        range.setAttribute("aria-valuetext", showCount(now[i]));
        if (document.activeElement !== box || box.valueAsNumber >= 0) box.value = String(now[i]);
      });
    },
  };
}

export function exampleButtons(examples, onPick) {
  return [
    h("span", { class: "note" }, "Try"),
    examples.map((text) =>
      h("button", { type: "button", class: "small", onclick: () => onPick(text) }, h("code", {}, text)),
    ),
  ].flat();
}
