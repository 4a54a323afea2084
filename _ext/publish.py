"""What a published site tells others: what each page is about, and where it lives.

The site's address is `html.baseurl` in _config.yml or, when that is not set and the repository's
address is, GitHub Pages'. With neither, nothing names an address, and a page has no card.
"""

import html
import re
import textwrap
from pathlib import Path
from urllib.parse import urljoin, urlsplit

from docutils import nodes

from book import write

CARD = "_static/card.png"  # 1200 by 630, as Open Graph's readers ask
TOUCH_ICON = "_static/touch-icon.png"
# Pages for people who are here already: no card, not for search engines.
TOOLS = {"404", "genindex", "search"}


def pages_address(repository: str) -> str:
    """https://github.com/Owner/name -> where GitHub Pages puts its site."""
    owner, name = urlsplit(repository).path.strip("/").split("/")
    host = f"{owner.lower()}.github.io"
    return f"https://{host}/" if name.lower() == host else f"https://{host}/{name}/"


def find_address(app, config):
    """Runs after book.configure, which sets the repository's address once the owner has said it."""
    repository = config.html_theme_options.get("repository_url")
    if not config.html_baseurl and repository:
        config.html_baseurl = pages_address(repository)
    if config.html_baseurl and not config.html_baseurl.endswith("/"):
        config.html_baseurl += "/"


# ---- What a page is about ------------------------------------------------------------------------


def promise_of(doctree) -> str:
    """The page's first paragraph as plain text: in a chapter, what it promises."""
    paragraph = next(doctree.findall(nodes.paragraph), None)
    if paragraph is None:
        return ""
    paragraph = paragraph.deepcopy()
    for formula in list(paragraph.findall(nodes.math)):
        readable = re.sub(r"\\sqrt\{([^{}]*)\}", r"√\1", formula.astext())
        formula.replace_self(nodes.Text(readable))
    return " ".join(paragraph.astext().split())


def describe(app, pagename, templatename, context, doctree):
    """Put a description into the page's head, and what shows the page elsewhere as a card."""
    book = app.config.html_title
    titles = app.env.titles
    title = titles[pagename].astext() if pagename in titles else context.get("title", book)
    base = app.config.html_baseurl
    if pagename == app.config.root_doc and base:
        context["pageurl"] = base  # the same page as index.html, and the address people share
    promise = promise_of(doctree) if doctree is not None else ""
    description = textwrap.shorten(promise, 200, placeholder=" …")
    description = description or f"{title}: a page of {book}."
    tags = [("name", "description", description)]
    if pagename in TOOLS:
        context["pageurl"] = None
        tags.append(("name", "robots", "noindex"))
    elif doctree is not None and base:
        tags += [
            ("property", "og:type", "website" if pagename == app.config.root_doc else "article"),
            ("property", "og:url", context["pageurl"]),
            ("property", "og:site_name", book),
            ("property", "og:title", title),
            ("property", "og:description", description),
            ("property", "og:image", urljoin(base, CARD)),
            ("property", "og:image:width", "1200"),
            ("property", "og:image:height", "630"),
            ("property", "og:image:alt", book),
            ("name", "twitter:card", "summary_large_image"),
        ]
    lines = [f'<meta {kind}="{name}" content="{html.escape(text)}">' for kind, name, text in tags]
    lines.append(f'<link rel="apple-touch-icon" href="{context["pathto"](TOUCH_ICON, 1)}">')
    context["metatags"] = "\n    ".join([context.get("metatags", ""), *lines])


# ---- Pages of the site as a whole ----------------------------------------------------------------


def not_found(app):
    """404.html, which GitHub Pages shows for every address that leads nowhere."""
    yield "404", {"title": "Page not found"}, "404.html"


def from_the_root(page: str, root: str) -> str:
    """The page with its relative addresses counted from the site's root.

    It is shown at every depth, where `_static/…` would be somewhere else each time.
    """
    relative = r'(?<=\s)((?:href|src|action|data-content_root)=")(?!\w+:|[/#"])(?:\./)?'
    return re.sub(relative, rf"\g<1>{root}", page)


def finish(app, exception):
    """With an address: a 404 page that works at any depth."""
    base = app.config.html_baseurl
    if exception is None and base:
        page = Path(app.outdir, "404.html")
        text = page.read_text(encoding="utf-8")
        write(page, from_the_root(text, urlsplit(base).path).encode())


def setup(app):
    app.connect("config-inited", find_address, priority=900)
    app.connect("html-page-context", describe)
    app.connect("html-collect-pages", not_found)
    # After whatever else changes pages once they are written.
    app.connect("build-finished", finish, priority=950)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
