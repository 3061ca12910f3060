// The classifier's arithmetic in count space: one position for CLS and one per letter, in float64.
//
// The same steps as tsc_interp/model/forward.py, each kept in a trace so that it can be drawn and
// explained. Key j gets the weight m_j exp(s_j) / sum_i m_i exp(s_i), with m_j its multiplicity.

import { readChange } from "./changes.mjs";
import { add, dot, gelu, scale, times } from "./maths.mjs";
import { countsOf, lettersOf } from "./strings.mjs";

/** Every weight's name and shape, in the order data flows, as ClassifierConfig.weight_shapes has it. */
export function weightShapes(config) {
  const { d_model: d, n_heads: h, d_head: k, d_mlp: m } = config;
  const norms = { off: [], rms: ["w"], layer: ["w", "b"] }[config.norm];
  const shapes = { "embed.W_E": [2 + config.n_letters, d] };
  for (let layer = 0; layer < config.n_layers; layer++) {
    const block = `blocks.${layer}`;
    if (h > 0) {
      for (const part of norms) shapes[`${block}.ln1.${part}`] = [d];
      for (const part of ["Q", "K", "V"]) shapes[`${block}.attn.W_${part}`] = [h, d, k];
      shapes[`${block}.attn.W_O`] = [h, k, d];
    }
    if (m > 0) {
      for (const part of norms) shapes[`${block}.ln2.${part}`] = [d];
      shapes[`${block}.mlp.W_in`] = [d, m];
      shapes[`${block}.mlp.W_out`] = [m, d];
    }
  }
  shapes["unembed.W_U"] = [d, 1];
  return shapes;
}

/** A model from its configuration and its weights: lists of numbers, or the bits of float32 in base64. */
export function makeModel(config, flat, name = "model") {
  const shapes = weightShapes(config);
  const weights = {};
  const numbers = {};
  for (const [key, shape] of Object.entries(shapes)) {
    numbers[key] = typeof flat[key] === "string" ? decoded(flat[key]) : flat[key].map(Math.fround);
    weights[key] = nest(numbers[key], shape);
  }
  const tokens = ["CLS", ...lettersOf(config.n_letters)];
  return { name, config, shapes, flat: numbers, weights, tokens };
}

function decoded(text) {
  const bytes = new DataView(Uint8Array.from(atob(text), (character) => character.charCodeAt(0)).buffer);
  return Array.from({ length: bytes.byteLength / 4 }, (_, i) => bytes.getFloat32(4 * i, true));
}

function nest(numbers, shape) {
  if (shape.length === 1) return Array.from(numbers);
  const step = numbers.length / shape[0];
  return Array.from({ length: shape[0] }, (_, i) => nest(numbers.slice(i * step, (i + 1) * step), shape.slice(1)));
}

/** Where a flat index stands in a weight of this shape: [row, column] or [head, row, column]. */
export function indicesOf(shape, index) {
  const places = [];
  let rest = index;
  for (const size of [...shape].reverse()) {
    places.unshift(rest % size);
    rest = Math.floor(rest / size);
  }
  return places;
}

export const noEdits = () => ({ changes: [], weights: {} });

/** The model with its edited weights put in; the other edits act while it runs. */
function withEditedWeights(model, edits) {
  const changed = Object.entries(edits.weights);
  if (changed.length === 0) return model;
  const flat = { ...model.flat };
  for (const [place, value] of changed) {
    const [name, index] = place.split("/");
    flat[name] = flat[name] === model.flat[name] ? [...flat[name]] : flat[name];
    flat[name][Number(index)] = value;
  }
  return makeModel(model.config, flat, model.name);
}

/**
 * A model with all edits, ready to run: { model, plain, changes, effects }. `plain` is the same without its changes,
 * and `effects` holds by place ("0.head.1") what the changes do there.
 */
export function prepare(model, edits = noEdits()) {
  const plain = { model: withEditedWeights(model, edits), changes: {}, effects: {} };
  const prepared = { model: plain.model, plain, changes: {}, effects: {} };
  for (const text of edits.changes) {
    const change = readChange(text, model.config);
    const place = `${change.layer}.${change.kind}.${change.index ?? ""}`;
    prepared.changes[change.part] = text.slice(text.indexOf("=") + 1);
    (prepared.effects[place] ??= []).push(effectOf(plain, change));
  }
  return prepared;
}

