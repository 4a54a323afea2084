"""The exercise `Llama`: the parts put together."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from transformer_lib.checks.core import Case, Exercise
from transformer_lib.checks.inputs import random_tensor
from transformer_lib.checks.modules import Flaw
from transformer_lib.checks.project.heads import Heads
from transformer_lib.checks.project.small import Norm, SwiGLU, but

__all__ = ["LLAMA", "Llama"]


class Layer(nn.Module):
    def __init__(self, d_model: int, n_heads: int, n_kv_heads: int, d_ff: int) -> None:
        super().__init__()
        self.heads = Heads(d_model, n_heads, n_kv_heads)
        self.feed_forward = SwiGLU(d_model, d_ff)
        self.norms = nn.ModuleList(Norm(d_model) for _ in range(2))


class Llama(nn.Module):
    """The whole decoder, in steps."""

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        n_heads: int,
        n_kv_heads: int,
        n_layers: int,
        d_ff: int,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.layers = nn.ModuleList(
            Layer(d_model, n_heads, n_kv_heads, d_ff) for _ in range(n_layers)
        )
        self.norm = Norm(d_model)
        self.output = nn.Linear(d_model, vocab_size, bias=False)

    def embed(self, ids: Tensor) -> Tensor:
        return self.embedding(ids)

    def run(self, layer: Any, x: Tensor, cache: Any) -> tuple[Tensor, Any]:
        added, cache = layer.heads(layer.norms[0](x), cache)
        x = x + added
        return x + layer.feed_forward(layer.norms[1](x)), cache

    def order(self) -> list:
        return list(self.layers)

    def cache_of(self, caches: list | None, i: int) -> Any:
        return caches[i] if caches else None

    def end(self, x: Tensor) -> Tensor:
        return self.output(self.norm(x))

    def forward(self, ids: Tensor, caches: list | None = None) -> tuple[Tensor, list]:
        x, found = self.embed(ids), []
        for i, layer in enumerate(self.order()):
            x, cache = self.run(layer, x, self.cache_of(caches, i))
            found.append(cache)
        return self.end(x), found


def in_pieces(model: Any, /, ids: Tensor, sizes: list[int], factor: float = 1.0) -> Tensor:
    """The logits of all tokens, fed in pieces, each with the caches of those before it.

    All matrices are multiplied by `factor`, and the logits divided by it.

    Raises:
        Flaw: not two things are returned, or the first is no tensor.
    """
    caches, logits = None, []
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(factor)
    for piece in ids.split(sizes, dim=1):
        found = model(piece) if caches is None else model(piece, caches)
        if not isinstance(found, tuple | list) or len(found) != 2:
            raise Flaw("two", "`forward` must return two things: the logits and the caches.")
        said, caches = found
        if not isinstance(said, Tensor):
            raise Flaw("tensor", "The first thing that `forward` returns must be the logits, a "
                                 "tensor.")  # fmt: skip
        if caches is None:
            raise Flaw("none", "The caches that `forward` returns are None: there must be one for "
                               "each layer.")  # fmt: skip
        if isinstance(caches, tuple | list) and any(isinstance(c, Tensor) for c in caches):
            raise Flaw("list", "The caches that `forward` returns must be a list with one for each "
                               "layer; yours holds the tensors of one.")  # fmt: skip
        logits.append(said)
    return torch.cat(logits, dim=1) / factor


def _post_norm(self: Llama, layer: Any, x: Tensor, cache: Any) -> tuple[Tensor, Any]:
    added, cache = layer.heads(x, cache)
    x = layer.norms[0](x + added)
    return layer.norms[1](x + layer.feed_forward(x)), cache


def _from_normed(self: Llama, layer: Any, x: Tensor, cache: Any) -> tuple[Tensor, Any]:
    x = layer.norms[0](x)
    added, cache = layer.heads(x, cache)
    x = layer.norms[1](x + added)
    return x + layer.feed_forward(x), cache


def _from_normed_first(self: Llama, layer: Any, x: Tensor, cache: Any) -> tuple[Tensor, Any]:
    x = layer.norms[0](x)
    added, cache = layer.heads(x, cache)
    x = x + added
    return x + layer.feed_forward(layer.norms[1](x)), cache


def _from_normed_second(self: Llama, layer: Any, x: Tensor, cache: Any) -> tuple[Tensor, Any]:
    added, cache = layer.heads(layer.norms[0](x), cache)
    x = layer.norms[1](x + added)
    return x + layer.feed_forward(x), cache


def _plain_second(self: Llama, layer: Any, x: Tensor, cache: Any) -> tuple[Tensor, Any]:
    added, cache = layer.heads(layer.norms[0](x), cache)
    x = x + added
    return x + layer.feed_forward(x), cache


def _plain_first(self: Llama, layer: Any, x: Tensor, cache: Any) -> tuple[Tensor, Any]:
    added, cache = layer.heads(x, cache)
    x = x + added
    return x + layer.feed_forward(layer.norms[1](x)), cache


def _longer_list(self: Llama, ids: Tensor, caches: list | None = None) -> tuple[Tensor, list]:
    logits, found = Llama.forward(self, ids, caches)
    return logits, (caches or []) + found


def _no_first(self: Llama, layer: Any, x: Tensor, cache: Any) -> tuple[Tensor, Any]:
    x, cache = layer.heads(layer.norms[0](x), cache)
    return x + layer.feed_forward(layer.norms[1](x)), cache


def _no_second(self: Llama, layer: Any, x: Tensor, cache: Any) -> tuple[Tensor, Any]:
    added, cache = layer.heads(layer.norms[0](x), cache)
    return layer.feed_forward(layer.norms[1](x + added)), cache


def _neither(self: Llama, layer: Any, x: Tensor, cache: Any) -> tuple[Tensor, Any]:
    x, cache = layer.heads(layer.norms[0](x), cache)
    return layer.feed_forward(layer.norms[1](x)), cache


def _swapped(self: Llama, layer: Any, x: Tensor, cache: Any) -> tuple[Tensor, Any]:
    added, cache = layer.heads(layer.norms[1](x), cache)
    x = x + added
    return x + layer.feed_forward(layer.norms[0](x)), cache


def _one_norm(self: Llama, layer: Any, x: Tensor, cache: Any) -> tuple[Tensor, Any]:
    added, cache = layer.heads(layer.norms[0](x), cache)
    x = x + added
    return x + layer.feed_forward(layer.norms[0](x)), cache


def _side_by_side(self: Llama, layer: Any, x: Tensor, cache: Any) -> tuple[Tensor, Any]:
    added, cache = layer.heads(layer.norms[0](x), cache)
    return x + added + layer.feed_forward(layer.norms[1](x)), cache


def _forward_first(self: Llama, layer: Any, x: Tensor, cache: Any) -> tuple[Tensor, Any]:
    x = x + layer.feed_forward(layer.norms[1](x))
    added, cache = layer.heads(layer.norms[0](x), cache)
    return x + added, cache


def _no_norms(self: Llama, layer: Any, x: Tensor, cache: Any) -> tuple[Tensor, Any]:
    added, cache = layer.heads(x, cache)
    x = x + added
    return x + layer.feed_forward(x), cache


def _not_handed_on(self: Llama, layer: Any, x: Tensor, cache: Any) -> tuple[Tensor, Any]:
    return Llama.run(self, layer, x, None)


def _with_eps(small: float, *, layers: bool = True, last: bool = True) -> type:
    class Other(Llama):
        def __init__(self, *sizes: int) -> None:
            super().__init__(*sizes)
            for layer in self.layers if layers else ():
                for norm in layer.norms:  # type: ignore[attr-defined]
                    norm.eps = small
            if last:
                self.norm.eps = small

    return Other


class _Tied(Llama):
    """The output's matrix is the table itself."""

    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        self.output.weight = self.embedding.weight


