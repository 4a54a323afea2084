"""Muon: an update that moves a matrix equally far in all its directions."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from transformer_lib.arguments import check_number, shown
from transformer_lib.tensors import check_floats

__all__ = ["Muon", "orthogonalized"]

MOMENTUM = 0.95
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
ROUNDS = 5


def orthogonalized(matrices: Tensor) -> Tensor:
    r"""The same directions, all of about the same size.

    A matrix is :math:`U S V^\top`: directions, and how far each of them reaches. This is about
    :math:`U V^\top`, without computing either. Each round applies the polynomial
    :math:`a s + b s^3 + c s^5` to all singular values :math:`s` at once. Five rounds bring those
    above 0.01 of the largest to between 0.7 and 1.2, which is near enough for an update.

    Args:
        matrices: ``(..., M, N)``, of floating point.

    Returns:
        ``(..., M, N)``, in bfloat16.

    Raises:
        TypeError: ``matrices`` is no tensor, or not of floating point.
        ValueError: it has fewer than two dimensions.

    Source:
        Jordan et al. (2024), *Muon: An optimizer for hidden layers in neural networks*.

    Example:
        >>> unequal = torch.tensor([[9.0, 0.0], [0.0, 1.0]])
        >>> sizes = torch.linalg.svdvals(orthogonalized(unequal).float())
        >>> bool(((sizes > 0.7) & (sizes < 1.2)).all())
        True
    """
    check_floats(matrices=matrices)
    a, b, c = COEFFICIENTS
    x = matrices.bfloat16()
    tall = x.size(-2) > x.size(-1)
    if tall:  # the smaller product is the cheaper one
        x = x.mT
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)  # no singular value above 1
    for _ in range(ROUNDS):
        square = x @ x.mT
        x = a * x + (b * square + c * square @ square) @ x
    return x.mT if tall else x


class Muon(torch.optim.Optimizer):
    r"""Stochastic gradient descent with momentum whose updates are orthogonalized.

    :math:`m \leftarrow 0.95\, m + 0.05\, g`, and the matrix moves by
    :math:`-0.2\, \eta \sqrt{\max(M, N)}` times the orthogonalized :math:`0.05\, g + 0.95\, m`. The
    factor gives an update the size of one of Adam: the same learning rate :math:`\eta` suits both.

    Matrices of one shape are orthogonalized together, in one product instead of many: a GPU takes
    about as long for all of them as for one.

    Args:
        matrices: parameters ``(M, N)``.
        lr: :math:`\eta`.

    Raises:
        TypeError: ``matrices`` is no list of tensors of floating point; ``lr`` is no number.
        ValueError: there are none, or one is no matrix; ``lr`` below 0.

    Source:
        Jordan et al. (2024), as above; Liu et al. (2025), *Muon is Scalable for LLM Training*,
        section 2.2, on the factor.
    """

    def __init__(self, matrices: Iterable[nn.Parameter], lr: float = 0.0) -> None:
        check_number("lr", lr, 0)
        if not isinstance(matrices, Iterable):
            raise TypeError(f"matrices must be a list of parameters, got {shown(matrices)}")
        found = list(matrices)
        if not found:
            raise ValueError("matrices must hold at least one parameter, got none")
        for matrix in found:
            check_floats(matrices=matrix)
            if matrix.dim() != 2 or not matrix.is_leaf:
                raise ValueError(f"matrices must be parameters (M, N), got {shown(matrix)}")
        super().__init__(found, {"lr": lr})

    @torch.no_grad()
    def step(self) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        for group in self.param_groups:
            alike: dict[torch.Size, list[Tensor]] = {}
            for matrix in group["params"]:
                if matrix.grad is not None:
                    alike.setdefault(matrix.shape, []).append(matrix)
            for shape, matrices in alike.items():
                updates = orthogonalized(torch.stack([self._momentum(one) for one in matrices]))
                rate = 0.2 * group["lr"] * max(shape) ** 0.5
                for matrix, update in zip(matrices, updates, strict=True):
                    matrix.add_(update, alpha=-rate)

    def _momentum(self, matrix: Tensor) -> Tensor:
        assert matrix.grad is not None
        state = self.state[matrix]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(matrix)
        buffer = state["momentum_buffer"].lerp_(matrix.grad, 1 - MOMENTUM)
        return matrix.grad.lerp(buffer, MOMENTUM)  # Nesterov's: one step of the average ahead
