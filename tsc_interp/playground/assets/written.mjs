// The formulas of a stage, to unfold: in symbols, then with the numbers of the string that is looked at.

import { h } from "./dom.mjs";
import { embeddingLines, headContributionLines, logitLines, outputLines, probabilityLines, projectionLines, scoreLines, unitLines, weightLines } from "./formulas.mjs";

const WRITTEN = {
  embedding: ({ trace, prepared }) => present(trace).map((position) => embeddingLines(prepared.model.tokens[position], trace.embedded[position])),
  attention(side, pick) {
    const { config } = side.prepared.model;
    if (config.n_heads === 0) return [];
    const layer = Math.min(pick.layer, config.n_layers - 1);
    const head = Math.min(pick.head, config.n_heads - 1);
    const query = layer === config.n_layers - 1 ? 0 : pick.query;
    const keys = present(side.trace).filter((position) => side.trace.multiplicity[position] > 0);
    return [
      projectionLines(side, layer, head, "Q", query),
      ...keys.slice(0, 4).flatMap((key) => [
        projectionLines(side, layer, head, "K", key),
        scoreLines(side, layer, head, query, key),
        weightLines(side, layer, head, query, key),
        projectionLines(side, layer, head, "V", key),
      ]),
      outputLines(side, layer, head, query),
      headContributionLines(side, layer, head),
    ];
  },
  logit(side, pick) {
    const { config } = side.prepared.model;
    const layer = Math.min(pick.layer, config.n_layers - 1);
    const units = Array.from({ length: Math.min(config.d_mlp, 4) }, (_, unit) => unit);
    return [...units.flatMap((unit) => ["pre", "post", "adds"].map((what) => unitLines(side, layer, unit, what))), logitLines(side), probabilityLines(side.trace.logit)];
  },
};

const present = ({ multiplicity }) => multiplicity.map((_, position) => position).filter((position) => position === 0 || multiplicity[position] > 0);

/** What is inside is made when it is opened, and again whenever the page is drawn while it is. */
export function formulaDetails(side, stage, pick = null) {
  const content = h("div", { class: "formulas" });
  const fill = (open) => open && content.childElementCount === 0 && content.append(...WRITTEN[stage](side, pick).map((lines) => h("p", {}, lines.map((line) => h("span", {}, line)))));
  const head = stage === "attention" && side.prepared.model.config.n_heads > 1 ? ` of head ${Math.min(pick.head, side.prepared.model.config.n_heads - 1)}` : "";
  return h("details", { "data-key": `formulas-${stage}-${side.id}`, ontoggle: (event) => fill(event.target.open) }, h("summary", {}, `The formulas${head}, with these numbers`), content);
}
