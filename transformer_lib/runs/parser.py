"""The commands, options and help texts of the command line."""

from __future__ import annotations

import argparse
import ast
from collections.abc import Callable, Sequence
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path
from textwrap import fill
from typing import Any

from transformer_lib.config import ModelConfig
from transformer_lib.runs.tasks import TASKS
from transformer_lib.training import TrainConfig

__all__ = ["parse"]

DESCRIPTION = """\
Train a Transformer, measure it, use it.

  python -m transformer_lib train --task number-words        two minutes on two CPU cores
  python -m transformer_lib evaluate --run runs/number-words-tiny
  python -m transformer_lib translate --run runs/number-words-tiny forty-two
  python -m transformer_lib generate --pretrained smollm2 --chat "What is the capital of France?"

To resume training after Ctrl-C or a power cut, run the same command again.
COMMAND --help says more.

Exit codes: 0 success, 1 failure, 2 wrong arguments, 130 Ctrl-C, 143 SIGTERM."""

TRAIN = """\
Train a model and keep the run in a folder:

  config.json     settings, commands, versions and hardware
  tokenizer.json  the vocabulary, made from training text only
  words.txt       the words that the model read in training
  log.jsonl       loss, learning rate, tokens per second, validation; one entry per line
  checkpoint.pt   the latest state, from which the same command resumes
  best.pt         the model with the lowest validation loss, which the other commands use

A Transformer learns to translate in these tasks:

  multi30k            English to German captions, downloaded once
  multi30k-lowercase  the same, lowercased and tokenized, as papers score it
  number-words        forty-two to zweiundvierzig
  copy                letters to the same letters

and a decoder to continue texts in these:

  captions            English captions, downloaded once
  number-lines        forty-two = 42
  shakespeare         plays, by character

Settings that you leave out are the task's. To train a finished run further, raise --epochs. To
learn the translations of an ensemble as well:

  python -m transformer_lib translate --run runs/s0 --run runs/s1 --split train --beam 5 > said.txt
  python -m transformer_lib train --task multi30k --distill said.txt --output runs/student

On two GPUs, or in two processes on a CPU, each update takes a batch from both:

  torchrun --nproc-per-node 2 -m transformer_lib train --task multi30k"""

SETTINGS = """\
--set changes any setting of the model or of the training:

  --set positions=rotary --set n_layers=2 --set tie_embeddings=False --set clip_norm=None

of the model (see ModelConfig):

{}

of the training (see TrainConfig):

{}"""

EVALUATE = """\
Score a run on a split: sacreBLEU, with its signature, and chrF for multi30k (cased, detokenized
text) and multi30k-lowercase (lowercased tokens); perplexity for captions; nats and bits per
character for shakespeare; exact match in percent for the others. The score of a whole split is
saved in the run's scores.json.

Several runs make an ensemble, which averages their probabilities at each step:

  python -m transformer_lib evaluate --run runs/s0 --run runs/s1 --run runs/s2 --beam 5"""

TRANSLATE = """\
Translate the given sentences, or the lines of standard input:

  python -m transformer_lib translate --run runs/number-words-tiny forty-two
  python -m transformer_lib translate --run runs/multi30k-tiny < captions.txt

Words never seen in training are listed on standard error. With --n-best, each line holds the
sentence's number, the score (log-probability divided by the length penalty) and a translation,
separated by tabs."""

GENERATE = """\
Continue the given prompts, or the lines of standard input, with a language model:

  python -m transformer_lib generate --run runs/number-lines-tiny "forty-two ="
  python -m transformer_lib generate --run runs/captions-tiny --temperature 0.8 --samples 3 "A man"
  python -m transformer_lib generate --run runs/shakespeare-tiny --temperature 0.8 "ROMEO:"

or with a published one: smollm2, which is downloaded once, or the folder of a GPT-2, Llama, Mistral
or Qwen2 from the Hugging Face hub. This needs transformers, gguf and accelerate. With --chat, each
prompt is a message, and only the answer is printed:

  python -m transformer_lib generate --pretrained smollm2 --chat "What is the capital of France?"

With --temperature, --top-k or --top-p, tokens are sampled; otherwise, the most probable one is
taken each time. Words never seen in training are listed on standard error."""


