"""The recurrent translators: each against its paper's equations, and all as a StepModel."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from transformer_lib import record_attention
from transformer_lib.recurrent import RNNSeq2Seq

KINDS = [None, "additive", "dot", "general"]
B, S, T, D, V = 3, 7, 5, 11, 13


def make(kind: str | None, **settings: Any) -> Any:  # Any: tests look at the parts
    torch.manual_seed(0)
    return RNNSeq2Seq(vocab_size=V, d_model=D, attention=kind, **settings).double().eval()


def texts(b: int = B, s: int = S, t: int = T) -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    return torch.randint(3, V, (b, s)), torch.randint(3, V, (b, t))


def gru(cell: nn.GRU, x: Tensor, h: Tensor) -> Tensor:
    """One step, written out: (width,) and (D,) to (D,)."""
    weights: Any = cell
    from_x = weights.weight_ih_l0 @ x + weights.bias_ih_l0
    from_h = weights.weight_hh_l0 @ h + weights.bias_hh_l0
    r, z = (from_x[: 2 * D] + from_h[: 2 * D]).sigmoid().split(D)
    candidate = (from_x[2 * D :] + r * from_h[2 * D :]).tanh()
    return (1 - z) * candidate + z * h


def read(cell: nn.GRU, x: Tensor) -> list[Tensor]:
    states = [torch.zeros(D).double()]
    for each in x:
        states.append(gru(cell, each, states[-1]))
    return states[1:]


def by_hand(model: Any, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Logits (T, V) and alignments (T, S) of one unpadded pair, by the equations, with loops."""
    kind, x = model.config.attention, model.source_embedding.weight[source]
    h, o = read(model.encoder, x), torch.zeros(D).double()
    state = h[-1]
    summary = None
    if kind is None:
        summary = (model.summary.weight @ h[-1] + model.summary.bias).tanh()
        state = (model.first.weight @ summary + model.first.bias).tanh()
    if kind == "additive":
        backward = read(model.backward_encoder, x.flip(0))[::-1]
        h = [torch.cat(both) for both in zip(h, backward, strict=True)]
        state = (model.first.weight @ backward[0] + model.first.bias).tanh()

    def look(s: Tensor) -> tuple[Tensor, Tensor]:
        score, e = model.alignment.score, []
        for key in h:
            if kind == "dot":
                e.append(s.dot(key))
            elif kind == "general":
                e.append(s @ score.general.weight @ key)
            else:
                inner = score.query.weight @ s + score.key.weight @ key
                e.append(score.v.weight[0] @ inner.tanh())
        alpha = torch.stack(e).softmax(0)
        return sum((w * key for w, key in zip(alpha, h, strict=True)), torch.zeros(())), alpha

    logits, alignments = [], []
    for y in model.target_embedding.weight[target]:
        alpha = torch.zeros(len(h)).double()
        if kind in (None, "additive"):
            c = summary
            if kind == "additive":
                c, alpha = look(state)
            assert c is not None
            state = gru(model.decoder, torch.cat([y, c]), state)
            pairs = model.maxout.weight @ torch.cat([state, y, c]) + model.maxout.bias
            o = torch.stack([pairs[2 * i : 2 * i + 2].max() for i in range(D)])
        else:
            state = gru(model.decoder, torch.cat([y, o]), state)
            c, alpha = look(state)
            o = (model.join.weight @ torch.cat([c, state])).tanh()
        logits.append(model.output.weight @ o + model.output.bias)
        alignments.append(alpha)
    return torch.stack(logits), torch.stack(alignments)


@pytest.mark.parametrize("kind", KINDS)
def test_the_model_is_its_paper_s_equations(kind: str | None) -> None:
    model, (source, target) = make(kind), texts()
    logits = model(source, target)
    assert logits.shape == (B, T, V)
    for row in range(B):
        torch.testing.assert_close(logits[row], by_hand(model, source[row], target[row])[0])


@pytest.mark.parametrize("kind", KINDS[1:])
def test_alignments_are_recorded(kind: str) -> None:
    model, (source, target) = make(kind), texts()
    source[1, -2:] = 0
    with record_attention(model) as maps:
        model(source, target)
        whole = maps["alignment"]
        state = model.start(source)
        for t in range(T):
            _, state = model.step(target[:, t], state)
            torch.testing.assert_close(maps["alignment"], whole[:, :, t : t + 1])
    assert whole.shape == (B, 1, T, S)
    assert not whole.requires_grad
    torch.testing.assert_close(whole.sum(-1), torch.ones(B, 1, T).double())
    assert whole[1, :, :, -2:].eq(0).all()
    torch.testing.assert_close(whole[0, 0], by_hand(model, source[0], target[0])[1])
    assert model.alignment.recorder is None


@pytest.mark.parametrize("kind", KINDS)
def test_a_source_of_padding_alone_gives_numbers(kind: str | None) -> None:
    model, (source, target) = make(kind), texts()
    source[1] = 0
    logits = model(source, target)
    logits.sum().backward()
    assert logits.isfinite().all()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
    with torch.no_grad():
        model.source_embedding.weight[0] += 1  # nobody reads what padding looks like
    torch.testing.assert_close(logits, model(source, target))


@pytest.mark.parametrize("kind", KINDS)
def test_dropout_only_in_training(kind: str | None) -> None:
    model, (source, target) = make(kind, dropout=0.5), texts()
    torch.testing.assert_close(model(source, target), model(source, target))
    model.train()
    assert not model(source, target).equal(model(source, target))
    dropped: list[Tensor] = []
    model.dropout.register_forward_hook(lambda _, given, result: dropped.append(result))
    logits = model(source, target)
    embedded, last = dropped[-2:]
    for each in (embedded, last):
        assert each.shape == (B, T, D)
        assert 0.3 < each.eq(0).double().mean() < 0.7
    torch.testing.assert_close(logits, model.output(last))


@pytest.mark.parametrize("kind", [None, "additive", "general"])
def test_it_runs_under_autocast(kind: str | None) -> None:
    model, (source, target) = make(kind).float(), texts()
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(source, target)
        logits.float().sum().backward()
    torch.testing.assert_close(logits.float(), model(source, target), rtol=0.1, atol=0.1)
