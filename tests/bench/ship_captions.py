"""A run of the task `multi30k` as the translator of captions that a page may have, in 8 bits.

    python -m transformer_lib train --task multi30k --output runs/captions …
    python tests/bench/ship_captions.py runs/captions --output models/captions

The folder gets `captions.json`, all that a page loads, and `NOTICE.txt`: where it is from, and what
8 bits cost in BLEU, beside the unrounded model. No build has them until `caption_translator` in
`_config.yml` names the folder. All that was measured goes to `results/captions-shipped`.
"""

import argparse
import json
from base64 import b64encode
from collections.abc import Iterable
from dataclasses import asdict
from functools import partial
from pathlib import Path

from safetensors.torch import save
from shipping import RESULTS, write_found

from transformer_lib.data import Tokenizer
from transformer_lib.decoding import beam_search, greedy
from transformer_lib.pretrained.rounding import from_int8, to_int8
from transformer_lib.recipes import TASKS
from transformer_lib.runs import Run
from transformer_lib.texts import translate

TASK, SPLIT = "multi30k", "val"
MOST_BYTES = 4_000_000
READ = 112  # pieces that the figure may hand over, of at most 100 characters
WRITTEN = 44  # pieces that it lets the model write
NOTICE = (
    "This translator has learned from the captions of Multi30k (Elliott et al., 2016), which come "
    "from Flickr30k. Those are lent for research use, and so is this model: the licenses of the "
    "book’s code and text are not about it. Its weights are here in 8 bits. On {captions:,} "
    "captions kept back from its training, greedy decoding has {greedy[bleu_in_8_bits]:.1f} BLEU, "
    "and {greedy[bleu_in_32_bits]:.1f} with 32 bits; {greedy[translated_otherwise]:,} of the "
    "translations differ. A beam of 4 has {beam_of_4[bleu_in_8_bits]:.1f}, and "
    "{beam_of_4[bleu_in_32_bits]:.1f}; {beam_of_4[translated_otherwise]:,} differ."
)
# What the figure's engine can compute; the page would refuse anything else when it loads.
KNOWN = {
    "activation": ("relu",),
    "norm": ("layer", "rms"),
    "positions": ("sinusoidal", "learned", "none"),
    "n_heads": (1, 2, 4, 8),
    "n_kv_heads": (None,),
    "bias": (True,),
    "qkv_bias": (None, True),
    "embedding_norm": (False,),
    "output_bias": (False,),
    "n_token_types": (0,),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--output", type=Path, required=True, help="the folder to write")
    options = parser.parse_args()
    ship(options.run, options.output, RESULTS)


def ship(folder: Path, output: Path, results: Path) -> None:
    """Write the files of a run, and the record of what rounding costs."""
    run = Run.load(folder, device="cpu")
    check(run)
    text = page_text(run)
    if (size := len(text.encode())) > MOST_BYTES:
        raise ValueError(f"the file has {size:,} bytes, more than {MOST_BYTES:,}")
    found = measure(run)
    output.mkdir(parents=True, exist_ok=True)
    (output / "captions.json").write_text(text, encoding="utf-8")
    (output / "NOTICE.txt").write_text(f"{NOTICE.format(**found)}\n", encoding="utf-8")
    command = f"python tests/bench/ship_captions.py runs/{folder.name} --output {output.name}"
    about = {"command": command, "what": f"best.pt of {folder.name} in 8 bits, for a page"}
    write_found(results / "captions-shipped", run.model, text.encode(), about | found)


def check(run: Run) -> None:
    """Raise a ValueError for a run that the page could not show."""
    if run.task != TASK:
        raise ValueError(f"the run must be of the task {TASK!r}: cased text; got {run.task!r}")
    for name, values in KNOWN.items():
        if getattr(run.model.config, name) not in values:
            found = getattr(run.model.config, name)
            raise ValueError(f"{name} must be one of {values}, for the page; got {found!r}")
    if run.model.config.max_len < max(READ, WRITTEN):
        raise ValueError(f"max_len must be at least {READ}; got {run.model.config.max_len}")
    if run.words is None:
        raise ValueError("the run keeps no words.txt: train it again with this library")


def page_text(run: Run) -> str:
    """What a page loads: the config, the weights in 8 bits as base64, and the tokenizer."""
    weights = save(to_int8(run.model.state_dict()), metadata={"format": "pt"})
    found = {
        "config": asdict(run.model.config),
        "weights": b64encode(weights).decode(),
        "tokenizer": byte_pairs(run.tokenizer, run.words or ()),
    }
    return json.dumps(found, separators=(",", ":"), ensure_ascii=False)


def byte_pairs(tokenizer: Tokenizer, words: Iterable[str] = ()) -> dict[str, object]:
    """The piece of each id, the merges in their order, and the words that the model has read."""
    stored = json.loads(tokenizer._tokenizer.to_str())
    model = stored["model"]
    if stored["pre_tokenizer"] is None or stored["pre_tokenizer"]["type"] != "ByteLevel":
        raise ValueError("the run's tokenizer must be a byte-pair encoding: Tokenizer.train_bpe")
    pairs = [pair if isinstance(pair, str) else " ".join(pair) for pair in model["merges"]]
    pieces = sorted(model["vocab"], key=model["vocab"].get)
    return {"pieces": pieces, "merges": pairs, "words": " ".join(sorted(filter(None, words)))}


def measure(run: Run) -> dict[str, object]:
    """BLEU with 8 bits and with 32, of both searches that the figure offers."""
    task = TASKS[TASK]
    sources, references = zip(*task.load(SPLIT), strict=True)
    exact = run.model.state_dict()
    exact = {name: tensor.clone() for name, tensor in exact.items()}
    searches = {"greedy": greedy, "beam_of_4": partial(beam_search, beam_size=4)}
    found: dict[str, object] = {"split": SPLIT, "captions": len(sources)}
    said: dict[str, list[str]] = {}
    for bits, weights in (("32", exact), ("8", from_int8(to_int8(exact)))):
        run.model.load_state_dict(weights)
        for name, search in searches.items():
            said[f"{name}_{bits}"] = translate(run.model, run.tokenizer, sources, decode=search)
    for name in searches:
        exact_bleu, rounded = (
            task.score(said[f"{name}_{bits}"], references).value for bits in ("32", "8")
        )
        both = zip(said[f"{name}_32"], said[f"{name}_8"], strict=True)
        found[name] = {
            "bleu_in_32_bits": exact_bleu,
            "bleu_in_8_bits": rounded,
            "lost": exact_bleu - rounded,
            "translated_otherwise": sum(a != b for a, b in both),
        }
    run.model.load_state_dict(exact)
    return found


if __name__ == "__main__":
    main()
