// Taking things away: the clipboard, files, and drawings as SVG files that stand on their own.

import { pageColour, svg } from "./dom.mjs";

/** Copies text; true when it worked. Pages opened from disk may have no clipboard, so there is a second way. */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    area.setAttribute("readonly", "");
    area.className = "off-screen";
    document.body.append(area);
    area.select();
    const worked = document.execCommand("copy");
    area.remove();
    return worked;
  }
}

export function downloadFile(name, text, type) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

// The properties that the page's style sheet sets on drawings; a file by itself needs them written out.
const PROPERTIES = [
  "fill",
  "fill-opacity",
  "stroke",
  "stroke-width",
  "stroke-dasharray",
  "stroke-linecap",
  "opacity",
  "font-size",
  "font-weight",
  "font-family",
  "text-anchor",
  "dominant-baseline",
  "paint-order",
  "stroke-linejoin",
];

/** A drawing of the page as the text of an SVG file. */
export function standaloneSvg(drawing) {
  const copy = drawing.cloneNode(true);
  const originals = [drawing, ...drawing.querySelectorAll("*")];
  [copy, ...copy.querySelectorAll("*")].forEach((element, i) => {
    const style = getComputedStyle(originals[i]);
    element.setAttribute("style", PROPERTIES.map((name) => `${name}:${style.getPropertyValue(name)}`).join(";"));
    for (const name of ["class", "data-key", "tabindex", "role"]) element.removeAttribute(name);
  });
  copy
    .querySelectorAll("*")
    .forEach((element) => element.getAttribute("style").includes("opacity:0;") && element.remove());
  const [, , width, height] = drawing.getAttribute("viewBox").split(" ");
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  copy.prepend(svg("rect", { width, height, fill: pageColour("card") }));
  return new XMLSerializer().serializeToString(copy);
}
