"""How well a key fits a query: the scores of the recurrent translators."""

from __future__ import annotations

from torch import Tensor, nn

from transformer_lib.arguments import check_count, check_type, check_vectors
from transformer_lib.tensors import check_floats

__all__ = ["AdditiveScore", "LuongScore"]


class AdditiveScore(nn.Module):
    r"""How well a key fits a query, computed by a small network.

    .. math:: v^\top \tanh(W q + U k)

    Args:
        d_query: width of queries.
        d_key: width of keys.
        d_hidden: width of the hidden layer.

    Raises:
        TypeError, ValueError: a width that is no integer of at least 1.

    Source:
        Bahdanau, Cho and Bengio (2015), section 3.1 and appendix A.1.2: the alignment model.

    Example:
        >>> import torch
        >>> score = AdditiveScore(d_query=4, d_key=6, d_hidden=8)
        >>> score(torch.randn(2, 3, 4), torch.randn(2, 5, 6)).shape
        torch.Size([2, 3, 5])
    """

    def __init__(self, *, d_query: int, d_key: int, d_hidden: int) -> None:
        super().__init__()
        for name, width in (("d_query", d_query), ("d_key", d_key), ("d_hidden", d_hidden)):
            check_count(name, width)
        self.query = nn.Linear(d_query, d_hidden, bias=False)  # W
        self.key = nn.Linear(d_key, d_hidden, bias=False)  # U
        self.v = nn.Linear(d_hidden, 1, bias=False)

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """Queries ``(..., T, d_query)`` and keys ``(..., S, d_key)`` to scores ``(..., T, S)``."""
        check_floats(query=query, key=key)
        return self.compare(query, self.prepare(key))

    def prepare(self, key: Tensor) -> Tensor:
        """The part of the scores that depends on the keys alone, ``(..., S, d_hidden)``."""
        check_vectors("key", key, self.key.in_features, self.key.weight, dims=None)
        return self.key(key)

    def compare(self, query: Tensor, prepared: Tensor) -> Tensor:
        """Queries ``(..., T, d_query)`` and prepared keys to scores ``(..., T, S)``."""
        weight = self.query.weight
        check_vectors("query", query, self.query.in_features, weight, dims=None)
        check_vectors("prepared", prepared, self.query.out_features, weight, dims=None)
        check_floats(query=query, prepared=prepared)
        both = self.query(query).unsqueeze(-2) + prepared.unsqueeze(-3)  # (..., T, S, d_hidden)
        return self.v(both.tanh()).squeeze(-1)


class LuongScore(nn.Module):
    r"""How well a key fits a query, in one of three ways.

    .. math::
        \text{dot: } q^\top k, \qquad \text{general: } q^\top W k, \qquad
        \text{concat: } v^\top \tanh(W [q; k])

    ``concat`` is :class:`AdditiveScore`: its W holds the W and the U of that class side by side.

    Args:
        kind: ``"dot"``, ``"general"`` or ``"concat"``.
        d_query: width of queries.
        d_key: width of keys; for ``"dot"`` it must equal ``d_query``.
        d_hidden: width of the hidden layer. Only ``"concat"`` has one.

    Raises:
        TypeError, ValueError: another kind; a width that is no integer of at least 1.

    Source:
        Luong, Pham and Manning (2015), section 3.1, equation (8).

    Example:
        >>> import torch
        >>> score = LuongScore(kind="general", d_query=4, d_key=6)
        >>> score(torch.randn(2, 3, 4), torch.randn(2, 5, 6)).shape
        torch.Size([2, 3, 5])
    """

    def __init__(self, *, kind: str, d_query: int, d_key: int, d_hidden: int | None = None) -> None:
        super().__init__()
        check_type("kind", kind, str)
        if kind not in ("dot", "general", "concat"):
            raise ValueError(f"kind must be 'dot', 'general' or 'concat', got {kind!r}")
        check_count("d_query", d_query)
        check_count("d_key", d_key)
        check_count("d_hidden", d_hidden, optional=True)
        if kind == "dot" and d_query != d_key:
            raise ValueError(f"d_key must be d_query ({d_query}) for a dot product, got {d_key}")
        self.d_query, self.d_key = d_query, d_key
        self.general = nn.Linear(d_key, d_query, bias=False) if kind == "general" else None
        self.concat = None
        if kind == "concat":
            if d_hidden is None:
                raise ValueError("d_hidden must be given for 'concat', got None")
            self.concat = AdditiveScore(d_query=d_query, d_key=d_key, d_hidden=d_hidden)

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """Queries ``(..., T, d_query)`` and keys ``(..., S, d_key)`` to scores ``(..., T, S)``."""
        check_floats(query=query, key=key)
        return self.compare(query, self.prepare(key))

    def prepare(self, key: Tensor) -> Tensor:
        """The part of the scores that depends on the keys alone, ``(..., S, width)``."""
        if self.concat is not None:
            return self.concat.prepare(key)
        check_vectors("key", key, self.d_key, next(self.parameters(), key), dims=None)
        return key if self.general is None else self.general(key)

    def compare(self, query: Tensor, prepared: Tensor) -> Tensor:
        """Queries ``(..., T, d_query)`` and prepared keys to scores ``(..., T, S)``."""
        if self.concat is not None:
            return self.concat.compare(query, prepared)
        check_floats(query=query, prepared=prepared)
        for name, tensor in (("query", query), ("prepared", prepared)):
            check_vectors(name, tensor, self.d_query, query, dims=None)
        return query @ prepared.transpose(-2, -1)
