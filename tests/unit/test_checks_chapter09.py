"""Chapter 9's checkers: right answers in every form, and what is said of wrong ones."""

import torch
from torch import nn

from tests.unit.judging import table
from transformer_lib.checks.chapter09 import check
from transformer_lib.checks.parts import FeedForward, MultiHeadAttention, Residual

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
    return type("MyDecoderLayer", (base,), {"forward": forward})


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


def wired(
    back=lambda s, y, x, m, a, b: s.self_attention(y, y, a),
    across=lambda s, y, x, m, a, b: s.cross_attention(y, m, b),
    order="bat",
):
    def forward(self, x, memory, mask=None, memory_mask=None):
        given = memory, mask, memory_mask
        for step in order:
            if step == "b":
                x = self.self_residual(x, lambda y, x=x: back(self, y, x, *given))
            elif step == "a":
                x = self.cross_residual(x, lambda y, x=x: across(self, y, x, *given))
            else:
                x = self.feed_forward_residual(x, self.feed_forward)
        return x

    return layer(forward)


def thrown_away(self, x, memory, mask=None, memory_mask=None):
    self.self_residual(x, lambda y: self.self_attention(y, y, mask))
    self.cross_residual(x, lambda y: self.cross_attention(y, memory, memory_mask))
    return self.feed_forward_residual(x, self.feed_forward)


def in_float32(self, x, memory, mask=None, memory_mask=None):
    self.float()
    return with_named_functions(self, x.float(), memory.float(), mask, memory_mask)


class WithDropout(Parts):
    def __init__(self, *sizes, **named):
        super().__init__(*sizes, **named)
        self.dropout = nn.Dropout(0.1)

    def forward(self, *given, **masks):
        return self.dropout(with_named_functions(self, *given, **masks))


class OtherNames(Parts):
    def __init__(self, d_model, n_heads, d_ff, pre_norm):
        super().__init__(d_model, n_heads, d_ff, pre_norm)
        self.attention = self.self_attention
        del self.self_attention

    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.self_residual(x, lambda y: self.attention(y, y, mask))
        x = self.cross_residual(x, lambda y: self.cross_attention(y, memory, memory_mask))
        return self.feed_forward_residual(x, self.feed_forward)


class SharedAttention(Parts):
    def __init__(self, *sizes, **named):
        super().__init__(*sizes, **named)
        self.cross_attention = self.self_attention

    forward = with_named_functions


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


def row_by_row(model, source, max_len, bos_id, eos_id, pad_id, first=1):
    memory, rows = model.encode(source), []
    for one in memory:
        text = [bos_id]
        while eos_id not in text[first:] and len(text) <= max_len:
            text.append(model.decode(torch.tensor([text]), one[None])[0, -1].argmax().item())
        rows.append(text[1:])
    longest = max(map(len, rows))
    rows = [row + [pad_id] * (longest - len(row)) for row in rows]
    return torch.tensor(rows, dtype=torch.int64)


def loop(
    memory=lambda model, source, target, kept: kept,
    read=lambda target: target,
    hold=lambda word, ended, eos, pad: torch.where(ended, pad, word),
    ends=lambda ended, word, eos: ended | (word == eos),
    stop=lambda ended, word, eos: ended.all(),
    length=lambda max_len: max_len,
    give=lambda target, eos, pad: target[:, 1:],
):
    def greedy(model, source, max_len, bos_id, eos_id, pad_id):
        kept = model.encode(source)
        target = torch.full((source.shape[0], 1), bos_id)
        ended = torch.zeros(source.shape[0]).bool()
        for _ in range(length(max_len)):
            logits = model.decode(read(target), memory(model, source, target, kept))
            word = hold(logits[:, -1].argmax(-1), ended, eos_id, pad_id)
            target = torch.cat((target, word.unsqueeze(1)), dim=1)
            ended = ends(ended, word, eos_id)
            if stop(ended, word, eos_id):
                break
        return give(target, eos_id, pad_id)

    return greedy


test_right, test_wrong = table(
    check,
    right={
        "MyDecoderLayer": [
            layer(with_named_functions),
            layer(without_the_residuals_forward),
        ],
        "greedy": [by_lists, into_a_table, row_by_row, loop()],
    },
    wrong={
        "MyDecoderLayer": [
            (
                wired(lambda s, y, x, m, a, b: s.self_attention(y, m, a)),
                "only self-attention returns something",
            ),
            (layer(thrown_away), "only self-attention returns something"),
            (layer(in_float32), "their dtype is float32; for this input it must be float64"),
            (WithDropout, "Your `dropout` is dropout: the exercise asks for none."),
            (OtherNames, "asks for an attribute `self_attention`; your module has none"),
            (SharedAttention, "are one and the same parameter"),
        ],
        "greedy": [
            (loop(length=lambda n: n - 1), "the number of words that may be written"),
            (loop(ends=lambda ended, word, eos: ended | (word == 2)), "are 6, 4 and 2"),
            (lambda *given: row_by_row(*given, first=0), "no sentence has ended before it begins"),
            (loop(read=lambda target: target[:, -1:]), "is given begins with 5: it must hold"),
            (loop(memory=lambda model, x, y, kept: model.encode(x)), "is called a second time"),
            (loop(memory=lambda model, x, y, kept: x), "is given ids as its memory"),
            (loop(read=torch.Tensor.float), "is given floats as its target"),
        ],
    },
)
