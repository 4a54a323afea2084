// FillIn: what goes in the blank? Hide words of a sentence to see a model's stored guesses.
import { button, choice, html, live, longest, percent, room, set, steps, sum } from "./kit.js";

// ---- arithmetic

export const isHidden = (hidden, place) => Math.floor(hidden / 2 ** place) % 2 === 1;
export const places = (hidden, length) => steps(length).filter((i) => isHidden(hidden, i));

/** The word whose guesses to show: `place`, or else the first hidden word; null if none is hidden. */
export const lookedAt = ({ hidden, place }, length) =>
  isHidden(hidden, place) && place < length ? place : (places(hidden, length)[0] ?? null);

/** The pairs [index of the word, probability] for a hidden word. choices: a sentence's guesses, by set of hidden words. */
export const guessesAt = (choices, hidden, place, length) =>
  choices[hidden % 2 ** length][places(hidden, length).indexOf(place)];

/** What a click on a word does: hides it, shows its guesses, or shows it again. */
export function click({ hidden, place }, at, length) {
  if (!isHidden(hidden, at)) return { hidden: hidden + 2 ** at, place: at };
  if (lookedAt({ hidden, place }, length) !== at) return { hidden, place: at };
  return {
    hidden: hidden - 2 ** at,
    place: lookedAt({ hidden: hidden - 2 ** at, place }, length) ?? at,
  };
}

// ---- picture

const BEST = 5;

function build({ get, change }) {
  const [sentences, words, guesses] = [get("sentences"), get("words"), get("guesses")];
  const { length } = sentences[0];
  const now = () => Math.min(get("sentence"), sentences.length - 1);
  const state = () => ({ hidden: get("hidden") % 2 ** length, place: get("place") });

  const which = choice({
    label: "sentence",
    className: "lf-tokens",
    onInput: (sentence) => change({ sentence }),
    options: sentences.map((sentence, i) => [i, sentence.join(" ")]),
  });
  const widest = longest(words);
  const tokens = steps(length).map((at) => {
    const [word, best] = [html("b"), html("small")];
    const element = button("", () => change(click(state(), at, length)));
    element.classList.add("fi-token");
    element.append(
      room(word, ["[MASK]", ...sentences.map((sentence) => sentence[at])]),
      room(
        best,
        widest.map((text) => `${text}?`),
      ),
    );
    return { word, best, element };
  });
  const rows = steps(BEST).map(() => {
    const [word, bar, share] = [
      html("span", { class: "fi-word" }),
      html("i"),
      html("span", { class: "fi-share" }),
    ];
    return {
      word,
      bar,
      share,
      element: html("li", {}, room(word, widest), html("span", { class: "fi-bar" }, bar), share),
    };
  });
  const row = html(
    "div",
    { class: "fi-row lf-wide", role: "group", "aria-label": "the words: click to hide" },
    ...tokens.map(({ element }) => element),
  );
  const list = html(
    "ol",
    { class: "fi-best lf-wide", "aria-label": "the five best guesses" },
    ...rows.map(({ element }) => element),
  );

  function draw() {
    const sentence = sentences[now()];
    const { hidden, place } = state();
    const at = lookedAt({ hidden, place }, length);
    which.update(now());
    tokens.forEach(({ word, best, element }, i) => {
      const gone = isHidden(hidden, i);
      const guess = gone ? words[guessesAt(guesses[now()], hidden, i, length)[0][0]] : "";
      set(word, { text: gone ? "[MASK]" : sentence[i] });
      set(best, { text: guess ? `${guess}?` : "" });
      set(element, {
        "aria-pressed": String(gone),
        "data-looked": i === at,
        "aria-description": gone
          ? `${sentence[i]} is hidden${i === at ? "; its guesses are below" : ""}`
          : "click to hide",
      });
    });
    const found = at === null ? [] : guessesAt(guesses[now()], hidden, at, length);
    rows.forEach(({ word, bar, share }, i) => {
      const [number, p] = found[i] ?? [null, 0];
      set(word, {
        text: number === null ? "" : words[number],
        "data-true": number !== null && words[number] === sentence[at],
      });
      set(share, { text: number === null ? "" : percent(p) });
      set(bar, { "--share": `${(100 * p).toFixed(1)}%` });
    });
    return sentenceOf(sentence, at, found);
  }

  function sentenceOf(sentence, at, found) {
    if (at === null) return "Nothing is hidden. Click a word to hide it.";
    const rank = found.findIndex(([number]) => words[number] === sentence[at]);
    const all = percent(sum(found.map(([, p]) => p)));
    const where =
      rank < 0
        ? `“${sentence[at]}” isn’t among them`
        : `“${sentence[at]}” has ${percent(found[rank][1])}`;
    return `The five best guesses for word ${at + 1} add up to ${all}; ${where}.`;
  }

  const long = sentences.flatMap((sentence) =>
    sentence.map((_, at) => sentenceOf(sentence, at, [[-1, 1]])),
  );
  return { controls: [which.element], picture: [row, list], draw, longest: longest(long) };
}

export default live({
  name: "FillIn",
  title: () => "What goes in the blank?",
  state: { sentence: [0, 3, 1], hidden: [0, 127, 1], place: [0, 6, 1] },
  build,
});
