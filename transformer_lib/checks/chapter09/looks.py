"""What goes wrong inside the two looks of a `MyDecoderLayer`: masks, queries, keys."""

from __future__ import annotations

from transformer_lib.checks.chapter09.steps import both, but, look_across, look_back

__all__ = ["LOOKS"]

_ACROSS = ' (see the section "What may each attention see?")'
_NORMED = ' (see the section "What happens in one layer?")'

LOOKS = {
    "cross-attention has no mask: `memory_mask` is for it, since its keys are source tokens"
    + _ACROSS: [but(across=look_across(lambda s, y, x, m, a, b: s.cross_attention(y, m)))],
    "self-attention has no mask: `mask` is for it, and without it the future is seen" + _ACROSS: [
        but(back=look_back(lambda s, y, x, m, a, b: s.self_attention(y, y)))
    ],
    "neither attention has a mask: `mask` is for the look back, `memory_mask` for the look "
    "across" + _ACROSS: [
        but(
            back=look_back(lambda s, y, x, m, a, b: s.self_attention(y, y)),
            across=look_across(lambda s, y, x, m, a, b: s.cross_attention(y, m)),
        ),
    ],
    "the two masks have changed places: the keys of self-attention are target tokens, those "
    "of cross-attention source tokens" + _ACROSS: [
        but(
            back=look_back(lambda s, y, x, m, a, b: s.self_attention(y, y, b)),
            across=look_across(lambda s, y, x, m, a, b: s.cross_attention(y, m, a)),
        ),
    ],
    "the causal mask went to both attentions: across, there is no future, and `memory_mask` "
    "is the mask" + _ACROSS: [
        but(across=look_across(lambda s, y, x, m, a, b: s.cross_attention(y, m, a))),
        but(across=look_across(lambda s, y, x, m, a, b: s.cross_attention(y, m, both(a, b)))),
    ],
    "the source's mask went to both attentions: the keys of the look back are target tokens"
    + _ACROSS: [
        but(back=look_back(lambda s, y, x, m, a, b: s.self_attention(y, y, b))),
        but(back=look_back(lambda s, y, x, m, a, b: s.self_attention(y, y, both(a, b)))),
    ],
    "cross-attention takes its keys and values from the target: it never sees the memory": [
        but(across=look_across(lambda s, y, x, m, a, b: s.cross_attention(y, y, a))),
        but(across=look_across(lambda s, y, x, m, a, b: s.cross_attention(y, y))),
        but(across=look_across(lambda s, y, x, m, a, b: s.cross_attention(y, y, b))),
        *(
            but(
                across=look_across(
                    lambda s, y, x, m, *masks, i=i: s.cross_attention(y, x, masks[i])
                )
            )
            for i in (0, 1)
        ),
    ],
    "queries and keys of cross-attention have changed places: what is written asks, the "
    "memory is asked" + _ACROSS: [
        but(across=look_across(lambda s, y, x, m, a, b: s.cross_attention(m, y, b))),
        but(across=look_across(lambda s, y, x, m, a, b: s.cross_attention(m, y))),
        but(across=look_across(lambda s, y, x, m, a, b: s.cross_attention(m, y, a))),
    ],
    "cross-attention asks with the memory itself: its queries are what is written" + _ACROSS: [
        but(across=look_across(lambda s, y, x, m, a, b: s.cross_attention(m, m, b))),
    ],
    "the look back takes its keys from the memory: in self-attention all three come from what "
    "is written" + _ACROSS: [
        but(back=look_back(lambda s, y, x, m, a, b: s.self_attention(y, m, b))),
        but(back=look_back(lambda s, y, x, m, a, b: s.self_attention(y, m, a))),
        but(back=look_back(lambda s, y, x, m, a, b: s.self_attention(y, m))),
    ],
    "the queries of self-attention are normed and its keys are not: in the sublayer, both must "
    "be its own argument" + _NORMED: [
        but(back=look_back(lambda s, y, x, m, a, b: s.self_attention(y, x, a))),
        but(back=look_back(lambda s, y, x, m, a, b: s.self_attention(x, y, a))),
    ],
    "a sublayer does not use what the residual hands to it: with the norm before, that is the "
    "normed x, and yours takes x as it was" + _NORMED: [
        but(back=look_back(lambda s, y, x, m, a, b: s.self_attention(x, x, a))),
        but(across=look_across(lambda s, y, x, m, a, b: s.cross_attention(x, m, b))),
        but(
            back=look_back(lambda s, y, x, m, a, b: s.self_attention(x, x, a)),
            across=look_across(lambda s, y, x, m, a, b: s.cross_attention(x, m, b)),
        ),
    ],
    "the memory is normed once more in the decoder: it enters as it is" + _NORMED: [
        but(
            across=look_across(
                lambda s, y, x, m, a, b: s.cross_attention(y, s.cross_residual.norm(m), b)
            )
        ),
        but(
            across=look_across(
                lambda s, y, x, m, a, b: s.cross_attention(
                    y, s.cross_residual.norm(m) if s.cross_residual.pre_norm else m, b
                )
            )
        ),
    ],
}
