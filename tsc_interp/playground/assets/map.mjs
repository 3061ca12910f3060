// The failure map: all ratios of up to three letters at once, coloured by the logit, with what is wrong hatched.
//
// The inside of the triangle holds strings with all three letters, the bands along its edges those with
// two, the discs at its corners those with one. The lens magnifies the corners: a point with
// barycentric coordinates u stands for the ratios u^lens (normalised).

import { h, pageColour, svg, tokenColour } from "./dom.mjs";
import { drawing } from "./figures.mjs";
import { show, showPercent } from "./maths.mjs";
import { hasRatioLabels, labelOf } from "./task.mjs";

const WIDTH = 440;
const HEIGHT = 400;
const CORNERS = [[62, 344], [378, 344], [220, 70.3]]; // an equilateral triangle: left, right, top
const BAND = [7, 21]; // the bands' inner and outer distance from the edge
const LOGIT_SCALE = 4;

/** Whether a model's answer depends on ratios alone, so that the map holds for every length. */
export const isScaleFree = (config) => !config.attend_cls && config.score_scale === "sqrt_d_head";

export function barycentric([x, y]) {
  const [[ax, ay], [bx, by], [cx, cy]] = CORNERS;
  const area = (bx - ax) * (cy - ay) - (cx - ax) * (by - ay);
  const b = ((x - ax) * (cy - ay) - (cx - ax) * (y - ay)) / area;
  const c = ((bx - ax) * (y - ay) - (x - ax) * (by - ay)) / area;
  return [1 - b - c, b, c];
}

const toPixels = (u) => [0, 1].map((axis) => u.reduce((sum, share, i) => sum + share * CORNERS[i][axis], 0));
const normalised = (numbers) => {
  const total = numbers.reduce((sum, x) => sum + x, 0);
  return numbers.map((x) => x / total);
};
export const throughLens = (u, lens) => normalised(u.map((share) => Math.max(0, share) ** lens));
export const backThroughLens = (ratios, lens) => normalised(ratios.map((share) => share ** (1 / lens)));

/** Whole counts with about these ratios: as short as the string is now, or as the smallest share needs. */
export function countsForRatios(ratios, size) {
  const smallest = Math.min(...ratios.filter((share) => share > 0));
  const total = Math.min(1e6, Math.max(size, Math.ceil(1 / smallest)));
  return ratios.map((share) => (share > 0 ? Math.max(1, Math.round(share * total)) : 0));
}

/** One map: { element, update(side, view) }. `onPick(counts)` is called with full count vectors. */
export function failureMap(onPick) {
  const canvas = h("canvas", { width: WIDTH, height: HEIGHT, "aria-hidden": "true" });
  const overlay = drawing("failure-map", WIDTH, HEIGHT, "Failure map");
  const readout = h("p", { class: "note readout", "aria-live": "polite" });
  // With one letter there is one ratio, and nothing to map.
  const stageElement = h("div", { class: "map-stage", tabindex: 0, role: "application", "aria-label": "Failure map. Arrow keys move the string's ratios." }, canvas, overlay);
  const element = h("div", { class: "map" }, stageElement, readout);
  const state = { side: null, view: null, face: [], cursor: null, job: 0, shownCounts: "" };

  function update(side, view) {
    state.side = side;
    state.view = view;
    state.face = [...view.face].map((letter) => letter.charCodeAt(0) - 97);
    const counts = side.trace.counts.join();
    if (counts !== state.shownCounts) state.cursor = null;
    state.shownCounts = counts;
    stageElement.hidden = state.face.length < 2;
    readout.textContent = describe(state);
    if (stageElement.hidden) return;
    drawOverlay(overlay, state);
    paintSoon(canvas, state);
  }

  const locate = (event) => {
    const box = overlay.getBoundingClientRect();
    return [((event.clientX - box.left) / box.width) * WIDTH, ((event.clientY - box.top) / box.height) * HEIGHT];
  };
  const pick = (u) => {
    const ratios = throughLens(u, state.view.lens);
    const counts = countsOnFace(state, countsForRatios(ratios, state.side.trace.size));
    state.shownCounts = counts.join(); // keep the cursor: rounding to whole counts must not pull it back
    state.cursor = u;
    onPick(counts);
  };
  stageElement.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    const follow = (moved) => pick(nearest(locate(moved), state.face.length));
    follow(event);
    const stop = () => {
      removeEventListener("pointermove", follow);
      removeEventListener("pointerup", stop);
      removeEventListener("pointercancel", stop);
    };
    addEventListener("pointermove", follow);
    addEventListener("pointerup", stop);
    addEventListener("pointercancel", stop);
  });
  stageElement.addEventListener("pointermove", (event) => {
    const u = nearest(locate(event), state.face.length);
    readout.textContent = describe(state, throughLens(u, state.view.lens));
  });
  stageElement.addEventListener("pointerleave", () => (readout.textContent = describe(state)));
  stageElement.addEventListener("keydown", (event) => {
    const moves = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (!(event.key in moves)) return;
    event.preventDefault();
    const step = event.shiftKey ? 20 : 5;
    const [x, y] = placeOf(state.cursor ?? cursorOf(state), state.face.length);
    pick(nearest([x + step * moves[event.key][0], y + step * moves[event.key][1]], state.face.length));
  });
  return { element, update, canvas, overlay };
}

