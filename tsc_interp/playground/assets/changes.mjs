// Interventions in the notation of tsc_interp/interventions: part=change, read and checked, or refused with the reason.

import { countsOf, lettersOf, pythonRepr, StringProblem } from "./strings.mjs";

/** A change that cannot be made: the message says why. */
export class ChangeProblem extends Error {}

const PART = /^(?:layer(\d+)\.)?(?:head(\d+)(?:\.(query|key|value|pattern))?(?:\[(\w+)\])?|neuron(\d+)|(mlp))$/;
const MOST_STRINGS = 200;
const EXAMPLES = "zero, mean(aab, abc), from(aab), like(b), set(0.7), scale(0.5), patch(aab)";

/** Six digits are kept, so that a link restores the very same numbers. */
export const keep = (x) => Number(x.toPrecision(6));

/** A part's name: layers only where it is not the first. */
export function partName(layer, kind, index = null, letter = null) {
  const where = Number(layer) ? `layer${Number(layer)}.` : "";
  if (kind === "mlp" || kind === "neuron" || kind === "head") return `${where}${kind}${index ?? ""}`;
  return `${where}head${index}.${kind}${letter === null ? "" : `[${letter}]`}`;
}

/** The model's parts of these kinds, layer by layer. */
export function partsOf(config, kinds) {
  const parts = [];
  for (let layer = 0; layer < config.n_layers; layer++)
    for (const kind of kinds) {
      if (kind === "mlp") parts.push(...(config.d_mlp > 0 ? [partName(layer, kind)] : []));
      else for (let i = 0; i < (kind === "neuron" ? config.d_mlp : config.n_heads); i++) parts.push(partName(layer, kind, i));
    }
  return parts;
}

/** Kinds of parts that are patched or looked at together: what they are called, and which they are. */
export const KINDS = {
  outputs: ["heads, neurons and MLP", ["head", "neuron", "mlp"]],
  patterns: ["attention patterns", ["pattern"]],
  queries: ["queries", ["query"]],
  keys: ["keys", ["key"]],
  values: ["values", ["value"]],
};

/**
 * "head0=zero" as { text, part, layer, kind, index, letter } with one of factor, vector, strings (of a mean), like, patch.
 * `text` is the notation as Python writes it. What this model has not, or the page cannot do, is a ChangeProblem.
 */
export function readChange(given, config) {
  const at = given.indexOf("=");
  if (at < 0) throw new ChangeProblem(`${pythonRepr(given)}: a change is written part=change, such as head0=zero or head0.value[c]=like(b)`);
  const where = readPart(given.slice(0, at).replaceAll(" ", ""), config);
  const how = readHow(given.slice(at + 1).trim());
  const text = `${where.part}=${how.text}`;
  const problem = misfit(where, how, config);
  if (problem) throw new ChangeProblem(`${text}: ${problem}`);
  return { ...where, ...how, text };
}

/** The string's counts; what cannot be read is a problem of the change. */
function readString(text, config) {
  try {
    return countsOf(text, config.n_letters);
  } catch (problem) {
    throw problem instanceof StringProblem ? new ChangeProblem(problem.message) : problem;
  }
}

function readPart(given, config) {
  const found = PART.exec(given);
  if (!found)
    throw new ChangeProblem(
      `${pythonRepr(given)} names no part this page can change; it changes head0, head0.query, head0.key[c], head0.value[c], head0.pattern, neuron1, mlp, layer1.head0 (tsc-interp intervene changes more)`,
    );
  const [, layer, head, of, letter, neuron, mlp] = found;
  const kind = mlp ?? (neuron === undefined ? (of ?? "head") : "neuron");
  const where = { layer: Number(layer ?? 0), kind, index: mlp ? null : Number(head ?? neuron), letter: letter ?? null };
  const part = partName(where.layer, kind, where.index, where.letter);
  if (letter !== undefined && kind !== "key" && kind !== "value")
    throw new ChangeProblem(`${pythonRepr(given)}: a letter has a key and a value in a head, and no ${kind}`);
  const many = (count, word) => (count === 0 ? `no ${word}` : `${count} ${word}${count > 1 ? "s" : ""}`);
  const fail = (words) => {
    throw new ChangeProblem(`${part}: ${words}`);
  };
  if (where.layer >= config.n_layers) fail(`the model has ${many(config.n_layers, "layer")}`);
  const [most, word] = kind === "neuron" || kind === "mlp" ? [config.d_mlp, "neuron"] : [config.n_heads, "head"];
  if (word === "neuron" && most === 0) fail("the model has no MLP");
  if (where.index >= most) fail(`the model has ${many(most, word)} per layer, from ${word} 0`);
  if (letter !== undefined && ![...lettersOf(config.n_letters), "CLS"].includes(letter))
    fail(`no token is called ${pythonRepr(letter)}; tokens are CLS, ${[...lettersOf(config.n_letters)].join(", ")}`);
  return { ...where, part };
}

