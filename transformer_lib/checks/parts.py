"""The parts that layers are made of, as chapters 7 and 8 build them."""

from torch import Tensor, nn

from transformer_lib.checks.chapter07 import Residual
from transformer_lib.checks.chapter08 import MultiHeadAttention

__all__ = ["FeedForward", "MultiHeadAttention", "Residual"]


class FeedForward(nn.Module):
    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__()
        self.up = nn.Linear(d_model, d_ff)
        self.down = nn.Linear(d_ff, d_model)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.up(x).relu())
