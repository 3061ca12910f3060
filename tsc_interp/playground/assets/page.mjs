// The page: one state, one redraw. Every control changes the state; everything drawn follows from it.

import { breakPanel } from "./breaks.mjs";
import { h, replace, startRoving, startTooltip } from "./dom.mjs";
import { isEdited, record, redo, startTimeline, undo } from "./edits.mjs";
import { makeEvaluator } from "./evaluator.mjs";
import { flowStages } from "./flow.mjs";
import { intervenePanel, weightEditor } from "./intervene.mjs";
import { readLink, writeLink } from "./link.mjs";
import { failureMap } from "./map.mjs";
import { mapCaption, mapLegend, mapTools } from "./maptools.mjs";
import { makeModel, noEdits, prepare, run } from "./model.mjs";
import { badge, introduce, themeButton, verdictLine } from "./parts.mjs";
import { sharePanel } from "./share.mjs";
import { exampleButtons, sliders } from "./sliders.mjs";
import { countsOf, StringProblem, writeCounts } from "./strings.mjs";
import { trainingPanel } from "./training.mjs";

const LONG = 300;
const byId = (id) => document.getElementById(id);
const payload = JSON.parse(byId("payload").textContent);

// -- models ----------------------------------------------------------------------------------------

const [main, other] = payload.models.map((given) => {
  const versions = new Map(
    (given.history ?? []).map(({ epoch, source, weights, logits }) => [
      epoch,
      { model: makeModel(given.config, weights, source), logits },
    ]),
  );
  return { ...given, versions, model: makeModel(given.config, given.weights, given.source) };
});
const epochs = [...main.versions.keys()];
const letters = main.model.tokens.slice(1);
const defaults = {
  text: payload.start,
  epoch: epochs.includes(main.epoch) ? main.epoch : (epochs.at(-1) ?? null),
  lens: 4,
  face: letters.slice(0, 3).join(""),
  letter: letters.at(-1),
};

const versionOf = (epoch) => main.versions.get(epoch)?.model ?? main.model;

// -- state -----------------------------------------------------------------------------------------

const state = { ...defaults, counts: [], timeline: startTimeline(), problem: null };
const pick = { layer: 0, head: 0, query: 0, tensor: "embed.W_E", tensorHead: 0 };
let written = null;

function restore(hash) {
  const { view, ignored } = readLink(hash, main.model, epochs, defaults);
  const { edits, ...rest } = view;
  Object.assign(state, rest, {
    counts: countsOf(view.text, letters.length),
    timeline: startTimeline(edits),
    problem: null,
  });
  byId("string").value = state.text;
  byId("notice").hidden = ignored.length === 0;
  byId("notice").textContent = `Part of the link does not fit this model and was left out: ${ignored.join(", ")}.`;
}

/** Parts of the state that a change touches; the drawing follows in the next frame. */
function change(parts) {
  Object.assign(state, parts);
  requestDraw();
}

function setText(text) {
  try {
    const counts = countsOf(text, letters.length);
    // Order does not matter to the model, and addresses and commands should stay short.
    change({ counts, text: text.length > LONG ? writeCounts(counts) : text, problem: null });
  } catch (problem) {
    // The last good string stays in force; the box keeps what was typed.
    if (!(problem instanceof StringProblem)) throw problem;
    change({ problem: problem.message });
  }
}

function setCounts(counts) {
  if (!counts.some((count) => count > 0)) return change({ problem: "a string needs at least one letter" });
  const text = writeCounts(counts);
  byId("string").value = text;
  change({ counts, text, problem: null });
}

const edit = (how, gesture = null) => change({ timeline: record(state.timeline, how(state.timeline.now), gesture) });
const step = (move) => change({ timeline: move(state.timeline) });

// -- from state to what is drawn -------------------------------------------------------------------------

const prepared = new Map();

/** The model with its edits, ready to run, kept as long as neither changes. */
function ready(id, model, edits) {
  const known = prepared.get(id);
  if (known?.model === model && known.edits === edits) return known;
  const made = { model, edits, prepared: prepare(model, edits) };
  made.evaluator = makeEvaluator(made.prepared);
  prepared.set(id, made);
  return made;
}

const unedited = noEdits();

function makeSide(id, model, edits, editable) {
  const now = ready(id, model, edits);
  const plain = isEdited(edits) ? ready(`${id} before`, model, unedited) : null;
  const before = plain && {
    ...run(plain.prepared, state.counts),
    answer: plain.evaluator.evaluate(state.counts).answer,
  };
  const trace = run(now.prepared, state.counts);
  return {
    id,
    editable,
    trace,
    answer: now.evaluator.evaluate(state.counts).answer,
    edit,
    before,
    prepared: now.prepared,
    evaluator: now.evaluator,
    original: model,
    baseValues: (layer, head) => (before ?? trace).layers[layer].v[head],
    redraw: requestDraw,
  };
}

const choose = (parts) => {
  Object.assign(pick, parts);
  requestDraw();
};

