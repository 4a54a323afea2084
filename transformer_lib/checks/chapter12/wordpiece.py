"""The exercise `wordpiece`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from transformer_lib.checks.old.core import Case, Exercise


class Vocabulary(set[str]):
    """A set of pieces in which one cannot look for ever."""

    asked = 0

    def __contains__(self, piece: object) -> bool:
        self.asked += 1
        if self.asked > 2000:
            raise RuntimeError("2000 pieces were looked up, and the word is not cut yet")
        return super().__contains__(piece)

    def __repr__(self) -> str:
        return f"{{{', '.join(map(repr, sorted(self)))}}}"


Cut = Callable[[str, set[str]], list[str]]
UNKNOWN = "[UNK]"


def _cutter(
    *,
    mark: Callable[[int], str] = lambda start: "##" if start else "",
    sizes: Callable[[int], Iterable[int]] = lambda left: range(left, 0, -1),
    hole: Callable[[list[str], str], list[str] | None] = lambda pieces, rest: [UNKNOWN],
    written: Callable[[str, str], str] = lambda mark, piece: mark + piece,
    onward: Callable[[int, int], int] = lambda start, size: start + size,
    left: int = 0,
) -> Cut:
    """A cut from the left; `mark` before a piece by where it starts, `sizes` in which order they
    are tried, `hole` what becomes of the pieces so far and the rest where nothing fits (None goes
    on one letter later), `written` how a piece is reported, `onward` where the next
    one starts, `left` at how many letters it stops."""

    def wordpiece(word: str, vocabulary: set[str]) -> list[str]:
        pieces: list[str] = []
        start = 0
        while start < len(word) - left:
            for size in sizes(len(word) - start):
                if mark(start) + word[start : start + size] in vocabulary:
                    pieces.append(written(mark(start), word[start : start + size]))
                    start = onward(start, size)
                    break
            else:
                found = hole(pieces, word[start:])
                if found is not None:
                    return found
                start += 1
        return pieces

    return wordpiece


def _one_unknown_per_letter(pieces: list[str], rest: str) -> None:
    pieces.append(UNKNOWN)


def _skip(pieces: list[str], rest: str) -> None:
    return None


def _marked_afterwards(word: str, vocabulary: set[str]) -> list[str]:
    """Looked up without the ##, and handed back with it."""
    first, *rest = _cutter(mark=lambda start: "")(word, vocabulary)
    return [first, *("##" + piece for piece in rest)]


def _marked_at_each_return(word: str, vocabulary: set[str]) -> list[str]:
    """A recursion that marks all it gets back: once more for each piece in front."""
    found = _cutter(mark=lambda start: "", hole=lambda pieces, rest: [*pieces, UNKNOWN])
    return ["##" * i + piece for i, piece in enumerate(found(word, vocabulary))]


def _from_the_right(word: str, vocabulary: set[str]) -> list[str]:
    pieces: list[str] = []
    end = len(word)
    while end:
        for start in range(end):
            piece = ("##" if start else "") + word[start:end]
            if piece in vocabulary:
                pieces.insert(0, piece)
                end = start
                break
        else:
            return [UNKNOWN]
    return pieces


def _cuts(word: str, vocabulary: set[str], start: int = 0) -> Iterator[list[str]]:
    if start == len(word):
        yield []
    for end in range(len(word), start, -1):
        piece = ("##" if start else "") + word[start:end]
        if piece in vocabulary:
            yield from ([piece, *rest] for rest in _cuts(word, vocabulary, end))


def _with_a_way_back(word: str, vocabulary: set[str]) -> list[str]:
    return next(_cuts(word, vocabulary), [UNKNOWN])


def _fewest(word: str, vocabulary: set[str]) -> list[str]:
    return min(_cuts(word, vocabulary), key=len, default=[UNKNOWN])


def _not_whole(word: str, vocabulary: set[str]) -> list[str]:
    """Never looks whether the whole word, or the whole rest, is a piece."""
    return _cutter(sizes=lambda left: range(max(left - 1, 1), 0, -1))(word, vocabulary)


def _to_the_last_but_one(word: str, vocabulary: set[str]) -> list[str]:
    return _cutter(sizes=lambda left: range(left - 1, 0, -1))(word, vocabulary)


def _no_single_letters(word: str, vocabulary: set[str]) -> list[str]:
    return _cutter(sizes=lambda left: range(left, 1, -1))(word, vocabulary)


def _max_of_nothing(word: str, vocabulary: set[str]) -> list[str]:
    """`max` of the pieces that fit, of which there may be none."""
    pieces = _SHORT(word, vocabulary)
    return pieces if pieces != [UNKNOWN] else max([], key=len)


def _endless(word: str, vocabulary: set[str]) -> list[str]:
    while _SHORT(word, vocabulary) == [UNKNOWN]:
        pass
    return _SHORT(word, vocabulary)


def _one_letter_always_fits(word: str, vocabulary: set[str]) -> list[str]:
    """As the cut by the longest piece that the chapter shows for merges."""
    every = {mark + letter for mark in ("", "##") for letter in word}
    return _SHORT(word, vocabulary | every)


def _either_mark(word: str, vocabulary: set[str]) -> list[str]:
    """A piece inside the word may stand in the vocabulary with or without its ##."""
    bare = {"##" + piece for piece in vocabulary if not piece.startswith("##")}
    return _SHORT(word, vocabulary | bare)


def _either_mark_bare(word: str, vocabulary: set[str]) -> list[str]:
    return [
        piece if piece in vocabulary or piece == UNKNOWN else piece.removeprefix("##")
        for piece in _either_mark(word, vocabulary)
    ]


