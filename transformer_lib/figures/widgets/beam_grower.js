// BeamGrower: what does a beam keep, and what does it lose? Beam search over a stored tree of next-token probabilities.
import {
  canvas,
  fixed,
  fluid,
  html,
  live,
  longest,
  percent,
  set,
  slider,
  stepper,
  steps,
  svg,
} from "./kit.js";

// ---- arithmetic

export const END = "<eos>";
export const PENALTIES = [0, 0.2, 0.4, 0.6, 0.8, 1];

/** The length penalty of Wu et al. (2016), equation 14. */
export const penalty = (length, exponent) => ((5 + length) / 6) ** exponent;

/** Builds a tree from its nodes' parents, tokens and gains; node 0 is the empty prefix. */
export function plant({ parents, tokens, gains }) {
  const tree = {
    parents: [-1, ...parents],
    tokens: ["", ...tokens],
    gains: [0, ...gains],
    children: steps(parents.length + 1).map(() => []),
  };
  parents.forEach((parent, i) => tree.children[parent].push(i + 1));
  tree.path = (node) => (node > 0 ? [...tree.path(tree.parents[node]), node] : []);
  tree.text = (node) =>
    tree
      .path(node)
      .map((n) => tree.tokens[n])
      .filter((token) => token !== END)
      .join("")
      .replaceAll("▁", " ")
      .trim();
  return tree;
}

/** The library's beam_search, step by step: candidates {node, total, fate}, best first, with fate "kept", "ended" or
 *  "lost", and the best finished texts so far, {node, total, rank}. */
export function search(tree, { size, exponent, maxLen }) {
  const notes = [];
  let [beam, ends, going] = [[{ node: 0, total: 0 }], [], true];
  while (going) {
    const length = notes.length + 1;
    const grown = beam.flatMap(({ node, total }) =>
      tree.children[node].map((child) => ({
        node: child,
        total: total + tree.gains[child],
        fate: "lost",
      })),
    );
    grown.sort((a, b) => b.total - a.total);
    beam = [];
    grown.slice(0, 2 * size).forEach((candidate, i) => {
      const ended = tree.tokens[candidate.node] === END || length === maxLen;
      if (ended && i < size) {
        candidate.fate = "ended";
        ends = [...ends, { ...candidate, rank: candidate.total / penalty(length, exponent) }];
      } else if (!ended && beam.length < size) {
        candidate.fate = "kept";
        beam.push(candidate);
      }
    });
    ends = [...ends].sort((a, b) => b.rank - a.rank).slice(0, size);
    notes.push({ candidates: grown, ends });
    // stop when nothing left can beat the worst finished text, even at full length
    const worst = ends.length === size ? ends.at(-1).rank : -Infinity;
    going = beam.length > 0 && beam[0].total / penalty(maxLen, exponent) > worst;
  }
  return notes;
}

/** The node where greedy search ends. */
export function greedyEnd(tree) {
  let node = 0;
  while (tree.children[node].length)
    node = tree.children[node].reduce((best, n) => (tree.gains[n] > tree.gains[best] ? n : best));
  return node;
}

/** The candidates that fit, best first; if there are too many, the worst lost ones are left out. */
export function inView(candidates, room) {
  const rest = room - candidates.filter(({ fate }) => fate !== "lost").length;
  let lost = 0;
  return candidates.filter(({ fate }) => fate !== "lost" || (lost += 1) <= rest).slice(0, room);
}

// ---- picture

const share = (total) => (Math.exp(total) < 0.01 ? "under 1\u00a0%" : percent(Math.exp(total)));

const [LEFT, TOP, MOST] = [20, 30, 7]; // room for the steps' numbers and for the source; columns at most
const SIZES = [1, 2, 3, 4];

