"""Trained models beside the pages, for figures that a reader asks to load one.

A page that is a file may load scripts and nothing else. So a model is a text in several scripts, in
`_static/models`: each puts its part where the figure looks for it. What the text of the numbers'
translator holds, the figure says: `model_text` in figures/widgets/live_translator.py.

The translator of captions is off: no build has it until `caption_translator` in _config.yml names
the folder that `tests/bench/ship_captions.py` has written. Then its parts and its notice are beside
the pages too, and pages with the figure learn that it is there.
"""

import json
import math
from base64 import b64encode
from pathlib import Path

from docutils import nodes
from sphinx.errors import ExtensionError

from book import write

PARTS = 6
NUMBERS, CAPTIONS = "number-words", "captions"
PART_OF_CAPTIONS = 250_000  # characters
FIGURE = 'data-model="LiveTranslator'


def model_text(folder):
    """A shipped model as its figure reads it."""
    config = json.loads(Path(folder, "config.json").read_bytes())["config"]
    weights = b64encode(Path(folder, "model.safetensors").read_bytes()).decode()
    return json.dumps({"config": config, "weights": weights})


def scripts(name, text, parts=PARTS):
    """The text's parts as scripts, the first first."""
    size = math.ceil(len(text) / parts)
    for number in range(parts):
        place = f'((globalThis.bookModels ??= {{}})["{name}"] ??= [])[{number}]'
        yield f"{place} = {json.dumps(text[number * size : (number + 1) * size])};\n"


def captions(app):
    """What is known of the translator of captions before it is loaded, and its scripts.

    None and none, where the setting is off.
    """
    if not (setting := app.config.caption_translator):
        return None, []
    folder = Path(app.srcdir, setting)
    try:
        text = Path(folder, "captions.json").read_text(encoding="utf-8")
        notice = Path(folder, "NOTICE.txt").read_text(encoding="utf-8")
    except OSError as error:
        raise ExtensionError(
            f"caption_translator in _config.yml is {setting!r}: {error}. Write the folder with "
            "tests/bench/ship_captions.py, or leave the setting empty"
        ) from error
    config = json.loads(text)["config"]
    parts = list(scripts(CAPTIONS, text, math.ceil(len(text) / PART_OF_CAPTIONS)))
    about = {
        "parts": len(parts),
        "megabytes": f"{sum(map(len, parts)) / 1e6:.1f}",
        "layers": config["n_decoder_layers"] or config["n_layers"],
        "heads": config["n_heads"],
        "notice": " ".join(notice.split()),
    }
    return about, parts


def write_models(app):
    if app.builder.format != "html":
        return
    folder = Path(app.outdir, "_static", "models")
    wanted = {}
    text = model_text(Path(app.srcdir, "transformer_lib", "pretrained", NUMBERS))
    for number, script in enumerate(scripts(NUMBERS, text)):
        wanted[f"{NUMBERS}-{number}.js"] = script
    about, parts = captions(app)
    for number, script in enumerate(parts):
        wanted[f"{CAPTIONS}-{number}.js"] = script
    if about:
        wanted[f"{CAPTIONS}-NOTICE.txt"] = about["notice"] + "\n"
    for name, content in wanted.items():
        write(folder / name, content.encode())
    for path in set(folder.iterdir()) - {folder / name for name in wanted}:
        path.unlink()  # from a build with another setting


def outdated(app, env, added, changed, removed):
    """All pages are written anew when the translator of captions comes, goes or is another one."""
    before, env.caption_translator = getattr(env, "caption_translator", None), captions(app)[0]
    return list(env.found_docs) if before != env.caption_translator else []


def tell(app, pagename, templatename, context, doctree):
    """Pages with the figure say that there is a translator of captions."""
    found = app.env.caption_translator
    if app.builder.format != "html" or doctree is None or found is None:
        return
    if any(FIGURE in raw.astext() for raw in doctree.findall(nodes.raw)):
        text = json.dumps(json.dumps(found)).replace("</", "<\\/")
        app.add_js_file(None, body=f"document.documentElement.dataset.captions = {text};")


def setup(app):
    app.add_config_value("caption_translator", "", "")
    app.connect("builder-inited", write_models)
    app.connect("env-get-outdated", outdated)
    app.connect("html-page-context", tell)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
