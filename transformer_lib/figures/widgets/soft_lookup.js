// SoftLookup: what should `fruit` cost? A query among keys on a plane, and the answer it gets.
import {
  axes,
  canvas,
  choice,
  clamp,
  dot,
  draggable,
  fixed,
  html,
  live,
  longest,
  paint,
  palette,
  percent,
  pointIn,
  room,
  scale,
  set,
  slider,
  softmax,
  steps,
  sum,
  svg,
} from "./kit.js";

// ---- arithmetic

/** One score per key. likeness: "dot", "cosine", or "distance" (minus the squared distance). */
export function scoresOf(query, keys, likeness) {
  return keys.map((key) => {
    if (likeness === "distance") return -sum(key.map((x, i) => (x - query[i]) ** 2));
    if (likeness === "dot") return dot(query, key);
    const lengths = Math.hypot(...query) * Math.hypot(...key);
    return lengths > 0 ? dot(query, key) / lengths : 0; // a zero vector has no direction
  });
}

/** Scores, weights and the answer: weights = softmax(scores / temperature), answer = weights · values. */
export function softLookup({ query, keys, values, temperature, likeness }) {
  const scores = scoresOf(query, keys, likeness);
  const weights = softmax(scores, temperature);
  return { scores, weights, answer: dot(weights, values) };
}

/** The temperature at a position of the slider: 0, then 0.01 to 10 in twenty steps per factor of ten. */
export const temperatureAt = (position) =>
  position === 0 ? 0 : Number((10 ** ((position - 1) / 20 - 2)).toPrecision(2));
const positionOf = (temperature) =>
  temperature < 0.005 ? 0 : 1 + 20 * (Math.log10(temperature) + 2);

// ---- picture

const [WIDTH, HEIGHT, UNIT, LEFT, TOP] = [340, 272, 50, 32, 24]; // the plane shows -3…3 by -2…2
const LIMIT = [3, 2];
const x = scale([-3, 3], [LEFT, LEFT + 6 * UNIT]);
const y = scale([-2, 2], [TOP + 4 * UNIT, TOP]);
const rgb = (color) => [1, 3, 5].map((i) => parseInt(color.slice(i, i + 2), 16));