def _marked_in_front(word: str, vocabulary: set[str]) -> list[str]:
    return _SHORT("▁" + word, vocabulary)


def _first_only(word: str, vocabulary: set[str]) -> list[str]:
    return _SHORT(word, vocabulary)[:1]


_SHORT = _cutter()
MANY = {"un", "und", "under", "##d", "##er", "##ers", "##stand", "##st", "##a", "##and", "stand"}
LETTERS = {"a", "b", "##a", "##b", "##ab", "ab", "##aba"}


def _case(label: str, word: str, vocabulary: set[str]) -> Case:
    return Case(label, word, Vocabulary(vocabulary))


WORDPIECE = Exercise(
    name="wordpiece",
    reference=_SHORT,
    cases=[
        _case("the word is a piece", "und", {"und", "un", "##d"}),
        _case("two pieces", "under", {"und", "##er", "er"}),
        _case("the longest of several", "understand", MANY),
        _case("a piece is longer inside than in front", "ababab", LETTERS),
        _case("the inside is there without its mark alone", "stander", {"stand", "er", "st"}),
        _case("the front is there with its mark alone", "ersatz", {"##er", "##satz", "satz"}),
        _case("a letter that no piece has", "undq", {"und", "##er", "un"}),
        _case("a letter in the middle that no piece has", "unqer", {"un", "##er", "er"}),
        _case("the longest leads astray", "understand", {"un", "und", "##ders", "##tand", "##t"}),
        _case("a longer beginning, and more pieces", "abcd", {"a", "ab", "##c", "##d", "##bcd"}),
        _case("pieces of one letter", "abba", {"a", "##b", "##a"}),
    ],
    mistakes={
        "the pieces inside the word are looked up without their ##": [
            _cutter(mark=lambda start: ""),
            _marked_afterwards,
            _marked_at_each_return,
        ],
        "no piece inside a word is ever found: perhaps it is looked up with another mark than ## "
        "in front": [_cutter(mark=lambda start: "#" if start else "")],
        "the first piece is looked up with ##, too: only what does not begin the word has it": [
            _cutter(mark=lambda start: "##"),
        ],
        "the pieces are looked up right and returned without their ##: whoever puts them together "
        "could not tell where a word begins": _cutter(written=lambda mark, piece: piece),
        "the shortest piece is taken first": _cutter(sizes=lambda left: range(1, left + 1)),
        "only the rest becomes [UNK], and the pieces before it stay: the answer is [UNK] for the "
        "whole word": [
            _cutter(hole=lambda pieces, rest: [*pieces, UNKNOWN]),
            _cutter(hole=lambda pieces, rest: [*pieces, "##" + UNKNOWN]),
        ],
        "a letter that does not fit becomes an [UNK] of its own, and the cut goes on behind it": [
            _cutter(hole=_one_unknown_per_letter)
        ],
        "a letter that does not fit is skipped": _cutter(hole=_skip),
        "what does not fit is returned as it is, although the vocabulary does not have it": [
            _cutter(hole=lambda pieces, rest: [*pieces, rest]),
            _cutter(hole=lambda pieces, rest: [*pieces, "##" + rest if pieces else rest]),
        ],
        "where nothing fits, the pieces so far are returned, and the end of the word is lost": [
            _cutter(hole=lambda pieces, rest: pieces)
        ],
        "nothing fits, and the loop tries the same place for ever: the answer is [UNK] there": [
            _endless
        ],
        "the same piece is found for ever: after a piece, the next one starts where it ends": [
            _cutter(onward=lambda start, size: start)
        ],
        "the end of a piece is added to the start of the next one: that leaves letters out": [
            _cutter(onward=lambda start, size: start + start + size)
        ],
        "the ## of a piece is counted like letters of the word: that leaves letters out": [
            _cutter(onward=lambda start, size: start + size + (2 if start else 0))
        ],
        "the loop ends one letter too soon: a last letter that stands alone is lost": [
            _cutter(left=1)
        ],
        "nothing fits, and the longest of no pieces is asked for: the answer is [UNK] there": [
            _max_of_nothing
        ],
        "single letters are never tried: a range ends one letter too soon": _no_single_letters,
        "an unknown word gives an empty list": _cutter(hole=lambda pieces, rest: []),
        "an unknown word gives a string: the answer is a list, with [UNK] as its one piece": [
            _cutter(hole=lambda pieces, rest: UNKNOWN)  # type: ignore
        ],
        "an unknown word is called <unk>; BERT's name for it is [UNK]": [
            _cutter(hole=lambda pieces, rest: ["<unk>"])
        ],
        "the cut goes from right to left": _from_the_right,
        "it goes back and tries a shorter piece where the longest leads astray: that is a better "
        "cut, and not the one that BERT makes": _with_a_way_back,
        "it looks for the fewest pieces: that is a better cut, and not the one that BERT makes": [
            _fewest
        ],
        "the whole word, or the whole rest of it, is never looked up: a range ends one before its "
        "end": _not_whole,
        "every word comes out as [UNK]: perhaps a range ends one before its end, so that the last "
        "letter is never tried, or the word is looked up with a mark that the vocabulary does not "
        "have": [_to_the_last_but_one, _marked_in_front],
        "one letter always fits, whether the vocabulary has it or not": _one_letter_always_fits,
        "a piece inside the word is taken with its ## or without: without it, it is another "
        "piece, which begins words": [_either_mark, _either_mark_bare],
        "only the first piece is returned": _first_only,
    },
    section="Does the order of the merges matter?",
)
