"""Write one token after the other: greedy search and sampling."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from transformer_lib.decoding.protocol import (
    Generation,
    StateT,
    StepModel,
    check_request,
    check_scores,
    evaluating,
    first_tokens,
    log_probabilities,
)
from transformer_lib.validation import check_count, check_number, type_name

__all__ = ["greedy", "sample"]

TokenLists = Sequence[Sequence[int]]
OnStep = Callable[[Tensor], Tensor | None]


def generate(
    model: StepModel[StateT],
    source: Tensor,
    choose: Callable[[Tensor], Tensor],
    *,
    max_len: int,
    stop: TokenLists,
    on_step: OnStep | None,
    bos_id: int | Tensor | None,
    eos_id: int | None,
    pad_id: int | None,
) -> Generation:
    """Step on, each time with the tokens ``(B,)`` that ``choose`` takes from ``(B, V)``."""
    bos_id, eos_id, pad_id = check_request(model, source, max_len, bos_id, eos_id, pad_id)
    _check_stop(stop)
    if on_step is not None and not callable(on_step):
        raise TypeError(f"on_step must be a function, got {type_name(on_step)}")
    sequences = [torch.tensor(sequence, device=source.device) for sequence in stop]  # (k,) each

    with evaluating(model):
        state = model.start(source)
        tokens = first_tokens(bos_id, source)  # (B,)
        scores = torch.zeros(tokens.shape, device=tokens.device)  # (B,)
        ended = torch.zeros_like(tokens, dtype=torch.bool)  # (B,)
        generated: list[Tensor] = []  # of (B,)
        while len(generated) < max_len and not ended.all():
            logits, state = model.step(tokens, state)  # (B, V)
            log_probs = log_probabilities(logits, tokens)  # (B, V)
            chosen = choose(log_probs)  # (B,)
            gains = log_probs.gather(-1, chosen[:, None])[:, 0]  # (B,)
            scores += gains.masked_fill(ended, 0.0)
            tokens = chosen.masked_fill(ended, pad_id)
            generated.append(tokens)
            ended |= tokens == eos_id
            for sequence in sequences:
                ended |= _just_said(generated, sequence)
            if on_step is not None:
                ended |= _asked_to_end(on_step, tokens)
    check_scores(scores)
    # Copied out here: tensors made in inference mode may never be trained on.
    return Generation(torch.stack(generated, dim=1), scores.clone())


def _check_stop(stop: TokenLists) -> None:
    if not isinstance(stop, list | tuple):
        raise TypeError(f"stop must be a list of token sequences, got {type_name(stop)}")
    for sequence in stop:
        if not isinstance(sequence, list | tuple):
            raise TypeError(
                f"stop must hold lists of token ids, such as [[5, 6]]; "
                f"got {type_name(sequence)} in it"
            )
        if not sequence:
            raise ValueError("stop must hold no empty sequence, got one")
        for id_ in sequence:
            check_count("stop's ids", id_, least=0)
            if id_ >= 2**63:
                raise ValueError(f"stop must hold ids below 2**63, got {id_}")


def _just_said(generated: list[Tensor], sequence: Tensor) -> Tensor:
    """Whether the newest tokens of each row are the sequence, bool ``(B,)``."""
    newest = torch.stack(generated[-len(sequence) :], dim=1)  # (B, k), or less at the beginning
    if newest.size(1) < len(sequence):
        return torch.zeros_like(generated[-1], dtype=torch.bool)
    return (newest == sequence).all(dim=1)


def _asked_to_end(on_step: OnStep, tokens: Tensor) -> Tensor:
    """Which rows ``on_step`` wants to end, bool ``(B,)``."""
    asked = on_step(tokens)
    if asked is None:
        return torch.zeros_like(tokens, dtype=torch.bool)
    if not isinstance(asked, Tensor) or asked.dtype is not torch.bool:
        raise TypeError(f"on_step must return None or a bool tensor, got {type_name(asked)}")
    if asked.shape != tokens.shape:
        raise ValueError(
            f"on_step must return shape {tuple(tokens.shape)}, a bool for each row; "
            f"got {tuple(asked.shape)}"
        )
    return asked.to(tokens.device)


def greedy(
    model: StepModel[StateT],
    source: Tensor,
    *,
    max_len: int,
    stop: TokenLists = (),
    on_step: OnStep | None = None,
    bos_id: int | Tensor | None = None,
    eos_id: int | None = None,
    pad_id: int | None = None,
) -> Generation:
    """Take the most probable token, again and again, until every row has ended.

    Dropout would change the text: a model that is a ``Module`` is in evaluation mode during the
    decoding.

    Args:
        model: any :class:`StepModel`.
        source: ids ``(B, S)``.
        max_len: most tokens to generate per row.
        stop: token sequences. A row also ends when its newest tokens are one of them, which stays
            in the ids, as ``eos`` does.
        on_step: a function that is called after each step with the newest tokens ``(B,)``, pads
            where a row has ended. It may show them, or return a bool tensor ``(B,)``: rows that
            are True there end, too.
        bos_id: id that every row begins with, or ids ``(B,)``, one for each.
        eos_id, pad_id: ids that end a row and fill it up. No row ends if ``eos_id`` is the id of no
            token. All three ids are those of ``model.config`` where they aren't given.

    Returns:
        ``Generation(ids, scores)`` of shapes ``(B, at most max_len)`` and ``(B,)``.

    Raises:
        TypeError: arguments of the wrong type.
        ValueError: arguments out of range; logits that are not numbers; whatever the
            model says of the source.

    Example:
        >>> import torch
        >>> from transformer_lib import ModelConfig, Transformer
        >>> model = Transformer(ModelConfig(vocab_size=11, d_model=12, n_heads=3, d_ff=20))
        >>> ids, scores = greedy(model, torch.randint(3, 11, (2, 7)), max_len=5)
        >>> ids.size(0), scores.shape
        (2, torch.Size([2]))

        Token by token, as they come:

        >>> source = torch.randint(3, 11, (1, 7))
        >>> said = []
        >>> ids, _ = greedy(model, source, max_len=5, on_step=lambda tokens: said.append(tokens))
        >>> torch.stack(said, dim=1).equal(ids)
        True
    """
    return generate(
        model,
        source,
        _most_probable,
        max_len=max_len,
        stop=stop,
        on_step=on_step,
        bos_id=bos_id,
        eos_id=eos_id,
        pad_id=pad_id,
    )


def _most_probable(log_probs: Tensor) -> Tensor:
    return log_probs.argmax(dim=-1)  # (B, V) to (B,)


def sample(
    model: StepModel[StateT],
    source: Tensor,
    *,
    max_len: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
    stop: TokenLists = (),
    on_step: OnStep | None = None,
    bos_id: int | Tensor | None = None,
    eos_id: int | None = None,
    pad_id: int | None = None,
) -> Generation:
    r"""Draw token after token from the model's distribution, until every row has ended.

    .. math:: p_i \propto \exp(z_i / \text{temperature})

    over the tokens that are left: first the ``top_k`` most probable, then of these the
    fewest that together have probability ``top_p`` or more. The scores are those of the
    model itself, before any of this, so that they compare with those of :func:`greedy`.

    Args:
        model: any :class:`StepModel`; a ``Module`` is in evaluation mode during the decoding.
        source: ids ``(B, S)``.
        max_len: most tokens to generate per row.
        temperature: above 0; below 1, probable tokens become more probable; above 1, less. The
            nearer it is to 0, the nearer to :func:`greedy`, and it may be as small as a float can
            be.
        top_k: how many tokens to draw from, at least 1; all of them if None.
        top_p: the least probability that the tokens drawn from have together, above 0 and at most
            1; None is the same as 1.
        generator: where the random numbers come from, on the device of the logits;
            PyTorch's own if None.
        stop, on_step, bos_id, eos_id, pad_id: as for :func:`greedy`.

    Returns:
        ``Generation(ids, scores)`` of shapes ``(B, at most max_len)`` and ``(B,)``.

    Raises:
        TypeError: arguments of the wrong type.
        ValueError: arguments out of range; logits that are not numbers; whatever the
            model says of the source.

    Source:
        Fan et al. (2018), *Hierarchical Neural Story Generation*, section 5.1: top-k;
        Holtzman et al. (2020), *The Curious Case of Neural Text Degeneration*, section 3.1: top-p.

    Example:
        >>> from transformer_lib import ModelConfig, Transformer
        >>> model = Transformer(ModelConfig(vocab_size=11, d_model=12, n_heads=3, d_ff=20))
        >>> ids, scores = sample(model, torch.randint(3, 11, (2, 7)), max_len=5, top_p=0.9)
        >>> ids.size(0), scores.shape
        (2, torch.Size([2]))
    """
    _check_options(source, temperature, top_k, top_p, generator)

    def choose(log_probs: Tensor) -> Tensor:
        if top_k is None and top_p in (None, 1):  # then nothing has to be sorted
            return _draw(_tempered(log_probs, temperature), generator)  # (B,)
        probs, ids = distribution(log_probs, temperature, top_k, top_p)  # (B, k) each
        return ids.gather(-1, _draw(probs, generator)[:, None])[:, 0]  # (B,)

    return generate(
        model,
        source,
        choose,
        max_len=max_len,
        stop=stop,
        on_step=on_step,
        bos_id=bos_id,
        eos_id=eos_id,
        pad_id=pad_id,
    )


def distribution(
    log_probs: Tensor, temperature: float, top_k: int | None, top_p: float | None
) -> tuple[Tensor, Tensor]:
    """What is drawn from: probabilities, the highest first, and their tokens, both ``(B, k)``.

    Example:
        >>> log_probs = torch.tensor([[0.1, 0.6, 0.3]]).log()
        >>> distribution(log_probs, 1.0, top_k=None, top_p=0.8)
        (tensor([[0.6667, 0.3333, 0.0000]]), tensor([[1, 2, 0]]))
    """
    vocab_size = log_probs.size(-1)
    values, ids = log_probs.topk(min(top_k or vocab_size, vocab_size))  # (B, k) each
    probs = _tempered(values, temperature)  # (B, k)
    if top_p is not None and top_p < 1:
        before = probs.cumsum(-1) - probs  # 0 for the first one, which stays, whatever top_p is
        probs = probs.masked_fill((before >= top_p) & (before > 0), 0.0)
    return probs / probs.sum(-1, keepdim=True), ids


def _tempered(log_probs: Tensor, temperature: float) -> Tensor:
    """``softmax(log_probs / temperature)``, exact for every temperature above 0."""
    if temperature == 1:
        return log_probs.softmax(-1)
    differences = log_probs - log_probs.amax(-1, keepdim=True)  # the highest is 0
    if not 1e-30 < temperature < 1e30:  # a float32 may not hold it, a float64 does
        differences = differences.double()
    return (differences / float(temperature)).softmax(-1).float()


def _draw(probs: Tensor, generator: torch.Generator | None) -> Tensor:
    """A place in each row of ``probs`` ``(B, k)``, as often as its probability says: ``(B,)``."""
    # One number in [0, 1) for each row, and the first place where the sum so far is above it. In
    # float64, in which the many small probabilities of a large vocabulary are not lost.
    sums = probs.cumsum(-1, dtype=torch.float64)  # (B, k)
    total = sums[:, -1:]  # (B, 1), 1 but for rounding
    number = torch.rand(total.shape, dtype=sums.dtype, device=sums.device, generator=generator)
    below = total.nextafter(torch.zeros_like(total))  # a product may be rounded up to the total
    place = torch.searchsorted(sums, torch.minimum(number * total, below), right=True)  # (B, 1)
    return place[:, 0].clamp(max=probs.size(1) - 1)  # NaN is above nothing


def _check_options(
    source: object, temperature: object, top_k: object, top_p: object, generator: object
) -> None:
    check_number("temperature", temperature, 0)
    if temperature == 0:
        raise ValueError("temperature must be above 0, got 0: greedy takes the most probable token")
    check_count("top_k", top_k, optional=True)
    if top_p is not None:
        check_number("top_p", top_p, 0, 1, "(]")
    if generator is None:
        return
    if not isinstance(generator, torch.Generator):
        raise TypeError(f"generator must be a torch.Generator, got {type(generator).__name__}")
    if isinstance(source, Tensor) and generator.device.type != source.device.type:
        raise ValueError(
            f"generator must be on {source.device} as source is, got {generator.device}"
        )