// -- geometry --------------------------------------------------------------------------------------

const LINE = [40, 400, 150, 230]; // the two-letter map: left, right, top, bottom

const placeOf = (u, size) => (size === 3 ? toPixels(u) : [LINE[0] + (LINE[1] - LINE[0]) * u[1], (LINE[2] + LINE[3]) / 2]);

/** The shares at a pixel; beyond an edge, the point of the edge nearest to it. */
export function nearest([x, y], size) {
  if (size < 3) {
    const share = Math.min(1, Math.max(0, (x - LINE[0]) / (LINE[1] - LINE[0])));
    return [1 - share, share];
  }
  const u = barycentric([x, y]);
  if (u.every((share) => share > 0)) return u;
  const candidates = [[0, 1], [1, 2], [2, 0]].map(([i, j]) => {
    const [p, q] = [CORNERS[i], CORNERS[j]];
    const along = ((x - p[0]) * (q[0] - p[0]) + (y - p[1]) * (q[1] - p[1])) / ((q[0] - p[0]) ** 2 + (q[1] - p[1]) ** 2);
    const share = Math.min(1, Math.max(0, along));
    const point = [0, 0, 0];
    point[i] = 1 - share;
    point[j] = share;
    const [px, py] = toPixels(point);
    return { point, distance: Math.hypot(px - x, py - y) };
  });
  return candidates.sort((one, two) => one.distance - two.distance)[0].point;
}

function cursorOf({ side, face, view }) {
  const counts = face.map((letter) => side.trace.counts[letter]);
  return counts.some((count) => count > 0) ? backThroughLens(normalised(counts), view.lens) : face.map(() => 1 / face.length);
}

function countsOnFace({ side, face }, counts) {
  const full = new Array(side.trace.counts.length).fill(0);
  face.forEach((letter, i) => (full[letter] = counts[i]));
  return full;
}

// -- painting --------------------------------------------------------------------------------------

/** Coarse at once, so that sliders feel direct; then fine, a few rows at a time. */
function paintSoon(canvas, state) {
  const job = ++state.job;
  const painter = makePainter(state);
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.clearRect(0, 0, WIDTH, HEIGHT);
  if (state.face.length === 3) paintTriangle(context, painter, 5, 0, HEIGHT);
  paintEdges(context, painter, state.face.length);
  if (state.face.length !== 3) return;
  let row = 0;
  const refine = () => {
    if (job !== state.job) return;
    const until = performance.now() + 10;
    while (row < HEIGHT && performance.now() < until) {
      paintTriangle(context, painter, 1, row, Math.min(HEIGHT, row + 4));
      row += 4;
    }
    if (row < HEIGHT) setTimeout(refine);
    else canvas.dataset.finished = String(job);
  };
  setTimeout(refine, 60);
}

