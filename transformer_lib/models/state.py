"""What a decoder remembers between two steps."""

from dataclasses import dataclass

from torch import Tensor

from transformer_lib.cache import KVCache, is_every_row
from transformer_lib.embedding import Embedding
from transformer_lib.models.stacks import Decoder
from transformer_lib.validation import check_integers, check_type


@dataclass
class DecoderState:
    """What a decoder remembers between two steps."""

    cache: KVCache
    memory: Tensor | None = None  # (B / share, S, d_model)
    memory_mask: Tensor | None = None  # (B / share, 1, 1, S)
    share: int = 1  # so many adjacent rows share a row of memory: the beams of a sentence

    @property
    def rows(self) -> int | None:
        """Batch size; None for a text without a source before its first token."""
        return self.cache.rows if self.memory is None else self.memory.size(0) * self.share

    def reorder(self, index: Tensor) -> None:
        """Keep the rows ``index``, integers ``(B',)``, of the batch, in that order."""
        limit = "the number of rows"
        check_integers("index", index, "B", end=self.rows or 2**63, limit=limit, like=self.memory)
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


def take_step(
    embedding: Embedding, decoder: Decoder, tokens: Tensor, state: DecoderState
) -> tuple[Tensor, DecoderState]:
    """Read the newest token of every row, ``(B,)``: logits ``(B, vocab_size)``, and the state."""
    check_type("state", state, DecoderState)
    if decoder.cross_attention is (state.memory is None):
        found = "without" if decoder.cross_attention else "with"
        raise ValueError(f"state must come from this model's start, got one {found} a memory")
    check_integers("tokens", tokens, "B" if state.rows is None else state.rows)
    x = embedding(tokens[:, None], offset=state.cache.length, name="tokens")  # (B, 1, d_model)
    x = decoder(x, state.memory, memory_mask=state.memory_mask, cache=state.cache)
    return embedding.logits(x[:, 0]), state
