// The least and the greatest logit over a box of counts, from an evaluator's tables: interval arithmetic.

import { geluRange } from "./maths.mjs";

/** [least, greatest] logit over the counts from `low` to `high`, slack included. */
export function logitBounds(tables, low, high) {
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
