"""LiveTranslator: type into a trained translator of numbers (chapter 13)."""

import json
import re
from base64 import b64encode
from typing import Any

import traitlets

from ...pretrained.bundled import bundled_folder
from .base import LiveFigure, Number, OneOf, compose, dress

# A greedy translation. Percentages have two hexadecimal digits each: shares is the probability of
# each piece, weights has the attention of each piece and head to each piece of the text.
RECORD = {
    "text": "forty-two",
    "german": "zweiundvierzig",
    "shares": "58385a5b5c5c5c5b5b5e585d56555c",
    "weights": (
        "05015d071647121f332804381f01440e0a4c0000630400601e33131a143626330b23360b26003e0d0d4a0716"
        "472e003612450d0e0452180448272d1037022c0a03571427291d00460064000b0158055e01131d342c033500"
        "6300024d150400600063010e045224122e0d4315025e0432042e016201570409046001123a191b3811140c43"
        "026201310b28142b251e3e092a0535055c032d072f0d4b0b08570535032c0c500702620052030f0f3c1a3603"
        "2b13034e331c15520c065f020343041d0162020d0354222c1616024c28013b0360000459070c005803570a18"
        "252725043b1d390f4902195004102939035f01040060032d082f124110143a16520111055d022e290d210043"
        "09461545021d2002431f3a0a1d3d0a3c1b0d016300600004035f0222053d2a0f2a3e0c1a2e062f045e020258"
        "0a2c0038015c07240b352e122326291634131d3b20090d4f081b45040160030b570213024f1c3b0d24231e42"
        "1a0804600055020c"
    ),
}
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
