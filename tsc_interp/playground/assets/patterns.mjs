// Attention of tokens in order: a small picture per head, one head's pattern in full, and what each token adds through it.

import { muteButton, number, partClass } from "./cells.mjs";
import { partName } from "./changes.mjs";
import { h, roving, svg, tokenColour } from "./dom.mjs";
import { drawing } from "./figures.mjs";
import { dot, show, showPercent, showSigned, times } from "./maths.mjs";

const MOST_ROWS = 60; // queries drawn in full; of longer strings the last ones

/** The positions worth drawing: every token in order or, where counts suffice, CLS and the letters that occur. */
export function shownPositions({ trace, prepared }) {
  const { tokens, called } = prepared.model;
  return trace.ids
    .map((id, position) => {
      const index = Math.max(0, id - 1);
      const times = trace.counts && index > 0 ? trace.counts[index - 1] : 1;
      return { position, letter: tokens[index], name: called[index], times };
    })
    .filter(({ times }) => times > 0);
}

const nameOf = ({ name, times }) => (times > 1 ? `${name} × ${times}` : name);

/** One button per head, with its whole pattern small; pressed, it is shown in full. */
export function headButtons(side, pick, choose) {
  const { config } = side.prepared.model;
  const positions = shownPositions(side).slice(-MOST_ROWS);
  const buttons = [];
  side.trace.layers.forEach((layer, index) =>
    layer.pattern?.forEach((rows, head) => {
      const part = partName(index, "head", head);
      const name = `${config.n_layers > 1 ? `layer ${index} ` : ""}head ${head}`;
      const added = side.trace.parts.find(({ id }) => id === `${index}.${head}`).contribution;
      buttons.push(
        h(
          "button",
          {
            class: `head-button${partClass(side, part)}`,
            "data-key": `head-${part}`,
            "aria-pressed": String(pick.layer === index && pick.head === head),
            "aria-label": `${name}, adds ${showSigned(added)}`,
            onclick: () => choose({ layer: index, head }),
          },
          thumbnail(rows, positions, side.trace),
          h("span", {}, name),
          h("span", { class: added > 0 ? "positive-text" : "negative-text" }, showSigned(added, 3)),
        ),
      );
    }),
  );
  return h("div", { class: "head-buttons", role: "group", "aria-label": "Heads" }, buttons);
}

/** The query rows that were computed: all, or only the one that reads. */
const rowsOf = (rows, positions, trace) =>
  rows.length === trace.ids.length ? positions : positions.filter(({ position }) => position === trace.reading);

function thumbnail(rows, positions, trace) {
  const queries = rowsOf(rows, positions, trace);
  const size = 64;
  const [wide, tall] = [size / positions.length, size / queries.length];
  const root = svg("svg", { viewBox: `0 0 ${size} ${size}`, class: "thumbnail", "aria-hidden": "true" });
  queries.forEach((query, i) =>
    positions.forEach((key, j) => {
      const weight = rows[query.position][key.position];
      if (weight > 0.02)
        root.append(svg("rect", { x: j * wide, y: i * tall, width: wide, height: tall, class: "attended", "fill-opacity": weight.toFixed(3) }));
    }),
  );
  return root;
}

/** One head in full: rows ask, columns are looked at; the row that is read for the answer is marked. */
export function patternFigure(side, pick, choose) {
  const rows = side.trace.layers[pick.layer].pattern[pick.head];
  const positions = shownPositions(side).slice(-MOST_ROWS);
  const queries = rowsOf(rows, positions, side.trace);
  const cell = Math.max(7, Math.min(34, 400 / positions.length));
  const left = 12 + 7 * Math.max(...positions.map((each) => nameOf(each).length), 3);
  const long = 7 * Math.max(...positions.map((each) => nameOf(each).length)) > cell; // column names are then written upwards
  const top = long ? left : 20;
  const [width, height] = [left + cell * positions.length + 4, top + 2 + cell * queries.length];
  const root = drawing(`attention-layer${pick.layer}-head${pick.head}`, width, height, `Attention of head ${pick.head}: rows ask, columns are looked at.`);
  root.classList.add("pattern");
  root.setAttribute("role", "group");
  root.style.maxWidth = `${Math.round(width)}px`;
  const fits = cell >= 11 || positions.length <= 8;
  const label = (each, x, y, anchor, transform = null) =>
    svg("text", { x, y, transform, class: "label strong", "text-anchor": anchor, fill: tokenColour(each.letter), style: `font-size:${Math.min(12, cell + 1)}px` }, nameOf(each));
  positions.forEach((key, j) => {
    const x = left + (j + 0.5) * cell;
    if (fits) root.append(long ? label(key, x + 4, top - 6, "start", `rotate(-90 ${x + 4} ${top - 6})`) : label(key, x, 14, "middle"));
  });
  queries.forEach((query, i) => {
    const y = top + i * cell;
    if (fits || queries.length === 1) root.append(label(query, left - 6, y + cell / 2 + 4, "end"));
    positions.forEach((key, j) => {
      const weight = rows[query.position][key.position];
      root.append(
        svg("rect", {
          ...{ x: left + j * cell, y, width: cell - 1, height: cell - 1, class: "attended cell", "fill-opacity": weight.toFixed(4) },
          "data-key": `cell-${i}-${j}`,
          role: "img",
          "aria-label": `${nameOf(query)} at ${query.position} looks at ${nameOf(key)} at ${key.position}: ${showPercent(weight)}`,
          explain: () => cellLines(side, pick, query, key),
          onclick: () => choose({ query: query.position }),
        }),
      );
    });
    if (query.position === side.trace.reading)
      root.append(svg("rect", { x: left - 1, y: y - 1, width: cell * positions.length + 1, height: cell + 1, class: "reader" }));
  });
  return [roving(root), h("p", { class: "caption centred" }, "Rows look at columns; the framed row gives the answer.")];
}

