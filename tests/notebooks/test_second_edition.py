"""Chapters in the form of the second edition keep to it: short, plain, complete in `mine.py`.

CONTRIBUTING, *How a chapter is written*, has the form.
"""

from __future__ import annotations

import json
import random
import re
import sys
from pathlib import Path

import pytest
import torch
from execute import ROOT
from safetensors.torch import load_file

from transformer_lib import (
    DecoderOnly,
    ModelConfig,
    MultiHeadAttention,
    RotaryPositions,
    SinusoidalPositions,
    Transformer,
    attention,
    causal_mask,
    greedy,
    padding_mask,
)
from transformer_lib.data import BOS, EOS, PAD, Batches, collate, pad
from transformer_lib.decoding.generate import distribution
from transformer_lib.layers import DecoderLayer, FeedForward
from transformer_lib.models import Decoder, Encoder, EncoderOnly
from transformer_lib.pretrained import bundled_folder, load_bundled
from transformer_lib.training import TrainConfig, fit

sys.path.insert(0, str(ROOT / "_ext"))
import mine
import reading

NAMES = sorted(path.stem for path in (ROOT / "chapters").glob("[0-9]*.ipynb"))

MOST_MINUTES, MOST_WORDS_DEEPER, MOST_LINES_OF_MINE = 35, 600, 40
MOST_ASSERTS, MOST_REFERENCES, MOST_LONG_SENTENCES, LONG = 4, 5, 3, 34
ASSERT = re.compile(r"^\s*(?:assert |torch\.testing\.assert_close)", re.M)
ODD = re.compile(
    r"\b(mend(s|ed|ing)?|for the while|in company|dear|dearest|the way around|is not lost on|"
    r"simply|obviously|just)\b",
    re.I,
)


def cells_of(path: Path) -> list[dict]:
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


def source(cell) -> str:
    return "".join(cell["source"])


def sentences(cells) -> list[str]:
    """Of running text: no lists, tables or headings."""
    text = "\n\n".join(reading.prose(cell) for cell in cells if cell["cell_type"] == "markdown")
    lines = [line for line in text.splitlines() if not re.match(r"\s*([-*|>#]|\d+\.)", line)]
    return re.split(r"(?<=[.!?])\s+|\n\s*\n", "\n".join(lines))


def complaints(cells) -> list[str]:
    """What of a chapter is not in the form."""
    found = []
    parts = reading.parts(cells)
    core = parts["core"]
    kinds = [kind for cell in cells for kind in reading.tags(cell)]

    minutes = reading.minutes(reading.count(core))
    if minutes > MOST_MINUTES:
        found.append(f"the first reading takes {minutes} minutes, at most {MOST_MINUTES}")
    for kind in ("recall", "predict", "exercise"):
        if kind not in kinds:
            found.append(f"no cell tagged {kind}")
    if not any(source(cell).startswith("## Break it") for cell in core):
        found.append('no section "Break it"')
    for cell in cells:
        if "mine" in reading.tags(cell):
            lines = [line for line in source(cell).splitlines() if line.strip()]
            if len(lines) > MOST_LINES_OF_MINE:
                found.append(f"mine.py grows by {len(lines)} lines, at most {MOST_LINES_OF_MINE}")
            if "transformer_lib" in source(cell):
                found.append("mine.py imports the library")

    seen = [cell for cell in core if cell["cell_type"] == "code"
            and not reading.tags(cell) & reading.NO_CODE]  # fmt: skip
    asserts = sum(len(ASSERT.findall(source(cell))) for cell in seen)
    if asserts > MOST_ASSERTS:
        found.append(f"{asserts} asserts are seen, at most {MOST_ASSERTS}")
    if any("getsource" in source(cell) for cell in cells):
        found.append("a listing of the library's source")

    text = [cell for cell in core if "**Builds on**" not in source(cell)]
    references = sum(len(re.findall(r"\[[^]]*\]\(\d\d_\w+\.ipynb", source(cell))) for cell in text
                     if cell["cell_type"] == "markdown")  # fmt: skip
    if references > MOST_REFERENCES:
        found.append(f"{references} references to other chapters, at most {MOST_REFERENCES}")
    long = [s for s in sentences(core) if len(s.split()) > LONG]
    if len(long) > MOST_LONG_SENTENCES:
        found.append(
            f"{len(long)} sentences over {LONG} words, at most {MOST_LONG_SENTENCES}: {long}"
        )
    odd = [m[0] for cell in cells if cell["cell_type"] == "markdown"
           for m in ODD.finditer(reading.prose(cell))]  # fmt: skip
    if odd:
        found.append(f"words that the book does not use: {', '.join(odd)}")

    for title, section in sections(parts["deeper"]):
        words = reading.count(section)["words"]
        if words > MOST_WORDS_DEEPER:
            found.append(f"Deeper, {title}: {words} words, at most {MOST_WORDS_DEEPER}")
        if not title.endswith("?"):
            found.append(f"Deeper, {title}: the title is no question")
    return found


