"""What goes wrong at the two ends of a `MyTransformer`: table, positions, output."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from transformer_lib.checks.chapter11.parts import waves
from transformer_lib.checks.chapter11.whole import MyTransformer, but, either

__all__ = ["ENDS"]


def _own_output(self: Any, vocab_size: int, d_model: int) -> None:
    self.output = nn.Linear(d_model, vocab_size, bias=False)


def _own_output_and_bias(self: Any, vocab_size: int, d_model: int) -> None:
    self.output = nn.Linear(d_model, vocab_size)


def _tied_with_bias(self: Any, vocab_size: int, d_model: int) -> None:
    self.output = nn.Linear(d_model, vocab_size)
    self.output.weight = self.embedding.weight


def _own_target(self: Any, vocab_size: int, d_model: int) -> None:
    self.target_embedding = nn.Embedding(vocab_size, d_model)


def _own_both(self: Any, vocab_size: int, d_model: int) -> None:
    self.target_embedding = nn.Embedding(vocab_size, d_model)
    self.output = nn.Linear(d_model, vocab_size, bias=False)


def _own_both_and_bias(self: Any, vocab_size: int, d_model: int) -> None:
    self.target_embedding = nn.Embedding(vocab_size, d_model)
    self.output = nn.Linear(d_model, vocab_size)


def _learned_places(length: int) -> type:
    def more(self: Any, vocab_size: int, d_model: int) -> None:
        self.places = nn.Embedding(length, d_model)

    return but(more=more)


def _around_a_mean(mean: float, std: float | None = None) -> type:
    """The table is drawn around a mean, both in powers of d_model."""
    return but(
        more=lambda self, vocab_size, d_model: nn.init.normal_(
            self.embedding.weight, d_model**mean, 1 if std is None else d_model**std
        )
    )


def _sines_first(self: Any, x: Tensor) -> Tensor:
    table = waves(x.size(1), self.d_model)
    return torch.cat([table[:, ::2], table[:, 1::2]], dim=-1)


def _places_in_every_layer(self: Any, x: Tensor, memory: Tensor, *masks: Tensor | None) -> Tensor:
    for i, layer in enumerate(self.decoder.layers):
        x = layer(x + self.place(x) if i else x, memory, *masks)
    return self.decoder.norm(x)


ENDS = {
    "the embeddings are not multiplied by √d_model": but(
        enter=lambda self, ids: self.look(ids) + self.place(self.look(ids))
    ),
    "the embeddings are divided by √d_model: they are multiplied by it": but(
        enter=lambda self, ids: self.look(ids) / self.d_model**0.5 + self.place(self.look(ids))
    ),
    "the embeddings are multiplied by d_model: it is the root": but(
        enter=lambda self, ids: self.look(ids) * self.d_model + self.place(self.look(ids))
    ),
    "the embeddings are multiplied by the root of a head's width: it is that of d_model": but(
        enter=lambda self, ids: self.look(ids) * self.d_head**0.5 + self.place(self.look(ids))
    ),
    "the positions are multiplied by √d_model too: multiply first, then add them": but(
        enter=lambda self, ids: self.d_model**0.5 * (self.look(ids) + self.place(self.look(ids)))
    ),
    "only the source's embeddings are multiplied by √d_model": but(
        enter_target=lambda self, ids: self.look(ids) + self.place(self.look(ids))
    ),
    "the positions are multiplied by √d_model and the embeddings are not: it is the other way "
    "round": but(
        enter=lambda self, ids: self.look(ids) + self.d_model**0.5 * self.place(self.look(ids))
    ),
    "the embeddings are neither multiplied by √d_model, nor are positions added to them": but(
        enter=lambda self, ids: self.look(ids)
    ),
    "the source goes in as it is looked up: both ways in are (11.1), with √d_model and "
    "positions": but(enter_source=lambda self, ids: self.look(ids)),
    "the target goes in as it is looked up: both ways in are (11.1), with √d_model and "
    "positions": but(enter_target=lambda self, ids: self.look(ids)),
    "no positions are added": but(place=lambda self, x: torch.zeros_like(x)),
    "no positions are added to the target": but(
        enter_target=lambda self, ids: self.look(ids) * self.d_model**0.5
    ),
    "no positions are added to the source": but(
        enter_source=lambda self, ids: self.look(ids) * self.d_model**0.5
    ),
    "positions begin at 1: the first place is 0": but(
        place=lambda self, x: waves(x.size(1), self.d_model, 1)
    ),
    "positions are counted along the batch: they run along the sentence, ids.size(1)": [
        but(place=lambda self, x: waves(x.size(0), self.d_model).to(x)),
        but(place=lambda self, x: waves(x.size(0), self.d_model).to(x)[:, None]),
    ],
    "the positions end before the text does: their table must be as long as any text, or be "
    "computed for each": [
        but(place=lambda self, x, n=n: waves(n, self.d_model)[: x.size(1)])
        for n in (16, 32, 20, 10, 30, 36, 8, 12)
    ],
    "all sines stand before all cosines: they take turns, feature by feature": but(
        place=_sines_first
    ),
    "positions are added in every layer: once, at the entrance, is enough": but(
        decode=_places_in_every_layer
    ),
    "`nn.init.normal_` gets 1/√d_model as its mean, which is the second argument: write `std=`": [
        _around_a_mean(-0.5),
        _around_a_mean(-0.5, -0.5),
    ],
    "the table is drawn as PyTorch draws it, with deviation 1: it should be 1/√d_model (see the "
    'section "Break it: the table as PyTorch draws it")': but(
        more=lambda self, vocab_size, d_model: self.embedding.reset_parameters()
    ),
    "the table is drawn with the variance 1/√d_model: that is for the deviation": but(
        more=lambda self, vocab_size, d_model: nn.init.normal_(
            self.embedding.weight, std=d_model**-0.25
        )
    ),
    "the table is drawn with deviation 1/d_model: it is the root": but(
        more=lambda self, vocab_size, d_model: nn.init.normal_(
            self.embedding.weight, std=1 / d_model
        )
    ),
    "the table is drawn with deviation 0.02, as GPT's is: here it is 1/√d_model": but(
        more=lambda self, vocab_size, d_model: nn.init.normal_(self.embedding.weight, std=0.02)
    ),
    "there is a second table: source, target and output share one": [
        but(more=_own_output),
        but(more=_own_output_and_bias),
    ],
    "the output has a bias: (11.2) has none": but(more=_tied_with_bias),
    "there are three tables where one should be: source, target and output share it": [
        but(more=_own_both),
        but(more=_own_both_and_bias),
    ],
    "positions are learned: here they are the waves of chapter 10, without parameters": [
        _learned_places(n)
        for n in (512, 50, 64, 100, 128, 200, 256, 500, 1000, 1024, 2000, 2048, 4096, 5000, 10_000)
    ],
    "the table is not turned on the way out: (11.2) wants E transposed": but(
        leave=lambda self, x: x @ self.embedding.weight
    ),
    "the output is multiplied by √d_model: that is for the way in": but(
        leave=lambda self, x: self.d_model**0.5 * (x @ self.embedding.weight.mT)
    ),
    "the output is divided by √d_model: (11.2) is the product as it is": but(
        leave=lambda self, x: x @ self.embedding.weight.mT / self.d_model**0.5
    ),
    "the result is probabilities: return logits, before the softmax": but(
        leave=lambda self, x: (x @ self.embedding.weight.mT).softmax(dim=-1)
    ),
    "the result is logarithms of probabilities: return logits, before the softmax": but(
        leave=lambda self, x: (x @ self.embedding.weight.mT).log_softmax(dim=-1)
    ),
    "the vectors are returned: compare them with every word's by (11.2)": but(
        leave=lambda self, x: x
    ),
    "only the last place's logits are returned: every place predicts": [
        but(leave=lambda self, x: x[:, -1] @ self.embedding.weight.mT),
        but(leave=lambda self, x: x[:, -1:] @ self.embedding.weight.mT),
    ],
    "the target is shifted once more: what comes in is shifted already": [
        *either(
            forward=lambda self, source, target: MyTransformer.forward(self, source, target[:, :-1])
        ),
        *either(
            forward=lambda self, source, target: MyTransformer.forward(self, source, target[:, 1:])
        ),
        *either(
            forward=lambda self, source, target: MyTransformer.forward(
                self, source, torch.cat([target[:, :1], target[:, :-1]], dim=1)
            )
        ),
    ],
    "the most probable words are returned: return their logits": but(
        leave=lambda self, x: (x @ self.embedding.weight.mT).argmax(dim=-1)
    ),
}
