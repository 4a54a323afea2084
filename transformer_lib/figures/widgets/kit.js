// What every live figure is built from: arithmetic, elements, controls, and `live`, which connects a figure to its
// model, status line, Reset button and the page's address. Figures import from "./kit.js"; Python joins the two files.

// ---------------------------------------------------------------- arithmetic
export const clamp = (x, low, high) => Math.min(high, Math.max(low, x));
export const sum = (list) => list.reduce((total, x) => total + x, 0);
export const dot = (a, b) => sum(a.map((x, i) => x * b[i]));
export const steps = (n, from = 0) => Array.from({ length: n }, (_, i) => from + i);

/** A generator of numbers between 0 and 1, the same for the same seed in every browser and in Python (mulberry32). */
export function uniform(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let z = Math.imul(state ^ (state >>> 15), state | 1);
    z ^= z + Math.imul(z ^ (z >>> 7), z | 61);
    return ((z ^ (z >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** softmax(scores / temperature). At temperature 0, the limit: the best score takes everything, ties share it. */
export function softmax(scores, temperature = 1) {
  const best = Math.max(...scores); // subtracted so that exp can't overflow
  const powers = scores.map((score) =>
    temperature > 0 ? Math.exp((score - best) / temperature) : Number(score === best),
  );
  const total = sum(powers);
  return powers.map((power) => power / total);
}

/** A number with fixed decimals and a real minus sign, so that columns don't jump. */
export const fixed = (x, digits = 2) =>
  x.toFixed(digits).replace(/^-(0\.?0*$)?/, (_, zero) => zero ?? "−");
export const percent = (x) => `${Math.round(100 * x)}\u00a0%`;

/** Maps a domain onto a range, linear or logarithmic; `.invert` maps back. */
export function scale([low, high], [start, end], log = false) {
  const [into, back] = log ? [Math.log10, (x) => 10 ** x] : [(x) => x, (x) => x];
  const slope = (end - start) / (into(high) - into(low));
  const map = (x) => start + (into(x) - into(low)) * slope;
  map.invert = (y) => back(into(low) + (y - start) / slope);
  return map;
}

/** Round numbers from 0 to `end` that divide it into at least `parts` parts. */
export function ticksTo(end, parts) {
  const ten = 10 ** Math.floor(Math.log10(end / parts));
  const step = ten * ([1, 2, 5].findLast((n) => n * ten <= end / parts) ?? 1);
  return steps(Math.floor(end / step) + 1).map((i) => Number((i * step).toPrecision(6)));
}

// ---------------------------------------------------------------- elements
/** The colors of Okabe and Ito (2008), which colorblind readers can tell apart. */
export const palette = ["#d55e00", "#e69f00", "#0072b2", "#009e73", "#cc79a7", "#56b4e9"];

const make = (element, attributes, children) => (
  set(element, attributes).append(...children.filter((child) => child !== null)),
  element
);

/** Sets attributes; `on…` adds a listener, `text` sets the text (never parsed as HTML). */
export function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "text") element.textContent = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name.startsWith("--")) element.style.setProperty(name, value);
    else if (value === false || value === null) element.removeAttribute(name);
    else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
  }
  return element;
}

/** Turns text into nodes: backticks make `code`, and d_k gets a subscript. */
export const rich = (text) =>
  text
    .split(/(`[^`]*`|_k\b)/)
    .map((part) =>
      part[0] === "`"
        ? html("code", { text: part.slice(1, -1) })
        : part[0] === "_"
          ? html("sub", { text: part.slice(1) })
          : part,
    );

export const html = (tag, attributes = {}, ...children) =>
  make(document.createElement(tag), attributes, children);
export const svg = (tag, attributes = {}, ...children) =>
  make(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

/** An SVG picture of this size in CSS pixels, which shrinks with its column. */
export const canvas = (width, height, attributes = {}, ...children) =>
  svg(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, class: "lf-svg", "--width": `${width}px`, ...attributes },
    ...children,
  );

