"""Make the built pages light: one style sheet, one script, fonts of the characters in use.

The theme alone sends 860 KB, of which a page needs a twentieth. When all is built, what every page
loads becomes `site.css`, without the rules that no page asks for, and `site.js`, without Bootstrap
and the script of icons (assets.py). Equations' style sheet comes where there are equations. What
live figures have in common stands once, at the end. Images come when they are nearly in sight, into
places of their size.

A page that Sphinx did not write anew is slim already, and only learns the versions of these files.
"""

import json
import re
from functools import cache
from hashlib import sha256
from pathlib import Path

import imagesize
from sphinx.util import logging

import live_figures
from accessible import accessible
from assets import OPTIONS, Assets, in_static
from book import write
from equations import set_equations

LOGGER = logging.getLogger(__name__)

LINK = re.compile(r'<link\b[^>]*\bhref="([^"]+)"[^>]*>\s*')
SCRIPT = re.compile(r'<script\b[^>]*\bsrc="([^"]+)"[^>]*>\s*</script>\s*')
STATE = f'<script type="{live_figures.STATE}">'
STATES = re.compile(rf"{re.escape(STATE)}(.*?)</script>\s*", re.DOTALL)
ICON = re.compile(r'<(i|span) (?=class="[^"]*\bfa-)')
IMAGE = re.compile(r'<img (?=[^>]*\bsrc="[^"]*_images/([^"/]+\.png)")(?![^>]*\b(?:loading|width)=)')
# Several panels side by side: on a phone they scroll rather than shrink. The theme's script makes
# what bears its class a stop of the keyboard where it does scroll.
WIDE = re.compile(r'<img loading="lazy" width="(?:1\d|[2-9]\d)\d\d"[^>]*>')
SCROLLING = r'<div class="pst-scrollable-table-container wide-figure">\g<0></div>'
OURS = re.compile(r'_static/((?:site|fonts|live_figures|katex/\w+)\.\w+)(?:\?v=\w+)?"')
# The theme asks which colours the system has only when the page has been painted in the other ones.
THEME = re.compile(r'(dataset\.theme = )localStorage\.getItem\("theme"\) \|\| "\w*"')
THEME_AT_ONCE = (
    r'\1["light", "dark"].find((mode) => mode === localStorage.getItem("mode"))'
    r' ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")'
)
# The theme's one menu, with a choice of colors, needs no script to open and close.
MENU = [
    ('data-bs-toggle="dropdown"', 'popovertarget="color-menu"'),
    ('dropdown-menu-end"', 'dropdown-menu-end" popover id="color-menu"'),
    ('theme-change-button"', 'theme-change-button" popovertarget="color-menu"'),
]
# What only Bootstrap does, a page must not ask for. A title is a tooltip already.
BOOTSTRAP = re.compile(r'data-bs-toggle="(?!tooltip")[^"]*"')


def waiting(found, images: Path) -> str:
    """The beginning of an <img> that is loaded when it is nearly in sight; nothing moves then."""
    width, height = imagesize.get(images / found[1])
    return f'<img loading="lazy" width="{width}" height="{height}" '


def slim_page(text: str, assets: Assets) -> str:
    """A page as Sphinx wrote it, loading the assets instead of what they were made of."""
    root = re.search(r'href="([^"]*)_static/', text)[1]
    equations = 'class="katex"' in text

    def sheet(name: str) -> str:
        return f'<link rel="stylesheet" href="{root}_static/{name}.css">\n'

    def link(found) -> str:
        preload = 'rel="preload"' in found[0]  # a font may not be, where a page is a file
        return "" if preload or in_static(found[1]) in assets.sheets else found[0]

    def script(found) -> str:
        name = in_static(found[1])
        if name == OPTIONS:  # which page this is may be asked before any other script has come
            return f"<script>{assets.options}</script>\n"
        return "" if name in assets.scripts or name in assets.dropped else found[0]

    text = SCRIPT.sub(script, LINK.sub(link, text))
    text = THEME.sub(THEME_AT_ONCE, text).replace('data-theme="auto"', 'data-theme="light"', 1)
    text = IMAGE.sub(lambda found: waiting(found, assets.static.parent / "_images"), text)
    text = WIDE.sub(SCROLLING, text)
    text = ICON.sub(r'<\1 aria-hidden="true" ', text)
    for bootstrap, browser in MENU:
        text = text.replace(bootstrap, browser)
    host = ""
    if states := STATES.findall(text):
        together = live_figures.share(map(json.loads, states), assets.ask)
        text = STATES.sub("", text)
        text = text.replace("</body>", f"{STATE}{together}</script>\n</body>")
        host = f'<script defer src="{root}_static/live_figures.js"></script>\n'
    # Last: scripts in the page set what the script reads, and the sheet overrides others.
    ours = sheet("katex/katex") if equations else ""
    for name in ("fonts", *["katex/fonts"] * equations):
        ours += f'<script src="{root}_static/{name}.js"></script>\n'
        ours += f"<noscript>{sheet(name)}</noscript>\n"
    ours += f'{host}<script defer src="{root}_static/site.js"></script>\n{sheet("site")}'
    return text.replace("</head>", f"{ours}</head>", 1)


def slim(app, exception):
    if exception is not None:
        return
    out = Path(app.outdir)
    files = sorted(file for file in out.rglob("*.html") if out / "_static" not in file.parents)
    pages = {file: file.read_text(encoding="utf-8") for file in files}
    written = [file for file, text in pages.items() if "_static/site.css" not in text]
    assets = Assets(app)
    pages |= set_equations({file: accessible(pages[file]) for file in written}, assets.ask)
    assets.join(pages)
    pages |= {file: slim_page(pages[file], assets) for file in written}
    for file, text in pages.items():
        for asked in BOOTSTRAP.findall(text):
            LOGGER.warning("%s: nothing here answers to %s", file.relative_to(out), asked)
    assets.finish()

    @cache
    def address(name: str) -> str:
        version = sha256((out / "_static" / name).read_bytes()).hexdigest()[:8]
        return f'_static/{name}?v={version}"'

    for file, text in pages.items():
        write(file, OURS.sub(lambda found: address(found[1]), text).encode())


def setup(app):
    # When everything has been written that other extensions write.
    app.connect("build-finished", slim, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
