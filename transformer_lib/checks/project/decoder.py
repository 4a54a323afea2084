"""The model solution of the exercise `Llama`, in steps, and what can go wrong at each of them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from transformer_lib.checks.old.modules import Flaw
from transformer_lib.checks.project.grouped import Heads
from transformer_lib.checks.project.small import Norm, SwiGLU

__all__ = [
    "Llama",
    "Remembers",
    "Tied",
    "forward_first",
    "from_normed",
    "from_normed_first",
    "from_normed_second",
    "logits_in_pieces",
    "longer_list",
    "neither",
    "no_first",
    "no_norms",
    "no_second",
    "not_handed_on",
    "one_norm",
    "plain_first",
    "plain_second",
    "post_norm",
    "side_by_side",
    "swapped",
    "waves",
    "with_eps",
]


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


def logits_in_pieces(
    model: Any, /, ids: Tensor, sizes: list[int], factor: float = 1.0, before: Tensor | None = None
) -> Tensor:
    """The logits of all tokens, fed in pieces, each with the caches of those before it.

    The text `before`, where there is one, goes first, and its logits are not returned.

    All matrices are multiplied by `factor`, and the logits divided by it.

    Raises:
        Flaw: not two things are returned, or the first is no tensor.
    """
    if before is not None:
        logits_in_pieces(model, before, sizes)
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
        layers = len(getattr(model, "layers", []))
        if isinstance(caches, tuple | list) and len(caches) < layers:
            raise Flaw("number", f"The list of caches that `forward` returns has {len(caches)}: "
                                 f"there is one for each of the {layers} layers.")  # fmt: skip
        logits.append(said)
    return torch.cat(logits, dim=1) / factor


def post_norm(self: Llama, layer: Any, x: Tensor, cache: Any) -> tuple[Tensor, Any]:
    added, cache = layer.heads(x, cache)
    x = layer.norms[0](x + added)
    return layer.norms[1](x + layer.feed_forward(x)), cache


def from_normed(self: Llama, layer: Any, x: Tensor, cache: Any) -> tuple[Tensor, Any]:
    x = layer.norms[0](x)
    added, cache = layer.heads(x, cache)
    x = layer.norms[1](x + added)
    return x + layer.feed_forward(x), cache


def from_normed_first(self: Llama, layer: Any, x: Tensor, cache: Any) -> tuple[Tensor, Any]:
    x = layer.norms[0](x)
    added, cache = layer.heads(x, cache)
    x = x + added
    return x + layer.feed_forward(layer.norms[1](x)), cache


def from_normed_second(self: Llama, layer: Any, x: Tensor, cache: Any) -> tuple[Tensor, Any]:
    added, cache = layer.heads(layer.norms[0](x), cache)
    x = layer.norms[1](x + added)
    return x + layer.feed_forward(x), cache


def plain_second(self: Llama, layer: Any, x: Tensor, cache: Any) -> tuple[Tensor, Any]:
    added, cache = layer.heads(layer.norms[0](x), cache)
    x = x + added
    return x + layer.feed_forward(x), cache


def plain_first(self: Llama, layer: Any, x: Tensor, cache: Any) -> tuple[Tensor, Any]:
    added, cache = layer.heads(x, cache)
    x = x + added
    return x + layer.feed_forward(layer.norms[1](x)), cache


def longer_list(self: Llama, ids: Tensor, caches: list | None = None) -> tuple[Tensor, list]:
    logits, found = Llama.forward(self, ids, caches)
    return logits, (caches or []) + found


def no_first(self: Llama, layer: Any, x: Tensor, cache: Any) -> tuple[Tensor, Any]:
    x, cache = layer.heads(layer.norms[0](x), cache)
    return x + layer.feed_forward(layer.norms[1](x)), cache


def no_second(self: Llama, layer: Any, x: Tensor, cache: Any) -> tuple[Tensor, Any]:
    added, cache = layer.heads(layer.norms[0](x), cache)
    return layer.feed_forward(layer.norms[1](x + added)), cache


def neither(self: Llama, layer: Any, x: Tensor, cache: Any) -> tuple[Tensor, Any]:
    x, cache = layer.heads(layer.norms[0](x), cache)
    return layer.feed_forward(layer.norms[1](x)), cache


def swapped(self: Llama, layer: Any, x: Tensor, cache: Any) -> tuple[Tensor, Any]:
    added, cache = layer.heads(layer.norms[1](x), cache)
    x = x + added
    return x + layer.feed_forward(layer.norms[0](x)), cache


def one_norm(self: Llama, layer: Any, x: Tensor, cache: Any) -> tuple[Tensor, Any]:
    added, cache = layer.heads(layer.norms[0](x), cache)
    x = x + added
    return x + layer.feed_forward(layer.norms[0](x)), cache


def side_by_side(self: Llama, layer: Any, x: Tensor, cache: Any) -> tuple[Tensor, Any]:
    added, cache = layer.heads(layer.norms[0](x), cache)
    return x + added + layer.feed_forward(layer.norms[1](x)), cache


def forward_first(self: Llama, layer: Any, x: Tensor, cache: Any) -> tuple[Tensor, Any]:
    x = x + layer.feed_forward(layer.norms[1](x))
    added, cache = layer.heads(layer.norms[0](x), cache)
    return x + added, cache


def no_norms(self: Llama, layer: Any, x: Tensor, cache: Any) -> tuple[Tensor, Any]:
    added, cache = layer.heads(x, cache)
    x = x + added
    return x + layer.feed_forward(x), cache


def not_handed_on(self: Llama, layer: Any, x: Tensor, cache: Any) -> tuple[Tensor, Any]:
    return Llama.run(self, layer, x, None)


def with_eps(small: float, *, layers: bool = True, last: bool = True) -> type:
    class Other(Llama):
        def __init__(self, *sizes: int) -> None:
            super().__init__(*sizes)
            for layer in self.layers if layers else ():
                for norm in layer.norms:  # type: ignore[attr-defined]
                    norm.eps = small
            if last:
                self.norm.eps = small

    return Other


class Tied(Llama):
    """The output's matrix is the table itself."""

    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        self.output.weight = self.embedding.weight


class Remembers(Llama):
    """The model keeps the caches, whatever is handed over."""

    kept: list | None = None

    def forward(self, ids: Tensor, caches: list | None = None) -> tuple[Tensor, list]:
        logits, self.kept = Llama.forward(self, ids, self.kept)
        return logits, self.kept


def waves(self: Llama, ids: Tensor) -> Tensor:
    from transformer_lib.positions import SinusoidalPositions

    x = self.embedding(ids)
    return SinusoidalPositions(d_model=x.shape[-1], max_len=64).to(x)(x)
