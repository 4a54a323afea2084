"""What goes wrong with the stacks of a `MyTransformer`, and between them."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from transformer_lib.checks.chapter11.parts import EncoderLayer, Stack
from transformer_lib.checks.chapter11.whole import MyTransformer, but, either

__all__ = ["STACKS"]


def _only_last_layer(self: Any, x: Tensor, memory: Tensor, *masks: Tensor | None) -> Tensor:
    return self.decoder.norm(self.decoder.layers[-1](x, memory, *masks))


def _only_last_read(self: Any, source: Tensor) -> Tensor:
    x = self.encoder.layers[-1](self.enter_source(source), self.source_mask(source))
    return self.encoder.norm(x)


def _first_layer_again(self: Any, x: Tensor, memory: Tensor, *masks: Tensor | None) -> Tensor:
    for _ in self.decoder.layers:
        x = self.decoder.layers[0](x, memory, *masks)
    return self.decoder.norm(x)


def _norm_between(self: Any, x: Tensor, memory: Tensor, *masks: Tensor | None) -> Tensor:
    for layer in self.decoder.layers:
        x = self.decoder.norm(layer(x, memory, *masks))
    return x


def _in_step(self: Any, source: Tensor, target: Tensor, of: int = 1) -> Tensor:
    """Layer i of the decoder reads what layer i of the encoder has made."""
    read, x = self.enter(source), self.enter(target)
    for one, other in zip(self.encoder.layers, self.decoder.layers, strict=True):
        read = one(read, self.hide(source))
        x = other(x, read, self.target_mask(target, source), self.hide(source))
    return self.leave(self.decoder.norm(x))


def _in_step_normed(self: Any, source: Tensor, target: Tensor) -> Tensor:
    read, x = self.enter(source), self.enter(target)
    for one, other in zip(self.encoder.layers, self.decoder.layers, strict=True):
        read = one(read, self.hide(source))
        memory = self.encoder.norm(read)
        x = other(x, memory, self.target_mask(target, source), self.hide(source))
    return self.leave(self.decoder.norm(x))


def _shared(self: Any, vocab_size: int, d_model: int) -> None:
    for stack in (self.encoder, self.decoder):
        stack.layers = nn.ModuleList([stack.layers[0]] * len(stack.layers))


def _one_layer(self: Any, vocab_size: int, d_model: int) -> None:
    for stack in (self.encoder, self.decoder):
        stack.layers = stack.layers[:1]


def _no_cross(self: Any, vocab_size: int, d_model: int) -> None:
    n_layers, last = len(self.decoder.layers), self.last(self.sizes[-1])
    self.decoder = Stack(EncoderLayer, n_layers, self.sizes, last)


STACKS = {
    "the memory is taken before the encoder's last norm": but(
        encode=lambda self, source: self.encoder.through(
            self.enter_source(source), self.source_mask(source)
        )
    ),
    "the decoder's last norm is not used": but(
        decode=lambda self, *given: self.decoder.through(*given)
    ),
    "neither of the last norms is used": but(
        encode=lambda self, source: self.encoder.through(
            self.enter_source(source), self.source_mask(source)
        ),
        decode=lambda self, *given: self.decoder.through(*given),
    ),
    "a stack's last norm is used after each of its layers": but(decode=_norm_between),
    "there is no last norm: with pre-norm, each stack ends in one": but(
        last=staticmethod(lambda pre_norm: False)
    ),
    "there is a last norm with post-norm as well: each layer ends in one already": but(
        last=staticmethod(lambda pre_norm: True)
    ),
    "the last norms come with post-norm and not with pre-norm: it is the other way round": but(
        last=staticmethod(lambda pre_norm: not pre_norm)
    ),
    "the decoder reads the embedded source: it must read what the encoder has made of it": but(
        encode=lambda self, source: self.enter_source(source)
    ),
    "each layer of the decoder reads the layer of the encoder beside it: all of them read the "
    "encoder's last result": [but(forward=_in_step), but(forward=_in_step_normed)],
    "the encoder reads the target: it must read the source": but(
        encode=lambda self, source: self.encoder(
            self.enter_target(self.heard), self.hide(self.heard)
        ),
        forward=lambda self, source, target: (
            setattr(self, "heard", target),
            MyTransformer.forward(self, source, target),
        )[1],
        cross_mask=lambda self, source, target: self.hide(target),
    ),
    "source and target are exchanged: the encoder reads the source, the decoder the target": either(
        forward=lambda self, source, target: MyTransformer.forward(self, target, source)
    ),
    "every layer of the decoder gets what entered the first, and only the last one's result "
    "is used: hand on x from layer to layer": [
        but(decode=_only_last_layer),
        but(decode=_only_last_layer, encode=_only_last_read),
    ],
    "every layer of the encoder gets what entered the first, and only the last one's result "
    "is used: hand on x from layer to layer": but(encode=_only_last_read),
    "the decoder runs its first layer again and again": but(decode=_first_layer_again),
    "x and memory are exchanged: the decoder writes x and reads the memory": but(
        decode=lambda self, x, memory, *masks: self.decoder(memory, x, *masks)
    ),
    "each stack has one layer: it has n_layers of them": but(more=_one_layer),
    "the decoder is made of encoder layers: without a cross-attention it cannot read the "
    "memory": but(more=_no_cross),
    "one layer is used n_layers times: make a new one for each": but(more=_shared),
}