/** Redraws a picture when its column changes width, instead of shrinking it: text keeps its size on a phone. */
export function fluid(picture, height, redraw) {
  const size = { width: 640 };
  new ResizeObserver(([{ contentRect }]) =>
    requestAnimationFrame(() => {
      const width = Math.max(240, Math.round(contentRect.width));
      if (contentRect.width === 0 || width === size.width) return;
      set(picture, { viewBox: `0 0 ${(size.width = width)} ${height}` });
      redraw();
    }),
  ).observe(picture);
  return size;
}

/** Reserves room for an element's longest texts, in any font: they lie in the same place, invisible. */
export const room = (element, texts) =>
  html(
    "div",
    { class: "lf-room" },
    element,
    ...texts.map((text) => html("span", { class: "lf-unseen", "aria-hidden": true, text })),
  );
export const longest = (texts) =>
  [...new Set(texts)].sort((a, b) => b.length - a.length).slice(0, 3);

/** Blue for positive numbers, orange for negative ones, transparent for 0: [red, green, blue, alpha]. */
export const diverging = (x) =>
  x < 0 ? [213, 94, 0, 255 * Math.min(1, -x)] : [0, 114, 178, 255 * Math.min(1, x)];

/** Fills an HTML canvas, one pixel per number of a table. colorOf(column, row): [red, green, blue, alpha]. */
export function paint(field, colorOf) {
  const image = new ImageData(field.width, field.height);
  for (let i = 0, at = 0; at < image.data.length; i += 1)
    for (const part of colorOf(i % field.width, Math.floor(i / field.width)))
      image.data[at++] = part;
  field.getContext("2d").putImageData(image, 0, 0);
}

/** Axes with ticks and labels. x, y: scales; xTicks, yTicks: lists of [value, label]. */
export function axes({ x, y, left, bottom, right, top, xTicks, yTicks, xLabel, yLabel }) {
  const line = (x1, y1, x2, y2) => svg("line", { x1, y1, x2, y2, class: "lf-grid" });
  return svg(
    "g",
    { "aria-hidden": "true" },
    ...xTicks.flatMap(([value, label]) => [
      line(x(value), top, x(value), bottom),
      svg("text", {
        x: x(value),
        y: bottom + 15,
        class: "lf-tick",
        "text-anchor": "middle",
        text: label,
      }),
    ]),
    ...yTicks.flatMap(([value, label]) => [
      line(left, y(value), right, y(value)),
      svg("text", {
        x: left - 6,
        y: y(value) + 4,
        class: "lf-tick",
        "text-anchor": "end",
        text: label,
      }),
    ]),
    svg("text", { x: right, y: bottom + 31, class: "lf-axis", "text-anchor": "end", text: xLabel }),
    svg("text", { x: left, y: top - 8, class: "lf-axis", text: yLabel }),
  );
}

// ---------------------------------------------------------------- controls
/** A slider over positions 0…last. `read(position)` is the value, `find(value)` its position, `show(value)` its text;
    `texts`: longer texts that it may show, to reserve room for. */
export function slider({ label, last, read, find, show, texts = [], onInput }) {
  const shown = html("span", { class: "lf-value" });
  let [now, before] = [];
  const input = html("input", {
    type: "range",
    min: 0,
    max: last,
    step: 1,
    "aria-label": label,
    oninput: () => onInput(read(Number(input.value))),
    onpointerdown: () => {
      before = now;
    },
    onpointercancel: () => onInput(before), // the finger scrolls the page; its touch had moved the slider
    onkeydown: (event) => {
      // Shift makes the arrows take large steps
      const way = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
      if (!way || !event.shiftKey) return;
      event.preventDefault();
      onInput(
        read(
          clamp(
            Number(input.value) + way * Math.max(2, Math.round(input.max / 10)),
            0,
            Number(input.max),
          ),
        ),
      );
    },
  });
  const values = room(shown, ["", "", ""]);
  const element = html(
    "label",
    { class: "lf-slider" },
    html("span", {}, ...rich(label)),
    values,
    input,
  );
  const reserve = () =>
    longest([...texts, ...steps(61).map((i) => show(read(Math.round((i * last) / 60))))]).forEach(
      (text, i) => set(values.children[i + 1], { text }),
    );
  return {
    element,
    update(value) {
      now = value;
      if (!values.textContent) reserve(); // not earlier: `show` may depend on what is built later
      input.value = clamp(Math.round(find(value)), 0, Number(input.max));
      set(input, { "aria-valuetext": show(value) });
      if (shown.textContent !== show(value)) shown.textContent = show(value);
    },
    enable(on) {
      input.disabled = !on;
      set(element, { "data-off": !on });
    },
  };
}