def sections(cells) -> list[tuple[str, list]]:
    """The sections under "Deeper": their titles and cells."""
    found: list[tuple[str, list]] = []
    for cell in cells:
        title = re.match(r"### (.*)", source(cell)) if cell["cell_type"] == "markdown" else None
        if title:
            found.append((title[1], []))
        if found:
            found[-1][1].append(cell)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_chapter_keeps_to_the_form(name):
    assert complaints(cells_of(ROOT / "chapters" / f"{name}.ipynb")) == []


def state(chapter: int) -> dict:
    """What mine.py defines at the end of a chapter."""
    own_file: dict = {}
    exec(mine.states(ROOT / "chapters")[chapter], own_file)
    return own_file


def copy_into(theirs, own, *names: str) -> None:
    """Give the library's multi-head attention the matrices of a module of mine.py."""
    layers = [getattr(own, name) for name in names]
    theirs.load_state_dict(theirs.state_dict() | {
        "in_proj.weight": torch.cat([layer.weight for layer in layers]),
        "in_proj.bias": torch.cat([layer.bias for layer in layers]),
    })  # fmt: skip


@pytest.mark.parametrize("chapter", [1, 2, 5])
def test_the_attend_of_mine_is_the_librarys(chapter):
    own = state(chapter)["attend"]
    query, key, value = torch.randn(2, 3, 4), torch.randn(2, 5, 4), torch.randn(2, 5, 6)
    scale = 1.0 if chapter == 1 else None  # the scale comes in chapter 2
    torch.testing.assert_close(
        own(query, key, value), attention(query, key, value, scale=scale).output
    )
    if chapter > 1:
        mask = torch.rand(2, 3, 5) < 0.5
        mask[..., 0] = True
        torch.testing.assert_close(
            own(query, key, value, mask), attention(query, key, value, mask=mask).output
        )


def test_the_single_head_of_mine_is_the_librarys():
    own, theirs = state(4)["SingleHead"](8), MultiHeadAttention(d_model=8, n_heads=1)
    copy_into(theirs, own, "query", "key", "value")
    x, memory = torch.randn(2, 5, 8), torch.randn(2, 7, 8)
    torch.testing.assert_close(theirs.out_proj(own(x, memory)), theirs(x, memory))
    past = causal_mask(5)
    torch.testing.assert_close(theirs.out_proj(own(x, x, past)), theirs(x, mask=past))


def test_the_masks_of_mine_are_the_librarys():
    ids = torch.tensor([[5, 6, 7], [5, 0, 0]])
    assert torch.equal(state(5)["padding_mask"](ids), padding_mask(ids, 0))
    assert torch.equal(state(5)["causal_mask"](4), causal_mask(4))


def test_the_multi_head_attention_of_mine_is_the_librarys():
    own = state(6)["MultiHead"](d_model=21, n_heads=3).double()
    theirs = MultiHeadAttention(d_model=21, n_heads=3).double()
    copy_into(theirs, own, "query", "key", "value")
    theirs.out_proj.load_state_dict(own.output.state_dict())
    x, memory = torch.randn(2, 5, 21).double(), torch.randn(2, 7, 21).double()
    hidden = padding_mask(torch.tensor([[5] * 7, [5] * 4 + [0] * 3]), 0)
    torch.testing.assert_close(own(x, x), theirs(x))
    torch.testing.assert_close(own(x, x, causal_mask(5)), theirs(x, mask=causal_mask(5)))
    torch.testing.assert_close(own(x, memory, hidden), theirs(x, memory, mask=hidden))


