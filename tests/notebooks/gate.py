"""Rules that every stored chapter must follow; nothing is run.

    python tests/notebooks/gate.py                    # every chapter
    python tests/notebooks/gate.py some_notebook.ipynb

Prints one line per finding and exits with 1 if there is one. Each rule is a function that takes the
notebook and yields (cell id or None, what is wrong); `test_gate.py` breaks each of them once.
"""

import ast
import copy
import re
import sys
from collections import Counter
from pathlib import Path

import nbformat

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "_ext"))
sys.path.insert(0, str(Path(__file__).resolve().parent))
from execute import CHOSEN_ID, STATE, VIEW, is_random_id, normalize, notebooks, on_gpu

from cells import KINDS, blocks, figure_name, needs_and_gives, tags
from repository import facts

EDITION = facts(Path(__file__).resolve().parents[2])

# A folder on somebody's machine, on any system.
ABSOLUTE_PATH = re.compile(
    r"(?<![\w/.])/(?:home|root|tmp|work|Users|usr|opt|mnt|var|private)/[\w./-]+|\b[A-Z]:\\\w+"
)
ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]{6,}")
ANSI = re.compile(r"\x1b\[[0-9;]*m")
# What a plotting call returns, as the last line of a cell.
PLOT_VALUE = re.compile(r"^\[?<(?:matplotlib\.|Axes|Figure|BarContainer)|^\(?Text\(|^\[?Text\(")

IGNORE, SKIP = "nbval-ignore-output", "nbval-skip"
# Tags that something reads; any other one is a typo.
TAGS = {
    *(IGNORE, SKIP, "published", "live-figure", "gallery"),
    *("remove-cell", "remove-input", "hide-input"),
    *KINDS,
}
# The install cell; its address and its edition are `make repository`'s to write.
INSTALL = f"""\
# In Colab, fetch this book's library and what it needs. Everywhere, check that it is the book's.
import sys

if "google.colab" in sys.modules:
    %pip install -q "attention-built-by-hand @ git+ADDRESS@{EDITION.tag}"

import transformer_lib

if not hasattr(transformer_lib, "BOOK"):
    raise ImportError(
        "this transformer_lib is another project's: run %pip uninstall -y transformer-lib "
        "attention-built-by-hand, restart the kernel, and install the book's library again"
    )"""


def code_cells(nb):
    return [cell for cell in nb.cells if cell.cell_type == "code"]


def markdown_cells(nb):
    return [cell for cell in nb.cells if cell.cell_type == "markdown"]


def output_text(output) -> str:
    """All text of an output that a reader would see."""
    data = output.get("data", {})
    parts = [output.get("text", ""), output.get("evalue", ""), *output.get("traceback", [])]
    parts += [data[mime] for mime in data if mime.startswith("text/")]
    return ANSI.sub("", "\n".join(parts))


# --- the rules -----------------------------------------------------------------------------------


def counts_are_sequential(nb):
    """nbval doesn't compare a cell without a count."""
    for expected, cell in enumerate(code_cells(nb), start=1):
        if cell.get("execution_count") != expected:
            found = cell.get("execution_count")
            yield cell.id, f"execution count {found}, expected {expected}: run all cells in order"
            return


def parse(source: str) -> ast.Module:
    """The cell as Python, without IPython's own lines."""
    lines = [re.sub(r"^(\s*)[%!].*", r"\1pass", line) for line in source.splitlines()]
    try:
        return ast.parse("\n".join(lines))
    except SyntaxError:
        return ast.Module(body=[], type_ignores=[])


def no_errors(nb):
    for cell in code_cells(nb):
        for output in cell.outputs:
            if output.output_type == "error":
                yield cell.id, f"stored error: {output.ename}"


def no_stderr(nb):
    for cell in code_cells(nb):
        for output in cell.outputs:
            if output.output_type == "stream" and output.name == "stderr":
                yield cell.id, f"stored stderr: {output.text.strip()[:80]}"


def nothing_of_this_machine(nb):
    for cell in nb.cells:
        texts = [cell.source] + [output_text(output) for output in cell.get("outputs", [])]
        for text in texts:
            if found := ABSOLUTE_PATH.search(text):
                yield cell.id, f"absolute path: {found.group()}"
        for text in texts[1:]:
            if found := ADDRESS.search(text):
                yield cell.id, f"object address: {found.group()}"


