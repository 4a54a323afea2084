"""CheckpointBytes: it reads what safetensors and PyTorch read."""

import itertools
import json
import math
import struct

import pytest
import torch
from figure_page import tell, told
from safetensors.torch import load

from transformer_lib.figures.widgets import CheckpointBytes

TENSORS = {
    "b": torch.tensor([[1.5, -0.25, 0.0], [1e-40, -torch.inf, torch.nan]]),
    "a": torch.tensor(65504.0, dtype=torch.float16),
    "c": torch.tensor([[[-3e38]]], dtype=torch.bfloat16),
}

MODULE = "checkpoint_bytes.js"
KINDS = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
WORDS = "const words = (x) => (Object.is(x, -0) ? '-0' : String(x));"  # JSON has no NaN


def same(a, b):
    return (math.isnan(a) and math.isnan(b)) or (
        a == b and math.copysign(1, a) == math.copysign(1, b)
    )


def reads(data):
    """Every number's name, and what PyTorch reads with and without each mistake."""
    end = 8 + int.from_bytes(data[:8], "little")
    entries = json.loads(data[8:end]).items()
    for name, entry in sorted(entries, key=lambda item: item[1]["data_offsets"]):
        dtype = KINDS[entry["dtype"]]
        indices = itertools.product(*map(range, entry["shape"]))
        for at, index in zip(itertools.count(entry["data_offsets"][0], dtype.itemsize), indices):
            values = []
            for begin in (at + end, at):
                raw = data[begin : begin + dtype.itemsize]
                for each in (raw, raw[::-1]):
                    values.append(torch.frombuffer(bytearray(each), dtype=dtype).item())
            yield name, index, values


@pytest.mark.parametrize("figure", [CheckpointBytes(), CheckpointBytes(TENSORS)])
def test_all_numbers_are_those_of_the_format(js, figure):
    """Also what both mistakes read."""
    body = """const { end, numbers } = m.parse(given.file);
      return numbers.map((number) => [number.name, [true, false].flatMap((afterHeader) =>
        [true, false].map((fromBack) => words(
          m.read({ file: given.file, end, number, fromBack, afterHeader }).value)))]);"""
    data = bytes(map(int, figure.file))
    tensors = load(data)
    page = js(figure, WORDS + body)
    for (said, values), (name, index, want) in zip(page, reads(data), strict=True):
        assert said == (f"{name}{list(index)}" if index else name)
        assert same(want[0], tensors[name][index].item())
        assert all(same(float(value), x) for value, x in zip(values, want, strict=True)), said


@pytest.mark.parametrize("dtype", ["F16", "BF16", "F32"])
def test_bits_are_read_as_pytorch_reads_them(js, dtype):
    """Every pattern of 16 bits, and many of 32."""
    patterns = torch.arange(-(2**15), 2**15).to(torch.int16)
    if dtype == "F32":
        patterns = torch.randint(-(2**31), 2**31, (5000,)).to(torch.int32)
    raw = patterns.view(torch.uint8).view(len(patterns), -1).flip(-1)  # the highest byte first
    body = "return given.raw.map((bytes) => words(m.floatOf(bytes, given.dtype).value));"
    page = js(MODULE, WORDS + body, raw=raw.tolist(), dtype=dtype)
    want = patterns.view(KINDS[dtype]).tolist()
    assert all(same(float(value), x) for value, x in zip(page, want, strict=True))


def test_numbers_have_five_digits(js):
    numbers = "3.1415927, -2, 0.1000976, 2.466e-43, -4.0331e16, NaN, Infinity, -Infinity, 0"
    assert js(MODULE, f"return [{numbers}].map(m.show);") == [
        *("3.1416", "−2", "0.1001", "2.466 · 10^−43", "−4.0331 · 10^16"),
        *("not a number", "infinity", "minus infinity", "0"),
    ]


@pytest.mark.slow
def test_a_click_on_a_byte_chooses_its_number_and_the_parts_make_it(show):
    page = show(CheckpointBytes())
    page.locator(".cb-byte").nth(184 + 5).click()  # a byte of wide[1]
    taken = page.locator(".cb-byte[data-taken]").all_inner_texts()
    assert bytes.fromhex("".join(taken)) == struct.pack("<f", 0.1)
    page.locator(".cb-byte").nth(20).click()  # the header isn't a number
    assert told(page, "number") == 1
    for number, value in enumerate([math.pi, 0.1, -2] * 3):
        tell(page, number=number)
        sign, power, factor = page.locator(".cb-row > span:nth-child(2)").all_inner_texts()
        exponent = int(power.removeprefix("× 2^").replace("−", "-"))
        made = int(sign.replace("−", "-")) * 2.0**exponent * float(factor.removeprefix("× "))
        assert made == pytest.approx(value, rel=0.004)