def test_the_feed_forward_network_of_mine_is_the_librarys():
    own = state(7)["FeedForward"](d_model=6, d_ff=11)
    theirs = FeedForward(ModelConfig(vocab_size=10, d_model=6, n_heads=2, d_ff=11, dropout=0.0))
    theirs.up.load_state_dict(own.widen.state_dict())
    theirs.down.load_state_dict(own.narrow.state_dict())
    x = torch.randn(2, 3, 6)
    torch.testing.assert_close(own(x), theirs(x))


RESIDUALS = {  # the library's, in the order of mine.py's norms
    2: ["attention_residual", "feed_forward_residual"],
    3: ["self_residual", "cross_residual", "feed_forward_residual"],
}


def copy_stack(theirs, own) -> None:
    """Give the library's encoder or decoder the parameters of mine.py's."""
    for layer, other in zip(theirs.layers, own.layers, strict=True):
        attentions = [(layer.self_attention, other.attention)]
        if hasattr(other, "cross_attention"):
            attentions.append((layer.cross_attention, other.cross_attention))
        for part, its in attentions:
            copy_into(part, its, "query", "key", "value")
            part.out_proj.load_state_dict(its.output.state_dict())
        layer.feed_forward.up.load_state_dict(other.feed_forward.widen.state_dict())
        layer.feed_forward.down.load_state_dict(other.feed_forward.narrow.state_dict())
        names = RESIDUALS[len(other.norms)]
        if not hasattr(layer, names[0]):  # a decoder alone: what an encoder's layer is, renamed
            names = ["self_residual", "feed_forward_residual"]
        for name, norm in zip(names, other.norms, strict=True):
            getattr(layer, name).norm.load_state_dict(norm.state_dict())
    theirs.norm.load_state_dict(own.norm.state_dict())


def test_the_encoder_of_mine_is_the_librarys():
    sizes = {"d_model": 18, "n_heads": 3, "d_ff": 10, "n_layers": 2, "dropout": 0.5}
    own = state(8)["Encoder"](**sizes).double().eval()
    for parameter in own.parameters():
        torch.nn.init.normal_(parameter)
    theirs = Encoder(ModelConfig(vocab_size=9, pre_norm=True, **sizes)).double().eval()
    copy_stack(theirs, own)
    x = torch.randn(2, 5, 18).double()
    hidden = padding_mask(torch.tensor([[5] * 5, [5] * 3 + [0] * 2]), 0)
    torch.testing.assert_close(own(x, None), theirs(x))
    torch.testing.assert_close(own(x, hidden), theirs(x, hidden))


def test_dropout_of_mine_is_on_what_a_sublayer_adds():
    layer = state(8)["EncoderLayer"](d_model=6, n_heads=2, d_ff=7, dropout=1.0)
    x = torch.randn(2, 5, 6)
    assert torch.equal(layer(x, None), x)
    assert not torch.equal(layer.eval()(x, None), x)


def test_the_positions_of_mine_are_the_librarys():
    own, theirs = state(10)["positions"], SinusoidalPositions(d_model=12, max_len=40)
    torch.testing.assert_close(own(40, 12), theirs.table, atol=1e-5, rtol=0)
    x = torch.randn(2, 7, 12)
    torch.testing.assert_close(x + own(7, 12), theirs(x), atol=1e-5, rtol=0)


def test_the_transformer_of_mine_is_the_librarys():
    own = state(11)["Transformer"](vocab_size=11, d_model=12, n_heads=3, d_ff=7, n_layers=2)
    sizes = ModelConfig(vocab_size=11, d_model=12, n_heads=3, d_ff=7, n_layers=2, dropout=0.0)
    theirs = Transformer(sizes)
    for parameter in own.parameters():  # gains of 1 and biases of 0 would hide a mistake
        parameter.data += 0.1 * torch.randn_like(parameter)
    theirs.embedding.tokens.load_state_dict(own.embedding.state_dict())
    copy_stack(theirs.encoder, own.encoder)
    copy_stack(theirs.decoder, own.decoder)
    source = torch.tensor([[5, 6, 7, 8, 3], [5, 4, 0, 0, 0]])
    target = torch.tensor([[1, 9, 9, 4], [1, 7, 0, 0]])
    words = target != 0  # what is said at padding is for nobody
    torch.testing.assert_close(own(source, target)[words], theirs(source, target)[words])


