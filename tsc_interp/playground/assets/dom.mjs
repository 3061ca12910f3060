// Elements, made from data: text is always set as text, so nothing a person or a link brings can become markup.

import { letterIndex } from "./strings.mjs";

const SVG = "http://www.w3.org/2000/svg";

/** h("p", { class: "note", onclick }, "text", child): attributes, listeners (on...), children. */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  if (tag === "button") element.type = "button";
  return fill(element, attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "explain") explain(element, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(3)) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}

/** Put new children into a container; what had the focus there gets it back, found by its data-key. */
export function replace(container, ...children) {
  const focused = container.contains(document.activeElement) ? document.activeElement : null;
  const key = focused?.closest("[data-key]")?.getAttribute("data-key");
  const open = [...container.querySelectorAll("details[data-key]")].map((d) => [d.getAttribute("data-key"), d.open]);
  container.replaceChildren(...children.flat().filter(Boolean));
  for (const [name, wasOpen] of open) {
    const details = container.querySelector(`details[data-key="${CSS.escape(name)}"]`);
    if (details) details.open = wasOpen;
  }
  if (key) container.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
}

// -- the formula behind a number ---------------------------------------------------------------------

const explanations = new WeakMap();

/** `lines` (a list, or a function that makes it when asked) appears when the element is pointed at, focused or tapped. */
export function explain(element, lines) {
  explanations.set(element, lines);
  element.classList.add("explained");
  element.setAttribute("tabindex", "0");
  return element;
}

/**
 * One tooltip for the whole page: shown by pointer, focus or a tap, gone with Escape or another tap. Returns a function to call
 * after redrawing: the tooltip then speaks of the new element in the place of the old, or goes.
 */
export function startTooltip(tooltip) {
  const find = (event) => (event.target instanceof Element ? event.target.closest(".explained") : null);
  const hide = () => {
    tooltip.hidden = true;
    tooltip.owner?.removeAttribute("aria-describedby");
    tooltip.owner = null;
  };
  const showFor = (element) => {
    const lines = explanations.get(element);
    if (!lines) return;
    tooltip.replaceChildren(...(typeof lines === "function" ? lines() : lines).map((line) => h("div", {}, line)));
    tooltip.hidden = false;
    tooltip.owner = element;
    element.setAttribute("aria-describedby", tooltip.id);
    place(tooltip, element.getBoundingClientRect());
  };
  let openBefore = null;
  document.addEventListener("pointerdown", (event) => {
    openBefore = tooltip.owner;
    if (event.pointerType !== "mouse" && !find(event) && !tooltip.contains(event.target)) hide();
  });
  document.addEventListener("click", (event) => {
    const element = find(event);
    if (!element) return;
    // A finger does not hover: the first tap shows (focus may have done so already), the second hides.
    if (event.pointerType === "touch" && openBefore === element) hide();
    else showFor(element);
  });
  document.addEventListener("pointerover", (event) => {
    if (event.pointerType !== "mouse") return;
    const element = find(event);
    if (element) showFor(element);
    else if (!tooltip.hidden && tooltip.owner !== document.activeElement) hide();
  });
  document.addEventListener("focusin", (event) => (find(event) ? showFor(find(event)) : hide()));
  document.addEventListener("focusout", (event) => tooltip.contains(event.relatedTarget) || hide());
  // Focus may scroll its element into view: the tooltip goes along, as long as there is something to go to.
  document.addEventListener(
    "scroll",
    () => {
      if (tooltip.owner?.isConnected) place(tooltip, tooltip.owner.getBoundingClientRect());
      else hide();
    },
    { passive: true, capture: true },
  );
  document.addEventListener("keydown", (event) => event.key === "Escape" && hide());
  return () => {
    if (!tooltip.owner || tooltip.owner.isConnected) return;
    const key = tooltip.owner.getAttribute("data-key");
    const successor = key && document.querySelector(`.explained[data-key="${CSS.escape(key)}"]`);
    if (successor) showFor(successor);
    else hide();
  };
}

function place(tooltip, target) {
  // On a narrow screen the style sheet puts it at the foot, where long formulas can be scrolled.
  if (matchMedia("(max-width: 820px)").matches) return tooltip.removeAttribute("style");
  const width = document.documentElement.clientWidth;
  const box = tooltip.getBoundingClientRect();
  const left = Math.max(8, Math.min(width - box.width - 8, target.left + target.width / 2 - box.width / 2));
  const above = target.top - box.height - 8;
  tooltip.style.left = `${left}px`;
  tooltip.style.top = `${above > 4 ? above : target.bottom + 8}px`;
}

/**
 * One tab stop per group: inside a [data-roving] element the arrow keys move between its explained
 * elements, so that a page full of numbers stays quick to tab through.
 */
export function startRoving() {
  document.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step || !(event.target instanceof Element) || !event.target.classList.contains("explained")) return;
    if (event.target.getAttribute("role") === "slider") return;
    const group = event.target.closest("[data-roving]");
    if (!group) return;
    const members = [...group.querySelectorAll(".explained:not([role=slider])")];
    const next = members[members.indexOf(event.target) + step];
    if (!next) return;
    event.preventDefault();
    for (const member of members) member.setAttribute("tabindex", member === next ? "0" : "-1");
    next.focus();
  });
}

/** Called on a finished group: only its first explained element takes part in tabbing. */
export function roving(group) {
  group.setAttribute("data-roving", "");
  [...group.querySelectorAll(".explained:not([role=slider])")].forEach((member, i) => {
    member.setAttribute("tabindex", i === 0 ? "0" : "-1");
  });
  return group;
}

// -- colours ---------------------------------------------------------------------------------------

// The palette of the package's figures: a letter has the same colour everywhere.
const LETTER_COLOURS = ["#009E73", "#DDAA00", "#8B5CF6", "#56B4E9", "#8C6D46", "#44AA99", "#7F7F2A"];

export function tokenColour(token) {
  return token === "CLS" ? "#808080" : LETTER_COLOURS[Math.max(0, letterIndex(token[0])) % LETTER_COLOURS.length];
}

/** A custom property of the page as it stands now, light or dark. */
export const pageColour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

export const reducedMotion = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
