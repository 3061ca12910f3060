// When does it break? The shortest string the model gets wrong, and the count at which its answer flips.
//
// Strings are count vectors. Shorter comes first, and among equal lengths the alphabetically first sorted
// string, which is the lexicographically largest count vector. Searches are generators: they
// yield now and then, so that the page can draw and stay responsive, and can be dropped at any time.

import { MAX_REPEAT } from "./strings.mjs";
import { labelOf, labelOfBox } from "./task.mjs";

const STEPS_PER_PAUSE = 400;

const total = (counts) => counts.reduce((sum, count) => sum + count, 0);

/** Whether the model's answer is right: true, false, or null where its logit is too close to zero to tell. */
export function isRight(evaluator, task, counts) {
  const { answer } = evaluator.evaluate(counts);
  return answer === null ? null : answer === labelOf(task, counts);
}

/**
 * The first wrong string. Yields { checkedTo, steps }: every string up to that length is right.
 * Returns { counts or null, checkedTo, complete, undecided }: complete means that nothing was left unsearched
 * among strings with at most 10^9 of each letter; undecided is the first string too close to call, or null.
 */
export function* shortestFailure(evaluator, task, size, maxSteps = 300000) {
  return yield* evaluator.bounds
    ? searchBoxes(evaluator, task, size, maxSteps)
    : enumerate(evaluator, task, size, maxSteps);
}

/**
 * Best first over boxes of counts. A box's shortest string is its lowest corner, so taking boxes in the order
 * of those corners meets strings in the order wanted, and each box either is proved right by
 * bounds on the logit or is cut in two.
 */
function* searchBoxes(evaluator, task, size, maxSteps) {
  const queue = new BoxQueue();
  queue.push(new Array(size).fill(0), new Array(size).fill(MAX_REPEAT));
  const seen = progress();
  while (queue.size > 0) {
    const box = queue.pop();
    seen.upTo(box.length - 1);
    if (seen.steps >= maxSteps) return seen.result(null, false);
    if (++seen.steps % STEPS_PER_PAUSE === 0) yield seen;
    const right = box.length > 0 ? isRight(evaluator, task, box.low) : true;
    if (right === false) return seen.result(box.low, true);
    if (right === null) seen.doubt(box.low);
    if (isProvedRight(evaluator, task, box)) continue;
    const cut = widestSide(box);
    if (cut < 0) continue; // a single string, just looked at
    const middle = splitPoint(box.low[cut], box.high[cut]);
    queue.push(box.low, replaced(box.high, cut, middle));
    queue.push(replaced(box.low, cut, middle + 1), box.high);
  }
  seen.upTo(Infinity);
  return seen.result(null, true);
}

/** How far a search has come. Beyond the first string that is too close to call nothing counts as checked. */
function progress() {
  return {
    steps: 0,
    checkedTo: 0,
    undecided: null,
    upTo(length) {
      const limit = this.undecided ? total(this.undecided) - 1 : Infinity;
      this.checkedTo = Math.max(0, Math.min(length, limit));
    },
    doubt(counts) {
      this.undecided ??= counts;
    },
    result(counts, complete) {
      const { checkedTo, undecided } = this;
      return { counts, checkedTo, complete, undecided };
    },
  };
}

function isProvedRight(evaluator, task, { low, high }) {
  // A letter that may or may not occur: cut there first, the bounds are for letters that are there.
  if (low.some((least, j) => least === 0 && high[j] > 0)) return false;
  if (high.every((most) => most === 0)) return true;
  const label = labelOfBox(task, low, high);
  if (label === null) return false;
  const [lowest, highest] = evaluator.bounds(low, high);
  return label ? lowest > 0 : highest <= 0;
}

/** Weights depend on ratios, so a side's width is the ratio of its ends. */
function widestSide({ low, high }) {
  let best = -1;
  let widest = 1;
  for (let j = 0; j < low.length; j++) {
    const width = low[j] === 0 && high[j] > 0 ? Infinity : high[j] / Math.max(1, low[j]);
    if (width > widest) [best, widest] = [j, width];
  }
  return best;
}

const splitPoint = (low, high) => (low === 0 ? 0 : Math.min(high - 1, Math.floor(Math.sqrt(low * high))));

function replaced(values, index, value) {
  const copy = values.slice();
  copy[index] = value;
  return copy;
}

/** A binary heap of boxes, by their lowest corner: shorter first, then lexicographically larger. */
class BoxQueue {
  constructor() {
    this.items = [];
  }

