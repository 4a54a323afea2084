// LiveTranslator: a trained translator of numbers, loaded when the reader asks. compose() puts `engine` before this text.
import {
  button,
  choice,
  diverging,
  html,
  live,
  longest,
  moved,
  paint,
  room,
  set,
  steps,
  textInput,
  tint,
} from "./kit.js";

// ---- words
const [MOST, MAPS, END] = [44, 8, "end"]; // pieces to write, heads to show at once
const LONG = "siebentausendsiebenhundertsiebenundsiebzig";
const HINT = "A recorded translation. Load the translator for other texts.";
const FAILED = "The translator didn’t load: its files aren’t next to this page.";
const hundredths = (x) => `${x}\u00a0%`;
const closing = (text) => `“${text}”${/[.!?]$/.test(text) ? "" : "."}`; // a quotation that ends a sentence
const load = ({ megabytes }) => `Load the translator (${megabytes} MB)`;
const field = (slot) => `${slot.field}, at most ${slot.longest} characters`;
export const numbers = (pieces) => new engine.Numbers(pieces);

/** The status line. said: null, or { pieces: [{ id, text, share, heads }] } in percent; phase: the translator's. */
export function sentence({
  slot,
  text,
  source,
  said,
  phase,
  part = 0,
  recorded = false,
  place,
  head,
}) {
  if (!text) return slot.empty;
  if (phase === "loading") return `Loading the translator: ${part} of ${slot.parts} parts.`;
  if (phase === "asked")
    return "Asking the notebook’s kernel for the translator. If nothing happens, run this figure’s cell first.";
  if (phase === "writing") return `It has read “${text}” and is writing.`;
  if (!said)
    return `${phase === "failed" ? FAILED : `Load the translator to translate ${closing(text)}`} ${slot.oddity(text)}`.trim();
  const ended = said.pieces.at(-1).text === END;
  const answer = slot.written(ended ? said.pieces.slice(0, -1) : said.pieces);
  const at = Math.min(place, said.pieces.length - 1);
  const piece = said.pieces[at];
  const weights = piece.heads[head];
  const most = Math.max(...weights);
  const looked = source[weights.indexOf(most)].text;
  const look =
    `Piece ${at + 1}, “${piece.text}”, has a probability of ${hundredths(piece.share)}. Here ` +
    `head ${(head % slot.heads) + 1} of layer ${Math.floor(head / slot.heads) + 1} attends most to ${looked === "▁" ? "a space" : `“${looked}”`}, ${hundredths(most)}.`;
  return [
    `It writes ${closing(answer)}`,
    ended ? "" : `It hadn’t finished after ${MOST} pieces.`,
    slot.verdict(text, answer),
    look,
    recorded && phase === "failed" ? FAILED : "",
  ]
    .filter(Boolean)
    .join(" ");
}

/** The recorded translation as `said`; each percentage has two hexadecimal digits. */
export function unpack({ german, shares, weights }, count) {
  const numbers = (hex) => (hex.match(/../g) ?? []).map((two) => parseInt(two, 16));
  const [share, all] = [numbers(shares), numbers(weights)];
  return {
    pieces: [...german, END].map((text, t) => ({
      text,
      share: share[t],
      heads: steps(MAPS).map((h) => all.slice((t * MAPS + h) * count, (t * MAPS + h + 1) * count)),
    })),
  };
}

let host = null; // the model of the figure being built

