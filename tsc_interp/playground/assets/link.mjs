// The view as text after the # of the address. Everything read from it is checked: a link comes from
// anybody, so a part that does not fit this page's models is left out and named, never used.

import { KINDS, keep, partName, partsOf, readChange } from "./changes.mjs";
import { freeze, setChange } from "./edits.mjs";
import { noEdits } from "./model.mjs";
import { countsOf, lettersOf } from "./strings.mjs";

const LENS = [1, 8];
const LONGEST_LIST = 4000;
const MOST_CHANGES = 400;
export const NOBODY = "nobody"; // beside the model

/** view = { text, epoch, edits, lens, face, letter, list, model, beside } to "s=aac&change=head1%3Dzero". Defaults stay out of it. */
export function writeLink(view, defaults) {
  const parts = new URLSearchParams();
  if (view.train) parts.set("train", view.train); // made again from its options, whatever it is called
  else if (view.model !== defaults.model) parts.set("model", view.model);
  if (view.beside !== defaults.beside) parts.set("beside", view.beside);
  parts.set("s", view.text);
  if (view.epoch !== defaults.epoch) parts.set("epoch", String(view.epoch));
  for (const text of view.edits.changes) parts.append("change", text);
  for (const [place, value] of Object.entries(view.edits.weights)) parts.append("weight", `${place}:${keep(value)}`);
  if (view.lens !== defaults.lens) parts.set("lens", String(view.lens));
  if (view.face !== defaults.face) parts.set("face", view.face);
  if (view.letter !== defaults.letter) parts.set("letter", view.letter);
  if (view.list !== defaults.list) parts.set("list", view.list.trim().slice(0, LONGEST_LIST));
  for (const [name, key] of Object.entries(CHOICES)) if (view[key] !== defaults[key]) parts.set(name, String(view[key]).slice(0, LONGEST_LIST));
  return parts.toString();
}

/** How muting and patching are set, by their name in the address. */
const CHOICES = { by: "muteBy", mean: "mean", second: "second", kind: "kind", circuit: "circuit" };

