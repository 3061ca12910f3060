// Taking the view away: link, Python, shell, drawings, weights.

import { pythonScript, shellCommand } from "./commands.mjs";
import { h } from "./dom.mjs";
import { copyText, downloadFile, standaloneSvg } from "./download.mjs";
import { bakedWeights, checkpointFile } from "./safetensors.mjs";

let chosenFigure = "failure-map";

export function sharePanel(side, state, about, figures) {
  const { model } = side.prepared;
  const edits = state.timeline.now;
  const trained = about.trained && { ...about.trained, epoch: state.epoch };
  const python = pythonScript(model.name, state.text, edits, model.config, trained);
  const { left } = bakedWeights(model, edits);
  const said = h("span", { role: "status", class: "note" });
  const copyButton = (name, key, text) =>
    h(
      "button",
      {
        "data-key": key,
        onclick: async () => {
          const worked = await copyText(typeof text === "function" ? text() : text);
          said.textContent = worked ? `${name} copied.` : "The browser did not allow copying; select the text instead.";
        },
      },
      `Copy ${name}`,
    );
  const names = [...figures()].map((figure) => figure.getAttribute("data-figure"));
  const chooser = h(
    "select",
    { "data-key": "figure", onchange: (event) => (chosenFigure = event.target.value) },
    names.map((name) => h("option", { value: name, selected: name === chosenFigure }, name.replaceAll("-", " "))),
  );
  const fileName = model.name
    .split("/")
    .at(-1)
    .replace(/\.safetensors$/, "")
    .replace(/\W+/g, "-");
  const fileOf = `${fileName}${trained ? "" : "-playground"}.safetensors`;
  // Only the file knows what was trained here, and it has every change that weights can hold.
  const shell = trained
    ? `# with the file from “Download weights”\n${shellCommand(fileOf, state.text, { changes: left, weights: {} })}`
    : shellCommand(model.name, state.text, edits);
  return [
    h(
      "div",
      { class: "toolbar" },
      location.protocol === "about:" ? null : copyButton("link", "copy-link", () => location.href),
      copyButton("Python", "copy-python", python),
      copyButton("shell command", "copy-shell", shell),
      said,
    ),
    h(
      "pre",
      { class: "code", tabindex: 0, role: "region", "aria-label": "Python that reproduces this view", "data-result": "python" },
      python,
    ),
    h(
      "pre",
      { class: "code", tabindex: 0, role: "region", "aria-label": "Shell commands that reproduce this view", "data-result": "shell" },
      shell,
    ),
    h(
      "div",
      { class: "toolbar" },
      h("label", {}, "Figure ", chooser),
      h(
        "button",
        {
          "data-key": "download-svg",
          onclick: () => {
            const figure = [...figures()].find((each) => each.getAttribute("data-figure") === chooser.value);
            downloadFile(
              `${fileName}-${figure.getAttribute("data-figure")}.svg`,
              standaloneSvg(figure),
              "image/svg+xml",
            );
          },
        },
        "Download SVG",
      ),
      h(
        "button",
        {
          "data-key": "download-weights",
          onclick: async () => {
            const bytes = await checkpointFile(model, edits, { ...about, source: model.name });
            downloadFile(fileOf, bytes, "application/octet-stream");
          },
        },
        "Download weights",
      ),
      h(
        "span",
        { class: "note" },
        left.length > 0 ? `These weights cannot hold ${left.slice(0, 3).join(", ")}${left.length > 3 ? ` and ${left.length - 3} more` : ""}; tsc-interp intervene --out writes what weights can hold. ` : null,
        "A checkpoint: tsc-interp info --checkpoint FILE.",
      ),
    ),
  ];
}
