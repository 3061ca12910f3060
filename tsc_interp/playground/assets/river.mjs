// From letters to the logit as one picture: what each head takes from each token, and what each part adds to the answer.

import { h, svg, tokenColour } from "./dom.mjs";
import { drawing } from "./figures.mjs";
import { show, showCount, showPercent, showSigned } from "./maths.mjs";

const MOST = { tokens: 9, heads: 6 };
const [LEFT, MIDDLE, RIGHT, WIDTH] = [84, 218, 336, 420];

/**
 * Widths on the left are attention weights, widths on the right are contributions to the logit, coloured by their sign. The dashes
 * move with the flow, unless the reader asked for less motion. `tokens` = [{ position, letter, name, times }].
 */
export function riverFigure({ trace, prepared }, tokens, answer, sides = ["yes", "no"]) {
  const layer = trace.layers.at(-1);
  const heads = headsOf(trace, prepared.model.config);
  const rows = tokens.slice().sort((one, two) => reach(layer, heads, two) - reach(layer, heads, one)).slice(0, MOST.tokens);
  rows.sort((one, two) => one.position - two.position);
  const others = trace.parts.filter(({ id, contribution }) => !/^\d+\.\d+$/.test(id) && contribution !== 0);
  const middle = [...heads, ...others];
  const height = 30 + 40 * Math.max(rows.length, middle.length, 3);
  const spread = (count, i) => 26 + ((height - 30) * (i + 0.5)) / count;
  const most = Math.max(...trace.parts.map(({ contribution }) => Math.abs(contribution)), 1e-9);
  const root = drawing("flow", WIDTH, height, `From letters to the logit: ${middle.map(({ name, contribution }) => `${name} adds ${showSigned(contribution)}`).join(", ")}; logit ${show(trace.logit)}.`);
  root.classList.add("river");
  const end = [RIGHT, height / 2 + 10];
  const tokenAt = (i) => [LEFT, spread(rows.length, i)];
  const partAt = (i) => [MIDDLE, spread(middle.length, i)];
  heads.forEach((head, k) =>
    rows.forEach((token, i) => {
      const weight = weightOf(layer, head.index, token, trace);
      if (weight < 0.005) return;
      root.append(...stream(tokenAt(i), partAt(k), 1 + 13 * weight, tokenColour(token.letter), `${head.name} gives ${token.name} ${showPercent(weight)} of its attention`));
    }),
  );
  middle.forEach((part, k) => {
    const colour = `var(--${part.contribution > 0 ? "positive" : "negative"})`;
    root.append(...stream(partAt(k), end, 1 + (15 * Math.abs(part.contribution)) / most, colour, `${part.name} adds ${showSigned(part.contribution)}`));
  });
  rows.forEach((token, i) => root.append(...node(tokenAt(i), token.times > 1 ? `${token.name} × ${showCount(token.times)}` : token.name, "end", tokenColour(token.letter))));
  middle.forEach((part, k) => root.append(...node(partAt(k), `${part.name} ${showSigned(part.contribution, 3)}`, "middle", "var(--soft)")));
  root.append(svg("circle", { cx: end[0], cy: end[1], r: 9, class: `mark ${answer === null ? "open" : answer ? "positive" : "negative"}` }));
  root.append(svg("text", { x: end[0] + 14, y: end[1] + 4, class: "label strong" }, show(trace.logit, 3)));
  const hidden = tokens.length - rows.length;
  return h(
    "figure",
    { class: "river-figure" },
    root,
    h("figcaption", { class: "caption" }, `${prepared.model.config.n_layers > 1 ? "The last layer. " : ""}Left, how each head shares out its attention; right, what each part adds: orange towards ${sides[0]}, blue towards ${sides[1]}.${hidden > 0 ? ` ${hidden} token${hidden > 1 ? "s" : ""} with less attention ${hidden > 1 ? "are" : "is"} not drawn.` : ""}`),
  );
}

/** The heads of the last layer that add most, in their order. */
function headsOf(trace, config) {
  const last = config.n_layers - 1;
  const heads = trace.parts.filter(({ id }) => new RegExp(`^${last}\\.\\d+$`).test(id)).map((part) => ({ ...part, index: Number(part.id.split(".")[1]) }));
  const loud = [...heads].sort((one, two) => Math.abs(two.contribution) - Math.abs(one.contribution)).slice(0, MOST.heads);
  return heads.filter((head) => loud.includes(head));
}

function weightOf(layer, head, { position }, trace) {
  const rows = layer.pattern[head];
  return rows[rows.length === trace.ids.length ? trace.reading : 0][position];
}

const reach = (layer, heads, token) => Math.max(0, ...heads.map(({ index }) => layer.pattern[index].at(-1)[token.position]));

/** A band from left to right, and dashes that move along it. */
function stream([x, y], [toX, toY], width, colour, said) {
  const bend = (toX - x) / 2;
  const d = `M${x + 8},${y} C${x + bend},${y} ${toX - bend},${toY} ${toX - 8},${toY}`;
  const title = svg("title", {}, said);
  return [
    svg("path", { d, fill: "none", stroke: colour, "stroke-width": width.toFixed(1), "stroke-opacity": 0.32 }, title),
    svg("path", { d, fill: "none", stroke: colour, "stroke-width": Math.min(3, width).toFixed(1), class: "moving" }),
  ];
}

function node([x, y], text, anchor, colour) {
  const at = anchor === "end" ? { x: x - 12, y: y + 4 } : { x, y: y - 11 };
  return [svg("circle", { cx: x, cy: y, r: 6, fill: colour, class: "mark" }), svg("text", { ...at, class: "label strong", "text-anchor": anchor }, text)];
}
