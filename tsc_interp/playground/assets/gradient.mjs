// The mean loss of a batch and its gradient by every weight, for one layer: the model's steps, backwards.
//
// Weights are flat lists of numbers by name, as in a checkpoint. Keys and values depend on the letter alone, so they are
// made once per batch; tests/js/train.test.mjs holds the gradient equal to Python's.

import { softmax } from "./layers.mjs";
import { dot, erf } from "./maths.mjs";
import { weightShapes } from "./shapes.mjs";

const BLOCK = "blocks.0";

/** y = x W for a matrix that stands in `w` from `start`, row by row. */
function times(x, w, columns, start = 0) {
  const y = new Float64Array(columns);
  for (let i = 0; i < x.length; i++) for (let j = 0; j < columns; j++) y[j] += x[i] * w[start + i * columns + j];
  return y;
}

/** Given dy: adds x dy to W's gradient and returns W dy. */
function timesBack(x, w, dW, dy, start = 0) {
  const columns = dy.length;
  const dX = new Float64Array(x.length);
  for (let i = 0; i < x.length; i++) {
    for (let j = 0; j < columns; j++) {
      const at = start + i * columns + j;
      dW[at] += x[i] * dy[j];
      dX[i] += w[at] * dy[j];
    }
  }
  return dX;
}

function addTo(sum, x) {
  for (let i = 0; i < sum.length; i++) sum[i] += x[i];
}

/** A norm's output and what its derivative needs: { y, unit, size }. */
function normed(config, weights, name, x) {
  if (config.norm === "off") return { y: x };
  const mean = config.norm === "layer" ? x.reduce((sum, value) => sum + value, 0) / x.length : 0;
  const centred = x.map((value) => value - mean);
  const size = Math.sqrt(dot(centred, centred) / x.length + config.norm_eps);
  const unit = centred.map((value) => value / size);
  const [w, b] = [weights[`${name}.w`], weights[`${name}.b`]];
  return { y: unit.map((value, i) => value * w[i] + (b ? b[i] : 0)), unit, size };
}

function normedBack(config, weights, grads, name, { unit, size }, dy) {
  if (config.norm === "off") return dy;
  const d = unit.length;
  const w = weights[`${name}.w`];
  const dUnit = dy.map((value, i) => {
    grads[`${name}.w`][i] += value * unit[i];
    if (config.norm === "layer") grads[`${name}.b`][i] += value;
    return value * w[i];
  });
  const along = dot(dUnit, unit) / d;
  const mean = config.norm === "layer" ? dUnit.reduce((sum, value) => sum + value, 0) / d : 0;
  return dUnit.map((value, i) => (value - mean - along * unit[i]) / size);
}

/** { loss, grads }: the summed cross-entropy of the strings, and the gradient of its mean. */
export function lossAndGradient(config, weights, rows, labels) {
  const grads = {};
  for (const [name, shape] of Object.entries(weightShapes(config)))
    grads[name] = new Float64Array(shape.reduce((size, n) => size * n, 1));
  const tables = makeTables(config, weights);
  let loss = 0;
  rows.forEach((counts, i) => {
    const trace = forward(config, weights, tables, counts);
    const label = labels[i] ? 1 : 0;
    loss += Math.log1p(Math.exp(-Math.abs(trace.logit))) + Math.max(0, trace.logit) - label * trace.logit;
    backward(config, weights, grads, tables, trace, (1 / (1 + Math.exp(-trace.logit)) - label) / rows.length);
  });
  tablesBack(config, weights, grads, tables);
  return { loss, grads };
}

/** The summed loss alone, for validation. */
export function totalLoss(config, weights, rows, labels) {
  const tables = makeTables(config, weights);
  return rows.reduce((sum, counts, i) => {
    const { logit } = forward(config, weights, tables, counts);
    return sum + Math.log1p(Math.exp(-Math.abs(logit))) + Math.max(0, logit) - (labels[i] ? logit : 0);
  }, 0);
}

const headsOf = (config) => Array.from({ length: config.n_heads }, (_, head) => head);

/** CLS's query and every token's key and value, per head; tokens are CLS and the letters. */
function makeTables(config, weights) {
  const { d_model: d, d_head: k } = config;
  const tokens = [0, ...Array.from({ length: config.n_letters }, (_, i) => i + 2)];
  const x = tokens.map((token) => weights["embed.W_E"].slice(token * d, (token + 1) * d));
  const read = x.map((row) => normed(config, weights, `${BLOCK}.ln1`, row));
  const project = (part, rows) =>
    headsOf(config).map((head) => rows.map(({ y }) => times(y, weights[`${BLOCK}.attn.W_${part}`], k, head * d * k)));
  const [q, keys, v] = [project("Q", read.slice(0, 1)), project("K", read), project("V", read)];
  const scores = headsOf(config).map((head) => keys[head].map((key) => dot(q[head][0], key) / Math.sqrt(k)));
  const zeros = (rows) => rows.map((list) => list.map((row) => new Float64Array(row.length)));
  return { tokens, x, read, q, keys, v, scores, dScores: scores.map((row) => row.map(() => 0)), dV: zeros(v), dX: new Float64Array(d) };
}

