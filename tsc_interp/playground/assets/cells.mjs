// What the stages of the forward pass share: tokens as chips, numbers with their formula, mute buttons.

import { h, tokenColour } from "./dom.mjs";
import { toggleMute } from "./edits.mjs";
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

export function muteButton(side, id, name, muted) {
  return h(
    "button",
    {
      class: "small",
      "data-key": `mute${id}`,
      "aria-pressed": String(muted),
      "aria-label": `Mute ${name}`,
      onclick: () => side.edit((edits) => toggleMute(edits, id)),
    },
    muted ? "Muted" : "Mute",
  );
}
