import errno
import json
import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer_lib import files
from transformer_lib.config import SpecialIds
from transformer_lib.data import BpeDropout, Tokenizer

TEXTS = [
    "Ein Mädchen grüßt zwei Männer.",
    "Zwei Männer grüßen ein Mädchen in Blau.",
    "A girl greets two men, and two men greet a girl.",
]
BPE = Tokenizer.train_bpe(TEXTS, vocab_size=290)
CHARACTERS = Tokenizer.characters(TEXTS)


def test_special_ids_come_first():
    for tokenizer in (BPE, CHARACTERS):
        assert tokenizer.tokens(range(4)) == ["<pad>", "<bos>", "<eos>", "<unk>"]


@given(st.text())
@settings(deadline=None)
def test_bpe_gives_back_any_text(text):
    ids = BPE.encode(text)
    assert BPE.decode(ids) == text
    assert all(4 <= i < BPE.vocab_size for i in ids)


@given(st.text(alphabet=sorted(set("".join(TEXTS)))))
@settings(deadline=None)
def test_characters_give_back_texts_of_known_characters(text):
    assert CHARACTERS.decode(CHARACTERS.encode(text)) == text
    assert len(CHARACTERS.encode(text)) == len(text)


@pytest.mark.parametrize(
    "text", ["", " ", "  two  spaces ", "\t\n", "Straße", "İ ﬁ Å Å", "👩‍🚀", "字"]
)
def test_bpe_gives_back_the_awkward(text):
    assert BPE.decode(BPE.encode(text)) == text


@pytest.mark.parametrize("piece", ["<pad>", "<bos>", "<eos>", "<unk>"])
def test_a_spelled_special_piece_is_plain_text(piece, tmp_path):
    BPE.save(tmp_path / "t.json")
    for tokenizer in (BPE, Tokenizer.load(tmp_path / "t.json")):
        ids = tokenizer.encode(f"a {piece} b")
        assert min(ids) > 3
        assert tokenizer.decode(ids) == f"a {piece} b"
    assert min(Tokenizer.characters([piece]).encode(piece)) > 3


def test_unknown_characters():
    ids = CHARACTERS.encode("A字n")
    assert ids[1] == 3
    assert CHARACTERS.decode(ids) == "A<unk>n"


def test_decode_ends_at_eos_and_drops_pad_and_bos():
    ids = BPE.encode("two men")
    assert BPE.encode("two men", add_eos=True) == [*ids, 2]
    assert BPE.decode([1, *ids, 2, *BPE.encode("no more"), 0]) == "two men"


def test_tokens_are_readable():
    tokens = BPE.tokens(BPE.encode("zwei Männer 字"))
    assert "".join(tokens[:-3]) == "▁zwei▁Männer▁"
    assert "▁Männ" in tokens
    assert tokens[-3:] == ["�"] * 3  # the three bytes of one character
    assert CHARACTERS.tokens(CHARACTERS.encode("n A")) == ["n", "▁", "A"]


def test_first_word_is_the_piece_it_is_elsewhere():
    first, second = BPE.encode("Männer"), BPE.encode("zwei Männer")
    assert second[-len(first) :] == first


@pytest.mark.parametrize("sign", ["漢", "ก", "9", "!", " ", "\n", "😀"])
def test_a_text_without_spaces_is_cut_into_words(sign):
    """A word of n characters takes n² steps, in training and with BPE dropout."""
    text = f"low lower {sign * 40_000} newest"
    tokenizer = Tokenizer.train_bpe([text[:1_000]], vocab_size=270)
    words = tokenizer._tokenizer.pre_tokenizer.pre_tokenize_str(text)
    assert max(len(word) for word, _ in words) <= 51 * len(sign.encode())
    ids = BpeDropout(tokenizer, 0.5).encode(text, random.Random(0))
    assert tokenizer.decode(tokenizer.encode(text)) == tokenizer.decode(ids) == text


def test_vocab_size():
    assert BPE.vocab_size == 290
    assert CHARACTERS.vocab_size == 4 + len(set("".join(TEXTS)))
    assert Tokenizer.train_bpe(["ab"], vocab_size=1000).vocab_size == 260  # nothing occurs twice


