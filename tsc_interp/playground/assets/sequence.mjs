// The page for models that see order or have several outputs: a string, the attention of every head, what the answer is made of.

import { ChangeProblem, partName, readChange } from "./changes.mjs";
import { pythonScript, shellCommand } from "./commands.mjs";
import { h, replace, startRoving, startTooltip, tokenColour } from "./dom.mjs";
import { copyText, downloadFile } from "./download.mjs";
import { changeOf, dropChange, setChange } from "./edits.mjs";
import { roughError } from "./evaluator.mjs";
import { contributionFigure } from "./figures.mjs";
import { inputOf, inTokens, longestOf } from "./inputs.mjs";
import { show, showCount, showPercent, showSigned, sigmoid } from "./maths.mjs";
import { noEdits, prepare, run } from "./model.mjs";
import { readModel } from "./models.mjs";
import { badge, themeButton } from "./parts.mjs";
import { headButtons, patternFigure, shownPositions, tokenTable } from "./patterns.mjs";
import { riverFigure } from "./river.mjs";
import { checkpointFile } from "./safetensors.mjs";
import { needsOrder } from "./shapes.mjs";
import { StringProblem } from "./strings.mjs";
import { classOf } from "./task.mjs";
import { firstWrong, stringsOf } from "./wrongstrings.mjs";

const byId = (id) => document.getElementById(id);
const payload = JSON.parse(byId("payload").textContent);
const models = payload.models.map(readModel);
const state = { main: models[0], text: models[0].examples[0], problem: null, edits: noEdits() };
const pick = { layer: 0, head: 0 };
let found = null;

// -- state ----------------------------------------------------------------------------------------------

function setText(text) {
  try {
    inputOf(state.main.config, text);
    Object.assign(state, { text, problem: null });
  } catch (problem) {
    // The last good string stays in force; the box keeps what was typed.
    if (!(problem instanceof StringProblem)) throw problem;
    state.problem = problem.message;
  }
  draw();
}

function typed(text) {
  byId("string").value = text;
  setText(text);
}

function mute(part) {
  const { edits } = state;
  state.edits = changeOf(edits, part) === null ? setChange(edits, `${part}=zero`) : dropChange(edits, part);
  draw();
  search();
}

/** Another model: the string stays if it can be read. */
function switchTo(name) {
  state.main = models.find((each) => each.name === name);
  state.edits = noEdits();
  Object.assign(pick, { layer: 0, head: 0 });
  try {
    inputOf(state.main.config, state.text);
  } catch {
    state.text = state.main.examples[0];
  }
  introduce();
  typed(state.text);
  search();
}

/** The address: the model, the string, and which parts are muted; what does not fit is left out and named. */
function restore(hash) {
  const ignored = [];
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  const wanted = models.find(({ name }) => name === given.get("model"));
  if (given.has("model") && !wanted) ignored.push("model");
  Object.assign(state, { main: wanted ?? models[0], edits: noEdits(), problem: null });
  state.text = state.main.examples[0];
  for (const [name, value] of given) {
    try {
      if (name === "s") inputOf(state.main.config, value);
      if (name === "s") state.text = value;
      else if (name === "change") {
        const { text, factor, letter } = readChange(value, state.main.config);
        if (factor !== 0 || letter !== null) throw new ChangeProblem("parts are muted here");
        state.edits = setChange(state.edits, text);
      } else if (name !== "model") ignored.push(name.slice(0, 40));
    } catch {
      ignored.push(name);
    }
  }
  byId("notice").hidden = ignored.length === 0;
  byId("notice").textContent = `Part of the link does not fit this page and was left out: ${ignored.join(", ")}.`;
  byId("string").value = state.text;
}

let timer = 0;

function remember() {
  clearTimeout(timer);
  timer = setTimeout(() => {
    const parts = new URLSearchParams(state.main === models[0] ? {} : { model: state.main.name });
    parts.set("s", state.text);
    for (const change of state.edits.changes) parts.append("change", change);
    try {
      history.replaceState(null, "", `#${parts}`);
    } catch {
      // Inside another page (a report) there is no address of our own to write to.
    }
  }, 200);
}

// -- what is drawn ----------------------------------------------------------------------------------------

const classesOf = (trace) => (trace.second === null ? Number(trace.logit > 0) : trace.best);
const sureOf = (trace) => Math.abs(trace.logit) > roughError(trace);

