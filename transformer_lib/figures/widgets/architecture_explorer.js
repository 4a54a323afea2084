// ArchitectureExplorer: where do 65 million numbers live? The Transformer with its shapes, counts and chapters.
import {
  canvas,
  choice,
  fluid,
  html,
  live,
  longest,
  palette,
  percent,
  room,
  set,
  slider,
  steps,
  sum,
  svg,
} from "./kit.js";
// ---- arithmetic: the library's parameter_counts, box by box
const GROUPS = ["embeddings", "attention", "feed-forward", "norms", "head"];
const colorOf = (group) => palette[group + 1] ?? "var(--quiet)";
/** Each kind of box: its group, and its formula in words and as a function of the sizes. */
const KINDS = {
  embedding: [0, "vocabulary · d_model", ({ d_model: d, vocab_size: v }) => v * d],
  shared: [0, "the embedding matrix again", () => 0],
  positions: [0, "sines and cosines, computed, not learned", () => 0],
  attention: [1, "4 d_model² + 4 d_model", ({ d_model: d }) => 4 * d * d + 4 * d],
  forward: [2, "2 d_model · d_ff + d_ff + d_model", ({ d_model: d, d_ff: f }) => 2 * d * f + f + d],
  norm: [3, "2 d_model", ({ d_model: d }) => 2 * d],
  head: [4, "2 d_model² + 4 d_model", ({ d_model: d }) => 2 * d * d + 4 * d], // two linear layers and a norm
};
const stacksOf = (kind) =>
  ["encoder", "decoder"].filter((stack) => kind === "both" || kind === stack);
const sublayersOf = (stack, kind) =>
  stack === "decoder" && kind === "both"
    ? ["attention", "cross", "forward"]
    : ["attention", "forward"];

/** The boxes of a model: {part, kind, group, formula, each, times, inside}. A layer's box adds up the others.
 *  card: a published model's own [formula, number, description] for kinds of boxes, or null for a box it doesn't have. */
export function partsOf({ kind: stacks, n_layers: n, pre_norm: pre, card = {}, ...sizes }) {
  const box = (
    part,
    kind,
    times = 1,
    [formula, each, inside] = card[kind] ?? [KINDS[kind][1], KINDS[kind][2](sizes)],
  ) => ({ part, kind, times, group: KINDS[kind][0], formula, each, inside });
  return stacksOf(stacks).flatMap((stack, i) => {
    const layer = sublayersOf(stack, stacks).flatMap((name) => [
      box(`${stack}-norm-${name}`, "norm", n),
      box(`${stack}-${name}`, name === "cross" ? "attention" : name, n),
    ]);
    return [
      box(`${stack}-embedding`, i ? "shared" : "embedding"),
      ...(card.positions === null ? [] : [box(`${stack}-positions`, "positions")]),
      ...layer,
      { part: `${stack}-layer`, kind: "layer", times: n, each: sum(layer.map(({ each }) => each)) },
      ...(pre ? [box(`${stack}-final`, "norm")] : []),
      ...(stacks === "encoder" ? [box("encoder-head", "head")] : []),
      ...(stack === stacks || i ? [box(`${stack}-output`, "shared")] : []),
    ];
  });
}

/** The number of parameters of each group. */
export const groupsOf = (sizes) =>
  GROUPS.map((_, i) =>
    sum(partsOf(sizes).map(({ group, each, times }) => (group === i ? each * times : 0))),
  );

/** The published model, [kind, name, d_model, d_ff, layers, millions], of these sizes, or the nearest; and the vocabulary
 *  size with which this one has as many parameters. */
export function publishedLike(sizes, published) {
  const [total, list] = [sum(groupsOf(sizes)), published.filter(([kind]) => kind === sizes.kind)];
  const far = (model) => Math.abs(Math.log(total / model[5] / 1e6));
  const same = list.find(
    ([, , d, f, n]) => d === sizes.d_model && f === sizes.d_ff && n === sizes.n_layers,
  );
  const [, name, , , , m] = same ?? list.sort((a, b) => far(a) - far(b))[0];
  return {
    name,
    millions: m,
    exact: Boolean(same),
    tokens: 100 * Math.round((sizes.vocab_size + (m * 1e6 - total) / sizes.d_model) / 100),
  };
}
const nearest = (list, x) =>
  steps(list.length).sort(
    (i, j) => Math.abs(Math.log(list[i] / x)) - Math.abs(Math.log(list[j] / x)),
  )[0];