def images_speak(nb):
    """Alt text for those who can't see it; a name and a caption, so that it gets a number."""
    for cell in markdown_cells(nb):
        for alt in re.findall(r"!\[(.*?)\]\(", cell.source):
            if not alt.strip():
                yield cell.id, "image without alt text"
    for cell, follows in zip(nb.cells, [*nb.cells[1:], None], strict=True):
        if cell.cell_type != "code":
            continue
        kinds = {mime for output in cell.outputs for mime in output.get("data", {})}
        if not any(kind.startswith("image/") for kind in kinds):
            continue
        mystnb = cell.metadata.get("mystnb", {})
        if not str(mystnb.get("image", {}).get("alt") or "").strip():
            yield cell.id, "image output without alt text (metadata.mystnb.image.alt)"
        if not figure_name(cell):
            yield cell.id, "image output without a name (metadata.mystnb.figure.name)"
        if follows is None or "caption" not in tags(follows) or not follows.source.strip():
            yield cell.id, "image output without a caption: a cell tagged caption must come next"


def plots_end_with_show(nb):
    for cell in code_cells(nb):
        for output in cell.outputs:
            text = output.get("data", {}).get("text/plain", "")
            if output.output_type == "execute_result" and PLOT_VALUE.match(text):
                yield cell.id, f"shows {text[:40]!r}: end the cell with plt.show()"


def tags_are_known(nb):
    for cell in nb.cells:
        for tag in tags(cell):
            if tag not in TAGS:
                yield cell.id, f"unknown tag {tag!r}; known: {', '.join(sorted(TAGS))}"


def ignored_outputs_are_guarded(nb):
    """An assert is in the cell, or in the next one if the page doesn't show that."""
    if on_gpu(nb):
        return  # few of its outputs are the same elsewhere
    cells = [cell for cell in nb.cells if "caption" not in tags(cell)]
    for cell, follows in zip(cells, [*cells[1:], None], strict=True):
        guards = [cell] + [follows] * (follows is not None and "remove-cell" in tags(follows))
        if IGNORE in tags(cell) and not any(map(asserts, guards)):
            yield cell.id, f"{IGNORE} without an assert in the cell or the next one"


def asserts(cell) -> bool:
    return any(isinstance(node, ast.Assert) for node in ast.walk(parse(cell.source)))


def install_cell_comes_first(nb):
    found = [cell for cell in code_cells(nb) if "google.colab" in cell.source]
    if len(found) != 1 or found[0] is not code_cells(nb)[0]:
        yield None, f"the first code cell, and no other, installs on Colab; found {len(found)}"
    for cell in found:
        if set(tags(cell)) != {"remove-cell", SKIP}:
            yield cell.id, f"the install cell must be tagged remove-cell and {SKIP}, nothing else"
        if re.sub(r"git\+[^@\s]+@", "git+ADDRESS@", cell.source) != INSTALL:
            yield cell.id, "the install cell must be the same text in every chapter: gate.INSTALL"
    for cell in code_cells(nb):
        if SKIP in tags(cell) and cell not in found:
            yield cell.id, f"{SKIP} on a cell that is not the install cell"


def is_program(nb) -> bool:
    """Whether the notebook is one program to read, without exercises."""
    return any("program" in tags(cell) for cell in code_cells(nb))


def fewest_exercises(nb) -> int:
    """One on a page of the gallery: the exercises with its figures are in the chapters."""
    if is_program(nb):
        return 0
    return 1 if any("gallery" in tags(cell) for cell in nb.cells) else 3


def live_figures_have_state(nb):
    """No saved state, no live figure on the page; no picture, none on paper."""
    state = nb.metadata.get("widgets", {}).get(STATE, {}).get("state", {})
    for cell in nb.cells:
        shown = [o.data for o in cell.get("outputs", []) if VIEW in o.get("data", {})]
        for data in shown:
            if (model_id := data[VIEW]["model_id"]) not in state:
                yield cell.id, f"live figure {model_id} without saved state: run the notebook"
            if "image/png" not in data:
                yield cell.id, f"live figure {model_id} without a picture: run the notebook"
        if bool(shown) != ("live-figure" in tags(cell)):
            yield cell.id, "the tag live-figure and a stored live figure go together"
    needed = not (is_program(nb) or on_gpu(nb))
    if needed and not any("live-figure" in tags(cell) for cell in code_cells(nb)):
        yield None, "no live figure"


