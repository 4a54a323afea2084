// Search as the reader types: sections rather than pages, titles first, excerpts of prose.
//
// What there is to find is in search-index.js (search.py), which is loaded when somebody searches:
// [[address, title of the page, [[anchor, title, prose], …]], …].
(() => {
  "use strict";

  const STOP = new Set(
    "a an and are as at be by can do does for from how i in is it its of on or that the this to was what when where which who why with you".split(
      " ",
    ),
  );
  const root = document.documentElement.dataset.content_root ?? "./";
  const wordsOf = (text) => text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
  /** divide, divides, divided, dividing: one word to the search. */
  const stem = (word) => (word.length > 4 ? word.replace(/(?:ing|ed|es|s|e)$/, "") : word);

  // ---- The index -----------------------------------------------------------------------------------

  let loading;
  function load() {
    loading ??= new Promise((done, failed) => {
      const script = document.createElement("script");
      script.src = `${root}search-index.js`;
      script.onload = () => done(indexed(window.bookSearch));
      script.onerror = failed;
      document.head.append(script);
    });
    return loading;
  }

  function indexed(pages) {
    const entries = [];
    const places = new Map(); // stem -> Map(number of the entry -> weight)
    const count = (text, weight, most) => {
      const number = entries.length - 1;
      for (const word of wordsOf(text)) {
        const key = stem(word);
        if (!places.has(key)) places.set(key, new Map());
        const before = places.get(key).get(number) ?? 0;
        places.get(key).set(number, before + (before < most ? weight : 0));
      }
    };
    for (const [address, page, parts] of pages)
      for (const [anchor, title, text] of parts) {
        const isPage = title === page;
        entries.push({ url: root + address + (isPage ? "" : `#${anchor}`), page, title, text });
        count(text, 1, 4);
        if (!isPage) count(page, 2, 100);
        count(title, 10, 100);
      }
    return { entries, places };
  }

  function find({ entries, places }, query) {
    const all = [...new Set(wordsOf(query))];
    const sought = all.some((word) => !STOP.has(word)) ? all.filter((w) => !STOP.has(w)) : all;
    const scores = new Map();
    for (const word of sought) {
      const best = new Map();
      for (const [key, there] of places) {
        const match = key === stem(word) ? 1 : word.length > 2 && key.startsWith(word) ? 0.5 : 0;
        if (match)
          for (const [number, weight] of there)
            best.set(number, Math.max(best.get(number) ?? 0, match * weight));
      }
      const rarity = Math.log(1 + entries.length / Math.max(1, best.size));
      for (const [number, weight] of best) {
        const { score, words } = scores.get(number) ?? { score: 0, words: 0 };
        scores.set(number, { score: score + rarity * weight, words: words + 1 });
      }
    }
    const phrase = query.trim().toLowerCase();
    const rank = ([number, { score, words }]) =>
      (entries[number].url.includes("reference/") ? score / 2 : score) *
      (words / sought.length) ** 3 *
      (entries[number].title.toLowerCase().includes(phrase) ? 2 : 1);
    const found = [...scores].map((one) => [rank(one), entries[one[0]]]);
    return { sought, found: found.sort(([a], [b]) => b - a).map(([, entry]) => entry) };
  }

  // ---- What is shown -------------------------------------------------------------------------------

  /** The prose around the first word that was sought, with all of them marked. */
  function excerpt(text, sought) {
    const isSought = (word) => {
      const plain = word.toLowerCase();
      return sought.some(
        (one) => stem(plain) === stem(one) || (one.length > 2 && plain.startsWith(one)),
      );
    };
    const pieces = text.split(/([\p{L}\p{N}]+)/u);
    const first = Math.max(0, pieces.findIndex((piece) => isSought(piece)) - 24);
    const context = document.createElement("p");
    context.className = "excerpt";
    if (first) context.append("… ");
    for (const piece of pieces.slice(first, first + 70)) {
      const mark = document.createElement("mark");
      mark.textContent = piece;
      context.append(isSought(piece) ? mark : piece);
    }
    if (first + 70 < pieces.length) context.append(" …");
    return context;
  }

  function show(into, query, most) {
    const status = document.createElement("p");
    status.className = "search-status";
    status.setAttribute("role", "status");
    if (!wordsOf(query).length) return into.replaceChildren(status);
    load().then(
      (index) => {
        const { sought, found } = find(index, query);
        const list = document.createElement("ul");
        list.className = "found";
        for (const { url, page, title, text } of found.slice(0, most)) {
          const item = document.createElement("li");
          const link = document.createElement("a");
          link.href = url;
          link.textContent = title;
          const where = document.createElement("span");
          if (page !== title) where.textContent = ` ${page}`;
          item.append(link, where, excerpt(text, sought));
          list.append(item);
        }
        status.textContent = found.length
          ? `${found.length} section${found.length === 1 ? "" : "s"} found` +
            (found.length > most ? `, the best ${most} shown.` : ".")
          : `Nothing found for “${query.trim()}”.`;
        into.replaceChildren(status, list);
      },
      () => {
        status.textContent = "The search could not be loaded.";
        into.replaceChildren(status);
      },
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

  // As on other sites, / leads to the search.
  addEventListener("keydown", (event) => {
    const isTyping = event.target.closest("input, textarea, select, [contenteditable]");
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || isTyping) return;
    const button = document.querySelector(".search-button__button");
    if (!button && !field) return;
    event.preventDefault();
    if (field) field.focus();
    else button.click();
  });
})();
