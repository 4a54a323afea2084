"""CheckpointBytes: it reads what safetensors and PyTorch read."""

import json
import math
import struct

import pytest
import torch
from figure_page import SETTLE
from safetensors.torch import load

from transformer_lib.figures.widgets import CheckpointBytes
from transformer_lib.figures.widgets.checkpoint_bytes import decode

TENSORS = {
    "b": torch.tensor([[1.5, -0.25, 0.0], [1e-40, -torch.inf, torch.nan]]),
    "a": torch.tensor(65504.0, dtype=torch.float16),
    "c": torch.tensor([[[-3e38]]], dtype=torch.bfloat16),
}

WAYS = [(back, after) for back in (True, False) for after in (True, False)]


def same(a, b):
    return (math.isnan(a) and math.isnan(b)) or (
        a == b and math.copysign(1, a) == math.copysign(1, b)
    )


def test_all_numbers_are_those_of_the_format():
    figure = CheckpointBytes(TENSORS)
    tensors = load(bytes(map(int, figure.file)))
    names = [name for name, _, _ in figure.numbers()]
    want = {"a", "c[0, 0, 0]"} | {f"b[{i}, {j}]" for i in (0, 1) for j in (0, 1, 2)}
    assert set(names) == want and len(names) == 8
    for i, name in enumerate(names):
        figure.number = i
        index = tuple(json.loads(name[1:])) if len(name) > 1 else ()
        assert same(figure.read(), tensors[name[0]][index].item()), name


@pytest.mark.parametrize(("dtype", "torchs"), [("F16", torch.float16), ("BF16", torch.bfloat16)])
def test_every_16_bit_pattern(dtype, torchs):
    patterns = torch.arange(-(2**15), 2**15).to(torch.int16)
    want = patterns.view(torchs).tolist()
    raw = [struct.pack(">h", pattern) for pattern in patterns.tolist()]
    assert all(same(decode(bytes_, dtype), x) for bytes_, x in zip(raw, want, strict=True))


def test_many_32_bit_patterns():
    torch.manual_seed(0)
    patterns = torch.randint(-(2**31), 2**31, (5000,)).to(torch.int32)
    want = patterns.view(torch.float32).tolist()
    raw = [struct.pack(">i", pattern) for pattern in patterns.tolist()]
    assert all(same(decode(bytes_, "F32"), x) for bytes_, x in zip(raw, want, strict=True))


@pytest.mark.parametrize("from_back", [True, False])
@pytest.mark.parametrize("after_header", [True, False])
def test_both_mistakes_read_what_numpy_reads_there(from_back, after_header):
    figure = CheckpointBytes(from_back=from_back, after_header=after_header)
    data = bytes(map(int, figure.file))
    length = int.from_bytes(data[:8], "little")
    entry = json.loads(data[8 : 8 + length])["half"]
    begin = entry["data_offsets"][0] + (8 + length if after_header else 0)
    want = struct.unpack(("<" if from_back else ">") + "3e", data[begin : begin + 6])
    found = []
    for i, (name, _, _) in enumerate(figure.numbers()):
        figure.number = i
        if name.startswith("half"):
            found.append(figure.read())
    assert found == list(want)


def test_the_page_reads_like_python(js):
    patterns = [0, 1, 2**15, 31 << 10, 32257, 64512, 15 << 10, 1023, 1024, 0x4248, 0x7F80, 0xFF81]
    for figure in (CheckpointBytes(), CheckpointBytes(TENSORS)):
        body = """const { end, numbers } = m.parse(given.file);
          const words = (x) => (Number.isFinite(x) ? x : String(x));
          return { end, names: numbers.map(({ name, dtype, at }) => [name, dtype, at]),
            values: numbers.map((number) => given.ways.map(([fromBack, afterHeader]) => words(
              m.read({ file: given.file, end, number, fromBack, afterHeader }).value))),
            bits: given.patterns.map((x) => ["F16", "BF16"].map((type) => words(
              m.floatOf([x >> 8, x & 255], type).value))) };"""
        page = js("checkpoint_bytes.js", body, file=figure.file, patterns=patterns, ways=WAYS)
        assert page["end"] == figure.header_end()
        assert [tuple(one) for one in page["names"]] == figure.numbers()
        for i, values in enumerate(page["values"]):
            figure.number = i
            for value, (back, after) in zip(values, WAYS, strict=True):
                figure.from_back, figure.after_header = back, after
                assert same(float(value), figure.read()) or figure.read() == float(value) == 0
        for pattern, values in zip(patterns, page["bits"], strict=True):
            for value, dtype in zip(values, ("F16", "BF16"), strict=True):
                want = decode(pattern.to_bytes(2, "big"), dtype)
                assert same(float(value), want) or want == float(value) == 0


def test_numbers_have_five_digits(js):
    numbers = "3.1415927, -2, 0.1000976, 2.466e-43, -4.0331e16, NaN, Infinity, -Infinity, 0"
    assert js("checkpoint_bytes.js", f"return [{numbers}].map(m.show);") == [
        *("3.1416", "−2", "0.1001", "2.466 · 10^−43", "−4.0331 · 10^16"),
        *("not a number", "infinity", "minus infinity", "0"),
    ]


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"tensors": {"a": [1.0]}}, TypeError, r"tensors\['a'\] must be a float32.*; got list"),
        ({"tensors": {"a": torch.ones(2).long()}}, TypeError, "got torch.int64"),
        ({"tensors": {}}, ValueError, "1 to 16 numbers in all; got 0"),
        ({"tensors": {"a": torch.ones(17)}}, ValueError, "1 to 16 numbers in all; got 17"),
        ({"tensors": {"a" * 400: torch.ones(1)}}, ValueError, "a file of 320 bytes; got"),
        ({"tensors": {"a": torch.ones(2)}, "number": 2}, ValueError, "number must be from 0 to 1"),
        ({"number": 16}, ValueError, "number must be from 0 to 15"),
        ({"file": [1]}, TypeError, "file can't be given"),
    ],
)
def test_bad_arguments_are_refused(given, error, message):
    with pytest.raises(error, match=message):
        CheckpointBytes(**given)


TAKEN = '[...document.querySelectorAll(".cb-byte[data-taken]")].map((one) => one.textContent)'


@pytest.mark.slow
def test_a_number_is_chosen_by_a_click_on_one_of_its_bytes(show):
    page = show(CheckpointBytes())
    page.locator(".cb-byte").nth(184 + 5).click()  # a byte of wide[1]
    assert page.evaluate("models[0].get('number')") == 1
    taken = page.locator(".cb-byte[data-taken]").all_inner_texts()
    assert bytes.fromhex("".join(taken)) == struct.pack("<f", 0.1)
    page.locator(".cb-byte").nth(20).click()  # the header isn't a number
    assert page.evaluate("models[0].get('number')") == 1


@pytest.mark.slow
def test_sign_exponent_and_fraction_make_the_number(show):
    page = show(CheckpointBytes())
    for number, value in enumerate([math.pi, 0.1, -2] * 3):
        page.evaluate(f"models[0].set('number', {number})")
        page.evaluate(SETTLE)
        sign, power, factor = page.locator(".cb-row > span:nth-child(2)").all_inner_texts()
        exponent = int(power.removeprefix("× 2^").replace("−", "-"))
        made = int(sign.replace("−", "-")) * 2.0**exponent * float(factor.removeprefix("× "))
        assert made == pytest.approx(value, rel=0.004)
