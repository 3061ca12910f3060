// The page: one state, one redraw. Every control changes the state; everything drawn follows from it.

import { breakPanel } from "./breaks.mjs";
import { changeBox, muting } from "./changebox.mjs";
import { ChangeProblem, readChange } from "./changes.mjs";
import { circuitPanel } from "./circuit.mjs";
import { h, replace, startRoving, startTooltip } from "./dom.mjs";
import { changeOf, dropChange, record, redo, setChange, startTimeline, undo } from "./edits.mjs";
import { makeEvaluator } from "./evaluator.mjs";
import { flowStages } from "./flow.mjs";
import { intervenePanel } from "./intervene.mjs";
import { NOBODY, readLink, readModels, readTraining, writeLink } from "./link.mjs";
import { manyPanel } from "./many.mjs";
import { failureMap } from "./map.mjs";
import { mapCaption, mapLegend, mapTools } from "./maptools.mjs";
import { noEdits, prepare } from "./model.mjs";
import { loudestHead, modelChoice, quickFailure, readModel, startingView } from "./models.mjs";
import { badge, introduce, lookingAt, themeButton, verdictLine } from "./parts.mjs";
import { patchPanel } from "./patch.mjs";
import { sharePanel } from "./share.mjs";
import { sideMaker } from "./sides.mjs";
import { exampleButtons, sliders } from "./sliders.mjs";
import { countsOf, StringProblem, writeCounts } from "./strings.mjs";
import { tourSteps } from "./tour.mjs";
import { tourPanel } from "./tourpanel.mjs";
import { trainingPanel } from "./training.mjs";
import { describeTraining, TRAINED_HERE, trainPanel } from "./trainpanel.mjs";
import { weightEditor } from "./weightgrid.mjs";

const LONG = 300;
const byId = (id) => document.getElementById(id);
const payload = JSON.parse(byId("payload").textContent);
const models = payload.models.map(readModel);
const names = () => models.map(({ name }) => name);
const firstChoice = { model: names()[0], beside: payload.beside === null ? NOBODY : names()[payload.beside] };

const state = { counts: [], timeline: startTimeline(), problem: null, changeProblem: null, tour: null };
const pick = { layer: 0, head: 0, query: 0, tensor: "embed.W_E", tensorHead: 0 };
const unedited = noEdits();
let room = null;
let written = null;

// -- the models that are looked at ---------------------------------------------------------------------

/** Everything that is made once per choice of models. */
function enter(chosen) {
  const main = models.find(({ name }) => name === chosen.model);
  const beside = models.find(({ name }) => name === chosen.beside);
  const other = beside?.config.n_letters === main.config.n_letters ? beside : null;
  const failure = quickFailure(main.model);
  const letters = main.model.tokens.slice(1);
  const sides = other ? [main, other] : [main];
  const epochs = [...main.versions.keys()];
  const view = startingView(main, failure);
  room = {
    ...{ main, other, letters, epochs, failure, view },
    chosen: { model: main.name, beside: other?.name ?? NOBODY },
    names: sides.map(({ name }) => name),
    maps: sides.map(() => failureMap(setCounts)),
    panels: sides.map(() => breakPanel(setCounts, (letter) => change({ letter }))),
    circuits: sides.map(() => h("div", { class: "circuit" })),
    flows: sides.map(() => h("div", { class: "flow" })),
    controls: sliders(byId("sliders"), letters, setCounts),
    tools: mapTools(byId("map-tools"), letters, change, setCounts),
    many: manyPanel(byId("many-content"), (list) => change({ list }), typed),
    changes: changeBox(byId("change-content"), { choose: change, apply: applyChange }),
    patches: patchPanel(byId("patch-content"), main.config, change),
    training: null,
  };
  byId("epochs").hidden = epochs.length === 0;
  if (epochs.length > 0) room.training = trainingPanel(byId("epochs-content"), epochs, (epoch) => change({ epoch }));
  fillSides("circuit-sides", room.circuits);
  fillSides("flow-sides", room.flows);
  fillSides(
    "map-sides",
    room.maps.map(({ element }) => element),
  );
  fillSides(
    "breaks-sides",
    room.panels.map(({ element }) => element),
  );
  replace(byId("examples"), exampleButtons([...new Set([view.text, ...main.examples])], typed));
  modelChoice(byId("models"), models, room.chosen, switchTo);
  byId("tour-start").hidden = !failure;
  document.body.classList.toggle("comparing", Boolean(other));
  introduce(payload, main, other);
}

function fillSides(id, elements) {
  byId(id).replaceChildren(
    ...elements.map((element, i) =>
      h("div", { class: "side" }, room.other ? h("p", { class: "side-name" }, room.names[i]) : null, element),
    ),
  );
}

/** Another model: the string stays if it can be read. */
function switchTo(chosen) {
  const before = { text: state.text, lens: state.lens, main: room.main };
  enter(chosen);
  const same = before.main === room.main;
  const readable = room.letters.length === before.main.config.n_letters;
  const kept = same ? {} : { ...room.view, ...(readable ? { text: before.text } : {}), lens: before.lens };
  if (!same) Object.assign(state, { ...kept, timeline: startTimeline(), problem: null, changeProblem: null, tour: null });
  state.counts = countsOf(state.text, room.letters.length);
  byId("string").value = state.text;
  pick.head = loudestHead(room.main.model, state.counts);
  requestDraw();
}

