// WordSwap: two words trade places: what changes? Self-attention on a sentence whose words the reader moves.
import {
  button,
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
  toggle,
} from "./kit.js";

// ---- arithmetic

/** The order, or that of the original sentence if it leaves a word out. */
export const orderOf = (order, n) =>
  order.length === n && steps(n).every((word) => order.includes(word)) ? order : steps(n);

/** The order after the words at two positions trade places. */
export const swap = (order, a, b) =>
  order.map((word, place) => (place === a ? order[b] : place === b ? order[a] : word));

const times = (rows, matrix) =>
  rows.map((row) => matrix[0].map((_, j) => sum(row.map((x, i) => x * matrix[i][j]))));

/** softmax(Q Kᵀ / √d_k) V of the words in an order, with their positions' vectors if `positions`. */
export function attend({ vectors, places, query, key, value, positions }, order) {
  const x = order.map((word, place) =>
    vectors[word].map((number, i) => number + (positions ? places[place][i] : 0)),
  );
  const [q, k, v] = [query, key, value].map((matrix) => times(x, matrix));
  const weights = q.map((one) =>
    softmax(k.map((other) => dot(one, other) / Math.sqrt(one.length))),
  );
  return { weights, received: times(weights, v) };
}

const show = (x) => (Math.abs(x) < 0.995 ? fixed(x, 2).replace(/^(−?)0/, "$1") : fixed(x, 1)); // .57, 1.0: cells are narrow
/** Whether two numbers differ in the digits shown, by more than rounding errors. */
const differ = (a, b) => Math.abs(a - b) > 1e-9 && show(a) !== show(b);

/** Attention in the new order, and which weights and outputs differ from the same words' in the original sentence. */
export function changes(numbers, order) {
  const [before, now] = [steps(order.length), order].map((some) => attend(numbers, some));
  return {
    ...now,
    otherWeights: now.weights.map((row, i) =>
      row.map((w, j) => differ(w, before.weights[order[i]][order[j]])),
    ),
    otherReceived: now.received.map((row, i) =>
      row.map((x, j) => differ(x, before.received[order[i]][j])),
    ),
  };
}

// ---- picture

function build({ get, change }) {
  const [words, features] = [get("words"), get("features")];
  const n = words.length;
  const numbers = () =>
    Object.fromEntries(
      ["vectors", "places", "query", "key", "value", "positions"].map((name) => [name, get(name)]),
    );
  const order = () => orderOf(get("order"), n);
  const picked = () => (steps(n).includes(get("picked")) ? get("picked") : -1);
  const size = Math.max(1, ...get("vectors").flat().map(Math.abs)); // the number with the darkest color

  function click(place) {
    if (picked() < 0 || picked() === place) change({ picked: picked() < 0 ? place : -1 });
    else change({ order: swap(order(), picked(), place), picked: -1 });
  }
  const switched = toggle({
    label: "positions: each adds its own vector",
    onInput: (positions) => change({ positions }),
  });
  const tokens = steps(n).map((place) => {
    const word = html("b");
    const element = button("", () => click(place));
    element.classList.add("ws-token");
    element.append(html("small", { text: String(place + 1) }), " ", room(word, words));
    return { word, element };
  });
  const row = html(
    "div",
    { class: "ws-row", role: "group", "aria-label": "the sentence: click two words" },
    ...tokens.map(({ element }) => element),
  );
  const weightMap = heatMap({
    caption: "weights: row takes from column",
    rows: words,
    columns: words,
  });
  const receivedMap = heatMap({
    caption: "what each word receives",
    rows: words,
    columns: [...features, "as before"],
  });
  const columns = weightMap.element.querySelectorAll("thead th span");
  const picture = html(
    "div",
    { class: "ws-tables lf-wide" },
    weightMap.element,
    receivedMap.element,
  );

  function draw() {
    const [now, at] = [order(), picked()];
    const { weights, received, otherWeights, otherReceived } = changes(numbers(), now);
    switched.update(get("positions"));
    now.forEach((word, place) => {
      const moved = word !== place;
      set(tokens[place].word, { text: words[word] });
      set(tokens[place].element, { "aria-pressed": String(place === at), "data-moved": moved });
      for (const head of [weightMap.heads[place], receivedMap.heads[place], columns[place]])
        set(head, { text: words[word], "data-moved": moved });
    });
    weightMap.update(weights, { show });
    receivedMap.update(
      received.map((some) => [...some, null]),
      { show, size },
    );
    otherWeights.forEach((line, i) =>
      line.forEach((other, j) => set(weightMap.cells[i][j], { "data-other": other })),
    );
    otherReceived.forEach((line, i) => {
      line.forEach((other, j) => set(receivedMap.cells[i][j], { "data-other": other }));
      set(receivedMap.cells[i].at(-1), {
        text: line.some(Boolean) ? "no" : "yes",
        "data-other": line.some(Boolean),
      });
    });
    return sentence(
      now,
      at,
      otherWeights.flat().filter(Boolean).length,
      otherReceived.filter((line) => line.some(Boolean)).length,
    );
  }

  function sentence(now, at, cells, rows) {
    if (at >= 0) return `Now click the word that trades places with ${words[now[at]]}.`;
    const moved = now.filter((word, place) => word !== place);
    if (!moved.length)
      return "The original sentence. Click one word, then another: they trade places.";
    const who =
      moved.length === 2
        ? `${words[moved[0]]} and ${words[moved[1]]} have traded places.`
        : `${moved.length} words have traded places.`;
    if (cells + rows)
      return `${who} ${cells} of ${n * n} weights have changed, and ${rows} of ${n} words receive different numbers.`;
    return `${who} Their rows and columns moved with them. Each word receives the same numbers as before.`;
  }

  const [one, two] = steps(n).sort((a, b) => words[b].length - words[a].length); // the longest words
  const swapped = swap(steps(n), one, two);
  return {
    controls: [row, switched.element],
    picture: [picture],
    draw,
    longest: longest(
      [
        [steps(n), one, 0, 0],
        [steps(n), -1, 0, 0],
        [swapped, -1, 0, 0],
        [swapped, -1, n * n, n],
      ].map((some) => sentence(...some)),
    ),
  };
}

export default live({
  name: "WordSwap",
  title: () => "Two words trade places: what changes?",
  state: { order: [0, 7], positions: [], picked: [-1, 7, 1] },
  build,
});
