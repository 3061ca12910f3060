// The model, changes included, as a checkpoint that tsc-interp reads: the very bytes Python would write.

import { readChange } from "./changes.mjs";
import { isEdited } from "./edits.mjs";

const utf8 = new TextEncoder();

// What a part is written or read with, and which share of it belongs to one head or neuron.
const HELD_IN = { head: "attn.W_O", neuron: "mlp.W_out", mlp: "mlp.W_out", query: "attn.W_Q", key: "attn.W_K", value: "attn.W_V" };
const BIAS_OF = { mlp: "mlp.b_out", query: "attn.b_Q", key: "attn.b_K", value: "attn.b_V" };

/**
 * { weights, left }: each weight's numbers with everything baked in that these weights can hold (zero and scale of a whole
 * part), and the changes that they cannot hold.
 */
export function bakedWeights(model, edits) {
  const weights = { ...model.flat };
  const left = [];
  const biasOf = model.config.biases ? BIAS_OF : {};
  for (const text of edits.changes) {
    const { layer, kind, index, letter, factor } = readChange(text, model.config);
    const shared = model.config.n_key_value_heads > 0 && (kind === "key" || kind === "value");
    if (factor === undefined || letter !== null || shared) {
      left.push(text);
      continue;
    }
    const written = `blocks.${layer}.${HELD_IN[kind]}`;
    for (const name of [written, ...(biasOf[kind] ? [`blocks.${layer}.${biasOf[kind]}`] : [])]) {
      const size = index === null ? weights[name].length : weights[name].length / model.shapes[name][0];
      const start = size * (index ?? 0);
      weights[name] = weights[name].map((x, i) => (i >= start && i < start + size ? x * factor : x));
    }
  }
  return { weights, left };
}

/** The bytes of a .safetensors file. `about` is { source, version, config text }. */
export async function checkpointFile(model, edits, about) {
  const { weights } = bakedWeights(model, edits);
  const names = Object.keys(model.shapes).sort();
  const parts = names.map((name) => littleEndian(weights[name]));
  const provenance = jsonLikePython({
    edited: isEdited(edits),
    source: about.source,
    written_by: `tsc-interp ${about.version} playground`,
  });
  const metadata = { format: "tsc-interp/checkpoint", format_version: "1", config: about.config };
  // Hashing needs a page from disk, from this machine or over https; elsewhere the older format has none.
  if (globalThis.crypto?.subtle) {
    const pieces = names.flatMap((name, i) => [`\0${name}[${model.shapes[name].join(", ")}]\0`, parts[i]]);
    metadata.format_version = "2";
    metadata.weight_hash = await sha256([about.config, ...pieces]);
    metadata.provenance = provenance;
    metadata.provenance_hash = await sha256([provenance]);
  } else metadata.provenance = provenance;
  const header = { __metadata__: metadata };
  let end = 0;
  names.forEach((name, i) => {
    header[name] = { dtype: "F32", shape: model.shapes[name], data_offsets: [end, (end += parts[i].length)] };
  });
  const text = utf8.encode(ascii(JSON.stringify(header)));
  const padded = Math.ceil(text.length / 8) * 8;
  const start = new Uint8Array(8 + padded).fill(32);
  new DataView(start.buffer).setBigUint64(0, BigInt(padded), true);
  start.set(text, 8);
  return joined([start, ...parts]);
}

function littleEndian(numbers) {
  const view = new DataView(new ArrayBuffer(4 * numbers.length));
  numbers.forEach((x, i) => view.setFloat32(4 * i, x, true));
  return new Uint8Array(view.buffer);
}

function joined(parts) {
  const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

async function sha256(parts) {
  const bytes = joined(parts.map((part) => (typeof part === "string" ? utf8.encode(part) : part)));
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return [...digest].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

const ascii = (text) =>
  text.replace(/[\u0080-\uffff]/g, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);

/** One flat object as Python's json writes it, keys in order. */
function jsonLikePython(object) {
  const entries = Object.keys(object).sort();
  const texts = entries.map((key) => `${JSON.stringify(key)}: ${JSON.stringify(object[key])}`);
  return ascii(`{${texts.join(", ")}}`);
}