const ids = other ? ["main", "other"] : ["main"];
const names = payload.models.map((given) => given.name);
const maps = ids.map(() => failureMap(setCounts));
const panels = ids.map(() => breakPanel(setCounts, (letter) => change({ letter })));
const flows = ids.map(() => h("div", { class: "flow" }));

function fillSides(id, elements) {
  byId(id).replaceChildren(
    ...elements.map((element, i) =>
      h("div", { class: "side" }, other ? h("p", { class: "side-name" }, names[i]) : null, element),
    ),
  );
}

const controls = sliders(byId("sliders"), letters, setCounts);
const tools = mapTools(byId("map-tools"), letters, change);
const trainingControls =
  epochs.length > 0 ? trainingPanel(byId("epochs-content"), epochs, (epoch) => change({ epoch })) : null;

const refreshTooltip = startTooltip(byId("tooltip"));

function draw() {
  const edits = state.timeline.now;
  const sides = [makeSide("main", versionOf(state.epoch), edits, true)];
  if (other) sides.push(makeSide("other", other.model, unedited, false));

  byId("string-problem").textContent = state.problem ? `${state.problem}. Still showing ${state.text}.` : "";
  byId("string").setAttribute("aria-invalid", String(state.problem !== null));
  controls.update(state.counts);
  replace(
    byId("verdicts"),
    sides.map((side, i) => verdictLine(side, other ? names[i] : null)),
  );
  sides.forEach((side, i) => {
    replace(flows[i], flowStages(side, pick, choose));
    maps[i].update(side, state);
    panels[i].update(side, state);
  });
  byId("map-caption").textContent = mapCaption(main.config, sides[0].trace.size);
  tools.update(state);
  replace(
    byId("intervene-content"),
    intervenePanel(sides[0], state.timeline, {
      undo: () => step(undo),
      redo: () => step(redo),
      reset: () => edit(noEdits),
      text: () => state.text,
    }),
  );
  if (byId("weights-details").open) replace(byId("weights-content"), weightEditor(sides[0], pick, choose));
  trainingControls?.update(state, versionOf, edits);
  replace(
    byId("share-content"),
    sharePanel(sides[0], state, () => document.querySelectorAll("svg[data-figure]")),
  );
  const logits = main.versions.get(state.epoch)?.logits ?? main.logits;
  replace(
    byId("badges"),
    badge(versionOf(state.epoch), main.strings, logits),
    other ? badge(other.model, other.strings, other.logits) : null,
  );
  refreshTooltip();
  document.documentElement.dataset.ready = "yes";
  remember();
}

let waiting = false;

function requestDraw() {
  if (waiting) return;
  waiting = true;
  const go = () => {
    waiting = false;
    draw();
  };
  // A page in the background gets no frames, but links opened there should still be ready.
  if (document.hidden) setTimeout(go);
  else requestAnimationFrame(go);
}

let rememberTimer = 0;

/** The address follows the view, a little later: browsers limit how often it may change. */
function remember() {
  clearTimeout(rememberTimer);
  rememberTimer = setTimeout(() => {
    written = writeLink({ ...state, edits: state.timeline.now }, defaults);
    try {
      history.replaceState(null, "", `#${written}`);
    } catch {
      // Inside another page (a report) there is no address of our own to write to.
    }
  }, 200);
}

/** Of many heads, the one that adds most is the one to look at first. */
function loudestHead() {
  const { parts } = run(prepare(main.model), state.counts);
  const heads = parts.filter(({ id }) => /^0\.\d+$/.test(id)).map(({ contribution }) => Math.abs(contribution));
  return Math.max(0, heads.indexOf(Math.max(...heads)));
}

// -- start -----------------------------------------------------------------------------------------

introduce(payload, main, other);
mapLegend(byId("map-legend"));
replace(
  byId("examples"),
  exampleButtons(payload.examples, (text) => {
    byId("string").value = text;
    setText(text);
  }),
);
fillSides("flow-sides", flows);
fillSides(
  "map-sides",
  maps.map(({ element }) => element),
);
fillSides(
  "breaks-sides",
  panels.map(({ element }) => element),
);
document.body.classList.toggle("comparing", Boolean(other));
byId("epochs").hidden = epochs.length === 0;
byId("string").addEventListener("input", (event) => setText(event.target.value));
byId("weights-details").addEventListener("toggle", requestDraw);
addEventListener("hashchange", () => {
  if (location.hash.slice(1) === written) return;
  restore(location.hash);
  requestDraw();
});
addEventListener("keydown", (event) => {
  const typing = event.target instanceof HTMLInputElement && event.target.type !== "range";
  if (typing || event.key.toLowerCase() !== "z" || !(event.ctrlKey || event.metaKey)) return;
  event.preventDefault();
  step(event.shiftKey ? redo : undo);
});
themeButton(byId("theme"), requestDraw);
startRoving();
restore(location.hash);
pick.head = loudestHead();
draw();

// For people at the console and for tests: the very functions the page itself uses.
window.playground = {
  logit: (text) => {
    const edits = state.timeline.now;
    return ready("main", versionOf(state.epoch), edits).evaluator.logit(countsOf(text, letters.length));
  },
  otherLogit: (text) => run(prepare(other.model), countsOf(text, letters.length)).logit,
  state,
};
