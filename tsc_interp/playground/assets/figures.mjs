// The drawings that are SVG: vectors in a plane, the residual stream's path, bars, curves.

import { svg, tokenColour } from "./dom.mjs";
import { add, clamp, dot, drawingPlane, show, showSigned } from "./maths.mjs";
import { letterIndex } from "./strings.mjs";

/** An empty drawing with a spoken description. `name` is its file name when it is downloaded. */
export function drawing(name, width, height, description) {
  return svg("svg", {
    viewBox: `0 0 ${width} ${height}`,
    class: "drawing",
    role: "img",
    "aria-label": description,
    "data-figure": name,
  });
}

/** Maps numbers to pixels and back: { x, y, fromX, fromY, area }. */
export function axes(area, xRange, yRange) {
  const [left, top, right, bottom] = area;
  const xScale = (right - left) / (xRange[1] - xRange[0]);
  const yScale = (bottom - top) / (yRange[1] - yRange[0]);
  return {
    area,
    x: (value) => left + (value - xRange[0]) * xScale,
    y: (value) => bottom - (value - yRange[0]) * yScale,
    fromX: (pixel) => xRange[0] + (pixel - left) / xScale,
    fromY: (pixel) => yRange[0] + (bottom - pixel) / yScale,
  };
}

/** Ranges that hold all points and, unless told otherwise, the origin, with one scale for both directions. */
export function equalRanges(points, area, withOrigin = true) {
  const [left, top, right, bottom] = area;
  const bounds = [0, 1].map((axis) => {
    const numbers = points.map((point) => point[axis]);
    if (withOrigin) numbers.push(0);
    return [Math.min(...numbers), Math.max(...numbers)];
  });
  const spans = bounds.map(([low, high]) => high - low);
  const perPixel = Math.max(spans[0] / (right - left), spans[1] / (bottom - top), 1e-6) * 1.3;
  return bounds.map(([low, high], axis) => {
    const half = (perPixel * (axis === 0 ? right - left : bottom - top)) / 2;
    return [(low + high) / 2 - half, (low + high) / 2 + half];
  });
}

/** The plane vectors of the residual stream are drawn on: itself when it has two dimensions. */
function residualPlane(vectors, readOut) {
  const size = readOut.length;
  if (size === 2)
    return {
      basis: [
        [1, 0],
        [0, 1],
      ],
      names: ["dimension 0", "dimension 1"],
    };
  const basis = drawingPlane(vectors, readOut);
  return { basis, names: ["along the read-out", size === 1 ? "" : "widest direction across it"] };
}

const project = (basis, vector) => basis.map((axis) => dot(vector, axis));

/** The half of the picture where the logit is positive, and the line where it is zero. */
function decisionParts(scaleTo, readOut) {
  const [left, top, right, bottom] = scaleTo.area;
  const corners = [
    [left, top],
    [right, top],
    [right, bottom],
    [left, bottom],
  ];
  const logitAt = ([x, y]) => scaleTo.fromX(x) * readOut[0] + scaleTo.fromY(y) * readOut[1];
  const side = (sign) => {
    const kept = [];
    corners.forEach((corner, i) => {
      const next = corners[(i + 1) % 4];
      const [here, there] = [sign * logitAt(corner), sign * logitAt(next)];
      if (here >= 0) kept.push(corner);
      if (here * there < 0) kept.push(corner.map((c, axis) => c + ((next[axis] - c) * here) / (here - there)));
    });
    return kept.map((point) => point.map((c) => c.toFixed(1)).join(",")).join(" ");
  };
  // The line between them, where the logit is zero.
  const ends = corners
    .map((corner, i) => [corner, corners[(i + 1) % 4]])
    .filter(([here, there]) => logitAt(here) * logitAt(there) < 0)
    .map(([here, there]) => here.map((c, axis) => c + ((there[axis] - c) * logitAt(here)) / (logitAt(here) - logitAt(there))));
  const [from, to] = ends;
  return [
    svg("polygon", { points: side(1), class: "positive-side" }),
    svg("polygon", { points: side(-1), class: "negative-side" }),
    ends.length === 2 ? svg("line", { x1: from[0], y1: from[1], x2: to[0], y2: to[1], class: "decision" }) : "",
  ];
}

function axisLines(scaleTo) {
  const [left, top, right, bottom] = scaleTo.area;
  const x = clamp(scaleTo.x(0), left, right);
  const y = clamp(scaleTo.y(0), top, bottom);
  return [
    svg("line", { x1: left, x2: right, y1: y, y2: y, class: "axis" }),
    svg("line", { x1: x, x2: x, y1: top, y2: bottom, class: "axis" }),
  ];
}

const MARK_SHAPES = ["circle", "square", "diamond"];

