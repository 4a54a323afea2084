"""Live figures in static pages: mounting points, the host script, a directive for other pages.

A notebook stores the state of its anywidgets (metadata.widgets) and, for each figure, a picture of
its first state. A page that shows one gets three things: that state as JSON, the host
(live_figures.js, from slim.py), and in the figure's place a `<div class="live-host">` with the
widget's id and the picture, which the style sheet shows where the figure isn't alive: without
scripts, or on paper. No widget manager, no network.
"""

import hashlib
import json
import os
from binascii import a2b_base64
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.docutils import SphinxDirective

STATE = "application/vnd.jupyter.widget-state+json"
VIEW = "application/vnd.jupyter.widget-view+json"


def mounting_point(model_id, picture):
    """What stands for one live figure: an element to fill, and in it the picture to replace."""
    picture["classes"].append("live-still")
    opening = f'<div class="live-host" data-model="{model_id}">'
    return [nodes.raw("", opening, format="html"), picture, nodes.raw("", "</div>", format="html")]


class ShowWidgetsLive(SphinxPostTransform):
    """A widget's output becomes a mounting point."""

    default_priority = 3  # before myst-nb picks one output of each bundle, at 4

    def run(self, **kwargs):
        for bundle in list(self.document.findall(nodes.container)):
            if bundle.get("nb_element") != "mime_bundle":
                continue
            outputs = {output["mime_type"]: output for output in bundle.children}
            if VIEW not in outputs:
                continue
            script = outputs[VIEW].astext()
            model_id = json.loads(script[script.index(">") + 1 : script.rindex("<")])["model_id"]
            picture = outputs["image/png"].next_node(nodes.image)
            bundle.replace_self(mounting_point(model_id, picture))


class LiveFigure(SphinxDirective):
    """Show, on a Markdown page, a live figure whose state is stored in a chapter's notebook.

        ```{live-figure} chapters/01_soft_lookup.ipynb SoftLookup
        :alt: What a reader without scripts should learn from the picture
        :name: fig-soft-lookup
        ```
    """

    required_arguments = 2
    option_spec = {  # noqa: RUF012 (docutils asks for a plain dict)
        "alt": directives.unchanged_required,
        "name": directives.unchanged_required,
    }

    def run(self):
        notebook, figure = self.arguments
        path = Path(self.env.srcdir, notebook)
        self.env.note_dependency(str(path))
        content = json.loads(path.read_text(encoding="utf-8"))
        models = content["metadata"]["widgets"][STATE]["state"]
        shown = [
            (model_id, bundle)
            for model_id, bundle in outputs_of(content)
            if models[model_id]["state"]["_anywidget_id"].endswith(f".{figure}")
        ]
        if not shown:
            raise self.error(f"live-figure: no output of {notebook} shows a {figure}")
        model_id, bundle = shown[0]
        picture = picture_of(self.env, bundle, self.options["alt"])
        result = mounting_point(model_id, picture)
        needed = as_script({"state": {model_id: models[model_id]}})
        result.append(nodes.raw("", f'<script type="{STATE}">{needed}</script>', format="html"))
        result[0]["names"].append(nodes.fully_normalize_name(self.options["name"]))
        self.state.document.note_explicit_target(result[0], result[0])
        return result


def picture_of(env, bundle, alt):
    """The picture of a figure's first state, where MyST-NB keeps it."""
    content = a2b_base64("".join(bundle["image/png"]))
    folder = Path(env.mystnb_config.output_folder)
    target = folder / f"{hashlib.sha256(content).hexdigest()}.png"
    folder.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)
    uri = "/" + Path(os.path.relpath(target, env.srcdir)).as_posix()
    return nodes.image(uri=uri, alt=alt)


def outputs_of(notebook):
    """Pairs of a shown widget's id and the output that shows it."""
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if VIEW in data:
                yield data[VIEW]["model_id"], data


def closure(state, model_id, found):
    """Enter a figure's model and its layout in `found`: a notebook gets no more than it shows."""
    for name in (model_id, f"{model_id}-layout"):
        found[name] = state[name]


def share(states, minify):
    """What a page's figures need, as one script: their code made short, common beginnings once.

    Each figure carries the whole kit, in its module and in its style sheet, and its own after it.
    The host puts the beginnings back.
    """
    models, beginnings = {}, {}
    for stored in states:
        models |= stored["state"]
    for name, kind in (("_esm", "module"), ("_css", "rules")):
        holders = [model["state"] for model in models.values() if name in model["state"]]
        texts = sorted({state[name] for state in holders})
        short = dict(zip(texts, minify(kind, texts), strict=True))
        common = os.path.commonprefix([short[state[name]] for state in holders])  # noqa: RUF071
        beginnings[name] = common
        for state in holders:
            state[name] = short[state[name]][len(common) :]
    return as_script({"beginnings": beginnings, "state": models})


def as_script(content):
    """JSON that may stand inside a script element: no `</script>` can end it early."""
    text = json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return text.replace("</", "<\\/")


def setup(app):
    app.add_directive("live-figure", LiveFigure)
    app.add_post_transform(ShowWidgetsLive)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
