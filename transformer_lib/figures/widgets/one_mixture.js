// OneMixture: which sentences give the same mixture, and what can a matrix read from one head, and from two?
import { fixed, heatMap, html, live, longest, room, set, slider, steps, toggle } from "./kit.js";

// ---- arithmetic

/** Every sentence of two different words out of n, [left, right]; both orders of a pair are next to each other. */
export const sentencesOf = (n) =>
  steps(n).flatMap((a) =>
    steps(n - a - 1, a + 1).flatMap((b) => [
      [a, b],
      [b, a],
    ]),
  );

/** What arrives from each sentence: for each head, the left word's weight and the right word's, at their indices. */
export const mixtures = (sentences, heads, n) =>
  sentences.map(([left, right]) =>
    heads.flatMap((weight) =>
      steps(n).map((word) => (word === left ? weight : word === right ? 1 - weight : 0)),
    ),
  );

/** For each sentence, the first one that arrives as the same numbers. */
export const firstAlike = (rows) =>
  rows.map((row) => rows.findIndex((other) => other.every((x, i) => Math.abs(x - row[i]) < 1e-9)));

/** What can name the left word (side 0) or the right word (side 1) of every sentence: "nothing" if sentences with
 *  different answers arrive as the same numbers; "a matrix" if the heads differ or prefer that side; or "no matrix". */
export function whatCan(sentences, heads, side, n) {
  const alike = firstAlike(mixtures(sentences, heads, n));
  if (alike.some((first, i) => sentences[first][side] !== sentences[i][side])) return "nothing";
  const differ = heads.some((weight) => Math.abs(weight - heads[0]) > 1e-9);
  return differ || (side === 0 ? heads[0] > 0.5 : heads[0] < 0.5) ? "a matrix" : "no matrix";
}

/** The factors of two different heads whose sum leaves only the word on that side. */
export const untangle = ([p, q], side) =>
  side === 0 ? [(q - 1) / (q - p), (1 - p) / (q - p)] : [q / (q - p), -p / (q - p)];

// ---- picture

const short = (x) => (x > 0.95 ? "1" : x < 0.05 ? "0" : fixed(x, 1).slice(1)); // .5, 1: cells are narrow
const tenth = (x) => Math.round(10 * x) / 10; // an address may have 0.55
const ANSWERS = {
  "a matrix": "a matrix",
  "no matrix": "a rule, but no matrix",
  nothing: "nothing",
};

