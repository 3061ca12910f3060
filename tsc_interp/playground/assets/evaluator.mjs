// The logit of very many count vectors, and bounds on it over boxes of them.
//
// In a one-layer model nothing but the attention weights depends on the counts: every direction the
// rest of the model reads is, per head, a weighted mean  sum_j n_j e_j u_j / sum_j n_j e_j  of fixed
// numbers u_j. Such a mean takes its extremes over a box of counts at corners where the letters with
// the largest u_j are at one end and the others at the other end, so bounding it is a short loop.

import { dot, gelu, geluRange, times } from "./maths.mjs";
import { run } from "./model.mjs";
import { attentionError, dotError, geluError, logitError, normError, timesError, UNIT } from "./rounding.mjs";

/**
 * { logit(counts), evaluate(counts), bounds(low, high) or null }. `evaluate` gives { logit, slack, answer }: the real
 * number is within the slack of the logit, and the answer is true, false, or null where that leaves the sign open.
 * `bounds` are [least, greatest] logit over a box, slack included.
 */
export function makeEvaluator(prepared) {
  if (prepared.model.config.n_layers > 1) {
    const evaluate = (counts) => {
      const trace = run(prepared, counts);
      return judged(trace.logit, logitError(prepared, trace));
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

/** Zero counts as no; it is certain only when nothing was added up. */
function judged(logit, bound) {
  const slack = bound >= 0 ? bound : Infinity; // what overflowed is anybody's guess
  const certain = Math.abs(logit) > slack || (logit === 0 && slack === 0);
  return { logit, slack, answer: certain ? logit > 0 : null };
}

function precompute(prepared) {
  const { model, muted, patterns } = prepared;
  const { config, weights } = model;
  const start = run(prepared, new Array(config.n_letters).fill(1));
  const layer = start.layers[0];
  const readOut = start.readOut;
  const hasMlp = config.d_mlp > 0 && !muted.has("0.mlp");
  // A direction is a column that the residual stream is read along: the read-out first, then either the
  // columns of W_in or, behind a norm, the coordinates themselves.
  const wIn = hasMlp ? weights["blocks.0.mlp.W_in"] : null;
  const coordinates = Array.from({ length: config.d_model }, (_, i) => unit(config.d_model, i));
  const columns = !hasMlp ? [] : config.norm === "off" ? wIn[0].map((_, m) => wIn.map((row) => row[m])) : coordinates;
  const directions = [readOut, ...columns.map((column) => (config.norm === "layer" ? centred(column) : column))];
  const heads = Array.from({ length: config.n_heads }, (_, head) => head).filter((head) => !muted.has(`0.${head}`));
  const wO = weights["blocks.0.attn.W_O"];
  const wOut = weights["blocks.0.mlp.W_out"];
  const off = config.n_heads > 0 ? attentionError(prepared, 0, layer, start.embedded.map(zeros)) : null;
  const tables = {
    config,
    base: directions.map((direction) => dot(start.embedded[0], direction)),
    // Scores before the length's log, and relative to their mean: only differences matter.
    heads: heads.map((head) => ({
      scores: layer.k[head].map((key) => dot(layer.q[head][0], key) / Math.sqrt(config.d_head)),
      along: directions.map((direction) => {
        const outs = layer.v[head].map((value) => times(value, wO[head]));
        const numbers = outs.map((out) => dot(out, direction));
        const errors = outs.map((out, j) =>
          dotError(out, timesError(layer.v[head][j], off.v[head][j], wO[head]), direction),
        );
        return { numbers, errors, order: numbers.map((_, j) => j).sort((i, j) => numbers[j] - numbers[i]) };
      }),
      relative: Math.max(...off.scores[head][0]),
      frozen: patterns ? patterns[0][head][0] : null,
    })),
    mlp: hasMlp
      ? {
          wIn,
          out: wOut.map((row) => dot(row, readOut)),
          outErrors: wOut.map((row) => dotError(row, zeros(row), readOut)),
        }
      : null,
    normed:
      hasMlp && config.norm !== "off"
        ? { w: weights["blocks.0.ln2.w"], b: config.norm === "layer" ? weights["blocks.0.ln2.b"] : null }
        : null,
    logLength: config.score_scale === "sqrt_d_head_log_n",
    cache: { factor: NaN, exps: null },
  };
  tables.slack = slackOf(tables, start.embedded[0], directions, prepared.model);
  return tables;
}

/**
 * How far any logit here can be from the real one, whatever the counts: a head's output is a mean, so its error is
 * at most the largest of a token's. It is relative to the terms that are added, not to their sum.
 */
function slackOf({ base, heads, mlp, normed, config }, cls, directions, model) {
  const keys = config.n_letters + 1;
  const sizes = base.map((x) => Math.abs(x));
  const errors = directions.map((direction) => dotError(cls, zeros(cls), direction));
  for (const { along, relative } of heads)
    along.forEach(({ numbers, errors: own }, d) => {
      sizes[d] += Math.max(...numbers.map(Math.abs));
      // Weights that are off move the mean by no more than the tokens differ.
      const spread = Math.max(...numbers) - Math.min(...numbers);
      errors[d] += Math.expm1(2 * relative) * spread;
      errors[d] += Math.max(...numbers.map((x, j) => own[j] + (keys + 4) * UNIT * Math.abs(x)));
    });
  // Directions are themselves rounded when a mean is taken out of them.
  const added = (d) => errors[d] + (heads.length + config.d_model + 4) * UNIT * sizes[d];
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

// -- bounds --------------------------------------------------------------------------------------

function logitBounds(tables, low, high) {
  const { config, heads, base } = tables;
  const lowSums = base.slice();
  const highSums = base.slice();
  const factors = tables.logLength ? [Math.log(Math.max(1, sum(low))), Math.log(Math.max(1, sum(high)))] : [1, 1];
  for (const head of heads) {
    const [least, most] = head.frozen
      ? [head.frozen, head.frozen]
      : effectiveCounts(head.scores, factors, config.attend_cls ? 1 : 0, low, high);
    for (let d = 0; d < base.length; d++) {
      const [lowest, highest] = meanRange(head.along[d], least, most);
      lowSums[d] += lowest;
      highSums[d] += highest;
    }
  }
  return finishBounds(tables, lowSums, highSums);
}

const sum = (numbers) => numbers.reduce((total, x) => total + x, 0);

/** The range of n_j exp(factor · (s_j - reference)) for every key, CLS first. */
function effectiveCounts(scores, factors, cls, low, high) {
  // Taking the score of the key that counts most as the reference keeps the numbers in range.
  const present = scores.map((score, j) => ((j === 0 ? cls : high[j - 1]) > 0 ? score : -Infinity));
  const reference = Math.max(...present);
  const least = new Array(scores.length);
  const most = new Array(scores.length);
  for (let j = 0; j < scores.length; j++) {
    const gap = scores[j] - reference;
    const one = Math.exp(Math.min(gap * factors[0], 700));
    const two = Math.exp(Math.min(gap * factors[1], 700));
    least[j] = (j === 0 ? cls : low[j - 1]) * Math.min(one, two);
    most[j] = (j === 0 ? cls : high[j - 1]) * Math.max(one, two);
  }
  return [least, most];
}

/** The extremes of sum_j n_j u_j / sum_j n_j for n_j in [least_j, most_j]. */
function meanRange({ numbers, order }, least, most) {
  let highest = -Infinity;
  let lowest = Infinity;
  const size = order.length;
  for (let cut = 0; cut <= size; cut++) {
    let topHeavy = 0,
      topTotal = 0,
      bottomHeavy = 0,
      bottomTotal = 0;
    for (let place = 0; place < size; place++) {
      const j = order[place];
      const large = place < cut ? most[j] : least[j];
      const small = place < cut ? least[j] : most[j];
      topHeavy += large * numbers[j];
      topTotal += large;
      bottomHeavy += small * numbers[j];
      bottomTotal += small;
    }
    if (topTotal > 0) highest = Math.max(highest, topHeavy / topTotal);
    if (bottomTotal > 0) lowest = Math.min(lowest, bottomHeavy / bottomTotal);
  }
  return [lowest, highest];
}

function finishBounds(tables, lowSums, highSums) {
  const { mlp, normed } = tables;
  let lowest = lowSums[0];
  let highest = highSums[0];
  if (mlp) {
    const [lows, highs] = normed
      ? behindNorm(tables, lowSums.slice(1), highSums.slice(1))
      : [lowSums.slice(1), highSums.slice(1)];
    for (let m = 0; m < mlp.out.length; m++) {
      const [least, most] = geluRange(lows[m], highs[m]);
      lowest += mlp.out[m] > 0 ? mlp.out[m] * least : mlp.out[m] * most;
      highest += mlp.out[m] > 0 ? mlp.out[m] * most : mlp.out[m] * least;
    }
  }
  // The ends of a box are computed as logits are, in about as many steps.
  const slack = 2 * tables.slack;
  return [lowest - slack, highest + slack];
}

/** Bounds of the MLP's inputs when a norm stands before it, by interval arithmetic. */
function behindNorm({ mlp, normed, config }, lows, highs) {
  let leastSquares = 0,
    mostSquares = 0;
  for (let i = 0; i < lows.length; i++) {
    const [a, b] = [lows[i] ** 2, highs[i] ** 2];
    leastSquares += lows[i] < 0 && highs[i] > 0 ? 0 : Math.min(a, b);
    mostSquares += Math.max(a, b);
  }
  const smallest = Math.sqrt(leastSquares / lows.length + config.norm_eps);
  const largest = Math.sqrt(mostSquares / lows.length + config.norm_eps);
  const ends = lows.map((low, i) => {
    const corners = [low / smallest, low / largest, highs[i] / smallest, highs[i] / largest].map(
      (x) => x * normed.w[i],
    );
    const shift = normed.b ? normed.b[i] : 0;
    return [Math.min(...corners) + shift, Math.max(...corners) + shift];
  });
  const units = mlp.out.map((_, m) =>
    ends.reduce(
      ([low, high], [a, b], i) => {
        const weight = mlp.wIn[i][m];
        return weight > 0 ? [low + weight * a, high + weight * b] : [low + weight * b, high + weight * a];
      },
      [0, 0],
    ),
  );
  return [units.map(([low]) => low), units.map(([, high]) => high)];
}
