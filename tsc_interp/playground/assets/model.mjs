// The classifier's arithmetic, in float64: the same steps as tsc_interp/model/forward.py, each kept in a trace so that it
// can be drawn and explained.
//
// Where order does not matter there is one position for CLS and one per letter, and key j gets the weight
// m_j exp(s_j) / sum_i m_i exp(s_i), with m_j how often its letter occurs. Else there is a position per token.

import { readChange } from "./changes.mjs";
import { countInput, inputOf } from "./inputs.mjs";
import { ACTIVATIONS, inverseTemperature, norm, normOf, positionVector, scoreFactor, slopeOf, softmax, turned } from "./layers.mjs";
import { add, dot, scale, times } from "./maths.mjs";
import { calledTokens, keyValueHeads, needsOrder, weightShapes, withDefaults } from "./shapes.mjs";
import { lettersOf } from "./strings.mjs";

/** A model from its configuration and its weights: lists of numbers, or the bits of float32 in base64. */
export function makeModel(given, flat, name = "model") {
  const config = withDefaults(given);
  const shapes = weightShapes(config);
  const weights = {};
  const numbers = {};
  for (const [key, shape] of Object.entries(shapes)) {
    numbers[key] = typeof flat[key] === "string" ? decoded(flat[key]) : flat[key].map(Math.fround);
    weights[key] = nest(numbers[key], shape);
  }
  const letters = [...lettersOf(config.n_letters)];
  const tokens = ["CLS", ...letters];
  return { name, config, shapes, flat: numbers, weights, tokens, called: calledTokens(config, letters) };
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

// -- the forward pass ----------------------------------------------------------------------------------

/** The whole forward pass, every step kept. `given` are counts (any non-negative reals), or what `inputOf` returns. */
export function run(prepared, given) {
  const { model } = prepared;
  const { config, weights } = model;
  const input = Array.isArray(given) ? countInput(config, given) : given;
  const { ids, reading } = input;
  const added = config.n_positions > 0 && ["learned", "sinusoidal"].includes(config.positions);
  const embedded = ids.map((id, place) => {
    const vector = weights["embed.W_E"][id];
    return added ? add(vector, positionVector(model, place)) : vector;
  });
  const reader = config.reads === "last_letter" ? "last letter" : "CLS";
  const parts = [{ id: "embed", name: `${reader} embedding`, vector: embedded[reading] }];
  const layers = [];
  let residual = embedded;
  for (let index = 0; index < config.n_layers; index++) {
    const layer = { pre: residual };
    const label = config.n_layers > 1 ? `layer ${index} ` : "";
    if (config.n_heads > 0) {
      attention(prepared, index, layer, input);
      parts.push(...headParts(model, index, layer, reading, label));
      residual = residual.map((x, position) => (layer.attnOut[position] ? add(x, layer.attnOut[position]) : x));
      layer.mid = residual;
    }
    if (config.d_mlp > 0) {
      mlp(prepared, index, layer, residual);
      parts.push({ id: `${index}.mlp`, name: `${label}MLP`, vector: layer.mlpOut[reading] });
      residual = residual.map((x, position) => (layer.mlpOut[position] ? add(x, layer.mlpOut[position]) : x));
    }
    layer.post = residual;
    layers.push(layer);
  }
  return { ...input, embedded, layers, parts, ...readOut(model, residual[reading], parts) };
}

/**
 * { outputs, best, second, readOut, logit }: the logit is the one output or, of several, how far the largest is ahead of
 * the next. It is the sum of what the parts contribute along `readOut`, a bias being a part of its own.
 */
function readOut(model, x, parts) {
  const { config, weights } = model;
  const columns = config.tied_embeddings
    ? weights["embed.W_E"].slice(2)
    : weights["unembed.W_U"][0].map((_, i) => weights["unembed.W_U"].map((row) => row[i]));
  const final = config.final_norm ? normOf(model, config.norm, "ln_final", x) : null;
  const bias = weights["unembed.b_U"];
  const read = (u, b) => dot(x, final ? final.along(u) : u) + (final?.shift ? dot(final.shift, u) : 0) + b;
  const outputs = columns.map((u, i) => read(u, bias ? bias[i] : 0));
  const order = outputs.map((_, i) => i).sort((i, j) => outputs[j] - outputs[i] || i - j);
  const [best, second = null] = order;
  const direction = second === null ? columns[best] : columns[best].map((value, i) => value - columns[second][i]);
  const along = final ? final.along(direction) : direction;
  for (const part of parts) part.contribution = dot(part.vector, along);
  if (bias || final?.shift) {
    const constant = read(direction, bias ? bias[best] - (second === null ? 0 : bias[second]) : 0) - dot(x, along);
    parts.push({ id: "bias", name: "output bias", vector: x.map(() => 0), contribution: constant });
  }
  return { outputs, best, second, readOut: along, logit: second === null ? outputs[best] : outputs[best] - outputs[second] };
}

/** What each head adds where the answer is read, and the biases of attention; a norm behind it is shared out by its size. */
function headParts({ config, weights, ...model }, index, layer, reading, label) {
  const summed = layer.headSum[reading];
  const after = config.attention_norm === "off" ? null : normOf({ config, weights, ...model }, config.attention_norm, `blocks.${index}.ln1_post`, summed);
  const share = (v) => (after ? after.share(v) : v);
  const parts = layer.headOut.map((out, head) => ({ id: `${index}.${head}`, name: `${label}head ${head}`, vector: share(out[reading]) }));
  const biases = [config.biases ? share(weights[`blocks.${index}.attn.b_O`]) : null, after?.shift].filter(Boolean);
  if (biases.length > 0) parts.push({ id: `${index}.bias`, name: `${label}attention bias`, vector: biases.reduce(add) });
  return parts;
}

/** In the last layer only CLS's own row matters for the logit; before it, and where order matters, every position's does. */
const queriesOf = (config, index, layer) => (index === config.n_layers - 1 && !needsOrder(config) ? 1 : layer.pre.length);

function attention(prepared, index, layer, { multiplicity, size, causal }) {
  const { model } = prepared;
  const { config, weights } = model;
  const name = `blocks.${index}.attn`;
  const queries = queriesOf(config, index, layer);
  layer.read = layer.pre.map((x) => norm(model, `blocks.${index}.ln1`, x));
  const asked = config.positions === "shortformer" ? layer.read.map((x, place) => add(x, positionVector(model, place))) : layer.read;
  const heads = Array.from({ length: config.n_heads }, (_, head) => head);
  const after = (kind, rows) => heads.map((head) => changed(prepared, `${index}.${kind}.${head}`, rows(head)));
  const project = (kind, part, from, per = 1) =>
    after(kind, (head) => {
      const [own, bias] = [Math.floor(head / per), weights[`${name}.b_${part}`]];
      return from.map((x) => {
        const made = times(x, weights[`${name}.W_${part}`][own]);
        return bias ? add(made, bias[own]) : made;
      });
    });
  const per = config.n_heads / keyValueHeads(config);
  layer.q = project("query", "Q", asked);
  layer.k = project("key", "K", asked, per);
  layer.v = project("value", "V", layer.read, per);
  // What the scores are made of: queries and keys after a norm of their own and the turns of their positions.
  const seen = (rows, part) =>
    config.qk_norm === "off" && config.positions !== "rotary"
      ? rows
      : rows.map((vectors) =>
          vectors.map((x, place) => {
            const normed = norm(model, `${name}.${part}_norm`, x, config.qk_norm);
            return config.positions === "rotary" ? turned(config, normed, place) : normed;
          }),
        );
  layer.qSeen = seen(layer.q, "q");
  layer.kSeen = seen(layer.k, "k");
  const visible = (query) => (causal ? multiplicity.map((many, key) => (key <= query ? many : 0)) : multiplicity);
  layer.scores = heads.map((head) => {
    const factor = scoreFactor(model, name, head, size);
    return layer.qSeen[head].slice(0, queries).map((q, query) => {
      let scores = layer.kSeen[head].map((k) => dot(q, k) * factor);
      if (config.adaptive_temperature) scores = scale(scores, inverseTemperature(scores, multiplicity));
      if (config.positions === "alibi") scores = scores.map((score, key) => score - slopeOf(config, head) * Math.max(0, query - key));
      return scores;
    });
  });
  layer.pattern = after("pattern", (head) => layer.scores[head].map((scores, query) => softmax(scores, visible(query))));
  layer.z = after("head", (head) => layer.pattern[head].map((row) => times(row, layer.v[head])));
  layer.headOut = heads.map((head) => layer.z[head].map((z) => times(z, weights[`${name}.W_O`][head])));
  layer.headSum = layer.headOut.reduce((sum, out) => sum.map((x, i) => add(x, out[i])));
  if (config.biases) layer.headSum = layer.headSum.map((x) => add(x, weights[`${name}.b_O`]));
  layer.attnOut = layer.headSum.map((x) => norm(model, `blocks.${index}.ln1_post`, x, config.attention_norm));
}

function mlp(prepared, index, layer, residual) {
  const { model } = prepared;
  const { config, weights } = model;
  const name = `blocks.${index}`;
  const { act } = ACTIVATIONS[config.act_fn];
  const biased = (x, bias) => (config.biases ? add(x, weights[`${name}.mlp.${bias}`]) : x);
  const read = residual.slice(0, queriesOf(config, index, layer)).map((x) => norm(model, `${name}.ln2`, x));
  layer.mlpRead = read;
  const linear = read.map((x) => times(x, weights[`${name}.mlp.W_in`]));
  layer.mlpPre = config.gated_mlp ? read.map((x) => times(x, weights[`${name}.mlp.W_gate`])) : linear.map((row) => biased(row, "b_in"));
  const post = layer.mlpPre.map((row, i) =>
    config.gated_mlp ? biased(row.map((x, m) => act(x) * linear[i][m]), "b_in") : row.map(act),
  );
  const neurons = layer.mlpPre[0].map((_, neuron) =>
    changed(prepared, `${index}.neuron.${neuron}`, post.map((row) => [row[neuron]])),
  );
  layer.mlpPost = layer.mlpPre.map((_, position) => neurons.map((rows) => rows[position][0]));
  const out = layer.mlpPost.map((row) => biased(times(row, weights[`${name}.mlp.W_out`]), "b_out"));
  layer.mlpOut = changed(prepared, `${index}.mlp.`, out);
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
  const traces = (strings ?? [like ?? patch]).map((text) => run(plain, inputOf(config, text)));
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