/** A token's mark: its colour and, so that colour is never alone, its shape. */
export function tokenMark(token, x, y, size, attributes = {}) {
  const common = { fill: tokenColour(token), class: "mark", ...attributes };
  const shape = token === "CLS" ? "star" : MARK_SHAPES[Math.max(0, letterIndex(token[0])) % 3];
  if (shape === "circle") return svg("circle", { cx: x, cy: y, r: size, ...common });
  if (shape === "square") {
    return svg("rect", { x: x - size * 0.9, y: y - size * 0.9, width: size * 1.8, height: size * 1.8, ...common });
  }
  const reach = size * 1.3;
  const inner = size * 0.5;
  const points =
    shape === "diamond"
      ? [
          [0, -reach],
          [reach, 0],
          [0, reach],
          [-reach, 0],
        ]
      : [
          [0, -reach],
          [inner, -inner],
          [reach, 0],
          [inner, inner],
          [0, reach],
          [-inner, inner],
          [-reach, 0],
          [-inner, -inner],
        ];
  return svg("polygon", {
    points: points.map(([dx, dy]) => `${(x + dx).toFixed(1)},${(y + dy).toFixed(1)}`).join(" "),
    ...common,
  });
}

export function arrow(from, to, attributes = {}) {
  const [dx, dy] = [to[0] - from[0], to[1] - from[1]];
  const size = Math.hypot(dx, dy);
  const line = svg("line", { x1: from[0], y1: from[1], x2: to[0], y2: to[1], ...attributes });
  if (size < 6) return [line];
  const [ux, uy] = [dx / size, dy / size];
  const head = [
    [0, 0],
    [-7, 3.2],
    [-7, -3.2],
  ].map(
    ([along, across]) =>
      `${(to[0] + along * ux - across * uy).toFixed(1)},${(to[1] + along * uy + across * ux).toFixed(1)}`,
  );
  return [
    line,
    svg("polygon", { points: head.join(" "), class: `${attributes.class ?? ""} arrow-head`, style: attributes.style }),
  ];
}

/** Where each token is embedded, seen from the origin. */
export function embeddingFigure(trace, tokens, listed, width = 300, height = 240) {
  const { basis, names } = residualPlane(trace.embedded, trace.readOut);
  const points = trace.embedded.map((vector) => project(basis, vector));
  const area = [8, 8, width - 8, height - 22];
  const scaleTo = axes(
    area,
    ...equalRanges(
      listed.map((i) => points[i]),
      area,
    ),
  );
  const root = drawing(
    "embeddings",
    width,
    height,
    `Embeddings of ${listed.map((i) => tokens[i]).join(", ")} in the plane of ${names.join(" and ")}.`,
  );
  root.append(...decisionParts(scaleTo, project(basis, trace.readOut)), ...axisLines(scaleTo));
  listed.forEach((i) => {
    const token = tokens[i];
    const [x, y] = [scaleTo.x(points[i][0]), scaleTo.y(points[i][1])];
    const present = i === 0 || trace.counts[i - 1] > 0;
    const group = svg(
      "g",
      { class: present ? "token" : "token absent" },
      arrow([scaleTo.x(0), scaleTo.y(0)], [x, y], {
        class: "vector",
        style: `stroke:${tokenColour(token)};fill:${tokenColour(token)}`,
      }),
      tokenMark(token, x, y, 5),
    );
    root.append(group, outwardLabel(token, x, y, scaleTo.x(0), scaleTo.y(0), present ? "" : "absent"));
  });
  root.append(axisNames(names, area, height));
  return root;
}

function outwardLabel(text, x, y, fromX, fromY, extra) {
  const size = Math.hypot(x - fromX, y - fromY) || 1;
  const [lx, ly] = [x + ((x - fromX) / size) * 14, y + ((y - fromY) / size) * 14];
  return svg(
    "text",
    { x: lx, y: ly, class: `label strong ${extra}`, "text-anchor": "middle", "dominant-baseline": "central" },
    text,
  );
}

function axisNames(names, [left, , right], height) {
  const text = names[1] ? `→ ${names[0]}   ↑ ${names[1]}` : `→ ${names[0]}`;
  return svg("text", { x: (left + right) / 2, y: height - 7, class: "label faint", "text-anchor": "middle" }, text);
}

