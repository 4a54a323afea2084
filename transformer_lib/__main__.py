"""``python -m transformer_lib``: train a translator, measure it, use it."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from transformer_lib.recipes import TASKS, Score
from transformer_lib.results import record_score
from transformer_lib.runs import CHECKPOINTS, Run, train

DESCRIPTION = """\
Train a Transformer, measure it, use it.

  python -m transformer_lib train --task number-words      two minutes on two CPU cores
  python -m transformer_lib train --task multi30k          English to German captions
  python -m transformer_lib evaluate --run runs/multi30k-tiny --split test_2016_flickr
  python -m transformer_lib translate --run runs/multi30k-tiny "A man is riding a bike."

Training that was stopped, by Ctrl-C or by a power cut, goes on when the same command is
given again. COMMAND --help says more."""

TRAIN = """\
Train a model and keep the run in a folder:

  config.json     what was run, with which command, versions and hardware
  tokenizer.json  the vocabulary, made from training text only
  log.jsonl       one record a line: loss, learning rate, tokens per second, validation
  checkpoint.pt   the latest checkpoint; the same command again goes on from it
  best.pt         the model of the lowest validation loss; evaluate and translate use it

Settings that are not given are the task's own. More --epochs on a finished run train on."""

EVALUATE = """\
Translate a split greedily and compare with the references: cased, detokenized sacreBLEU with
its signature for multi30k, exact match in percent for the others. The score of a whole split
is kept in the run's scores.json."""

TRANSLATE = """\
Translate the sentences given, or the lines of the standard input:

  python -m transformer_lib translate --run runs/number-words-tiny forty-two
  python -m transformer_lib translate --run runs/multi30k-tiny < captions.txt"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code: 0, 1 failure, 2 wrong usage, 130 interrupted."""
    argv = list(sys.argv[1:] if argv is None else argv)
    args = _parser().parse_args(argv)
    try:
        if args.threads is not None:
            torch.set_num_threads(args.threads)
        args.run_command(args, argv)
    except KeyboardInterrupt:
        goes_on = "; the same command goes on from here" if args.command == "train" else ""
        print(f"\nInterrupted{goes_on}.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # whoever read our output has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if args.debug:
            raise
        print(f"error: {str(error) or type(error).__name__}", file=sys.stderr)
        return 1
    return 0


def _train(args: argparse.Namespace, argv: list[str]) -> None:
    folder = args.output or Path("runs") / f"{args.task}-{args.preset}"
    history = train(
        folder,
        task=args.task,
        preset=args.preset,
        model={"dropout": args.dropout},
        training={
            "epochs": args.epochs,
            "max_steps": args.steps,
            "warmup": args.warmup,
            "peak_lr": args.lr,
            "label_smoothing": args.label_smoothing,
            "accumulate": args.accumulate,
            "seed": args.seed,
            "log_every": args.log_every,
            "checkpoint_every": args.checkpoint_every,
            "validate_every": args.validate_every,
        },
        vocab_size=args.vocab_size,
        max_tokens=args.max_tokens,
        device=args.device,
        score_every=args.score_every,
        restart=args.restart,
        command=shlex.join(["python", "-m", "transformer_lib", *argv]),
        progress=not args.quiet,
        say=lambda text: print(text, flush=True),
    )
    steps, losses = history.column("val_loss")
    print(f"{steps[-1]:,} steps, validation loss {losses[-1]:.3f}, lowest {min(losses):.3f}")
    score, texts = Run.load(folder, device=args.device).score("val")
    _print_score("val", score, len(texts))


def _evaluate(args: argparse.Namespace, argv: list[str]) -> None:
    run = Run.load(args.run, args.checkpoint, args.device)
    score, texts = run.score(args.split, args.limit)
    if args.write is not None:
        args.write.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    if args.limit is None:  # a part of a split compares with nothing: not worth a record
        record = {"metric": score.name, "value": score.value, "signature": score.signature}
        record |= {"sentences": len(texts), "checkpoint": args.checkpoint, "decoding": "greedy"}
        record_score(args.run, args.split, record)
    _print_score(args.split, score, len(texts))


def _print_score(split: str, score: Score, count: int) -> None:
    print(f"{split}, {count:,} sentences: {score.name} {score.value:.2f} ({score.signature})")


def _translate(args: argparse.Namespace, argv: list[str]) -> None:
    run = Run.load(args.run, args.checkpoint, args.device)
    if args.sentence:
        print("\n".join(run.translate(args.sentence)))
        return
    lines: list[str] = []
    at_once = 1 if sys.stdin.isatty() else 256
    for line in sys.stdin:
        lines.append(line.rstrip("\n"))
        if len(lines) == at_once:
            print("\n".join(run.translate(lines)), flush=True)
            lines = []
    if lines:
        print("\n".join(run.translate(lines)))


def _parser() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--device", default="auto", help="auto (GPU if there is one), cpu, cuda")
    common.add_argument("--threads", type=_count, help="CPU threads; PyTorch's choice if not given")
    common.add_argument("--debug", action="store_true", help="show the traceback of an error")

    trained = argparse.ArgumentParser(add_help=False, parents=[common])
    trained.add_argument("--run", type=Path, required=True, help="folder of a trained run")
    trained.add_argument(
        "--checkpoint", choices=tuple(CHECKPOINTS), default="best", help="which model (best)"
    )

    parser = argparse.ArgumentParser(
        prog="python -m transformer_lib",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, run, summary: str, description: str, parent: argparse.ArgumentParser):
        made = commands.add_parser(
            name,
            help=summary,
            description=description,
            parents=[parent],
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        made.set_defaults(run_command=run)
        return made

    add = command("train", _train, "train a model, or go on training", TRAIN, common).add_argument
    add("--task", choices=tuple(TASKS), required=True)
    add("--preset", choices=("tiny", "base", "big"), default="tiny", help="size of model (tiny)")
    add("--output", type=Path, help="the run's folder (runs/TASK-PRESET)")
    add("--restart", action="store_true", help="begin anew, over what is in the folder")
    add("--epochs", type=_count, help="passes over the data")
    add("--steps", type=_count, help="updates; with --epochs, whichever ends first")
    add("--max-tokens", type=_count, help="tokens per batch, on each side, padding included")
    add("--accumulate", type=_count, help="batches per update (1)")
    add("--lr", type=float, help="highest learning rate")
    add("--warmup", type=_count, help="steps until the highest learning rate")
    add("--dropout", type=float, help="the preset's or the task's if not given")
    add("--label-smoothing", type=float, help="share of probability spread over all tokens (0.1)")
    add("--vocab-size", type=_count, help="pieces of the byte-pair encoding (8000)")
    add("--seed", type=int, help="of everything that is drawn (0)")
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
    add("--quiet", action="store_true", help="no progress bar")

    add = command("evaluate", _evaluate, "score a run", EVALUATE, trained).add_argument
    add("--split", default="val", help="val (default), or test_2016_flickr of multi30k")
    add("--limit", type=_count, help="only the first sentences")
    add("--write", type=Path, metavar="FILE", help="write the translations, one a line")

    add = command("translate", _translate, "translate", TRANSLATE, trained).add_argument
    add("sentence", nargs="*", help="what to translate; the standard input if not given")
    return parser


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {value}")
    return value


if __name__ == "__main__":
    sys.exit(main())
