"""Two paths, one result: the attention to read and the one to run."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from transformer_lib import attention, causal_mask, fused_attention
from transformer_lib.recurrent import AdditiveScore, LuongScore

B, H, T, S, D, DV = 2, 3, 5, 7, 11, 13
INPUTS = ("query", "key", "value")


def inputs(dtype: torch.dtype = torch.float64) -> dict[str, Any]:
    torch.manual_seed(0)
    return {
        "query": torch.randn(B, H, T, D, dtype=dtype, requires_grad=True),
        "key": torch.randn(B, H, S, D, dtype=dtype, requires_grad=True),
        "value": torch.randn(B, H, S, DV, dtype=dtype, requires_grad=True),
    }


def random_mask(*shape: int) -> Tensor:
    """About half of it True, with a row that is empty and one that is full."""
    torch.manual_seed(1)
    mask = torch.rand(shape) < 0.5
    mask[..., 0, :] = False
    mask[..., -1, :] = True
    return mask


MASKS = {
    "none": None,
    "full": random_mask(B, H, T, S),
    "keys": torch.tensor([[1, 0, 1, 1, 0, 0, 1], [0, 1, 1, 0, 1, 1, 0]]).bool()[:, None, None],
    "queries and keys": random_mask(T, S),
    "one batch row hidden": torch.tensor([True, False])[:, None, None, None].expand(B, 1, 1, S),
    "nothing to see": torch.zeros(1, dtype=torch.bool),
}
BIASES = {
    "none": None,
    "per head": torch.linspace(-3, 3, H * T * S).view(H, T, S),
    "per key": torch.linspace(-40, 40, S),
}


def results(path: str, given: dict[str, Any], weight: Tensor, **options: Any) -> tuple[Tensor, ...]:
    """Output and gradients of one path."""
    if path == "explicit":
        output = attention(**given, **options).output
    else:
        output = fused_attention(**given, **options)
    return output, *torch.autograd.grad((output * weight).sum(), [given[n] for n in INPUTS])


def kernel_calls(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What PyTorch's kernel is called with, from now on."""
    calls, kernel = [], F.scaled_dot_product_attention

    def spy(*args: Any, **options: Any) -> Tensor:
        calls.append(options)
        return kernel(*args, **options)

    monkeypatch.setattr(F, "scaled_dot_product_attention", spy)
    return calls


def test_by_hand() -> None:
    # scores 0 and log 3, so weights 1/4 and 3/4
    query, key = torch.tensor([[1.0]]), torch.tensor([[1.0], [3.0]]).log()
    output, weights = attention(query, key, torch.tensor([[4.0, 0.0], [8.0, 1.0]]))
    torch.testing.assert_close(weights, torch.tensor([[0.25, 0.75]]))
    torch.testing.assert_close(output, torch.tensor([[7.0, 0.75]]))


def test_the_scale_is_one_over_the_root_of_the_width() -> None:
    given = inputs()
    expected = (given["query"] @ given["key"].transpose(-2, -1) / D**0.5).softmax(-1)
    torch.testing.assert_close(attention(**given).weights, expected)
    unscaled = (given["query"] @ given["key"].transpose(-2, -1)).softmax(-1)
    torch.testing.assert_close(attention(**given, scale=1.0).weights, unscaled)


