from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transformer_lib.data import Batches, TextBatches, TokenBatchSampler, WindowBatches, collate

PAIRS = [(list(range(4, 5 + n % 7)), list(range(20, 20 + n % 5))) for n in range(53)]


def same(first, second):
    return len(first) == len(second) and all(
        torch.equal(a, b)
        for x, y in zip(first, second, strict=True)
        for a, b in zip(x, y, strict=True)
    )


@given(
    st.lists(
        st.tuples(st.lists(st.integers(4, 99), min_size=1), st.lists(st.integers(4, 99))),
        min_size=1,
    )
)
def test_collate_keeps_every_token(pairs):
    batch = collate(pairs)
    for (source, target), *rows in zip(pairs, *batch, strict=True):
        in_source, in_target, in_labels = (row[row != 0].tolist() for row in rows)
        assert in_source == source
        assert in_target == [1, *target]
        assert in_labels == [*target, 2]
    assert batch.target_input.shape == batch.labels.shape


def test_to_keeps_the_numbers():
    batch = collate(PAIRS[:3])
    moved = batch.to("cpu")
    assert type(moved) is type(batch)
    assert same([moved], [batch])
    assert batch.to("meta").source.device.type == "meta"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_to_a_gpu():
    batch = collate(PAIRS)
    moved = batch.to("cuda")
    assert moved.labels.is_cuda
    assert same([moved.to("cpu")], [batch])


LENGTHS = st.lists(st.tuples(st.integers(1, 17), st.integers(1, 23)), min_size=1, max_size=80)


@given(LENGTHS, st.integers(23, 90), st.integers(0, 3), st.integers(0, 3), st.booleans())
def test_each_index_once_and_the_budget_held(lengths, max_tokens, seed, epoch, shuffle):
    sampler = TokenBatchSampler(lengths, max_tokens=max_tokens, seed=seed, shuffle=shuffle)
    batches = sampler.epoch(epoch)
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        for side in (0, 1):
            assert 0 < len(batch) * max(lengths[i][side] for i in batch) <= max_tokens
    again = TokenBatchSampler(lengths, max_tokens=max_tokens, seed=seed, shuffle=shuffle)
    assert batches == again.epoch(epoch)
    assert len(batches) == len(sampler.epoch(epoch + 1))


def test_order_and_content_depend_on_seed_and_epoch_alone():
    lengths = [3 + i % 5 for i in range(97)]

    def batches(seed, epoch):
        return TokenBatchSampler(lengths, max_tokens=41, seed=seed).epoch(epoch)

    contents = {str(sorted(map(sorted, batches(*both)))) for both in product((0, 1, 2), repeat=2)}
    assert len(contents) == 9
    before = batches(0, 4)
    torch.rand(3)
    assert batches(0, 4) == before
    fixed = TokenBatchSampler(lengths, max_tokens=41, shuffle=False)
    assert fixed.epoch(0) == fixed.epoch(1)


def test_batches_waste_little_on_padding():
    lengths = [(1 + i % 13, 1 + i * 7 % 19) for i in range(5000)]
    batches = TokenBatchSampler(lengths, max_tokens=200).epoch(0)
    real = sum(sum(lengths[i]) for batch in batches for i in batch)
    padded = sum(
        len(batch) * max(lengths[i][side] for i in batch) for batch in batches for side in (0, 1)
    )
    assert 1 - real / padded < 0.04


def test_an_example_over_the_budget_is_named():
    with pytest.raises(ValueError, match=r"max_tokens \(6\).*example 1 has 7 tokens"):
        TokenBatchSampler([(3, 4), (2, 7)], max_tokens=6)
    with pytest.raises(ValueError, match=r"max_tokens \(6\).*example 0 has 7 tokens"):
        Batches([([5], [6] * 6)], max_tokens=6)  # six and <eos>
    with pytest.raises(ValueError, match=r"max_tokens \(6\).*example 1 has 7 tokens"):
        TextBatches([[5], [6] * 6], max_tokens=6)


TEXTS = [target for _, target in PAIRS]
IDS = list(range(4, 200))


