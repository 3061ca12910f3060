// Training in the page: the source report's recipe, from the same draws as Python, one epoch at a time.

import { lossAndGradient, totalLoss } from "./gradient.mjs";
import { weightShapes } from "./shapes.mjs";
import { drawBatch } from "./stream.mjs";
import { letterIndex } from "./strings.mjs";
import { labelOf } from "./task.mjs";
import { torchDraws } from "./twister.mjs";

/** TrainingConfig's defaults; what the page lets people choose stands first. */
export const RECIPE = {
  ...{ seed: 5, max_length: 10, alpha: 1, learning_rate: 0.01, weight_decay: 0.01 },
  ...{ batch_size: 64, batches: 156, final_factor: 0.5, schedule_epochs: 30 },
};
const VALIDATION = { max_length: 50, alpha: 0.5, batch_size: 64, batches: 15 };
const [BETA_1, BETA_2, EPSILON] = [0.9, 0.999, 1e-8];

/** Torch's initial weights for a model seed, in the order tsc_interp/model/initialise.py draws them. */
export function initialWeights(config, seed) {
  const draws = torchDraws(seed);
  const { d_model: d, n_heads: h, d_head: k, d_mlp: m } = config;
  const linear = (out, into) => {
    const bound = Math.sqrt(3) * (Math.sqrt(2 / (1 + Math.sqrt(5) ** 2)) / Math.sqrt(into));
    return Array.from({ length: out * into }, () => draws.uniform(-bound, bound));
  };
  const shapes = weightShapes(config);
  const weights = Object.fromEntries(Object.entries(shapes).map(([name, shape]) => [name, new Array(shape.reduce((a, b) => a * b)).fill(name.endsWith(".w") ? 1 : 0)]));
  // A Linear layer stores out x in; here rows are inputs, and heads are blocks of outputs (of inputs, for W_O).
  const place = (name, drawn, out, into, index) => drawn.forEach((value, i) => (weights[name][index(Math.floor(i / into), i % into)] = value));
  weights["embed.W_E"] = draws.normals((2 + config.n_letters) * d);
  if (h > 0) {
    for (const part of "QKV")
      place(`blocks.0.attn.W_${part}`, linear(h * k, d), h * k, d, (o, i) => Math.floor(o / k) * d * k + i * k + (o % k));
    place("blocks.0.attn.W_O", linear(d, h * k), d, h * k, (o, i) => i * d + o);
  }
  if (m > 0) {
    place("blocks.0.mlp.W_in", linear(m, d), m, d, (o, i) => i * m + o);
    place("blocks.0.mlp.W_out", linear(d, m), d, m, (o, i) => i * d + o);
  }
  weights["unembed.W_U"] = linear(1, d);
  for (let j = d; j < 2 * d; j++) weights["embed.W_E"][j] = 0; // PAD
  return weights;
}

/** The state before the first epoch. States are never changed: each epoch makes a new one, so any of them can be gone on from. */
export function startTraining(config, recipe) {
  const weights = initialWeights(config, recipe.seed);
  const zeros = () => Object.fromEntries(Object.entries(weights).map(([name, list]) => [name, list.map(() => 0)]));
  return { config, recipe, epoch: 0, steps: 0, next: 0, weights, mean: zeros(), square: zeros(), trainLoss: null, validationLoss: null };
}

/** One epoch further. Yields the share done after each batch and returns the new state. */
export function* trainEpoch(state) {
  const { config, recipe } = state;
  const copy = (many) => Object.fromEntries(Object.entries(many).map(([name, list]) => [name, Float64Array.from(list)]));
  const now = { ...state, epoch: state.epoch + 1, weights: copy(state.weights), mean: copy(state.mean), square: copy(state.square) };
  const progress = Math.min(state.epoch, recipe.schedule_epochs) / recipe.schedule_epochs;
  const rate = recipe.learning_rate * (1 + (recipe.final_factor - 1) * progress);
  let trainLoss = 0;
  for (let batch = 0; batch < recipe.batches; batch++) {
    const { rows, next } = drawBatch(now.next, streamOf(config, recipe));
    const { loss, grads } = lossAndGradient(config, now.weights, rows, rows.map((counts) => labelOf(config.task, counts)));
    now.next = next;
    now.steps++;
    adamW(now, grads, rate);
    trainLoss += loss;
    yield (batch + 1) / recipe.batches;
  }
  const { rows, labels } = validationSet(config);
  return { ...now, rate, trainLoss: trainLoss / (recipe.batches * recipe.batch_size), validationLoss: totalLoss(config, now.weights, rows, labels) / rows.length };
}

const streamOf = (config, { max_length: maxLength, alpha, batch_size: batchSize }) => ({
  ...{ maxLength, alpha, batchSize, letters: config.n_letters },
  positive: [...config.task.letters].map(letterIndex),
});

/** The first batches of the validation stream, the same after every epoch. */
function validationSet(config) {
  const rows = [];
  for (let batch = 0, seed = 0; batch < VALIDATION.batches; batch++) {
    const drawn = drawBatch(seed, streamOf(config, VALIDATION));
    rows.push(...drawn.rows);
    seed = drawn.next;
  }
  return { rows, labels: rows.map((counts) => labelOf(config.task, counts)) };
}

/** A step of AdamW with torch's defaults, in place. */
function adamW({ weights, mean, square, steps, recipe }, grads, rate) {
  const correction = Math.sqrt(1 - BETA_2 ** steps);
  const size = rate / (1 - BETA_1 ** steps);
  for (const [name, list] of Object.entries(weights)) {
    for (let i = 0; i < list.length; i++) {
      const gradient = grads[name][i];
      mean[name][i] += (gradient - mean[name][i]) * (1 - BETA_1);
      square[name][i] = square[name][i] * BETA_2 + gradient * gradient * (1 - BETA_2);
      list[i] = list[i] * (1 - rate * recipe.weight_decay) - (size * mean[name][i]) / (Math.sqrt(square[name][i]) / correction + EPSILON);
    }
  }
}