function cellLines(side, { layer, head }, query, key) {
  const stage = side.trace.layers[layer];
  const count = side.trace.multiplicity[key.position];
  return [
    `${nameOf(query)} (place ${query.position}) looks at ${nameOf(key)} (place ${key.position})`,
    `score = ${show(stage.scores[head][query.position][key.position])}`,
    `weight = ${count > 1 ? `${count} ` : ""}e^score / sum over what it can see = ${showPercent(stage.pattern[head][query.position][key.position])}`,
  ];
}

/** What each token adds to the answer through one head: its weight times what its value is worth there. */
export function tokenTable(side, { layer, head }) {
  const { config, weights } = side.prepared.model;
  const { trace } = side;
  const stage = trace.layers[layer];
  const last = layer === config.n_layers - 1;
  const worth = (position) => dot(times(stage.v[head][position], weights[`blocks.${layer}.attn.W_O`][head]), trace.readOut);
  const row = stage.pattern[head][stage.pattern[head].length === trace.ids.length ? trace.reading : 0];
  const part = partName(layer, "head", head);
  // A norm behind attention, or a later layer, stands between a value and the answer.
  const direct = last && config.attention_norm === "off";
  const shown = shownPositions(side).filter(({ position }) => row[position] > 0);
  const sorted = shown.sort((one, two) => row[two.position] - row[one.position]).slice(0, 12);
  return h(
    "div",
    { class: `head-card${partClass(side, part)}` },
    h("header", {}, h("h4", {}, `${config.n_layers > 1 ? `Layer ${layer} ` : ""}head ${head}, where the answer is read`), muteButton(side, part)),
    roving(
      h(
        "table",
        { class: "numbers" },
        h("thead", {}, h("tr", {}, ["looks at", "place", "weight", ...(direct ? ["adds"] : [])].map((text) => h("th", { scope: "col" }, text)))),
        h(
          "tbody",
          {},
          sorted.map((each) => {
            const weight = row[each.position];
            const adds = weight * worth(each.position);
            const lines = [`adds = weight × (v · W_O · read-out)`, `= ${show(weight)} × ${show(worth(each.position))}`, `= ${show(adds)}`];
            return h(
              "tr",
              {},
              h("th", { scope: "row" }, h("span", { class: "chip", style: `--colour:${tokenColour(each.letter)}` }, nameOf(each))),
              h("td", {}, trace.counts ? "" : String(each.position)),
              h("td", { class: "weight-cell" }, h("span", { class: "meter", style: `--share:${(100 * weight).toFixed(2)}%;--colour:${tokenColour(each.letter)}` }), number(`weight-${each.position}`, `weight of ${each.name}`, showPercent(weight), () => cellLines(side, { layer, head }, shownReader(side), each))),
              direct ? h("td", { class: "right" }, number(`adds-${each.position}`, `what ${each.name} adds`, showSigned(adds), lines, adds > 0 ? "positive-text" : "negative-text")) : null,
            );
          }),
        ),
      ),
    ),
    shown.length > sorted.length ? h("p", { class: "note" }, `${shown.length - sorted.length} more have less weight.`) : null,
    direct ? null : h("p", { class: "note" }, last ? "A norm follows attention, so tokens have no share of their own in the answer." : "Later layers read what this head writes; its own row in the sum below is what reaches the answer directly."),
  );
}

const shownReader = (side) => shownPositions(side).find(({ position }) => position === side.trace.reading);