/** A slider over the integers from 0, with buttons Back and Next; `limit(n)` sets the last one. */
export function stepper({ label, last, show = String, onInput }) {
  const line = slider({ label, last, read: (p) => p, find: (p) => p, show, onInput });
  const input = line.element.querySelector("input");
  const by = (way) => () => onInput(clamp(Number(input.value) + way, 0, Number(input.max)));
  const [back, on] = [button("Back", by(-1)), button("Next", by(1))];
  return {
    element: html("div", { class: "lf-stepper" }, back, on, line.element),
    limit: (n) => set(input, { max: n }),
    update(value) {
      line.update(value);
      set(back, { "aria-disabled": value <= 0 }); // not `disabled`, which would take the focus away at the end
      set(on, { "aria-disabled": value >= Number(input.max) });
    },
  };
}

/** Radio buttons, drawn as one row. options: list of [value, label]. */
export function choice({ label, options, onInput, className = "lf-row-of" }) {
  const name = `lf-${Math.random().toString(36).slice(2)}`; // unique on the page: it joins the buttons to a group
  const inputs = options.map(([value]) =>
    html("input", { type: "radio", name, onchange: () => onInput(value) }),
  );
  const labels = options.map(([, text], i) => html("label", {}, inputs[i], html("span", { text })));
  const element = html(
    "fieldset",
    { class: `lf-choice ${className}` },
    html("legend", { text: label }),
    html("div", {}, ...labels),
  );
  return {
    element,
    labels,
    update: (value) =>
      inputs.forEach((input, i) => {
        input.checked = options[i][0] === value;
      }),
  };
}

/** A sentence as a row of words to choose from; `shade(weights)` tints each word by its weight. */
export function tokenStrip({ label, words, onInput }) {
  const strip = choice({
    label,
    options: words.map((word, i) => [i, word]),
    onInput,
    className: "lf-tokens",
  });
  return {
    ...strip,
    shade: (weights) => strip.labels.forEach((element, i) => tint(element, weights[i])),
  };
}

export function toggle({ label, onInput }) {
  const input = html("input", { type: "checkbox", onchange: () => onInput(input.checked) });
  return {
    element: html("label", { class: "lf-toggle" }, input, html("span", {}, ...rich(label))),
    update: (value) => {
      input.checked = value;
    },
  };
}

export const button = (label, onclick) =>
  html("button", { type: "button", class: "lf-button", text: label, onclick });

export const textInput = (attributes) =>
  html("input", {
    type: "text",
    class: "lf-text",
    spellcheck: "false",
    autocomplete: "off",
    autocapitalize: "none",
    ...attributes,
  });

let rest = ""; // the pointer's last position: scrolling the page under it doesn't count as moving it
export const moved =
  (act) =>
  ({ clientX, clientY }) => {
    if (rest !== (rest = `${clientX} ${clientY}`)) act();
  };
/** Tints a cell by a weight from -1 to 1; negative weights have their own color. */
export function tint(element, weight) {
  element.style.setProperty("--weight", `${Math.round(Math.min(1, Math.abs(weight)) * 100)}%`);
  set(element, { "data-strong": Math.abs(weight) > 0.65, "data-negative": weight < 0 }); // kit.css says why 0.65
}

