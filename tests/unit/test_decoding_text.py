"""From text to text: results come in order, no matter how texts are batched."""

from functools import partial
from types import SimpleNamespace

import pytest
import torch

from transformer_lib import ModelConfig
from transformer_lib.config import SpecialIds
from transformer_lib.data import Tokenizer
from transformer_lib.decoding import (
    Ensemble,
    beam_search,
    candidates,
    complete,
    greedy,
    translate,
)
from transformer_lib.models import DecoderOnly

TOKENIZER = Tokenizer.characters(["abcdefg "])
BOS, EOS = 1, 2


class Echo(torch.nn.Module):
    """Repeats its source."""

    config = SimpleNamespace(max_len=30, special_ids=SpecialIds())

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.asked: list[int] = []

    def start(self, source):
        self.asked.append(len(source))
        padded = torch.cat([source, torch.full((len(source), 1), EOS)], 1)
        return State(padded.masked_fill(padded == 0, EOS))

    def step(self, tokens, state):
        logits = torch.full((len(tokens), TOKENIZER.vocab_size), -9.0)
        wanted = state.ids[:, min(state.at, state.ids.size(1) - 1)]
        logits[torch.arange(len(tokens)), wanted] = 9.0
        state.at += 1
        return logits, state


class State:
    def __init__(self, ids) -> None:
        self.ids, self.at = ids, 0

    def reorder(self, index) -> None:
        self.ids = self.ids[index]


SENTENCES = ["abc", "g", "", "fedcba", "ab", " ga "]
SAID = ["abc", "g", "", "fedcba", "ab", "ga"]


def test_a_sentence_that_is_too_long_is_named_before_any_is_translated() -> None:
    model = Echo()
    message = "sentences must have at most 30 tokens; number 1 has 31 and begins with 'gabgab"
    with pytest.raises(ValueError, match=message):
        translate(model, TOKENIZER, ["abc", "gab" * 10 + "c"], batch_size=1)
    assert model.asked == []


def test_translations_come_in_the_order_of_the_sentences() -> None:
    model = Echo()
    assert translate(model, TOKENIZER, SENTENCES, batch_size=2) == SAID
    assert model.asked == [2, 2, 1]  # the blank one is skipped
    assert translate(model, TOKENIZER, []) == []


def test_another_decoding() -> None:
    search = partial(beam_search, beam_size=3, n_best=2)
    assert translate(Echo(), TOKENIZER, SENTENCES, decode=search) == SAID
    found = candidates(Echo(), TOKENIZER, SENTENCES, decode=search)
    assert [options[0].text for options in found] == SAID
    assert [len(options) for options in found] == [2, 2, 1, 2, 2, 2]
    assert all(options[0].score >= options[-1].score for options in found)


def test_texts_that_a_beam_did_not_find_are_left_out() -> None:
    class Mute(Echo):  # can only say <eos>
        def step(self, tokens, state):
            logits = torch.full((len(tokens), TOKENIZER.vocab_size), -torch.inf)
            logits[:, EOS] = 0.0
            return logits, state

    search = partial(beam_search, beam_size=3)
    assert candidates(Mute(), TOKENIZER, ["abc"], decode=search) == [[("", 0.0)]]


@pytest.fixture(scope="module")
def language_model() -> DecoderOnly:
    torch.manual_seed(5)
    sizes = {"d_model": 12, "n_heads": 3, "n_layers": 2, "d_ff": 20, "max_len": 13}
    return DecoderOnly(ModelConfig(vocab_size=TOKENIZER.vocab_size, **sizes)).eval()


def by_hand(model: DecoderOnly, prompt: str, most: int) -> str:
    """One token at a time, without a cache."""
    ids = [BOS, *TOKENIZER.encode(prompt)]
    with torch.no_grad():
        for _ in range(most):
            ids.append(int(model(torch.tensor([ids]))[0, -1].argmax()))
            if ids[-1] == EOS:
                break
    return TOKENIZER.decode(ids)[len(prompt) :]


PROMPTS = ["abc", "g", "", "fedcba", "gab", "gab "]


@pytest.mark.parametrize("batch_size", [1, 2, 64])
def test_prompts_of_any_length_are_continued(language_model, batch_size) -> None:
    said = complete(language_model, TOKENIZER, PROMPTS, max_tokens=6, batch_size=batch_size)
    assert said == [by_hand(language_model, prompt, 6) for prompt in PROMPTS]
    assert len(set(said)) > 2
    twice = Ensemble([language_model, language_model])
    assert complete(twice, TOKENIZER, PROMPTS, max_tokens=6, batch_size=batch_size) == said


