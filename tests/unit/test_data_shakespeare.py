from transformer_lib.data import shakespeare


def test_the_splits_are_the_whole_text_and_share_no_passage():
    train, val = map(shakespeare.load, shakespeare.SPLITS)
    assert (len(train), len(val)) == (1_003_857, 111_537)
    assert train.startswith("First Citizen:\nBefore we proceed any further, hear me speak.\n\n")
    assert train.endswith("But who comes here?\n\n")
    assert val.startswith("GREMIO:\nGood morrow")
    assert val.endswith("wink'st\nWhiles thou art waking.\n")
    assert len(set(train)) == len(set(train + val)) == 65
    known = {train[i : i + 40] for i in range(len(train) - 39)}
    assert not [i for i in range(len(val) - 39) if val[i : i + 40] in known]
