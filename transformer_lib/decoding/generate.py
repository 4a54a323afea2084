"""Generate one token at a time: greedy search and sampling."""

from collections.abc import Callable

import torch
from torch import Tensor

from transformer_lib.decoding.protocol import (
    Generation,
    StepModel,
    check_request,
    check_scores,
    evaluating,
    first_tokens,
    log_probabilities,
)
from transformer_lib.validation import check_count, check_number, check_type, type_name

OnStep = Callable[[Tensor], Tensor | None]


def generate(
    model: StepModel,
    source: Tensor,
    choose: Callable[[Tensor], Tensor],
    max_len: int,
    on_step: OnStep | None,
    bos_id: int | Tensor | None,
    eos_id: int | None,
    pad_id: int | None,
) -> Generation:
    """Let ``choose`` map log-probabilities ``(B, V)`` to tokens ``(B,)`` until every row ends."""
    bos_id, eos_id, pad_id = check_request(model, source, max_len, bos_id, eos_id, pad_id)
    if on_step is not None and not callable(on_step):
        raise TypeError(f"on_step must be a function, got {type_name(on_step)}")

    with evaluating(model):
        state = model.start(source)
        tokens = first_tokens(bos_id, source)  # (B,)
        scores = torch.zeros_like(tokens, dtype=torch.float32)  # (B,)
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
            if on_step is not None and (asked := on_step(tokens)) is not None:
                ended |= asked.to(tokens.device)
    check_scores(scores)
    # Tensors made in inference mode can't be used in training; these are new.
    return Generation(torch.stack(generated, dim=1), scores.clone())


def greedy(
    model: StepModel,
    source: Tensor,
    *,
    max_len: int,
    on_step: OnStep | None = None,
    bos_id: int | Tensor | None = None,
    eos_id: int | None = None,
    pad_id: int | None = None,
) -> Generation:
    """Take the most probable token at each step, until every row has ended.

    A ``Module`` is in evaluation mode meanwhile.

    Args:
        model: any :class:`StepModel`.
        source: ids ``(B, S)``.
        max_len: the most tokens to generate per row.
        on_step: a function called after each step with the newest tokens ``(B,)``, which are
            padding for rows that have ended. It may return a bool tensor ``(B,)``: rows where it's
            True end, too.
        bos_id: the id that every row begins with, or one id per row ``(B,)``.
        eos_id, pad_id: the ids that end a row and pad it. With an ``eos_id`` outside the
            vocabulary, no row ends early. All three ids default to those of ``model.config``.

    Returns:
        ``Generation(ids, scores)`` of shapes ``(B, at most max_len)`` and ``(B,)``.

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: an argument out of range; NaN or infinity in the logits; a source that the
            model refuses.

    Example:
        Print or collect tokens as they come:

        >>> from transformer_lib import ModelConfig, Transformer
        >>> model = Transformer(ModelConfig(vocab_size=11, d_model=12, n_heads=3, d_ff=20))
        >>> source, said = torch.randint(3, 11, (2, 7)), []
        >>> ids, scores = greedy(model, source, max_len=5, on_step=said.append)
        >>> torch.stack(said, dim=1).equal(ids), scores.shape
        (True, torch.Size([2]))
    """

    def choose(log_probs: Tensor) -> Tensor:
        return log_probs.argmax(dim=-1)  # (B,)

    return generate(model, source, choose, max_len, on_step, bos_id, eos_id, pad_id)


def sample(
    model: StepModel,
    source: Tensor,
    *,
    max_len: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
    on_step: OnStep | None = None,
    bos_id: int | Tensor | None = None,
    eos_id: int | None = None,
    pad_id: int | None = None,
) -> Generation:
    r"""Draw each token from the model's distribution, until every row has ended.

    .. math:: p_i \propto \exp(z_i / \text{temperature})

    over the tokens that are kept: the ``top_k`` most probable ones, and of those the smallest set
    whose probability is at least ``top_p``. The scores are the model's own log-probabilities,
    before any of this.

    Args:
        model, source, max_len, on_step, bos_id, eos_id, pad_id: as for :func:`greedy`.
        temperature: above 0. Below 1, probable tokens become more probable; above 1, less.
        top_k: how many tokens to keep; all of them if None.
        top_p: the least total probability to keep, in (0, 1]; None means 1.
        generator: the source of random numbers, on the device of the logits; PyTorch's default one
            if None.

    Result and errors are those of :func:`greedy`.

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
    check_number("temperature", temperature, 0, ends="()")
    check_count("top_k", top_k, optional=True)
    if top_p is not None:
        check_number("top_p", top_p, 0, 1, "(]")
    check_type("generator", generator, torch.Generator, optional=True)

    def choose(log_probs: Tensor) -> Tensor:
        if top_k is None and top_p in (None, 1):  # no need to sort
            return _draw(_tempered(log_probs, temperature), generator)  # (B,)
        probs, ids = distribution(log_probs, temperature, top_k, top_p)  # (B, k) each
        return ids.gather(-1, _draw(probs, generator)[:, None])[:, 0]  # (B,)

    return generate(model, source, choose, max_len, on_step, bos_id, eos_id, pad_id)


def distribution(
    log_probs: Tensor, temperature: float, top_k: int | None, top_p: float | None
) -> tuple[Tensor, Tensor]:
    """Return the probabilities to draw from, highest first, and their tokens, both ``(B, k)``."""
    vocab_size = log_probs.size(-1)
    values, ids = log_probs.topk(min(top_k or vocab_size, vocab_size))  # (B, k) each
    probs = _tempered(values, temperature)  # (B, k)
    if top_p is not None and top_p < 1:
        before = probs.cumsum(-1) - probs  # 0 for the first token, which always stays
        probs = probs.masked_fill((before >= top_p) & (before > 0), 0.0)
    return probs / probs.sum(-1, keepdim=True), ids


def _tempered(log_probs: Tensor, temperature: float) -> Tensor:
    """Compute ``softmax(log_probs / temperature)`` for every temperature above 0."""
    temperature = min(max(float(temperature), 1e-30), 1e30)  # in float32's range
    differences = log_probs - log_probs.amax(-1, keepdim=True)  # the highest is 0
    return (differences / temperature).softmax(-1)


def _draw(probs: Tensor, generator: torch.Generator | None) -> Tensor:
    """Draw an index from each row of probabilities ``(B, k)``: ``(B,)``."""
    # Draw a number in [0, 1) and take the first index whose cumulative sum exceeds it. In float64,
    # so that the many small probabilities of a large vocabulary aren't lost.
    sums = probs.cumsum(-1, dtype=torch.float64)  # (B, k)
    total = sums[:, -1:]  # (B, 1), 1 up to rounding
    number = torch.rand(total.shape, dtype=sums.dtype, device=sums.device, generator=generator)
    below = total.nextafter(torch.zeros_like(total))  # the product may round up to the total
    index = torch.searchsorted(sums, torch.minimum(number * total, below), right=True)  # (B, 1)
    return index[:, 0].clamp(max=probs.size(1) - 1)  # past the end if the sums are NaN
