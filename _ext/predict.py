"""Predict, then see: a question to the reader as a small live block of the page.

A page holds each question twice: as a form, for predict.js, and inside <noscript> as a list with a
folded answer. The page `chapters/predictions.md` lists the questions of all chapters, and
predict.js enters what this reader answered, which is in the reader's own browser and nowhere else.
"""

import re
from html import escape
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

import cells
import predictions
from book import chapter_of

PAGE = "chapters/predictions"


class prediction_node(nodes.General, nodes.Element):
    """A question to the reader: its text, its choices, what is said afterwards."""


# ---- From Markdown to nodes ----------------------------------------------------------------------


class Prediction(SphinxDirective):
    """A question to the reader.

    It ends with the list of choices, where it has some; an item is a choice and, in a paragraph of
    its own, the reason. `right` has the numbers of the right ones. A container below, `told`, holds
    what is said to everybody who has committed.
    """

    has_content = True
    required_arguments = 1
    option_spec = {  # noqa: RUF012 (docutils asks for a plain dict)
        name: directives.unchanged for name in ("name", "right", "number", "within", "unit")
    }

    def run(self):
        options = {key: text for key, text in self.options.items() if key != "name"}
        node = prediction_node("", kind=self.arguments[0], **options)
        self.set_source_info(node)
        self.add_name(node)
        self.state.nested_parse(self.content, self.content_offset, node)
        if node["kind"] in {"one", "some"}:
            *_, listed = (part for part in node if isinstance(part, nodes.bullet_list))
            for part in list(listed.findall(nodes.paragraph)):  # the search has no use for them
                part.replace_self(nodes.inline("", "", *part.children))
        return [node]


# ---- From nodes to HTML --------------------------------------------------------------------------


def render(translator, *found) -> str:
    """The HTML of some nodes."""
    start = len(translator.body)
    for node in found:
        node.walkabout(translator)
    html = "".join(translator.body[start:])
    del translator.body[start:]
    return html.strip()


