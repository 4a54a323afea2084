"""A run of the task `number-words` as the translator that comes with the library, in 8 bits.

    python -m transformer_lib train --task number-words --epochs 10 --lr 0.001 --seed 0 \
        --threads 1 --output runs/number-words-s0
    python experiments/bundle_number_words.py runs/number-words-s0

What the rounded model translates, beside the unrounded one, goes to
`results/number-words-shipped`.
"""

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from bundling import write_record
from safetensors.torch import save

from transformer_lib.decoding import translate
from transformer_lib.pretrained.bundled import bundled_folder, load_bundled
from transformer_lib.pretrained.rounding import to_int8
from transformer_lib.runs import TASKS, Run

NAME = "number-words"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    run = Run.load(parser.parse_args().run, device="cpu")
    folder = bundled_folder(NAME)
    folder.mkdir(exist_ok=True)
    write(run, folder)
    model, tokenizer = load_bundled(NAME)
    pairs = TASKS[NAME].load("val")
    texts = [english for english, _ in pairs]
    rounded, unrounded = (translate(each, tokenizer, texts) for each in (model, run.model))
    about = {
        "command": "python experiments/bundle_number_words.py runs/number-words-s0",
        "what": f"the translator that comes with the library as {NAME!r}: best.pt in 8 bits",
        "split": "val",
        "decoding": "greedy",
        "numbers": len(pairs),
        "right": right(rounded, pairs),
        "right_in_float32": right(unrounded, pairs),
        "translated_otherwise": sum(a != b for a, b in zip(rounded, unrounded, strict=True)),
        "wrong": [
            [english, said, german]
            for (english, german), said in zip(pairs, rounded, strict=True)
            if said != german
        ],
    }
    write_record(NAME, NAME, model, about)


def right(found: list[str], pairs: list[tuple[str, str]]) -> int:
    return sum(said == german for said, (_, german) in zip(found, pairs, strict=True))


def write(run: Run, folder: Path) -> None:
    weights = save(to_int8(run.model.state_dict()), metadata={"format": "pt"})
    (folder / "model.safetensors").write_bytes(weights)
    config = {"class": "Transformer", "config": asdict(run.model.config)}
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    run.tokenizer.save(folder / "tokenizer.json")


if __name__ == "__main__":
    main()
