"""The book as it will be once the repository's address is set, and a server like its host's."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
import threading
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from http.server import ThreadingHTTPServer
from pathlib import Path

from filelock import FileLock
from pages import ROOT, QuietHandler

REPOSITORY = "https://github.com/Ada-L/attention-by-hand"
ADDRESS = "https://ada-l.github.io/attention-by-hand/"
PREFIX = "/attention-by-hand/"
VERSION = re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text("utf-8"), re.M)[1]
KEPT = ROOT / ".cache" / "published"
NOWHERE_NEEDED = (".*", "__pycache__", "*.egg-info")
NOT_AT_THE_TOP = (
    "_build",
    "node_modules",
    "tests",
    "build",
    "lab",
    "runs",
)  # but transformer_lib/runs


def extension(name: str):
    """A module of _ext/, loaded as Sphinx would find it."""
    folder = str(ROOT / "_ext")
    if folder not in sys.path:
        sys.path.append(folder)
    return importlib.import_module(name)


def sources(root: Path) -> list[Path]:
    """The files that a build is made of, as paths below the root."""
    found: list[Path] = []
    for here, folders, files in os.walk(root):
        at_the_top = NOT_AT_THE_TOP if Path(here) == root else ()
        left_out = shutil.ignore_patterns(*NOWHERE_NEEDED, *at_the_top)
        gone = left_out(here, [*folders, *files])
        folders[:] = [name for name in folders if name not in gone]
        found += [Path(here, name).relative_to(root) for name in files if name not in gone]
    return sorted(found)


def fingerprint(root: Path) -> str:
    """What a build depends on, as one word: its sources, and who builds them."""
    whole = sha256(f"{sys.version} {sys.executable}".encode())
    for path in [*sources(root), Path("node_modules/.package-lock.json"), Path(__file__)]:
        content = Path(root, path).read_bytes()
        whole.update(f"\0{path.as_posix()}\0{len(content)}\0".encode() + content)
    return whole.hexdigest()[:16]


def build() -> Path:
    """The site, built from a copy of the sources with the address set by the owner's command.

    It is kept until the sources change: test processes share it, and runs with other fonts.
    """
    KEPT.mkdir(parents=True, exist_ok=True)
    with FileLock(KEPT.with_suffix(".lock")):
        folder = KEPT / fingerprint(ROOT)
        if not (folder / "site").exists():
            for old in KEPT.iterdir():
                shutil.rmtree(old)
            build_in(folder)
        return folder / "site"


def build_in(folder: Path) -> None:
    book = folder / "book"
    for path in sources(ROOT):
        (book / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / path, book / path)
    (book / "node_modules").symlink_to(ROOT / "node_modules")
    run = partial(subprocess.run, cwd=book, capture_output=True, text=True)
    run([sys.executable, "_ext/repository.py", "--url", REPOSITORY], check=True)
    command = [sys.executable, "-c", "from jupyter_book.cli.main import main; main()", "build", "."]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    result = run(
        [*command, "--warningiserror", "--nitpick", "--keep-going", "--quiet"],
        env={**os.environ, "PATH": path, "PYTHONPATH": str(book)},
    )
    assert result.returncode == 0, result.stderr[-3000:]
    (book / "_build" / "html").rename(folder / "site")
    shutil.rmtree(book)


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


@contextmanager
def publishing(folder: Path):
    """The site's address on this machine, while a server like GitHub's serves it."""
    handler = partial(PagesHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}{PREFIX}"
        finally:
            server.shutdown()
            thread.join()
