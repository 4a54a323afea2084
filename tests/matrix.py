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
MARK = "@pytest.mark.fonts"
COMMAND = ("-m", "pytest", "--quiet", "-m", "fonts", "-n", "2", "--dist", "worksteal")

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


def main(arguments: list[str]) -> int:
    runs = {name: RUNS[name] for name in arguments} or RUNS
    failed = []
    for name, settings in runs.items():
        print(f"== {name}", flush=True)
        start = time.monotonic()
        try:
            config = only(settings["FONT"])
        except FileNotFoundError as error:
            print(error)
            failed += [name] if os.environ.get("CI") == "true" else []
            continue
        environment = {**os.environ, **settings, "FONTCONFIG_FILE": str(config)}
        commands = [[sys.executable, *COMMAND, *files] for files in marked().values()]
        ran = [subprocess.run(each, cwd=ROOT, env=environment).returncode for each in commands]
        if any(ran):
            failed.append(name)
        print(f"   {time.monotonic() - start:.0f} s", flush=True)
    print("failed with " + "; ".join(failed) if failed else "passed with every font")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
