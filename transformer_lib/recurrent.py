r"""Sequence to sequence before the Transformer: one recurrent network reads, another writes.

Each ``attention`` follows one paper. :math:`f` is a GRU, :math:`E` looks up an embedding,
:math:`[\,;]` joins vectors, and :math:`c_t = \sum_j \alpha_{tj} h_j` with
:math:`\alpha_t = \mathrm{softmax}(e_t)` over the real tokens of the source.

``None``, Cho et al. (2014), appendix A.1. The decoder gets one vector c from the source:

.. math::
    h_j &= f(E x_j, h_{j-1}), \quad c = \tanh(V h_S), \quad s_0 = \tanh(V' c) \\
    s_t &= f([E y_{t-1}; c], s_{t-1}), \quad
    o_t = \mathrm{maxout}(O [s_t; E y_{t-1}; c])

``"additive"``, Bahdanau et al. (2015), section 3 and appendix A. The decoder's *previous* state
is the query:

.. math::
    h_j &= [\overrightarrow{h}_j; \overleftarrow{h}_j], \quad
    s_0 = \tanh(W_s \overleftarrow{h}_1), \quad e_{tj} = v^\top \tanh(W s_{t-1} + U h_j) \\
    s_t &= f([E y_{t-1}; c_t], s_{t-1}), \quad
    o_t = \mathrm{maxout}(O [s_t; E y_{t-1}; c_t])

``"dot"`` and ``"general"``, Luong et al. (2015), sections 3.1 and 3.3. The *current* state is the
query, and the result is fed to the next step:

.. math::
    h_j &= f(E x_j, h_{j-1}), \quad s_0 = h_S, \quad o_0 = 0 \\
    s_t &= f([E y_{t-1}; o_{t-1}], s_{t-1}), \quad
    e_{tj} = s_t^\top h_j \text{ or } s_t^\top W h_j, \quad
    o_t = \tanh(W_c [c_t; s_t])

All predict with :math:`\mathrm{softmax}(W_o o_t)`. Differences from the papers:

- PyTorch's GRU resets after multiplying, :math:`\tanh(W x + r \odot U h)`; Cho's encoder and
  Bahdanau's reset before it, :math:`\tanh(W x + U (r \odot h))`.
- Bahdanau's appendix A.2.2 has :math:`s_{t-1}` in the output. Equation (4) of the same paper has
  :math:`s_t`, and so do we.
- Luong has four layers of LSTMs, a reversed source, and local attention besides. Here each model
  has one GRU layer, so that the models differ only in attention.
- Embeddings, states, the scores' hidden layer and maxout all have width ``d_model``; weights start
  as PyTorch initializes them; ``dropout`` applies to embeddings and to the input of W_o.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor, nn

from transformer_lib.attention import mix
from transformer_lib.config import SpecialIds
from transformer_lib.dropout import Dropout
from transformer_lib.validation import (
    check_choice,
    check_count,
    check_floats,
    check_id,
    check_ids,
    check_integers,
    check_number,
    check_shape,
    check_type,
    check_vectors,
)

__all__ = ["AdditiveScore", "RNNSeq2Seq", "RNNState"]

_LUONG = ("dot", "general")


class AdditiveScore(nn.Module):
    r"""Score how well a key matches a query, with a small network.

    .. math:: v^\top \tanh(W q + U k)

    Args:
        d_query: width of queries.
        d_key: width of keys.
        d_hidden: width of the hidden layer.

    Raises:
        TypeError, ValueError: a width that isn't an integer of at least 1.

    Source:
        Bahdanau, Cho and Bengio (2015), section 3.1 and appendix A.1.2: the alignment model.

    Example:
        >>> import torch
        >>> score = AdditiveScore(d_query=4, d_key=6, d_hidden=8)
        >>> score(torch.randn(2, 3, 4), torch.randn(2, 5, 6)).shape
        torch.Size([2, 3, 5])
    """

    def __init__(self, *, d_query: int, d_key: int, d_hidden: int) -> None:
        super().__init__()
        for name, width in (("d_query", d_query), ("d_key", d_key), ("d_hidden", d_hidden)):
            check_count(name, width)
        self.query = nn.Linear(d_query, d_hidden, bias=False)  # W
        self.key = nn.Linear(d_key, d_hidden, bias=False)  # U
        self.v = nn.Linear(d_hidden, 1, bias=False)

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """Score queries ``(..., T, d_query)`` and keys ``(..., S, d_key)``: ``(..., T, S)``."""
        check_floats(query=query, key=key)
        for name, x, linear in (("query", query, self.query), ("key", key, self.key)):
            check_vectors(name, x, linear.in_features, linear.weight, batched=False)
        return self._compare(query, self._prepare(key))

    def _prepare(self, key: Tensor) -> Tensor:
        """Compute what depends on the keys alone, ``(..., S, d_hidden)``."""
        return self.key(key)

    def _compare(self, query: Tensor, prepared: Tensor) -> Tensor:
        both = self.query(query).unsqueeze(-2) + prepared.unsqueeze(-3)  # (..., T, S, d_hidden)
        return self.v(both.tanh()).squeeze(-1)


class DotScore(nn.Module):
    """Score a query of width ``d`` and a key of the same width by their dot product.

    Luong et al. (2015), section 3.1: ``dot`` compares them as they are, ``general`` projects the
    key first.
    """

    def __init__(self, d: int, *, general: bool) -> None:
        super().__init__()
        self.general = nn.Linear(d, d, bias=False) if general else nn.Identity()

    def _prepare(self, key: Tensor) -> Tensor:
        return self.general(key)

    def _compare(self, query: Tensor, prepared: Tensor) -> Tensor:
        return query @ prepared.transpose(-2, -1)


@dataclass(frozen=True, kw_only=True)
class RNNConfig(SpecialIds):
    """The settings of a :class:`RNNSeq2Seq`, documented there."""

    vocab_size: int
    d_model: int
    attention: str | None
    dropout: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("vocab_size", self.vocab_size)
        check_count("d_model", self.d_model)
        if self.attention is not None:
            check_choice("attention", self.attention, ("additive", *_LUONG))
        check_number("dropout", self.dropout, 0, 1)
        for name in ("pad_id", "bos_id", "eos_id"):
            check_id(name, getattr(self, name), self.vocab_size)


@dataclass
class RNNState:
    """What the decoder remembers between two steps."""

    hidden: Tensor  # (B, d_model), s of the latest step
    fed: Any = None  # (B, d_model), input of the next step: Cho's c, Luong's o
    memory: Any = None  # (B, S, width), the encoder's states
    keys: Any = None  # (B, S, width), the keys that the score prepared
    mask: Any = None  # bool (B, 1, S), True at real tokens

    def reorder(self, index: Tensor) -> None:
        """Keep the rows ``index``, integers ``(B',)``, of the batch, in that order."""
        limit = "the number of rows"
        check_integers("index", index, "B", end=len(self.hidden), limit=limit, like=self.hidden)
        for field in fields(self):
            tensor = getattr(self, field.name)
            if tensor is not None:
                setattr(self, field.name, tensor.index_select(0, index))


class Alignment(nn.Module):
    """Attention of the decoder's state over the encoder's states."""

    def __init__(self, score: AdditiveScore | DotScore) -> None:
        super().__init__()
        self.score = score
        self.recorder: Callable[[Tensor], None] | None = None  # of record_attention

    def forward(self, hidden: Tensor, state: RNNState) -> tuple[Tensor, Tensor]:
        """Map a state ``(B, d_model)`` to a context ``(B, width)`` and weights ``(B, 1, S)``.

        A source of nothing but padding has a context of zeros.
        """
        scores = self.score._compare(hidden[:, None], state.keys)  # (B, 1, S)
        context, weights = mix(scores, state.memory, state.mask)  # (B, 1, width), (B, 1, S)
        return context[:, 0], weights


class RNNSeq2Seq(nn.Module):
    """A recurrent translator: token ids in, logits over the vocabulary out.

    Its equations and their sources are in the module's docstring. Padding of the source is skipped
    wherever it is; padding of the target must come last. With attention,
    :func:`~transformer_lib.record_attention` finds the weights, ``(B, 1, T, S)``, under the name
    ``"alignment"``.

    Args:
        vocab_size: number of tokens, shared by source and target.
        d_model: width of embeddings and states.
        attention: None, ``"additive"``, ``"dot"`` or ``"general"``.
        dropout: probability of dropping a number in training.
        pad_id, bos_id, eos_id: as for :class:`~transformer_lib.config.SpecialIds`.

    Raises:
        TypeError, ValueError: a setting of another type or out of range.

    Example:
        >>> model = RNNSeq2Seq(vocab_size=11, d_model=8, attention="additive")
        >>> source, target = torch.randint(3, 11, (2, 7)), torch.randint(3, 11, (2, 5))
        >>> model(source, target).shape
        torch.Size([2, 5, 11])
    """

    def __init__(
        self,
        *,
        vocab_size: int,
        d_model: int = 256,
        attention: str | None = None,
        dropout: float = 0.0,
        pad_id: int = SpecialIds.pad_id,
        bos_id: int = SpecialIds.bos_id,
        eos_id: int = SpecialIds.eos_id,
    ) -> None:
        super().__init__()
        self.config = RNNConfig(
            vocab_size=vocab_size, d_model=d_model, attention=attention, dropout=dropout,
            pad_id=pad_id, bos_id=bos_id, eos_id=eos_id,
        )  # fmt: skip
        vocab_size, d_model = self.config.vocab_size, self.config.d_model
        self.source_embedding = nn.Embedding(vocab_size, d_model)
        self.target_embedding = nn.Embedding(vocab_size, d_model)
        self.dropout = Dropout(dropout)
        self.encoder = nn.GRU(d_model, d_model, batch_first=True)
        width = d_model  # of a context
        if attention is None:
            self.summary = nn.Linear(d_model, d_model)  # V
        elif attention == "additive":
            self.backward_encoder = nn.GRU(d_model, d_model, batch_first=True)
            width = 2 * d_model
            score = AdditiveScore(d_query=d_model, d_key=width, d_hidden=d_model)
            self.alignment = Alignment(score)
        else:
            self.alignment = Alignment(DotScore(d_model, general=attention == "general"))
        self.decoder = nn.GRU(d_model + width, d_model, batch_first=True)
        if attention in _LUONG:
            self.join = nn.Linear(width + d_model, d_model, bias=False)  # W_c
        else:
            self.first = nn.Linear(d_model, d_model)  # V', or W_s
            self.maxout = nn.Linear(2 * d_model + width, 2 * d_model)  # O
        self.output = nn.Linear(d_model, vocab_size)  # W_o

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Predict the next token at every position of the target.

        Arguments, result and errors are those of :meth:`Transformer.forward`, without ``max_len``.
        """
        weight = self.target_embedding.weight
        check_ids("target", target, self.config.vocab_size, like=weight)
        state = self.start(source)
        check_shape("target", target, source.size(0), "T")
        x = self.dropout(self.target_embedding(target))  # (B, T, d_model)
        if self.config.attention is None:  # no attention in between: all steps in one call
            fed = state.fed[:, None].expand_as(x)
            hidden, _ = self.decoder(torch.cat((x, fed), dim=-1), state.hidden[None])
            return self._logits(torch.cat((hidden, x, fed), dim=-1))
        vectors, weights = zip(*(self._advance(each, state) for each in x.unbind(1)), strict=True)
        self._record(torch.cat(weights, dim=1))
        return self._logits(torch.stack(vectors, dim=1))

    def start(self, source: Tensor) -> RNNState:
        """Encode source ids ``(B, S)`` and return the state that decoding starts from."""
        check_ids("source", source, self.config.vocab_size, like=self.source_embedding.weight)
        memory, last = self._read(self.encoder, source)
        if self.config.attention is None:
            fed = self.summary(last).tanh()
            return RNNState(self.first(fed).tanh(), fed)
        if self.config.attention == "additive":
            backward, last = self._read(self.backward_encoder, source.flip(1))
            memory = torch.cat((memory, backward.flip(1)), dim=-1)
            state = RNNState(self.first(last).tanh())
        else:
            state = RNNState(last, torch.zeros_like(last))
        state.memory, state.keys = memory, self.alignment.score._prepare(memory)
        state.mask = (source != self.config.pad_id)[:, None]
        return state

    def step(self, tokens: Tensor, state: RNNState) -> tuple[Tensor, RNNState]:
        """Read one more token per row, ``(B,)``, and predict the next: logits ``(B, vocab_size)``.

        The state is updated in place and returned. Errors as :meth:`Transformer.step`.
        """
        check_type("state", state, RNNState)
        check_integers("tokens", tokens, len(state.hidden))
        weight = self.target_embedding.weight
        check_ids("tokens", tokens[:, None], self.config.vocab_size, like=weight)
        vector, weights = self._advance(self.dropout(self.target_embedding(tokens)), state)
        if weights is not None:
            self._record(weights)
        return self._logits(vector), state

    def _read(self, gru: nn.GRU, source: Tensor) -> tuple[Tensor, Tensor]:
        """Return the states ``(B, S, d_model)`` after each token and after the last real one.

        Padding is moved after the real tokens, where it can't affect them, and its states back.
        """
        real = source != self.config.pad_id
        order = real.int().argsort(dim=1, descending=True, stable=True)
        states, _ = gru(self.dropout(self.source_embedding(source.gather(1, order))))
        count = real.sum(dim=1)
        last = states[torch.arange(len(states), device=states.device), count.clamp(min=1) - 1]
        back = order.argsort(dim=1)[..., None].expand_as(states)
        return states.gather(1, back), last.masked_fill(count[:, None] == 0, 0.0)

    def _advance(self, x: Tensor, state: RNNState) -> tuple[Tensor, Any]:
        """Take one step from an embedding ``(B, d_model)``; return output vector and weights."""
        weights, fed = None, state.fed
        if self.config.attention == "additive":
            fed, weights = self.alignment(state.hidden, state)
        state.hidden = torch.gru_cell(
            torch.cat((x, fed), dim=-1), state.hidden, *self.decoder.all_weights[0]
        )
        if self.config.attention not in _LUONG:
            return torch.cat((state.hidden, x, fed), dim=-1), weights
        context, weights = self.alignment(state.hidden, state)
        state.fed = self.join(torch.cat((context, state.hidden), dim=-1)).tanh()
        return state.fed, weights

    def _logits(self, vectors: Tensor) -> Tensor:
        """Turn what :meth:`_advance` returns into logits ``(..., vocab_size)``."""
        if self.config.attention not in _LUONG:
            vectors = self.maxout(vectors).unflatten(-1, (-1, 2)).amax(dim=-1)
        return self.output(self.dropout(vectors))

    def _record(self, weights: Tensor) -> None:
        if self.alignment.recorder is not None:
            self.alignment.recorder(weights.detach()[:, None])  # (B, 1, T, S): one head
