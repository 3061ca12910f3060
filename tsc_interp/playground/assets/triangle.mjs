// The failure map's geometry: where ratios of letters stand, in pixels of a fixed drawing, and back.
//
// The inside of the triangle holds strings with all three letters, the bands along its edges those with
// two, the discs at its corners those with one. Two letters have a line with a disc at each end. The lens
// magnifies corners: a point with barycentric coordinates u stands for the ratios u^lens (normalised).

import { MAX_REPEAT } from "./strings.mjs";

export const WIDTH = 440;
export const HEIGHT = 400;
export const CORNERS = [
  [62, 344],
  [378, 344],
  [220, 70.3],
]; // an equilateral triangle: left, right, top
export const EDGES = [
  [0, 1],
  [1, 2],
  [2, 0],
];
export const BAND = [7, 21]; // the bands' inner and outer distance from the edge
export const LINE = { left: 40, right: 400, top: 150, bottom: 230 };
export const LINE_ENDS = [LINE.left - 18, LINE.right + 18];
export const LINE_MIDDLE = (LINE.top + LINE.bottom) / 2;

const CENTRE = [0, 1].map((axis) => CORNERS.reduce((sum, corner) => sum + corner[axis] / 3, 0));

export function normalised(numbers) {
  const total = numbers.reduce((sum, x) => sum + x, 0);
  return numbers.map((x) => x / total);
}

export const throughLens = (u, lens) => normalised(u.map((share) => Math.max(0, share) ** lens));
export const backThroughLens = (ratios, lens) => normalised(ratios.map((share) => share ** (1 / lens)));

/** Counts of about these ratios: every letter with a share occurs, `length` in all; null if that is too short. */
export function nearestString(ratios, length) {
  // Whole millionths, so that equal shares stay equal whatever the rounding.
  const wanted = ratios.map((ratio) => Math.floor(ratio * length * 1e6 + 0.5) / 1e6);
  const counts = wanted.map((count, i) => (ratios[i] > 0 ? Math.max(1, Math.floor(count)) : 0));
  const missing = () => length - counts.reduce((sum, count) => sum + count, 0);
  if (counts.filter((count) => count > 0).length > length) return null;
  const highest = (numbers) => numbers.indexOf(Math.max(...numbers));
  // The letter that is furthest below what it should have gets one more; letters raised to one are paid for
  // by the most frequent one.
  while (missing() > 0) counts[highest(wanted.map((count, i) => (ratios[i] > 0 ? count - counts[i] : -Infinity)))]++;
  counts[highest(counts)] += missing();
  return counts;
}

/** The shortest string that stands within `tolerance` units of where these ratios are on the map. */
export function shortestString(ratios, lens, tolerance = 4) {
  const [x, y] = toPixels(backThroughLens(ratios, lens));
  const fewest = ratios.filter((ratio) => ratio > 0).length;
  // Beyond some hundred letters lengths are tried in steps of a thousandth.
  for (let length = fewest; length < MAX_REPEAT; length = Math.max(length + 1, Math.floor(length * 1.001))) {
    const counts = nearestString(ratios, length);
    const [px, py] = toPixels(backThroughLens(normalised(counts), lens));
    if (Math.hypot(px - x, py - y) <= tolerance) return counts;
  }
  return nearestString(ratios, MAX_REPEAT);
}

export function barycentric(x, y) {
  const [[ax, ay], [bx, by], [cx, cy]] = CORNERS;
  const area = (bx - ax) * (cy - ay) - (cx - ax) * (by - ay);
  const b = ((x - ax) * (cy - ay) - (cx - ax) * (y - ay)) / area;
  const c = ((bx - ax) * (y - ay) - (x - ax) * (by - ay)) / area;
  return [1 - b - c, b, c];
}

/** A point of the triangle, or of the line when there are two letters. */
export function toPixels(u) {
  if (u.length === 2) return [LINE.left + (LINE.right - LINE.left) * u[1], LINE_MIDDLE];
  return [0, 1].map((axis) => u.reduce((sum, share, i) => sum + share * CORNERS[i][axis], 0));
}

/** The shares at a pixel; beyond an edge, those of the edge's point nearest to it. */
export function nearest([x, y], size) {
  if (size === 2) {
    const share = Math.min(1, Math.max(0, (x - LINE.left) / (LINE.right - LINE.left)));
    return [1 - share, share];
  }
  const u = barycentric(x, y);
  if (u.every((share) => share > 0)) return u;
  const candidates = EDGES.map(([i, j]) => {
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

/** The unit vector that leads out of the triangle across an edge. */
export function outwards(i, j) {
  const [p, q, other] = [CORNERS[i], CORNERS[j], CORNERS[3 - i - j]];
  const edge = Math.hypot(q[0] - p[0], q[1] - p[1]);
  const normal = [(q[1] - p[1]) / edge, -(q[0] - p[0]) / edge];
  const inward = normal[0] * (other[0] - p[0]) + normal[1] * (other[1] - p[1]) > 0;
  return inward ? normal.map((c) => -c) : normal;
}

/** The middle of a corner's disc. */
export function discOf([x, y]) {
  const [dx, dy] = [x - CENTRE[0], y - CENTRE[1]];
  const size = Math.hypot(dx, dy);
  return [x + (dx / size) * 24, y + (dy / size) * 24];
}

/** Where a string's mark stands: on a band or disc when letters are missing, so never between two labels. */
export function markPlace(u) {
  const present = u.map((_, i) => i).filter((i) => u[i] > 0);
  if (u.length === 2) return present.length === 2 ? toPixels(u) : [LINE_ENDS[present[0]], LINE_MIDDLE];
  if (present.length === 1) return discOf(CORNERS[present[0]]);
  const [x, y] = toPixels(u);
  if (present.length === 3) return [x, y];
  const out = outwards(...present);
  const middle = (BAND[0] + BAND[1]) / 2;
  return [x + out[0] * middle, y + out[1] * middle];
}
