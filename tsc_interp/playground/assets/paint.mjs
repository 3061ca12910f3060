// The failure map's pixels: coloured by the logit, hatched where the answer is wrong.

import { pageColour } from "./dom.mjs";
import { hasRatioLabels, labelOf } from "./task.mjs";
import {
  BAND,
  barycentric,
  CORNERS,
  discOf,
  EDGES,
  HEIGHT,
  insideOfRow,
  LINE,
  LINE_ENDS,
  LINE_MIDDLE,
  outwards,
  throughLens,
  WIDTH,
} from "./triangle.mjs";

const LOGIT_SCALE = 4; // at this logit a colour is half way to its full strength

/** Paints coarsely at once, so that sliders feel direct, and then finely, a few rows at a time. */
export function paintSoon(canvas, state) {
  const job = ++state.job;
  const painter = makePainter(state);
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.clearRect(0, 0, WIDTH, HEIGHT);
  if (state.face.length === 2) return paintLine(context, painter);
  // Several layers take some fifty times as long as the closed form of one.
  const coarse = state.side.evaluator.bounds ? 5 : 12;
  paintInside(context, painter, coarse, 0, HEIGHT);
  paintEdges(context, painter, coarse);
  const tasks = [];
  for (let row = 0; row < HEIGHT; row += 4) tasks.push(() => paintInside(context, painter, 1, row, row + 4));
  tasks.push(() => paintEdges(context, painter, 1));
  const refine = () => {
    if (job !== state.job) return;
    const until = performance.now() + 10;
    while (tasks.length > 0 && performance.now() < until) tasks.shift()();
    if (tasks.length > 0) setTimeout(refine);
  };
  setTimeout(refine, 60);
}

/** { at: shares on the map to { plain, striped }, the two colours of the place }; striped is null where all is well. */
function makePainter({ side, face, view }) {
  const { config } = side.prepared.model;
  const size = side.trace.size;
  const judged = hasRatioLabels(config.task);
  const counts = new Array(config.n_letters).fill(0);
  const { negative, neutral, positive, wrong: marked } = mapColours();
  const at = (u) => {
    const ratios = throughLens(u, view.lens);
    face.forEach((letter, i) => (counts[letter] = ratios[i] * size));
    const logit = side.evaluator.logit(counts);
    const share = Math.abs(logit) / (Math.abs(logit) + LOGIT_SCALE);
    const plain = mix(neutral, logit > 0 ? positive : negative, 0.15 + 0.85 * share);
    const wrong = judged && logit > 0 !== labelOf(config.task, counts);
    return { plain, striped: wrong ? mix(plain, marked, 0.9) : null };
  };
  return { at };
}

const colourAt = ({ plain, striped }, x, y) => (striped && (x + y) % 9 < 4 ? striped : plain);

let knownColours = null;

/** The style sheet's colours, asked for again only when light and dark change: asking is slow. */
function mapColours() {
  const theme = `${document.documentElement.dataset.theme} ${matchMedia("(prefers-color-scheme: dark)").matches}`;
  if (knownColours?.theme !== theme) {
    knownColours = { theme };
    for (const name of ["negative", "neutral", "positive", "wrong"])
      knownColours[name] = hexToRgb(pageColour(`map-${name}`));
  }
  return knownColours;
}

const hexToRgb = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
const mix = (one, two, share) => one.map((c, i) => Math.round(c + (two[i] - c) * share));

function paintInside(context, painter, cell, fromRow, toRow) {
  const image = context.getImageData(0, fromRow, WIDTH, toRow - fromRow);
  for (let y = fromRow; y < toRow; y += cell) {
    for (let x = 0; x < WIDTH; x += cell) {
      // A cell at the edge may have its middle outside; it shows the nearest point inside.
      const u = barycentric(x + cell / 2, y + cell / 2).map((share) => Math.max(share, 1e-3));
      let answer = null;
      for (let py = y; py < Math.min(toRow, y + cell); py++) {
        const [left, right] = insideOfRow(py);
        for (let px = Math.max(x, left); px < Math.min(right, x + cell); px++) {
          answer ??= painter.at(u);
          const offset = 4 * ((py - fromRow) * WIDTH + px);
          image.data.set(colourAt(answer, px, py), offset);
          image.data[offset + 3] = 255;
        }
      }
    }
  }
  context.putImageData(image, 0, fromRow);
}

function fillWith(context, answer, x, y) {
  context.fillStyle = `rgb(${colourAt(answer, x, y).join()})`;
}

/** The bands and discs: strings with fewer letters, whose labels differ from the inside's. */
function paintEdges(context, painter, coarse) {
  const pieces = Math.ceil(160 / coarse) * 2;
  for (const [i, j] of EDGES) {
    const [p, q] = [CORNERS[i], CORNERS[j]];
    const out = outwards(i, j);
    const corner = (along, away) => [0, 1].map((axis) => p[axis] + (q[axis] - p[axis]) * along + out[axis] * away);
    for (let piece = 0; piece < pieces; piece++) {
      const u = [0, 0, 0];
      u[j] = (piece + 0.5) / pieces;
      u[i] = 1 - u[j];
      fillWith(context, painter.at(u), piece, 0);
      const [from, to] = [piece / pieces, (piece + 1.15) / pieces];
      context.beginPath();
      for (const [along, away] of [
        [from, BAND[0]],
        [to, BAND[0]],
        [to, BAND[1]],
        [from, BAND[1]],
      ])
        context.lineTo(...corner(along, away));
      context.fill();
    }
  }
  CORNERS.forEach((corner, i) =>
    paintDisc(
      context,
      painter,
      ...discOf(corner),
      [0, 1, 2].map((j) => (i === j ? 1 : 0)),
    ),
  );
}

function paintDisc(context, painter, x, y, u) {
  fillWith(context, painter.at(u), 0, 0);
  context.beginPath();
  context.arc(x, y, 11, 0, 2 * Math.PI);
  context.fill();
}

function paintLine(context, painter) {
  for (let x = LINE.left; x < LINE.right; x++) {
    const share = (x + 0.5 - LINE.left) / (LINE.right - LINE.left);
    const answer = painter.at([1 - share, share]);
    for (let y = LINE.top; y < LINE.bottom; y++) {
      fillWith(context, answer, x, y);
      context.fillRect(x, y, 1, 1);
    }
  }
  LINE_ENDS.forEach((x, i) => paintDisc(context, painter, x, LINE_MIDDLE, i === 0 ? [1, 0] : [0, 1]));
}
