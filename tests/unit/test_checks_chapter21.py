"""Chapter 21's checkers: answers that real learners give, each diagnosed by name."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from transformer_lib import RotaryPositions
from transformer_lib.checks.chapter21 import check
from transformer_lib.config import ModelConfig
from transformer_lib.layers import FeedForward
from transformer_lib.layers import rms_norm as library_norm

pytestmark = pytest.mark.slow


def verdict(capsys, function, name):
    function.__name__ = name
    result = check(function)
    capsys.readouterr()
    return result


# -------------------------------------------------------------------------------------- rms_norm


def norm_in_float64(x, weight, eps):
    mean = (x.double() ** 2).mean(-1, keepdim=True)
    return (x.double() * torch.rsqrt(mean + eps) * weight.double()).to(x.dtype)


def norm_like_llama(x, weight, eps):
    wide = x.to(torch.float32)
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    return weight * wide.type_as(x)


def norm_of_pytorch(x, weight, eps):
    return F.rms_norm(x.float(), (x.size(-1),), weight.float(), eps).type_as(x)


def norm_by_length(x, weight, eps):
    wide = x.float()
    length = wide.pow(2).sum(-1, keepdim=True) / x.shape[-1] + eps
    return (wide / length**0.5 * weight).to(x.dtype)


@pytest.mark.parametrize(
    "function", [norm_in_float64, norm_like_llama, norm_of_pytorch, norm_by_length]
)
def test_right_norms_pass(capsys, function):
    assert verdict(capsys, function, "rms_norm"), verdict(capsys, function, "rms_norm").report


def norm(size=lambda x, eps: (x.pow(2).mean(-1, keepdim=True) + eps).sqrt(), end=torch.mul):
    return lambda x, weight, eps: end(x.float() / size(x.float(), eps), weight.float()).type_as(x)


@pytest.mark.parametrize(
    ("function", "diagnosis"),
    [
        (
            lambda x, w, eps: x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * w,
            "the square of 300 is infinite",
        ),
        (
            lambda x, w, eps: (
                x.float() / (x.pow(2).float().mean(-1, keepdim=True) + eps).sqrt() * w
            ).type_as(x),
            "Convert x before you square it",
        ),
        (
            lambda x, w, eps: (
                x.float() / (x.pow(2).mean(-1, keepdim=True).float() + eps).sqrt() * w
            ).type_as(x),
            "Convert x before you square it",
        ),
        (
            lambda x, w, eps: (
                x / (x.float().pow(2).mean(-1, keepdim=True) + eps).sqrt().type_as(x) * w
            ),
            "the root is rounded to 16 bits",
        ),
        (
            lambda x, w, eps: (
                x * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + eps).type_as(x) * w
            ),
            "the root is rounded to 16 bits",
        ),
        (
            lambda x, w, eps: (
                x.float()
                / (x.float().pow(2).mean(-1, keepdim=True).type_as(x).float() + eps).sqrt()
                * w
            ).type_as(x),
            "the mean square is rounded to 16 bits",
        ),
        (
            lambda x, w, eps: (
                (x.bfloat16() / (x.bfloat16().square().mean(-1, True) + eps).sqrt()) * w.bfloat16()
            ).type_as(x),
            "are computed in bfloat16",
        ),
        (
            lambda x, w, eps: (
                x.float() / (x.float().square().mean(-1, keepdim=True) + eps).sqrt() * w.float()
            ),
            "they have dtype float32",
        ),
        (
            lambda x, w, eps: F.layer_norm(x.float(), (x.size(-1),), w.float(), eps=eps).type_as(x),
            "the mean is subtracted",
        ),
        (norm(lambda x, eps: x.std(-1, keepdim=True) + eps), "the deviation divides"),
        (norm(lambda x, eps: x.norm(dim=-1, keepdim=True)), "added up"),
        (norm(lambda x, eps: x.norm(dim=-1, keepdim=True) / x.size(-1) + eps), "divided by d"),
        (
            norm(lambda x, eps: (x.square().sum(-1, keepdim=True) + eps).sqrt() / x.size(-1)),
            "the length is divided by d",
        ),
        (norm(lambda x, eps: x.square().mean(-1, keepdim=True) + eps), "the root is missing"),
        (norm(lambda x, eps: (x.square().mean(-1, keepdim=True) + eps) ** 1 / 2), "is no root"),
        (norm(lambda x, eps: x.square().mean(-1, keepdim=True).sqrt()), "eps is left out"),
        (norm(lambda x, eps: x.square().mean(-1, keepdim=True).sqrt() + eps), "outside the root"),
        (norm(lambda x, eps: (x.square().mean(-1, keepdim=True) + 1e-6).sqrt()), "eps is fixed"),
        (norm(lambda x, eps: (x.square().mean() + eps).sqrt()), "over all numbers"),
        (norm(lambda x, eps: (x.square().mean(0, keepdim=True) + eps).sqrt()), "the first axis"),
        (norm(lambda x, eps: (x.square().mean(-1) + eps).sqrt()), "`keepdim=True` is missing"),
        (norm(end=lambda x, w: x), "`weight` is not used"),
        (norm(end=torch.add), "`weight` is added"),
        (norm(end=lambda x, w: x * (w + 1)), "1 + weight"),
        (norm(lambda x, eps: x.abs().mean(-1, keepdim=True) + eps), "absolute values"),
        (
            lambda x, w, eps: (
                (x.float() - x.float().mean(-1, keepdim=True))
                / (x.float().square().mean(-1, keepdim=True) + eps).sqrt()
                * w.float()
            ).type_as(x),
            "the mean is subtracted",
        ),
        (norm(lambda x, eps: (x.pow(2).mean(-1, keepdim=True) + eps**2) ** 0.5), "eps is squared"),
    ],
)
def test_wrong_norms_are_named(capsys, function, diagnosis):
    def rms_norm(x, weight, eps):
        return function(x, weight, eps)

    assert diagnosis in verdict(capsys, rms_norm, "rms_norm").report


def test_the_norm_is_the_librarys():
    x, weight = torch.randn(2, 3, 8), torch.randn(8)
    torch.testing.assert_close(norm_like_llama(x, weight, 1e-5), library_norm(x, weight, 1e-5))


# ------------------------------------------------------------------------------------- to_halves


def halves_by_order(weight, n_heads):
    rows = []
    width = weight.shape[0] // n_heads
    for head in range(n_heads):
        rows += [head * width + i for i in range(0, width, 2)]
        rows += [head * width + i for i in range(1, width, 2)]
    return weight[rows]


def halves_like_hugging_face(weight, n_heads):
    rows, columns = weight.shape
    weight = weight.view(n_heads, rows // n_heads // 2, 2, columns).transpose(1, 2)
    return weight.reshape(rows, columns)


def halves_head_by_head(weight, n_heads):
    return torch.cat([torch.cat([head[::2], head[1::2]]) for head in weight.chunk(n_heads)])


@pytest.mark.parametrize(
    "function", [halves_by_order, halves_like_hugging_face, halves_head_by_head]
)
def test_right_halves_pass(capsys, function):
    assert verdict(capsys, function, "to_halves")


def over_unread_rows(weight, n_heads):
    """First all even rows of a head to its front, then the odd ones behind them, in one tensor."""
    weight = weight.clone()
    for head in weight.chunk(n_heads):
        half = len(head) // 2
        for i in range(2 * half):
            head[i] = head[2 * i if i < half else 2 * (i - half) + 1].clone()
    return weight


def halves_at_once(weight, n_heads):
    weight = weight.clone()
    for head in weight.chunk(n_heads):
        half = len(head) // 2
        head[:half] = head[::2].clone()
        head[half:] = head[1::2].clone()
    return weight


def both_ends_at_once(weight, n_heads):
    weight = weight.clone()
    for head in weight.chunk(n_heads):
        half = len(head) // 2
        for i in range(half):
            even, odd = head[2 * i].clone(), head[2 * i + 1].clone()
            head[i], head[half + i] = even, odd
    return weight


def as_wide_as_the_input(weight, n_heads):
    width = weight.size(1) // n_heads
    heads = [weight[head * width : (head + 1) * width] for head in range(n_heads)]
    return torch.cat([part for head in heads for part in (head[::2], head[1::2])])


def columns_of_each_head(weight, n_heads):
    width = len(weight) // n_heads
    places = [*range(0, width, 2), *range(1, width, 2)]
    return weight.view(n_heads, width, -1)[:, :, places].reshape(weight.shape)


@pytest.mark.parametrize(
    ("function", "diagnosis"),
    [
        (
            lambda w, h: w.view(h, 2, -1, w.size(1)).transpose(1, 2).reshape(w.shape),
            "it is the other way",
        ),
        (lambda w, h: torch.cat([w[::2], w[1::2]]), "reordered as one head"),
        (lambda w, h: w.view(h, -1, 2, w.size(1)).reshape(w.shape), "nothing is reordered"),
        (lambda w, h: torch.cat([w[:, ::2], w[:, 1::2]], dim=1), "the columns are reordered"),
        (columns_of_each_head, "the columns are reordered"),
        (as_wide_as_the_input, "the width of a head is taken from the columns"),
        (
            lambda w, h: w.view(-1, 2, h, w.size(1)).transpose(0, 1).reshape(w.shape),
            "every n-th row is taken for a head",
        ),
        (
            lambda w, h: torch.cat([torch.cat([x[1::2], x[::2]]) for x in w.chunk(h)]),
            "the odd rows come first",
        ),
        (lambda w, h: w.view(-1, 2, w.size(1)).flip(1).reshape(w.shape), "of each arrow have"),
        (lambda w, h: halves_by_order(w, h).T, "lies on its side"),
        (lambda w, h: halves_by_order(w, h).view(h, -1, w.size(1)), "an axis of their own"),
        (lambda w, h: w[::2], "only the even rows"),
        (
            lambda w, h: torch.cat([torch.cat([x[len(x) // 2 :], x[: len(x) // 2]])
                                    for x in w.chunk(h)]),
            "the two halves of each head",
        ),
        (
            lambda w, h: torch.cat([x[i::2] for x in w.split(h) for i in (0, 1)]),
            "heads are `n_heads` rows wide",
        ),
        (
            lambda w, h: torch.cat([x[:, i::2] for x in w.split(len(w) // h, 1) for i in (0, 1)],
                                   dim=1),
            "the columns are reordered",
        ),
        (
            lambda w, h: w.view(h, -1, 2, w.size(1)).transpose(0, 1).reshape(w.shape),
            "the pairs change places with the heads",
        ),
        (over_unread_rows, "rows are overwritten before they are read"),
        (halves_at_once, "rows are overwritten before they are read"),
        (both_ends_at_once, "rows are overwritten before they are read"),
    ],
)  # fmt: skip
def test_wrong_halves_are_named(capsys, function, diagnosis):
    def to_halves(weight, n_heads):
        return function(weight, n_heads)

    assert diagnosis in verdict(capsys, to_halves, "to_halves").report


def test_reordered_rows_give_the_scores_of_neighbors():
    weight, x, rotary = torch.randn(8, 5), torch.randn(6, 5), RotaryPositions(d_head=8, max_len=6)
    angle = torch.arange(6.0)[:, None] * 10_000.0 ** (-torch.arange(0, 8, 2) / 8)
    arrows = torch.view_as_complex((x @ weight.T).unflatten(-1, (4, 2)))  # neighbors
    turned = torch.view_as_real(arrows * torch.polar(torch.ones_like(angle), angle)).flatten(-2)
    ours = rotary((x @ halves_by_order(weight, 1).T)[None, None])[0, 0]
    torch.testing.assert_close(ours @ ours.T, turned @ turned.T, atol=1e-4, rtol=1e-4)


# ---------------------------------------------------------------------------------------- swiglu


def swiglu_by_split(x, gate_up, down):
    d_ff = down.shape[1]
    both = F.linear(x, gate_up)
    return F.linear(both[..., d_ff:] * F.silu(both[..., :d_ff]), down)


def swiglu_by_rows(x, gate_up, down):
    gate, up = gate_up.chunk(2)
    z = x @ gate.T
    return (z * torch.sigmoid(z) * (x @ up.T)) @ down.T


@pytest.mark.parametrize("function", [swiglu_by_split, swiglu_by_rows])
def test_right_gates_pass(capsys, function):
    assert verdict(capsys, function, "swiglu")


def split_at_the_width(x, gate_up, down):
    gate, up = F.linear(x, gate_up).split(x.shape[-1], -1)
    return F.linear(F.silu(gate) * up, down)


def gated(inner, cut=lambda both: both.chunk(2, -1)):
    return lambda x, gate_up, down: inner(*cut(x @ gate_up.T)) @ down.T


@pytest.mark.parametrize(
    ("function", "diagnosis"),
    [
        (gated(lambda a, b: a * F.silu(b)), "have changed places"),
        (
            lambda x, both, down: F.linear(
                F.silu(F.linear(x, both[: len(down)])) * F.linear(x, both[len(down) :]), down
            ),
            "the matrix is cut at d, the rows of `down`",
        ),
        (gated(lambda a, b: F.silu(a) * F.silu(b)), "applied to both"),
        (gated(lambda a, b: a * b), "there is no silu"),
        (gated(lambda a, b: a.sigmoid() * b), "a sigmoid alone"),
        (gated(lambda a, b: F.gelu(a) * b), "another one than silu"),
        (gated(lambda a, b: F.silu(a) + b), "are added"),
        (gated(lambda a, b: F.silu(a * b)), "silu is taken of the product"),
        (gated(lambda a, b: F.silu(a)), "the content is missing"),
        (gated(lambda a, b: b), "the gate is missing"),
        (
            gated(lambda a, b: F.silu(a) * b, lambda both: (both[..., ::2], both[..., 1::2])),
            "the rows take turns",
        ),
        (
            gated(lambda a, b: F.silu(a) * b, lambda both: both.chunk(2, 1)),
            "the tokens are cut in halves",
        ),
        (
            lambda x, g, d: gated(
                lambda a, b: F.silu(a) * b,
                lambda both: (both[:, : d.shape[1]], both[:, d.shape[1] :]),
            )(x, g, d),
            "the tokens are cut in halves",
        ),
        (split_at_the_width, "the matrix is cut at d, the rows of `down`"),
        (lambda x, g, d: gated(lambda a, b: F.silu(a) * b)(x, g, d.T), "`down` is used as it lies"),
        (lambda x, g, d: swiglu_by_rows(x, g, d.view(d.T.shape).T), "by `view` or `reshape`"),
        (lambda x, g, d: swiglu_by_rows(x, g, torch.eye(d.size(1))), "`down` is missing"),
        (lambda x, g, d: x + swiglu_by_rows(x, g, d), "the residual connection"),
    ],
)
def test_wrong_gates_are_named(capsys, function, diagnosis):
    def swiglu(x, gate_up, down):
        return function(x, gate_up, down)

    assert diagnosis in verdict(capsys, swiglu, "swiglu").report


def test_the_gate_is_the_librarys():
    config = ModelConfig(
        vocab_size=9, d_model=6, n_heads=1, d_ff=5, activation="swiglu", dropout=0.0
    )
    layer, x = FeedForward(config), torch.randn(2, 3, 6)
    fused = torch.cat([layer.gate.weight, layer.up.weight])
    torch.testing.assert_close(swiglu_by_split(x, fused, layer.down.weight), layer(x))


# ----------------------------------------------------------------------------- grouped_attention


def groups_by_broadcasting(query, key, value, mask):
    b, h, t, d = query.shape
    query = query.view(b, key.size(1), h // key.size(1), t, d)
    scores = query @ key.unsqueeze(2).mT / d**0.5
    weights = scores.masked_fill(~mask, -torch.inf).softmax(-1)
    return (weights @ value.unsqueeze(2)).reshape(b, h, t, d)


def groups_of_pytorch(query, key, value, mask):
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, enable_gqa=True)


def groups_in_a_loop(query, key, value, mask):
    size, found = query.size(1) // key.size(1), []
    for h in range(query.size(1)):
        scores = query[:, h] @ key[:, h // size].mT / query.size(-1) ** 0.5
        weights = scores.masked_fill(mask.logical_not(), -1e9).softmax(-1)
        found.append(weights @ value[:, h // size])
    return torch.stack(found, dim=1)


@pytest.mark.parametrize("function", [groups_by_broadcasting, groups_of_pytorch, groups_in_a_loop])
def test_right_groups_pass(capsys, function):
    assert verdict(capsys, function, "grouped_attention")


def wide(heads, query):
    return heads.repeat_interleave(query.size(1) // heads.size(1), 1)


def groups(spread=wide, divisor=lambda q: q.size(-1) ** 0.5, weigh=lambda s: s.softmax(-1),
           hide=lambda s, m: s.masked_fill(~m, -1e9), end=lambda x, k: x):  # fmt: skip
    def answer(query, key, value, mask):
        scores = hide(query @ spread(key, query).mT / divisor(query), mask)
        return end(weigh(scores) @ spread(value, query), key)

    return answer


def one_below_the_other(places_first=False, apart=None, mask=lambda m, n: m.repeat(n, 1)):
    """The queries of a group in one column, and taken apart again."""

    def answer(query, key, value, hidden):
        b, h, t, d = query.shape
        n = h // key.size(1)
        rows = query.view(b, -1, n, t, d)
        rows = rows.transpose(2, 3) if places_first else rows
        mixed = groups_of_pytorch(rows.flatten(2, 3), key, value, mask(hidden, n))
        if places_first if apart is None else apart:
            return mixed.view(b, -1, t, n, d).transpose(2, 3).reshape(b, h, t, d)
        return mixed.reshape(b, h, t, d)

    return answer


def column(end):
    def answer(query, key, value, mask):
        group = query.size(1) // key.size(1)
        rows = query.unflatten(1, (-1, group)).flatten(2, 3)
        return end(groups_of_pytorch(rows, key, value, mask.repeat(group, 1)), query)

    return answer


def one_mean_query(query, key, value, mask):
    mean = query.unflatten(1, (key.size(1), -1)).mean(2)
    return wide(groups_of_pytorch(mean, key, value, mask), query)


def sizes_swapped(query, key, value, mask):
    b, h, t, d = query.shape
    g = key.size(1)
    scores = query.reshape(b, h // g, g * t, d) @ key.mT / d**0.5
    scores = scores.masked_fill(~mask.repeat(g, 1), -torch.inf)
    return (scores.softmax(-1) @ value).view(b, h, t, d)


def in_columns(cut):
    """As many heads below each other as there are groups."""

    def answer(query, key, value, mask):
        size = key.size(1)
        rows = cut(query, size).flatten(2, 3)
        mixed = groups(lambda x, _: x)(rows, key, value, mask.repeat(size, 1))
        return mixed.unflatten(2, (size, query.size(2))).flatten(1, 2)

    return answer


def heads_in_groups(query, key, value, mask):
    """The number of heads in a group stands where that of the groups is meant."""
    size = query.size(1) // key.size(1)
    rows = query.unflatten(1, (size, -1)).flatten(2, 3)
    mixed = groups(lambda x, _: x)(rows, key, value, mask.repeat(size, 1))
    return mixed.unflatten(2, (size, query.size(2))).flatten(1, 2)


def looked_up(query, key, value, mask):
    size, found = key.size(1), []
    for h in range(query.size(1)):
        scores = query[:, h] @ key[:, h // size].mT / query.size(-1) ** 0.5
        found.append(scores.masked_fill(~mask, -1e9).softmax(-1) @ value[:, h // size])
    return torch.stack(found, 1)


def axis_in_front(query, key, value, mask):
    rows = query.unflatten(1, (key.size(1), -1))
    scores = rows @ key[:, None].mT / query.size(-1) ** 0.5
    weights = scores.masked_fill(~mask, -1e9).softmax(-1)
    return (weights @ value[:, None]).flatten(1, 2)


def each_row_at_once(mask, times):
    return mask[:, None].expand(-1, times, -1).flatten(0, 1)


def test_a_column_of_queries_passes(capsys):
    assert verdict(capsys, one_below_the_other(), "grouped_attention")
    right = one_below_the_other(places_first=True, mask=each_row_at_once)
    assert verdict(capsys, right, "grouped_attention")


@pytest.mark.parametrize(
    ("function", "diagnosis"),
    [
        (groups(lambda x, q: x.repeat(1, q.size(1) // x.size(1), 1, 1)), "0, 1, 0, 1"),
        (
            lambda q, k, v, m: groups(lambda x, q: torch.cat([x] * (q.size(1) // x.size(1)), 1))(
                q, k, v, m
            ),
            "0, 1, 0, 1",
        ),
        (groups(lambda x, q: x[:, :1]), "the first head of keys"),
        (groups(lambda x, q: x.mean(1, keepdim=True)), "averaged over their heads"),
        (groups(end=lambda x, k: x.unflatten(1, (k.size(1), -1))), "an axis of their own"),
        (groups(hide=lambda s, m: s), "the mask is not used"),
        (groups(hide=lambda s, m: s.masked_fill(m, -1e9)), "upside down"),
        (groups(hide=lambda s, m: s.masked_fill(m, -torch.inf)), "upside down"),
        (groups(hide=lambda s, m: s.masked_fill(~m, 0)), "hidden scores are 0"),
        (groups(lambda x, q: wide(x, q), lambda q: 1), "not divided by anything"),
        (groups(divisor=lambda q: q.size(-1)), "not by its root"),
        (groups(weigh=lambda s: s.softmax(-2)), "over the queries"),
        (groups(weigh=lambda s: s.softmax(1)), "over the heads"),
        (groups(weigh=lambda s: s), "there is no softmax"),
        (lambda q, k, v, m: groups()(q, k, k, m), "the keys are mixed"),
        (groups(end=lambda x, k: x.transpose(1, 2).flatten(2)), "joined to one vector"),
        (one_mean_query, "the queries of a group are averaged"),
        (sizes_swapped, "the heads in a group have changed places"),
        (
            in_columns(lambda query, size: query.unflatten(1, (-1, size))),
            "the heads in a group have changed places",
        ),
        (heads_in_groups, "the heads in a group have changed places"),
        (
            groups(lambda x, q: x.repeat_interleave(x.size(1), 1)),
            "the heads in a group have changed places",
        ),
        (looked_up, "the heads in a group have changed places"),
        (axis_in_front, "0, 1, 0, 1"),
        (
            lambda q, k, v, m: F.scaled_dot_product_attention(
                q, k, v, is_causal=True, enable_gqa=True
            ),
            "a causal one that begins at the first key",
        ),
        (one_below_the_other(mask=each_row_at_once), "the rows of the mask have another order"),
        (one_below_the_other(places_first=True), "the rows of the mask have another order"),
        (one_below_the_other(mask=lambda m, n: m), "the rows of the mask are not"),
        (column(end=lambda mixed, query: mixed), "still stand below each other"),
        (
            lambda q, k, v, m: groups_of_pytorch(q[:, :: q.size(1) // k.size(1)], k, v, m),
            "one query head of each group is left",
        ),
        (one_below_the_other(apart=True), "taken apart in another order"),
        (
            lambda q, k, v, m: (
                groups_of_pytorch(
                    q.permute(0, 2, 1, 3).reshape(q.size(0), k.size(1), -1, q.size(3)),
                    k,
                    v,
                    m.repeat(q.size(1) // k.size(1), 1),
                )
                .reshape(q.size(0), q.size(2), q.size(1), -1)
                .permute(0, 2, 1, 3)
            ),
            "the places are cut into groups",
        ),
    ],
)
def test_wrong_groups_are_named(capsys, function, diagnosis):
    def grouped_attention(query, key, value, mask):
        return function(query, key, value, mask)

    assert diagnosis in verdict(capsys, grouped_attention, "grouped_attention").report


def test_one_key_for_each_query_is_multi_head_attention():
    torch.manual_seed(0)
    layer, x = nn.MultiheadAttention(12, 3, bias=False, batch_first=True), torch.randn(2, 5, 12)
    query, key, value = (
        part.unflatten(-1, (3, 4)).transpose(1, 2)
        for part in F.linear(x, layer.in_proj_weight).chunk(3, dim=-1)
    )
    mask = torch.ones(5, 5).tril().bool()
    mixed = groups_by_broadcasting(query, key, value, mask).transpose(1, 2).flatten(2)
    wanted = layer(x, x, x, attn_mask=~mask)[0]
    torch.testing.assert_close(F.linear(mixed, layer.out_proj.weight), wanted)
