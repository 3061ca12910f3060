// The failure map's pixels: coloured by the logit, hatched where the answer is wrong.

import { pageColour } from "./dom.mjs";
import { hasRatioLabels, labelOf } from "./task.mjs";
import {
  BAND, barycentric, CORNERS, discOf, EDGES, HEIGHT, LINE, LINE_ENDS, LINE_MIDDLE, outwards, throughLens, WIDTH,
} from "./triangle.mjs";

const LOGIT_SCALE = 4; // at this logit a colour is half way to its full strength
const PIECES = 160; // of each edge's band

/** Paints coarsely at once, so that sliders feel direct, and then finely, a few rows at a time. */
export function paintSoon(canvas, state) {
  const job = ++state.job;
  const painter = makePainter(state);
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.clearRect(0, 0, WIDTH, HEIGHT);
  if (state.face.length === 2) return paintLine(context, painter);
  paintInside(context, painter, 5, 0, HEIGHT);
  paintEdges(context, painter);
  let row = 0;
  const refine = () => {
    if (job !== state.job) return;
    const until = performance.now() + 10;
    while (row < HEIGHT && performance.now() < until) {
      paintInside(context, painter, 1, row, Math.min(HEIGHT, row + 4));
      row += 4;
    }
    if (row < HEIGHT) setTimeout(refine);
  };
  setTimeout(refine, 60);
}

/** { at: shares on the map to { logit, wrong }, colour: that and a pixel to red, green and blue }. */
function makePainter({ side, face, view }) {
  const { config } = side.prepared.model;
  const size = side.trace.size;
  const judged = hasRatioLabels(config.task);
  const counts = new Array(config.n_letters).fill(0);
  const [negative, neutral, positive, marked] = ["negative", "neutral", "positive", "wrong"].map((name) => hexToRgb(pageColour(`map-${name}`)));
  const at = (u) => {
    const ratios = throughLens(u, view.lens);
    face.forEach((letter, i) => (counts[letter] = ratios[i] * size));
    const logit = side.evaluator.logit(counts);
    return { logit, wrong: judged && logit > 0 !== labelOf(config.task, counts) };
  };
  const colour = ({ logit, wrong }, x, y) => {
    const share = Math.abs(logit) / (Math.abs(logit) + LOGIT_SCALE);
    const base = mix(neutral, logit > 0 ? positive : negative, 0.15 + 0.85 * share);
    return wrong && (x + y) % 9 < 4 ? mix(base, marked, 0.9) : base;
  };
  return { at, colour };
}

const hexToRgb = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
const mix = (one, two, share) => one.map((c, i) => Math.round(c + (two[i] - c) * share));

function paintInside(context, painter, cell, fromRow, toRow) {
  const image = context.getImageData(0, fromRow, WIDTH, toRow - fromRow);
  for (let y = fromRow; y < toRow; y += cell) {
    for (let x = 0; x < WIDTH; x += cell) {
      const u = barycentric(x + cell / 2, y + cell / 2);
      if (u[0] <= 0 || u[1] <= 0 || u[2] <= 0) continue;
      const answer = painter.at(u);
      for (let py = y; py < Math.min(toRow, y + cell); py++) {
        for (let px = x; px < x + cell; px++) {
          image.data.set([...painter.colour(answer, px, py), 255], 4 * ((py - fromRow) * WIDTH + px));
        }
      }
    }
  }
  context.putImageData(image, 0, fromRow);
}

function fillWith(context, painter, answer, x, y) {
  context.fillStyle = `rgb(${painter.colour(answer, x, y).join()})`;
}

/** The bands and discs: strings with fewer letters, whose labels differ from the inside's. */
function paintEdges(context, painter) {
  for (const [i, j] of EDGES) {
    const [p, q] = [CORNERS[i], CORNERS[j]];
    const out = outwards(i, j);
    const corner = (along, away) => [0, 1].map((axis) => p[axis] + (q[axis] - p[axis]) * along + out[axis] * away);
    for (let piece = 0; piece < PIECES; piece++) {
      const u = [0, 0, 0];
      u[j] = (piece + 0.5) / PIECES;
      u[i] = 1 - u[j];
      fillWith(context, painter, painter.at(u), piece * 2, 0);
      const [from, to] = [piece / PIECES, (piece + 1.15) / PIECES];
      context.beginPath();
      for (const [along, away] of [[from, BAND[0]], [to, BAND[0]], [to, BAND[1]], [from, BAND[1]]]) context.lineTo(...corner(along, away));
      context.fill();
    }
  }
  CORNERS.forEach((corner, i) => paintDisc(context, painter, ...discOf(corner), [0, 1, 2].map((j) => (i === j ? 1 : 0))));
}

function paintDisc(context, painter, x, y, u) {
  fillWith(context, painter, painter.at(u), 0, 0);
  context.beginPath();
  context.arc(x, y, 11, 0, 2 * Math.PI);
  context.fill();
}

function paintLine(context, painter) {
  for (let x = LINE.left; x < LINE.right; x++) {
    const share = (x + 0.5 - LINE.left) / (LINE.right - LINE.left);
    const answer = painter.at([1 - share, share]);
    for (let y = LINE.top; y < LINE.bottom; y++) {
      fillWith(context, painter, answer, x, y);
      context.fillRect(x, y, 1, 1);
    }
  }
  LINE_ENDS.forEach((x, i) => paintDisc(context, painter, x, LINE_MIDDLE, i === 0 ? [1, 0] : [0, 1]));
}
