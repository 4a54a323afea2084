// CacheSize: how much memory does generating a text take? The key-value cache, next to the parameters.
import {
  axes,
  canvas,
  choice,
  fixed,
  fluid,
  html,
  live,
  palette,
  percent,
  room,
  scale,
  set,
  slider,
  svg,
  ticksTo,
} from "./kit.js";

// ---- arithmetic

export const BYTES = { float32: 4, float16: 2, int8: 1 };
const UNITS = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** How many tokens of each text stay in the cache. */
export const keptOf = ({ length, window }) => (window ? Math.min(length, window) : length);

/** Bytes of the cache: a key and a value for each layer, key-value head, token and text. */
export const cacheBytes = (state) =>
  2 *
  state.n_layers *
  state.n_kv_heads *
  state.d_head *
  keptOf(state) *
  state.texts *
  BYTES[state.precision];

/** Parameters of a decoder with Llama's layer, an inner width of 3.5 d_model, and two tables of 32,000 tokens. */
export function parametersOf({ n_layers: n, n_heads: heads, n_kv_heads: shared, d_head: width }) {
  const d = heads * width;
  return (
    n * (2 * d * d + 2 * d * shared * width + 3 * d * Math.floor((7 * d) / 2) + 2 * d) +
    d +
    2 * 32000 * d
  );
}

/** Bytes in a suitable unit, with three digits. */
export function size(bytes) {
  const power = bytes < 1024 ? 0 : Math.min(5, Math.floor(Math.log2(bytes) / 10));
  const x = bytes / 1024 ** power;
  const text =
    power === 0 || x >= 99.95 ? Math.round(x).toLocaleString("en-US") : fixed(x, x < 9.995 ? 2 : 1);
  return `${text}\u00a0${UNITS[power]}`;
}

// ---- picture

const doubled = (from, to) => (from > to ? [] : [from, ...doubled(2 * from, to)]);
const LAYERS = [1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 64, 80, 96, 126, 128];
const [HEADS, WIDTHS, LENGTHS, TEXTS] = [
  [1, 2, 4, 8, 12, 16, 24, 32, 40, 64, 96, 128],
  [16, 32, 64, 96, 128, 256],
  doubled(128, 131072),
  doubled(1, 256),
];
const WINDOWS = [0, ...doubled(256, 65536)];
const SIZES = ["n_layers", "n_heads", "n_kv_heads", "d_head"];
const [HEIGHT, LEFT, BAR, FIRST, SECOND] = [120, 4, 26, 6, 48];
const PARTS = [
  ["parameters", palette[2]],
  ["cache", palette[1]],
  ["plain", null],
].map(([part, color]) => ({ "data-part": part, "--color": color }));
const round = (n) => n.toLocaleString("en-US");
const nearest = (list, x) =>
  list.map((y, i) => [Math.abs(Math.log((y + 1) / (x + 1))), i]).sort(([a], [b]) => a - b)[0][1];
const dividing = (heads) => HEADS.filter((n) => heads % n === 0);
const many = (n, word) => `${round(n)}\u00a0${word}${n === 1 ? "" : "s"}`;

