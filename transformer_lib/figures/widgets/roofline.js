// Roofline: what is the machine waiting for? A product of n tokens with a matrix: arithmetic, bytes, and their times.
import {
  axes,
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
  steps,
  svg,
} from "./kit.js";

// ---- arithmetic

/** FLOPs and bytes of a product of n tokens with a width by width matrix, if each number is read or written once. */
export const workOf = ({ tokens: n, width: d, size }) => ({
  operations: 2 * n * d * d,
  bytes: size * (d * d + 2 * n * d),
});

/** The seconds that arithmetic alone and memory alone would take. rate in GFLOP/s, bandwidth in GB/s. */
export function secondsOf(state) {
  const { operations, bytes } = workOf(state);
  return { arithmetic: operations / (1e9 * state.rate), memory: bytes / (1e9 * state.bandwidth) };
}

export const intensityOf = (state) => workOf(state).operations / workOf(state).bytes;

/** The highest FLOP/s at an intensity: the slope of memory, then the flat roof of arithmetic. */
export const roofAt = (intensity, { rate, bandwidth }) =>
  1e9 * Math.min(rate, bandwidth * intensity);

/** The fewest tokens for which arithmetic takes longer than memory; null if it never does (the matrix is too small). */
export function crossing({ width: d, size, rate, bandwidth }) {
  const spare = d * bandwidth - size * rate;
  return spare > 0 ? Math.ceil((size * d * rate) / (2 * spare)) : null;
}

/** A number with three digits and a metric prefix. */
export function unit(x, name) {
  const [letter, size] = [
    ["", 1],
    ["k", 1e3],
    ["M", 1e6],
    ["G", 1e9],
    ["T", 1e12],
    ["P", 1e15],
  ].findLast(([, least]) => x >= 0.9995 * least) ?? ["", 1];
  return `${Number((x / size).toPrecision(3))}\u00a0${letter}${name}`;
}

export function duration(seconds) {
  const [letter, size] = [
    ["ns", 1e-9],
    ["µs", 1e-6],
    ["ms", 1e-3],
    ["s", 1],
  ].findLast(([, least]) => seconds >= 0.9995 * least) ?? ["ns", 1e-9];
  return `${Number((seconds / size).toPrecision(3))}\u00a0${letter}`;
}

// ---- picture

const [HEIGHT, LEFT, TOP, BOTTOM] = [248, 44, 24, 206];
const [X, Y] = [
  [0.25, 4096],
  [1e9, 2e15],
]; // the same for all machines, so that faster ones are higher
const count = (n) => n.toLocaleString("en-US");
const tokensOf = (n) => `${count(n)} token${n === 1 ? "" : "s"}`;
const two = (x) => Number(x.toPrecision(2));

