"""A recorded translation for LiveTranslator, and its still picture."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEADS = 8  # of both layers
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


def unpack(record: dict[str, str]) -> tuple[list[int], np.ndarray]:
    """Return a record's probabilities in percent, and its weights ``(T, heads, S)``.

    >>> shares, weights = unpack(RECORD)
    >>> len(shares), weights.shape
    (15, (15, 8, 3))
    """
    shares, weights = (list(bytes.fromhex(record[name])) for name in ("shares", "weights"))
    return shares, np.array(weights).reshape(len(shares), HEADS, -1)


def still(text: str, german: str, weights: np.ndarray | None, head: int, place: int) -> Figure:
    """Draw what each piece attends to, in one head and in all of them."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.2), dpi=110, layout="constrained")
    figure.suptitle(f"{text} → {german or '?'}", fontsize=11)
    parts: Any = figure.subfigures(1, 2, width_ratios=(3, 2))
    large, small = parts
    pieces = [*german, "end"]
    axes = large.subplots()
    axes.set(title=f"layer {head // 4 + 1}, head {head % 4 + 1}", xlabel="reads", ylabel="writes")
    all_axes = small.subplots(4, 2, sharex=True, sharey=True)
    for h, each in enumerate(all_axes.T.flat):
        weight = "bold" if h == head else "normal"
        each.set_title(f"{h // 4 + 1} · {h % 4 + 1}", fontsize=8, fontweight=weight)
        each.set(xticks=[], yticks=[])
        if weights is not None:
            each.imshow(weights[:, h], aspect="auto", cmap="Blues", vmin=0, vmax=100)
    if weights is None:
        axes.set(xticks=[], yticks=[])
        return figure
    axes.imshow(weights[:, head], aspect="auto", cmap="Blues", vmin=0, vmax=100)
    row = min(place, len(pieces) - 1)
    axes.axhspan(row - 0.5, row + 0.5, fill=False, edgecolor="black", lw=1.5)
    axes.set_yticks(range(len(pieces)), pieces, fontsize=7)
    english = ["▁" if part == " " else part for part in re.findall(r"\w+|\W", text)]
    axes.set_xticks(range(len(english)), english, rotation=60, fontsize=8)
    return figure