function build({ get, all, change }) {
  const cards = get("cards");
  const sizesOf = (state) =>
    state.model === "own"
      ? Object.fromEntries(SIZES.map((name) => [name, state[name]]))
      : cards[state.model].sizes;
  const fitting = (heads, shared) =>
    heads % shared === 0 ? shared : dividing(heads)[nearest(dividing(heads), shared)];
  const models = choice({
    label: "model",
    className: "lf-tokens",
    options: [
      ...Object.entries(cards).map(([model, { name }]) => [model, name]),
      ["own", "your own"],
    ],
    onInput: (model) => change({ model, ...(model === "own" ? sizesOf(all()) : {}) }),
  }); // "own" starts with the sizes of the model shown before
  const among = (label, list, onInput, show = round) =>
    slider({
      label,
      last: list().length - 1,
      read: (p) => list()[p],
      find: (x) => nearest(list(), x),
      show,
      onInput,
      texts: ["128"],
    });
  const set1 = (trait) => (value) => change({ [trait]: value });
  const own = {
    n_layers: among("layers", () => LAYERS, set1("n_layers")),
    n_heads: among(
      "heads",
      () => HEADS,
      (n_heads) => change({ n_heads, n_kv_heads: fitting(n_heads, get("n_kv_heads")) }),
    ),
    n_kv_heads: among(
      "key-value heads",
      () => dividing(sizesOf(all()).n_heads),
      set1("n_kv_heads"),
    ),
    d_head: among("width of a head", () => WIDTHS, set1("d_head")),
  };
  const use = {
    length: among("tokens per text", () => LENGTHS, set1("length")),
    texts: among("texts at once", () => TEXTS, set1("texts")),
    window: among(
      "window, in tokens",
      () => WINDOWS,
      set1("window"),
      (n) => (n ? round(n) : "whole text"),
    ),
    precision: choice({
      label: "bytes per number",
      options: [
        ["float32", "4"],
        ["float16", "2"],
        ["int8", "1"],
      ],
      onInput: set1("precision"),
    }),
  };
  const part = (controls) => Object.values(controls).map(({ element }) => element);
  const inputs = html("fieldset", { class: "cs-controls cs-own" }, ...part(own));

  const bars = PARTS.map((part) => svg("path", { class: "cs-bar", ...part }));
  const frame = svg("g");
  const picture = canvas(640, HEIGHT, { role: "img" }, frame, ...bars);
  const width = fluid(picture, HEIGHT, () => draw());
  const legend = html("p", { class: "cs-legend" }, ...PARTS.map((part) => html("span", part)));
  const product = html("p", { class: "cs-product" });
  const formula = (s, bytes) =>
    `2 · ${many(s.n_layers, "layer")} · ${many(s.n_kv_heads, "key-value head")} · ${many(s.d_head, "number")} · ` +
    `${many(keptOf(s), "token")} · ${many(s.texts, "text")} · ${many(BYTES[s.precision], "byte")} = ${bytes}`;

  function sentence(name, s, parameters, cache) {
    const each = size(cache / keptOf(s) / s.texts);
    const ratio = cache / parameters;
    const share =
      ratio < 0.01
        ? "under 1\u00a0%"
        : ratio < 1
          ? percent(ratio)
          : `${ratio < 9.95 ? fixed(ratio, 1) : round(Math.round(ratio))} times`;
    const group = s.n_heads / s.n_kv_heads;
    const groups =
      group === 1
        ? "Each head has its own keys and values."
        : `Groups divide the cache by ${group}.`;
    const saved = !s.window
      ? ""
      : keptOf(s) === s.length
        ? " The window holds the whole text."
        : ` The window divides it by ${round(Number((s.length / s.window).toPrecision(3)))}.`;
    return `${name} keeps ${each} per token, so ${size(cache)}, ${share}${ratio < 1 ? " of" : ""} the parameters’ ${size(parameters)}. ${groups}${saved}`;
  }

  function draw() {
    const state = all();
    const sizes = sizesOf(state);
    const s = { ...state, ...sizes, n_kv_heads: fitting(sizes.n_heads, sizes.n_kv_heads) };
    const published = state.model !== "own";
    set(inputs, { disabled: published, "data-off": published });
    set(own.n_kv_heads.element.lastChild, { max: dividing(s.n_heads).length - 1 });
    models.update(state.model);
    Object.entries({ ...own, ...use }).forEach(([name, control]) => control.update(s[name]));

    const parameters =
      (published ? cards[state.model].parameters : parametersOf(s)) * BYTES[s.precision];
    const [cache, plain] = [cacheBytes(s), cacheBytes({ ...s, n_kv_heads: s.n_heads, window: 0 })];
    const most = Math.max(parameters, cache);
    const end = 1.06 * Math.max(most, Math.min(plain, 4 * most)); // a longer bar is cut off at the edge
    const [power, right] = [Math.floor(Math.log2(end) / 10), width.width - LEFT];
    const [x, low] = [scale([0, end], [LEFT, right]), (i) => [FIRST, SECOND, SECOND][i]];
    [parameters, cache, plain].forEach((bytes, i) => {
      const to = fixed(Math.max(x(Math.min(bytes, end)), LEFT + 1), 1);
      set(bars[i], {
        d:
          i === 2 && bytes > end
            ? `M${right},${low(i)}H${LEFT}v${BAR}H${right}`
            : `M${LEFT},${low(i)}H${to}v${BAR}H${LEFT}z`,
      });
      set(legend.children[i], {
        text: `${["parameters", "cache", "no groups, no window"][i]} ${size(bytes)}`,
      });
    });
    frame.replaceChildren(
      axes({
        x,
        left: LEFT,
        right,
        top: FIRST,
        bottom: SECOND + BAR + 4,
        xTicks: ticksTo(end / 1024 ** power, 3).map((n) => [n * 1024 ** power, round(n)]),
        yTicks: [],
        xLabel: UNITS[power],
        yLabel: "",
      }),
    );
    set(product, { text: formula(s, size(cache)) });
    set(picture, {
      "aria-label": `parameters ${size(parameters)}, cache ${size(cache)}, without groups or window ${size(plain)}`,
    });
    return sentence(published ? cards[state.model].name : "Your model", s, parameters, cache);
  }

  const most = {
    n_layers: 126,
    n_heads: 128,
    n_kv_heads: 128,
    d_head: 256,
    length: 131071,
    window: 131070,
    texts: 256,
    precision: "float32",
  };
  const wordy = (parameters) =>
    sentence("Your model", { ...most, n_kv_heads: 1, window: 1 }, parameters, 1016 * 2 ** 38);
  const [length, texts, ...further] = part(use);
  return {
    controls: [models.element, html("div", { class: "cs-controls" }, length, texts)],
    more: [inputs, html("div", { class: "cs-controls" }, ...further)],
    picture: [
      html(
        "div",
        { class: "lf-wide" },
        room(product, [formula(most, "1,016\u00a0GiB")]),
        legend,
        picture,
      ),
    ],
    draw,
    longest: [wordy(2 ** 30), wordy(1016 * 2 ** 48)],
  };
}

export default live({
  name: "CacheSize",
  title: () => "How much memory does it take to write a text?",
  build,
  state: {
    model: ["llama-3-8b", "llama-2-7b", "mistral-7b", "gpt2", "own"],
    n_layers: [1, 128, 1],
    n_heads: [1, 128, 1],
    n_kv_heads: [1, 128, 1],
    d_head: [2, 256, 1],
    length: [1, 131072, 1],
    texts: [1, 256, 1],
    precision: ["float16", "float32", "int8"],
    window: [0, 131072, 1],
  },
});
