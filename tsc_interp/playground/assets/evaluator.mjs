// The logit of very many count vectors, and bounds on it over boxes of them.
//
// In a one-layer model nothing but the attention weights depends on the counts: every direction the
// rest of the model reads is, per head, a weighted mean  sum_j n_j e_j u_j / sum_j n_j e_j  of fixed
// numbers u_j. Such a mean takes its extremes over a box of counts at corners where the letters with
// the largest u_j are at one end and the others at the other end, so bounding it is a short loop.

import { logitBounds } from "./bounds.mjs";
import { dot, gelu, scale, times } from "./maths.mjs";
import { run } from "./model.mjs";
import { attentionError, dotError, geluError, logitError, normError, putErrors, timesError, UNIT } from "./rounding.mjs";
import { isReportKind } from "./shapes.mjs";

/**
 * { logit(counts), evaluate(counts), bounds(low, high) or null }. `evaluate` gives { logit, slack, answer }: the real
 * number is within the slack of the logit, and the answer is true, false, or null where that leaves the sign open.
 * `bounds` are [least, greatest] logit over a box, slack included.
 */
export function makeEvaluator(prepared) {
  const { config } = prepared.model;
  if (config.n_layers > 1 || !isReportKind(config)) {
    const evaluate = (counts) => {
      const trace = run(prepared, counts);
      return judged(trace.logit, isReportKind(config) ? logitError(prepared, trace) : roughError(trace));
    };
    return { logit: (counts) => run(prepared, counts).logit, evaluate, bounds: null };
  }
  const tables = precompute(prepared);
  const logit = (counts) => logitAt(tables, counts);
  return {
    logit,
    evaluate: (counts) => judged(logit(counts), tables.slack),
    bounds: (low, high) => logitBounds(tables, low, high),
  };
}

/** For kinds of models no error bound is written for: a billionth of what is added up, far above what rounding does. */
export const roughError = ({ parts }) => 1e-9 * parts.reduce((sum, { contribution }) => sum + Math.abs(contribution), 0);

/** Zero counts as no; it is certain only when nothing was added up. */
function judged(logit, bound) {
  const slack = bound >= 0 ? bound : Infinity; // what overflowed is anybody's guess
  const certain = Math.abs(logit) > slack || (logit === 0 && slack === 0);
  return { logit, slack, answer: certain ? logit > 0 : null };
}

function precompute(prepared) {
  const { config, weights } = prepared.model;
  const start = run(prepared, new Array(config.n_letters).fill(1));
  const { readOut } = start;
  const whole = settled(prepared, "0.mlp.", config.d_model);
  const hasMlp = config.d_mlp > 0 && whole.factor !== 0;
  // A direction is a column that the residual stream is read along: the read-out first, then either the
  // columns of W_in or, behind a norm, the coordinates themselves.
  const wIn = hasMlp ? weights["blocks.0.mlp.W_in"] : null;
  const coordinates = Array.from({ length: config.d_model }, (_, i) => unit(config.d_model, i));
  const columns = !hasMlp ? [] : config.norm === "off" ? wIn[0].map((_, m) => wIn.map((row) => row[m])) : coordinates;
  const directions = [readOut, ...columns.map((column) => (config.norm === "layer" ? centred(column) : column))];
  const { heads, constants } = headTables(prepared, start, directions);
  constants.unshift({ vector: start.embedded[0], error: zeros(start.embedded[0]) });
  const tables = {
    config,
    heads,
    mlp: hasMlp ? mlpTables(prepared, wIn, readOut, whole, constants) : null,
    normed:
      hasMlp && config.norm !== "off"
        ? { w: weights["blocks.0.ln2.w"], b: config.norm === "layer" ? weights["blocks.0.ln2.b"] : null }
        : null,
    logLength: config.score_scale === "sqrt_d_head_log_n",
    cache: { factor: NaN, exps: null },
  };
  if (config.d_mlp > 0) constants.push({ vector: whole.put, error: whole.error, late: true });
  // What the MLP adds comes too late for itself to read.
  const heard = (d) => constants.filter(({ late }) => d === 0 || !late);
  tables.base = directions.map((direction, d) => heard(d).reduce((sum, { vector }) => sum + dot(vector, direction), 0));
  tables.slack = slackOf(tables, directions, heard, prepared.model);
  return tables;
}

