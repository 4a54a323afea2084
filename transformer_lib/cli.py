"""What can be asked for on the command line, and how the help explains it."""

from __future__ import annotations

import argparse
import ast
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from transformer_lib.config import ModelConfig
from transformer_lib.recipes import TASKS
from transformer_lib.training import TrainConfig

__all__ = ["parse"]

# Settings that --set may name: all but those that the tokenizer decides.
_IDS = {"vocab_size", "pad_id", "bos_id", "eos_id"}
MODEL_SETTINGS = [field.name for field in fields(ModelConfig) if field.name not in _IDS]
TRAIN_SETTINGS = [field.name for field in fields(TrainConfig) if field.name not in _IDS]

DESCRIPTION = """\
Train a Transformer, measure it, use it.

  python -m transformer_lib train --task number-words      two minutes on two CPU cores
  python -m transformer_lib train --task multi30k          English to German captions
  python -m transformer_lib evaluate --run runs/multi30k-tiny --split test_2016_flickr
  python -m transformer_lib translate --run runs/multi30k-tiny "A man is riding a bike."

  python -m transformer_lib train --task captions          a language model of the captions
  python -m transformer_lib generate --run runs/captions-tiny --top-p 0.9 "A man is"

Training that was stopped, by Ctrl-C or by a power cut, goes on when the same command is
given again. COMMAND --help says more.

The exit code is 0 for success, 1 for a failure, 2 for a wrong command, 130 after Ctrl-C and
143 after SIGTERM."""

TRAIN = """\
Train a model and keep the run in a folder:

  config.json     what was run, with which command, versions and hardware
  tokenizer.json  the vocabulary, made from training text only
  log.jsonl       one record a line: loss, learning rate, tokens per second, validation
  checkpoint.pt   the latest checkpoint; the same command again goes on from it
  best.pt         the model of the lowest validation loss; the other commands use it

Settings that are not given are the task's own. More --epochs on a finished run train on.

Tasks: multi30k (English to German captions, downloaded once), number-words (forty-two to
zweiundvierzig) and copy are for a Transformer, which translates; captions (English ones,
downloaded once) and number-lines (forty-two = 42) for a decoder alone, which continues.

On two GPUs, or two processes of a CPU, each batch is shared:
  torchrun --nproc-per-node 2 -m transformer_lib train --task multi30k"""

SETTINGS = """\
--set reaches every setting of the model and of the training, for experiments:
  --set positions=rotary --set n_layers=2 --set tie_embeddings=False --set clip_norm=None

of the model (ModelConfig explains them):
  {}
of the training (TrainConfig explains them):
  {}"""

EVALUATE = """\
Score a run on a split: cased, detokenized sacreBLEU with its signature for multi30k,
perplexity for captions, exact match in percent for the others. The score of a whole split is
kept in the run's scores.json, with how it was decoded.

Runs from different seeds do better together: their probabilities are averaged at each step, and the
score is kept with the first.

  python -m transformer_lib evaluate --run runs/s0 --run runs/s1 --run runs/s2 --beam 5"""

TRANSLATE = """\
Translate the sentences given, or the lines of the standard input:

  python -m transformer_lib translate --run runs/number-words-tiny forty-two
  python -m transformer_lib translate --run runs/multi30k-tiny < captions.txt

With --n-best each line is the sentence's number, the score (log-probability over length
penalty) and a translation, with tabs between them."""

