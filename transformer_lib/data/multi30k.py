"""Multi30k, task 1: captions of photographs, English and German.

29,000 pairs to train on, 1,014 to validate and 1,000 to test (`test_2016_flickr`), as raw text.
Elliott et al. (2016), *Multi30K: Multilingual English-German Image Descriptions*.

**License.** Its repository states none. The captions derive from Flickr30k, which is for research
use. So they are downloaded from their public home by whoever needs them, and not passed on.
"""

import gzip
import os
from pathlib import Path

from transformer_lib.arguments import check_type
from transformer_lib.data.download import fetch, has_hash

_HOME = (
    "https://raw.githubusercontent.com/multi30k/dataset/"
    "a3d2e0d26b56f3846f66a952536ffed4e401d05a/data/task1/raw/"
)
_SHA256 = {
    "train.en.gz": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
    "train.de.gz": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
    "val.en.gz": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
    "val.de.gz": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
    "test_2016_flickr.en.gz": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
    "test_2016_flickr.de.gz": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
}
SPLITS = ("train", "val", "test_2016_flickr")
DATA_VARIABLE = "TRANSFORMER_LIB_DATA"


def load(split: str, *, progress: bool = False) -> list[tuple[str, str]]:
    """The (English, German) pairs of a split, without the white space around a sentence.

    The first call downloads the files to the user's cache folder; a damaged one is fetched again.
    On a machine with no internet, set `TRANSFORMER_LIB_DATA` to a folder that holds them in
    `multi30k/`, under the names of their public home. Either way their SHA-256 must be right.

    Args:
        split: "train", "val" or "test_2016_flickr".
        progress: show a progress bar for a download.

    Raises:
        ValueError: no such split, or a file under `TRANSFORMER_LIB_DATA` has another hash.
        FileNotFoundError: `TRANSFORMER_LIB_DATA` is set, and a file is not there.
        DownloadError: a file could not be fetched.
    """
    if not isinstance(split, str) or split not in SPLITS:
        raise ValueError(f"split must be one of {', '.join(SPLITS)}; got {split!r}")
    check_type("progress", progress, bool)
    english, german = (
        _lines(_file(f"{split}.{language}.gz", progress)) for language in ("en", "de")
    )
    return list(zip(english, german, strict=True))


def _file(name: str, progress: bool) -> Path:
    if not (folder := os.environ.get(DATA_VARIABLE)):
        from platformdirs import user_cache_path

        path = user_cache_path("transformer-lib") / "multi30k" / name
        return fetch(_HOME + name, _SHA256[name], path, progress=progress)
    path = Path(folder) / "multi30k" / name
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing; {DATA_VARIABLE} is set to {folder}")
    if not has_hash(path, _SHA256[name]):
        raise ValueError(f"{path} is not the file expected: its SHA-256 is not {_SHA256[name]}")
    return path


def _lines(path: Path) -> list[str]:
    # Not str.splitlines: it breaks at characters that may stand inside a sentence.
    text = gzip.decompress(path.read_bytes()).decode("utf-8")
    return [line.strip() for line in text.removesuffix("\n").split("\n")]