/** Ratios on the face to { logit, wrong }, and to a colour. */
function makePainter({ side, face, view }) {
  const { config } = side.prepared.model;
  const size = side.trace.size;
  const judged = hasRatioLabels(config.task);
  const full = new Array(config.n_letters).fill(0);
  const colours = ["negative", "neutral", "positive", "wrong"].map((name) => hexToRgb(pageColour(`map-${name}`)));
  const at = (ratios) => {
    full.fill(0);
    face.forEach((letter, i) => (full[letter] = ratios[i] * size));
    const logit = side.evaluator.logit(full);
    return { logit, wrong: judged && logit > 0 !== labelOf(config.task, full) };
  };
  const colour = ({ logit, wrong }, x, y) => {
    const share = Math.abs(logit) / (Math.abs(logit) + LOGIT_SCALE);
    const base = mix(colours[1], logit > 0 ? colours[2] : colours[0], 0.15 + 0.85 * share);
    return wrong && (((x + y) % 9) + 9) % 9 < 4 ? mix(base, colours[3], 0.9) : base;
  };
  return { at: (u) => at(throughLens(u, view.lens)), colour };
}

function paintTriangle(context, painter, cell, fromRow, toRow) {
  const image = context.getImageData(0, fromRow, WIDTH, toRow - fromRow);
  for (let y = fromRow; y < toRow; y += cell) {
    for (let x = 0; x < WIDTH; x += cell) {
      const u = barycentric([x + cell / 2, y + cell / 2]);
      if (u[0] <= 0 || u[1] <= 0 || u[2] <= 0) continue;
      const answer = painter.at(u);
      for (let py = y; py < Math.min(toRow, y + cell); py++) {
        for (let px = x; px < x + cell; px++) {
          const [r, g, b] = painter.colour(answer, px, py);
          const offset = 4 * ((py - fromRow) * WIDTH + px);
          image.data[offset] = r;
          image.data[offset + 1] = g;
          image.data[offset + 2] = b;
          image.data[offset + 3] = 255;
        }
      }
    }
  }
  context.putImageData(image, 0, fromRow);
}

/** The bands and discs: strings with fewer letters, whose labels differ from the inside's. */
function paintEdges(context, painter, size) {
  const fill = (answer, x, y) => {
    const [r, g, b] = painter.colour(answer, Math.round(x), Math.round(y));
    context.fillStyle = `rgb(${r},${g},${b})`;
  };
  if (size < 3) return paintLine(context, painter, fill);
  const pieces = 160;
  for (const [i, j] of [[0, 1], [1, 2], [2, 0]]) {
    const [p, q] = [CORNERS[i], CORNERS[j]];
    const edge = Math.hypot(q[0] - p[0], q[1] - p[1]);
    // Outwards: away from the corner that is not on this edge.
    const other = CORNERS[3 - i - j];
    let out = [(q[1] - p[1]) / edge, -(q[0] - p[0]) / edge];
    if (out[0] * (other[0] - p[0]) + out[1] * (other[1] - p[1]) > 0) out = out.map((c) => -c);
    for (let piece = 0; piece < pieces; piece++) {
      const u = [0, 0, 0];
      const share = (piece + 0.5) / pieces;
      u[i] = 1 - share;
      u[j] = share;
      const answer = painter.at(u);
      const corner = (t, d) => [p[0] + (q[0] - p[0]) * t + out[0] * d, p[1] + (q[1] - p[1]) * t + out[1] * d];
      fill(answer, piece * 2, 0);
      context.beginPath();
      const [from, to] = [piece / pieces, (piece + 1.15) / pieces];
      [corner(from, BAND[0]), corner(to, BAND[0]), corner(to, BAND[1]), corner(from, BAND[1])].forEach(([x, y], k) => (k ? context.lineTo(x, y) : context.moveTo(x, y)));
      context.fill();
    }
  }
  CORNERS.forEach((corner, i) => {
    const [x, y] = discOf(corner);
    fill(painter.at([0, 1, 2].map((j) => (i === j ? 1 : 0))), 0, 0);
    context.beginPath();
    context.arc(x, y, 11, 0, 2 * Math.PI);
    context.fill();
  });
}

function paintLine(context, painter, fill) {
  const [left, right, top, bottom] = LINE;
  for (let x = left; x < right; x++) {
    const share = (x + 0.5 - left) / (right - left);
    const answer = painter.at([1 - share, share]);
    for (let y = top; y < bottom; y += 2) {
      fill(answer, x, y);
      context.fillRect(x, y, 1, 2);
    }
  }
  for (const [x, u] of [[left - 18, [1, 0]], [right + 18, [0, 1]]]) {
    fill(painter.at(u), 0, 0);
    context.beginPath();
    context.arc(x, (top + bottom) / 2, 11, 0, 2 * Math.PI);
    context.fill();
  }
}

