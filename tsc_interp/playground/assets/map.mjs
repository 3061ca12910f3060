// The failure map on the page: drawn by drawmap.mjs, with the string on it, to point at and to move.

import { h, svg, tokenColour } from "./dom.mjs";
import { COARSE, drawMap, FINE, holdsForEveryLength } from "./drawmap.mjs";
import { drawing } from "./figures.mjs";
import { show, showPercent } from "./maths.mjs";
import { letterIndex, writeCounts } from "./strings.mjs";
import { labelOf } from "./task.mjs";
import {
  backThroughLens,
  CORNERS,
  discOf,
  HEIGHT,
  LINE,
  LINE_ENDS,
  markPlace,
  nearest,
  nearestString,
  normalised,
  shortestString,
  throughLens,
  toPixels,
  WIDTH,
} from "./triangle.mjs";

/** One map: { element, update(side, view) }. `onPick(counts)` is called with full count vectors. */
export function failureMap(onPick) {
  const picture = svg("g", {});
  const overlay = svg("g", {});
  const root = drawing("failure-map", WIDTH, HEIGHT, "Failure map");
  root.append(picture, overlay);
  const readout = h("p", { class: "note readout", "aria-live": "polite" });
  const stage = h(
    "div",
    { class: "map-stage", tabindex: 0, role: "application", "aria-label": "Failure map. Arrow keys move the string." },
    root,
  );
  const state = { side: null, view: null, face: [], cursor: null, key: "", words: "", shownCounts: "" };

  function update(side, view) {
    const counts = side.trace.counts.join();
    // The cursor is finer than whole counts; it stays as long as the string is the one it stands for.
    if (counts !== state.shownCounts) state.cursor = null;
    const face = [...view.face].map(letterIndex);
    Object.assign(state, { side, view, face, shownCounts: counts });
    readout.textContent = describe(state);
    // With one letter there is one ratio, and nothing to map.
    stage.hidden = face.length < 2;
    if (stage.hidden) return;
    const { config } = side.prepared.model;
    const length = holdsForEveryLength(config) ? "" : side.trace.size;
    const key = [view.face, view.lens, length].join();
    // Most strings move the mark only; the picture changes with the model, the lens and, for some, the length.
    if (state.key !== key || state.drawn !== side.evaluator) {
      const { evaluator } = side;
      Object.assign(state, { key, drawn: evaluator });
      const paint = (steps) => {
        if (state.key !== key || state.drawn !== evaluator) return;
        state.words = drawMap(picture, { config, evaluator }, { face: view.face, lens: view.lens, length, steps });
        tell();
      };
      // Coarsely while something is dragged, finely when it rests; a deep model's map only then.
      if (evaluator.bounds) paint(COARSE);
      setTimeout(() => paint(evaluator.bounds ? FINE : COARSE), 120);
    }
    root.setAttribute("viewBox", face.length === 3 ? `0 0 ${WIDTH} ${HEIGHT}` : `0 100 ${WIDTH} 170`);
    overlay.replaceChildren(...overlayParts(state));
    tell();
  }

  const tell = () => root.setAttribute("aria-label", `Failure map. ${state.words} ${readout.textContent}`);

  function pick(u) {
    const counts = onFace(state, stringAt(state, u));
    state.shownCounts = counts.join();
    state.cursor = u;
    onPick(counts);
  }

  const sharesAt = (event) => {
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(root.getScreenCTM().inverse());
    return nearest([point.x, point.y], state.face.length);
  };
  stage.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    const follow = (moved) => pick(sharesAt(moved));
    const stop = () => {
      removeEventListener("pointermove", follow);
      removeEventListener("pointerup", stop);
      removeEventListener("pointercancel", stop);
    };
    follow(event);
    addEventListener("pointermove", follow);
    addEventListener("pointerup", stop);
    addEventListener("pointercancel", stop);
  });
  stage.addEventListener("pointermove", (event) => {
    readout.textContent = describe(state, onFace(state, stringAt(state, sharesAt(event))));
  });
  stage.addEventListener("pointerleave", () => (readout.textContent = describe(state)));
  stage.addEventListener("keydown", (event) => {
    const moves = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (!Object.hasOwn(moves, event.key)) return;
    event.preventDefault();
    const step = event.shiftKey ? 20 : 5;
    const [x, y] = toPixels(state.cursor ?? cursorOf(state));
    pick(nearest([x + step * moves[event.key][0], y + step * moves[event.key][1]], state.face.length));
  });
  return { element: h("div", { class: "map tsc-map" }, stage, readout), update };
}

