// WhoKnows: which input words can a word depend on after some layers? Products of masks.
import { choice, html, live, longest, set, slider, steps, toggle } from "./kit.js";

// ---- arithmetic

const PAD = "<pad>";

/** What each word attends to in one layer: n rows of n, true = may attend. */
export const mayLook = (mask, window, n) =>
  steps(n).map((row) =>
    steps(n).map(
      (column) =>
        !(mask.includes("past") && column > row) &&
        !(mask.includes("window") && Math.abs(row - column) > window),
    ),
  );

/** The boolean product of two tables. */
export const join = (a, b) =>
  a.map((row) => b[0].map((_, j) => row.some((may, k) => may && b[k][j])));

/** After 0, 1, … layers: which inputs (columns: the words, then the source) each word (rows) can depend on.
 *  The encoder has read the whole source, so attending across brings all of it except padding. */
export function reach({ words, source, layers, mask, window, across }) {
  const n = words.length;
  const look = mayLook(mask, window, n);
  const brought = [...words.map(() => false), ...source.map((word) => across && word !== PAD)];
  const tables = [steps(n).map((i) => brought.map((_, j) => i === j))];
  for (let layer = 1; layer <= layers; layer += 1)
    tables.push(join(look, tables.at(-1)).map((row) => row.map((knows, j) => knows || brought[j])));
  return tables;
}

/** The number of layers after which nothing is added anymore. */
export const needed = (mask, window, n) =>
  !mask.includes("window") ? 1 : window === 0 ? 0 : Math.ceil((n - 1) / window);

// ---- picture

function build({ all, get, change }) {
  const [words, source, layers] = [get("words"), get("source"), get("layers")];
  const n = words.length;
  const state = () => {
    const now = all();
    return {
      ...now,
      words,
      source,
      layers,
      layer: Math.min(now.layer, layers),
      token: Math.min(now.token, n - 1),
    };
  };
  const mask = choice({
    label: "in each layer a word attends to",
    onInput: (value) => change({ mask: value }),
    options: [
      ["everyone", "everyone"],
      ["past", "the past"],
      ["window", "a window"],
      ["past-window", "a window of the past"],
    ],
  });
  const near = slider({
    label: "the window: words to each side",
    last: 3,
    read: (p) => p,
    find: (w) => w,
    show: String,
    onInput: (value) => change({ window: value }),
  });
  const across = toggle({
    label: "and across, to the source",
    onInput: (value) => change({ across: value }),
  });

  const at = (i) => ({ layer: layers - Math.floor(i / n), token: i % n });
  const where = ({ layer, token }) => (layers - layer) * n + token;
  const cells = choice({
    label: "click a word in a layer; each number says how many words it can know",
    className: "wk-cells",
    options: steps(layers * n).map((i) => [i, ""]),
    onInput: (i) => change(at(i)),
  });
  set(cells.element, {
    onkeydown(event) {
      // up and down move by a layer; the browser handles left and right
      const to = where(state()) + ({ ArrowUp: -n, ArrowDown: n }[event.key] ?? NaN);
      if (Number.isNaN(to)) return;
      event.preventDefault();
      if (!cells.labels[to]) return;
      change(at(to));
      cells.labels[to].firstChild.focus({ preventScroll: true });
    },
  });
  const name = (text) => html("span", { class: "wk-name", text });
  const [inputs, sources] = [words, source].map((list) =>
    list.map((word) => html("span", { class: "wk-word" }, html("span", { text: word }))),
  );
  steps(layers).forEach((row) => cells.labels[row * n].before(name(`layer ${layers - row}`)));
  cells.element.lastChild.append(
    name("input"),
    ...inputs,
    ...(source.length ? [name("source"), ...sources] : []),
  );
  set(cells.element.lastChild, { "--columns": Math.max(n, source.length) });

  function draw() {
    const now = state();
    const tables = reach(now);
    const known = tables[now.layer][now.token];
    mask.update(now.mask);
    near.update(now.window);
    near.enable(now.mask.includes("window"));
    across.update(now.across);
    cells.update(where(now));
    cells.labels.forEach((label, i) => {
      const { layer, token } = at(i);
      const count = tables[layer][token].filter(Boolean).length;
      set(label, { "data-used": layer < now.layer && tables[now.layer - layer][now.token][token] });
      set(label.firstChild, { "aria-label": `layer ${layer}, ${words[token]}: ${count}` });
      set(label.lastChild, { text: String(count) });
    });
    [...inputs, ...sources].forEach((word, j) => set(word, { "data-known": known[j] }));
    return sentence(now, known);
  }

  function sentence({ mask: kind, window: w, layer, token }, known) {
    const list = [...words, ...source].filter((_, j) => known[j]);
    const need = needed(kind, w, n);
    const after = need === 1 ? "after 1 layer" : `after ${need} layers`;
    const rule =
      kind === "everyone"
        ? "One layer is enough to reach everyone."
        : kind === "past"
          ? "More layers don’t help: what comes later stays hidden."
          : w === 0
            ? "A window of 0 is the word itself, and layers add nothing."
            : kind === "window"
              ? `Each layer reaches ${w} further to each side: everyone knows everyone ${after}.`
              : `Each layer reaches ${w} further back: everyone knows the whole past ${after}.`;
    return `In layer ${layer}, ${words[token]} can know ${list.length} of ${known.length} words: ${list.join(", ")}. ${rule}`;
  }

  const every = ["everyone", "past", "window", "past-window"].flatMap((kind) =>
    [0, 1, 2, 3].flatMap((w) =>
      [false, true].flatMap((on) => {
        const one = { words, source, layers, mask: kind, window: w, across: on };
        const last = reach(one).at(-1); // where each word knows the most
        return last.map((known, token) => sentence({ ...one, layer: layers, token }, known));
      }),
    ),
  );
  return {
    controls: [mask.element, near.element, ...(source.length ? [across.element] : [])],
    picture: [cells.element],
    draw,
    longest: longest(every),
  };
}

export default live({
  name: "WhoKnows",
  title: () => "Who can know what?",
  state: {
    mask: ["everyone", "past", "window", "past-window"],
    window: [0, 3, 1],
    across: [],
    layer: [1, 6, 1],
    token: [0, 7, 1],
  },
  build,
});
