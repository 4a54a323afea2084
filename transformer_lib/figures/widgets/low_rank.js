// LowRank: how much can a change of low rank hold? A matrix of changes next to its best approximation of rank r.
import {
  axes,
  canvas,
  choice,
  diverging,
  fixed,
  fluid,
  html,
  live,
  paint,
  percent,
  scale,
  set,
  slider,
  steps,
  sum,
  svg,
  uniform,
} from "./kit.js";

// ---- arithmetic

/** Shuffles the numbers (Fisher-Yates), in the same order as Python does. */
export function shuffle(matrix) {
  const [list, next, columns] = [matrix.flat(), uniform(1), matrix[0].length];
  for (let i = list.length - 1; i > 0; i -= 1) {
    const j = Math.floor(next() * (i + 1));
    [list[i], list[j]] = [list[j], list[i]];
  }
  return matrix.map((_, row) => list.slice(row * columns, (row + 1) * columns));
}

/** Singular values, the largest first, and the vectors of each term: matrix = Σ left · right, one of which is scaled by the
 *  value. Jacobi's method: rotate pairs of columns until all are orthogonal. */
export function decompose(matrix) {
  const wide = matrix.length < matrix[0].length;
  const columns = (wide ? matrix : matrix[0].map((_, j) => matrix.map((row) => row[j]))).map(
    (column) => Float64Array.from(column),
  );
  const [n, m] = [columns.length, columns[0].length];
  const turns = steps(n).map((i) => Float64Array.from({ length: n }, (_, j) => Number(i === j)));
  const turn = (one, two, c, s) => {
    for (let i = 0; i < one.length; i += 1) {
      const x = one[i];
      one[i] = c * x - s * two[i];
      two[i] = s * x + c * two[i];
    }
  };
  for (let sweep = 0, worst = 1; sweep < 40 && worst > 1e-12; sweep += 1) {
    worst = 0;
    for (let p = 0; p < n - 1; p += 1)
      for (let q = p + 1; q < n; q += 1) {
        let [pp, qq, pq] = [0, 0, 0];
        for (let i = 0; i < m; i += 1) {
          pp += columns[p][i] ** 2;
          qq += columns[q][i] ** 2;
          pq += columns[p][i] * columns[q][i];
        }
        if (Math.abs(pq) <= 1e-13 * Math.sqrt(pp * qq) || pq === 0) continue;
        worst = Math.max(worst, Math.abs(pq) / Math.sqrt(pp * qq));
        const half = (qq - pp) / (2 * pq);
        const tangent = (half < 0 ? -1 : 1) / (Math.abs(half) + Math.hypot(1, half));
        const cosine = 1 / Math.hypot(1, tangent);
        turn(columns[p], columns[q], cosine, cosine * tangent);
        turn(turns[p], turns[q], cosine, cosine * tangent);
      }
  }
  const values = columns.map((column) => Math.hypot(...column));
  const order = steps(n).sort((a, b) => values[b] - values[a]);
  return {
    values: order.map((k) => values[k]),
    left: order.map((k) => (wide ? turns[k] : columns[k])),
    right: order.map((k) => (wide ? columns[k] : turns[k])),
  };
}

/** The sum of the first r terms, the nearest matrix of rank r. */
export const approximate = ({ left, right }, r) =>
  Array.from(left[0], (_, i) =>
    Array.from(right[0], (__, j) => {
      let total = 0;
      for (let k = 0; k < r; k += 1) total += left[k][i] * right[k][j];
      return total;
    }),
  );

/** The share of the sum of squares in the first r terms, for r = 0, 1, … */
export function sharesOf(values) {
  const whole = sum(values.map((value) => value ** 2));
  const shares = [0];
  for (const value of values) shares.push(shares.at(-1) + value ** 2 / whole);
  return shares;
}

/** How many numbers the two thin matrices have. */
export const trained = (matrix, rank) => rank * (matrix.length + matrix[0].length);

// ---- picture

const [HEIGHT, LEFT, TOP, BOTTOM] = [184, 40, 24, 144];
const many = (n) => n.toLocaleString("en-US");