/** The whole forward pass on one count vector, every step kept. Counts may be any non-negative reals. */
export function run(prepared, counts) {
  const { model } = prepared;
  const { config, weights } = model;
  const multiplicity = [config.attend_cls ? 1 : 0, ...counts];
  const size = counts.reduce((sum, count) => sum + count, 0);
  const embedded = [weights["embed.W_E"][0], ...weights["embed.W_E"].slice(2)];
  const readOut = weights["unembed.W_U"].map((row) => row[0]);
  const parts = [{ id: "embed", name: "CLS embedding", vector: embedded[0] }];
  const layers = [];
  let residual = embedded;
  for (let index = 0; index < config.n_layers; index++) {
    const layer = { pre: residual };
    const label = config.n_layers > 1 ? `layer ${index} ` : "";
    if (config.n_heads > 0) {
      attention(prepared, index, layer, multiplicity, size);
      layer.headOut.forEach((out, head) => {
        parts.push({ id: `${index}.${head}`, name: `${label}head ${head}`, vector: out[0] });
      });
      residual = residual.map((x, position) => (layer.attnOut[position] ? add(x, layer.attnOut[position]) : x));
      layer.mid = residual;
    }
    if (config.d_mlp > 0) {
      mlp(prepared, index, layer, residual);
      parts.push({ id: `${index}.mlp`, name: `${label}MLP`, vector: layer.mlpOut[0] });
      residual = residual.map((x, position) => (layer.mlpOut[position] ? add(x, layer.mlpOut[position]) : x));
    }
    layer.post = residual;
    layers.push(layer);
  }
  for (const part of parts) part.contribution = dot(part.vector, readOut);
  return { counts, size, multiplicity, embedded, readOut, layers, parts, logit: dot(residual[0], readOut) };
}

/** In the last layer only CLS's own row matters for the logit; before it, every position's does. */
const queriesOf = (config, index) => (index === config.n_layers - 1 ? 1 : config.n_letters + 1);

function attention(prepared, index, layer, multiplicity, size) {
  const { model } = prepared;
  const { config, weights } = model;
  const name = `blocks.${index}.attn`;
  const queries = queriesOf(config, index);
  layer.read = layer.pre.map((x) => norm(model, `blocks.${index}.ln1`, x));
  const heads = Array.from({ length: config.n_heads }, (_, head) => head);
  const after = (kind, rows) => heads.map((head) => changed(prepared, `${index}.${kind}.${head}`, rows(head)));
  const project = (kind, part) =>
    after(kind, (head) => layer.read.map((x) => times(x, weights[`${name}.W_${part}`][head])));
  layer.q = project("query", "Q");
  layer.k = project("key", "K");
  layer.v = project("value", "V");
  layer.scoreFactor = scoreFactor(config, size);
  layer.scores = heads.map((head) =>
    layer.q[head].slice(0, queries).map((q) => layer.k[head].map((k) => dot(q, k) * layer.scoreFactor)),
  );
  layer.pattern = after("pattern", (head) => layer.scores[head].map((scores) => softmax(scores, multiplicity)));
  layer.z = after("head", (head) => layer.pattern[head].map((row) => times(row, layer.v[head])));
  layer.headOut = heads.map((head) => layer.z[head].map((z) => times(z, weights[`${name}.W_O`][head])));
  layer.attnOut = layer.headOut.reduce((sum, out) => sum.map((x, i) => add(x, out[i])));
}

/** What multiplies q·k: 1 / sqrt(d_head), and log n where the configuration says so. */
function scoreFactor(config, size) {
  const plain = 1 / Math.sqrt(config.d_head);
  return config.score_scale === "sqrt_d_head_log_n" ? plain * Math.log(size) : plain;
}

/** Weights m_j exp(s_j) / sum, the largest score of a present key taken out first. */
export function softmax(scores, multiplicity) {
  const top = Math.max(...scores.filter((_, j) => multiplicity[j] > 0));
  const raw = scores.map((score, j) => (multiplicity[j] > 0 ? multiplicity[j] * Math.exp(score - top) : 0));
  return scale(raw, 1 / raw.reduce((sum, x) => sum + x, 0));
}

