"""BeamGrower: what beam search keeps and what it loses (chapter 14)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import traitlets

from .base import MADE_UP, LiveFigure, Number, Numbers, all_or_none, compose, dress, same_length

if TYPE_CHECKING:
    from torch import Tensor

    from ...data import Tokenizer
    from ...decoding import StepModel

END = "<eos>"
SIZES = (1, 2, 3, 4)
PENALTIES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
SEEN = 8  # continuations stored per step, the best ones

# A made-up translator of "ein Hund bellt laut": each line is a sentence, and each word is followed
# by its probability given the words before it. Anything else is rarer.
STAND_IN = """
the .50 dog .40 is .45 loud .70 <eos> .90
the .50 dog .40 is .45 barking .25 loudly .50 <eos> .95
the .50 dog .40 barks .35 loudly .50 <eos> .95
the .50 dog .40 barks .35 <eos> .45
the .50 hound .30 barks .50 <eos> .60
the .50 hound .30 bays .30 <eos> .70
the .50 animal .15 barks .40 <eos> .60
a .42 dog .85 barks .80 <eos> .48
a .42 dog .85 barks .80 loudly .485 <eos> .96
a .42 dog .85 is .12 loud .60 <eos> .90
a .42 dog .85 is .12 barking .35 loudly .60 <eos> .95
a .42 hound .08 barks .70 <eos> .60
one .03 dog .90 barks .80 loudly .50 <eos> .96
loud .02 is .50 a .60 dog .80 <eos> .80
"""


def stand_in() -> dict[str, list]:
    """Return :data:`STAND_IN` as a tree."""
    nodes: dict[tuple, tuple] = {(): (0,)}
    for line in STAND_IN.strip().splitlines():
        parts, path = line.split(), ()
        for word, probability in zip(parts[::2], parts[1::2], strict=True):
            token = word if word == END else f"▁{word}"
            parent, path = path, (*path, token)
            gain = round(math.log(float(probability)), 6)
            nodes.setdefault(path, (len(nodes), nodes[parent][0], token, gain))
    _, parents, tokens, gains = zip(*list(nodes.values())[1:], strict=True)
    return {"parents": [*parents], "tokens": [*tokens], "gains": [*gains]}


class Recorder:
    """Wraps a model for decoding, and records each prefix with its most probable next tokens."""

    def __init__(self, model: Any) -> None:
        self.model, self.config = model, model.config
        self.said: dict[tuple[int, ...], list[tuple[int, float]]] = {}  # by prefix

    def start(self, source: Tensor) -> Asked:
        return Asked(self.model.start(source), [None] * len(source))

    def step(self, tokens: Tensor, state: Asked) -> tuple[Tensor, Asked]:
        logits, state.inner = self.model.step(tokens, state.inner)
        gains, ids = logits.float().log_softmax(-1).topk(min(SEEN, logits.size(-1)))
        state.asked = [
            () if before is None else (*before, token)  # the first token is <bos>
            for before, token in zip(state.asked, tokens.tolist(), strict=True)
        ]
        for asked, row, values in zip(state.asked, ids.tolist(), gains.tolist(), strict=True):
            self.said[asked] = [*zip(row, values, strict=True)]
        return logits, state


class Asked:
    """A model's state, and the prefix that each of its rows has read."""

    def __init__(self, inner: Any, asked: list) -> None:
        self.inner, self.asked = inner, asked

    def reorder(self, index: Tensor) -> None:
        self.inner.reorder(index)
        self.asked = [self.asked[i] for i in index.tolist()]


def record(model: Any, source: Tensor, words: Sequence[str], max_len: int) -> dict:
    """Search a model with every beam size and penalty on offer; return the tree of all prefixes.

    Args:
        model: any model with ``start``, ``step`` and ``config``.
        source: ids ``(1, S)``.
        words: the text of each id.
        max_len: the most tokens to write.
    """
    from ...decoding import beam_search, evaluating

    recorder = Recorder(model)
    with evaluating(model):
        for size in SIZES:
            for exponent in PENALTIES:
                how = {"beam_size": size, "length_penalty": exponent}
                beam_search(recorder, source, max_len=max_len, **how)

    nodes: list[tuple[int, str, float]] = []
    whole: list[tuple[int, ...]] = [()]
    for parent, path in enumerate(whole):  # the loop adds to the list
        if model.config.eos_id in path:
            continue
        for token, gain in recorder.said.get(path, []):
            if math.isfinite(gain):
                text = END if token == model.config.eos_id else words[token]
                nodes.append((parent, text, round(gain, 6)))
                whole.append((*path, token))
    parents, tokens, gains = zip(*nodes, strict=True)
    return {"parents": list(parents), "tokens": list(tokens), "gains": list(gains)}


