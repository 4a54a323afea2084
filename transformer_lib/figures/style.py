"""The book's matplotlib style.

A figure is a light card with dark ink: no ink has enough contrast on both a white and a black page.

Colors are those of Okabe and Ito (2008, "Color Universal Design"), which colorblind readers can
tell apart.
"""

from typing import Any

__all__ = ["ACCENT", "PALETTE", "settings", "use"]

PALETTE = ("#d55e00", "#e69f00", "#0072b2", "#009e73", "#cc79a7", "#56b4e9")
CARD, INK, QUIET, LINE = "#fbfbf9", "#1d2126", "#565d66", "#d9dbd7"
ACCENT = "#0b66a8"


def settings() -> dict[Any, Any]:
    """Return the style as matplotlib settings (``rcParams``).

    >>> settings()["figure.dpi"]
    144
    """
    from cycler import cycler

    # Blue and orange first: most plots have one or two lines.
    order = (PALETTE[2], PALETTE[0], PALETTE[3], PALETTE[1], PALETTE[4], PALETTE[5])
    return {
        "figure.facecolor": CARD,
        "savefig.facecolor": CARD,
        "figure.figsize": (6.4, 3.6),
        "figure.dpi": 144,
        "savefig.dpi": 144,
        "figure.constrained_layout.use": True,
        "figure.constrained_layout.h_pad": 0.1,
        "figure.constrained_layout.w_pad": 0.1,
        "axes.facecolor": CARD,
        "axes.edgecolor": QUIET,
        "axes.labelcolor": INK,
        "axes.titlecolor": INK,
        "axes.titlesize": 11,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.labelsize": 10,
        "axes.linewidth": 0.8,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.prop_cycle": cycler(color=order),
        "grid.color": LINE,
        "grid.linewidth": 0.7,
        "xtick.color": QUIET,
        "ytick.color": QUIET,
        "xtick.labelsize": 9,
        "ytick.labelsize": 9,
        "xtick.labelcolor": INK,
        "ytick.labelcolor": INK,
        "text.color": INK,
        "font.size": 10,
        "font.family": "sans-serif",
        "lines.linewidth": 2.0,
        "lines.markersize": 5,
        "legend.frameon": False,
        "legend.fontsize": 9,
        "image.cmap": "Blues",
        "image.interpolation": "nearest",
        # so that the same drawing gives the same bytes
        "svg.hashsalt": "attention",
    }


def use() -> None:
    """Use the book's style for every figure from here on."""
    import matplotlib as mpl

    mpl.rcParams.update(settings())