def test_the_batches_of_mine_are_the_librarys():
    own = state(12)
    vocabulary = own["Vocabulary"]([["the", "cat", "eats"], "cat", "äz"])
    assert vocabulary.pieces == [
        "<pad>", "<bos>", "<eos>", "a", "c", "cat", "eats", "t", "the", "z", "ä",
    ]  # fmt: skip
    ids = vocabulary.encode(["the", "cat"])
    assert ids == [8, 5]
    assert vocabulary.decode([BOS, *ids, EOS, 4, PAD]) == ["the", "cat"]

    pairs = [(list(range(3, 4 + i)), list(range(5, 9 - i % 3))) for i in range(8)]
    random.seed(0)
    made = list(own["batches"](pairs, size=3))
    random.seed(0)
    order = random.sample(pairs, 8)
    assert [len(source) for source, _ in made] == [3, 3, 2] and order != pairs
    for i, (source, target) in enumerate(made):
        theirs = collate(order[3 * i : 3 * i + 3])
        read, say = target[:, :-1], target[:, 1:]
        assert torch.equal(source, theirs.source) and torch.equal(say, theirs.labels)
        assert torch.equal(read[say != PAD], theirs.target_input[say != PAD])
    random.seed(1)
    again = [source for source, _ in own["batches"](pairs, size=8)]
    assert not torch.equal(again[0], pad([source for source, _ in order]))


def test_the_training_of_mine_is_the_librarys():
    own = state(13)
    pairs = [([4, 5, 6], [7, 8]), ([5, 4], [8, 8, 9, 7]), ([6], [9])]

    def fresh():
        torch.manual_seed(0)
        return own["Transformer"](vocab_size=10, d_model=12, n_heads=3, d_ff=7, n_layers=1)

    settings = TrainConfig(max_steps=9, warmup=4, peak_lr=0.02, label_smoothing=0.2, log_every=1)
    history = fit(fresh(), Batches(pairs, batch_size=3), settings, progress=False)
    losses = own["train"](fresh(), pairs, epochs=9, size=3, peak=0.02, warmup=4, smoothing=0.2)
    torch.testing.assert_close(losses, history.column("loss")[1], rtol=1e-3, atol=1e-4)


def test_the_greedy_of_mine_is_the_librarys():
    own_file = state(14)
    sizes = {"vocab_size": 9, "d_model": 12, "n_heads": 3, "d_ff": 7, "n_layers": 2, "dropout": 0.5}
    source = torch.tensor([[5, 6, 7, 8, 3], [5, 4, 0, 0, 0], [3, 3, 8, 0, 0]])
    lengths = set()
    for seed in range(8):
        torch.manual_seed(seed)
        own, theirs = own_file["Transformer"](**sizes).train(), Transformer(ModelConfig(**sizes))
        for parameter in own.parameters():  # or it repeats itself
            parameter.data += torch.randn_like(parameter)
        theirs.embedding.tokens.load_state_dict(own.embedding.state_dict())
        copy_stack(theirs.encoder, own.encoder)
        copy_stack(theirs.decoder, own.decoder)
        for max_len in (1, 3, 20):
            ids = own_file["greedy"](own, source, max_len)
            assert torch.equal(ids, greedy(theirs, source, max_len=max_len).ids)
            lengths |= set((ids != 0).sum(dim=1).tolist())
    assert len(lengths) > 3, "rows that end at different times"


