"""The student's edition: each chapter as a notebook to think and write in, without its solutions.

It stands in the site's folder `student`. Publishing pushes that to a branch of the same name, for
Colab and Binder. Links lead to the site: by its address if that is known, else as seen from the
folder.
"""

import json
import posixpath
import re
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import cells
from book import write
from live_figures import STATE, closure, outputs_of
from numbered import numbers
from repository import facts

FOLDER = "student"
BRANCH = "student"
BINDER = "https://mybinder.org/v2/gh"
KAGGLE = "https://kaggle.com/kernels/welcome"
LINK = re.compile(r"(?<=\])\((#[\w.-]+|[\w./-]+\.(?:ipynb|md)(?:#[\w.-]+)?)\)")
FOLDED = {"hide-input", "remove-input"}
INSTALL = "google.colab"
CHECKED = re.compile(r"^# check\((\w+)\)", re.M)  # in a cell with room for an answer


class Places:
    """Where things of a page are for somebody who reads its notebook."""

    def __init__(self, app, docname: str) -> None:
        self.app, self.docname = app, docname
        self.numbers = numbers(app.env)

    def page(self, docname: str, anchor: str = "") -> str:
        return self.file(
            self.app.builder.get_target_uri(docname) + (f"#{anchor}" if anchor else "")
        )

    def file(self, path: str) -> str:
        return (self.app.config.html_baseurl or "../") + path

    def number(self, label: str) -> str:
        """Exercise 6.1, Figure 6.2."""
        return self.numbers[self.docname, label]

    def link(self, target: str) -> str:
        """Where a link of the chapter leads to from its notebook."""
        name, _, anchor = target.partition("#")
        if not name and (found := self.app.env.get_domain("py").objects.get(anchor)):
            return self.page(found.docname, found.node_id)
        if name.endswith(".ipynb") and not anchor and not self.app.config.html_baseurl:
            return name  # it lies beside this one
        path = posixpath.join(posixpath.dirname(self.docname), posixpath.splitext(name)[0])
        return self.page(posixpath.normpath(path) if name else self.docname, anchor)

    def links_in(self, text: str) -> str:
        return LINK.sub(lambda found: f"({self.link(found[1])})", text)


def is_code(block: cells.Block | None) -> bool:
    return block is not None and not block.kind and block.cells[0]["cell_type"] == "code"


def plain(cell: dict, places: Places, folded: set[str] = FOLDED) -> dict:
    """A cell as JupyterLab and Colab want it; the code of one with a tag in `folded` is folded."""
    if cell["cell_type"] == "markdown":
        return {**cell, "metadata": {}, "source": places.links_in(cells.text(cell))}
    if folded.isdisjoint(cells.tags(cell)) and INSTALL not in cells.text(cell):
        return {**cell, "metadata": {}}
    # Colab's word for it, and JupyterLab's.
    return {**cell, "metadata": {"cellView": "form", "jupyter": {"source_hidden": True}}}


def without_outputs(cell: dict) -> dict:
    return {**cell, "outputs": [], "execution_count": None}


def import_of_check(docname: str) -> str:
    place = cells.place(docname)
    module = f"chapter{place}" if place.isdigit() else place
    return f"from transformer_lib.checks.{module} import check"


def asked(block: cells.Block, places: Places, end: str = "") -> dict:
    """The text of an exercise, with its number."""
    title = f"### {places.number(block.label)}. {block.title}"
    text = places.links_in(cells.below_title(block.cells[0]))
    return cells.markdown(block.cells[0]["id"], f"{title}\n\n{text}{end}")


def exercise(
    block: cells.Block, follows: cells.Block | None, places: Places, end: str
) -> list[dict]:
    """An exercise, and room for the answer where the chapter has none."""
    (cell,) = block.cells
    found = [asked(block, places, end)]
    if block.title.startswith("Predict"):
        found.append(cells.markdown(f"{cell['id']}-answer", "*Your answer:*"))
    if not is_code(follows) and not block.title.startswith("Predict:"):
        found.append(cells.code(f"{cell['id']}-code"))
    return found


def as_written(block: cells.Block, follows: cells.Block | None, places: Places) -> list[dict]:
    """The cells of the student's edition that stand for a block."""
    first = block.cells[0]
    here = places.page(places.docname, block.label)
    match block.kind:
        case "exercise":
            solution = places.page(places.docname, block.label.replace("ex-", "sol-", 1))
            link = f"\n\n[Compare with the solution]({solution}) when you have yours."
            return exercise(block, follows, places, link)
        case "solution":
            return []
        case "predict":
            answer = f"\n\n[Answer it on the page]({here}), and see."
            return [cells.markdown(first["id"], places.links_in(cells.text(first)) + answer)]
        case "recall":
            question = places.links_in(cells.question_and_answers(first)[0])
            answers = f"[The answers]({here}) are on the page."
            return [cells.markdown(first["id"], f"{question}\n\n{answers}")]
        case "fold":
            link = f"[Open it on the page]({here}) when you have your own answer."
            return [cells.markdown(first["id"], f"#### {block.title}\n\n{link}")]
        case "figure":
            figure, caption = block.cells
            number = places.number(block.label)
            text = places.links_in(cells.text(caption))
            return [plain(figure, places), cells.markdown(caption["id"], f"**{number}.** {text}")]
        case "mine":
            file = places.file(f"mine/{cells.place(places.docname)}/mine.py")
            where = (
                "This goes into your `mine.py`, a file beside this notebook. In JupyterLab, "
                "*File → New → Python File* makes it. `import mine` in a cell shows that it runs. "
                f"[Here it is as it is now]({file})."
            )
            return [plain(first, places), cells.markdown(f"{first['id']}-file", where)]
        case _:
            if "remove-cell" in cells.tags(first) and INSTALL not in cells.text(first):
                return []
            if CHECKED.search(cells.text(first)):  # it also works right after a restart
                source = f"{import_of_check(places.docname)}\n\n\n{cells.text(first)}"
                first = {**first, "source": source}
            return [plain(first, places)]