def _waves(self: Llama, ids: Tensor) -> Tensor:
    from transformer_lib.positions import SinusoidalPositions

    x = self.embedding(ids)
    return SinusoidalPositions(d_model=x.shape[-1], max_len=64).to(x)(x)


_SIZES = {
    "vocab_size": 11, "d_model": 24, "n_heads": 6, "n_kv_heads": 2, "n_layers": 3, "d_ff": 20,
}  # fmt: skip
_IDS = (random_tensor(2, 7) * 100).long() % 11


def _case(
    label: str, sizes: list[int], ids: Tensor = _IDS, factor: float | None = None, **init: int
) -> Case:
    scaled = {} if factor is None else {"factor": factor}
    return Case(label, ids, sizes, init=_SIZES | init, **scaled)


LLAMA = Exercise(
    name="Llama",
    reference=Llama,
    use=in_pieces,
    cases=[
        _case("one token, one layer", [1], _IDS[:1, :1], n_layers=1),
        _case("2 texts of 7 tokens, one layer", [7], n_layers=1),
        _case("2 texts of 7 tokens, 3 layers", [7]),
        _case("6 tokens, then 1 with the caches", [6, 1]),
        _case("one token at a time", [1] * 7),
        _case("4 tokens, then 3 with the caches", [4, 3]),
        _case("vectors so short that the norms' eps decides", [7], factor=1e-3),
    ],
    mistakes={
        "not all norms have the eps that is asked for, 1e-5": [
            _with_eps(small, **where)
            for where in ({}, {"layers": False}, {"last": False})
            for small in (1e-6, 1e-8, 1e-12, torch.finfo(torch.float32).eps, 1e-4, 1e-3)
        ],
        "the last norm is missing: it stands behind all layers, before the output": [
            but(Llama, end=lambda self, x: self.output(x)),
        ],
        "the norms stand behind the sublayers: a Llama has them in front": [
            but(Llama, run=_post_norm),
        ],
        "the norms are missing in the layers": but(Llama, run=_no_norms),
        "one of the two norms in a layer is not used": [
            but(Llama, run=_plain_second),
            but(Llama, run=_plain_first),
        ],
        "the caches that came in are handed out again, and the new ones do not take their place": [
            but(Llama, forward=_longer_list),
        ],
        "the residual stream is normed: what is added goes to x as it was": [
            but(Llama, run=_from_normed),
            but(Llama, run=_from_normed_first),
            but(Llama, run=_from_normed_second),
        ],
        "nothing is added to x behind the heads: the residual connection is missing": [
            but(Llama, run=_no_first),
        ],
        "nothing is added to x behind the feed-forward network: the residual connection is "
        "missing": but(Llama, run=_no_second),
        "both residual connections are missing": but(Llama, run=_neither),
        "the two norms of a layer are swapped": but(Llama, run=_swapped),
        "one norm is used twice in a layer: each sublayer has its own": but(Llama, run=_one_norm),
        "heads and feed-forward network work side by side: the second reads what the first has "
        "added": but(Llama, run=_side_by_side),
        "the feed-forward network comes before the heads": but(Llama, run=_forward_first),
        "the embedding is multiplied by the root of d_model: a Llama does not": [
            but(
                Llama,
                embed=lambda self, ids: self.embedding(ids) * self.embedding.embedding_dim**0.5,
            ),
        ],
        "places are added to the embedding: the turn in the heads is all there is": [
            but(Llama, embed=_waves),
        ],
        "the output uses the table of the embedding: here it has a matrix of its own": [
            but(Llama, end=lambda self, x: self.norm(x) @ self.embedding.weight.T),
            _Tied,
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
        "the caches are not handed to the layers": but(Llama, run=_not_handed_on),
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
