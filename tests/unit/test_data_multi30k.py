import gzip
import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from transformer_lib.data import DownloadError, multi30k

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
FOLDER = Path(os.environ.get("TRANSFORMER_LIB_DATA") or SHARED)

needs_data = pytest.mark.skipif(
    not (FOLDER / "multi30k" / "train.en.gz").is_file(),
    reason="needs Multi30k: set TRANSFORMER_LIB_DATA to a folder that holds multi30k/train.en.gz …",
)


@needs_data
@pytest.mark.parametrize("lowercase", [False, True])
def test_the_splits(lowercase, monkeypatch):
    monkeypatch.setenv("TRANSFORMER_LIB_DATA", str(FOLDER))
    train, val, test = (multi30k.load(split, lowercase=lowercase) for split in multi30k.SPLITS)
    assert (len(train), len(val), len(test)) == (29_000, 1_014, 1_000)
    assert all(en and de and (en, de) == (en.strip(), de.strip()) for en, de in train + val + test)
    english, german = test[0]
    assert english.lower().startswith("a man in an orange hat starring at something")
    assert german.lower().startswith("ein mann mit einem orangefarbenen hut")


TOKENIZED = {"en": b"one man .\ntwo .\n", "de": b"ein mann .\nzwei .\n"}
PAIRS = [("One\x85man.", "Ein Mann."), ("Two.", "Zwei.")]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder for `TRANSFORMER_LIB_DATA`, with short files."""
    monkeypatch.setenv("TRANSFORMER_LIB_DATA", str(tmp_path))
    (tmp_path / "multi30k" / "tok").mkdir(parents=True)
    raw = {"raw/val.en.gz": " One\x85man.\nTwo.\n", "raw/val.de.gz": "Ein Mann.\nZwei. \n"}
    files = {name: gzip.compress(text.encode()) for name, text in raw.items()}
    files |= {f"tok/val.lc.norm.tok.{side}": text for side, text in TOKENIZED.items()}
    for name, content in files.items():
        (tmp_path / "multi30k" / name.removeprefix("raw/")).write_bytes(content)
        monkeypatch.setitem(multi30k._SHA256, name, sha256(content).hexdigest())
    return tmp_path


def test_a_folder_with_the_files_needs_no_network(folder):
    assert multi30k.load("val") == PAIRS
    lowercased = [("one man .", "ein mann ."), ("two .", "zwei .")]
    assert multi30k.load("val", lowercase=True) == lowercased
    path = folder / "multi30k" / "val.de.gz"
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(ValueError, match=r"val\.de\.gz is not the expected file"):
        multi30k.load("val")
    with pytest.raises(FileNotFoundError, match=r"train\.en\.gz is missing; TRANSFORMER_LIB_DATA"):
        multi30k.load("train")
    with pytest.raises(ValueError, match="split must be one of train, val, test_2016_flickr; got"):
        multi30k.load("dev")


def test_files_are_fetched_once_and_verified(folder, tmp_path, monkeypatch, capsys):
    cache = tmp_path / "cache"
    monkeypatch.delenv("TRANSFORMER_LIB_DATA")
    monkeypatch.setattr("platformdirs.user_cache_path", lambda name: cache)
    home = folder / "home"  # laid out as the public one
    home.mkdir()
    os.rename(folder / "multi30k", home / "raw")
    os.rename(home / "raw" / "tok", home / "tok")
    monkeypatch.setattr(multi30k, "_HOME", home.as_uri() + "/")
    assert multi30k.load("val") == PAIRS
    assert capsys.readouterr().err == ""
    assert multi30k.load("val", lowercase=True, progress=True)[0] == ("one man .", "ein mann .")
    assert "100%" in capsys.readouterr().err
    kept = cache / "multi30k" / "val.en.gz"
    kept.write_bytes(b"damaged")
    assert multi30k.load("val") == PAIRS  # fetched again
    (home / "raw" / "val.en.gz").write_bytes(b"another file")
    assert multi30k.load("val") == PAIRS  # from the cache
    kept.write_bytes(b"damaged")
    for wrong in ("invalid hash", "No such file"):
        with pytest.raises(DownloadError, match=rf"val\.en\.gz couldn't be downloaded .*{wrong}"):
            multi30k.load("val")
        assert kept.read_bytes() == b"damaged"
        (home / "raw" / "val.en.gz").unlink(missing_ok=True)
    assert len(list(kept.parent.iterdir())) == 3  # two raw files, a folder, and nothing half done


@pytest.mark.slow
def test_the_package_needs_torch_alone():
    code = (
        "import sys\n"
        "sys.modules.update(dict.fromkeys(('tokenizers', 'platformdirs', 'tqdm', 'numpy')))\n"
        "import transformer_lib.data\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
