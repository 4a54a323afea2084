"""What can be asked for on the command line."""

from __future__ import annotations

import argparse
import ast
from collections.abc import Callable, Sequence
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from transformer_lib.config import ModelConfig
from transformer_lib.runs.tasks import TASKS
from transformer_lib.training import TrainConfig

__all__ = ["parse"]

DESCRIPTION = """\
Train a Transformer, measure it, use it.

  python -m transformer_lib train --task number-words      two minutes on two CPU cores
  python -m transformer_lib train --task multi30k          English to German captions
  python -m transformer_lib evaluate --run runs/multi30k-tiny --split test_2016_flickr
  python -m transformer_lib translate --run runs/multi30k-tiny "A man is riding a bike."

  python -m transformer_lib train --task captions          a language model of the captions
  python -m transformer_lib generate --run runs/captions-tiny --top-p 0.9 "A man is"

If training is interrupted, by Ctrl-C or a power cut, run the same command again to resume it.
COMMAND --help says more.

The exit code is 0 for success, 1 for a failure, 2 for a mistake in the command, 130 after
Ctrl-C and 143 after SIGTERM."""

TRAIN = """\
Train a model and keep the run in a folder:

  config.json     what was run, with which command, versions and hardware
  tokenizer.json  the vocabulary, made from training text only
  words.txt       the words that the model read in training
  log.jsonl       one entry per line: loss, learning rate, tokens per second, validation
  checkpoint.pt   the latest checkpoint; the same command resumes from it
  best.pt         the model with the lowest validation loss; the other commands use it

Settings that you leave out are the task's own. To train a finished run further, raise --epochs.

A model can also learn the translations of an ensemble, along with the references:

  python -m transformer_lib translate --run runs/s0 --run runs/s1 --split train --beam 5 > said.txt
  python -m transformer_lib train --task multi30k --distill said.txt --output runs/student

In four tasks, a Transformer learns to translate: multi30k (English to German captions, downloaded
once), multi30k-lowercase (the same, lowercased and tokenized, as papers score it), number-words
(forty-two to zweiundvierzig) and copy. In three, a decoder learns to continue texts: captions
(in English, downloaded once), number-lines (forty-two = 42) and shakespeare, by character.

On two GPUs, or in two processes on a CPU, each update takes a batch from both:
  torchrun --nproc-per-node 2 -m transformer_lib train --task multi30k"""

SETTINGS = """\
--set changes any setting of the model or of the training:
  --set positions=rotary --set n_layers=2 --set tie_embeddings=False --set clip_norm=None

of the model (ModelConfig explains them):
  {}
of the training (TrainConfig explains them):
  {}"""

EVALUATE = """\
Score a run on a split: sacreBLEU, with its signature, and chrF for multi30k (cased, detokenized
text) and multi30k-lowercase (lowercased tokens); perplexity for captions; nats and bits per
character, and perplexity, for shakespeare; exact match in percent for the others. The score of a
whole split is saved in the run's scores.json, along with the way it was decoded.

With --against, another run is scored on the same split in the same way, and a paired bootstrap
tells how likely it is that chance alone makes such a difference in BLEU:

  python -m transformer_lib evaluate --run runs/new --against runs/old --beam 5

Runs from different seeds do better together: their probabilities are averaged at each step. The
score is saved with the first run.

  python -m transformer_lib evaluate --run runs/s0 --run runs/s1 --run runs/s2 --beam 5"""

TRANSLATE = """\
Translate the given sentences, or the lines of standard input:

  python -m transformer_lib translate --run runs/number-words-tiny forty-two
  python -m transformer_lib translate --run runs/multi30k-tiny < captions.txt

Words never seen in training are listed on standard error; --strict refuses them. With --n-best,
each line holds the sentence's number, the score (log-probability divided by the length penalty)
and a translation, separated by tabs."""

GENERATE = """\
Continue the given prompts, or the lines of standard input, with a language model:

  python -m transformer_lib generate --run runs/number-lines-tiny "forty-two ="
  python -m transformer_lib generate --run runs/captions-tiny --temperature 0.8 --samples 3 "A man"
  python -m transformer_lib generate --run runs/shakespeare-tiny --temperature 0.8 "ROMEO:"

Text appears as it is generated. The most probable token is taken each time; with --temperature,
--top-k or --top-p, a token is sampled. After an empty prompt, the model writes the beginning, too.
Words never seen in training are listed on standard error; --strict refuses them."""


