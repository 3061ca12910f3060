// Lines around regions of the failure map, as the text of SVG paths in whole tenths of a unit.
//
// The same lines as in tsc_interp/playground/contours.py. The model is asked at the points of a triangular
// lattice, so many `steps` along an edge; between them values are taken as linear.

import { BAND, CORNERS, LINE, outwards } from "./triangle.mjs";

/** The lattice's points: shares of the three corners, in the order of their values. */
export function latticePoints(steps) {
  const points = [];
  for (let i = 0; i <= steps; i++)
    for (let j = 0; i + j <= steps; j++) points.push([i, j, steps - i - j].map((step) => step / steps));
  return points;
}

/**
 * Closed lines around where the values are positive, as lists of [x, y, on the triangle's edge]. In every
 * small triangle with both kinds of corners the line goes from the side where one leaves the region, walking
 * round, to the side where one enters it; the neighbour goes on from there.
 */
export function trace(values, steps) {
  const width = steps + 3; // with a ring of points outside
  const grid = new Float64Array(width * width).fill(NaN);
  let next = 0;
  for (let i = 0; i <= steps; i++)
    for (let j = 0; i + j <= steps; j++) grid[(i + 1) * width + j + 1] = values[next++];
  const onwards = new Map();
  const side = (inner, outer) => inner * grid.length + outer;
  const visit = (a, b, c) => {
    const [first, second, third] = [grid[a] > 0, grid[b] > 0, grid[c] > 0];
    if (first === second && second === third) return;
    // The corner that is alone is left behind, or come to, on both of its sides.
    if (second === third) onwards.set(...(first ? [side(a, b), side(a, c)] : [side(c, a), side(b, a)]));
    else if (first === third) onwards.set(...(second ? [side(b, c), side(b, a)] : [side(a, b), side(c, b)]));
    else onwards.set(...(third ? [side(c, a), side(c, b)] : [side(b, c), side(a, c)]));
  };
  for (let i = 0; i < width - 1; i++)
    for (let j = 0; i + j < width && j < width - 1; j++) visit(i * width + j, (i + 1) * width + j, i * width + j + 1);
  for (let i = 0; i < width - 1; i++)
    for (let j = 0; i + j < width - 1; j++) visit((i + 1) * width + j, (i + 1) * width + j + 1, i * width + j + 1);
  const loops = [];
  for (const start of onwards.keys()) {
    const loop = [];
    for (let at = start; onwards.has(at); ) {
      loop.push(crossing(grid, steps, Math.floor(at / grid.length), at % grid.length));
      const after = onwards.get(at);
      onwards.delete(at);
      at = after;
    }
    if (loop.length > 0) loops.push(loop);
  }
  return loops;
}

/** Where the value is zero between two points; at the triangle's own edge, the inner point. */
function crossing(grid, steps, inner, outer) {
  const border = Number.isNaN(grid[outer]);
  const share = border ? 0 : grid[inner] / (grid[inner] - grid[outer]);
  const [[x1, y1], [x2, y2]] = [inner, outer].map((place) => {
    const [left, right] = [Math.floor(place / (steps + 3)) - 1, (place % (steps + 3)) - 1];
    const shares = [left, right, steps - left - right].map((step) => step / steps);
    return [0, 1].map((axis) => shares.reduce((sum, part, i) => sum + part * CORNERS[i][axis], 0));
  });
  return [x1 + share * (x2 - x1), y1 + share * (y2 - y1), border];
}

/** Where along an edge the values at its points are positive: [from, to] between 0 and 1. */
export function stretches(values) {
  const last = values.length - 1;
  const found = [];
  values.forEach((value, i) => {
    if (!(value > 0)) return;
    const before = i > 0 && !(values[i - 1] > 0) ? value / (value - values[i - 1]) : 0;
    const after = i < last && !(values[i + 1] > 0) ? value / (value - values[i + 1]) : 0;
    if (i > 0 && values[i - 1] > 0) found.at(-1)[1] = (i + after) / last;
    else found.push([(i - before) / last, (i + after) / last]);
  });
  return found;
}

export const regionPath = (loops) =>
  loops
    .filter((loop) => loop.length > 2)
    .map((loop) => `${walk(thinned(loop))}z`)
    .join("");

/** The lines without the parts that run along the triangle's edge. */
export function linePath(loops) {
  const pieces = [];
  for (const loop of loops.map(thinned)) {
    let piece = [];
    for (const point of [...loop, loop[0]]) {
      if (piece.at(-1)?.[2] && point[2]) {
        pieces.push(piece);
        piece = [];
      }
      piece.push(point);
    }
    pieces.push(piece);
  }
  return pieces
    .filter((piece) => piece.length > 1)
    .map(walk)
    .join("");
}

export const polygonPath = (corners) => `${walk(corners)}z`;

/** The part of a band between two fractions of its edge. */
export function bandPath([i, j], [start, end]) {
  const out = outwards(i, j);
  const at = (along, away) =>
    [0, 1].map((axis) => CORNERS[i][axis] + (CORNERS[j][axis] - CORNERS[i][axis]) * along + out[axis] * away);
  return polygonPath([at(start, BAND[0]), at(end, BAND[0]), at(end, BAND[1]), at(start, BAND[1])]);
}

/** The part of the two letters' line between two fractions of it. */
export function barPath([start, end]) {
  const [x1, x2] = [start, end].map((along) => LINE.left + (LINE.right - LINE.left) * along);
  return polygonPath([
    [x1, LINE.top],
    [x2, LINE.top],
    [x2, LINE.bottom],
    [x1, LINE.bottom],
  ]);
}

/** Without points that lie on the line between the last one kept and the next one. */
function thinned(loop) {
  if (loop.length < 2) return loop;
  const kept = [loop[0]];
  for (let i = 1; i < loop.length - 1; i++) {
    const [last, point, after] = [kept.at(-1), loop[i], loop[i + 1]];
    const [ax, ay] = [after[0] - last[0], after[1] - last[1]];
    const away = Math.abs(ax * (point[1] - last[1]) - ay * (point[0] - last[0]));
    const length = Math.hypot(ax, ay);
    const turns = point[2] !== last[2] || point[2] !== after[2];
    if (turns || length === 0 || away > 0.12 * length) kept.push(point);
  }
  return [...kept, loop.at(-1)];
}

function walk(points) {
  const whole = points.map(([x, y]) => [Math.floor(10 * x + 0.5), Math.floor(10 * y + 0.5)]);
  const moves = whole
    .slice(1)
    .map(([x, y], i) => [x - whole[i][0], y - whole[i][1]])
    .filter(([dx, dy]) => dx !== 0 || dy !== 0);
  return `M${whole[0].join(" ")}l${moves.map((move) => move.join(" ")).join(" ")}`.replaceAll(" -", "-");
}
