"""Every chapter passes the gate, and each rule of the gate finds what breaks it."""

from __future__ import annotations

import copy
import re
import shutil
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType

import nbformat
import pytest
import strict
from execute import ROOT, STATE, VIEW, is_random_id, normalize, notebooks, on_gpu, stale_modules
from gate import INSTALL, RULES, TAGS, findings, install_cells
from IPython.core.inputtransformer2 import TransformerManager

CHAPTERS = notebooks()


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_chapter_passes(path):
    nb = nbformat.read(path, as_version=4)
    assert findings(nb) == []
    # The page runs the JavaScript that is stored in the notebook, not the library's file.
    stale = [(model_id, key) for model_id, key, _ in stale_modules(nb)]
    assert stale == [], "run: python tests/notebooks/execute.py --modules"


def test_install_cell_is_the_same_in_all_chapters():
    books = [nbformat.read(path, as_version=4) for path in CHAPTERS]
    assert len({cell.source for nb in books for cell in install_cells(nb)}) == 1


def test_one_page_asks_for_a_gpu():
    asking = [path.stem for path in CHAPTERS if on_gpu(nbformat.read(path, as_version=4))]
    assert asking == ["real_translator"]


# --- a small chapter that breaks no rule ----------------------------------------------------------


def output(kind, **fields):
    return nbformat.v4.new_output(kind, **fields)


@pytest.fixture
def nb():
    """A short chapter that breaks no rule."""
    code, text = nbformat.v4.new_code_cell, nbformat.v4.new_markdown_cell
    image = output("display_data", data={"image/png": "iVBORw0KGgo=", "text/plain": "<Figure>"})
    live = {"image/png": "iVBORw0KGgo=", VIEW: {"model_id": "Toy-1"}, "text/plain": "Toy()"}
    live = output("execute_result", data=live)
    speaking = {"image": {"alt": "It falls."}, "figure": {"name": "fig-00-a"}}
    touched = {"image": {"alt": "It moves."}, "figure": {"name": "fig-00-b"}}
    tagged = lambda *names: {"tags": list(names)}  # noqa: E731
    cells = [
        text("# A title\n\n![A curve that falls](curve.png)", id="a-title"),
        code(
            INSTALL.replace("ADDRESS", "https://repository.invalid/o/n"),
            id="install-on-colab",
            metadata=tagged("remove-cell", "nbval-skip"),
        ),
        text("Two.\n\n---\n\nTwo it is.", id="recall", metadata=tagged("recall")),
        code("print(1)", id="print-one", outputs=[output("stream", text="1\n")]),
        code(
            "import matplotlib\nplt.show()",
            id="plot",
            metadata={"mystnb": speaking},
            outputs=[image],
        ),
        text("Look.", id="plot-caption", metadata=tagged("caption")),
        code(
            "Toy()",
            id="toy",
            metadata={"mystnb": touched, "tags": ["live-figure"]},
            outputs=[live],
        ),
        text("Touch it.", id="toy-caption", metadata=tagged("caption")),
        text("#### Seen\n\nIt moved.", id="seen", metadata=tagged("fold")),
        text("It did.", id="seen-more", metadata=tagged("fold")),
        text("**Before you read on.** Why?", id="why", metadata=tagged("predict")),
        text("Because.", id="because", metadata=tagged("answer")),
        code("one = 1", id="before", metadata=tagged("mine-before", "hide-input")),
        code(
            "loss = 1\nassert loss < 2\nprint(loss)",
            id="train",
            metadata=tagged("nbval-ignore-output"),
            outputs=[output("stream", text="0.5\n")],
        ),
        code("", id="guard", metadata=tagged("remove-cell")),
    ]
    cells[-1].source = "assert one == 1"
    for name in "abc":
        cells += [
            text("### Predict: how much?\n\nSay.", id=f"ex-{name}", metadata=tagged("exercise")),
            text("One.", id=f"sol-{name}", metadata=tagged("solution")),
        ]
    nb = nbformat.v4.new_notebook(cells=cells)
    for count, cell in enumerate((cell for cell in cells if cell.cell_type == "code"), start=1):
        cell.execution_count = count
        for shown in cell.outputs:
            if shown.output_type == "execute_result":
                shown.execution_count = count
    model = {
        "model_module": "anywidget",
        "model_name": "AnyModel",
        "state": {"_anywidget_id": "t.Toy"},
    }
    state = {"state": {"Toy-1": model}, "version_major": 2, "version_minor": 0}
    nb.metadata["widgets"] = nbformat.from_dict({STATE: state})
    return normalize(nb)


def test_the_small_chapter_passes(nb):
    nbformat.validate(nb)
    assert findings(nb) == []


# --- broken once ---------------------------------------------------------------------------------


