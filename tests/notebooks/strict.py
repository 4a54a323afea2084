"""Run chapters in fresh kernels and compare every output with the stored one.

    python tests/notebooks/strict.py                                   # every chapter
    python tests/notebooks/strict.py chapters/01_soft_lookup.ipynb     # one

Cells tagged `published` need other people's models. They are compared where `make weights` has
fetched these, and skipped elsewhere. The page that trains for an hour runs with TRIAL here.

Further arguments go to pytest (`-x`, `-k`, `-n 0`). Chapters are compared with these settings only:
`make test` and the tests use this file. With --nbval-kernel-name another
environment's kernel runs them, with that environment's library (test_clean_environment.py).
"""

import os
import sys

import pytest
from execute import ROOT, notebooks

# Never --nbval-lax: it compares marked cells only, and lets altered outputs pass.
OPTIONS = [
    "--nbval",
    # Seconds; only what hangs takes as long, even on a busy machine.
    "--nbval-kernel-startup-timeout=1800",
    "--nbval-cell-timeout=1800",
    "--quiet",
    # A notebook is one module: its cells stay in order, in one worker.
    "-n=2",
    "--dist=loadscope",
    "--no-loadscope-reorder",
    # The project's own options are for its tests. No cache beside the chapters.
    "-o",
    "addopts=",
    "-p",
    "no:cacheprovider",
    "-p",
    "strict",  # the hook below
]


# Runs in place of its settings: less of everything, and made-up captions, so nothing is downloaded.
TRIAL = """\
import gzip, hashlib, os, tempfile
from pathlib import Path
from transformer_lib.data import multi30k, number_words

PAIRS, PIECES, EPOCHS = 300, 400, 5
folder = Path(tempfile.mkdtemp(), "multi30k")
folder.mkdir()
FOLDER = str(folder.with_name("run"))
os.environ["TRANSFORMER_LIB_DATA"] = str(folder.parent)
for split, start in zip(multi30k.SPLITS, (1000, 2000, 3000), strict=True):
    for side in ("en", "de"):
        numbers = range(start, start + (PAIRS if split == "train" else 30))
        lines = "".join(f"{number_words(number, side)}\\n" for number in numbers)
        (file := folder / f"{split}.{side}.gz").write_bytes(gzip.compress(lines.encode()))
        multi30k._SHA256[f"raw/{file.name}"] = hashlib.sha256(file.read_bytes()).hexdigest()
"""


def main(arguments: list[str]) -> int:
    paths = [argument for argument in arguments if argument.endswith(".ipynb")]
    options = [argument for argument in arguments if argument not in paths]
    # The last ones take longest: they start first, so that nothing waits for them.
    paths = paths or [str(path) for path in notebooks()[::-1]]
    if not any(option.startswith("--nbval-kernel-name") for option in options):
        # The kernels import the library from this checkout, even if another one is installed.
        options.append("--nbval-current-env")
        inherited = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = str(ROOT) + (os.pathsep + inherited if inherited else "")
    os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"
    return pytest.main([*OPTIONS, *options, *paths])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.stem == "real_translator" and item.cell.id == "settings":
            item.cell.source = TRIAL
    if (reason := no_weights()) is None:
        return
    for item in items:
        if "published" in getattr(item, "cell", {}).get("metadata", {}).get("tags", []):
            item.add_marker(pytest.mark.skip(reason=reason))


def no_weights() -> str | None:
    """Why cells that use published models can't be compared, or None."""
    from transformer_lib.pretrained import published

    try:
        folders = {name: published.published_folder(name) for name in published.PUBLISHED}
    except FileNotFoundError as error:
        return str(error)
    if not any(folders["smollm2"].glob("*.gguf")):
        return "SmolLM2 comes from the hub: the stored outputs are those of its rounded numbers"
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
