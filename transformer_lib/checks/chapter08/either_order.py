"""The exercise `EitherOrder`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

import torch
from torch import Tensor

from transformer_lib.checks.chapter08.layer import (
    EitherOrder,
    FinalNorm,
    Narrow,
    NoNorms,
    OneHead,
    OnlyOneNorm,
    SameNorm,
    attended_alone,
    attention_called_bare,
    bare,
    bare_calls,
    both,
    but,
    feed_forward_called_bare,
    feed_forward_first,
    in_one_order,
    inner_norm,
    input_again,
    lost,
    no_norm,
    old_x,
    one_norm,
    orders,
    relu_at_the_end,
    side_by_side,
    side_by_side_sum,
    swapped_norms,
    twice,
)
from transformer_lib.checks.old.core import Case, Exercise
from transformer_lib.checks.old.inputs import in_float64, random_tensor

_PADDING = (torch.tensor([5, 2])[:, None] > torch.arange(5))[:, None, None]  # (2, 1, 1, 5)


def _case(
    label: str, b: int, t: int, d: int, h: int, ff: int, pre: bool, mask: Tensor | None = None
) -> Case:
    given = {} if mask is None else {"mask": mask}
    init = {"d_model": d, "n_heads": h, "d_ff": ff, "pre_norm": pre}
    return Case(label, random_tensor(b, t, d) + 0.5, init=init, **given)


_BOTH, _FIRST, _SECOND = both(no_norm)
# With pre-norm alone, the first one's absence means that the attention gets x as it came in.
_NO_NORM = [*orders(_BOTH, _SECOND), _FIRST, in_one_order(_FIRST, pre=False)]

EITHER_ORDER = Exercise(
    name="EitherOrder",
    reference=EitherOrder,
    cases=[
        _case("one token, pre-norm", 1, 1, 4, 1, 7, True),
        _case("one token, post-norm", 1, 1, 4, 1, 7, False),
        _case("pre-norm, 3 heads, 5 tokens", 2, 5, 12, 3, 17, True),
        _case("post-norm, 3 heads, 5 tokens", 2, 5, 12, 3, 17, False),
        _case("pre-norm, with padding", 2, 5, 6, 2, 11, True, _PADDING),
        _case("post-norm, with padding", 2, 5, 6, 2, 11, False, _PADDING),
        in_float64(_case("pre-norm, with padding", 2, 5, 6, 2, 11, True, _PADDING)),
    ],
    mistakes={
        "the mask is not handed on to the attention": orders(
            but(attend=lambda self, x, outside, mask: self.attention(x, x))
        ),
        "the mask is turned around on the way: the attention takes it as it is": orders(
            but(
                attend=lambda self, x, outside, mask: self.attention(
                    x, x, None if mask is None else ~mask
                )
            )
        ),
        "keys and values are made from x as it came in: with pre-norm, all three "
        "are made from the normalized x": but(
            attend=lambda self, x, outside, mask: self.attention(x, outside, mask)
        ),
        "the attention gets x as it came in: with pre-norm, it gets the normalized x": but(
            attend=lambda self, x, outside, mask: self.attention(outside, outside, mask)
        ),
        "queries are made from x as it came in: with pre-norm, they are made from the normalized "
        "x": but(attend=lambda self, x, outside, mask: self.attention(outside, x, mask)),
        "the norm comes before, whatever `pre_norm` says": but(order=lambda self, pre_norm: True),
        "the norm comes after, whatever `pre_norm` says": but(order=lambda self, pre_norm: False),
        "`pre_norm` is the wrong way round: True means that the norm comes first": but(
            order=lambda self, pre_norm: not pre_norm
        ),
        "x itself is lost: `x = norm(x)` and then `x + sublayer(x)` hands the normalized x on, "
        "where it should be `x + sublayer(norm(x))`": both(lost),
        "the residual connection is missing: only the sublayer's result goes on, and x is not "
        "added": orders(*both(bare)),
        "the sublayers are called one after the other: nothing is added, and nothing is "
        "normalized": orders(but(forward=bare_calls)),
        "one sublayer is called without its norm, and x is not added to its result": orders(
            but(forward=attention_called_bare),
            but(forward=feed_forward_called_bare),
        ),
        "`n_heads` is not used: the attention has one head": OneHead,
        "there is no norm: x + sublayer(x)": _NO_NORM,
        "with post-norm, only the sublayer's result is normalized: it should be the sum": (
            both(inner_norm)
        ),
        "x is added twice": orders(*both(twice)),
        "the feed-forward network comes first: it works on what the attention has collected": (
            orders(but(forward=feed_forward_first))
        ),
        "both sublayers get the layer's input: the feed-forward network works on what the "
        "attention has found": orders(
            but(forward=side_by_side),
            but(forward=side_by_side_sum),
        ),
        "the layer's own input is added again in the second sum, where the first sum should be: "
        "what the attention has found does not go on": [
            input_again(True, True),
            input_again(True, False),
            input_again(False, True),
        ],
        "the attention's result is thrown away: the feed-forward network must get it": orders(
            but(forward=old_x)
        ),
        "the feed-forward network is missing": orders(but(forward=attended_alone)),
        "the attention comes twice": orders(
            but(
                forward=lambda self, x, mask=None: self.second(
                    self.first(x, lambda y: self.attention(y, y, mask)),
                    lambda y: self.attention(y, y, mask),
                )
            )
        ),
        "the two norms have changed places: the first belongs to the attention": orders(
            but(forward=swapped_norms)
        ),
        "a ReLU is put behind it all: the only one is inside the feed-forward network": but(
            forward=relu_at_the_end
        ),
        "one norm serves both sublayers: each has a norm of its own": [
            *orders(but(forward=one_norm)),
            SameNorm,
            OnlyOneNorm,
        ],
        "the layer ends in a norm of its own: that one belongs to the whole stack": FinalNorm,
        "both norms are missing": NoNorms,
        "`d_ff` is not used: the width of the feed-forward network is given, and not always "
        "4 * d_model": Narrow,
    },
    section="What is the encoder made of?",
    keeps=("dtype", "device", "gradient"),
)
