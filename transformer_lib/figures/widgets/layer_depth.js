// LayerDepth: how similar do tokens become, layer by layer? Cosines of tokens in stacks that the library has run.
import {
  axes,
  canvas,
  choice,
  fixed,
  heatMap,
  html,
  live,
  longest,
  scale,
  set,
  stepper,
  steps,
  svg,
  toggle,
} from "./kit.js";

// ---- arithmetic

const NORMS = [
  ["post", "post-norm"],
  ["pre", "pre-norm"],
  ["none", "none"],
];

/** The index of one of six stacks; the first three have residual connections. */
export const stackOf = (residual, norm) =>
  (residual ? 0 : NORMS.length) + NORMS.findIndex(([name]) => name === norm);

/** The cosines of pairs (0, 1), (0, 2), … (1, 2), … as a table with ones on the diagonal. */
export function tableOf(pairs, n) {
  const table = steps(n).map((i) => steps(n).map((j) => Number(i === j)));
  let at = 0;
  for (let i = 0; i < n; i += 1)
    for (let j = i + 1; j < n; j += 1) table[i][j] = table[j][i] = pairs[at++];
  return table;
}

/** What a mean cosine says about the tokens. */
export const verdict = (mean) =>
  mean >= 0.995
    ? "To two digits, all tokens point the same way."
    : mean >= 0.7
      ? "The tokens are very similar, but you can still tell them apart."
      : "Each token still points its own way.";

// ---- picture

const [WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM] = [320, 190, 34, 26, 308, 150];

function build({ get, change }) {
  const [words, cosines, means] = [get("words"), get("cosines"), get("means")];
  const last = means[0][0].length - 1;
  const depth = stepper({ label: "after layer", last, onInput: (layer) => change({ layer }) });
  const residual = toggle({ label: "residual", onInput: (on) => change({ residual: on }) });
  const norm = choice({
    label: "norm",
    options: NORMS,
    onInput: (value) => change({ norm: value }),
  });

  const map = heatMap({ caption: "cosine of two tokens", rows: words, columns: words });
  const [x, y] = [scale([0, last], [LEFT, RIGHT]), scale([-0.3, 1.1], [BOTTOM, TOP])];
  const lines = means[0].map((_, seed) =>
    svg("path", { class: "ld-line", "data-other": seed > 0 }),
  );
  const here = svg("circle", { r: 6, class: "lf-knob" });
  const chart = canvas(
    WIDTH,
    HEIGHT,
    { role: "img" },
    axes({
      x,
      y,
      left: LEFT,
      bottom: BOTTOM,
      right: RIGHT,
      top: TOP,
      xTicks: steps(5).map((i) => [(i * last) / 4, String((i * last) / 4)]),
      yTicks: [
        [0, "0"],
        [0.5, "0.5"],
        [1, "1"],
      ],
      xLabel: "layer",
      yLabel: "mean cosine, three draws",
    }),
    ...lines.reverse(),
    here,
  );
  lines.reverse(); // the first draw is on top

  const sentence = (on, kind, layer, mean) =>
    `${on ? "With" : "Without"} residual, ${kind === "none" ? "no norm" : `${kind}-norm`}, after ` +
    `${layer} ${layer === 1 ? "layer" : "layers"}: two tokens have a cosine of ${fixed(mean)} on average. ${verdict(mean)}`;

  function draw() {
    const [on, kind, layer] = [get("residual"), get("norm"), get("layer")];
    const stack = stackOf(on, kind);
    residual.update(on);
    norm.update(kind);
    depth.update(layer);
    map.update(tableOf(cosines[stack][layer], words.length), {
      show: (x) => fixed(x).replace("0.", "."), // −.17: cells are narrow
    });
    lines.forEach((line, seed) =>
      set(line, {
        d: `M${means[stack][seed].map((mean, i) => `${fixed(x(i), 1)},${fixed(y(mean), 1)}`).join("L")}`,
      }),
    );
    const mean = means[stack][0][layer];
    set(here, { cx: x(layer), cy: y(mean) });
    set(chart, {
      "aria-label": `mean cosine over ${last} layers: ${fixed(means[stack][0][0])} before the first, ${fixed(means[stack][0].at(-1))} after the last`,
    });
    return sentence(on, kind, layer, mean);
  }

  return {
    controls: [norm.element, residual.element, depth.element],
    picture: [html("div", { class: "ld-map" }, map.element), chart],
    draw,
    longest: longest([-0.1, 0.8, 1].map((mean) => sentence(false, "post", last, mean))),
  };
}

export default live({
  name: "LayerDepth",
  title: () => "How similar do tokens become, layer by layer?",
  build,
  state: { residual: [], norm: NORMS.map(([name]) => name), layer: [0, 24, 1] },
});
