"""Multi30k, task 1: captions of photographs, in English and German.

29,000 pairs for training, 1,014 for validation and 1,000 for testing (`test_2016_flickr`), as raw
text or lowercased, normalized and split into words by Moses' tokenizer. Published BLEU scores of
about 41 are for the second kind. Elliott et al. (2016), *Multi30K: Multilingual English-German
Image Descriptions*.

**License.** Its repository doesn't state one. The captions derive from Flickr30k, which is for
research use. So this library doesn't contain them: you download them from their public home.
"""

import gzip
import os
from pathlib import Path

from transformer_lib.data.download import fetch, has_hash
from transformer_lib.validation import check_choice, check_type

_HOME = (
    "https://raw.githubusercontent.com/multi30k/dataset/"
    "a3d2e0d26b56f3846f66a952536ffed4e401d05a/data/task1/"
)
_SHA256 = {
    "raw/train.en.gz": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
    "raw/train.de.gz": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
    "raw/val.en.gz": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
    "raw/val.de.gz": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
    "raw/test_2016_flickr.en.gz": (
        "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9"
    ),
    "raw/test_2016_flickr.de.gz": (
        "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8"
    ),
    "tok/train.lc.norm.tok.en": "08925f8e0572bcd5a006702fc5fe20e2d77c6917d4eebd576fc20de6693c2119",
    "tok/train.lc.norm.tok.de": "cb5a23529b65ec2061f1dc446192a9c37382b63cc75f81a0be59d34894b3a505",
    "tok/val.lc.norm.tok.en": "46573ce391ae227f1c72f873392436a20ef18e0a6d518098cfbd70b77c8572ec",
    "tok/val.lc.norm.tok.de": "97232bd273eceb7207f689527386a97e4be2616b18ada47576bdaf96c8ae1f00",
    "tok/test_2016_flickr.lc.norm.tok.en": (
        "5b7f32627cf99eced828311b955dae9800bb52bc8b91cf8b6526829e605b29d2"
    ),
    "tok/test_2016_flickr.lc.norm.tok.de": (
        "c6a33d39d48f9f510de147651316cd9d918e09ad0219df734a2f16b6baccacc4"
    ),
}
SPLITS = ("train", "val", "test_2016_flickr")
DATA_VARIABLE = "TRANSFORMER_LIB_DATA"


def load(split: str, *, lowercase: bool = False, progress: bool = False) -> list[tuple[str, str]]:
    """Load the (English, German) pairs of a split, without white space around sentences.

    The first call downloads the files to the user's cache folder. On a machine without internet,
    set `TRANSFORMER_LIB_DATA` to a folder that holds them in `multi30k/` (the lowercased ones in
    `multi30k/tok/`), under their original names. Either way, their SHA-256 is verified.

    Args:
        split: "train", "val" or "test_2016_flickr".
        lowercase: the dataset's own lowercased, normalized and tokenized text, with a space
            between words and punctuation, instead of raw text.
        progress: show a progress bar while downloading.

    Raises:
        ValueError: an unknown split; a file in `TRANSFORMER_LIB_DATA` with a different hash.
        FileNotFoundError: a file isn't in `TRANSFORMER_LIB_DATA`.
        DownloadError: a download failed.
    """
    check_choice("split", split, SPLITS)
    check_type("lowercase", lowercase, bool)
    check_type("progress", progress, bool)
    name = f"tok/{split}.lc.norm.tok.{{}}" if lowercase else f"raw/{split}.{{}}.gz"
    english, german = (_lines(_file(name.format(side), progress)) for side in ("en", "de"))
    return list(zip(english, german, strict=True))


def _file(name: str, progress: bool) -> Path:
    place = f"multi30k/{name.removeprefix('raw/')}"
    if not (folder := os.environ.get(DATA_VARIABLE)):
        from platformdirs import user_cache_path

        path = user_cache_path("attention-built-by-hand") / place
        return fetch(_HOME + name, _SHA256[name], path, progress=progress)
    path = Path(folder) / place
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing; {DATA_VARIABLE} is set to {folder}")
    if not has_hash(path, _SHA256[name]):
        raise ValueError(f"{path} is not the expected file: its SHA-256 is not {_SHA256[name]}")
    return path


def _lines(path: Path) -> list[str]:
    # Not str.splitlines, which also splits at characters that occur inside sentences.
    content = path.read_bytes()
    text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8")
    return [line.strip() for line in text.removesuffix("\n").split("\n")]
