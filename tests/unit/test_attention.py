"""Two paths, one result: the attention to read and the one to run."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from transformer_lib import attention, causal_mask, fused_attention

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


KEYS = torch.tensor([[1, 0, 1, 1, 0, 0, 1], [0, 1, 1, 0, 1, 1, 0]]).bool()[:, None, None]


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


def test_causal_attention_over_one_text_makes_no_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    query, key = torch.randn(B, H, S, D), torch.randn(B, H, S, D)
    seen = kernel_calls(monkeypatch)
    fused_attention(query, key, key, causal=True)
    assert seen[-1]["attn_mask"] is None and seen[-1]["is_causal"]
    fused_attention(query[:, :, :1], key, key, causal=True)  # one query is the last: it sees all
    assert seen[-1]["attn_mask"] is None and not seen[-1]["is_causal"]
    fused_attention(query[:, :, :T], key, key, causal=True)  # the kernel would count from the left
    assert seen[-1]["attn_mask"].equal(causal_mask(T, S)) and not seen[-1]["is_causal"]


TOLERANCE = {torch.float16: 2e-3, torch.bfloat16: 1e-2, torch.float32: 2e-5}


@pytest.mark.parametrize("size", [1, 8, 500])  # scores of about 1, of about 64, past float16's end
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_lower_precision_rounds_the_result_and_no_score(
    dtype: torch.dtype, masked: bool, size: int
) -> None:
    narrow = inputs(dtype)
    for name in ("query", "key"):
        narrow[name] = (size * narrow[name]).detach().requires_grad_()
    exact = {name: x.detach().double().requires_grad_() for name, x in narrow.items()}
    options = {}
    if masked:
        bias = torch.linspace(-3, 3, H * T * S).view(H, T, S)
        options = {"mask": random_mask(B, H, T, S), "bias": bias.bfloat16().float()}
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


@pytest.mark.parametrize("path", ["explicit", "fused"])
def test_autocast_brings_dtypes_together(path: str) -> None:
    given = inputs(torch.float32)
    mixed = given | {"key": given["key"].detach().bfloat16().requires_grad_()}
    with torch.autocast("cpu", torch.bfloat16):
        output = results(path, mixed, torch.ones(()), mask=KEYS)
    plain = results(path, given, torch.ones(()), mask=KEYS)
    for one, other in zip(output, plain, strict=True):
        torch.testing.assert_close(one.float(), other, rtol=0.1, atol=0.1)
    with torch.autocast("cpu", torch.bfloat16), pytest.raises(TypeError, match="key must be"):
        results(path, given | {"key": inputs()["key"]}, torch.ones(()))


@pytest.mark.parametrize("path", ["explicit", "fused"])
def test_what_is_hidden_cannot_be_felt(path: str) -> None:
    given = inputs()
    before = results(path, given, torch.ones(()), mask=KEYS)
    hidden = ~KEYS.transpose(-2, -1)  # (B, 1, S, 1)
    for name in ("key", "value"):
        given[name] = given[name].detach().masked_fill(hidden, torch.nan).requires_grad_()
    after = results(path, given, torch.ones(()), mask=KEYS)
    for one, other in zip(before, after, strict=True):
        torch.testing.assert_close(one, other)


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


@pytest.mark.parametrize(
    ("mask", "error", "message"),
    [
        (torch.ones(T, S), TypeError, r"mask must be bool.*float32.*\.bool\(\).*a bias"),
        (torch.ones(T, S + 1) > 0, ValueError, "mask.*its last dimension.*7 keys"),
        (torch.ones(B, S) > 0, ValueError, "mask.*a mask for each row"),
    ],
)
def test_an_error_says_how_to_fix_a_mask(mask, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        attention(**inputs(), mask=mask)
