"""Which unit tests touch what was changed: `make check` runs them.

    python tests/changed.py            # the paths of test files, one a line

A test file counts when it was changed itself, has a changed file's name, or imports a name that a
changed module defines. With the kit that live figures share go the tests of all figures, and with
the checks of arguments the core. Compared is with the commit where this branch left main,
uncommitted work included. When nothing else is named, it is the core, quick tests.
"""

import ast
import re
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
UNIT = ROOT / "tests" / "unit"
CORE = ("attention", "masks", "multihead", "layers", "models", "losses", "decoding")


def git(*arguments: str) -> str:
    # safe.directory: in a container the checkout may belong to another user.
    command = ["git", "-c", "safe.directory=*", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout


def known() -> set[str]:
    """The files that git tracks or would, as paths below the root: nothing that it ignores."""
    listed = git("ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    return {name for name in listed if (ROOT / name).is_file()}


def changed_files() -> set[str]:
    """Paths that differ from the commit where this branch left main, or that git does not know."""
    found = (git("merge-base", "HEAD", name).strip() for name in ("origin/main", "main"))
    base = next((commit for commit in found if commit), "HEAD")
    lines = git("diff", "--name-only", base) + git("ls-files", "--others", "--exclude-standard")
    return set(lines.splitlines())


@cache
def imported(test: Path) -> set[str]:
    """The names and modules that a test takes from the library."""
    found = set()
    for node in ast.walk(ast.parse(test.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("transformer_lib"):
            found |= {alias.name for alias in node.names}
    return found


def defined(path: Path) -> set[str]:
    """The functions and classes of a module, and its own name."""
    text = (ROOT / path).read_text(encoding="utf-8") if (ROOT / path).is_file() else ""
    return {*re.findall(r"^(?:def|class) (\w+)", text, re.M), path.stem}


def touched(changed: set[str]) -> list[str]:
    """The unit tests that touch the changed files, as paths below the root."""
    names, stems, starts = set(), set(), ()
    for path in map(Path, changed):
        stem, folder = path.stem, path.parent.name
        stems |= {stem, folder, f"{folder}_{stem}", f"figure_{stem}"}
        if path.suffix == ".py" and path.parts[0] == "transformer_lib":
            names |= defined(path)
        if folder == "chapters":
            stems.add("the_paper")  # which quotes them
        if folder == "engine":
            starts += ("engine",)
        if stem in ("kit", "base"):
            starts += ("figure_", "widgets")
        if stem == "validation":
            stems |= {*CORE}
    found = [
        path
        for test in sorted(UNIT.glob("test_*.py"))
        if (path := test.relative_to(ROOT).as_posix()) in changed
        or (name := test.stem.removeprefix("test_")) in stems
        or name.startswith(starts)
        or imported(test) & names
    ]
    return found or [f"tests/unit/test_{name}.py" for name in CORE]


if __name__ == "__main__":
    print("\n".join(touched(changed_files())))
