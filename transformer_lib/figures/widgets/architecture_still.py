"""The still picture of the ArchitectureExplorer: the page's drawing, in its wide layout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GAP, STREAM, BIG = 56, 18, 34
BRANCH, CELL, TOP = STREAM + 16, BIG + 78, 128
COLORS = (*style.PALETTE[1:], style.QUIET)  # embeddings, attention, feed-forward, norms, head


def layout(
    kind: str, d_model: int, vocab_size: int, pre_norm: bool, added: bool = True, width: int = 700
) -> dict:
    """Return the positions in pixels of everything drawn, as the page's module does.

    Encoder left, decoder right as its mirror image, from top to bottom. The residual stream runs
    along the outer edge; sublayers read from it and add to it. ``added``: whether positions are
    added to the embeddings.

    >>> layout("both", 512, 37_000, True)["boxes"]["encoder-embedding"]
    [0, 30, 322.0, 36]
    """
    column = (width - GAP) / 2 if kind == "both" else width
    found: dict[str, Any] = {"boxes": {}, "height": TOP + 3 * CELL + 172}
    found |= {name: [] for name in ("frames", "streams", "arrows", "rings", "labels")}
    for stack in ("encoder", "decoder") if kind == "both" else (kind,):
        right = stack == "decoder"
        token = "T" if right else "S"

        def x(u: float, right: bool = right) -> float:
            return width - u if right else u  # u counts from the outer edge

        def box(part: str, u: float, y: float, w: float, h: float = 32, stack: str = stack) -> None:
            left = width - u - w if stack == "decoder" else u
            found["boxes"][f"{stack}-{part}"] = [left, y, w, h]

        def label(u: float, y: float, text: str = "", right: bool = right) -> None:
            text = text or f"(B, {'T' if right else 'S'}, {d_model})"
            found["labels"].append([x(u, right), y, text, "end" if right else "start"])

        def arrow(*points: tuple[float, float], right: bool = right) -> None:
            found["arrows"].append([[x(u, right), y] for u, y in points])

        def add(y: float, *points: tuple[float, float], right: bool = right) -> None:
            arrow(*points, (STREAM + 8, y), right=right)
            found["rings"].append([x(STREAM, right), y])

        ids = ("target" if right else "source") if kind == "both" else "token"
        label(0, 12, f"{ids} ids (B, {token})")
        arrow((STREAM, 17), (STREAM, 30))
        box("embedding", 0, 30, column, 36)
        if added:
            box("positions", BRANCH, 76, column - BRANCH)
            add(92, (BRANCH, 92))
        label(STREAM + 8, TOP - 4)
        names = ["attention", *(["cross"] if right and kind == "both" else []), "forward"]
        bottom = TOP + 44 + len(names) * CELL
        found["frames"].append([width - column if right else 0, TOP, column, bottom - TOP])
        wide, exit_ = column - BRANCH - 6, BRANCH + 14
        for i, name in enumerate(names):
            y = TOP + 8 + i * CELL
            at, enter = (y + 50, y + 16) if pre_norm else (y, y + BIG / 2)
            arrow((STREAM, enter), (BRANCH, enter))
            if pre_norm:
                arrow((exit_, y + 32), (exit_, at))
                label(exit_ + 6, y + 45)
                box(f"norm-{name}", BRANCH, y, wide)
            else:
                box(f"norm-{name}", 2, at + BIG + 30, min(120, column - 8))
            box(name, BRANCH, at, wide, BIG)
            add(at + BIG + 16, (exit_, at + BIG), (exit_, at + BIG + 16))
            label(exit_ + 6, at + BIG + 16)
        box("layer", BRANCH, bottom - 38, wide)
        if pre_norm:
            box("final", 2, bottom + 18, min(150, column - 2))
        y = bottom + 50
        ends = (["head"] if kind == "encoder" else []) + (
            ["output"] if right or kind == "encoder" else []
        )
        for part in ends:
            label(STREAM + 8, y + 15)
            arrow((STREAM, y), (STREAM, y + 22))
            box(part, 0, y + 22, column, 36)
            y += 58
        found["streams"].append([x(STREAM), 30, y])
        if ends:
            arrow((STREAM, y), (STREAM, y + 18))
            label(STREAM + 8, y + 17, f"logits (B, {token}, {vocab_size:,})")
    if kind == "both":
        start, turn, end = TOP + 94 + 2 * CELL, column + GAP / 2 - 1, width - column + 6
        y = found["boxes"]["decoder-cross"][1] + BIG / 2
        corners = [[STREAM, start], [STREAM, start + 14], [turn, start + 14], [turn, y], [end, y]]
        found["arrows"].append(corners)
        found["labels"].append([STREAM + 8, start + 30, f"memory (B, S, {d_model})", "start"])
    return found


def draw_boxes(ax: Axes, place: dict, words: dict[str, tuple[int, str, str, str]]) -> None:
    """Draw a layout. words: each part's group, name, description and number of parameters."""
    from matplotlib.patches import BoxStyle, FancyBboxPatch, Rectangle

    for x, y, w, h in place["frames"]:
        ax.add_patch(Rectangle((x, y), w, h, fc="#eceeea", lw=0))
    for x, start, end in place["streams"]:
        ax.plot((x, x), (start, end), color=style.INK, lw=2.5, zorder=1)
    arrow = {"arrowstyle": "-|>", "color": style.QUIET, "lw": 1, "shrinkA": 0, "shrinkB": 0}
    for points in place["arrows"]:
        ax.plot(*zip(*points, strict=True), color=style.QUIET, lw=1)
        ax.annotate("", points[-1], points[-2], arrowprops=arrow)
    for x, y in place["rings"]:
        ax.plot(x, y, "o", ms=10, mfc=style.CARD, mec=style.INK, zorder=3)
        ax.plot(x, y, "+", ms=6, mec=style.INK, zorder=4)
    for x, y, text, anchor in place["labels"]:
        side = "left" if anchor == "start" else "right"
        ax.text(x, y, text, ha=side, fontsize=7, color=style.QUIET)
    for part, (x, y, w, h) in place["boxes"].items():
        group, name, inside, count = words[part]
        shape = BoxStyle("round", pad=0, rounding_size=4)
        ax.add_patch(FancyBboxPatch((x, y), w, h, shape, zorder=2, fc=style.CARD, ec=style.LINE))
        ax.add_patch(Rectangle((x, y + 2), 4, h - 4, fc=COLORS[group], lw=0, zorder=3))
        middle, size = y + h / 2, {"va": "center", "fontsize": 8, "zorder": 3}
        ax.text(x + 12, middle - (6 if inside else 0), name, weight="bold", **size)
        ax.text(x + 12, middle + 8, inside, **size | {"fontsize": 7, "color": style.QUIET})
        ax.text(x + w - 10, middle, count, ha="right", **size)
    ax.set(xlim=(-4, 704), ylim=(place["height"], 0), aspect="equal")
    ax.axis("off")
