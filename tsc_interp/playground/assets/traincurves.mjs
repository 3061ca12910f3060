// What becomes of loss, horizon and margins over the epochs of a training run.

import { niceTicks } from "./curve.mjs";
import { svg, tokenColour } from "./dom.mjs";
import { axes, drawing } from "./figures.mjs";
import { show, showCount } from "./maths.mjs";

const AREA = [52, 22, 310, 118];

/** Three small drawings, the looked-at epoch marked; `pick` is called with an epoch. */
export function trainingCurves(states, now, pick) {
  const trained = states.filter(({ epoch }) => epoch > 0);
  const losses = [
    { name: "training", style: "stroke-dasharray:4 3", points: trained.map(({ epoch, trainLoss }) => [epoch, Math.log10(trainLoss)]) },
    { name: "validation", style: "", points: trained.map(({ epoch, validationLoss }) => [epoch, Math.log10(validationLoss)]) },
  ];
  const known = states.filter(({ horizon }) => horizon);
  const horizon = [{ name: "", style: "", points: known.map(({ epoch, horizon: { checkedTo } }) => [epoch, Math.log10(1 + Math.min(checkedTo, 1e9))]) }];
  const margins = states[0].margins.map((_, head) => ({
    name: `head ${head}`,
    style: `stroke:${tokenColour(states.at(-1).margins[head].letter)}`,
    points: states.map(({ epoch, margins: all }) => [epoch, all[head].margin]),
  }));
  const reads = states.at(-1).margins.map(({ letter }, head) => `head ${head} reads ${letter}`).join(", ");
  const power = (value) => (Number.isInteger(value) ? `10${superscript(value)}` : null);
  const lengths = (value) => (value === 0 ? "0" : Number.isInteger(value) ? showCount(10 ** value) : null);
  return [
    curve("training-loss", "Loss per string", losses, power, [states, now, pick], "dashed: training, solid: validation strings"),
    curve("training-horizon", "Horizon: right up to this length", horizon, lengths, [states, now, pick], "every string up to it is right"),
    curve("training-margins", "Score margin of each head", margins, (value) => show(value, 2), [states, now, pick], reads),
  ];
}

const superscript = (n) => [...String(n)].map((each) => (each === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[each])).join("");

function curve(name, title, lines, label, [states, now, pick], note) {
  const values = lines.flatMap(({ points }) => points.map(([, y]) => y)).filter(Number.isFinite);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const pad = 0.08 * (high - low || 1);
  const scaleTo = axes(AREA, [states[0].epoch, states.at(-1).epoch], [low - pad, high + pad]);
  const root = drawing(name, 320, 160, `${title} by epoch, from ${states[0].epoch} to ${states.at(-1).epoch}; ${note}.`);
  root.append(svg("text", { x: 4, y: 12, class: "label strong" }, title));
  for (const value of niceTicks(low - pad, high + pad)) {
    const text = label(value);
    if (text === null) continue;
    root.append(svg("line", { x1: AREA[0], x2: AREA[2], y1: scaleTo.y(value), y2: scaleTo.y(value), class: "grid" }));
    root.append(svg("text", { x: AREA[0] - 6, y: scaleTo.y(value) + 4, class: "label faint", "text-anchor": "end" }, text));
  }
  root.append(svg("line", { x1: scaleTo.x(now), x2: scaleTo.x(now), y1: AREA[1], y2: AREA[3], class: "flip" }));
  for (const { points, style } of lines) {
    const drawn = points.filter(([, y]) => Number.isFinite(y)).map(([x, y]) => `${scaleTo.x(x).toFixed(1)},${scaleTo.y(y).toFixed(1)}`);
    root.append(svg("polyline", { points: drawn.join(" "), class: "curve ink", style }));
  }
  const every = Math.ceil(states.length / 10);
  states.forEach(({ epoch }, i) => {
    if (i % every === 0) root.append(svg("text", { x: scaleTo.x(epoch), y: AREA[3] + 14, class: "label faint", "text-anchor": "middle" }, String(epoch)));
  });
  root.append(svg("text", { x: (AREA[0] + AREA[2]) / 2, y: 152, class: "label faint", "text-anchor": "middle" }, note));
  root.addEventListener("click", (event) => {
    const box = root.getBoundingClientRect();
    const wanted = scaleTo.fromX(((event.clientX - box.left) / box.width) * 320);
    pick(states.map(({ epoch }) => epoch).reduce((best, epoch) => (Math.abs(epoch - wanted) < Math.abs(best - wanted) ? epoch : best)));
  });
  return root;
}
