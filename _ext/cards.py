"""Pictures drawn while the book is built: the card of a page, shown where somebody links to it, and
the logo as PNG, for what reads no SVG.

Pillow draws with the faces that the site ships. Everything is drawn four times too large and scaled
down, which smooths the logo's curves.
"""

from __future__ import annotations

import io
from functools import cache
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

WIDTH, HEIGHT = SIZE = (1200, 630)  # what Open Graph's readers ask for
MARGIN, TEXT_WIDTH = 84, 760
PAPER, INK, QUIET, ACCENT, LOGO = "#fffefb", "#1d2126", "#5a616a", "#0b66a8", "#2a86c8"
FINE = 4
FACES = "@fontsource/source-serif-4/files/source-serif-4-latin-{}.woff2"
SYMBOLS = "katex/dist/fonts/KaTeX_Main-Regular.woff2"  # √ and the like


class Face:
    """A face of the text at one size, with KaTeX's symbols where it has no glyph."""

    def __init__(self, modules: Path, style: str, size: int) -> None:
        paths = (modules / FACES.format(style), modules / SYMBOLS)
        self.size = size
        self.fonts = [ImageFont.truetype(path, size) for path in paths]
        self.font_of = cache(self.font_of)

    def font_of(self, character: str):
        """The first font that has the character.

        Raises:
            ValueError: none has.
        """
        for font in self.fonts:
            if bytes(font.getmask(character)) != bytes(font.getmask("\uffff")):
                return font
        raise ValueError(f"no face has the character {character!r} (U+{ord(character):04X})")

    def width(self, text: str) -> float:
        return sum(self.font_of(character).getlength(character) for character in text)

    def lines(self, text: str, width: int) -> list[str]:
        lines: list[str] = []
        for word in text.split():
            if lines and self.width(f"{lines[-1]} {word}") <= width:
                lines[-1] += f" {word}"
            else:
                lines.append(word)
        return lines

    def balanced(self, text: str, width: int) -> list[str]:
        """The same number of lines, as even as can be."""
        wanted = len(self.lines(text, width))
        while width > 100 and len(self.lines(text, width - 20)) == wanted:
            width -= 20
        return self.lines(text, width)

    def write(self, draw, place: tuple[float, float], text: str, color: str) -> None:
        """Runs of characters of one font; `place` is the left end of the base line."""
        x, y = place
        run = ""
        for character, following in zip(text, [*text[1:], None], strict=True):
            font = self.font_of(character)
            run += character
            if following is None or self.font_of(following) is not font:
                draw.text((x, y), run, color, font, anchor="ls")
                x, run = x + font.getlength(run), ""


@cache
def draw_logo(size: int, ground: str | None = None) -> Image.Image:
    """_static/logo.svg in pixels: one query, three keys, lines as thick as the weights."""
    side = size * FINE
    picture = Image.new("RGBA", (side, side), ground or (255, 255, 255, 0))
    draw = ImageDraw.Draw(picture)
    # On a ground of its own the logo keeps a margin.
    unit, edge = (side / 64, 0) if ground is None else (side / 80, side / 10)

    def dot(x, y, radius):
        x, y, radius = x * unit + edge, y * unit + edge, radius * unit
        draw.ellipse((x - radius, y - radius, x + radius, y + radius), LOGO)

    for y, thickness in ((13, 6.6), (32, 3.6), (51, 1.6)):
        for step in range(401):  # the path's cubic, as dots side by side
            t = step / 400
            near, far = (1 - t) ** 3 + 3 * (1 - t) ** 2 * t, 3 * (1 - t) * t**2 + t**3
            x = 15 * (1 - t) ** 3 + 90 * (1 - t) ** 2 * t + 96 * (1 - t) * t**2 + 50 * t**3
            dot(x, 32 * near + y * far, thickness / 2)
    corners = ((13, 22.5), (22.5, 32), (13, 41.5), (3.5, 32))
    draw.polygon([(x * unit + edge, y * unit + edge) for x, y in corners], LOGO)
    for y, radius in ((13, 7.2), (32, 5.4), (51, 4)):
        dot(52, y, radius)
    return picture.resize((size, size), Image.Resampling.LANCZOS)


def draw_card(modules: Path, book: str, title: str, promise: str, number: int | None) -> bytes:
    """The card of one page: its title, what it promises, the book it is from.

    Raises:
        ValueError: a character that neither face has.
    """
    picture = Image.new("RGB", SIZE, PAPER)
    draw = ImageDraw.Draw(picture)
    logo = draw_logo(300)
    picture.paste(logo, (WIDTH - 300 - 44, (HEIGHT - 300) // 2 - 30), logo)
    draw.rectangle((0, HEIGHT - 14, WIDTH, HEIGHT), ACCENT)

    small = Face(modules, "600-normal", 30)
    y = MARGIN + 14 if title != book else 150
    if number is not None:
        small.write(draw, (MARGIN, y), f"Chapter {number}", ACCENT)
    y += 24
    for size in (66, 58, 50):
        face = Face(modules, "600-normal", size)
        lines = face.balanced(title, TEXT_WIDTH)
        if len(lines) <= 3:
            break
    for line in lines[:3]:
        y += round(1.14 * face.size)
        face.write(draw, (MARGIN, y), line, INK)
    y += 26
    face = Face(modules, "400-italic", 32)
    room = (HEIGHT - 110 - y) // 43
    lines = face.lines(promise, TEXT_WIDTH)
    if len(lines) > room:
        lines = lines[:room]
        lines[-1] = lines[-1].rpartition(" ")[0].rstrip(",;:.") + " …"
    for line in lines:
        y += 43
        face.write(draw, (MARGIN, y), line, QUIET)
    if title != book:
        small.write(draw, (MARGIN, HEIGHT - 54), book, INK)
    return png(picture.quantize(64, dither=Image.Dither.NONE))


def png(picture: Image.Image) -> bytes:
    file = io.BytesIO()
    picture.save(file, "PNG", optimize=True)
    return file.getvalue()