function introduce() {
  const { main } = state;
  const { config } = main;
  const sizes = [`${config.n_layers} layer${config.n_layers > 1 ? "s" : ""}`, `${config.n_heads} head${config.n_heads === 1 ? "" : "s"}`, `width ${config.d_model}`];
  byId("title").textContent = main.name;
  byId("subtitle").textContent = `The task: ${main.question}. A transformer with ${sizes.join(", ")}${config.d_mlp > 0 ? `, MLP ${config.d_mlp}` : ", no MLP"}.`;
  document.title = `${main.name} · tsc-interp playground`;
  byId("footer").textContent = `tsc-interp ${payload.version} playground. The model runs in this page; nothing is sent anywhere.`;
  byId("why").textContent = main.why;
  const option = ({ name }) => h("option", { value: name, selected: name === main.name }, name);
  byId("models").hidden = models.length < 2;
  replace(byId("models"), h("label", {}, "Model ", h("select", { "data-key": "model", onchange: (event) => switchTo(event.target.value) }, models.map(option))));
  const button = (text) => h("button", { class: "small", "data-key": `example-${text}`, onclick: () => typed(text) }, h("code", {}, text));
  replace(byId("examples"), h("span", { class: "note" }, "Try"), main.examples.map(button));
}

function draw() {
  const { main, edits } = state;
  const { config } = main;
  const input = inputOf(config, state.text);
  const prepared = prepare(main.model, edits);
  const trace = run(prepared, input);
  const before = edits.changes.length > 0 ? run(prepared.plain, input) : null;
  const side = { id: "main", prepared, trace, before, editable: true, mute, circuit: {} };
  const truth = classOf(main, input, state.text);
  byId("string-problem").textContent = state.problem ? `${state.problem}. Still showing ${state.text}.` : "";
  byId("string").setAttribute("aria-invalid", String(state.problem !== null));
  replace(byId("verdicts"), verdict(trace, before, truth));
  byId("looking").textContent = lookingAt(trace, truth);
  replace(byId("tokens"), tokenStrip(side));
  replace(byId("river"), riverFigure(side, shownPositions(side), trace.second === null ? trace.logit > 0 : true, trace.second === null ? undefined : [trace.best, trace.second].map((each) => main.classes[each])));
  drawAttention(side);
  byId("made-caption").textContent = trace.second === null ? "Parts add up to the logit; above zero means yes." : `Parts add up to how far ${main.classes[trace.best]} is ahead of ${main.classes[trace.second]}.`;
  replace(byId("made"), contributionFigure(trace, before, () => false, 420, trace.second === null ? "logit" : "ahead by"), mlpButtons(side), outputTable(trace, truth));
  const prefixes = prefixesOf(config, input);
  byId("prefixes-card").hidden = prefixes.length < 2;
  replace(byId("prefixes"), prefixTable(prepared, prefixes));
  replace(byId("badges"), badge(main.model, main.strings, main.logits));
  replace(byId("share-content"), sharing(main));
  refreshTooltip();
  document.documentElement.dataset.ready = "yes";
  remember();
}

function verdict(trace, before, truth) {
  const { classes } = state.main;
  const right = truth === null ? null : classesOf(trace) === truth;
  const kind = !sureOf(trace) ? "too close to call" : right === null ? "not judged" : right ? "right" : `wrong: should be ${classes[truth]}`;
  const look = !sureOf(trace) || right === null ? "open" : right ? "right" : "wrong";
  return h(
    "div",
    { class: `verdict ${look}` },
    h("span", { class: "big", "data-result": "answer" }, `says ${classes[classesOf(trace)]}`),
    h("span", { "data-result": "logit", "data-logit": trace.logit }, trace.second === null ? `logit ${show(trace.logit, 6)}, probability ${showPercent(sigmoid(trace.logit))}` : `ahead by ${show(trace.logit, 5)}`),
    h("span", { class: "tag" }, kind),
    before ? h("span", { class: "tag edited" }, `muted; said ${classes[classesOf(before)]}`) : null,
  );
}

function lookingAt(trace, truth) {
  const { classes, config } = state.main;
  const way = needsOrder(config) ? "token by token" : "as counts of letters";
  const judged = truth === null ? "This page does not know the right answer." : `The right answer is ${classes[truth]}.`;
  const what = config.frame ? "token" : "letter";
  return `${state.text}, ${showCount(trace.size)} ${what}${trace.size === 1 ? "" : "s"}${config.frame ? " with its frame" : ""}, as the model reads it, ${way}: each token looks at others in every head, what it finds is added up, and the model says ${classes[classesOf(trace)]}. ${judged}`;
}

