"""A page's training loops run where their model is: on a second device, if it's moved there.

The second device needs no hardware. Its tensors hold the CPU's, so that numbers can be printed and
compared, but an operation on tensors of two devices is an error, as on a GPU. A page's loops run
with the cells that they need, for one update each.
"""

import ast
import json
from contextlib import suppress
from typing import Any

import pytest
import torch
from execute import CHAPTERS
from torch import Tensor, nn
from torch.nn.modules import module as hooks
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter, tree_map

from cells import needs_and_gives

THERE = torch.device("meta")  # a device that any PyTorch has; these tensors do have numbers
aten = torch.ops.aten


class There(Tensor):
    """A tensor of the second device, which holds one of the first."""

    @staticmethod
    def __new__(cls, held: Tensor):
        return Tensor._make_wrapper_subclass(
            cls, held.shape, held.stride(), held.storage_offset(), dtype=held.dtype, device=THERE
        )

    def __init__(self, held: Tensor) -> None:
        self.held = held

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec)

    @classmethod
    def __torch_dispatch__(cls, *call):
        return SecondDevice().__torch_dispatch__(*call)


class SecondDevice(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        tensors = [each for each in tree_iter((args, kwargs)) if isinstance(each, Tensor)]
        there = {id(each.held): each for each in tensors if isinstance(each, There)}
        here = any(each.dim() and not isinstance(each, There) for each in tensors)
        stays = bool(there)  # whether the result is on the second device
        if there and here:  # PyTorch allows two exceptions
            stays = isinstance(args[0], There)
            if not (func is aten.copy_.default or (func is aten.index.Tensor and stays)):
                raise RuntimeError(f"{func} got tensors on two devices")
        if kwargs.get("device") is not None:
            stays = kwargs["device"] == THERE
            if stays and kwargs.get("generator") is not None:
                raise RuntimeError(f"{func} got a generator of another device")
            kwargs["device"] = "cpu"
        if there and torch.Tag.inplace_view in func.tags:
            with no_dispatch():
                func(*args, **kwargs)

        def held(each: Any) -> Any:
            return each.held if isinstance(each, There) else each

        def result(each: Any) -> Any:
            if not isinstance(each, Tensor):
                return each
            return there[id(each)] if id(each) in there else There(each)

        found = func(*tree_map(held, args), **tree_map(held, kwargs))
        return tree_map(result, found) if stays else found


def move(found: Any, device: Any) -> Any:
    """Move the modules among arguments or results, and the second device's tensors."""
    for each in tree_iter(found):
        if isinstance(each, nn.Module):
            each.to(device)
    return tree_map(lambda each: each.to(device) if isinstance(each, There) else each, found)


def registered(module: nn.Module, name: str, made: Tensor | None) -> Tensor | None:
    """A parameter or buffer on the second device, in the place of one that a module has made."""
    if made is None or isinstance(made, There):
        return made
    moved = made.detach().to(THERE)
    return nn.Parameter(moved, made.requires_grad) if isinstance(made, nn.Parameter) else moved


def elsewhere(function):
    """Run a function with its models on the second device, those that it makes included."""

    def call(*args, **kwargs):
        with SecondDevice():
            move((args, kwargs), THERE)
            handles = [
                hooks.register_module_parameter_registration_hook(registered),
                hooks.register_module_buffer_registration_hook(registered),
            ]
            try:
                found = function(*args, **kwargs)
            finally:
                for handle in handles:
                    handle.remove()
            move((args, kwargs), "cpu")
            return move(found, "cpu")

    return call


# --- the part of a page that trains --------------------------------------------------------------


def called(*nodes: ast.AST) -> set[str]:
    """The names of the functions that are called, those of methods with a dot in front."""
    calls = [each.func for node in nodes for each in ast.walk(node) if isinstance(each, ast.Call)]
    return {getattr(each, "id", f".{getattr(each, 'attr', '')}") for each in calls}


def is_loop(node: ast.AST) -> bool:
    """Whether this is a training loop: it has a backward pass and an update."""
    return isinstance(node, ast.For) and {".backward", ".step"} <= called(node)


def trainers(cells: list[ast.Module]) -> set[str]:
    """The functions with a training loop, and those that call one of them."""
    nodes = [each for cell in cells for each in ast.walk(cell)]
    functions = [each for each in nodes if isinstance(each, ast.FunctionDef)]
    found = {each.name for each in functions if any(map(is_loop, ast.walk(each)))}
    calls = {each.name: called(each) for each in functions}
    while more := {name for name in calls.keys() - found if calls[name] & found}:
        found |= more
    return found


class OneUpdate(ast.NodeTransformer):
    """Training loops end after their first update, and functions with one go elsewhere."""

    def visit_For(self, node):
        self.generic_visit(node)
        if is_loop(node):
            node.body.append(ast.Break())
        return node

    def visit_FunctionDef(self, node):
        if any(map(is_loop, ast.walk(node))):
            node.decorator_list.append(ast.Name("elsewhere", ast.Load()))
        return self.generic_visit(node)


def program(sources: list[str]) -> list[str]:
    """The cells that call a trainer, up to there, and those that they need; one update each."""
    cells = [ast.parse(source) for source in sources]
    for cell in cells:  # what a file does only as a program is run as well
        parts = [each.body if isinstance(each, ast.If) else [each] for each in cell.body]
        cell.body = [each for part in parts for each in part]
    training, wanted, kept = trainers(cells), set(), []
    for cell in reversed(cells if training else []):
        while cell.body:
            last = cell.body[-1]
            trains = not isinstance(last, ast.FunctionDef) and called(last) & training
            if trains or needs_and_gives(ast.unparse(last))[1] & wanted:
                break
            cell.body.pop()
        needed, given = needs_and_gives(ast.unparse(cell))
        wanted = wanted - given | needed
        kept.append(ast.unparse(ast.fix_missing_locations(OneUpdate().visit(cell))))
    return kept[::-1]


def sources(page: str) -> list[str]:
    book = json.loads((CHAPTERS / f"{page}.ipynb").read_text(encoding="utf-8"))["cells"]
    skipped = {"remove-cell", "nbval-skip"}  # the guards of trained models, and Colab's cell
    return [
        "".join(cell["source"])
        for cell in book
        if cell["cell_type"] == "code" and not skipped & set(cell["metadata"].get("tags", []))
    ]


PLAIN = {"02_scaled_dot_product", "15_a_difference"}  # these train tensors: no model to move
PAGES = [
    page.stem
    for page in sorted(CHAPTERS.glob("*.ipynb"))
    if page.stem not in PLAIN and any(program(sources(page.stem)))
]


@pytest.mark.parametrize("page", PAGES)
def test_a_loop_runs_on_the_device_of_its_model(page, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "agg")
    space = {"__name__": "__main__", "elsewhere": elsewhere}
    devices = set()

    def note(adam, *_):
        devices.update(each.device for group in adam.param_groups for each in group["params"])

    handle = register_optimizer_step_pre_hook(note)
    try:
        for source in program(sources(page)):
            with suppress(IndexError):  # a cell may show a later update
                exec(source, space)
    finally:
        handle.remove()
    assert devices == {THERE}


def test_the_second_device_computes_and_shares_nothing():
    def update(device):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Embedding(5, 8), nn.LayerNorm(8), nn.Linear(8, 5)).to(device)
        ids, adam = torch.tensor([[3, 1], [4, 1]]).to(device), torch.optim.Adam(model.parameters())
        nn.functional.cross_entropy(model(ids).mT, ids).backward()
        adam.step()
        return model, ids

    model, ids = update("cpu")
    with SecondDevice():
        other, there = update(THERE)
        assert {each.device for each in other.parameters()} == {THERE}
        torch.testing.assert_close(other(there).cpu(), model(ids), rtol=0, atol=0)
        for wrong in (lambda: other(ids), lambda: model(there), lambda: there + ids):
            with pytest.raises(RuntimeError, match="two devices"):
                wrong()
