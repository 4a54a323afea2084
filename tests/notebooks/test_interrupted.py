"""A cell that changes something for a while puts it back, also when it's stopped halfway."""

import copy
from types import SimpleNamespace

import nbformat
import pytest
import torch
from execute import CHAPTERS


def stop(*args, **kwargs):
    raise KeyboardInterrupt


def run_and_stop(chapter: str, cell_id: str, names: dict, call: str = "") -> None:
    """Run a cell, and then a call of what it defines, among `names`, one of which is `stop`."""
    (path,) = CHAPTERS.glob(f"{chapter}_*.ipynb")
    (cell,) = [c for c in nbformat.read(path, as_version=4).cells if c.id == cell_id]
    with pytest.raises(KeyboardInterrupt):
        exec(f"{cell.source}\n\n{call}", names)


def test_the_honest_loss_comes_back():
    names = {"fresh": torch.nn.Module, "device": "cpu", "encode": list, "training_pairs": [],
             "train": stop, "loss_of": len, "loss_unshifted": max}  # fmt: skip
    run_and_stop("13", "without-the-shift", names)
    assert names["loss_of"] is len


def test_the_hooks_go():
    layer = torch.nn.Identity()
    model = SimpleNamespace(encoder=SimpleNamespace(layers=[layer]))
    names = {"torch": torch, "model": model, "padding_mask": stop}
    run_and_stop("08", "hooks", names, "vectors_by_layer(model, None)")
    assert not layer._forward_hooks


def test_the_looks_come_back():
    writer = SimpleNamespace(across=True, back=True)
    before = copy.copy(writer)
    names = {"model": writer, "perplexity": stop}
    run_and_stop("09", "sol-switch-off-code", names)
    assert writer == before


def test_the_weights_are_not_changed_any_more():
    names = {"torch": torch, "stop": stop}
    run_and_stop("16", "tools", names, "run(stop, None, torch.ones(1, 2), new=print)")
    assert names["change"] is None