/** CLS on its way through the block: each component adds its vector. */
export function pathFigure(trace, answer, width = 320, height = 280) {
  const { basis, names } = residualPlane([...trace.parts.map((part) => part.vector), ...trace.embedded], trace.readOut);
  let place = new Array(trace.readOut.length).fill(0);
  const stops = trace.parts.map((part) => project(basis, (place = add(place, part.vector))));
  const area = [8, 8, width - 8, height - 22];
  // A path far from the origin would be tiny beside it: then the origin stays outside.
  const near = spanOf([[0, 0], ...stops]) <= 1.8 * spanOf(stops);
  const scaleTo = axes(area, ...equalRanges(stops, area, near));
  const steps = trace.parts.map((part) => `${part.name} ${showSigned(part.contribution)}`).join(", ");
  const root = drawing(
    "residual-stream",
    width,
    height,
    `The residual stream at CLS. Contributions to the logit: ${steps}; logit ${show(trace.logit)}.`,
  );
  root.append(...decisionParts(scaleTo, project(basis, trace.readOut)), ...axisLines(scaleTo));
  const pixels = stops.map(([x, y]) => [scaleTo.x(x), scaleTo.y(y)]);
  trace.parts.slice(1).forEach((part, i) => {
    root.append(...arrow(pixels[i], pixels[i + 1], { class: part.id.endsWith("mlp") ? "step mlp-step" : "step" }));
  });
  root.append(...stepLabels(trace.parts, pixels, width));
  if (near) root.append(...arrow([scaleTo.x(0), scaleTo.y(0)], pixels[0], { class: "vector start" }));
  root.append(tokenMark("CLS", ...pixels[0], 5));
  root.append(outwardLabel("CLS", ...pixels[0], pixels[0][0], pixels[0][1] - 1, ""));
  root.append(
    svg("circle", {
      cx: pixels.at(-1)[0],
      cy: pixels.at(-1)[1],
      r: 6,
      class: `mark end ${answer === null ? "open" : answer ? "positive" : "negative"}`,
    }),
  );
  root.append(axisNames(names, area, height));
  return root;
}

const spanOf = (points) =>
  Math.max(
    ...[0, 1].map((axis) => {
      const numbers = points.map((point) => point[axis]);
      return Math.max(...numbers) - Math.min(...numbers);
    }),
  );

/** Names beside the arrows, the longest arrows first; a name that would cover another is left out. */
function stepLabels(parts, pixels, width) {
  const steps = parts.slice(1).map((part, i) => {
    const [from, to] = [pixels[i], pixels[i + 1]];
    const [dx, dy] = [to[0] - from[0], to[1] - from[1]];
    const size = Math.hypot(dx, dy) || 1;
    const x = clamp((from[0] + to[0]) / 2 - (dy / size) * 15, 28, width - 28);
    return { name: part.name, size, x, y: (from[1] + to[1]) / 2 + (dx / size) * 15 };
  });
  const placed = [{ x: pixels[0][0], y: pixels[0][1] + 14 }];
  for (const step of steps.sort((one, two) => two.size - one.size)) {
    const reach = 3.2 * (step.name.length + 8);
    const covers = placed.some(({ x, y }) => Math.abs(x - step.x) < reach && Math.abs(y - step.y) < 13);
    if (step.size > 14 && !covers) placed.push(step);
  }
  return placed
    .slice(1)
    .map(({ name, x, y }) =>
      svg("text", { x, y, class: "label", "text-anchor": "middle", "dominant-baseline": "central" }, name),
    );
}

/** What each component adds to the logit; ghosts behind the bars show `before`, if given; faded ones are `outside`. */
export function contributionFigure(trace, before, outside, width = 320, total = "logit") {
  const rows = [
    ...trace.parts.map((part, i) => ({ name: part.name, now: part.contribution, then: before?.parts[i].contribution, faded: outside(part.id) })),
    { name: total, now: trace.logit, then: before?.logit, sum: true },
  ];
  const height = rows.length * 22 + 6;
  const most = Math.max(...rows.flatMap(({ now, then }) => [Math.abs(now), Math.abs(then ?? 0)]), 1e-9);
  const [left, right] = [104, width - 72];
  const scaleTo = (value) => left + ((value / most + 1) / 2) * (right - left);
  const summary = rows.map(({ name, now }) => `${name} ${showSigned(now)}`).join(", ");
  const root = drawing("contributions", width, height, `Contributions to the logit: ${summary}.`);
  rows.forEach(({ name, now, then, sum, faded }, i) => {
    const y = 3 + i * 22;
    if (sum) root.append(svg("line", { x1: 4, x2: width - 4, y1: y, y2: y, class: "axis" }));
    const bar = (value, className, inset) =>
      svg("rect", {
        x: Math.min(scaleTo(0), scaleTo(value)),
        width: Math.abs(scaleTo(value) - scaleTo(0)),
        y: y + inset,
        height: 22 - 2 * inset,
        rx: 2,
        class: className,
      });
    if (then !== undefined) root.append(bar(then, "ghost", 2));
    root.append(bar(now, `bar ${now > 0 ? "positive" : "negative"}${sum ? " total" : ""}${faded ? " faded" : ""}`, 5));
    root.append(svg("text", { x: 4, y: y + 15, class: sum ? "label strong" : faded ? "label faint" : "label" }, name));
    root.append(
      svg(
        "text",
        { x: width - 4, y: y + 15, class: sum ? "label number strong" : "label number", "text-anchor": "end" },
        showSigned(now),
      ),
    );
  });
  root.append(svg("line", { x1: scaleTo(0), x2: scaleTo(0), y1: 2, y2: height - 2, class: "axis" }));
  return root;
}