def gpts(n_layers=2, dropout=0.0, max_len=6):
    """The GPT of mine.py and the library's, with the same parameters."""
    sizes = {"vocab_size": 11, "d_model": 12, "n_heads": 3, "d_ff": 7, "n_layers": n_layers,
             "max_len": max_len, "dropout": dropout}  # fmt: skip
    own = state(18)["GPT"](**sizes)
    theirs = DecoderOnly(ModelConfig(positions="learned", scale_embeddings=False, **sizes))
    for parameter in own.parameters():  # gains of 1 and biases of 0 would hide a mistake
        parameter.data += 0.3 * torch.randn_like(parameter)
    theirs.embedding.tokens.load_state_dict(own.embedding.state_dict())
    theirs.embedding.positions.table.data = own.places.weight.detach()
    copy_stack(theirs.decoder, own.stack)
    return own, theirs


def test_the_gpt_of_mine_is_the_librarys():
    own, theirs = gpts()
    ids = torch.randint(11, (2, 5), generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(own(ids), theirs(ids))
    assert sum(p.numel() for p in own.parameters()) == sum(p.numel() for p in theirs.parameters())


def test_the_windows_of_mine_are_pieces_of_the_text():
    ids = torch.arange(100, 130)
    reads, labels = state(18)["windows"](ids, length=7, size=400)
    assert reads.shape == labels.shape == (400, 7)
    assert torch.equal(reads + 1, labels) and torch.equal(reads[:, 1:], labels[:, :-1])
    assert set(reads[:, 0].tolist()) == set(range(100, 123)), "each place is a beginning"


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"),
    [(1.0, None, 1.0), (0.5, None, 1.0), (1.0, 3, 1.0), (1.0, None, 0.6), (1.5, 6, 0.7)],
)
def test_generate_of_mine_draws_from_what_the_library_draws_from(temperature, top_k, top_p):
    own, theirs = gpts()
    generate = state(18)["generate"]
    start = torch.tensor([[4, 9, 2]]).repeat(20_000, 1)
    torch.manual_seed(0)
    drawn = generate(own, start, 1, temperature=temperature, top_k=top_k, top_p=top_p)
    assert torch.equal(drawn[:, :3], start)
    log_probs = theirs.eval()(start[:1])[:, -1].log_softmax(-1)
    probs, ids = distribution(log_probs, temperature, top_k, top_p)
    want = torch.zeros(11).scatter(0, ids[0], probs[0].detach())
    found = torch.bincount(drawn[:, 3], minlength=11) / len(drawn)
    assert torch.equal(found > 0, want > 1e-4) or (found - want)[want <= 1e-4].abs().max() < 1e-3
    torch.testing.assert_close(found, want, atol=0.02, rtol=0)


def test_generate_of_mine_reads_what_fits_and_drops_nothing():
    own, theirs = gpts(dropout=0.5, max_len=6)
    ids = state(18)["generate"](own.train(), torch.tensor([[3, 1, 4, 1, 5]]), 9, top_k=1)
    assert ids.shape == (1, 14) and not own.training
    for place in range(5, 14):  # the most probable one, given the latest six
        past = ids[:, max(0, place - 6) : place]
        assert theirs.eval()(past)[0, -1].argmax() == ids[0, place]


def berts():
    """The BERT of mine.py and the library's, with the same parameters."""
    sizes = {"vocab_size": 11, "d_model": 12, "n_heads": 3, "d_ff": 7, "n_layers": 2, "max_len": 6}
    own = state(19)["BERT"](**sizes).double().eval()
    theirs = EncoderOnly(ModelConfig(
        **sizes, positions="learned", scale_embeddings=False, output_bias=True, n_token_types=2,
    )).double().eval()  # fmt: skip
    for parameter in own.parameters():  # gains of 1 and biases of 0 would hide a mistake
        parameter.data += 0.3 * torch.randn_like(parameter)
    embedding = theirs.embedding
    for table, other in ((embedding.weight, own.embedding.weight), (embedding.bias, own.bias),
                         (embedding.types.weight, own.segments.weight),
                         (embedding.positions.table, own.places.weight)):  # fmt: skip
        table.data.copy_(other.data)
    copy_stack(theirs.encoder, own.encoder)
    theirs.head_dense.load_state_dict(own.head[0].state_dict())
    theirs.head_norm.load_state_dict(own.head[2].state_dict())
    return own, theirs


