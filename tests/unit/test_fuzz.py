"""Each argument of every public function, spoiled: an error that names it, or a right result.

`tests/fuzz/calls.py` makes the right calls. What an error says beside the name isn't tested.
"""

import gzip
import importlib
import inspect
import random
import re
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import transformer_lib
from fuzz import calls
from transformer_lib.cache import AttentionCache
from transformer_lib.data import multi30k

pytestmark = pytest.mark.filterwarnings("ignore")  # of torch, about what it is given here

LIBRARY = Path(transformer_lib.__file__).parent

# --- what is public ------------------------------------------------------------------------------

# The front door and the modules next to it; modules inside a package are internal.
NOT_FUZZED = {
    "transformer_lib.__main__": "takes its arguments from a command line; test_cli.py",
    "transformer_lib.files": "writes what the others hand it; test_checkpoint.py",
    "transformer_lib.checks": "takes what learners wrote, and must survive it; test_checks.py",
    "transformer_lib.figures": "pictures; test_figures.py, test_widgets.py",
    "transformer_lib.validation": "what the others refuse with",
}
# Called by the library alone, which has checked what it hands over: names as pytest shows them.
TRUSTING = {"AttentionCache.append", "AttentionCache.reorder", "KVCache.reorder"}


def public_functions() -> dict[Any, type | None]:
    """Every public function, class and method, and the class that it belongs to."""
    found: dict[Any, type | None] = {}
    for path in sorted(LIBRARY.iterdir()):
        name = f"transformer_lib.{path.stem}"
        package = path.suffix == ".py" or (path / "__init__.py").is_file()
        if not package or name in NOT_FUZZED:
            continue
        module = importlib.import_module(name.removesuffix(".__init__"))
        for thing in (getattr(module, name) for name in getattr(module, "__all__", ())):
            if isinstance(thing, ModuleType):  # exported as a whole
                own = inspect.getmembers(thing, inspect.isfunction)
                found |= {
                    f: None for name, f in own if f.__module__ == thing.__name__ and name[0] != "_"
                }
            elif inspect.isclass(thing):
                found |= dict.fromkeys(_methods(thing), thing)
            elif callable(thing):
                found[thing] = None
    return {f: owner for f, owner in found.items() if f.__qualname__ not in TRUSTING}


def _methods(cls: type) -> list[Any]:
    """A class's constructor and methods, unless it is a record that the library itself fills."""
    if issubclass(cls, BaseException) or getattr(cls, "_is_protocol", False):
        return []
    record = issubclass(cls, tuple) or (is_dataclass(cls) and not hasattr(cls, "__post_init__"))
    found: list[Any] = [cls] if "__init__" in vars(cls) and not record else []
    for name, method in vars(cls).items():
        function = getattr(method, "__func__", method)
        if inspect.isfunction(function) and not name.startswith("_"):
            ours = function.__module__.startswith("transformer_lib")
            found += [function] * (ours and len(inspect.signature(function).parameters) > 1)
    return found


PUBLIC = public_functions()
each_function = pytest.mark.parametrize("function", PUBLIC, ids=lambda f: f.__qualname__)