  get size() {
    return this.items.length;
  }

  push(low, high) {
    const { items } = this;
    const box = { low, high, length: total(low) };
    let place = items.length;
    items.push(box);
    while (place > 0) {
      const parent = (place - 1) >> 1;
      if (!comesBefore(box, items[parent])) break;
      items[place] = items[parent];
      place = parent;
    }
    items[place] = box;
  }

  pop() {
    const { items } = this;
    const first = items[0];
    const last = items.pop();
    if (items.length > 0) {
      let place = 0;
      for (;;) {
        let child = 2 * place + 1;
        if (child >= items.length) break;
        if (child + 1 < items.length && comesBefore(items[child + 1], items[child])) child++;
        if (!comesBefore(items[child], last)) break;
        items[place] = items[child];
        place = child;
      }
      items[place] = last;
    }
    return first;
  }
}

function comesBefore(one, two) {
  if (one.length !== two.length) return one.length < two.length;
  for (let j = 0; j < one.low.length; j++) {
    if (one.low[j] !== two.low[j]) return one.low[j] > two.low[j];
  }
  return false;
}

/** One string after the other, for models that bounds are not written for (more than one layer). */
function* enumerate(evaluator, task, size, maxSteps) {
  const seen = progress();
  for (let length = 1; ; length++) {
    seen.upTo(length - 1);
    for (const counts of vectorsOfLength(size, length)) {
      if (seen.steps >= maxSteps) return seen.result(null, false);
      if (++seen.steps % STEPS_PER_PAUSE === 0) yield seen;
      const right = isRight(evaluator, task, counts);
      if (right === false) return seen.result(counts, true);
      if (right === null) seen.doubt(counts);
    }
  }
}

/** All count vectors of one length, lexicographically largest first. */
export function* vectorsOfLength(size, length) {
  if (size === 1) {
    yield [length];
    return;
  }
  for (let first = length; first >= 0; first--) {
    for (const rest of vectorsOfLength(size - 1, length - first)) yield [first, ...rest];
  }
}

/**
 * The nearest count of one letter, above (+1) or below (-1) the present one, at which the sign of the logit has
 * certainly changed, the other counts staying. Returns { count or null, searchedTo, doubt }: doubt is the nearest
 * count before it whose logit is too close to zero to tell, or null.
 */
export function nearestFlip(evaluator, counts, letter, direction) {
  const now = evaluator.evaluate(counts).answer;
  const others = total(counts) - counts[letter];
  const [low, high] = direction > 0 ? [counts[letter] + 1, MAX_REPEAT] : [others > 0 ? 0 : 1, counts[letter] - 1];
  const end = direction > 0 ? high : low;
  if (now === null) return { count: null, searchedTo: counts[letter], doubt: counts[letter] };
  if (low > high) return { count: null, searchedTo: end, doubt: null };
  let doubt = null;
  const flips = (count) => {
    const { answer } = evaluator.evaluate(replaced(counts, letter, count));
    if (answer === null) doubt ??= count;
    return answer !== null && answer !== now;
  };
  const found = evaluator.bounds
    ? flipInBoxes(evaluator, counts, letter, [low, high], now, flips, direction)
    : flipByScan(low, high, flips, direction);
  return { ...found, doubt };
}

function flipInBoxes(evaluator, counts, letter, range, now, flips, direction) {
  // The parts still to be looked at, the nearest on top.
  const open = [range];
  for (let steps = 0; open.length > 0; steps++) {
    const [low, high] = open.pop();
    if (steps > 20000) return { count: null, searchedTo: direction > 0 ? low - 1 : high + 1 };
    if (low > 0) {
      const [lowest, highest] = evaluator.bounds(replaced(counts, letter, low), replaced(counts, letter, high));
      if (now ? lowest > 0 : highest <= 0) continue;
    }
    if (low === high) {
      if (flips(low)) return { count: low, searchedTo: low };
      continue;
    }
    const middle = splitPoint(low, high);
    const parts = [
      [low, middle],
      [middle + 1, high],
    ];
    open.push(...(direction > 0 ? parts.reverse() : parts));
  }
  return { count: null, searchedTo: direction > 0 ? range[1] : range[0] };
}

function flipByScan(low, high, flips, direction, limit = 3000) {
  let count = direction > 0 ? low : high;
  for (let steps = 0; steps < limit && count >= low && count <= high; steps++, count += direction) {
    if (flips(count)) return { count, searchedTo: count };
  }
  return { count: null, searchedTo: count - direction };
}
