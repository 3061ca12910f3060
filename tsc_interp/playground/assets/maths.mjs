// Numbers: the error function, GELU, small vector algebra, and how numbers are written.

const TWO_OVER_ROOT_PI = 2 / Math.sqrt(Math.PI);
const STEP = 1 / 64;
const ERF_ONE_FROM = 6; // 1 - erf(6) is 2e-17, below half a unit in the last place of 1

// erf(x) = 2/sqrt(pi) exp(-x^2) sum_n 2^n x^(2n+1) / (2n+1)!!: all terms positive, so no cancellation.
function erfSeries(x) {
  let term = x;
  let sum = x;
  for (let n = 1; term > sum * 1e-18; n++) {
    term *= (2 * x * x) / (2 * n + 1);
    sum += term;
  }
  return TWO_OVER_ROOT_PI * Math.exp(-x * x) * sum;
}

const GRID = Array.from({ length: ERF_ONE_FROM / STEP + 2 }, (_, i) => ({
  value: erfSeries(i * STEP),
  slope: TWO_OVER_ROOT_PI * Math.exp(-((i * STEP) ** 2)),
}));

/** The error function to about 1e-15: a Taylor step from the nearest point of a grid. */
export function erf(x) {
  const size = Math.abs(x);
  if (!(size < ERF_ONE_FROM)) return Number.isNaN(x) ? NaN : Math.sign(x);
  const index = Math.round(size / STEP);
  const a = index * STEP;
  const t = size - a;
  const { value, slope } = GRID[index];
  // Derivatives of erf are its slope times Hermite polynomials.
  const a2 = a * a;
  const third = (2 * a2 - 1) / 3;
  const fourth = (a * (3 - 2 * a2)) / 6;
  const fifth = (4 * a2 * a2 - 12 * a2 + 3) / 30;
  const sixth = (a * (-4 * a2 * a2 + 20 * a2 - 15)) / 90;
  const step = t * (1 + t * (-a + t * (third + t * (fourth + t * (fifth + t * sixth)))));
  const result = value + slope * step;
  return x < 0 ? -result : result;
}

export function gelu(x) {
  return 0.5 * x * (1 + erf(x * Math.SQRT1_2));
}

const GELU_LOWEST_AT = -0.7517915246935645;
const GELU_LOWEST = gelu(GELU_LOWEST_AT);

/** The range of GELU over [low, high]: it falls to its one minimum and rises after it. */
export function geluRange(low, high) {
  const atLow = gelu(low);
  const atHigh = gelu(high);
  const smallest = low < GELU_LOWEST_AT && high > GELU_LOWEST_AT ? GELU_LOWEST : Math.min(atLow, atHigh);
  return [smallest, Math.max(atLow, atHigh)];
}

export function sigmoid(x) {
  return x >= 0 ? 1 / (1 + Math.exp(-x)) : Math.exp(x) / (1 + Math.exp(x));
}

export function dot(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
  return sum;
}

export const add = (a, b) => a.map((value, i) => value + b[i]);
const subtract = (a, b) => a.map((value, i) => value - b[i]);
export const scale = (a, factor) => a.map((value) => value * factor);
export const length = (a) => Math.sqrt(dot(a, a));
export const clamp = (x, low, high) => Math.min(high, Math.max(low, x));

/** Row vector times matrix, the matrix given as rows. */
export function times(vector, rows) {
  const out = new Array(rows[0].length).fill(0);
  for (let i = 0; i < rows.length; i++) {
    const row = rows[i];
    for (let j = 0; j < row.length; j++) out[j] += vector[i] * row[j];
  }
  return out;
}

/**
 * Two unit vectors to draw many-dimensional points on: `first` if given (made unit length), and the
 * direction in which the points, seen from the origin, spread most once `first` is taken out.
 */
export function drawingPlane(points, first) {
  const size = points[0].length;
  const one = first && length(first) > 1e-12 ? scale(first, 1 / length(first)) : principal(points, size, []);
  const two = principal(points, size, [one]);
  return [one, two];
}

function principal(points, size, without) {
  // Power iteration on the points' second moments; the start is fixed, so the picture is too.
  let direction = Array.from({ length: size }, (_, i) => 1 + 0.37 * Math.sin(1.7 * i + 1));
  for (let round = 0; round < 60; round++) {
    const next = new Array(size).fill(0);
    for (const point of points) {
      const amount = dot(point, direction);
      for (let i = 0; i < size; i++) next[i] += amount * point[i];
    }
    const clean = without.reduce((v, axis) => subtract(v, scale(axis, dot(v, axis))), next);
    if (length(clean) < 1e-12) break;
    direction = scale(clean, 1 / length(clean));
  }
  const clean = without.reduce((v, axis) => subtract(v, scale(axis, dot(v, axis))), direction);
  const norm = length(clean);
  return norm < 1e-12 ? new Array(size).fill(0) : scale(clean, 1 / norm);
}

// -- writing numbers ---------------------------------------------------------------------------

// As in Python (output/numbers.py): 9,984 and 3.20·10⁶² and 48.7%.
const SUPERSCRIPT = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };

/** A real number for people: four significant digits, a true minus sign, powers of ten when tiny or huge. */
export function show(x, digits = 4) {
  if (!Number.isFinite(x)) return Number.isNaN(x) ? "undefined" : x > 0 ? "∞" : "−∞";
  if (x === 0) return "0";
  const size = Math.abs(x);
  let text;
  if (size >= 1e6 || size < 1e-4) {
    const [mantissa, exponent] = size.toExponential(digits - 2).split("e");
    const power = [...String(Number(exponent))].map((character) => SUPERSCRIPT[character]).join("");
    text = `${mantissa}·10${power}`;
  } else {
    text = size.toFixed(clamp(digits - 1 - Math.floor(Math.log10(size)), 0, 6));
  }
  return (x < 0 ? "−" : "") + text;
}

export const showSigned = (x, digits = 4) => (x > 0 ? "+" : "") + show(x, digits);

export function showVector(v, limit = 6) {
  if (v.length === 1) return show(v[0]);
  const numbers = v.slice(0, limit).map((x) => show(x));
  return `(${numbers.join(", ")}${v.length > limit ? `, … ${v.length} numbers` : ""})`;
}

/** A vector in a table cell: itself while it is short, else its length. */
export const showShort = (v) =>
  v.length === 1
    ? show(v[0])
    : v.length === 2
      ? `(${show(v[0], 3)}, ${show(v[1], 3)})`
      : `length ${show(length(v), 3)}`;

/** A whole number with commas between groups of three digits. */
export const showCount = (n) => String(n).replace(/\B(?=(\d{3})+(?!\d))/g, ",");

export function showPercent(p) {
  if (p > 0.9999 && p < 1) return "over 99.99%";
  if (p > 0 && p < 0.0001) return `${show(p * 100, 3)}%`;
  return `${(p * 100).toFixed(p < 0.1 ? 2 : 1)}%`;
}
