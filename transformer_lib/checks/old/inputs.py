"""What exercises are tried on: sizes that cannot be confused, and numbers that hurt.

`attention_cases` and `sequence_cases` are lists to start from. The others make a harder case of
one that is there: `[*cases, in_bfloat16(cases[2]), not_contiguous(cases[2])]`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from transformer_lib.checks.old.exercise import Case

__all__ = [
    "attention_cases",
    "drawn",
    "in_bfloat16",
    "in_float64",
    "not_contiguous",
    "random_tensor",
    "sequence_cases",
    "times",
]


def random_tensor(*shape: int, seed: int = 0) -> Tensor:
    """Normally distributed numbers, the same at every call, whatever was drawn before.

    >>> torch.equal(random_tensor(2, 3), random_tensor(2, 3))
    True
    """
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def attention_cases() -> list[Case]:
    """Cases for `f(query, key, value, mask=None)`: masks are keywords, True = may attend.

    One key; distinct primes for all sizes; batches; a causal mask; padding; a query with nothing
    to attend to; scores of ten thousand and minus ten thousand.
    """

    def qkv(*batch: int, t: int, s: int, d: int, d_v: int) -> list[Tensor]:
        sizes = ((t, d), (s, d), (s, d_v))
        return [random_tensor(*batch, *size, seed=i) for i, size in enumerate(sizes)]

    some = qkv(2, t=3, s=5, d=7, d_v=11)
    padding = torch.tensor([5, 2])[:, None, None] > torch.arange(5)
    nothing = padding.expand(2, 3, 5).clone()
    nothing[1, 1] = False
    extreme = [100 * torch.eye(3)[None], 100 * torch.eye(3)[None] - 50, some[2][:1, :3]]
    return [
        Case("one query, one key", *qkv(t=1, s=1, d=2, d_v=3)),
        Case("3 queries, 5 keys, d_k = 2, d_v = 7", *qkv(t=3, s=5, d=2, d_v=7)),
        Case("a batch of 2", *some),
        Case("2 by 3 batches", *qkv(2, 3, t=5, s=7, d=4, d_v=6)),
        Case("a causal mask", *qkv(t=5, s=5, d=3, d_v=2), mask=torch.ones(5, 5).tril().bool()),
        Case("a padded row", *some, mask=padding),
        Case("a query with nothing to attend to", *some, mask=nothing),
        Case("scores of thousands", *extreme),
    ]


def sequence_cases(d_model: int, **init: Any) -> list[Case]:
    """Cases for a module that is built with `d_model` and `init`, and takes x of (B, T, d_model).

    One token; sizes that are distinct primes; a large offset; entries that are all the same.
    """
    init = {"d_model": d_model, **init}
    some = random_tensor(2, 5, d_model, seed=2)
    return [
        Case("one token", random_tensor(1, 1, d_model), init=init),
        Case("a batch of 2, 5 tokens", some, init=init),
        Case("as many tokens as features", random_tensor(1, d_model, d_model, seed=1), init=init),
        Case("numbers around 100", 100 + 3 * some, init=init),
        Case("features that are all alike", torch.full((1, 3, d_model), 2.0), init=init),
    ]


def _changed(case: Case, label: str, change: Callable[[Tensor], Tensor]) -> Case:
    def each(value: Any) -> Any:
        return change(value) if isinstance(value, Tensor) and value.is_floating_point() else value

    args, kwargs = map(each, case.args), {name: each(v) for name, v in case.kwargs.items()}
    return Case(f"{case.label}, {label}", *args, init=case.init, **kwargs)


def in_float64(case: Case) -> Case:
    """The case in double precision: an answer must not make float32 of it."""
    return _changed(case, "in float64", Tensor.double)


def in_bfloat16(case: Case) -> Case:
    """The case in 16 bits; results are then compared as closely as these allow."""
    return _changed(case, "in bfloat16", Tensor.bfloat16)


def times(factor: float, case: Case) -> Case:
    """The case with larger or smaller numbers.

    >>> times(1e4, Case("two scores", torch.tensor([1.0, -2.0]))).args
    (tensor([ 10000., -20000.]),)
    """
    return _changed(case, f"times {factor:g}", lambda t: factor * t)


def not_contiguous(case: Case) -> Case:
    """The same numbers, laid out in memory column by column, as a transpose leaves them."""
    return _changed(case, "not contiguous", lambda t: t.mT.contiguous().mT if t.dim() > 1 else t)


def drawn(n: int, statistic: Callable[[Tensor], Any]) -> Callable[..., Any]:
    """An exercise's `use` for random answers: a statistic of `n` draws, to be compared.

    Give the exercise an `atol` of about five standard errors, such as `2.5 / sqrt(n)` for a share.
    `statistic` takes the results stacked along a new first axis.

    >>> coin = lambda: torch.rand(()) < 0.5
    >>> share = drawn(1000, lambda tosses: tosses.float().mean())
    >>> 0.4 < share(coin) < 0.6
    tensor(True)
    """

    def use(answer: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        return statistic(torch.stack([torch.as_tensor(answer(*args, **kwargs)) for _ in range(n)]))

    return use