TWO_TEXTS = torch.tensor([[1, 5, 6, 2, 8, 2], [1, 4, 2, 0, 0, 0]])
SEGMENTS = torch.tensor([[0, 0, 0, 0, 1, 1], [0] * 6])


def test_the_bert_of_mine_is_the_librarys():
    own, theirs = berts()
    words = TWO_TEXTS != 0
    torch.testing.assert_close(own(TWO_TEXTS, SEGMENTS)[words], theirs(TWO_TEXTS, SEGMENTS)[words])


def test_the_classifiers_of_mine_read_the_librarys_vectors():
    own, theirs = berts()
    classifier = state(20)["BERTClassifier"](own, n_labels=3).double()
    first = theirs.encode(TWO_TEXTS, SEGMENTS)[:, 0]
    torch.testing.assert_close(classifier(TWO_TEXTS, SEGMENTS), classifier.label(first))

    own, theirs = gpts()
    classifier = state(20)["GPTClassifier"](own, n_labels=3).eval()
    answers, words = classifier(TWO_TEXTS)
    x = theirs.eval().decoder(theirs.embedding(TWO_TEXTS))
    torch.testing.assert_close(answers, classifier.label(x[[0, 1], [5, 2]]))
    torch.testing.assert_close(words, theirs(TWO_TEXTS))


def test_hide_of_mine_hides_as_bert_does():
    own = state(19)
    ids = torch.randint(4, 90, (100, 400))
    ids[:, 0], ids[:, -1], ids[::2, 300:] = own["CLS"], own["SEP"], PAD
    given, labels = own["hide"](ids, vocab_size=90)
    asked, words = labels != PAD, ids > own["MASK"]
    assert torch.equal(labels[asked], ids[asked]) and not (asked & ~words).any()
    assert torch.equal(given[~asked], ids[~asked]) and not (given[words] < own["MASK"]).any()
    masked, same = given == own["MASK"], given == ids
    for share, of, wanted in ((asked, words, 0.15), (masked, asked, 0.8), (same, asked, 0.101)):
        assert abs((share & of).sum() / of.sum() - wanted) < 0.02
    fewer = own["hide"](ids, vocab_size=90, share=0.05)[1] != PAD
    assert 0.03 < fewer.sum() / words.sum() < 0.07


def test_the_parts_of_today_of_mine_are_the_librarys():
    own = state(21)
    sizes = {"d_model": 24, "n_heads": 6, "n_kv_heads": 2}
    heads, gated = own["GroupedHeads"](**sizes), own["SwiGLU"](d_model=24, d_ff=10)
    norm = own["RMSNorm"](24, eps=1e-3)
    torch.nn.init.normal_(norm.weight)  # a factor of 1 would hide a mistake
    config = ModelConfig(
        vocab_size=9, d_ff=10, dropout=0.0, norm="rms", norm_eps=1e-3, positions="rotary",
        activation="swiglu", **sizes,
    )  # fmt: skip
    layer = DecoderLayer(config, cross_attention=False)
    theirs, x = layer.self_attention, torch.randn(2, 7, 24)

    rotary, arrows = RotaryPositions(d_head=8, max_len=99), torch.randn(2, 3, 7, 8)
    torch.testing.assert_close(own["rotate"](arrows), rotary(arrows))
    torch.testing.assert_close(
        own["rotate"](arrows, start=90), rotary(arrows, 90), atol=1e-4, rtol=0
    )

    theirs.load_projections(heads.query, heads.key, heads.value, heads.output)
    past = causal_mask(7)
    torch.testing.assert_close(heads(x, past), theirs(x, mask=past))
    torch.testing.assert_close(heads(x, past, start=50), theirs(x, mask=past), atol=1e-4, rtol=0)

    layer.feed_forward.load_state_dict(gated.state_dict(), strict=False)  # its biases are 0
    torch.testing.assert_close(gated(x), layer.feed_forward(x))
    layer.self_residual.norm.load_state_dict(norm.state_dict())
    small = torch.cat([x, x / 100])
    torch.testing.assert_close(norm(small), layer.self_residual.norm(small))