@pytest.mark.parametrize("scale", [None, 1.0, 0.0])
@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize("mask", MASKS)
def test_both_paths_agree_forward_and_backward(mask: str, bias: str, scale: float | None) -> None:
    given, weight = inputs(), torch.randn(B, H, T, DV, dtype=torch.float64)
    options = {"mask": MASKS[mask], "bias": BIASES[bias], "scale": scale}
    explicit = results("explicit", given, weight, **options)
    fused = results("fused", given, weight, **options)
    assert explicit[0].shape == (B, H, T, DV)
    for one, other in zip(explicit, fused, strict=True):
        assert one.isfinite().all()
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("t", [1, T, S])
@pytest.mark.parametrize(("mask", "bias"), [("none", "none"), ("keys", "per key")])
def test_causal_is_the_causal_mask(mask: str, bias: str, t: int) -> None:
    given, options = inputs(), {"mask": MASKS[mask], "bias": BIASES[bias]}
    given["query"] = torch.randn(B, H, t, D, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(B, H, t, DV, dtype=torch.float64)
    found = results("fused", given, weight, **options, causal=True)
    causal = causal_mask(t, S)
    options["mask"] = causal if options["mask"] is None else options["mask"] & causal
    for one, other in zip(found, results("explicit", given, weight, **options), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("scale", [-1.0, 0.0])
def test_causal_with_a_scale_that_is_not_positive(scale: float) -> None:
    """One of torch's kernels, for values as wide as the keys, hides a key before it multiplies."""
    given = inputs()
    for name in ("query", "value"):
        given[name] = torch.randn(B, H, S, D, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(B, H, S, D, dtype=torch.float64)
    found = results("fused", given, weight, causal=True, scale=scale)
    wanted = results("explicit", given, weight, mask=causal_mask(S), scale=scale)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


def test_causal_attention_over_one_text_makes_no_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    query, key = torch.randn(B, H, S, D), torch.randn(B, H, S, D)
    seen = kernel_calls(monkeypatch)
    fused_attention(query, key, key, causal=True)
    assert seen[-1]["attn_mask"] is None and seen[-1]["is_causal"]
    fused_attention(query[:, :, :1], key, key, causal=True)  # one query is the last: it sees all
    assert seen[-1]["attn_mask"] is None and not seen[-1]["is_causal"]
    fused_attention(query[:, :, :T], key, key, causal=True)  # the kernel would count from the left
    assert seen[-1]["attn_mask"].equal(causal_mask(T, S)) and not seen[-1]["is_causal"]
    with pytest.raises(ValueError, match=r"key must be at least as long as query \(7\).*got 5"):
        fused_attention(query[0, 0], key[0, 0, :T], key[0, 0, :T], causal=True)
    with pytest.raises(TypeError, match="causal must be True or False, got 1"):
        fused_attention(query, key, key, causal=1)  # type: ignore[arg-type]


TOLERANCE = {torch.float16: 2e-3, torch.bfloat16: 1e-2, torch.float32: 2e-5}


@pytest.mark.parametrize("size", [1, 8, 500])  # scores of about 1, of about 64, past float16's end
@pytest.mark.parametrize(("mask", "bias"), [("none", "none"), ("full", "per head")])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_lower_precision_rounds_the_result_and_no_score(
    dtype: torch.dtype, mask: str, bias: str, size: int
) -> None:
    narrow = inputs(dtype)
    for name in ("query", "key"):
        narrow[name] = (size * narrow[name]).detach().requires_grad_()
    exact = {name: x.detach().double().requires_grad_() for name, x in narrow.items()}
    added = BIASES[bias]
    options = {"mask": MASKS[mask], "bias": None if added is None else added.bfloat16().float()}
    expected = results("explicit", exact, torch.ones(()), **options)
    # Without gradients the kernel computes in half precision, too.
    kernel = fused_attention(**{name: x.detach() for name, x in narrow.items()}, **options)
    for found in (
        results("explicit", narrow, torch.ones((), dtype=dtype), **options),
        results("fused", narrow, torch.ones((), dtype=dtype), **options),
        (kernel,),
    ):
        for one, other in zip(found, expected, strict=False):
            assert one.dtype is dtype
            near = TOLERANCE[dtype] * max(1.0, other.abs().max().item())
            torch.testing.assert_close(one.double(), other, rtol=0, atol=near)


def test_a_query_with_a_visible_key_keeps_it_in_float16() -> None:
    query = torch.full((1, 1, 4), -200.0, dtype=torch.float16)
    key, value = -query.expand(1, 2, 4), torch.tensor([[[1.0], [2.0]]], dtype=torch.float16)
    for path in (attention, fused_attention):
        for q in (query, query.clone().requires_grad_()):  # scores of -80,000, and of 80,000
            seen = torch.tensor([True, False])
            one, both = path(q, key, value, seen), path(-q, key, value)
            assert [getattr(x, "output", x).item() for x in (one, both)] == [1, 1.5]
    assert attention(query, key, value, torch.tensor([True, False])).weights.tolist() == [[[1, 0]]]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_vmap_and_a_batch_that_is_shared(dtype: torch.dtype) -> None:
    query = torch.randn(T, D, dtype=dtype, requires_grad=True)
    key, value = torch.randn(B, H, S, D, dtype=dtype), torch.randn(B, H, S, DV, dtype=dtype)
    for path in (lambda *x: attention(*x).output, fused_attention):
        each = torch.stack([path(query, k, v) for k, v in zip(key, value, strict=True)])
        mapped = torch.vmap(path, in_dims=(None, 0, 0))(query, key, value)
        torch.testing.assert_close(mapped, each)
        (slope,) = torch.autograd.grad(each.sum(), query)
        by_vmap = torch.func.grad(lambda q, path=path: path(q, key, value).sum())(query)
        torch.testing.assert_close(by_vmap, slope, rtol=0.05, atol=0.05)


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize("path", ["explicit", "fused"])
def test_a_query_without_a_key_gets_zeros_and_gives_no_gradient(path: str) -> None:
    given = inputs()
    mask = torch.ones(B, 1, T, S, dtype=torch.bool)
    mask[:, :, 3] = False
    with torch.autograd.detect_anomaly():  # no NaN on the way either
        output, d_query, d_key, d_value = results(path, given, torch.ones(()), mask=mask)
    assert output[:, :, 3].eq(0).all()
    assert output[:, :, 2].ne(0).all()
    assert d_query[:, :, 3].eq(0).all()
    assert d_key.isfinite().all()
    # every other query gives its whole weight of 1 to the values
    torch.testing.assert_close(d_value.sum(-2), torch.full((B, H, DV), T - 1.0).double())


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("path", ["explicit", "fused"])
def test_no_keys_at_all(path: str, masked: bool, biased: bool) -> None:
    given = inputs()
    for name, width in (("key", D), ("value", DV)):
        given[name] = torch.zeros(B, H, 0, width, dtype=torch.float64, requires_grad=True)
    mask = torch.ones(B, 1, 1, 0, dtype=torch.bool) if masked else None
    bias = torch.zeros(T, 0) if biased else None
    output, *gradients = results(path, given, torch.ones(()), mask=mask, bias=bias)
    assert output.shape == (B, H, T, DV)
    assert output.eq(0).all()
    assert [gradient.shape for gradient in gradients] == [given[name].shape for name in INPUTS]
    assert gradients[0].eq(0).all()


@pytest.mark.parametrize("path", ["explicit", "fused"])
@pytest.mark.parametrize("empty", ["batch", "queries", "width of values"])
def test_nothing_in_nothing_out(path: str, empty: str) -> None:
    b, t = 0 if empty == "batch" else B, 0 if empty == "queries" else T
    dv = 0 if empty == "width of values" else DV
    given = {"query": torch.zeros(b, H, t, D), "key": torch.zeros(b, H, S, D)}
    given["value"] = torch.zeros(b, H, S, dv)
    function: Any = attention if path == "explicit" else fused_attention
    for mask in (None, torch.ones(t, S, dtype=torch.bool)):
        result = function(**given, mask=mask)
        output = result if isinstance(result, Tensor) else result.output
        assert output.shape == (b, H, t, dv)


@pytest.mark.parametrize("path", ["explicit", "fused"])
def test_autocast_brings_dtypes_together(path: str) -> None:
    given = inputs(torch.float32)
    mixed = given | {"key": given["key"].detach().bfloat16().requires_grad_()}
    with torch.autocast("cpu", torch.bfloat16):
        output = results(path, mixed, torch.ones(()), mask=MASKS["full"], bias=BIASES["per head"])
    plain = results(path, given, torch.ones(()), mask=MASKS["full"], bias=BIASES["per head"])
    for one, other in zip(output, plain, strict=True):
        torch.testing.assert_close(one.float(), other, rtol=0.1, atol=0.1)
    with torch.autocast("cpu", torch.bfloat16), pytest.raises(TypeError, match="same dtype"):
        results(path, given | {"key": inputs()["key"]}, torch.ones(()))


def test_weights_sum_to_one_or_to_nothing() -> None:
    mask = MASKS["full"]
    assert mask is not None
    weights = attention(**inputs(), mask=mask).weights
    assert weights.shape == (B, H, T, S)
    assert weights[~mask].eq(0).all()
    torch.testing.assert_close(weights.sum(-1), mask.any(-1).double())


@pytest.mark.parametrize("number", [1e4, torch.nan])
@pytest.mark.parametrize("path", ["explicit", "fused"])
def test_what_is_hidden_cannot_be_felt(path: str, number: float) -> None:
    given, mask = inputs(), MASKS["keys"]
    assert mask is not None
    before = results(path, given, torch.ones(()), mask=mask)
    hidden = ~mask.transpose(-2, -1)  # (B, 1, S, 1)
    for name in ("key", "value"):
        given[name] = given[name].detach().masked_fill(hidden, number).requires_grad_()
    after = results(path, given, torch.ones(()), mask=mask)
    for one, other in zip(before, after, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("path", ["explicit", "fused"])
def test_batch_dimensions_may_be_many_or_none_and_broadcast(path: str) -> None:
    function = attention if path == "explicit" else fused_attention
    query, key, value = torch.randn(T, D), torch.randn(B, H, S, D), torch.randn(H, S, DV)
    result = function(query, key, value, random_mask(B, 1, T, S))
    output = result if isinstance(result, Tensor) else result.output
    assert output.shape == (B, H, T, DV)
    one = attention(query, key[1, 2], value[2], random_mask(B, 1, T, S)[1, 0]).output
    torch.testing.assert_close(output[1, 2], one)
    result = function(query, key[0, 0], value, random_mask(H, T, S))  # the value alone has heads
    output = result if isinstance(result, Tensor) else result.output
    assert output.shape == (H, T, DV)


@pytest.mark.parametrize("path", ["explicit", "fused"])
def test_dropout_drops_that_share_of_the_weights(path: str) -> None:
    torch.manual_seed(0)
    # equal weights over values of 1: the output is the share kept, divided by 1 - p
    zeros, ones = torch.zeros(1, 1, 997, 1), torch.ones(1, 1, 997, 1)
    function = attention if path == "explicit" else fused_attention
    result = function(zeros, zeros, ones, dropout=0.25)
    output = result if isinstance(result, Tensor) else result.output
    assert output.std() > 1e-3
    assert output.mean().item() == pytest.approx(1, abs=2e-3)
    weights = attention(zeros, zeros, ones, dropout=0.25).weights
    torch.testing.assert_close(weights, torch.full_like(weights, 1 / 997))  # those before dropout


@pytest.mark.parametrize("length", [18, 256])
def test_in_half_precision_short_texts_take_the_faster_way_back(length: int) -> None:
    """On a CPU. The two ways round differently, so equal bits tell which one was taken."""
    torch.manual_seed(0)
    vectors = [torch.randn(B, H, length, D).bfloat16().requires_grad_() for _ in range(3)]
    mask = random_mask(B, 1, 1, length)
    mask[..., 0] = True
    torch.manual_seed(1)
    upstream = torch.randn(B, H, length, D).bfloat16()

    def gradient(function: Any, mask: Tensor) -> Tensor:
        return torch.autograd.grad(function(*vectors, mask), vectors[0], upstream)[0]

    ours, plain = gradient(fused_attention, mask), gradient(lambda *a: attention(*a).output, mask)
    by_torch = gradient(F.scaled_dot_product_attention, mask.expand(B, H, length, length))
    torch.testing.assert_close(ours, plain, rtol=0.05, atol=0.05)
    assert ours.equal(plain) == (length < 256)
    assert ours.equal(by_torch) == (length >= 256)
    vectors = [vector.detach() for vector in vectors]  # without a gradient the kernel is faster
    expected = F.scaled_dot_product_attention(*vectors, mask.expand(B, H, length, length))
    assert fused_attention(*vectors, mask).equal(expected)


def test_the_additive_score_is_a_small_network() -> None:
    torch.manual_seed(0)
    score = AdditiveScore(d_query=D, d_key=DV, d_hidden=H)
    query, key = torch.randn(B, T, D), torch.randn(B, S, DV)
    scores = score(query, key)
    assert scores.shape == (B, T, S)
    w, u, v = score.query.weight, score.key.weight, score.v.weight[0]
    for b in range(B):
        for t in range(T):
            for s in range(S):
                expected = v.dot((w @ query[b, t] + u @ key[b, s]).tanh())
                torch.testing.assert_close(scores[b, t, s], expected)


def test_luong_s_three_scores() -> None:
    torch.manual_seed(0)
    query, key, same = torch.randn(B, T, D), torch.randn(B, S, DV), torch.randn(B, S, D)
    dot: Any = LuongScore(kind="dot", d_query=D, d_key=D)
    general: Any = LuongScore(kind="general", d_query=D, d_key=DV)
    concat: Any = LuongScore(kind="concat", d_query=D, d_key=DV, d_hidden=H)
    assert not list(dot.parameters())
    joined = torch.cat((concat.concat.query.weight, concat.concat.key.weight), dim=1)  # W
    for b in range(B):
        for t in range(T):
            for s in range(S):
                q, k = query[b, t], key[b, s]
                torch.testing.assert_close(dot(query, same)[b, t, s], q.dot(same[b, s]))
                expected = q @ general.general.weight @ k
                torch.testing.assert_close(general(query, key)[b, t, s], expected)
                expected = concat.concat.v.weight[0].dot((joined @ torch.cat((q, k))).tanh())
                torch.testing.assert_close(concat(query, key)[b, t, s], expected)


@pytest.mark.parametrize("kind", ["additive", "dot", "general", "concat"])
def test_scores_broadcast_over_the_batch(kind: str) -> None:
    torch.manual_seed(0)
    if kind == "additive":
        score = AdditiveScore(d_query=D, d_key=D, d_hidden=H)
    else:
        score = LuongScore(kind=kind, d_query=D, d_key=D, d_hidden=H)
    query, key = torch.randn(T, D), torch.randn(B, H, S, D)
    scores = score(query, key)
    assert scores.shape == (B, H, T, S)
    torch.testing.assert_close(scores[1, 2], score(query, key[1, 2]))


def additive(**change: Any) -> Any:
    widths: Any = {"d_query": D, "d_key": DV, "d_hidden": H} | change
    return AdditiveScore(**widths)


def luong(kind: Any = "general", **change: Any) -> Any:
    widths: Any = {"d_query": D, "d_key": DV} | change
    return LuongScore(kind=kind, **widths)


QUERY, KEY = torch.zeros(B, T, D), torch.zeros(B, S, DV)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: additive(d_query=0), ValueError, "d_query.*0"),
        (lambda: additive(d_key=2.5), TypeError, r"d_key.*2\.5"),
        (lambda: luong("additive"), ValueError, "kind must be one of dot.*'additive'"),
        (lambda: luong("dot"), ValueError, r"d_key must be d_query \(11\).*13"),
        (lambda: luong("concat"), ValueError, "d_hidden.*None"),
        (
            lambda: additive()(QUERY, KEY[..., 1:]),
            ValueError,
            r"key must have .*13.*\(2, 7, 12",
        ),
        (lambda: luong()(QUERY[..., 1:], KEY), ValueError, r"query must have .*11.*\(2, 5, 10"),
        (lambda: luong()(QUERY, [KEY]), TypeError, "key.*list"),
        (lambda: luong()(QUERY, KEY.double()), TypeError, "query and key.*dtype.*float64"),
        (
            lambda: additive()(QUERY.double(), KEY.double()),
            TypeError,
            "(query|key).*weights.*float64",
        ),
        (lambda: additive()(QUERY, KEY.expand(B + 1, B, S, DV)[:, 0]), ValueError, "same batch"),
    ],
)
def test_errors_of_scores_name_the_argument(
    call: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"mask": torch.ones(T, S)}, TypeError, r"mask must be bool.*float32.*\.bool\(\).*a bias"),
        ({"mask": torch.ones(S, T, dtype=torch.bool)}, ValueError, r"mask.*\(2, 3, 5, 7\).*\(7, 5"),
        ({"mask": torch.ones(1, B, H, T, S) > 0}, ValueError, r"mask.*got shape \(1, 2, 3, 5, 7\)"),
        ({"bias": torch.zeros(T + 1, S)}, ValueError, r"bias.*got shape \(6, 7\)"),
        ({"bias": torch.zeros(T, S).long()}, TypeError, "bias.*int64"),
        ({"query": torch.zeros(B, H, T, D + 1)}, ValueError, "same width.*got 12 and 11"),
        ({"value": torch.zeros(B, H, S + 1, DV)}, ValueError, "same length, got 7 and 8"),
        ({"key": torch.zeros(B + 1, H, S, D)}, ValueError, r"same batch.*\(3, 3, 7, 11\)"),
        ({"mask": [[True] * S] * T}, TypeError, "mask must be bool.*got list"),
        ({"mask": torch.ones(T, S + 1) > 0}, ValueError, "mask.*its last dimension.*7 keys"),
        ({"mask": torch.ones(B, S) > 0}, ValueError, "mask.*a mask for each row"),
        ({"mask": torch.ones(T, S, device="meta") > 0}, ValueError, "mask must be on cpu.*meta"),
        ({"query": torch.zeros(B, H, T, D).long()}, TypeError, "query.*int64"),
        ({"value": None}, TypeError, "value.*NoneType"),
        ({"key": torch.zeros(B, H, S, D).double()}, TypeError, "query, key and value.*float64"),
        ({"value": torch.zeros(B, H, S, DV).half()}, TypeError, "same dtype.*float16"),
        ({"key": torch.zeros(B, H, S, D, device="meta")}, ValueError, "same device.*meta"),
        ({"query": torch.zeros(B, H, T, 0), "key": torch.zeros(B, H, S, 0)}, ValueError, "query"),
        ({"scale": float("nan")}, ValueError, "scale.*nan"),
        ({"scale": "1"}, TypeError, "scale.*'1'"),
        ({"dropout": None}, TypeError, "dropout.*None"),
        ({"value": torch.zeros(DV)}, ValueError, r"value.*\(13,\)"),
        ({"dropout": 1.5}, ValueError, "dropout.*1.5"),
    ],
)
@pytest.mark.parametrize("function", [attention, fused_attention])
def test_errors_name_the_argument(
    function, change: dict, error: type[Exception], message: str
) -> None:
    given = {name: x.detach().float() for name, x in inputs().items()}
    with pytest.raises(error, match=message):
        function(**given | change)
