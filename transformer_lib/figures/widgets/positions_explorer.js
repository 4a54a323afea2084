// PositionsExplorer: how can waves tell positions apart? The table of sinusoids, rotary's turning pairs, dot products.
import {
  axes,
  canvas,
  choice,
  clamp,
  diverging,
  dot,
  draggable,
  fixed,
  fluid,
  html,
  live,
  paint,
  pointIn,
  scale,
  set,
  slider,
  steps,
  sum,
  svg,
} from "./kit.js";

// ---- arithmetic

/** How far each pair of a vector of width d turns from one position to the next: 10000^(-2i/d), in radians. */
export const turnsOf = (d) => steps(d / 2).map((i) => 10000 ** ((-2 * i) / d));

/** PE(pos, 2i) = sin(pos · turn), PE(pos, 2i + 1) = cos(pos · turn): one row of the table. */
export function address(pos, turns) {
  const row = new Array(2 * turns.length);
  turns.forEach((turn, i) => {
    row[2 * i] = Math.sin(pos * turn);
    row[2 * i + 1] = Math.cos(pos * turn);
  });
  return row;
}

/** Rotary positions: feature i of the first half and feature i of the second turn together, by pos · turn. */
export function rotate(vector, pos, turns) {
  const [first, second] = [vector.slice(0, turns.length), vector.slice(turns.length)];
  const [cos, sin] = [
    turns.map((turn) => Math.cos(pos * turn)),
    turns.map((turn) => Math.sin(pos * turn)),
  ];
  return [
    ...first.map((x, i) => x * cos[i] - second[i] * sin[i]),
    ...first.map((x, i) => x * sin[i] + second[i] * cos[i]),
  ];
}

/** A made-up query and key, with an arrow of length 1 in each pair. */
export function content(d) {
  const pairs = steps(d / 2);
  return [pairs, pairs.map((i) => i + 1.2 * Math.cos(1.7 * i))].map((angles) => [
    ...angles.map(Math.cos),
    ...angles.map(Math.sin),
  ]);
}

/** The dot product at each distance b - a, from 1 - length to length - 1. */
export function dots(view, d, length) {
  const [turns, [query, key]] = [turnsOf(d), content(d)];
  if (view === "rotary")
    return steps(2 * length - 1, 1 - length).map((n) => dot(query, rotate(key, n, turns)));
  const first = address(0, turns);
  const ahead = steps(length).map((n) => dot(first, address(n, turns)));
  return [...ahead.slice(1).reverse(), ...ahead]; // symmetric
}

/** Positions a and b with b - a = distance; a stays if possible. */
export const apart = (a, distance, last) =>
  [0, distance].map(
    (more) => clamp(a, Math.max(0, -distance), last - Math.max(0, distance)) + more,
  );

// ---- picture

const WIDTHS = [2, 4, 6, 8, 10, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256];
const LENGTHS = [8, 12, 16, 24, 32, 48, 64, 96, 128];
const [HEIGHT, LEFT, RIGHT, TOP, BOTTOM, CHART] = [280, 58, 30, 24, 174, 192]; // heights are fixed; widths follow the column
const [STRIPS, STRIP, DIALS] = [[200, 218, 240], 16, 6];
const nearest = (list, x) =>
  list.reduce((best, n, i) => (Math.abs(n - x) < Math.abs(list[best] - x) ? i : best), 0);
const strip = (top, height) =>
  html("canvas", {
    class: "pe-field",
    "aria-hidden": "true",
    "--top": `${top}px`,
    "--height": `${height}px`,
  });
const knob = (name, ...below) =>
  svg(
    "g",
    {},
    ...below,
    svg("circle", { r: 18, class: "lf-touch" }),
    svg(
      "g",
      { class: `pe-${name}` },
      svg("circle", { r: 10, class: "pe-knob" }),
      svg("text", { y: 4.5, "text-anchor": "middle", class: "pe-letter", text: name }),
    ),
  );