export const headsOf = (d) => [1, 2, 4, 8, 12, 16, 32].filter((heads) => d % heads === 0);

// ---- drawing, from top to bottom: the encoder left, the decoder its mirror image, the residual stream on the outer edge

/** Positions in pixels: boxes {part: [x, y, width, height]}, frames, streams, arrows, rings, labels. */
export function layout({ kind, d_model: d, vocab_size: v, pre_norm: pre, card = {} }, width) {
  const wide = width >= 560; // where it isn't, rows are close together, and shapes that repeat have no label
  const [gap, s, top, lead, high] = wide ? [56, 18, 128, 12, 36] : [14, 10, 102, 6, 32]; // s: the stream
  const [column, branch] = [kind === "both" ? (width - gap) / 2 : width, s + 16];
  const bigOf = (name) => (wide ? 34 : width < 320 ? 66 : name === "attention" ? 48 : 34); // a sublayer's height
  const found = {
    boxes: {},
    frames: [],
    streams: [],
    arrows: [],
    rings: [],
    labels: [],
    height: wide ? 606 : width < 320 ? 568 : 486,
  };
  stacksOf(kind).forEach((stack) => {
    const right = stack === "decoder";
    const [token, x] = [right ? "T" : "S", (u) => (right ? width - u : u)]; // u counts from the outer edge
    const box = (part, u, y, w, h = 32) => {
      found.boxes[`${stack}-${part}`] = [right ? width - u - w : u, y, w, h];
    };
    const label = (u, y, text = `(B, ${token}, ${d})`) =>
      found.labels.push([x(u), y, text, right ? "end" : "start"]);
    const arrow = (...points) => found.arrows.push(points.map(([u, y]) => [x(u), y]));
    const add = (y, ...points) => {
      arrow(...points, [s + 8, y]);
      found.rings.push([x(s), y]);
    };

    label(
      wide ? 0 : s + 8,
      12,
      `${kind === "both" ? ["source", "target"][Number(right)] : "token"} ids (B, ${token})`,
    );
    arrow([s, 17], [s, wide ? 30 : 18]);
    box("embedding", 0, wide ? 30 : 18, column, high);
    if (card.positions !== null) {
      const at = wide ? 76 : 54;
      box("positions", branch, at, column - branch);
      add(at + 16, [branch, at + 16]);
    }
    label(s + 8, top - 4);
    let y = top + (wide ? 8 : 4);
    sublayersOf(stack, kind).forEach((name) => {
      const [big, exit] = [bigOf(name), branch + 14]; // exit: where the sublayer's output leaves
      const at = pre ? y + (wide ? 46 : 35) : y;
      const enter = pre ? y + 16 : wide ? y + big / 2 : y + 9;
      arrow([s, enter], [branch, enter]);
      if (pre && wide) {
        arrow([exit, y + 32], [exit, at]);
        label(exit + 6, y + 42);
      }
      box(
        `norm-${name}`,
        ...(pre
          ? [branch, y, column - branch - 6]
          : [2, at + big + (wide ? 28 : 4), Math.min(120, column - 8)]),
      );
      box(name, branch, at, column - branch - 6, big);
      if (wide) {
        add(at + big + 14, [exit, at + big], [exit, at + big + 14]);
        label(exit + 6, at + big + 14);
      } else add(at + big - 9, [branch, at + big - 9]);
      y += big + (wide ? 70 : 43);
    });
    const bottom = y + 36;
    found.frames.push([right ? width - column : 0, top, column, bottom - top]);
    box("layer", branch, y - 2, column - branch - 6);
    if (pre) box("final", 2, bottom + lead, Math.min(150, column - 2));
    y = bottom + lead + 32;
    const ends = [
      ...(kind === "encoder" ? ["head"] : []),
      ...(right || kind === "encoder" ? ["output"] : []),
    ];
    for (const part of ends) {
      if (wide) label(s + 8, y + 15);
      arrow([s, y], [s, (y += wide ? 22 : 6)]);
      box(part, 0, y, column, high);
      y += high;
    }
    found.streams.push([x(s), 30, y]);
    if (ends.length) {
      arrow([s, y], [s, y + 18]);
      label(s + 8, y + 17, `logits (B, ${token}, ${v.toLocaleString("en-US")})`);
    }
  });
  if (kind === "both") {
    // from the encoder's output to the decoder's cross-attention
    const [start, turn, end, y] = [
      found.streams[0][2],
      column + gap / 2 - 1,
      width - column + 6,
      found.boxes["decoder-cross"][1] + 17,
    ];
    found.arrows.push([
      [s, start],
      [s, start + 14],
      [turn, start + 14],
      [turn, y],
      [end, y],
    ]);
    found.labels.push([s + 8, start + 30, `memory (B, S, ${d})`, "start"]);
  }
  return found;
}
const PATHS = {
  frames: ([x, y, w, h]) => `M${x},${y}h${w}v${h}h${-w}z`,
  streams: ([x, y, end]) => `M${x},${y}V${end}`,
  arrows: (points) => `M${points.join("L")}`,
  heads: (
    points,
    [[a, b], [x, y], u = Math.sign(x - a), v = Math.sign(y - b)] = points.slice(-2),
  ) =>
    // arrowheads
    `M${x},${y}l${-7 * u - 4 * v},${-7 * v - 4 * u}l${8 * v},${8 * u}z`,
  rings: ([x, y]) => `M${x - 7},${y}a7,7 0 1 0 14,0a7,7 0 1 0-14,0M${x - 4},${y}h8M${x},${y - 4}v8`,
};

