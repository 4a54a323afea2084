"""LiveTraining: train a Transformer in the page, next to one without some part (chapter 13)."""

import re
from typing import Any

import traitlets

from .base import LiveFigure, Number, OneOf, compose, dress

# The initial settings of each question: the second run lacks what the question asks about.
QUESTIONS: dict[str, dict[str, Any]] = {
    "all": {"causal": False},
    "mask": {"causal": False, "attention": "decoder"},
    "residual": {"residual": False},
    "positions": {"positions": "none"},
    "heads": {"several": False},
    "scale": {"scale": False, "base": "wide"},
    "warmup": {"warmup": False, "base": "deep"},
}
EXAMPLES = {"reverse": "abcdefgh", "copy": "abcdefgh", "sort": "hgcabfde", "numbers": "73"}
NOTE = "Computed here, on your machine. One run is one draw: try another seed too."


class LiveTraining(LiveFigure):
    """Two small Transformers learn a task in the page; the second lacks what the reader turns off.

    Nothing runs until the reader starts it. Both start with the same weights and see the same
    words, 32 per step; they're tested on 100 words that neither has seen.

    Args:
        question: ``"all"`` shows every switch; ``"mask"``, ``"residual"``, ``"positions"``,
            ``"heads"``, ``"scale"`` and ``"warmup"`` show one, turned off.
        task: ``"reverse"``, ``"copy"`` or ``"sort"`` eight letters from a to j, or ``"numbers"``:
            write 0 to 99 in words.
        base: what both runs start from: ``"small"``, 4 heads of width 8; ``"wide"``, 2 heads of
            width 32; ``"deep"``, 2 layers with the norm after the sum, at twice the rate.
        example: the text that both write as they learn: 1 to 8 letters from a to j, or a number.
        guess: what the reader expects of the second run: ``"same"``, ``"worse"``, ``"none"``,
            ``"blind"`` (a low loss, but nothing right), or ``""`` for no guess yet.
        seed: seed of the initial weights and of the words, 0 to 99.
        scale: whether the second run divides its scores by the root of the head's width.
        causal: whether it has a causal mask.
        residual: whether it has residual connections.
        several: whether it has several heads.
        order: whether its norms come before or after the sum as in the first run.
        warmup: whether its learning rate rises for 50 steps first.
        positions: ``"waves"`` (sinusoidal), ``"learned"`` or ``"none"``.
        rate: its peak rate as a multiple of the first run's, 0.1 to 10.
        smoothing: its label smoothing, 0 to 0.3.
        attention: whose maps to show: ``"cross"``, ``"encoder"`` or ``"decoder"``.

    Raises:
        ValueError: a number out of range, or an example that doesn't fit the task.

    >>> LiveTraining(question="mask")
    LiveTraining(question='mask', task='reverse', base='small', seed=0)
    """

    _esm = compose("live_training.js", engine=True)
    _css = dress("live_training.css")
    shown = ("question", "task", "base", "seed")

    question = OneOf(*QUESTIONS)
    task = OneOf(*EXAMPLES)
    base = OneOf("small", "wide", "deep")
    example = traitlets.Unicode("abcdefgh").tag(sync=True)
    guess = OneOf("", "same", "worse", "none", "blind")
    seed = Number(0, low=0, high=99, whole=True)
    scale = traitlets.Bool(True).tag(sync=True)
    causal = traitlets.Bool(True).tag(sync=True)
    residual = traitlets.Bool(True).tag(sync=True)
    several = traitlets.Bool(True).tag(sync=True)
    order = traitlets.Bool(True).tag(sync=True)
    warmup = traitlets.Bool(True).tag(sync=True)
    positions = OneOf("waves", "learned", "none")
    rate = Number(1.0, low=0.1, high=10)
    smoothing = Number(0.0, low=0, high=0.3)
    attention = OneOf("cross", "encoder", "decoder")

    def __init__(self, **numbers: Any) -> None:
        begins = QUESTIONS.get(numbers.get("question", "all"), {})
        numbers = {"note": NOTE, **begins, **numbers}
        numbers.setdefault("example", EXAMPLES.get(numbers.get("task", "reverse"), ""))
        super().__init__(**numbers)
        wanted = "[0-9]|[1-9][0-9]" if self.task == "numbers" else "[a-j]{1,8}"
        if not re.fullmatch(wanted, self.example):
            kind = "a number below 100" if self.task == "numbers" else "1 to 8 letters from a to j"
            raise ValueError(f"example must be {kind} for {self.task}; got {self.example!r}")
