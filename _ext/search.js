// Search as the reader types: sections rather than pages, titles first, excerpts of prose.
//
// What there is to find is in search-index.js (search.py), which is loaded when somebody searches:
// [[address, title of the page, [[anchor, title, prose], …]], …].
(() => {
  "use strict";

  const { make } = window.book; // of reader.js
  const STOP = new Set(
    "a an and are as at be by can do does for from how i in is it its of on or that the this to was what when where which who why with you".split(
      " ",
    ),
  );
  const root = document.documentElement.dataset.content_root ?? "./";

  /** divide, divides, divided, dividing: one word to the search. So is what begins with three letters or more. */
  function pattern(word) {
    const stem = word.length > 4 ? word.replace(/(?:ing|ed|es|s|e)$/, "") : word;
    const begun = word.length > 2 ? String.raw`|${word}[\p{L}\p{N}]*` : "";
    return String.raw`(?<![\p{L}\p{N}])(?:${stem}(?:ing|ed|es|s|e)?(?![\p{L}\p{N}])${begun})`;
  }

  let loading;
  /** The sections of the book. */
  function load() {
    loading ??= new Promise((done, failed) => {
      const onload = () => done(window.bookSearch.flatMap(sectionsOf));
      const src = `${root}search-index.js`;
      document.head.append(make("script", { src, onload, onerror: failed }));
    });
    return loading;
  }

  function sectionsOf([address, page, parts]) {
    return parts.map(([anchor, title, text]) => ({
      url: root + address + (title === page ? "" : `#${anchor}`),
      page,
      title,
      text,
    }));
  }

  /** The sections with any of the words, the best first. */
  function find(sections, words, phrase) {
    const found = sections.map((section) => ({ section, score: 0, words: 0 }));
    for (const word of words) {
      const sought = new RegExp(pattern(word), "giu");
      const count = (text) => text.match(sought)?.length ?? 0;
      const weights = sections.map(
        ({ title, page, text }) => 10 * count(title) + 2 * count(page) + Math.min(4, count(text)),
      );
      const hits = weights.filter((weight) => weight > 0).length;
      const rarity = Math.log(1 + sections.length / Math.max(1, hits));
      weights.forEach((weight, number) => {
        found[number].score += rarity * weight;
        found[number].words += weight > 0;
      });
    }
    for (const one of found) {
      one.score *= (one.words / words.length) ** 3;
      if (one.section.url.includes("reference/")) one.score /= 2;
      if (one.section.title.toLowerCase().includes(phrase)) one.score *= 2;
    }
    const hits = found.filter(({ score }) => score > 0);
    return hits.sort((a, b) => b.score - a.score).map(({ section }) => section);
  }

  // ---- What is shown -------------------------------------------------------------------------------

  /** The prose around the first word that was sought, with all of them marked. */
  function excerpt(text, words) {
    const sought = new RegExp(`(${words.map(pattern).join("|")})`, "iu");
    const first = text.search(sought);
    const start = first > 80 ? text.indexOf(" ", first - 80) + 1 : 0;
    const end = text.indexOf(" ", start + 220);
    const shown = end < 0 ? text.slice(start) : `${text.slice(start, end)} …`;
    const pieces = shown.split(sought);
    const marked = pieces.map((piece, n) => (n % 2 ? make("mark", {}, piece) : piece));
    return make("p", { className: "excerpt" }, start ? "… " : "", ...marked);
  }

  async function show(into, query, most) {
    function say(text, ...found) {
      const status = make("p", { className: "search-status", role: "status" }, text);
      into.replaceChildren(status, ...found);
    }
    const all = [...new Set(query.toLowerCase().match(/[\p{L}\p{N}]+/gu))];
    if (!all.length) return say("");
    const rare = all.filter((word) => !STOP.has(word));
    const words = rare.length ? rare : all;
    const sections = await load().catch(() => say("The search could not be loaded."));
    if (!sections) return;
    const found = find(sections, words, query.trim().toLowerCase());
    if (!found.length) return say(`Nothing found for “${query.trim()}”.`);
    const items = found.slice(0, most).map(({ url, page, title, text }) => {
      const where = make("span", {}, page === title ? "" : ` ${page}`);
      return make("li", {}, make("a", { href: url }, title), where, excerpt(text, words));
    });
    const rest = found.length > most ? `, the best ${most} shown.` : ".";
    say(
      `${found.length} section${found.length === 1 ? "" : "s"} found${rest}`,
      make("ul", { className: "found" }, ...items),
    );
  }

  // ---- Where one searches --------------------------------------------------------------------------

  const onPage = document.getElementById("search-results");
  const field = onPage?.parentElement.querySelector("input[name=q]");
  if (field) {
    field.value = new URLSearchParams(location.search).get("q") ?? "";
    const update = () => show(onPage, field.value, 50);
    field.addEventListener("input", () => {
      const query = new URLSearchParams({ q: field.value });
      history.replaceState(history.state, "", `?${query}`);
      update();
    });
    field.form.addEventListener("submit", (event) => event.preventDefault());
    update();
    field.focus();
    field.select();
  }

  // The second is what the theme's last version for Python 3.10 has.
  const dialog = document.querySelector("#pst-search-dialog, .search-button__search-container");
  const typed = dialog?.querySelector("input[name=q]");
  if (typed) {
    const results = document.createElement("div");
    results.className = "search-as-you-type";
    dialog.append(results);
    typed.addEventListener("focus", () => load().catch(() => {}));
    typed.addEventListener("input", () => show(results, typed.value, 8));
  }
})();
