// The view as commands: what to type, in Python or in a shell, to get the same number.

import { isEdited, keep } from "./edits.mjs";
import { indicesOf, weightShapes } from "./model.mjs";

/** A shell line per question; edits cannot be passed on a command line, so they are named as missing. */
export function shellCommand(source, text, edits) {
  const model = `--checkpoint ${quoteForShell(source)}`;
  const lines = [`tsc-interp eval ${model} ${quoteForShell(text)}`, `tsc-interp verify ${model}`];
  if (isEdited(edits)) lines.unshift("# the model without the changes; the Python version has them");
  return lines.join("\n");
}

function quoteForShell(text) {
  return /^[\w./=-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`;
}

/** A script that prints the page's logit, every edit included, through TransformerLens hooks. */
export function pythonScript(source, text, edits, config) {
  const lines = ["import tsc_interp as tsc"];
  const weightLines = Object.entries(edits.weights).map(([place, value]) => weightLine(place, value, config));
  const hooks = hookLines(edits, config);
  if (weightLines.length > 0 || Object.keys(edits.values).length > 0) lines.unshift("import torch");
  lines.push("", `model = tsc.load(${JSON.stringify(source)})`);
  if (weightLines.length > 0) lines.push("with torch.no_grad():", ...weightLines.map((line) => `    ${line}`));
  if (hooks.length === 0) return [...lines, `print(model(${JSON.stringify(text)}).item())`, ""].join("\n");
  if (edits.frozen !== null) lines.push(`_, frozen = model.run_with_cache(${JSON.stringify(edits.frozen)})`);
  lines.push("", ...hooks.flatMap(({ definition }) => [...definition, ""]));
  lines.push("hooks = [", ...hooks.map(({ at, name }) => `    ("${at}", ${name}),`), "]");
  return [...lines, `print(model.run_with_hooks(${JSON.stringify(text)}, fwd_hooks=hooks).item())`, ""].join("\n");
}

function weightLine(place, value, config) {
  const [name, index] = place.split("/");
  const steps = indicesOf(weightShapes(config)[name], Number(index));
  return `model.get_parameter("${name}")[${steps.join(", ")}] = ${keep(value)}`;
}

function hookLines(edits, config) {
  const hooks = [];
  if (edits.frozen !== null) {
    const definition = ["def freeze(pattern, hook):", "    return frozen[hook.name]"];
    for (let layer = 0; layer < config.n_layers; layer++) {
      hooks.push({
        at: `blocks.${layer}.attn.hook_pattern`,
        name: "freeze",
        definition: layer === 0 ? definition : [],
      });
    }
  }
  Object.entries(edits.values).forEach(([place, vector], i) => {
    const [layer, head, token] = place.split(".");
    const position = token === "CLS" ? 0 : token.charCodeAt(0) - 96;
    const definition = [
      `def set_value_${i}(v, hook):  # positions are CLS, then one per letter`,
      `    v[:, ${position}, ${head}] = torch.tensor([${vector.join(", ")}])`,
      "    return v",
    ];
    hooks.push({ at: `blocks.${layer}.attn.hook_v`, name: `set_value_${i}`, definition });
  });
  edits.muted.forEach((id, i) => {
    const [layer, part] = id.split(".");
    const index = part === "mlp" ? "[:]" : `[:, :, ${part}]`;
    const definition = [`def mute_${i}(activation, hook):`, `    activation${index} = 0`, "    return activation"];
    const at = part === "mlp" ? `blocks.${layer}.mlp.hook_post` : `blocks.${layer}.attn.hook_z`;
    hooks.push({ at, name: `mute_${i}`, definition });
  });
  return hooks;
}