function readNumber(text) {
  if (!/^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(text) || Math.abs(Number(text)) > 1e6) throw new ChangeProblem(`${pythonRepr(text)} is not a number between -1e6 and 1e6`);
  return keep(Number(text));
}

/** How a part is changed, by the name of the change: what its arguments mean, or nothing if they are too many or too few. */
const CHANGES = {
  zero: (given) => given.length === 0 && { factor: 0, shown: [] },
  mean: (given) => ({ strings: given }),
  from: (given) => given.length === 1 && { strings: given },
  patch: (given) => given.length === 1 && { patch: given[0] },
  like: (given) => given.length === 1 && { like: given[0] },
  scale: (given) => given.length === 1 && { factor: readNumber(given[0]) },
  set: (given) => given.length > 0 && { vector: given.map(readNumber) },
};

function readHow(given) {
  const [, name, inside] = /^([a-z]+)(?:\((.*)\))?$/s.exec(given) ?? [];
  const read = Object.hasOwn(CHANGES, name ?? "") ? CHANGES[name] : null;
  const list = (inside ?? "").split(",").map((each) => each.trim());
  const parts = list.filter((each) => each !== "");
  const how = read?.(parts);
  if (!how) throw new ChangeProblem(`${pythonRepr(given)} is no change this page makes; it makes ${EXAMPLES}`);
  const numbers = how.vector ?? (name === "scale" ? [how.factor] : parts);
  const written = name === "from" ? "mean" : name; // one string is a mean, too
  return { ...how, text: numbers.length > 0 ? `${written}(${numbers.join(", ")})` : written };
}

/** Why this cannot be done to that, if it cannot. */
function misfit({ layer, kind, letter }, { strings, patch, like, vector, factor }, config) {
  if (strings?.length === 0) return "the mean over no strings; name them, as in mean(aab, abc)";
  if (strings?.length > MOST_STRINGS) return `the page takes means over up to ${MOST_STRINGS} strings`;
  const read = [...(strings ?? []), ...(patch === undefined ? [] : [patch])].map((text) => readString(text, config));
  if (kind === "pattern" && patch === undefined)
    return factor === undefined
      ? "which letters there are differs between strings, so attention weights have no mean; use patch, or change keys"
      : "a pattern is patched here; to scale what it lets through, scale the head";
  if (like !== undefined) {
    if (letter === null) return "like() is for one letter's key or value, as in head0.value[c]=like(b)";
    if (layer > 0) return "a letter has one key and one value only in the first layer";
    readString(like, config);
    if (like.length !== 1) return "like() takes one letter";
  }
  const size = kind === "neuron" ? 1 : kind === "mlp" ? config.d_model : config.d_head;
  if (vector && vector.length !== size) return `${vector.length} numbers, but ${kind} has ${size}`;
  // Of one layer nothing but CLS's output is read; elsewhere every letter of every string needs a mean of its own.
  const pooled = kind === "key" || kind === "value" || (config.n_layers === 1 && kind !== "query");
  const missing = strings && !pooled ? [...lettersOf(config.n_letters)].filter((_, i) => !read.some((counts) => counts[i] > 0)) : [];
  return missing.length > 0 ? `no string of the mean has ${missing.join(", ")}` : null;
}