class Parts:
    """The HTML of a question's parts."""

    def __init__(self, translator, node) -> None:
        self.kind, self.label = node["kind"], node["ids"][0]
        told = [part for part in node if "told" in part["classes"]]
        asked = [part for part in node if part not in told]
        listed = asked.pop() if self.kind in {"one", "some"} else []
        self.question = render(translator, *asked)
        self.told = render(translator, *(child for part in told for child in part))
        right = node.get("right", "").split()
        self.choices = [
            (text.astext(), render(translator, *text), render(translator, *reason), str(i) in right)
            for i, (text, reason) in enumerate(listed)
        ]
        self.number, self.within = node.get("number", ""), node.get("within", "")
        self.unit = node.get("unit", "")
        root = translator.builder.get_relative_uri(translator.builder.current_docname, PAGE)
        self.page = escape(root)

    def as_list(self) -> str:
        """A list and a folded answer."""
        html = ""
        answer = self.told
        if self.choices:
            rows = "".join(f"<li><p>{text}</p></li>" for _, text, _, _ in self.choices)
            html = f'<ul class="simple">{rows}</ul>'
            rows = "".join(
                f"<li><p>{f'<strong>{text}</strong>' if right else text}: {reason}</p></li>"
                for _, text, reason, right in self.choices
            )
            answer = f'<ul class="simple">{rows}</ul>{answer}'
        title = '<summary class="admonition-title">The answer</summary>'
        return f'{html}<details class="fold admonition">{title}{answer}</details>'

    def as_form(self) -> str:
        ask = self.ask_choices() if self.choices else self.ask_text()
        answer = "; ".join(plain for plain, _, _, right in self.choices if right)
        data = {"kind": self.kind, "told": "not", "of": self.label.removeprefix("predict-")}
        if self.kind == "number":
            answer = f"{self.number} {self.unit}".strip()
            data["number"] = str(predictions.value(self.number))
            data["within"] = str(predictions.value(self.within))
        data["answer"] = answer
        said = "".join(f' data-{key}="{escape(value)}"' for key, value in data.items())
        return (
            f'<form class="predict-live" autocomplete="off"{said}>{ask}'
            '<div class="predict-foot"><button type="submit">This is my answer</button>'
            f'<div class="predict-told" tabindex="-1">{self.verdict()}'
            f'{self.told}<p class="predict-all">'
            '<button type="button" class="predict-again">Try again</button> '
            f'<a href="{self.page}">All your predictions</a></p></div></div></form>'
        )

    def ask_choices(self) -> str:
        kind = {"one": 'type="radio" required', "some": 'type="checkbox"'}[self.kind]
        legend = {"one": "Your answer", "some": "Your answer: all that hold"}[self.kind]
        rows = "".join(
            f'<label class="predict-choice{" predict-right" if right else ""}">'
            f'<input {kind} name="{self.label}" value="{escape(plain)}"><span>{text}'
            f'<span class="predict-reason">: {reason}</span></span></label>'
            for plain, text, reason, right in self.choices
        )
        seen = "visually-hidden" if self.kind == "one" else "predict-legend"
        return f'<fieldset><legend class="{seen}">{legend}</legend>{rows}</fieldset>'

    def ask_text(self) -> str:
        said, limits = {
            "number": ("Your number", 'inputmode="decimal" size="12" maxlength="20"'),
            "line": ("Your line", 'maxlength="200"'),
        }[self.kind]
        field = f'<input name="{self.label}" required type="text" {limits}>'
        return f'<label class="predict-text"><span>{said}</span>{field}{escape(self.unit)}</label>'

    def verdict(self) -> str:
        """Both verdicts, of which one will be seen."""
        names = "; ".join(text for _, text, _, right in self.choices if right)
        kept = "Compare it with this."
        yes, no = {
            "one": (f"Yes: {names}.", f"The answer: {names}."),
            "some": ("Yes, these and no others.", f"The answer: {names}."),
            "number": ("Near enough.", "The answer is a different number."),
            "line": (kept, kept),
        }[self.kind]
        return (
            f'<p class="predict-verdict"><span class="predict-yes">{yes}</span>'
            f'<span class="predict-no">{no}</span></p>'
        )


def visit_prediction(translator, node):
    parts = Parts(translator, node)
    html = translator.starttag(node, "div", CLASS="predict") + parts.question
    html += f"<noscript>{parts.as_list()}</noscript>{parts.as_form()}</div>\n"
    translator.body.append(html)
    raise nodes.SkipNode


# ---- The reader's own page -----------------------------------------------------------------------


def list_questions(app, docname, source):
    """Enter the questions of all chapters into the page that shows what a reader answered."""
    if docname != PAGE:
        return
    toc = Path(app.srcdir, "_toc.yml")
    app.env.note_dependency(str(toc))
    lines, part = [], ""
    for kind, name in re.findall(r"(caption|file): (.*)", toc.read_text(encoding="utf-8")):
        if kind == "caption":
            part = name
        elif (number := chapter_of(name)) is not None:
            path = Path(app.srcdir, f"{name}.ipynb")
            app.env.note_dependency(str(path))
            found = cells.blocks(path.stem, cells.read(path)["cells"])
            title = cells.text(found[0].cells[0])
            lines += [f"## {part}", ""] if part else []
            lines += [f"### {number}. {title.splitlines()[0].removeprefix('# ')}", ""]
            for block in found:
                if block.kind == "predict":
                    before, asks = cells.prediction(block).in_a_paragraph
                    lines.append(f"- {before} [{asks}]({path.name}#{block.label})")
            lines, part = [*lines, ""], ""
    source[0] += "\n" + "\n".join(lines)


def setup(app):
    app.add_node(prediction_node, html=(visit_prediction, None))
    app.add_directive("prediction", Prediction)
    app.add_js_file("predict.js", loading_method="defer")
    app.connect("source-read", list_questions)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
