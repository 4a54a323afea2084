"""Checkers for chapter 9, *The decoder*."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer_lib.checks import Case, Checker, Exercise, Flaw, but
from transformer_lib.checks.inputs import integers, normal
from transformer_lib.checks.parts import FeedForward, MultiHeadAttention, Residual

__all__ = ["check"]


# -------------------------------------------------------------------------------- MyDecoderLayer

Mask = Tensor | None


class MyDecoderLayer(nn.Module):
    def __init__(self, d_model: int, n_heads: int, d_ff: int, pre_norm: bool) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, n_heads)
        self.cross_attention = MultiHeadAttention(d_model, n_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.self_residual = Residual(d_model, pre_norm)
        self.cross_residual = Residual(d_model, pre_norm)
        self.feed_forward_residual = Residual(d_model, pre_norm)

    def forward(
        self, x: Tensor, memory: Tensor, mask: Mask = None, memory_mask: Mask = None
    ) -> Tensor:
        for step in (self.back, self.across, self.think):
            x = step(x, memory, mask, memory_mask)
        return x

    def back(self, x: Tensor, memory: Tensor, mask: Mask, memory_mask: Mask) -> Tensor:
        return self.self_residual(x, lambda y: self.self_attention(y, y, mask))

    def across(self, x: Tensor, memory: Tensor, mask: Mask, memory_mask: Mask) -> Tensor:
        return self.cross_residual(x, lambda y: self.cross_attention(y, memory, memory_mask))

    def think(self, x: Tensor, *given: Mask) -> Tensor:
        return self.feed_forward_residual(x, self.feed_forward)


layer = partial(but, MyDecoderLayer)


def backward(look: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A step whose sublayer is `look(layer, y, x, memory, mask, memory_mask)`; y is normalized."""
    return lambda self, x, *given: self.self_residual(x, lambda y: look(self, y, x, *given))


