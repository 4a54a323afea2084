"""Padding, begin and end have one home, the config: nothing else brings ids of its own."""

import pytest
import torch
from tokenizers import Tokenizer as HFTokenizer
from tokenizers import models

from transformer_lib import DecoderOnly, ModelConfig, Transformer, beam_search, greedy, sample
from transformer_lib.data import Batches, TextBatches, Tokenizer, WindowBatches, collate
from transformer_lib.decoding import Ensemble, complete, translate
from transformer_lib.recurrent import RNNSeq2Seq
from transformer_lib.runs import TASKS
from transformer_lib.runs.tasks import make_batches
from transformer_lib.training import TrainConfig, cross_entropy, evaluate, fit

V = 11
IDS = {"pad_id": 5, "bos_id": 4, "eos_id": 3}
SIZES = {"vocab_size": V, "d_model": 12, "n_heads": 3, "n_layers": 1, "d_ff": 7, "dropout": 0.0}
CONFIG = ModelConfig(**SIZES, **IDS)
SOURCE = torch.tensor([[6, 7, 8], [9, 5, 5]])
ONE_STEP = TrainConfig(max_steps=1, warmup=1)


def translators(**ids: int) -> list[torch.nn.Module]:
    return [
        Transformer(ModelConfig(**SIZES, **ids)),
        RNNSeq2Seq(vocab_size=V, d_model=8, attention="additive", **ids),
    ]


def test_batches_have_the_ids_that_they_are_given() -> None:
    source, target, labels = collate([([6, 7], [8]), ([9], [])], special_ids=CONFIG)
    assert source.tolist() == [[6, 7], [9, 5]]
    assert target.tolist() == [[4, 8], [4, 5]]
    assert labels.tolist() == [[8, 3], [3, 5]]
    windows = WindowBatches([6, 7, 8], length=2, batch_size=2, shuffle=False, special_ids=CONFIG)
    assert [tensor.tolist() for tensor in next(windows.epoch(0))] == [
        [[4, 6], [4, 5]],
        [[6, 7], [8, 5]],
    ]
    with pytest.raises(ValueError, match="source of pair 0 of pairs must not be empty"):
        collate([([5, 3], [8])], special_ids=CONFIG)
    collate([([0, 1], [8])], special_ids=CONFIG)


@pytest.mark.parametrize("which", [0, 1])
def test_padding_is_neither_learned_nor_measured(which: int) -> None:
    pairs = [([6, 7], [8, 9, 8]), ([9], [])]  # five labels, three of padding
    batches = Batches(pairs, batch_size=2, special_ids=CONFIG)
    model = translators(**IDS)[which]
    source, target, labels = next(batches.epoch(0))
    with torch.no_grad():
        log_p = model.eval()(source, target).log_softmax(-1)
    wanted = -log_p[labels != 5].gather(-1, labels[labels != 5][:, None]).mean().item()
    assert evaluate(model, batches)["loss"] == pytest.approx(wanted, rel=1e-5)
    settings = TrainConfig(max_steps=1, warmup=1, peak_lr=0.1, label_smoothing=0.0, log_every=1)
    (record,) = fit(model, batches, settings, progress=False)
    assert (record["tokens"], record["loss"]) == (5, pytest.approx(wanted, rel=1e-5))


@pytest.mark.parametrize("use", [lambda *of: fit(*of, ONE_STEP, progress=False), evaluate])
@pytest.mark.parametrize(
    "make",
    [
        lambda **ids: Batches([([6], [7])], batch_size=1, **ids),
        lambda **ids: TextBatches([[6, 7]], batch_size=1, **ids),
        lambda **ids: WindowBatches([6, 7, 8], length=2, batch_size=1, **ids),
    ],
)
def test_batches_and_model_of_different_ids_are_refused(use, make) -> None:
    model = Transformer(CONFIG) if isinstance(make(), Batches) else DecoderOnly(CONFIG)
    with pytest.raises(ValueError, match=r"batches.*pad_id=5.*pad_id=0, bos_id=1, eos_id=2"):
        use(model, make())
    use(model, make(special_ids=CONFIG))


