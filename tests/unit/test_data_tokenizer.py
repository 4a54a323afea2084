import json
import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import Tokenizer as HFTokenizer

from transformer_lib.config import SpecialIds
from transformer_lib.data import BpeDropout, Tokenizer

TEXTS = [
    "Ein Mädchen grüßt zwei Männer.",
    "Zwei Männer grüßen ein Mädchen in Blau.",
    "A girl greets two men, and two men greet a girl.",
]
BPE = Tokenizer.train_bpe(TEXTS, vocab_size=290)
CHARACTERS = Tokenizer.characters(TEXTS)


@given(st.text())
@example("  two  spaces ")
@example("İ ﬁ Å 👩‍🚀 字")
def test_bpe_gives_back_any_text(text):
    ids = BPE.encode(text)
    assert BPE.decode(ids) == text
    assert all(4 <= i < BPE.vocab_size for i in ids)


def test_a_spelled_special_piece_is_plain_text(tmp_path):
    BPE.save(tmp_path / "t.json")
    text = "a <pad> <bos> <eos> <unk> b"
    for tokenizer in (BPE, Tokenizer.load(tmp_path / "t.json"), Tokenizer.characters([text])):
        assert tokenizer.tokens(range(4)) == ["<pad>", "<bos>", "<eos>", "<unk>"]
        ids = tokenizer.encode(text)
        assert min(ids) > 3 and tokenizer.decode(ids) == text


def test_unknown_characters():
    ids = CHARACTERS.encode("A字n ")
    assert ids[1] == 3 and len(ids) == 4
    assert CHARACTERS.decode(ids) == "A<unk>n "


def test_decode_ends_at_eos_and_drops_pad_and_bos():
    ids = BPE.encode("two men")
    assert BPE.decode([1, *ids, 2, *BPE.encode("no more"), 0]) == "two men"


def test_tokens_are_readable():
    tokens = BPE.tokens(BPE.encode("zwei Männer 字"))
    assert "".join(tokens[:-3]) == "▁zwei▁Männer▁"
    assert "▁Männ" in tokens
    assert tokens[-3:] == ["�"] * 3  # the three bytes of one character
    assert CHARACTERS.tokens(CHARACTERS.encode("n A")) == ["n", "▁", "A"]


@pytest.mark.parametrize("sign", ["漢", "9", "!", "\n"])
def test_a_text_without_spaces_is_cut_into_words(sign):
    """A word of n characters takes n² steps, in training and in BPE dropout."""
    text = f"low lower {sign * 10_000} newest"
    tokenizer = Tokenizer.train_bpe([text[:1_000]], vocab_size=270)
    words = tokenizer._tokenizer.pre_tokenizer.pre_tokenize_str(text)
    assert max(len(word) for word, _ in words) <= 51 * len(sign.encode())
    ids = BpeDropout(tokenizer, 0.5).encode(text, random.Random(0))
    assert tokenizer.decode(tokenizer.encode(text)) == tokenizer.decode(ids) == text


def test_training_is_the_same_in_every_process():
    # Most pairs here are equally frequent: their order mustn't depend on a hash.
    assert " ".join(BPE.tokens(range(260, 290))) == (
        "▁g en M� ▁M� ▁gr ▁Mä ei ch dch ee er in ir men nn tw wei �� ü� ▁a ▁men ▁tw ▁gir ▁gree "
        "▁grü� ▁Mädch ▁Männ ▁two ▁girl ▁greet"
    )


@pytest.mark.parametrize(
    "tokenizer",
    [BPE, CHARACTERS, Tokenizer.characters(TEXTS, words=["Ein", "zwei"])],
    ids=["bpe", "characters", "words"],
)
def test_save_and_load(tokenizer, tmp_path):
    path = tmp_path / "new folder" / "tokenizer.json"
    tokenizer.save(path)
    loaded = Tokenizer.load(path)
    text = "Ein Mädchen grüßt <eos> 字"
    assert loaded.encode(text) == tokenizer.encode(text)
    assert loaded.decode(loaded.encode(text)) == tokenizer.decode(tokenizer.encode(text))
    assert loaded.tokens(range(32)) == tokenizer.tokens(range(32))
    assert loaded.vocab_size == tokenizer.vocab_size
    assert [p.name for p in path.parent.iterdir()] == ["tokenizer.json"]


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"{}", b"[1, 2]", None])
def test_a_damaged_file_is_named(content, tmp_path):
    path = tmp_path / "t.json"
    BPE.save(path)
    path.write_bytes(path.read_bytes()[:-1] if content is None else content)
    with pytest.raises(ValueError, match=r"t\.json is not a whole tokenizer file"):
        Tokenizer.load(path)


def test_a_tokenizer_with_other_special_ids_is_refused(tmp_path):
    BPE.save(tmp_path / "t.json")
    content = json.loads((tmp_path / "t.json").read_text())
    vocab = content["model"]["vocab"]
    vocab["<pad>"], vocab["!"] = vocab["!"], vocab["<pad>"]
    content["added_tokens"] = []
    (tmp_path / "t.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match="ids 0 to 3 must be"):
        Tokenizer.load(tmp_path / "t.json")


def test_a_word_is_one_piece_except_inside_another():
    tokenizer = Tokenizer.characters(["two-one tone", "zwei"], words={"two", "one"})
    assert tokenizer.tokens(tokenizer.encode("one-two")) == ["one", "-", "two"]
    assert tokenizer.tokens(tokenizer.encode("tone two")) == [*"tone▁", "two"]
    assert tokenizer.decode(tokenizer.encode("one-two tone")) == "one-two tone"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Tokenizer.train_bpe([], vocab_size=300), "texts must hold at least one"),
        (lambda: Tokenizer.train_bpe(["a"], vocab_size=259), "an integer of at least 260, got 259"),
        (lambda: Tokenizer.characters(["a", 3]), "number 1 of texts must be a str; got int 3"),
        (lambda: BPE.encode("\ud800"), "text must be valid Unicode"),
        (lambda: BPE.tokens([290]), "ids must be from 0 to 289; got 290"),
    ],
)
def test_a_bad_call_names_its_argument(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()


def test_an_existing_encoding_keeps_its_ids(tmp_path):
    """Small files like GPT-2's, compared with its tokenizer in transformers."""
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
    own = theirs.backend_tokenizer.to_str()
    ours = Tokenizer(HFTokenizer.from_str(own), ids)
    assert ours.vocab_size == len(vocab)
    for text in texts[:3]:
        found = ours.encode(text)
        assert found == theirs(text)["input_ids"]
        assert ours.decode([end, *found, end, 0, 0]) == text  # 0 pads, and is also a piece
    assert ours.decode(ours.encode(texts[3])) == texts[3]  # spelled out, it ends nothing
    ours.save(tmp_path / "tokenizer.json")
    again = Tokenizer.load(tmp_path / "tokenizer.json")
    assert again == ours and again.special_ids == ids
    with pytest.raises(ValueError, match="must have a piece for bos_id and eos_id"):
        Tokenizer(HFTokenizer.from_str(own), SpecialIds(pad_id=0, bos_id=end, eos_id=len(vocab)))
    others = SpecialIds(pad_id=1, bos_id=end, eos_id=end)
    assert again != Tokenizer(HFTokenizer.from_str(own), others)