def test_the_checkpoint_of_mine_is_the_librarys():
    own, folder = state(22), bundled_folder("shakespeare")
    tensors = own["read_safetensors"](folder / "model.safetensors")
    theirs = load_file(folder / "model.safetensors")
    assert tensors.keys() == theirs.keys()
    assert all(torch.equal(tensors[name], theirs[name]) for name in theirs)
    library, _ = load_bundled("shakespeare")
    model = own["GPT"](69, d_model=128, n_heads=4, d_ff=512, n_layers=4, max_len=128)
    for layer in model.stack.layers:
        layer.feed_forward = own["GELUFeedForward"](128, 512)
    own["load_gpt2"](model, tensors)
    ids = torch.randint(69, (2, 128))
    torch.testing.assert_close(model.eval()(ids), library(ids), atol=1e-4, rtol=0)


MARKDOWN = {"cell_type": "markdown", "metadata": {}}
CODE = {"cell_type": "code", "metadata": {}, "outputs": []}


@pytest.mark.parametrize(
    "cell, complaint",
    [
        (MARKDOWN | {"source": "word " * 8000}, "minutes"),
        (MARKDOWN | {"source": "We mend it."}, "words that the book"),
        (MARKDOWN | {"source": (("word " * 40) + ". ") * 4}, "sentences over"),
        (MARKDOWN | {"source": "[a](01_x.ipynb) " * 6}, "references"),
        (CODE | {"source": "assert a\n" * 5}, "asserts"),
        (CODE | {"source": "inspect.getsource(f)"}, "listing"),
        (CODE | {"source": "a = 1\n" * 41, "metadata": {"tags": ["mine"]}}, "mine.py grows"),
        (CODE | {"source": "import transformer_lib", "metadata": {"tags": ["mine"]}}, "imports"),
    ],
)
def test_each_rule_finds_what_it_is_for(cell, complaint):
    cells = cells_of(ROOT / "chapters" / f"{NAMES[0]}.ipynb")
    assert not any(complaint in each for each in complaints(cells))
    assert any(complaint in each for each in complaints([cell, *cells]))


def test_the_decoder_of_mine_is_the_librarys():
    sizes = {"d_model": 22, "n_heads": 2, "d_ff": 13, "n_layers": 2, "dropout": 0.0}
    own = state(9)["Decoder"](**sizes).double()
    for parameter in own.parameters():  # no gain stays 1, no bias 0
        torch.nn.init.normal_(parameter, std=0.5)
    theirs = Decoder(ModelConfig(vocab_size=9, pre_norm=True, **sizes)).double()
    copy_stack(theirs, own)
    x, memory = torch.randn(3, 5, 22).double(), torch.randn(3, 7, 22).double()
    hidden = padding_mask(torch.tensor([[5] * 7, [5] * 4 + [0] * 3, [5] + [0] * 6]), 0)
    torch.testing.assert_close(
        own(x, memory, causal_mask(5), hidden), theirs(x, memory, memory_mask=hidden)
    )


def test_a_long_section_under_deeper_is_found():
    cells = cells_of(ROOT / "chapters" / f"{NAMES[0]}.ipynb")
    more = [
        MARKDOWN | {"source": "## Deeper"},
        MARKDOWN | {"source": "### Title\n" + "word " * 700},
    ]
    found = complaints([*cells, *more])
    assert any("Title: 70" in each for each in found)
    assert any("no question" in each for each in found)


def test_reading_times_follow_the_rule():
    """The rule in numbers: 400 words and 10 lines take 120 + 70 seconds, so 5 minutes."""
    words = MARKDOWN | {"source": "word " * 400}
    code = CODE | {"source": "a = 1\n" * 10}
    amounts = reading.count([words, code])
    assert amounts["words"] == 400 and amounts["code"] == 10
    assert reading.minutes(amounts) == 5
    assert reading.minutes(reading.count([words] * 5 + [code])) == 15  # 670 seconds
    solution = words | {"metadata": {"tags": ["solution"]}}
    assert reading.minutes(reading.count([solution] * 50)) == 0
    folded = code | {"metadata": {"tags": ["hide-input"]}}
    assert reading.count([folded])["code"] == 0
