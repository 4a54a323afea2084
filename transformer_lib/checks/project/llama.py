"""The exercise `Llama`: the parts put together."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from transformer_lib.checks.old.core import Case, Exercise
from transformer_lib.checks.old.inputs import random_tensor
from transformer_lib.checks.project.decoder import (
    Llama,
    Remembers,
    Tied,
    forward_first,
    from_normed,
    from_normed_first,
    from_normed_second,
    logits_in_pieces,
    longer_list,
    neither,
    no_first,
    no_norms,
    no_second,
    not_handed_on,
    one_norm,
    plain_first,
    plain_second,
    post_norm,
    side_by_side,
    swapped,
    waves,
    with_eps,
)
from transformer_lib.checks.project.small import but

__all__ = ["LLAMA"]

_SIZES = {
    "vocab_size": 11, "d_model": 24, "n_heads": 6, "n_kv_heads": 2, "n_layers": 3, "d_ff": 20,
}  # fmt: skip
_BEFORE = (random_tensor(2, 7, seed=1) * 100).long() % 11
_IDS = (random_tensor(2, 7) * 100).long() % 11


def _case(
    label: str,
    sizes: list[int],
    ids: Tensor = _IDS,
    given: dict[str, Any] | None = None,
    **init: int,
) -> Case:
    return Case(label, ids, sizes, init=_SIZES | init, **(given or {}))


LLAMA = Exercise(
    name="Llama",
    reference=Llama,
    use=logits_in_pieces,
    cases=[
        _case("one token, one layer", [1], _IDS[:1, :1], n_layers=1),
        _case("2 texts of 7 tokens, one layer", [7], n_layers=1),
        _case("2 texts of 7 tokens, 3 layers", [7]),
        _case("6 tokens, then 1 with the caches", [6, 1]),
        _case("one token at a time", [1] * 7),
        _case("4 tokens, then 3 with the caches", [4, 3]),
        _case("vectors so short that the norms' eps decides", [7], given={"factor": 1e-3}),
        _case(
            "another text before, and its caches not handed on", [4, 3], given={"before": _BEFORE}
        ),
    ],
    mistakes={
        "not all norms have the eps that is asked for, 1e-5": [
            with_eps(small, **where)
            for where in ({}, {"layers": False}, {"last": False})
            for small in (1e-6, 1e-8, 1e-12, torch.finfo(torch.float32).eps, 1e-4, 1e-3)
        ],
        "the last norm is missing: it stands behind all layers, before the output": [
            but(Llama, end=lambda self, x: self.output(x)),
        ],
        "the norms stand behind the sublayers: a Llama has them in front": [
            but(Llama, run=post_norm),
        ],
        "the norms are missing in the layers": but(Llama, run=no_norms),
        "one of the two norms in a layer is not used": [
            but(Llama, run=plain_second),
            but(Llama, run=plain_first),
        ],
        "the caches that came in are handed out again, and the new ones do not take their place": [
            but(Llama, forward=longer_list),
        ],
        "the residual stream is normed: what is added goes to x as it was": [
            but(Llama, run=from_normed),
            but(Llama, run=from_normed_first),
            but(Llama, run=from_normed_second),
        ],
        "nothing is added to x behind the heads: the residual connection is missing": [
            but(Llama, run=no_first),
        ],
        "nothing is added to x behind the feed-forward network: the residual connection is "
        "missing": but(Llama, run=no_second),
        "both residual connections are missing": but(Llama, run=neither),
        "the two norms of a layer are swapped": but(Llama, run=swapped),
        "one norm is used twice in a layer: each sublayer has its own": but(Llama, run=one_norm),
        "heads and feed-forward network work side by side: the second reads what the first has "
        "added": but(Llama, run=side_by_side),
        "the feed-forward network comes before the heads": but(Llama, run=forward_first),
        "the embedding is multiplied by the root of d_model: a Llama does not": [
            but(
                Llama,
                embed=lambda self, ids: self.embedding(ids) * self.embedding.embedding_dim**0.5,
            ),
        ],
        "places are added to the embedding: the turn in the heads is all there is": [
            but(Llama, embed=waves),
        ],
        "the output uses the table of the embedding: here it has a matrix of its own": [
            but(Llama, end=lambda self, x: self.norm(x) @ self.embedding.weight.T),
            Tied,
        ],
        "the result is probabilities: it is asked for logits": [
            but(Llama, end=lambda self, x: self.output(self.norm(x)).softmax(dim=-1)),
            but(Llama, end=lambda self, x: self.output(self.norm(x)).log_softmax(dim=-1)),
        ],
        "the layers run from the last to the first": [
            but(Llama, order=lambda self: list(self.layers)[::-1]),
        ],
        "one layer is used again and again": [
            but(Llama, order=lambda self: [self.layers[0]] * len(self.layers)),
        ],
        "the caches are not handed to the layers": but(Llama, run=not_handed_on),
        "each layer gets the caches of all: layer i gets `caches[i]`": [
            but(Llama, cache_of=lambda self, caches, i: caches),
            but(Llama, cache_of=lambda self, caches, i: caches and caches[0].size(2)),
        ],
        "the model remembers the text before: where no caches are handed over, a new text begins": [
            Remembers,
        ],
        "all layers get the cache of the first: each has keys and values of its own": [
            but(Llama, cache_of=lambda self, caches, i: caches[0] if caches else None),
        ],
        "all layers get the cache of the last: each has keys and values of its own": [
            but(Llama, cache_of=lambda self, caches, i: caches[-1] if caches else None),
        ],
        "only the logits of the last token are returned: it is asked for those of all": [
            but(Llama, end=lambda self, x: self.output(self.norm(x[:, -1:]))),
        ],
    },
    section="Stage 5: the whole decoder",
    keeps=("names",),
)