def edition(app, docname: str, notebook: dict) -> dict:
    """The student's edition of a chapter."""
    places = Places(app, docname)
    found = cells.blocks(docname, notebook["cells"])
    shown, is_asked = [], False
    for block, follows in zip(found, [*found[1:], None], strict=True):
        is_asked |= block.kind == "predict"
        is_asked &= not cells.text(block.cells[0]).startswith("## ")
        for cell in as_written(block, follows, places):
            # What a section prints after its question would give the answer away.
            hides = is_asked and cell["cell_type"] == "code"
            shown.append(without_outputs(cell) if hides else cell)
    title, *written = shown
    page = f"[The page of this chapter]({places.page(docname)})"
    yours = f"*This notebook is yours: run it, change it, write into it. {page} has the solutions.*"
    how = "A live figure works once you've run its cell. To write into a text, double-click it."
    about = f"{yours}\n\n{how} {needed(app)}"
    made = {**notebook, "cells": [title, cells.markdown("about-this-notebook", about), *written]}
    stored = notebook["metadata"].get("widgets", {}).get(STATE)
    if stored is not None:
        state: dict = {}
        for model_id, _ in outputs_of(made):
            closure(stored["state"], model_id, state)
        widgets = {STATE: {**stored, "state": state}}
        made["metadata"] = {**notebook["metadata"], "widgets": widgets}
    return made


def needed(app) -> str:
    """How a notebook that stands by itself gets the library."""
    options = app.config.html_theme_options
    if repository := options.get("repository_url"):
        library = requirement(repository, facts(Path(app.confdir)).tag)
        return f'In Colab the next cell installs the library. Elsewhere: `pip install "{library}"`.'
    return "It needs the book's library: the zip on the book's first page says how to get it."


def readme(app) -> str:
    """What the branch `student` says about itself."""
    address = app.config.html_baseurl or "../index.html"
    repository = app.config.html_theme_options.get("repository_url")
    binder = (
        f"\n[Run them in Binder]({BINDER}{urlsplit(repository).path}/{BRANCH})\n"
        if repository
        else ""
    )
    return (
        f"# {app.config.html_title}: the student's edition\n\n"
        f"The chapters of [the book]({address}) as notebooks to run and to write in, without the\n"
        "solutions, which are on the book's pages. The build of the book makes these files: to\n"
        f"change them, change its chapters.\n{binder}"
    )


def requirement(repository: str, tag: str) -> str:
    """The library, of the edition that the chapters are of."""
    return f"attention-built-by-hand @ git+{repository}@{tag}"


def environment(repository: str, tag: str) -> str:
    """What Binder installs. PyPI's torch would bring CUDA, so torch is conda-forge's for CPUs."""
    return f"""\
channels: [conda-forge]
dependencies:
  - python=3.12
  - pytorch-cpu
  - jupyterlab
  - notebook
  - pip
  - pip:
      - {requirement(repository, tag)}
"""


def elsewhere(repository: str | None) -> str:
    """Where a class can open the edition: what {{ elsewhere }} says on the teachers' page."""
    if not repository:
        return "links to Kaggle, Binder, and nbgitpuller stand here once the site has an address."
    place = urlsplit(repository).path
    name = place.rpartition("/")[2]
    query = urlencode({"repo": repository, "branch": BRANCH, "urlpath": f"lab/tree/{name}"})
    notebook = f"{repository}/blob/{BRANCH}/01_soft_lookup.ipynb"
    return (
        f"chapter 1 [in Kaggle]({KAGGLE}?src={notebook}), and all chapters "
        f"[in Binder]({BINDER}{place}/{BRANCH}). On a JupyterHub with nbgitpuller, this link "
        "fetches them and keeps what students have changed: "
        f"`https://YOUR-HUB/hub/user-redirect/git-pull?{query}`. In Kaggle and on a hub, the text "
        "below a notebook's title says how to install the library."
    )


def offer(app, config):
    """Runs after book.configure, which sets the repository's address once the owner has said it."""
    repository = config.html_theme_options.get("repository_url")
    config.myst_substitutions = {**config.myst_substitutions, "elsewhere": elsewhere(repository)}


def publish(app, exception):
    if exception is not None:
        return
    folder = Path(app.outdir, FOLDER)
    wanted = {"README.md": readme(app)}
    options = app.config.html_theme_options
    if repository := options.get("repository_url"):
        wanted["environment.yml"] = environment(repository, facts(Path(app.confdir)).tag)
    for docname in sorted(app.env.found_docs):
        path = Path(app.env.doc2path(docname))
        if path.suffix == ".ipynb":
            made = edition(app, docname, cells.read(path))
            wanted[path.name] = json.dumps(made, indent=1, ensure_ascii=False) + "\n"
    for name, text in wanted.items():
        write(folder / name, text.encode())
    for path in set(folder.iterdir()) - {folder / name for name in wanted}:
        path.unlink()


def setup(app):
    app.connect("config-inited", offer, priority=900)
    app.connect("build-finished", publish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
