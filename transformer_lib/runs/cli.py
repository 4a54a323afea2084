"""The commands: train a model, measure it, use it."""

import argparse
import ctypes
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from transformer_lib.data import Tokenizer
from transformer_lib.decoding import beam_search, candidates, complete, greedy, sample
from transformer_lib.files import replacing
from transformer_lib.metrics import Score
from transformer_lib.models import DecoderOnly
from transformer_lib.pretrained import from_peer, load_peer
from transformer_lib.runs.parser import MODEL_SETTINGS, TRAIN_SETTINGS, parse
from transformer_lib.runs.run import Run, train, write_score
from transformer_lib.runs.tasks import TASKS, Task
from transformer_lib.training import local_device
from transformer_lib.validation import check_choice


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Returns:
        the exit code: 0, 1 after a failure, 130 after Ctrl-C.

    Raises:
        SystemExit: wrong arguments, with code 2; ``--help``, with 0; a SIGTERM, with 143.
    """
    argv = list(sys.argv[1:] if argv is None else argv)
    args = parse(argv)
    commands = {
        "train": _train,
        "evaluate": _evaluate,
        "translate": _translate,
        "generate": _generate,
    }
    try:
        if args.threads is not None:
            torch.set_num_threads(args.threads)
        commands[args.command](args, argv)
    except KeyboardInterrupt:
        _say_interrupted(args)
        return 130
    except SystemExit:  # after a SIGTERM
        _say_interrupted(args)
        raise
    except BrokenPipeError:  # nobody reads the output anymore
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if args.debug:
            raise
        who = "" if _speaks() else f"process {os.environ['RANK']}: "
        print(f"{who}error: {str(error) or type(error).__name__}", file=sys.stderr)
        return 1
    return 0


def _train(args: argparse.Namespace, argv: list[str]) -> None:
    folder = args.output or Path("runs") / f"{args.task}-{args.preset}"
    given = {name: value for name, value in vars(args).items() if value is not None}
    given |= dict(args.set)
    history = train(
        folder,
        task=args.task,
        preset=args.preset,
        model={name: given[name] for name in MODEL_SETTINGS if name in given},
        training={name: given[name] for name in TRAIN_SETTINGS if name in given},
        vocab_size=args.vocab_size,
        max_tokens=args.max_tokens,
        bpe_dropout=args.bpe_dropout,
        distilled=args.distill,
        device=args.device,
        score_every=args.score_every,
        restart=args.restart,
        command=shlex.join(["python", "-m", "transformer_lib", *argv]),
        progress=_shows_progress(args),
        say=partial(print, flush=True),
    )
    if not _speaks():
        return
    steps, losses = history.column("val_loss")
    if losses:  # there are none if the log of a finished run was deleted
        print(f"{steps[-1]:,} steps, validation loss {losses[-1]:.3f}, lowest {min(losses):.3f}")
    split = TASKS[args.task].splits[0]
    score, _ = Run.load(folder, device=args.device).score(split, progress=_shows_progress(args))
    _print_score(split, score)
    print(f"Try it: {_next_command(TASKS[args.task], folder)}")


def _next_command(task: Task, folder: Path) -> str:
    command = ["translate" if task.translates else "generate", "--run", str(folder)]
    draws = ["--temperature", "0.8"] if task.score is None else []  # where no answer is right
    return shlex.join(["python", "-m", "transformer_lib", *command, *draws, task.example])


def _evaluate(args: argparse.Namespace, argv: list[str]) -> None:
    run = Run.load(args.run, args.checkpoint, args.device)
    task, split = TASKS[run.task], args.split
    if task.score is None and (args.beam or args.write):
        raise ValueError(
            f"{run.task} is scored by perplexity, without decoding: leave out --beam and --write"
        )
    if args.write and args.write.exists():
        raise FileExistsError(f"{args.write} exists already: choose another file to --write")
    how: dict[str, Any] = {"decode": _search(args, n_best=1), "progress": _shows_progress(args)}
    # Decoding can take hours: what can fail comes before it, or after the scores are printed.
    with replacing(args.write.resolve()) if args.write else nullcontext() as file:
        score, texts = run.score(split, args.limit, **how)
        references = [target for _, target in task.load(split)[: args.limit]] if texts else []
        scores = [score, *_other_scores(task, texts, references)]
        for each in scores:
            _print_score(split, each)
        if file is not None:
            file.write("".join(f"{text}\n" for text in texts).encode())
    if args.limit is not None:  # scores of a part can't be compared
        return
    about = {"checkpoint": args.checkpoint, "decoding": _decoding(args) if task.score else None}
    if others := [folder.name for folder in args.run[1:]]:
        about["together"] = "with " + " and ".join(others)
    for each in scores:
        write_score(args.run[0], split, each._asdict() | about)


def _other_scores(task: Task, texts: list[str], references: list[str]) -> Iterator[Score]:
    for compare in task.scores_too:
        try:
            yield compare(texts, references)
        except ImportError as error:
            print(f"no {compare.__name__}: {error}", file=sys.stderr)


def _print_score(split: str, score: Score) -> None:
    metric, value, signature, count = score
    print(f"{split}, {count:,} texts: {metric} {value:.2f} ({signature})")


def _translate(args: argparse.Namespace, argv: list[str]) -> None:
    run = _load(args, translates=True)
    number = 0
    for texts in _readable(run, args, "a sentence"):
        found = candidates(
            run.model,
            run.tokenizer,
            texts,
            decode=_search(args, n_best=args.n_best or 1),
            batch_size=args.batch_size,
            progress=_shows_progress(args),
        )
        for options in found:
            number += 1
            if args.n_best is None:
                print(options[0].text)
            else:
                for text, score in options:
                    print(f"{number}\t{score:.3f}\t{text}")
        sys.stdout.flush()


def _generate(args: argparse.Namespace, argv: list[str]) -> None:
    decode = greedy
    if args.pretrained:
        model, tokenizer, read = _pretrained(args)
        some = _inputs(args.text, "a prompt")
    else:
        run = _load(args, translates=False)
        model, tokenizer, read = run.model, run.tokenizer, None
        some = _readable(run, args, "a prompt")
    if args.draws:
        generator = torch.Generator(next(model.parameters()).device)
        decode = partial(
            sample,
            temperature=1.0 if args.temperature is None else args.temperature,
            top_k=args.top_k,
            top_p=args.top_p,
            generator=generator.manual_seed(args.seed or 0),
        )
    for prompt in (text for texts in some for text in texts for _ in range(args.samples)):
        print("" if args.chat else prompt, end="", flush=True)
        complete(
            model,
            tokenizer,
            [read(prompt) if read else prompt],
            max_tokens=args.max_tokens,
            stop=args.stop,
            on_text=lambda _, new, is_end: print(new, end="\n" * is_end, flush=True),
            decode=decode,
        )


def _pretrained(args: argparse.Namespace) -> tuple[Any, Tokenizer, Callable[[str], list[int]]]:
    """Load a published decoder, its tokenizer, and what turns a prompt into ids."""
    from tokenizers import Tokenizer as HFTokenizer

    peer, theirs = load_peer(args.pretrained, download=True)
    model = from_peer(peer)
    if not isinstance(model, DecoderOnly):
        raise ValueError(f"{args.pretrained} doesn't write texts: it's a {type(peer).__name__}")
    if args.chat and not theirs.chat_template:
        raise ValueError(f"{args.pretrained} wasn't made for chats: leave out --chat")

    def read(text: str) -> list[int]:
        if not args.chat:
            return theirs(text).input_ids or [model.config.bos_id]
        message = [{"role": "user", "content": text}]
        written = theirs.apply_chat_template(message, add_generation_prompt=True, tokenize=False)
        return theirs(written, add_special_tokens=False).input_ids

    own = HFTokenizer.from_str(theirs.backend_tokenizer.to_str())  # a copy: ours changes a setting
    return model.to(local_device(args.device)), Tokenizer(own, model.config.special_ids), read


def _readable(run: Run, args: argparse.Namespace, what: str) -> Iterator[list[str]]:
    """Yield the texts, some at a time; at one that the model can't read, raise a ValueError."""
    split, task = vars(args).get("split"), TASKS[run.task]
    if split is None:
        some = _inputs(args.text, what)
    else:
        check_choice("split", split, ("train", *task.splits))
        some = [[source for source, _ in task.load(split)]]
    place, done = "text" if args.text or split else "line", 0
    for texts in some:
        reasons = (_unreadable(run, text) for text in texts)
        good, reason = next(((i, why) for i, why in enumerate(reasons) if why), (len(texts), ""))
        if unseen := run.unseen(texts[:good]):
            shown = (word if word.isprintable() else ascii(word) for word in unseen)
            print(f"never seen in training: {', '.join(shown)}", file=sys.stderr)
        if good:
            yield texts[:good]
        if reason:
            raise ValueError(f"{place} {done + good + 1} {reason}")
        done += len(texts)


