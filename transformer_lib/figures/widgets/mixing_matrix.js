// MixingMatrix: who takes from whom? A weight matrix times the words' vectors gives a mix for each word.
import {
  choice,
  dot,
  fixed,
  heatMap,
  html,
  live,
  longest,
  percent,
  slider,
  softmax,
  steps,
  sum,
  tint,
  tokenStrip,
} from "./kit.js";

// ---- arithmetic

/** Row i: how much word i takes from each word. mode: "uniform", "causal", "content" or "content-causal".
 *  Content scores are sharpness · queries · vectors / √d; hidden words have the weight null. */
export function weightsOf({ queries, vectors, mode, sharpness }) {
  const causal = mode.includes("causal");
  const scale = mode.includes("content") ? sharpness / Math.sqrt(vectors[0].length) : 0; // all scores equal
  return queries.map((query, i) => {
    const seen = causal ? vectors.slice(0, i + 1) : vectors;
    const weights = softmax(seen.map((vector) => scale * dot(query, vector)));
    return vectors.map((_, j) => weights[j] ?? null);
  });
}

/** weights @ vectors: each word's mix. */
export const mix = (weights, vectors) =>
  weights.map((row) =>
    vectors[0].map((_, feature) =>
      sum(row.map((weight, j) => (weight ?? 0) * vectors[j][feature])),
    ),
  );

// ---- picture

const short = (x) => (Math.abs(x) < 0.995 ? fixed(x, 2).replace(/^(−?)0/, "$1") : fixed(x, 1)); // .57, 1.0: cells are narrow

function build({ get, change }) {
  const [words, features, vectors] = [get("words"), get("features"), get("vectors")];
  const select = (row) => {
    if (row !== get("row")) change({ row });
  };

  const mode = choice({
    label: "weights",
    onInput: (value) => change({ mode: value }),
    options: ["uniform", "causal", "content", "content-causal"].map((value) => [
      value,
      value.replace("-", ", "),
    ]),
  });
  const sharpness = slider({
    label: "how sharply content counts",
    last: 40,
    read: (p) => p / 4,
    find: (s) => 4 * s,
    show: (s) => fixed(s),
    onInput: (value) => change({ sharpness: value }),
  });
  const strip = tokenStrip({ label: "who takes, and how much from each", words, onInput: select });

  const weightMap = heatMap({
    caption: "weights: row takes from column",
    rows: words,
    columns: words,
    onRow: select,
  });
  const vectorMap = heatMap({ caption: "the words’ vectors", rows: words, columns: features });
  const mixedMap = heatMap({
    caption: "mixed vectors",
    rows: words,
    columns: features,
    onRow: select,
  });
  const size = Math.max(1, ...vectors.flat().map(Math.abs)); // the number with the darkest color
  vectorMap.update(vectors, { show: short, size });
  mixedMap.element.classList.add("mm-bare"); // without the words, which the table next to it has
  const sign = (text) => html("span", { "aria-hidden": "true", text });
  const picture = html(
    "div",
    { class: "mm-product lf-wide" },
    weightMap.element,
    sign("×"),
    vectorMap.element,
    sign("="),
    mixedMap.element,
  );

  function draw() {
    const state = {
      queries: get("queries"),
      vectors,
      mode: get("mode"),
      sharpness: get("sharpness"),
    };
    const row = Math.min(get("row"), words.length - 1);
    const weights = weightsOf(state);
    mode.update(state.mode);
    sharpness.update(state.sharpness);
    sharpness.enable(state.mode.includes("content"));
    strip.update(row);
    strip.shade(weights[row]);
    weightMap.update(weights, { row, show: short });
    mixedMap.update(mix(weights, vectors), { row, show: short, size });
    vectorMap.heads.forEach((head, j) => tint(head, weights[row][j] ?? 0)); // the row, next to the vectors it weighs
    return sentence(state, row, weights[row]);
  }

  const name = (i) =>
    words.indexOf(words[i]) === words.lastIndexOf(words[i])
      ? words[i]
      : `${words[i]} (word ${i + 1})`;
  function sentence({ mode: kind, sharpness: s }, row, weights) {
    const seen = steps(words.length).filter((i) => weights[i] !== null);
    const alike = kind === "uniform" || kind === "causal" || s === 0;
    if (seen.length === 1)
      return `${name(row)} comes first: with nothing before it, it can only take from itself.`;
    if (alike && seen.length < words.length)
      return `${name(row)} takes ${percent(1 / seen.length)} from itself and from each word before it: a running average.`;
    if (alike)
      return `${name(row)} takes ${percent(1 / seen.length)} from every word, and so does every other word: all the mixes are the same.`;
    const [first, second] = [...seen].sort((i, j) => weights[j] - weights[i]);
    const blind =
      seen.length < words.length
        ? `, and nothing from the ${words.length - seen.length} not yet read`
        : "";
    return `${name(row)} takes ${percent(weights[first])} from ${name(first)} and ${percent(weights[second])} from ${name(second)}${blind}.`;
  }

  const all = steps(words.length);
  const long = all.map(name).indexOf(longest(all.map(name))[0]);
  const fullest = [
    ["uniform", all.length],
    ["causal", all.length - 1],
    ["causal", 1],
    ["content", all.length - 1],
  ].map(([kind, seen]) =>
    sentence(
      { mode: kind, sharpness: 1 },
      long,
      all.map((i) => (i < seen || i === long ? (i === long ? 0.5 : 0.1) : null)),
    ),
  );
  return {
    controls: [mode.element, strip.element],
    more: [sharpness.element],
    picture: [picture],
    draw,
    longest: fullest,
  };
}

export default live({
  name: "MixingMatrix",
  title: () => "Who takes from whom?",
  state: {
    mode: ["uniform", "causal", "content", "content-causal"],
    sharpness: [0, 10],
    row: [0, 9, 1],
  },
  build,
});