function build({ get, change, refresh }) {
  const model = host;
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  const { content_root: root } = document.documentElement.dataset;
  const record = get("record");
  const slot = numbers(get("pieces"));
  const reader = new engine.Interpreter({
    slot,
    root,
    ask: (key) => model.send({ ask: key }),
    changed: () => refresh(),
  });
  const typed = () => slot.read(engine.plain(get("text")));
  const heard = (content) => reader.hear(content);
  let rest = true; // as at the start: show the recording instead of translating it again
  const put = (changes) => {
    rest = false;
    change(
      "text" in changes ? { ...changes, text: engine.coded(changes.text), place: 0 } : changes,
    );
  };
  const show = ({ id, p, heads }) => ({
    id,
    text: id === 2 ? END : slot.shown(id),
    share: Math.round(100 * p),
    heads: heads.map((weights) => weights.map((weight) => Math.round(100 * weight))),
  });

  // ---- controls
  const input = textInput({
    class: "lf-text tr-text",
    oninput: () => {
      input.value = slot.tidy(input.value);
      put({ text: input.value });
    },
  });
  const examples = html(
    "div",
    { class: "tr-examples", role: "group", "aria-label": "examples" },
    ...slot.examples.map((text) => button(text, () => put({ text }))),
  );
  const search = choice({
    label: "search",
    options: [
      ["greedy", "greedy"],
      ["beam", "beam of 4"],
    ],
    onInput: (value) => put({ search: value }),
  });
  const start = button("", () => {
    rest = false;
    reader.load();
  });
  const progress = html("progress", {
    class: "tr-progress",
    value: 0,
    "aria-label": "parts of the translator loaded",
  });
  const [label, hint] = [html("span"), html("span", { class: "tr-hint" })];
  const beside = room(hint, [HINT]); // the hint or the progress bar
  beside.append(progress);
  // What the status line says to everybody stands here large.
  const [answer, mark] = [html("b"), html("span", { class: "tr-mark" })];
  const large = [room(answer, [LONG]), room(mark, [`It should be “${LONG}”.`])];
  large.forEach((box) => set(box, { "aria-hidden": true }));
  const offer = button("", () => put({ text: slot.inWords(typed()) }));
  const controls = [
    html("label", { class: "tr-field" }, room(label, [field(slot)]), input),
    html("div", { class: "tr-answer" }, ...large, offer),
    html("div", { class: "tr-load" }, room(start, [load(slot)]), beside),
    html("div", { class: "lf-room tr-all" }, examples),
    search.element,
  ];

  // ---- picture
  const chip = () => {
    const [text, small] = [html("b"), html("small")];
    return { text, small, element: html("li", {}, text, small) };
  };
  const english = steps(slot.chips).map(chip);
  const strip = html(
    "ol",
    { class: "tr-english", "aria-label": "the pieces it reads, with their weights in percent" },
    ...english.map(({ element }) => element),
  );
  const boxes = (count) =>
    html(
      "ol",
      { class: "tr-english lf-unseen", "aria-hidden": true },
      ...steps(count).map(() =>
        html("li", {}, html("b", { text: "w" }), html("small", { text: "100" })),
      ),
    );
  const read = html(
    "div",
    { class: "tr-read lf-wide" },
    html("p", {
      class: "tr-label",
      text: "It reads, with the weights of the chosen head in percent",
    }),
    html("div", { class: "lf-room" }, strip, boxes(slot.chips)),
  );
  const german = choice({
    label: "It writes, piece by piece, with probabilities in percent. Point at a piece",
    options: steps(MOST).map((i) => [i, ""]),
    onInput: (place) => change({ place }),
    className: "tr-german lf-wide",
  });
  const letters = german.labels.map((box, i) => {
    const small = html("small");
    box.append(small);
    box.addEventListener(
      "pointermove",
      moved(() => {
        if (get("place") !== i) change({ place: i });
      }),
    );
    return { box, text: box.children[1], small };
  });
  const heads = choice({
    label:
      "Cross-attention, layer · head. One row per piece it writes, one column per piece it reads",
    onInput: (head) => change({ head }),
    options: steps(MAPS).map((h) => [h, ""]),
    className: "tr-heads lf-wide",
  });
  const maps = heads.labels.map((box) => {
    const [map, row] = [html("canvas", { width: 1, height: 1, "aria-hidden": true }), html("i")];
    box.append(html("span", { class: "tr-map" }, map, row));
    return { box, map, row, name: box.children[1] };
  });
  const picture = [read, german.element, heads.element];

  function update(source, said) {
    const count = said?.pieces.length ?? 0;
    const at = Math.min(get("place"), Math.max(0, count - 1));
    const head = get("head");
    const weights = said?.pieces[at]?.heads[head] ?? [];
    english.forEach(({ element, text: name, small }, i) => {
      const one = source[i];
      set(element, { hidden: one ? null : "", "data-unknown": one?.id === 3 });
      if (!one) return;
      set(name, { text: one.text });
      set(small, { text: weights[i] ?? "" });
      tint(element, (weights[i] ?? 0) / 100);
    });
    letters.forEach(({ box, text: name, small }, i) => {
      const one = said?.pieces[i];
      set(box, {
        "data-none": !one,
        "data-doubt": one ? one.share < 50 : null,
        "data-end": one?.text === END,
      });
      set(name, { text: one?.text ?? "" });
      set(small, { text: one?.share ?? "" });
    });
    german.update(at);
    heads.update(head);
    const [rows, columns] = [Math.max(1, count), Math.max(1, source.length)];
    maps.forEach(({ box, map, row, name }, i) => {
      const [layer, number] = [Math.floor(i / slot.heads) + 1, (i % slot.heads) + 1];
      set(box.firstChild, { "aria-label": `layer ${layer}, head ${number}` });
      set(name, { text: `${layer} · ${number}` });
      if (map.width !== columns || map.height !== rows)
        Object.assign(map, { width: columns, height: rows });
      paint(map, (column, y) => diverging((said?.pieces[y]?.heads[i]?.[column] ?? 0) / 100));
      set(row, { hidden: count ? null : "", "--at": at, "--rows": rows });
    });
  }

  function draw() {
    const text = typed();
    const source = slot.cut(text);
    const beam = get("search") === "beam";
    const known = text === record.text && !beam;
    const job =
      known && rest
        ? null
        : reader.translate(
            `${beam} ${text}`,
            source.map(({ id }) => id),
            { most: MOST, beam: beam ? 4 : 1 },
            show,
          );
    const recorded = !job && known;
    const ready = job && (job.done || (job.pieces.length > 0 && !still.matches));
    const said = ready ? job : recorded ? unpack(record, source.length) : null;
    const { idle, part, phase } = reader;
    if (slot.read(slot.tidy(input.value)) !== text) input.value = engine.plain(get("text"));
    set(input, { maxlength: slot.longest, "aria-label": slot.field });
    set(label, { text: field(slot) });
    [...examples.children].forEach((one) => set(one, { "aria-pressed": one.textContent === text }));
    set(hint, { text: recorded && idle ? HINT : "" });
    search.update(get("search"));
    set(start, {
      text: phase === "ready" ? "Translator loaded" : idle ? load(slot) : "Loading …",
      "aria-disabled": !idle,
    });
    set(progress, {
      max: slot.parts,
      value: phase === "asked" ? null : part,
      "data-none": phase !== "loading" && phase !== "asked",
    });
    const written = said
      ? slot.written(said.pieces.filter(({ text: piece }) => piece !== END))
      : "";
    const words = slot.inWords(text);
    set(answer, { text: written });
    set(mark, { text: said?.pieces.at(-1)?.text === END ? slot.mark(text, written) : "" });
    set(offer, { text: words ? `Did you mean ${words}?` : "", hidden: words ? null : "" });
    update(source, said);
    const now =
      job && !job.done ? "writing" : recorded && rest && phase !== "failed" ? "ready" : phase;
    return sentence({
      slot,
      text,
      source,
      said,
      phase: now,
      part,
      recorded,
      place: get("place"),
      head: get("head"),
    });
  }

  model.on("msg:custom", heard);
  return {
    controls,
    picture,
    draw,
    longest: longest(worst(slot)),
    restart: () => {
      rest = true;
      reader.rest();
    },
    leave: () => {
      reader.stop();
      model.off("msg:custom", heard);
    },
  };
}
/** Candidates for a slot's longest sentences. */
function worst(slot) {
  const say = (text, source, piece, answer) =>
    sentence({
      slot: Object.assign(Object.create(slot), { written: () => answer }),
      text,
      source: [{ text: source }],
      said: {
        pieces: steps(MOST).map(() => ({
          text: piece,
          share: 100,
          heads: steps(MAPS).map(() => [100]),
        })),
      },
      phase: "ready",
      place: MOST,
      head: MAPS - 1,
    });
  return [
    `${"m".repeat(15)} ${"w".repeat(28)}`,
    "m".repeat(44),
    `m!? ${"m".repeat(40)}`,
    "six thousand six hundred thirty-three three",
    "seven thousand seven hundred twenty-seven",
  ].map((text) => say(text, slot.cut(text)[0].text, "w", "w".repeat(MOST)));
}

const PLAIN = numbers([]); // knows which characters can be typed

const figure = live({
  name: "LiveTranslator",
  title: () => "Does it really translate?",
  state: {
    text: {
      includes: (text) => PLAIN.tidy(engine.plain(text)) === engine.plain(text),
    },
    search: ["greedy", "beam"],
    head: [0, MAPS - 1, 1],
    place: [0, MOST - 1, 1],
  },
  build,
});
export default {
  render(context) {
    host = context.model;
    return figure.render(context);
  },
};
