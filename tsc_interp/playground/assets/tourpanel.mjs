// The tour's panel: one step at a time, forwards and back, at the foot of the window.

import { h, reducedMotion, replace } from "./dom.mjs";

/**
 * Fills the container; { show(steps, index) or show(null) }. `go(index)` is called to move, `go(null)` to leave.
 */
export function tourPanel(container, go) {
  let last = null;
  container.addEventListener("keydown", (event) => event.key === "Escape" && go(null));
  return {
    show(steps, index) {
      const open = steps !== null;
      if (!open && last === null) return;
      for (const element of document.querySelectorAll(".toured")) element.classList.remove("toured");
      container.hidden = !open;
      document.documentElement.classList.toggle("touring", open);
      if (!open) {
        last = null;
        return;
      }
      const step = steps[index];
      const target = document.querySelector(`[data-tour="${step.target}"]`);
      target?.classList.add("toured");
      if (index === last) return;
      const first = last === null;
      last = index;
      const button = (text, key, to, enabled = true) =>
        h("button", { "data-key": key, disabled: !enabled, onclick: () => go(to) }, text);
      replace(
        container,
        h("h2", { tabindex: -1, id: "tour-title" }, `${index + 1} of ${steps.length}: ${step.title}`),
        step.lines.map((line) => h("p", {}, line)),
        h(
          "div",
          { class: "toolbar" },
          button("Back", "tour-back", index - 1, index > 0),
          button("Next", "tour-next", index + 1, index < steps.length - 1),
          button("Leave the tour", "tour-leave", null),
        ),
      );
      target?.scrollIntoView({ block: "center", behavior: reducedMotion() ? "auto" : "smooth" });
      // The button that was pressed keeps the focus, unless it is gone.
      if (first) container.querySelector("h2").focus({ preventScroll: true });
      else if (!container.contains(document.activeElement)) container.querySelector("[data-key=tour-leave]").focus();
    },
  };
}
