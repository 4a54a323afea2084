"""Make a page of a chapter: its plain cells (cells.py) become boxes, numbers and folds.

Before a notebook is parsed, its blocks become directives. A fold is <details>, so that the whole
title opens it and no script is needed.
"""

import copy
import json
import re
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.docutils import SphinxDirective
from sphinx_exercise.nodes import solution_node

import cells
import mine
import predictions
import reading
from repository import in_english

FENCE = ":::::"  # longer than any fence inside


# ---- From cells to directives --------------------------------------------------------------------


def directive(kind: str, argument: str, content: str, fence: str = FENCE, **options: str) -> str:
    lines = [f"{fence}{{{kind}}} {argument}".rstrip()]
    lines += [f":{option}: {value}" for option, value in options.items() if value]
    return "\n".join([*lines, "", content, "", fence] if content else [*lines, fence])


def hides(cell) -> str:
    """What a fold around a cell's code is named for: what the code defines, or what it draws."""
    match re.findall(r"^(?:def|class) (\w+)", cells.text(cell), re.M):
        case []:
            return "the code of this figure" if cells.figure_name(cell) else "the code"
        case [first, _, _, _, *_] as names:
            return f"{first} and {len(names) - 1} more"
        case names:
            return in_english(names)


def with_captions(found: list) -> list:
    """Cells whose captions are where MyST-NB looks for them: with the figures they belong to.

    The call that shows a live figure is folded.
    """
    kept: list = []
    for cell in found:
        if "caption" in cells.tags(cell):
            kept[-1]["metadata"]["mystnb"]["figure"]["caption"] = cells.text(cell).strip()
            continue
        cell = copy.deepcopy(cell)
        kept.append(cell)
        kinds = cells.tags(cell)
        if "live-figure" in kinds:
            kinds.append("hide-input")
        if "hide-input" in kinds:
            settings = cell["metadata"].setdefault("mystnb", {})
            settings.setdefault("code_prompt_show", f"Show {hides(cell)}")
            settings.setdefault("code_prompt_hide", f"Hide {hides(cell)}")
    return kept


def fold(title: str, content: str, **options: str) -> str:
    return directive("fold", title, content, FENCE[1:], **options)


def question(found: predictions.Prediction, label: str) -> str:
    """The directive of predict.py."""
    parts = [found.question]
    if found.choices:
        parts.append("\n".join(f"- {text}\n\n  {reason}\n" for text, reason, _ in found.choices))
    if found.answer:
        parts.append(directive("container", "told", found.answer, FENCE[1:]))
    right = " ".join(str(i) for i, choice in enumerate(found.choices) if choice.right)
    options = {"right": right, "number": found.number, "within": found.within, "unit": found.unit}
    return directive("prediction", found.kind, "\n\n".join(parts), name=label, **options)


def as_page(name: str, block: cells.Block) -> list[dict]:
    """The cells that MyST-NB gets for a block."""
    first, label = block.cells[0], block.label
    match block.kind:
        case "exercise":
            source = directive("exercise", block.title, cells.below_title(first), label=label)
        case "solution":
            exercise = label.replace("sol-", "ex-", 1)
            start = directive("solution-start", exercise, "", label=label)
            return [
                cells.markdown(f"{label}-start", start),
                *with_captions(block.cells),
                cells.markdown(f"{label}-end", directive("solution-end", "", "")),
            ]
        case "predict":
            source = question(cells.prediction(block), label)
        case "recall":
            questions, answers = cells.question_and_answers(first)
            source = f"{questions}\n\n{fold('The answers', answers)}"
            source = directive("container", "recall", source, name=label)
        case "fold":
            content = [cells.below_title(first), *map(cells.text, block.cells[1:])]
            source = fold(block.title, "\n\n".join(content), name=label)
        case "mine":
            link = mine.link(f"{cells.place(name)}/mine.py", "`mine.py` as it is now")
            return [first, cells.markdown(f"{first['id']}-file", link)]
        case _:
            return with_captions(block.cells)
    return [cells.markdown(first["id"], source)]


def read(app, docname, source):
    """Give MyST-NB the directives of a notebook instead of its plain cells."""
    if Path(app.env.doc2path(docname)).suffix == ".ipynb":
        notebook = json.loads(source[0])
        found = cells.blocks(docname, notebook["cells"])
        notebook["cells"] = [cell for block in found for cell in as_page(docname, block)]
        if any(block.kind == "program" for block in found):
            link = mine.link("transformer.py", "`transformer.py`")
            notebook["cells"].append(cells.markdown("program-file", link))
        source[0] = json.dumps(notebook)


# ---- Folds ---------------------------------------------------------------------------------------


class details(nodes.General, nodes.Element):
    """Something to open: a summary and what is below it."""


class summary(nodes.General, nodes.TextElement):
    """What opens it."""


class Fold(SphinxDirective):
    """A part of the page to open by its title."""

    has_content = True
    required_arguments = 1
    final_argument_whitespace = True
    option_spec = {"name": directives.unchanged}  # noqa: RUF012 (docutils asks for a plain dict)

    def run(self):
        self.assert_has_content()
        title, messages = self.state.inline_text(self.arguments[0], self.lineno)
        node = details("", fold_title(title), *messages, classes=["fold", "admonition"])
        self.set_source_info(node)
        self.add_name(node)
        self.state.nested_parse(self.content, self.content_offset, node)
        return [node]


class FoldSolutions(SphinxPostTransform):
    """In the site a solution is a fold, and its title no link: all of it opens the solution."""

    default_priority = 30  # sphinx-exercise has made the titles

    def run(self, **kwargs):
        for solution in list(self.document.findall(solution_node)):
            title, *content = solution.children
            for link in list(title.findall(nodes.reference)):
                link.parent.replace(link, link.children)
            fold = details("", fold_title(title.children), *content, ids=solution["ids"])
            fold["classes"] = [*solution["classes"], "admonition"]
            solution.replace_self(fold)


class FoldDeeper(SphinxPostTransform):
    """In the site, *Deeper* is its questions: each opens its section and says how long it takes."""

    default_priority = 30

    def run(self, **kwargs):
        for part in list(self.document.findall(nodes.section)):
            if part["ids"][:1] != ["deeper"]:
                continue
            sections = [child for child in part.children if isinstance(child, nodes.section)]
            lengths = reading.deeper(Path(self.env.doc2path(self.env.docname)))
            for section, length in zip(sections, lengths, strict=True):
                title, *content = section.children
                start, end = "<h3>", f"</h3><span>{length} min</span>"
                heading = [html(start), *title.children, html(end)]
                fold = details("", summary("", "", *heading), *content, ids=section["ids"])
                fold["classes"] = ["deeper"]
                section.replace_self(fold)


def fold_title(title: list) -> summary:
    return summary("", "", *title, classes=["admonition-title"])


def html(text: str) -> nodes.raw:
    return nodes.raw("", text, format="html")


def open_details(translator, node):
    translator.section_level += 1  # a section of Deeper has sections
    translator.body.append(translator.starttag(node, "details"))


def close_details(translator, node):
    translator.section_level -= 1
    translator.body.append("</details>\n")


def open_summary(translator, node):
    translator.body.append(translator.starttag(node, "summary", ""))


def close_summary(translator, node):
    translator.body.append("</summary>\n")


def setup(app):
    app.add_node(details, html=(open_details, close_details))
    app.add_node(summary, html=(open_summary, close_summary))
    app.add_directive("fold", Fold)
    app.add_post_transform(FoldSolutions)
    app.add_post_transform(FoldDeeper)
    app.connect("source-read", read)
    app.connect("build-finished", mine.publish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
