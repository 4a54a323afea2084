"""Run the tests that depend on the reader's font once with each of several: `make matrix`.

    python tests/matrix.py                      # every font
    python tests/matrix.py "Liberation Sans"    # one

These tests carry the marker `fonts`. A page's own fonts come with it; live figures, menus and
tables are set in the system's, and are as wide as it makes them. So each family here is made the
only one that the browser finds, by a fontconfig file; the last run spaces letters wider than any
system does.
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
# What each run sets in the environment of its tests. A browser of another kind would be one more.
RUNS = {name: {"FONT": name} for name in FAMILIES}
RUNS["DejaVu Sans, letters apart"] = {"FONT": "DejaVu Sans", "LETTER_SPACING": ".08em"}
MARK = "pytest.mark.fonts"
COMMAND = ("-m", "pytest", "--quiet", "-m", "fonts")
# Runs are alike, with one process each. There are more than processors: a browser often waits.
AT_ONCE = 4

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


def only(family: str, made: Path = MADE, folders=FOLDERS) -> Path:
    """A fontconfig file that knows this family and no other."""
    files = files_of(family, folders)
    if not files:
        raise FileNotFoundError(f"no file of {family} below {', '.join(map(str, folders))}")
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


def marked() -> dict[Path, list[str]]:
    """The files that hold such tests, by folder: collecting all the others takes a minute.

    Each folder has a fixture that starts a browser, and a process may start only one.
    """
    folders: dict[Path, list[str]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        if MARK in path.read_text(encoding="utf-8"):
            folders.setdefault(path.parent, []).append(str(path))
    return folders


def run(name: str, made: Path = MADE) -> tuple[bool, str]:
    """Whether the tests pass in this run, and what they say."""
    start = time.monotonic()
    settings = RUNS[name]
    try:
        config = only(settings["FONT"], made / name)
    except FileNotFoundError as error:
        return os.environ.get("CI") != "true", f"{error}\n"
    environment = {**os.environ, **settings, "FONTCONFIG_FILE": str(config)}
    passed, said = True, ""
    for files in marked().values():
        command = [sys.executable, *COMMAND, *files]
        ran = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True)  # fmt: skip
        passed, said = passed and ran.returncode == 0, said + ran.stdout
    return passed, f"{said}   {time.monotonic() - start:.0f} s\n"


def main(arguments: list[str]) -> int:
    names = arguments or [*RUNS]
    failed = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for name, (passed, said) in zip(names, pool.map(run, names), strict=True):
            print(f"== {name}\n{said}", end="", flush=True)
            failed += [] if passed else [name]
    print("failed with " + "; ".join(failed) if failed else "passed with every font")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