function build({ get, change, refresh }) {
  const changed = get("rows").map((row) => row.split(" ").map(Number));
  const [rows, columns] = [changed.length, changed[0].length];
  const full = Math.min(rows, columns);
  const kinds = [changed, shuffle(changed)].map((matrix) => {
    const terms = decompose(matrix);
    return { matrix, terms, shares: sharesOf(terms.values) };
  });
  const size = 3 * Math.sqrt(sum(changed.flat().map((x) => x ** 2)) / (rows * columns)); // the number with the strongest color
  const share = ({ shares }, r) =>
    `${fixed(r < full ? Math.min(99.9, 100 * shares[r]) : 100, 1)}\u00a0%`;

  const rank = slider({
    label: "rank",
    last: full,
    read: (r) => r,
    find: (r) => r,
    show: String,
    onInput: (value) => change({ rank: value }),
  });
  const which = choice({
    label: "shown",
    options: [
      [false, "the change"],
      [true, "the same, shuffled"],
    ],
    onInput: (shuffled) => change({ shuffled }),
  });

  const map = (label) => {
    const field = html("canvas", {
      width: columns,
      height: rows,
      role: "img",
      "aria-label": label,
    });
    return {
      element: html("div", { class: "lr-map" }, html("p", { text: label }), field),
      show: (matrix) => paint(field, (column, row) => diverging(matrix[row][column] / size)),
    };
  };
  const [whole, part] = [map("the change"), map("its best approximation")];
  const maps = html("div", { class: "lr-maps" }, whole.element, part.element);

  const graph = canvas(640, HEIGHT, { role: "img" });
  const around = svg("g");
  const [beyond, stand] = [
    svg("rect", { class: "lr-beyond", y: TOP, height: BOTTOM - TOP }),
    svg("line", { class: "lr-stand", y1: TOP, y2: BOTTOM }),
  ];
  const lines = kinds.map((_, i) => svg("path", { class: "lr-line", "data-shuffled": i === 1 }));
  const dots = kinds.map((_, i) =>
    svg("circle", { r: 6, class: "lf-knob lr-dot", "data-shuffled": i === 1 }),
  );
  graph.append(beyond, around, stand, ...lines, ...dots);
  const wide = fluid(graph, HEIGHT, () => refresh());
  const key = (kind, text) => html("span", {}, html("i", { class: kind }), text);
  const legend = html(
    "div",
    { class: "lf-legend lr-legend" },
    key("lr-of-change", "the change"),
    key("lr-of-shuffled", "shuffled"),
    key("lr-no-gain", "no saving"),
  );

  const most = trained(changed, full);
  const bars = ["all numbers", "low rank"].map((name) => {
    const [bar, text] = [html("div", { class: "lr-bar" }), html("span")];
    return {
      bar,
      text,
      element: html("div", { class: "lr-row" }, html("span", { text: name }), text, bar),
    };
  });
  set(bars[0].bar, { "--size": `${(100 * rows * columns) / most}%` });
  set(bars[0].text, { text: `${rows} · ${columns} = ${many(rows * columns)}` });

  function draw() {
    const [r, shuffled] = [Math.min(get("rank"), full), get("shuffled")];
    const shown = kinds[Number(shuffled)];
    rank.update(r);
    which.update(shuffled);
    whole.show(shown.matrix);
    part.show(approximate(shown.terms, r));
    const x = scale([0, full], [LEFT, wide.width - 10]);
    const y = scale([0, 1], [BOTTOM, TOP]);
    const ticks = steps(5).map((i) => Math.round((i * full) / 4));
    around.replaceChildren(
      axes({
        x,
        y,
        left: LEFT,
        right: x(full),
        top: TOP,
        bottom: BOTTOM,
        xTicks: ticks.map((t) => [t, t]),
        yTicks: [0, 0.25, 0.5, 0.75, 1].map((t) => [t, percent(t)]),
        xLabel: "rank",
        yLabel: "share captured",
      }),
    );
    const limit = (rows * columns) / (rows + columns); // beyond this rank, nothing is saved
    set(beyond, { x: x(limit), width: Math.max(0, x(full) - x(limit)) });
    set(stand, { x1: x(r), x2: x(r) });
    kinds.forEach(({ shares }, i) => {
      set(lines[i], {
        d: shares.map((p, k) => `${k ? "L" : "M"}${x(k).toFixed(1)} ${y(p).toFixed(1)}`).join(""),
      });
      set(dots[i], { cx: x(r), cy: y(shares[r]) });
    });
    set(graph, {
      "aria-label": `rank ${r}: ${share(kinds[0], r)} of the change, ${share(kinds[1], r)} of the same numbers shuffled`,
    });
    set(bars[1].bar, { "--size": `${(100 * trained(changed, r)) / most}%` });
    set(bars[1].text, { text: `${r} · (${rows} + ${columns}) = ${many(trained(changed, r))}` });
    return sentence(r, shuffled);
  }

  function sentence(r, shuffled) {
    const [learn, all] = [trained(changed, r), rows * columns];
    const cost =
      learn < all
        ? `with ${many(learn)} numbers instead of ${many(all)}`
        : `with ${many(learn)} numbers, no fewer than the matrix’s ${many(all)}`;
    if (r === 0) return "Rank 0 changes nothing: everything fine-tuning changed is lost.";
    if (shuffled)
      return `Shuffled, the same numbers have no pattern: rank ${r} captures ${share(kinds[1], r)} of them, ${cost}.`;
    return `Rank ${r} captures ${share(kinds[0], r)} of the change, ${cost}. Of the same numbers, shuffled, it captures ${share(kinds[1], r)}.`;
  }

  const figures = html("div", { class: "lr-bars lf-wide" }, ...bars.map(({ element }) => element));
  return {
    controls: [rank.element, which.element],
    picture: [maps, html("div", { class: "lr-graph" }, graph, legend), figures],
    draw,
    longest: [sentence(full, false), sentence(full, true), sentence(Math.max(1, full - 1), false)],
  };
}

export default live({
  name: "LowRank",
  title: () => "How much can a low-rank change express?",
  build,
  state: { rank: [0, 96, 1], shuffled: [] },
});