def test_class_0_counts_where_nothing_is_padding() -> None:
    logits, labels = torch.randn(4, 3), torch.tensor([0, 1, 2, 0])
    assert cross_entropy(logits, labels, pad_id=None).count == 4
    with pytest.raises(TypeError, match="pad_id"):
        cross_entropy(logits, labels)  # pyright: ignore[reportCallIssue]

    class Classes:
        def __len__(self) -> int:
            return 1

        def epoch(self, epoch: int):
            yield Rows((torch.randn(4, 5), labels))

    class Rows(tuple):
        def to(self, device):
            return self

    settings = TrainConfig(max_steps=1, warmup=1, peak_lr=0.1, log_every=1)
    (record,) = fit(torch.nn.Linear(5, 3), Classes(), settings, progress=False)
    assert record["tokens"] == 4


@pytest.mark.parametrize("decode", [greedy, sample, beam_search])
@pytest.mark.parametrize("which", [0, 1])
def test_decoding_takes_the_models_ids(decode, which: int, monkeypatch) -> None:
    torch.manual_seed(2)
    model, read = translators(**IDS)[which], []
    step = model.step

    def watched(tokens, state):
        read.append(tokens.tolist())
        logits, state = step(tokens, state)
        return logits.index_fill(-1, torch.tensor([3]), 9.0 if len(read) > 1 else -9.0), state

    monkeypatch.setattr(model, "step", watched)
    found = decode(model, SOURCE, max_len=6)
    ids = found.ids if decode is not beam_search else found.best.ids
    assert set(read[0]) == {4}  # begun with bos_id
    assert ids.shape == (2, 2) and (ids[:, 1] == 3).all()  # ended by eos_id


def test_what_is_over_is_filled_with_the_models_padding(monkeypatch) -> None:
    model = Transformer(CONFIG)
    rows = torch.tensor([[3, 9], [8, 3]])  # the first row ends at once, the second one later

    said = iter(rows.T)

    def step(tokens, state):
        return torch.nn.functional.one_hot(next(said), V) * 50.0, state

    monkeypatch.setattr(model, "step", step)
    assert greedy(model, SOURCE, max_len=4).ids.tolist() == [[3, 5], [8, 3]]


def test_a_model_without_ids_must_be_told() -> None:
    class Bare:
        def start(self, source):
            return None

        def step(self, tokens, state):
            return torch.zeros(len(tokens), V), state

    with pytest.raises(ValueError, match=r"bos_id must be given.*model has no config"):
        greedy(Bare(), SOURCE, max_len=2)  # pyright: ignore[reportArgumentType]
    found = greedy(Bare(), SOURCE, max_len=2, **IDS)  # pyright: ignore[reportArgumentType]
    assert found.ids.tolist() == [[0, 0], [0, 0]]


def test_members_of_an_ensemble_share_their_ids() -> None:
    one, other = Transformer(CONFIG), Transformer(ModelConfig(**SIZES))
    with pytest.raises(ValueError, match=r"models must share a vocabulary, .*d=5.*d=0"):
        Ensemble([one, other])


def test_an_ensemble_is_as_long_as_its_shortest_member() -> None:
    long, short = (DecoderOnly(ModelConfig(**SIZES, max_len=n)) for n in (30, 9))
    tokenizer = Tokenizer.characters(["abcdefg"])
    assert tokenizer.vocab_size == V
    for members in ([long, short], [short, long]):
        complete(Ensemble(members), tokenizer, ["abc"])  # as long as it goes


def test_a_tokenizers_own_ids_are_put_on_its_texts(monkeypatch) -> None:
    vocab = {letter: i for i, letter in enumerate("abcdefghijk")}
    tokenizer = Tokenizer(HFTokenizer(models.BPE(vocab, [])), CONFIG.special_ids)
    model, read = Transformer(CONFIG), []
    start = model.start
    monkeypatch.setattr(
        model, "start", lambda source: read.append(source.tolist()) or start(source)
    )
    translate(model, tokenizer, ["ghi", "a"])  # a is 0, which pads elsewhere
    assert sorted(read[0]) == [[0, 5, 5], [6, 7, 8]]
    batches = make_batches(TASKS["multi30k"], tokenizer, [("gh", "i"), ("a", "kk")], batch_size=2)
    assert evaluate(model, batches)["loss"] > 0


def test_a_tokenizer_of_other_ids_is_refused() -> None:
    tokenizer = Tokenizer.characters(["abcdefg"])
    for call in (
        lambda: translate(Transformer(CONFIG), tokenizer, ["abc"]),
        lambda: complete(DecoderOnly(CONFIG), tokenizer, ["abc"]),
    ):
        with pytest.raises(ValueError, match=r"tokenizer.*pad_id=0, bos_id=1, eos_id=2.*pad_id=5"):
            call()