@pytest.mark.parametrize("size", [{"max_tokens": 29}, {"batch_size": 7}])
@pytest.mark.parametrize(
    "make", [Batches, TextBatches, WindowBatches], ids=["pairs", "texts", "windows"]
)
def test_an_epoch_depends_on_seed_and_number_alone(make, size):
    options = size | ({"length": 5} if make is WindowBatches else {})
    given = {Batches: PAIRS, TextBatches: TEXTS, WindowBatches: IDS}[make]
    batches = make(given, **options, seed=3)
    whole = list(batches.epoch(2))
    assert len(whole) == len(batches)
    if make is not WindowBatches:
        assert sum(len(batch.labels) for batch in whole) == len(given)
    assert same(list(make(given, **options, seed=3).epoch(2)), whole)
    assert not same(list(batches.epoch(3)), whole)
    assert not same(list(make(given, **options, seed=4).epoch(2)), whole)


def test_batches_in_the_order_given():
    batches = Batches(PAIRS, batch_size=7, shuffle=False)
    assert same(list(batches.epoch(0)), [collate(PAIRS[i : i + 7]) for i in range(0, 53, 7)])


# --- windows of one text -------------------------------------------------------------------------


def windows(batches, epoch):
    """The labels of an epoch, row by row, without padding."""
    rows = [row for batch in batches.epoch(epoch) for row in batch.labels.tolist()]
    return [[i for i in row if i != 0] for row in rows]


@pytest.mark.parametrize("count", [1, 5, 10, 23])
def test_in_order_windows_are_the_whole_text(count):
    batches = WindowBatches(IDS[:count], length=5, batch_size=2, shuffle=False)
    assert [i for row in windows(batches, 3) for i in row] == IDS[:count]
    assert len(list(batches.epoch(0))) == len(batches) == -(-count // 10)


@pytest.mark.parametrize("count", [9, 13, 14, 36])
def test_an_epoch_reads_no_token_twice_and_begins_at_a_random_offset(count):
    batches = WindowBatches(IDS[:count], length=5, batch_size=2)
    begins = set()
    for epoch in range(40):
        rows = windows(batches, epoch)
        assert all(row == list(range(row[0], row[0] + 5)) for row in rows)
        read = sorted(i for row in rows for i in row)
        assert read == list(range(read[0], read[0] + len(read))) and read[-1] < 4 + count
        assert len(rows) == (count - 4) // 5
        begins.add(read[0])
        for batch in batches.epoch(epoch):  # each label is predicted from the tokens before it
            assert batch.input[:, 0].eq(1).all() and batch.input[:, 1:].equal(batch.labels[:, :-1])
    assert begins == {4, 5, 6, 7, 8}


# --- bad calls -----------------------------------------------------------------------------------

BAD = [
    (lambda: collate([4]), "pair 0 of pairs must be a pair"),
    (lambda: collate([([4], [4.5])]), "target of pair 0 of pairs must be a sequence of integers"),
    (lambda: collate([]), "pairs must hold at least one pair"),
    (lambda: collate([([5], [6]), ([1, 2], [6])]), "source of pair 1 of pairs must not be empty"),
    (
        lambda: TextBatches([[4], "b"], batch_size=2),
        "text 1 of texts must be a sequence of integers",
    ),
    (
        lambda: collate(PAIRS[:2]).to("abacus"),
        "device must be a device, such as 'cpu' or 'cuda:1'; got 'abacus'",
    ),
    (lambda: Batches(PAIRS, batch_size=2, shuffle=torch.ones(2)), "shuffle must be True or False"),
    (lambda: Batches(PAIRS), "max_tokens or batch_size, one of the two"),
    (lambda: Batches(PAIRS, batch_size=2).epoch(-1), "epoch must be an integer of at least 0"),
    (lambda: TokenBatchSampler([3, 4.5], max_tokens=9), "lengths, at 1, must be a sequence"),
    (lambda: TokenBatchSampler([(3, 4, 5)], max_tokens=9), "lengths, at 0, must be one number or"),
    (lambda: WindowBatches(IDS[:8], length=5, batch_size=1), "at least 9 tokens for a length of 5"),
]


@pytest.mark.parametrize(("call", "message"), BAD, ids=[message for _, message in BAD])
def test_a_bad_call_names_its_argument(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()
