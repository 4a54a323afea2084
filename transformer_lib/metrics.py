"""Scores of translations, each with a signature that says how it was counted."""

from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any, NamedTuple, cast

from transformer_lib.validation import check_count, text_list

__all__ = [
    "Difference",
    "Score",
    "bleu",
    "bleu_lowercased",
    "bleu_tokenized",
    "chrf",
    "exact_match",
    "paired_bootstrap",
]


class Score(NamedTuple):
    """How good a model is on a split, and how that was counted."""

    metric: str
    value: float
    signature: str  # how it was counted
    sentences: int  # how many were


class Difference(NamedTuple):
    """How much better one system is than another, and how likely that is by chance."""

    metric: str
    value: float  # of the first, minus that of the second
    p_value: float
    signature: str


def bleu(translations: Sequence[str], references: Sequence[str]) -> Score:
    """Compute cased, detokenized BLEU with sacreBLEU, the score that papers can compare.

    Raises:
        TypeError, ValueError: not equally many strings, at least one.

    Source:
        Post (2018), *A Call for Clarity in Reporting BLEU Scores*.
    """
    return _score("bleu", translations, references)


def bleu_lowercased(translations: Sequence[str], references: Sequence[str]) -> Score:
    """Compute BLEU of lowercased, tokenized German, as papers on Multi30k report it.

    Both sides are processed like the dataset's own ``.lc.norm.tok`` files: lowercased, then
    normalized and tokenized by Moses' scripts, here ``sacremoses``. The score is higher than
    :func:`bleu`'s, and not comparable: no capital can be wrong, and each punctuation mark counts as
    a word.

    Raises:
        TypeError, ValueError: as :func:`bleu`.
        ImportError: ``sacremoses`` isn't installed.

    Source:
        Wu et al. (2021), *Good for Misconceived Reasons: An Empirical Revisiting on the Need for
        Visual Context in Multimodal Machine Translation*, which reports this score on Multi30k.
    """
    return _score("bleu_lowercased", translations, references)


def bleu_tokenized(translations: Sequence[str], references: Sequence[str]) -> Score:
    """Compute :func:`bleu_lowercased` of text that is already lowercased and tokenized.

    For ``multi30k.load(split, lowercase=True)``. All but one of its 2,014 references for validation
    and test are what :func:`bleu_lowercased` makes of the raw ones. Errors as :func:`bleu`.
    """
    return _score("bleu_tokenized", translations, references)


def chrf(translations: Sequence[str], references: Sequence[str]) -> Score:
    """Compute the F-score of character n-grams, from 0 to 100, which also rewards half-right words.

    Errors as :func:`bleu`.

    Source:
        Popović (2015), *chrF: character n-gram F-score for automatic MT evaluation*.
    """
    return _score("chrf", translations, references)


def exact_match(translations: Sequence[str], references: Sequence[str]) -> Score:
    """Compute the percentage of translations that are right to the last character."""
    translations, references = _both("translations", translations, references)
    right = sum(a == b for a, b in zip(translations, references, strict=True))
    return Score("exact_match", 100 * right / len(references), "percent", len(references))


def paired_bootstrap(
    score: Callable[[Sequence[str], Sequence[str]], Score],
    translations: Sequence[str],
    others: Sequence[str],
    references: Sequence[str],
    *,
    samples: int = 1000,
) -> Difference:
    """Test whether one system is better than another, or whether that depends on the sentences.

    Each draw is a bootstrap sample of the sentences, the same one for both systems. ``p_value`` is
    sacreBLEU's: take the absolute difference in each draw, and their mean. The p-value is the share
    of draws that exceed the mean by more than the difference on the sentences themselves, with one
    added to both counts, so it's never 0.

    Args:
        score: :func:`bleu`, :func:`bleu_lowercased`, :func:`bleu_tokenized` or :func:`chrf`.
        translations, others: of the two systems, in the order of the references.
        references: the right translations.
        samples: number of draws.

    Raises:
        ValueError: another score; ``samples`` below 1; not equally many strings, at least one.
        TypeError: an argument of the wrong type.
        ImportError: :func:`bleu_lowercased` without ``sacremoses``.

    Source:
        Koehn (2004), *Statistical Significance Tests for Machine Translation Evaluation*.

    Example:
        >>> right, wrong = ["ein Hund schläft im Gras"] * 30, ["ein Kind schläft im Gras"] * 30
        >>> found = paired_bootstrap(bleu, right, wrong, right, samples=50)
        >>> round(found.value, 1), found.p_value < 0.05
        (81.7, True)
    """
    from sacrebleu.significance import PairedTest, Result

    name = getattr(score, "__name__", None)
    known = ("bleu", "bleu_tokenized", "bleu_lowercased", "chrf")
    if name not in known:
        raise ValueError(f"score must be one of {', '.join(known)}; got {score!r}")
    check_count("samples", samples)
    translations, references = _both("translations", translations, references)
    others, _ = _both("others", others, references)
    metric, prepare, tokenizer = _way(name)
    systems: list[tuple[str, Sequence[str]]]
    systems = [("others", list(map(prepare, others)))]  # the first one is the baseline
    systems += [("translations", list(map(prepare, translations)))]
    test = PairedTest(systems, {"": metric}, [list(map(prepare, references))], "bs", samples)
    signatures, found = test()
    (name_there,) = found.keys() - {"System"}  # sacreBLEU's name of the metric
    before, after = cast(list[Result], found[name_there])
    signature = str(signatures[name_there]).replace("tok:none", tokenizer)
    return Difference(name, after.score - before.score, cast(float, after.p_value), signature)


def _score(name: str, translations: Any, references: Any) -> Score:
    translations, references = _both("translations", translations, references)
    metric, prepare, tokenizer = _way(name)
    found = metric.corpus_score(list(map(prepare, translations)), [list(map(prepare, references))])
    signature = str(metric.get_signature()).replace("tok:none", tokenizer)
    return Score(name, found.score, signature, len(references))


def _way(name: str) -> tuple[Any, Callable[[str], str], str]:
    """SacreBLEU's metric, what to do to a text first, and the tokenizer if it isn't sacreBLEU's."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    if name == "chrf":
        return CHRF(), str, ""
    if name == "bleu":
        return BLEU(), str, ""
    metric = BLEU(lowercase=True, tokenize="none", force=True)
    if name == "bleu_tokenized":
        return metric, str, "tok:none"
    from sacremoses import MosesPunctNormalizer, MosesTokenizer

    normalizer, tokenizer = MosesPunctNormalizer("de"), MosesTokenizer("de")

    def tokenized(text: str) -> str:
        return " ".join(tokenizer.tokenize(normalizer.normalize(text.lower())))

    return metric, tokenized, f"tok:sacremoses-{version('sacremoses')}"


def _both(name: str, translations: Any, references: Any) -> tuple[list[str], list[str]]:
    translations = text_list(name, translations, least=1)
    references = text_list("references", references, least=1)
    if len(translations) != len(references):
        raise ValueError(
            f"{name} must be as many as references, {len(references)}; got {len(translations)}"
        )
    return translations, references