// ---- picture
const PARTS = ["encoder", "decoder"].flatMap((stack) =>
  [
    "embedding",
    "positions",
    "norm-attention",
    "attention",
    "norm-cross",
    "cross",
    "norm-forward",
    "forward",
    "layer",
    "final",
    "head",
    "output",
  ].map((name) => `${stack}-${name}`),
);
const millions = (n) =>
  `${(n / 1e6).toLocaleString("en-US", { minimumFractionDigits: 1, maximumFractionDigits: 1 })}\u00a0million`;
const [round, share] = [
  (n) => n.toLocaleString("en-US"),
  (x) => (x > 0 && x < 0.005 ? "under 1\u00a0%" : percent(x)),
];

/** A box's chapter, name and description. */
const about = (
  part,
  { d_model: d, n_heads: h, d_ff: f, n_layers: n },
  heads = `${h} head${h > 1 ? "s" : ""} of ${d / h}`,
) =>
  ({
    embedding: [11, "embedding"],
    positions: [10, "+ positions"],
    norm: [7, "norm"],
    final: [7, "last norm"],
    head: [8, "head"],
    output: [11, "output"],
    attention: part[0] === "d" ? [5, "masked self-attention", heads] : [6, "self-attention", heads],
    cross: [4, "cross-attention", heads],
    forward: [7, "feed-forward", `${d}→${f}→${d}`],
    layer: [part[0] === "d" ? 9 : 8, `× ${n} layer${n > 1 ? "s" : ""}`],
  })[part.split("-")[1]];

/** A link to a chapter, from the page's table of contents; plain text on a page without one. */
function chapter(n) {
  const found = [...document.querySelectorAll("nav.bd-links a[href]")].find(
    (a) => Number(/(\d+)_[^/]*$/.exec(a.pathname)?.[1]) === n,
  );
  return found
    ? html("a", { href: found.href, text: `chapter ${found.textContent.trim()}` })
    : `chapter ${n}`;
}

