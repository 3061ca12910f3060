// Around the failure map: what it shows, the lens, the choice of letters, the legend.

import { h } from "./dom.mjs";
import { isScaleFree } from "./map.mjs";
import { showCount } from "./maths.mjs";
import { hasRatioLabels } from "./task.mjs";

export function mapCaption(config, size) {
  const what =
    config.n_letters < 2
      ? "With one letter there is nothing to mix; see how its number matters beside this."
      : "Every mixture of letters is a point: inside all of them occur, on a band two, on a disc one.";
  const holds = isScaleFree(config)
    ? "This model sees only ratios, so the map holds for every length."
    : `This model's answer depends on length too: this is length ${showCount(size)}, the string's.`;
  const judged = hasRatioLabels(config.task)
    ? ""
    : " The task depends on exact counts, so nothing is marked as wrong here.";
  return `${what} ${holds}${judged}`;
}

export function mapTools(state, letters, change) {
  const face =
    letters.length > 3
      ? [0, 1, 2].map((place) =>
          h(
            "label",
            {},
            `${["Left", "right", "top"][place]} `,
            h(
              "select",
              {
                "data-key": `face-${place}`,
                onchange: (event) => change({ face: swapInto(state.face, place, event.target.value) }),
              },
              letters.map((letter) => h("option", { value: letter, selected: letter === state.face[place] }, letter)),
            ),
          ),
        )
      : [];
  const used = letters.filter((_, i) => state.counts[i] > 0);
  const unseen = used.some((letter) => !state.face.includes(letter)) && used.length <= 3;
  if (unseen) {
    const others = letters.filter((letter) => !used.includes(letter));
    face.push(
      h(
        "button",
        {
          type: "button",
          class: "small",
          "data-key": "face-string",
          onclick: () => change({ face: [...used, ...others].slice(0, 3).join("") }),
        },
        "Show the string's letters",
      ),
    );
  }
  return letters.length < 2
    ? []
    : [
        h(
          "label",
          { class: "lens" },
          "Lens ",
          h("input", {
            type: "range",
            min: 1,
            max: 8,
            step: 0.5,
            value: state.lens,
            "data-key": "lens",
            "aria-valuetext": `corners magnified, power ${state.lens}`,
            oninput: (event) => change({ lens: Number(event.target.value) }),
          }),
          h("span", { class: "note" }, state.lens === 1 ? "true proportions" : "corners magnified"),
        ),
        ...face,
      ];
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
  container.append(
    h("span", { class: "legend-scale" }, "no", h("span", { class: "legend-gradient", "aria-hidden": "true" }), "yes"),
    h("span", {}, h("span", { class: "legend-wrong", "aria-hidden": "true" }), " wrong"),
    h("span", {}, h("span", { class: "legend-you", "aria-hidden": "true" }), " the string"),
  );
}
