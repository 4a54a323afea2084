"""BeamGrower: what beam search keeps and what it loses (chapter 14)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import traitlets

from .. import style
from .base import MADE_UP, LiveFigure, Number, Numbers, all_or_none, compose, dress, same_length
from .beam_tree import PENALTIES, SIZES, Step, Tree, greedy_end, record, search, stand_in

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ...data import Tokenizer
    from ...decoding import StepModel

COLUMNS = 5  # of the still picture


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

    def tree(self) -> Tree:
        return Tree(self.parents, self.tokens, self.gains)

    def search(self) -> list[Step]:
        """Return all steps of the current search."""
        return search(self.tree(), self.beam_size, self.length_penalty, self.max_len)

    def draw(self) -> Figure:
        from matplotlib.figure import Figure

        tree, steps = self.tree(), self.search()
        steps = steps[: self.step]
        greedy = tree.path(greedy_end(tree))
        last = steps[-1] if steps else Step([], [])
        going = [candidate.node for candidate in last.candidates if candidate.fate == "kept"]
        alive = {node for end in last.ends for node in tree.path(end.node)}
        alive |= {node for leaf in going for node in tree.path(leaf)}

        figure = Figure(figsize=(6.4, max(2.6, 0.42 * self.max_len)), dpi=110)
        ax, listed = figure.subplots(1, 2, width_ratios=(1.6, 1))
        places: dict[int, tuple[float, float]] = {}
        for row, (candidates, _) in enumerate(steps):
            for column, (node, total, fate) in enumerate(candidates[:COLUMNS]):
                x, y = places[node] = (column, row)
                color = style.ACCENT if node in alive else style.QUIET
                if (start := places.get(tree.parents[node])) is not None:
                    ax.plot(
                        (start[0], x), (start[1] + 0.3, y - 0.32), color=color, lw=1, zorder=1,
                        ls="-" if fate != "lost" else ":",
                    )  # fmt: skip
                edge = style.PALETTE[0] if node in greedy else color
                ax.annotate(
                    f"{tree.tokens[node].lstrip('▁') or '▁'}\n{total:.2f}", (x, y), ha="center",
                    va="center", fontsize=7, color=style.INK if node in alive else style.QUIET,
                    bbox={"boxstyle": "round,pad=0.25", "fc": style.CARD, "ec": edge,
                          "ls": ":" if fate == "lost" else "-"},
                )  # fmt: skip
        rows = max(len(steps), 4)
        ax.set(xlim=(-0.6, COLUMNS - 0.4), ylim=(rows - 0.4, -0.6), xticks=[])
        ax.set_yticks(range(len(steps)), range(1, len(steps) + 1))
        ax.set_ylabel("step")
        lines = [f"{end.rank:.2f}  {tree.text(end.node)}" for end in last.ends] or ["none yet"]
        text = "finished, by score\n" + "\n".join(lines)
        text += f"\n\ngreedy\n{tree.text(greedy[-1])}"
        listed.text(0, 0.95, text, va="top", transform=listed.transAxes, fontsize=9, wrap=True)
        listed.set_axis_off()
        ax.grid(False)
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
        figure.suptitle(
            f"beam size {self.beam_size}, length penalty {self.length_penalty:g}, "
            f"after {len(steps)} steps", fontsize=11,
        )  # fmt: skip
        return figure
