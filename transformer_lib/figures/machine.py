"""The drawing of the Transformer that chapters open with, with one of its parts highlighted.

It is inline SVG, so its ink follows the page, light or dark.

>>> Machine("cross-attention")
The Transformer. Lit: cross-attention.
"""

from html import escape

__all__ = ["PARTS", "Machine"]

PARTS = (
    "words", "embedding", "positions", "self-attention", "masked self-attention", "cross-attention",
    "feed-forward", "output", "next word", "encoder", "decoder", "residual stream",
)  # fmt: skip
"""The names of all parts that can be highlighted."""

# Each half: where its frame and its boxes begin, where the residual stream runs along its outer
# edge and reaches the boxes, and the tops of its sublayers.
_HALVES = {
    "encoder": (4, 34, 18, 34, {"self-attention": 112, "feed-forward": 220}),
    "decoder": (250, 256, 462, 446,
                {"masked self-attention": 112, "cross-attention": 166, "feed-forward": 220}),
}  # fmt: skip
# What each half reads, and the word that comes out of it. A half that reads nothing is pale.
_WORDS = {
    None: {
        "encoder": ("the hungry cat eats fresh fish", ""),
        "decoder": ("<bos> die hungrige Katze", "frisst"),
    },
    "decoder": {"encoder": ("", ""), "decoder": ("the hungry cat eats fresh", "fish")},
    "encoder": {"encoder": ("the hungry [MASK] eats fresh fish", "cat"), "decoder": ("", "")},
}
_ABOUT = {
    None: "The encoder reads the English words; each layer has self-attention and feed-forward. "
    "The decoder reads the German words written so far: masked self-attention, "
    "cross-attention to the encoder's output, feed-forward. Its output is the next word. ",
    "decoder": "The decoder alone; the encoder and cross-attention are drawn pale. It reads the "
    "words so far: masked self-attention, feed-forward. Its output is the next word. ",
    "encoder": "The encoder alone; the decoder is drawn pale. It reads the words, one of them "
    "hidden: self-attention, feed-forward. Its output is the hidden word. ",
}
_ACCENT = "#0b66a8"


class Machine:
    """A picture of the Transformer with some of its parts highlighted.

    Args:
        lit: the parts to highlight, from :data:`PARTS`.
        keep: "decoder" to keep that half, as in GPT, or "encoder", as in BERT. The other half and
            cross-attention are drawn pale. Both halves stay if None.

    Raises:
        ValueError: an unknown part or half.

    Example:
        >>> picture = Machine("encoder", "feed-forward")
        >>> picture._repr_html_()[:4]
        '<svg'
    """

    def __init__(self, *lit: str, keep: str | None = None) -> None:
        for name in lit:
            if name not in PARTS:
                known = ", ".join(PARTS)
                raise ValueError(f"lit must be parts of the machine ({known}), got {name!r}")
        if keep not in _WORDS:
            raise ValueError(f"keep must be 'decoder', 'encoder' or None, got {keep!r}")
        self.lit = lit
        self.keep = keep

    def __repr__(self) -> str:
        half = f" The {self.keep} alone." if self.keep else ""
        return f"The Transformer.{half} Lit: {', '.join(self.lit) or 'nothing'}."

    def _repr_html_(self) -> str:
        drawn = [self._half(name) for name in _HALVES]
        if self.keep is None:  # the encoder's output goes to every decoder layer
            drawn.append(_line("M18,304H240V182H256m-6,-4l6,4l-6,4"))
            drawn.append(_text(24, 321, "memory: a vector for each word", "start"))
        lit = f"Highlighted in this chapter: {', '.join(self.lit)}."
        return (
            '<svg class="machine" viewBox="0 0 480 380" role="img" '
            f'aria-label="{escape(_ABOUT[self.keep] + lit)}" style="max-width: 34rem; width: 100%" '
            'font-family="sans-serif" font-size="14" fill="none" stroke="currentColor">'
            + "".join(drawn)
            + "</svg>"
        )

    def _half(self, name: str) -> str:
        frame, left, edge, inner, sublayers = _HALVES[name]
        reads, says = _WORDS[self.keep][name]
        lit = self.lit if reads else ()
        ink = f'stroke="{_ACCENT}" stroke-width="4"' if name in lit else 'stroke-opacity="0.3"'
        drawn = [
            _line(f"M{edge},30V{314 if says else 304}", "residual stream" in lit),
            _line(f"M{inner},62H{edge}"),
            f'<rect {ink} x="{frame}" y="94" width="226" height="176" rx="8"/>',
            _text(frame + 113, 287, f"{name}: N such layers"),
            _box((frame + 6, 4, 214, 26), reads, "words" in lit),
            _box((left, 48, 92, 28), "embedding", "embedding" in lit),
            _box((left + 98, 48, 92, 28), "positions", "positions" in lit),
        ]
        for part, y in sublayers.items():  # each reads from the stream and adds to it
            gone = part == "cross-attention" and self.keep == name
            sublayer = (
                _line(f"M{edge},{y + 9}H{inner}M{inner},{y + 25}H{edge}")
                + f'<circle cx="{edge}" cy="{y + 25}" r="3" fill="currentColor" stroke="none"/>'
            )
            width = 190
            if "attention" in part:  # several heads: a stack of cards
                width = 184
                for shift in (6, 3):
                    sublayer += _rectangle((left + shift, y - shift, width, 32))
            sublayer += _box((left, y, width, 32), part, part in lit and not gone)
            drawn.append(_pale(sublayer) if gone else sublayer)
        if says:
            middle = left + 95
            drawn.append(_line(f"M{edge},314H{inner}M{middle},328V348m-4,-6l4,6l4,-6"))
            drawn.append(_box((left, 300, 190, 28), "output", "output" in lit))
            drawn.append(_box((left + 34, 348, 122, 26), says, "next word" in lit))
        return "".join(drawn) if reads else _pale("".join(drawn))


def _pale(drawn: str) -> str:
    return f'<g opacity="0.3">{drawn}</g>'


def _line(path: str, lit: bool = False) -> str:
    ink = f'stroke="{_ACCENT}" stroke-width="5"' if lit else 'stroke-opacity="0.55"'
    return f'<path {ink} d="{path}"/>'


def _rectangle(place: tuple[int, int, int, int], ink: str = 'stroke-opacity="0.55"') -> str:
    x, y, width, height = place
    return f'<rect {ink} x="{x}" y="{y}" width="{width}" height="{height}" rx="4"/>'


def _box(place: tuple[int, int, int, int], label: str, lit: bool) -> str:
    x, y, width, height = place
    ink = f'fill="{_ACCENT}" stroke="{_ACCENT}"' if lit else 'stroke-opacity="0.55"'
    middle, line = x + width / 2, y + height / 2 + 4.5
    color = "white" if lit else "currentColor"
    return _rectangle(place, f'class="machine-box" {ink}') + _text(middle, line, label, color=color)


def _text(
    x: float, y: float, words: str, anchor: str = "middle", color: str = "currentColor"
) -> str:
    width = 6.9 * len(words) if len(words) < 31 else 6.1 * len(words)  # the same in any font
    return (
        f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{color}" stroke="none" '
        f'textLength="{width:g}" lengthAdjust="spacingAndGlyphs">{escape(words)}</text>'
    )
