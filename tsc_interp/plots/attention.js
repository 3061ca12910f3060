// Heads as thumbnails, one of them large, and the string's tokens: point at a token to see where it
// looks, or who looks at it. `tscAttention(root)` fills an element that holds its data as JSON.
(function () {
  "use strict";
  const SHADE = "79, 111, 143"; // reads on white and on near-black
  const percent = (x) => (x > 0 && x < 0.005 ? "under 1%" : Math.round(100 * x) + "%");

  function element(kind, name, text) {
    const made = document.createElement(kind);
    if (name) made.className = name;
    if (text !== undefined) made.textContent = text;
    return made;
  }

  function unpack(one) {
    if (!one.bytes) one.bytes = Uint8Array.from(atob(one.weights), (c) => c.charCodeAt(0));
    return one.bytes;
  }

  function paint(canvas, one, head) {
    const n = one.tokens.length, bytes = unpack(one);
    canvas.width = n; canvas.height = n;
    const pen = canvas.getContext("2d"), image = pen.createImageData(n, n);
    const [r, g, b] = SHADE.split(",").map(Number);
    for (let i = 0; i < n * n; i++) {
      image.data.set([r, g, b, bytes[head * n * n + i]], 4 * i);
    }
    pen.putImageData(image, 0, 0);
  }

  window.tscAttention = function (root) {
    if (root.dataset.ready) return;
    root.dataset.ready = "yes";
    const data = JSON.parse(root.querySelector("script[type='application/json']").textContent);
    const state = { string: 0, head: data.first, shown: null, from: null, locked: false, inward: false };
    const controls = element("div", "controls"), heads = element("div", "heads");
    const body = element("div", "body"), left = element("div", "whole"), right = element("div", "words");
    const large = element("canvas", "large"), tokens = element("div", "tokens");
    const title = element("b"), said = element("p", "said");
    said.setAttribute("aria-live", "polite");
    large.setAttribute("role", "img");
    left.append(title, large, element("p", "axis-name", "Lines: the position that attends. Columns: what it attends to."));
    right.append(tokens, said);
    body.append(left, heads, right);
    root.append(controls, body);

    const string = () => data.strings[state.string];
    const head = () => (state.shown === null ? state.head : state.shown);
    const weight = (q, k) => {
      const n = string().tokens.length;
      return unpack(string())[(head() * n + q) * n + k] / 255;
    };

    const pick = element("select");
    pick.setAttribute("aria-label", "Which string");
    data.strings.forEach((one, i) => pick.append(new Option(one.name, i)));
    pick.addEventListener("change", () => {
      state.string = Number(pick.value); state.locked = false; state.from = string().reads; all();
    });
    if (data.strings.length > 1) controls.append(pick);
    const turn = element("select");
    turn.setAttribute("aria-label", "Which way");
    turn.append(new Option("where the token attends", "0"), new Option("who attends to the token", "1"));
    turn.addEventListener("change", () => { state.inward = turn.value === "1"; colour(); });
    controls.append(turn);

    const thumbs = [];
    let line = null, layer = null;
    data.heads.forEach((one, i) => {
      if (one.layer !== layer) {
        layer = one.layer;
        line = element("div", "layer");
        if (data.layers > 1) line.append(element("span", "", "Layer " + layer));
        heads.append(line);
      }
      const button = element("button", "head"), canvas = element("canvas");
      button.type = "button";
      button.append(canvas, element("span", "", "head " + one.head));
      button.setAttribute("aria-label", one.name);
      button.addEventListener("click", () => { state.head = i; state.shown = null; all(); });
      button.addEventListener("pointerenter", () => { state.shown = i; matrix(); colour(); });
      button.addEventListener("pointerleave", () => { state.shown = null; matrix(); colour(); });
      line.append(button);
      thumbs.push([button, canvas]);
    });

    large.addEventListener("pointermove", (event) => {
      const box = large.getBoundingClientRect(), n = string().tokens.length;
      const at = (x, start, size) => Math.min(n - 1, Math.max(0, Math.floor((n * (x - start)) / size)));
      const k = at(event.clientX, box.left, box.width), q = at(event.clientY, box.top, box.height);
      state.from = state.inward ? k : q;
      colour();
      const names = string().tokens;
      said.textContent = `${data.heads[head()].name}: position ${q} (${names[q]}) gives position ${k} (${names[k]}) ${percent(weight(q, k))} of its weight.`;
    });

    function matrix() {
      title.textContent = data.heads[head()].name;
      paint(large, string(), head());
      large.setAttribute("aria-label", "Attention weights of " + data.heads[head()].name + ", " + string().name);
    }

    function buttons() {
      tokens.replaceChildren(...string().tokens.map((name, i) => {
        const button = element("button", "token" + (i === string().reads ? " reads" : ""), name);
        button.type = "button";
        button.title = "position " + i + (i === string().reads ? ", which is read" : "");
        const point = () => { if (!state.locked) { state.from = i; colour(); } };
        button.addEventListener("pointerenter", point);
        button.addEventListener("focus", point);
        button.addEventListener("click", () => {
          state.locked = !(state.locked && state.from === i); state.from = i; colour();
        });
        return button;
      }));
    }

    function colour() {
      const at = state.from, names = string().tokens;
      const shares = names.map((_, i) => (state.inward ? weight(i, at) : weight(at, i)));
      Array.from(tokens.children).forEach((button, i) => {
        button.style.background = `rgba(${SHADE}, ${shares[i]})`;
        button.classList.toggle("from", i === at);
      });
      const most = shares.map((x, i) => [x, i]).sort((a, b) => b[0] - a[0]).slice(0, 3).filter((x) => x[0] >= 0.005);
      const told = most.map(([x, i]) => `${names[i]} (position ${i}): ${percent(x)}`).join(", ") || "nothing";
      said.textContent = `${data.heads[head()].name}: position ${at} (${names[at]}) ` +
        (state.inward ? `is attended to by ${told}.` : `attends to ${told}.`);
    }

    function all() {
      thumbs.forEach(([button, canvas], i) => {
        paint(canvas, string(), i);
        button.setAttribute("aria-pressed", String(i === state.head));
      });
      buttons(); matrix(); colour();
    }
    state.from = string().reads;
    all();
  };
})();
