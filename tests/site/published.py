"""The book as it will be once the repository's address is set, and a server like its host's."""

import os
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

from filelock import FileLock
from pages import ROOT, QuietHandler

from changed import known

REPOSITORY = "https://github.com/Ada-L/attention-by-hand"
ADDRESS = "https://ada-l.github.io/attention-by-hand/"
PREFIX = "/attention-by-hand/"
VERSION = re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text("utf-8"), re.M)[1]


def build(folder: Path) -> Path:
    """The site, built from a copy of the sources with the address set by the owner's command.

    All processes of a test run share it.
    """
    site = folder / "site"
    with FileLock(folder / "published.lock"):
        if not site.exists():
            build_in(folder / "book")
            (folder / "book" / "_build" / "html").rename(site)
    return site


def build_in(book: Path) -> None:
    """Build it twice, as owners do who change a page, and where there's no torch and no library."""
    for name in known():
        (book / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, book / name)
    (book / "node_modules").symlink_to(ROOT / "node_modules")
    for name in ("torch", "transformer_lib"):
        module = book / ".poison" / f"{name}.py"
        module.parent.mkdir(exist_ok=True)
        module.write_text(f"raise SystemError('{name} was imported')")
    run = partial(subprocess.run, cwd=book, capture_output=True, text=True)
    run([sys.executable, "_ext/repository.py", "--url", REPOSITORY], check=True)
    command = [sys.executable, "-c", "from jupyter_book.cli.main import main; main()", "build", "."]
    command += ["--warningiserror", "--nitpick", "--keep-going", "--quiet"]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(book / ".poison")}
    changed = book / "reference" / "attention.rst"
    for text in (changed.read_text("utf-8"), changed.read_text("utf-8") + "\nOne line more.\n"):
        changed.write_text(text, encoding="utf-8")
        result = run(command, env=environment)
        assert result.returncode == 0, result.stderr[-3000:]


class PagesHandler(QuietHandler):
    """As GitHub Pages: the site in a folder of its own, 404.html for all that is not there."""

    def translate_path(self, path: str) -> str:
        inside = path.removeprefix(PREFIX) if path.startswith(PREFIX) else "nothing/here"
        return super().translate_path(f"/{inside}")

    def send_error(self, code, *arguments, **options) -> None:
        body = Path(self.directory, "404.html").read_bytes()
        self.send_response(code)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