/** The models a link names, as { model, beside }; names that are not there are left to `readLink` to complain about. */
export function readModels(hash, names, defaults) {
  const parts = new URLSearchParams(hash.replace(/^#/, ""));
  const named = (part, allowed) => (allowed.includes(parts.get(part)) ? parts.get(part) : defaults[part]);
  return { model: named("model", names), beside: named("beside", [...names, NOBODY]) };
}

/** What a link was trained with, as { options, epoch }; null for any other link. */
export function readTraining(hash) {
  const parts = new URLSearchParams(hash.replace(/^#/, ""));
  const epoch = parts.get("epoch") ?? "0";
  return parts.has("train") && /^\d{1,6}$/.test(epoch) ? { options: parts.get("train"), epoch: Number(epoch) } : null;
}

/**
 * { view, ignored }: the parts that could be used over the defaults, and the names of those that could not.
 * `known` = { model, epochs, names, training }: what the parts are checked against.
 */
export function readLink(hash, known, defaults) {
  const view = { ...defaults, edits: noEdits() };
  const ignored = [];
  for (const [name, given] of new URLSearchParams(hash.replace(/^#/, ""))) {
    const reader = Object.hasOwn(READERS, name) ? READERS[name] : undefined;
    let fits = false;
    try {
      fits = reader !== undefined && reader(given, view, known.model, known);
    } catch {
      fits = false;
    }
    if (!fits) ignored.push(name.slice(0, 40));
  }
  return { view, ignored };
}

const READERS = {
  model: (given, view, model, { names }) => names.includes(given),
  train: (given, view, model, { training }) => given === training,
  beside: (given, view, model, { names }) => given === NOBODY || names.includes(given),
  s(given, view, model) {
    countsOf(given, model.config.n_letters);
    view.text = given;
    return true;
  },
  epoch(given, view, model, { epochs }) {
    if (!/^\d{1,6}$/.test(given) || !epochs.includes(Number(given))) return false;
    view.epoch = Number(given);
    return true;
  },
  change(given, view, { config }) {
    if (view.edits.changes.length >= MOST_CHANGES) return false;
    view.edits = setChange(view.edits, readChange(given, config).text);
    return true;
  },
  // Links of earlier pages: mute=0.1,0.mlp and freeze=aac and value=0.1.b:0.5;2.
  mute(given, view, { config }) {
    const ids = [...new Set(given.split(","))].sort();
    const texts = ids.map((id) => readChange(`${oldPart(id)}=zero`, config).text);
    view.edits = texts.reduce(setChange, view.edits);
    return true;
  },
  freeze(given, view, model) {
    countsOf(given, model.config.n_letters);
    view.edits = freeze(view.edits, model.config, given);
    return model.config.n_heads > 0;
  },
  value(given, view, { config }) {
    const [place, numbers] = splitAtColon(given);
    const [layer, head, token] = /^(\d{1,4})\.(\d{1,4})\.(\w+)$/.exec(place).slice(1);
    const vector = numbers.split(";").map(readNumber).map(keep);
    const part = partName(layer, "value", Number(head), token);
    view.edits = setChange(view.edits, readChange(`${part}=set(${vector.join(", ")})`, config).text);
    return true;
  },
  weight(given, view, model) {
    const [place, number] = splitAtColon(given);
    const [name, index, ...rest] = place.split("/");
    const size = Object.hasOwn(model.flat, name) ? model.flat[name].length : 0;
    if (rest.length > 0 || !/^\d{1,9}$/.test(index) || Number(index) >= size) return false;
    view.edits.weights[`${name}/${Number(index)}`] = Math.fround(readNumber(number));
    return true;
  },
  lens(given, view) {
    const lens = readNumber(given);
    if (lens < LENS[0] || lens > LENS[1]) return false;
    view.lens = lens;
    return true;
  },
  face(given, view, { config }) {
    const size = Math.min(3, config.n_letters);
    const letters = new Set(given);
    if (given.length !== size || letters.size !== size) return false;
    if (![...letters].every((letter) => lettersOf(config.n_letters).includes(letter))) return false;
    view.face = given;
    return true;
  },
  letter(given, view, { config }) {
    if (given.length !== 1 || !lettersOf(config.n_letters).includes(given)) return false;
    view.letter = given;
    return true;
  },
  by: (given, view) => ["zero", "mean"].includes(given) && Boolean((view.muteBy = given)),
  mean: (given, view) => readText(given, view, "mean"),
  second: (given, view) => readText(given, view, "second"),
  kind(given, view, { config }) {
    if (!Object.hasOwn(KINDS, given) || partsOf(config, KINDS[given][1]).length === 0) return false;
    view.kind = given;
    return true;
  },
  circuit: (given, view) => ["true", "false"].includes(given) && ((view.circuit = given === "true"), true),
  list: (given, view) => readText(given, view, "list"),
};

/** What a person typed comes back as it was, right or wrong: its box says what is wrong with it. */
function readText(given, view, name) {
  if (given.length > LONGEST_LIST) return false;
  view[name] = given;
  return true;
}

/** "0.1" or "0.mlp", as earlier pages called parts. */
function oldPart(id) {
  const [, layer, part] = /^(0|[1-9]\d{0,3})\.(0|[1-9]\d{0,3}|mlp)$/.exec(id);
  return part === "mlp" ? partName(layer, "mlp") : partName(layer, "head", part);
}

function splitAtColon(text) {
  const at = text.indexOf(":");
  if (at < 0) throw new Error("no colon");
  return [text.slice(0, at), text.slice(at + 1)];
}

function readNumber(text) {
  const number = Number(text);
  if (!/^[-+.\deE]{1,40}$/.test(text) || !Number.isFinite(number) || Math.abs(number) > 1e6)
    throw new Error("no number");
  return number;
}
