// How far float64 can be from the real numbers: an error bound beside every step of the forward pass.
//
// A sum of n products is off by at most n units of the sum of their *sizes*, however small the sum itself is, plus
// what the errors of its factors make of it. So where large terms cancel the bound stays large, and a sign
// is only believed when the logit is larger than its bound. Bounds are of first order, doubled at the end.

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

/** Errors of every head's values, and of its scores after exp: `scores[head][query][key]` are relative. */
export function attentionError({ model, values, frozen }, index, layer, error) {
  const { config, weights, tokens } = model;
  const read = layer.pre.map((x, i) => normError(model, `blocks.${index}.ln1`, x, error[i], sizeOf(model, x)));
  const heads = Array.from({ length: config.n_heads }, (_, head) => head);
  const project = (part, head) =>
    layer.read.map((x, i) => timesError(x, read[i], weights[`blocks.${index}.attn.W_${part}`][head]));
  const v = heads.map((head) =>
    project("V", head).map((off, i) => (values[`${index}.${head}.${tokens[i]}`] ? zeros(off) : off)),
  );
  const scale = (config.score_scale === "sqrt_d_head_log_n" ? LARGEST_LOG : 1) / Math.sqrt(config.d_head);
  const scores = heads.map((head) => {
    const [q, k] = [project("Q", head), project("K", head)];
    return q.slice(0, layer.scores[head].length).map((off, query) => {
      const ask = layer.q[head][query];
      const size = layer.k[head].map((key) => key.reduce((sum, x, i) => sum + Math.abs(x * ask[i]), 0));
      // Taking out the largest score is rounded too, by units of both.
      const most = Math.max(...size);
      return layer.k[head].map(
        (key, j) =>
          scale * (dotError(ask, off, key) + dotError(key, k[j], ask) + 8 * UNIT * (size[j] + most)) + 16 * UNIT,
      );
    });
  });
  return { v, scores: frozen ? frozenError(frozen)[index] : scores };
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

/** How far a frozen pattern is off: as far as it was on the string it was frozen on. */
function frozenError(frozen) {
  if (!frozen.scores) {
    logitError(frozen.plain, frozen.trace);
    frozen.scores = frozen.trace.layers.map(({ scoreErrors }) => scoreErrors);
  }
  return frozen.scores;
}

/** A bound on |computed - real| for the logit of a trace. */
export function logitError(prepared, given) {
  const { model, muted } = prepared;
  const { config, weights } = model;
  let error = given.embedded.map(zeros);
  given.layers.forEach((layer, index) => {
    if (config.n_heads > 0) {
      const { v, scores } = attentionError(prepared, index, layer, error);
      layer.scoreErrors = scores;
      error = error.map((own, position) => {
        if (!layer.attnOut[position]) return own;
        const outs = layer.headOut.map((out, head) => {
          if (muted.has(`${index}.${head}`)) return zeros(own);
          const weight = layer.pattern[head][position];
          const along = (vectors, d) => vectors.map((vector) => vector[d]);
          const z = layer.z[head][position].map((mean, d) =>
            meanError(weight, scores[head][position], along(layer.v[head], d), along(v[head], d), mean),
          );
          const rows = weights[`blocks.${index}.attn.W_O`][head];
          return plus(timesError(layer.z[head][position], z, rows), units(out[position], config.n_heads + 2));
        });
        return plus(own, ...outs, units(layer.mid[position], 2));
      });
    }
    if (config.d_mlp > 0) error = mlpError(prepared, index, layer, error);
  });
  const last = given.layers.at(-1)?.post[0] ?? given.embedded[0];
  return 2 * dotError(last, error[0], given.readOut);
}

function mlpError({ model, muted }, index, layer, error) {
  const { weights } = model;
  if (muted.has(`${index}.mlp`)) return error;
  const before = layer.mid ?? layer.pre;
  return error.map((own, position) => {
    if (!layer.mlpOut[position]) return own;
    const x = before[position];
    const read = normError(model, `blocks.${index}.ln2`, x, own, sizeOf(model, x));
    const pre = timesError(layer.mlpRead[position], read, weights[`blocks.${index}.mlp.W_in`]);
    const post = layer.mlpPre[position].map((y, m) => geluError(y, pre[m]));
    const out = timesError(layer.mlpPost[position], post, weights[`blocks.${index}.mlp.W_out`]);
    return plus(own, out, units(layer.post[position], 2));
  });
}
