// A guided tour of one failure: the string, its right neighbour, attention, the sum, the proof by change, the map.

import { freeze } from "./edits.mjs";
import { makeEvaluator } from "./evaluator.mjs";
import { show, showCount, showPercent, showSigned } from "./maths.mjs";
import { noEdits, prepare, run } from "./model.mjs";
import { isRight, nearestFlip, vectorsOfLength } from "./search.mjs";
import { writeCounts } from "./strings.mjs";
import { describeTask, labelOf } from "./task.mjs";

const nameOf = (letter) => String.fromCharCode(97 + letter);
const yesNo = (flag) => (flag ? "yes" : "no");

/**
 * A right string to hold beside a wrong one, with what changed between them: the same string with fewer of one letter
 * or, if that does not help, the shortest right string with the same label. null if there is none to be found.
 */
export function rightNeighbour(evaluator, task, wrong) {
  const label = labelOf(task, wrong);
  const fits = (counts) => isRight(evaluator, task, counts) === true && labelOf(task, counts) === label;
  const letters = wrong.map((_, letter) => letter).sort((one, two) => wrong[two] - wrong[one]);
  for (const letter of letters.filter((each) => wrong[each] > 1)) {
    const single = wrong.map((count, j) => (j === letter ? 1 : count));
    if (fits(single)) return { counts: single, letter };
    const { count } = nearestFlip(evaluator, wrong, letter, -1);
    const nearer = wrong.map((own, j) => (j === letter ? count : own));
    if (count !== null && fits(nearer)) return { counts: nearer, letter };
  }
  for (let length = 1; length <= 4; length++)
    for (const counts of vectorsOfLength(wrong.length, length)) if (fits(counts)) return { counts, letter: null };
  return null;
}

/**
 * The steps: { title, lines, target, text, edits, letter?, head? }. A step shows the page with its string and edits, and
 * `target` is the section it speaks of.
 */
export function tourSteps(prepared, evaluator, found) {
  const { config } = prepared.model;
  const wrong = found.counts;
  const neighbour = rightNeighbour(evaluator, config.task, wrong);
  const failing = run(prepared, wrong);
  const text = writeCounts(wrong);
  const label = labelOf(config.task, wrong);
  const common = { text, edits: noEdits() };
  const steps = [
    {
      ...common,
      title: "A string it gets wrong",
      target: "bar",
      lines: [
        `${text}: ${describeTask(config.task)}? ${label ? "Yes" : "No"}. The model says ${yesNo(!label)}: its logit is ${show(failing.logit)}, and above zero means yes.`,
        found.checkedTo > 0
          ? `It is the shortest: every string up to length ${showCount(found.checkedTo)} is right.`
          : "It is the shortest there is.",
      ],
    },
  ];
  if (!neighbour) return [...steps, sumStep(common, failing, null), mapStep(common, label)];
  const right = run(prepared, neighbour.counts);
  const other = writeCounts(neighbour.counts);
  const head = config.n_heads > 0 ? changedHead(failing, right) : null;
  return [
    ...steps,
    {
      ...common,
      text: other,
      title: "A right one to hold beside it",
      target: "breaks",
      letter: neighbour.letter === null ? undefined : nameOf(neighbour.letter),
      lines: neighbourLines(evaluator, wrong, neighbour, right, other, text),
    },
    head === null ? null : headStep(common, config, failing, right, head, other),
    sumStep(common, failing, { trace: right, text: other }),
    config.n_heads > 0 ? freezeStep(common, prepared, wrong, neighbour, label) : null,
    mapStep(common, label),
  ].filter(Boolean);
}

function neighbourLines(evaluator, wrong, { counts, letter }, right, other, text) {
  const lines = [`${other} is right: its logit is ${show(right.logit)}.`];
  if (letter === null) return [...lines, `${text} should be answered the same way.`];
  lines.push(`Beside ${text} only the number of ${nameOf(letter)} differs: ${counts[letter]}, not ${showCount(wrong[letter])}.`);
  const { count } = nearestFlip(evaluator, counts, letter, 1);
  if (count !== null && count <= wrong[letter])
    lines.push(`Each further ${nameOf(letter)} moves the logit a little; at ${showCount(count)} its sign flips.`);
  return lines;
}

