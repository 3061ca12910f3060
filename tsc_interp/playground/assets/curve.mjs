// The logit as one count grows, and the logit of the string over training.

import { svg, tokenColour } from "./dom.mjs";
import { axes, drawing } from "./figures.mjs";
import { show, showCount } from "./maths.mjs";

const AREA = [46, 12, 448, 172];

/** Zero, then evenly spaced in the logarithm, whole numbers only. */
function sampleCounts(most) {
  const counts = new Set([0]);
  for (let i = 0; i <= 160; i++) counts.add(Math.round(most ** (i / 160)));
  return [...counts].sort((a, b) => a - b);
}

const logPlace = (count) => (count === 0 ? -0.35 : Math.log10(count));

/** The logit while the count of `letter` runs from 0 to beyond the flips, the other counts staying. */
export function countCurve(evaluator, counts, letter, flips, labelOfCounts) {
  const name = String.fromCharCode(97 + letter);
  const found = flips.filter((count) => count !== null);
  const most = Math.min(
    1e9,
    10 ** Math.ceil(Math.log10(Math.max(1000, 3 * counts[letter], ...found.map((f) => 3 * f)))),
  );
  const at = (count) => counts.map((own, j) => (j === letter ? count : own));
  const others = at(0).reduce((sum, count) => sum + count, 0);
  const samples = sampleCounts(most).filter((count) => count + others > 0);
  const judged = samples.map((count) => evaluator.evaluate(at(count)));
  const logits = judged.map(({ logit }) => logit);
  const [low, high] = [Math.min(0, ...logits), Math.max(0, ...logits)];
  const pad = 0.08 * (high - low || 1);
  const scaleTo = axes(AREA, [-0.5, Math.log10(most)], [low - pad, high + pad]);
  const root = drawing(
    "logit-by-count",
    460,
    216,
    `The logit as the number of ${name} goes from 0 to ${most}. ${found.length ? `Its sign flips at ${found.join(" and ")}.` : "Its sign does not flip nearby."}`,
  );
  root.append(...grid(scaleTo, most));
  // Where the answer is wrong, the background says so; labels change only at whole counts.
  const wrong = samples.map((count, i) => {
    const { answer } = judged[i];
    return answer !== null && answer !== labelOfCounts(at(count));
  });
  for (const [from, to] of stretches(wrong)) {
    const x1 = halfway(samples, from - 1, from);
    const x2 = halfway(samples, to, to + 1);
    root.append(
      svg("rect", {
        x: scaleTo.x(x1),
        width: Math.max(2, scaleTo.x(x2) - scaleTo.x(x1)),
        y: AREA[1],
        height: AREA[3] - AREA[1],
        class: "wrong-zone",
      }),
    );
  }
  const points = samples.map(
    (count, i) => `${scaleTo.x(logPlace(count)).toFixed(1)},${scaleTo.y(logits[i]).toFixed(1)}`,
  );
  root.append(svg("line", { x1: AREA[0], x2: AREA[2], y1: scaleTo.y(0), y2: scaleTo.y(0), class: "axis zero" }));
  root.append(svg("polyline", { points: points.join(" "), class: "curve", style: `stroke:${tokenColour(name)}` }));
  for (const flip of found) {
    const x = scaleTo.x(logPlace(flip));
    root.append(svg("line", { x1: x, x2: x, y1: AREA[1], y2: AREA[3], class: "flip" }));
    const left = x < AREA[2] - 80;
    root.append(
      svg(
        "text",
        { x: left ? x + 4 : x - 4, y: AREA[1] + 10, class: "label strong", "text-anchor": left ? "start" : "end" },
        showCount(flip),
      ),
    );
  }
  const here = [scaleTo.x(logPlace(counts[letter])), scaleTo.y(evaluator.logit(counts))];
  root.append(svg("circle", { cx: here[0], cy: here[1], r: 5.5, class: "mark you", fill: tokenColour(name) }));
  root.append(
    svg(
      "text",
      { x: (AREA[0] + AREA[2]) / 2, y: 211, class: "label faint", "text-anchor": "middle" },
      `number of ${name} (logarithmic)`,
    ),
  );
  return root;
}

