"""What can be asked for on the command line."""

from __future__ import annotations

import argparse
import ast
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from transformer_lib.cli_help import (
    DESCRIPTION,
    EVALUATE,
    GENERATE,
    SETTINGS,
    TRAIN,
    TRANSLATE,
)
from transformer_lib.config import ModelConfig
from transformer_lib.recipes import TASKS
from transformer_lib.training import TrainConfig

__all__ = ["parse"]

# Settings that --set may name: all but those that the tokenizer decides.
_IDS = {"vocab_size", "pad_id", "bos_id", "eos_id"}
MODEL_SETTINGS = [field.name for field in fields(ModelConfig) if field.name not in _IDS]
TRAIN_SETTINGS = [field.name for field in fields(TrainConfig) if field.name not in _IDS]


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The arguments, checked; wrong ones and ``--help`` raise SystemExit."""
    parser = _parser()
    args = parser.parse_args(argv)
    if args.command == "generate":
        args.draws = any(x is not None for x in (args.temperature, args.top_k, args.top_p))
        if not args.draws and (args.samples > 1 or args.seed is not None):
            parser.error("--samples and --seed need --temperature, --top-k or --top-p")
    if vars(args).get("split") and vars(args).get("text"):
        parser.error("--split takes the place of sentences")
    of_beam = [vars(args).get(name) for name in ("length_penalty", "n_best", "early_stopping")]
    if vars(args).get("beam") is None and any(given is not None for given in of_beam):
        parser.error("--length-penalty, --early-stopping and --n-best need --beam")
    return args


Add = Callable[..., Any]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m transformer_lib",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, summary: str, description: str, usage: str) -> tuple[Add, Add]:
        """A command; what adds an option to the five that are listed first, or to the rest."""
        made = commands.add_parser(
            name,
            help=summary,
            description=description,
            usage=f"python -m transformer_lib {name} {usage}",
            epilog=SETTINGS.format(_listed(MODEL_SETTINGS), _listed(TRAIN_SETTINGS))
            if name == "train"
            else None,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            add_help=False,
        )
        first = made.add_argument_group("most used").add_argument
        rest = made.add_argument_group("more options").add_argument
        rest("-h", "--help", action="help", help="show this and exit")
        return first, rest

    _add_train(
        *command("train", "train a model, or go on training", TRAIN, "--task TASK [options]")
    )

    run = "--run FOLDER [options]"
    first, rest = command("evaluate", "score a run", EVALUATE, run)
    _add_run(first)
    first("--split", default="val", help="val (default), or test_2016_flickr of the captions")
    _add_beam(first)
    first("--limit", type=_count, help="only the first texts")
    first("--write", type=Path, metavar="FILE", help="write what the model said, one text a line")
    rest("--against", type=Path, action="append", metavar="FOLDER", help="compare with this run")
    _add_checkpoint(rest)
    _add_search(rest)
    _add_common(rest)

    first, rest = command("translate", "translate sentences", TRANSLATE, f"{run} [sentence ...]")
    first("text", nargs="*", metavar="sentence", help="if not given, the standard input")
    _add_run(first)
    _add_beam(first)
    first("--n-best", type=_count, metavar="K", help="show the K best of the beam")
    _add_strict(first)
    _add_checkpoint(first)
    rest("--split", help="translate this split's texts, such as train, in their order")
    rest("--batch-size", type=_count, default=64, metavar="N", help="texts at once (64)")
    _add_search(rest)
    _add_common(rest)

    generate = "continue texts with a language model"
    first, rest = command("generate", generate, GENERATE, f"{run} [prompt ...]")
    first("text", nargs="*", metavar="prompt", help="if not given, the standard input")
    _add_run(first)
    first("--temperature", type=float, help="below 1 the probable becomes more so (1)")
    first("--top-p", type=float, metavar="P", help="draw from the fewest that have probability P")
    first("--samples", type=_count, default=1, metavar="N", help="continuations of each prompt (1)")
    first("--max-tokens", type=_count, default=100, help="most tokens to add (100)")
    rest("--top-k", type=_count, metavar="K", help="draw from the K most probable tokens")
    rest("--seed", type=_seed, help="of what is drawn (0)")
    rest(
        "--stop",
        type=_text,
        action="append",
        default=[],
        metavar="TEXT",
        help="end before this text; may be given more than once",
    )
    _add_strict(rest)
    _add_checkpoint(rest)
    _add_common(rest)
    return parser


def _add_run(add: Add) -> None:
    add(
        "--run",
        type=Path,
        required=True,
        action="append",
        metavar="FOLDER",
        help="folder of a trained run; given again, the runs decide together",
    )


def _add_checkpoint(add: Add) -> None:
    add(
        "--checkpoint",
        choices=("best", "last", "average"),
        default="best",
        help="which model (best); average: the mean of those that --keep-last kept",
    )


def _add_beam(add: Add) -> None:
    add("--beam", type=_count, metavar="N", help="search with a beam of N texts")


def _add_search(add: Add) -> None:
    add("--length-penalty", type=float, metavar="ALPHA", help="0 favors short texts (0.6)")
    add(
        "--early-stopping",
        action="store_true",
        default=None,
        help="stop at the N-th end, though a better text may come",
    )


def _add_strict(add: Add) -> None:
    add("--strict", action="store_true", help="refuse words that the model never saw")


def _add_common(add: Add) -> None:
    add("--device", default="auto", help="auto (GPU if there is one), cpu, cuda")
    add("--threads", type=_count, help="CPU threads; PyTorch's choice if not given")
    add("--quiet", action="store_true", help="no progress bar")
    add("--debug", action="store_true", help="show the traceback of an error")


def _add_train(first: Add, add: Add) -> None:
    first("--task", choices=tuple(TASKS), required=True, metavar="TASK", help="one of those above")
    first("--preset", choices=("tiny", "base", "big"), default="tiny", help="size of model (tiny)")
    first("--epochs", type=_count, help="passes over the data")
    first("--output", type=Path, help="the run's folder (runs/TASK-PRESET)")
    first("--restart", action="store_true", help="begin anew, over what is in the folder")
    add("--steps", type=_count, dest="max_steps", help="updates; with --epochs, the first to end")
    add("--patience", type=_count, help="stop after so many validations without a lower loss")
    add("--max-tokens", type=_count, help="tokens per batch, on each side, padding included")
    add("--accumulate", type=_count, help="batches per update (1)")
    add("--lr", type=float, dest="peak_lr", help="highest learning rate")
    add("--warmup", type=_count, help="steps until the highest learning rate")
    add("--cooldown", type=_count, help="steps at the end in which the rate falls on to 0")
    add("--dropout", type=float, help="the preset's or the task's if not given")
    add("--label-smoothing", type=float, help="share of probability spread over all tokens (0.1)")
    add("--r-drop", type=float, metavar="ALPHA", help="two passes that must agree; often 5")
    add("--vocab-size", type=_count, help="pieces of the byte-pair encoding (8000)")
    add("--distill", type=Path, metavar="FILE", help="learn this translation of each text, too")
    add("--bpe-dropout", type=float, metavar="P", help="leave out each merge with probability P")
    add("--seed", type=_seed, help="of everything that is drawn (0)")
    add(
        "--set",
        type=_setting,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="any other setting, see below; may be given more than once",
    )
    add("--compile", action="store_true", default=None, help="with torch.compile")
    add("--keep-last", type=_count, metavar="N", help="keep N checkpoints, to average them")
    add("--tensorboard", action="store_true", default=None, help="log for TensorBoard, too")
    add("--log-every", type=_count, metavar="STEPS", help="steps between two records (50)")
    add("--validate-every", type=_count, metavar="STEPS", help="each epoch if not given")
    add("--checkpoint-every", type=_count, metavar="STEPS", help="each epoch if not given")
    add(
        "--score-every",
        "--bleu-every",
        type=_count,
        metavar="EPOCHS",
        help="also translate and score the validation split every so many epochs",
    )
    _add_common(add)


def _count(text: str) -> int:
    return _least(1, text)


def _seed(text: str) -> int:
    seed = _least(0, text)
    if seed >= 2**63:
        raise argparse.ArgumentTypeError(f"must be below 2^63, got {seed}")
    return seed


def _least(least: int, text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a whole number, got {text!r}") from None
    if value < least:
        raise argparse.ArgumentTypeError(f"must be at least {least}, got {value}")
    return value


def _text(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("must not be empty")
    return text


def _setting(text: str) -> tuple[str, Any]:
    """NAME=VALUE: a number, True, False, None or a tuple as in Python, else a text."""
    name, _, value = text.partition("=")
    if name not in (known := MODEL_SETTINGS + TRAIN_SETTINGS):
        raise argparse.ArgumentTypeError(f"there is no setting {name!r}, but {' '.join(known)}")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


def _listed(names: list[str]) -> str:
    lines = [""]
    for name in names:
        if len(lines[-1]) + len(name) > 85:
            lines.append("")
        lines[-1] = f"{lines[-1]} {name}".strip()
    return "\n  ".join(lines)
