import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest

from transformer_lib.data import DownloadError, download, multi30k

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
FOLDER = Path(os.environ.get("TRANSFORMER_LIB_DATA") or SHARED)

needs_data = pytest.mark.skipif(
    not (FOLDER / "multi30k" / "train.en.gz").is_file(),
    reason="needs Multi30k: set TRANSFORMER_LIB_DATA to a folder that holds multi30k/train.en.gz …",
)


@pytest.fixture
def real(monkeypatch):
    monkeypatch.setenv("TRANSFORMER_LIB_DATA", str(FOLDER))


@needs_data
@pytest.mark.parametrize("lowercase", [False, True])
def test_the_splits(real, lowercase):
    train, val, test = (multi30k.load(split, lowercase=lowercase) for split in multi30k.SPLITS)
    assert (len(train), len(val), len(test)) == (29_000, 1_014, 1_000)
    assert all(en and de and (en, de) == (en.strip(), de.strip()) for en, de in train + val + test)
    english, german = test[0]
    assert english.lower().startswith("a man in an orange hat starring at something")
    assert german.lower().startswith("ein mann mit einem orangefarbenen hut")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder for `TRANSFORMER_LIB_DATA`, with short files."""
    monkeypatch.setenv("TRANSFORMER_LIB_DATA", str(tmp_path))
    (tmp_path / "multi30k").mkdir()
    (tmp_path / "multi30k" / "tok").mkdir()
    raw = {"raw/val.en.gz": " One\x85man.\nTwo.\n", "raw/val.de.gz": "Ein Mann.\nZwei. \n"}
    files = {name: gzip.compress(text.encode()) for name, text in raw.items()}
    files["tok/val.lc.norm.tok.en"] = b"one man .\ntwo .\n"
    files["tok/val.lc.norm.tok.de"] = b"ein mann .\nzwei .\n"
    for name, content in files.items():
        (tmp_path / "multi30k" / name.removeprefix("raw/")).write_bytes(content)
        monkeypatch.setitem(multi30k._SHA256, name, download.hashlib.sha256(content).hexdigest())
    return tmp_path


def test_lines_are_paired_and_stripped(folder):
    assert multi30k.load("val") == [("One\x85man.", "Ein Mann."), ("Two.", "Zwei.")]


def test_the_lowercased_text_has_its_own_files(folder):
    expected = [("one man .", "ein mann ."), ("two .", "zwei .")]
    assert multi30k.load("val", lowercase=True) == expected


def test_a_damaged_file_is_refused(folder):
    path = folder / "multi30k" / "val.de.gz"
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(ValueError, match=r"val\.de\.gz is not the expected file"):
        multi30k.load("val")


def test_a_missing_file_is_named(folder):
    with pytest.raises(FileNotFoundError, match=r"train\.en\.gz is missing; TRANSFORMER_LIB_DATA"):
        multi30k.load("train")


def test_an_unknown_split_is_refused():
    with pytest.raises(
        ValueError, match="split must be one of train, val, test_2016_flickr; got 'dev'"
    ):
        multi30k.load("dev")


def test_the_cache(folder, tmp_path, monkeypatch):
    import platformdirs

    cache = tmp_path / "cache"
    monkeypatch.delenv("TRANSFORMER_LIB_DATA")
    monkeypatch.setattr(platformdirs, "user_cache_path", lambda name: cache)
    home = folder / "home"  # laid out as the public one
    home.mkdir()
    os.rename(folder / "multi30k", home / "raw")
    os.rename(home / "raw" / "tok", home / "tok")
    monkeypatch.setattr(multi30k, "_HOME", home.as_uri() + "/")
    expected = [("One\x85man.", "Ein Mann."), ("Two.", "Zwei.")]
    assert multi30k.load("val") == expected  # fetched
    assert multi30k.load("val", lowercase=True)[0] == ("one man .", "ein mann .")
    assert (cache / "multi30k" / "tok" / "val.lc.norm.tok.de").is_file()
    (cache / "multi30k" / "val.en.gz").write_bytes(b"damaged")
    assert multi30k.load("val") == expected  # fetched again
    (home / "raw" / "val.en.gz").unlink()
    assert multi30k.load("val") == expected  # from the cache
    (cache / "multi30k" / "val.en.gz").unlink()
    with pytest.raises(DownloadError, match=r"val\.en\.gz couldn't be downloaded"):
        multi30k.load("val")


@pytest.mark.slow
def test_the_package_needs_torch_alone():
    code = (
        "import sys\n"
        "sys.modules.update(dict.fromkeys(('tokenizers', 'platformdirs', 'tqdm', 'numpy')))\n"
        "import transformer_lib.data\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
