"""Every live figure for the tests, and many of its states, drawn from the limits of its traits."""

from random import Random
from typing import Any

from traitlets import Bool

from transformer_lib.figures import widgets
from transformer_lib.figures.widgets.base import LiveFigure, Number, OneOf

# Arguments of the figures whose defaults show too little.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "Roofline": {"marks": [[0, 1, 2048, 0.001], [0, 64, 2048, 0.008]]},
    "ScheduleExplorer": {
        "run": [
            [
                step,
                1.5 + 5 * 2.718 ** (-step / 3000),
                min(2e-6 * step, 0.002 * (1000 / step) ** 0.5),
            ]
            for step in range(100, 20_000, 400)
        ]
    },
    "WhoKnows": {"source": ["die", "hungrige", "Katze", "<pad>", "<pad>", "<pad>", "<pad>"]},
}

# Very different values of the traits that are texts or lists.
VALUES: dict[str, list[Any]] = {
    "BytePairs.word": ["sixtyseventeenty", "seventyseventyse", "jazz", "a"],
    "LiveTraining.example": ["abcdefgh", "73", "j"],
    "LiveTranslator.text": [
        "seven thousand seven hundred seventy-seven",
        "wwwwwwwwwwwwwwwww4 wwwwwwwwwwwwwwwwwwwwwwwwww",
        "three",
        "",
    ],
    "LossPush.logits": [
        [0, 0, 0, 0, 0],
        [8, -4, -4, -4, -4],
        [-4, 8, 8, -4.0, -3.9],
        [40, -40, 0, 20, -20],
    ],
    "MaskPainter.mask": [
        "-".join(["111111"] * 6),
        "-".join(["000000"] * 6),
        "110000-111000-011100-001110-000111-000011",
    ],
    "SoftLookup.key_vectors": [[[3, 1.5], [-3, -1], [3, -2]], [[0, 2], [-3, 2], [2.9, 0]]],
    "SoftLookup.query": [[0, 0], [-3, -2], [3, 2]],
    "WordSwap.order": [[0, 1, 2, 3, 4, 5], [5, 4, 3, 2, 1, 0], [0, 4, 2, 3, 1, 5]],
}


def make(name: str) -> LiveFigure:
    return getattr(widgets, name)(**ARGUMENTS.get(name, {}))


def states(name: str, number: int = 60) -> list[dict[str, Any]]:
    """The state in which it begins, and others drawn at random."""
    random = Random(name)

    def draw(key: str, trait: Any) -> Any:
        if isinstance(trait, OneOf):
            return random.choice(trait.words)
        if isinstance(trait, Bool):
            return random.random() < 0.5
        if isinstance(trait, Number):
            x = random.choice([trait.low, trait.high, random.uniform(trait.low, trait.high)])
            return round(x) if trait.whole else x
        return random.choice(VALUES[f"{name}.{key}"])

    drawn = {
        key: trait
        for key, trait in make(name).traits(sync=True).items()
        if isinstance(trait, (OneOf, Bool, Number)) or f"{name}.{key}" in VALUES
    }
    return [{}, *({key: draw(key, trait) for key, trait in drawn.items()} for _ in range(number))]