/** What the changes at a place make of CLS's vector there: `factor` times it, and `put` with its error. */
function settled({ effects }, place, size) {
  const start = { factor: 1, put: new Array(size).fill(0), error: new Array(size).fill(0) };
  return (effects[place] ?? []).reduce((now, effect) => {
    if (effect.put) return { factor: 0, put: effect.put[0], error: putErrors(effect)[0] };
    const put = scale(now.put, effect.factor);
    const error = now.error.map((off, d) => Math.abs(effect.factor) * off + 2 * UNIT * Math.abs(put[d]));
    return { factor: now.factor * effect.factor, put, error };
  }, start);
}

/** The heads that still look at the string, and what the others always add. */
function headTables(prepared, start, directions) {
  const { config, weights } = prepared.model;
  if (config.n_heads === 0) return { heads: [], constants: [] };
  const layer = start.layers[0];
  const off = attentionError(prepared, 0, layer, start.embedded.map(zeros));
  const [heads, constants] = [[], []];
  weights["blocks.0.attn.W_O"].forEach((wO, head) => {
    const { factor, put, error } = settled(prepared, `0.head.${head}`, config.d_head);
    if (factor !== 1) constants.push({ vector: times(put, wO), error: timesError(put, error, wO) });
    if (factor === 0) return;
    const rows = layer.v[head].map((value) => scale(value, factor));
    const errors = off.v[head].map((own, j) => own.map((x, d) => Math.abs(factor) * x + 2 * UNIT * Math.abs(rows[j][d])));
    heads.push({
      // Scores before the length's log, and relative to their mean: only differences matter.
      scores: layer.k[head].map((key) => dot(layer.q[head][0], key) / Math.sqrt(config.d_head)),
      along: directions.map((direction) => {
        const outs = rows.map((row) => times(row, wO));
        const numbers = outs.map((out) => dot(out, direction));
        const own = outs.map((out, j) => dotError(out, timesError(rows[j], errors[j], wO), direction));
        return { numbers, errors: own, order: numbers.map((_, j) => j).sort((i, j) => numbers[j] - numbers[i]) };
      }),
      relative: Math.max(...off.pattern[head][0]),
      frozen: prepared.effects[`0.pattern.${head}`] ? layer.pattern[head][0] : null,
    });
  });
  return { heads, constants };
}

/** What each neuron's activation adds to the logit; what neurons that are held always add goes to the constants. */
function mlpTables(prepared, wIn, readOut, whole, constants) {
  const wOut = prepared.model.weights["blocks.0.mlp.W_out"].map((row) => scale(row, whole.factor));
  const kept = wOut.map((_, m) => settled(prepared, `0.neuron.${m}`, 1));
  kept.forEach(({ put, error }, m) => {
    if (put[0] !== 0) constants.push({ vector: scale(wOut[m], put[0]), error: wOut[m].map((x) => Math.abs(x) * (error[0] + 4 * UNIT * Math.abs(put[0]))), late: true });
  });
  return {
    wIn,
    out: wOut.map((row, m) => kept[m].factor * dot(row, readOut)),
    outErrors: wOut.map((row, m) => Math.abs(kept[m].factor) * dotError(row, units(row, 4), readOut)),
  };
}

/**
 * How far any logit here can be from the real one, whatever the counts: a head's output is a mean, so its error is
 * at most the largest of a token's. It is relative to the terms that are added, not to their sum.
 */