function tokenStrip(side) {
  const chip = ({ letter, name, times, position }) =>
    h(
      "span",
      { class: `chip token${position === side.trace.reading ? " reads" : ""}`, style: `--colour:${tokenColour(letter)}` },
      times > 1 ? `${name} × ${showCount(times)}` : name,
    );
  return h("p", { class: "token-strip", "aria-label": "Tokens; the framed one reads the answer" }, shownPositions(side).map(chip));
}

function drawAttention(side) {
  const { config } = state.main;
  if (config.n_heads === 0) {
    byId("attention-caption").textContent = "This model has no attention.";
    return [byId("heads"), byId("pattern")].forEach((each) => replace(each));
  }
  byId("attention-caption").textContent = "Choose a head; point at a cell, tap it or tab to it, for its weight. Beside each name stands what the head adds.";
  const choose = (parts) => {
    Object.assign(pick, parts);
    draw();
  };
  replace(byId("heads"), headButtons(side, pick, choose));
  replace(byId("pattern"), h("div", {}, patternFigure(side, pick, choose)), tokenTable(side, pick));
}

function mlpButtons(side) {
  const { config } = state.main;
  if (config.d_mlp === 0) return null;
  const button = (layer) => {
    const part = partName(layer, "mlp");
    const how = side.prepared.changes[part];
    return h("button", { class: "small", "data-key": `mute-${part}`, "aria-pressed": String(how !== undefined), onclick: () => mute(part) }, `${how === undefined ? "Mute" : "Muted:"} ${part}`);
  };
  return h("p", { class: "toolbar" }, Array.from({ length: config.n_layers }, (_, layer) => button(layer)));
}

/** The largest outputs, of several. */
function outputTable({ outputs, second }, truth) {
  if (second === null) return null;
  const { classes } = state.main;
  const order = outputs.map((_, i) => i).sort((i, j) => outputs[j] - outputs[i]);
  const row = (i) => h("tr", {}, h("th", { scope: "row" }, classes[i], i === truth ? h("span", { class: "note" }, " (right)") : null), h("td", { class: "right" }, showSigned(outputs[i])));
  return h("table", { class: "numbers" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "output"), h("th", { scope: "col", class: "right" }, "logit"))), h("tbody", {}, order.slice(0, 10).map(row)));
}

const MOST_PREFIXES = 24;

/** The string's beginnings, the longest ones; those that are inputs. */
function prefixesOf({ frame }, { letters = [], inside = letters }) {
  const every = inside.map((_, i) => inside.slice(0, i + 1)).filter((prefix) => !frame || frame.rows[prefix.length]);
  return every.slice(-MOST_PREFIXES);
}

/** What the model says of them. */
function prefixTable(prepared, prefixes) {
  const { main } = state;
  const { config, classes, model } = main;
  const rows = prefixes.map((prefix) => {
    const text = inTokens(config, prefix.map((letter) => model.tokens[letter + 1]).join(""));
    const input = inputOf(config, text);
    const trace = run(prepared, input);
    const [said, truth] = [classesOf(trace), classOf(main, input, text)];
    const judged = truth === null ? "" : truth === said ? "right" : "wrong";
    return h(
      "tr",
      {},
      h("th", { scope: "row" }, h("button", { class: "link", "data-key": `prefix-${prefix.length}`, onclick: () => typed(text) }, h("code", {}, text))),
      h("td", {}, classes[said]),
      h("td", { class: "right" }, showSigned(trace.logit)),
      h("td", { class: judged ? `${judged}-text` : "" }, judged),
    );
  });
  const column = (text, extra) => h("th", { scope: "col", class: extra }, text);
  return h("div", { class: "scroll-x" }, h("table", { class: "numbers" }, h("thead", {}, h("tr", {}, column("string"), column("says"), column(main.config.n_outputs > 1 ? "ahead by" : "logit", "right"), column(""))), h("tbody", {}, rows)));
}