const swap = (old, fresh) => {
  old.replaceWith(fresh);
  return fresh;
};
const place = (element, x, y, attributes) =>
  set(element, { transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})`, ...attributes });

function build({ get, change }) {
  const now = () => {
    // an address may ask for positions that don't fit
    const [d, length] = [2 * Math.round(get("d_model") / 2), get("length")];
    const [a, b] = ["first", "second"].map((name) => Math.min(get(name), length - 1));
    return { view: get("view"), d, length, last: length - 1, a, b };
  };
  const go = (a, b) => {
    const { last } = now();
    change({ first: clamp(Math.round(a), 0, last), second: clamp(Math.round(b), 0, last) });
  };
  const [goA, goB] = [(a) => go(a, now().b), (b) => go(now().a, b)];

  const view = choice({
    label: "encode positions by",
    onInput: (value) => change({ view: value }),
    options: [
      ["waves", "adding waves"],
      ["rotary", "turning pairs (rotary)"],
    ],
  });
  const range = (label, last, onInput, list = steps(128)) =>
    slider({
      label,
      last,
      show: String,
      onInput,
      read: (p) => list[p],
      find: (n) => nearest(list, n),
    });
  const width = range("width", WIDTHS.length - 1, (d) => change({ d_model: d }), WIDTHS);
  const length = range(
    "length",
    LENGTHS.length - 1,
    (n) => {
      const [{ a, b }, end] = [now(), n - 1];
      const [first, second] = apart(Math.min(a, end), clamp(b - a, -end, end), end);
      change({ length: n, first, second });
    },
    LENGTHS,
  );
  const [first, second] = [range("position a", 127, goA), range("position b", 127, goB)];
  const both = range("move both", 127, (low) => {
    const { a, b } = now();
    go(low + Math.max(0, a - b), low + Math.max(0, b - a));
  });

  // The table of waves, one row per position; below it the two selected rows and their products.
  const [table, strips] = [strip(TOP, BOTTOM - TOP), STRIPS.map((top) => strip(top, STRIP))];
  const picture = canvas(640, HEIGHT, {
    class: "lf-svg pe-table",
    role: "group",
    "aria-label": "table of waves, one row per position",
  });
  let [y, frame, foot] = [null, svg("g"), svg("text", { x: LEFT, y: 274, class: "lf-tick" })];
  const rows = [
    ["a", goA],
    ["b", goB],
  ].map(([name, to]) =>
    draggable(knob(name, svg("rect", { class: `pe-row pe-${name}` })), {
      step: 1,
      leap: 10,
      at: () => [0, -now()[name]],
      to: (px, py) => to(px - py), // right and down go to the next position
      point: (event) => [0, -y.invert(pointIn(picture, event)[1])],
    }),
  );
  picture.append(
    frame,
    ...rows,
    ...["a", "b", "a·b"].map((text, i) =>
      svg("text", { x: LEFT - 8, y: STRIPS[i] + 13, "text-anchor": "end", text }),
    ),
    foot,
  );
  const waves = html("div", { class: "pe-view" }, table, ...strips, picture);
  // Rotary: a dial for some of the pairs, with arrows of the query and the key.
  const arrow = (name) =>
    svg(
      "g",
      { class: `pe-${name}` },
      svg("line", { x2: 39, class: "pe-arrow" }),
      svg("path", { d: "M46 0L35 -5V5Z", class: "pe-tip" }),
    );
  const dials = steps(DIALS).map(() => {
    const parts = {
      wedge: svg("path", { class: "pe-wedge" }),
      hands: [arrow("a"), arrow("b")],
      turn: html("span"),
      adds: html("b"),
    };
    const face = canvas(
      100,
      100,
      { viewBox: "-50 -50 100 100", class: "lf-svg pe-dial", "aria-hidden": "true" },
      svg("circle", { r: 47, class: "pe-face" }),
      parts.wedge,
      ...parts.hands,
    );
    return { ...parts, element: html("div", {}, face, parts.turn, parts.adds) };
  });
  const turning = html(
    "div",
    { class: "pe-view pe-rotary" },
    html(
      "p",
      {},
      ...["query at a", "key at b"].map((text) =>
        html("span", { class: `pe-swatch pe-${text.at(-1)}`, text }),
      ),
    ),
    html("div", { class: "pe-dials" }, ...dials.map((dial) => dial.element)),
    html("p", { class: "pe-foot" }),
  );

  // The dot product at every distance.
  const chart = canvas(640, CHART, {
    class: "lf-svg pe-chart",
    role: "group",
    "aria-label": "dot product by distance",
  });
  let [x, up, grid, list, drawn] = [null, null, svg("g"), [], ""];
  const [line, zero] = [svg("polyline", { class: "pe-line" }), knob("a")];
  const here = draggable(knob("b"), {
    at: () => [now().b - now().a, 0],
    step: 1,
    leap: 10,
    to: (distance) => {
      const { a, last } = now();
      go(...apart(a, clamp(Math.round(distance), -last, last), last));
    },
    point: (event) => [x.invert(pointIn(chart, event)[0]), 0],
  });
  chart.append(grid, line, zero, here);
  const [size, room] = [fluid(picture, HEIGHT, () => draw()), fluid(chart, CHART, () => draw())];

  const stripes = (field, numbers, d) => {
    // with more numbers than pixels, each pixel is the mean of several numbers
    const each = 2 ** Math.max(0, Math.ceil(Math.log2(d / (size.width - LEFT - RIGHT))));
    set(field, { width: Math.ceil(numbers[0].length / each), height: numbers.length });
    paint(field, (column, row) =>
      diverging(
        each > 1
          ? sum(numbers[row].slice(column * each, (column + 1) * each)) / each
          : numbers[row][column],
      ),
    );
    set(foot, { text: `what each pair adds${each > 1 ? ` (means of ${each})` : ""}` });
  };

  function drawTable({ d, length: n }) {
    const right = size.width - RIGHT;
    y = scale([-0.5, n - 0.5], [TOP, BOTTOM]);
    const stride = [1, 2, 4, 8, 16].find((s) => n / s <= 8);
    const word = (text, at, anchor) =>
      svg("text", { x: at, y: BOTTOM + 17, class: "lf-tick", "text-anchor": anchor, text });
    frame = swap(
      frame,
      svg(
        "g",
        {},
        word("fast waves", LEFT, "start"),
        word("slow waves", right, "end"),
        axes({
          y,
          left: LEFT - 26,
          right,
          top: TOP,
          bottom: BOTTOM,
          x: null,
          xTicks: [],
          xLabel: "",
          yLabel: "position ↓",
          yTicks: steps(Math.ceil(n / stride)).map((i) => [i * stride, String(i * stride)]),
        }),
      ),
    );
    const turns = turnsOf(d);
    stripes(
      table,
      steps(n).map((pos) => address(pos, turns)),
      d,
    );
  }

  function drawChart({ view: kind, d, length: n, last }) {
    const frameOf = { left: 40, right: room.width - 16, top: TOP, bottom: CHART - 36 };
    list = dots(kind, d, n);
    x = scale([-last, last], [frameOf.left, frameOf.right]);
    up = scale([Math.min(...list) < 0 ? -d / 2 : 0, d / 2], [frameOf.bottom, TOP]);
    const stride = [2, 4, 8, 16, 32, 64].find((s) => n / s <= room.width / 110);
    const ticks = steps(2 * Math.floor(last / stride) + 1, -Math.floor(last / stride)).map((i) => [
      i * stride,
      fixed(i * stride, 0),
    ]);
    grid = swap(
      grid,
      axes({
        ...frameOf,
        x,
        y: up,
        xTicks: ticks,
        xLabel: "distance, b − a",
        yLabel: "dot product a · b",
        yTicks: steps(5, -2)
          .map((i) => (i * d) / 4)
          .filter((tick) => up(tick) <= frameOf.bottom)
          .map((tick) => [tick, fixed(tick, tick % 1 ? 1 : 0)]),
      }),
    );
    set(line, {
      points: list.map((value, i) => `${x(i - last).toFixed(1)},${up(value).toFixed(1)}`).join(" "),
    });
  }

  function drawRows({ d, last, a, b }) {
    const [one, two] = [a, b].map((pos) => address(pos, turnsOf(d)));
    const pairs = steps(d / 2).map(
      (i) => one[2 * i] * two[2 * i] + one[2 * i + 1] * two[2 * i + 1],
    );
    [one, two, pairs].forEach((numbers, i) => stripes(strips[i], [numbers], d));
    const [wide, high] = [size.width - LEFT - RIGHT, Math.max(4, y(1) - y(0))];
    [a, b].forEach((pos, i) => {
      place(rows[i], i ? LEFT + wide + 14 : LEFT - 14, y(pos), {
        "aria-label": `position ${"ab"[i]}, a row of the table`,
        "aria-orientation": "vertical",
        "aria-valuenow": pos,
        "aria-valuemin": 0,
        "aria-valuemax": last,
      });
      set(rows[i].firstChild, { x: i ? -wide - 14 : 14, y: -high / 2, width: wide, height: high });
    });
  }

  function drawDials({ d, a, b }) {
    const [half, turns, vectors] = [d / 2, turnsOf(d), content(d)];
    const [query, key] = [rotate(vectors[0], a, turns), rotate(vectors[1], b, turns)];
    dials.forEach((dial, n) => {
      const i = half <= DIALS ? n : Math.round((n * (half - 1)) / (DIALS - 1));
      set(dial.element, { "data-hidden": i >= half });
      if (i >= half) return;
      const angles = [query, key].map((vector) => Math.atan2(vector[i + half], vector[i]));
      dial.hands.forEach((hand, j) =>
        set(hand, { transform: `rotate(${((-angles[j] * 180) / Math.PI).toFixed(1)})` }),
      );
      const [from, to] = angles.map(
        (angle) => `${(24 * Math.cos(angle)).toFixed(1)} ${(-24 * Math.sin(angle)).toFixed(1)}`,
      );
      set(dial.wedge, {
        d: `M0 0L${from}A24 24 0 0 ${Number(Math.sin(angles[1] - angles[0]) < 0)} ${to}Z`,
      });
      const degrees = (turns[i] * 180) / Math.PI;
      set(dial.turn, {
        text: `${degrees < 9.5 ? Number(degrees.toPrecision(1)) : Math.round(degrees)}° a step`,
      });
      set(dial.adds, { text: fixed(query[i] * key[i] + query[i + half] * key[i + half]) });
    });
    set(turning.lastChild, {
      text: `under each: what it adds to the dot product${half > DIALS ? ` (${DIALS} of ${half} pairs shown)` : ""}`,
    });
  }

  function draw() {
    const { view: kind, d, length: n, last, a, b } = now();
    const wanted = `${kind} ${d} ${n} ${size.width} ${room.width}`;
    if (wanted !== drawn)
      [drawn] = [wanted, kind === "waves" && drawTable(now()), drawChart(now())];
    [
      [view, kind],
      [width, d],
      [length, n],
    ].forEach(([control, value]) => control.update(value));
    [
      [first, a, last],
      [second, b, last],
      [both, Math.min(a, b), last - Math.abs(a - b)],
    ].forEach(([one, value, end]) => {
      set(one.element.querySelector("input"), { max: end });
      one.update(value);
    });
    [
      [waves, "waves"],
      [turning, "rotary"],
    ].forEach(([part, name]) => set(part, { "data-hidden": kind !== name }));
    place(zero, x(0), up(list[last]));
    place(here, x(b - a), up(list[last + b - a]), {
      "aria-label": "distance from a to b",
      "aria-valuenow": b - a,
      "aria-valuemin": -last,
      "aria-valuemax": last,
    });
    (kind === "waves" ? [drawRows, drawDials] : [drawDials]).forEach((part) => part(now())); // dials are cheap, so they're always up to date
    const [far, product] = [Math.abs(a - b), fixed(list[last + b - a])];
    if (kind === "rotary")
      return `The query at ${a} and the key at ${b} have the dot product ${product}, as at any position with the key ${
        far ? `${far} ${b > a ? "after" : "before"} the query` : "where the query is"
      }.`;
    return far
      ? `Rows ${a} and ${b} have the dot product ${product}, like any two rows ${far} apart. A row with itself has ${d / 2}.`
      : `Row ${a} with itself has the dot product ${product}, half the width, like every row.`;
  }

  return {
    controls: [view.element, second.element, both.element],
    more: [first.element, width.element, length.element],
    picture: [html("div", { class: "pe-views" }, waves, turning), chart],
    draw,
    longest: [
      "The query at 127 and the key at 127 have the dot product −128.00, as at any position with the key 127 before the query.",
    ],
  };
}

export default live({
  name: "PositionsExplorer",
  title: () => "How can waves tell positions apart?",
  state: {
    view: ["waves", "rotary"],
    d_model: [2, 256, 1],
    length: [8, 128, 1],
    first: [0, 127, 1],
    second: [0, 127, 1],
  },
  build,
});
