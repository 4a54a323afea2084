// RunPlanner: will it fit, and how long will it take? The parts of the memory, and the hours.
import {
  canvas,
  choice,
  clamp,
  fixed,
  fluid,
  html,
  live,
  scale,
  set,
  slider,
  sum,
  svg,
  ticksTo,
} from "./kit.js";

// ---- arithmetic

/** Parameters of a pre-norm Transformer with an inner width of 4 d_model and one embedding matrix. */
export const parametersOf = ({ d_model: d, n_layers: n, vocab_size: v }) =>
  n * (28 * d * d + 32 * d) + 4 * d + v * d;

/** FLOPs of a training update per source and target token. */
export const tokenFlops = ({ d_model: d, n_layers: n, vocab_size: v, length }) =>
  6 * (28 * n * d * d + v * d) + 36 * n * d * length;

/** GiB of parameters, gradients, Adam, and the activations of one micro-batch. */
export function gibibytes(state) {
  const [layer, ends] = state.kept[Number(state.precision === "mixed")];
  const each = layer * state.n_layers * state.d_model + ends * state.vocab_size;
  const count = parametersOf(state);
  const first = state.precision === "mixed" ? 6 : 4; // bytes, including a 16-bit copy
  return [first * count, 4 * count, 8 * count, Math.ceil(state.tokens / state.pieces) * each].map(
    (bytes) => bytes / 2 ** 30,
  );
}

export const hoursOf = (state) => (state.total * tokenFlops(state)) / (state.speed * 1e9) / 3600;

/** The smallest number of micro-batches that fits, or null if none does. */
export function piecesThatFit(state) {
  const fits = (pieces) => sum(gibibytes({ ...state, pieces })) <= state.memory;
  return PIECES.find(fits) ?? null;
}

/** A time in a suitable unit. */
export function duration(hours) {
  const units = [
    ["minutes", 1 / 60],
    ["hours", 1],
    ["days", 24],
    ["years", 8766],
  ];
  const [name, size] = units.findLast(([, hours_]) => hours >= 2 * hours_) ?? units[0];
  const n = hours / size;
  return `${n < 0.1 ? "under 0.1" : n >= 100 ? Math.round(Number(n.toPrecision(3))).toLocaleString("en-US") : fixed(n, n < 10 ? 1 : 0)}\u00a0${name}`;
}

// ---- picture

const PIECES = [1, 2, 4, 8, 16, 32, 64, 128, 256];
const WIDTHS = [64, 128, 256, 512, 768, 1024, 1536, 2048, 3072, 4096];
const LAYERS = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48];
const TOKENS = [256, 512, 1024, 2048, 4096, 8192, 16384, 25000, 32768, 65536, 131072, 262144];
const MEMORY = [1, 2, 4, 6, 8, 12, 16, 24, 32, 40, 48, 64, 80, 96, 128, 141, 192, 256];
const NAMES = ["parameters", "gradients", "Adam", "saved activations"];
const MARKS = [
  ["hour", 1],
  ["day", 24],
  ["week", 168],
  ["month", 730],
  ["year", 8766],
  ["10 years", 87660],
  ["century", 876600],
];
const [HEIGHT, LEFT, BAR, LINE] = [190, 10, 34, 140];
const round = (n) => Math.round(n).toLocaleString("en-US");
const gib = (x) => (x >= 100 ? round(x) : fixed(x, x < 10 ? 1 : 0));
const nearest = (list, x) =>
  list.map((y, i) => [Math.abs(Math.log(y / x)), i]).sort(([a], [b]) => a - b)[0][1];
const rate = (g) =>
  g >= 1000
    ? `${Number((g / 1000).toPrecision(2)).toLocaleString("en-US")} TFLOP/s`
    : `${Number(g.toPrecision(2))} GFLOP/s`;