const CENTRE = [220, 252.8];

function discOf([x, y]) {
  const [dx, dy] = [x - CENTRE[0], y - CENTRE[1]];
  const size = Math.hypot(dx, dy);
  return [x + (dx / size) * 24, y + (dy / size) * 24];
}

const hexToRgb = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
const mix = (one, two, share) => one.map((c, i) => Math.round(c + (two[i] - c) * share));

// -- what stands on top --------------------------------------------------------------------------------

function drawOverlay(overlay, state) {
  const { side, face, view } = state;
  const names = [...view.face];
  overlay.replaceChildren();
  overlay.setAttribute("aria-label", `Failure map over ${names.join(", ")}. ${describe(state)}`);
  if (face.length === 3) {
    overlay.append(svg("polygon", { points: CORNERS.map((corner) => corner.join()).join(" "), class: "outline" }));
    CORNERS.forEach((corner, i) => {
      const [x, y] = discOf(corner);
      overlay.append(svg("circle", { cx: x, cy: y, r: 11, class: "outline" }));
      const [lx, ly] = [x + (x - corner[0]) * 0.95, y + (y - corner[1]) * 0.95];
      overlay.append(svg("text", { x: lx, y: ly, class: "label corner", style: `fill:${tokenColour(names[i])}`, "text-anchor": "middle", "dominant-baseline": "central" }, names[i]));
    });
  } else {
    [LINE[0] - 18, LINE[1] + 18].forEach((x, i) => overlay.append(svg("text", { x, y: LINE[2] - 8, class: "label corner", style: `fill:${tokenColour(names[i])}`, "text-anchor": "middle" }, names[i])));
  }
  if (offFace(state)) return;
  const u = state.cursor ?? cursorOf(state);
  const [x, y] = markPlace(u, face.length);
  overlay.append(svg("circle", { cx: x, cy: y, r: 8, class: "you-ring" }), svg("circle", { cx: x, cy: y, r: 2.5, class: "you-dot" }));
}

/** The string's mark: on the band or disc when letters are missing, so that it is never between two labels. */
function markPlace(u, size) {
  if (size !== 3) return u.some((share) => share === 0) ? [u[0] === 0 ? LINE[1] + 18 : LINE[0] - 18, (LINE[2] + LINE[3]) / 2] : placeOf(u, size);
  const missing = [0, 1, 2].filter((i) => u[i] === 0);
  if (missing.length === 2) return discOf(CORNERS[[0, 1, 2].find((i) => u[i] > 0)]);
  const [x, y] = toPixels(u);
  if (missing.length === 0) return [x, y];
  const away = CORNERS[missing[0]];
  const [p, q] = [0, 1, 2].filter((i) => i !== missing[0]).map((i) => CORNERS[i]);
  const edge = Math.hypot(q[0] - p[0], q[1] - p[1]);
  let out = [(q[1] - p[1]) / edge, -(q[0] - p[0]) / edge];
  if (out[0] * (away[0] - p[0]) + out[1] * (away[1] - p[1]) > 0) out = out.map((c) => -c);
  return [x + (out[0] * (BAND[0] + BAND[1])) / 2, y + (out[1] * (BAND[0] + BAND[1])) / 2];
}

const offFace = ({ side, face }) => side.trace.counts.some((count, letter) => count > 0 && !face.includes(letter));

function describe(state, ratios = null) {
  const { side, face, view } = state;
  if (ratios === null && offFace(state)) return `The string has letters that are not on this map (${[...view.face].join(", ")}).`;
  const counts = face.map((letter) => side.trace.counts[letter]);
  const shares = ratios ?? normalised(counts);
  const { config } = side.prepared.model;
  const full = countsOnFace(state, shares.map((share) => share * side.trace.size));
  const logit = side.evaluator.logit(full);
  const where = [...view.face].map((letter, i) => `${letter} ${showPercent(shares[i])}`).join(" · ");
  const told = hasRatioLabels(config.task) ? verdict(logit > 0, labelOf(config.task, full)) : `says ${logit > 0 ? 1 : 0}`;
  return `${ratios ? "Here" : "The string"}: ${where}: logit ${show(logit)}, ${told}`;
}

function verdict(says, truth) {
  if (says === truth) return "right";
  return says ? "wrong (false positive)" : "wrong (false negative)";
}