/** [first, last] of every run of true. */
function stretches(flags) {
  const found = [];
  flags.forEach((flag, i) => {
    if (!flag) return;
    if (i > 0 && flags[i - 1]) found.at(-1)[1] = i;
    else found.push([i, i]);
  });
  return found;
}

/** Between two neighbouring samples, on the logarithmic axis; at the ends, the end itself. */
function halfway(samples, i, j) {
  if (i < 0) return logPlace(samples[j]);
  return j < samples.length ? (logPlace(samples[i]) + logPlace(samples[j])) / 2 : logPlace(samples[i]);
}

function grid(scaleTo, most) {
  const lines = [
    svg("text", { x: scaleTo.x(-0.35), y: AREA[3] + 14, class: "label faint", "text-anchor": "middle" }, "0"),
  ];
  const decades = Math.round(Math.log10(most));
  for (let power = 0; power <= decades; power++) {
    const x = scaleTo.x(power);
    lines.push(svg("line", { x1: x, x2: x, y1: AREA[1], y2: AREA[3], class: "grid" }));
    if (decades > 6 && power % 2 === 1) continue;
    lines.push(
      svg(
        "text",
        { x, y: AREA[3] + 14, class: "label faint", "text-anchor": "middle" },
        power < 4 ? String(10 ** power) : `10${[..."⁰¹²³⁴⁵⁶⁷⁸⁹"][power]}`,
      ),
    );
  }
  for (const value of niceTicks(scaleTo.fromY(AREA[3]), scaleTo.fromY(AREA[1]))) {
    lines.push(
      svg(
        "text",
        { x: AREA[0] - 6, y: scaleTo.y(value) + 4, class: "label faint", "text-anchor": "end" },
        show(value, 2),
      ),
    );
  }
  return lines;
}

/** A few round numbers between low and high. */
export function niceTicks(low, high) {
  const rough = (high - low) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= rough);
  const ticks = [];
  for (let value = Math.ceil(low / step) * step; value <= high; value += step)
    ticks.push(Math.abs(value) < step / 1e6 ? 0 : value);
  return ticks;
}

/** The string's logit after each epoch, the present one marked; `pick` is called with an epoch. */
export function epochCurve(epochs, judged, now, pick) {
  const logits = judged.map(({ logit }) => logit);
  const [low, high] = [Math.min(0, ...logits), Math.max(0, ...logits)];
  const pad = 0.1 * (high - low || 1);
  const area = [46, 8, 448, 110];
  const scaleTo = axes(area, [epochs[0] - 0.5, epochs.at(-1) + 0.5], [low - pad, high + pad]);
  const index = epochs.indexOf(now);
  const root = drawing(
    "logit-by-epoch",
    460,
    130,
    `The string's logit after each of ${epochs.length} epochs; at epoch ${now} it is ${show(logits[index])}.`,
  );
  for (const value of niceTicks(low, high)) {
    root.append(
      svg("text", { x: 40, y: scaleTo.y(value) + 4, class: "label faint", "text-anchor": "end" }, show(value, 2)),
    );
  }
  root.append(svg("line", { x1: 46, x2: 448, y1: scaleTo.y(0), y2: scaleTo.y(0), class: "axis zero" }));
  root.append(
    svg("polyline", {
      points: epochs.map((epoch, i) => `${scaleTo.x(epoch).toFixed(1)},${scaleTo.y(logits[i]).toFixed(1)}`).join(" "),
      class: "curve ink",
    }),
  );
  epochs.forEach((epoch, i) => {
    const { answer } = judged[i];
    const said = answer === null ? "open" : answer ? "positive" : "negative";
    const className = `mark ${said}${i === index ? " you" : ""}`;
    root.append(
      svg("circle", {
        cx: scaleTo.x(epoch),
        cy: scaleTo.y(logits[i]),
        r: i === index ? 6.5 : 3.5,
        class: className,
        onclick: () => pick(epoch),
      }),
    );
  });
  const every = Math.ceil(epochs.length / 12);
  epochs.forEach((epoch, i) => {
    if (i % every === 0)
      root.append(
        svg("text", { x: scaleTo.x(epoch), y: 126, class: "label faint", "text-anchor": "middle" }, String(epoch)),
      );
  });
  return root;
}
