"""What a decoder remembers between two steps."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from transformer_lib.cache import KVCache, is_every_row
from transformer_lib.embedding import Embedding
from transformer_lib.validation import check_integers, check_type

__all__ = ["DecoderState", "embed_step"]


@dataclass
class DecoderState:
    """What a decoder remembers between two steps."""

    cache: KVCache
    memory: Tensor | None = None  # (B / share, S, d_model)
    memory_mask: Tensor | None = None  # (B / share, 1, 1, S)
    share: int = 1  # so many adjacent rows share a row of memory: the beams of a sentence
    mask: Tensor | None = None  # bool (B, 1, 1, length), False at padding before a prompt
    lengths: Tensor | None = None  # integers (B,), tokens in each row so far, if rows differ

    @property
    def rows(self) -> int | None:
        """Batch size; None for a text without a source before its first token."""
        if self.lengths is not None:
            return len(self.lengths)
        return self.cache.rows if self.memory is None else self.memory.size(0) * self.share

    @property
    def positions(self) -> Tensor | None:
        """The position of each row's next token, integers ``(B, 1)``, if rows differ."""
        return None if self.lengths is None else self.lengths[:, None]

    def grow(self) -> None:
        """Make room for one more token in each row."""
        if self.mask is not None and self.lengths is not None:
            one = self.mask.new_ones(len(self.mask), 1, 1, 1)
            self.mask = torch.cat((self.mask, one), dim=-1)  # (B, 1, 1, length + 1)
            self.lengths = self.lengths + 1

    def reorder(self, index: Tensor) -> None:
        """Keep the rows ``index``, integers ``(B',)``, of the batch, in that order."""
        limit = "the number of rows"
        check_integers("index", index, "B", end=self.rows or 2**63, limit=limit, like=self.memory)
        if self.mask is not None and self.lengths is not None:
            self.mask = self.mask.index_select(0, index)
            self.lengths = self.lengths.index_select(0, index)
        if self.memory is None:
            return self.cache.reorder(index)
        # Beams that swap parents within a sentence share its memory, which needn't move.
        read = index // self.share
        kept, counts = read.unique_consecutive(return_counts=True)
        even = bool((counts == counts[:1]).all())
        kept, self.share = (kept, len(index) // max(1, len(kept))) if even else (read, 1)
        self.cache.reorder(index, kept)
        if is_every_row(kept, len(self.memory)):
            return
        self.memory = self.memory.index_select(0, kept)
        if self.memory_mask is not None:
            self.memory_mask = self.memory_mask.index_select(0, kept)


def embed_step(
    embedding: Embedding, tokens: Tensor, state: DecoderState, *, crossing: bool
) -> Tensor:
    """Embed the newest token of every row, ``(B,)``, at its position: ``(B, 1, d_model)``."""
    check_type("state", state, DecoderState)
    if crossing is (state.memory is None):
        found = "without" if crossing else "with"
        raise ValueError(f"state must come from this model's start, got one {found} a memory")
    check_integers("tokens", tokens, "B" if state.rows is None else state.rows)
    offset, positions = state.cache.length, state.positions
    return embedding(tokens[:, None], offset=offset, positions=positions, name="tokens")
