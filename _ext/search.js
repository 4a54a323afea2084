// The search page's excerpts: prose, without what stands around it and without formulas said thrice.
(() => {
  "use strict";

  const AROUND =
    "#jb-print-docs-body, .bd-header-article, .bd-sidebar-secondary, .prev-next-footer, .bd-footer-content, noscript";

  // Opened as a file, a page may not read its neighbors: titles alone, then.
  if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;

  // When all scripts have run, in whichever order they came; excerpts are fetched later than this.
  document.addEventListener("DOMContentLoaded", () => {
    if (typeof Search === "undefined") return;
    const textOf = Search.htmlToText;
    Search.htmlToText = (html, anchor) => {
      const page = new DOMParser().parseFromString(html, "text/html");
      page.querySelectorAll(AROUND).forEach((part) => part.remove());
      for (const formula of page.querySelectorAll(".katex")) {
        const source = formula.closest("div.math")
          ? " … "
          : formula.querySelector("annotation")?.textContent;
        formula.replaceWith(source ?? "");
      }
      return textOf(page.documentElement.outerHTML, anchor);
    };
  });
})();
