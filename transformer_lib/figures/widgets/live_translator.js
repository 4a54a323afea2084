// LiveTranslator: a trained translator of numbers, loaded when the reader asks. compose() puts `engine` before this text.
import {
  button,
  choice,
  diverging,
  html,
  live,
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
const RECORDED = "This translation is recorded. Load the translator to type your own.";
const FAILED = "The translator didn’t load: its files aren’t next to this page.";
const hundredths = (x) => `${x}\u00a0%`;
const closing = (text) => `“${text}”${/[.!?]$/.test(text) ? "" : "."}`; // a quotation that ends a sentence
const load = ({ megabytes }) => `Load the translator (${megabytes} MB)`;
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
    return phase === "failed" ? FAILED : `Load the translator to translate ${closing(text)}`;
  const ended = said.pieces.at(-1).text === END;
  const answer = slot.written(ended ? said.pieces.slice(0, -1) : said.pieces);
  const at = Math.min(place, said.pieces.length - 1);
  const piece = said.pieces[at];
  const weights = piece.heads[head];
  const most = Math.max(...weights);
  const looked = source[weights.indexOf(most)].text;
  const look =
    `Piece ${at + 1}, “${piece.text}”: ${hundredths(piece.share)}. ` +
    `Head ${(head % slot.heads) + 1} of layer ${Math.floor(head / slot.heads) + 1} attends most to ${looked === "▁" ? "a space" : `“${looked}”`}, ${hundredths(most)}.`;
  return [
    `It writes ${closing(answer)}`,
    ended ? slot.verdict(text, answer) : `It had to stop at ${MOST} pieces.`,
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
  let [rest, dropped] = [true, ""]; // rest: as at the start, show the recording instead of translating it again
  const put = (changes, without = "") => {
    [rest, dropped] = [false, without];
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
      const without = slot.dropped(input.value);
      input.value = slot.tidy(input.value);
      put({ text: input.value }, without);
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
  start.classList.add("tr-load");
  const label = html("span", { role: "status" });
  // The status line says the answer to everybody; it stands here large.
  const [answer, mark] = [html("b"), html("span", { class: "tr-mark" })];
  const offer = button("", () => put({ text: slot.inWords(typed()) }));
  const verdict = room(mark, [`That’s right. ${RECORDED}`, slot.oddity(`${"m".repeat(40)} !?`)]);
  verdict.append(offer);
  const controls = [
    html("label", { class: "tr-field" }, room(label, [slot.field, slot.dropped(",;:<>()")]), input),
    room(start, [load(slot)]),
    examples,
    html(
      "div",
      { class: "tr-answer" },
      set(room(answer, [LONG]), { "aria-hidden": true }),
      verdict,
    ),
  ];

  // ---- picture
  const chip = () => {
    const [text, small] = [html("b"), html("small")];
    return { text, small, element: html("li", {}, text, small) };
  };
  const english = steps(slot.longest).map(chip);
  const strip = html(
    "ol",
    { class: "tr-english", "aria-label": "the pieces it reads, with their weights in percent" },
    ...english.map(({ element }) => element),
  );
  const read = html(
    "div",
    { class: "lf-wide" },
    html("p", { class: "tr-label", text: "It reads, with attention weights in percent" }),
    strip,
  );
  const german = choice({
    label: "It writes, with probabilities in percent",
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
    className: "tr-heads",
  });
  const maps = heads.labels.map((box) => {
    const [map, row] = [html("canvas", { width: 1, height: 1, "aria-hidden": true }), html("i")];
    box.append(html("span", { class: "tr-map" }, map, row));
    return { box, map, row, name: box.children[1] };
  });

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
    set(input, { "aria-label": slot.field });
    const above = dropped || slot.field;
    if (label.textContent !== above) label.textContent = above;
    [...examples.children].forEach((one) => set(one, { "aria-pressed": one.textContent === text }));
    search.update(get("search"));
    set(start, {
      text:
        phase === "ready"
          ? "Translator loaded"
          : idle
            ? load(slot)
            : `Loading: ${part} of ${slot.parts} parts`,
      "aria-disabled": !idle,
    });
    const written = said
      ? slot.written(said.pieces.filter(({ text: piece }) => piece !== END))
      : "";
    const words = slot.inWords(text);
    set(answer, { text: written });
    const ended = said?.pieces.at(-1)?.text === END;
    const judged = ended ? slot.wanted(text, written) || "That’s right." : "";
    const marks = [slot.oddity(text) || judged, recorded && idle ? RECORDED : ""];
    set(mark, { text: text && !words ? marks.join(" ").trim() : "" });
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
    picture: [read, german.element],
    more: [search.element, heads.element],
    draw,
    longest: worst(slot),
    restart: () => {
      [rest, dropped] = [true, ""];
      reader.rest();
    },
    leave: () => {
      reader.stop();
      model.off("msg:custom", heard);
    },
  };
}

/** The longest sentences: with the longest answer, right or unfinished. */
function worst(slot) {
  const heads = steps(MAPS).map(() => [100]);
  const piece = (text) => ({ text, share: 100, heads });
  const say = (end) =>
    sentence({
      slot,
      text: "three",
      source: [{ text: "thousand" }],
      said: { pieces: [...[...LONG].map(piece), piece(end)] },
      phase: "ready",
      place: MOST,
      head: MAPS - 1,
    });
  return [say(END), say("w")];
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
