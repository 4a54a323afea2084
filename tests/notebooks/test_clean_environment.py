"""Every chapter runs where a reader would run it: away from this checkout.

A fresh virtual environment gets the library's wheel and the *lowest* version that pyproject.toml
allows of each dependency; every notebook then runs top to bottom in an empty folder of its own.
torch is the build at hand: it and the kernel are linked into the new environment from this one,
with what they need themselves. The lowest torch has no wheel for every Python here, and weighs
gigabytes.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import nbformat
import pytest
from execute import ROOT, notebooks
from gate import ANSI
from jupyter_client import AsyncKernelManager
from jupyter_client.kernelspec import KernelSpecManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

CHAPTERS = notebooks()
LIBRARY = "transformer-lib"
LINKED = ("torch", "ipykernel")  # the build at hand; and what runs a notebook at all
JOBS = 2
CELL_TIMEOUT = 300

# Wheels of the lowest versions exist for these Pythons; building them from source is not the point.
pytestmark = pytest.mark.skipif(
    sys.version_info >= (3, 13),
    reason="the lowest versions have wheels for Python 3.10 to 3.12 only",
)


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
    """What git tracks or would. In a container the checkout may belong to another user."""
    git = ["git", "-c", "safe.directory=*"]
    return run(*git, "ls-files", "-z", "-co", "--exclude-standard", cwd=ROOT).split("\0")


class Environment:
    """The new virtual environment, and what it was made of."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.python = folder / "venv" / "bin" / "python"
        # Neither this checkout nor this environment may shine through.
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
        """What git does not ignore: the wheel must not live on what an earlier build left."""
        copy = self.folder / "sources"
        for name in git_files():
            if name.startswith(("transformer_lib/", "results/", "pyproject", "README", "LICENSE")):
                target = copy / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes((ROOT / name).read_bytes())
        return copy

    async def execute(self, path: Path) -> str:
        """Run a chapter in an empty folder; returns what went wrong, or nothing."""
        folder = self.folder / "run" / path.stem
        folder.mkdir(parents=True)
        specs = self.folder / "kernels"
        (specs / "clean").mkdir(parents=True, exist_ok=True)
        command = [str(self.python), "-m", "ipykernel_launcher", "--log-level=ERROR"]
        command += ["-f", "{connection_file}"]
        (specs / "clean" / "kernel.json").write_text(
            json.dumps({"argv": command, "display_name": "clean", "language": "python"})
        )
        manager = AsyncKernelManager(
            kernel_name="clean", kernel_spec_manager=KernelSpecManager(kernel_dirs=[str(specs)])
        )
        client = NotebookClient(
            nbformat.read(path, as_version=4),
            km=manager,
            timeout=CELL_TIMEOUT,
            resources={"metadata": {"path": str(folder)}},
        )
        try:
            await client.async_execute(env=self.variables)
        except CellExecutionError as error:
            return ANSI.sub("", str(error))
        return ""

    async def execute_all(self, paths: list[Path]) -> dict[Path, str]:
        gate = asyncio.Semaphore(JOBS)

        async def one(path: Path) -> str:
            async with gate:
                return await self.execute(path)

        # The last chapters train and take longest: first in, so that nothing waits for them.
        paths = paths[::-1]
        return dict(zip(paths, await asyncio.gather(*map(one, paths)), strict=True))


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    environment = Environment(tmp_path_factory.mktemp("clean"))
    environment.make()
    return environment


@pytest.fixture(scope="module")
def failures(environment):
    return asyncio.run(environment.execute_all(CHAPTERS))


def test_it_holds_the_lowest_versions_and_the_wheel(environment):
    program = (
        "import json, sys, transformer_lib; from importlib.metadata import version\n"
        "print(json.dumps([transformer_lib.__file__, {n: version(n) for n in sys.argv[1:]}]))"
    )
    names = [floor.split("==")[0] for floor in environment.floors]
    folder, versions = json.loads(
        run(
            environment.python,
            "-c",
            program,
            *names,
            env=environment.variables,
            cwd=environment.folder,
        )
    )
    assert folder.startswith(str(environment.folder))
    for floor in environment.floors:
        name, version = floor.split("==")
        assert re.fullmatch(re.escape(version) + r"(\.0)*", versions[name]), (floor, versions[name])


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_chapter_runs_in_an_empty_folder(failures, path):
    assert failures[path] == ""