function build({ get, change }) {
  const [words, verb] = [get("words"), get("verb")];
  const n = words.length;
  const sentences = sentencesOf(n);
  const said = sentences.map(([left, right]) => `${words[left]} ${verb} ${words[right]}`);
  const heads = () => [tenth(get("first")), ...(get("twice") ? [tenth(get("second"))] : [])];

  const weights = (name, label) =>
    slider({
      label,
      last: 10,
      read: (p) => p / 10,
      find: (x) => 10 * x,
      onInput: (x) => change({ [name]: x }),
      show: (x) => `${fixed(tenth(x), 1)} left, ${fixed(1 - tenth(x), 1)} right`,
    });
  const [first, second] = [weights("first", "head 1"), weights("second", "head 2")];
  const twice = toggle({ label: "attend twice", onInput: (on) => change({ twice: on }) });

  const map = heatMap({
    caption: "what arrives (a line joins equal rows)",
    rows: said,
    columns: [...words, ...words],
  });
  const ofHead = [1, 2].map((k) =>
    html("th", { scope: "colgroup", colspan: n, text: `head ${k}` }),
  );
  map.element
    .querySelector("thead")
    .prepend(html("tr", { class: "om-heads" }, html("td"), ...ofHead));
  const joined = map.cells.map((line) =>
    html("td", { class: "om-joined" }, ...steps(n).map((lane) => html("i", { "--lane": lane }))),
  );
  map.cells.forEach((line, i) => line[0].parentNode.append(joined[i]));
  map.element.classList.add("om-map");

  /** How to read the answer, or why that’s impossible. */
  function how(now, side) {
    const can = whatCan(sentences, now, side, n);
    if (can === "nothing") return "different answers, same numbers";
    if (can === "no matrix")
      return `the largest number shows who ${side === 0 ? "is eaten, not who eats" : "eats, not who is eaten"}`;
    if (now.length === 1 || now[0] === now[1]) return "the word with the largest number";
    const terms = untangle(now, side)
      .map((x, k) => [tenth(x), k + 1])
      .filter(([x]) => x !== 0);
    const term = ([x, k], i) =>
      `${x < 0 ? (i ? " − " : "−") : i ? " + " : ""}${Math.abs(x) === 1 ? "" : `${fixed(Math.abs(x), 1)} × `}head ${k}`;
    return `the word with the largest number in ${terms.map(term).join("")}`;
  }
  const all = steps(11).flatMap((p) => [[p / 10], ...steps(11).map((q) => [p / 10, q / 10])]);
  const asked = ["Who eats?", "Who is eaten?"].map((question, side) => {
    const [can, why] = [html("span"), html("span")];
    return {
      can,
      why,
      element: html(
        "div",
        { class: "om-asked" },
        html(
          "div",
          { class: "om-who" },
          room(html("b", { text: question }), ["Who is eaten?"]),
          room(can, Object.values(ANSWERS)),
        ),
        room(why, longest(all.map((now) => how(now, side)))),
      ),
    };
  });
  const title = html("p", {
    text: `What can tell from them, for all ${sentences.length} sentences?`,
  });
  const answers = html(
    "div",
    { class: "om-answers" },
    title,
    ...asked.map(({ element }) => element),
  );

  function draw() {
    const now = heads();
    const rows = mixtures(sentences, now, n);
    first.update(now[0]);
    second.update(tenth(get("second")));
    second.enable(now.length > 1);
    twice.update(now.length > 1);
    map.update(
      rows.map((row) => [...row, ...(now.length > 1 ? [] : words.map(() => null))]),
      { show: short },
    );
    ofHead.forEach((top, k) => set(top, { "data-off": k >= now.length }));
    rows.forEach((row, i) =>
      now.forEach((_, k) => {
        const part = row.slice(k * n, k * n + n);
        part.forEach((x, j) =>
          set(map.cells[i][k * n + j], {
            "data-most": part.filter((y) => y >= x - 1e-9).length === 1,
          }),
        );
      }),
    );
    if (now.length === 1)
      map.cells.forEach((line) =>
        line.slice(n).forEach((cell) => set(cell, { "data-most": false })),
      );

    const alike = firstAlike(rows);
    const groups = steps(rows.length)
      .map((i) => steps(rows.length).filter((j) => alike[j] === i))
      .filter((group) => group.length > 1);
    joined.forEach((cell, i) => {
      const own = groups.find((group) => group.includes(i));
      set(cell, {
        "aria-label": own
          ? `the same as ${own
              .filter((j) => j !== i)
              .map((j) => said[j])
              .join(", ")}`
          : null,
      });
      [...cell.children].forEach((line, lane) => {
        const [top, bottom] = groups[lane] ? [groups[lane][0], groups[lane].at(-1)] : [0, 0];
        const part =
          i < top || i > bottom || top === bottom
            ? false
            : i === top
              ? "top"
              : i === bottom
                ? "bottom"
                : "through";
        set(line, { "data-part": part, "data-end": part && groups[lane].includes(i) });
      });
    });
    asked.forEach(({ can, why }, side) => {
      const answer = whatCan(sentences, now, side, n);
      set(can, { text: ANSWERS[answer], "data-can": answer });
      set(why, { text: how(now, side) });
    });
    return sentence(now);
  }

  function sentence(now) {
    const alike = firstAlike(mixtures(sentences, now, n));
    const same = alike.findIndex((one, i) => one !== i);
    const again =
      now.length > 1 && now[0] === now[1]
        ? "Head 2 has the same weights, so it adds nothing. "
        : "";
    if (same > 0)
      return `${again}“${said[alike[same]]}” and “${said[same]}” arrive as the same numbers, so nothing can tell them apart.`;
    if (now.length === 1 || again) {
      const [finds, not] = now[0] > 0.5 ? ["eats", "is eaten"] : ["is eaten", "eats"];
      return `${again}All six sentences arrive as different numbers. A matrix can tell who ${finds}, but not who ${not}.`;
    }
    return "Two heads with different weights: a matrix can tell both who eats and who is eaten.";
  }

  return {
    controls: [first.element, twice.element, second.element],
    picture: [map.element, answers],
    draw,
    longest: longest(all.map(sentence)),
  };
}

export default live({
  name: "OneMixture",
  title: () => "What can a matrix read from one mixture?",
  build,
  state: { first: [0, 1], second: [0, 1], twice: [] },
});
