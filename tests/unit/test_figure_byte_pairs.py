"""BytePairs: the page splits words like `tokenizers`."""

import random

import pytest
from figure_page import button, status, tell, told
from tokenizers import Tokenizer as Theirs
from tokenizers import models

from transformer_lib.figures.widgets import BytePairs
from transformer_lib.figures.widgets.byte_pairs import LONGEST, MARK

MODULE = "byte_pairs.js"
LETTERS = "abcé" + MARK


def learned(seed):
    """Merges in an order that learning could produce, and random words."""
    draw = random.Random(seed)
    pieces, merges = list(LETTERS), []
    while len(merges) < 40:
        pair = draw.choice(pieces), draw.choice([p for p in pieces if MARK not in p])
        if "".join(pair) not in pieces and len("".join(pair)) < 6:
            merges.append(pair)
            pieces.append("".join(pair))
    words = ["".join(draw.choices("abcéx", k=draw.randint(0, LONGEST))) for _ in range(80)]
    return merges, words


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("laid", [0, 1, 17, 40])
def test_pieces_and_ids_are_those_of_tokenizers(js, seed, laid):
    merges, words = learned(seed)
    body = """const id = m.rows(given.letters, given.merges);
    const pieces = given.words.map((word) => m.cuts(word, given.merges, given.laid));
    return [pieces, pieces.map((lines) => lines.at(-1).pieces.map(id))];"""
    page, ids = js(MODULE, body, letters=list(LETTERS), merges=merges, words=words, laid=laid)
    pieces = dict.fromkeys([*LETTERS, *map("".join, merges)])  # in the order of their ids
    known = {f"<{i}>": i for i in range(3)} | {"<unk>": 3} | {p: i for i, p in enumerate(pieces, 4)}
    theirs = Theirs(models.BPE(known, merges[:laid], unk_token="<unk>"))
    for word, lines, found in zip(words, page, ids, strict=True):
        assert found == theirs.encode(MARK + word).ids
        assert all("".join(line["pieces"]) == MARK + word for line in lines)
        lengths = [len(line["pieces"]) for line in lines]
        assert lengths == sorted(set(lengths), reverse=True)  # each line merges something
    assert max(map(len, page)) > 3 or laid < 17


def test_what_is_typed_becomes_a_word(js):
    typed = ["Two Words", "a,b;c:d&e=f#g%h", "x" * 20, "Größe", "▁x", ""]
    tidy = js("byte_pairs.js", "return given.typed.map(m.tidy);", typed=typed)
    assert tidy == ["twowords", "abcdefgh", "x" * LONGEST, "größe", "x", ""]
    sent = ["gr%C3%B6%C3%9Fe", "gr%C3", "word"]
    assert js("byte_pairs.js", "return given.sent.map(m.plain);", sent=sent) == [
        "größe",
        "grc3",
        "word",
    ]


@pytest.mark.slow
def test_a_word_is_typed_letter_by_letter_and_split_step_by_step(show):
    page = show(BytePairs(laid=15))
    field, boxes = page.get_by_role("textbox", name="word"), page.locator(".bp-pieces li:visible")
    field.fill("")
    assert status(page).startswith("Type a word")
    field.press_sequentially("Sixty seven!")
    assert told(page, "word") == "sixtyseven!"
    assert boxes.locator("b").all_inner_texts() == ["▁six", "ty", "s", "ev", "en", "!"]
    assert boxes.locator("small").last.inner_text() == "3"
    assert "! doesn’t have an id of its own: id 3" in status(page)
    assert field.input_value() == "Sixty seven!"  # the field stays as typed
    tell(page, word="nineteen", laid=0)
    said = []
    for name in ("Next",) * 7 + ("Back",):
        button(page, name).click()
        said.append(told(page, "laid"))
    assert said == [1, 5, 7, 11, 12, 14, 15, 14]  # the merges that change the word
    assert "merge 14, ▁ + nin" in status(page)
