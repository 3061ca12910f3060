// What a person changed about the model, as plain data, with undo and redo.

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

export function toggleMute(edits, id) {
  const muted = edits.muted.includes(id) ? edits.muted.filter((other) => other !== id) : [...edits.muted, id].sort();
  return { ...edits, muted };
}

export const freeze = (edits, text) => ({ ...edits, frozen: text });

/** Six digits are kept, so that a link restores the very same numbers. */
export const keep = (x) => Number(x.toPrecision(6));

export const setValue = (edits, place, vector) => ({
  ...edits,
  values: { ...edits.values, [place]: vector.map(keep) },
});

export const setWeight = (edits, place, value) => ({
  ...edits,
  weights: { ...edits.weights, [place]: Math.fround(keep(value)) },
});

export function forget(edits, kind, place) {
  const rest = { ...edits[kind] };
  delete rest[place];
  return { ...edits, [kind]: rest };
}

export const isEdited = ({ muted, frozen, values, weights }) =>
  muted.length > 0 || frozen !== null || Object.keys(values).length > 0 || Object.keys(weights).length > 0;

/** One line per change, for people, with how to take it back. */
export function describeEdits(edits, { config, shapes }) {
  const manyLayers = config.n_layers > 1;
  const lines = edits.muted.map((id) => ({
    text: `${componentName(id, manyLayers)} muted`,
    undo: (now) => toggleMute(now, id),
  }));
  if (edits.frozen !== null) {
    lines.push({ text: `attention frozen as on ${edits.frozen}`, undo: (now) => freeze(now, null) });
  }
  for (const [place, vector] of Object.entries(edits.values)) {
    const [layer, head, token] = place.split(".");
    lines.push({
      text: `value of ${token} in ${componentName(`${layer}.${head}`, manyLayers)} set to ${vector.join(", ")}`,
      undo: (now) => forget(now, "values", place),
    });
  }
  for (const [place, value] of Object.entries(edits.weights)) {
    const [name, index] = place.split("/");
    lines.push({
      text: `${name}[${indicesOf(shapes[name], Number(index)).join(", ")}] set to ${keep(value)}`,
      undo: (now) => forget(now, "weights", place),
    });
  }
  return lines;
}

function componentName(id, manyLayers) {
  const [layer, part] = id.split(".");
  const name = part === "mlp" ? "MLP" : `head ${part}`;
  return manyLayers ? `${name} of layer ${layer}` : name;
}