/** The string that a place of the map stands for: of the map's length, or the shortest that is about there. */
function stringAt({ side, view }, u) {
  const ratios = throughLens(u, view.lens);
  const letters = ratios.filter((ratio) => ratio > 0).length;
  if (holdsForEveryLength(side.prepared.model.config)) return shortestString(ratios, view.lens);
  return nearestString(ratios, Math.max(letters, side.trace.size));
}

function cursorOf({ side, face, view }) {
  const counts = face.map((letter) => side.trace.counts[letter]);
  return counts.some((count) => count > 0)
    ? backThroughLens(normalised(counts), view.lens)
    : face.map(() => 1 / face.length);
}

/** Numbers per letter of the face as a full count vector. */
function onFace({ side, face }, numbers) {
  const full = new Array(side.trace.counts.length).fill(0);
  face.forEach((letter, i) => (full[letter] = numbers[i]));
  return full;
}

/** The frame, the letters' names, and the string's mark. */
function overlayParts(state) {
  const names = [...state.view.face];
  const name = (i, x, y) => svg("text", { x, y, class: "corner", style: `--letter:${tokenColour(names[i])}` }, names[i]);
  const parts = [];
  if (names.length === 3) {
    parts.push(svg("polygon", { points: CORNERS.map((corner) => corner.join()).join(" "), class: "rim frame" }));
    CORNERS.forEach((corner, i) => {
      const [x, y] = discOf(corner);
      parts.push(name(i, x + (x - corner[0]) * 0.95, y + (y - corner[1]) * 0.95));
    });
  } else {
    const [width, height] = [LINE.right - LINE.left, LINE.bottom - LINE.top];
    parts.push(svg("rect", { x: LINE.left, y: LINE.top, width, height, class: "rim frame" }));
    LINE_ENDS.forEach((x, i) => parts.push(name(i, x, LINE.top - 2)));
  }
  if (isElsewhere(state)) return parts;
  const [cx, cy] = markPlace(state.cursor ?? cursorOf(state));
  for (const [r, name] of [
    [8, "you-halo"],
    [8, "you-ring"],
    [2.5, "you-dot"],
  ])
    parts.push(svg("circle", { cx, cy, r, class: name }));
  return parts;
}

const isElsewhere = ({ side, face }) => side.trace.counts.some((count, letter) => count > 0 && !face.includes(letter));

/** The string's place on the map in words, or that of the string pointed at. */
function describe(state, pointed = null) {
  const { side, face, view } = state;
  if (!pointed && isElsewhere(state))
    return `The string has letters that are not on this map (${[...view.face].join(", ")}).`;
  const counts = pointed ?? side.trace.counts;
  const shares = normalised(face.map((letter) => counts[letter]));
  const { logit, answer } = side.evaluator.evaluate(counts);
  const where = [...view.face].map((letter, i) => `${letter} ${showPercent(shares[i])}`).join(" · ");
  const told = verdict(answer, labelOf(side.prepared.model.config.task, counts));
  return `${pointed ? writeCounts(counts) : "The string"}: ${where}: logit ${show(logit)}, ${told}`;
}

function verdict(answer, truth) {
  if (answer === null) return "too close to zero to call";
  if (answer === truth) return "right";
  return answer ? "wrong (false positive)" : "wrong (false negative)";
}
