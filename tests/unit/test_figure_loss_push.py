"""LossPush: its loss and its pushes are the library's, and its steps end where its arrows point."""

import pytest
import torch
from figure_page import button, told

from transformer_lib.figures.widgets import LossPush
from transformer_lib.training import cross_entropy

TOKENS = ["a", "b", "c", "d", "e", "f"]
CALL = """return given.cases.map(({ logits, right, smoothing, rate }) => {
  const asked = m.targetOf(logits.length, right, smoothing);
  return { asked, loss: m.lossOf(logits, asked), floor: m.floorOf(asked),
    push: m.pushOf(logits, asked), rest: m.restOf(logits, asked),
    after: m.descend(logits, asked, rate, 7) };
});"""


def cases():
    """Settings with 2 to 6 tokens, small and large logits, with and without smoothing."""
    for n in (2, 3, 5, 6):
        for spread in (0.1, 2, 15):
            for smoothing in (0.0, 0.01, 0.1, 0.5):
                logits = (spread * torch.randn(n, dtype=torch.float64)).clamp(-40, 40)
                yield {
                    "logits": logits.tolist(),
                    "right": int(torch.randint(n, ())),
                    "smoothing": smoothing,
                    "rate": float(torch.rand(()) * 7 + 0.5),
                }


def loss_and_push(logits, right, smoothing):
    """The library's cross-entropy, and minus its gradient."""
    logits = torch.tensor([logits], dtype=torch.float64, requires_grad=True)
    options = {"label_smoothing": smoothing, "pad_id": -1}
    loss = cross_entropy(logits, torch.tensor([right]), **options).total
    (gradient,) = torch.autograd.grad(loss, logits)
    return loss.item(), -gradient[0]


def test_the_page_computes_what_the_library_does(js):
    settings = list(cases())
    for given, page in zip(settings, js("loss_push.js", CALL, cases=settings), strict=True):
        logits, right, smoothing, rate = given.values()
        loss, push = loss_and_push(logits, right, smoothing)
        assert page["loss"] == pytest.approx(loss, abs=1e-11)
        assert page["push"] == pytest.approx(push.tolist(), abs=1e-12)
        target = push + torch.tensor(logits, dtype=torch.float64).softmax(-1)
        assert page["asked"] == pytest.approx(target.tolist(), abs=1e-12)
        for _ in range(7):
            push = loss_and_push(logits, right, smoothing)[1].tolist()
            logits = [z + rate * up for z, up in zip(logits, push, strict=True)]
        assert page["after"] == pytest.approx(logits, abs=1e-10)
        if smoothing:
            loss, push = loss_and_push(page["rest"], right, smoothing)
            assert page["floor"] == pytest.approx(loss)
            assert push.abs().max() < 1e-12
            assert sum(page["rest"]) == pytest.approx(sum(given["logits"]))
        else:
            assert page["floor"] == 0 and page["rest"] is None


@pytest.mark.parametrize("smoothing", [0, 0.1, 0.3])
def test_the_curve_is_the_loss_of_a_right_token_and_equals(js, smoothing):
    """As in equation 13.3, lowest where the softmax is the target."""
    shares = [i / 200 for i in range(1, 200)]
    body = "return given.shares.map((p) => m.evenly(p, m.targetOf(5, 2, given.smoothing), 2));"
    curve = js("loss_push.js", body, shares=shares, smoothing=smoothing)
    for p, loss in zip(shares[::20], curve[::20], strict=True):
        even = (1 - p) / 4
        logits = torch.tensor([even, even, p, even, even]).log().tolist()
        assert loss == pytest.approx(loss_and_push(logits, 2, smoothing)[0], abs=1e-6)
    lowest = shares[min(range(len(curve)), key=curve.__getitem__)]
    assert lowest == pytest.approx(min(1 - smoothing + smoothing / 5, 0.995), abs=0.005)


@pytest.mark.slow
def test_a_step_ends_where_the_arrow_points(show):
    page = show(LossPush(smoothing=0.2, rate=3))
    tips = """[...document.querySelectorAll(".lp-arrow")].map((arrow) =>
      Number(arrow.getAttribute("d").match(/L[^ ]+ ([-\\d.]+)L/)[1]))"""
    places = """[...document.querySelectorAll(".lp-logits .lf-handle")].map((handle) =>
      Number(handle.getAttribute("transform").match(/ ([-\\d.]+)\\)/)[1]))"""
    pointed = page.evaluate(tips)
    logits = LossPush().logits
    push = loss_and_push(logits, 0, 0.2)[1].tolist()
    want = [z + 3 * up for z, up in zip(logits, push, strict=True)]
    button(page, "One step").click()
    assert told(page, "logits") == pytest.approx(want)
    assert page.evaluate(places) == pytest.approx(pointed)
