// The Mersenne Twister, which torch and NumPy's legacy generator both draw from.
//
// The page draws what Python draws from the same seed, so that a model trained here is the model Python trains.

const SIZE = 624;

/** A generator of 32-bit outputs, seeded as torch.manual_seed and RandomState are. */
export function twister(seed) {
  const words = new Uint32Array(SIZE);
  words[0] = seed;
  for (let i = 1; i < SIZE; i++) words[i] = Math.imul(1812433253, words[i - 1] ^ (words[i - 1] >>> 30)) + i;
  let at = SIZE;
  return () => {
    if (at === SIZE) {
      refresh(words);
      at = 0;
    }
    let word = words[at++];
    word ^= word >>> 11;
    word ^= (word << 7) & 0x9d2c5680;
    word ^= (word << 15) & 0xefc60000;
    return (word ^ (word >>> 18)) >>> 0;
  };
}

function refresh(words) {
  for (let i = 0; i < SIZE; i++) {
    const mixed = (words[i] & 0x80000000) | (words[(i + 1) % SIZE] & 0x7fffffff);
    words[i] = words[(i + 397) % SIZE] ^ (mixed >>> 1) ^ (mixed & 1 ? 0x9908b0df : 0);
  }
}

/** What torch's CPU generator makes of the outputs: { uniform, normals }. */
export function torchDraws(seed) {
  const next = twister(seed);
  const fraction = () => (next() & 0xffffff) / 2 ** 24;
  const precise = () => {
    const high = next();
    return ((high & 0x1fffff) * 2 ** 32 + next()) / 2 ** 53;
  };
  const uniform = (low, high) => Math.fround(Math.fround(fraction() * Math.fround(high - low)) + Math.fround(low));
  return { uniform, normals: (count) => (count < 16 ? fewNormals(count, precise) : manyNormals(count, fraction)) };
}

/** Box and Muller's pairs, cosine first; a pair's second half serves the next number. */
function fewNormals(count, precise) {
  const drawn = [];
  while (drawn.length < count) {
    const [turn, size] = [precise(), precise()];
    const radius = Math.sqrt(-2 * Math.log1p(-size));
    drawn.push(radius * Math.cos(2 * Math.PI * turn), radius * Math.sin(2 * Math.PI * turn));
  }
  return drawn.slice(0, count).map(Math.fround);
}

/** Sixteen at a time, cosines before sines; what is left over at the end is drawn again as the last sixteen. */
function manyNormals(count, fraction) {
  const drawn = Array.from({ length: count }, fraction);
  const pair = (start) => {
    for (let j = start; j < start + 8; j++) {
      const radius = Math.sqrt(-2 * Math.log(Math.fround(1 - drawn[j])));
      const angle = 2 * Math.PI * drawn[j + 8];
      [drawn[j], drawn[j + 8]] = [Math.fround(radius * Math.cos(angle)), Math.fround(radius * Math.sin(angle))];
    }
  };
  for (let start = 0; start + 16 <= count; start += 16) pair(start);
  if (count % 16) {
    for (let j = count - 16; j < count; j++) drawn[j] = fraction();
    pair(count - 16);
  }
  return drawn;
}
