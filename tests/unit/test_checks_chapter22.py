"""Chapter 22's checkers: right answers in every form, and what is said of wrong ones."""

import json
import math
import struct

import torch
from safetensors.torch import save

from tests.unit.judging import table
from transformer_lib.checks.chapter22 import check

# ----------------------------------------------------------------------------------- read_tensor

TYPES = {"F16": torch.float16, "F32": torch.float32, "F64": torch.float64, "I64": torch.int64}


def by_struct(data, name):
    (length,) = struct.unpack("<Q", data[:8])
    entry = json.loads(data[8 : 8 + length].decode())[name]
    begin, end = entry["data_offsets"]
    letter, size = {"F16": "e2", "F32": "f4", "F64": "d8", "I64": "q8"}[entry["dtype"]]
    numbers = struct.unpack(f"<{(end - begin) // int(size)}{letter}", data[8 + length :][begin:end])
    return torch.tensor(numbers, dtype=TYPES[entry["dtype"]]).reshape(entry["shape"])


def test_the_readers_read_what_safetensors_writes():
    tensors = {"a.b": torch.randn(3, 5).half(), "ids": torch.arange(7)}
    for name, tensor in tensors.items():
        assert torch.equal(by_struct(save(tensors, metadata={"format": "pt"}), name), tensor)


def read(
    length_of=lambda data: int.from_bytes(data[:8], "little"),
    start=lambda length: 8 + length,
    stop=lambda begin, end: end,
    kind=TYPES.get,
):
    def answer(data, name):
        length = length_of(data)
        entry = json.loads(data[8 : length + 8].decode())[name]
        begin, end = entry["data_offsets"]
        raw = data[start(length) :][begin : stop(begin, end)]
        return torch.frombuffer(bytearray(raw), dtype=kind(entry["dtype"])).reshape(entry["shape"])

    return answer


# ------------------------------------------------------------------------------------- own_names

LINES = {
    "ln_1": "norms.0", "ln_2": "norms.1", "attn.c_proj": "attention.output",
    "mlp.c_fc": "feed_forward.widen", "mlp.c_proj": "feed_forward.narrow",
}  # fmt: skip


def by_splitting(name):
    pieces = name.split(".")
    if pieces[0] == "transformer":
        pieces = pieces[1:]
    if pieces[0] == "h":
        where, part = f"stack.layers.{int(pieces[1])}", ".".join(pieces[2:-1])
        if part == "attn.c_attn":
            return [f"{where}.attention.{x}.{pieces[-1]}" for x in ("query", "key", "value")]
        return [f"{where}.{LINES[part]}.{pieces[-1]}"]
    first = {"wte": "embedding", "wpe": "places", "ln_f": "stack.norm"}[pieces[0]]
    return [f"{first}.{pieces[-1]}"]


def by_replacing(table=LINES, three=("query", "key", "value"), cut="transformer.", stack="stack."):
    ends = {"h.": f"{stack}layers.", "wte": "embedding", "wpe": "places", "ln_f": "stack.norm"}

    def answer(name):
        name = name.replace(cut, "")
        for theirs, ours in {**table, **ends}.items():
            name = name.replace(theirs, ours)
        if "c_attn" not in name:
            return [name]
        return [name.replace("attn.c_attn", f"attention.{part}") for part in three]

    return answer


# ---------------------------------------------------------------------------------------- parity


def in_loops(yours, theirs, real):
    if yours.shape != theirs.shape:
        return math.inf
    largest = 0.0
    for text, position in real.nonzero().tolist():
        for one, other in zip(yours[text, position], theirs[text, position], strict=True):
            difference = abs(one.item() - other.item())
            if not difference < math.inf:
                return math.inf
            largest = max(largest, difference)
    return largest


def by_filling(yours, theirs, real):
    if yours.size() != theirs.size():
        return math.inf
    largest = (yours - theirs).abs().masked_fill(~real[..., None], 0.0).max()
    return largest.item() if largest.isfinite() else math.inf


def parity(
    of=lambda difference: difference.abs().max().item(),
    part=lambda logits: logits.shape,
    finite=True,
    unequal=math.inf,
):
    def answer(yours, theirs, real):
        if part(yours) != part(theirs):
            return unequal
        difference = (yours - theirs)[real]
        if finite and not difference.isfinite().all():
            return math.inf
        return of(difference)

    return answer


def agree(yours, theirs, real):
    return yours.shape == theirs.shape and torch.allclose(yours[real], theirs[real], atol=1e-4)


test_right, test_wrong = table(
    check,
    right={
        "read_tensor": [ by_struct,  read()],
        "own_names": [by_splitting, by_replacing()],
        "parity": [in_loops, by_filling,  parity()],
    },
    wrong={
        "read_tensor": [
            (read(stop=lambda begin, end: end - 4), "holds 2 numbers, and the tensor has 1"),
            (read(kind=(TYPES | {"F16": torch.bfloat16}).get), "F16 has two bytes"),
            
            
            
        ],
        "own_names": [
            (by_replacing(stack=""), "count them from 0"),
            (by_replacing(three=("key", "query", "value")), "in this order"),
            
        ],
        "parity": [
            (agree, "The result is False"),
            
            
            (parity(lambda d: round(d.abs().max().item(), 2)), "tells rounding from a mistake"),
            (parity(part=len), "`yours` has one logit"),
            (parity(part=lambda logits: logits.shape[1:]), "`yours` has one text"),
            
            
            
        ],
    },
)  # fmt: skip
