"""Checkers for chapter 11, *The whole Transformer*, and the layers that its exercise is given."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from transformer_lib.checks import Case, Checker, Exercise, Flaw, but
from transformer_lib.checks.chapter09 import MyDecoderLayer as DecoderLayer
from transformer_lib.checks.chapter10 import sinusoids
from transformer_lib.checks.parts import FeedForward, MultiHeadAttention, Residual

__all__ = ["DecoderLayer", "EncoderLayer", "check"]

# ------------------------------------------------------------------------------ count_parameters


def count_parameters(
    vocab_size: int,
    d_model: int,
    d_ff: int,
    n_encoder: int,
    n_decoder: int,
    n_heads: int,
    d_k: int,
    d_v: int,
    pre_norm: bool,
) -> int:
    attention = d_model * n_heads * 2 * (d_k + d_v) + n_heads * (2 * d_k + d_v) + d_model
    feed_forward, norm = 2 * d_model * d_ff + d_ff + d_model, 2 * d_model
    encoder = n_encoder * (attention + feed_forward + 2 * norm)
    decoder = n_decoder * (2 * attention + feed_forward + 3 * norm)
    return vocab_size * d_model + encoder + decoder + 2 * norm * pre_norm


COUNT_PARAMETERS = Exercise(
    name="count_parameters",
    reference=count_parameters,
    cases=lambda: [
        Case((5, 4, 3, 0, 0, 1, 1, 1, False), "without layers, one word table is left"),
        Case((5, 4, 3, 0, 0, 1, 1, 1, True), "only the last norms are left besides the table: one "
             "for each stack, each with a gain and a shift"),
        Case((5, 4, 3, 1, 0, 1, 1, 1, False), "there is one encoder layer and no decoder layer: "
             "attention, feed-forward and a norm for each, biases included"),
        Case((5, 4, 3, 0, 1, 1, 1, 1, False), "there is one decoder layer and no encoder layer: it "
             "has a third sublayer, and a norm for that, too"),
        Case((5, 4, 3, 1, 0, 2, 1, 1, False), "with two heads there are more columns to fill, and "
             "more rows in the output matrix"),
        Case((5, 4, 3, 1, 0, 2, 1, 7, False), "values are `d_v` wide, and that is what the output "
             "matrix gets from each head"),
        Case((5, 4, 3, 1, 0, 2, 7, 1, False), "queries and keys are `d_k` wide, for any "
             "`d_model`"),
        Case((5, 4, 3, 2, 3, 2, 2, 7, True), "each stack has its own number of layers, and one "
             "last norm"),
        Case((37000, 512, 2048, 6, 6, 8, 64, 64, False), "this is the paper's base model"),
    ],
    section="Where do 65 million numbers live?",
    mistakes={
        "attention is counted as in (11.3), with heads of width d_model / n_heads": (
            lambda v, d, f, m, n, h, k, w, pre: count_parameters(v, d, f, m, n, 1, d, d, pre)
        ),
        "a norm is counted as one vector: it has a gain and a shift": (
            lambda v, d, f, m, n, *sizes: (
                count_parameters(v, d, f, m, n, *sizes) - (2 * m + 3 * n + 2 * sizes[-1]) * d
            )
        ),
        "the last norms are counted without `pre_norm`, too": (
            lambda *sizes: count_parameters(*[*sizes[:-1], True])
        ),
    },
)  # fmt: skip

# --------------------------------------------------------------------------------- MyTransformer

Mask = Tensor | None


class EncoderLayer(nn.Module):
    def __init__(self, d_model: int, n_heads: int, d_ff: int, pre_norm: bool) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, n_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.attention_residual = Residual(d_model, pre_norm)
        self.feed_forward_residual = Residual(d_model, pre_norm)

    def forward(self, x: Tensor, mask: Mask = None) -> Tensor:
        x = self.attention_residual(x, lambda y: self.self_attention(y, y, mask))
        return self.feed_forward_residual(x, self.feed_forward)


class Stack(nn.Module):
    def __init__(self, layer: type, n_layers: int, d_model: int, *sizes: Any) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layer(d_model, *sizes) for _ in range(n_layers))
        *_, pre_norm = sizes
        self.norm = nn.LayerNorm(d_model) if pre_norm else nn.Identity()

    def forward(self, x: Tensor, *given: Mask) -> Tensor:
        for layer in self.layers:
            x = layer(x, *given)
        return self.norm(x)


def waves(x: Tensor) -> Tensor:
    return sinusoids(x.size(1), x.size(2)).to(x)


class MyTransformer(nn.Module):
    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        n_heads: int,
        d_ff: int,
        n_layers: int,
        pre_norm: bool,
        pad_id: int = 0,
    ) -> None:
        super().__init__()
        sizes = n_layers, d_model, n_heads, d_ff, pre_norm
        self.encoder = Stack(EncoderLayer, *sizes)
        self.decoder = Stack(DecoderLayer, *sizes)
        self.pad_id = pad_id
        self.embedding = nn.Embedding(vocab_size, d_model)
        nn.init.normal_(self.embedding.weight, std=d_model**-0.5)

    def enter(self, x: Tensor) -> Tensor:
        return x * x.size(-1) ** 0.5 + waves(x)

    def source_mask(self, source: Tensor) -> Mask:
        return (source != self.pad_id)[:, None, None]

    def masks(self, source: Tensor, target: Tensor) -> tuple[Mask, Mask, Mask]:
        """Of the encoder, of the decoder's own keys and of the memory."""
        own = torch.ones(target.size(1), target.size(1), dtype=torch.bool).tril()
        return self.source_mask(source), own, self.source_mask(source)

    def leave(self, x: Tensor) -> Tensor:
        return x @ self.embedding.weight.mT

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        reads, *writes = self.masks(source, target)
        memory = self.encoder(self.enter(self.embedding(source)), reads)
        return self.leave(self.decoder(self.enter(self.embedding(target)), memory, *writes))


