"""Two thousand wrong calls: each ends in a right result, or in an error that names the argument.

The tables of calls are in `tests/fuzz`. The calls are the same at every run; for others, or more:
``FUZZ_SEED=7 FUZZ_CALLS=20000 python -m pytest tests/unit/test_fuzz.py -s``.
"""

from __future__ import annotations

import importlib.util
import inspect
import os
import random
import re
import signal
import sys
import threading
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import is_dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import transformer_lib
from transformer_lib.cache import AttentionCache

pytestmark = pytest.mark.filterwarnings("ignore")  # of torch, about what it is given here

ROOT = Path(__file__).resolve().parents[2]
SEED = int(os.environ.get("FUZZ_SEED", 0))
N_CALLS = int(os.environ.get("FUZZ_CALLS", 2000))
LIBRARY = Path(transformer_lib.__file__).parent
LIMIT = 60.0  # seconds for a call: it ends what hangs, however busy the machine


def _load(package: str) -> ModuleType:
    """`tests/fuzz` as a package, wherever pytest was started."""
    folder = ROOT / "tests" / package
    spec = importlib.util.spec_from_file_location(
        f"library_{package}", folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for path in sorted(folder.glob("[a-z]*.py")):
        setattr(module, path.stem, importlib.import_module(f"{spec.name}.{path.stem}"))
    return module


fuzz = _load("fuzz")
CALLS, Call = fuzz.CALLS, fuzz.Call

# --- what is public ------------------------------------------------------------------------------

# The front door and what lies directly behind it; files inside a package are its own business.
NOT_FUZZED = {
    "transformer_lib.__main__": "takes its arguments from a command line; test_cli.py",
    "transformer_lib.files": "writes what the others hand it; test_checkpoint.py",
    "transformer_lib.checks": "takes what learners wrote, and must survive it; test_checks.py",
    "transformer_lib.figures": "pictures; test_figures.py, test_widgets.py",
    "transformer_lib.validation": "what the others refuse with",
}


def public_modules() -> list[ModuleType]:
    folder = LIBRARY
    names = [
        f"transformer_lib.{path.stem}"
        for path in sorted(folder.iterdir())
        if path.suffix == ".py" or (path / "__init__.py").is_file()
    ]
    names = [name for name in names if name not in NOT_FUZZED]
    return [importlib.import_module(name.removesuffix(".__init__")) for name in names]


def public_functions() -> dict[Any, str]:
    """Every public function, class and method, with its name."""
    found: dict[Any, str] = {}
    for module in public_modules():
        for name in getattr(module, "__all__", ()):
            thing = getattr(module, name)
            if isinstance(thing, ModuleType):
                found |= {f: f"{name}.{f.__name__}" for f in _functions(thing)}
            elif inspect.isclass(thing):
                found |= _methods(thing)
            elif callable(thing):
                found[thing] = name
    return found


def _functions(module: ModuleType) -> list[Any]:
    """The functions of a module that stands as a whole in an ``__all__``."""
    return [
        thing
        for name, thing in vars(module).items()
        if inspect.isfunction(thing) and thing.__module__ == module.__name__ and name[0] != "_"
    ]


def _methods(cls: type) -> dict[Any, str]:
    """A class's constructor and methods, unless it is a record that the library itself fills."""
    if issubclass(cls, BaseException) or getattr(cls, "_is_protocol", False):
        return {}
    found: dict[Any, str] = {}
    record = issubclass(cls, tuple) or (is_dataclass(cls) and not hasattr(cls, "__post_init__"))
    if "__init__" in vars(cls) and not record and _takes(cls.__init__):
        found[cls] = cls.__name__
    for name, method in vars(cls).items():
        function = getattr(method, "__func__", method)
        ours = inspect.isfunction(function) and function.__module__.startswith("transformer_lib")
        if ours and not name.startswith("_") and _takes(function):
            found[function] = f"{cls.__name__}.{name}"
    return found


def _takes(function: Any) -> set[str]:
    return set(inspect.signature(function).parameters) - {"self", "cls"}


def test_every_public_function_has_a_call_in_the_table() -> None:
    public = public_functions()
    assert len(public) > 100
    assert sorted({name for function, name in public.items() if function not in CALLS}) == []
    assert [function for function in CALLS if function not in public] == []


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path that is made up may become a file."""
    monkeypatch.chdir(tmp_path)


# --- one call ------------------------------------------------------------------------------------


class Wrong(AssertionError):
    """A call that ended in neither a right result nor a proper error."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in a block that computes for longer, where the system can.

    It counts the processor's time: on a busy machine a call may have to wait for its turn.
    """
    if (
        not hasattr(signal, "setitimer")
        or threading.current_thread() is not threading.main_thread()
    ):
        yield
        return

    def stop(*_: Any) -> None:
        raise TimeoutError(f"no answer within {seconds} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def judge(call: Any, spoiled: dict[str, Any]) -> str:
    """Run a call: "answered" or "refused", or an error that says what is wrong with the outcome."""
    given = call.given | spoiled
    try:
        with time_limit(LIMIT), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = call.run(**given, **call.fixed)
    except (TypeError, ValueError) as error:
        return "refused" if _is_theirs(error, call) else _named(error, spoiled)
    except call.errors:
        return "refused"
    except Exception as error:
        if _is_theirs(error, call):
            return "refused"
        raise Wrong(f"{type(error).__name__}: {error}") from error
    for name, value in spoiled.items():
        if isinstance(value, float) and value != value and not call.anything:
            raise Wrong(f"{name} is NaN, and nobody said so")
    if not_finite(result) and not not_finite(given):
        raise Wrong(f"NaN or infinity from finite arguments: {result}")
    if call.check is not None:
        try:
            call.check(result, given)
        except Exception as error:
            raise Wrong(f"wrong result: {type(error).__name__}: {error}") from error
    return "answered"


def _where(error: Exception) -> Path:
    return Path(traceback.extract_tb(error.__traceback__)[-1].filename)


def _is_theirs(error: Exception, call: Any) -> bool:
    """Whether it comes out of a function that was handed over to be called."""
    return call.calls_others and not _where(error).is_relative_to(LIBRARY)


def _named(error: Exception, spoiled: dict[str, Any]) -> str:
    where = _where(error)
    if not where.is_relative_to(LIBRARY):
        raise Wrong(f"{type(error).__name__} of {where.name}: {error}") from error
    # "t" is not named by "isn't", nor "x" by "max". What is wrong with a file is said of its path.
    names = [rf"(?<![\w'’]){re.escape(name)}\b" for name in spoiled]
    paths = [path for value in spoiled.values() for path in _paths(value)]
    names += [re.escape(path) for path in paths if path]
    if not any(re.search(name, str(error)) for name in names):
        raise Wrong(f"{type(error).__name__} names none of {list(spoiled)}: {error}") from error
    return "refused"


def _paths(value: Any) -> list[str]:
    values = value if isinstance(value, list | tuple) else [value]
    return [str(path) for path in values if isinstance(path, Path | str)]


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


def spoil(call: Any, draw: random.Random) -> dict[str, Any]:
    names = draw.sample(list(call.given), min(len(call.given), draw.choice((1, 1, 1, 2))))
    return {
        name: fuzz.spoil.spoil(call.given[name], draw, call.extra.get(name, [])) for name in names
    }


# --- all calls -----------------------------------------------------------------------------------


@pytest.mark.parametrize("function", CALLS, ids=lambda function: function.__qualname__)
def test_the_right_call_is_right(function: Any) -> None:
    """What is spoiled later must have been good, and be judged so."""
    for seed in range(3):
        torch.manual_seed(seed)
        assert judge(CALLS[function](random.Random(seed)), {}) == "answered"


def as_numpy(value: Any) -> Any:
    """The value with numbers as NumPy has them, and tuples for lists."""
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        return tuple(map(as_numpy, value))
    if isinstance(value, dict):
        return {name: as_numpy(inner) for name, inner in value.items()}
    kind = {int: np.int64, float: np.float32}.get(type(value))
    return value if kind is None else kind(value)


@pytest.mark.parametrize("function", CALLS, ids=lambda function: function.__qualname__)
def test_numbers_of_numpy_and_tuples_will_do(function: Any) -> None:
    for seed in range(3):
        torch.manual_seed(seed)
        call = CALLS[function](random.Random(seed))
        assert judge(call, as_numpy(call.given)) == "answered"


@pytest.mark.slow
def test_wrong_calls_are_refused_by_name_or_answered_rightly() -> None:
    outcomes: Counter[str] = Counter()
    failures: dict[str, list[str]] = {}
    draw = random.Random(SEED)
    for number in range(N_CALLS):
        function = list(CALLS)[number % len(CALLS)]
        torch.manual_seed(number)
        call = CALLS[function](draw)
        spoiled = spoil(call, draw)
        try:
            outcomes[judge(call, spoiled)] += 1
        except Wrong as wrong:
            outcomes["wrong"] += 1
            shown = ", ".join(f"{name}={_shown(value)}" for name, value in spoiled.items())
            failures.setdefault(function.__qualname__, []).append(f"({shown}): {wrong}")
    print(dict(outcomes))
    assert not failures, "\n".join(
        f"{name}{line}" for name, lines in failures.items() for line in lines
    )
    assert N_CALLS / len(CALLS) > 10, "so many calls of each"
    assert outcomes["refused"] > N_CALLS / 3
    assert outcomes["answered"] > N_CALLS / 20


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
        (_raising(AssertionError()), "AssertionError"),
        (_raising(IndexError("t is out of range")), "IndexError"),
        (_raising(RuntimeError("t")), "RuntimeError"),
        (_raising(ValueError("t must be another")), "ValueError of test_fuzz.py"),
        (lambda t: transformer_lib.causal_mask(-1, s=t), "names none of"),
        (lambda t: torch.full((2,), torch.nan), "NaN or infinity"),
        (lambda t: {"loss": [float("nan")]}, "NaN or infinity"),
    ],
)
def test_the_judge_finds(run, complaint) -> None:
    with pytest.raises(Wrong, match=complaint):
        judge(Call({"t": 3, "s": 5}, run=lambda t, s: run(t=t)), {"s": 4})


def test_the_judge_finds_a_hang(monkeypatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "LIMIT", 0.05)

    def forever(t: int) -> None:
        while t:
            pass

    with pytest.raises(Wrong, match="TimeoutError: no answer"):
        judge(Call({"t": 3}, run=forever), {"t": 4})


def test_the_judge_finds_a_wrong_result_and_a_nan_that_was_let_in() -> None:
    def never(result: Any, given: dict[str, Any]) -> None:
        assert result is not result

    with pytest.raises(Wrong, match="wrong result"):
        judge(Call({"t": 3}, run=lambda t: t, check=never), {"t": 4})
    with pytest.raises(Wrong, match="t is NaN"):
        judge(Call({"t": 3.0}, run=lambda t: 1), {"t": float("nan")})
