// Attention: one card per head, or a strip per head and one card when there are many.

import { chip, circuitTag, listedPositions, muteButton, named, number, partClass } from "./cells.mjs";
import { partName } from "./changes.mjs";
import { h, roving, tokenColour } from "./dom.mjs";
import { headContributionLines, outputLines, projectionLines, scoreLines, weightLines } from "./formulas.mjs";
import { show, showPercent, showShort, showSigned } from "./maths.mjs";
import { valueFigure } from "./values.mjs";

const SMALL = 2; // this many heads are shown in full; of more, one is chosen

export function attentionCaption(side) {
  const { config } = side.prepared.model;
  if (config.n_heads === 0) return "This model has no attention.";
  const cls = config.attend_cls ? "CLS looks at the letters and at itself." : "CLS looks at the letters.";
  return `${cls} Scores become weights, weights average the values. Drag a value to change it.`;
}

export function attentionStage(side, pick, choose) {
  const { config } = side.prepared.model;
  if (config.n_heads === 0) return [];
  const layer = Math.min(pick.layer, config.n_layers - 1);
  const head = Math.min(pick.head, config.n_heads - 1);
  const query = layer === config.n_layers - 1 ? 0 : pick.query;
  const heads = Array.from({ length: config.n_heads }, (_, i) => i);
  return [
    config.n_layers > 1 ? layerChoice(side, layer, query, choose) : null,
    config.n_heads > SMALL ? headStrips(side, layer, heads, head, query, choose) : null,
    (config.n_heads > SMALL ? [head] : heads).map((each) => headCard(side, layer, each, query)),
  ].flat();
}

function layerChoice(side, layer, query, choose) {
  const { config, tokens } = side.prepared.model;
  const last = layer === config.n_layers - 1;
  const option = (value, now, text) => h("option", { value, selected: value === now }, text);
  return h(
    "div",
    { class: "toolbar" },
    h(
      "label",
      {},
      "Layer ",
      h(
        "select",
        {
          "data-key": `layer-${side.id}`,
          onchange: (event) => choose({ layer: Number(event.target.value), query: 0 }),
        },
        Array.from({ length: config.n_layers }, (_, i) => option(i, layer, String(i))),
      ),
    ),
    h(
      "label",
      {},
      "as seen by ",
      h(
        "select",
        {
          "data-key": `query-${side.id}`,
          disabled: last,
          onchange: (event) => choose({ query: Number(event.target.value) }),
        },
        (last ? ["CLS"] : tokens).map((token, i) => option(i, query, token)),
      ),
    ),
    last ? h("span", { class: "note" }, "In the last layer only CLS matters.") : null,
  );
}

/** One line per head: where it looks, and what it adds. */
function headStrips(side, layer, heads, chosen, query, choose) {
  const { tokens } = side.prepared.model;
  const most = Math.max(...heads.map((head) => Math.abs(partOf(side, layer, head).contribution)), 1e-9);
  return h(
    "div",
    { class: "strips", role: "group", "aria-label": "Heads" },
    heads.map((head) => {
      const { contribution } = partOf(side, layer, head);
      const part = partName(layer, "head", head);
      const how = side.prepared.changes[part];
      const circuit = circuitTag(side, part)?.textContent;
      const said = [`${weightSummary(side, layer, head, query)}; adds ${showSigned(contribution)} to the logit`, how && `${part}=${how}`, circuit];
      return h(
        "button",
        {
          class: `strip${partClass(side, part)}`,
          "data-key": `strip-${side.id}-${head}`,
          "aria-pressed": String(head === chosen),
          "aria-label": `Head ${head}: ${said.filter(Boolean).join("; ")}`,
          onclick: () => choose({ head }),
        },
        h("span", { class: "strip-name" }, `head ${head}`),
        weightBar(side, layer, head, query, tokens),
        h(
          "span",
          { class: "strip-track" },
          h("span", {
            class: `strip-bar ${contribution > 0 ? "positive" : "negative"}`,
            style: barStyle(contribution / most),
          }),
        ),
        h("span", { class: "strip-number" }, showSigned(contribution, 3)),
      );
    }),
  );
}