def batches(model: DecoderOnly, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that gets the size of each batch that the model starts to read."""
    sizes: list[int] = []
    start = model.start

    def counted(source):
        sizes.append(len(source))
        return start(source)

    monkeypatch.setattr(model, "start", counted)
    return sizes


@pytest.mark.parametrize("decode", [greedy, partial(beam_search, beam_size=3)])
def test_prompts_of_the_same_length_are_one_batch(language_model, decode, monkeypatch) -> None:
    alone = [
        complete(language_model, TOKENIZER, [prompt], max_tokens=6, decode=decode)[0]
        for prompt in PROMPTS
    ]
    sizes = batches(language_model, monkeypatch)
    assert complete(language_model, TOKENIZER, PROMPTS, max_tokens=6, decode=decode) == alone
    assert sorted(sizes) == [1, 1, 1, 1, 2]
    assert len(set(alone)) > 1


def test_a_prompt_with_less_room_gets_fewer_tokens(language_model) -> None:
    prompts = ["abcabcabca", "ab", "g"]  # the first has room for three more tokens
    said = complete(language_model, TOKENIZER, prompts, max_tokens=6)
    assert said == [by_hand(language_model, *two) for two in zip(prompts, (3, 6, 6), strict=True)]


def test_a_prompt_can_be_ids(language_model) -> None:
    ids = TOKENIZER.encode("ab")
    said = complete(language_model, TOKENIZER, [[BOS, *ids], "ab", [EOS, *ids]], max_tokens=5)
    assert said[0] == said[1] and len(said[2]) == 5  # an end in the prompt isn't the text's
    for wrong, message in (([], "number 1 of prompts must hold at least"), ([99], "got 99")):
        with pytest.raises(ValueError, match=message):
            complete(language_model, TOKENIZER, ["a", wrong])


def test_a_continuation_ends_where_the_positions_end(language_model) -> None:
    # 13 positions read <bos>, the prompt, and all but the last of what is added.
    assert len(complete(language_model, TOKENIZER, ["abcabcabcabc"])) == 1
    with pytest.raises(ValueError, match="prompts must have fewer than 13 tokens; number 1 has 13"):
        complete(language_model, TOKENIZER, ["a", "abcabcabcabca"])


# --- texts shown as they grow --------------------------------------------------------------------


class Reciter(Echo):
    """Says one text."""

    def __init__(self, ids: list[int], vocab_size: int) -> None:
        super().__init__()
        self.ids, self.size = [*ids, EOS], vocab_size

    def start(self, source):
        self.said = 0
        return None

    def step(self, tokens, state):
        logits = torch.zeros(len(tokens), self.size)
        logits[:, self.ids[min(self.said, len(self.ids) - 1)]] = 9.0
        self.said += 1
        return logits, state


BPE = Tokenizer.train_bpe(["low low low lower"] * 3, vocab_size=262)


def recited(text: str, **options) -> tuple[list[str], list[tuple[int, str, bool]]]:
    told: list[tuple[int, str, bool]] = []
    said = complete(
        Reciter(BPE.encode(text), BPE.vocab_size), BPE, ["low", ""],
        max_tokens=40 - 13, on_text=lambda *new: told.append(new), **options,
    )  # fmt: skip
    for i in range(2):
        assert "".join(new for number, new, _ in told if number == i) == said[i]
        ends = [end for number, _, end in told if number == i]
        assert ends == [False] * (len(ends) - 1) + [True]
    return said, told


def test_what_is_shown_piece_by_piece_is_the_text() -> None:
    said, told = recited("so low")
    assert said == [" so low", "so low"]
    assert [new for number, new, _ in told if number == 1] == ["s", "o", " lo", "w", ""]


def test_a_character_of_several_tokens_is_shown_whole() -> None:
    said, told = recited("ß€🙂!")
    assert said == [" ß€🙂!", "ß€🙂!"]
    assert [new for number, new, _ in told if number == 1] == ["ß", "€", "🙂", "!", ""]
    broken = BPE.encode("a🙂")[:-1]  # the last byte is missing
    model = Reciter(broken, BPE.vocab_size)
    (text,) = complete(model, BPE, [""], on_text=lambda *new: None)
    assert text == complete(model, BPE, [""])[0] == "a�"


@pytest.mark.parametrize(
    ("stop", "said"),
    [
        (["w l"], "lo"),
        (["xy"], "low lower low"),
        (["r lou", "we"], "low lo"),
        (["zz", "er", "lower"], "low "),  # the earliest one, not the first in the list
    ],
)
def test_a_stop_string_ends_a_text_and_is_never_shown(stop, said) -> None:
    texts, told = recited("low lower low", stop=stop)
    assert texts == [f" {said}", said]
    shown = ""
    for number, new, _ in told:
        if number == 1:
            shown += new
            assert said.startswith(shown)
    assert (
        complete(Reciter(BPE.encode("low lower low"), BPE.vocab_size), BPE, ["low", ""], stop=stop)
        == texts
    )


def test_the_beginning_of_a_stop_string_waits() -> None:
    said, told = recited("a ß€b", stop=["ß€c"])
    assert said[1] == "a ß€b"
    assert [new for number, new, _ in told if number == 1] == ["a", " ", "ß€b", ""]
    said, _ = recited("aß", stop=["ß€"])  # where nothing follows, it is text after all
    assert said[1] == "aß"


def test_an_empty_stop_string_is_refused(language_model) -> None:
    with pytest.raises(ValueError, match="stop must not contain an empty string"):
        complete(language_model, TOKENIZER, ["a"], stop=[""])
