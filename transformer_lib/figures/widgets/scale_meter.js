// ScaleMeter: why divide by √d_k? Dot products of random vectors, and their softmax.
import {
  axes,
  button,
  canvas,
  clamp,
  dot,
  fixed,
  html,
  live,
  percent,
  rich,
  scale,
  set,
  slider,
  softmax,
  steps,
  sum,
  svg,
  toggle,
  uniform,
} from "./kit.js";

// ---- arithmetic

/** `n` numbers from N(0, 1) by the Box-Muller transform, two from each pair of uniform numbers. */
export function normals(n, next) {
  const numbers = new Float64Array(n);
  for (let i = 0; i < n; i += 2) {
    const radius = Math.sqrt(-2 * Math.log(1 - next()));
    const angle = 2 * Math.PI * next();
    numbers[i] = radius * Math.cos(angle);
    if (i + 1 < n) numbers[i + 1] = radius * Math.sin(angle);
  }
  return numbers;
}

export const [KEYS, QUERIES] = [16, 64];

/** 64 random lookups in 16 random keys, all from N(0, 1): scores (QUERIES rows of KEYS), the keys' values, and the dot
 *  products of the keys with each other (KEYS rows of KEYS), which the gradients need. */
export function drawLookups(dK, seed) {
  const next = uniform(seed);
  const keys = normals(KEYS * dK, next);
  const queries = normals(QUERIES * dK, next);
  const products = (rows, n) =>
    steps(n).map((q) =>
      steps(KEYS).map((k) => {
        let product = 0;
        for (let i = 0; i < dK; i += 1) product += rows[q * dK + i] * keys[k * dK + i];
        return product;
      }),
    );
  return {
    scores: products(queries, QUERIES),
    values: [...normals(KEYS, next)],
    between: products(keys, KEYS),
  };
}

const mean = (list) => sum(list) / list.length;
const median = (list) => [...list].sort((a, b) => a - b)[(list.length - 1) >> 1]; // the lower one, as in PyTorch

/** Measures the softmax of scale · scores: means over the queries, entropy in bits. An answer a = Σ w v has the gradient
 *  scale · Σ w (v − a) · key at its query: typical is the median of its length, average the mean. */
export function measure({ scores, values, between }, factor = 1) {
  const weights = scores.map((row) => softmax(row.map((score) => factor * score)));
  const all = scores.flat();
  const middle = mean(all);
  const gradients = weights.map((row) => {
    const answer = dot(row, values);
    const parts = row.map((w, k) => w * (values[k] - answer));
    return (
      factor *
      Math.sqrt(
        Math.max(
          0,
          dot(
            parts,
            between.map((line) => dot(line, parts)),
          ),
        ),
      )
    );
  });
  return {
    weights,
    spread: factor * Math.sqrt(mean(all.map((s) => (s - middle) ** 2))),
    largest: mean(weights.map((row) => Math.max(...row))),
    entropy: mean(weights.map((row) => -sum(row.map((w) => (w > 0 ? w * Math.log2(w) : 0))))),
    typical: median(gradients),
    average: mean(gradients),
  };
}

/** Counts in `n` equal bins from low to high; numbers outside go into the first or last bin. */
export function histogram(list, low, high, n) {
  const counts = new Array(n).fill(0);
  for (const value of list)
    counts[clamp(Math.floor(((value - low) / (high - low)) * n), 0, n - 1)] += 1;
  return counts;
}

// ---- picture

const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [340, 158, 34, 334, 24, 118];
const [REACH, BINS] = [120, 120]; // the score axis always shows -120…120, so that wider bells look wider

