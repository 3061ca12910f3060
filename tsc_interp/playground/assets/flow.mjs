// The forward pass, stage by stage: tokens and embeddings, attention, MLP, logit.

import { chip, circuitTag, isOutside, leftOutNote, listedPositions, muteButton, number, partClass } from "./cells.mjs";
import { partName, partsOf } from "./changes.mjs";
import { h, roving } from "./dom.mjs";
import { contributionFigure, embeddingFigure, pathFigure } from "./figures.mjs";
import { embeddingLines, logitLines, unitLines } from "./formulas.mjs";
import { attentionCaption, attentionStage } from "./heads.mjs";
import { ACTIVATIONS } from "./layers.mjs";
import { show, showCount, showShort } from "./maths.mjs";
import { riverFigure } from "./river.mjs";
import { formulaDetails } from "./written.mjs";

const NEURONS_SHOWN = 6;

/** All stages of one side, as a list of elements. `pick` remembers what is looked at: layer, head, query. */
export function flowStages(side, pick, choose) {
  const { tokens } = side.prepared.model;
  const present = tokens
    .map((letter, position) => ({ position, letter, name: letter, times: position === 0 ? 1 : side.trace.counts[position - 1] }))
    .filter(({ position, times }) => (position === 0 ? side.prepared.model.config.attend_cls : times > 0));
  return [
    h("div", { class: "stage whole" }, riverFigure(side, present, side.answer)),
    stage(
      "Tokens and embeddings",
      "Each letter is one position with a count; its vector is looked up.",
      tokensStage(side),
      "split",
    ),
    stage("Attention", attentionCaption(side), [attentionStage(side, pick, choose), formulaDetails(side, "attention", pick)], "wide"),
    stage(
      "Residual stream and logit",
      "Each component adds a vector to CLS; the logit reads along one direction.",
      streamStage(side, pick),
      "split",
      side.id === "main" ? "stream" : null,
    ),
  ];
}

function stage(title, caption, content, extra = "", tour = null) {
  return h("div", { class: `stage ${extra}`, "data-tour": tour }, h("h3", {}, title), h("p", { class: "caption" }, caption), content);
}

function tokensStage(side) {
  const { tokens } = side.prepared.model;
  const { trace } = side;
  const rows = listedPositions(side)
    .map((position) => [tokens[position], position])
    .map(([token, position]) =>
      h(
        "tr",
        { class: position > 0 && trace.counts[position - 1] === 0 ? "absent" : "" },
        h("th", { scope: "row" }, chip(token)),
        h("td", { class: "right" }, position === 0 ? "1" : showCount(trace.counts[position - 1])),
        h(
          "td",
          {},
          number(`x-${side.id}-${token}`, `embedding of ${token}`, showShort(trace.embedded[position]), () =>
            embeddingLines(token, trace.embedded[position]),
          ),
        ),
      ),
    );
  return [
    embeddingFigure(trace, tokens, listedPositions(side)),
    roving(
      h(
        "table",
        { class: "numbers" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            h("th", { scope: "col" }, "token"),
            h("th", { scope: "col", class: "right" }, "count"),
            h("th", { scope: "col" }, "embedding x"),
          ),
        ),
        h("tbody", {}, rows),
      ),
    ),
    leftOutNote(side),
    formulaDetails(side, "embedding"),
  ];
}

function streamStage(side, pick) {
  const { config } = side.prepared.model;
  const layer = Math.min(pick.layer, config.n_layers - 1);
  return [
    pathFigure(side.trace, side.answer),
    config.d_mlp > 0 ? mlpTable(side, layer) : h("p", { class: "note" }, "This model has no MLP."),
    contributionFigure(side.trace, side.before, (id) => outsideById(side, id)),
    roving(
      h(
        "p",
        { class: "logit-line" },
        number(`logit-${side.id}`, "the logit", `logit = ${show(side.trace.logit, 6)}`, () => logitLines(side)),
      ),
    ),
    formulaDetails(side, "logit", pick),
  ];
}

/** Whether a component of the sum ("0.1", "0.mlp") is outside of a circuit that is shown. */
function outsideById(side, id) {
  const [layer, part] = id.split(".");
  if (part === undefined) return false;
  if (part !== "mlp") return isOutside(side, partName(layer, "head", part));
  return partsOf(side.prepared.model.config, ["neuron"]).every((neuron) => isOutside(side, neuron));
}

/** The MLP's neurons at CLS, those that matter most first. */
function mlpTable(side, layer) {
  const stageOf = side.trace.layers[layer];
  const { config, weights } = side.prepared.model;
  const act = ACTIVATIONS[config.act_fn].name;
  const out = weights[`blocks.${layer}.mlp.W_out`].map((row) =>
    row.reduce((sum, x, i) => sum + x * side.trace.readOut[i], 0),
  );
  const order = out
    .map((_, unit) => unit)
    .sort((one, two) => Math.abs(stageOf.mlpPost[0][two] * out[two]) - Math.abs(stageOf.mlpPost[0][one] * out[one]));
  const rows = order.slice(0, NEURONS_SHOWN).flatMap((unit) => {
    const cell = (what, name, value) =>
      h(
        "td",
        { class: "right" },
        number(`${what}${side.id}${layer}.${unit}`, `${name} of neuron ${unit}`, show(value), () =>
          unitLines(side, layer, unit, what),
        ),
      );
    const part = partName(layer, "neuron", unit);
    const tools = [circuitTag(side, part), side.editable ? muteButton(side, part) : null].filter(Boolean);
    return [
      h(
        "tr",
        { class: partClass(side, part) },
        h("th", { scope: "row" }, `neuron ${unit}`),
        cell("pre", "input", stageOf.mlpPre[0][unit]),
        cell("post", act, stageOf.mlpPost[0][unit]),
        cell("adds", "contribution", stageOf.mlpPost[0][unit] * out[unit]),
      ),
      // A row of their own: beside the numbers there is no room for them.
      tools.length > 0 ? h("tr", { class: `tools${partClass(side, part)}` }, h("td", { colspan: 4 }, h("div", { class: "row-tools" }, tools))) : null,
    ];
  });
  const whole = partName(layer, "mlp");
  const column = (text) => h("th", { scope: "col", class: "right" }, text);
  const more =
    config.d_mlp > NEURONS_SHOWN
      ? h("p", { class: "note" }, `The ${NEURONS_SHOWN} of ${config.d_mlp} neurons that add most are shown.`)
      : null;
  return h(
    "div",
    { class: `mlp${partClass(side, whole)}` },
    h(
      "div",
      { class: "mlp-head" },
      h("h4", {}, config.n_layers > 1 ? `MLP of layer ${layer}` : "MLP"),
      side.editable ? muteButton(side, whole) : null,
    ),
    roving(
      h(
        "table",
        { class: "numbers" },
        h("thead", {}, h("tr", {}, h("th", {}), column("input"), column(act), column("adds"))),
        h("tbody", {}, rows),
      ),
    ),
    more,
  );
}