function slackOf({ heads, mlp, normed, config }, directions, heard, model) {
  const keys = config.n_letters + 1;
  const sizes = directions.map((direction, d) => heard(d).reduce((sum, { vector }) => sum + Math.abs(dot(vector, direction)), 0));
  const errors = directions.map((direction, d) => heard(d).reduce((sum, { vector, error }) => sum + dotError(vector, error, direction), 0));
  for (const { along, relative } of heads)
    along.forEach(({ numbers, errors: own }, d) => {
      sizes[d] += Math.max(...numbers.map(Math.abs));
      // Weights that are off move the mean by no more than the tokens differ.
      const spread = Math.max(...numbers) - Math.min(...numbers);
      errors[d] += Math.expm1(2 * relative) * spread;
      errors[d] += Math.max(...numbers.map((x, j) => own[j] + (keys + 4) * UNIT * Math.abs(x)));
    });
  // Directions are themselves rounded when a mean is taken out of them.
  const added = (d) => errors[d] + (heads.length + heard(d).length + config.d_model + 4) * UNIT * sizes[d];
  let slack = added(0);
  if (mlp) {
    let pre = sizes.slice(1);
    let off = pre.map((_, i) => added(i + 1));
    if (normed) {
      off = timesError(pre, normError(model, "blocks.0.ln2", pre, off), mlp.wIn);
      const widest = normed.w.map((w, i) => Math.sqrt(pre.length) * Math.abs(w) + Math.abs(normed.b?.[i] ?? 0));
      pre = times(
        widest,
        mlp.wIn.map((row) => row.map(Math.abs)),
      );
      off = off.map((x, m) => x + (widest.length + 4) * UNIT * pre[m]);
    }
    mlp.out.forEach((out, m) => (slack += Math.abs(out) * geluError(pre[m], off[m]) + mlp.outErrors[m] * pre[m]));
    slack += (pre.length + 2) * UNIT * mlp.out.reduce((total, out, m) => total + Math.abs(out) * pre[m], 0);
  }
  return 2 * slack;
}

const units = (vector, number) => vector.map((x) => number * UNIT * Math.abs(x));
const zeros = (vector) => vector.map(() => 0);
const unit = (size, i) => Array.from({ length: size }, (_, j) => (i === j ? 1 : 0));

function centred(column) {
  const mean = column.reduce((sum, x) => sum + x, 0) / column.length;
  return column.map((x) => x - mean);
}

/** exp(factor · (score - highest score)) per head and key; the same for all strings of one length. */
function exponentials(tables, factor) {
  if (tables.cache.factor !== factor) {
    tables.cache = {
      factor,
      exps: tables.heads.map(({ scores }) => {
        // CLS's score counts only where CLS is attended to.
        const attended = tables.config.attend_cls ? scores : scores.slice(1);
        const top = Math.max(...attended.map((score) => score * factor));
        return scores.map((score) => Math.exp(Math.min(score * factor - top, 700)));
      }),
    };
  }
  return tables.cache.exps;
}

function logitAt(tables, counts) {
  let size = 0;
  for (let j = 0; j < counts.length; j++) size += counts[j];
  const factor = tables.logLength ? Math.log(size) : 1;
  const exps = exponentials(tables, factor);
  const sums = tables.base.slice();
  for (let h = 0; h < tables.heads.length; h++) {
    const { along, frozen, scores } = tables.heads[h];
    let weights = frozen;
    if (!weights) {
      weights = weightsOf(exps[h], tables.config.attend_cls ? 1 : 0, counts);
      if (!weights) weights = carefulWeights(scores, factor, tables.config.attend_cls ? 1 : 0, counts);
    }
    for (let d = 0; d < sums.length; d++) {
      const { numbers } = along[d];
      for (let j = 0; j < numbers.length; j++) sums[d] += weights[j] * numbers[j];
    }
  }
  return finish(tables, sums);
}

function weightsOf(exps, cls, counts) {
  const weights = new Array(exps.length);
  let total = (weights[0] = cls * exps[0]);
  for (let j = 1; j < exps.length; j++) total += weights[j] = counts[j - 1] * exps[j];
  // Far below the highest score of the alphabet everything may underflow: the caller starts afresh.
  if (!(total > 1e-290)) return null;
  for (let j = 0; j < weights.length; j++) weights[j] /= total;
  return weights;
}

function carefulWeights(scores, factor, cls, counts) {
  const multiplicity = [cls, ...counts];
  const top = Math.max(...scores.filter((_, j) => multiplicity[j] > 0).map((score) => score * factor));
  return weightsOf(
    scores.map((score) => Math.exp(Math.min(score * factor - top, 700))),
    cls,
    counts,
  );
}

function finish(tables, sums) {
  const { mlp, normed, config } = tables;
  let logit = sums[0];
  if (!mlp) return logit;
  let pre = sums.slice(1);
  if (normed) {
    const size = Math.sqrt(dot(pre, pre) / pre.length + config.norm_eps);
    pre = times(
      pre.map((x, i) => (x / size) * normed.w[i] + (normed.b ? normed.b[i] : 0)),
      mlp.wIn,
    );
  }
  for (let m = 0; m < pre.length; m++) logit += mlp.out[m] * gelu(pre[m]);
  return logit;
}
