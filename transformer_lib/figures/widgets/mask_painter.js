// MaskPainter: what does a mask really do? The reader paints it; scores, weights and a second layer follow.
import {
  choice,
  dot,
  fixed,
  heatMap,
  html,
  live,
  longest,
  room,
  set,
  softmax,
  steps,
  sum,
  tint,
  toggle,
} from "./kit.js";

// ---- arithmetic

export const SMALLEST = -3.4028234663852886e38; // torch.finfo(torch.float32).min
export const PAD = "<pad>";

/** A mask as text, "100-110-111": a row per query, 1 = may attend. Missing bits count as 0. */
export const write = (mask) => mask.map((row) => row.map(Number).join("")).join("-");
export const parse = (text, n) =>
  steps(n).map((i) => steps(n).map((j) => text.split("-")[i]?.[j] === "1"));

/** The library's masks, cell by cell: may query i attend to key j? */
export const rulesFor = (words) => ({
  causal: (i, j) => j <= i,
  padding: (i, j) => words[j] !== PAD,
  local: (i, j) => Math.abs(i - j) <= 1,
});
export const keeps = (mask, rule) =>
  mask.every((row, i) => row.every((may, j) => !may || rule(i, j)));
export const impose = (mask, rule) => mask.map((row, i) => row.map((may, j) => may && rule(i, j)));
/** Takes a rule away: shows what it hid, unless another rule hides it too. */
export const lift = (mask, rule, others) =>
  mask.map((row, i) =>
    row.map((may, j) => may || (!rule(i, j) && others.every((other) => other(i, j)))),
  );

/** A layer of self-attention with x as queries, keys and values. place: "before" or "after" the softmax, or
 *  "renormalized" after it. fill, if before: "-inf", "smallest", or "zeros", which empties rows without any keys. */
export function layer({ x, mask, place, fill }) {
  const hide = (table, filler) =>
    table.map((row, i) => row.map((number, j) => (mask[i][j] ? number : filler)));
  const scores = x.map((query) => x.map((key) => dot(query, key) / Math.sqrt(query.length)));
  const before = place === "before";
  const masked = before ? hide(scores, fill === "-inf" ? -Infinity : SMALLEST) : scores;
  const spread = masked.map((row) => softmax(row));
  let weights = before && fill !== "zeros" ? spread : hide(spread, 0);
  if (place === "renormalized")
    weights = weights.map((row) => row.map((weight) => weight / sum(row)));
  const output = weights.map((row) =>
    x[0].map((_, feature) => sum(row.map((weight, j) => weight * x[j][feature]))),
  );
  return { scores, masked, spread, weights, sums: weights.map(sum), output };
}

// ---- picture

const number = (x) =>
  Number.isNaN(x)
    ? "NaN"
    : x === -Infinity
      ? "−∞"
      : x === SMALLEST
        ? "min"
        : x === 0
          ? "0"
          : fixed(x, 1);
const share = (x) =>
  Number.isNaN(x) || x === 0 || Math.abs(x) >= 0.995 ? number(x) : fixed(x).replace(/^(−?)0/, "$1"); // .57: a cell is narrow

