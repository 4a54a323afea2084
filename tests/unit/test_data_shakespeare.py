import gzip

import pytest

from transformer_lib.data import shakespeare


def test_both_splits_are_the_whole_text():
    train, val = map(shakespeare.load, shakespeare.SPLITS)
    assert (len(train), len(val)) == (1_003_857, 111_537)
    assert train.startswith("First Citizen:\nBefore we proceed any further, hear me speak.\n\n")
    assert val.endswith("wink'st\nWhiles thou art waking.\n")
    assert len(set(train)) == len(set(train + val)) == 65


def test_the_cut_is_between_two_speeches():
    train, val = map(shakespeare.load, shakespeare.SPLITS)
    assert train.endswith("But who comes here?\n\n")
    assert val.startswith("GREMIO:\nGood morrow")


def test_no_passage_is_in_both_splits():
    train, val = map(shakespeare.load, shakespeare.SPLITS)
    known = {train[i : i + 40] for i in range(len(train) - 39)}
    assert not [i for i in range(len(val) - 39) if val[i : i + 40] in known]


def test_an_unknown_split_is_refused():
    with pytest.raises(ValueError, match="split must be one of train, val; got 'test'"):
        shakespeare.load("test")


@pytest.mark.parametrize("damage", ["cut off", "another text", "no gzip"])
def test_a_damaged_file_is_refused(damage, tmp_path, monkeypatch):
    whole = shakespeare._FILE.read_bytes()
    path = tmp_path / "shakespeare.txt.gz"
    content = {"cut off": whole[:1000], "another text": gzip.compress(b"To be"), "no gzip": b"To"}
    path.write_bytes(content[damage])
    monkeypatch.setattr(shakespeare, "_FILE", path)
    with pytest.raises(ValueError, match=r"shakespeare\.txt\.gz is damaged"):
        shakespeare.load("train")
