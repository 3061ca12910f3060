// How far float64 can be from the real numbers: an error bound beside every step of the forward pass.
//
// A sum of n products is off by at most n units of the sum of their *sizes*, however small the sum itself is, plus
// what the errors of its factors make of it. So where large terms cancel the bound stays large, and a sign
// is only believed when the logit is larger than its bound. Bounds are of first order, doubled at the end.

import { times } from "./maths.mjs";

export const UNIT = 2 ** -53;
export const GELU_SLOPE = 1.2;
const LARGEST_LOG = 26; // log of more letters than a string can have

/** The error of `vector` times `rows`, entry by entry, given the vector and its own error. */
export function timesError(vector, error, rows) {
  const out = new Array(rows[0].length).fill(0);
  rows.forEach((row, i) => {
    const off = error[i] + (rows.length + 2) * UNIT * Math.abs(vector[i]);
    for (let j = 0; j < row.length; j++) out[j] += Math.abs(row[j]) * off;
  });
  return out;
}

export const dotError = (a, error, b) =>
  timesError(
    a,
    error,
    b.map((x) => [x]),
  )[0];
export const geluError = (x, error) => GELU_SLOPE * error + 24 * UNIT * Math.abs(x);
const zeros = (vector) => vector.map(() => 0);
const plus = (...errors) => errors.reduce((sum, error) => sum.map((x, i) => x + error[i]));
const units = (vector, number) => vector.map((x) => number * UNIT * Math.abs(x));

/** The error of a norm's output, whatever the size it divides by: at least √ε, or as given. */
export function normError(model, name, x, error, size = null) {
  const { config, weights } = model;
  if (config.norm === "off") return error;
  const many = x.length;
  const typical = x.reduce((sum, value) => sum + Math.abs(value), 0) / many;
  const centred = x.map((value, i) => error[i] + (many + 2) * UNIT * (Math.abs(value) + typical));
  const mean = config.norm === "layer" ? error.reduce((sum, value) => sum + value, 0) / many : 0;
  const most = Math.max(...centred) + mean;
  const divisor = size ?? Math.sqrt(config.norm_eps);
  // A coordinate is at most √many times the size; the size is off by at most the largest error.
  return centred.map(
    (off, i) =>
      (Math.abs(weights[`${name}.w`][i]) * (off + mean + Math.sqrt(many) * (most + (many + 8) * UNIT * divisor))) /
      divisor,
  );
}

const sizeOf = ({ config }, x) => {
  const mean = config.norm === "layer" ? x.reduce((sum, value) => sum + value, 0) / x.length : 0;
  return Math.sqrt(x.reduce((sum, value) => sum + (value - mean) ** 2, 0) / x.length + config.norm_eps);
};

/** The errors of what stands at a place after its changes, given those before them and the numbers after them. */
export function changedErrors({ effects }, place, errors, after) {
  return (effects[place] ?? []).reduce((now, effect) => {
    const put = effect.put && putErrors(effect);
    return now.map((own, i) => {
      if (effect.at !== null && effect.at !== i) return own;
      return put ? put[i] : own.map((off, d) => Math.abs(effect.factor) * off + 2 * UNIT * Math.abs(after[i][d]));
    });
  }, errors);
}

/** How far off what a change puts there is: as far as it was in the runs it comes from, and the rounding of a mean. */
export function putErrors(effect) {
  effect.errors ??= effect.combine((layer, trace) => {
    if (!layer.errors) logitError(effect.plain, trace);
    const numbers = effect.pick(layer);
    return effect.pick(layer.errors).map((row, i) => row.map((off, d) => off + (effect.many + 4) * UNIT * Math.abs(numbers[i][d])));
  });
  return effect.errors;
}

