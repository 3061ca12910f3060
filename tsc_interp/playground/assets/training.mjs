// Training: a slider over the epochs, and the string's logit after each.

import { epochCurve } from "./curve.mjs";
import { h, reducedMotion, replace } from "./dom.mjs";
import { makeEvaluator } from "./evaluator.mjs";
import { prepare } from "./model.mjs";

const PACE = 500; // milliseconds per epoch while playing

/** Fills the container once (a slider must not be rebuilt under the hand that drags it); { update }. */
export function trainingPanel(container, epochs, onEpoch) {
  let now = epochs.at(-1);
  let timer = 0;
  const play = h("button", {
    "data-key": "play",
    onclick: () => (reducedMotion() ? step() : toggle()),
  });
  const slider = h("input", {
    type: "range",
    min: 0,
    max: 0,
    id: "epoch",
    "aria-label": "epoch",
    "data-key": "epoch",
    oninput: () => onEpoch(epochs[Number(slider.value)]),
  });
  const shown = h("output", { for: "epoch" });
  const curve = h("div", {});
  const note = "The string's logit after each epoch; above the line the model says yes.";
  container.replaceChildren(
    h("div", {}, h("div", { class: "toolbar epoch-bar" }, play, slider, shown), h("p", { class: "note" }, note)),
    curve,
  );

  const step = () => onEpoch(epochs[(epochs.indexOf(now) + 1) % epochs.length]);
  const stop = () => {
    clearInterval(timer);
    timer = 0;
  };
  function toggle() {
    if (timer) stop();
    else {
      timer = setInterval(() => (now === epochs.at(-1) ? stop() : step()), PACE);
      if (now === epochs.at(-1)) return onEpoch(epochs[0]);
    }
    onEpoch(now);
  }

  function update(state, versionOf, edits) {
    now = state.epoch;
    const judged = epochs.map((epoch) => makeEvaluator(prepare(versionOf(epoch), edits)).evaluate(state.counts));
    if (timer && now === epochs.at(-1)) stop();
    play.textContent = reducedMotion() ? "Next epoch" : timer ? "Pause" : "Play";
    slider.max = String(epochs.length - 1); // a model trained in the page gains epochs
    slider.value = String(epochs.indexOf(now));
    slider.setAttribute("aria-valuetext", `epoch ${now}`);
    shown.textContent = `epoch ${now}`;
    replace(curve, epochCurve(epochs, judged, now, onEpoch));
  }
  return { update };
}