def blocks_are_whole(nb):
    """Each tag fits the text and the position of its cell: pages are made from that."""
    try:
        found = blocks("00_here", nb.cells)
    except ValueError as error:
        yield None, str(error).removeprefix("00_here, ")
        return
    exercises = [block.label for block in found if block.kind == "exercise"]
    solved = {block.label for block in found if block.kind == "solution"}
    if len(exercises) < (fewest := fewest_exercises(nb)):
        yield None, f"{len(exercises)} exercises, at least {fewest} expected"
    for block in found:
        if block.kind == "exercise" and block.label.replace("ex-", "sol-", 1) not in solved:
            yield block.cells[0].id, "an exercise without a solution"
        if block.kind == "mine-before" and "hide-input" not in tags(block.cells[0]):
            yield block.cells[0].id, "a cell tagged mine-before needs the tag hide-input"


def stubs_replace_nothing(nb):
    """An exercise that isn't done yet doesn't replace what the chapter uses."""
    try:
        found = blocks("00_here", nb.cells)
    except ValueError:
        return  # blocks_are_whole reports it
    stubs, used = [], set()
    for before, block in zip([None, *found], found, strict=False):
        for cell in block.cells:
            if cell.cell_type != "code" or block.kind == "solution" or "remove-cell" in tags(cell):
                continue  # the last two aren't in the student's edition
            if "published" in tags(cell):
                continue  # runs only what the check has passed
            code = parse(cell.source)
            if before is not None and before.kind == "exercise":
                code.body = [s for s in code.body if not isinstance(s, ast.Import | ast.ImportFrom)]
                stubs.append((cell.id, needs_and_gives(ast.unparse(code))[1]))
            elif "check(" not in cell.source:  # of an answer
                used = used.union(*needs_and_gives(ast.unparse(code)))
    for cell_id, names in stubs:
        for name in sorted(names & used):
            yield cell_id, f"replaces the chapter's {name}: give the exercise a name of its own"


def ids_are_stable(nb):
    for cell_id, times in Counter(cell.get("id", "") for cell in nb.cells).items():
        if times > 1:
            yield cell_id, f"{times} cells with this id"
        elif is_random_id(cell_id) or not CHOSEN_ID.fullmatch(cell_id):
            yield cell_id, "cell id is random, or not a slug of lowercase words"


def metadata_is_clean(nb):
    """As `execute.py` leaves it, so nothing changes from run to run."""
    tidy = normalize(copy.deepcopy(nb))
    for key in sorted(nb.metadata.keys() | tidy.metadata.keys()):
        if nb.metadata.get(key) != tidy.metadata.get(key):
            yield None, f"notebook metadata {key!r} is not as execute.py stores it"
    for cell, clean in zip(nb.cells, tidy.cells, strict=True):
        if cell != clean:
            keys = ", ".join(k for k in cell if cell.get(k) != clean.get(k))
            yield cell.get("id"), f"{keys} not as execute.py stores it (try --normalize)"


def first_line_is_the_title(nb):
    first = nb.cells[0]
    if first.cell_type != "markdown" or not first.source.startswith("# "):
        yield first.get("id"), "a chapter must begin with its title, '# …'"
    titles = sum(
        len(re.findall(r"^# ", outside_fences(cell.source), re.M)) for cell in markdown_cells(nb)
    )
    if titles > 1:
        yield None, f"{titles} first-level headings; the page has one title"


def outside_fences(source: str) -> str:
    return re.sub(r"^(`{3,}|~{3,}).*?^\1", "", source, flags=re.M | re.S)


RULES = (
    counts_are_sequential,
    no_errors,
    no_stderr,
    nothing_of_this_machine,
    images_speak,
    plots_end_with_show,
    tags_are_known,
    ignored_outputs_are_guarded,
    install_cell_comes_first,
    live_figures_have_state,
    blocks_are_whole,
    stubs_replace_nothing,
    ids_are_stable,
    metadata_is_clean,
    first_line_is_the_title,
)


def findings(nb) -> list[str]:
    """What all rules find in one notebook, as lines of text."""
    return [
        f"{rule.__name__}: " + (f"cell {cell_id}: " if cell_id else "") + what
        for rule in RULES
        for cell_id, what in rule(nb)
    ]


def main() -> int:
    paths = notebooks(sys.argv[1:])
    found = 0
    for path in paths:
        for line in findings(nbformat.read(path, as_version=4)):
            found += 1
            print(f"{path.name}: {line}")
    print(f"{len(paths)} notebooks, {found} findings")
    return 1 if found or not paths else 0


if __name__ == "__main__":
    sys.exit(main())