def across(look: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda self, x, *given: self.cross_residual(x, lambda y: look(self, y, x, *given))


def layer_cases() -> list[Case]:
    one, read = torch.tensor([[[1.0, 2, 3, 6]]]), torch.tensor([[[2.0, 0, 1, -1]]])
    two = torch.tensor([[[2.0, 0, 1, -1], [1, -3, 0, 2]]])
    other = torch.tensor([[[3.0, -1, 2, 0]]])
    x, memory = integers(1, 3, 4), integers(1, 3, 4, seed=1)
    causal = torch.ones(3, 3).tril().bool()
    reads = torch.tensor([True, True, False])[None, None, None]
    lengths = torch.tensor([5, 3])[:, None, None, None]
    both: dict[str, Any] = {"mask": causal, "memory_mask": torch.arange(5) < lengths}
    long = integers(2, 3, 4, seed=2), integers(2, 5, 4, seed=3)
    double = normal(2, 3, 4).double(), normal(2, 5, 4, seed=1).double()

    def case(why: str, *args: Tensor, pre: bool = True, **more: Any) -> Case:
        init = {"d_model": 4, "n_heads": 2, "d_ff": 3, "pre_norm": pre}
        return Case(args, why, more, init)

    return [
        case("all three parts return 0 here, so with `pre_norm`, `x` comes out as it went in", one,
             read, speaks=()),
        case("only self-attention returns something other than 0 here", one, read,
             speaks=("self_attention",)),
        case("only cross-attention returns something other than 0 here: what is written asks, what "
             "is read answers", one, two, speaks=("cross_attention",)),
        case("only the feed-forward network returns something other than 0 here", one, read,
             speaks=("feed_forward",)),
        case("each part reads what the one before has made: self-attention, cross-attention, "
             "feed-forward", other, two),
        case("without `pre_norm`, each norm comes after its sum", other, two, pre=False),
        case("without masks, each token attends to all that's written and to all that's read", x,
             memory[:, :2]),
        case("`mask` hides the future of what is written", x, memory, mask=causal),
        case("`memory_mask` hides padding in what is read", x, memory, memory_mask=reads),
        case("`mask` comes before `memory_mask`", x, memory, causal, reads),
        case("each sentence has its own padding, and the source its own length", *long, pre=False,
             **both),
        case("double precision must not go through single precision", *double, **both),
    ]  # fmt: skip


OUTPUTS = {
    "self_attention": "out_proj",
    "cross_attention": "out_proj",
    "feed_forward": "down",
}
RESIDUALS = ("self_residual", "cross_residual", "feed_forward_residual")


def spoken(
    answer: nn.Module, /, *args: Any, speaks: Sequence[str] | None = None, **kwargs: Any
) -> Any:
    """The result, or that of a layer in which only the parts of `speaks` return more than 0."""
    for name in (*OUTPUTS, *RESIDUALS):
        if not hasattr(answer, name):
            raise Flaw(f"The exercise asks for an attribute `{name}`; your module has none.")
    for name, part in answer.named_modules():
        if isinstance(part, nn.Dropout) and part.p:
            raise Flaw(f"Your `{name}` is dropout: the exercise asks for none.")
    if speaks is None:
        return answer(*args, **kwargs)
    silent = tuple(f"{part}.{last}." for part, last in OUTPUTS.items() if part not in speaks)
    with torch.no_grad():  # gradients are for the cases in which every part speaks
        for name, parameter in answer.named_parameters():
            if name.startswith(silent):
                parameter.zero_()
        return answer(*args, **kwargs)


def added(step: str) -> Callable[..., Tensor]:
    """What a step returns, x in it, added to x."""
    return lambda self, x, *given: x + getattr(MyDecoderLayer, step)(self, x, *given)


DECODER_LAYER = Exercise(
    name="MyDecoderLayer",
    reference=MyDecoderLayer,
    cases=layer_cases,
    section="What happens in one layer?",
    keeps=frozenset({"dtype", "gradient"}),
    use=spoken,
    mistakes={
        "cross-attention has no mask: `memory_mask` is for it, since its keys are source tokens": (
            layer(across=across(lambda s, y, x, memory, *masks: s.cross_attention(y, memory)))
        ),
        "the two masks are swapped": layer(
            back=backward(lambda s, y, x, memory, a, b: s.self_attention(y, y, b)),
            across=across(lambda s, y, x, memory, a, b: s.cross_attention(y, memory, a)),
        ),
        "self-attention's keys and values come from `x`, not from what the residual hands over": (
            layer(back=backward(lambda s, y, x, memory, a, b: s.self_attention(y, x, a)))
        ),
        "the memory is normalized: a residual's norm is for what is written alone": layer(
            across=across(
                lambda s, y, x, memory, a, b: s.cross_attention(y, s.cross_residual.norm(memory), b)
            )
        ),
        "what a residual returns is added to `x`: it's in there already": layer(
            back=added("back"), across=added("across"), think=added("think")
        ),
        "the residuals are not used: `x + …` has no norm": layer(
            back=lambda s, x, memory, a, b: x + s.self_attention(x, x, a),
            across=lambda s, x, memory, a, b: x + s.cross_attention(x, memory, b),
            think=lambda s, x, *given: x + s.feed_forward(x),
        ),
        "a residual is given a result: it takes the sublayer itself, a function of one argument": (
            layer(back=lambda s, x, memory, a, b: s.self_residual(x, s.self_attention(x, x, a)))
        ),
    },
)

# ---------------------------------------------------------------------------------------- greedy

VOCAB = 14
SAYS_PAD, ENDLESS = 13, 10  # in a source
LOST, GOES_ON = 11, 12  # said after what it didn't write, and after its own end
PATIENCE = 60


class Reverser:
    """Writes its source backwards, then the end; a source with a 10 in it is written forever."""

    def __init__(self, bos_id: int, eos_id: int, pad_id: int) -> None:
        self.bos_id, self.eos_id, self.pad_id = bos_id, eos_id, pad_id
        self.encoded = self.decoded = 0

    def encode(self, source: Tensor) -> Tensor:
        self.encoded += 1
        if self.encoded > 1:
            raise Flaw(
                "`model.encode` is called a second time: the encoder is to run once, for the whole "
                "batch."
            )
        return F.one_hot(source, VOCAB).float()  # (B, S, 14): no ids any more

    def decode(self, target: Tensor, memory: Tensor) -> Tensor:
        if target.is_floating_point():
            if not memory.is_floating_point():
                raise Flaw("`model.decode` takes the target first, then the memory.")
            raise Flaw("`model.decode` is given floats as its target: ids are whole numbers.")
        if not memory.is_floating_point():
            raise Flaw(
                "`model.decode` is given ids as its memory: the memory is what `model.encode` has "
                "made of the source."
            )
        if target.dim() != 2 or len(target) != len(memory):
            raise Flaw(
                f"`model.decode` is given a target of shape {tuple(target.shape)}; for "
                f"{len(memory)} sentences it must have shape ({len(memory)}, T)."
            )
        if target.size(1) == 0 or (target[:, 0] != self.bos_id).any():
            begins = f"begins with {target[0, 0]}" if target.size(1) else "is empty"
            raise Flaw(
                f"The target that `model.decode` is given {begins}: it must hold `bos_id`, here "
                f"{self.bos_id}, and then all the words that were written."
            )
        self.decoded += 1
        if self.decoded > PATIENCE:
            raise Flaw(f"`model.decode` was called {PATIENCE} times, and nothing ends the loop.")
        logits = torch.zeros(*target.shape, VOCAB)
        rows = zip(target[:, 1:].tolist(), memory.argmax(-1).tolist(), strict=True)
        for b, (written, source) in enumerate(rows):
            for t in range(len(written) + 1):
                logits[b, t, self.next(written[:t], source)] = 5.0
        return logits

    def next(self, written: list[int], source: list[int]) -> int:
        text = [i for i in reversed(source) if i != self.pad_id]
        text = [self.pad_id if i == SAYS_PAD else i for i in text]
        text = 9 * text if ENDLESS in source else [*text, self.eos_id]
        if written[: len(text)] != text[: len(written)]:
            return LOST
        return text[len(written)] if len(written) < len(text) else GOES_ON


def greedy(
    model: Any,
    source: Tensor,
    max_len: int,
    bos_id: int,
    eos_id: int,
    pad_id: int,
    *,
    choose: Callable[[Tensor], Tensor] = lambda logits: logits[:, -1].argmax(-1),
    fill: Callable[..., Tensor] = lambda word, ended, eos_id, pad_id: word.masked_fill(
        ended, pad_id
    ),
    done: Callable[[Tensor, Tensor], bool] = lambda ended, now: bool(ended.all()),
    first: int = 1,
) -> Tensor:
    memory = model.encode(source)
    target = source.new_full((len(source), 1), bos_id)
    ended = torch.zeros(len(source), dtype=torch.bool)
    for _ in range(max_len):
        word = fill(choose(model.decode(target, memory)), ended, eos_id, pad_id)
        target = torch.cat([target, word[:, None]], dim=1)
        ended = ended | (word == eos_id)
        if done(ended, word == eos_id):
            break
    return target[:, first:]


def greedy_cases() -> list[Case]:
    def case(
        source: list[list[int]], max_len: int, why: str, ids: tuple[int, int, int] = (1, 2, 0)
    ) -> Case:
        return Case((Reverser(*ids), torch.tensor(source), max_len, *ids), why)

    three = [[7, 0, 0, 0], [3, 4, 5, 6], [8, 9, 0, 0]]
    return [
        case([[5]], 4, "a sentence of one word is that word and the end token"),
        case([[3, 4, 5]], 9, "each new word depends on all the words before it"),
        case([[3, 4, 5]], 2, "`max_len` is the number of words that may be written"),
        case([[3, 4], [5, 6]], 9, "two sentences are written side by side"),
        case([[3, 0], [4, 5]], 9, "a sentence that has ended waits for a longer one"),
        case(three, 9, "a sentence that has ended stays ended, however long the others go on"),
        case(three, 3, "at `max_len`, some have ended and others haven't"),
        case([[3, 10], [4, 0]], 6, "one of these sentences never ends"),
        case([[3, 5, 7], [8, 2, 2]], 9, "`bos_id`, `eos_id` and `pad_id` are arguments: here they "
             "are 6, 4 and 2", (6, 4, 2)),
        case([[3, 13, 4]], 9, "this model writes `pad_id` as a word, too"),
        case([[3, 13, 4], [5, 0, 0]], 9, "`pad_id` ends nothing, even beside a sentence that has "
             "ended"),
        case([[3, 5, 7], [8, 0, 0]], 9, "here `bos_id` is `eos_id`, and no sentence has ended "
             "before it begins", (2, 2, 0)),
    ]  # fmt: skip


writer = partial(partial, greedy)

GREEDY = Exercise(
    name="greedy",
    reference=greedy,
    cases=greedy_cases,
    section="How often must it read?",
    mistakes={
        "the logits of the first position are used: the next word is in those of the last": writer(
            choose=lambda logits: logits[:, 0].argmax(-1)
        ),
        "`argmax` runs over the positions: the words of the vocabulary are on the last axis": (
            writer(choose=lambda logits: logits.argmax(1)[:, -1])
        ),
        "all sentences stop when the first one ends": writer(done=lambda ended, now: now.any()),
        "a sentence that has ended is written on": writer(fill=lambda word, *_: word),
        "a sentence that has ended gets `eos_id` again, not `pad_id`": writer(
            fill=lambda word, ended, eos_id, pad_id: word.masked_fill(ended, eos_id)
        ),
        "it never stops before `max_len`": writer(done=lambda ended, now: False),
        "the beginning is returned as well: only what was written is asked for": writer(first=0),
    },
)

check = Checker(DECODER_LAYER, GREEDY)
