"""Roofline: whether a machine waits for memory or for arithmetic (chapter 17)."""

import math
from typing import Any

import traitlets

from ...results import load_result
from .. import style
from .base import LiveFigure, Number, Numbers, compose, dress

NOTE = (
    "The CPU core and its rings are measured: {}. The GPUs’ limits, in 16 bits, are from the "
    "papers on FlashAttention-2 and FlashAttention-3."
)
MEMORY, ARITHMETIC = style.PALETTE[0], style.PALETTE[2]


class Roofline(LiveFigure):
    r"""The times that arithmetic alone and memory alone take for a matrix product.

    A product of :math:`n` tokens with a matrix of :math:`d` by :math:`d` numbers of :math:`s` bytes
    takes

    .. math:: 2 n d^2 \text{ FLOPs}, \quad s\,(d^2 + 2 n d) \text{ bytes}

    if each number is read or written once. On a machine with at most :math:`R` FLOPs and :math:`B`
    bytes per second it takes at least the longer of the two times. So with :math:`I` FLOPs per
    byte, it does at most :math:`\min(R, B I)` FLOPs per second: the roofline.

    Args:
        machines: 1 to 4 rows: a name of 1 to 12 letters, GFLOP/s, GB/s, and bytes per number. By
            default a core measured by ``experiments/roofline.py``, and ``GPUS``.
        rate: the machine's GFLOP/s, 0.1 to 2,000,000; the first machine's by default.
        bandwidth: its memory's GB/s, 0.1 to 10,000; the first machine's by default.
        tokens: tokens multiplied at once: a power of two, 1 to 4096.
        width: width of the tokens and of the matrix: a power of two, 64 to 16,384.
        size: bytes per number, 2 or 4; the first machine's by default.
        marks: measurements: machine (from 0), tokens, width, and seconds. By default those of the
            measured core.

    Raises:
        ValueError: a number out of range, or a machine or mark of the wrong form.

    Source:
        Williams, Waterman and Patterson (2009), *Roofline*. A100: Dao (2024), *FlashAttention-2*,
        sections 2.1 and 3.1, the model with the slower memory. H100: Shah et al. (2024),
        *FlashAttention-3*, sections 2.2 and 3.2.

    >>> figure = Roofline(machines=[["a core", 80, 20, 4]])
    >>> figure
    Roofline(rate=80.0, bandwidth=20.0, tokens=1, width=2048, size=4)
    >>> arithmetic, memory = figure.seconds()
    >>> f"{1000 * arithmetic:.2f} ms and {1000 * memory:.2f} ms"
    '0.10 ms and 0.84 ms'
    >>> figure.crossing()
    9
    """

    GPUS = (("A100", 312_000.0, 1_500.0, 2), ("H100", 989_000.0, 3_350.0, 2))
    """Two machines: name, GFLOP/s, GB/s, and bytes per number."""

    _esm = compose("roofline.js")
    _css = dress("roofline.css")
    shown = ("rate", "bandwidth", "tokens", "width", "size")

    machines = traitlets.List().tag(sync=True)
    rate = Number(1, low=0.1, high=2e6)
    bandwidth = Number(1, low=0.1, high=1e4)
    tokens = Number(1, low=1, high=4096, whole=True)
    width = Number(2048, low=64, high=16_384, whole=True)
    size = Number(4, low=2, high=4, whole=True)
    marks = Numbers([], depth=2, low=0, high=1e9)

    def __init__(self, **numbers: Any) -> None:
        if "machines" not in numbers:
            record = load_result("roofline")
            core = ["a CPU core", record["gflops"], record["gbytes"], record["bytes"]]
            marks = [
                [0, int(tokens), record["width"], float(f"{spent}e-3")]
                for tokens, spent in record["milliseconds"].items()
            ]
            note = NOTE.format(record["hardware"])
            numbers = {"machines": [core, *self.GPUS], "marks": marks, "note": note} | numbers
        super().__init__(**numbers)
        first = dict(zip(("rate", "bandwidth", "size"), self.machines[0][1:], strict=True))
        self.set_state({k: v for k, v in first.items() if k not in numbers})
        for i, mark in enumerate(self.marks):
            if len(mark) != 4 or not mark[0] < len(self.machines) or min(mark[1:]) <= 0:
                raise ValueError(
                    f"marks[{i}] must be a machine below {len(self.machines)}, tokens, width and "
                    f"seconds, these above 0; got {mark}"
                )

    @traitlets.validate("machines")
    def _machines(self, proposal: Any) -> list[list]:
        found = proposal["value"]
        if not 1 <= len(found) <= 4:
            raise ValueError(f"machines must be 1 to 4; got {len(found)}")
        for i, row in enumerate(found):
            named = isinstance(row, (list, tuple)) and len(row) == 4 and isinstance(row[0], str)
            if not named or not 1 <= len(row[0]) <= 12:
                raise ValueError(
                    f"machines[{i}] must be a name of 1 to 12 letters and three numbers; got {row}"
                )
            _, rate, bandwidth, size = row
            if not (0.1 <= rate <= 2e6 and 0.1 <= bandwidth <= 1e4 and size in (2, 4)):
                raise ValueError(
                    f"machines[{i}] must have 0.1 to 2,000,000 GFLOP/s, 0.1 to 10,000 GB/s, and "
                    f"2 or 4 bytes; got {row}"
                )
        return [[name, float(rate), float(bw), int(size)] for name, rate, bw, size in found]

    @traitlets.validate("tokens", "width")
    def _power_of_two(self, proposal: Any) -> int:
        if proposal["value"].bit_count() != 1:
            name = proposal["trait"].name
            raise ValueError(f"{name} must be a power of two; got {proposal['value']}")
        return proposal["value"]

    @traitlets.validate("size")
    def _two_or_four(self, proposal: Any) -> int:
        if proposal["value"] == 3:
            raise ValueError("size must be 2 or 4; got 3")
        return proposal["value"]

    def operations(self) -> int:
        """Return the FLOPs of the product."""
        return 2 * self.tokens * self.width**2

    def bytes(self) -> int:
        """Return the bytes read or written: matrix, tokens, results."""
        return self.size * (self.width**2 + 2 * self.tokens * self.width)

    def seconds(self) -> tuple[float, float]:
        """Return the times that arithmetic alone and memory alone take."""
        return self.operations() / (1e9 * self.rate), self.bytes() / (1e9 * self.bandwidth)

    def crossing(self) -> int | None:
        """Return the fewest tokens for which arithmetic takes longer; None if it never does."""
        spare = self.width * self.bandwidth - self.size * self.rate
        if spare <= 0:
            return None
        return math.ceil(self.size * self.width * self.rate / (2 * spare))