function build({ get, change }) {
  const words = get("words");
  const colors = words.map((_, i) => palette[i % palette.length]);

  const likeness = choice({
    label: "similarity",
    onInput: (value) => change({ likeness: value }),
    options: [
      ["dot", "dot product"],
      ["cosine", "cosine"],
      ["distance", "distance"],
    ],
  });
  const heat = slider({
    label: "temperature",
    last: 61,
    read: temperatureAt,
    find: positionOf,
    show: (t) => (t === 0 ? "0" : String(Number(t.toPrecision(2)))),
    onInput: (value) => change({ temperature: value }),
  });

  // The plane. In the background, each point has the mixed color of a query there.
  const field = html("canvas", { width: 72, height: 48, class: "sl-field", "aria-hidden": "true" });
  const tick = (n) => [n, fixed(n, 0)];
  const plane = canvas(
    WIDTH,
    HEIGHT,
    { role: "group", "aria-label": "plane with the query and the keys" },
    axes({
      x,
      y,
      left: x(-3),
      right: x(3),
      top: TOP,
      bottom: y(-2),
      xTicks: steps(7, -3).map(tick),
      yTicks: steps(5, -2).map(tick),
      xLabel: `${get("features")[0]} →`,
      yLabel: `↑ ${get("features")[1]}`,
    }),
  );
  const point = (event) => {
    const [px, py] = pointIn(plane, event);
    return [x.invert(px), y.invert(py)];
  };
  const onGrid = (vector) =>
    vector.map((v, i) => Math.round(clamp(v, -LIMIT[i], LIMIT[i]) * 20) / 20);

  const arrows = words.map((_, i) => svg("line", { stroke: colors[i], "stroke-linecap": "round" }));
  const aim = svg("line", { class: "sl-aim", x1: x(0), y1: y(0) });
  const handle = (label, at, to, ...parts) =>
    draggable(
      svg("g", { "aria-label": label }, svg("circle", { r: 21, class: "lf-touch" }), ...parts),
      { at, to: (...vector) => to(onGrid(vector)), point, step: 0.1, leap: 0.5 },
    );
  const keys = words.map((word, i) =>
    handle(
      `key ${word}`,
      () => get("key_vectors")[i],
      (vector) =>
        change({ key_vectors: get("key_vectors").map((key, j) => (j === i ? vector : key)) }),
      svg("circle", { r: 8, fill: colors[i], class: "sl-dot" }),
      svg("text", { "text-anchor": "middle", class: "lf-halo", text: word }),
    ),
  );
  const query = handle(
    `query ${get("query_word")}`,
    () => get("query"),
    (vector) => change({ query: vector }),
    svg("rect", { x: -8, y: -8, width: 16, height: 16, transform: "rotate(45)", class: "lf-knob" }),
    svg("text", { y: 5, class: "lf-halo sl-word", text: get("query_word") }),
  );
  plane.append(...arrows, aim, ...keys, query);
  const place = (element, [a, b]) =>
    set(element, {
      transform: `translate(${x(a)} ${y(b)})`,
      "aria-valuenow": a,
      "aria-valuemin": -3,
      "aria-valuemax": 3,
      "aria-valuetext": `${get("features")[0]} ${fixed(a)}, ${get("features")[1]} ${fixed(b)}`,
    });

  // The table: scores become weights.
  const score = words.map(() => html("td", { class: "sl-number" }));
  const bar = words.map((_, i) => html("div", { class: "sl-bar", "--color": colors[i] }));
  const weight = words.map(() => html("td", { class: "sl-number" }));
  const column = (text) => html("th", { scope: "col", text });
  const table = html(
    "table",
    { class: "sl-table" },
    html("thead", {}, html("tr", {}, column("key"), column("score"), column("weight"), html("td"))),
    html(
      "tbody",
      {},
      ...words.map((word, i) =>
        html(
          "tr",
          {},
          html(
            "th",
            { scope: "row" },
            html("span", { class: "sl-swatch", "--color": colors[i] }),
            html("span", { text: word }),
          ),
          score[i],
          weight[i],
          html("td", { class: "sl-track" }, bar[i]),
        ),
      ),
    ),
  );

  // The equation.
  const terms = words.map((word, i) =>
    html(
      "span",
      { class: "sl-term", "--color": colors[i] },
      html("b"),
      html("small", { text: word }),
    ),
  );
  const price = html("b");
  const answer = html(
    "span",
    { class: "sl-term sl-answer" },
    room(
      price,
      get("values").map((value) => fixed(value)),
    ),
    html("small", { text: get("query_word") }),
  );
  const sign = (text) => html("span", { class: "sl-sign", text });
  const equation = html(
    "div",
    { class: "sl-equation lf-wide" },
    ...terms.flatMap((term, i) => (i ? [sign("+"), term] : [term])),
    sign("="),
    answer,
  );

  const shadeField = () => {
    const { width, height } = field;
    const mix = colors.map(rgb);
    const temperature = Math.max(get("temperature"), 0.1); // for smooth borders
    paint(field, (column, row) => {
      const place = [(6 * (column + 0.5)) / width - 3, 2 - (4 * (row + 0.5)) / height];
      const weights = softmax(scoresOf(place, get("key_vectors"), get("likeness")), temperature);
      return [0, 1, 2].map((c) => sum(weights.map((w, k) => w * mix[k][c]))).concat(70);
    });
  };

  let painted = "";
  function draw() {
    const state = Object.fromEntries(
      ["query", "values", "temperature", "likeness"].map((name) => [name, get(name)]),
    );
    state.keys = get("key_vectors");
    const { scores, weights, answer: mixed } = softLookup(state);
    const wanted = JSON.stringify([state.keys, state.temperature, state.likeness]);
    if (wanted !== painted) shadeField();
    painted = wanted;

    likeness.update(state.likeness);
    heat.update(state.temperature);
    const from = state.likeness === "distance" ? state.query : [0, 0]; // distances start at the query, arrows at the origin
    words.forEach((_, i) => {
      const [a, b] = state.keys[i];
      set(arrows[i], {
        x1: x(from[0]),
        y1: y(from[1]),
        x2: x(a),
        y2: y(b),
        "stroke-width": fixed(1.5 + 6 * weights[i]),
        "stroke-opacity": fixed(0.35 + 0.6 * weights[i]),
      });
      place(keys[i], state.keys[i]);
      const edge = Math.abs(a) > 2.2 ? Math.sign(a) : 0; // no room to center the word
      set(keys[i].lastChild, {
        x: 8 * edge,
        y: b < 0 ? 22 : -13, // away from the arrow
        "text-anchor": edge > 0 ? "end" : edge < 0 ? "start" : "middle",
      });
      set(score[i], { text: fixed(scores[i]) });
      set(weight[i], { text: fixed(weights[i]) });
      set(bar[i], { "--size": `${100 * weights[i]}%` });
      set(terms[i].firstChild, { text: `${fixed(weights[i])}×${state.values[i]}` });
      set(terms[i], { "data-none": weights[i] < 0.005 });
    });
    set(aim, {
      x2: x(state.query[0]),
      y2: y(state.query[1]),
      visibility: state.likeness === "distance" ? "hidden" : "visible",
    });
    place(query, state.query);
    const outside = state.query[0] > 2.2; // no room for the word on the right
    set(query.lastChild, { x: outside ? -15 : 15, "text-anchor": outside ? "end" : "start" });
    set(price, { text: fixed(mixed) });
    return sentence(state, weights, mixed);
  }

  const dearest = -Math.max(...get("values").map(Math.abs));
  const [long] = longest(words);
  function sentence({ temperature: t }, weights, price) {
    const name = get("query_word");
    const order = steps(words.length).sort((i, j) => weights[j] - weights[i]);
    const winners = order.filter((i) => weights[i] === weights[order[0]]);
    if (t === 0 && winners.length === 1) {
      return `At temperature 0 the query ${name} takes everything from the best key, ${words[order[0]]}, so the price is ${fixed(price)}.`;
    }
    const shares = order
      .filter((i) => weights[i] >= 0.005)
      .map((i) => `${percent(weights[i])} from ${words[i]}`);
    const list =
      shares.length > 2
        ? `${shares.slice(0, -1).join(", ")}, and ${shares.at(-1)}`
        : shares.join(" and ");
    return `The query ${name} takes ${list}, so the price is ${fixed(price)}.`;
  }

  return {
    controls: [likeness.element, heat.element],
    picture: [html("div", { class: "sl-plane" }, field, plane), table, equation],
    draw,
    longest: [
      sentence(
        { temperature: 1 },
        words.map(() => 1 / words.length),
        dearest,
      ),
      sentence(
        { temperature: 0 },
        words.map((word) => Number(word === long)),
        dearest,
      ),
    ],
  };
}

export default live({
  name: "SoftLookup",
  title: (get) => `What should \`${get("query_word")}\` cost?`,
  state: {
    query: [-3, 3],
    key_vectors: [-3, 3],
    temperature: [0, 10],
    likeness: ["dot", "cosine", "distance"],
  },
  build,
});
