import pytest

from transformer_lib.data import BOS, PAD, WindowBatches


def windows(batches, epoch):
    """The labels of an epoch, row by row, without padding."""
    return [
        [i for i in row if i != PAD]
        for batch in batches.epoch(epoch)
        for row in batch.labels.tolist()
    ]


@pytest.mark.parametrize("count", [1, 5, 10, 23])
def test_in_order_windows_are_the_whole_text(count):
    ids = list(range(4, 4 + count))
    batches = WindowBatches(ids, length=5, batch_size=2, shuffle=False)
    assert [i for row in windows(batches, 3) for i in row] == ids
    assert len(list(batches.epoch(0))) == len(batches) == -(-count // 10)


def test_each_label_is_predicted_from_the_tokens_before_it():
    batches = WindowBatches(list(range(4, 40)), length=7, batch_size=3, seed=1)
    for batch in batches.epoch(0):
        assert batch.input[:, 0].tolist() == [BOS] * len(batch.input)
        assert batch.input[:, 1:].equal(batch.labels[:, :-1])
        assert batch.labels.ne(0).all()


@pytest.mark.parametrize("count", [9, 13, 14, 36])
def test_an_epoch_reads_no_token_twice_and_begins_at_a_random_offset(count):
    batches = WindowBatches(list(range(4, 4 + count)), length=5, batch_size=2)
    begins = set()
    for epoch in range(40):
        rows = windows(batches, epoch)
        assert all(row == list(range(row[0], row[0] + 5)) for row in rows)
        read = sorted(i for row in rows for i in row)
        assert read == list(range(read[0], read[0] + len(read))) and read[-1] < 4 + count
        assert len(rows) == (count - 4) // 5
        begins.add(read[0])
    assert begins == {4, 5, 6, 7, 8}


def test_the_order_is_a_function_of_seed_and_epoch():
    ids = list(range(4, 200))
    one, same, other = (WindowBatches(ids, length=5, batch_size=4, seed=s) for s in (1, 1, 2))
    assert windows(one, 3) == windows(same, 3) != windows(other, 3)
    assert windows(one, 3) != windows(one, 4)
    late = [batch.labels.tolist() for batch in one.epoch(3, start=2)]
    assert late == [batch.labels.tolist() for batch in same.epoch(3)][2:]


def test_a_batch_stays_within_its_budget():
    batches = WindowBatches(list(range(4, 100)), length=6, max_tokens=20)
    assert {batch.labels.shape[0] for batch in batches.epoch(0)} == {3}


def test_a_text_that_is_too_short_is_refused():
    with pytest.raises(ValueError, match="at least 9 tokens for a length of 5; got 8"):
        WindowBatches(list(range(4, 12)), length=5, batch_size=1)
    with pytest.raises(ValueError, match="ids must hold at least 1 tokens"):
        WindowBatches([], length=5, batch_size=1, shuffle=False)