function build({ get, all, change }) {
  const words = get("words");
  const [rules, names] = [rulesFor(words), Object.keys(rulesFor(words))];
  const [mask, paint] = [
    () => parse(get("mask"), words.length),
    (cells) => change({ mask: write(cells) }),
  ];

  const switches = names.map((name) =>
    toggle({
      label: name,
      onInput: (on) => {
        const others = names
          .filter((other) => other !== name && keeps(mask(), rules[other]))
          .map((other) => rules[other]);
        paint(on ? impose(mask(), rules[name]) : lift(mask(), rules[name], others));
      },
    }),
  );
  const place = choice({
    label: "mask before or after the softmax?",
    className: "lf-row-of mp-choice",
    onInput: (value) => change({ place: value }),
    options: [
      ["before", "before"],
      ["after", "after"],
      ["renormalized", "after, then renormalized"],
    ],
  });
  const fill = choice({
    label: "hidden scores become",
    className: "lf-row-of mp-choice",
    onInput: (value) => change({ fill: value }),
    options: [
      ["-inf", "−∞"],
      ["smallest", "smallest number"],
      ["zeros", "zeros for empty rows"],
    ],
  });

  const table = (caption, columns, className) => {
    const map = heatMap({ caption, rows: words, columns });
    map.element.classList.add("mp-table", className);
    return map;
  };
  const features = get("vectors")[0].map((_, i) => String(i + 1));
  const grid = table("scores: click or drag to hide", words, "mp-grid");
  const [masked, what] = [table("", words, "mp-masked"), html("span")];
  masked.element.caption.append(room(what, ["masked scores (min: −3.4·10³⁸)"]));
  const weights = table("weights", [...words, "sum"], "mp-sums");
  weights.element.classList.add("mp-bare-wide");
  const weights2 = table("layer 2: weights", [...words, "sum"], "mp-sums");
  const [output, output2] = ["output", "layer 2: output"].map((caption) =>
    table(caption, features, "mp-bare"),
  );
  paintable(grid, { mask, paint });
  const [picture, tables] = [
    [grid, weights, output, output2],
    [masked, weights2],
  ].map((some) =>
    html("div", { class: "mp-tables lf-wide" }, ...some.map(({ element }) => element)),
  );

  const told = new Map(); // what each of the 300 cells shows, to update only those that change
  const tell = (cell, text, weight, marks = {}) => {
    const now = `${text} ${weight} ${Object.values(marks)}`;
    if (told.get(cell) !== now) tint(set(cell, { text, ...marks }), weight);
    told.set(cell, now);
  };
  const fillIn = (map, values, { show = share, size = 1, hidden = null, sums = null }) =>
    values.forEach((row, i) => {
      row.forEach((x, j) => {
        const away = hidden !== null && !hidden[i][j];
        tell(map.cells[i][j], show(x), Math.abs(x) < 1e9 && !away ? x / size : 0, {
          "data-nan": Number.isNaN(x),
          "data-hidden": away,
        });
      });
      if (sums)
        tell(map.cells[i].at(-1), show(sums[i]), 0, {
          "data-nan": Number.isNaN(sums[i]),
          "data-wrong": Math.abs(sums[i] - 1) > 0.005,
        });
    });

  function draw() {
    const state = { ...all(), x: get("vectors"), mask: mask() };
    const first = layer(state);
    const second = layer({ ...state, x: first.output });
    const before = state.place === "before";
    names.forEach((name, i) => switches[i].update(keeps(state.mask, rules[name])));
    place.update(state.place);
    fill.update(state.fill);
    set(fill.element, { disabled: !before });
    const size = Math.max(1, ...first.scores.flat().map(Math.abs));
    fillIn(grid, first.scores, { show: number, size, hidden: state.mask });
    grid.cells.forEach((row, i) =>
      row.forEach((cell, j) =>
        set(cell, {
          "aria-selected": String(state.mask[i][j]),
          "aria-label": `${words[i]} ${state.mask[i][j] ? "may attend to" : "must not attend to"} ${words[j]}, score ${cell.textContent}`,
        }),
      ),
    );
    set(what, {
      text: before
        ? `masked scores${state.fill === "-inf" ? "" : " (min: −3.4·10³⁸)"}`
        : "softmax of all scores",
    });
    fillIn(masked, before ? first.masked : first.spread, before ? { show: number, size } : {});
    fillIn(weights, first.weights, { sums: first.sums });
    fillIn(output, first.output, { show: number, size: 2 });
    fillIn(weights2, second.weights, { sums: second.sums });
    fillIn(output2, second.output, { show: number, size: 2 });
    return sentence(state, first, second);
  }

  function sentence({ place: where, fill: filler, mask: may }, first, second) {
    const n = words.length;
    const rows = (count) =>
      count === n ? `all ${n} rows` : count === 1 ? "1 row" : `${count} rows`;
    const empty = may.filter((row) => !row.some(Boolean)).length;
    const hidden = may.flat().filter((cell) => !cell).length;
    const gone = second.output.filter((row) => row.some(Number.isNaN)).length;
    if (hidden === 0)
      return "Nothing is hidden: every word attends to every word, padding too. Each row adds up to 1.";
    if (where === "after") {
      return (
        `Too late: the hidden keys’ share is lost. In ${rows(first.sums.filter((s) => s < 0.995).length)} ` +
        `the weights add up to less than 1, at worst to ${fixed(Math.min(...first.sums))}.`
      );
    }
    if (empty === 0) {
      const same = where === "before" ? " No row is empty, so all three fills give the same." : "";
      return `${hidden} hidden cell${hidden > 1 ? "s" : ""}, each with weight 0; each row adds up to 1.${same}`;
    }
    if (gone) {
      const why =
        where === "before"
          ? "a softmax over −∞ alone is 0/0"
          : "zeros divided by their sum are 0/0";
      return `In ${rows(empty)} ${why}: NaN. Layer 2 loses ${rows(gone)}, since 0 × NaN is NaN again.`;
    }
    return filler === "smallest"
      ? `In ${rows(empty)} all scores are hidden, so all are equal: each word gets 1/${n}, padding too. No NaN, but no mask either.`
      : `In ${rows(empty)} weights and output are 0, which harms no other row in layer 2. This is the library’s rule.`;
  }

  const fullest = (n = words.length) =>
    longest(
      [
        ["before", "-inf"],
        ["before", "smallest"],
        ["before", "zeros"],
        ["after"],
        ["renormalized"],
      ].flatMap(([where, filler]) =>
        [
          [n, n],
          [n - 1, n],
          [n, 0],
          [0, 0],
        ].flatMap(([empty, gone]) =>
          sentence(
            {
              place: where,
              fill: filler,
              mask: steps(words.length).map((i) => words.map((_, j) => i >= empty && j > 0)),
            },
            { sums: words.map(() => -0.12) },
            { output: steps(words.length).map((i) => [i < gone ? NaN : 0]) },
          ),
        ),
      ),
    );

  return {
    controls: [place.element, fill.element],
    picture: [picture],
    more: [
      html(
        "div",
        { class: "mp-rules", role: "group", "aria-label": "rules" },
        ...switches.map((part) => part.element),
      ),
      tables,
    ],
    draw,
    longest: fullest(),
  };
}

