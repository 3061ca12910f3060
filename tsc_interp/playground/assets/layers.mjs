// Pieces of the forward pass: norms, activations, positions and how scores are made, as in tsc_interp/model.

import { add, dot, gelu, scale, sigmoid } from "./maths.mjs";

const ROOT_TWO_OVER_PI = Math.sqrt(2 / Math.PI);

/** By act_fn: what it is called, and the function. */
export const ACTIVATIONS = {
  gelu: { name: "GELU", act: gelu },
  gelu_new: { name: "GELU (tanh)", act: (x) => 0.5 * x * (1 + Math.tanh(ROOT_TWO_OVER_PI * (x + 0.044715 * x ** 3))) },
  relu: { name: "ReLU", act: (x) => Math.max(0, x) },
  silu: { name: "SiLU", act: (x) => x * sigmoid(x) },
};

/**
 * A norm of `x`, taken apart: `share(v)` is what a summand v of x becomes, `along(u)` the direction in which x itself
 * has the product that the normed x has with u, and `shift` the learned shift or null.
 */
export function normOf({ config, weights }, kind, name, x) {
  const centre = (v) => {
    if (!kind.startsWith("layer")) return v;
    const mean = v.reduce((sum, value) => sum + value, 0) / v.length;
    return v.map((value) => value - mean);
  };
  const centred = centre(x);
  const size = Math.sqrt(dot(centred, centred) / x.length + config.norm_eps);
  const w = weights[`${name}.w`];
  const stretched = (v) => v.map((value, i) => (value / size) * (w ? w[i] : 1));
  return { share: (v) => stretched(centre(v)), along: (u) => centre(stretched(u)), shift: weights[`${name}.b`] ?? null };
}

export function norm(model, name, x, kind = model.config.norm) {
  if (kind === "off") return x;
  const { share, shift } = normOf(model, kind, name, x);
  return shift ? add(share(x), shift) : share(x);
}

/** What is added for the position `place`: a row of the learned table, or sines and cosines rounded as Python's are. */
export function positionVector({ config, weights }, place) {
  if (config.positions !== "sinusoidal") return weights["pos_embed.W_pos"][place];
  return Array.from({ length: config.d_model }, (_, i) => {
    const angle = place / 10000 ** ((i - (i % 2)) / config.d_model);
    return Math.fround(i % 2 ? Math.cos(angle) : Math.sin(angle));
  });
}

/** A query or key with each pair of its components turned by the angle of its position. */
export function turned(config, vector, place) {
  const width = config.rotary_dim || config.d_head;
  const out = [...vector];
  for (let pair = 0; pair < width / 2; pair++) {
    const [i, j] = config.rotary_adjacent_pairs ? [2 * pair, 2 * pair + 1] : [pair, pair + width / 2];
    const angle = place / config.rotary_base ** ((2 * pair) / width);
    const [cos, sin] = [Math.fround(Math.cos(angle)), Math.fround(Math.sin(angle))];
    [out[i], out[j]] = [vector[i] * cos - vector[j] * sin, vector[j] * cos + vector[i] * sin];
  }
  return out;
}

/** What a head's score falls by with every step back from query to key (ALiBi). */
export const slopeOf = (config, head) => Math.fround(2 ** ((-8 * (head + 1)) / config.n_heads));

/** What multiplies q·k in a head: one over the divisor, and log n where the configuration says so. */
export function scoreFactor({ config, weights }, block, head, size) {
  const plain = 1 / (config.attention_scale || Math.sqrt(config.d_head));
  if (config.score_scale === "sqrt_d_head") return plain;
  const learned = config.score_scale === "sqrt_d_head_ssmax" ? weights[`${block}.log_n_factor`][head] : 1;
  return plain * learned * Math.log(size + (config.score_scale === "sqrt_d_head_log_n_cls" ? 1 : 0));
}

/** Weights m_j exp(s_j) / sum, the largest score of a present key taken out first. */
export function softmax(scores, multiplicity) {
  const top = Math.max(...scores.filter((_, j) => multiplicity[j] > 0));
  const raw = scores.map((score, j) => (multiplicity[j] > 0 ? multiplicity[j] * Math.exp(score - top) : 0));
  return scale(raw, 1 / raw.reduce((sum, x) => sum + x, 0));
}

const TEMPERATURE = [-0.037, 0.481, -2.3, 4.917, -1.791];

/** What adaptive temperature multiplies scores by: a polynomial of the entropy of the attention they would give. */
export function inverseTemperature(scores, multiplicity) {
  const entropy = softmax(scores, multiplicity)
    .map((weight, j) => (weight > 0 ? -weight * Math.log(weight / multiplicity[j]) : 0))
    .reduce((sum, term) => sum + term, 0);
  return entropy > 0.5 ? Math.max(1, TEMPERATURE.reduce((sum, each) => sum * entropy + each, 0)) : 1;
}
