// The source report's balanced stream of training strings, draw for draw as tsc_interp/data/balanced.py has it.

import { twister } from "./twister.mjs";

/** Longer strings would need a second way of drawing binomials, which NumPy uses from a mean of 30 on. */
export const LONGEST_TRAINED = 60;

/** How many strings of a batch each subset of the positive letters gets, subsets as bit masks. */
function budgets(batchSize, positive) {
  const subsets = 2 ** positive;
  const slots = subsets + positive + 1;
  const sizes = Array.from({ length: slots }, (_, i) => Math.floor(batchSize / slots) + (i < batchSize % slots ? 1 : 0));
  return [...sizes.slice(0, subsets - 1), sizes.slice(subsets - 1).reduce((sum, size) => sum + size, 0)];
}

/** { rows, next }: the batch that starts from `seed` as counts per string, and the seed of the batch after it. */
export function drawBatch(seed, { letters, positive, maxLength, alpha, batchSize }) {
  const draws = legacyDraws(seed);
  const others = Array.from({ length: letters }, (_, i) => i).filter((letter) => !positive.includes(letter));
  const left = budgets(batchSize, positive.length);
  let open = left.map((_, subset) => subset).filter((subset) => left[subset] > 0);
  const rows = Array.from({ length: batchSize }, () => {
    const subset = open[draws.below(open.length)];
    if (--left[subset] === 0) open = open.filter((each) => each !== subset);
    const present = positive.filter((_, bit) => (subset >> bit) & 1);
    return drawString(draws, present, others, { letters, maxLength, alpha });
  });
  return { rows, next: draws.output() };
}

/** Counts of one string in which exactly these positive letters occur. */
function drawString(draws, present, others, { letters, maxLength, alpha }) {
  const counts = new Array(letters).fill(0);
  const kinds = present.length;
  const shortest = kinds || 1;
  let remaining = shortest + draws.below(maxLength + 1 - shortest);
  if (kinds > 0) {
    const positives = kinds + draws.below(remaining + 1 - kinds);
    const gammas = present.map(() => draws.gamma(alpha / kinds));
    const total = gammas.reduce((sum, gamma) => sum + gamma, 0);
    const extras = draws.multinomial(positives - kinds, gammas.map((gamma) => gamma * (1 / total)));
    present.forEach((letter, i) => (counts[letter] = 1 + extras[i]));
    remaining -= positives;
  }
  for (; remaining > 0; remaining--) counts[others[draws.below(others.length)]]++;
  return counts;
}

/** What the methods of NumPy's RandomState(seed) return. */
function legacyDraws(seed) {
  const output = twister(seed);
  const double = () => ((output() >>> 5) * 67108864 + (output() >>> 6)) / 9007199254740992;
  const exponential = () => -Math.log(1 - double());
  return { output, below, gamma, multinomial };

  function below(n) {
    if (n === 1) return 0;
    const mask = 2 ** (32 - Math.clz32(n - 1)) - 1;
    let value = (output() & mask) >>> 0;
    while (value >= n) value = (output() & mask) >>> 0;
    return value;
  }

  /** standard_gamma for shapes up to 1. */
  function gamma(shape) {
    if (shape === 1) return exponential();
    for (;;) {
      const [uniform, bound] = [double(), exponential()];
      if (uniform <= 1 - shape) {
        const value = uniform ** (1 / shape);
        if (value <= bound) return value;
      } else {
        const tail = -Math.log((1 - uniform) / shape);
        const value = (1 - shape + shape * tail) ** (1 / shape);
        if (value <= bound + tail) return value;
      }
    }
  }

  function multinomial(n, shares) {
    const counts = new Array(shares.length).fill(0);
    let [left, share] = [n, 1];
    for (let i = 0; i < shares.length - 1; i++) {
      counts[i] = binomial(left, shares[i] / share);
      left -= counts[i];
      if (left <= 0) return counts;
      share -= shares[i];
    }
    counts[shares.length - 1] = left;
    return counts;
  }

  function binomial(n, p) {
    if (n === 0 || p === 0) return 0;
    return p <= 0.5 ? inversion(n, p) : n - inversion(n, 1 - p);
  }

  /** Walks the distribution function up to a uniform number. */
  function inversion(n, p) {
    const q = 1 - p;
    const none = Math.exp(n * Math.log(q));
    const bound = Math.min(n, Math.floor(n * p + 10 * Math.sqrt(n * p * q + 1)));
    let [value, probability, uniform] = [0, none, double()];
    while (uniform > probability) {
      if (++value > bound) [value, probability, uniform] = [0, none, double()];
      else {
        uniform -= probability;
        probability = ((n - value + 1) * p * probability) / (value * q);
      }
    }
    return value;
  }
}