/** Errors of every head's queries, keys and values, and of its scores after exp: `pattern[head][query][key]` are relative. */
export function attentionError(prepared, index, layer, error) {
  const { model } = prepared;
  const { config, weights } = model;
  const read = layer.pre.map((x, i) => normError(model, `blocks.${index}.ln1`, x, error[i], sizeOf(model, x)));
  const heads = Array.from({ length: config.n_heads }, (_, head) => head);
  const project = (kind, part, after) =>
    heads.map((head) => {
      const off = layer.read.map((x, i) => timesError(x, read[i], weights[`blocks.${index}.attn.W_${part}`][head]));
      return changedErrors(prepared, `${index}.${kind}.${head}`, off, after[head]);
    });
  const [q, k, v] = [project("query", "Q", layer.q), project("key", "K", layer.k), project("value", "V", layer.v)];
  const scale = (config.score_scale === "sqrt_d_head_log_n" ? LARGEST_LOG : 1) / Math.sqrt(config.d_head);
  const pattern = heads.map((head) => {
    const off = q[head].slice(0, layer.scores[head].length).map((asked, query) => {
      const ask = layer.q[head][query];
      const size = layer.k[head].map((key) => key.reduce((sum, x, i) => sum + Math.abs(x * ask[i]), 0));
      // Taking out the largest score is rounded too, by units of both.
      const most = Math.max(...size);
      return layer.k[head].map(
        (key, j) =>
          scale * (dotError(ask, asked, key) + dotError(key, k[head][j], ask) + 8 * UNIT * (size[j] + most)) + 16 * UNIT,
      );
    });
    return changedErrors(prepared, `${index}.pattern.${head}`, off, layer.pattern[head]);
  });
  return { q, k, v, pattern };
}

/**
 * The error of a mean of `values` by `weights` when the weights are off by the relative errors `off`: shifting
 * weight moves the mean by no more than the values differ from it.
 */
function meanError(weights, off, values, errors, mean) {
  let [moved, rest, own] = [0, 0, 0];
  weights.forEach((weight, j) => {
    if (!(weight > 0)) return;
    moved += weight * Math.abs(values[j] - mean) * Math.expm1(off[j]);
    rest += weight * Math.exp(-off[j]);
    own += weight * (errors[j] + (weights.length + 4) * UNIT * Math.abs(values[j]));
  });
  return moved / rest + own;
}

/** A bound on |computed - real| for the logit of a trace; every layer of it gets the `errors` of its steps. */
export function logitError(prepared, given) {
  const { config } = prepared.model;
  let error = given.embedded.map(zeros);
  given.layers.forEach((layer, index) => {
    layer.errors = {};
    if (config.n_heads > 0) error = headsError(prepared, index, layer, error);
    if (config.d_mlp > 0) error = mlpError(prepared, index, layer, error);
  });
  const last = given.layers.at(-1)?.post[0] ?? given.embedded[0];
  return 2 * dotError(last, error[0], given.readOut);
}

function headsError(prepared, index, layer, error) {
  const { config, weights } = prepared.model;
  const { v, pattern } = Object.assign(layer.errors, attentionError(prepared, index, layer, error));
  const along = (vectors, d) => vectors.map((vector) => vector[d]);
  layer.errors.z = layer.z.map((rows, head) => {
    const off = layer.pattern[head].map((weight, position) =>
      times(weight, layer.v[head]).map((mean, d) =>
        meanError(weight, pattern[head][position], along(layer.v[head], d), along(v[head], d), mean),
      ),
    );
    return changedErrors(prepared, `${index}.head.${head}`, off, rows);
  });
  return error.map((own, position) => {
    if (!layer.attnOut[position]) return own;
    const outs = layer.headOut.map((out, head) => {
      const z = [layer.z[head][position], layer.errors.z[head][position]];
      const off = timesError(...z, weights[`blocks.${index}.attn.W_O`][head]);
      return plus(off, units(out[position], config.n_heads + 2));
    });
    return plus(own, ...outs, units(layer.mid[position], 2));
  });
}

function mlpError(prepared, index, layer, error) {
  const { model } = prepared;
  const { weights } = model;
  const before = layer.mid ?? layer.pre;
  const pre = layer.mlpRead.map((row, position) => {
    const x = before[position];
    const read = normError(model, `blocks.${index}.ln2`, x, error[position], sizeOf(model, x));
    return timesError(row, read, weights[`blocks.${index}.mlp.W_in`]);
  });
  const neurons = layer.mlpPre[0].map((_, m) => {
    const off = layer.mlpPre.map((row, position) => [geluError(row[m], pre[position][m])]);
    return changedErrors(prepared, `${index}.neuron.${m}`, off, layer.mlpPost.map((row) => [row[m]]));
  });
  layer.errors.mlpPost = layer.mlpPost.map((_, position) => neurons.map((rows) => rows[position][0]));
  const outs = layer.mlpPost.map((row, i) => timesError(row, layer.errors.mlpPost[i], weights[`blocks.${index}.mlp.W_out`]));
  layer.errors.mlpOut = changedErrors(prepared, `${index}.mlp.`, outs, layer.mlpOut);
  return error.map((own, i) => (layer.mlpOut[i] ? plus(own, layer.errors.mlpOut[i], units(layer.post[i], 2)) : own));
}