/** A model that is being trained in the page, after one more of its epochs, or when another of them is looked at. */
function showTrained(entry, epoch) {
  const place = models.findIndex(({ name }) => name === TRAINED_HERE);
  if (place < 0) models.push(entry);
  else models[place] = entry;
  if (room.main !== entry) switchTo({ model: TRAINED_HERE, beside: NOBODY });
  room.epochs.splice(0, Infinity, ...entry.versions.keys());
  room.failure = quickFailure(entry.model);
  byId("tour-start").hidden = !room.failure;
  change({ epoch });
}

const versionOf = (epoch) => room.main.versions.get(epoch)?.model ?? room.main.model;

// -- state -----------------------------------------------------------------------------------------

function restore(hash) {
  const training = readTraining(hash);
  if (training) restore(""); // something to look at while it is trained again
  const trained = training && trainer.retrace(training.options, training.epoch) ? training : null;
  const wanted = trained ? { model: TRAINED_HERE, beside: NOBODY } : readModels(hash, names(), firstChoice);
  if (room === null || room.chosen.model !== wanted.model || room.chosen.beside !== wanted.beside) enter(wanted);
  const epochs = trained ? [...room.epochs, trained.epoch] : room.epochs;
  const known = { model: room.main.model, epochs, names: names(), training: trained?.options };
  const { view, ignored } = readLink(hash, known, room.view);
  if (room.chosen.beside !== wanted.beside) ignored.push("beside");
  const { edits, ...rest } = view;
  if (trained) rest.epoch = state.epoch; // training comes to the epoch of the link by itself
  Object.assign(state, rest, {
    counts: countsOf(view.text, room.letters.length),
    timeline: startTimeline(edits),
    problem: null,
    changeProblem: null,
    tour: null,
  });
  byId("string").value = state.text;
  byId("notice").hidden = ignored.length === 0;
  byId("notice").textContent = `Part of the link does not fit this page and was left out: ${ignored.join(", ")}.`;
}

/** Parts of the state that a change touches; the drawing follows in the next frame. */
function change(parts) {
  Object.assign(state, parts);
  requestDraw();
}

function setText(text) {
  try {
    const counts = countsOf(text, room.letters.length);
    // Order does not matter to the model, and addresses and commands should stay short.
    change({ counts, text: text.length > LONG ? writeCounts(counts) : text, problem: null });
  } catch (problem) {
    // The last good string stays in force; the box keeps what was typed.
    if (!(problem instanceof StringProblem)) throw problem;
    change({ problem: problem.message });
  }
}

function typed(text) {
  byId("string").value = text;
  setText(text);
}

function setCounts(counts) {
  if (!counts.some((count) => count > 0)) return change({ problem: "a string needs at least one letter" });
  const text = writeCounts(counts);
  byId("string").value = text;
  change({ counts, text, problem: null });
}

const edit = (how, gesture = null) => change({ timeline: record(state.timeline, how(state.timeline.now), gesture) });

/** A change as it was typed, if it can be made; else its problem is said and nothing is changed. */
function applyChange(given) {
  try {
    const { text } = readChange(given, room.main.config);
    state.changeProblem = null;
    edit((edits) => setChange(edits, text));
    return true;
  } catch (problem) {
    if (!(problem instanceof ChangeProblem)) throw problem;
    change({ changeProblem: `${problem.message}.` });
    return false;
  }
}

function mute(part) {
  if (changeOf(state.timeline.now, part) === null) return applyChange(`${part}=${muting(state)}`);
  edit((edits) => dropChange(edits, part));
}

const step = (move) => change({ timeline: move(state.timeline) });

// -- the tour --------------------------------------------------------------------------------------

/** To a step of the tour, or out of it, back to where it was begun. */
function guide(index) {
  if (index === null) {
    const { text, letter, timeline } = state.tour.before;
    Object.assign(state, { letter, timeline, tour: null });
    typed(text);
    return byId("tour-start").focus();
  }
  const before = state.tour?.before ?? { text: state.text, letter: state.letter, timeline: state.timeline };
  const { model } = room.main;
  const ready = prepare(model);
  const steps = state.tour?.steps ?? tourSteps(ready, makeEvaluator(ready), room.failure);
  const { text, edits, letter, head } = steps[index];
  if (head !== undefined) Object.assign(pick, { head, layer: 0, query: 0 });
  Object.assign(state, { tour: { steps, index, before }, timeline: startTimeline(edits), letter: letter ?? state.letter });
  typed(text);
}

// -- from state to what is drawn -------------------------------------------------------------------------

const makeSide = sideMaker();
const choose = (parts) => {
  Object.assign(pick, parts);
  requestDraw();
};

