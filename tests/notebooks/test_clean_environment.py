"""Every chapter gives its stored outputs where a reader would run it: away from this checkout.

A fresh virtual environment gets the library's wheel and the *lowest* version that pyproject.toml
allows of each dependency. Each notebook runs there in an empty folder, and its outputs are compared
with the stored ones, which the versions of requirements.txt made: both ends of what is allowed say
the same. It's also the run of a reader who hasn't done the exercises: solutions run and are
compared, but no other cell sees the names they define (aside.py). torch and the kernel are linked
from this environment: the lowest torch has no wheel for every Python, and weighs gigabytes.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aside
import nbformat
import pytest
import strict
from execute import ROOT, notebooks
from gate import ANSI
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

sys.path.insert(0, str(ROOT / "_ext"))
import cells
import student

pytestmark = pytest.mark.slow
CHAPTERS = notebooks()
LIBRARY = "attention-built-by-hand"
LINKED = ("torch", "ipykernel")  # the build at hand; and what runs a notebook at all
JOBS = 2
# The lowest versions have wheels for these Pythons. On later ones chapters run in this environment.
LOWEST_HAVE_WHEELS = sys.version_info < (3, 13)


def run(*command, **options) -> str:
    result = subprocess.run([*map(str, command)], capture_output=True, text=True, **options)
    assert result.returncode == 0, f"{' '.join(map(str, command))}\n{result.stdout}{result.stderr}"
    return result.stdout


def lowest(requirement: Requirement) -> str:
    """`numpy>=1.26` as `numpy==1.26`."""
    floors = [s.version for s in requirement.specifier if s.operator == ">="]
    assert len(floors) == 1, f"{requirement}: a dependency has one floor, and no pin"
    return f"{requirement.name}=={floors[0]}"


def requirements_of(distribution: metadata.Distribution) -> list[Requirement]:
    """What a distribution needs here, extras left out."""
    needed = (Requirement(line) for line in distribution.requires or [])
    return [r for r in needed if r.marker is None or r.marker.evaluate({"extra": ""})]


def with_requirements(names) -> dict[str, metadata.Distribution]:
    """The distributions of this environment with these names, and all they need."""
    found: dict[str, metadata.Distribution] = {}
    waiting = [canonicalize_name(name) for name in names]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = metadata.distribution(name)
            waiting += [canonicalize_name(r.name) for r in requirements_of(found[name])]
    return found


def link(distribution: metadata.Distribution, site_packages: Path) -> None:
    """Make a distribution of this environment importable in another, without copying it."""
    source = Path(str(distribution.locate_file(""))).resolve()
    for entry in {file.parts[0] for file in distribution.files or []} - {"..", "__pycache__"}:
        target = site_packages / entry
        if not target.exists():
            target.symlink_to(source / entry)


def git_files() -> list[str]:
    """What git tracks or would track. In a container another user may own the checkout."""
    git = ["git", "-c", "safe.directory=*"]
    return run(*git, "ls-files", "-z", "-co", "--exclude-standard", cwd=ROOT).split("\0")


class Environment:
    """The new virtual environment, and what it was made of."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.python = folder / "venv" / "bin" / "python"
        # Neither this checkout nor this environment may be seen.
        hidden = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "JUPYTER_PATH", "JUPYTER_CONFIG_DIR")
        self.variables = {key: value for key, value in os.environ.items() if key not in hidden}
        self.variables["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"

    def make(self) -> None:
        run(sys.executable, "-m", "venv", "--without-pip", self.folder / "venv")
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
        run(*pip, "wheel", "--quiet", "--no-deps", "--no-build-isolation",
            "--wheel-dir", self.folder / "wheel", self.copy_of_the_sources())  # fmt: skip
        (wheel,) = (self.folder / "wheel").glob("*.whl")

        here = metadata.PathDistribution.discover  # the wheel's own metadata, once installed
        pip += ["--python", str(self.python), "install", "--quiet", "--no-compile"]
        run(*pip, "--no-deps", wheel)
        site_packages = next((self.folder / "venv" / "lib").glob("python3*/site-packages"))
        (library,) = here(name=LIBRARY, path=[str(site_packages)])
        floors = [lowest(r) for r in requirements_of(library) if r.name not in LINKED]
        run(*pip, "--only-binary=:all:", *floors)

        # Links come last: pip must never remove through one what belongs to this environment.
        present = {
            canonicalize_name(d.name) for d in metadata.distributions(path=[str(site_packages)])
        }
        for name, distribution in with_requirements(LINKED).items():
            if name not in present:
                link(distribution, site_packages)
        run(*pip[:-3], "check")
        self.floors = floors

    def copy_of_the_sources(self) -> Path:
        """What git doesn't ignore: the wheel mustn't use what an earlier build left."""
        copy = self.folder / "sources"
        for name in git_files():
            if name.startswith(("transformer_lib/", "results/", "pyproject", "README", "LICENSE")):
                target = copy / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes((ROOT / name).read_bytes())
        return copy

    def add_kernel(self) -> None:
        """Make the new environment's Python a kernel, named `clean`."""
        command = [str(self.python), "-m", "ipykernel_launcher", "--log-level=ERROR"]
        command += ["-f", "{connection_file}"]
        kernel = self.folder / "jupyter" / "kernels" / "clean" / "kernel.json"
        kernel.parent.mkdir(parents=True)
        kernel.write_text(
            json.dumps({"argv": command, "display_name": "clean", "language": "python"})
        )
        self.variables["JUPYTER_PATH"] = str(self.folder / "jupyter")
        # The first import looks for fonts, and prints so if that takes long: not in a chapter.
        run(self.python, "-c", "import matplotlib.font_manager", env=self.variables)

    def compare(self, path: Path) -> str:
        """Run a chapter in an empty folder; returns what differs or went wrong, or nothing."""
        folder = self.folder / "run" / path.stem
        folder.mkdir(parents=True)
        return different(path, folder, ["--nbval-kernel-name=clean"], self.variables)


def readers_cells(path: Path, nb: nbformat.NotebookNode) -> set[str]:
    """The ids of the cells that the student's edition has."""
    places: Any = SimpleNamespace(
        **dict.fromkeys(("page", "file", "number"), lambda *_: ""),
        docname="",
        links_in=lambda text: text,
    )
    found = cells.blocks(path.stem, nb.cells)
    return {
        cell["id"]
        for block, follows in zip(found, [*found[1:], None], strict=True)
        for cell in student.as_written(block, follows, places)
    }


def run_others_aside(path: Path, nb: nbformat.NotebookNode) -> None:
    """Hide what solutions and guards define from the cells that a reader has."""
    new = nbformat.v4.new_code_cell
    readers, inside = readers_cells(path, nb), False
    setup = Path(aside.__file__).read_text(encoding="utf-8")
    made = [new(f"{setup}\n\n_aside = Aside(globals())", id="aside")]
    for cell in nb.cells:
        if cell.cell_type == "code":
            if inside != (cell.id not in readers):
                inside = not inside
                call = "begin" if inside else "end"
                made.append(new(f"_aside.{call}()", id=f"{call}-{cell.id}"[:64]))
            made.append(cell)
    nb.cells = made


def different(path: Path, folder: Path, options: list[str], variables: dict[str, str]) -> str:
    nb = nbformat.read(path, as_version=4)
    run_others_aside(path, nb)
    for cell in nb.cells:  # also the cell for Colab does no harm
        cell.metadata["tags"] = [t for t in cell.metadata.get("tags", []) if t != "nbval-skip"]
    nbformat.write(nb, folder / path.name)
    command = [sys.executable, strict.__file__, *options, "-n=0", "--color=no", path.name]
    # A worker of the test run that we are in must not be taken for one of the inner run.
    env = {key: value for key, value in variables.items() if not key.startswith("PYTEST_")}
    env["XDG_CACHE_HOME"] = str(folder / "cache")  # published models need more than this has
    result = subprocess.run(command, capture_output=True, text=True, env=env, cwd=folder)
    return ANSI.sub("", result.stdout + result.stderr) if result.returncode else ""


def printed(cell) -> list:
    outputs = cell.get("outputs", [])
    return [output for output in outputs if re.search(r"\d", output.get("text", ""))][:1]


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    if not LOWEST_HAVE_WHEELS:
        pytest.skip("the lowest versions have wheels for Python 3.10 to 3.12 only")
    environment = Environment(tmp_path_factory.mktemp("clean"))
    environment.make()
    environment.add_kernel()
    return environment


@pytest.fixture(scope="module")
def compare(request, tmp_path_factory):
    """compare(path): what is wrong with a chapter, in the new environment if there can be one."""
    if LOWEST_HAVE_WHEELS:
        return request.getfixturevalue("environment").compare
    return lambda path: different(path, tmp_path_factory.mktemp(path.stem), [], dict(os.environ))


@pytest.fixture(scope="module")
def failures(compare):
    paths = CHAPTERS[::-1]  # the last ones take longest
    with ThreadPoolExecutor(JOBS) as pool:
        return dict(zip(paths, pool.map(compare, paths), strict=True))


def test_it_holds_the_lowest_versions_and_the_wheel(environment):
    program = (
        "import sys, transformer_lib; from importlib.metadata import version\n"
        "print(transformer_lib.__file__, *map(version, sys.argv[1:]), sep='\\n')"
    )
    names, floors = zip(*(floor.split("==") for floor in environment.floors), strict=True)
    where = {"env": environment.variables, "cwd": environment.folder}
    file, *versions = run(environment.python, "-c", program, *names, **where).splitlines()
    assert file.startswith(str(environment.folder))
    for floor, version in zip(floors, versions, strict=True):
        assert re.fullmatch(re.escape(floor) + r"(\.0)*", version), (floor, version)


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_a_chapter_gives_its_outputs_in_an_empty_folder(failures, path):
    if failures[path]:
        pytest.fail(failures[path], pytrace=False)


def test_another_output_is_seen(compare, tmp_path):
    """The cells before the first output that is a number, with another number stored."""
    nb = nbformat.read(CHAPTERS[0], as_version=4)
    last = next(i for i, cell in enumerate(nb.cells) if printed(cell))
    nb.cells = nb.cells[: last + 1]
    (output,) = printed(nb.cells[last])
    output["text"] = re.sub(r"\d", "7", output["text"]) + "7"
    path = tmp_path / "changed.ipynb"
    nbformat.write(nb, path)
    found = compare(path)
    assert "Cell outputs differ" in found or "mismatch" in found, found


def test_what_only_a_solution_defines_is_seen_by_no_other_cell(compare, tmp_path):
    """Two cells fail: one calls an exercise that isn't done, one needs a name of the solution."""
    code = [
        ("def f():\n    return 1", []),
        ("def f():\n    ...  # your lines", []),
        ("def f():\n    return 1\n\n\ng = 1", ["solution"]),
        ("assert f() == g", ["remove-cell"]),
        ("one = f() + 1", []),
        ("two = g", []),
    ]
    made = [
        nbformat.v4.new_code_cell(source, execution_count=count, metadata={"tags": tags})
        for count, (source, tags) in enumerate(code, start=1)
    ]
    exercise = nbformat.v4.new_markdown_cell("### Build: f\n\nWrite it.", id="ex-f")
    exercise.metadata["tags"] = ["exercise"]
    path = tmp_path / "00_small.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[made[0], exercise, *made[1:]]), path)
    found = compare(path)
    assert "2 failed" in found and "TypeError" in found and "NameError" in found, found
