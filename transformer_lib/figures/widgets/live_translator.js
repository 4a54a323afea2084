// LiveTranslator: the trained translator of numbers, in the page, once a reader asks for it.
// compose() puts the translator before this text: `engine`.
import { button, choice, diverging, html, live, longest, moved, paint, room, set, steps, tint } from "./kit.js";

// ---- words
const [LONGEST, MOST] = [44, 44]; // characters to read, pieces to write
const [LAYERS, HEADS] = [2, 4];
const LOAD = "Load the translator (0.96 MB)";
const EXAMPLES = ["three", "four", "seven thousand seven hundred twenty-seven", "dozen", "ten thousand"];
const END = "end";
const HINT = "A recorded translation. Load the translator for other texts.";
const FAILED = "The translator did not load: its files are not beside this page.";
const hundredths = (x) => `${x}\u00a0%`;

/** What someone types, as far as the figure reads it: Latin letters, digits, few marks. */
export const tidy = (text) => [...text.replace(/\s/g, " ")].filter((letter) => /[\p{Script=Latin}0-9 .'!?-]/u.test(letter)).slice(0, LONGEST).join("");
/** Text as it stands in an address, or as it is. */
const plain = (text) => { try { return decodeURIComponent(text); } catch { return text; } };
/** What the model reads of it: its training had small letters alone. */
export const lowered = (text) => [...text.trim().toLowerCase()].slice(0, LONGEST).join("");

/** What is odd about a text, in a sentence; nothing for a number as the training wrote it. */
export function oddity(text, pieces) {
  const words = [...new Set(text.match(/[^\s-]+/g) ?? [])].filter((word) => word.length < 2 || !pieces.includes(word));
  const holes = [...new Set(engine.cut(text, pieces).filter(({ id }) => id === 3).map((piece) => piece.text))];
  if (words.length) {
    const more = words.length > 1 ? ` and ${words.length - 1} more` : "";
    const without = holes.length ? ` It has no piece for ${holes.slice(0, 3).join(" ")}${holes.length > 3 ? ` and ${holes.length - 3} more` : ""}, and reads <unk>, unknown.` : "";
    return `“${words[0]}”${more} never stood in its training, so it reads character by character.${without}`;
  }
  return engine.valueOf(text) === null ? "This is no number below 10,000 as its training wrote them: “four hundred forty-two”." : "";
}

const written = (said) => said.pieces.map(({ text }) => text).filter((text) => text !== END).join("");

/** The status line. said: null, or { pieces: [{ text, share, heads }] } in percent; phase: of the translator. */
export function sentence({ text, pieces, said, phase, part = 0, recorded = false, place, head }) {
  if (!text) return "Type a number below 10,000 in English words.";
  const odd = oddity(text, pieces);
  if (phase === "loading") return `Loading the translator: ${part} of ${engine.PARTS} parts are here.`;
  if (phase === "asked") return "The notebook’s kernel is asked for the translator. If nothing comes, run the cell of this figure first.";
  if (phase === "writing") return `It reads “${text}” and writes.`;
  if (!said) {
    const why = phase === "failed" ? FAILED : `Load the translator, and it translates “${text}”.`;
    return `${why} ${odd}`.trim();
  }
  const answer = written(said);
  const n = engine.valueOf(text);
  const verdict = n === null ? `${odd} It always writes something, also where nothing is right.`
    : answer === engine.german(n) ? "That is right." : `That is wrong: it should be “${engine.german(n)}”.`;
  const end = said.pieces.at(-1).text === END ? "" : ` It had not ended after ${MOST} pieces.`;
  const at = Math.min(place, said.pieces.length - 1);
  const piece = said.pieces[at];
  const weights = piece.heads[head];
  const most = Math.max(...weights);
  const source = engine.cut(text, pieces)[weights.indexOf(most)].text;
  const look = `Piece ${at + 1}, “${piece.text}”, has a probability of ${hundredths(piece.share)}; there head ${(head % HEADS) + 1} of layer ${Math.floor(head / HEADS) + 1} `
    + `looks most at ${source === " " ? "a space" : `“${source}”`}, ${hundredths(most)}.`;
  return `It writes “${answer}”.${end} ${verdict} ${look}${recorded && phase === "failed" ? ` ${FAILED}` : ""}`;
}

/** The recorded translation as `said`: two hexadecimal digits for each percent. */
export function unpack({ german, shares, weights }, count) {
  const numbers = (hex) => (hex.match(/../g) ?? []).map((two) => parseInt(two, 16));
  const [share, all] = [numbers(shares), numbers(weights)];
  const texts = [...german, END];
  return { pieces: texts.map((text, t) => ({ text, share: share[t],
    heads: steps(LAYERS * HEADS).map((h) => all.slice((t * LAYERS * HEADS + h) * count, (t * LAYERS * HEADS + h + 1) * count)) })) };
}

let host = null; // the model of the figure that is being built

function build({ get, all, change, refresh }) {
  const model = host;
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  const [pieces, record] = [get("pieces"), get("record")];
  const typed = () => lowered(plain(get("text")));
  let rest = true; // as at first: what is recorded is not written once more
  const put = (changes) => { rest = false; change(changes); };
  const interpreter = new engine.Interpreter({ root: document.documentElement.dataset.content_root, ask: () => model.send({ ask: "translator" }), changed: () => refresh() });
  const heard = (content) => interpreter.hear(content);
  const show = ({ id, p, heads }) => ({ text: pieces[id] === "<eos>" ? END : pieces[id], share: Math.round(100 * p),
    heads: heads.map((weights) => weights.map((weight) => Math.round(100 * weight))) });

  // ---- controls
  const input = html("input", { type: "text", class: "tr-text", spellcheck: "false", autocomplete: "off", autocapitalize: "none", maxlength: LONGEST,
    "aria-label": "a number in English words", oninput: () => { input.value = tidy(input.value); put({ text: input.value, place: 0 }); } });
  const field = html("label", { class: "tr-field" }, html("span", { text: `a number in English words, at most ${LONGEST} characters` }), input);
  const examples = EXAMPLES.map((text) => button(text, () => put({ text, place: 0 })));
  const search = choice({ label: "search", options: [["greedy", "greedy"], ["beam", "beam of 4"]], onInput: (value) => put({ search: value }) });
  const start = button("", () => { rest = false; interpreter.load(); });
  const progress = html("progress", { class: "tr-progress", max: engine.PARTS, value: 0, "aria-label": "parts of the translator that are here" });
  const hint = html("span", { class: "tr-hint" });
  const beside = room(hint, [HINT]); // the one or the other
  beside.append(progress);
  const asking = html("div", { class: "tr-load" }, room(start, [LOAD]), beside);

  // ---- picture
  const chip = () => { const [text, small] = [html("b"), html("small")]; return { text, small, element: html("li", {}, text, small) }; };
  const english = steps(LONGEST).map(chip);
  const strip = html("div", { class: "lf-room" },
    html("ol", { class: "tr-english", "aria-label": "what it reads, and the weight of each piece in percent" }, ...english.map(({ element }) => element)),
    html("ol", { class: "tr-english lf-unseen", "aria-hidden": true }, ...steps(LONGEST).map(() => html("li", {}, html("b", { text: "w" }), html("small", { text: "100" })))));
  const read = html("div", { class: "tr-read lf-wide" }, html("p", { class: "tr-label", text: "It reads, with the weights of the chosen head in percent" }), strip);
  const german = choice({ label: "It writes, piece by piece, with probabilities in percent. Point at a piece", options: steps(MOST).map((i) => [i, ""]),
    onInput: (place) => change({ place }), className: "tr-german lf-wide" });
  const letters = german.labels.map((label, i) => {
    const [box, text] = label.children;
    const small = html("small");
    label.append(small);
    label.addEventListener("pointermove", moved(() => { if (get("place") !== i) change({ place: i }); }));
    return { label, box, text, small };
  });
  const heads = choice({ label: "Cross-attention, layer · head. A row for each piece it writes, a column for each it reads", onInput: (head) => change({ head }),
    options: steps(LAYERS * HEADS).map((h) => [h, `${Math.floor(h / HEADS) + 1} · ${(h % HEADS) + 1}`]), className: "tr-heads lf-wide" });
  const maps = heads.labels.map((label, h) => {
    set(label.firstChild, { "aria-label": `layer ${Math.floor(h / HEADS) + 1}, head ${(h % HEADS) + 1}` });
    const [map, row] = [html("canvas", { width: 1, height: 1, "aria-hidden": true }), html("i")];
    label.append(html("span", { class: "tr-map" }, map, row));
    return { map, row };
  });

  function update(source, said) {
    const count = said?.pieces.length ?? 0;
    const at = Math.min(get("place"), Math.max(0, count - 1));
    const weights = said?.pieces[at]?.heads[get("head")] ?? [];
    english.forEach(({ element, text: name, small }, i) => {
      const one = source[i];
      set(element, { hidden: one ? null : "", "data-unknown": one?.id === 3 });
      if (!one) return;
      set(name, { text: one.text === " " ? "▁" : one.text });
      set(small, { text: weights[i] ?? "" });
      tint(element, (weights[i] ?? 0) / 100);
    });
    letters.forEach(({ label, text: name, small }, i) => {
      const one = said?.pieces[i];
      set(label, { "data-none": !one, "data-doubt": one ? one.share < 50 : null, "data-end": one?.text === END });
      set(name, { text: one?.text ?? "" });
      set(small, { text: one?.share ?? "" });
    });
    german.update(at);
    heads.update(get("head"));
    const [rows, columns] = [Math.max(1, count), Math.max(1, source.length)];
    maps.forEach(({ map, row }, h) => {
      if (map.width !== columns || map.height !== rows) Object.assign(map, { width: columns, height: rows });
      paint(map, (column, line) => diverging((said?.pieces[line]?.heads[h][column] ?? 0) / 100));
      set(row, { hidden: count ? null : "", "--at": at, "--rows": rows });
    });
  }

  function draw() {
    const text = typed();
    const source = engine.cut(text, pieces);
    const beam = get("search") === "beam";
    const known = text === record.text && !beam;
    const job = known && rest ? null : interpreter.translate(`${beam} ${text}`, source.map(({ id }) => id), { most: MOST, beam: beam ? 4 : 1 }, show);
    const recorded = !job && known;
    const ready = job && (job.done || (job.pieces.length > 0 && !still.matches));
    const said = ready ? job : recorded ? unpack(record, source.length) : null;
    const { idle, part, phase } = interpreter;
    if (lowered(tidy(input.value)) !== text) input.value = plain(get("text"));
    examples.forEach((one) => set(one, { "aria-pressed": one.textContent === text }));
    set(hint, { text: recorded && idle ? HINT : "" });
    search.update(get("search"));
    set(start, { text: phase === "ready" ? "Translator loaded" : idle ? LOAD : "Loading …", "aria-disabled": !idle });
    set(progress, { value: phase === "asked" ? null : part, "data-none": phase !== "loading" && phase !== "asked" });
    update(source, said);
    const now = job && !job.done ? "writing" : recorded && rest && phase !== "failed" ? "ready" : phase;
    return sentence({ text, pieces, said, phase: now, part, recorded, place: get("place"), head: get("head") });
  }

  model.on("msg:custom", heard);
  const worst = (text, german) => ({ text, pieces, phase: "ready", recorded: false, place: 99, head: 7,
    said: { pieces: [...german].map((letter) => ({ text: letter, share: 100, heads: steps(8).map(() => [100]) })) } });
  const sentences = [`${"m".repeat(15)} ${"w".repeat(28)}`, "m".repeat(LONGEST), `m!? ${"m".repeat(40)}`, "six thousand six hundred thirty-three three"]
    .map((text) => sentence(worst(text, "w".repeat(MOST))));
  sentences.push(sentence(worst(EXAMPLES[2], "w".repeat(MOST))));
  return { controls: [field, html("div", { class: "tr-examples", role: "group", "aria-label": "examples" }, ...examples), search.element, asking],
    picture: [read, german.element, heads.element], draw, longest: longest(sentences), restart: () => { rest = true; interpreter.rest(); },
    leave: () => { interpreter.stop(); model.off("msg:custom", heard); } };
}

const figure = live({
  name: "LiveTranslator",
  title: () => "Does it really translate?",
  state: { text: { includes: (text) => tidy(plain(text)) === plain(text) }, search: ["greedy", "beam"], head: [0, LAYERS * HEADS - 1], place: [0, MOST - 1] },
  build,
});
export default { render(context) { host = context.model; return figure.render(context); } };
