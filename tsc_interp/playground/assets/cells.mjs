// What the stages of the forward pass share: tokens as chips, numbers with their formula, mute buttons.

import { h, tokenColour } from "./dom.mjs";
import { showShort } from "./maths.mjs";

export function chip(token) {
  return h("span", { class: "chip", style: `--colour:${tokenColour(token)}` }, token);
}

const FEW = 6; // letters; of a larger alphabet only those that occur are listed

/** The positions worth a row: all in a small alphabet, else CLS and the letters that occur. */
export function listedPositions({ trace }) {
  const positions = trace.multiplicity.map((_, position) => position);
  return trace.counts.length <= FEW
    ? positions
    : positions.filter((position) => position === 0 || trace.counts[position - 1] > 0);
}

export function leftOutNote(side) {
  const missing = side.trace.multiplicity.length - listedPositions(side).length;
  return missing > 0 ? h("p", { class: "note" }, `${missing} letters that do not occur are not listed.`) : null;
}

export const named = (name, vector) => `${name} ${vector.length > 2 ? "of" : "="} ${showShort(vector)}`;

/** A number with the formula behind it; `name` says what it is to those who do not see where it stands. */
export const number = (key, name, text, lines, extra = "") =>
  h(
    "button",
    { class: `number ${extra}`, "data-key": key, "aria-label": `${name}: ${text}`, explain: lines },
    text,
  );

/** Muting, by zero or by a mean as the page is set; pressed, it takes back whatever was done to the part. */
export function muteButton(side, part) {
  const how = side.prepared.changes[part];
  return h(
    "button",
    {
      class: "small",
      "data-key": `mute-${part}`,
      "aria-pressed": String(how !== undefined),
      "aria-label": how === undefined ? `Mute ${part}` : `Take back ${part}=${how}`,
      onclick: () => side.mute(part),
    },
    how === undefined ? "Mute" : `${/^(zero|mean)/.test(how) ? "Muted" : "Changed"}: ${how.split("(")[0]}`,
  );
}

/** Classes of a part: whether it is changed, and whether it is outside of a circuit that is shown. */
export const partClass = (side, part) =>
  `${side.prepared.changes[part] === undefined ? "" : " muted"}${isOutside(side, part) ? " outside" : ""}`;

const isMarked = ({ circuit }, part) => circuit.shown && circuit.parts.includes(part);

export const isOutside = (side, part) => isMarked(side, part) && !side.circuit.kept.includes(part);

/** Beside a part's name: whether the circuit has it. */
export function circuitTag(side, part) {
  if (!isMarked(side, part)) return null;
  return h("span", { class: "tag circuit-tag" }, isOutside(side, part) ? "not in circuit" : "in circuit");
}