function build({ get, change }) {
  const width = slider({
    label: "d_k, the width of queries and keys",
    last: 9,
    read: (p) => 2 ** (p + 1),
    find: (d) => Math.log2(d) - 1,
    show: String,
    onInput: (value) => change({ d_k: value }),
  });
  const scaled = toggle({ label: "divide by √d_k", onInput: (value) => change({ scaled: value }) });
  const again = button("New draw", () => change({ seed: (get("seed") % 9999) + 1 }));

  const y = scale([0, 1], [BOTTOM, TOP]);
  const ticks = [
    [0, "0"],
    [0.5, "0.5"],
    [1, "1"],
  ];
  const frame = { y, left: LEFT, right: RIGHT, top: TOP, bottom: BOTTOM, yTicks: ticks };
  const xScore = scale([-REACH, REACH], [LEFT, RIGHT]);
  const area = svg("path", { class: "sm-area" });
  const scoresPicture = canvas(
    WIDTH,
    HEIGHT,
    { class: "lf-svg sm-picture", "aria-hidden": "true" },
    axes({
      ...frame,
      x: xScore,
      xTicks: [-120, -60, 0, 60, 120].map((s) => [s, fixed(s, 0)]),
      xLabel: "score, all queries and keys",
      yLabel: "how often (highest = 1)",
    }),
    area,
  );
  const xKey = scale([0.5, KEYS + 0.5], [LEFT, RIGHT]);
  const bars = steps(KEYS).map((k) =>
    svg("rect", { x: xKey(k + 0.6), width: xKey(1.4) - xKey(0.6), class: "sm-bar" }),
  );
  const weightsPicture = canvas(
    WIDTH,
    HEIGHT,
    { class: "lf-svg sm-picture", "aria-hidden": "true" },
    axes({
      ...frame,
      x: xKey,
      xTicks: [1, 4, 8, 12, 16].map((k) => [k, String(k)]),
      xLabel: "key, for the first query",
      yLabel: "weight (dashed: all equal, 1/16)",
    }),
    ...bars,
    svg("line", { class: "sm-uniform", x1: LEFT, x2: RIGHT, y1: y(1 / KEYS), y2: y(1 / KEYS) }),
  );

  const rows = [
    ["spread", "spread of scores", 2],
    ["largest", "largest weight", 2],
    ["entropy", "entropy, of 4 bits", 2],
    ["typical", "gradient, median", null],
    ["average", "gradient, mean", null],
  ];
  const short = (x) => (x < 0.0005 && x > 0 ? "< 0.001" : fixed(x, x < 0.095 ? 3 : 2));
  const cells = rows.map(() => [html("td"), html("td")]);
  const heads = ["as is", "÷ √d_k"].map((text) => html("th", { scope: "col" }, ...rich(text)));
  const table = html(
    "table",
    { class: "sm-table lf-wide" },
    html("caption", { text: "over 64 queries; gradient: its length at the query" }),
    html("thead", {}, html("tr", {}, html("td"), ...heads)),
    html(
      "tbody",
      {},
      ...rows.map(([, text], i) => html("tr", {}, html("th", { scope: "row", text }), ...cells[i])),
    ),
  );

  let [drawn, lookups, both] = ["", null, []];
  function draw() {
    const [d, seed, divide] = [get("d_k"), get("seed"), get("scaled")];
    if (drawn !== `${d} ${seed}`) {
      lookups = drawLookups(d, seed);
      both = [1, 1 / Math.sqrt(d)].map((factor) => ({ factor, ...measure(lookups, factor) }));
      drawn = `${d} ${seed}`;
    }
    const now = both[Number(divide)];
    width.update(d);
    scaled.update(divide);
    const counts = histogram(
      lookups.scores.flat().map((score) => now.factor * score),
      -REACH,
      REACH,
      BINS,
    );
    const top = Math.max(...counts);
    const bin = scale([0, BINS], [LEFT, RIGHT]);
    set(area, {
      d: `M${LEFT} ${BOTTOM}${counts.map((n, i) => `V${fixed(y(n / top), 1)}H${fixed(bin(i + 1), 1)}`).join("")}V${BOTTOM}Z`,
    });
    bars.forEach((bar, k) =>
      set(bar, { y: y(now.weights[0][k]), height: BOTTOM - y(now.weights[0][k]) }),
    );
    rows.forEach(([name, , digits], i) =>
      both.forEach((one, j) => {
        set(cells[i][j], {
          text: digits ? fixed(one[name], digits) : short(one[name]),
          "data-now": j === Number(divide),
        });
      }),
    );
    heads.forEach((head, j) => set(head, { "data-now": j === Number(divide) }));
    return (
      `d_k = ${d}, ${divide ? "scaled" : "unscaled"}: scores spread by ${fixed(now.spread, 1)}, the best key gets ${percent(now.largest)} of the weight, ` +
      `and the typical gradient is ${short(now.typical)}.`
    );
  }

  return {
    controls: [width.element, scaled.element, again],
    picture: [scoresPicture, weightsPicture, table],
    draw,
    longest: [
      "d_k = 1024, unscaled: scores spread by 32.0, the best key gets 100\u00a0% of the weight, " +
        "and the typical gradient is < 0.001.",
    ],
  };
}

export default live({
  name: "ScaleMeter",
  title: () => "Why divide by √d_k?",
  state: { d_k: [2, 1024, 1], scaled: [], seed: [1, 9999, 1] },
  build,
});
