"""Run tests with each of several fonts, and in another browser: `make matrix`.

    python tests/matrix.py                               # all of them
    python tests/matrix.py pages "Liberation Sans"       # the site, and figures in one font

What depends on the reader's font carries the marker `fonts`. A page's own fonts come with it; live
figures, menus and tables are set in the system's, and are as wide as it makes them.

A figure that stands alone reserves its height once, as it opens. So each family is made the only
one that its browser finds, by a fontconfig file, in a run of its own; one more spaces letters wider
than any system does. The site's pages are long and take seconds to open: a visit shows all fonts,
one after another, by the page's own names for them.

The marker `firefox` is that of the site's tests in another browser.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MADE = ROOT / ".cache" / "matrix"
FOLDERS = ("/usr/share/fonts", "/usr/local/share/fonts", "~/.local/share/fonts", "~/.fonts")
# Family -> how its files begin: `X.ttf` and `X-Bold.ttf`, and no narrow face.
FAMILIES = {
    "DejaVu Sans": "DejaVuSans",  # Linux
    "Liberation Sans": "LiberationSans",  # as wide as Arial and Helvetica
    "Roboto": "Roboto",  # Android
}
# What each run of single figures sets in the environment of its tests.
RUNS = {name: {"FONT": name} for name in FAMILIES}
RUNS["DejaVu Sans, letters apart"] = {"FONT": "DejaVu Sans", "LETTER_SPACING": ".08em"}
PAGES, FIREFOX = "pages", "Firefox"  # the runs of the site's tests
MARK = "pytest.mark.{}"
COMMAND = ("-m", "pytest", "--quiet", "-m")
# One process each. There are more than processors: a browser often waits.
AT_ONCE = 3

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
    found = sorted(path for path in paths if path.stem.partition("-")[0] == start)
    if not found:
        raise FileNotFoundError(f"no file of {family} below {', '.join(map(str, folders))}")
    return found


def only(family: str, made: Path = MADE, folders=FOLDERS) -> Path:
    """A fontconfig file that knows this family and no other."""
    files = files_of(family, folders)
    folder = made / FAMILIES[family]
    fonts = folder / "fonts"
    fonts.mkdir(parents=True, exist_ok=True)
    for path in files:
        link = fonts / path.name
        link.unlink(missing_ok=True)
        link.symlink_to(path)
    config = folder / "fonts.conf"
    config.write_text(CONFIG.format(folder=fonts, cache=folder / "cache"), encoding="utf-8")
    return config


def style(name: str) -> str:
    """The style sheet that sets a page of the site in a run's font."""
    family, apart = RUNS[name]["FONT"], RUNS[name].get("LETTER_SPACING", "normal")
    return f':root {{ --book-sans: "{family}"; --book-mono: "{family}"; letter-spacing: {apart} }}'


def marked(kind: str, mark: str = "fonts") -> list[str]:
    """The files in tests/unit or tests/site that hold such tests: collecting all takes a minute."""
    paths = sorted((ROOT / "tests" / kind).rglob("test_*.py"))
    return [str(path) for path in paths if MARK.format(mark) in path.read_text(encoding="utf-8")]


def run(name: str, made: Path = MADE) -> tuple[bool, str]:
    """Whether the tests pass in this run, and what they say."""
    start, mark = time.monotonic(), "fonts"
    try:
        if name == FIREFOX:
            kind, mark, settings = "site", "firefox", {}
        elif name == PAGES:
            kind, settings = "site", {"EVERY_FONT": "true"}
            for family in FAMILIES:
                files_of(family)
        else:
            config = only(RUNS[name]["FONT"], made / name)
            kind, settings = "unit", RUNS[name] | {"FONTCONFIG_FILE": str(config)}
    except FileNotFoundError as error:
        return os.environ.get("CI") != "true", f"{error}\n"
    command = [sys.executable, *COMMAND, mark, *marked(kind, mark)]
    ran = subprocess.run(command, cwd=ROOT, env={**os.environ, **settings}, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
    return ran.returncode == 0, f"{ran.stdout}   {time.monotonic() - start:.0f} s\n"


def main(arguments: list[str]) -> int:
    names = arguments or [PAGES, FIREFOX, *RUNS]  # the longest first
    failed = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for name, (passed, said) in zip(names, pool.map(run, names), strict=True):
            print(f"== {name}\n{said}", end="", flush=True)
            failed += [] if passed else [name]
    print("failed with " + "; ".join(failed) if failed else "passed everywhere")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
