"""The trees of BeamGrower: how to search, make up and record them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor


END = "<eos>"
SIZES = (1, 2, 3, 4)
PENALTIES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
SEEN = 8  # continuations stored per step, the best ones

# A made-up translator of "ein Hund bellt laut": each line is a sentence, and each word is followed
# by its probability given the words before it. Anything else is rarer.
STAND_IN = """
the .50 dog .40 is .45 loud .70 <eos> .90
the .50 dog .40 is .45 barking .25 loudly .50 <eos> .95
the .50 dog .40 barks .35 loudly .50 <eos> .95
the .50 dog .40 barks .35 <eos> .45
the .50 hound .30 barks .50 <eos> .60
the .50 hound .30 bays .30 <eos> .70
the .50 animal .15 barks .40 <eos> .60
a .42 dog .85 barks .80 <eos> .48
a .42 dog .85 barks .80 loudly .485 <eos> .96
a .42 dog .85 is .12 loud .60 <eos> .90
a .42 dog .85 is .12 barking .35 loudly .60 <eos> .95
a .42 hound .08 barks .70 <eos> .60
one .03 dog .90 barks .80 loudly .50 <eos> .96
loud .02 is .50 a .60 dog .80 <eos> .80
"""


class Candidate(NamedTuple):
    """A continuation at one step of the search."""

    node: int
    total: float  # log-probability of the text up to here
    fate: str  # "kept", "ended" or "lost"


class End(NamedTuple):
    """A finished text."""

    node: int
    total: float
    rank: float  # total over the length penalty


class Step(NamedTuple):
    """The candidates of one step, the best first, and the best finished texts so far."""

    candidates: list[Candidate]
    ends: list[End]


class Tree:
    """Next tokens and their log-probabilities for each prefix; node 0 is the empty prefix.

    >>> tree = Tree([0, 0, 1], ["yes", "no", "<eos>"], [-0.4, -1.2, -0.1])
    >>> tree.children[0], tree.text(3)
    ([1, 2], 'yes')
    """

    def __init__(self, parents: list, tokens: list[str], gains: list[float]) -> None:
        self.parents, self.tokens, self.gains = [-1, *map(int, parents)], ["", *tokens], [0, *gains]
        self.children: list[list[int]] = [[] for _ in self.parents]
        self.depths = [0] * len(self.parents)
        for node, parent in enumerate(self.parents[1:], start=1):
            self.children[parent].append(node)
            self.depths[node] = self.depths[parent] + 1

    def path(self, node: int) -> list[int]:
        """Return the nodes from the first token to this one."""
        return [*self.path(self.parents[node]), node] if node else []

    def text(self, node: int) -> str:
        """Return the text up to a node, with spaces for ▁."""
        tokens = (self.tokens[n] for n in self.path(node))
        return "".join(token for token in tokens if token != END).replace("▁", " ").strip()


def penalty(length: int, exponent: float) -> float:
    """Return the length penalty of Wu et al. (2016), equation (14)."""
    return ((5 + length) / 6) ** exponent


def search(tree: Tree, size: int, exponent: float, max_len: int) -> list[Step]:
    """Search a tree as :func:`~transformer_lib.beam_search` searches a model; return all steps."""
    steps: list[Step] = []
    beam, ends, going = [Candidate(0, 0.0, "kept")], [], True
    while going:
        length = len(steps) + 1
        grown = [Candidate(child, total + tree.gains[child], "lost")
                 for node, total, _ in beam for child in tree.children[node]]  # fmt: skip
        grown.sort(key=lambda candidate: -candidate.total)
        beam = []
        for i, candidate in enumerate(grown[: 2 * size]):
            ended = tree.tokens[candidate.node] == END or length == max_len
            if ended and i < size:
                grown[i] = candidate._replace(fate="ended")
                rank = candidate.total / penalty(length, exponent)
                ends = [*ends, End(candidate.node, candidate.total, rank)]
            elif not ended and len(beam) < size:
                grown[i] = candidate._replace(fate="kept")
                beam.append(grown[i])
        ends = sorted(ends, key=lambda end: -end.rank)[:size]
        steps.append(Step(grown, ends))
        # stop when nothing left can beat the worst finished text, even at full length
        worst = ends[-1].rank if len(ends) == size else -math.inf
        going = bool(beam) and beam[0].total / penalty(max_len, exponent) > worst
    return steps


def stand_in() -> dict[str, list]:
    """Return :data:`STAND_IN` as a tree."""
    nodes: dict[tuple, tuple] = {(): (0,)}
    for line in STAND_IN.strip().splitlines():
        parts, path = line.split(), ()
        for word, probability in zip(parts[::2], parts[1::2], strict=True):
            token = word if word == END else f"▁{word}"
            parent, path = path, (*path, token)
            gain = round(math.log(float(probability)), 6)
            nodes.setdefault(path, (len(nodes), nodes[parent][0], token, gain))
    _, parents, tokens, gains = zip(*list(nodes.values())[1:], strict=True)
    return {"parents": [*parents], "tokens": [*tokens], "gains": [*gains]}


class Recorder:
    """Wraps a model for decoding, and records each prefix with its most probable next tokens."""

    def __init__(self, model: Any) -> None:
        self.model, self.config = model, model.config
        self.said: dict[tuple[int, ...], list[tuple[int, float]]] = {}  # by prefix

    def start(self, source: Tensor) -> Asked:
        return Asked(self.model.start(source), [None] * len(source))

    def step(self, tokens: Tensor, state: Asked) -> tuple[Tensor, Asked]:
        logits, state.inner = self.model.step(tokens, state.inner)
        gains, ids = logits.float().log_softmax(-1).topk(min(SEEN, logits.size(-1)))
        state.asked = [
            () if before is None else (*before, token)  # the first token is <bos>
            for before, token in zip(state.asked, tokens.tolist(), strict=True)
        ]
        for asked, row, values in zip(state.asked, ids.tolist(), gains.tolist(), strict=True):
            self.said[asked] = [*zip(row, values, strict=True)]
        return logits, state


class Asked:
    """A model's state, and the prefix that each of its rows has read."""

    def __init__(self, inner: Any, asked: list) -> None:
        self.inner, self.asked = inner, asked

    def reorder(self, index: Tensor) -> None:
        self.inner.reorder(index)
        self.asked = [self.asked[i] for i in index.tolist()]


