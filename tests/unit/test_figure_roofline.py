"""Roofline: PyTorch counts the same FLOPs, and its times follow from two limits."""

from itertools import product

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from transformer_lib.figures.widgets import Roofline
from transformer_lib.results import load_result

CALL = """const { arithmetic, memory } = m.secondsOf(given), intensity = m.intensityOf(given);
return { ...m.workOf(given), seconds: [arithmetic, memory], crossing: m.crossing(given),
  intensity, roof: m.roofAt(intensity, given) };"""
MACHINES = [(10, 10_000), (79, 21), (312_000, 1_500), (989_000, 3_350), (2_000_000, 5)]


def figures():
    for (rate, bandwidth), tokens, width, size in product(
        MACHINES, (1, 8, 256, 4096), (64, 2048, 16_384), (2, 4)
    ):
        yield Roofline(rate=rate, bandwidth=bandwidth, tokens=tokens, width=width, size=size)


def test_page_and_python_compute_the_same(js):
    for figure in figures():
        page = js(figure, CALL)
        assert page["operations"] == figure.operations()
        assert page["bytes"] == figure.bytes()
        assert page["seconds"] == pytest.approx(figure.seconds())
        first = figure.crossing()
        assert page["crossing"] == first
        for tokens in (1, 10**7, *((first - 1, first) if first else ())):
            arithmetic = 2 * tokens * figure.width**2 / figure.rate
            memory = figure.size * (figure.width**2 + 2 * tokens * figure.width) / figure.bandwidth
            assert (arithmetic >= memory) is (first is not None and tokens >= first)
        # the longer of the two times sets the roof
        assert page["roof"] == pytest.approx(figure.operations() / max(figure.seconds()))
        assert page["intensity"] == pytest.approx(figure.operations() / figure.bytes())


@pytest.mark.parametrize(("tokens", "width"), [(1, 64), (32, 256), (512, 128)])
def test_flops_are_counted_by_pytorch_and_bytes_are_those_of_the_tensors(tokens, width):
    figure = Roofline(tokens=tokens, width=width, size=2)
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        x = torch.ones(tokens, width, dtype=torch.bfloat16)
        weight = torch.ones(width, width, dtype=torch.bfloat16)
        y = x @ weight
    assert figure.operations() == counter.get_total_flops()
    assert figure.bytes() == sum(tensor.nbytes for tensor in (x, weight, y))


def test_numbers_have_three_digits_and_a_metric_prefix(js):
    body = "return given.numbers.map((x) => m.unit(x, 'B'));"
    numbers = [0.499, 1, 999.4, 999.6, 16_793_600, 3.35e12, 1.978e15]
    want = ["0.499 B", "1 B", "999 B", "1 kB", "16.8 MB", "3.35 TB", "1.98 PB"]
    assert js("roofline.js", body, numbers=numbers) == [w.replace(" ", "\u00a0") for w in want]
    body = "return given.numbers.map((x) => m.duration(x));"
    numbers = [2e-10, 8.5e-9, 1.062e-4, 0.000_999_7, 0.0123, 2.5]
    want = ["0.2 ns", "8.5 ns", "106 µs", "1 ms", "12.3 ms", "2.5 s"]
    assert js("roofline.js", body, numbers=numbers) == [w.replace(" ", "\u00a0") for w in want]


def test_the_measurements_are_a_record_and_below_the_roof():
    record, figure = load_result("roofline"), Roofline()
    assert figure.rate == record["gflops"] and figure.bandwidth == record["gbytes"]
    assert record["hardware"] in figure.note
    assert len(figure.marks) == len(record["milliseconds"])
    for machine, tokens, width, spent in figure.marks:
        assert (machine, width) == (0, record["width"])
        assert spent == pytest.approx(record["milliseconds"][str(tokens)] / 1000)
        assert spent > max(Roofline(tokens=tokens, width=width).seconds())


def test_your_own_machine_sets_the_defaults():
    own = [["this one", 55.5, 11.0, 4], ["A100", 312_000, 1_500, 2]]
    figure = Roofline(machines=own)
    assert (figure.rate, figure.bandwidth, figure.size) == (55.5, 11.0, 4)
    figure = Roofline(machines=own, rate=100, size=2)
    assert (figure.rate, figure.bandwidth, figure.size) == (100, 11.0, 2)
    assert figure.marks == [] and figure.note == ""


@pytest.mark.slow
def test_bars_and_point_are_where_the_numbers_say(show):
    machines = [["this core", 79, 21, 4], *Roofline.GPUS]
    marks = [[0, 4, 2048, 0.01], [1, 1, 2048, 0.1]]
    figure = Roofline(machines=machines, tokens=4, marks=marks)
    page = show(figure)
    arithmetic, memory = figure.seconds()
    wide = "[...document.querySelectorAll('.rl-bar')].map((e) => e.getBoundingClientRect().width)"
    bars = page.evaluate(wide)
    assert bars[1] / bars[0] == pytest.approx(arithmetic / memory, abs=0.01)

    # a point is below the roof by the logarithm of how much slower it was
    spots = """[document.querySelector(".rl-roofs .lf-knob"), ...document.querySelectorAll(
      ".rl-measured")].map((e) => [Number(e.getAttribute("cx")), Number(e.getAttribute("cy")),
      e.checkVisibility()])"""
    now, own, other = page.evaluate(spots)
    assert own[2] and not other[2]
    assert own[0] == pytest.approx(now[0])
    decade = (206 - 24) / 6.30103
    assert own[1] - now[1] == pytest.approx(
        decade * torch.tensor(0.01 / memory).log10().item(), abs=0.1
    )
    page.locator("label", has_text="A100").click()
    assert [spot[2] for spot in page.evaluate(spots)[1:]] == [False, True]
