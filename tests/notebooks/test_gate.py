"""Every chapter passes the gate, and each rule of the gate finds what breaks it."""

import copy
import shutil
import subprocess
import sys
from contextlib import nullcontext
from types import ModuleType

import nbformat
import pytest
from execute import CHAPTERS, ROOT, STATE, VIEW, normalize, notebooks, on_gpu, stale_modules
from gate import INSTALL, RULES, findings
from IPython.core.inputtransformer2 import TransformerManager


@pytest.mark.parametrize("path", notebooks(), ids=lambda path: path.stem)
def test_chapter_passes(path):
    nb = nbformat.read(path, as_version=4)
    assert findings(nb) == []
    assert on_gpu(nb) == (path.stem == "real_translator")
    # The page runs the JavaScript that is stored in the notebook, not the library's file.
    stale = [(model_id, key) for model_id, key, _ in stale_modules(nb)]
    assert stale == [], "run: python tests/notebooks/execute.py --modules"


# --- a chapter, broken once -----------------------------------------------------------------------


@pytest.fixture
def nb():
    return nbformat.read(CHAPTERS / "06_many_heads.ipynb", as_version=4)


def cell(nb, cell_id):
    return next(c for c in nb.cells if c.id == cell_id)


def put(cell_id, **fields):
    """A change that sets fields of one cell."""
    return lambda nb: cell(nb, cell_id).update(nbformat.from_dict(fields))


def shows(kind, **fields):
    """A change of what a cell shows."""
    return put("two-sentences", outputs=[nbformat.v4.new_output(kind, **fields)])


def write(cell_id, text):
    return lambda nb: cell(nb, cell_id).update(source=cell(nb, cell_id).source + text)


def tag(cell_id, *tags):
    return lambda nb: cell(nb, cell_id).metadata.update(tags=list(tags))


def drop(*cell_ids):
    return lambda nb: [nb.cells.remove(cell(nb, each)) for each in cell_ids]


def state(nb):
    return nb.metadata.widgets[STATE].state


EXERCISES = "ex-multi-head ex-multi-head-start sol-multi-head-code ex-flops ex-flops-start "
EXERCISES += "sol-flops-code ex-crossover sol-crossover-text sol-crossover-code"
VALUE = {"execution_count": 2, "data": {"text/plain": "Text(0.5, 1, 'x')"}}
TAMPERED = [
    # rule, what was done, how, a word of the complaint
    ("counts_are_sequential", "stripped", put("two-sentences", execution_count=None), "expected 2"),
    ("no_errors", "error", shows("error", ename="ValueError"), "stored error: ValueError"),
    ("no_stderr", "warning", shows("stream", name="stderr", text="w"), "stored stderr: w"),
    ("nothing_of_this_machine", "path printed", shows("stream", text="/home/ada/x.py\n"), "x.py"),
    ("nothing_of_this_machine", "address", shows("stream", text="<f at 0x7f00dead>"), "address"),
    ("images_speak", "no alt in Markdown", write("title", "![](curve.png)"), "without alt"),
    ("images_speak", "no alt", lambda nb: cell(nb, "letters-maps").metadata.mystnb.pop("image"),
     "without alt"),
    ("images_speak", "no caption", drop("letters-maps-caption"), "without a caption"),
    ("plots_end_with_show", "a value shown", shows("execute_result", **VALUE), "plt.show()"),
    ("tags_are_known", "underscores", tag("letters-train", "nbval_ignore_output"), "unknown tag"),
    ("ignored_outputs_are_guarded", "no assert", drop("letters-guard"), "without an assert"),
    ("install_cell_comes_first", "another text", write("colab-install", "1"), "the same text"),
    ("install_cell_comes_first", "skipped", tag("two-sentences", "nbval-skip"), "not the install"),
    ("live_figures_have_state", "no state", lambda nb: nb.metadata.pop("widgets"), "without saved"),
    ("live_figures_have_state", "no picture",
     lambda nb: cell(nb, "live-mixture").outputs[0].data.pop("image/png"), "without a picture"),
    ("blocks_are_whole", "two", drop(*EXERCISES.split()), "at least 3"),
    ("blocks_are_whole", "unsolved", drop("sol-multi-head-code"), "without a solution"),
    ("blocks_are_whole", "an answer elsewhere", tag("letters-model", "answer"), "answer"),
    ("blocks_are_whole", "in the way", tag("mine-before", "mine-before"), "hide-input"),
    ("stubs_replace_nothing", "used in a function",
     put("ex-flops-start", source="class MultiHead: ..."), "the chapter's MultiHead"),
    ("ids_are_stable", "random", put("letters-train", id="3f9a01bc"), "random"),
    ("ids_are_stable", "twice", put("letters-train", id="mine"), "2 cells with this id"),
    ("metadata_is_clean", "version", lambda nb: nb.metadata.language_info.update(version="3.11"),
     "'language_info'"),
    ("metadata_is_clean", "unseen widget",
     lambda nb: state(nb).update({"Bar-1": {"model_name": "Bar", "state": {}}}), "'widgets'"),
    ("first_line_is_the_title", "two", write("heads", "\n\n# Touch"), "2 first-level"),
]  # fmt: skip


