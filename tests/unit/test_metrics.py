"""Scores: which text they count, how they are signed, and what chance alone does."""

import pytest

from transformer_lib import metrics


def test_bleu_is_cased_detokenized_and_signed() -> None:
    name, value, signature, count = metrics.bleu(["Ein Mann fährt Rad."], ["Ein Mann fährt Rad."])
    assert (name, round(value, 6), count) == ("bleu", 100, 1)
    assert "case:mixed" in signature and "tok:13a" in signature
    assert metrics.bleu(["ein mann fährt rad."], ["Ein Mann fährt Rad."])[1] < 60


def test_lowercased_bleu_counts_moses_tokens() -> None:
    name, value, signature, count = metrics.bleu_lowercased(
        ["ein mann fährt, „rad“."], ['Ein Mann fährt, "Rad".']
    )
    assert (name, round(value, 6), count) == ("bleu_lowercased", 100, 1)
    assert "case:lc" in signature and "tok:sacremoses" in signature
    # One of five pieces is wrong, and with it n-grams of each order.
    assert metrics.bleu_lowercased(["ein mann fährt auto."], ["Ein Mann fährt Rad."])[1] < 60


def test_tokenized_bleu_takes_words_as_they_are() -> None:
    name, value, signature, _ = metrics.bleu_tokenized(["ein mann , er fährt ."] * 2, ["x"] * 2)
    assert name == "bleu_tokenized" and value < 1
    assert "case:lc" in signature and "tok:none" in signature
    split = metrics.bleu_tokenized(["ein mann fährt rad ."], ["ein mann fährt rad ."]).value
    glued = metrics.bleu_tokenized(["ein mann fährt rad."], ["ein mann fährt rad ."]).value
    assert round(split, 6) == 100 and glued < 60


def test_chrf_counts_characters() -> None:
    half = metrics.chrf(["ein Mann fährt Rad"], ["ein Mann fährt Räder"])
    assert half.metric == "chrf" and "nc:6" in half.signature and 60 < half.value < 100
    assert metrics.chrf(["der Hund"], ["der Hund"]).value == pytest.approx(100)


def test_a_bootstrap_tells_a_difference_from_chance() -> None:
    references = [f"ein Mann mit Hut {i} geht zum Markt" for i in range(60)]
    few = [text.replace("Hut", "Rad") if i == 7 else text for i, text in enumerate(references)]
    many = [text.replace("Hut", "Rad") if i % 2 else text for i, text in enumerate(references)]
    for score in (metrics.bleu, metrics.chrf):
        clear = metrics.paired_bootstrap(score, references, many, references, samples=200)
        assert clear.p_value < 0.01
        expected = score(references, references).value - score(many, references).value
        assert clear.value == pytest.approx(expected) and clear.metric == score.__name__
        back = metrics.paired_bootstrap(score, many, references, references, samples=200)
        assert back.value == pytest.approx(-expected) and "bs:200" in back.signature
    chance = metrics.paired_bootstrap(metrics.bleu, references, few, references, samples=200)
    assert chance.value > 0 and chance.p_value > 0.05


def test_each_translation_has_a_reference() -> None:
    with pytest.raises(ValueError, match="translations must be as many as references, 2; got 1"):
        metrics.bleu(["a"], ["a", "b"])
