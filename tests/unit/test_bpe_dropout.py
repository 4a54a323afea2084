"""Skipped merges: the text is the same, and frequencies are those of the algorithm."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as HFTokenizer
from tokenizers import models, pre_tokenizers

from transformer_lib.config import SpecialIds
from transformer_lib.data import Batches, BpeDropout, Tokenizer
from transformer_lib.runs import TASKS
from transformer_lib.runs.tasks import make_batches

TEXT = "low low low low low lower lower newest newest newest widest über Straße"
TOKENIZER = Tokenizer.train_bpe([TEXT], vocab_size=270)


@given(st.text(max_size=30), st.integers(0, 99))
def test_every_spelling_is_the_text(text, seed):
    ids = BpeDropout(TOKENIZER, 0.4).encode(text, random.Random(seed))
    assert TOKENIZER.decode(ids) == text


@given(st.text(max_size=30))
def test_without_dropout_it_is_the_tokenizers_own_encoding(text):
    draw = random.Random(0)
    assert BpeDropout(TOKENIZER, 0).encode(text, draw) == TOKENIZER.encode(text)
    assert BpeDropout(TOKENIZER, 0).encode(TEXT, draw) == TOKENIZER.encode(TEXT)


def test_an_existing_encoding():
    letters = {letter: i for i, letter in enumerate([*"abcdefghijk", "\u0120", "ab"])}
    ids = SpecialIds(pad_id=3, bos_id=4, eos_id=5)
    own = HFTokenizer(models.BPE(letters, [("a", "b")]))
    own.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer = Tokenizer(own, ids)
    assert tokenizer.encode("ab gh ab") == [12, 11, 6, 7, 11, 12]
    found = BpeDropout(tokenizer, 0.9).encode("ab gh ab", random.Random(0))
    assert found == [0, 1, 11, 6, 7, 11, 0, 1]


def test_frequencies_are_those_of_the_algorithm():
    # " ab" has one merge, (a, b), which is skipped with probability 0.3.
    tokenizer = Tokenizer.train_bpe(["xab yab zab"], vocab_size=261)
    assert tokenizer.tokens(tokenizer.encode("ab")) == ["▁", "ab"]
    spell, draw = BpeDropout(tokenizer, 0.3), random.Random(0)
    found = Counter(len(spell.encode("ab", draw)) for _ in range(10_000))
    assert found.keys() == {2, 3}
    assert found[3] / 10_000 == pytest.approx(0.3, abs=0.02)


def test_a_tokenizer_without_merges():
    with pytest.raises(ValueError, match="tokenizer must have merges"):
        BpeDropout(Tokenizer.characters(["abc"]), 0.1)
    with pytest.raises(ValueError, match="bpe_dropout: tokenizer must have merges"):
        make_batches(
            TASKS["number-words"], Tokenizer.characters(["a"]), [("a", "a")], 0.1, batch_size=1
        )
    with pytest.raises(ValueError, match="bpe_dropout must be left out"):
        make_batches(TASKS["captions"], TOKENIZER, [("", "low")], 0.1, batch_size=1)


def rows(batches, epoch):
    return [tensor.tolist() for batch in batches.epoch(epoch) for tensor in batch]


def test_pairs_are_drawn_again_in_each_epoch():
    pairs = [("low lower newest", "widest low")] * 4
    batches = make_batches(TASKS["multi30k"], TOKENIZER, pairs, 0.5, batch_size=2, seed=3)
    first = list(batches.epoch(0))
    assert rows(batches, 0) == rows(batches, 0)  # a resumed run gets the same spellings
    other = make_batches(TASKS["multi30k"], TOKENIZER, pairs, 0.5, batch_size=2, seed=4)
    assert rows(batches, 0) != rows(other, 0)
    assert len({str(rows(batches, epoch)) for epoch in range(9)}) > 3
    for batch in first:
        for row in batch.source.tolist():
            assert TOKENIZER.decode(row) == "low lower newest"
        for row in batch.labels.tolist():
            assert TOKENIZER.decode(row) == "widest low"


def test_no_spelling_is_longer_than_the_model_reads():
    pairs = [("low lower newest", "newest lower low"), ("lower", "newest")] * 3
    own = [[len(TOKENIZER.encode(text)) for text in pair] for pair in pairs]
    longest = max(max(source, target + 1) for source, target in own)  # with <bos>
    batches = make_batches(
        TASKS["multi30k"], TOKENIZER, pairs, 0.5, max_len=longest, batch_size=2, seed=3
    )
    lengths = [
        tensor.size(1) for epoch in range(20) for batch in batches.epoch(epoch) for tensor in batch
    ]
    assert max(lengths) == longest and min(lengths) < longest
    spell, draw = BpeDropout(TOKENIZER, 0.5), random.Random(0)
    fixed = TOKENIZER.encode("widest")
    found = [spell.encode("widest", draw, max_len=len(fixed)) for _ in range(9)]
    assert found == [fixed] * 9


def test_what_is_drawn_is_checked():
    batches = Batches([([4], [5])], batch_size=1, redraw=lambda i, draw: ([], [5]))
    with pytest.raises(ValueError, match="source of pair 0 of pairs must not be empty"):
        list(batches.epoch(0))
