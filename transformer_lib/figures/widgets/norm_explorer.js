// NormExplorer: which numbers does a norm use? A padded batch, cell by cell, under layer norm and batch norm.
import {
  canvas,
  choice,
  clamp,
  fixed,
  fluid,
  heatMap,
  html,
  live,
  longest,
  scale,
  set,
  slider,
  steps,
  sum,
  svg,
  toggle,
  tokenStrip,
} from "./kit.js";

// ---- arithmetic

/** The [sentence, position] of each word, through all sentences. */
export const places = (sentences) => sentences.flatMap((words, s) => words.map((_, t) => [s, t]));

/** The batch, (B, T, d), padded with zeros. */
export function padded({ sentences, vectors, length }) {
  let next = 0;
  return sentences.map((words) =>
    steps(length).map((t) => (t < words.length ? vectors[next++] : vectors[0].map(() => 0))),
  );
}

/** Whether the norm of the number at [sentence, place, feature] uses the number at [s, t, f]. */
export function sees(norm, sentences, [sentence, place, feature], [s, t, f]) {
  if (norm === "layer") return s === sentence && t === place;
  return f === feature && (norm === "batch" || t < sentences[s].length);
}

/** The numbers that the norm of the one at `at` uses, and how many of them are padding. */
export function poolOf({ norm, sentences, vectors, length }, at) {
  const pool = { numbers: [], pads: 0 };
  padded({ sentences, vectors, length }).forEach((row, s) =>
    row.forEach((token, t) =>
      token.forEach((x, f) => {
        if (!sees(norm, sentences, at, [s, t, f])) return;
        pool.numbers.push(x);
        pool.pads += t >= sentences[s].length;
      }),
    ),
  );
  return pool;
}

/** Mean and biased standard deviation, with an epsilon of 0.00001 under the root. */
export function statistics(numbers) {
  const mean = sum(numbers) / numbers.length;
  return {
    mean,
    deviation: Math.sqrt(sum(numbers.map((x) => (x - mean) ** 2)) / numbers.length + 1e-5),
  };
}

/** The norm's output for the whole batch; ignored padding stays 0. */
export function normalized(state) {
  const cached = new Map();
  return padded(state).map((row, s) =>
    row.map((token, t) =>
      token.map((x, f) => {
        if (state.norm === "real" && t >= state.sentences[s].length) return 0;
        const key = state.norm === "layer" ? `${s} ${t}` : f;
        if (!cached.has(key)) cached.set(key, statistics(poolOf(state, [s, t, f]).numbers));
        return (x - cached.get(key).mean) / cached.get(key).deviation;
      }),
    ),
  );
}

// ---- picture

const MOST = 8; // columns of a table, even with less padding
const [HEIGHT, AXIS] = [112, 46];
const short = (x) => fixed(x, 1);

