"""The model that `greedy` is tried on."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["Writer"]

_VOCAB = 14
_SAYS_PAD = 13  # in a source: the model says pad_id here, as a word
_LOST, _GOES_ON = 11, 12  # what the model says where it has no idea, and after its own end
_PATIENCE = 60  # calls of `decode`, more than any right answer needs


class Writer:
    """Writes its source backwards, then the end; a source with a 10 in it is written forever."""

    def __init__(self, bos_id: int = 1, eos_id: int = 2, pad_id: int = 0) -> None:
        self.bos_id, self.eos_id, self.pad_id = bos_id, eos_id, pad_id
        self.encoded = self.decoded = 0

    def __repr__(self) -> str:
        ids = f"bos_id={self.bos_id}, eos_id={self.eos_id}, pad_id={self.pad_id}"
        return f"transformer_lib.checks.chapter09.Writer({ids})"

    def encode(self, source: Tensor) -> Tensor:
        self.encoded += 1
        return F.one_hot(source, _VOCAB).float()  # (B, S, 14): no ids any more

    def decode(self, target: Tensor, memory: Tensor) -> Tensor:
        if target.dim() != 2 or target.size(1) == 0:
            shape = tuple(target.shape)
            raise TypeError(f"target must be ids (B, T), T at least 1; it has shape {shape}")
        if target.is_floating_point():
            raise TypeError("target must be ids, a tensor of integers; it holds floats")
        if not memory.is_floating_point():
            raise TypeError("memory must be what `encode` has made; these are ids")
        if len(target) != len(memory):
            raise ValueError(
                f"target has as many rows as there are sentences, {len(memory)}; got {len(target)}"
            )
        self.decoded += 1
        if self.decoded > _PATIENCE:
            raise RuntimeError(f"decode was called {_PATIENCE} times, and nothing ends the loop")
        logits = torch.zeros(*target.shape, _VOCAB)
        rows = zip(target.tolist(), memory.argmax(-1).tolist(), strict=True)
        for b, (read, source) in enumerate(rows):
            for t in range(len(read)):
                logits[b, t, self._next(read[: t + 1], source)] = 5.0
        return logits

    def _next(self, read: list[int], source: list[int]) -> int:
        text = [i for i in reversed(source) if i != self.pad_id]
        text = [self.pad_id if i == _SAYS_PAD else i for i in text]
        text = 9 * text if 10 in source else [*text, self.eos_id]
        written = read[1:]
        if read[0] != self.bos_id and written:
            return 9  # not what it says to the newest word alone
        if read[0] != self.bos_id or written[: len(text)] != text[: len(written)]:
            return _LOST
        return text[len(written)] if len(written) < len(text) else _GOES_ON