function mlp(prepared, index, layer, residual) {
  const { model } = prepared;
  const { config, weights } = model;
  const name = `blocks.${index}`;
  const read = residual.slice(0, queriesOf(config, index)).map((x) => norm(model, `${name}.ln2`, x));
  layer.mlpRead = read;
  layer.mlpPre = read.map((x) => times(x, weights[`${name}.mlp.W_in`]));
  const neurons = layer.mlpPre[0].map((_, neuron) =>
    changed(prepared, `${index}.neuron.${neuron}`, layer.mlpPre.map((row) => [gelu(row[neuron])])),
  );
  layer.mlpPost = layer.mlpPre.map((_, position) => neurons.map((rows) => rows[position][0]));
  layer.mlpOut = changed(prepared, `${index}.mlp.`, layer.mlpPost.map((row) => times(row, weights[`${name}.mlp.W_out`])));
}

export function norm({ config, weights }, name, x) {
  if (config.norm === "off") return x;
  const mean = config.norm === "layer" ? x.reduce((sum, value) => sum + value, 0) / x.length : 0;
  const centred = x.map((value) => value - mean);
  const size = Math.sqrt(dot(centred, centred) / x.length + config.norm_eps);
  const shift = config.norm === "layer" ? weights[`${name}.b`] : null;
  return centred.map((value, i) => (value / size) * weights[`${name}.w`][i] + (shift ? shift[i] : 0));
}

// -- changes ---------------------------------------------------------------------------------------

/** What stands at a place after the changes made there; `rows` has one vector per position. */
export function changed({ effects }, place, rows) {
  return (effects[place] ?? []).reduce(
    (now, { at, factor, put }) =>
      now.map((row, i) => (at !== null && at !== i ? row : put ? put[i] : scale(row, factor))),
    rows,
  );
}

const PICKED = {
  head: (layer, i) => layer.z[i],
  query: (layer, i) => layer.q[i],
  key: (layer, i) => layer.k[i],
  value: (layer, i) => layer.v[i],
  pattern: (layer, i) => layer.pattern[i],
  neuron: (layer, i) => layer.mlpPost.map((row) => [row[i]]),
  mlp: (layer) => layer.mlpOut,
};

/**
 * What a change does: { at, factor } multiplies, { at, put } puts vectors there, one per position; `at` is the only
 * position or null. `combine(pick)` makes `put` of what `pick(layer)` finds in the runs it comes from, or of its errors.
 */
function effectOf(plain, { layer, kind, index, letter, factor, vector, strings, like, patch }) {
  const { config, tokens } = plain.model;
  const at = letter === null ? null : tokens.indexOf(letter);
  if (factor !== undefined) return { at, factor };
  const everywhere = (row) => tokens.map(() => row);
  if (vector) return { at, put: everywhere(vector), combine: () => everywhere(vector.map(() => 0)) };
  const traces = (strings ?? [like ?? patch]).map((text) => run(plain, countsOf(text, config.n_letters)));
  const combine = (pick) => {
    const found = traces.map((trace) => pick(trace.layers[layer], trace));
    if (patch !== undefined) return found[0];
    if (like !== undefined) return everywhere(found[0][tokens.indexOf(like)]);
    // Keys and values are averaged over all letters of the strings, copies counted; the rest by kind of token.
    const votes = traces.map(({ multiplicity }) => multiplicity.map((count, i) => Number(i === 0 || count > 0)));
    if (kind !== "key" && kind !== "value") return found[0].map((_, i) => mean(found.map((rows) => rows[i]), votes.map((row) => row[i])));
    return everywhere(mean(found.flat(), traces.flatMap(({ multiplicity }) => multiplicity)));
  };
  const pick = (from) => PICKED[kind](from, index);
  return { at, put: combine(pick), combine, pick, plain, many: traces.length * tokens.length };
}

function mean(rows, weights) {
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  return rows[0].map((_, d) => rows.reduce((sum, row, i) => sum + weights[i] * row[d], 0) / (total || 1));
}
