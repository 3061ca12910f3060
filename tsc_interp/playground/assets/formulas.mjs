// The formula behind each number, in symbols and then in numbers: what the tooltip says.

import { partName } from "./changes.mjs";
import { ACTIVATIONS } from "./layers.mjs";
import { show, showCount, showVector, sigmoid } from "./maths.mjs";

/** a · b written out while it is short, else as two vectors. */
function writtenDot(a, b) {
  if (a.length > 3) return `${showVector(a, 3)} · ${showVector(b, 3)}`;
  return a.map((x, i) => `${show(x)} × ${show(b[i])}`).join(" + ");
}

const column = (matrix, index) => matrix.map((row) => row[index]);
const blockName = (layer, part) => `blocks.${layer}.${part}`;
const plusBias = (config, name) => (config.biases ? ` + ${name}` : "");
const normed = (config, letter) => (config.norm === "off" ? `x(${letter})` : `norm(x(${letter}))`);

/** The change of a part, as it is written, or null. */
const madeBy = (side, part) => (part in side.prepared.changes ? `${part}=${side.prepared.changes[part]}` : null);

export function embeddingLines(token, vector) {
  return [`x(${token}) = row ${token} of embed.W_E`, `= ${showVector(vector)}`];
}

/** q, k or v of one token in one head. */
export function projectionLines(side, layer, head, part, position) {
  const { model } = side.prepared;
  const { config, weights, tokens } = model;
  const stage = side.trace.layers[layer];
  const token = tokens[position];
  const name = `${blockName(layer, "attn")}.W_${part}`;
  const vector = stage[part.toLowerCase()][head][position];
  const kind = { Q: "query", K: "key", V: "value" }[part];
  const by = madeBy(side, partName(layer, kind, head, token)) ?? madeBy(side, partName(layer, kind, head));
  if (by) return [`${part.toLowerCase()}(${token}) is changed: ${by}`, `= ${showVector(vector)}`];
  const lines = [`${part.toLowerCase()}(${token}) = ${normed(config, token)} · ${name}[${head}]${plusBias(config, `b_${part}`)}`];
  if (vector.length === 1 && !config.biases) lines.push(`= ${writtenDot(stage.read[position], column(weights[name][head], 0))}`);
  return [...lines, `= ${showVector(vector)}`];
}

export function scoreLines(side, layer, head, query, key) {
  const { config, tokens } = side.prepared.model;
  const stage = side.trace.layers[layer];
  const grows = config.score_scale !== "sqrt_d_head";
  const learned = config.score_scale === "sqrt_d_head_ssmax" ? " × the head's own factor" : "";
  const many = side.trace.size + (config.score_scale === "sqrt_d_head_log_n_cls" ? 1 : 0);
  const divisor = config.attention_scale ? show(config.attention_scale) : `√${config.d_head}`;
  const scaled = `/ ${divisor}${grows ? ` × log ${showCount(many)}` : ""}${learned}`;
  const each = config.qk_norm === "off" ? ["q", "k"] : ["norm q", "norm k"];
  return [
    `score(${tokens[key]}) = ${each[0]}(${tokens[query]}) · ${each[1]}(${tokens[key]}) / ${config.attention_scale ? divisor : "√d_head"}${grows ? " × log n" : ""}${learned}`,
    `= (${writtenDot(stage.qSeen[head][query], stage.kSeen[head][key])}) ${scaled}`,
    ...(config.adaptive_temperature ? ["times what the entropy of the attention makes of it"] : []),
    `= ${show(stage.scores[head][query][key])}`,
  ];
}

export function weightLines(side, layer, head, query, key) {
  const { tokens } = side.prepared.model;
  const { trace } = side;
  const stage = trace.layers[layer];
  const weight = stage.pattern[head][query][key];
  const token = tokens[key];
  const by = madeBy(side, partName(layer, "pattern", head));
  if (by) return [`weight(${token}) is frozen: ${by}`, `= ${show(weight)}`];
  const count = trace.multiplicity[key];
  const terms = tokens
    .map((_, j) => j)
    .filter((j) => trace.multiplicity[j] > 0)
    .map((j) => `${showCount(trace.multiplicity[j])} e^${show(stage.scores[head][query][j], 3)}`);
  const shown = terms.length > 5 ? `${terms.slice(0, 4).join(" + ")} + …` : terms.join(" + ");
  const lines = [
    `weight(${token}) = n(${token}) e^score(${token}) / Σ n(j) e^score(j)`,
    `= ${showCount(count)} e^${show(stage.scores[head][query][key], 3)} / (${shown})`,
    `= ${show(weight)}`,
  ];
  return count > 1 ? [...lines, `each of the ${showCount(count)} copies gets ${show(weight / count)}`] : lines;
}