function build({ get, all, change }) {
  const [sentences, vectors] = [get("sentences"), get("vectors")];
  const spots = places(sentences);
  const features = vectors[0].map((_, f) => f);
  const least = Math.max(...sentences.map((words) => words.length));

  const norm = choice({
    label: "norm",
    options: [
      ["layer", "layer norm"],
      ["batch", "batch norm"],
      ["real", "batch, real words"],
    ],
    onInput: (value) => change({ norm: value }),
  });
  const length = slider({
    label: "all padded to",
    last: MOST - least,
    read: (p) => least + p,
    find: (n) => n - least,
    show: (n) => `${n} words`,
    onInput: (value) => change({ length: value }),
  });
  const strip = tokenStrip({
    label: "the word to normalize",
    words: sentences.flat(),
    onInput: (word) => change({ word }),
  });
  const which = choice({
    label: "its feature",
    options: features.map((f) => [f, String(f + 1)]),
    onInput: (feature) => change({ feature }),
  });
  const after = toggle({ label: "show the output", onInput: (on) => change({ after: on }) });

  const tables = sentences.map((words, s) => {
    const columns = steps(MOST).map((t) => words[t] ?? "");
    const map = heatMap({
      caption: `sentence ${s + 1}`,
      rows: features.map((f) => String(f + 1)),
      columns,
    });
    const tops = [...map.element.tHead.querySelectorAll("th span")];
    map.cells.forEach((row, f) =>
      row.forEach(
        (cell, t) =>
          t < words.length &&
          set(cell, {
            onpointerdown: () =>
              change({ word: spots.findIndex(([a, b]) => a === s && b === t), feature: f }),
          }),
      ),
    );
    return { ...map, tops };
  });

  const size = Math.max(1, ...vectors.flat().map(Math.abs));
  const line = canvas(640, HEIGHT, { class: "lf-svg ne-line", role: "img" });
  const band = svg("rect", { y: AXIS - 22, height: 44, class: "ne-band" });
  const middle = svg("line", { y1: AXIS - 28, y2: AXIS + 28, class: "ne-mean" });
  const ground = svg("line", { y1: AXIS, y2: AXIS, class: "lf-grid" });
  const dots = steps(Math.max(sentences.length * MOST, features.length)).map(() =>
    svg("circle", { r: 5, class: "ne-dot" }),
  );
  const chosen = svg("circle", { r: 7, class: "lf-knob" });
  const label = svg("text", { y: 12, class: "lf-halo", "text-anchor": "middle" });
  const sumUp = svg("text", { y: 108 });
  const ticks = steps(7).map(() =>
    svg("text", { y: 88, class: "lf-tick", "text-anchor": "middle" }),
  );
  line.append(ground, band, middle, ...ticks, ...dots, chosen, label, sumUp);
  const width = fluid(line, HEIGHT, () => draw());
  const grid = html("div", { class: "ne-grid lf-wide" }, ...tables.map((map) => map.element), line);

  function draw() {
    const state = { ...all(), sentences, vectors }; // an address may ask for a word or feature that doesn't exist
    [state.word, state.feature] = [
      Math.min(state.word, spots.length - 1),
      Math.min(state.feature, features.length - 1),
    ];
    const [s, t] = spots[state.word];
    const at = [s, t, state.feature];
    const shown = state.after ? normalized(state) : padded(state);
    norm.update(state.norm);
    length.update(state.length);
    strip.update(state.word);
    which.update(state.feature);
    after.update(state.after);
    tables.forEach((map, i) => {
      map.tops.forEach((top, j) => {
        set(top, { text: sentences[i][j] ?? "pad" });
        set(top.parentElement, { "data-none": j >= state.length });
      });
      map.update(
        features.map((f) => steps(MOST).map((j) => (j < state.length ? shown[i][j][f] : 0))),
        { show: short, size },
      );
      map.cells.forEach((row, f) =>
        row.forEach((cell, j) =>
          set(cell, {
            "data-none": j >= state.length,
            "data-pool": j < state.length && sees(state.norm, sentences, at, [i, j, f]),
            "data-at": i === s && j === t && f === state.feature,
          }),
        ),
      );
    });
    return measure(state, at);
  }

  function measure(state, at) {
    const x = vectors[state.word][state.feature];
    const pool = poolOf(state, at);
    const { mean, deviation } = statistics(pool.numbers);
    const result = (x - mean) / deviation;
    const place = scale([-size, size], [14, width.width - 14]);
    const [left, right] = [mean - deviation, mean + deviation].map((y) =>
      clamp(place(y), 0, width.width),
    );
    set(ground, { x1: 0, x2: width.width });
    set(band, { x: left, width: right - left });
    set(middle, { x1: place(mean), x2: place(mean) });
    ticks.forEach((tick, i) =>
      set(tick, {
        x: place(((i - 3) / 3) * size),
        text: fixed(((i - 3) / 3) * size, size % 3 ? 1 : 0),
      }),
    );
    const level = new Map(); // how many dots each number has, to stack equal ones
    dots.forEach((dot, i) => {
      const y = pool.numbers[i];
      const up = level.get(y) ?? 0;
      level.set(y, up + 1);
      set(dot, {
        hidden: y === undefined,
        cx: place(y ?? 0),
        cy: AXIS - Math.min(up, 12) * 2,
        "data-pad": y === 0 && pool.pads > 0,
      });
      dot.style.display = y === undefined ? "none" : "";
    });
    set(chosen, { cx: place(x), cy: AXIS });
    set(label, {
      x: clamp(place(mean), 96, width.width - 96),
      text: `mean ${fixed(mean)}, deviation ${fixed(deviation)}`,
    });
    set(sumUp, {
      text: `(${fixed(x)} − ${mean < 0 ? `(${fixed(mean)})` : fixed(mean)}) / ${fixed(deviation)} = ${fixed(result)}`,
    });
    set(line, {
      "aria-label": `${pool.numbers.length} numbers, mean ${fixed(mean)}, deviation ${fixed(deviation)}`,
    });

    return sentence(state, at, x, pool, result);
  }

  function sentence(state, at, x, pool, result) {
    const [one, many] = [`eature ${state.feature + 1} of `, pool.numbers.length];
    const start = `F${one}${sentences.flat()[state.word]}, ${fixed(x)}, becomes ${fixed(result)}, compared with`;
    if (state.norm === "layer")
      return `${start} the ${many} features of its own word, whatever else is in the batch.`;
    if (state.norm === "real")
      return `${start} f${one}all ${many} real words, in every sentence. Padding doesn’t count.`;
    if (pool.pads === 0) return `${start} f${one}all ${many} words. There is no padding here.`;
    const real = statistics(poolOf({ ...state, norm: "real" }, at).numbers);
    const without = fixed((x - real.mean) / real.deviation);
    return `${start} f${one}all ${many} positions, ${pool.pads} of them padding. Without padding: ${without}.`;
  }

  const state = {
    sentences,
    vectors,
    length: MOST,
    feature: features.length - 1,
    word: sentences.flat().indexOf(longest(sentences.flat())[0]),
  };
  const fullest = ["layer", "real", "batch"].flatMap((kind) =>
    [12, 0].map((pads) =>
      sentence(
        { ...state, norm: kind },
        [...spots[state.word], state.feature],
        -1.23,
        { numbers: steps(12), pads },
        -1.23,
      ),
    ),
  );
  return {
    controls: [norm.element, length.element],
    more: [strip.element, which.element, after.element],
    picture: [grid],
    draw,
    longest: fullest,
  };
}

export default live({
  name: "NormExplorer",
  title: () => "Which numbers does a norm look at?",
  state: {
    norm: ["layer", "batch", "real"],
    length: [1, MOST, 1],
    word: [0, 11, 1],
    feature: [0, 5, 1],
    after: [],
  },
  build,
});
