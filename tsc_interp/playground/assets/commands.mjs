// The view as commands: what to type, in Python or in a shell, to get the same number.

import { keep } from "./changes.mjs";
import { indicesOf } from "./model.mjs";
import { weightShapes } from "./shapes.mjs";

/** A shell line per question; edited weights cannot be passed on a command line, so they are named as missing. */
export function shellCommand(source, text, edits) {
  const model = `--checkpoint ${quoteForShell(source)}`;
  const changes = edits.changes.map((change) => ` ${quoteForShell(change)}`).join("");
  const first = changes ? `intervene ${model} --string ${quoteForShell(text)}${changes}` : `eval ${model} ${quoteForShell(text)}`;
  const lines = [`tsc-interp ${first}`, `tsc-interp verify ${model}`];
  if (Object.keys(edits.weights).length > 0) lines.unshift("# without the edited weights; the Python version has them");
  return lines.join("\n");
}

function quoteForShell(text) {
  return /^[\w./=-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`;
}

/**
 * A script that prints the page's logit, every edit included, through TransformerLens hooks. A model of the page's own training
 * has no file: `trained` = { classifier, recipe, epoch } is trained again.
 */
export function pythonScript(source, text, edits, config, trained = null) {
  const lines = ["import tsc_interp as tsc"];
  const weightLines = Object.entries(edits.weights).map(([place, value]) => weightLine(place, value, config));
  if (weightLines.length > 0) lines.unshift("import torch");
  lines.push("", ...(trained ? trainingLines(trained) : [`model = tsc.load(${JSON.stringify(source)})`]));
  if (weightLines.length > 0) lines.push("with torch.no_grad():", ...weightLines.map((line) => `    ${line}`));
  const string = JSON.stringify(text);
  if (edits.changes.length === 0) return [...lines, `print(model(${string}).item())`, ""].join("\n");
  lines.push("changes = [", ...edits.changes.map((change) => `    ${JSON.stringify(change)},`), "]");
  return [...lines, `print(tsc.intervene(model, [${string}], changes).after.item())`, ""].join("\n");
}

/** The same draws from the same seed, so the weights agree with the page's up to rounding. */
function trainingLines({ classifier, recipe, epoch }) {
  const { seed, max_length, alpha, learning_rate, weight_decay } = recipe;
  const epochs = Math.max(1, epoch);
  const training = { learning_rate, weight_decay, max_epochs: epochs, check_from: epochs, train: { max_length, alpha } };
  return [
    "experiment = tsc.Experiment.of(",
    `    "trained-here",`,
    `    seeds=${seed},`,
    `    classifier=${JSON.stringify(classifier)},`,
    `    training=${JSON.stringify(training)},`,
    ")",
    "(run,) = tsc.train(experiment)",
    `model = tsc.load(run.checkpoint(${epoch}))`,
  ];
}

function weightLine(place, value, config) {
  const [name, index] = place.split("/");
  const steps = indicesOf(weightShapes(config)[name], Number(index));
  return `model.get_parameter("${name}")[${steps.join(", ")}] = ${keep(value)}`;
}
