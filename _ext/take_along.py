"""What a reader can take along: one zip that needs no address of the book.

It holds the student's notebooks, the library as a wheel, the reader's mine.py as each chapter
leaves it, and three lines that say how to start.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from shutil import copytree
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from student import FOLDER

NAME = "attention-built-by-hand"
# What the wheel is made of.
SOURCES = ["pyproject.toml", "README.md", "LICENSE", "LICENSE-text", "transformer_lib", "results"]
START = """1. Install the library and JupyterLab: python -m pip install {wheel} jupyterlab
   (On Linux, pip takes torch for GPUs, several gigabytes. Without a GPU, first install torch
   for CPUs, as pytorch.org says.)
2. Start: python -m jupyterlab, then open a chapter. It's yours: change it, write into it.
3. mine/06/mine.py is what you have when chapter 6 ends, and so on: use it, or write your own.
Solutions, answers, and the glossary are on the book's pages, which have the notebooks' names.
"""
# Until the book has an address, a link to its pages leads nowhere from here: its words stay.
NOWHERE = re.compile(rb"\[((?:[^][]|\[[^][]*\])*)\]\(\.\./[^)\s]*\)")


def wheel(root: Path, folder: Path) -> Path:
    """The library as a wheel, made of a copy: what an earlier build left behind isn't in it."""
    for name in SOURCES:
        source = root / name
        if source.is_dir():
            copytree(source, folder / name)
        else:
            (folder / name).write_bytes(source.read_bytes())
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet"]
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", folder, folder]
    without_dates = os.environ | {"SOURCE_DATE_EPOCH": "315532800"}  # 1980, where zip's years begin
    subprocess.run([*pip, *options], check=True, capture_output=True, env=without_dates)
    return next(folder.glob("*.whl"))


def publish(app, exception):
    if exception is not None:
        return
    out = Path(app.outdir)
    notebooks = (out / FOLDER).glob("*.ipynb")
    with (
        tempfile.TemporaryDirectory() as folder,
        ZipFile(out / f"{NAME}.zip", "w", ZIP_DEFLATED) as packed,
    ):
        made = wheel(Path(app.srcdir), Path(folder))
        files = {path.name: NOWHERE.sub(rb"\1", path.read_bytes()) for path in notebooks}
        files[made.name] = made.read_bytes()
        files |= {
            path.relative_to(out).as_posix(): path.read_bytes() for path in out.glob("mine/*/*.py")
        }
        files["START.txt"] = START.format(wheel=made.name).encode()
        for name, content in sorted(files.items()):
            entry = ZipInfo(f"{NAME}/{name}")  # no date: the same files make the same zip
            entry.compress_type = ZIP_DEFLATED
            packed.writestr(entry, content)


def setup(app):
    app.connect("build-finished", publish, priority=950)  # the notebooks are written
    return {"parallel_read_safe": True, "parallel_write_safe": True}
