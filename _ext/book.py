"""What the book asks of Sphinx beyond settings: numbers by chapter, local files, honest buttons."""

import re
from pathlib import Path
from zlib import crc32

from docutils import nodes
from docutils.parsers.rst.roles import CustomRole, generic_custom_role
from sphinx.environment.collectors.toctree import TocTreeCollector

from repository import UNSET, facts

CHAPTER = re.compile(r"(?:^|/)(\d+)_[^/]*$")
EXTENSIONS = [
    path
    for path in sorted(Path(__file__).parent.rglob("*.*"))
    if path.suffix in {".py", ".js", ".html"}
]
SCRIPTS = ["live_figures", "predict", "reader", "search", "tooltips"]


def chapter_of(docname):
    """chapters/13_training -> 13; a page that is no chapter -> None."""
    match = CHAPTER.search(docname)
    return int(match[1]) if match else None


count_figures = TocTreeCollector.assign_figure_numbers


def count_by_chapter(collector, env):
    """Number figures, tables, equations and exercises by the chapter's own number: 13.1, 13.2, …

    Sphinx's own `numbered: true` counts afresh in each part and numbers sections, too; and pages'
    titles, their links and the search would have no numbers. So each chapter lends the number in
    its file's name while figures are counted. A page without a number counts its own alone: 1, 2, …
    """
    printed, before = env.toc_secnumbers, env.toc_fignumbers
    env.toc_secnumbers = {
        docname: {"": (number,)}
        for docname in env.found_docs
        if (number := chapter_of(docname)) is not None
    }
    try:
        count_figures(collector, env)
    finally:
        env.toc_secnumbers = printed
    for docname, kinds in env.toc_fignumbers.items():
        for found in kinds.values() if chapter_of(docname) is None else ():
            found.update({anchor: (i,) for i, anchor in enumerate(found, 1)})
    return [doc for doc, kinds in env.toc_fignumbers.items() if kinds != before.get(doc)]


def number_title(app, doctree):
    """Put a chapter's number before its title, in the page and in every table of contents."""
    number = chapter_of(app.env.docname)
    title = next(doctree.findall(nodes.title), None)
    if number is not None and title is not None and not title.astext()[:1].isdigit():
        title.insert(0, nodes.inline("", f"{number}. ", classes=["chapter-number"]))


def configure(app, config):
    """Set what depends on other settings, and where the book lives, once the owner has said it."""
    config.html_context.setdefault("default_mode", "auto")
    options = config.html_theme_options
    options["logo"] = {"text": config.html_title, "alt_text": ""}
    options["navbar_persistent"] = []  # search is in the sidebar already
    options["use_fullscreen_button"] = False
    options["footer_content_items"] = ["extra-footer"]
    config.html_static_path += [f"_ext/{name}.js" for name in SCRIPTS]

    # Jupyter Book sets its own address.
    address = facts(Path(app.confdir)).address
    options["repository_url"] = "" if address == UNSET else address


def write(path, content):
    """Write a file unless it says the same already: it then keeps its date, and caches hold."""
    if not path.is_file() or path.read_bytes() != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def setup(app):
    # Text in Chinese, marked as such for fonts and for screen readers: {zh}`注意力`.
    marked = {"classes": ["zh", "language-zh-Hans"]}
    app.add_role("zh", CustomRole("zh", generic_custom_role, marked))
    # Sphinx itself registers the collector, so its method is what has to change.
    TocTreeCollector.assign_figure_numbers = count_by_chapter
    # Jupyter Book always sets this one, for an extension that this book does not load.
    app.add_config_value("comments_config", {}, "")
    app.connect("config-inited", configure)
    # Before Sphinx collects the titles, which it does at the usual priority.
    app.connect("doctree-read", number_title, priority=100)
    # Pages built by earlier extensions, scripts or templates are built again.
    version = crc32(b"".join(path.read_bytes() for path in EXTENSIONS))
    return {"env_version": version, "parallel_read_safe": True, "parallel_write_safe": True}