/** A table of tinted numbers. rows, columns: words; onRow(index): called when the pointer enters a row. */
export function heatMap({ caption, rows, columns, onRow = null }) {
  const cells = rows.map(() => columns.map(() => html("td")));
  const heads = rows.map((word) => html("th", { scope: "row", text: word }));
  const lines = rows.map((_, i) =>
    html("tr", onRow ? { onpointermove: moved(() => onRow(i)) } : {}, heads[i], ...cells[i]),
  );
  const element = html(
    "table",
    { class: "lf-heat" },
    html("caption", { text: caption }),
    html(
      "thead",
      {},
      html(
        "tr",
        {},
        html("td"),
        ...columns.map((word) => html("th", { scope: "col" }, html("span", { text: word }))),
      ),
    ),
    html("tbody", {}, ...lines),
  );
  return {
    element,
    heads,
    cells,
    update(values, { row = null, show = fixed, size = 1 } = {}) {
      cells.forEach((line, i) =>
        line.forEach((cell, j) =>
          tint(
            set(cell, { text: values[i][j] === null ? "·" : show(values[i][j]) }),
            (values[i][j] ?? 0) / size,
          ),
        ),
      );
      lines.forEach((line, i) => set(line, { "data-row": i === row }));
    },
  };
}

/** Makes `handle`, an SVG element, draggable by mouse, touch and arrow keys. at(): where it is; to(x, y): moves it;
 *  point(event): the pointer in the same coordinates; step, leap: how far an arrow key moves it without and with Shift. */
export function draggable(handle, { at, to, point, step, leap }) {
  let grip = null;
  return set(handle, {
    tabindex: 0,
    role: "slider",
    class: "lf-handle",
    onlostpointercapture: () => {
      grip = null;
    },
    ontouchstart: (event) => event.preventDefault(), // no scrolling; touch-action has no effect on SVG groups
    onpointerdown(event) {
      event.preventDefault();
      handle.setPointerCapture(event.pointerId);
      handle.focus({ preventScroll: true });
      grip = at().map((x, i) => x - point(event)[i]);
    },
    onpointermove(event) {
      if (grip) to(...point(event).map((x, i) => x + grip[i]));
    },
    onkeydown(event) {
      const way = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[
        event.key
      ];
      if (!way) return;
      event.preventDefault();
      to(...at().map((x, i) => x + way[i] * (event.shiftKey ? leap : step)));
    },
  });
}

/** Where an event happened, in the coordinates of an SVG picture. */
export const pointIn = (picture, { clientX, clientY }) =>
  (({ x, y }) => [x, y])(
    new DOMPoint(clientX, clientY).matrixTransform(picture.getScreenCTM().inverse()),
  );

// ---------------------------------------------------------------- state in the address
/** State as text: `query:2,0.2;likeness:dot`. Leaves out what equals `initial`. */
export const encode = (state, initial) =>
  Object.keys(initial)
    .filter((name) => String(state[name]) !== String(initial[name]))
    .map(
      (name) =>
        `${name}:${[state[name]].flat(9).map((x) => (Number(x) === x ? +x.toFixed(4) : x))}`,
    )
    .join(";");

/** The state in a text from the address, without anything that doesn't fit `initial` and `allowed`. */
export function decode(text, initial, allowed) {
  const state = {};
  for (const part of text.split(";")) {
    const [name, list = ""] = part.split(":");
    if (!Object.hasOwn(initial, name)) continue;
    const items = list.split(",");
    const like = (shape) => {
      if (Array.isArray(shape)) return shape.map(like);
      const item = items.shift();
      if (typeof shape === "boolean") return item === "true";
      if (typeof shape === "number") {
        const [low, high, step] = allowed[name];
        const number = clamp(item === "" ? NaN : Number(item), low, high);
        return step ? Math.round(number) : number;
      }
      return allowed[name].includes(item) ? item : NaN;
    };
    const value = like(initial[name]);
    if (items.length === 0 && ![value].flat(9).some(Number.isNaN)) state[name] = value;
  }
  return state;
}

const fragments = () =>
  new Map(
    location.hash
      .slice(1)
      .split("&")
      .filter((part) => part.includes("="))
      .map((part) => part.split(/=(.*)/, 2)),
  );

function writeFragment(anchor, text) {
  const parts = fragments();
  if (!text && !parts.has(anchor)) return; // leave a plain anchor alone
  if (text) parts.set(anchor, text);
  else parts.delete(anchor);
  const hash = [...parts].map(([name, value]) => `${name}=${value}`).join("&");
  history.replaceState(history.state, "", hash ? `#${hash}` : location.pathname + location.search);
}

