"""Which unit tests touch what was changed: `make check` runs them.

    python tests/changed.py            # the paths of test files, one a line
    python tests/changed.py --since main~3

A test file counts when it was changed itself, or names something of a module that was: imports it,
or takes from the library's front door what is defined there. With a live figure's script or style
goes its own test; with the kit that all share, those of all figures; with a page the test of its
name, and with any chapter that of the page about the paper, which quotes them; with the checks of
arguments, the core too. Compared is with the commit where this branch left main, uncommitted work
included. When nothing else is named, it is a core of quick tests.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIBRARY = "transformer_lib"
ENGINE = "transformer_lib/figures/engine"
KIT = {f"{LIBRARY}/figures/widgets/kit.{kind}" for kind in ("js", "css")}
FIGURES = "transformer_lib/figures/widgets/base.py"  # the tests of all figures name it
EVERYWHERE = {f"{LIBRARY}/{name}.py" for name in ("validation",)}
CORE = ("attention", "masks", "multihead", "layers", "models", "losses", "decoding")


def git(*arguments: str) -> str:
    # safe.directory: in a container the checkout may belong to another user.
    command = ["git", "-c", "safe.directory=*", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout


def changed_files(since: str | None = None) -> set[str]:
    """Paths that differ from the commit where this branch left main, or that git does not know."""
    bases = [since] if since else ["origin/main", "main"]
    found = (git("merge-base", "HEAD", name).strip() for name in bases)
    base = next((commit for commit in found if commit), "HEAD")
    lines = git("diff", "--name-only", base) + git("ls-files", "--others", "--exclude-standard")
    return set(lines.splitlines())


def module_path(name: str, root: Path) -> str | None:
    """`transformer_lib.masks` as a path below the root, if it is a module."""
    path = Path(*name.split("."))
    candidates = (path.with_suffix(".py"), path / "__init__.py")
    return next((found.as_posix() for found in candidates if (root / found).is_file()), None)


@cache
def front_door(package: str, root: Path) -> dict[str, str]:
    """Name -> module, for what a package's `__init__` takes from elsewhere in the library."""
    path = module_path(package, root)
    tree = ast.parse((root / path).read_text(encoding="utf-8"))
    return {
        alias.asname or alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(LIBRARY)
        for alias in node.names
    }


def defined_in(module: str, name: str, root: Path) -> set[str]:
    """The files that `from module import name` is about."""
    if path := module_path(f"{module}.{name}", root):
        return {path}
    path = module_path(module, root)
    if path is None:
        return set()
    if path.endswith("__init__.py") and name in front_door(module, root):
        return defined_in(front_door(module, root)[name], name, root)
    return {path}


@cache
def used(test: Path, root: Path) -> set[str]:
    """The library's files that a test file names."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(test.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.startswith(LIBRARY + ".")]
            found |= {path for name in names if (path := module_path(name, root))}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(LIBRARY):
            for alias in node.names:
                found |= defined_in(node.module, alias.name, root)
    return found


def touched(changed: set[str], root: Path = ROOT) -> list[str]:
    """The unit tests that touch the changed files, as paths below the root.

    For a file that no test names, those count that name a file which uses it.
    """
    if any(path.startswith(f"{ENGINE}/") for path in changed):  # its scripts have tests in common
        changed = changed | {f"{ENGINE}/__init__.py"}
    if changed & KIT:
        changed = changed | {FIGURES}
    tests = {path: used(path, root) for path in sorted((root / "tests/unit").glob("test_*.py"))}
    uses = {
        path.relative_to(root).as_posix(): used(path, root)
        for path in (root / LIBRARY).rglob("*.py")
    }
    meant: set[str] = set()
    for name in changed & uses.keys():
        seen, wave = set(), {name}
        while wave and not any(wave & named for named in tests.values()):
            seen |= wave
            wave = {user for user, named in uses.items() if named & wave} - seen
        meant |= wave
    stems = {Path(path).stem for path in changed if path.startswith(f"{LIBRARY}/figures/widgets/")}
    found = [
        name
        for path, named in tests.items()
        if (name := path.relative_to(root).as_posix()) in changed
        or path.stem.removeprefix("test_figure_") in stems
        or named & meant
    ]
    if any(path.startswith("tests/fuzz/") for path in changed):
        found.append("tests/unit/test_fuzz.py")
    if pages := {Path(path).stem for path in changed if path.startswith("chapters/")}:
        named_so = (f"tests/unit/test_{page}.py" for page in pages | {"the_paper"})
        found += (name for name in named_so if (root / name).is_file())
    core = [f"tests/unit/test_{name}.py" for name in CORE]
    return sorted({*found, *core}) if not found or changed & EVERYWHERE else found


def main() -> int:
    parser = argparse.ArgumentParser(description="Name the unit tests that touch what was changed.")
    parser.add_argument("--since", help="a commit to compare with (default: where main was left)")
    print("\n".join(touched(changed_files(parser.parse_args().since))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
