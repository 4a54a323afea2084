"""Plots that more than one chapter draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["ROOM_FOR_NUMBERS", "attention_map", "ink_on"]

ROOM_FOR_NUMBERS = 12
"""Maps with at most this many rows and columns show each weight as a number."""


def ink_on(color: Any) -> str:
    """Return "black" or "white", whichever has more contrast on a color (red, green, blue; 0 to 1).

    Both have a contrast of 4.6 at the relative luminance 0.179 (WCAG 2.2, "contrast ratio").

    >>> ink_on((1, 1, 0.9)), ink_on((0.03, 0.19, 0.42))
    ('black', 'white')
    """
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in color[:3]]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "black" if luminance > 0.179 else "white"


def attention_map(
    weights: Any,
    *,
    queries: Sequence[str],
    keys: Sequence[str],
    ax: Axes | None = None,
    title: str | None = None,
) -> Axes:
    """Draw attention weights: a row per query, a column per key, darker for larger weights.

    Colors run from 0 to 1 in every map, so that maps can be compared.

    Args:
        weights: ``(T, S)``, a tensor or array-like, each weight from 0 to 1.
        queries: ``T`` labels.
        keys: ``S`` labels.
        ax: where to draw; a new figure if None.
        title: what to look for.

    Returns:
        The axes with the map.

    Raises:
        ValueError: ``weights`` doesn't have the shape ``(len(queries), len(keys))``, or a weight
            isn't between 0 and 1.

    >>> ax = attention_map([[0.9, 0.1], [0.2, 0.8]], queries=["zwei", "drei"], keys=["two", "six"])
    >>> [text.get_text() for text in ax.texts]
    ['.90', '.10', '.20', '.80']
    """
    import matplotlib.pyplot as plt
    import numpy as np

    if hasattr(weights, "detach"):
        weights = weights.detach().float().cpu()
    table = np.asarray(weights, dtype=float)
    if table.shape != (len(queries), len(keys)):
        raise ValueError(
            f"weights must have the shape (queries, keys) = ({len(queries)}, {len(keys)}); "
            f"got {table.shape}"
        )
    if not (np.isfinite(table).all() and table.min() >= 0 and table.max() <= 1 + 1e-4):
        raise ValueError(
            f"weights must lie between 0 and 1; got {table.min():.3g} to {table.max():.3g}"
        )

    rows, columns = table.shape
    if ax is None:
        width, height = (1.2 + 0.5 * max(n, 3) for n in (columns, rows))
        _, ax = plt.subplots(figsize=(min(width, 9.0), min(height, 9.0)))
    image = ax.imshow(table, cmap="Blues", vmin=0, vmax=1, aspect="equal")
    ax.grid(False)
    ax.spines[:].set_visible(False)
    ax.xaxis.tick_top()
    ax.xaxis.set_label_position("top")
    ax.tick_params(length=0)
    # Rotated labels are anchored at their end, so that each points at its own column.
    turned = sum(len(key) for key in keys) > 5 * columns or columns > ROOM_FOR_NUMBERS
    how = {"rotation": 60, "ha": "left", "rotation_mode": "anchor"} if turned else {}
    ax.set_xticks(range(columns), list(keys), **how)
    ax.set_yticks(range(rows), list(queries))
    ax.set_xlabel("keys")
    ax.set_ylabel("queries")
    if title:
        ax.set_title(title, pad=10)
    if max(rows, columns) <= ROOM_FOR_NUMBERS:
        for i, j in np.ndindex(rows, columns):
            text = f"{table[i, j]:.2f}"
            ax.text(
                j, i, text.removeprefix("0"), ha="center", va="center", fontsize=8,
                color=ink_on(image.cmap(table[i, j])),
            )  # fmt: skip
    return ax