// ---------------------------------------------------------------- a figure
/** Keeps keys from the notebook, where `x` would cut the figure's cell. Commands such as Ctrl+S stay the notebook's,
 *  unless they edit text or move in it. JupyterLab and Notebook check the focused element for this attribute. */
function keepKeys({ target, key, ctrlKey, metaKey }) {
  const edits = /^([acvxyz]|Arrow\w+|Backspace|Delete|Home|End)$/i.test(key);
  target.toggleAttribute("data-lm-suppress-shortcuts", edits || !(ctrlKey || metaKey));
}

/** The anywidget module of a figure.
 *  name: its class. title(get): the question. state: {trait: [low, high] | [low, high, 1] for whole numbers
 *  | list of allowed strings | []}.
 *  build(ui): builds controls and picture with ui.get, ui.all() (the state), ui.change(changes), ui.refresh(), and
 *  returns {controls, picture, draw, longest}. draw() shows the state and returns the sentence under the title; longest
 *  lists the longest sentences. It may also return more (controls that fold away below the picture), restart(), called
 *  on Reset, and leave(), called at the end. */
export function live({ name, title, state: allowed, build }) {
  return {
    render({ model, el }) {
      const [names, get] = [Object.keys(allowed), (trait) => model.get(trait)];
      const all = () => Object.fromEntries(names.map((trait) => [trait, get(trait)]));
      const initial = structuredClone(all());
      const anchor = get("anchor") || name;
      const published = "content_root" in document.documentElement.dataset; // a page built by Sphinx
      let [busy, timer] = [false, null];

      const status = html("p", { class: "lf-status", "aria-live": "polite" });
      const link = published ? html("a", { class: "lf-link", text: "Link to this state" }) : null;
      const refresh = () => {
        const sentence = draw();
        if (status.textContent !== sentence) status.textContent = sentence;
        if (link) set(link, { href: `#${anchor}=${encode(all(), initial)}` });
      };
      const change = (changes, keep = true) => {
        busy = true; // redraw once for all changed traits
        for (const [trait, value] of Object.entries(changes)) model.set(trait, value);
        busy = false;
        refresh();
        if (!keep) return;
        model.save_changes();
        if (!published) return;
        clearTimeout(timer); // browsers limit how often a page can change its address
        timer = setTimeout(() => writeFragment(anchor, encode(all(), initial)), 200);
      };
      const fromAddress = () => {
        const named = published && fragments().has(anchor);
        if (named) change(decode(fragments().get(anchor), initial, allowed), false);
        return named;
      };

      const {
        controls,
        picture,
        more = [],
        draw,
        longest: sentences,
        restart,
        leave,
      } = build({ get, all, change, refresh: () => refresh() });
      const question = title(get);
      const reset = button("Reset", () => {
        restart?.();
        change(structuredClone(initial));
      });
      el.replaceChildren(
        html(
          "figure",
          {
            class: "live-figure",
            role: "group",
            "aria-label": question.replaceAll("`", ""),
            "data-figure": anchor,
          },
          html("div", { class: "lf-title" }, html("p", {}, ...rich(question)), reset),
          room(status, sentences),
          html("div", { class: "lf-controls" }, ...controls),
          html("div", { class: "lf-picture" }, ...picture),
          more.length
            ? html(
                "details",
                { class: "lf-more" },
                html("summary", { text: "More" }),
                html("div", { class: "lf-controls" }, ...more),
              )
            : null,
          get("note") || link ? html("p", { class: "lf-note" }, get("note"), " ", link) : null,
        ),
      );
      refresh();
      if (fromAddress()) el.scrollIntoView({ block: "center" });

      const keys = (event) => el.contains(event.target) && keepKeys(event);
      const changed = () => busy || refresh();
      names.forEach((trait) => model.on(`change:${trait}`, changed));
      addEventListener("hashchange", fromAddress);
      addEventListener("keydown", keys, true); // before the notebook, which listens on the document
      return () => {
        leave?.();
        clearTimeout(timer);
        names.forEach((trait) => model.off(`change:${trait}`, changed));
        removeEventListener("hashchange", fromAddress);
        removeEventListener("keydown", keys, true);
      };
    },
  };
}