def test_training_is_the_same_in_every_process():
    # Most pairs here occur equally often: who comes first must not hang on a hash.
    assert " ".join(BPE.tokens(range(260, 290))) == (
        "▁g en M� ▁M� ▁gr ▁Mä ei ch dch ee er in ir men nn tw wei �� ü� ▁a ▁men ▁tw ▁gir ▁gree "
        "▁grü� ▁Mädch ▁Männ ▁two ▁girl ▁greet"
    )


@pytest.mark.parametrize("tokenizer", [BPE, CHARACTERS], ids=["bpe", "characters"])
def test_save_and_load(tokenizer, tmp_path):
    path = tmp_path / "new folder" / "tokenizer.json"
    tokenizer.save(path)
    loaded = Tokenizer.load(path)
    text = "Ein Mädchen grüßt <eos> 字"
    assert loaded.encode(text) == tokenizer.encode(text)
    assert loaded.decode(loaded.encode(text)) == tokenizer.decode(tokenizer.encode(text))
    assert loaded.tokens(range(32)) == tokenizer.tokens(range(32))
    assert [p.name for p in path.parent.iterdir()] == ["tokenizer.json"]


@pytest.mark.parametrize("keep", [0, 1, 100, -1])
def test_a_truncated_file_is_named(keep, tmp_path):
    path = tmp_path / "tokenizer.json"
    BPE.save(path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(
        ValueError, match=r"tokenizer\.json is not a tokenizer file, or only a part"
    ):
        Tokenizer.load(path)


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"{}", b"[1, 2]", b'{"model": 3}'])
def test_another_file_is_named(content, tmp_path):
    (tmp_path / "t.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"t\.json is not a tokenizer file"):
        Tokenizer.load(tmp_path / "t.json")


def test_a_tokenizer_with_other_special_ids_is_refused(tmp_path):
    BPE.save(tmp_path / "t.json")
    content = json.loads((tmp_path / "t.json").read_text())
    vocab = content["model"]["vocab"]
    vocab["<pad>"], vocab["!"] = vocab["!"], vocab["<pad>"]
    content["added_tokens"] = []
    (tmp_path / "t.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match="ids 0 to 3 must be"):
        Tokenizer.load(tmp_path / "t.json")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.json"):
        Tokenizer.load(tmp_path / "none.json")


def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "tokenizer.json"
    CHARACTERS.save(path)

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        BPE.save(path)
    assert Tokenizer.load(path).vocab_size == CHARACTERS.vocab_size
    assert [p.name for p in tmp_path.iterdir()] == ["tokenizer.json"]


@pytest.mark.parametrize(
    "make", [lambda t: Tokenizer.train_bpe(t, vocab_size=290), Tokenizer.characters]
)
def test_wrong_texts(make):
    with pytest.raises(TypeError, match="texts must be several strings"):
        make("one text")
    with pytest.raises(TypeError, match="number 1 of texts must be a str; got int"):
        make(["a", 3])
    with pytest.raises(ValueError, match="texts must hold at least one"):
        make([])


def test_wrong_arguments():
    with pytest.raises(ValueError, match="vocab_size must be an integer of at least 260, got 259"):
        Tokenizer.train_bpe(TEXTS, vocab_size=259)
    with pytest.raises(TypeError, match="text must be a str; got list"):
        BPE.encode(["a"])
    for read in (BPE.decode, BPE.tokens):
        with pytest.raises(ValueError, match="ids must be from 0 to 289; got 290"):
            read([5, 290])
        with pytest.raises(ValueError, match="got -1"):
            read([-1])


def test_a_word_is_one_piece_only_where_it_stands_alone():
    tokenizer = Tokenizer.characters(["two-one tone", "zwei"], words={"two", "one"})
    assert tokenizer.tokens(tokenizer.encode("one-two")) == ["one", "-", "two"]
    assert tokenizer.tokens(tokenizer.encode("tone two")) == [*"tone▁", "two"]
    assert tokenizer.decode(tokenizer.encode("one-two tone")) == "one-two tone"


def test_words_are_pieces_after_saving(tmp_path):
    tokenizer = Tokenizer.characters(["forty-two"], words=["forty", "two"])
    tokenizer.save(tmp_path / "tokenizer.json")
    again = Tokenizer.load(tmp_path / "tokenizer.json")
    assert again.encode("forty-two") == tokenizer.encode("forty-two")
    assert again.vocab_size == tokenizer.vocab_size == 4 + len(set("forty-two")) + 2


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        ("two", TypeError, "words must be several strings"),
        ([2], TypeError, "number 0 of words must be a str; got int"),
        (["two", ""], ValueError, "words must not be empty"),
        (["two", "<eos>"], ValueError, "words must not be special pieces; got '<eos>'"),
    ],
)
def test_words_that_are_none(words, error, message):
    with pytest.raises(error, match=message):
        Tokenizer.characters(["two"], words=words)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Tokenizer("BPE"), "tokenizer must be a tokenizers.Tokenizer; got str"),
        (lambda: Tokenizer.train_bpe(3, vocab_size=300), "texts must be several strings"),
        (
            lambda: Tokenizer.train_bpe(["a", None], vocab_size=300),
            "number 1 of texts must be a str; got NoneType",
        ),
        (lambda: Tokenizer.train_bpe(["a"], vocab_size=300.0), "vocab_size must be an integer"),
        (
            lambda: Tokenizer.characters(["a"], words=[4]),
            "number 0 of words must be a str; got int 4",
        ),
        (lambda: BPE.encode(b"bytes"), "text must be a str; got bytes"),
        (lambda: BPE.encode("\ud800"), "text must be valid Unicode"),
        (lambda: BPE.decode(7), "ids must be a sequence of integers; got int 7"),
        (lambda: BPE.decode([7.5]), "ids must be a sequence of integers"),
        (lambda: BPE.decode(["7"]), "ids must be a sequence of integers"),
        (lambda: BPE.tokens([-1]), "ids must hold integers from 0"),
        (lambda: BPE.tokens([290]), "ids must be from 0 to 289; got 290"),
        (lambda: BPE.save(5), "path must be a path, got 5"),
        (lambda: Tokenizer.load(None), "path must be a path, got None"),
        (lambda: Tokenizer.load("a\0b"), "path must be a path, got"),
        (lambda: BPE.save(""), "path must be a path, got"),
        (lambda: BPE.encode("a", add_eos=torch.zeros(2)), "add_eos must be True or False"),
    ],
)
def test_a_bad_call_names_its_argument(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()


def test_an_existing_encoding_keeps_its_ids(tmp_path):
    """GPT-2's files, in small: what its own class of transformers makes of them, we do, too."""
    transformers = pytest.importorskip("transformers")
    from tokenizers import ByteLevelBPETokenizer

    texts = ["Low, lower, lowest!", "  the new  newest\nwide 42", "straße 😀 日本", "<|endoftext|>"]
    learned = ByteLevelBPETokenizer()
    learned.train_from_iterator(texts * 3, vocab_size=300, show_progress=False)
    vocab = learned.get_vocab()
    end = vocab["<|endoftext|>"] = len(vocab)
    learned.save_model(str(tmp_path))
    (tmp_path / "vocab.json").write_text(json.dumps(vocab))
    theirs = transformers.GPT2TokenizerFast.from_pretrained(tmp_path)
    ids = SpecialIds(pad_id=0, bos_id=end, eos_id=end)
    ours = Tokenizer.from_bpe(tmp_path / "vocab.json", tmp_path / "merges.txt", special_ids=ids)
    assert ours.vocab_size == len(vocab)
    for text in texts[:3]:
        found = ours.encode(text)
        assert found == theirs(text)["input_ids"]
        assert ours.decode([end, *found, end, 0, 0]) == text  # 0 pads, and is a piece as well
    assert ours.decode(ours.encode(texts[3])) == texts[3]  # spelled, not the end
    ours.save(tmp_path / "tokenizer.json")
    again = Tokenizer.load(tmp_path / "tokenizer.json")
    assert again == ours and again.special_ids == ids
    assert again != Tokenizer.from_bpe(
        vocab, [], special_ids=SpecialIds(pad_id=1, bos_id=end, eos_id=end)
    )


@pytest.mark.parametrize(
    ("vocab", "merges", "eos_id", "message"),
    [
        ({"a": 0, "b": 1}, [("a", "c")], 1, "vocab and merges must make a byte-pair encoding"),
        ({"a": 0, "b": 1}, [], 7, "vocab must have special_ids.bos_id"),
        ({"a": "b"}, [], 1, "vocab and merges must make"),
    ],
)
def test_files_that_do_not_fit_are_refused(vocab, merges, eos_id, message):
    ids = SpecialIds(pad_id=0, bos_id=eos_id, eos_id=eos_id)
    with pytest.raises(ValueError, match=message):
        Tokenizer.from_bpe(vocab, merges, special_ids=ids)
