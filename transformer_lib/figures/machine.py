"""The drawing of the Transformer that chapters open with, with one of its parts highlighted.

It is inline SVG, so its ink follows the page, light or dark.

>>> Machine("cross-attention")
The Transformer. Lit: cross-attention.
"""

from __future__ import annotations

from html import escape

__all__ = ["PARTS", "Machine"]

# Each part's boxes: x, y, width, height. Encoder left, decoder right, both from top to bottom; the
# residual stream runs along the outer edge.
_LEFT, _RIGHT, _WIDTH = 34, 256, 190
_BOXES = {
    "words": [(_LEFT - 24, 4, 214, 26), (_RIGHT, 4, 214, 26)],
    "embedding": [(_LEFT, 48, 92, 28), (_RIGHT, 48, 92, 28)],
    "positions": [(_LEFT + 98, 48, 92, 28), (_RIGHT + 98, 48, 92, 28)],
    "self-attention": [(_LEFT, 112, _WIDTH, 32)],
    "masked self-attention": [(_RIGHT, 112, _WIDTH, 32)],
    "cross-attention": [(_RIGHT, 166, _WIDTH, 32)],
    "feed-forward": [(_LEFT, 220, _WIDTH, 32), (_RIGHT, 220, _WIDTH, 32)],
    "output": [(_RIGHT, 300, _WIDTH, 28)],
    "next word": [(_RIGHT + 34, 348, 122, 26)],
}
_FRAMES = {"encoder": (4, 94, 226, 176), "decoder": (250, 94, 226, 176)}
_WORDS = {"words": ("the hungry cat eats fresh fish", "<bos> die hungrige Katze"),
          "next word": ("frisst",)}  # fmt: skip

# One half alone: the words it reads and predicts.
_HALVES = {
    "decoder": {"words": ("", "the hungry cat eats fresh"), "next word": ("fish",)},
    "encoder": {"words": ("the hungry [MASK] eats fresh fish", ""), "next word": ("cat",)},
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
_UNDER_ENCODER = {"output": [(_LEFT, 300, _WIDTH, 28)], "next word": [(_LEFT + 34, 348, 122, 26)]}

PARTS = (*_BOXES, *_FRAMES, "residual stream")
"""The names of all parts that can be highlighted."""


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
        if keep is not None and keep not in _HALVES:
            raise ValueError(f"keep must be 'decoder', 'encoder' or None, got {keep!r}")
        self.lit = lit
        self.keep = keep

    def __repr__(self) -> str:
        half = f" The {self.keep} alone." if self.keep else ""
        return f"The Transformer.{half} Lit: {', '.join(self.lit) or 'nothing'}."

    def _repr_html_(self) -> str:
        lines = [*self._streams(), *self._frames(), *self._boxes()]
        about = _ABOUT[self.keep]
        lit = f"Highlighted in this chapter: {', '.join(self.lit)}."
        return (
            '<svg class="machine" viewBox="0 0 480 380" role="img" '
            f'aria-label="{escape(about + lit)}" style="max-width: 34rem; width: 100%" '
            'font-family="sans-serif" font-size="14" fill="none" stroke="currentColor">'
            + "".join(lines)
            + "</svg>"
        )

    def _pale(self, name: str, x: float) -> bool:
        """Whether a part at x is drawn pale."""
        side = "encoder" if x < 240 else "decoder"
        return self.keep is not None and (side != self.keep or name == "cross-attention")

    def _ink(self, name: str, x: float) -> str:
        if self._pale(name, x):
            return 'stroke-opacity="0.15"'
        if name in self.lit:
            return 'fill="#0b66a8" stroke="#0b66a8"'
        return 'stroke-opacity="0.55"'

    def _streams(self) -> list[str]:
        found = []
        for edge, inner, sublayers in ((18, _LEFT, (112, 220)), (462, 446, (112, 166, 220))):
            alone = edge == 18 and self.keep == "encoder"
            down = 314 if edge == 462 or alone else 304
            pale = self._pale("", edge)
            thin = f'stroke-opacity="{0.15 if pale else 0.55}"'
            lit = "residual stream" in self.lit and not pale
            ink = 'stroke="#0b66a8" stroke-width="5"' if lit else thin
            found.append(f'<path {ink} d="M{edge},30V{down}"/>')
            found.append(f'<path {thin} d="M{inner},62H{edge}"/>')
            for y in sublayers:  # each sublayer reads from the stream and adds to it
                gone = pale or (y == 166 and self.keep is not None)
                faint = ' fill-opacity="0.15"' if gone else ""
                found.append(
                    f'<path stroke-opacity="{0.15 if gone else 0.55}" '
                    f'd="M{edge},{y + 9}H{inner}M{inner},{y + 25}H{edge}"/>'
                    f'<circle cx="{edge}" cy="{y + 25}" r="3" fill="currentColor" stroke="none"'
                    f"{faint}/>"
                )
        if self.keep == "encoder":
            found.append('<path stroke-opacity="0.55" d="M18,314H34M129,328V348m-4,-6l4,6l4,-6"/>')
            return found
        both = self.keep is None
        if both:  # the encoder's output goes to every decoder layer
            found.append('<path stroke-opacity="0.55" d="M18,304H240V182H256m-6,-4l6,4l-6,4"/>')
        found.append('<path stroke-opacity="0.55" d="M462,314H446M351,328V348m-4,-6l4,6l4,-6"/>')
        if both:
            found.append(_text(24, 321, "memory: a vector for each word", "start"))
        return found

    def _frames(self) -> list[str]:
        found = []
        for name, (x, y, width, height) in _FRAMES.items():
            pale = self._pale("", x)
            lit = name in self.lit and not pale
            thin = f'stroke-opacity="{0.1 if pale else 0.3}"'
            ink = 'stroke="#0b66a8" stroke-width="4"' if lit else thin
            found.append(
                f'<rect {ink} x="{x}" y="{y}" width="{width}" height="{height}" rx="8"/>'
                + _text(x + width / 2, y + height + 17, f"{name}: N such layers", pale=pale)
            )
        return found

    def _boxes(self) -> list[str]:
        found = []
        words = _HALVES[self.keep] if self.keep else _WORDS
        places = _BOXES | (_UNDER_ENCODER if self.keep == "encoder" else {})
        for name, boxes in places.items():
            for number, (x, y, width, height) in enumerate(boxes):
                pale = self._pale(name, x)
                if "attention" in name:  # several heads: a stack of cards
                    for shift in (6, 3):
                        found.append(
                            f'<rect stroke-opacity="{0.15 if pale else 0.55}" x="{x + shift}" '
                            f'y="{y - shift}" width="{width - 6}" height="{height}" rx="4"/>'
                        )
                    width -= 6
                found.append(
                    f'<rect class="machine-box" {self._ink(name, x)} x="{x}" y="{y}" '
                    f'width="{width}" height="{height}" rx="4"/>'
                )
                label = words[name][number] if name in words else name
                color = "white" if name in self.lit and not pale else "currentColor"
                found.append(
                    _text(x + width / 2, y + height / 2 + 4.5, label, color=color, pale=pale)
                )
        return found


def _text(
    x: float,
    y: float,
    words: str,
    anchor: str = "middle",
    color: str = "currentColor",
    pale: bool = False,
) -> str:
    width = 6.9 * len(words) if len(words) < 31 else 6.1 * len(words)  # the same in any font
    opacity = ' fill-opacity="0.35"' if pale else ""
    return (
        f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{color}"{opacity} stroke="none" '
        f'textLength="{width:g}" lengthAdjust="spacingAndGlyphs">'
        f"{escape(words)}</text>"
    )