function build({ get, all, change, refresh }) {
  const [machines, marks] = [get("machines"), get("marks")];
  const powers = (label, trait, least, last) =>
    slider({
      label,
      last,
      read: (p) => 2 ** (p + least),
      find: (n) => Math.log2(n) - least,
      show: count,
      onInput: (value) => change({ [trait]: value }),
    });
  const limit = (label, trait, from, last, name, texts) =>
    slider({
      label,
      last,
      read: (p) => two(10 ** (from + p / 10)),
      find: (x) => 10 * (Math.log10(x) - from),
      show: (x) => unit(1e9 * x, name),
      texts,
      onInput: (value) => change({ [trait]: value }),
    });
  const preset = choice({
    label: "the machine",
    options: machines.map(([name], i) => [i, name]),
    onInput: (i) => {
      const [, rate, bandwidth, size] = machines[i];
      change({ rate, bandwidth, size });
    },
  });
  const controls = {
    rate: limit("arithmetic, at most", "rate", 1, 53, "FLOP/s", ["88.8 GFLOP/s"]),
    bandwidth: limit("memory, at most", "bandwidth", 0.7, 33, "B/s", ["8.88 TB/s"]),
    tokens: powers("tokens at once", "tokens", 0, 12),
    width: powers("width of the matrix", "width", 6, 8),
    size: choice({
      label: "bytes per number",
      options: [
        [4, "4"],
        [2, "2"],
      ],
      onInput: (size) => change({ size }),
    }),
  };

  const picture = canvas(640, HEIGHT, { role: "img" });
  const [around, others] = [svg("g"), machines.map(() => svg("path", { class: "rl-other" }))];
  const [slope, flat] = [
    svg("path", { class: "rl-roof rl-memory" }),
    svg("path", { class: "rl-roof rl-arithmetic" }),
  ];
  const measured = marks.map(() => svg("circle", { r: 4.5, class: "rl-measured" }));
  const [drop, spot] = [
    svg("line", { class: "rl-drop" }),
    svg("circle", { r: 7, class: "lf-knob" }),
  ];
  const names = machines.map(([name]) =>
    svg("text", { class: "lf-tick lf-halo", "text-anchor": "end", text: name }),
  );
  picture.append(around, ...others, ...names, slope, flat, drop, ...measured, spot);
  const view = fluid(picture, HEIGHT, () => refresh());
  const key = (kind, text) => html("span", {}, html("i", { class: kind }), text);
  const legend = html(
    "div",
    { class: "rl-legend" },
    key("rl-key-memory", "memory is the limit"),
    key("rl-key-arithmetic", "arithmetic is the limit"),
    ...(marks.length ? [key("rl-key-measured", "measured")] : []),
  );

  const rows = ["memory", "arithmetic"].map((name) => {
    const [bar, time, work] = [
      html("div", { class: `rl-bar rl-bar-${name}` }),
      html("b"),
      html("span", { class: "rl-work" }),
    ];
    return {
      bar,
      time,
      work,
      element: html(
        "div",
        { class: "rl-row" },
        html("span", { text: `${name} alone` }),
        time,
        work,
        bar,
      ),
    };
  });
  const facts = ["per byte", "per token"].map((name) => {
    const value = html("b");
    return {
      value,
      element: html("div", { class: "rl-fact" }, html("span", { text: name }), value),
    };
  });
  const table = html(
    "div",
    { class: "rl-table" },
    ...[...rows, ...facts].map(({ element }) => element),
  );

  function draw() {
    const state = {
      ...all(),
      size: get("size") < 3 ? 2 : 4,
    };
    const chosen = machines.findIndex(
      ([, rate, bandwidth]) => rate === state.rate && bandwidth === state.bandwidth,
    );
    preset.update(chosen);
    Object.entries(controls).forEach(([name, control]) => control.update(state[name]));
    const [work, time, intensity] = [workOf(state), secondsOf(state), intensityOf(state)];

    const x = scale(X, [LEFT, view.width - 10], true);
    const y = scale(Y, [BOTTOM, TOP], true);
    const high = (flops) => y(clamp(flops, ...Y));
    around.replaceChildren(
      axes({
        x,
        y,
        left: LEFT,
        right: x(X[1]),
        top: TOP,
        bottom: BOTTOM,
        xTicks: [1, 10, 100, 1000].map((t) => [t, count(t)]),
        yTicks: [
          ["1 G", 1e9],
          ["100 G", 1e11],
          ["10 T", 1e13],
          ["1 P", 1e15],
        ].map(([text, at]) => [at, text]),
        xLabel: "FLOPs per byte",
        yLabel: "FLOPs per second, at most",
      }),
    );
    const corner = ({ rate, bandwidth }) => clamp(rate / bandwidth, ...X);
    const path = (from, to, machine) =>
      `M${x(from).toFixed(1)} ${high(roofAt(from, machine)).toFixed(1)}L${x(to).toFixed(1)} ${high(roofAt(to, machine)).toFixed(1)}`;
    others.forEach((line, i) => {
      const machine = { rate: machines[i][1], bandwidth: machines[i][2] };
      const here = high(1e9 * machine.rate);
      const crowded = machines.some(
        ([, rate]) => rate > machine.rate && here - high(1e9 * rate) < 20,
      ); // then its name goes below
      set(names[i], { x: x(X[1]), y: here + (crowded ? 14 : -5) });
      set(line, {
        d:
          i === chosen
            ? ""
            : `${path(X[0], corner(machine), machine)}${path(corner(machine), X[1], machine)}`,
      });
    });
    set(slope, { d: path(X[0], corner(state), state) });
    set(flat, { d: path(corner(state), X[1], state) });
    const at = x(clamp(intensity, ...X));
    set(spot, { cx: at, cy: high(roofAt(intensity, state)) });
    set(drop, { x1: at, x2: at, y1: high(roofAt(intensity, state)), y2: BOTTOM });
    measured.forEach((ring, i) => {
      const [machine, tokens, width, seconds] = marks[i];
      const done = workOf({ tokens, width, size: machines[machine][3] });
      set(ring, { cx: x(done.operations / done.bytes), cy: high(done.operations / seconds) });
      ring.style.display = machine === chosen ? "" : "none";
    });

    const longest = Math.max(time.memory, time.arithmetic);
    [
      [time.memory, unit(work.bytes, "B")],
      [time.arithmetic, unit(work.operations, "FLOP")],
    ].forEach(([seconds, text], i) => {
      set(rows[i].time, { text: duration(seconds) });
      set(rows[i].work, { text });
      set(rows[i].bar, { "--size": `${(100 * seconds) / longest}%` });
    });
    set(facts[0].value, { text: `${unit(intensity, "FLOP")}` });
    set(facts[1].value, { text: duration(longest / state.tokens) });
    const said = sentence(state, time);
    set(picture, {
      "aria-label": `${unit(intensity, "FLOP")} per byte, at most ${unit(roofAt(intensity, state), "FLOP/s")}`,
    });
    return said;
  }

  function sentence(state, { memory, arithmetic }) {
    const [first, limit] = [crossing(state), memory > arithmetic ? "memory" : "arithmetic"];
    const used = Math.min(memory, arithmetic) / Math.max(memory, arithmetic);
    const idle = `${used < 0.01 ? "less than 1" : Math.floor(100 * used)}\u00a0%`;
    const start = `With ${tokensOf(state.tokens)} at once the machine waits for ${limit}: ${limit === "memory" ? "arithmetic" : "memory"} is busy for ${idle} of the time.`;
    if (first === null) return `${start} More tokens don’t change that: the matrix is too small.`;
    if (limit === "memory")
      return `${start} With ${tokensOf(first)} or more, it would wait for arithmetic.`;
    return first > 1
      ? `${start} With fewer than ${tokensOf(first)} it would wait for memory.`
      : `${start} That’s true even for a single token.`;
  }

  const [slow, fast] = [
    { tokens: 2048, width: 1024, size: 4, rate: 9e5, bandwidth: 9999 },
    { memory: 1, arithmetic: 0.001 },
  ];
  const { tokens, ...rest } = controls;
  return {
    controls: [preset.element, tokens.element],
    more: Object.values(rest).map(({ element }) => element),
    picture: [html("div", { class: "rl-roofs" }, picture, legend), table],
    draw,
    longest: [
      sentence(slow, fast),
      sentence(slow, { memory: 0.001, arithmetic: 1 }),
      sentence({ ...slow, bandwidth: 1 }, fast),
    ],
  };
}

export default live({
  name: "Roofline",
  title: () => "What is the machine waiting for?",
  build,
  state: {
    rate: [0.1, 2e6],
    bandwidth: [0.1, 1e4],
    tokens: [1, 4096, 1],
    width: [64, 16384, 1],
    size: [2, 4, 1],
  },
});