def cell(nb, cell_id):
    return next(c for c in nb.cells if c.id == cell_id)


def stream(text, name="stdout"):
    return output("stream", text=text, name=name)


def put(cell_id, **fields):
    """A change that sets fields of one cell."""
    return lambda nb: cell(nb, cell_id).update(nbformat.from_dict(fields))


def replace(cell_id, old, new):
    def tamper(nb):
        target = cell(nb, cell_id)
        assert old in target.source
        target.source = target.source.replace(old, new, 1)

    return tamper


def tag(cell_id, *tags):
    return lambda nb: cell(nb, cell_id).metadata.update(tags=list(tags))


def drop(cell_id):
    return lambda nb: nb.cells.remove(cell(nb, cell_id))


def blind(nb):
    del cell(nb, "toy").outputs[0].data["image/png"]


def mystnb(section, key):
    return lambda nb: cell(nb, "plot").metadata.mystnb[section].pop(key)


def stub(source):
    """A change that puts the cell in which a reader writes between an exercise and its solution."""
    room = nbformat.v4.new_code_cell(source, id="stub")
    return lambda nb: nb.cells.insert(nb.cells.index(cell(nb, "sol-a")), room)


ERROR = output("error", ename="ValueError", evalue="no", traceback=["no"])
TAMPERED = [
    # rule, what was done, how, a word of the complaint
    ("counts_are_sequential", "stripped", put("train", execution_count=None), "None, expected 6"),
    ("counts_are_sequential", "cell added, not run", drop("print-one"), "3, expected 2"),
    ("outputs_are_there", "output cleared", put("print-one", outputs=[]), "has no outputs"),
    ("outputs_are_there", "nothing in it", put("print-one", source=" "), "empty code cell"),
    ("no_errors", "error", put("print-one", outputs=[ERROR]), "stored error: ValueError"),
    ("no_errors", "no error", tag("print-one", "raises-exception"), "raises nothing"),
    ("no_stderr", "warning", put("train", outputs=[stream("w", "stderr")]), "stored stderr: w"),
    ("nothing_of_this_machine", "path printed",
     put("print-one", outputs=[stream("/home/ada/x.py\n")]), "path: /home/ada/x.py"),
    ("nothing_of_this_machine", "path in a traceback", put("print-one", outputs=[output(
        "error", ename="E", evalue="", traceback=["\x1b[0;32m/opt/lib/x.py\x1b[0m"])]), "/opt"),
    ("nothing_of_this_machine", "address",
     put("print-one", outputs=[stream("<f at 0x7f00deadbeef>")]), "object address"),
    ("images_speak", "no alt in Markdown", replace("a-title", "[A curve that falls]", "[]"), "alt"),
    ("images_speak", "no alt", mystnb("image", "alt"), "without alt"),
    ("images_speak", "no caption", drop("plot-caption"), "without a caption"),
    ("images_speak", "no name", mystnb("figure", "name"), "without a name"),
    ("images_speak", "svg", put("plot", outputs=[
        output("display_data", data={"image/svg+xml": "<svg/>"})]), "SVG"),
    ("plots_end_with_show", "a value shown", put("print-one", outputs=[output(
        "execute_result", execution_count=2, data={"text/plain": "Text(0.5, 1, 'x')"})]), "plt.sh"),
    ("tags_are_known", "underscores", tag("train", "nbval_ignore_output"), "unknown tag"),
    ("ignored_outputs_are_guarded", "no assert",
     lambda nb: [replace("train", "assert", "# assert")(nb), drop("guard")(nb)],
     "without an assert"),
    ("ignored_outputs_are_guarded", "too many", lambda nb: [
        nb.cells.append(copy.deepcopy(cell(nb, "train"))) for _ in range(9)], "at most"),
    ("install_cell_comes_first", "missing", drop("install-on-colab"), "found 0"),
    ("install_cell_comes_first", "second",
     lambda nb: nb.cells.append(nb.cells.pop(1)), "the first code cell"),
    ("install_cell_comes_first", "another text",
     replace("install-on-colab", "-q", "-q --no-deps"), "the same text"),
    ("install_cell_comes_first", "skipped", tag("print-one", "nbval-skip"), "not the install cell"),
    ("live_figures_have_state", "no state", lambda nb: nb.metadata.pop("widgets"), "without saved"),
    ("live_figures_have_state", "no tag", tag("toy"), "go together"),
    ("live_figures_have_state", "no picture", blind, "without a picture"),
    ("live_figures_have_state", "none", drop("toy"), "no live figure"),
    ("blocks_are_whole", "two", lambda nb: [drop("ex-c")(nb), drop("sol-c")(nb)], "at least 3"),
    ("blocks_are_whole", "no kind", replace("ex-b", "Predict: ", ""), "begins with '### Predict"),
    ("blocks_are_whole", "unsolved", drop("sol-b"), "without a solution"),
    ("blocks_are_whole", "solved twice",
     lambda nb: nb.cells.extend(copy.deepcopy([cell(nb, "a-title"), cell(nb, "sol-a")])),
     "exercise of its own"),
    ("blocks_are_whole", "an answer elsewhere", tag("a-title", "answer"), "right behind a cell"),
    ("blocks_are_whole", "a fold without a title", drop("seen"), "begins with '#### Title'"),
    ("blocks_are_whole", "a recall without answers", replace("recall", "---", "-"), "line '---'"),
    ("blocks_are_whole", "in the way", tag("before", "mine-before"), "hide-input"),
    ("stubs_replace_nothing", "defined before", stub("def one(): ..."), "the chapter's one"),
    ("stubs_replace_nothing", "used in a function", lambda nb: [
        stub("class Step: ...")(nb), replace("train", "loss = 1", "def f(): return Step")(nb)],
     "the chapter's Step"),
    ("ids_are_stable", "random", put("train", id="3f9a01bc"), "random"),
    ("ids_are_stable", "Colab's", put("train", id="xK3_bv9-QqTa"), "random"),
    ("ids_are_stable", "twice", put("train", id="toy"), "2 cells with this id"),
    ("metadata_is_clean", "version", lambda nb: nb.metadata.language_info.update(version="3.11"),
     "'language_info'"),
    ("metadata_is_clean", "split prints", put("print-one", outputs=[stream("1"), stream("\n")]),
     "outputs not as"),
    ("metadata_is_clean", "unseen widget", lambda nb: nb.metadata.widgets[STATE].state.update(
        {"Bar-1": copy.deepcopy(nb.metadata.widgets[STATE].state["Toy-1"])}), "'widgets'"),
    ("first_line_is_the_title", "none", replace("a-title", "# A", "A"), "begin with its title"),
    ("first_line_is_the_title", "two", replace("toy-caption", "Touch", "# Touch"), "2 first-level"),
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


def test_known_tags_pass(nb):
    cell(nb, "toy-caption").metadata["tags"] = [*TAGS]
    assert not [line for line in findings(nb) if line.startswith("tags_are_known")]


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


def test_nothing_makes_the_comparison_of_outputs_lax():
    """Whoever adds a section to sanitize.cfg says there why, and changes this test."""
    assert "--nbval" in strict.OPTIONS and not re.search("lax", " ".join(strict.OPTIONS))
    config = Path(strict.__file__).with_name("sanitize.cfg").read_text(encoding="utf-8")
    assert not re.search(r"^\[", config, re.M)


# --- what execute.py does to a notebook -----------------------------------------------------------


def test_normalizing_twice_changes_nothing(nb):
    once = copy.deepcopy(normalize(nb))
    assert normalize(nb) == once


def test_widget_names_do_not_depend_on_the_run(nb):
    """Two runs hand out different ids, in a different order; what is stored is the same."""

    def run(ids):
        book = copy.deepcopy(nb)
        cell(book, "toy").outputs[0].data[VIEW].model_id = ids["view"]
        layout = {"model_name": "LayoutModel", "state": {"width": None, "height": "4em"}}
        toy = {"model_name": "AnyModel", "state": {
            "_anywidget_id": "t.Toy", "layout": f"IPY_MODEL_{ids['layout']}", "x": 3}}  # fmt: skip
        models = {ids["view"]: toy, ids["layout"]: layout, ids["closed"]: copy.deepcopy(toy)}
        state = {"state": dict(sorted(models.items())), "version_major": 2, "version_minor": 0}
        book.metadata["widgets"] = nbformat.from_dict({STATE: state})
        return normalize(book)

    first = run({"view": "a1", "layout": "b2", "closed": "c3"})
    assert first == run({"view": "z9", "layout": "y8", "closed": "x7"})
    models = first.metadata.widgets[STATE].state
    assert list(models) == ["Toy-1", "Toy-1-layout"]
    assert models["Toy-1"].state.layout == "IPY_MODEL_Toy-1-layout"
    assert models["Toy-1-layout"].state == {"height": "4em"}


@pytest.mark.parametrize(
    "name", ["3f9a01bc", "7c1e9d52-0a4b-4a1f-9c55-2f1f7f4f9b10", "xK3_bv9-QqTa"]
)
def test_a_random_id_is_replaced(nb, name):
    """By words of the cell; a word such as "defaced" may look like one."""
    assert not any(map(is_random_id, ("defaced", "ask-the-dictionary")))
    cell(nb, "print-one").id = name
    cell(nb, "toy-caption").id = "print-1"
    assert [each.id for each in normalize(nb).cells].count("print-1-2") == 1
