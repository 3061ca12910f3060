// The failure map as a drawing: every mixture of up to three letters, coloured by the answer, hatched where wrong.
//
// The same picture as tsc_interp/playground/mapfigure.py makes, and the only code here that needs a document is
// `drawMap`. A face is a set of letters that occur: the inside, a band, a disc.

import { bandPath, barPath, latticePoints, linePath, polygonPath, regionPath, stretches, trace } from "./contour.mjs";
import { svg } from "./dom.mjs";
import { makeEvaluator } from "./evaluator.mjs";
import { makeModel, prepare } from "./model.mjs";
import { letterIndex } from "./strings.mjs";
import { faceLabel, labelOf, ratiosDecide } from "./task.mjs";
import { CORNERS, discOf, EDGES, LINE_ENDS, LINE_MIDDLE, nearestString, throughLens } from "./triangle.mjs";

export const LEVELS = [-8, -3, -1, 0, 1, 3, 8]; // logits at which the colour changes
export const FINE = 96; // points along an edge
export const COARSE = 32; // for while something moves, and for several layers, which take fifty times as long
const LEAST = 1e-3; // the share of a letter that is there, at the very edge of where it is

/** Whether ratios alone decide answer and label, so that one map holds for every length. */
export const holdsForEveryLength = (config) =>
  !config.attend_cls && !config.adaptive_temperature && config.score_scale === "sqrt_d_head" && ratiosDecide(config.task);

/**
 * What is drawn for each face that has strings: { places, logits, wrong }, at the points of the lattice, of an
 * edge, or at a corner; `wrong` is positive where the answer is. `view` = { face: letter indices, lens, length }.
 */
export function mapFields(evaluator, config, view, steps) {
  const length = holdsForEveryLength(config) ? null : view.length;
  const letters = view.face.map((_, place) => place);
  const subsets = letters.length === 3 ? [letters, ...EDGES] : [letters];
  return [...subsets, ...letters.map((place) => [place])]
    .filter((places) => length === null || places.length <= length)
    .map((places) => faceField(evaluator, config, { ...view, length, steps }, places));
}

function sharesOn(places, steps) {
  if (places.length === 3) return latticePoints(steps).map((shares) => shares.map((share) => Math.max(share, LEAST)));
  if (places.length === 1) return [[1]];
  const along = Array.from({ length: steps + 1 }, (_, i) => Math.min(1 - LEAST, Math.max(LEAST, i / steps)));
  return along.map((share) => [1 - share, share]);
}

function faceField(evaluator, config, { face, lens, length, steps }, places) {
  const counts = new Array(config.n_letters).fill(0);
  const letters = places.map((place) => face[place]);
  const label = faceLabel(config.task, letters);
  const judged = label !== null || config.task.kind !== "parity";
  const own = label === null ? letters.indexOf(letterIndex(config.task.letter)) : -1;
  const logits = [];
  const wrong = [];
  for (const shares of sharesOn(places, steps)) {
    const ratios = throughLens(shares, lens);
    const numbers = length === null ? ratios : nearestString(ratios, length);
    letters.forEach((letter, i) => (counts[letter] = numbers[i]));
    const { logit, answer } = evaluator.evaluate(counts);
    // Where the label changes along a line of its own, the margin to that line counts too.
    const margin = own >= 0 && length === null ? 40 * Math.abs(2 * ratios[own] - 1) : Infinity;
    const size = Math.min(Math.max(Math.abs(logit), 1e-9), margin);
    const bad = judged && answer !== null && answer !== (label ?? labelOf(config.task, counts));
    logits.push(Math.min(1e6, Math.max(-1e6, logit || 0)));
    wrong.push(bad ? size : -size);
  }
  return { places, letters, steps, logits, wrong };
}

/** Path text by class: l0 to l7 from surest no to surest yes, wrong, zero. Discs are drawn apart. */
export function mapLayers(fields, size) {
  const paths = Object.fromEntries([...LEVELS, 0].map((_, level) => [`l${level}`, ""]));
  Object.assign(paths, { wrong: "", zero: "" });
  for (const { places, steps, logits, wrong } of fields) {
    if (places.length === 1) continue;
    const strip = (part) => (size === 2 ? barPath(part) : bandPath(places, part));
    const region = (values) =>
      places.length === 3 ? regionPath(trace(values, steps)) : stretches(values).map(strip).join("");
    paths.l0 += places.length === 3 ? polygonPath(CORNERS) : strip([0, 1]);
    LEVELS.forEach((least, i) => (paths[`l${i + 1}`] += region(logits.map((logit) => logit - least))));
    if (places.length === 3) paths.zero += linePath(trace(logits, steps));
    paths.wrong += region(wrong);
  }
  return paths;
}

const says = (logit) => (logit > 0 ? "yes" : "no");

/** The map in words, face by face. */
export function mapSummary(fields) {
  const told = fields.map(({ letters, logits, wrong }) => {
    const kinds = [...new Set(logits.filter((_, i) => wrong[i] > 0).map(says))].sort();
    const where = kinds.length === 0 ? "right" : wrong.every((x) => x > 0) ? "wrong" : "wrong in part";
    const names = letters.map((letter) => String.fromCharCode(97 + letter)).join(", ");
    return `${names}: ${where}${kinds.length > 0 ? ` (says ${kinds.join(" or ")})` : ""}`;
  });
  return `${told.join("; ")}.`;
}

let drawn = 0;

/**
 * Draws the map into an SVG element and returns it in words. `model` is { config, weights } as the page carries it, or
 * has an `evaluator` ready; options are { face: "abc", lens: 4, length: 1000, steps: 96 }. The element belongs inside
 * .tsc-map.
 */
export function drawMap(element, model, { face = "abc", lens = 4, length = 1000, steps = FINE } = {}) {
  const evaluator = model.evaluator ?? makeEvaluator(prepare(makeModel(model.config, model.weights)));
  const letters = [...face].map(letterIndex);
  const fields = mapFields(evaluator, model.config, { face: letters, lens, length }, steps);
  const id = `map-${++drawn}`;
  const hatch = (name, step) =>
    svg(
      "pattern",
      { id: name, width: step, height: step, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
      svg("path", { class: "hatch", d: `M0 0h${step * 0.45}v${step}h-${step * 0.45}z` }),
    );
  const paths = Object.entries(mapLayers(fields, letters.length)).filter(([, d]) => d !== "");
  element.replaceChildren(
    svg("defs", {}, hatch(id, 90), hatch(`${id}-s`, 9)),
    svg(
      "g",
      { transform: "scale(.1)" },
      paths.map(([name, d]) => svg("path", { class: name, d, fill: name === "wrong" ? `url(#${id})` : null })),
    ),
    ...fields.filter(({ places }) => places.length === 1).flatMap((field) => disc(field, letters.length, id)),
  );
  return mapSummary(fields);
}

function disc({ places: [place], logits, wrong }, size, id) {
  const [cx, cy] = size === 3 ? discOf(CORNERS[place]) : [LINE_ENDS[place], LINE_MIDDLE];
  const level = LEVELS.filter((least) => logits[0] > least).length;
  return [
    svg("circle", { cx, cy, r: 11, class: `l${level} rim` }),
    wrong[0] > 0 ? svg("circle", { cx, cy, r: 11, class: "wrong", fill: `url(#${id}-s)` }) : null,
  ].filter(Boolean);
}
