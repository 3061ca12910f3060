// What a person changed about the model, as plain data, with undo and redo.

import { keep, partsOf } from "./changes.mjs";
import { indicesOf, noEdits } from "./model.mjs";

export const startTimeline = (edits = noEdits()) => ({ past: [], now: edits, future: [], gesture: null });

const equal = (one, two) => JSON.stringify(one) === JSON.stringify(two);

/**
 * The timeline with `edits` as the newest state. Changes that carry the same `gesture` (the moves of one drag)
 * count as one step back; a change that changes nothing, or a drag that ends where it began, as none.
 */
export function record(timeline, edits, gesture = null) {
  if (equal(edits, timeline.now)) return timeline;
  const same = gesture !== null && gesture === timeline.gesture;
  const past = same ? timeline.past : [...timeline.past, timeline.now];
  if (equal(edits, past.at(-1))) return { past: past.slice(0, -1), now: past.at(-1), future: [], gesture: null };
  return { past, now: edits, future: [], gesture };
}

export function undo(timeline) {
  if (timeline.past.length === 0) return timeline;
  const past = timeline.past.slice(0, -1);
  return { past, now: timeline.past.at(-1), future: [timeline.now, ...timeline.future], gesture: null };
}

export function redo(timeline) {
  if (timeline.future.length === 0) return timeline;
  const [now, ...future] = timeline.future;
  return { past: [...timeline.past, timeline.now], now, future, gesture: null };
}

// -- single changes: edits in, edits out --------------------------------------------------------------

const partIn = (text) => text.slice(0, text.indexOf("="));

/** How a part is changed ("zero"), or null. */
export const changeOf = (edits, part) =>
  edits.changes.find((text) => partIn(text) === part)?.slice(part.length + 1) ?? null;

/** With this change, in the notation of `changes.mjs`; a part has one change, the last. */
export function setChange(edits, text) {
  const known = edits.changes.some((each) => partIn(each) === partIn(text));
  const changes = edits.changes.map((each) => (partIn(each) === partIn(text) ? text : each));
  return { ...edits, changes: known ? changes : [...changes, text] };
}

export const dropChange = (edits, ...parts) => ({
  ...edits,
  changes: edits.changes.filter((text) => !parts.includes(partIn(text))),
});

const patterns = (config) => partsOf(config, ["pattern"]);

/** Attention of every head as it is on a string, or free. */
export function freeze(edits, config, text) {
  const free = dropChange(edits, ...patterns(config));
  return text === null ? free : { ...free, changes: [...free.changes, ...patterns(config).map((part) => `${part}=patch(${text})`)] };
}

/** The string that all attention is frozen on, or null. */
export function frozenOn(edits, config) {
  const found = new Set(patterns(config).map((part) => changeOf(edits, part)));
  const [how] = found;
  return found.size === 1 && how !== null ? how.slice("patch(".length, -1) : null;
}

export const setValue = (edits, part, vector) => setChange(edits, `${part}=set(${vector.map(keep).join(", ")})`);

export const setWeight = (edits, place, value) => ({
  ...edits,
  weights: { ...edits.weights, [place]: Math.fround(keep(value)) },
});

export function forgetWeight(edits, place) {
  const weights = { ...edits.weights };
  delete weights[place];
  return { ...edits, weights };
}

export const isEdited = ({ changes, weights }) => changes.length > 0 || Object.keys(weights).length > 0;

/** One line per change, with how to take it back; frozen attention is one line, however many heads there are. */
export function describeEdits(edits, { config, shapes }) {
  const frozen = frozenOn(edits, config);
  const together = frozen === null ? [] : patterns(config);
  const lines = edits.changes
    .filter((text) => !together.slice(1).includes(partIn(text)))
    .map((text) =>
      together[0] === partIn(text)
        ? { text, note: `attention frozen as on ${frozen}${together.length > 1 ? `; so for all ${together.length} heads` : ""}`, undo: (now) => freeze(now, config, null) }
        : { text, undo: (now) => dropChange(now, partIn(text)) },
    );
  for (const [place, value] of Object.entries(edits.weights)) {
    const [name, index] = place.split("/");
    lines.push({
      text: `${name}[${indicesOf(shapes[name], Number(index)).join(", ")}] = ${keep(value)}`,
      note: "a weight",
      undo: (now) => forgetWeight(now, place),
    });
  }
  return lines;
}
