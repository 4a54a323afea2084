"""Chapter 21's checkers: right answers in every form, and what is said of wrong ones."""

import torch
import torch.nn.functional as F

from tests.unit.judging import table
from transformer_lib.checks.chapter21 import check
from transformer_lib.positions import RotaryPositions

# -------------------------------------------------------------------------------------- rms_norm


def norm_like_llama(x, weight, eps):
    wide = x.to(torch.float32)
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    return weight * wide.type_as(x)


def norm_of_pytorch(x, weight, eps):
    return F.rms_norm(x.float(), (x.size(-1),), weight.float(), eps).type_as(x)


def norm(size=lambda x, eps: (x.pow(2).sum(-1, True) / x.size(-1) + eps) ** 0.5, end=torch.mul):
    return lambda x, weight, eps: end(x.float() / size(x.float(), eps), weight.float()).type_as(x)


def rounded_root(x, weight, eps):
    return x / (x.float().pow(2).mean(-1, keepdim=True) + eps).sqrt().type_as(x) * weight


# ------------------------------------------------------------------------------------- to_halves


def halves_by_order(weight, n_heads):
    rows, width = [], weight.shape[0] // n_heads
    for head in range(n_heads):
        rows += [head * width + i for i in range(0, width, 2)]
        rows += [head * width + i for i in range(1, width, 2)]
    return weight[rows]


def halves(cut=lambda w, n: w.chunk(n), order=lambda x: [x[::2], x[1::2]]):
    return lambda weight, n_heads: torch.cat([torch.cat(order(x)) for x in cut(weight, n_heads)])


def test_reordered_rows_give_the_scores_of_neighbors():
    weight, x, rotary = torch.randn(8, 5), torch.randn(6, 5), RotaryPositions(d_head=8, max_len=6)
    angle = torch.arange(6.0)[:, None] * 10_000.0 ** (-torch.arange(0, 8, 2) / 8)
    arrows = torch.view_as_complex((x @ weight.T).unflatten(-1, (4, 2)))  # neighbors
    turned = torch.view_as_real(arrows * torch.polar(torch.ones_like(angle), angle)).flatten(-2)
    ours = rotary((x @ halves_by_order(weight, 1).T)[None, None])[0, 0]
    torch.testing.assert_close(ours @ ours.T, turned @ turned.T, atol=1e-4, rtol=1e-4)


# ---------------------------------------------------------------------------------------- swiglu


def swiglu_by_rows(x, gate_up, down):
    gate, up = gate_up.chunk(2)
    z = x @ gate.T
    return (z * torch.sigmoid(z) * (x @ up.T)) @ down.T


def gated(inner, cut=lambda both: both.chunk(2, -1)):
    return lambda x, gate_up, down: inner(*cut(x @ gate_up.T)) @ down.T


def cut_at_the_width(x, gate_up, down):
    gate, up = F.linear(x, gate_up).split(x.shape[-1], -1)
    return F.linear(F.silu(gate) * up, down)


# ----------------------------------------------------------------------------- grouped_attention


def groups_of_pytorch(query, key, value, mask):
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, enable_gqa=True)


def wide(heads, query):
    return heads.repeat_interleave(query.size(1) // heads.size(1), 1)


def groups(keys=wide, values=wide, divisor=lambda q, k: q.size(-1) ** 0.5,
           weigh=lambda s: s.softmax(-1), hide=lambda s, m: s.masked_fill(~m, -1e9),
           end=lambda x, k: x):  # fmt: skip
    def answer(query, key, value, mask):
        scores = hide(query @ keys(key, query).mT / divisor(query, key), mask)
        return end(weigh(scores) @ values(value, query), key)

    return answer


def in_turn(heads, query):
    return torch.cat([heads] * (query.size(1) // heads.size(1)), 1)


def column(positions_first=False, apart=None, mask=lambda m, n: m.repeat(n, 1)):
    """The queries of a group in one column, and taken apart again."""

    def answer(query, key, value, hidden):
        b, h, t, d = query.shape
        n = h // key.size(1)
        rows = query.view(b, -1, n, t, d)
        rows = rows.transpose(2, 3) if positions_first else rows
        mixed = groups_of_pytorch(rows.flatten(2, 3), key, value, mask(hidden, n))
        if positions_first if apart is None else apart:
            return mixed.view(b, -1, t, n, value.size(-1)).transpose(2, 3).reshape(b, h, t, -1)
        return mixed.reshape(b, h, t, -1)

    return answer


def each_row_at_once(mask, times):
    return mask[:, None].expand(-1, times, -1).flatten(0, 1)


test_right, test_wrong = table(
    check,
    right={
        "rms_norm": [ norm_like_llama, norm_of_pytorch, norm()],
        "to_halves": [halves_by_order,  halves()],
        "swiglu": [ swiglu_by_rows, gated(lambda a, b: F.silu(a) * b)],
        "grouped_attention": [
             groups_of_pytorch,  column(),
            column(positions_first=True, mask=each_row_at_once),
        ],
    },
    wrong={
        "rms_norm": [
            (norm(lambda x, eps: (x.square().mean(-1, True) + 1e-6).sqrt()), "`eps` is 9"),
            (norm(lambda x, eps: (x.square().mean(0, True) + eps).sqrt()), "its own size"),
            
            
            
            (lambda x, w, e: norm_of_pytorch(x, w.detach(), e), "no gradient reaches `weight`"),
            (rounded_root, "nothing may be rounded to 16 bits before the end"),
            
        ],
        "to_halves": [
            
            
        ],
        "swiglu": [
            (gated(lambda a, b: F.silu(a) * b, lambda both: both.chunk(2, 1)), "have that axis"),
            
            
            (lambda x, *of: swiglu_by_rows(x.detach(), *of), "no gradient reaches `x`"),
            (cut_at_the_width, "of four rows, the first two"),
            (lambda x, g, d: swiglu_by_rows(x, g, d.view(d.T.shape).T), "even where it is square"),
        ],
        "grouped_attention": [
            
            (groups(keys=in_turn), "attends to the keys of its group"),
            (groups(values=in_turn), "the last two the second"),
            (lambda q, k, *of: groups_of_pytorch(q, k.detach(), *of), "no gradient reaches `key`"),
            (groups(hide=lambda s, m: s * m), "may not attend to the second key"),
            
            
        ],
    },
)  # fmt: skip