GENERATE = """\
Continue the prompts given, or the lines of the standard input, with a language model:

  python -m transformer_lib generate --run runs/number-lines-tiny "forty-two ="
  python -m transformer_lib generate --run runs/captions-tiny --temperature 0.8 --samples 3 "A man"

The most probable token is taken each time; with --temperature, --top-k or --top-p one is drawn.
An empty prompt leaves the beginning to the model, too."""


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The arguments, checked; wrong ones and ``--help`` raise SystemExit."""
    parser = _parser()
    args = parser.parse_args(argv)
    if args.command == "generate":
        args.draws = any(x is not None for x in (args.temperature, args.top_k, args.top_p))
        if not args.draws and (args.samples > 1 or args.seed is not None):
            parser.error("--samples and --seed need --temperature, --top-k or --top-p")
    of_beam = [vars(args).get(name) for name in ("length_penalty", "n_best", "early_stopping")]
    if vars(args).get("beam") is None and any(given is not None for given in of_beam):
        parser.error("--length-penalty, --early-stopping and --n-best need --beam")
    return args


def _parser() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--device", default="auto", help="auto (GPU if there is one), cpu, cuda")
    common.add_argument("--threads", type=_count, help="CPU threads; PyTorch's choice if not given")
    common.add_argument("--quiet", action="store_true", help="no progress bar")
    common.add_argument("--debug", action="store_true", help="show the traceback of an error")

    trained = argparse.ArgumentParser(add_help=False, parents=[common])
    trained.add_argument(
        "--run",
        type=Path,
        required=True,
        action="append",
        help="folder of a trained run; given again, the runs decide together",
    )
    trained.add_argument(
        "--checkpoint",
        choices=("best", "last", "average"),
        default="best",
        help="which model (best); average: the mean of those that --keep-last kept",
    )

    searched = argparse.ArgumentParser(add_help=False)
    searched.add_argument("--beam", type=_count, metavar="N", help="search with a beam of N texts")
    searched.add_argument(
        "--length-penalty", type=float, metavar="ALPHA", help="0 favors short texts (0.6)"
    )
    searched.add_argument(
        "--early-stopping",
        action="store_true",
        default=None,
        help="stop at the N-th end, though a better text may come",
    )

    parser = argparse.ArgumentParser(
        prog="python -m transformer_lib",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, summary: str, description: str, *parents: argparse.ArgumentParser):
        return commands.add_parser(
            name,
            help=summary,
            description=description,
            parents=parents,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    _add_train(command("train", "train a model, or go on training", TRAIN, common))

    add = command("evaluate", "score a run", EVALUATE, trained, searched).add_argument
    add("--split", default="val", help="val (default), or test_2016_flickr of the captions")
    add("--limit", type=_count, help="only the first texts")
    add("--write", type=Path, metavar="FILE", help="write what the model said, one text a line")

    add = command("translate", "translate sentences", TRANSLATE, trained, searched).add_argument
    add("text", nargs="*", metavar="sentence", help="if not given, the standard input")
    add("--n-best", type=_count, metavar="K", help="show the K best of the beam")

    add = command(
        "generate", "continue texts with a language model", GENERATE, trained
    ).add_argument
    add("text", nargs="*", metavar="prompt", help="if not given, the standard input")
    add("--temperature", type=float, help="below 1 the probable becomes more so (1)")
    add("--top-k", type=_count, metavar="K", help="draw from the K most probable tokens")
    add("--top-p", type=float, metavar="P", help="draw from the fewest that have probability P")
    add("--samples", type=_count, default=1, metavar="N", help="continuations of each prompt (1)")
    add("--seed", type=_seed, help="of what is drawn (0)")
    add("--max-tokens", type=_count, default=100, help="most tokens to add (100)")
    return parser


def _add_train(parser: argparse.ArgumentParser) -> None:
    parser.epilog = SETTINGS.format(_listed(MODEL_SETTINGS), _listed(TRAIN_SETTINGS))
    add = parser.add_argument
    add("--task", choices=tuple(TASKS), required=True)
    add("--preset", choices=("tiny", "base", "big"), default="tiny", help="size of model (tiny)")
    add("--output", type=Path, help="the run's folder (runs/TASK-PRESET)")
    add("--restart", action="store_true", help="begin anew, over what is in the folder")
    add("--epochs", type=_count, help="passes over the data")
    add("--steps", type=_count, dest="max_steps", help="updates; with --epochs, the first to end")
    add("--patience", type=_count, help="stop after so many validations without a lower loss")
    add("--max-tokens", type=_count, help="tokens per batch, on each side, padding included")
    add("--accumulate", type=_count, help="batches per update (1)")
    add("--lr", type=float, dest="peak_lr", help="highest learning rate")
    add("--warmup", type=_count, help="steps until the highest learning rate")
    add("--cooldown", type=_count, help="steps at the end in which the rate falls on to 0")
    add("--dropout", type=float, help="the preset's or the task's if not given")
    add("--label-smoothing", type=float, help="share of probability spread over all tokens (0.1)")
    add("--vocab-size", type=_count, help="pieces of the byte-pair encoding (8000)")
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


def _count(text: str) -> int:
    return _least(1, text)


def _seed(text: str) -> int:
    return _least(0, text)


def _least(least: int, text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a whole number, got {text!r}") from None
    if value < least:
        raise argparse.ArgumentTypeError(f"must be at least {least}, got {value}")
    return value


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
