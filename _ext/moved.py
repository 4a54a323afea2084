"""Pages that have a new address: at the old one stands a page that leads to the new one.

The place in the page is kept: #eq-15-1 of the old chapter 15 is #eq-16-1 of the new chapter 16.
"""

from __future__ import annotations

import html
from pathlib import Path
from urllib.parse import urljoin

from book import chapter_of, write

MOVED = {
    "chapters/15_looking_inside": "chapters/16_looking_inside",
    "chapters/16_faster": "chapters/17_faster",
}
PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<meta name="robots" content="noindex">
{canonical}<script>
location.replace("{to}" + location.search + location.hash.replace("-{old}-", "-{new}-"));
</script>
<noscript><meta http-equiv="refresh" content="0; url={to}"></noscript>
</head>
<body><p>This page has moved to <a href="{to}">{title}</a>.</p></body>
</html>
"""


def lead_on(app, exception):
    if app.builder.format != "html" or exception is not None:
        return
    base = app.config.html_baseurl
    for old, new in MOVED.items():
        if new not in app.env.titles:  # a part of the book, built by itself
            continue
        title = html.escape(app.env.titles[new].astext())
        target = f"{new}.html"
        link = f'<link rel="canonical" href="{urljoin(base, target)}">\n' if base else ""
        page = PAGE.format(
            title=title,
            canonical=link,
            to=target.rpartition("/")[2],
            old=chapter_of(old),
            new=chapter_of(new),
        )
        write(Path(app.outdir, f"{old}.html"), page.encode())


def setup(app):
    # After whatever else changes pages once they are written.
    app.connect("build-finished", lead_on, priority=960)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
