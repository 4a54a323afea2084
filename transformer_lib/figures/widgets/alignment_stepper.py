"""AlignmentStepper: what a recurrent decoder attends to while it writes (chapter 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import traitlets

from .base import (
    MADE_UP,
    LiveFigure,
    Number,
    Numbers,
    OneOf,
    all_or_none,
    compose,
    dress,
    same_length,
)

if TYPE_CHECKING:
    from ...recurrent import RNNSeq2Seq

KINDS = ("none", "additive", "dot", "general")
END = "<eos>"
MOST = 16  # words to write
COMPONENTS = 6  # of the states


def principal(states: np.ndarray, count: int) -> tuple[np.ndarray, float]:
    """Reduce states to the ``count`` directions in which they differ most.

    components = (states - mean) @ directions, over their largest absolute value. Weights that sum
    to 1 commute with this: the mix of the components is the components of the mix.

    Args:
        states: ``(S, width)``.
        count: how many components, K; any that S states can't have are 0.

    Returns:
        Components ``(S, K)``, from -1 to 1, and their share of the variance.

    >>> components, share = principal(np.array([[0.0, 0.0], [3.0, 4.0], [6.0, 8.0]]), 1)
    >>> components.round(2).tolist(), round(share, 2)
    ([[-1.0], [0.0], [1.0]], 1.0)
    """
    left, sizes, right = np.linalg.svd(states - states.mean(0), full_matrices=False)
    signs = np.sign(right[np.arange(len(right)), abs(right).argmax(1)])  # makes signs repeatable
    kept = (left * sizes * np.where(signs == 0, 1, signs))[:, :count]
    components = np.zeros((len(states), count))
    components[:, : kept.shape[1]] = kept
    variance = (sizes**2).sum()
    share = (sizes[:count] ** 2).sum() / variance if variance > 0 else 1.0
    return components / max(abs(components).max(), 1e-12), float(share)


def stand_in() -> dict[str, list]:
    """Make up what two models might do with a sentence, one of them without attention.

    Each target word belongs to a source position; its weights are a softmax of minus twice the
    distances to it. The states are waves. Without attention, one word is wrong.
    """
    target = ["acht", "und", "zwanzig", "tausend", "sieben", "hundert", "zwei", "und", "vierzig"]
    wrong = [*target[:4], "acht", *target[5:]]
    places, source = np.array([1, 0, 0, 2, 3, 4, 6, 5, 5, 6]), np.arange(7)
    powers = np.exp(-2 * abs(source - places[:, None]))  # (T, S)
    weights = powers / powers.sum(-1, keepdims=True)
    waves = np.sin(2.4 * (1 + source[:, None]) * (1 + 0.37 * np.arange(6)) + np.arange(6))  # (S, K)
    return {
        "words": ["twenty", "eight", "thousand", "seven", "hundred", "forty", "two"],
        "target": target,
        "kinds": ["none", "additive"],
        "outputs": [[*wrong, END], [*target, END]],
        "weights": [[], weights.round(3).tolist()],
        "states": 2 * [waves.round(2).tolist()],
    }


class AlignmentStepper(LiveFigure):
    """A decoder writes a sentence word by word; the weights show what it attends to at each step.

    The page computes the context vector, weights @ states. The kind ``"none"`` has no weights; its
    decoder gets only the encoder's last state.

    Without arguments the numbers are made up; :meth:`from_models` shows trained models.

    Args:
        words: the source, 2 to 10 words.
        target: the right translation.
        kinds: the models, out of ``"none"``, ``"additive"``, ``"dot"``, ``"general"``.
        outputs: for each kind, the words it wrote, 1 to 16, including ``"<eos>"``.
        weights: for each kind ``(T, S)``, one row per written word; empty for ``"none"``.
        states: for each kind ``(S, K)``, the encoder's states in a few components, from -1 to 1.
        attention: the kind to show.
        step: how many words are written, at most.
        unit: what to call a word, such as ``"letter"``.

    Raises:
        ValueError: lists that don't fit together, or weights that don't sum to 1.

    >>> AlignmentStepper(attention="none", step=2)
    AlignmentStepper(attention='none', step=2)
    """

    _esm = compose("alignment_stepper.js")
    _css = dress("alignment_stepper.css")
    shown = ("attention", "step")

    words = traitlets.List(traitlets.Unicode(), minlen=2, maxlen=10).tag(sync=True)
    target = traitlets.List(traitlets.Unicode()).tag(sync=True)
    kinds = traitlets.List(traitlets.Unicode(), minlen=1).tag(sync=True)
    outputs = traitlets.List(traitlets.List(traitlets.Unicode(), [], 1, MOST)).tag(sync=True)
    weights = Numbers([], depth=3, low=0, high=1.001)
    states = Numbers([], depth=3, low=-1, high=1)
    attention = OneOf("additive", "dot", "general", "none")
    step = Number(5, low=0, high=MOST, whole=True)
    unit = traitlets.Unicode("word").tag(sync=True)

    def __init__(self, **numbers: Any) -> None:
        data = ("words", "target", "kinds", "outputs", "weights", "states")
        if not all_or_none(numbers, data):
            numbers |= stand_in()
            numbers.setdefault("note", MADE_UP)
        super().__init__(**numbers)
        same_length(self, ("kinds", "outputs", "weights", "states"))
        for each in (self.attention, *self.kinds):
            if each not in self.kinds or each not in KINDS:
                known = KINDS if each in self.kinds else self.kinds
                raise ValueError(f"attention must be one of {', '.join(known)}; got {each!r}")
        for i, kind in enumerate(self.kinds):
            self._check_shapes(i, kind)

    def _check_shapes(self, i: int, kind: str) -> None:
        rows, size = 0 if kind == "none" else len(self.outputs[i]), len(self.words)
        if len(self.weights[i]) != rows:
            raise ValueError(
                f"weights[{i}], for {kind}, must have {rows} rows; got {len(self.weights[i])}"
            )
        for t, row in enumerate(self.weights[i]):
            if len(row) != size or abs(sum(row) - 1) > 0.02:
                raise ValueError(
                    f"weights[{i}][{t}] must be {size} numbers, one per word, that sum to 1; "
                    f"got {len(row)} that sum to {sum(row):.3g}"
                )
        widths = [len(state) for state in self.states[i]]
        if widths != [max(1, len(self.states[0][0]))] * size:
            raise ValueError(
                f"states[{i}] must be {size} states, one per word, all with the same number of "
                f"components; got {widths}"
            )

    @classmethod
    def from_models(
        cls,
        models: Mapping[str, RNNSeq2Seq],
        source: Sequence[str],
        target: Sequence[str],
        vocabulary: Sequence[str],
        **numbers: Any,
    ) -> AlignmentStepper:
        """Translate a sentence with trained models, by greedy search, and show what they did.

        Args:
            models: by kind of attention: ``"none"``, ``"additive"``, ``"dot"``, ``"general"``.
            source: the words to translate.
            target: the right translation.
            vocabulary: the word of each id.
            numbers: other arguments of the figure: ``attention``, ``step``, ``anchor``, ``note``.

        Raises:
            ValueError: a model under the wrong name, or a word that isn't in the vocabulary.
        """
        ids = {word: i for i, word in enumerate(vocabulary)}
        if unknown := [word for word in source if word not in ids]:
            raise ValueError(f"source has words that are not in the vocabulary: {unknown}")
        columns: dict[str, list] = {"kinds": [], "outputs": [], "weights": [], "states": []}
        shares = []
        for kind in sorted(models, key=lambda kind: KINDS.index(kind) if kind in KINDS else 9):
            found = models[kind].config.attention or "none"
            if kind != found:
                raise ValueError(f"models[{kind!r}] must have attention {kind!r}; got {found!r}")
            *reading, share = read_along(models[kind], [ids[word] for word in source], vocabulary)
            for column, value in zip(columns.values(), [kind, *reading], strict=True):
                column.append(value)
            shares.append(share)
        held = f"at least {100 * min(shares):.0f} %" if min(shares) < 0.995 else "all"
        note = f"States are shown in their first {COMPONENTS} principal components, which hold "
        numbers.setdefault("note", f"{note}{held} of the variance between them.")
        kinds = columns["kinds"]
        numbers.setdefault("attention", "additive" if "additive" in kinds else kinds[-1])
        return cls(words=list(source), target=list(target), **columns, **numbers)


def read_along(
    model: RNNSeq2Seq, ids: list[int], vocabulary: Sequence[str]
) -> tuple[list[str], list, list, float]:
    """Translate ids with a model.

    Returns:
        What it wrote, weights ``(T, S)`` (empty without attention), components of the states
        ``(S, K)``, and their share of the variance.
    """
    import torch

    from ...decoding import evaluating, greedy
    from ...inspection import record_attention

    bos = model.config.bos_id
    source = torch.tensor([ids], device=model.output.weight.device)
    output = greedy(model, source, max_len=MOST).ids[0].tolist()
    weights: list = []
    with evaluating(model):
        if model.config.attention is None:
            states = model.encoder(model.source_embedding(source))[0]
        else:
            states = model.start(source).memory
            with record_attention(model) as maps:  # again, with all steps in one call
                model(source, torch.tensor([[bos, *output[:-1]]], device=source.device))
            weights = maps["alignment"][0, 0].cpu().numpy().round(3).tolist()
    reduced, share = principal(states[0].double().cpu().numpy(), COMPONENTS)
    words = [END if i == model.config.eos_id else str(vocabulary[i]) for i in output]
    return words, weights, reduced.round(3).tolist(), share