def test_all_of_it_is_found() -> None:
    assert len(PUBLIC) > 100


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path that is made up may become a file, and no test downloads."""
    monkeypatch.chdir(tmp_path)
    captions = tmp_path / "captions.gz"
    captions.write_bytes(gzip.compress(b"a dog\na cat\n"))
    monkeypatch.setattr(multi30k, "_file", lambda *_: captions)
    monkeypatch.setattr("platformdirs.user_cache_path", lambda *_: calls.cache_folder())


# --- one call ------------------------------------------------------------------------------------


class Wrong(AssertionError):
    """A call that ended in neither a right result nor a proper error."""


def judge(function: Any, call: calls.Call, wrong: dict[str, Any]) -> str:
    """Run a call: "answered" or "refused", or an error that says what is wrong with the outcome."""
    given = call.given | wrong
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = call.run(**given)
    except Exception as error:
        if not _is_proper(error, wrong, call):
            raise Wrong(f"{type(error).__name__}: {error}") from error
        return "refused"
    if not_finite(result) and not not_finite(given):
        raise Wrong(f"NaN or infinity from finite arguments: {result}")
    try:
        calls.check(function, result, given)
    except Exception as error:
        raise Wrong(f"wrong result: {type(error).__name__}: {error}") from error
    return "answered"


def _is_proper(error: Exception, wrong: dict[str, Any], call: calls.Call) -> bool:
    """Whether the library itself says what is wrong, and with which argument."""
    where = Path(traceback.extract_tb(error.__traceback__)[-1].filename)
    if not where.is_relative_to(LIBRARY):  # of what was handed over to be called, or of a file
        return bool(calls.OTHERS & wrong.keys()) or _is_of_a_file(error, wrong)
    if not isinstance(error, TypeError | ValueError):  # the first: of training
        return isinstance(error, FloatingPointError) or _is_of_a_file(error, wrong)
    # "t" is not named by "isn't", nor "x" by "max". What is wrong with a file is said of its path.
    # Tensors have to fit together, so either of two may be named.
    tensors = [name for name, value in call.given.items() if isinstance(value, Tensor)]
    names = [rf"(?<![\w'’]){re.escape(name)}\b" for name in (*wrong, *tensors)]
    values = [each for value in wrong.values() for each in _listed(value)]
    names += [re.escape(str(each)) for each in values if isinstance(each, Path | str) and str(each)]
    return any(re.search(name, str(error)) for name in names)


def _is_of_a_file(error: Exception, wrong: dict[str, Any]) -> bool:
    return isinstance(error, OSError) and bool(calls.FILES & wrong.keys())


def _listed(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else [value]


def not_finite(thing: Any) -> bool:
    """Whether there is a NaN or an infinity anywhere in it."""
    if isinstance(thing, Tensor):
        numbers = thing.is_floating_point() or thing.is_complex()
        return numbers and thing.device.type != "meta" and not thing.isfinite().all()
    if isinstance(thing, np.ndarray):
        return thing.dtype.kind == "f" and not np.isfinite(thing).all()
    if isinstance(thing, float):
        return not abs(thing) < float("inf")
    if isinstance(thing, AttentionCache):  # whose buffers are longer than what is in them
        return thing.length > 0 and not_finite(thing.read())
    if isinstance(thing, dict):
        return not_finite(list(thing.values()))
    if isinstance(thing, list | tuple):
        return any(map(not_finite, thing))
    if isinstance(thing, nn.Module):
        return any(not_finite(tensor) for tensor in thing.state_dict().values())
    return hasattr(thing, "__dict__") and any(map(not_finite, vars(thing).values()))


# --- all calls -----------------------------------------------------------------------------------


def right_call(function: Any, seed: int) -> calls.Call:
    random.seed(seed)
    torch.manual_seed(seed)
    return calls.right_call(function, PUBLIC[function])


def as_numpy(value: Any) -> Any:
    """The value with numbers as NumPy has them, and tuples for lists."""
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        return tuple(map(as_numpy, value))
    if isinstance(value, dict):
        return {name: as_numpy(inner) for name, inner in value.items()}
    kind = {int: np.int64, float: np.float32}.get(type(value))
    return value if kind is None else kind(value)


@each_function
def test_a_right_call_is_answered_with_numbers_of_numpy_and_tuples_too(function: Any) -> None:
    for seed in range(2):
        assert judge(function, right_call(function, seed), {}) == "answered"
    call = right_call(function, 2)
    assert judge(function, call, as_numpy(call.given)) == "answered"


def spoiled(value: Any) -> Iterator[Any]:
    """Other values in place of a right one: most of them wrong, some of them right as well."""
    if isinstance(value, Tensor):
        yield from (value.tolist(), value.to("meta"), value.bool(), value.to(torch.complex64))
        yield value.long() if value.is_floating_point() else value.double()
        yield from (value.flatten(), value.sum(), value[..., None, None, None])
        for dim in range(value.dim()):
            yield from (value.narrow(dim, 0, 0), torch.cat((value, value), dim))
            yield value.narrow(dim, 0, 1)
        if not value.is_floating_point() and value.dtype is not torch.bool:
            yield from (torch.full_like(value, -7), torch.full_like(value, 10_000))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from (-1, 0, 2.5, float("inf"), str(value))
    elif isinstance(value, str):
        yield from ("", value + "?", value.encode(), [value])
    elif isinstance(value, list | tuple):
        yield from ([], value[:1], dict(enumerate(value)))
        if value and isinstance(value[0], str | int):
            yield [*value, None]
    yield None


@each_function
def test_each_argument_is_checked(function: Any) -> None:
    """No argument may be any object, and no number NaN or negative."""
    failures = []
    for name, right in right_call(function, 0).given.items():
        number = isinstance(right, int | float) and not isinstance(right, bool)
        number = number and name != "pad_id"  # whose -100 is usual elsewhere
        never = (object(), *((-3, float("nan")) if number else ()))
        made = (make() for make in calls.WRONG.get(name, ()))
        for value in (*never, *spoiled(right), *made):
            try:
                outcome = judge(function, right_call(function, 0), {name: value})
                if outcome == "answered" and value in never and function not in calls.ANYTHING:
                    raise Wrong("accepted")
            except Wrong as error:
                failures.append(f"{name}={_shown(value)}: {error}")
    assert not failures, "\n".join(failures)


def _shown(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{value.dtype} {tuple(value.shape)} on {value.device}"
    return " ".join(repr(value).split())[:60]


# --- the judge itself ----------------------------------------------------------------------------


def _raising(error: Exception) -> Any:
    def run(**_: Any) -> None:
        raise error

    return run


@pytest.mark.parametrize(
    "run, complaint",
    [
        (_raising(IndexError("t is out of range")), "IndexError"),
        (_raising(ValueError("t must be another")), "ValueError"),  # not the library's
        (lambda t: transformer_lib.causal_mask(3, s=-1), "ValueError"),  # names another
        (lambda t: {"loss": [float("nan")]}, "NaN or infinity"),
    ],
)
def test_the_judge_finds(run, complaint) -> None:
    with pytest.raises(Wrong, match=complaint):
        judge(None, calls.Call(run, {"t": 3}), {"t": 4})