function build({ get, all, change }) {
  const fixedOnes = Object.fromEntries(
    ["kept", "vocab_size", "total", "length"].map((name) => [name, get(name)]),
  );
  const among = (label, trait, list, show = round, texts = []) =>
    slider({
      label,
      last: list.length - 1,
      read: (p) => list[p],
      find: (x) => nearest(list, x),
      show,
      texts,
      onInput: (value) => change({ [trait]: value }),
    });
  const controls = {
    d_model: among("d_model", "d_model", WIDTHS),
    n_layers: among("layers per stack", "n_layers", LAYERS),
    tokens: among("tokens per side and update", "tokens", TOKENS),
    pieces: among("micro-batches per update", "pieces", PIECES),
    speed: slider({
      label: "rate reached",
      last: 120,
      read: (p) => Number((10 ** (p / 20)).toPrecision(2)),
      find: (x) => 20 * Math.log10(x),
      show: rate,
      onInput: (speed) => change({ speed }),
    }),
    memory: among("memory available", "memory", MEMORY, (x) => `${Number(x.toFixed(1))} GiB`, [
      "255.9 GiB",
    ]),
    precision: choice({
      label: "precision",
      options: [
        ["float32", "32 bits"],
        ["mixed", "mixed"],
      ],
      onInput: (precision) => change({ precision }),
    }),
  };
  const bars = NAMES.map((_, i) =>
    svg("rect", { y: BAR, height: 30, "data-part": i, class: "rp-bar" }),
  );
  const limit = svg("line", { y1: BAR - 8, y2: BAR + 38, class: "rp-limit" });
  const limitText = svg("text", { y: BAR - 13, class: "lf-halo" });
  const ticks = Array.from({ length: 11 }, () =>
    svg("text", { y: BAR + 46, class: "lf-tick", "text-anchor": "middle" }),
  );
  const unit = svg("text", { y: BAR + 62, class: "lf-axis", "text-anchor": "end", text: "GiB" });
  const axis = svg("line", { y1: LINE, y2: LINE, class: "rp-axis" });
  const marks = MARKS.map(([name]) => [
    svg("line", { y1: LINE - 6, y2: LINE + 6, class: "rp-axis" }),
    svg("text", { y: LINE + 22, class: "lf-tick", "text-anchor": "middle", text: name }),
  ]);
  const here = svg("path", { class: "rp-here" });
  const hereText = svg("text", { y: LINE - 16, class: "lf-halo rp-time" });
  const picture = canvas(
    640,
    HEIGHT,
    { role: "img" },
    ...bars,
    limit,
    limitText,
    ...ticks,
    unit,
    axis,
    ...marks.flat(),
    here,
    hereText,
  );
  const legend = html(
    "p",
    { class: "rp-legend" },
    ...NAMES.map((_, i) => html("span", { "data-part": i })),
  );
  const size = fluid(picture, HEIGHT, () => draw());

  function draw() {
    const state = { ...all(), ...fixedOnes };
    Object.entries(controls).forEach(([name, control]) => control.update(state[name]));
    const [found, hours, right] = [gibibytes(state), hoursOf(state), size.width - LEFT - 4];
    const total = sum(found);
    const end = 1.12 * Math.max(total, state.memory);
    const x = scale([0, end], [LEFT, right]);
    let from = 0;
    found.forEach((part, i) => {
      set(bars[i], {
        x: fixed(x(from), 1),
        width: Math.max(0, x(from + part) - x(from) - (i < 3 ? 0.5 : 0)).toFixed(1),
      });
      set(legend.children[i], { text: `${NAMES[i]} ${gib(part)}` });
      from += part;
    });
    const side = x(state.memory) > size.width / 2;
    set(limit, { x1: x(state.memory), x2: x(state.memory) });
    set(limitText, {
      x: x(state.memory) + (side ? 4 : -4),
      "text-anchor": side ? "end" : "start",
      text: `${Number(state.memory.toFixed(1))} GiB available`,
    });
    const numbers = ticksTo(end, 4);
    ticks.forEach((tick, i) =>
      set(tick, {
        x: x(numbers[i] ?? 0),
        text: i < numbers.length ? numbers[i].toLocaleString("en-US") : "",
      }),
    );
    set(unit, { x: right });
    const t = scale([0.5, 3e6], [LEFT, right], true);
    set(axis, { x1: LEFT, x2: right });
    marks.forEach(([line, text], i) => {
      const at = t(MARKS[i][1]);
      set(line, { x1: at, x2: at });
      set(text, { x: at, visibility: size.width < 420 && i % 2 ? "hidden" : "visible" });
    });
    const at = t(clamp(hours, 0.5, 3e6));
    set(here, { d: `M${fixed(at, 1)},${LINE - 9}l9,9l-9,9l-9,-9z` });
    const late = at > size.width * 0.6;
    set(hereText, {
      x: at + (late ? 8 : -8),
      "text-anchor": late ? "end" : "start",
      text: duration(hours),
    });

    const [steady, kept] = [sum(found.slice(0, 3)), found[3]];
    set(picture, {
      "aria-label": `${gib(total)} of ${gib(state.memory)} gibibytes; ${duration(hours)}`,
    });
    const millions = parametersOf(state) / 1e6;
    const many =
      millions >= 1000 ? `${fixed(millions / 1000, 1)} billion` : `${fixed(millions, 1)} million`;
    const start = `${many} parameters: ${gib(steady)}\u00a0GiB, plus ${gib(kept)} for ${round(Math.ceil(state.tokens / state.pieces))} tokens at once.`;
    const enough = piecesThatFit(state);
    const verdict =
      total <= state.memory
        ? "That fits."
        : enough
          ? `Too much, but ${enough} micro-batches fit.`
          : steady > state.memory
            ? "Too much, for any batch."
            : "Too much, even in 256 micro-batches.";
    return `${start} ${verdict} At ${rate(state.speed)}, ${Number((state.total / 1e9).toPrecision(3))} billion tokens take ${duration(hours)}.`;
  }

  const { d_model, pieces, ...others } = controls;
  return {
    controls: [d_model.element, pieces.element],
    more: Object.values(others).map(({ element }) => element),
    picture: [html("div", { class: "lf-wide" }, legend, picture)],
    draw,
    longest: [
      "100.0 billion parameters: 10,000\u00a0GiB, plus 10,000 for 262,144 tokens at once. " +
        "Too much, even in 256 micro-batches. At 1,000 TFLOP/s, 1.23 billion tokens take 10,000\u00a0years.",
    ],
  };
}

export default live({
  name: "RunPlanner",
  title: () => "Will it fit, and how long will it take?",
  build,
  state: {
    d_model: [64, 4096, 1],
    n_layers: [1, 48, 1],
    tokens: [256, 262144, 1],
    pieces: [1, 256, 1],
    precision: ["float32", "mixed"],
    speed: [1, 1e6],
    memory: [1, 256],
  },
});
