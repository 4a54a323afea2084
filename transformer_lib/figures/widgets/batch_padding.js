// BatchPadding: how much of a batch is padding? Pairs of texts, grouped into batches in several ways.
import { choice, fixed, html, live, percent, room, set, slider, steps, sum, svg } from "./kit.js";

// ---- arithmetic

const longer = ([source, target]) => Math.max(source, target);
/** Orders pairs with the same longer side by how much longer the source is, alternating between lengths. */
const border = ([source, target]) =>
  longer([source, target]) % 2 ? source - target : target - source;
const KEYS = {
  given: [],
  source: [([source]) => source],
  longer: [longer, ([source]) => source],
  tokens: [longer, border],
};
const PLACES = 32; // batches by tokens: positions on either side for each pair of the size

/** Batches as lists of indices into `lengths`: `size` pairs each, or as many as fit in 32 · size positions per side. */
export function batchesOf({ lengths, way, size }) {
  const first = (i, j) =>
    KEYS[way].map((key) => key(lengths[i]) - key(lengths[j])).find(Boolean) ?? 0;
  const batches = [[]];
  for (const i of steps(lengths.length).sort(first)) {
    const rows = batches.at(-1).length + 1;
    if (way === "tokens" ? rows * longer(lengths[i]) > PLACES * size : rows > size)
      batches.push([]);
    batches.at(-1).push(i);
  }
  return batches;
}

/** The widths of both sides of a batch, those of their longest texts. */
export const widthsOf = (lengths, batch) =>
  [0, 1].map((side) => Math.max(...batch.map((i) => lengths[i][side])));

/** The share of padding in all that is computed. */
export function padding(lengths, batches) {
  const tokens = sum(batches.map((batch) => sum(batch.map((i) => sum(lengths[i])))));
  return 1 - tokens / sum(batches.map((batch) => batch.length * sum(widthsOf(lengths, batch))));
}

/** Indices of up to three batches to show, none from the very ends. */
export const some = (count) => [
  ...new Set([1, 3, 5].map((sixth) => Math.floor((sixth * count) / 6))),
];

// ---- picture

const WAYS = [
  ["given", "as they come"],
  ["source", "by source"],
  ["longer", "by the longer"],
  ["tokens", "by tokens"],
];
const SAID = {
  given: "as they come",
  source: "sorted by source",
  longer: "sorted by the longer side",
  tokens: "by tokens",
};
const [HEIGHT, ROW] = [96, 12]; // of a batch, and at most of a row
const bar = (x, y, width, height) => `M${x} ${fixed(y)}h${width}v${fixed(height)}h${-width}z`;

function build({ get, change }) {
  const lengths = get("lengths");
  const most = widthsOf(lengths, steps(lengths.length));
  const places = sum(most) + 2; // two between the sides
  const sizeOf = (way, size) =>
    way === "tokens"
      ? `${(PLACES * size).toLocaleString("en-US")} positions per side`
      : `${size} pairs`;
  const ways = choice({
    label: "group pairs",
    options: WAYS,
    onInput: (way) => change({ way }),
  });
  const size = slider({
    label: "batch size",
    last: 5,
    read: (p) => 4 * 2 ** p,
    find: (n) => Math.log2(n / 4),
    show: (n) => sizeOf(get("way"), n),
    texts: [sizeOf("tokens", 128)],
    onInput: (n) => change({ size: n }),
  });

  function panel(wide, high, texts) {
    const [said, pad, real] = [
      html("p"),
      svg("path", { class: "ba-pad" }),
      svg("path", { class: "ba-real" }),
    ];
    const cuts = svg("path", {
      class: "ba-cuts",
      d:
        wide === places
          ? steps(places)
              .map((x) => `M${x} 0v${high}`)
              .join("")
          : "",
    });
    const size = { viewBox: `0 0 ${wide} ${high}`, height: high, preserveAspectRatio: "none" };
    const field = svg("svg", { ...size, class: "ba-field", "aria-hidden": true }, pad, real, cuts);
    return { pad, real, said, element: html("div", {}, room(said, texts), field) };
  }
  const panels = [0, 1, 2].map(() =>
    panel(places, HEIGHT, [`batch ${lengths.length}: ${lengths.length} pairs, 99\u00a0% padding`]),
  );
  const whole = panel(100, 16, [`all ${lengths.length} batches: 99\u00a0% padding`]);
  const square = (kind) => html("i", { class: kind });
  const legend = html(
    "p",
    { class: "ba-legend" },
    square("ba-real"),
    "token",
    square("ba-pad"),
    "padding; source left, target right",
  );

  function show({ said, pad, real }, batches, at) {
    const [batch, sides] = [batches[at] ?? [], widthsOf(lengths, batches[at] ?? [0])];
    const high = Math.min(ROW, HEIGHT / batch.length);
    const gap = high < 3 ? 0 : 1;
    const rows = (cell) =>
      batch
        .flatMap((i, row) =>
          [0, 1].map((side) =>
            cell(lengths[i][side], sides[side], side * (most[0] + 2), row * high),
          ),
        )
        .join("");
    const pairs = `${batch.length} ${batch.length === 1 ? "pair" : "pairs"}`;
    set(said, {
      text: batch.length
        ? `batch ${at + 1}: ${pairs}, ${percent(padding(lengths, [batch]))} padding`
        : "",
    });
    set(real, { d: rows((n, all, x, y) => bar(x, y, n, high - gap)) });
    set(pad, { d: rows((n, all, x, y) => (all > n ? bar(x + n, y, all - n, high - gap) : "")) });
  }

  function sentence(way, n, share, asTheyCome) {
    const batches = `${way === "tokens" ? "up to " : ""}${sizeOf(way, n)}, ${SAID[way]}`;
    const compared =
      way === "given"
        ? ""
        : ` As they come, in batches of ${n} pairs, it is ${percent(asTheyCome)}.`;
    return `Batches of ${batches}: ${percent(share)} of what is computed is padding.${compared}`;
  }

  function draw() {
    const [way, n] = [get("way"), get("size")];
    ways.update(way);
    size.update(n);
    const batches = batchesOf({ lengths, way, size: n });
    const share = padding(lengths, batches);
    const chosen = some(batches.length);
    panels.forEach((one, i) => show(one, batches, chosen[i]));
    set(whole.said, { text: `all ${batches.length} batches: ${percent(share)} padding` });
    set(whole.real, { d: bar(0, 0, fixed(100 * (1 - share)), 16) });
    set(whole.pad, { d: bar(fixed(100 * (1 - share)), 0, fixed(100 * share), 16) });
    return sentence(way, n, share, padding(lengths, batchesOf({ lengths, way: "given", size: n })));
  }

  const picture = html(
    "div",
    { class: "ba-panels lf-wide" },
    legend,
    ...panels.map(({ element }) => element),
    whole.element,
  );
  return {
    controls: [ways.element, size.element],
    picture: [picture],
    draw,
    longest: WAYS.map(([way]) => sentence(way, 128, 0.99, 0.99)),
  };
}

export default live({
  name: "BatchPadding",
  title: () => "How much of a batch is padding?",
  build,
  state: { way: WAYS.map(([way]) => way), size: [4, 128, 1] },
});