function draw() {
  const edits = state.timeline.now;
  const { main, other } = room;
  const act = { edit, mute, redraw: requestDraw };
  const sides = [makeSide("main", versionOf(state.epoch), edits, state.counts, act)];
  if (other) sides.push(makeSide("other", other.model, unedited, state.counts));
  [main, other].slice(0, sides.length).forEach((model, i) => {
    const found = circuitOf(model);
    sides[i].circuit = { ...found, shown: state.circuit && found.parts !== undefined };
  });

  byId("string-problem").textContent = state.problem ? `${state.problem}. Still showing ${state.text}.` : "";
  byId("string").setAttribute("aria-invalid", String(state.problem !== null));
  byId("looking").textContent = lookingAt(sides[0], state.text);
  room.controls.update(state.counts);
  replace(
    byId("verdicts"),
    sides.map((side, i) => verdictLine(side, other ? room.names[i] : null)),
  );
  sides.forEach((side, i) => {
    const shown = { show: (circuit) => change({ circuit }), edit: i === 0 ? edit : null };
    replace(room.circuits[i], circuitPanel(side.circuit, state.circuit, shown));
    replace(room.flows[i], flowStages(side, pick, choose));
    room.maps[i].update(side, state);
    room.panels[i].update(side, state);
  });
  byId("map-caption").textContent = mapCaption(main.config, sides[0].trace.size);
  room.tools.update(state, main.config);
  room.many.update(sides, room.names, state);
  replace(
    byId("intervene-content"),
    intervenePanel(sides[0], state.timeline, {
      undo: () => step(undo),
      redo: () => step(redo),
      reset: () => edit(noEdits),
      text: () => state.text,
    }),
  );
  room.changes.update(state);
  room.patches.update(sides[0], state);
  if (byId("weights-details").open) replace(byId("weights-content"), weightEditor(sides[0], pick, choose));
  room.training?.update(state, versionOf, edits);
  trainer.update();
  const about = { version: payload.version, config: main.configText, trained: main.chosen ?? null };
  replace(
    byId("share-content"),
    sharePanel(sides[0], state, about, () => document.querySelectorAll("svg[data-figure]")),
  );
  const logits = main.versions.get(state.epoch)?.logits ?? main.logits;
  replace(
    byId("badges"),
    badge(versionOf(state.epoch), main.strings, logits),
    other ? badge(other.model, other.strings, other.logits) : null,
  );
  tour.show(state.tour?.steps ?? null, state.tour?.index);
  refreshTooltip();
  document.documentElement.dataset.ready = "yes";
  remember();
}

/** What is known of a model's circuit; at another epoch of its training nothing is. */
function circuitOf(model) {
  const now = model.versions.get(state.epoch);
  const same = model !== room.main || !now || Object.entries(model.model.flat).every(([name, w]) => w.every((x, i) => x === now.model.flat[name][i]));
  return same ? model.circuit : { why: "none was searched for at this epoch." };
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
    const train = room.main.chosen ? describeTraining(room.main.chosen) : null;
    written = writeLink({ ...state, ...room.chosen, train, edits: state.timeline.now }, { ...room.view, ...firstChoice, epoch: train === null ? room.view.epoch : null });
    try {
      history.replaceState(null, "", `#${written}`);
    } catch {
      // Inside another page (a report) there is no address of our own to write to.
    }
  }, 200);
}

// -- start -----------------------------------------------------------------------------------------

/** Whether the keys belong to a text box in which something has been typed and not yet taken over. */
const isTyping = ({ target }) =>
  target.matches?.("textarea, #string") || (target.matches?.("input[type=text]") && target.value !== target.defaultValue);

mapLegend(byId("map-legend"));
const trainer = trainPanel(byId("train-content"), payload.blank, showTrained, () => (room?.main.name === TRAINED_HERE ? state.epoch : null));
byId("train-link").addEventListener("click", (event) => {
  event.preventDefault();
  byId("train").open = true;
  byId("train").scrollIntoView();
  byId("train").querySelector("input").focus({ preventScroll: true });
});
const tour = tourPanel(byId("tour"), guide);
const refreshTooltip = startTooltip(byId("tooltip"));
byId("tour-start").addEventListener("click", () => guide(0));
byId("string").addEventListener("input", (event) => setText(event.target.value));
byId("weights-details").addEventListener("toggle", requestDraw);
addEventListener("hashchange", () => {
  if (location.hash.slice(1) === written) return;
  restore(location.hash);
  requestDraw();
});
addEventListener("keydown", (event) => {
  const key = event.key.toLowerCase();
  if (!(event.ctrlKey || event.metaKey) || !["z", "y"].includes(key) || isTyping(event)) return;
  event.preventDefault();
  step(key === "y" || event.shiftKey ? redo : undo);
});
themeButton(byId("theme"));
startRoving();
restore(location.hash);
pick.head = loudestHead(room.main.model, state.counts);
draw();

// For people at the console and for tests: the very functions the page itself uses.
window.playground = {
  logit: (text) => {
    const counts = countsOf(text, room.letters.length);
    return makeSide("main", versionOf(state.epoch), state.timeline.now, counts).evaluator.logit(counts);
  },
  state,
};
