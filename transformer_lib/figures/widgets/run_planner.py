"""RunPlanner: what a training run needs in bytes and in hours (chapter 17)."""

import math
from typing import Any

from .base import LiveFigure, Number, Numbers, OneOf, compose, dress

NOTE = "Inner width 4 d_model, sentences of 32 tokens, one vocabulary of 37,000; Adam in 32 bits."


def parameters(d_model: int, n_layers: int, vocab_size: int) -> int:
    """Return the number of parameters of a pre-norm Transformer with ``d_ff = 4 d_model``.

    >>> parameters(512, 6, 37_000)
    63084544
    """
    d = d_model
    return n_layers * (28 * d * d + 32 * d) + 4 * d + vocab_size * d


class RunPlanner(LiveFigure):
    r"""The memory of a training run, in four parts, and how long the run takes.

    Parameters, gradients and Adam take :math:`4 + 4 + 8` bytes per parameter, and in mixed
    precision 2 more for the 16-bit copy. Activations saved for the backward pass take, for each
    token of a micro-batch, ``kept[0]`` bytes times ``d_model`` in each layer and ``kept[1]`` bytes
    times the vocabulary.

    Args:
        d_model: width of the vectors, 64 to 4096.
        n_layers: layers of each stack, 1 to 48.
        tokens: tokens per side in an update, 256 to 262,144.
        pieces: micro-batches of an update, 1 to 256.
        precision: ``"float32"`` or ``"mixed"``.
        speed: GFLOP/s that the run reaches, 1 to 1,000,000.
        memory: the machine's GiB, 1 to 256.
        kept: two numbers for float32 and two for mixed precision: bytes per token and unit of
            width in a layer of both stacks, and bytes per token and vocabulary entry. The defaults
            are for plain attention with heads of width 64 and sentences of 32 tokens (chapter 17).
        vocab_size: size of the shared vocabulary.
        total: tokens per side in the whole run; the paper's has 100,000 updates of 25,000.
        length: tokens per sentence.

    Raises:
        ValueError: a number out of range, or ``kept`` that isn't two pairs.

    Source:
        Vaswani et al. (2017), sections 5.1 and 5.2; Chowdhery et al. (2022), appendix B.

    >>> planner = RunPlanner(pieces=64)
    >>> [f"{x:.1f}" for x in planner.gibibytes()]
    ['0.2', '0.2', '0.5', '0.3']
    """

    _esm = compose("run_planner.js")
    _css = dress("run_planner.css")
    shown = ("d_model", "n_layers", "tokens", "pieces", "precision")

    d_model = Number(512, low=64, high=4096, whole=True)
    n_layers = Number(6, low=1, high=48, whole=True)
    tokens = Number(25_000, low=256, high=262_144, whole=True)
    pieces = Number(1, low=1, high=256, whole=True)
    precision = OneOf("float32", "mixed")
    speed = Number(100.0, low=1, high=1e6)
    memory = Number(16.0, low=1, high=256)
    kept = Numbers([[222.0, 4.0], [126.0, 4.0]], depth=2, low=0, high=1e6)
    vocab_size = Number(37_000, low=10, high=1_000_000, whole=True)
    total = Number(2.5e9, low=1, high=1e15)
    length = Number(32, low=1, high=100_000, whole=True)

    def __init__(self, **numbers: Any) -> None:
        super().__init__(**{"note": NOTE} | numbers)
        if [len(pair) for pair in self.kept] != [2, 2]:
            raise ValueError(f"kept must be two pairs of numbers; got {self.kept}")

    def gibibytes(self) -> list[float]:
        """Return the GiB of parameters, gradients, Adam and saved activations."""
        count = parameters(self.d_model, self.n_layers, self.vocab_size)
        layer, ends = self.kept[self.precision == "mixed"]
        each = layer * self.n_layers * self.d_model + ends * self.vocab_size
        at_once = math.ceil(self.tokens / self.pieces)
        first = 6 if self.precision == "mixed" else 4  # bytes, including a 16-bit copy
        return [n / 2**30 for n in (first * count, 4 * count, 8 * count, at_once * each)]