const barStyle = (share) => `left:${share < 0 ? 50 + 50 * share : 50}%;width:${50 * Math.abs(share)}%`;
const partOf = (side, layer, head) => side.trace.parts.find(({ id }) => id === `${layer}.${head}`);

function weightSummary(side, layer, head, query) {
  const { tokens } = side.prepared.model;
  const weights = side.trace.layers[layer].pattern[head][query];
  return tokens
    .map((token, j) => ({ token, weight: weights[j] }))
    .filter(({ weight }) => weight > 0)
    .sort((one, two) => two.weight - one.weight)
    .slice(0, 3)
    .map(({ token, weight }) => `${token} ${showPercent(weight)}`)
    .join(", ");
}

function weightBar(side, layer, head, query, tokens) {
  const weights = side.trace.layers[layer].pattern[head][query];
  return h(
    "span",
    { class: "weight-bar", "aria-hidden": "true" },
    tokens.map((token, j) =>
      weights[j] > 0.0005
        ? h(
            "span",
            { style: `width:${100 * weights[j]}%;background:${tokenColour(token)}` },
            weights[j] > 0.12 ? token : "",
          )
        : null,
    ),
  );
}

function headCard(side, layer, head, query) {
  const { config, tokens } = side.prepared.model;
  const stageOf = side.trace.layers[layer];
  const part = partName(layer, "head", head);
  const { contribution } = partOf(side, layer, head);
  const key = `${side.id}${layer}.${head}`;
  const rows = listedPositions(side)
    .filter((j) => j > 0 || config.attend_cls)
    .map((j) => {
      const weight = stageOf.pattern[head][query][j];
      const of = `of ${tokens[j]} in head ${head}`;
      const cell = (id, name, text, lines, extra) =>
        h("td", { class: extra }, number(`${id}${key}.${j}`, `${name} ${of}`, text, lines));
      return h(
        "tr",
        { class: side.trace.multiplicity[j] === 0 ? "absent" : "" },
        h("th", { scope: "row" }, chip(tokens[j])),
        cell("k", "key", showShort(stageOf.k[head][j]), () => projectionLines(side, layer, head, "K", j), "k"),
        cell("s", "score", show(stageOf.scores[head][query][j]), () => scoreLines(side, layer, head, query, j), "right"),
        h(
          "td",
          { class: "weight-cell" },
          h("span", {
            class: "meter",
            style: `--share:${(100 * weight).toFixed(2)}%;--colour:${tokenColour(tokens[j])}`,
          }),
          number(`w${key}.${j}`, `weight ${of}`, showPercent(weight), () => weightLines(side, layer, head, query, j)),
        ),
        cell("v", "value", showShort(stageOf.v[head][j]), () => projectionLines(side, layer, head, "V", j)),
      );
    });
  const column = (text, extra) => h("th", { scope: "col", class: extra }, text);
  return h(
    "article",
    {
      class: `head-card${partClass(side, part)}`,
      "aria-label": `Head ${head}`,
      "data-tour": side.id === "main" ? `head-${head}` : null,
    },
    h(
      "header",
      {},
      h("h4", {}, `Head ${head}`),
      circuitTag(side, part),
      roving(
        h(
          "p",
          { class: "head-facts" },
          number(`q${key}`, `query of head ${head}`, named("q", stageOf.q[head][query]), () => projectionLines(side, layer, head, "Q", query)),
          " ",
          number(`z${key}`, `output of head ${head}`, named("z", stageOf.z[head][query]), () => outputLines(side, layer, head, query)),
          " ",
          number(
            `c${key}`,
            `contribution of head ${head}`,
            `adds ${showSigned(contribution)}`,
            () => headContributionLines(side, layer, head),
            contribution > 0 ? "positive-text" : "negative-text",
          ),
        ),
      ),
      side.editable ? muteButton(side, part) : null,
    ),
    h(
      "div",
      { class: "scroll-x" },
      roving(
        h(
          "table",
          { class: `numbers${config.d_head === 2 ? " pairs" : ""}` },
          h(
            "thead",
            {},
            h("tr", {}, column("key"), column("k", "k"), column("score", "right"), column("weight"), column("value v")),
          ),
          h("tbody", {}, rows),
        ),
      ),
    ),
    valueFigure(side, layer, head, query, listedPositions(side)),
  );
}
