// NextLetter: how much does earlier text help? The next letter by a uniform guess, by counts, and by a GPT.
import { html, live, longest, percent, set, slider, stepper, steps, sum, tint } from "./kit.js";

// ---- arithmetic

const [ADDED, LEAST] = [0.1, 0.01]; // to each count; less probable letters share one part of a bar

/** How often the training text has a past, and by counting, the probability of the letter that follows. */
export function counting({ rows, pieces }, past) {
  const row = Object.hasOwn(rows, past) ? rows[past] : {};
  const times = sum(Object.values(row));
  return {
    times,
    chance: (letter) => ((row[letter] ?? 0) + ADDED) / (times + ADDED * pieces.length),
  };
}

/** The index in `reads` of the last number that isn't above `read`. */
export const placeOf = (reads, read) =>
  Math.max(
    0,
    reads.findLastIndex((n) => n <= read),
  );

/** The n letters before a place of the line. */
export const pastOf = ({ text, start }, place, n) => text.slice(start + place - n, start + place);

/** The costs of all letters of the line, by counting what follows n letters. */
export function countedCosts(data, n) {
  return [...data.text.slice(data.start)].map(
    (letter, k) => -Math.log(counting(data, pastOf(data, k, n)).chance(letter)),
  );
}

/** Each predictor's probabilities at a place, [letter, p], the highest first, and its costs of all letters of the line. */
export function rungs(data, place, i) {
  const { pieces, costs, shares } = data;
  const letter = data.text[data.start + place];
  const ordered = (each) =>
    each.filter(([piece, p]) => p >= LEAST || piece === letter).sort(([, p], [, q]) => q - p);
  const even = {
    each: ordered(pieces.map((piece) => [piece, 1 / pieces.length])),
    costs: costs[i].map(() => Math.log(pieces.length)),
  };
  const tables = [0, 1, data.reads[i]].map((n) => {
    const { chance } = counting(data, pastOf(data, place, n));
    return {
      each: ordered(pieces.map((piece) => [piece, chance(piece)])),
      costs: countedCosts(data, n),
    };
  });
  const said = { ...shares[i][place], [letter]: 1000 * Math.exp(-costs[i][place]) };
  return [
    even,
    ...tables,
    { each: ordered(Object.entries(said).map(([piece, p]) => [piece, p / 1000])), costs: costs[i] },
  ];
}

// ---- picture

const WIDE = 0.035; // a part of a bar with room for its letter
const visible = (text) => text.replaceAll(" ", "␣").replaceAll("\n", "↵");
const letters = (n) => `${n} letter${n === 1 ? "" : "s"}`;
const share = (p) => (p < 0.005 ? "under 1\u00a0%" : percent(p));
const mean = (list) => sum(list) / list.length;