def record(model: Any, source: Tensor, words: Sequence[str], max_len: int) -> dict:
    """Search a model with every beam size and penalty on offer; return the tree of all prefixes.

    Args:
        model: any model with ``start``, ``step`` and ``config``.
        source: ids ``(1, S)``.
        words: the text of each id.
        max_len: the most tokens to write.
    """
    from ...decoding import beam_search, evaluating

    recorder = Recorder(model)
    with evaluating(model):
        for size in SIZES:
            for exponent in PENALTIES:
                how = {"beam_size": size, "length_penalty": exponent}
                beam_search(recorder, source, max_len=max_len, **how)

    nodes: list[tuple[int, str, float]] = []
    whole: list[tuple[int, ...]] = [()]
    for parent, path in enumerate(whole):  # the loop adds to the list
        for token, gain in recorder.said.get(path, []):
            if math.isfinite(gain):
                text = END if token == model.config.eos_id else words[token]
                nodes.append((parent, text, round(gain, 6)))
                whole.append((*path, token))
    return prune(nodes, max_len)


def prune(nodes: list[tuple[int, str, float]], max_len: int) -> dict[str, list]:
    """Remove nodes that no search visits or shows."""
    tree = Tree(*map(list, zip(*nodes, strict=True)))
    seen = {
        candidate.node
        for size in SIZES
        for exponent in PENALTIES
        for step in search(tree, size, exponent, max_len)
        for candidate in step.candidates[:SEEN]
    }
    kept = sorted(seen)
    new = {0: 0} | {node: i for i, node in enumerate(kept, start=1)}
    return {"parents": [new[tree.parents[node]] for node in kept],
            "tokens": [tree.tokens[node] for node in kept],
            "gains": [tree.gains[node] for node in kept]}  # fmt: skip
