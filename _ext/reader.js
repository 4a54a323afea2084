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

  /** An element with these properties, and what is in it. */
  function make(name, properties, ...inside) {
    const element = Object.assign(document.createElement(name), properties);
    element.append(...inside);
    return element;
  }

  window.book = { recall, remember, make }; // for predict.js and search.js

  const chaptersRead = () => new Set([recall("read", [])].flat());

  // ---- The list of chapters --------------------------------------------------------------------------

  const list = document.querySelector("nav.bd-links");
  const links = [...(list?.querySelectorAll("a") ?? [])].filter((link) =>
    link.querySelector(".chapter-number"),
  );
  const count = make("span");
  const ariaLabel = "Clear the marks of chapters read";
  const clear = make("button", { type: "button", ariaLabel }, "Clear");
  const summary = make("p", { className: "reading-memory" }, count, clear);
  list?.append(summary);
  clear.addEventListener("click", () => {
    if (!confirm("Forget which chapters are read, and where you were?")) return;
    for (const what of ["read", "seen", "place"]) remember(what, null);
    showTicks();
    list.tabIndex = -1; // has the focus once the button is gone
    list.focus({ preventScroll: true });
  });

  function showTicks() {
    const read = chaptersRead();
    for (const link of links) link.classList.toggle("read-tick", read.has(nameOf(link.pathname)));
    const ticks = links.filter((link) => link.matches(".read-tick")).length;
    count.textContent = `${ticks} of ${links.length} chapters read`;
    summary.hidden = ticks === 0;
  }
  showTicks();

  // ---- The page's sections, as its contents list them --------------------------------------------------

  const contents = document.querySelector("nav.page-toc");
  const sections = [...(contents?.querySelectorAll("a[href^='#']") ?? [])].flatMap((link) => {
    const section = document.getElementById(decodeURIComponent(link.hash.slice(1)));
    const heading = section?.querySelector("h1, h2, h3, h4, h5, h6") ?? section;
    return section ? [{ link, title: link.textContent.trim(), id: section.id, heading }] : [];
  });
  const top = ({ heading }) => heading.getBoundingClientRect().top;

  /** The last whose heading is in the upper part of the screen or above it. At the end of the page, which cannot
   *  scroll its last headings up there, it is the one that the address names, or the last, if they are on the
   *  screen. */
  function sectionOnScreen() {
    const isAtEnd = scrollY + innerHeight >= document.documentElement.scrollHeight - 2;
    if (isAtEnd && scrollY > 0) {
      const seen = sections.filter((section) => top(section) > 0 && top(section) < innerHeight);
      if (seen.length) return seen.find(({ link }) => link.hash === location.hash) ?? seen.at(-1);
    }
    return sections.findLast((section) => top(section) <= Math.max(120, 0.3 * innerHeight));
  }

  let marked = null;
  function markSection() {
    const link = sectionOnScreen()?.link ?? null;
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

  // ---- Progress --------------------------------------------------------------------------------------

  // For the eye alone: a screen reader knows where it is, and would announce every change.
  const bar = make("div", { className: "reading-progress", ariaHidden: "true" });
  if (isChapter) document.body.append(bar);

  // The first reading ends where the exercises begin.
  const end = document.getElementById("exercises");
  const core = sections.filter(
    ({ heading }) =>
      heading.tagName === "H2" &&
      (!end || heading.compareDocumentPosition(end) & Node.DOCUMENT_POSITION_FOLLOWING),
  );

  function showProgress() {
    const bottom = end?.getBoundingClientRect().top ?? article.getBoundingClientRect().bottom;
    const toScroll = bottom + scrollY - innerHeight;
    bar.style.transform = `scaleX(${toScroll > 0 ? Math.min(1, scrollY / toScroll) : 1})`;
  }

  /** Where the page rests, somebody reads. A chapter is read when each of its sections was on the screen. */
  function rest() {
    const seen = recall("seen", {});
    const before = new Set([seen[page] ?? []].flat());
    for (const { id, heading } of core) {
      const { top, bottom } = heading.getBoundingClientRect();
      if (bottom > 0 && top < innerHeight) before.add(id);
    }
    remember("seen", { ...seen, [page]: [...before] });
    const here = sectionOnScreen();
    if (here && scrollY > innerHeight)
      remember("place", { page: `${page}.html#${here.id}`, title: here.title });
    const read = chaptersRead();
    if (core.every(({ id }) => before.has(id)) && !read.has(page)) {
      remember("read", [...read.add(page)]);
      showTicks();
    }
  }

  // The landing page leads back to it.
  const start = document.querySelector(".start-reading");
  const place = recall("place", null);
  if (start && place?.page && place.title) {
    const link = { className: "continue-reading", href: root + place.page };
    start.after(" ", make("a", link, `Continue where you left off: ${place.title}`));
  }

  // ---- Marks follow the page, once in a frame ---------------------------------------------------------

  let due = false;
  let resting;
  function measure() {
    due = false;
    markSection();
    if (!isChapter) return;
    showProgress();
    clearTimeout(resting);
    resting = setTimeout(rest, 500);
  }
  const soon = () => {
    if (!due) due = requestAnimationFrame(measure) > 0;
  };
  for (const event of ["scroll", "resize", "hashchange", "load"])
    addEventListener(event, soon, { passive: true });
  new ResizeObserver(soon).observe(article ?? document.body); // a figure wakes, a box opens

  // ---- The sidebar -------------------------------------------------------------------------------------

  // The list stays where the reader left it, unless the current chapter is out of sight there. The sidebar
  // stays closed on the next page if it was closed on this one.
  const sidebar = document.getElementById("pst-primary-sidebar");
  const scroller = list?.closest(".sidebar-primary-item");
  addEventListener("DOMContentLoaded", () => {
    if (!scroller) return;
    scroller.scrollTop = recall("list", 0);
    list.querySelector("a.current")?.scrollIntoView({ block: "nearest" });
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

  // The theme moves a sidebar's content into its drawer. A button there closes it, and a link does. The theme then
  // returns the focus to the button that opened it; a section's heading takes it instead, so that a screen reader
  // goes on there.
  for (const content of document.querySelectorAll("#pst-primary-sidebar, #pst-secondary-sidebar")) {
    const close = '<button type="button" class="drawer-close">Close</button>';
    content.insertAdjacentHTML("afterbegin", close);
  }
  for (const drawer of document.querySelectorAll("dialog[id$='-sidebar-modal']")) {
    drawer.addEventListener("click", ({ target }) => {
      const closes = target.closest("a, .drawer-close");
      if (!closes) return;
      const heading = sections.find(({ link }) => link === closes)?.heading;
      const focus = () => {
        heading?.setAttribute("tabindex", "-1");
        heading?.focus({ preventScroll: true });
      };
      drawer.addEventListener("close", focus, { once: true });
      drawer.close();
    });
  }

  // ---- What was folded -------------------------------------------------------------------------------

  // Code in an opened solution may scroll to the side, and then needs a stop of Tab. The theme looks for
  // such code when a page is loaded, where it is hidden, and after every change of the window's size.
  const lookAgain = () => dispatchEvent(new Event("resize"));
  article?.addEventListener("toggle", lookAgain, true);

  // A link to a solution or an answer, as notebooks have them, opens it, and what it lies in.
  function openTarget() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    const folds = [...document.querySelectorAll("details:not([open])")].filter(
      (fold) => fold.contains(target) || (target.matches(".recall") && target.contains(fold)),
    );
    for (const fold of folds) fold.open = true;
    if (folds.length) target.scrollIntoView();
  }
  addEventListener("hashchange", openTarget);
  addEventListener("DOMContentLoaded", openTarget);

  // On paper, everything is open and light.
  const { dataset } = document.documentElement;
  let shut = [];
  let theme;
  addEventListener("beforeprint", () => {
    theme = dataset.theme;
    dataset.theme = "light";
    shut = [...document.querySelectorAll("article details:not([open])")];
    for (const fold of shut) fold.open = true;
  });
  addEventListener("afterprint", () => {
    dataset.theme = theme;
    for (const fold of shut) fold.open = false;
  });

  // ---- Report an error here ----------------------------------------------------------------------------

  const report = document.querySelector('[data-action="report"]');
  function nameSection() {
    const here = sectionOnScreen();
    const section = here ? `${here.title} (#${here.id})` : "";
    const url = new URL(report.href);
    const body = url.searchParams.get("body");
    url.searchParams.set(
      "body",
      body.replace(/^Section:.*$/m, () => `Section: ${section}`),
    );
    report.href = url;
  }
  // Before the link is followed, in whichever way.
  for (const event of ["pointerdown", "focus", "mouseenter"])
    report?.addEventListener(event, nameSection);
})();
