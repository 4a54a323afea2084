"""The exercise `low_rank`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from transformer_lib.checks.old.core import Case, Exercise
from transformer_lib.checks.old.inputs import in_float64, random_tensor


def _low_rank(
    x: Tensor, weight: Tensor, bias: Tensor, a: Tensor, b: Tensor, alpha: float
) -> Tensor:
    # The layer is frozen: whether a way leads back to `weight` and `bias` is not asked.
    return x @ weight.detach().T + bias.detach() + alpha / a.size(0) * (x @ a.T @ b.T)


def _scaled(scale: Callable[[Tensor, float], float]) -> Callable[..., Tensor]:
    return lambda x, weight, bias, a, b, alpha: (
        x @ weight.T + bias + scale(a, alpha) * (x @ a.T @ b.T)
    )


def _turned(name: str) -> Callable[..., Tensor]:
    """With `reshape` where a or b, or both, should be transposed."""

    def answer(
        x: Tensor, weight: Tensor, bias: Tensor, a: Tensor, b: Tensor, alpha: float
    ) -> Tensor:
        turned = [
            m.reshape(m.size(1), m.size(0)) if n in name else m.T
            for n, m in zip("ab", (a, b), strict=True)
        ]
        return x @ weight.T + bias + alpha / a.size(0) * (x @ turned[0] @ turned[1])

    return answer


def _case(label: str, sizes: tuple[int, ...], d: int, out: int, rank: int, alpha: float) -> Case:
    return Case(
        label,
        random_tensor(*sizes, d),
        random_tensor(out, d, seed=1),
        random_tensor(out, seed=2),
        random_tensor(rank, d, seed=3),
        random_tensor(out, rank, seed=4),
        alpha,
    )


LOW_RANK = Exercise(
    name="low_rank",
    reference=_low_rank,
    cases=[
        _case("one vector, rank 1", (1,), 3, 2, 1, 3.0),
        _case("as wide as it is high", (4,), 5, 5, 2, 1.0),
        _case("a batch of texts", (2, 3), 7, 5, 2, 8.0),
        in_float64(_case("rank 3", (2,), 5, 7, 3, 16.0)),
    ],
    mistakes={
        "the sum is not scaled: multiply what is added by alpha / rank": [
            _scaled(lambda a, alpha: 1.0),
        ],
        "it is multiplied by alpha and not divided by the rank": _scaled(lambda a, alpha: alpha),
        "it is divided by the rank and not multiplied by alpha": [
            _scaled(lambda a, alpha: 1 / a.size(0)),
        ],
        "it is divided by the width: the rank is the number of rows of a": [
            _scaled(lambda a, alpha: alpha / a.size(1)),
        ],
        "it is divided by the number of outputs: the rank is the number of columns of b": [
            lambda x, weight, bias, a, b, alpha: (
                x @ weight.T + bias + alpha / b.size(0) * (x @ a.T @ b.T)
            ),
        ],
        "it is multiplied by the rank: it is divided by it": [
            _scaled(lambda a, alpha: alpha * a.size(0)),
        ],
        "it is divided by the root of the rank": _scaled(lambda a, alpha: alpha / a.size(0) ** 0.5),
        "the scale is the wrong way round: alpha / rank": _scaled(
            lambda a, alpha: a.size(0) / alpha
        ),
        "alpha / rank is rounded to a whole number: `/` divides, `//` drops what is behind the "
        "point": _scaled(lambda a, alpha: float(alpha // a.size(0))),
        "`reshape` gives a matrix the shape of its transpose and leaves its numbers in the old "
        "order: take `.T`": [_turned("ab"), _turned("a"), _turned("b")],
        "the frozen layer is gone: what is added comes on top of it": [
            lambda x, weight, bias, a, b, alpha: alpha / a.size(0) * (x @ a.T @ b.T),
            lambda x, weight, bias, a, b, alpha: alpha / a.size(0) * (x @ a.T @ b.T) + bias,
        ],
        "x goes through b first: a makes r numbers of it, and b makes the outputs of these": [
            lambda x, weight, bias, a, b, alpha: (
                x @ weight.T + bias + alpha / a.size(0) * (x @ b.T @ a.T)
            ),
        ],
        "the bias is missing": lambda x, weight, bias, a, b, alpha: (
            x @ weight.T + alpha / a.size(0) * (x @ a.T @ b.T)
        ),
        "nothing is added to the frozen layer": lambda x, weight, bias, a, b, alpha: (
            x @ weight.T + bias
        ),
        "everything is scaled: the scale belongs to what is added": [
            lambda x, weight, bias, a, b, alpha: (
                alpha / a.size(0) * (x @ weight.T + x @ a.T @ b.T) + bias
            ),
            lambda x, weight, bias, a, b, alpha: (
                alpha / a.size(0) * (x @ weight.T + bias + x @ a.T @ b.T)
            ),
        ],
        "the bias is scaled and added twice": lambda x, weight, bias, a, b, alpha: (
            x @ weight.T + bias + alpha / a.size(0) * (x @ a.T @ b.T + bias)
        ),
        "the addition is subtracted": lambda x, weight, bias, a, b, alpha: (
            x @ weight.T + bias - alpha / a.size(0) * (x @ a.T @ b.T)
        ),
        "there is a ReLU between the two matrices: they must merge into one": [
            lambda x, weight, bias, a, b, alpha: (
                x @ weight.T + bias + alpha / a.size(0) * ((x @ a.T).relu() @ b.T)
            ),
        ],
    },
    keeps=["gradient"],
    section="How many numbers must learn?",
)
