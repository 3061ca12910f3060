// A head's value vectors, which can be dragged: a number line for d_head = 1, a plane for more.

import { partName } from "./changes.mjs";
import { dropChange, setValue } from "./edits.mjs";
import { explain, svg } from "./dom.mjs";
import { arrow, axes, drawing, equalRanges, tokenMark } from "./figures.mjs";
import { outputLines, projectionLines } from "./formulas.mjs";
import { add, clamp, dot, drawingPlane, scale, show, showVector } from "./maths.mjs";

// While a value is dragged the axes hold still; they fit themselves again when it is let go.
let held = null;

export function valueFigure(side, layer, head, query, listed) {
  const { config, tokens } = side.prepared.model;
  const stage = side.trace.layers[layer];
  const values = stage.v[head];
  const flat = config.d_head === 1;
  const [width, height] = flat ? [440, 94] : [440, 230];
  const area = flat ? [24, 34, width - 24, 42] : [12, 12, width - 12, height - 12];
  const basis = flat
    ? [[1]]
    : config.d_head === 2
      ? [
          [1, 0],
          [0, 1],
        ]
      : drawingPlane(side.baseValues(layer, head));
  const place = (vector) => (flat ? [vector[0], 0] : basis.map((axis) => dot(vector, axis)));
  const key = `${side.id}:${layer}.${head}`;
  const points = [...listed.map((position) => values[position]), stage.z[head][query]].map(place);
  const ranges = held?.key === key ? held.ranges : rangesFor(points, area, flat);
  const scaleTo = axes(area, ...ranges);
  const shown = listed
    .filter((position) => position > 0 || config.attend_cls)
    .map((position) => ({ token: tokens[position], position }));
  const summary = shown.map(({ token, position }) => `${token} ${showVector(values[position], 3)}`).join(", ");
  const root = drawing(
    `values-layer${layer}-head${head}`,
    width,
    height,
    `Values of head ${head}: ${summary}; weighted mean ${showVector(stage.z[head][query], 3)}.`,
  );
  // The marks inside take the focus, so the drawing is a group of them rather than one image.
  root.setAttribute("role", "group");
  root.append(...(flat ? numberLine(scaleTo, ranges[0]) : crossLines(scaleTo)));
  const z = place(stage.z[head][query]);
  root.append(...meanMark(scaleTo, z, flat, side, layer, head, query));
  const levels = labelLevels(
    shown.map(({ position }) => scaleTo.x(place(values[position])[0])),
    flat,
  );
  shown.forEach(({ token, position }, i) => {
    root.append(
      valueMark({
        side,
        layer,
        head,
        token,
        position,
        basis,
        scaleTo,
        key,
        ranges,
        flat,
        root,
        at: place(values[position]),
        weight: stage.pattern[head][query][position],
        lift: levels[i],
      }),
    );
  });
  return root;
}

function rangesFor(points, area, flat) {
  if (!flat) return equalRanges(points, area);
  const numbers = [0, ...points.map(([x]) => x)];
  const [low, high] = [Math.min(...numbers), Math.max(...numbers)];
  const pad = 0.12 * (high - low || 1);
  return [
    [low - pad, high + pad],
    [-1, 1],
  ];
}

function numberLine(scaleTo, [low, high]) {
  const y = scaleTo.y(0);
  const parts = [svg("line", { x1: scaleTo.area[0], x2: scaleTo.area[2], y1: y, y2: y, class: "axis" })];
  for (const value of [low, 0, high]) {
    if (value !== 0 && Math.abs(scaleTo.x(value) - scaleTo.x(0)) < 30) continue;
    parts.push(svg("line", { x1: scaleTo.x(value), x2: scaleTo.x(value), y1: y - 4, y2: y + 4, class: "axis" }));
    parts.push(
      svg(
        "text",
        { x: clamp(scaleTo.x(value), 18, 422), y: y + 49, class: "label faint", "text-anchor": "middle" },
        show(value, 3),
      ),
    );
  }
  return parts;
}

function crossLines(scaleTo) {
  const [left, top, right, bottom] = scaleTo.area;
  return [
    svg("line", { x1: left, x2: right, y1: scaleTo.y(0), y2: scaleTo.y(0), class: "axis" }),
    svg("line", { x1: scaleTo.x(0), x2: scaleTo.x(0), y1: top, y2: bottom, class: "axis" }),
  ];
}