function build({ all, get, change }) {
  const cards = Object.values(get("cards"));
  const models = choice({
    label: "whose sizes",
    className: "lf-tokens",
    onInput: (model) => change({ model }),
    options: [
      ["own", "your own"],
      ...Object.entries(get("cards")).map(([model, { name }]) => [model, name]),
    ],
  });
  const divides = (d, h) => (d % h === 0 ? h : headsOf(d)[nearest(headsOf(d), h)]);
  const among = (label, trait, list, onInput = (value) => change({ [trait]: value })) =>
    slider({
      label,
      last: list().length - 1,
      read: (p) => list()[p],
      find: (x) => nearest(list(), x),
      show: round,
      texts: cards.map(({ sizes }) => round(sizes[trait || "d_model"])),
      onInput,
    });
  const controls = {
    kind: choice({
      label: "stacks",
      options: [
        ["both", "both"],
        ["encoder", "encoder only"],
        ["decoder", "decoder only"],
      ],
      onInput: (kind) => change({ kind }),
    }),
    pre_norm: choice({
      label: "norm",
      options: [
        [true, "pre"],
        [false, "post"],
      ],
      onInput: (value) => change({ pre_norm: value }),
    }),
    d_model: among(
      "d_model",
      "",
      () => [64, 128, 256, 512, 768, 1024, 1536, 2048],
      (d) => change({ d_model: d, n_heads: divides(d, get("n_heads")) }),
    ),
    n_heads: among("heads", "n_heads", () => headsOf(get("d_model"))),
    d_ff: among("d_ff", "d_ff", () => [128, 256, 512, 1024, 2048, 3072, 4096, 8192]),
    n_layers: among("layers", "n_layers", () => steps(24, 1)),
    vocab_size: among("vocabulary", "vocab_size", () => [
      1000, 2000, 4000, 8000, 16000, 18500, 24000, 30500, 32000, 35800, 37000, 40500, 40700, 50000,
      64000, 100000,
    ]),
  };
  const { d_model, n_layers, ...others } = controls;
  const [main, rest] = [{ d_model, n_layers }, others].map((some) =>
    html(
      "fieldset",
      { class: "ae-controls", "aria-label": "sizes" },
      ...Object.values(some).map(({ element }) => element),
    ),
  );
  let over = null; // the box under the pointer
  const hover =
    (part) =>
    ({ pointerType }) => {
      if (pointerType === "mouse") {
        over = part;
        change({}, false);
      }
    };
  const boxes = choice({
    label: "parts of the model",
    options: PARTS.map((part) => [part, ""]),
    onInput: (part) => change({ part }),
    className: "ae-boxes",
  });
  boxes.labels.forEach((label, i) =>
    set(label, { onpointerenter: hover(PARTS[i]), onpointerleave: hover(null) }).lastChild.append(
      html("b"),
      html("i"),
      html("span"),
    ),
  );
  const [paths, texts] = [
    Object.keys(PATHS).map((name) => svg("path", { class: `ae-${name}` })),
    steps(32).map(() => svg("text")),
  ];
  const drawing = canvas(
    640,
    600,
    { class: "lf-svg ae-drawing", "aria-hidden": true },
    ...paths,
    ...texts,
  );
  boxes.element.lastChild.prepend(drawing);
  const [bar, legend] = ["bar", "legend"].map((name) =>
    html(
      "p",
      { class: `ae-${name}` },
      ...GROUPS.map((_, i) => html("span", { "--color": colorOf(i) })),
    ),
  );
  const [paper, more] = ["paper", "more"].map((name) => html("p", { class: `ae-${name}` }));
  const page = fluid(drawing, 600, () => change({}, false));

  const aside = (kind, { exact, tokens }) =>
    ({
      both: exact ? `That takes ${round(tokens)} tokens; the paper says about 37,000.` : "",
      encoder: "It only reads: it predicts masked words from both sides.",
      decoder: "It only writes: it predicts the next token from the ones before.",
    })[kind];
  const papers = longest([
    ...cards.map(({ says }) => says),
    ...get("published").map(
      ([kind, name, , , , m]) =>
        `Nearest: ${name}, ${m} million. ${aside(kind, { exact: true, tokens: 100000 })}`,
    ),
  ]);

  function draw() {
    const [model, own] = [
      get("cards")[get("model")],
      { ...all(), n_heads: divides(get("d_model"), get("n_heads")) },
    ];
    const sizes = model ? { ...own, ...model.sizes, card: model.boxes } : own;
    models.update(own.model);
    [main, rest].forEach((some) =>
      set(some, { disabled: Boolean(model), "data-off": Boolean(model) }),
    );
    set(controls.n_heads.element.lastChild, { max: headsOf(sizes.d_model).length - 1 });
    Object.entries(controls).forEach(([name, control]) => control.update(sizes[name]));
    const [parts, place, groups] = [partsOf(sizes), layout(sizes, page.width), groupsOf(sizes)];
    const find = (part) => parts.find((box) => box.part === part);
    // if this model doesn't have the box, show one that it has
    const chosen =
      find(sizes.part) ??
      find(parts[0].part.slice(0, 7) + sizes.part.slice(7)) ??
      parts.find((box) => box.kind === "attention");
    const shown = find(over) ?? chosen;
    boxes.update(chosen.part);
    boxes.labels.forEach((label, i) => {
      const box = find(PARTS[i]);
      set(label, {
        hidden: box ? null : "",
        "--color": colorOf(box?.group),
        "data-shown": box === shown,
      });
      if (!box) return;
      ["left", "top", "width", "height"].forEach((side, k) => {
        label.style[side] = `${place.boxes[PARTS[i]][k]}px`;
      });
      const [[, name, usual = ""], n] = [
        about(PARTS[i], sizes),
        box.kind === "layer" ? box.each * box.times : box.each,
      ];
      [name, box.inside ?? usual, n || box.kind !== "shared" ? round(n) : "shared"].forEach(
        (text, k) => set(label.lastChild.children[k], { text }),
      );
    });
    set(drawing, { viewBox: `0 0 ${page.width} ${place.height}` });
    Object.entries(PATHS).forEach(([name, path], i) =>
      set(paths[i], {
        d: place[name === "heads" ? "arrows" : name].map((one) => path(one)).join(""),
      }),
    );
    texts.forEach((element, i) => {
      const [x, y, text, anchor] = place.labels[i] ?? [0, 0, "", "start"];
      set(element, { x, y, text, "text-anchor": anchor });
    });
    const numbers = sum(groups);
    groups.forEach((n, i) => {
      bar.children[i].style.flexGrow = n / numbers;
      set(legend.children[i], { "data-none": n === 0, text: `${GROUPS[i]} ${share(n / numbers)}` });
    });
    const like = publishedLike(sizes, get("published"));
    set(paper, {
      text:
        model?.says ??
        `${like.exact ? "" : "Nearest: "}${like.name}, ${like.millions} million. ${aside(sizes.kind, like)}`,
    });
    const [{ part, kind, formula, each, times }, [to, name]] = [shown, about(shown.part, sizes)];
    if (more.dataset.to !== String(to))
      set(more, { "data-to": to }).replaceChildren("More in ", chapter(to), ".");
    const whose = sizes.kind === "both" ? `${part[0] === "d" ? "Decoder" : "Encoder"}, ` : "";
    const is = `${whose}${name}: `.replace(/^./, (letter) => letter.toUpperCase());
    if (!each) return `${is}${formula}. It adds nothing to the ${millions(numbers)}.`;
    const product =
      kind === "layer"
        ? `${times} × ${round(each)} = ${round(each * times)},`
        : `${formula} = ${round(each)}${times > 1 ? " per layer, in all" : ","}`;
    return `${is}${product} ${share((each * times) / numbers)} of ${millions(numbers)}.`;
  }

  const own = get("model") === "own";
  return {
    controls: [own ? main : models.element],
    picture: [html("div", { class: "lf-wide" }, bar, legend), boxes.element],
    more: [...(own ? [models.element] : [main]), rest, room(paper, papers), more],
    draw,
    longest: [
      `Decoder, masked self-attention: ${KINDS.attention[1]} = 16,785,408`,
      `Decoder, feed-forward: ${KINDS.forward[1]} = 33,564,672`,
      ...cards.map(
        ({ boxes: { attention } }) => `Masked self-attention: ${attention?.[0] ?? ""} = 67,108,864`,
      ),
    ].map((start) => `${start} per layer, in all under 1\u00a0% of 8,030.3\u00a0million.`),
  };
}

export default live({
  name: "ArchitectureExplorer",
  build,
  title: (get) => `Where do ${get("model") === "own" ? "65 million" : "a model’s"} numbers live?`,
  state: {
    model: ["own", "gpt2", "bert-base", "llama-2-7b", "llama-3-8b", "mistral-7b"],
    kind: ["both", "encoder", "decoder"],
    pre_norm: [],
    part: PARTS,
    d_model: [64, 2048, 1],
    n_heads: [1, 32, 1],
    d_ff: [128, 8192, 1],
    n_layers: [1, 24, 1],
    vocab_size: [1000, 100000, 1],
  },
});
