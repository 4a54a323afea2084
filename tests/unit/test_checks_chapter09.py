"""Chapter 9's checkers: answers that real learners give, each diagnosed by name."""

import pytest
import torch
from torch import nn

from transformer_lib import checks
from transformer_lib.checks.chapter09 import check
from transformer_lib.checks.parts import FeedForward, MultiHeadAttention, Residual
from transformer_lib.layers import DecoderLayer as LibraryLayer
from transformer_lib.pretrained import from_torch

pytestmark = pytest.mark.slow


def verdict(capsys, answer, name):
    answer.__name__ = name
    result = check(answer)
    capsys.readouterr()
    return result


# -------------------------------------------------------------------------------- MyDecoderLayer


class Parts(nn.Module):
    """What the exercise asks the constructor to make; `forward` is each learner's own."""

    def __init__(self, d_model, n_heads, d_ff, pre_norm):
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, n_heads)
        self.cross_attention = MultiHeadAttention(d_model, n_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.self_residual = Residual(d_model, pre_norm)
        self.cross_residual = Residual(d_model, pre_norm)
        self.feed_forward_residual = Residual(d_model, pre_norm)


def layer(forward, base=Parts):
    return type("DecoderLayer", (base,), {"forward": forward})


def with_named_functions(self, x, memory, mask=None, memory_mask=None):
    def back(y):
        return self.self_attention(y, y, mask)

    def across(y):
        return self.cross_attention(y, memory, mask=memory_mask)

    x = self.self_residual(x, back)
    return self.feed_forward_residual(self.cross_residual(x, across), self.feed_forward)


def without_the_residuals_forward(self, x, memory, mask=None, memory_mask=None):
    steps = (
        (self.self_residual, lambda y: self.self_attention(y, y, mask)),
        (self.cross_residual, lambda y: self.cross_attention(y, memory, memory_mask)),
        (self.feed_forward_residual, self.feed_forward),
    )
    for residual, sublayer in steps:
        result = sublayer(residual.norm(x) if residual.pre_norm else x)
        x = x + result if residual.pre_norm else residual.norm(x + result)
    return x


class FromTheLibrarysMathematics(Parts):
    """The learner's own attention, by einsum and the fused kernel."""

    def attend(self, part, x, memory, mask):
        weight, bias = part.in_proj.weight, part.in_proj.bias
        d, heads = x.size(-1), part.n_heads
        rows = (x, memory, memory)
        q, k, v = (
            (torch.einsum("btd,ed->bte", r, weight[i * d : i * d + d]) + bias[i * d : i * d + d])
            .view(r.size(0), r.size(1), heads, d // heads)
            .transpose(1, 2)
            for i, r in enumerate(rows)
        )
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return part.out_proj(mixed.transpose(1, 2).reshape(x.shape))

    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.self_residual(x, lambda y: self.attend(self.self_attention, y, y, mask))
        x = self.cross_residual(
            x, lambda y: self.attend(self.cross_attention, y, memory, memory_mask)
        )
        return self.feed_forward_residual(x, lambda y: self.feed_forward(y))


@pytest.mark.parametrize(
    "answer",
    [
        layer(with_named_functions),
        layer(without_the_residuals_forward),
        FromTheLibrarysMathematics,
    ],
)
def test_right_layers_pass(capsys, answer):
    assert verdict(capsys, answer, "MyDecoderLayer")


def wired(
    back=lambda s, y, x, m, a, b: s.self_attention(y, y, a),
    across=lambda s, y, x, m, a, b: s.cross_attention(y, m, b),
    order="bat",
):
    def forward(self, x, memory, mask=None, memory_mask=None):
        for step in order:
            before = x
            if step == "b":
                x = self.self_residual(
                    x, lambda y, x=before: back(self, y, x, memory, mask, memory_mask)
                )
            elif step == "a":
                x = self.cross_residual(
                    x, lambda y, x=before: across(self, y, x, memory, mask, memory_mask)
                )
            else:
                x = self.feed_forward_residual(x, self.feed_forward)
        return x

    return layer(forward)


def norm_set(to):
    class DecoderLayer(Parts):
        def __init__(self, d_model, n_heads, d_ff, pre_norm):
            super().__init__(d_model, n_heads, d_ff, to(pre_norm))

        forward = with_named_functions

    return DecoderLayer


def stream_lost(self, x, memory, mask=None, memory_mask=None):
    for residual, sublayer in (
        (self.self_residual, lambda y: self.self_attention(y, y, mask)),
        (self.cross_residual, lambda y: self.cross_attention(y, memory, memory_mask)),
        (self.feed_forward_residual, self.feed_forward),
    ):
        if residual.pre_norm:
            x = residual.norm(x)
            x = x + sublayer(x)
        else:
            x = residual.norm(x + sublayer(x))
    return x


def all_at_once(self, x, memory, mask=None, memory_mask=None):
    y = self.self_residual(x, lambda y: self.self_attention(y, y, mask)) - x
    z = self.cross_residual(x, lambda y: self.cross_attention(y, memory, memory_mask)) - x
    return x + y + z + self.feed_forward_residual(x, self.feed_forward) - x


def forgot_to_go_on(self, x, memory, mask=None, memory_mask=None):
    y = self.self_residual(x, lambda y: self.self_attention(y, y, mask))  # noqa: F841
    x = self.cross_residual(x, lambda y: self.cross_attention(y, memory, memory_mask))
    return self.feed_forward_residual(x, self.feed_forward)


def added_twice(self, x, memory, mask=None, memory_mask=None):
    x = x + self.self_residual(x, lambda y: self.self_attention(y, y, mask))
    x = x + self.cross_residual(x, lambda y: self.cross_attention(y, memory, memory_mask))
    return x + self.feed_forward_residual(x, self.feed_forward)


def thought_added_twice(self, x, memory, mask=None, memory_mask=None):
    x = self.self_residual(x, lambda y: self.self_attention(y, y, mask))
    x = self.cross_residual(x, lambda y: self.cross_attention(y, memory, memory_mask))
    return x + self.feed_forward_residual(x, self.feed_forward)


def results_for_residuals(self, x, memory, mask=None, memory_mask=None):
    x = self.self_residual(x, self.self_attention(x, x, mask))
    x = self.cross_residual(x, self.cross_attention(x, memory, memory_mask))
    return self.feed_forward_residual(x, self.feed_forward(x))


def a_result_for_the_last(self, x, memory, mask=None, memory_mask=None):
    x = self.self_residual(x, lambda y: self.self_attention(y, y, mask))
    x = self.cross_residual(x, lambda y: self.cross_attention(y, memory, memory_mask))
    return self.feed_forward_residual(x, self.feed_forward(x))


def attention_as_it_is(self, x, memory, mask=None, memory_mask=None):
    x = self.self_residual(x, self.self_attention)
    x = self.cross_residual(x, self.cross_attention)
    return self.feed_forward_residual(x, self.feed_forward)


def asks_x(self, x, memory, mask=None, memory_mask=None):
    x = self.self_residual(x, lambda y: self.self_attention(y, y, mask))
    seen = x
    x = self.cross_residual(x, lambda y: self.cross_attention(y, seen, mask))
    return self.feed_forward_residual(x, self.feed_forward)


def thrown_away(self, x, memory, mask=None, memory_mask=None):
    self.self_residual(x, lambda y: self.self_attention(y, y, mask))
    self.cross_residual(x, lambda y: self.cross_attention(y, memory, memory_mask))
    return self.feed_forward_residual(x, self.feed_forward)


def in_float32(self, x, memory, mask=None, memory_mask=None):
    return with_named_functions(self, x.float(), memory.float(), mask, memory_mask)


def swapped_norms(self, x, memory, mask=None, memory_mask=None):
    x = self.cross_residual(x, lambda y: self.self_attention(y, y, mask))
    x = self.self_residual(x, lambda y: self.cross_attention(y, memory, memory_mask))
    return self.feed_forward_residual(x, self.feed_forward)


def one_residual(self, x, memory, mask=None, memory_mask=None):
    x = self.self_residual(x, lambda y: self.self_attention(y, y, mask))
    x = self.self_residual(x, lambda y: self.cross_attention(y, memory, memory_mask))
    return self.feed_forward_residual(x, self.feed_forward)


def no_way_around(self, x, memory, mask=None, memory_mask=None):
    pre = self.cross_residual.pre_norm
    x = self.self_residual(x, lambda y: self.self_attention(y, y, mask))
    if pre:
        x = self.cross_attention(self.cross_residual.norm(x), memory, memory_mask)
    else:
        x = self.cross_residual.norm(self.cross_attention(x, memory, memory_mask))
    return self.feed_forward_residual(x, self.feed_forward)


def looks_across_itself(self, x, memory, mask=None, memory_mask=None):
    x = self.self_residual(x, lambda y: self.self_attention(y, y, mask))
    x = self.cross_attention(x, memory, memory_mask)
    return self.feed_forward_residual(x, self.feed_forward)


def looks_back_itself(self, x, memory, mask=None, memory_mask=None):
    x = self.self_attention(x, x, mask)
    x = self.cross_residual(x, lambda y: self.cross_attention(y, memory, memory_mask))
    return self.feed_forward_residual(x, self.feed_forward)


def looks_itself(self, x, memory, mask=None, memory_mask=None):
    x = self.self_attention(x, x, mask)
    x = self.cross_attention(x, memory, memory_mask)
    return self.feed_forward_residual(x, self.feed_forward)


def everything_itself(self, x, memory, mask=None, memory_mask=None):
    x = self.self_attention(x, x, mask)
    x = self.cross_attention(x, memory, memory_mask)
    return self.feed_forward(x)


def found_and_forgotten(self, x, memory, mask=None, memory_mask=None):
    x = self.self_residual(x, lambda y: self.self_attention(y, y, mask))
    y = self.cross_residual(x, lambda y: self.cross_attention(y, memory, memory_mask))  # noqa: F841
    return self.feed_forward_residual(x, self.feed_forward)


def adds_the_look_back(self, x, memory, mask=None, memory_mask=None):
    x = x + self.self_attention(x, x, mask)
    x = self.cross_residual(x, lambda y: self.cross_attention(y, memory, memory_mask))
    return self.feed_forward_residual(x, self.feed_forward)


def adds_the_look_across(self, x, memory, mask=None, memory_mask=None):
    x = self.self_residual(x, lambda y: self.self_attention(y, y, mask))
    x = x + self.cross_attention(x, memory, memory_mask)
    return self.feed_forward_residual(x, self.feed_forward)


def adds_both_looks(self, x, memory, mask=None, memory_mask=None):
    x = x + self.self_attention(x, x, mask)
    x = x + self.cross_attention(x, memory, memory_mask)
    return self.feed_forward_residual(x, self.feed_forward)


def memory_mask_first(self, x, memory, memory_mask=None, mask=None):
    return with_named_functions(self, x, memory, mask, memory_mask)


class WithDropout(Parts):
    def __init__(self, *sizes, **named):
        super().__init__(*sizes, **named)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x, memory, mask=None, memory_mask=None):
        return self.dropout(with_named_functions(self, x, memory, mask, memory_mask))


class OtherNames(nn.Module):
    def __init__(self, d_model, n_heads, d_ff, pre_norm):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, n_heads)
        self.source_attention = MultiHeadAttention(d_model, n_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.self_residual = Residual(d_model, pre_norm)
        self.cross_residual = Residual(d_model, pre_norm)
        self.feed_forward_residual = Residual(d_model, pre_norm)

    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.self_residual(x, lambda y: self.attention(y, y, mask))
        x = self.cross_residual(x, lambda y: self.source_attention(y, memory, memory_mask))
        return self.feed_forward_residual(x, self.feed_forward)


def thinks_without_way_around(self, x, memory, mask=None, memory_mask=None):
    x = self.self_residual(x, lambda y: self.self_attention(y, y, mask))
    x = self.cross_residual(x, lambda y: self.cross_attention(y, memory, memory_mask))
    return self.feed_forward(x)


def around_the_look_back(self, x, memory, mask=None, memory_mask=None):
    y = self.self_residual(x, lambda y: self.self_attention(y, y, mask))
    norm = self.cross_residual.norm
    if self.cross_residual.pre_norm:
        y = x + self.cross_attention(norm(y), memory, memory_mask)
    else:
        y = norm(x + self.cross_attention(y, memory, memory_mask))
    return self.feed_forward_residual(y, self.feed_forward)


def looks_at_once(self, x, memory, mask=None, memory_mask=None):
    back = self.self_residual(x, lambda y: self.self_attention(y, y, mask))
    across = self.cross_residual(x, lambda y: self.cross_attention(y, memory, memory_mask))
    return self.feed_forward_residual(x + (back - x) + (across - x), self.feed_forward)


def no_norms(self, x, memory, mask=None, memory_mask=None):
    x = x + self.self_attention(x, x, mask)
    x = x + self.cross_attention(x, memory, memory_mask)
    return x + self.feed_forward(x)


def triangle(y):
    return torch.ones(y.size(1), y.size(1)).tril().bool()


class SharedAttention(Parts):
    def __init__(self, *sizes, **named):
        super().__init__(*sizes, **named)
        self.cross_attention = self.self_attention

    forward = with_named_functions


class NoCrossAttention(nn.Module):
    def __init__(self, d_model, n_heads, d_ff, pre_norm):
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, n_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.self_residual = Residual(d_model, pre_norm)
        self.feed_forward_residual = Residual(d_model, pre_norm)

    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.self_residual(x, lambda y: self.self_attention(y, y, mask))
        return self.feed_forward_residual(x, self.feed_forward)


@pytest.mark.parametrize(
    ("answer", "diagnosis"),
    [
        (
            wired(across=lambda s, y, x, m, a, b: s.cross_attention(y, m)),
            "cross-attention has no mask",
        ),
        (
            wired(back=lambda s, y, x, m, a, b: s.self_attention(y, y)),
            "self-attention has no mask",
        ),
        (
            wired(
                lambda s, y, x, m, a, b: s.self_attention(y, y),
                lambda s, y, x, m, a, b: s.cross_attention(y, m),
            ),
            "neither attention has a mask",
        ),
        (
            wired(
                lambda s, y, x, m, a, b: s.self_attention(y, y, b),
                lambda s, y, x, m, a, b: s.cross_attention(y, m, a),
            ),
            "the two masks have changed places",
        ),
        (
            wired(across=lambda s, y, x, m, a, b: s.cross_attention(y, m, a)),
            "the causal mask went to both",
        ),
        (
            wired(lambda s, y, x, m, a, b: s.self_attention(y, y, b)),
            "the source's mask went to both",
        ),
        (
            wired(across=lambda s, y, x, m, a, b: s.cross_attention(y, y, a)),
            "takes its keys and values from the target",
        ),
        (
            wired(across=lambda s, y, x, m, a, b: s.cross_attention(m, y, b)),
            "queries and keys of cross-attention have changed places",
        ),
        (
            wired(lambda s, y, x, m, a, b: s.self_attention(y, m, b)),
            "the look back takes its keys from the memory",
        ),
        (
            wired(lambda s, y, x, m, a, b: s.self_attention(y, x, a)),
            "queries of self-attention are normed and its keys are not",
        ),
        (
            wired(
                lambda s, y, x, m, a, b: s.self_attention(x, x, a),
                lambda s, y, x, m, a, b: s.cross_attention(x, m, b),
            ),
            "does not use what the residual hands to it",
        ),
        (
            wired(
                across=lambda s, y, x, m, a, b: s.cross_attention(y, s.cross_residual.norm(m), b)
            ),
            "the memory is normed once more",
        ),
        (wired(order="abt"), "the look across comes first"),
        (wired(order="bta"), "does not come last"),
        (wired(order="btat"), "a feed-forward network after each"),
        (wired(order="bt"), "cross-attention is missing"),
        (wired(order="at"), "self-attention is missing"),
        (layer(forgot_to_go_on), "or what it finds is not used"),
        (wired(order="ba"), "the feed-forward network is missing"),
        (layer(all_at_once), "side by side"),
        (layer(no_way_around), "no way around cross-attention"),
        (layer(looks_across_itself), "no way around cross-attention"),
        (layer(looks_back_itself), "no way around self-attention"),
        (layer(looks_itself), "no way around the two attentions"),
        (layer(everything_itself), "no way around any of the parts"),
        (layer(found_and_forgotten), "cross-attention is missing, or what it finds is not used"),
        (layer(adds_the_look_back), "the norm of the look back is never applied"),
        (layer(adds_the_look_across), "the norm of the look across is never applied"),
        (layer(adds_both_looks), "two of the norms are never applied"),
        (layer(memory_mask_first), "the parameters of `forward` stand in another order"),
        (WithDropout, "Your `dropout` is dropout: the exercise asks for none"),
        (OtherNames, "your `attention.in_proj.weight` is its `self_attention.in_proj.weight`"),
        (layer(thinks_without_way_around), "no way around the feed-forward network"),
        (layer(around_the_look_back), "the look across finds is added to the layer's input"),
        (layer(looks_at_once), "the two looks work side by side"),
        (layer(stream_lost), "has lost the stream"),
        (layer(no_norms), "the norms are never applied"),
        (norm_set(lambda pre_norm: True), "the norm always comes before"),
        (norm_set(lambda pre_norm: False), "the norm always comes after"),
        (norm_set(lambda pre_norm: not pre_norm), "the wrong way round"),
        (
            wired(lambda s, y, x, m, a, b: s.self_attention(y, y, triangle(y))),
            "a triangle of its own",
        ),
        (
            wired(
                across=lambda s, y, x, m, a, b: s.cross_attention(y, m, None if b is None else ~b)
            ),
            "a mask is turned round",
        ),
        (layer(swapped_norms), "norms of two residuals have changed places"),
        (
            wired(
                lambda s, y, x, m, a, b: s.cross_attention(y, y, a),
                lambda s, y, x, m, a, b: s.self_attention(y, m, b),
            ),
            "the two attentions have changed places",
        ),
        (layer(one_residual), "one residual serves two parts"),
        (layer(added_twice), "added to x once more"),
        (layer(thought_added_twice), "added to x once more"),
        (layer(asks_x), "takes its keys and values from the target"),
        (layer(thrown_away), "the results of the looks are thrown away"),
        (layer(results_for_residuals), "a residual is given a result"),
        (layer(a_result_for_the_last), "a residual is given a result"),
        (layer(attention_as_it_is), "an attention needs keys as well"),
        (layer(in_float32), "made float32"),
        (SharedAttention, "`cross_attention"),
        (NoCrossAttention, "Nothing in your module can be cross_attention.in_proj.weight"),
    ],
)
def test_wrong_layers_are_named(capsys, answer, diagnosis):
    assert diagnosis in verdict(capsys, answer, "MyDecoderLayer").report


@pytest.mark.filterwarnings("ignore:enable_nested")
@pytest.mark.parametrize("pre_norm", [True, False])
def test_the_reference_is_what_pytorch_and_the_library_compute(pre_norm):
    torch.manual_seed(0)
    peer = nn.Transformer(12, 4, 1, 1, 20, batch_first=True, norm_first=pre_norm).eval()
    library = from_torch(peer).decoder.layers[0]
    assert isinstance(library, LibraryLayer)
    own = layer(with_named_functions)(12, 4, 20, pre_norm)
    own.load_state_dict(library.state_dict())
    x, memory = torch.randn(2, 5, 12), torch.randn(2, 7, 12)
    causal = torch.ones(5, 5).tril().bool()
    reads = torch.arange(7) < torch.tensor([[7], [4]])
    theirs = peer.decoder.layers[0](x, memory, ~causal, memory_key_padding_mask=~reads)
    torch.testing.assert_close(own(x, memory, causal, reads[:, None, None]), theirs)


# ---------------------------------------------------------------------------------------- greedy


def by_lists(model, source, max_len, bos_id, eos_id, pad_id):
    memory = model.encode(source)
    rows = [[bos_id] for _ in source]
    ended = [False] * len(rows)
    for _ in range(max_len):
        words = model.decode(torch.tensor(rows), memory).argmax(-1)[:, -1].tolist()
        for i, word in enumerate(words):
            rows[i].append(pad_id if ended[i] else word)
            ended[i] = ended[i] or word == eos_id
        if all(ended):
            break
    return torch.tensor(rows)[:, 1:]


def into_a_table(model, source, max_len, bos_id, eos_id, pad_id):
    memory, batch = model.encode(source), source.shape[0]
    table = torch.full((batch, max_len + 1), pad_id)
    table[:, 0] = bos_id
    going = torch.ones(batch, dtype=torch.bool)
    n = 0
    while n < max_len and going.any():
        word = model.decode(table[:, : n + 1], memory)[:, n].max(dim=-1).indices
        table[going, n + 1] = word[going]
        going &= word != eos_id
        n += 1
    return table[:, 1 : n + 1]


@pytest.mark.parametrize("function", [by_lists, into_a_table])
def test_right_writers_pass(capsys, function):
    assert verdict(capsys, function, "greedy")


def loop(
    first=lambda bos, eos, pad: bos,
    memory=lambda model, source, target, kept: kept,
    read=lambda target: target,
    newest=lambda logits: logits[:, -1],
    hold=lambda word, ended, eos, pad: torch.where(ended, pad, word),
    ends=lambda ended, word, eos: ended | (word == eos),
    stop=lambda ended, word, eos: ended.all(),
    length=lambda max_len: max_len,
    give=lambda target, eos, pad: target[:, 1:],
):
    def greedy(model, source, max_len, bos_id, eos_id, pad_id):
        kept = model.encode(source)
        target = torch.full((source.shape[0], 1), first(bos_id, eos_id, pad_id))
        ended = torch.zeros(source.shape[0]).bool()
        for _ in range(length(max_len)):
            logits = model.decode(read(target), memory(model, source, target, kept))
            word = hold(newest(logits).argmax(-1), ended, eos_id, pad_id)
            target = torch.cat((target, word.unsqueeze(1)), dim=1)
            ended = ends(ended, word, eos_id)
            if stop(ended, word, eos_id):
                break
        return give(target, eos_id, pad_id)

    return greedy


def row_by_row(model, source, max_len, bos_id, eos_id, pad_id):
    memory, rows = model.encode(source), []
    for one in memory:
        text = [bos_id]
        while text[-1] != eos_id and len(text) <= max_len:
            text.append(model.decode(torch.tensor([text]), one[None])[0, -1].argmax().item())
        rows.append(text[1:])
    longest = max(map(len, rows))
    rows = [row + [pad_id] * (longest - len(row)) for row in rows]
    return torch.tensor(rows, dtype=torch.int64)


def ended_before_filled(model, source, max_len, bos_id, eos_id, pad_id):
    memory = model.encode(source)
    target = torch.full((len(source), 1), bos_id)
    ended = torch.zeros(len(source)).bool()
    for _ in range(max_len):
        word = model.decode(target, memory)[:, -1].argmax(-1)
        ended |= word == eos_id
        word[ended] = pad_id
        target = torch.cat([target, word[:, None]], dim=1)
        if ended.all():
            break
    return target[:, 1:]


def fixed(model, source, max_len, bos_id, eos_id, pad_id):
    return by_lists(model, source, max_len, 1, 2, 0)


def no_encoder(model, source, max_len, bos_id, eos_id, pad_id):
    model.encode = lambda source: source
    return by_lists(model, source, max_len, bos_id, eos_id, pad_id)


def one_row(model, source, max_len, bos_id, eos_id, pad_id):
    memory, text = model.encode(source), [bos_id]
    for _ in range(max_len):
        text.append(model.decode(torch.tensor([text]), memory)[0, -1].argmax().item())
        if text[-1] == eos_id:
            break
    return torch.tensor([text[1:]])


def one_end(model, source, max_len, bos_id, eos_id, pad_id):
    memory = model.encode(source)
    target = torch.full((len(source), 1), bos_id)
    for _ in range(max_len):
        word = model.decode(target, memory).argmax(-1)[:, -1:]
        target = torch.cat([target, word], dim=1)
        if word.item() == eos_id:
            break
    return target[:, 1:]


def one_row_and_no_limit(model, source, max_len, bos_id, eos_id, pad_id):
    memory, text = model.encode(source), torch.tensor([[bos_id]])
    while True:
        new = model.decode(text, memory)[:, -1:].argmax(-1)
        text = torch.hstack([text, new])
        if (new == eos_id).all():
            return text[:, 1:]


def no_limit(model, source, max_len, bos_id, eos_id, pad_id):
    memory = model.encode(source)
    text = torch.full_like(source[:, :1], bos_id)
    ended = torch.zeros(len(text), 1).bool()
    while not ended.all():
        new = model.decode(text, memory)[:, -1:].argmax(-1)
        new[ended] = pad_id
        ended = ended | (new == eos_id)
        text = torch.hstack([text, new])
    return text[:, 1:]


def no_limit_nor_padding(model, source, max_len, bos_id, eos_id, pad_id):
    memory = model.encode(source)
    text = torch.full_like(source[:, :1], bos_id)
    while not (text[:, 1:] == eos_id).any(dim=1).all():
        text = torch.hstack([text, model.decode(text, memory)[:, -1:].argmax(-1)])
    return text[:, 1:]


def floats(model, source, max_len, bos_id, eos_id, pad_id):
    ids = into_a_table(model, source, max_len, bos_id, eos_id, pad_id)
    result = torch.zeros(ids.shape)
    result[:] = ids
    return result


def from_the_source(model, source, max_len, bos_id, eos_id, pad_id):
    memory = model.encode(source)  # noqa: F841
    target = torch.full((len(source), 1), bos_id)
    ended = torch.zeros(len(source)).bool()
    while not ended.all() and target.size(1) <= max_len:
        word = model.decode(target, source)[:, -1].argmax(-1).masked_fill(ended, pad_id)
        target = torch.cat([target, word[:, None]], dim=1)
        ended |= word == eos_id
    return target[:, 1:]


def looks_for_the_end_in_all(model, source, max_len, bos_id, eos_id, pad_id):
    memory = model.encode(source)
    target = torch.full((len(source), 1), bos_id)
    ended = torch.zeros(len(source)).bool()
    while not ended.all() and target.size(1) <= max_len:
        word = model.decode(target, memory)[:, -1].argmax(-1).masked_fill(ended, pad_id)
        target = torch.cat([target, word[:, None]], dim=1)
        ended = (target == eos_id).any(dim=1)
    return target[:, 1:]


def looks_at_the_newest(model, source, max_len, bos_id, eos_id, pad_id):
    memory = model.encode(source)
    target = torch.full((len(source), 1), bos_id)
    for _ in range(max_len):
        ended = (target[:, -1] == eos_id) | (target[:, -1] == pad_id)
        if ended.all():
            break
        word = model.decode(target, memory)[:, -1].argmax(-1).masked_fill(ended, pad_id)
        target = torch.cat([target, word[:, None]], dim=1)
    return target[:, 1:]


def begins_with_floats(model, source, max_len, bos_id, eos_id, pad_id):
    memory = model.encode(source)
    target = torch.ones(len(source), 1) * bos_id
    for _ in range(max_len):
        word = model.decode(target, memory)[:, -1].argmax(-1)
        target = torch.cat([target, word[:, None]], dim=1)
    return target[:, 1:]


def memory_first(model, source, max_len, bos_id, eos_id, pad_id):
    memory = model.encode(source)
    target = torch.full((len(source), 1), bos_id)
    for _ in range(max_len):
        word = model.decode(memory, target)[:, -1].argmax(-1)
        target = torch.cat([target, word[:, None]], dim=1)
        if (word == eos_id).all():
            break
    return target[:, 1:]


def drops_padded_columns(model, source, max_len, bos_id, eos_id, pad_id):
    ids = by_lists(model, source, max_len, bos_id, eos_id, pad_id)
    return ids[:, (ids != pad_id).any(dim=0)]


def test_a_writer_without_return_is_asked_for_it(capsys):
    report = verdict(capsys, lambda *given: None if by_lists(*given).dim() else 0, "greedy").report
    assert "Your function returned None: is a `return` missing?" in report


def test_a_writer_can_be_tried_on_what_the_report_shows(capsys):
    def reversed_words(model, source, max_len, bos_id, eos_id, pad_id):
        return by_lists(model, source, max_len, bos_id, eos_id, pad_id).flip(1)

    report = verdict(capsys, reversed_words, "greedy").report
    assert "transformer_lib.checks.chapter09.Writer(bos_id=1, eos_id=2, pad_id=0)" in report
    model = checks.chapter09.Writer(bos_id=1, eos_id=2, pad_id=0)
    assert by_lists(model, torch.tensor([[3, 4]]), 9, 1, 2, 0).tolist() == [[4, 3, 2]]


@pytest.mark.parametrize(
    ("function", "diagnosis"),
    [
        (
            loop(memory=lambda model, source, target, kept: model.encode(source)),
            "the encoder runs again for every word",
        ),
        (
            loop(memory=lambda model, source, target, kept: model.encode(target)),
            "the encoder is given what was written",
        ),
        (no_encoder, "the decoder is given the source, or other ids, as its memory"),
        (from_the_source, "the decoder is given the source, or other ids, as its memory"),
        (looks_for_the_end_in_all, "the beginning is taken for the end"),
        (looks_at_the_newest, "the newest column alone says who has ended"),
        (begins_with_floats, "without a dtype"),
        (memory_first, "target and memory have changed places"),
        (drops_padded_columns, "the columns in which all sentences have `pad_id` are gone"),
        (loop(hold=lambda word, ended, eos, pad: word.masked_fill(ended, 0)), "are fixed"),
        (loop(ends=lambda ended, word, eos: ended | (word == 2)), "are fixed"),
        (loop(first=lambda bos, eos, pad: 1), "are fixed"),
        (
            loop(ends=lambda ended, word, eos: ended | (word == eos) | (word == 0)),
            "padding is taken for the end",
        ),
        (one_row, "the text begins with one row"),
        (row_by_row, "the beginning is taken for the end"),
        (ended_before_filled, "the end tokens are gone"),
        (one_row_and_no_limit, "the text begins with one row"),
        (one_end, "as if there were one sentence"),
        (no_limit, "`max_len` is not used"),
        (no_limit_nor_padding, "`max_len` is not used"),
        (floats, "without a dtype"),
        (loop(first=lambda bos, eos, pad: pad), "is not `bos_id`"),
        (loop(first=lambda bos, eos, pad: eos), "is the end token"),
        (fixed, "are fixed: they are arguments"),
        (
            loop(stop=lambda ended, word, eos: (word == eos).any()),
            "everybody stops when the first sentence ends",
        ),
        (
            loop(stop=lambda ended, word, eos: word[0] == eos),
            "everybody stops when the first sentence ends",
        ),
        (
            loop(stop=lambda ended, word, eos: (word == eos).all()),
            "only when all sentences end at the same word",
        ),
        (loop(hold=lambda word, ended, eos, pad: word), "is written on"),
        (loop(ends=lambda ended, word, eos: word == eos), "held for one word only"),
        (
            loop(hold=lambda word, ended, eos, pad: torch.where(ended, eos, word)),
            "gets `eos_id` again and again",
        ),
        (loop(stop=lambda ended, word, eos: False), "never stops before `max_len`"),
        (loop(give=lambda target, eos, pad: target), "the beginning is returned as well"),
        (
            loop(
                give=lambda target, eos, pad: target[:, 1:].masked_fill(target[:, 1:] == eos, pad)
            ),
            "the end tokens are gone",
        ),
        (loop(give=lambda target, eos, pad: target[:, 1:-1]), "the last column is gone"),
        (loop(length=lambda max_len: max_len - 1), "once too often, or once too little"),
        (loop(length=lambda max_len: max_len + 1), "once too often, or once too little"),
        (loop(newest=lambda logits: logits[:, 0]), "the logits of the first place"),
        (loop(read=lambda target: target[:, -1:]), "the newest word alone"),
        (
            loop(read=lambda target: target[:, 1:] if target.shape[1] > 1 else target),
            "without the beginning",
        ),
        (loop(newest=lambda logits: -logits[:, -1]), "argmax, not argmin"),
    ],
)
def test_wrong_writers_are_named(capsys, function, diagnosis):
    assert diagnosis in verdict(capsys, function, "greedy").report
