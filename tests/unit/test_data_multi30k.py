import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest

from transformer_lib.data import Batches, DownloadError, Tokenizer, download, multi30k

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
def test_the_splits(real):
    train, val, test = (multi30k.load(split) for split in multi30k.SPLITS)
    assert (len(train), len(val), len(test)) == (29_000, 1_014, 1_000)
    assert train[0] == (
        "Two young, White males are outside near many bushes.",
        "Zwei junge weiße Männer sind im Freien in der Nähe vieler Büsche.",
    )
    assert all(en and de and (en, de) == (en.strip(), de.strip()) for en, de in train + val + test)


@needs_data
def test_the_lowercased_splits_are_the_same_captions(real):
    for split, count in zip(multi30k.SPLITS, (29_000, 1_014, 1_000), strict=True):
        pairs = multi30k.load(split, lowercase=True)
        assert len(pairs) == count
        assert all(text == text.lower() for pair in pairs for text in pair)
    # Compare captions without case, spaces and punctuation.
    for pair, raw in zip(pairs[:50], multi30k.load(split)[:50], strict=True):
        for text, cased in zip(pair, raw, strict=True):
            letters, expected = (
                [c for c in t if c.isalpha()]
                for t in (text.replace("&quot;", "").replace("&apos;", ""), cased.lower())
            )
            assert letters == expected
    assert pairs[0][0] == "a man in an orange hat starring at something ."


@needs_data
def test_it_survives_tokenization_and_wastes_little_on_padding(real):
    train = multi30k.load("train")
    tokenizer = Tokenizer.train_bpe([text for pair in train for text in pair], vocab_size=8000)
    assert tokenizer.vocab_size == 8000
    for pair in multi30k.load("test_2016_flickr"):
        assert tuple(tokenizer.decode(tokenizer.encode(text)) for text in pair) == pair
    pairs = [(tokenizer.encode(en), tokenizer.encode(de)) for en, de in train]
    batches = list(Batches(pairs, max_tokens=4096).epoch(0))
    padding = sum(int((t == 0).sum()) for batch in batches for t in (batch.source, batch.labels))
    padded = sum(t.numel() for batch in batches for t in (batch.source, batch.labels))
    assert padding / padded < 0.05  # 0.034


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
