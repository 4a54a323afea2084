"""Chapters give their stored outputs where a reader would run them: away from this checkout.

A fresh virtual environment gets the library's wheel and the *lowest* version that pyproject.toml
allows of each dependency. The stored outputs were made with the versions of requirements.txt, with
which `make test` runs every chapter: both ends of what is allowed say the same. torch and the
kernel are this environment's: the lowest torch has no wheel for every Python, and weighs gigabytes.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig

import nbformat
import pytest
import strict
from execute import CHAPTERS, ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        sys.version_info >= (3, 13), reason="the lowest versions have no wheels for this Python"
    ),
]
# What the library needs always, but torch: name and lowest version.
FLOORS = dict(
    re.findall(
        r'^    "([\w-]+)>=([\d.]+)",$',
        (ROOT / "pyproject.toml").read_text(encoding="utf-8").partition("[project.scripts]")[0],
        re.M,
    )
)
del FLOORS["torch"]
PAGES = {  # those where a dependency's version could make a difference, and few that train
    "12_text_to_tensors": "tokenizers",
    "15_a_difference": "NumPy, Matplotlib, sacreBLEU",
    "22_other_weights": "safetensors",
    "live_figures_today": "anywidget",
    "real_translator": "tqdm, platformdirs",
}


def run(*command, **options) -> str:
    result = subprocess.run([*map(str, command)], capture_output=True, text=True, **options)
    assert result.returncode == 0, f"{' '.join(map(str, command))}\n{result.stdout}{result.stderr}"
    return result.stdout


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    """The new environment's folder, and the variables with which its kernel is found."""
    folder = tmp_path_factory.mktemp("clean")
    sources, python = folder / "sources", folder / "venv" / "bin" / "python"
    for name in ("transformer_lib", "results"):  # the wheel mustn't use what a build left
        shutil.copytree(ROOT / name, sources / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in (ROOT / "pyproject.toml", ROOT / "README.md", *ROOT.glob("LICENSE*")):
        shutil.copy(path, sources)
    run(sys.executable, "-m", "venv", "--without-pip", folder / "venv")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    build = ("wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", folder)
    run(*pip, *build, sources)
    (wheel,) = folder.glob("*.whl")
    pip += ["--python", python, "install", "--quiet", "--no-compile"]
    run(*pip, "--no-deps", wheel)
    run(*pip, "--only-binary=:all:", *(f"{name}=={floor}" for name, floor in FLOORS.items()))
    # What isn't there comes from this environment.
    (site_packages,) = (folder / "venv" / "lib").glob("python3*/site-packages")
    (site_packages / "rest.pth").write_text(sysconfig.get_path("purelib"))

    kernel = folder / "jupyter" / "kernels" / "clean" / "kernel.json"
    kernel.parent.mkdir(parents=True)
    command = [str(python), "-m", "ipykernel_launcher", "--log-level=ERROR", "-f"]
    spec = {"argv": [*command, "{connection_file}"], "display_name": "clean", "language": "python"}
    kernel.write_text(json.dumps(spec))
    # Neither this checkout nor this environment may be seen, nor the worker of this test run.
    hidden = ("PYTHON", "PYTEST_", "VIRTUAL_ENV", "JUPYTER_")
    variables = {key: value for key, value in os.environ.items() if not key.startswith(hidden)}
    variables |= {"JUPYTER_PATH": str(folder / "jupyter"), "XDG_CACHE_HOME": str(folder / "cache")}
    # The first import looks for fonts, and prints so if that takes long: not in a chapter.
    run(python, "-c", "import matplotlib.font_manager", env=variables)
    return folder, variables


def differences(nb: nbformat.NotebookNode, name: str, clean) -> str:
    """Run a notebook in an empty folder; returns what differs or went wrong, or nothing."""
    folder, variables = clean
    here = folder / "run" / name
    here.mkdir(parents=True)
    nbformat.write(nb, here / f"{name}.ipynb")
    command = [sys.executable, strict.__file__, "--nbval-kernel-name=clean", "-n=0", "--color=no"]
    result = subprocess.run(
        [*command, f"{name}.ipynb"], capture_output=True, text=True, env=variables, cwd=here
    )
    return result.stdout + result.stderr if result.returncode else ""


@pytest.mark.parametrize("page", PAGES)
def test_a_chapter_gives_its_outputs_in_an_empty_folder(clean, page):
    nb = nbformat.read(CHAPTERS / f"{page}.ipynb", as_version=4)
    if found := differences(nb, page, clean):
        pytest.fail(found, pytrace=False)


def test_another_output_is_seen(clean):
    code = nbformat.v4.new_code_cell("print(41)", execution_count=1)
    code.outputs = [nbformat.v4.new_output("stream", text="42\n")]
    found = differences(nbformat.v4.new_notebook(cells=[code]), "changed", clean)
    assert "Cell outputs differ" in found or "mismatch" in found, found
