"""Layer normalization and RMS normalization, by hand and on PyTorch's fused kernels."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer_lib.arguments import check_count, check_number, check_type, check_vectors
from transformer_lib.config import ModelConfig

__all__ = ["LayerNorm", "RMSNorm", "layer_norm", "make_norm", "rms_norm"]


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    r"""Give every token's features mean 0 and variance 1, then scale and shift them.

    .. math:: \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} \odot \gamma + \beta

    with the biased variance, and epsilon under the root. :class:`LayerNorm` runs the
    fused kernel; this is what that kernel computes. The kernel takes the sums of half
    precision in float32; here squares must fit the dtype of ``x``.

    Args:
        x: ``(..., d_model)``.
        weight: gamma, ``(d_model,)``.
        bias: beta, ``(d_model,)``.
        eps: the small number under the root.

    Returns:
        ``(..., d_model)``.

    Raises:
        TypeError: an ``x`` that is not floating point, or of another dtype than ``weight``.
        ValueError: an ``x`` of another width than ``weight``; ``eps`` not above 0.

    Source:
        Ba et al. (2016), *Layer Normalization*.

    Example:
        >>> layer_norm(torch.tensor([1.0, 3.0]), torch.ones(2), torch.zeros(2), 1e-9).tolist()
        [-1.0, 1.0]
    """
    _check_features(x, eps, weight=weight, bias=bias)
    mean = x.mean(dim=-1, keepdim=True)
    variance = x.var(dim=-1, unbiased=False, keepdim=True)
    return (x - mean) / (variance + eps).sqrt() * weight + bias


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    r"""Scale every token's features to a mean square of 1, then by learned weights.

    .. math:: \frac{x}{\sqrt{\frac{1}{d} \sum_i x_i^2 + \epsilon}} \odot \gamma

    No mean is subtracted, and no shift is added. :class:`RMSNorm` runs the fused kernel.

    Args:
        x: ``(..., d_model)``.
        weight: gamma, ``(d_model,)``.
        eps: the small number under the root.

    Returns:
        ``(..., d_model)``.

    Raises:
        TypeError, ValueError: as :func:`layer_norm`.

    Source:
        Zhang and Sennrich (2019), *Root Mean Square Layer Normalization*.

    Example:
        >>> rms_norm(torch.tensor([1.0, 7.0]), torch.ones(2), 1e-9)  # 7 over the root of 25
        tensor([0.2000, 1.4000])
    """
    _check_features(x, eps, weight=weight)
    return x / (x.square().mean(dim=-1, keepdim=True) + eps).sqrt() * weight


class LayerNorm(nn.Module):
    """:func:`layer_norm` with learned scale and shift, on the fused kernel.

    Args:
        d_model: width of the vectors.
        eps: the small number under the root.

    Example:
        >>> LayerNorm(4)(torch.randn(2, 3, 4)).shape
        torch.Size([2, 3, 4])
    """

    def __init__(self, d_model: int, eps: float = 1e-5) -> None:
        super().__init__()
        check_count("d_model", d_model)
        check_number("eps", eps, 0, ends="()")
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))

    def forward(self, x: Tensor) -> Tensor:
        """``(..., d_model)`` to ``(..., d_model)``."""
        try:
            return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)
        except Exception:  # a check beforehand would be felt in every token
            check_vectors("x", x, self.weight.size(0), self.weight, dims=None)
            raise


class RMSNorm(nn.Module):
    """:func:`rms_norm` with a learned scale, on the fused kernel.

    Args:
        d_model: width of the vectors.
        eps: the small number under the root.

    Example:
        >>> RMSNorm(4)(torch.randn(2, 3, 4)).shape
        torch.Size([2, 3, 4])
    """

    def __init__(self, d_model: int, eps: float = 1e-5) -> None:
        super().__init__()
        check_count("d_model", d_model)
        check_number("eps", eps, 0, ends="()")
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x: Tensor) -> Tensor:
        """``(..., d_model)`` to ``(..., d_model)``."""
        try:
            return F.rms_norm(x, self.weight.shape, self.weight, self.eps)
        except Exception:  # a check beforehand would be felt in every token
            check_vectors("x", x, self.weight.size(0), self.weight, dims=None)
            raise


def make_norm(config: ModelConfig) -> LayerNorm | RMSNorm:
    """The norm that a config asks for."""
    check_type("config", config, ModelConfig)
    kind = {"layer": LayerNorm, "rms": RMSNorm}[config.norm]
    return kind(config.d_model, config.norm_eps)


def _check_features(x: Tensor, eps: float, **parameters: Tensor) -> None:
    if not isinstance(x, Tensor) or not x.is_floating_point():
        raise TypeError(f"x must be a floating point tensor, got {getattr(x, 'dtype', type(x))}")
    for name, parameter in parameters.items():
        check_type(name, parameter, Tensor)
        if parameter.dim() != 1 or x.shape[-1:] != parameter.shape or parameter.numel() == 0:
            raise ValueError(
                f"{name} must have shape (d_model,), the last dimension of x; "
                f"got {tuple(parameter.shape)} and x of shape {tuple(x.shape)}"
            )
        if (parameter.dtype, parameter.device) != (x.dtype, x.device):
            raise TypeError(
                f"{name} must be {x.dtype} on {x.device} as x is, "
                f"got {parameter.dtype} on {parameter.device}"
            )
    check_number("eps", eps, 0, ends="()")