# What --set can change: all but what the tokenizer decides.
_IDS = {"vocab_size", "pad_id", "bos_id", "eos_id"}
MODEL_SETTINGS = [field.name for field in fields(ModelConfig) if field.name not in _IDS]
TRAIN_SETTINGS = [field.name for field in fields(TrainConfig) if field.name not in _IDS]


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Parse and check the arguments; wrong ones and ``--help`` raise SystemExit."""
    parser, commands = _parser()
    args, rest = parser.parse_known_args(argv)
    command = commands[args.command]
    error = command.error
    # The rest can also hold texts after an option, and the value of an unknown option.
    if unknown := [word.partition("=")[0] for word in rest if word.startswith("-")]:
        options = [name for action in command._actions for name in action.option_strings]
        error(f"{args.command} has no option {unknown[0]}{_did_you_mean(unknown[0], options)}")
    if "text" in args:
        args.text += rest
    elif rest:
        error(f"unrecognized arguments: {' '.join(rest)}")
    if args.command == "generate":
        if (args.run is None) == (args.pretrained is None):
            error("give either --run or --pretrained")
        if args.chat and args.run:
            error("--chat needs --pretrained")
        if args.pretrained and args.checkpoint != "best":
            error("--checkpoint needs --run")
        args.draws = any(x is not None for x in (args.temperature, args.top_k, args.top_p))
        if not args.draws and (args.samples > 1 or args.seed is not None):
            error("--samples and --seed need --temperature, --top-k or --top-p")
    if vars(args).get("split") and vars(args).get("text"):
        error("give either sentences or --split")
    of_beam = [vars(args).get(name) for name in ("length_penalty", "n_best", "early_stopping")]
    if vars(args).get("beam") is None and any(given is not None for given in of_beam):
        error("--length-penalty, --early-stopping and --n-best need --beam")
    if of_beam[0] is None:
        args.length_penalty = 0.6
    return args


Add = Callable[..., Any]


def _parser() -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    shared: dict[str, Any] = {"formatter_class": argparse.RawDescriptionHelpFormatter}
    name = "python -m transformer_lib"
    parser = argparse.ArgumentParser(prog=name, description=DESCRIPTION, **shared)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(word: str, summary: str, usage: str, **texts: Any) -> tuple[Add, Add]:
        """Make a command; return what adds an option to the first five, or to the others."""
        texts |= {"help": summary, "usage": f"{name} {word} {usage}", "add_help": False}
        made = commands.add_parser(word, **texts, **shared)
        first = made.add_argument_group("most used").add_argument
        more = made.add_argument_group("more options").add_argument
        more("-h", "--help", action="help", help="show this help and exit")
        return first, more

    settings = SETTINGS.format(_listed(MODEL_SETTINGS), _listed(TRAIN_SETTINGS))
    usage = "--task TASK [options]"
    summary = "train a model, or resume training"
    _add_train(*command("train", summary, usage, description=TRAIN, epilog=settings))

    run = "--run FOLDER [options]"
    first, more = command("evaluate", "score a run", run, description=EVALUATE)
    _add_run(first)
    first("--split", default="val", help="val (default) or, for captions, test_2016_flickr")
    _add_beam(first)
    first("--limit", type=_count, metavar="N", help="score only the first N texts")
    first("--write", type=_path, metavar="FILE", help="write the answers to FILE, one per line")
    _add_checkpoint(more)
    _add_search(more)
    _add_common(more)

    usage = f"{run} [sentence ...]"
    first, more = command("translate", "translate sentences", usage, description=TRANSLATE)
    first("text", nargs="*", metavar="sentence", help="read from standard input if left out")
    _add_run(first)
    _add_beam(first)
    first("--n-best", type=_count, metavar="K", help="print the K best translations")
    first("--split", help="translate all texts of a split, such as train")
    _add_checkpoint(first)
    more("--batch-size", type=_count, default=64, metavar="N", help="texts per batch (64)")
    _add_search(more)
    _add_common(more)

    usage = "(--run FOLDER | --pretrained NAME) [options] [prompt ...]"
    summary = "continue texts with a language model"
    first, more = command("generate", summary, usage, description=GENERATE)
    first("text", nargs="*", metavar="prompt", help="read from standard input if left out")
    _add_run(first, required=False)
    first("--pretrained", type=_text, metavar="NAME", help="smollm2, or a model's folder")
    first("--temperature", type=float, help="sample; below 1 favors probable tokens (1)")
    likeliest = "sample from the likeliest tokens that add up to P"
    first("--top-p", type=float, metavar="P", help=likeliest)
    first("--max-tokens", type=_count, default=100, help="tokens to add, at most (100)")
    more("--samples", type=_count, default=1, metavar="N", help="continuations per prompt (1)")
    more("--chat", action="store_true", help="answer the prompts with a model made for chats")
    more("--top-k", type=_count, metavar="K", help="sample from the K most probable tokens")
    more("--seed", type=int, help="random seed (0)")
    many: dict[str, Any] = {"action": "append", "default": []}
    more("--stop", type=_text, metavar="TEXT", help="stop before TEXT; may be repeated", **many)
    _add_checkpoint(more)
    _add_common(more)
    return parser, commands.choices


def _add_run(add: Add, required: bool = True) -> None:
    many: dict[str, Any] = {"required": required, "action": "append"}
    add("--run", type=_path, metavar="FOLDER", help="a run; repeat it for an ensemble", **many)


def _add_checkpoint(add: Add) -> None:
    which = "which model to use (best); average: the mean of those kept by --keep-last"
    add("--checkpoint", choices=("best", "last", "average"), default="best", help=which)


def _add_beam(add: Add) -> None:
    add("--beam", type=_count, metavar="N", help="beam search of size N")


def _add_search(add: Add) -> None:
    add("--length-penalty", type=float, metavar="ALPHA", help="0 favors short texts (0.6)")
    _add_flag(add, "--early-stopping", "stop after N finished texts")


def _add_common(add: Add) -> None:
    add("--device", default="auto", help="auto (GPU if there is one), cpu, cuda")
    add("--threads", type=_count, help="CPU threads (PyTorch's choice)")
    add("--quiet", action="store_true", help="no progress bar")
    add("--debug", action="store_true", help="show the traceback of an error")


def _add_flag(add: Add, name: str, text: str) -> None:
    add(name, action="store_true", default=None, help=text)


def _add_train(first: Add, add: Add) -> None:
    first("--task", choices=tuple(TASKS), required=True, metavar="TASK", help="one of those above")
    first("--preset", choices=("tiny", "base", "big"), default="tiny", help="model size (tiny)")
    first("--epochs", type=_count, help="passes over the data")
    first("--output", type=_path, help="the run's folder (runs/TASK-PRESET)")
    first("--restart", action="store_true", help="start over, replacing the run in the folder")
    add("--steps", type=_count, dest="max_steps", help="updates, instead of the task's epochs")
    add("--max-tokens", type=_count, help="tokens per batch, on each side, padding included")
    add("--accumulate", type=_count, help="batches per update (1)")
    add("--lr", type=float, dest="peak_lr", help="peak learning rate")
    add("--warmup", type=_count, help="steps until the peak learning rate")
    add("--cooldown", type=_count, help="steps at the end in which the rate falls to 0")
    add("--dropout", type=float, help="instead of the preset's or the task's")
    add("--label-smoothing", type=float, help="share of probability spread over all tokens (0.1)")
    add("--r-drop", type=float, metavar="ALPHA", help="weight of R-Drop, often 5; slower")
    add("--vocab-size", type=_count, help="pieces of the byte-pair encoding (8000)")
    translations = "learn these translations as well, one per line"
    add("--distill", type=_path, metavar="FILE", help=translations)
    add("--bpe-dropout", type=float, metavar="P", help="skip each merge with probability P")
    add("--seed", type=int, help="random seed (0)")
    many: dict[str, Any] = {"action": "append", "default": [], "metavar": "NAME=VALUE"}
    add("--set", type=_setting, help="any other setting, see below; may be repeated", **many)
    _add_flag(add, "--compile", "use torch.compile")
    add("--keep-last", type=_count, metavar="N", help="keep the last N models, to average them")
    add("--log-every", type=_count, metavar="STEPS", help="steps between log entries (50)")
    add("--validate-every", type=_count, metavar="STEPS", help="every epoch if left out")
    add("--checkpoint-every", type=_count, metavar="STEPS", help="every epoch if left out")
    scored = "score the validation split every EPOCHS epochs"
    add("--score-every", type=_count, metavar="EPOCHS", help=scored)
    _add_common(add)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, got {text!r}")
    return int(text)


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
    return fill(" ".join(names), width=96, initial_indent="  ", subsequent_indent="  ")
