"""The builder behind `make pdf`: every page of the book, from the same sources, in one HTML file.

It renders each document as the site's builder does, but keeps the text alone: no theme, no scripts,
no navigation. pdf_book.py makes one book of these pieces; pdf_print.py prints it.
"""

import shutil
from fnmatch import fnmatch
from pathlib import Path

from sphinx.builders.html import StandaloneHTMLBuilder

import pdf_book
from repository import facts

PRINT = Path(__file__).resolve().parents[1] / "_build/pdf/attention-built-by-hand.pdf"
SHEET = Path(__file__).with_name("pdf.css")
# What the print needs and the system may lack; each names its files relative to itself.
FONTS = [
    "@fontsource/source-serif-4/400.css",
    "@fontsource/source-serif-4/400-italic.css",
    "@fontsource/source-serif-4/600.css",
    "@fontsource/source-serif-4/600-italic.css",
    "@fontsource/source-code-pro/400.css",
    "@fontsource/source-code-pro/600.css",
    "@fontsource/dejavu-mono/400.css",
    "@fontsource-variable/noto-sans-sc/index.css",
    "katex/dist/katex.min.css",
]


class PdfBuilder(StandaloneHTMLBuilder):
    """Writes book.html, which a browser can print, and nothing that a reader would open."""

    name = "pdf"
    search = False
    copysource = False

    def init(self):
        super().init()
        self.bodies = {}

    def get_outdated_docs(self):
        return self.env.found_docs

    def get_doc_context(self, docname, body, metatags):
        return {"body": body}

    def handle_page(self, pagename, addctx, *arguments, **keywords):
        self.bodies[pagename] = addctx["body"]

    def index_page(self, *arguments):
        """There is no search on paper."""

    def finish(self):
        self.copy_image_files()
        # The order of _toc.yml, which is the only one that knows the parts.
        site_map = self.config.external_site_map
        parts = [(None, [site_map.root.docname])]
        for tree in site_map.root.subtrees:
            parts.append((tree.caption, list(documents(site_map, tree.items))))
        left_out = {d for d in self.bodies if any(fnmatch(d, p) for p in self.config.pdf_leave_out)}
        parts = [(caption, [d for d in docs if d not in left_out]) for caption, docs in parts]
        book = pdf_book.Book(
            title=self.config.html_title,
            subtitle=self.config.pdf_subtitle,
            authors=self.config.author,
            address=self.config.html_baseurl,
            style=SHEET.read_text(encoding="utf-8"),
            sheets=[Path(self.srcdir, "node_modules", font).as_uri() for font in self.fonts()],
            logo=Path(self.srcdir, self.config.html_logo).read_text(encoding="utf-8"),
            edition=facts(Path(self.srcdir)).edition,
            folder=Path(self.outdir),
        )
        html = book.bind([(caption, docs) for caption, docs in parts if docs], self.bodies)
        Path(self.outdir, "book.html").write_text(html, encoding="utf-8")

    def fonts(self):
        missing = [font for font in FONTS if not Path(self.srcdir, "node_modules", font).is_file()]
        if missing:
            raise FileNotFoundError(
                f"node_modules lacks {', '.join(missing)}: some text would print as boxes. "
                "`make pdf` fetches the fonts; npm ci does too."
            )
        return FONTS


def documents(site_map, items):
    """Documents in the order of reading, each before those below it."""
    for item in items:
        if str(item) in site_map:
            yield str(item)
            for tree in site_map[str(item)].subtrees:
                yield from documents(site_map, tree.items)


def link_print(app, pagename, templatename, context, doctree):
    """Link the print at the foot of the site's pages, if there is one when they are built."""
    if app.builder.name == "html" and PRINT.is_file():
        shutil.copyfile(PRINT, Path(app.outdir, PRINT.name))
        address = context["pathto"](PRINT.name, resource=True)
        link = f'<p><a href="{address}">The book as a PDF</a>, to print or to keep.</p>'
        context["theme_extra_footer"] = context.get("theme_extra_footer", "") + link


def setup(app):
    app.add_builder(PdfBuilder)
    app.connect("html-page-context", link_print)
    app.add_config_value("pdf_leave_out", [], "")
    app.add_config_value("pdf_subtitle", "", "")
    # Of all forms of an output, paper takes what the site takes.
    app.connect("config-inited", prefer_what_html_prefers)
    return {"parallel_read_safe": True, "parallel_write_safe": False}


def prefer_what_html_prefers(app, config):
    from myst_nb.core.render import base_render_priority

    config.nb_mime_priority_overrides = [
        *config.nb_mime_priority_overrides,
        *(("pdf", mime, rank) for mime, rank in base_render_priority()["html"].items()),
    ]
