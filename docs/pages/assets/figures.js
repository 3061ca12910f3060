// Draws the figures of a page when they come near the screen, and follows light and dark.
// plotly.js is one file for the whole site, and only pages with a figure load it.
(function () {
  "use strict";
  const plots = Array.from(document.querySelectorAll(".tsc-plot"));
  if (!plots.length) return;
  const here = document.currentScript.src;
  const dark = () => document.body.getAttribute("data-md-color-scheme") === "slate";
  const theme = () => window.tscThemes[dark() ? "dark" : "light"];

  const library = new Promise(function (resolve, reject) {
    const script = document.createElement("script");
    script.src = new URL("../generated/assets/plotly.min.js", here).href;
    script.onload = resolve;
    script.onerror = reject;
    document.head.append(script);
  });

  async function draw(plot) {
    if (plot.dataset.drawn) return;
    plot.dataset.drawn = "yes";
    await library;
    const figure = JSON.parse(plot.nextElementSibling.textContent);
    const narrow = window.innerWidth < 640;
    figure.layout.template = theme();
    figure.layout.autosize = true;
    if (narrow) {
      // A finger on a figure should scroll the page, and a square needs no more height than width.
      figure.layout.dragmode = false;
      const axes = Object.entries(figure.layout).filter(([name]) => name.startsWith("yaxis"));
      if (axes.length === 1 && axes[0][1].scaleanchor) {
        const controls = (figure.layout.sliders ? 110 : 0) + (figure.layout.updatemenus ? 48 : 0);
        figure.layout.height = Math.min(figure.layout.height || 420, plot.clientWidth + 40 + controls);
        plot.style.minHeight = figure.layout.height + "px";
      }
    }
    figure.config = Object.assign({ displayModeBar: narrow ? false : "hover" }, window.tscThemes.config);
    await window.Plotly.newPlot(plot, figure);
  }

  new MutationObserver(function () {
    for (const plot of plots) {
      if (plot.dataset.drawn && window.Plotly) window.Plotly.relayout(plot, { template: theme() });
    }
  }).observe(document.body, { attributeFilter: ["data-md-color-scheme"] });

  const watcher = new IntersectionObserver(function (entries) {
    for (const entry of entries) {
      if (entry.isIntersecting) { watcher.unobserve(entry.target); draw(entry.target); }
    }
  }, { rootMargin: "600px" });
  plots.forEach((plot) => watcher.observe(plot));
  window.tscDrawAll = () => Promise.all(plots.map(draw));
  window.addEventListener("beforeprint", window.tscDrawAll);
})();
