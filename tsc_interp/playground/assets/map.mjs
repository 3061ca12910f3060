// The failure map: all ratios of up to three letters at once, with the string on it, to point at and to move.

import { h, svg, tokenColour } from "./dom.mjs";
import { drawing } from "./figures.mjs";
import { show, showPercent } from "./maths.mjs";
import { paintSoon } from "./paint.mjs";
import { hasRatioLabels, labelOf } from "./task.mjs";
import {
  backThroughLens,
  CORNERS,
  countsForRatios,
  discOf,
  HEIGHT,
  LINE,
  LINE_ENDS,
  markPlace,
  nearest,
  normalised,
  throughLens,
  toPixels,
  WIDTH,
} from "./triangle.mjs";

/** Whether a model's answer depends on ratios alone, so that the map holds for every length. */
export const isScaleFree = (config) => !config.attend_cls && config.score_scale === "sqrt_d_head";

/** One map: { element, update(side, view) }. `onPick(counts)` is called with full count vectors. */
export function failureMap(onPick) {
  const canvas = h("canvas", { width: WIDTH, height: HEIGHT, "aria-hidden": "true" });
  const overlay = drawing("failure-map", WIDTH, HEIGHT, "Failure map");
  const readout = h("p", { class: "note readout", "aria-live": "polite" });
  const stage = h(
    "div",
    {
      class: "map-stage",
      tabindex: 0,
      role: "application",
      "aria-label": "Failure map. Arrow keys move the string's ratios.",
    },
    canvas,
    overlay,
  );
  const state = { side: null, view: null, face: [], cursor: null, job: 0, shownCounts: "" };

  function update(side, view) {
    const counts = side.trace.counts.join();
    // The cursor is finer than whole counts; it stays as long as the string is the one it stands for.
    if (counts !== state.shownCounts) state.cursor = null;
    const face = [...view.face].map((letter) => letter.charCodeAt(0) - 97);
    Object.assign(state, { side, view, face, shownCounts: counts });
    readout.textContent = describe(state);
    // With one letter there is one ratio, and nothing to map.
    stage.hidden = face.length < 2;
    if (stage.hidden) return;
    drawOverlay(overlay, state);
    paintSoon(canvas, state);
  }

  function pick(u) {
    const counts = onFace(state, countsForRatios(throughLens(u, state.view.lens), state.side.trace.size));
    state.shownCounts = counts.join();
    state.cursor = u;
    onPick(counts);
  }

  const sharesAt = (event) => {
    const box = overlay.getBoundingClientRect();
    const place = [((event.clientX - box.left) / box.width) * WIDTH, ((event.clientY - box.top) / box.height) * HEIGHT];
    return nearest(place, state.face.length);
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
    readout.textContent = describe(state, throughLens(sharesAt(event), state.view.lens));
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
  return { element: h("div", { class: "map" }, stage, readout), update };
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

function drawOverlay(overlay, state) {
  const names = [...state.view.face];
  overlay.replaceChildren();
  overlay.setAttribute("aria-label", `Failure map over ${names.join(", ")}. ${describe(state)}`);
  const cornerName = (name, x, y) =>
    svg(
      "text",
      {
        x,
        y,
        class: "label corner",
        style: `fill:color-mix(in srgb, ${tokenColour(name)} 75%, var(--ink))`,
        "text-anchor": "middle",
        "dominant-baseline": "central",
      },
      name,
    );
  if (names.length === 3) {
    overlay.append(svg("polygon", { points: CORNERS.map((corner) => corner.join()).join(" "), class: "outline" }));
    CORNERS.forEach((corner, i) => {
      const [x, y] = discOf(corner);
      overlay.append(
        svg("circle", { cx: x, cy: y, r: 11, class: "outline" }),
        cornerName(names[i], x + (x - corner[0]) * 0.95, y + (y - corner[1]) * 0.95),
      );
    });
  } else {
    overlay.append(
      svg("rect", {
        x: LINE.left,
        y: LINE.top,
        width: LINE.right - LINE.left,
        height: LINE.bottom - LINE.top,
        class: "outline",
      }),
    );
    LINE_ENDS.forEach((x, i) => overlay.append(cornerName(names[i], x, LINE.top - 2)));
  }
  if (isElsewhere(state)) return;
  const [x, y] = markPlace(state.cursor ?? cursorOf(state));
  overlay.append(
    svg("circle", { cx: x, cy: y, r: 8, class: "you-halo" }),
    svg("circle", { cx: x, cy: y, r: 8, class: "you-ring" }),
    svg("circle", { cx: x, cy: y, r: 2.5, class: "you-dot" }),
  );
}

const isElsewhere = ({ side, face }) => side.trace.counts.some((count, letter) => count > 0 && !face.includes(letter));

/** The string's place on the map in words, or that of the ratios pointed at. */
function describe(state, ratios = null) {
  const { side, face, view } = state;
  if (ratios === null && isElsewhere(state))
    return `The string has letters that are not on this map (${[...view.face].join(", ")}).`;
  const { task } = side.prepared.model.config;
  const shares = ratios ?? normalised(face.map((letter) => side.trace.counts[letter]));
  const counts = ratios
    ? onFace(
        state,
        shares.map((share) => share * side.trace.size),
      )
    : side.trace.counts;
  const logit = side.evaluator.logit(counts);
  const where = [...view.face].map((letter, i) => `${letter} ${showPercent(shares[i])}`).join(" · ");
  const told =
    ratios === null || hasRatioLabels(task)
      ? verdict(logit > 0, labelOf(task, counts))
      : `says ${logit > 0 ? "yes" : "no"}`;
  return `${ratios ? "Here" : "The string"}: ${where}: logit ${show(logit)}, ${told}`;
}

function verdict(says, truth) {
  if (says === truth) return "right";
  return says ? "wrong (false positive)" : "wrong (false negative)";
}
