import pickle

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transformer_lib.data import (
    Batches,
    TextBatches,
    TokenBatchSampler,
    collate,
    pad,
)

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


@pytest.mark.parametrize("source", [[], [2], [1, 2, 0]])
def test_an_empty_source_is_refused(source):
    with pytest.raises(ValueError, match="source of pair 1 of pairs must not be empty; got"):
        collate([([5], [6]), (source, [6])])


def test_pad():
    assert pad([[5], [6, 7]]).tolist() == [[5, 0], [6, 7]]
    assert pad([[], []]).shape == (2, 0)


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


def test_order_depends_on_seed_and_epoch():
    lengths = [3 + i % 5 for i in range(97)]
    orders = {
        str(TokenBatchSampler(lengths, max_tokens=41, seed=seed).epoch(epoch))
        for seed in (0, 1, 2)
        for epoch in (0, 1, 2)
    }
    assert len(orders) == 9
    fixed = TokenBatchSampler(lengths, max_tokens=41, shuffle=False)
    assert fixed.epoch(0) == fixed.epoch(1)
    # Not only the order of the batches changes, but also their content.
    sampler = TokenBatchSampler(lengths, max_tokens=41)
    assert {frozenset(b) for b in sampler.epoch(0)} != {frozenset(b) for b in sampler.epoch(1)}


def test_other_draws_change_nothing():
    sampler = TokenBatchSampler([3 + i % 5 for i in range(97)], max_tokens=41)
    before = sampler.epoch(4)
    torch.rand(3)
    sampler.epoch(9)
    assert sampler.epoch(4) == before
    assert pickle.loads(pickle.dumps(sampler)).epoch(4) == before


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
    with pytest.raises(ValueError, match="lengths must hold at least one"):
        TokenBatchSampler([], max_tokens=6)


@pytest.mark.parametrize("size", [{"max_tokens": 29}, {"batch_size": 7}])
def test_batches_resume_at_any_number(size):
    batches = Batches(PAIRS, **size, seed=3)
    whole = list(batches.epoch(2))
    assert len(whole) == len(batches)
    assert sum(len(batch.source) for batch in whole) == len(PAIRS)
    rest = Batches(PAIRS, **size, seed=3).epoch(2, start=5)
    assert same(list(rest), whole[5:])
    assert not same(list(batches.epoch(3)), whole)
    assert list(batches.epoch(2, start=len(whole))) == []


def test_batches_in_the_order_given():
    batches = Batches(PAIRS, batch_size=7, shuffle=False)
    assert same(list(batches.epoch(0)), [collate(PAIRS[i : i + 7]) for i in range(0, 53, 7)])


# --- texts of a language model -------------------------------------------------------------------

TEXTS = [target for _, target in PAIRS]


@pytest.mark.parametrize("size", [{"max_tokens": 29}, {"batch_size": 7}])
def test_texts_come_in_the_order_of_pairs(size):
    """Both kinds use one order, so what's tested for pairs holds for texts."""
    texts = TextBatches(TEXTS, **size, seed=3)
    whole = list(texts.epoch(2))
    assert len(whole) == len(texts)
    assert same(list(texts.epoch(2, start=3)), whole[3:])
    as_pairs = Batches([([9], text) for text in TEXTS], **size, seed=3)
    assert same(whole, [(batch.target_input, batch.labels) for batch in as_pairs.epoch(2)])


# --- bad calls -----------------------------------------------------------------------------------

NAN = float("nan")
BAD = [
    (lambda: pad([]), "rows must hold at least one id list; got none"),
    (lambda: pad("ab"), "rows must be several id lists, such as a list; got str 'ab'"),
    (lambda: pad([[4.0]]), r"row 0 of rows must be a sequence of integers; got list \[4.0\]"),
    (lambda: pad([[-1]]), "row 0 of rows must hold integers from 0"),
    (lambda: collate([4]), "pair 0 of pairs must be a pair"),
    (lambda: collate([([4], [NAN])]), "target of pair 0 of pairs must be a sequence of integers"),
    (lambda: collate([]), "pairs must hold at least one pair"),
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
    (lambda: Batches(PAIRS, max_tokens=9, batch_size=9), "max_tokens or batch_size, one of the"),
    (lambda: Batches(PAIRS, batch_size=2).epoch(-1), "epoch must be an integer of at least 0"),
    (lambda: Batches(PAIRS, batch_size=2).epoch(0, "1"), "start must be an integer"),
    (lambda: TokenBatchSampler([3, 4.5], max_tokens=9), "lengths, at 1, must be a sequence"),
    (lambda: TokenBatchSampler([(3, 4, 5)], max_tokens=9), "lengths, at 0, must be one number or"),
]


@pytest.mark.parametrize(("call", "message"), BAD, ids=[message for _, message in BAD])
def test_a_bad_call_names_its_argument(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()


def test_rows_may_be_tensors_ranges_and_tuples():
    rows = [torch.tensor([5, 6]), range(7, 8), (9,)]
    assert pad(rows).tolist() == [[5, 6], [7, 0], [9, 0]]
    assert pad(torch.tensor([[5, 6], [7, 8]])).tolist() == [[5, 6], [7, 8]]