export function outputLines(side, layer, head, query) {
  const { tokens, config } = side.prepared.model;
  const stage = side.trace.layers[layer];
  const z = stage.z[head][query];
  const by = madeBy(side, partName(layer, "head", head));
  if (by) return [`z is changed: ${by}`, `= ${showVector(z)}`];
  const lines = ["z = Σ weight(j) × v(j)"];
  if (config.d_head === 1) {
    const used = tokens.map((_, j) => j).filter((j) => stage.pattern[head][query][j] > 0);
    const terms = used.slice(0, 4).map((j) => `${show(stage.pattern[head][query][j])} × ${show(stage.v[head][j][0])}`);
    lines.push(`= ${terms.join(" + ")}${used.length > 4 ? " + …" : ""}`);
  }
  return [...lines, `= ${showVector(z)}`];
}

export function headContributionLines(side, layer, head) {
  const part = side.trace.parts.find(({ id }) => id === `${layer}.${head}`);
  return [
    `what head ${head} adds to the logit = (z · ${blockName(layer, "attn")}.W_O[${head}]) · unembed.W_U`,
    `= ${writtenDot(part.vector, side.trace.readOut)}`,
    `= ${show(part.contribution)}`,
  ];
}

export function unitLines(side, layer, unit, what) {
  const { weights, config } = side.prepared.model;
  const stage = side.trace.layers[layer];
  const pre = stage.mlpPre[0][unit];
  const post = stage.mlpPost[0][unit];
  const act = ACTIVATIONS[config.act_fn].name;
  if (what === "pre") {
    const into = config.gated_mlp ? "W_gate" : "W_in";
    const bias = config.biases && !config.gated_mlp ? ` + ${show(weights[`${blockName(layer, "mlp")}.b_in`][unit])}` : "";
    const read = config.norm === "off" ? "x(CLS) after attention" : "norm(x(CLS)) after attention";
    return [
      `input of neuron ${unit} = ${read} · column ${unit} of ${into}${config.gated_mlp ? "" : plusBias(config, "b_in")}`,
      `= ${writtenDot(stage.mlpRead[0], column(weights[`${blockName(layer, "mlp")}.${into}`], unit))}${bias}`,
      `= ${show(pre)}`,
    ];
  }
  if (what === "post") {
    const by = madeBy(side, partName(layer, "neuron", unit));
    if (by) return [`changed: ${by}`, `= ${show(post)}`];
    if (config.gated_mlp) return [`${act}(gate) × input${plusBias(config, "b_in")}`, `= ${show(post)}`];
    const written = { gelu: "x/2 · (1 + erf(x/√2))", relu: "max(0, x)", silu: "x / (1 + e^−x)" }[config.act_fn];
    return [...(written ? [`${act}(x) = ${written}`] : []), `${act}(${show(pre)}) = ${show(post)}`];
  }
  const whole = madeBy(side, partName(layer, "mlp"));
  const out = weights[`${blockName(layer, "mlp")}.W_out`][unit];
  const along = out.reduce((sum, x, i) => sum + x * side.trace.readOut[i], 0);
  return [
    `what neuron ${unit} adds to the logit = activation × (row ${unit} of W_out · unembed.W_U)`,
    `= ${show(post)} × ${show(along)}`,
    `= ${show(post * along)}`,
    ...(whole ? [`but the MLP is changed as a whole: ${whole}`] : []),
  ];
}

export function logitLines(side) {
  const { trace } = side;
  const { config } = side.prepared.model;
  const last = trace.layers.at(-1).post[trace.reading];
  const parts = trace.parts.slice(0, 5).map((part) => `${show(part.contribution)} (${part.name})`);
  return [
    `logit = ${config.final_norm ? "norm(x(CLS))" : "x(CLS)"} · unembed.W_U${plusBias(config, "b_U")}`,
    ...(config.final_norm || config.biases ? [] : [`= ${writtenDot(last, trace.readOut)}`]),
    `= ${show(trace.logit, 6)}`,
    `= ${parts.join(" + ")}${trace.parts.length > 5 ? " + …" : ""}`,
  ];
}

export function probabilityLines(logit) {
  return ["probability = 1 / (1 + e^−logit)", `= 1 / (1 + e^${show(-logit)})`, `= ${show(sigmoid(logit), 6)}`];
}