def _unreadable(run: Run, text: str) -> str:
    """Why the model can't read a text, or an empty string."""
    begins = f"it begins {text.strip()[:40]!r}"
    try:
        text.encode()
    except UnicodeEncodeError:
        return f"is not valid UTF-8; {begins}"
    most = run.model.config.max_len
    if TASKS[run.task].translates:
        text = text.strip()
    else:
        most -= 1  # it needs a position to continue at
    if (count := len(run.tokenizer.encode(text))) > most:
        return f"has {count:,} tokens, and the model reads at most {most:,}; {begins}"
    return ""


def _load(args: argparse.Namespace, translates: bool) -> Run:
    run = Run.load(args.run, args.checkpoint, args.device)
    if TASKS[run.task].translates != translates:
        other = "generate" if translates else "translate"
        raise ValueError(f"{args.run[0]} learned {run.task}: use {other}, not {args.command}")
    return run


def _inputs(texts: list[str], what: str) -> Iterator[list[str]]:
    """The given texts, or the lines of standard input: one at a time if they are typed."""
    if texts:
        yield texts
        return
    if sys.stdin.isatty():
        print(f"Type {what} and press Enter. Ctrl-D ends.", file=sys.stderr)
    if isinstance(sys.stdin, TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")  # a line that isn't UTF-8 is refused alone
    # Some editors begin a file with a byte order mark.
    lines = (line.removeprefix("\ufeff").rstrip("\n") for line in sys.stdin)
    while some := list(islice(lines, 1 if sys.stdin.isatty() else 256)):
        yield some


def _search(args: argparse.Namespace, **options: Any) -> Callable[..., Any]:
    if args.beam is None:
        return greedy
    # No early stopping by default: label smoothing gives <eos> a small probability everywhere, so
    # with characters for tokens, the first N finished texts are often short and bad.
    options |= {"beam_size": args.beam, "length_penalty": args.length_penalty}
    return partial(beam_search, **options, early_stopping=bool(args.early_stopping))


def _decoding(args: argparse.Namespace) -> str:
    if args.beam is None:
        return "greedy"
    early = ", early stopping" if args.early_stopping else ""
    return f"beam {args.beam}, length penalty {args.length_penalty:g}{early}"


def _say_interrupted(args: argparse.Namespace) -> None:
    if _speaks():
        said = "Interrupted."
        if args.command == "train":
            without = "without --restart " if args.restart else ""
            said += f" Run the same command {without}to resume."
        print(f"\n{said}", file=sys.stderr)


def _speaks() -> bool:
    """Whether this process prints: the first one that torchrun started does."""
    return os.environ.get("RANK", "0") == "0"


def _shows_progress(args: argparse.Namespace) -> bool:
    prints = args.command == "translate" and sys.stdout.isatty()
    return not args.quiet and sys.stderr.isatty() and not prints


def keep_freed_memory() -> None:
    """Tell glibc to keep the memory that a training step frees, for the next one.

    By default it returns large blocks to the system and gets them back page by page, filled with
    zeros, which takes up to 40 % of a step on a CPU. The setting is for the whole process, so
    :func:`main`, which others may call, doesn't make it.
    """
    mmap_max, trim_threshold = -4, -1  # from glibc's malloc.h
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library, another system
        return
    mallopt(mmap_max, 0)
    mallopt(trim_threshold, 2**31 - 1)
