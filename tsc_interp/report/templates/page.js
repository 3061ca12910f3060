// Draws the figures when they come near the screen, follows light and dark, saves figures as files.
(function () {
  "use strict";
  const root = document.documentElement;
  const themes = JSON.parse(document.getElementById("themes").textContent);
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const plots = Array.from(document.querySelectorAll(".plot"));
  const toggle = document.getElementById("theme");

  function remembered() {
    try { return window.localStorage.getItem("tsc-theme"); } catch (_) { return null; }
  }
  function remember(theme) {
    try { window.localStorage.setItem("tsc-theme", theme); } catch (_) { /* file:// may forbid it */ }
  }
  const paper = window.matchMedia("print");
  function theme() { return paper.matches ? "light" : root.dataset.theme || (system.matches ? "dark" : "light"); }

  function source(plot) { return JSON.parse(plot.nextElementSibling.textContent); }

  // plotly.js stands in the page packed; unpacking needs no network and works from a file.
  async function unpack() {
    const packed = document.getElementById("plotly");
    if (window.Plotly || !packed || !window.DecompressionStream) return;
    const bytes = Uint8Array.from(atob(packed.textContent), function (c) { return c.charCodeAt(0); });
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(stream).text();
    document.head.append(script);
  }
  let unpacked = null;

  async function draw(plot) {
    if (plot.dataset.drawn) return;
    plot.dataset.drawn = "yes";
    unpacked = unpacked || unpack();
    await unpacked;
    if (!window.Plotly) {
      plot.textContent = plot.getAttribute("aria-label");
      plot.style.minHeight = "0";
      return;
    }
    const figure = source(plot);
    const narrow = window.innerWidth < 640;
    figure.layout.template = themes[theme()];
    figure.layout.autosize = true;
    if (narrow) {
      // On a phone a finger on a figure should scroll the page, and a square needs no empty bands.
      if (!figure.layout.scene) figure.layout.dragmode = false;
      if (figure.layout.yaxis && figure.layout.yaxis.scaleanchor) {
        const spare = 60 + (figure.layout.updatemenus ? 48 : 0) + (figure.layout.sliders ? 100 : 0);
        figure.layout.height = Math.min(figure.layout.height, plot.clientWidth + spare);
        plot.style.minHeight = figure.layout.height + "px";
      }
    }
    figure.config = Object.assign({ displayModeBar: narrow ? false : "hover" }, themes.config);
    return window.Plotly.newPlot(plot, figure);
  }

  function paint() {
    const dark = theme() === "dark";
    toggle.setAttribute("aria-pressed", String(dark));
    toggle.textContent = dark ? "Light page" : "Dark page";
    for (const plot of plots) {
      if (plot.dataset.drawn && window.Plotly) window.Plotly.relayout(plot, { template: themes[theme()] });
    }
  }

  async function download(button) {
    unpacked = unpacked || unpack();
    await unpacked;
    if (!window.Plotly) return;
    const figure = button.closest("figure");
    const plot = figure.querySelector(".plot");
    const drawing = source(plot);
    drawing.layout.template = themes[theme()];
    drawing.layout.paper_bgcolor = getComputedStyle(document.body).backgroundColor;
    drawing.layout.title = { text: figure.querySelector("h4").textContent };
    drawing.layout.margin = Object.assign({}, drawing.layout.margin, { t: 64 });
    return window.Plotly.downloadImage(drawing, {
      format: button.dataset.save, filename: plot.dataset.name,
      width: 800, height: (drawing.layout.height || 420) + 48, scale: button.dataset.save === "png" ? 2 : 1,
    });
  }

  const saved = remembered();
  if (saved === "light" || saved === "dark") root.dataset.theme = saved;
  toggle.addEventListener("click", function () {
    root.dataset.theme = theme() === "dark" ? "light" : "dark";
    remember(root.dataset.theme);
    paint();
  });
  system.addEventListener("change", paint);
  document.addEventListener("click", function (event) {
    const button = event.target.closest("button[data-save]");
    if (button) download(button);
  });
  // Tables that can be sorted by a column and filtered by what is typed.
  function sortKey(cell) {
    const text = cell.textContent.trim();
    const number = text === "∞" ? Infinity : text === "" ? NaN : Number(text.replace(/[,%]/g, ""));
    return Number.isNaN(number) ? text : number;
  }
  function compare(one, two) {
    const kinds = [typeof one, typeof two];
    if (kinds[0] !== kinds[1]) return kinds[0] === "number" ? -1 : 1;
    return kinds[0] === "number" ? one - two : one.localeCompare(two, undefined, { numeric: true });
  }
  document.querySelectorAll("table.sortable").forEach(function (table) {
    const body = table.tBodies[0];
    const heads = Array.from(table.tHead.rows[0].cells);
    heads.forEach(function (head, column) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.replaceChildren(button);
      button.addEventListener("click", function () {
        const down = head.getAttribute("aria-sort") === "ascending";
        heads.forEach(function (each) { each.removeAttribute("aria-sort"); });
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const rows = Array.from(body.rows).map(function (row) { return [sortKey(row.cells[column]), row]; });
        rows.sort(function (a, b) { return (down ? -1 : 1) * compare(a[0], b[0]); });
        body.append(...rows.map(function (pair) { return pair[1]; }));
      });
    });
    if (body.rows.length < 6) return;
    const region = table.closest(".scroll");
    const input = document.createElement("input");
    const said = document.createElement("span");
    said.setAttribute("role", "status");
    Object.assign(input, { type: "search", placeholder: "Filter rows" });
    input.setAttribute("aria-label", "Filter rows of “" + region.getAttribute("aria-label") + "”");
    input.addEventListener("input", function () {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let left = 0;
      for (const row of body.rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every(function (word) { return text.includes(word); });
        left += !row.hidden;
      }
      said.textContent = words.length ? " " + left + " of " + body.rows.length + " rows" : "";
    });
    const line = document.createElement("p");
    line.className = "filter";
    line.append(input, said);
    region.before(line);
  });
  window.tscDrawAll = function () {
    document.querySelectorAll("details").forEach(function (one) { one.open = true; });
    return Promise.all(plots.map(draw));
  };
  paper.addEventListener("change", paint);
  window.addEventListener("beforeprint", function () { plots.filter(function (plot) { return plot.offsetParent; }).forEach(draw); });
  paint();
  const watcher = new IntersectionObserver(function (entries) {
    for (const entry of entries) {
      if (entry.isIntersecting) { watcher.unobserve(entry.target); draw(entry.target); }
    }
  }, { rootMargin: "800px" });
  plots.forEach(function (plot) { watcher.observe(plot); });
})();
