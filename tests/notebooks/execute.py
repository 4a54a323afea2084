"""Run chapters top to bottom and store their outputs, in place.

    python tests/notebooks/execute.py                                  # every chapter
    python tests/notebooks/execute.py chapters/01_soft_lookup.ipynb    # one
    python tests/notebooks/execute.py --modules                        # run nothing, see below
    python tests/notebooks/execute.py --normalize                      # run nothing, only tidy

A notebook is written only if all its cells ran; otherwise the failing cell is shown. What is
written is normalized (`normalize`), so that two runs with the same results store the same bytes.
Choose a cell's id yourself (``ask-the-dictionary``) if it must survive an edit.

A stored live figure carries a copy of its JavaScript, and a picture, which Chromium or Chrome takes
of it. ``--modules`` brings both up to date with the library without running the cells: for a change
that touches only the module or its style sheet.

The chapters import the library from this checkout, even if another one is installed.
"""

import argparse
import base64
import importlib
import os
import re
import sys
from collections import Counter
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = ROOT / "chapters"

KERNELSPEC = {"display_name": "Python 3", "language": "python", "name": "python3"}
LANGUAGE = {"name": "python"}
CELL_METADATA = ("tags", "mystnb", "mine")
STATE = "application/vnd.jupyter.widget-state+json"
VIEW = "application/vnd.jupyter.widget-view+json"

# Ids that Jupyter, jupytext and Colab make: 8 or more hexadecimal digits or a UUID, with a digit in
# it (so that a word such as "defaced" stays), or Colab's 12 characters.
RANDOM_ID = re.compile(
    r"(?=.*\d)[0-9a-f]{8,}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?=.*[A-Z_\d])[\w-]{12}"
)
CHOSEN_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


def notebooks(paths: list[str] | None = None) -> list[Path]:
    """The chapters in reading order, or the notebooks named."""
    if paths:
        return [Path(path) for path in paths]
    return sorted(p for p in CHAPTERS.rglob("*.ipynb") if ".ipynb_checkpoints" not in p.parts)


def is_random_id(name: str) -> bool:
    """Whether a cell id looks machine-made: it would change with every rewrite."""
    if CHOSEN_ID.fullmatch(name) and "-" in name and not re.fullmatch(r"[0-9a-f-]{36}", name):
        return False
    return RANDOM_ID.fullmatch(name) is not None


def slug(source: str) -> str:
    """A cell id made of the first line that has words."""
    for line in source.splitlines():
        words = re.findall(r"[a-z0-9]+", line.lower())
        if words and not line.startswith(("```", "---")):
            return "-".join(words)[:40].rstrip("-")
    return "cell"


