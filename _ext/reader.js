// How far this chapter is read, which chapters were read to the end, and which section an error is in.
//
// The memory is a list of pages in this browser's own storage. A reader can clear it below the list of
// chapters; where storage is refused, nothing is remembered and everything else works.
(() => {
  "use strict";

  const KEY = "attention-built-by-hand:read";
  const root = new URL(document.documentElement.dataset.content_root ?? "./", location.href).pathname;
  const nameOf = (path) => path.slice(root.length).replace(/\.html$/, "");
  const page = nameOf(location.pathname);
  const article = document.querySelector("article.bd-article");
  const isChapter = Boolean(article?.querySelector("h1 .chapter-number"));

  // ---- Memory --------------------------------------------------------------------------------------

  function recall() {
    try {
      return new Set(JSON.parse(localStorage.getItem(KEY)));
    } catch {
      return new Set();
    }
  }

  function remember(pages) {
    try {
      if (pages.size) localStorage.setItem(KEY, JSON.stringify([...pages]));
      else localStorage.removeItem(KEY);
    } catch {
      // Not remembered, then.
    }
  }

  // ---- The list of chapters --------------------------------------------------------------------------

  const list = document.querySelector("nav.bd-links");
  const links = [...(list?.querySelectorAll("a") ?? [])].filter((link) => link.querySelector(".chapter-number"));
  const summary = document.createElement("p");
  const count = document.createElement("span");
  const clear = document.createElement("button");
  summary.className = "reading-memory";
  summary.hidden = true;
  summary.tabIndex = -1;
  clear.type = "button";
  clear.textContent = "Clear";
  clear.setAttribute("aria-label", "Clear the marks of chapters read");
  summary.append(count, clear);
  list?.append(summary);

  function showTicks() {
    const read = recall();
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
    summary.hidden = ticks === 0;
    clear.hidden = false;
    count.textContent = `${ticks} of ${links.length} chapters read`;
  }

  clear.addEventListener("click", () => {
    remember(new Set());
    showTicks();
    summary.hidden = false;
    clear.hidden = true;
    count.textContent = "No chapter is marked as read";
    summary.focus(); // the button is gone, and the focus must be somewhere
  });
  addEventListener("storage", ({ key }) => { if (key === KEY || key === null) showTicks(); });
  showTicks();

  // ---- Progress --------------------------------------------------------------------------------------

  if (isChapter) {
    // For the eye alone: a screen reader knows where it is, and would announce every change.
    const bar = document.createElement("div");
    bar.className = "reading-progress";
    bar.setAttribute("aria-hidden", "true");
    document.body.append(bar);
    let due = false;
    const measure = () => {
      due = false;
      const toScroll = article.getBoundingClientRect().bottom + scrollY - innerHeight;
      const share = toScroll > 0 ? Math.min(1, scrollY / toScroll) : 1;
      bar.style.transform = `scaleX(${share})`;
      if (share > 0.995 && !recall().has(page)) {
        remember(recall().add(page));
        showTicks();
      }
    };
    const soon = () => {
      if (!due) due = requestAnimationFrame(measure) > 0;
    };
    addEventListener("scroll", soon, { passive: true });
    addEventListener("resize", soon, { passive: true });
    addEventListener("load", soon);
  }

  // ---- What was folded -------------------------------------------------------------------------------

  // Code in an opened solution may scroll to the side, and then needs a stop of Tab. The theme looks for
  // such code when a page is loaded, where it is hidden, and after every change of the window's size.
  const lookAgain = () => dispatchEvent(new Event("resize"));
  article?.addEventListener("toggle", lookAgain, true);
  article?.addEventListener("click", ({ target }) => {
    if (target.closest(".dropdown, .toggle-button")) lookAgain();
  });

  // ---- Report an error here ----------------------------------------------------------------------------

  /** The last heading at or above the middle of the screen. */
  function sectionOnScreen() {
    const headings = [...(article?.querySelectorAll("section[id] > :is(h2, h3)") ?? [])];
    return headings.findLast((heading) => heading.getBoundingClientRect().top < innerHeight / 2);
  }

  const report = document.querySelector('[data-action="report"]');
  const nameSection = () => {
    const heading = sectionOnScreen();
    const words = heading?.cloneNode(true);
    words?.querySelector(".headerlink")?.remove();
    const section = heading ? `${words.textContent.trim()} (#${heading.parentElement.id})` : "";
    const url = new URL(report.href);
    url.searchParams.set("body", url.searchParams.get("body").replace(/^Section:.*$/m, () => `Section: ${section}`));
    report.href = url;
  };
  // Before the link is followed, in whichever way.
  for (const event of ["pointerdown", "focus", "mouseenter"]) report?.addEventListener(event, nameSection);
})();
