"""The still picture of LiveTraining: recorded runs for its questions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .. import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Reversing words, seed 0: the mean loss of each ten steps, in hundredths, and how many of 100 new
# words were right after each fifty. First the complete runs, then the one of each question.
RUNS = {
    "small": (
        "365 270 243 232 214 189 171 148 120 95 70 49 36 26 17 14 9 9 7 4 5 5 3 5 5 2 3 3 3 2",
        "0 2 77 93 96 99",
    ),
    "wide": (
        "408 256 233 212 194 188 179 165 149 114 81 42 23 11 7 4 5 3 4 4 3 2 4 2 1 2 1 3 1 1",
        "0 3 94 93 99 95",
    ),
    "deep": (
        "271 230 212 192 173 169 165 157 144 139 121 99 88 70 61 51 37 34 27 18 17 19 18 19 7 "
        "11 14 7 5 12",
        "0 0 5 54 80 95",
    ),
    "mask": (
        "356 267 241 230 210 181 158 137 113 87 60 35 20 11 6 4 3 2 2 2 1 1 1 1 1 1 1 1 1 1",
        "0 0 0 0 0 0",
    ),
    "residual": (
        "264 229 218 205 193 181 170 157 145 137 132 126 123 115 111 107 105 105 101 94 90 90 "
        "85 82 80 75 73 72 72 68",
        "0 0 0 0 0 3",
    ),
    "positions": (
        "378 273 243 234 224 212 204 193 184 178 172 167 158 155 149 144 140 136 134 133 129 "
        "129 126 126 125 124 125 124 120 120",
        "0 0 0 0 0 0",
    ),
    "heads": (
        "364 271 244 235 224 206 190 180 168 160 146 137 134 122 115 109 100 93 83 77 70 66 "
        "63 62 56 59 54 53 49 46",
        "0 0 0 5 9 24",
    ),
    "scale": (
        "381 255 230 215 209 207 202 200 195 195 190 185 188 185 181 180 180 176 178 176 176 "
        "172 171 170 169 175 171 170 167 167",
        "0 0 0 0 0 0",
    ),
    "warmup": (
        "264 239 235 231 229 226 221 210 204 208 207 206 206 206 207 203 199 198 196 192 193 "
        "189 185 182 179 178 177 173 169 170",
        "0 0 0 0 0 0",
    ),
}
LEVEL = 8 / 9 * math.log(10)  # the loss for guessing eight letters and knowing where the end is


def recorded(name: str) -> tuple[list[float], list[int]]:
    """Return a recorded run: its loss for each ten steps, and how much was right after each fifty.

    >>> loss, right = recorded("mask")
    >>> loss[-1], right[-1]
    (0.01, 0)
    """
    losses, right = RUNS[name]
    return [int(x) / 100 for x in losses.split()], [int(x) for x in right.split()]


def still(names: list[tuple[str, str]], title: str) -> Figure:
    """Draw the recorded runs with these ``(name, label)`` pairs."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 2.9), dpi=110, layout="constrained")
    left, right = figure.subplots(1, 2)
    for (name, label), color, line in zip(
        names, (style.PALETTE[2], style.PALETTE[0]), ("-", "--"), strict=False
    ):
        losses, exact = recorded(name)
        left.plot([10 * i + 5 for i in range(len(losses))], losses, line, color=color, label=label)
        right.plot([50 * i + 50 for i in range(len(exact))], exact, line, color=color, marker="o")
    left.axhline(LEVEL, color=style.QUIET, lw=1, ls=":")
    left.set(xlabel="step", ylabel="loss", xlim=(0, 300), ylim=(0, 4))
    right.set(xlabel="step", ylabel="right out of 100 new words", xlim=(0, 300), ylim=(-4, 104))
    if names:
        left.legend(loc="upper right", fontsize=8)
    figure.suptitle(title, fontsize=11)
    return figure
