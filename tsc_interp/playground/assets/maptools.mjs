// Around the failure map: what it shows, the lens, the choice of letters, the legend.

import { h } from "./dom.mjs";
import { holdsForEveryLength } from "./drawmap.mjs";
import { showCount } from "./maths.mjs";
import { nearestString, normalised } from "./triangle.mjs";

export function mapCaption(config, size) {
  if (config.n_letters < 2) return "With one letter there is nothing to mix; see how its number matters beside this.";
  const what =
    config.n_letters === 2
      ? "Every mixture is a point of the line; the discs are the letters alone."
      : "Every mixture of letters is a point: inside three occur, on a band two, on a disc one.";
  const holds = holdsForEveryLength(config)
    ? "Only ratios matter here, so the map holds for every length."
    : `Length matters too: these are the strings of length ${showCount(size)}, the string's.`;
  const judged =
    config.task.kind === "parity" ? ` Strings with ${config.task.letter} are not judged: neighbours alternate.` : "";
  return `${what} ${holds}${judged}`;
}

/**
 * The lens, the length where it matters and, of more than three letters, the choice of three; made once, then kept
 * in step by `update`.
 */
export function mapTools(container, letters, change, setCounts) {
  let state = null;
  const length = h("input", {
    type: "range",
    min: 0,
    max: 120,
    "data-key": "map-length",
    oninput: () => setCounts(ofLength(state.counts, Math.round(10 ** (Number(length.value) / 20)))),
  });
  const lengthLabel = h("label", { class: "lens" }, "Length ", length);
  const lens = h("input", {
    type: "range",
    min: 1,
    max: 8,
    step: 0.5,
    "data-key": "lens",
    oninput: () => change({ lens: Number(lens.value) }),
  });
  const said = h("span", { class: "note" });
  const choices = letters.length > 3 ? [0, 1, 2].map((place) => faceChoice(place)) : [];
  const own = h(
    "button",
    {
      class: "small",
      "data-key": "face-string",
      onclick: () => change({ face: faceOf(state, letters) }),
    },
    "Show the string's letters",
  );
  container.hidden = letters.length < 2;
  const lensLabel = h("label", { class: "lens" }, "Lens ", lens, said);
  container.replaceChildren(lensLabel, lengthLabel, ...choices.map(({ label }) => label), own);

  function faceChoice(place) {
    const select = h(
      "select",
      { "data-key": `face-${place}`, onchange: () => change({ face: swapInto(state.face, place, select.value) }) },
      letters.map((letter) => h("option", { value: letter }, letter)),
    );
    return { select, label: h("label", {}, `${["Left", "right", "top"][place]} `, select) };
  }

  function update(now, config) {
    state = now;
    const size = now.counts.reduce((sum, count) => sum + count, 0);
    lengthLabel.hidden = holdsForEveryLength(config);
    if (Math.round(10 ** (Number(length.value) / 20)) !== size) length.value = String(20 * Math.log10(size));
    length.setAttribute("aria-valuetext", `length ${showCount(size)}`);
    lens.value = String(now.lens);
    lens.setAttribute("aria-valuetext", `corners magnified, power ${now.lens}`);
    said.textContent = now.lens === 1 ? "true proportions" : "corners magnified";
    choices.forEach(({ select }, place) => (select.value = now.face[place]));
    const used = lettersIn(now, letters);
    own.hidden = used.length > 3 || used.every((letter) => now.face.includes(letter));
  }
  return { update };
}

/** A string of that length with about the same ratios, and the same letters if they have room. */
const ofLength = (counts, length) =>
  nearestString(normalised(counts), Math.max(length, counts.filter((count) => count > 0).length));

const lettersIn = (state, letters) => letters.filter((_, i) => state.counts[i] > 0);

/** A face with all letters of the string, filled up with others. */
function faceOf(state, letters) {
  const used = lettersIn(state, letters);
  const others = letters.filter((letter) => !used.includes(letter));
  return [...used, ...others].slice(0, 3).join("");
}

/** The face with one letter replaced; if the new one was elsewhere on it, the two change places. */
export function swapInto(face, place, letter) {
  const letters = [...face];
  const elsewhere = letters.indexOf(letter);
  if (elsewhere >= 0) letters[elsewhere] = letters[place];
  letters[place] = letter;
  return letters.join("");
}

export function mapLegend(container) {
  const key = (name) => h("i", { class: name, "aria-hidden": "true" });
  container.append(
    h("span", {}, "no ", key("map-scale"), " yes"),
    h("span", {}, key("map-key"), " wrong"),
    h("span", {}, key("map-you"), " the string"),
  );
}
