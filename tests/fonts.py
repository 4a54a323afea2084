"""Fonts of several systems: live figures, menus and tables are set in the reader's own.

They're as wide as that font makes them. Tests see them in the machine's font and in each of these;
one of them spaces letters wider than any system does.

A figure that stands alone reserves its height once, as it opens. So each font is the only one that
its browser finds. The site's pages are long and take seconds to open: a visit shows all fonts, one
after another, by the page's own names for them.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

FOLDERS = ("/usr/share/fonts", "/usr/local/share/fonts", "~/.local/share/fonts", "~/.fonts")
# Family -> how its files begin: `X.ttf` and `X-Bold.ttf`, and no narrow face.
FAMILIES = {
    "DejaVu Sans": "DejaVuSans",  # Linux
    "Liberation Sans": "LiberationSans",  # as wide as Arial and Helvetica
    "Roboto": "Roboto",  # Android
}
# Name -> family and letter spacing.
FONTS = {name: (name, "normal") for name in FAMILIES}
FONTS["DejaVu Sans, letters apart"] = ("DejaVu Sans", ".08em")

CONFIG = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>{folder}</dir>
  <cachedir>{cache}</cachedir>
</fontconfig>
"""


def files_of(family: str, folders=FOLDERS) -> list[Path]:
    """The files of a family among the system's fonts."""
    start = FAMILIES[family]
    paths = [path for folder in folders for path in Path(folder).expanduser().rglob("*.ttf")]
    return sorted(path for path in paths if path.stem.partition("-")[0] == start)


def installed() -> list[str]:
    """The names of the fonts that this machine has: where CI=true, it must have all of them."""
    missing = [family for family in FAMILIES if not files_of(family)]
    if missing and os.environ.get("CI") == "true":
        pytest.fail(f"with CI=true these fonts are required: {', '.join(missing)}")
    return [name for name, (family, _) in FONTS.items() if family not in missing]


def only(name: str, made: Path, folders=FOLDERS) -> Path:
    """A fontconfig file, written into the folder `made`, that knows this font and no other."""
    family, _ = FONTS[name]
    files = files_of(family, folders)
    if not files:
        raise FileNotFoundError(f"no file of {family} below {', '.join(map(str, folders))}")
    fonts = made / "fonts"
    fonts.mkdir()
    for path in files:
        (fonts / path.name).symlink_to(path)
    config = made / "fonts.conf"
    config.write_text(CONFIG.format(folder=fonts, cache=made / "cache"), encoding="utf-8")
    return config


def style(name: str) -> str:
    """The style sheet that sets a page of the site in a font."""
    family, apart = FONTS[name]
    return f':root {{ --book-sans: "{family}"; --book-mono: "{family}"; letter-spacing: {apart} }}'