# Settings for --set: all but those that the tokenizer decides.
_IDS = {"vocab_size", "pad_id", "bos_id", "eos_id"}
MODEL_SETTINGS = [field.name for field in fields(ModelConfig) if field.name not in _IDS]
TRAIN_SETTINGS = [field.name for field in fields(TrainConfig) if field.name not in _IDS]


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Parse and check the arguments; wrong ones and ``--help`` raise SystemExit."""
    parser, commands = _parser()
    args, rest = parser.parse_known_args(argv)
    command = commands[args.command]
    error = command.error
    # The rest may also hold texts that come after an option, and the value of an unknown option.
    if unknown := [word.partition("=")[0] for word in rest if word.startswith("-")]:
        options = [name for action in command._actions for name in action.option_strings]
        error(f"{args.command} has no option {unknown[0]}{_did_you_mean(unknown[0], options)}")
    if "text" in args:
        args.text += rest
    elif rest:
        error(f"unrecognized arguments: {' '.join(rest)}")
    if args.command == "generate":
        args.draws = any(x is not None for x in (args.temperature, args.top_k, args.top_p))
        if not args.draws and (args.samples > 1 or args.seed is not None):
            error("--samples and --seed need --temperature, --top-k or --top-p")
    if vars(args).get("split") and vars(args).get("text"):
        error("give either sentences or --split")
    of_beam = [vars(args).get(name) for name in ("length_penalty", "n_best", "early_stopping")]
    if vars(args).get("beam") is None and any(given is not None for given in of_beam):
        error("--length-penalty, --early-stopping and --n-best need --beam")
    return args


Add = Callable[..., Any]


def _parser() -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    parser = argparse.ArgumentParser(
        prog="python -m transformer_lib",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, summary: str, description: str, usage: str) -> tuple[Add, Add]:
        """Make a command; return what adds an option to the first five, or to the rest."""
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
        rest("-h", "--help", action="help", help="show this help and exit")
        return first, rest

    _add_train(
        *command("train", "train a model, or resume training", TRAIN, "--task TASK [options]")
    )

    run = "--run FOLDER [options]"
    first, rest = command("evaluate", "score a run", EVALUATE, run)
    _add_run(first)
    first("--split", default="val", help="val (default) or, for captions, test_2016_flickr")
    _add_beam(first)
    first("--limit", type=_count, metavar="N", help="score only the first N texts")
    first(
        "--write", type=_path, metavar="FILE", help="write the answers to this file, one per line"
    )
    rest("--against", type=_path, action="append", metavar="FOLDER", help="compare with this run")
    _add_checkpoint(rest)
    _add_search(rest)
    _add_common(rest)

    first, rest = command("translate", "translate sentences", TRANSLATE, f"{run} [sentence ...]")
    first("text", nargs="*", metavar="sentence", help="read from standard input if left out")
    _add_run(first)
    _add_beam(first)
    first("--n-best", type=_count, metavar="K", help="print the K best translations")
    _add_strict(first)
    _add_checkpoint(first)
    rest("--split", help="translate all texts of a split, such as train")
    rest("--batch-size", type=_count, default=64, metavar="N", help="texts per batch (64)")
    _add_search(rest)
    _add_common(rest)

    generate = "continue texts with a language model"
    first, rest = command("generate", generate, GENERATE, f"{run} [prompt ...]")
    first("text", nargs="*", metavar="prompt", help="read from standard input if left out")
    _add_run(first)
    first("--temperature", type=_temperature, help="sample; below 1 favors probable tokens (1)")
    first(
        "--top-p",
        type=_number,
        metavar="P",
        help="sample from the likeliest tokens that add up to P",
    )
    first("--samples", type=_count, default=1, metavar="N", help="continuations per prompt (1)")
    first("--max-tokens", type=_count, default=100, help="tokens to add, at most (100)")
    rest("--top-k", type=_count, metavar="K", help="sample from the K most probable tokens")
    rest("--seed", type=_seed, help="random seed (0)")
    rest(
        "--stop",
        type=_text,
        action="append",
        default=[],
        metavar="TEXT",
        help="stop before this text; may be repeated",
    )
    _add_strict(rest)
    _add_checkpoint(rest)
    _add_common(rest)
    return parser, commands.choices


def _add_run(add: Add) -> None:
    add(
        "--run",
        type=_path,
        required=True,
        action="append",
        metavar="FOLDER",
        help="folder of a trained run; repeat it for an ensemble",
    )


def _add_checkpoint(add: Add) -> None:
    add(
        "--checkpoint",
        choices=("best", "last", "average"),
        default="best",
        help="which model to use (best); average: the mean of those kept by --keep-last",
    )


def _add_beam(add: Add) -> None:
    add("--beam", type=_count, metavar="N", help="beam search of size N")


def _add_search(add: Add) -> None:
    add("--length-penalty", type=_number, metavar="ALPHA", help="0 favors short texts (0.6)")
    add(
        "--early-stopping",
        action="store_true",
        default=None,
        help="stop after N finished texts, even if a better one may follow",
    )


def _add_strict(add: Add) -> None:
    add("--strict", action="store_true", help="refuse words never seen in training")


def _add_common(add: Add) -> None:
    add("--device", default="auto", help="auto (GPU if there is one), cpu, cuda")
    add("--threads", type=_count, help="CPU threads (PyTorch's choice)")
    add("--quiet", action="store_true", help="no progress bar")
    add("--debug", action="store_true", help="show the traceback of an error")


def _add_train(first: Add, add: Add) -> None:
    first("--task", choices=tuple(TASKS), required=True, metavar="TASK", help="one of those above")
    first("--preset", choices=("tiny", "base", "big"), default="tiny", help="model size (tiny)")
    first("--epochs", type=_count, help="passes over the data")
    first("--output", type=_path, help="the run's folder (runs/TASK-PRESET)")
    first("--restart", action="store_true", help="start over, replacing the run in the folder")
    add(
        "--steps",
        type=_count,
        dest="max_steps",
        help="updates; with --epochs, training ends at whichever comes first",
    )
    add("--patience", type=_count, help="stop after this many validations without a lower loss")
    add("--max-tokens", type=_count, help="tokens per batch, on each side, padding included")
    add("--accumulate", type=_count, help="batches per update (1)")
    add("--lr", type=_number, dest="peak_lr", help="peak learning rate")
    add("--warmup", type=_count, help="steps until the peak learning rate")
    add("--cooldown", type=_count, help="steps at the end in which the rate falls to 0")
    add("--dropout", type=_number, help="overrides the preset's and the task's")
    add("--label-smoothing", type=_number, help="share of probability spread over all tokens (0.1)")
    add(
        "--r-drop",
        type=_number,
        metavar="ALPHA",
        help="weight of R-Drop, often 5; slower",
    )
    add("--vocab-size", type=_count, help="pieces of the byte-pair encoding (8000)")
    add(
        "--distill",
        type=_path,
        metavar="FILE",
        help="learn these translations as well, one per line",
    )
    add("--bpe-dropout", type=_number, metavar="P", help="skip each merge with probability P")
    add("--seed", type=_seed, help="random seed (0)")
    add(
        "--set",
        type=_setting,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="any other setting, see below; may be repeated",
    )
    add("--compile", action="store_true", default=None, help="use torch.compile")
    add("--keep-last", type=_count, metavar="N", help="keep the last N models, to average them")
    add("--tensorboard", action="store_true", default=None, help="also log for TensorBoard")
    add("--log-every", type=_count, metavar="STEPS", help="steps between log entries (50)")
    add("--validate-every", type=_count, metavar="STEPS", help="every epoch if left out")
    add("--checkpoint-every", type=_count, metavar="STEPS", help="every epoch if left out")
    add(
        "--score-every",
        "--bleu-every",
        type=_count,
        metavar="EPOCHS",
        help="also score the validation split, every EPOCHS epochs",
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


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number, got {text!r}") from None


def _temperature(text: str) -> float:
    value = _number(text)
    if not value > 0:
        most_probable = "leave it out to take the most probable token each time"
        raise argparse.ArgumentTypeError(f"must be above 0, got {text}; {most_probable}")
    return value


def _text(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("must not be empty")
    return text


def _path(text: str) -> Path:
    return Path(_text(text))  # Path("") would be the current folder


def _setting(text: str) -> tuple[str, Any]:
    """NAME=VALUE: a number, True, False, None or a tuple as in Python, or else a string."""
    name, equals, value = text.partition("=")
    known = MODEL_SETTINGS + TRAIN_SETTINGS
    if name in _IDS:
        raise argparse.ArgumentTypeError(f"{name} can't be set: the tokenizer decides it")
    if name not in known:
        hint = _did_you_mean(name, known) or "; train --help lists them all"
        raise argparse.ArgumentTypeError(f"there is no setting {name!r}{hint}")
    if not equals:
        raise argparse.ArgumentTypeError(f"must be NAME=VALUE, got {text!r}")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


def _did_you_mean(name: str, known: list[str]) -> str:
    close = get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _listed(names: list[str]) -> str:
    lines = [""]
    for name in names:
        if len(lines[-1]) + len(name) > 85:
            lines.append("")
        lines[-1] = f"{lines[-1]} {name}".strip()
    return "\n  ".join(lines)