def model_cases() -> list[Case]:
    def case(source: list[list[int]], target: list[list[int]], why: str, **init: Any) -> Case:
        sizes = {"vocab_size": 8, "d_model": 4, "n_heads": 2, "d_ff": 3, "n_layers": 1}
        ids = torch.tensor(source), torch.tensor(target)
        return Case(ids, why, init={**sizes, "pre_norm": True, **init})

    batch = [[5, 3, 4], [6, 0, 0]], [[1, 6, 2], [1, 4, 0]]
    return [
        case([[5]], [[1]], "without layers, a word goes in by (11.1), through the last norm, and "
             "out by (11.2)", n_layers=0),
        case([[5]], [[1, 6, 4]], "without layers, what's new in a longer target is its positions",
             n_layers=0),
        case([[5]], [[1]], "one word is read: it goes in as those of the target do, and the "
             "decoder attends to what the whole encoder has made of it"),
        case([[5, 3, 4]], [[1]], "three words are read: each attends to all three, and so does the "
             "one position that predicts"),
        case([[5]], [[1, 6, 4]], "no position of the target may attend to a later one"),
        case([[5, 3]], [[1, 6]], "with two layers, each of the decoder's attends to what the "
             "whole encoder has made", n_layers=2),
        case(*batch, "each sentence of a batch has its own padding, which nobody attends to"),
        case(*batch, "with the norm after each sum, padding is hidden all the same",
             pre_norm=False),
        case([[5, 0, 3], [6, 4, 4]], [[1, 0], [1, 4]], "`pad_id` is an argument: here it is 4, and "
             "0 is a word", pad_id=4),
        case([[3, 5, 7, 6] * 10], [[1, 3, 5, 7] * 11], "a text may be long"),
    ]  # fmt: skip


def logits_where_read(answer: nn.Module, /, source: Tensor, target: Tensor) -> Any:
    """Nobody reads what is predicted at padding, so it may be anything."""
    look_at_the_table(answer)
    logits = answer(source, target)
    if not isinstance(logits, Tensor) or logits.shape[:2] != target.shape:
        return logits
    padding = target == getattr(answer, "pad_id", 0)
    return logits.masked_fill(padding.view(*padding.shape, *[1] * (logits.dim() - 2)), 0)


def look_at_the_table(answer: nn.Module) -> None:
    new = type(answer)(997, 64, 2, 8, 1, True)
    table = next(p for p in new.parameters() if p.shape == (997, 64))
    ratio = table.std().item() * 64**0.5
    asked = "the exercise asks for 1/√d_model, and a mean of 0."
    if abs(ratio - 1) > 0.05:
        raise Flaw(f"The embedding's standard deviation is {ratio:.2g}/√d_model; {asked}")
    if abs(table.mean().item()) * 64**0.5 > 0.05:
        raise Flaw(f"The embedding's mean is {table.mean().item():.2g}; {asked}")


model = partial(but, MyTransformer)


def masked(change: Callable[[Any, Any, Any], tuple]) -> type[nn.Module]:
    """With other masks for the encoder, for the decoder's own keys and for the memory."""
    right = MyTransformer.masks
    return model(masks=lambda self, source, target: change(*right(self, source, target)))


MY_TRANSFORMER = Exercise(
    name="MyTransformer",
    reference=MyTransformer,
    cases=model_cases,
    section="What happens to one batch?",
    keeps=frozenset({"gradient"}),
    use=logits_where_read,
    mistakes={
        "the embeddings are not multiplied by √d_model": model(enter=lambda self, x: x + waves(x)),
        "the positions are multiplied by √d_model, too: only the embeddings are": model(
            enter=lambda self, x: x.size(-1) ** 0.5 * (x + waves(x))
        ),
        "the causal mask is upside down: True means may attend": masked(
            lambda reads, own, memory: (reads, ~own, memory)
        ),
        "the decoder's two masks are swapped: its own comes first, then that of the memory": masked(
            lambda reads, own, memory: (reads, memory, own)
        ),
        "the padding mask is upside down: True means may attend": model(
            source_mask=lambda self, source: (source == self.pad_id)[:, None, None]
        ),
        "the target is shifted again: it's given shifted already": (
            model(forward=lambda self, s, t: MyTransformer.forward(self, s, t.roll(1, 1)))
        ),
        "the result is probabilities: logits come before the softmax": model(
            leave=lambda self, x: (x @ self.embedding.weight.mT).softmax(-1)
        ),
    },
)

check = Checker(COUNT_PARAMETERS, MY_TRANSFORMER)
