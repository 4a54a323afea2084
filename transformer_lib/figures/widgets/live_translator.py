"""LiveTranslator: type into a trained translator of numbers (chapter 13)."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from typing import TYPE_CHECKING, Any

import traitlets

from ...pretrained.bundled import bundled_folder
from .base import LiveFigure, Number, OneOf, compose, dress
from .live_translator_still import RECORD, still, unpack

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LONGEST = 44  # characters; the longest number below 10,000 has 42
NOTE = (
    "The weights come with this book, in 8 bits. Of 1,000 numbers kept back from its training, "
    "greedy decoding gets 994 right, with 8 bits and with 32. Two of the other six are “three” and "
    "“four”."
)


class LiveTranslator(LiveFigure):
    """The bundled ``"number-words"`` Transformer in the page: type a number in English.

    The model loads when the reader asks for it: on a published page from scripts beside it, in a
    notebook from the kernel. Until then the figure shows a recorded translation.

    Args:
        text: a number below 10,000 in English words, or any other text, to see what happens: at
            most 44 Latin letters, digits, spaces and punctuation marks.
        search: ``"greedy"``, or ``"beam"`` with a beam of 4.
        head: the cross-attention head that tints the pieces; 0 to 3 belong to the first layer.
        place: the selected German piece, from 0.

    Raises:
        ValueError: a text that's too long or has other characters, or a number out of range.

    >>> LiveTranslator(text="forty-two")
    LiveTranslator(text='forty-two', search='greedy', head=6, place=0)
    """

    _esm = compose("live_translator.js", engine="translator.js")
    _css = dress("live_translator.css")
    shown = ("text", "search", "head", "place")

    text = traitlets.Unicode(RECORD["text"]).tag(sync=True)
    search = OneOf("greedy", "beam")
    head = Number(6, low=0, high=7, whole=True)
    place = Number(0, low=0, high=43, whole=True)
    pieces = traitlets.List(help="the text of each id").tag(sync=True)
    record = traitlets.Dict(RECORD, help="one translation").tag(sync=True)

    def __init__(self, **numbers: Any) -> None:
        super().__init__(**{"note": NOTE, "pieces": vocabulary(), **numbers})
        if not re.fullmatch(r"[a-zA-ZÀ-ÖØ-öø-ɏ0-9 .'!?-]{0,44}", self.text):
            raise ValueError(
                f"text must be at most {LONGEST} Latin letters, digits, spaces and . ' ! ? -; "
                f"got {self.text!r}"
            )
        self.on_msg(self._answer)

    def _answer(self, _: Any, content: Any, buffers: Any) -> None:
        if content == {"ask": "translator"}:
            self.send({"translator": model_text()})

    def draw(self) -> Figure:
        if (self.text, self.search) != (RECORD["text"], "greedy"):
            return still(self.text, "", None, self.head, self.place)
        _, weights = unpack(RECORD)
        return still(self.text, RECORD["german"], weights, self.head, self.place)


def vocabulary() -> list[str]:
    """Return the text of each id of the translator's tokenizer."""
    stored = json.loads((bundled_folder("number-words") / "tokenizer.json").read_bytes())
    ids = {word["content"]: word["id"] for word in stored["added_tokens"]}
    ids |= stored["model"]["vocab"]
    return sorted(ids, key=ids.__getitem__)


def model_text() -> str:
    """Return the translator as the page reads it: its config, and its weights in base64."""
    folder = bundled_folder("number-words")
    config = json.loads((folder / "config.json").read_bytes())["config"]
    weights = b64encode((folder / "model.safetensors").read_bytes()).decode()
    return json.dumps({"config": config, "weights": weights})
