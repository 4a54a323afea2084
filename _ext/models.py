"""The trained translator beside the pages, for figures that a reader asks to load it.

A page opened from a file may load scripts and nothing else. So the model is a text in several
scripts, in `_static/models`: each puts its part where the figure looks for it. What the text holds,
the figure says: `model_text` in figures/widgets/live_translator.py.
"""

import json
import math
from base64 import b64encode
from pathlib import Path

from book import write

NAME, PARTS = "number-words", 6


def model_text(folder):
    """A bundled model as its figure reads it."""
    config = json.loads(Path(folder, "config.json").read_bytes())["config"]
    weights = b64encode(Path(folder, "model.safetensors").read_bytes()).decode()
    return json.dumps({"config": config, "weights": weights})


def scripts(name, text):
    """The text's parts as scripts, the first first."""
    size = math.ceil(len(text) / PARTS)
    for number in range(PARTS):
        place = f'((globalThis.bookModels ??= {{}})["{name}"] ??= [])[{number}]'
        yield f"{place} = {json.dumps(text[number * size : (number + 1) * size])};\n"


def write_models(app):
    text = model_text(Path(app.srcdir, "transformer_lib", "pretrained", NAME))
    for number, script in enumerate(scripts(NAME, text)):
        write(Path(app.outdir, "_static", "models", f"{NAME}-{number}.js"), script.encode())


def setup(app):
    app.connect("builder-inited", write_models)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