function build({ get, change }) {
  const data = Object.fromEntries(
    ["text", "start", "pieces", "reads", "rows", "costs", "shares"].map((name) => [
      name,
      get(name),
    ]),
  );
  const { text, start, pieces, reads } = data;
  const [line, before] = [[...text.slice(start)], text.slice(0, start)];
  const which = stepper({
    label: "letter of the line",
    last: line.length - 1,
    show: (k) => `${k + 1}: “${visible(line[k])}”`,
    onInput: (place) => change({ place }),
  });
  const many = slider({
    label: "letters read before it",
    last: reads.length - 1,
    read: (p) => reads[p],
    find: (n) => placeOf(reads, n),
    show: String,
    onInput: (read) => change({ read }),
  });

  const [unread, isRead] = [html("span"), html("span", { class: "nl-read" })];
  const cells = line.map((letter) => html("span", { class: "nl-letter", text: visible(letter) }));
  const strip = html(
    "div",
    {
      class: "nl-line",
      role: "img",
      onclick: ({ target }) => {
        const place = cells.indexOf(target);
        if (place >= 0) change({ place });
      },
    },
    ...cells,
  );
  const told = html("p", {
    class: "lf-legend",
    text: "Underlined: the letters read. The stronger a letter’s color, the more it costs GPT.",
  });

  const names = (n) => [
    "uniform guess",
    ...[0, 1, n].map((k) => `counts, ${letters(k)}`),
    `GPT, ${letters(n)}`,
  ];
  const ladder = names(0).map(() => {
    const parts = pieces.map(() => html("span"));
    const fields = [html("th", { scope: "row" }), ...steps(3).map(() => html("td"))];
    return {
      parts,
      fields,
      lines: [
        html("tr", {}, ...fields),
        html(
          "tr",
          { "aria-hidden": true },
          html("td", { colspan: 4 }, html("div", { class: "nl-bar" }, ...parts)),
        ),
      ],
    };
  });
  const table = html(
    "table",
    { class: "nl-ladder" },
    html("caption", {
      text: "The right letter: its probability p and its cost, −ln p. Last, the mean cost over the line.",
    }),
    html(
      "thead",
      {},
      html(
        "tr",
        {},
        html("td"),
        ...["p", "cost", "line"].map((name) => html("th", { scope: "col", text: name })),
      ),
    ),
    html("tbody", {}, ...ladder.flatMap(({ lines }) => lines)),
  );

  function sentence(place, i) {
    const [n, letter] = [reads[i], line[place]];
    const past = visible(pastOf(data, place, n));
    const { times, chance } = counting(data, pastOf(data, place, n));
    const [gpt, counts] = [mean(data.costs[i]), mean(countedCosts(data, n))];
    const start_ = n
      ? `After “${past.length > 12 ? "…" : ""}${past.slice(-12)}” comes “${visible(letter)}”.`
      : `With nothing read, “${visible(letter)}” comes.`;
    const seen = times
      ? `Counting gives it ${share(chance(letter))}, from ${times.toLocaleString("en-US")} case${times === 1 ? "" : "s"}.`
      : "Counting has never seen this and guesses evenly.";
    return `${start_} GPT gives it ${share(Math.exp(-data.costs[i][place]))}. ${seen} Mean cost: ${gpt.toFixed(2)} nats with GPT, ${counts.toFixed(2)} by counting.`;
  }

  function draw() {
    const [place, i] = [Math.min(get("place"), line.length - 1), placeOf(reads, get("read"))];
    const n = reads[i];
    which.update(place);
    many.update(n);
    const first = Math.max(0, start + place - n);
    set(unread, { text: visible(before.slice(0, first)) });
    set(isRead, { text: visible(before.slice(first)) });
    cells.forEach((cell, k) => {
      tint(cell, Math.min(1, data.costs[i][k] / 5));
      set(cell, { "data-read": k < place && k >= place - n, "data-place": k === place });
    });
    const found = rungs(data, place, i);
    ladder.forEach(({ parts, fields }, row) => {
      const { each, costs } = found[row];
      [
        names(n)[row],
        share(Math.exp(-costs[place])),
        costs[place].toFixed(2),
        mean(costs).toFixed(2),
      ].forEach((words, k) => set(fields[k], { text: words }));
      parts.forEach((part, k) => {
        const [piece, p] = each[k] ?? ["", 0];
        part.style.width = `${(100 * p).toFixed(2)}%`;
        set(part, {
          text: p >= WIDE ? visible(piece) : "",
          hidden: p === 0 ? "" : null,
          "data-comes": p > 0 && piece === line[place],
        });
      });
    });
    const said = sentence(place, i);
    set(strip, {
      "aria-label": `the line “${visible(line.join(""))}”; its letter ${place + 1} comes`,
    });
    return said;
  }

  const all = steps(reads.length).flatMap((i) =>
    steps(line.length).map((place) => sentence(place, i)),
  );
  return {
    controls: [which.element, many.element],
    picture: [
      html(
        "div",
        { class: "lf-wide" },
        told,
        html("p", { class: "nl-before" }, unread, isRead),
        strip,
      ),
      html("div", { class: "lf-wide" }, table),
    ],
    draw,
    longest: longest(all),
  };
}

export default live({
  name: "NextLetter",
  title: () => "How much does earlier text help?",
  build,
  state: { place: [0, 999, 1], read: [0, 9999, 1] },
});