def normalize(nb: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Remove from `nb`, in place, everything that differs between two runs of the same cells."""
    widgets = nb.metadata.get("widgets")
    gpu = {"accelerator": "GPU"} if on_gpu(nb) else {}
    nb.metadata = nbformat.from_dict({**gpu, "kernelspec": KERNELSPEC, "language_info": LANGUAGE})
    nb.nbformat, nb.nbformat_minor = 4, 5

    taken = {c["id"] for c in nb.cells if c.get("id") and not is_random_id(c["id"])}
    for cell in nb.cells:
        cell.metadata = nbformat.from_dict(
            {key: cell.metadata[key] for key in CELL_METADATA if cell.metadata.get(key)}
        )
        if "answer" in cell.metadata.get("tags", []):  # JupyterLab folds it: it comes too early
            cell.metadata["jupyter"] = nbformat.from_dict({"source_hidden": True})
        if not cell.get("id") or is_random_id(cell["id"]):
            name = base = slug(cell.source)
            number = 2
            while name in taken:
                name, number = f"{base}-{number}", number + 1
            cell["id"] = name
            taken.add(name)
        if cell.cell_type == "code":
            bars = [output for output in cell.outputs if output.get("name") == "stderr" and gpu]
            cell.outputs = merge_streams([o for o in cell.outputs if o not in bars])

    if widgets and STATE in widgets:
        state = name_models(nb, widgets[STATE])
        if state["state"]:
            nb.metadata["widgets"] = {STATE: state}
    return nb


def on_gpu(nb: nbformat.NotebookNode) -> bool:
    """Whether a notebook asks Colab for a GPU. Its outputs depend on where it ran, and how long."""
    return nb.metadata.get("accelerator") == "GPU"


def merge_streams(outputs: list) -> list:
    """Neighboring prints as one output: when the kernel flushes is random."""
    merged: list = []
    for output in outputs:
        last = merged[-1] if merged else None
        both = last is not None and last.output_type == output.output_type == "stream"
        if both and last.name == output.name:
            last.text += output.text
        else:
            merged.append(output)
    return merged


def name_models(nb: nbformat.NotebookNode, stored: dict) -> dict:
    """Live figures' state with ids that don't change between runs, in `nb`'s views too.

    Figures are taken in the order in which outputs show them, each with its layout. Other models (a
    progress bar that closed) are left out.
    """
    state, names, counts, named = stored["state"], {}, Counter(), {}
    for model_id in dict.fromkeys(output.data[VIEW]["model_id"] for output in outputs(nb)):
        model = state.get(model_id, {"state": {}})
        if "_anywidget_id" not in model["state"]:
            continue
        kind = model["state"]["_anywidget_id"].rpartition(".")[2]
        counts[kind] += 1
        name = names[model_id] = f"{kind}-{counts[kind]}"
        layout = state[model["state"]["layout"].removeprefix("IPY_MODEL_")]
        chosen = {key: value for key, value in layout["state"].items() if value is not None}
        model["state"]["layout"] = f"IPY_MODEL_{name}-layout"
        named |= {name: model, f"{name}-layout": layout | {"state": chosen}}
    for output in outputs(nb):
        view = output.data[VIEW]
        view["model_id"] = names.get(view["model_id"], view["model_id"])
    return {"state": named, "version_major": 2, "version_minor": 0}


def outputs(nb: nbformat.NotebookNode):
    """The outputs that are widgets, in order."""
    for cell in nb.cells:
        for output in cell.get("outputs", []):
            if VIEW in output.get("data", {}):
                yield output


def stale_modules(nb: nbformat.NotebookNode):
    """Stored live figures whose JavaScript or style isn't the library's anymore.

    Yields:
        (model id, "_esm" or "_css", the library's text)
    """
    models = nb.metadata.get("widgets", {}).get(STATE, {}).get("state", {})
    for model_id, model in models.items():
        where = model["state"].get("_anywidget_id", "")
        if not where.startswith("transformer_lib."):
            continue
        module, _, name = where.rpartition(".")
        widget = getattr(importlib.import_module(module), name)
        for key in ("_esm", "_css"):
            current = getattr(widget, key, None)
            if current is not None and str(current) != model["state"].get(key, ""):
                yield model_id, key, str(current)


def execute(path: Path, timeout: int) -> None:
    """Run one notebook and write it back."""
    nb = nbformat.read(path, as_version=4)
    # nbclient replaces the stored state only when this run has one.
    nb.metadata.pop("widgets", None)
    NotebookClient(
        nb,
        kernel_name="python3",
        timeout=timeout,
        record_timing=False,
        resources={"metadata": {"path": str(path.parent)}},
        extra_arguments=["--log-level=ERROR"],  # the kernel's own remarks about its sockets
    ).execute()
    take_pictures(normalize(nb))
    write(nb, path)


def write(nb: nbformat.NotebookNode, path: Path) -> None:
    """Replace the file in one move, and only when its bytes change."""
    nbformat.validate(nb)
    text = nbformat.writes(nb, version=4)
    text = text if text.endswith("\n") else text + "\n"
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return
    temporary = path.with_suffix(".ipynb.tmp")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)


def refresh_modules(path: Path) -> int:
    """Bring the stored copies of live figures' modules up to date; returns how many changed."""
    nb = nbformat.read(path, as_version=4)
    changes = list(stale_modules(nb))
    for model_id, key, current in changes:
        nb.metadata.widgets[STATE].state[model_id].state[key] = current
    if changes:
        take_pictures(nb, {model_id for model_id, _, _ in changes})
        write(nb, path)
    return len(changes)


def take_pictures(nb: nbformat.NotebookNode, wanted: set[str] | None = None) -> None:
    """Store a picture beside each live figure, or beside those wanted: for paper and GitHub."""
    models = nb.metadata.get("widgets", {}).get(STATE, {}).get("state", {})
    shown = [
        output.data
        for output in outputs(nb)
        if (model_id := output.data[VIEW]["model_id"]) in models
        and "_esm" in models[model_id]["state"]
        and (wanted is None or model_id in wanted)
    ]
    sys.path.insert(0, str(ROOT / "tests"))
    from alone import pictures

    states = [dict(models[data[VIEW]["model_id"]]["state"]) for data in shown]
    for data, picture in zip(shown, pictures(states), strict=True):
        data["image/png"] = base64.b64encode(picture).decode("ascii")


def run_all(paths: list[Path], timeout: int) -> int:
    """Run the notebooks; returns how many failed."""
    failed = 0
    for path in paths:
        try:
            execute(path, timeout)
            print(f"✓ {path.name}", flush=True)
        except Exception as error:
            failed += 1
            kind = "" if isinstance(error, CellExecutionError) else f"{type(error).__name__}: "
            print(f"✗ {path.name}: not written: {kind}{error}", flush=True)
    return failed


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("notebooks", nargs="*", help="default: every chapter")
    parser.add_argument("--timeout", type=int, default=300, help="seconds per cell (default: 300)")
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument(
        "--modules", action="store_true", help="only refresh the stored live figures' JavaScript"
    )
    instead.add_argument("--normalize", action="store_true", help="only tidy, run nothing")
    options = parser.parse_args(arguments)

    paths = notebooks(options.notebooks)
    if options.normalize:
        for path in paths:
            write(normalize(nbformat.read(path, as_version=4)), path)
        return 0
    sys.path.insert(0, str(ROOT))
    if options.modules:
        for path in paths:
            print(f"✓ {path.name}  {refresh_modules(path)} refreshed")
        return 0

    inherited = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = str(ROOT) + (os.pathsep + inherited if inherited else "")
    # The debugger's own greeting on stderr would be stored as a cell's output.
    os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"
    return min(1, run_all(paths, options.timeout))


if __name__ == "__main__":
    sys.exit(main())