@pytest.mark.parametrize(
    "rule, what, tamper, complaint",
    TAMPERED,
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_rule_goes_red(nb, rule, what, tamper, complaint):
    tamper(nb)
    found = [line for line in findings(nb) if line.startswith(rule + ":")]
    assert any(complaint in line for line in found), findings(nb)


def test_every_rule_was_broken():
    assert {rule.__name__ for rule in RULES} == {rule for rule, *_ in TAMPERED}


# --- another project's library --------------------------------------------------------------------


@pytest.mark.parametrize("book", [True, False])
def test_the_install_cell_tells_another_project_s_library(monkeypatch, book):
    """PyPI has a transformer-lib with the same import name; pip installs both silently."""
    library = ModuleType("transformer_lib")
    if book:
        library.BOOK = "Attention, Built by Hand"
    monkeypatch.setitem(sys.modules, "transformer_lib", library)
    source = TransformerManager().transform_cell(INSTALL)  # as IPython would, %pip included
    with nullcontext() if book else pytest.raises(ImportError, match="another project's"):
        exec(source, {})


def test_the_library_tells_another_project_s_files_among_its_own(tmp_path):
    """pip puts both into one folder, where its attention/ is found before our attention.py."""
    package = tmp_path / "transformer_lib"
    (package / "attention").mkdir(parents=True)
    (package / "attention" / "__init__.py").touch()
    for name in ("__init__.py", "attention.py"):
        shutil.copyfile(ROOT / "transformer_lib" / name, package / name)
    command = [sys.executable, "-c", "import transformer_lib"]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert "another project's transformer_lib lies in the same folder" in found.stderr


# --- what execute.py does to a notebook -----------------------------------------------------------


def test_names_do_not_depend_on_the_run(nb):
    """Two runs hand out different ids, in a different order; what is stored is the same."""

    def run(view, layout, closed, made_up):
        book = copy.deepcopy(nb)
        cell(book, "two-looks-code").id = made_up
        (name,) = (name for name in state(book) if "-layout" not in name)
        models = {view: copy.deepcopy(state(nb)[name]), layout: {"model_name": "LayoutModel",
                  "state": {"width": None, "height": "4em"}}}  # fmt: skip
        models[view].state.layout = f"IPY_MODEL_{layout}"
        models[closed] = copy.deepcopy(models[view])
        cell(book, "live-mixture").outputs[0].data[VIEW].model_id = view
        book.metadata.widgets[STATE]["state"] = nbformat.from_dict(dict(sorted(models.items())))
        return normalize(book), name

    first, name = run("a1", "b2", "c3", "3f9a01bc")
    second, _ = run("z9", "y8", "x7", "xK3_bv9-QqTa")
    assert first == second
    assert list(state(first)) == [name, f"{name}-layout"]
    assert state(first)[name].state.layout == f"IPY_MODEL_{name}-layout"
    assert state(first)[f"{name}-layout"].state == {"height": "4em"}