function build({ get, change }) {
  const tree = plant({ parents: get("parents"), tokens: get("tokens"), gains: get("gains") });
  const found = new Map(); // finished searches
  const run = (size, exponent) => {
    if (!found.has(`${size} ${exponent}`))
      found.set(`${size} ${exponent}`, search(tree, { size, exponent, maxLen: get("max_len") }));
    return found.get(`${size} ${exponent}`);
  };
  const rowsOf = Math.max(
    ...SIZES.flatMap((size) => PENALTIES.map((exponent) => run(size, exponent).length)),
  );
  const greedy = greedyEnd(tree);
  const onGreedy = new Set(tree.path(greedy));
  const long = rowsOf > 12; // a text spelled in letters, for example: no room for numbers
  const [rowHeight, tall] = long ? [20, 17] : [48, 34];

  const beamSize = slider({
    label: "beam size",
    last: 3,
    read: (p) => p + 1,
    find: (n) => n - 1,
    show: String,
    onInput: (n) => change({ beam_size: n }),
  });
  const exponent = slider({
    label: "length penalty",
    last: 5,
    read: (p) => PENALTIES[p],
    find: (x) => 5 * x,
    show: (x) => fixed(x, 1),
    onInput: (x) => change({ length_penalty: x }),
  });
  const time = stepper({
    label: "steps taken",
    last: rowsOf,
    onInput: (step) => change({ step }),
    show: (n) => `${n} of ${state().notes.length}`,
  });
  function state() {
    const penaltyNow = PENALTIES[Math.round(5 * get("length_penalty"))];
    const notes = run(get("beam_size"), penaltyNow);
    return {
      size: get("beam_size"),
      exponent: penaltyNow,
      notes,
      step: Math.min(get("step"), notes.length),
    };
  }

  const cell = () => {
    const [edge, box, token, total] = [
      svg("path"),
      svg("rect", { rx: 5, height: tall }),
      svg("text", { "text-anchor": "middle", y: long ? 13 : 15 }),
      svg("text", { "text-anchor": "middle", y: 29, class: "lf-tick" }),
    ];
    return { edge, box, token, total, group: svg("g", {}, box, token, ...(long ? [] : [total])) };
  };
  const rows = steps(rowsOf).map((t) => ({
    y: TOP + t * rowHeight,
    cells: steps(MOST).map(cell),
    number: svg("text", {
      class: "lf-tick",
      x: 2,
      y: TOP + t * rowHeight + tall / 2 + 4,
      text: t + 1,
    }),
  }));
  const height = TOP + rowsOf * rowHeight;
  const picture = canvas(
    340,
    height,
    {
      class: "lf-svg bg-tree",
      role: "img",
      "aria-label": "the candidates, a row per step, the best on the left",
    },
    svg("text", { x: LEFT, y: 14, class: "bg-source", text: get("source") }),
    ...rows.map(({ number }) => number),
    ...rows.flatMap(({ cells }) => cells.map(({ edge }) => edge)),
    ...rows.flatMap(({ cells }) => cells.map(({ group }) => group)),
  );
  picture.style.height = `${height}px`;
  const size = fluid(picture, height, () => draw());

  const item = () => {
    const [text, numbers] = [html("b"), html("small")];
    return { text, numbers, element: html("li", {}, text, numbers) };
  };
  const [places, own] = [SIZES.map(item), item()];
  const list = html(
    "div",
    { class: "bg-list" },
    html("p", { class: "bg-greedy", text: "greedy’s path" }),
    html("ul", {}, own.element),
    html("p", { text: "finished: log-probability ÷ penalty = score" }),
    html("ol", {}, ...places.map(({ element }) => element)),
  );
  const legend = html("p", {
    class: "lf-legend lf-wide",
    text: `Left is best${long ? "" : "; numbers: log-probability so far"}. Blue: kept. Dashed: lost at once. Plain gray: kept, then dropped. Filled: the winner.`,
  });
  set(own.text, { text: tree.text(greedy) });
  const sum = (total, length, x) =>
    `${fixed(total)} ÷ ${fixed(penalty(length, x))} = ${fixed(total / penalty(length, x))}`;
  const nodeTotal = (node) => tree.path(node).reduce((total, n) => total + tree.gains[n], 0);
  const clip = (token) => (token.length > 1 ? token.replace(/^▁/, "") : token);

  function draw() {
    const now = state();
    const { notes, step, exponent: x } = now;
    beamSize.update(now.size);
    exponent.update(x);
    time.limit(notes.length);
    time.update(step);
    const { candidates, ends } = step ? notes[step - 1] : { candidates: [], ends: [] };
    const over = step === notes.length;
    const leaves = [...ends, ...(over ? [] : candidates.filter(({ fate }) => fate === "kept"))];
    const alive = new Set(leaves.flatMap(({ node }) => tree.path(node)));
    const best = new Set(over && ends.length ? tree.path(ends[0].node) : []);
    const columns = Math.min(MOST, Math.max(5, Math.floor((size.width - LEFT) / 56)));
    const width = (size.width - LEFT) / columns;
    const spots = new Map();
    rows.forEach(({ y, cells, number }, t) => {
      const drawn = t < step ? inView(notes[t].candidates, columns) : [];
      set(number, { visibility: t < step ? "visible" : "hidden" });
      cells.forEach(({ edge, box, token, total, group }, c) => {
        const it = drawn[c];
        [edge, group].forEach((element) => set(element, { visibility: it ? "visible" : "hidden" }));
        if (!it) return;
        const middle = LEFT + (c + 0.5) * width;
        spots.set(it.node, [middle, y]);
        const look = best.has(it.node)
          ? "best"
          : it.fate === "lost"
            ? "lost"
            : alive.has(it.node)
              ? it.fate
              : "gone";
        set(group, {
          transform: `translate(${middle} ${y})`,
          class: `bg-${look}`,
          "data-greedy": onGreedy.has(it.node),
        });
        set(box, { x: 2 - width / 2, width: width - 4 });
        set(token, { text: clip(tree.tokens[it.node]) });
        set(total, { text: fixed(it.total) });
        const from = spots.get(tree.parents[it.node]);
        set(edge, {
          class: `bg-edge bg-${look}`,
          d: from
            ? `M${from[0]} ${from[1] + tall}L${middle} ${y}`
            : `M${LEFT} ${y - 14}L${middle} ${y}`,
          ...(t > 0 && !from ? { visibility: "hidden" } : {}),
        });
      });
    });
    places.forEach(({ element, text, numbers }, i) => {
      const end = ends[i];
      set(element, { "data-none": !end, "data-off": i >= now.size });
      set(text, { text: end ? tree.text(end.node) : "…" });
      set(numbers, { text: end ? sum(end.total, tree.path(end.node).length, x) : "not finished" });
    });
    set(own.numbers, { text: sum(nodeTotal(greedy), onGreedy.size, x) });
    return sentence(now, candidates, ends, over);
  }

  const quoted = (node) => `“${tree.text(node)}”`;
  function sentence({ size: n, exponent: x, step }, candidates, ends, over) {
    if (step === 0)
      return `Nothing is written yet. At each step the beam will keep the best ${n > 1 ? `${n} continuations` : "continuation"}.`;
    if (over) {
      const own = nodeTotal(greedy) / penalty(onGreedy.size, x);
      const after =
        ends[0].node === greedy
          ? "greedy search writes the same"
          : `greedy search writes ${quoted(greedy)}, ${fixed(own)}`;
      return `Done after step ${step}: ${quoted(ends[0].node)} wins with ${fixed(ends[0].rank)}; ${after}.`;
    }
    const [kept, lost, ended] = ["kept", "lost", "ended"].map((fate) =>
      candidates.filter((candidate) => candidate.fate === fate),
    );
    const finish = ended.length
      ? `${quoted(ended[0].node)} ends with ${fixed(ended[0].total / penalty(step, x))}. `
      : "";
    const loses =
      lost.length && !finish
        ? `; the best it loses is ${quoted(lost[0].node)}, ${share(lost[0].total)}`
        : "";
    return `Step ${step}: ${finish}The beam keeps ${quoted(kept[0].node)}, ${share(kept[0].total)}${loses}.`;
  }

  const everything = () =>
    SIZES.flatMap((n) =>
      PENALTIES.flatMap((x) =>
        run(n, x).flatMap(({ candidates, ends }, i, { length }) =>
          sentence({ size: n, exponent: x, step: i + 1 }, candidates, ends, i + 1 === length),
        ),
      ),
    );
  return {
    controls: [beamSize.element, time.element],
    picture: [picture, legend],
    more: [exponent.element, list],
    draw,
    longest: longest(everything()),
  };
}

export default live({
  name: "BeamGrower",
  title: () => "What does a beam keep, and what does it lose?",
  state: { beam_size: [1, 4, 1], length_penalty: [0, 1], step: [0, 40, 1] },
  build,
});
