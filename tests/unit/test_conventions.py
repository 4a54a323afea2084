"""Every model runs on the device and in the dtype that it is given, compiled and exported."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import Dim, export

from transformer_lib import (
    DecoderOnly,
    EncoderDecoder,
    EncoderOnly,
    ModelConfig,
    RNNSeq2Seq,
    Transformer,
    attention,
    beam_search,
    causal_mask,
    fused_attention,
    greedy,
    record_attention,
)

SCHEMES = ("sinusoidal", "learned", "rotary", "relative", "alibi", "none")
D = 12


def made(kind: Any, scheme: str = "sinusoidal", **changes: Any) -> nn.Module:
    if kind is RNNSeq2Seq:
        return RNNSeq2Seq(vocab_size=11, d_model=D, attention=scheme)
    sizes = {"vocab_size": 11, "d_model": D, "n_heads": 3, "n_layers": 2, "d_ff": 20, "max_len": 32}
    return kind(ModelConfig(positions=scheme, **sizes | changes))


def inputs(model: nn.Module, b: int, s: int, t: int) -> tuple[Tensor, ...]:
    """Ids or vectors, of ``b`` sources of length ``s`` and targets of length ``t``."""
    lengths = {EncoderOnly: [s], DecoderOnly: [t]}.get(type(model), [s, t])
    like = next(model.parameters())
    if isinstance(model, EncoderDecoder):
        return tuple(like.new_empty(b, length, D).normal_() for length in lengths)
    return tuple(torch.randint(3, 11, (b, length), device=like.device) for length in lengths)


def everything(model: Any, given: tuple[Tensor, ...]) -> list[Tensor]:
    """All that a model computes: on both paths, in two steps, and the gradients."""
    found = [model(*given)]
    found[0].sum().backward()
    found += [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    with record_attention(model) as maps:
        found += [model(*given), *maps.values()]
    if hasattr(model, "start"):
        logits, state = model.step(given[0][:, 0], model.start(given[0]))
        if logits.device.type == "cpu":  # this reads numbers, and a fake tensor has none
            state.reorder(torch.ones_like(given[0][:, 0]))
        found += [logits, model.step(given[0][:, 0], state)[0]]
    return found


CASES = [(Transformer, scheme) for scheme in SCHEMES]
CASES += [(kind, "rotary") for kind in (DecoderOnly, EncoderOnly, EncoderDecoder)]
CASES += [(RNNSeq2Seq, "additive"), (RNNSeq2Seq, "dot")]


@pytest.mark.parametrize(("kind", "scheme"), CASES)
def test_a_model_is_made_and_stays_on_one_device(kind: Any, scheme: str) -> None:
    # Fake tensors can be on a device that this machine doesn't have, and mixing devices is an error
    # all the same. Of those devices "lazy" needs no library to draw random numbers.
    with FakeTensorMode():
        with torch.device("lazy:0"):
            model = made(kind, scheme, dropout=0.1)
        tensors = [*model.parameters(), *model.buffers()]
        tensors += everything(model, inputs(model, 2, 7, 5))
    assert {tensor.device.type for tensor in tensors} == {"lazy"}


@pytest.mark.parametrize(("kind", "scheme"), CASES)
def test_defaults_count_when_a_model_is_made_and_not_later(kind: Any, scheme: str) -> None:
    model = made(kind, scheme, dropout=0.1)
    given = inputs(model, 2, 7, 5)
    torch.manual_seed(1)
    expected = everything(model, given)
    model.zero_grad()
    torch.manual_seed(1)
    torch.set_default_dtype(torch.float64)
    try:
        with torch.device("meta"):
            found = everything(model, given)
            other = made(kind, scheme)
    finally:
        torch.set_default_dtype(torch.float32)
    for one, another in zip(found, expected, strict=True):
        torch.testing.assert_close(one, another, rtol=0, atol=0)
    assert all(p.dtype is torch.float64 and p.is_meta for p in other.parameters())
    other = other.to_empty(device="cpu")
    assert other(*inputs(other, 2, 7, 5)).dtype is torch.float64


def test_scores_of_a_decoding_are_float32_whatever_the_default() -> None:
    model = made(Transformer)
    source = torch.randint(3, 11, (2, 7))
    expected = [greedy(model, source, max_len=9), beam_search(model, source, max_len=9)]
    torch.set_default_dtype(torch.bfloat16)
    try:
        found = [greedy(model, source, max_len=9), beam_search(model, source, max_len=9)]
    finally:
        torch.set_default_dtype(torch.float32)
    for one, other in zip(found, expected, strict=True):
        assert one.scores.dtype is torch.float32
        assert one.scores.equal(other.scores)


# --- compiled and exported -----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_attention_is_compiled_for_all_lengths(dtype: torch.dtype) -> None:
    def both(query: Tensor, key: Tensor) -> Tensor:
        mask = causal_mask(query.size(1), key.size(1))
        one = fused_attention(query, query, query, causal=True)
        two = fused_attention(query, key, key, mask) - attention(query, key, key).output
        return one + two

    compiled = torch.compile(both, backend="eager", fullgraph=True, dynamic=True)
    for b, s, t in ((2, 7, 5), (4, 13, 11), (1, 3, 1)):
        given = torch.randn(b, t, D, dtype=dtype), torch.randn(b, s, D, dtype=dtype)
        torch.testing.assert_close(compiled(*given), both(*given))


QUICK = [(DecoderOnly, "sinusoidal"), (Transformer, "alibi")]
SLOW = [(kind, scheme) for kind in (DecoderOnly, Transformer) for scheme in SCHEMES]
SLOW = [pytest.param(*case, marks=pytest.mark.slow) for case in SLOW if case not in QUICK]


@pytest.mark.parametrize("how", ["compiled", "exported"])
@pytest.mark.parametrize(("kind", "scheme"), [*QUICK, *SLOW])
def test_a_model_is_compiled_and_exported_for_all_lengths(kind: Any, scheme: str, how: str) -> None:
    torch.compiler.reset()  # the limit of recompilations counts what other models needed
    model = made(kind, scheme, n_layers=1).eval()
    shapes = ((2, 7, 5), (4, 9, 11), (3, 5, 5), (1, 1, 1))
    given = inputs(model, *shapes[0])
    if how == "compiled":
        run = torch.compile(model, backend="eager", fullgraph=True, dynamic=True)
    else:
        batch = Dim("batch", max=1024)
        lengths = [Dim("s", max=32), Dim("t", max=32)][: len(given)]
        run = export(model, given, dynamic_shapes=[{0: batch, 1: each} for each in lengths])
        run = run.module()
    for shape in shapes:
        given = inputs(model, *shape)
        torch.testing.assert_close(run(*given), model(*given))