/** Lets the reader paint a heat map's cells by mouse, finger and keys, with a single tab stop. */
function paintable({ element, cells }, { mask, paint }) {
  let [at, brush] = [[0, 0], null];
  const body = element.tBodies[0];
  const flat = cells.flat();
  const n = cells.length;
  const put = (i, j, may) => {
    const now = mask();
    if (now[i][j] === may) return;
    now[i][j] = may;
    paint(now);
  };
  const go = (i, j) => {
    if (!cells[i]?.[j]) return;
    set(cells[at[0]][at[1]], { tabindex: -1 });
    at = [i, j];
    set(cells[i][j], { tabindex: 0 }).focus({ preventScroll: true });
  };
  const placeOf = ({ target, clientX, clientY }) => {
    // a captured pointer's target is always the body
    const index = flat.indexOf(
      (target.getRootNode().elementFromPoint(clientX, clientY) ?? target).closest("td"),
    );
    return index < 0 ? null : [Math.floor(index / n), index % n];
  };
  set(element, {
    role: "grid",
    "aria-multiselectable": true,
    "aria-label": "mask: rows are queries, columns are keys; selected cells are visible",
  });
  flat.forEach((cell, i) => set(cell, { role: "gridcell", tabindex: i ? -1 : 0 }));
  set(body, {
    onpointerdown(event) {
      const cell = event.button === 0 && placeOf(event);
      if (!cell) return;
      event.preventDefault(); // don't select text
      body.setPointerCapture(event.pointerId);
      brush = !mask()[cell[0]][cell[1]];
      go(...cell);
      put(...cell, brush);
    },
    onpointermove(event) {
      if (brush === null) return;
      for (const point of event.getCoalescedEvents?.() ?? [event]) {
        const cell = placeOf(point);
        if (cell) put(...cell, brush);
      }
    },
    onlostpointercapture() {
      brush = null;
    },
    onkeydown(event) {
      const [i, j] = at;
      const places = {
        ArrowUp: [i - 1, j],
        ArrowDown: [i + 1, j],
        ArrowLeft: [i, j - 1],
        ArrowRight: [i, j + 1],
        Home: [i, 0],
        End: [i, n - 1],
      };
      if (event.key === " " || event.key === "Enter") put(i, j, !mask()[i][j]);
      else if (places[event.key]) go(...places[event.key]);
      else return;
      event.preventDefault();
    },
  });
}

export default live({
  name: "MaskPainter",
  title: () => "What does a mask really do?",
  state: {
    mask: { includes: (text) => /^[01]+(-[01]+)*$/.test(text) },
    place: ["before", "after", "renormalized"],
    fill: ["-inf", "smallest", "zeros"],
  },
  build,
});