function meanMark(scaleTo, [x, y], flat, side, layer, head, query) {
  const [px, py] = [scaleTo.x(x), scaleTo.y(y)];
  if (flat) {
    const points = `${px},${py + 8} ${px - 6},${py + 19} ${px + 6},${py + 19}`;
    return [
      svg("polygon", {
        points,
        class: "mean",
        role: "img",
        "aria-label": `weighted mean z of head ${head}`,
        explain: () => outputLines(side, layer, head, query),
        "data-key": `mean-${side.id}-${layer}.${head}`,
      }),
      svg("text", { x: px, y: py + 32, class: "label strong", "text-anchor": "middle" }, "z"),
    ];
  }
  return [
    ...arrow([scaleTo.x(0), scaleTo.y(0)], [px, py], { class: "step" }),
    svg("text", { x: px + 8, y: py - 6, class: "label strong" }, "z"),
  ];
}

/** Labels of marks that nearly touch are lifted, so that both can be read. */
function labelLevels(pixels, flat) {
  if (!flat) return pixels.map(() => 0);
  return pixels.map((x, i) => pixels.slice(0, i).filter((other) => Math.abs(other - x) < 16).length);
}

function valueMark({ side, layer, head, token, position, basis, scaleTo, key, ranges, flat, root, at, weight, lift }) {
  const place = `${layer}.${head}.${token}`;
  const part = partName(layer, "value", head, token);
  const vector = side.trace.layers[layer].v[head][position];
  const present = position === 0 || side.trace.counts[position - 1] > 0;
  const [x, y] = [scaleTo.x(at[0]), scaleTo.y(at[1])];
  const moved = part in side.prepared.changes;
  const group = svg(
    "g",
    { class: `value${present ? "" : " absent"}${moved ? " moved" : ""}` },
    moved ? svg("circle", { cx: x, cy: y, r: 13, class: "halo" }) : null,
    tokenMark(token, x, y, 5 + 5 * Math.sqrt(weight)),
    svg("text", { x, y: y - 12 - 13 * lift, class: "label strong", "text-anchor": "middle" }, token),
  );
  if (!side.editable) return group;
  const change = (next, gesture) => side.edit((edits) => setValue(edits, part, next), gesture);
  const attributes = {
    role: "slider",
    tabindex: 0,
    "data-key": `value${place}`,
    "aria-label": `value of ${token} in head ${head}`,
    "aria-valuenow": vector[0].toPrecision(4),
    "aria-valuetext": showVector(vector),
    "aria-valuemin": ranges[0][0].toPrecision(3),
    "aria-valuemax": ranges[0][1].toPrecision(3),
  };
  for (const [name, text] of Object.entries(attributes)) group.setAttribute(name, text);
  group.append(svg("circle", { cx: x, cy: y, r: 15, class: "grab" }));
  group.addEventListener("keydown", (event) => onKey(event, { vector, basis, ranges, change, part, side }));
  group.addEventListener("pointerdown", (event) =>
    startDrag(event, { root, scaleTo, basis, vector, at, change, key, ranges, flat, side }),
  );
  const hint = "drag it, or use the arrow keys; Delete puts it back";
  return explain(group, () => [...projectionLines(side, layer, head, "V", position), hint]);
}

function onKey(event, { vector, basis, ranges, change, part, side }) {
  const step = ((ranges[0][1] - ranges[0][0]) / 60) * (event.shiftKey ? 5 : 1);
  const [along, across] = [basis[0], basis[1] ?? basis[0]];
  const moves = {
    ArrowRight: [along, step],
    ArrowLeft: [along, -step],
    ArrowUp: [across, step],
    ArrowDown: [across, -step],
  };
  if (event.key in moves) {
    const [axis, amount] = moves[event.key];
    change(add(vector, scale(axis, amount)), `keys ${part}`);
  } else if (event.key === "Delete" || event.key === "Backspace") {
    side.edit((edits) => dropChange(edits, part));
  } else return;
  event.preventDefault();
}

function startDrag(event, { root, scaleTo, basis, vector, at, change, key, ranges, flat, side }) {
  if (event.button !== 0) return;
  event.preventDefault();
  event.currentTarget.focus({ preventScroll: true });
  const toDrawing = root.getScreenCTM().inverse();
  const gesture = `drag ${event.timeStamp}`;
  held = { key, ranges };
  const move = (moved) => {
    const point = new DOMPoint(moved.clientX, moved.clientY).matrixTransform(toDrawing);
    const shift = [scaleTo.fromX(point.x) - at[0], flat ? 0 : scaleTo.fromY(point.y) - at[1]];
    change(
      basis.reduce((sum, axis, i) => add(sum, scale(axis, shift[i])), vector),
      gesture,
    );
  };
  const stop = () => {
    held = null;
    removeEventListener("pointermove", move);
    removeEventListener("pointerup", stop);
    removeEventListener("pointercancel", stop);
    side.redraw();
  };
  addEventListener("pointermove", move);
  addEventListener("pointerup", stop);
  addEventListener("pointercancel", stop);
}
