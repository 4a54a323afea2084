"""The commands, options and help texts of the command line."""

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


def _takes(kind: Callable[[str], Any], about: str, metavar: str | None = None, **more: Any) -> Any:
    """An option with a value."""
    return {"type": kind, "help": about, "metavar": metavar} | more


def _switch(about: str, **more: Any) -> Any:
    return {"action": "store_true", "help": about} | more


def _many(kind: Callable[[str], Any], about: str, metavar: str, **more: Any) -> Any:
    """An option that may be repeated."""
    return _takes(kind, about, metavar, action="append", **more)


RUN = {"--run": _many(_path, "a run; repeat it for an ensemble", "FOLDER", required=True)}
BEAM = {"--beam": _takes(_count, "beam search of size N", "N")}
SEARCH = {
    "--length-penalty": _takes(float, "0 favors short texts (0.6)", "ALPHA"),
    "--early-stopping": _switch("stop after N finished texts", default=None),
}
WHICH = "which model to use (best); average: the mean of those kept by --keep-last"
CHECKPOINT = {
    "--checkpoint": {"choices": ("best", "last", "average"), "default": "best", "help": WHICH}
}
COMMON = {
    "--device": _takes(str, "auto (GPU if there is one), cpu, cuda", default="auto"),
    "--threads": _takes(_count, "CPU threads (PyTorch's choice)"),
    "--quiet": _switch("no progress bar"),
    "--debug": _switch("show the traceback of an error"),
}

# The first five options of a command are listed as its most used.
TRAIN_OPTIONS = {
    "--task": _takes(str, "one of those above", "TASK", choices=tuple(TASKS), required=True),
    "--preset": _takes(str, "model size (tiny)", choices=("tiny", "base", "big"), default="tiny"),
    "--epochs": _takes(_count, "passes over the data"),
    "--output": _takes(_path, "the run's folder (runs/TASK-PRESET)"),
    "--restart": _switch("start over, replacing the run in the folder"),
    "--steps": _takes(_count, "updates, instead of the task's epochs", dest="max_steps"),
    "--max-tokens": _takes(_count, "tokens per batch, on each side, padding included"),
    "--accumulate": _takes(_count, "batches per update (1)"),
    "--lr": _takes(float, "peak learning rate", dest="peak_lr"),
    "--warmup": _takes(_count, "steps until the peak learning rate"),
    "--cooldown": _takes(_count, "steps at the end in which the rate falls to 0"),
    "--dropout": _takes(float, "instead of the preset's or the task's"),
    "--label-smoothing": _takes(float, "share of probability spread over all tokens (0.1)"),
    "--r-drop": _takes(float, "weight of R-Drop, often 5; slower", "ALPHA"),
    "--vocab-size": _takes(_count, "pieces of the byte-pair encoding (8000)"),
    "--distill": _takes(_path, "learn these translations as well, one per line", "FILE"),
    "--bpe-dropout": _takes(float, "skip each merge with probability P", "P"),
    "--seed": _takes(int, "random seed (0)"),
    "--set": _many(
        _setting, "any other setting, see below; may be repeated", "NAME=VALUE", default=[]
    ),
    "--compile": _switch("use torch.compile"),
    "--keep-last": _takes(_count, "keep the last N models, to average them", "N"),
    "--log-every": _takes(_count, "steps between log entries (50)", "STEPS"),
    "--validate-every": _takes(_count, "every epoch if left out", "STEPS"),
    "--checkpoint-every": _takes(_count, "every epoch if left out", "STEPS"),
    "--score-every": _takes(_count, "score the validation split every EPOCHS epochs", "EPOCHS"),
    **COMMON,
}
EVALUATE_OPTIONS = {
    **RUN,
    "--split": _takes(str, "val (default) or, for captions, test_2016_flickr", default="val"),
    **BEAM,
    "--limit": _takes(_count, "score only the first N texts", "N"),
    "--write": _takes(_path, "write the answers to FILE, one per line", "FILE"),
    **CHECKPOINT,
    **SEARCH,
    **COMMON,
}
TRANSLATE_OPTIONS = {
    **RUN,
    **BEAM,
    "--n-best": _takes(_count, "print the K best translations", "K"),
    "--split": _takes(str, "translate all texts of a split, such as train"),
    **CHECKPOINT,
    "--batch-size": _takes(_count, "texts per batch (64)", "N", default=64),
    **SEARCH,
    **COMMON,
}
GENERATE_OPTIONS = {
    "--run": RUN["--run"] | {"required": False},
    "--pretrained": _takes(_text, "smollm2, or a model's folder", "NAME"),
    "--temperature": _takes(float, "sample; below 1 favors probable tokens (1)"),
    "--top-p": _takes(float, "sample from the likeliest tokens that add up to P", "P"),
    "--max-tokens": _takes(_count, "tokens to add, at most (100)", default=100),
    "--samples": _takes(_count, "continuations per prompt (1)", "N", default=1),
    "--chat": _switch("answer the prompts with a model made for chats"),
    "--top-k": _takes(_count, "sample from the K most probable tokens", "K"),
    "--seed": _takes(int, "random seed (0)"),
    "--stop": _many(_text, "stop before TEXT; may be repeated", "TEXT", default=[]),
    **CHECKPOINT,
    **COMMON,
}


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


def _parser() -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    shared: dict[str, Any] = {"formatter_class": argparse.RawDescriptionHelpFormatter}
    name = "python -m transformer_lib"
    parser = argparse.ArgumentParser(prog=name, description=DESCRIPTION, **shared)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(
        word: str, usage: str, about: str, text: str, options: dict[str, Any], reads: str = ""
    ) -> argparse.ArgumentParser:
        usage = f"{name} {word} {usage}"
        made = commands.add_parser(
            word, usage=usage, help=about, description=text, add_help=False, **shared
        )
        first = made.add_argument_group("most used").add_argument
        more = made.add_argument_group("more options").add_argument
        if reads:
            first("text", nargs="*", metavar=reads, help="read from standard input if left out")
        more("-h", "--help", action="help", help="show this help and exit")
        for number, (option, given) in enumerate(options.items()):
            (first if number < 5 else more)(option, **given)
        return made

    about, run = "train a model, or resume training", "--run FOLDER [options]"
    train = command("train", "--task TASK [options]", about, TRAIN, TRAIN_OPTIONS)
    train.epilog = SETTINGS.format(_listed(MODEL_SETTINGS), _listed(TRAIN_SETTINGS))
    command("evaluate", run, "score a run", EVALUATE, EVALUATE_OPTIONS)
    usage, about = f"{run} [sentence ...]", "translate sentences"
    command("translate", usage, about, TRANSLATE, TRANSLATE_OPTIONS, "sentence")
    usage = "(--run FOLDER | --pretrained NAME) [options] [prompt ...]"
    about = "continue texts with a language model"
    command("generate", usage, about, GENERATE, GENERATE_OPTIONS, "prompt")
    return parser, commands.choices


def _did_you_mean(name: str, known: list[str]) -> str:
    close = get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _listed(names: list[str]) -> str:
    return fill(" ".join(names), width=96, initial_indent="  ", subsequent_indent="  ")