/** In the first layer, the head whose contribution differs most between the two strings. */
function changedHead(failing, right) {
  const apart = failing.parts.map((part, i) => ({
    id: part.id,
    size: Math.abs(part.contribution - right.parts[i].contribution),
  }));
  const heads = apart.filter(({ id }) => /^0\.\d+$/.test(id)).sort((one, two) => two.size - one.size);
  return Number(heads[0].id.split(".")[1]);
}

function headStep(common, config, failing, right, head, other) {
  const weights = (trace) => trace.layers[0].pattern[head][0];
  const tokens = ["CLS", ...failing.counts.map((_, letter) => nameOf(letter))];
  const moved = tokens
    .map((token, j) => ({ token, j, change: weights(failing)[j] - weights(right)[j] }))
    .sort((one, two) => two.change - one.change);
  const [gains, loses] = [moved[0], moved.at(-1)];
  const share = (trace, j) => showPercent(weights(trace)[j]);
  const lines = [
    `Head ${head} differs most. On ${other} it gives ${loses.token} ${share(right, loses.j)} of its weight, on ${common.text} ${share(failing, loses.j)}.`,
    `What it loses goes to ${gains.token}: ${share(right, gains.j)} before, ${share(failing, gains.j)} now.`,
  ];
  const gap = failing.layers[0].scores[head][0][loses.j] - failing.layers[0].scores[head][0][gains.j];
  if (gains.j > 0 && loses.j > 0 && gap > 0 && failing.counts[gains.j - 1] > 1 && failing.counts[loses.j - 1] > 0)
    lines.push(
      `One ${loses.token} still outweighs one ${gains.token}, e^${show(gap, 3)} = ${show(Math.exp(gap), 3)} times; but there are ${showCount(failing.counts[gains.j - 1])} of them.`,
    );
  return { ...common, title: "Where a head looks", target: `head-${head}`, head, lines };
}

function sumStep(common, failing, right) {
  const rows = failing.parts.map((part, i) => ({
    name: part.name,
    now: part.contribution,
    then: right ? right.trace.parts[i].contribution : null,
  }));
  const most = [...rows].sort((one, two) => Math.abs(two.now - (two.then ?? 0)) - Math.abs(one.now - (one.then ?? 0)));
  const told = most.slice(0, 3).map(({ name, now, then }) =>
    then === null ? `${name} ${showSigned(now)}` : `${name} ${showSigned(then)} → ${showSigned(now)}`,
  );
  return {
    ...common,
    title: "What the logit is made of",
    target: "stream",
    lines: [
      right
        ? `The logit is a sum. From ${right.text} to ${common.text}: ${told.join(", ")}; logit ${show(right.trace.logit)} → ${show(failing.logit)}.`
        : `The logit is a sum: ${told.join(", ")}; logit ${show(failing.logit)}.`,
    ],
  };
}

function freezeStep(common, prepared, wrong, neighbour, label) {
  const other = writeCounts(neighbour.counts);
  const edits = freeze(noEdits(), prepared.model.config, other);
  const { logit, answer } = makeEvaluator(prepare(prepared.model, edits)).evaluate(wrong);
  // With other letters attention looks at what is not there, so all that can be said is how the difference travels.
  const cause = neighbour.letter === null ? "The difference comes in through attention" : "The attention was the cause";
  const verdict =
    answer === null
      ? "too close to zero to call"
      : answer === label
        ? `so the answer is right. ${cause}`
        : "so the answer stays wrong. Attention alone is not the cause";
  return {
    ...common,
    edits,
    title: "The test: give the attention back",
    target: "bar",
    lines: [
      `Here attention is frozen as it was on ${other}, and nothing else is changed: the logit of ${common.text} is ${show(logit)}, ${verdict}.`,
    ],
  };
}

const mapStep = (common, label) => ({
  ...common,
  title: "Where else it fails",
  target: "map",
  lines: [
    `Nothing is changed any more. The hatched part of the map is every mixture that is answered wrongly; the ring is ${common.text}, which should be ${yesNo(label)}.`,
    "Leave the tour and try another point.",
  ],
});
