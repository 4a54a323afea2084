// HeadsExplorer: what does this head attend to, and what happens to the text without it? All results are stored.
import {
  canvas,
  choice,
  clamp,
  fixed,
  fluid,
  html,
  live,
  longest,
  moved,
  percent,
  set,
  steps,
  svg,
  toggle,
  tokenStrip,
} from "./kit.js";

// ---- arithmetic

/** The key with the largest weight in a row. */
export const strongest = (row) => row.indexOf(Math.max(...row));
/** The probability of a text. */
export const together = (probabilities) => probabilities.reduce((product, p) => product * p, 1);

// ---- picture

const NAMES = { encoder: "encoder", decoder: "decoder", cross: "cross-attention" };
const LEFT = 64;

function build({ get, change }) {
  const [kinds, weights, writes] = ["kinds", "weights", "writes"].map(get);
  const words = {
    encoder: [get("source"), get("source")],
    decoder: [writes, get("reads")],
    cross: [writes, get("source")],
  };
  const [layers, heads] = [weights[0].length, weights[0][0].length];
  const [answer, all] = [get("answer"), get("together")];
  // A long text's probability rounds to 0.00.
  const told = together(get("probabilities")) < 0.005 ? (p) => p.toExponential(0) : fixed;
  const now = () => {
    const kind = get("attention");
    const k = kinds.indexOf(kind);
    const [queries, keys] = words[kind];
    const [layer, head] = [Math.min(get("layer"), layers - 1), Math.min(get("head"), heads - 1)];
    const token = Math.min(get("token"), queries.length - 1);
    const before = get("probabilities");
    return {
      kind,
      k,
      queries,
      keys,
      layer,
      head,
      token,
      map: weights[k][layer][head],
      before,
      after: get("off") ? get("without")[k][layer][head] : before,
    };
  };
  const look = (token) => {
    if (token !== get("token")) change({ token });
  };

  const counted = (label, n, name) =>
    choice({
      label,
      options: steps(n).map((i) => [i, String(i + 1)]),
      onInput: (i) => change({ [name]: i }),
    });
  const attention = choice({
    label: "attention",
    onInput: (value) => change({ attention: value }),
    options: kinds.map((kind) => [kind, kind]),
  });
  const layer = counted("layer", layers, "layer");
  const head = counted("head", heads, "head");
  const off = toggle({ label: "switch it off", onInput: (value) => change({ off: value }) });
  const strips = kinds.map((kind) =>
    tokenStrip({
      words: words[kind][0],
      onInput: look,
      label:
        kind === "encoder"
          ? "a word it reads: what does it attend to?"
          : "a token it writes: what does it attend to?",
    }),
  );
  const stack = html("div", { class: "lf-room he-stack" }, ...strips.map((strip) => strip.element)); // all in the same place

  // The heat maps, queries on rows, one for each kind of attention.
  const rows = Math.max(...kinds.flatMap((kind) => words[kind].map((list) => list.length)));
  const ROW = rows > 16 ? 14 : 20;
  const TOP =
    14 + 7 * Math.max(...kinds.flatMap((kind) => words[kind][1].map((word) => word.length))); // room for upright words
  const height = TOP + ROW * rows + 4;
  const heat = canvas(640, height, { role: "img", class: "lf-svg he-svg" });
  const maps = kinds.map((kind) => {
    const [queries, keys] = words[kind];
    const cells = queries.map(() =>
      keys.map(() => svg("rect", { class: "he-cell", height: ROW - 1 })),
    );
    const names = queries.map((word, i) =>
      svg("text", { x: LEFT - 6, y: TOP + ROW * i + 14, "text-anchor": "end", text: word }),
    );
    const tops = keys.map((word) => svg("text", { text: word }));
    const frame = svg("rect", { class: "he-frame", x: LEFT - 1, height: ROW + 1 });
    const bands = queries.map((_, i) =>
      svg("rect", {
        class: "he-band",
        x: 0,
        y: TOP + ROW * i,
        height: ROW,
        onpointermove: moved(() => look(i)),
        onpointerdown: () => look(i),
      }),
    );
    return {
      cells,
      names,
      tops,
      frame,
      bands,
      group: svg("g", {}, ...names, ...tops, ...cells.flat(), frame, ...bands),
    };
  });
  heat.append(...maps.map((map) => map.group));

  // The same as lines: thick ones from the chosen token, thin ones from each other token to its strongest key.
  const lines = canvas(340, height, { role: "img", class: "lf-svg he-svg" });
  const ties = steps(rows).map(() => svg("line", { class: "he-tie" }));
  const faint = steps(rows).map(() => svg("line", { class: "he-faint" }));
  const left = steps(rows).map(() => svg("text", { x: 74, "text-anchor": "end" }));
  const right = steps(rows).map(() => svg("text", {}));
  const heading = [
    svg("text", { x: 74, y: TOP - 14, class: "lf-axis", "text-anchor": "end", text: "attends to" }),
    svg("text", { y: TOP - 14, class: "lf-axis" }),
  ];
  const places = steps(rows).map((i) =>
    svg("rect", {
      class: "he-band",
      height: ROW,
      width: 90,
      onpointermove: moved(() => look(i)),
      onpointerdown: () => look(i),
    }),
  );
  lines.append(...heading, ...faint, ...ties, ...left, ...right, ...places);

  // The probabilities of the written tokens: outlined with all heads, filled with this one off.
  const bars = canvas(640, 74, { role: "img", class: "lf-svg he-svg he-bars" });
  const frames = writes.map(() => svg("rect", { class: "he-whole" }));
  const fills = writes.map(() => svg("rect", { class: "he-fill" }));
  const labels = writes.map((word) =>
    svg("text", { y: 56, "text-anchor": "middle", text: word === "<eos>" ? "end" : word }),
  );
  bars.append(...fills, ...frames, ...labels);
  const sizes = [
    fluid(heat, height, () => draw()),
    fluid(lines, height, () => draw()),
    fluid(bars, 74, () => draw()),
  ];

  function drawHeat({ k, queries, keys, map, token }) {
    const width = clamp(Math.floor((sizes[0].width - LEFT) / keys.length), 4, 34);
    maps.forEach((each, i) => set(each.group, { visibility: i === k ? "visible" : "hidden" }));
    const { cells, tops, frame, bands } = maps[k];
    cells.forEach((row, i) =>
      row.forEach((cell, j) =>
        set(cell, {
          x: LEFT + j * width,
          y: TOP + ROW * i,
          width: width - 1,
          "fill-opacity": fixed(map[i][j], 3),
        }),
      ),
    );
    tops.forEach((text, j) =>
      set(text, {
        transform: `translate(${LEFT + (j + 0.5) * width + 4} ${TOP - 6}) rotate(-90)`,
        visibility: width < 12 ? "hidden" : null,
      }),
    );
    set(frame, { y: TOP + ROW * token - 1, width: width * keys.length + 1 });
    bands.forEach((band) => set(band, { width: LEFT + width * keys.length }));
    set(heat, {
      "aria-label": `weights of ${queries.length} queries, on rows, over ${keys.length} keys`,
    });
  }

  function drawLines({ kind, queries, keys, map, token }) {
    const [from, to] = [Math.min(340, sizes[1].width) - 96, 80];
    const pitch = (list) => Math.min(3 * ROW, (ROW * rows) / list.length); // spreads out a few words
    const at = (list) => (i) =>
      TOP + (ROW * rows - pitch(list) * list.length) / 2 + pitch(list) * (i + 0.5);
    const [y, z] = [at(queries), at(keys)];
    const show = (element, on, attributes) =>
      set(element, { visibility: on ? null : "hidden", ...attributes });
    set(heading[1], { x: from + 6, text: kind === "encoder" ? "this word" : "to write this" });
    steps(rows).forEach((i) => {
      show(left[i], i < keys.length, {
        y: z(i) + 4,
        text: keys[i] ?? "",
        "font-weight": map[token][i] > 0.3 ? 700 : 400,
      });
      show(right[i], i < queries.length, {
        x: from + 6,
        y: y(i) + 4,
        text: queries[i] ?? "",
        "font-weight": i === token ? 700 : 400,
      });
      show(places[i], i < queries.length, { x: from, y: y(i) - 10 });
      show(ties[i], i < keys.length && map[token][i] >= 0.005, {
        x1: from,
        y1: y(token),
        x2: to,
        y2: z(i),
        "stroke-width": fixed(0.6 + 5 * (map[token][i] ?? 0)),
        "stroke-opacity": fixed(0.25 + 0.75 * (map[token][i] ?? 0)),
      });
      show(faint[i], i < queries.length && i !== token, {
        x1: from,
        y1: y(i),
        x2: to,
        y2: z(strongest(map[i] ?? [0])),
      });
    });
    set(lines, { "aria-label": `lines from ${queries[token]} to what it attends to` });
  }

  function drawBars({ before, after }) {
    const longest = 7 * Math.max(...writes.map((word) => word.length)) + 6; // width of the widest label
    const width = Math.min(Math.max(44, longest), sizes[2].width / writes.length);
    writes.forEach((_, i) => {
      const bar = (p) => ({
        x: fixed(i * width + 2),
        width: fixed(width - 4),
        y: fixed(42 - 40 * p),
        height: fixed(40 * p),
      });
      set(frames[i], bar(before[i]));
      set(fills[i], { ...bar(after[i]), "data-fallen": before[i] - after[i] > 0.1 });
      set(labels[i], { x: fixed((i + 0.5) * width), y: longest > width && i % 2 ? 70 : 56 }); // in two rows if they're crowded
    });
    set(bars, {
      "aria-label": `probability of each ${answer}: ${after.map((p, i) => `${writes[i]} ${percent(p)}`).join(", ")}`,
    });
  }

  function draw() {
    const state = now();
    attention.update(state.kind);
    layer.update(state.layer);
    head.update(state.head);
    off.update(get("off"));
    strips.forEach((strip, i) => {
      set(strip.element, { "data-here": i === state.k });
      strip.update(state.token);
    });
    drawHeat(state);
    drawLines(state);
    drawBars(state);
    return sentence(state);
  }

  function sentence({ kind, queries, keys, layer: l, head: h, token, map, before, after }) {
    const best = strongest(map[token]);
    const what = kind === "encoder" ? `reading “${queries[token]}”` : `writing “${queries[token]}”`;
    const seen = `Head ${h + 1} of layer ${l + 1}, ${NAMES[kind]}: ${what}, it attends to “${keys[best]}” with ${percent(map[token][best])}.`;
    if (!get("off"))
      return `${seen} With all heads ${all} has probability ${told(together(before))}.`;
    return `${seen} Without it ${all} has probability ${told(together(after))} instead of ${told(together(before))}.`;
  }

  const [word] = longest(kinds.flatMap((name) => words[name].flat()));
  const fullest = `Head ${heads} of layer ${layers}, ${longest(kinds.map((name) => NAMES[name]))[0]}: reading “${word}”, it attends to “${word}” with 100\u00a0%. Without it ${all} has probability ${told(1e-99)} instead of ${told(1e-99)}.`;
  const wanted = [
    [layer, layers],
    [head, heads],
  ]
    .filter(([, n]) => n > 1)
    .map(([part]) => part.element);
  const caption = html("p", {
    class: "lf-legend",
    text: `probability of each ${answer} (outline: all heads)`,
  });
  return {
    controls: [...wanted, off.element, stack],
    picture: [
      html("div", { class: "lf-wide" }, heat),
      html("div", { class: "lf-wide" }, caption, bars),
    ],
    more: [
      ...(kinds.length > 1 ? [attention.element] : []),
      html("div", { class: "he-lines" }, lines),
    ],
    draw,
    longest: [fullest],
  };
}

export default live({
  name: "HeadsExplorer",
  title: () => "What does this head look at?",
  state: {
    attention: ["encoder", "decoder", "cross"],
    layer: [0, 99, 1],
    head: [0, 99, 1],
    token: [0, 99, 1],
    off: [],
  },
  build,
});
