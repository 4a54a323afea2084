// BytePairs: what happens to a word it has never seen? The merges of a byte-pair encoding, applied one by one.
import {
  button,
  canvas,
  fluid,
  html,
  live,
  longest,
  set,
  slider,
  steps,
  svg,
  textInput,
} from "./kit.js";

// ---- arithmetic

export const MARK = "▁";
export const LONGEST = 16; // letters of a word
const UNKNOWN = 3;

/** Turns what is typed into a word: lowercase, without characters that have a meaning in the address. */
export const tidy = (text) =>
  [...text.toLowerCase().replace(/[\s,;:&=#%▁]/g, "")].slice(0, LONGEST).join("");

/** A word from the page's address, which may be percent-encoded. */
export function plain(text) {
  try {
    return tidy(decodeURIComponent(text));
  } catch {
    return tidy(text);
  }
}

/** Merges every occurrence of a pair, from left to right. */
export function merge(pieces, [left, right]) {
  const merged = [];
  for (let i = 0; i < pieces.length; i += 1) {
    if (pieces[i] === left && pieces[i + 1] === right) merged.push(left + pieces[(i += 1)]);
    else merged.push(pieces[i]);
  }
  return merged;
}

/** The letters, then the pieces after each of the first `laid` merges that changes the word: {number, pieces}. */
export function cuts(word, merges, laid) {
  const lines = [{ number: 0, pieces: [MARK, ...word] }];
  merges.slice(0, laid).forEach((pair, i) => {
    const { pieces } = lines.at(-1);
    const merged = merge(pieces, pair);
    if (merged.length < pieces.length) lines.push({ number: i + 1, pieces: merged });
  });
  return lines;
}

/** A function from piece to id: four special ids, then the letters, then the merged pieces. */
export function rows(letters, merges) {
  const found = new Map();
  [...letters, ...merges.map((pair) => pair.join(""))].forEach((piece) => {
    if (!found.has(piece)) found.set(piece, 4 + found.size);
  });
  return (piece) => found.get(piece) ?? UNKNOWN;
}

// ---- picture

const [LEFT, ROW, TALL] = [30, 20, 18]; // room for the merges' numbers; heights of a line and a box
const [COLUMNS, LINES] = [LONGEST + 1, 12];

function build({ get, change }) {
  const [letters, merges] = [get("letters"), get("merges")];
  const idOf = rows(letters, merges);
  const wordNow = () => plain(get("word"));

  const input = textInput({
    maxlength: LONGEST,
    "aria-label": "word",
    oninput: () => change({ word: tidy(input.value) }),
  });
  const field = html("label", { class: "bp-field" }, html("span", { text: "word" }), input);
  const line = slider({
    label: "merges applied",
    last: merges.length,
    read: (p) => p,
    find: (n) => n,
    show: (n) => `${n} of ${merges.length}`,
    onInput: (laid) => change({ laid }),
  });
  const stops = () => cuts(wordNow(), merges, merges.length).map(({ number }) => number);
  const back = button("Back", () => {
    const n = stops()
      .filter((stop) => stop < get("laid"))
      .at(-1);
    if (n !== undefined) change({ laid: n });
  });
  const on = button("Next", () => {
    const n = stops().find((stop) => stop > get("laid"));
    if (n !== undefined) change({ laid: n });
  });
  const time = html("div", { class: "lf-stepper" }, back, on, line.element);

  const boxes = steps(COLUMNS).map(() => {
    const [text, id] = [html("b"), html("small")];
    return { text, id, element: html("li", {}, text, id) };
  });
  const list = html(
    "ol",
    { class: "bp-pieces lf-wide", "aria-label": "the pieces, with their ids" },
    ...boxes.map(({ element }) => element),
  );

  const cell = () => {
    const [box, text] = [
      svg("rect", { rx: 4, height: TALL }),
      svg("text", { "text-anchor": "middle", y: 13.5 }),
    ];
    return { box, text, group: svg("g", {}, box, text) };
  };
  const board = steps(LINES).map((y) => ({
    cells: steps(COLUMNS).map(cell),
    number: svg("text", { class: "lf-tick", x: LEFT - 6, y: y * ROW + 14, "text-anchor": "end" }),
  }));
  const height = LINES * ROW;
  const picture = canvas(
    340,
    height,
    {
      class: "lf-svg bp-board lf-wide",
      role: "img",
      "aria-label": "the word after each merge that changes it, the letters at the top",
    },
    ...board.map(({ number }) => number),
    ...board.flatMap(({ cells }, y) => cells.map(({ group }) => set(group, { "data-y": y }))),
  );
  picture.style.height = `${height}px`;
  const size = fluid(picture, height, () => draw());
  const legend = html("p", {
    class: "lf-legend lf-wide",
    text: "Left: the number of the merge. Filled: the piece it made. Dashed: a letter without an id.",
  });

  function draw() {
    const [word, laid] = [wordNow(), Math.min(get("laid"), merges.length)];
    const lines = cuts(word, merges, laid);
    const { pieces, number } = lines.at(-1);
    if (tidy(input.value) !== word) input.value = word;
    line.update(laid);
    const all = stops();
    set(back, { "aria-disabled": laid <= 0 });
    set(on, { "aria-disabled": laid >= all.at(-1) });
    boxes.forEach(({ element, text, id }, i) => {
      const piece = pieces[i];
      set(element, {
        hidden: piece === undefined ? "" : null,
        "data-unknown": piece !== undefined && idOf(piece) === UNKNOWN,
      });
      if (piece === undefined) return;
      set(text, { text: piece });
      set(id, { text: idOf(piece) });
    });
    const width = Math.min(34, (size.width - LEFT) / COLUMNS);
    const left = Math.max(0, lines.length - LINES); // the oldest merges make room
    board.forEach(({ cells, number: label }, y) => {
      const now = lines[y && y + left];
      set(label, { text: now && y ? now.number : "", visibility: now ? "visible" : "hidden" });
      const before = new Set(y && now ? lines[y + left - 1].pieces : now?.pieces);
      let at = 0;
      cells.forEach(({ box, text, group }, x) => {
        const piece = now?.pieces[x];
        set(group, { visibility: piece === undefined ? "hidden" : "visible" });
        if (piece === undefined) return;
        const long = [...piece].length * width;
        set(group, {
          transform: `translate(${LEFT + at} ${y * ROW + 1})`,
          class: before.has(piece) ? (idOf(piece) === UNKNOWN ? "bp-unknown" : "bp-old") : "bp-new",
        });
        set(box, { x: 1, width: long - 2 });
        set(text, { x: long / 2, text: piece });
        at += long;
      });
    });
    return sentence(word, laid, pieces, number);
  }

  function sentence(word, laid, pieces, number) {
    if (!word) return `Type a word of up to ${LONGEST} letters.`;
    const strange = [...new Set(pieces.filter((piece) => idOf(piece) === UNKNOWN))];
    const holes = strange.length
      ? ` ${strange.length > 1 ? `${strange.length} letters don’t have ids of their` : `${strange} doesn’t have an id of its`} own: id 3, <unk>.`
      : "";
    const count = `${pieces.length} piece${pieces.length > 1 ? "s" : ""}`;
    if (!laid) return `No merge yet: “${word}” and the mark before it are ${count}.${holes}`;
    const last = number
      ? `the last to change it was merge ${number}, ${merges[number - 1].join(" + ")}`
      : "none of them applies";
    return `After ${laid} merge${laid > 1 ? "s" : ""}, “${word}” is ${count}; ${last}.${holes}`;
  }

  const odd = [..."jqzxwkvybpmcdfghlaeiotrnus"]
    .filter((letter) => idOf(letter) === UNKNOWN)
    .slice(0, LONGEST); // letters that may be unknown
  const widest = merges.indexOf(longest(merges.map((pair) => pair.join(" + ")))[0]) + 1; // the longest merge
  const fullest = [
    sentence("m".repeat(LONGEST), merges.length, ["m", ...odd], 0),
    sentence("m".repeat(LONGEST), merges.length, [...odd.slice(0, LONGEST / 2)], widest),
  ];
  return { controls: [field, time], picture: [list, picture, legend], draw, longest: fullest };
}

export default live({
  name: "BytePairs",
  title: () => "What becomes of a word it has never seen?",
  state: { word: { includes: (item) => plain(item) !== "" || item === "" }, laid: [0, 100000, 1] },
  build,
});
