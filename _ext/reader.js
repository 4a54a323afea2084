// How far this chapter is read, which section the reader is in, which chapters are read, where to go on,
// and which section an error is in.
//
// The memory is this browser's own storage. A reader can clear it below the list of chapters. Where
// storage is refused, nothing is remembered, and everything else works.
(() => {
  "use strict";

  const root = new URL(document.documentElement.dataset.content_root ?? "./", location.href)
    .pathname;
  const nameOf = (path) => path.slice(root.length).replace(/\.html$/, "");
  const page = nameOf(location.pathname);
  const article = document.querySelector("article.bd-article");
  const isChapter = Boolean(article?.querySelector("h1 .chapter-number"));

  // ---- Memory --------------------------------------------------------------------------------------

  const KEY = "attention-built-by-hand:";

  function recall(what, fallback) {
    try {
      return JSON.parse(localStorage.getItem(KEY + what)) ?? fallback;
    } catch {
      return fallback;
    }
  }

  function remember(what, value) {
    try {
      if (value === null) localStorage.removeItem(KEY + what);
      else localStorage.setItem(KEY + what, JSON.stringify(value));
    } catch {
      // Not remembered, then.
    }
  }

  const chaptersRead = () => new Set([recall("read", [])].flat());

  // ---- The list of chapters --------------------------------------------------------------------------

  const list = document.querySelector("nav.bd-links");
  const links = [...(list?.querySelectorAll("a") ?? [])].filter((link) =>
    link.querySelector(".chapter-number"),
  );
  const summary = document.createElement("p");
  const count = document.createElement("span");
  const clear = document.createElement("button");
  summary.className = "reading-memory";
  clear.type = "button";
  summary.append(count, clear);
  list?.append(summary);
  let cleared = null; // what Undo brings back

  function showTicks() {
    const read = chaptersRead();
    let ticks = 0;
    for (const link of links) {
      const isRead = read.has(nameOf(link.pathname));
      ticks += isRead;
      if (isRead && !link.querySelector(".read-tick")) {
        const tick = document.createElement("span");
        tick.className = "read-tick";
        tick.setAttribute("role", "img");
        tick.setAttribute("aria-label", "(read)");
        tick.textContent = "✓";
        link.append(tick);
      } else if (!isRead) {
        link.querySelector(".read-tick")?.remove();
      }
    }
    if (ticks) cleared = null;
    summary.hidden = !ticks && !cleared;
    count.textContent = `${ticks} of ${links.length} chapters read`;
    clear.textContent = cleared ? "Undo" : "Clear";
    clear.setAttribute("aria-label", cleared ? "Undo" : "Clear the marks of chapters read");
  }

  clear.addEventListener("click", () => {
    const back = cleared;
    cleared = back ? null : ["read", "seen", "place"].map((what) => [what, recall(what, null)]);
    for (const [what, value] of back ?? cleared) remember(what, back && value);
    showTicks();
  });
  showTicks();

  /** A heading's words, without the link beside them. */
  function titleOf(heading) {
    const words = heading.cloneNode(true);
    words.querySelector(".headerlink")?.remove();
    return words.textContent.trim();
  }

  // ---- Progress --------------------------------------------------------------------------------------

  // For the eye alone: a screen reader knows where it is, and would announce every change.
  const bar = document.createElement("div");
  bar.className = "reading-progress";
  bar.setAttribute("aria-hidden", "true");
  if (isChapter) document.body.append(bar);

  // The first reading ends where the exercises begin.
  const end = document.getElementById("exercises");
  const core = [...(article?.querySelectorAll("section[id] > h2") ?? [])].filter(
    (heading) => !end || heading.compareDocumentPosition(end) & Node.DOCUMENT_POSITION_FOLLOWING,
  );

  function showProgress() {
    const bottom = end?.getBoundingClientRect().top ?? article.getBoundingClientRect().bottom;
    const toScroll = bottom + scrollY - innerHeight;
    bar.style.transform = `scaleX(${toScroll > 0 ? Math.min(1, scrollY / toScroll) : 1})`;
  }

  /** Where the page rests, somebody reads. A chapter is read when each of its sections was on the screen. */
  function rest() {
    const onScreen = ({ top, bottom }) => bottom > 0 && top < innerHeight;
    const seen = recall("seen", {});
    const before = new Set([seen[page] ?? []].flat());
    for (const heading of core)
      if (onScreen(heading.getBoundingClientRect())) before.add(heading.parentElement.id);
    remember("seen", { ...seen, [page]: [...before] });
    const here = core.findLast((heading) => heading.getBoundingClientRect().top < innerHeight / 2);
    if (here && scrollY > innerHeight)
      remember("place", { page: `${page}.html#${here.parentElement.id}`, title: titleOf(here) });
    const read = chaptersRead();
    if (core.every((heading) => before.has(heading.parentElement.id)) && !read.has(page)) {
      remember("read", [...read.add(page)]);
      showTicks();
    }
  }

  // The landing page leads back to it.
  const start = document.querySelector(".start-reading");
  const place = recall("place", null);
  if (start && place?.page && place.title) {
    const link = document.createElement("a");
    link.className = "continue-reading";
    link.href = root + place.page;
    link.textContent = `Continue where you left off: ${place.title}`;
    start.after(" ", link);
  }

  // ---- The page's contents: where the reader is --------------------------------------------------------

  const contents = document.querySelector("nav.page-toc");
  const entries = [...(contents?.querySelectorAll("a[href^='#']") ?? [])].flatMap((link) => {
    const section = document.getElementById(decodeURIComponent(link.hash.slice(1)));
    return section
      ? [{ link, heading: section.querySelector("h1, h2, h3, h4, h5, h6") ?? section }]
      : [];
  });

  /** The last heading in the upper part of the screen or above it. At the end of the page, which cannot scroll
   *  its last headings up there, it is the one that the address names, or the last, if they are on the screen. */
  function entryOnScreen() {
    const top = ({ heading }) => heading.getBoundingClientRect().top;
    const isAtEnd = scrollY + innerHeight >= document.documentElement.scrollHeight - 2;
    if (isAtEnd && scrollY > 0) {
      const seen = entries.filter((entry) => top(entry) > 0 && top(entry) < innerHeight);
      if (seen.length) return seen.find(({ link }) => link.hash === location.hash) ?? seen.at(-1);
    }
    return entries.findLast((entry) => top(entry) <= Math.max(120, 0.3 * innerHeight));
  }

  let marked = null;
  function markEntry() {
    const link = entryOnScreen()?.link ?? null;
    if (link === marked) return;
    marked?.removeAttribute("aria-current");
    link?.setAttribute("aria-current", "true");
    for (const element of contents.querySelectorAll("a, .toc-entry")) {
      element.classList.toggle(
        "active",
        element === link || (element.tagName === "LI" && element.contains(link)),
      );
    }
    marked = link;
  }

  // ---- Both follow the page, once in a frame -----------------------------------------------------------

  if (isChapter || entries.length) {
    let due = false;
    let resting;
    const measure = () => {
      due = false;
      if (isChapter) showProgress();
      if (entries.length) markEntry();
      clearTimeout(resting);
      if (isChapter) resting = setTimeout(rest, 500);
    };
    const soon = () => {
      if (!due) due = requestAnimationFrame(measure) > 0;
    };
    for (const event of ["scroll", "resize", "hashchange", "load"])
      addEventListener(event, soon, { passive: true });
    new ResizeObserver(soon).observe(article ?? document.body); // a figure wakes, a box opens
  }

  // ---- The sidebar -------------------------------------------------------------------------------------

  // The list stays where the reader left it, unless the current chapter is out of sight there. The sidebar
  // stays closed on the next page if it was closed on this one.
  const sidebar = document.getElementById("pst-primary-sidebar");
  const scroller = list?.closest(".sidebar-primary-item");
  addEventListener("DOMContentLoaded", () => {
    const current = list?.querySelector("li.current > a.current");
    if (!current) return;
    scroller.scrollTop = recall("list", 0);
    const { top, bottom } = scroller.getBoundingClientRect();
    const box = current.getBoundingClientRect();
    if (box.top < top || box.bottom > bottom)
      scroller.scrollTop += box.top - top - scroller.clientHeight / 3;
  });
  addEventListener("pagehide", () => scroller && remember("list", scroller.scrollTop));
  if (sidebar) {
    const closed = "pst-sidebar-hidden";
    sidebar.classList.toggle(closed, recall("sidebar closed", false) === true);
    new MutationObserver(() =>
      remember("sidebar closed", sidebar.classList.contains(closed) || null),
    ).observe(sidebar, { attributeFilter: ["class"] });
  }

  // ---- The drawers of a narrow screen ------------------------------------------------------------------

  // The theme moves a sidebar's content into its drawer. A button there closes it.
  for (const content of document.querySelectorAll("#pst-primary-sidebar, #pst-secondary-sidebar")) {
    const close = document.createElement("button");
    close.type = "button";
    close.className = "drawer-close";
    close.textContent = "Close";
    close.addEventListener("click", () => close.closest("dialog")?.close());
    content.prepend(close);
  }

  // A link in a drawer closes it. The theme then returns the focus to the button that opened it; a section's
  // heading takes it instead, so that a screen reader goes on there.
  for (const drawer of document.querySelectorAll("dialog[id$='-sidebar-modal']")) {
    drawer.addEventListener("click", ({ target }) => {
      const link = target.closest("a");
      if (!link) return;
      const heading = entries.find((entry) => entry.link === link)?.heading;
      drawer.addEventListener(
        "close",
        () => {
          heading?.setAttribute("tabindex", "-1");
          heading?.focus({ preventScroll: true });
        },
        { once: true },
      );
      drawer.close();
    });
  }

  // ---- What was folded -------------------------------------------------------------------------------

  // Code in an opened solution may scroll to the side, and then needs a stop of Tab. The theme looks for
  // such code when a page is loaded, where it is hidden, and after every change of the window's size.
  const lookAgain = () => dispatchEvent(new Event("resize"));
  article?.addEventListener("toggle", lookAgain, true);

  // A link to a solution or an answer, as notebooks have them, opens it, and what it lies in.
  // When a page is loaded, :target is not there yet.
  function addressed() {
    try {
      return document.getElementById(decodeURIComponent(location.hash.slice(1)));
    } catch {
      // a malformed address
      return null;
    }
  }
  function openTarget() {
    const target = addressed();
    const within = target?.matches(".predict, .recall")
      ? [...target.querySelectorAll("details")]
      : [];
    let wasHidden = false;
    for (let fold = target?.closest("details"); fold; fold = fold.parentElement.closest("details"))
      within.push(fold);
    for (const fold of within) {
      wasHidden ||= !fold.open;
      fold.open = true;
    }
    if (wasHidden) target.scrollIntoView();
  }
  addEventListener("hashchange", openTarget);
  openTarget();

  // On paper, everything is open and light.
  const { dataset } = document.documentElement;
  let shut = [];
  let theme;
  addEventListener("beforeprint", () => {
    theme = dataset.theme;
    dataset.theme = "light";
    shut = [...document.querySelectorAll("article details:not([open])")];
    shut.forEach((fold) => {
      fold.open = true;
    });
  });
  addEventListener("afterprint", () => {
    dataset.theme = theme;
    shut.forEach((fold) => {
      fold.open = false;
    });
  });

  // ---- Report an error here ----------------------------------------------------------------------------

  /** The last heading at or above the middle of the screen. */
  function sectionOnScreen() {
    const headings = [
      ...(article?.querySelectorAll("section[id] > :is(h2, h3), .deeper h3") ?? []),
    ];
    return headings.findLast((heading) => heading.getBoundingClientRect().top < innerHeight / 2);
  }

  const report = document.querySelector('[data-action="report"]');
  const nameSection = () => {
    const heading = sectionOnScreen();
    const section = heading ? `${titleOf(heading)} (#${heading.closest("[id]").id})` : "";
    const url = new URL(report.href);
    url.searchParams.set(
      "body",
      url.searchParams.get("body").replace(/^Section:.*$/m, () => `Section: ${section}`),
    );
    report.href = url;
  };
  // Before the link is followed, in whichever way.
  for (const event of ["pointerdown", "focus", "mouseenter"])
    report?.addEventListener(event, nameSection);
})();