function forward(config, weights, tables, counts) {
  const { d_model: d, d_head: k, d_mlp: m } = config;
  const multiplicity = [config.attend_cls ? 1 : 0, ...counts];
  const stretch = config.score_scale === "sqrt_d_head_log_n" ? Math.log(counts.reduce((sum, n) => sum + n, 0)) : 1;
  const mid = new Float64Array(tables.x[0]);
  const heads = headsOf(config).map((head) => {
    const pattern = softmax(tables.scores[head].map((score) => score * stretch), multiplicity);
    const z = new Float64Array(k);
    for (let j = 0; j < pattern.length; j++) for (let i = 0; i < k; i++) z[i] += pattern[j] * tables.v[head][j][i];
    addTo(mid, times(z, weights[`${BLOCK}.attn.W_O`], d, head * k * d));
    return { pattern, z };
  });
  const out = mid.slice();
  let mlp = null;
  if (m > 0) {
    const read = normed(config, weights, `${BLOCK}.ln2`, mid);
    const pre = times(read.y, weights[`${BLOCK}.mlp.W_in`], m);
    const phi = pre.map((value) => 0.5 * (1 + erf(value * Math.SQRT1_2)));
    const post = pre.map((value, i) => value * phi[i]);
    addTo(out, times(post, weights[`${BLOCK}.mlp.W_out`], d));
    mlp = { read, pre, phi, post };
  }
  return { heads, mlp, out, stretch, logit: dot(out, weights["unembed.W_U"]) };
}

function backward(config, weights, grads, tables, { heads, mlp, out, stretch }, dLogit) {
  const { d_model: d, d_head: k } = config;
  const dOut = timesBack(out, weights["unembed.W_U"], grads["unembed.W_U"], [dLogit]);
  const dMid = dOut.slice();
  if (mlp) {
    const dPost = timesBack(mlp.post, weights[`${BLOCK}.mlp.W_out`], grads[`${BLOCK}.mlp.W_out`], dOut);
    // gelu'(x) = Phi(x) + x phi(x)
    const dPre = dPost.map((value, i) => {
      const x = mlp.pre[i];
      return value * (mlp.phi[i] + (x * Math.exp(-0.5 * x * x)) / Math.sqrt(2 * Math.PI));
    });
    const dRead = timesBack(mlp.read.y, weights[`${BLOCK}.mlp.W_in`], grads[`${BLOCK}.mlp.W_in`], dPre);
    addTo(dMid, normedBack(config, weights, grads, `${BLOCK}.ln2`, mlp.read, dRead));
  }
  addTo(tables.dX, dMid);
  heads.forEach(({ pattern, z }, head) => {
    const dZ = timesBack(z, weights[`${BLOCK}.attn.W_O`], grads[`${BLOCK}.attn.W_O`], dMid, head * k * d);
    const towards = tables.v[head].map((v) => dot(v, dZ));
    const mean = dot(pattern, towards);
    pattern.forEach((share, j) => {
      for (let i = 0; i < k; i++) tables.dV[head][j][i] += share * dZ[i];
      tables.dScores[head][j] += share * (towards[j] - mean) * stretch;
    });
  });
}

/** From scores and values to the projections and the embedding. */
function tablesBack(config, weights, grads, tables) {
  const { d_model: d, d_head: k } = config;
  const dRead = tables.x.map(() => new Float64Array(d));
  const back = (part, head, token, dy) =>
    addTo(dRead[token], timesBack(tables.read[token].y, weights[`${BLOCK}.attn.W_${part}`], grads[`${BLOCK}.attn.W_${part}`], dy, head * d * k));
  for (const head of headsOf(config)) {
    const dQ = new Float64Array(k);
    const q = tables.q[head][0];
    tables.keys[head].forEach((key, token) => {
      const dScore = tables.dScores[head][token] / Math.sqrt(k);
      for (let i = 0; i < k; i++) dQ[i] += dScore * key[i];
      back("K", head, token, q.map((value) => value * dScore));
      back("V", head, token, tables.dV[head][token]);
    });
    back("Q", head, 0, dQ);
  }
  tables.tokens.forEach((token, i) => {
    const dX = config.n_heads > 0 ? normedBack(config, weights, grads, `${BLOCK}.ln1`, tables.read[i], dRead[i]) : dRead[i];
    for (let j = 0; j < d; j++) grads["embed.W_E"][token * d + j] += dX[j] + (i === 0 ? tables.dX[j] : 0);
  });
}