class BeamGrower(LiveFigure):
    """Beam search, step by step, over a tree of stored next-token probabilities.

    The page searches the tree as :func:`~transformer_lib.beam_search` searches a model: the same
    candidates, length penalty, finished texts and stopping rule.

    Without arguments the tree is made up; :meth:`from_model` records a trained model.

    Args:
        source: the text to translate.
        parents: the parent of each node from node 1 on; node 0 is the empty prefix.
        tokens: each node's token; ``"<eos>"`` ends a text, ``▁`` is a space.
        gains: its log-probability, given the tokens before it.
        max_len: the most tokens of a text, 1 to 40.
        beam_size: 1 to 4.
        length_penalty: 0 to 1 in steps of 0.2; a text's score is its log-probability over
            ((5 + length) / 6) to this power.
        step: how many steps of the search to show, at most.

    Raises:
        ValueError: a number out of range, or lists that don't make a tree.

    >>> BeamGrower(beam_size=1)
    BeamGrower(beam_size=1, length_penalty=0.6, step=4)
    """

    _esm = compose("beam_grower.js")
    _css = dress("beam_grower.css")
    shown = ("beam_size", "length_penalty", "step")

    source = traitlets.Unicode().tag(sync=True)
    parents = Numbers([], low=0, high=100_000)
    tokens = traitlets.List(traitlets.Unicode()).tag(sync=True)
    gains = Numbers([], low=-1e6, high=0)
    max_len = Number(6, low=1, high=40, whole=True)
    beam_size = Number(2, low=min(SIZES), high=max(SIZES), whole=True)
    length_penalty = Number(0.6, low=min(PENALTIES), high=max(PENALTIES))
    step = Number(4, low=0, high=40, whole=True)

    def __init__(self, **numbers: Any) -> None:
        data = ("source", "parents", "tokens", "gains", "max_len")
        if not all_or_none(numbers, data):
            numbers |= stand_in() | {"source": "ein Hund bellt laut"}
            numbers.setdefault("note", MADE_UP)
        super().__init__(**numbers)
        same_length(self, ("parents", "tokens", "gains"))
        if not self.parents:
            raise ValueError("parents must not be empty")
        for i, parent in enumerate(self.parents):
            if parent > i or parent % 1:
                raise ValueError(f"parents[{i}] must be a node before node {i + 1}; got {parent}")

    @traitlets.validate("length_penalty")
    def _on_the_grid(self, proposal: Any) -> float:
        if all(abs(proposal["value"] - exponent) > 1e-6 for exponent in PENALTIES):
            raise ValueError(
                f"length_penalty must be one of {', '.join(map(str, PENALTIES))}; "
                f"got {proposal['value']}"
            )
        return proposal["value"]

    @classmethod
    def from_model(
        cls,
        model: StepModel,
        tokenizer: Tokenizer,
        source: str,
        *,
        max_len: int = 30,
        **numbers: Any,
    ) -> BeamGrower:
        """Record a trained model's predictions for every prefix that the figure can reach.

        Args:
            model: any model with ``start`` and ``step``, such as a ``Transformer``.
            tokenizer: the model's tokenizer.
            source: the text to translate.
            max_len: the most tokens to write.
            numbers: other arguments of the figure: ``beam_size``, ``step``, ``anchor``, ``note``, …
        """
        import torch

        parameters = getattr(model, "parameters", list)()
        device = next((parameter.device for parameter in parameters), None)
        ids = torch.tensor([tokenizer.encode(source)], device=device)
        words = tokenizer.tokens(range(tokenizer.vocab_size))
        return cls(source=source, max_len=max_len, **record(model, ids, words, max_len), **numbers)
