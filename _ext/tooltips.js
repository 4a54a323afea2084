// Shows what a link means (its aria-describedby, see tooltips.py), or the equation or figure of this page
// that it leads to, while the pointer or the focus is on it. A first touch shows, a second follows the
// link. Esc, or a touch elsewhere, hides.
(() => {
  "use strict";
  let tip = null,
    link = null,
    timer = 0,
    firstTouch = false;

  function hide() {
    clearTimeout(timer);
    if (tip) tip.hidden = true;
    tip = link = null;
  }

  function show(target) {
    clearTimeout(timer);
    if (link === target) return;
    hide();
    link = target;
    tip = document.getElementById(link.getAttribute("aria-describedby"));
    tip.hidden = false;
    // Below the link's first line, or above it where there is no room below.
    const line = link.getClientRects()[0],
      room = tip.offsetParent.getBoundingClientRect();
    const article = link.closest("article, main").getBoundingClientRect();
    const left = Math.max(article.left, Math.min(line.left, article.right - tip.offsetWidth));
    const above = line.bottom + tip.offsetHeight > innerHeight && line.top > tip.offsetHeight;
    tip.style.left = `${left - room.left}px`;
    tip.style.top = `${(above ? line.top - tip.offsetHeight : line.bottom) - room.top}px`;
  }

  function soon(what, wait) {
    clearTimeout(timer);
    timer = setTimeout(what, wait);
  }

  for (const each of document.querySelectorAll(
    'article a.internal:is([href^="#eq-"], [href^="#fig-"])',
  )) {
    const id = `tip-${each.hash.slice(1)}`;
    const thing = document.getElementById(each.hash.slice(1))?.querySelector(".equation, img");
    if (!thing) continue;
    each.setAttribute("aria-describedby", id);
    if (document.getElementById(id)) continue;
    const preview = Object.assign(document.createElement("div"), {
      id,
      role: "tooltip",
      hidden: true,
    });
    preview.append(thing.cloneNode(true));
    document.querySelector(".tips").append(preview);
  }
  const linkAt = ({ target }) => target.closest?.('a[aria-describedby^="tip-"]');
  const isInTip = ({ target }) => Boolean(target.closest?.("[role=tooltip]"));
  const on = (event, what) => document.addEventListener(event, what);

  on("pointerover", (e) => {
    if (e.pointerType === "mouse" && linkAt(e)) soon(() => show(linkAt(e)), 150);
    if (isInTip(e)) clearTimeout(timer);
  });
  on(
    "pointerout",
    (e) => e.pointerType === "mouse" && (linkAt(e) || isInTip(e)) && soon(hide, 250),
  );
  on("pointerdown", (e) => {
    firstTouch = e.pointerType !== "mouse" && linkAt(e) !== link;
    if (!linkAt(e) && !isInTip(e)) hide();
  });
  on("click", (e) => {
    if (!firstTouch || !linkAt(e)) return;
    e.preventDefault();
    show(linkAt(e));
    firstTouch = false;
  });
  on("focusout", hide);
  on("focusin", (e) => linkAt(e) && show(linkAt(e)));
  on("keydown", (e) => e.key === "Escape" && hide());
})();
