"""ScheduleExplorer: how the learning rate rises and falls (chapter 13)."""

from typing import Any

import traitlets

from .base import LiveFigure, Number, Numbers, OneOf, compose, dress


class ScheduleExplorer(LiveFigure):
    """The paper's schedule next to a constant rate, a cosine and, if given, a recorded run.

    Args:
        height: what sets the curve's height: ``"d_model"``, as in the paper, or ``"peak"``.
        d_model: a power of two from 64 to 2048.
        warmup: warm-up steps, 10 to 10,000.
        peak: the highest rate, 0.00001 to 0.01, if ``height="peak"``.
        steps: the last step to show.
        step: the selected step.
        run: a recorded run, ``[[step, loss, rate], …]`` by step, or empty.
        constant: whether to show a constant rate.
        cosine: whether to show a cosine.
        logarithmic: whether both axes are logarithmic.

    Raises:
        ValueError: a number out of range, ``step`` or ``warmup`` beyond ``steps``, or a run whose
            steps don't rise.

    >>> ScheduleExplorer(warmup=2000, height="peak", peak=0.005)
    ScheduleExplorer(height='peak', d_model=512, warmup=2000, peak=0.005)
    """

    _esm = compose("schedule_explorer.js")
    _css = dress("schedule_explorer.css")
    shown = ("height", "d_model", "warmup", "peak")

    height = OneOf("d_model", "peak")
    d_model = Number(512, low=64, high=2048, whole=True)
    warmup = Number(4000, low=10, high=10_000, whole=True)
    peak = Number(0.0007, low=1e-5, high=1e-2)
    steps = Number(20_000, low=100, high=10_000_000, whole=True)
    step = Number(1000, low=1, high=10_000_000, whole=True)
    run = Numbers([], depth=2, low=0, high=1e9)
    constant = traitlets.Bool(False).tag(sync=True)
    cosine = traitlets.Bool(True).tag(sync=True)
    logarithmic = traitlets.Bool(False).tag(sync=True)

    def __init__(self, **numbers: Any) -> None:
        super().__init__(**numbers)
        for name in ("step", "warmup"):
            if getattr(self, name) > self.steps:
                raise ValueError(
                    f"{name} must be at most steps, {self.steps}; got {getattr(self, name)}"
                )

    @traitlets.validate("d_model")
    def _power_of_two(self, proposal: Any) -> int:
        if proposal["value"].bit_count() != 1:
            raise ValueError(f"d_model must be a power of two; got {proposal['value']}")
        return proposal["value"]

    @traitlets.validate("run")
    def _in_order(self, proposal: Any) -> list:
        run = proposal["value"]
        for i, record in enumerate(run):
            if len(record) != 3:
                raise ValueError(f"run[{i}] must be a step, a loss and a rate; got {record}")
            if i and record[0] <= run[i - 1][0]:
                raise ValueError(
                    f"run[{i}] must come after step {run[i - 1][0]}; got step {record[0]}"
                )
        return run
