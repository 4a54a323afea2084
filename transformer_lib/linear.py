"""A linear map, through the faster of the two libraries that PyTorch has for it on a CPU."""

from __future__ import annotations

from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer_lib.arguments import check_vectors

__all__ = ["Linear", "linear"]


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    r"""Multiply by a matrix, add a bias.

    .. math:: x W^\top + b

    This is ``F.linear``, and often twice as fast: PyTorch gives large matrices to MKL,
    which on AMD processors does half of what they can do, unless the input is laid out for
    oneDNN, which asks the processor and not its maker. Both compute in full float32.

    Args:
        x: ``(..., d_in)``.
        weight: ``(d_out, d_in)``.
        bias: ``(d_out,)`` or None.

    Returns:
        ``(..., d_out)``.

    Raises:
        TypeError: no tensors, or of different dtypes; under autocast any floating ones will do.
        ValueError: shapes or devices that do not fit.

    Example:
        >>> x, weight = torch.randn(2, 300, 128), torch.randn(256, 128)
        >>> torch.testing.assert_close(linear(x, weight), x @ weight.T, rtol=1e-4, atol=1e-4)
    """
    try:
        if weight.dim() != 2 or x.device != weight.device:  # which F.linear would put up with
            raise ValueError
        if not _suits_onednn(x, weight):
            return F.linear(x, weight, bias)
        if not torch.is_grad_enabled() and _has_inference_op():
            return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
        return F.linear(x.to_mkldnn(), weight, bias).to_dense()  # oneDNN once was MKL-DNN
    except Exception:  # looked into only now: a check takes a tenth of the time that a token does
        _check(x, weight, bias)
        raise


class Linear(nn.Linear):
    """``nn.Linear`` on :func:`linear`."""

    def forward(self, x: Tensor) -> Tensor:
        """``(..., in_features)`` to ``(..., out_features)``."""
        return linear(x, self.weight, self.bias)


def _check(x: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    if not isinstance(weight, Tensor) or not weight.is_floating_point():
        got = getattr(weight, "dtype", type(weight).__name__)
        raise TypeError(f"weight must be a floating point tensor, got {got}")
    if weight.dim() != 2:
        raise ValueError(f"weight must have shape (d_out, d_in), got {tuple(weight.shape)}")
    check_vectors("x", x, weight.size(1), weight, dims=None, what="weight")
    if bias is not None:
        check_vectors("bias", bias, weight.size(0), weight, dims=1, what="weight")


def _suits_onednn(x: Tensor, weight: Tensor) -> bool:
    return (
        # First: for what follows, torch.compile would cut the model at every matrix.
        not torch.compiler.is_compiling()
        # Below this the change of layout costs more than it saves; inference needs none.
        and x.numel() * weight.size(0) >= (2**23 if torch.is_grad_enabled() else 2**21)
        and x.device.type == weight.device.type == "cpu"
        and x.dtype is weight.dtype is torch.float32
        and x.dim() > 1
        and x.size(-1) == weight.size(-1)  # F.linear finds others out
        and weight.is_contiguous()
        and torch.backends.mkldnn.is_available()
        and not torch.is_autocast_enabled("cpu")
    )


@cache
def _has_inference_op() -> bool:
    """Is there the operator by which compiled models call oneDNN? It is no promise of PyTorch's.

    It needs no change of layout, and gives the same bits, but has no gradient.
    """
    x, weight = torch.arange(6.0).view(2, 3), torch.arange(15.0).view(5, 3)
    try:
        found = torch.ops.mkldnn._linear_pointwise(x, weight, None, "none", [], "")
        return found.equal(F.linear(x, weight))  # small integers, so exact
    except Exception:
        return False