function sharing(main) {
  const said = h("span", { role: "status", class: "note" });
  const text = state.text;
  const python = pythonScript(main.source, text, state.edits, main.config).replace(".item())", ".tolist())");
  const shell = shellCommand(main.source, text, state.edits);
  const copy = (name, key, what) =>
    h("button", { "data-key": key, onclick: async () => (said.textContent = (await copyText(what())) ? `${name} copied.` : "The browser did not allow copying; select the text instead.") }, `Copy ${name}`);
  const download = async () => {
    const about = { version: payload.version, config: main.configText, source: main.source };
    downloadFile(`${main.name.replace(/\W+/g, "-")}-playground.safetensors`, await checkpointFile(main.model, state.edits, about), "application/octet-stream");
  };
  const block = (label, result, code) => h("pre", { class: "code", tabindex: 0, role: "region", "aria-label": label, "data-result": result }, code);
  return [
    h("div", { class: "toolbar" }, location.protocol === "about:" ? null : copy("link", "copy-link", () => location.href), copy("Python", "copy-python", () => python), copy("shell command", "copy-shell", () => shell), h("button", { "data-key": "download-weights", onclick: download }, "Download weights"), said),
    block("Python that reproduces this view", "python", python),
    block("Shell commands that reproduce this view", "shell", shell),
  ];
}

/** The string a model's page opens on: the first it gets wrong, if a short search finds one. */
function quickWrong(main) {
  const steps = searchOf(main, noEdits(), 300);
  let step = steps.next();
  while (!step.done) step = steps.next();
  return step.value.text === null ? [] : [inTokens(main.config, step.value.text)];
}

// -- the search -------------------------------------------------------------------------------------------

const FIRST_BUDGET = 5000;

/** Strings against their classes, where this page knows them. */
function searchOf(main, edits, budget) {
  const prepared = prepare(main.model, edits);
  const judge = (text) => {
    const input = inputOf(main.config, text);
    const truth = classOf(main, input, text);
    const trace = run(prepared, input);
    return truth === null || !sureOf(trace) ? null : classesOf(trace) === truth;
  };
  return firstWrong(stringsOf(main.config), judge, Math.min(longestOf(main.config), main.machine?.length ?? Infinity), budget);
}

/** Tries strings in slices, so that the page stays alive; another search ends this one. */
function search(budget = FIRST_BUDGET) {
  const steps = searchOf(state.main, state.edits, budget);
  found = steps;
  byId("breaks").dataset.search = "running";
  const slice = () => {
    if (found !== steps) return;
    const until = performance.now() + 12;
    let step = steps.next();
    while (!step.done && performance.now() < until) step = steps.next();
    replace(byId("breaks"), h("div", { class: "found", "aria-live": "polite" }, foundLines(step, budget)));
    if (step.done) byId("breaks").dataset.search = "done";
    else setTimeout(slice);
  };
  slice();
}

/** Whether there are inputs of up to so many letters. */
const haveLength = (most) => (state.main.config.frame ? Object.keys(state.main.config.frame.rows).some((length) => Number(length) <= most) : most > 0);

function foundLines({ done, value: { text: letters, checkedTo, tried, judged, complete } }, budget) {
  const text = done && letters !== null ? inTokens(state.main.config, letters) : null;
  const label = (words) => h("p", { class: "found-label" }, words);
  if (!done) return [label(`Searching: ${showCount(tried)} strings tried.`)];
  if (text !== null)
    return [
      label("Shortest string it gets wrong"),
      h("p", { class: "found-string" }, h("code", { "data-result": "shortest" }, text), h("button", { class: "small", "data-key": "load", onclick: () => typed(text) }, "Load it")),
      h("p", { class: "note" }, haveLength(checkedTo) ? `Every string of up to ${checkedTo} letter${checkedTo === 1 ? "" : "s"} that was judged is right.` : "No shorter string exists."),
    ];
  if (judged === 0) return [label("Not searched"), h("p", { class: "note" }, "This page does not know the task's rule, so it cannot judge strings; tsc-interp verify can.")];
  const words = complete ? `No wrong string: all ${showCount(judged)} that could be judged are right.` : `No wrong string up to length ${checkedTo}, of ${showCount(judged)} judged.`;
  return [label(words), complete ? null : h("button", { class: "small", "data-key": "further", onclick: () => search(8 * budget) }, "Search further")];
}

// -- start ------------------------------------------------------------------------------------------------

const refreshTooltip = startTooltip(byId("tooltip"));
themeButton(byId("theme"));
startRoving();
byId("string").addEventListener("input", (event) => setText(event.target.value));
addEventListener("hashchange", () => {
  restore(location.hash);
  draw();
});
for (const main of models) main.examples = [...new Set([...quickWrong(main), ...main.examples.map((text) => inTokens(main.config, text))])];
restore(location.hash);
introduce();
draw();
search();

// For people at the console and for tests: the very functions the page itself uses.
window.playground = {
  outputs: (text) => run(prepare(state.main.model, state.edits), inputOf(state.main.config, text)).outputs,
  state,
};
