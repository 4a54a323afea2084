"""Sampling: a token at random, as probable as the model says, or nearly so."""

from __future__ import annotations

import torch
from torch import Tensor

from transformer_lib.arguments import check_count, check_number
from transformer_lib.decoding.greedy import generate
from transformer_lib.decoding.protocol import Generation, StepModel, first_tokens

__all__ = ["sample"]


def sample(
    model: StepModel,
    source: Tensor,
    *,
    max_len: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
    bos_id: int | Tensor = 1,
    eos_id: int = 2,
    pad_id: int = 0,
) -> Generation:
    r"""Draw token after token from the model's distribution, until every row has ended.

    .. math:: p_i \propto \exp(z_i / \text{temperature})

    over the tokens that are left: first the ``top_k`` most probable, then of these the
    fewest that together have probability ``top_p`` or more. The scores are those of the
    model itself, before any of this, so that they compare with those of :func:`greedy`.

    Args:
        model: any :class:`StepModel`; in evaluation mode for the while.
        source: ids ``(B, S)``.
        max_len: most tokens to generate per row.
        temperature: above 0; below 1 the probable becomes more so, above 1 less.
        top_k: how many tokens to draw from, at least 1; all of them if None.
        top_p: their least probability together, above 0 and at most 1; None is as 1.
        generator: where the random numbers come from, on the device of the logits;
            PyTorch's own if None.
        bos_id, eos_id, pad_id: as for :func:`greedy`.

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
    tokens = first_tokens(model, source, max_len, bos_id, eos_id, pad_id)
    check_number("temperature", temperature, 0)
    if temperature == 0:
        raise ValueError("temperature must be above 0, got 0: for that limit there is greedy")
    check_count("top_k", top_k, optional=True)
    if top_p is not None:
        check_number("top_p", top_p, 0, closed=False)
        if top_p > 1:
            raise ValueError(f"top_p must be at most 1, got {top_p}")
    if generator is not None and not isinstance(generator, torch.Generator):
        raise TypeError(f"generator must be a torch.Generator, got a {type(generator).__name__}")
    if generator is not None and generator.device.type != source.device.type:
        raise ValueError(
            f"generator must be on {source.device} as source is, got {generator.device}"
        )

    def choose(log_probs: Tensor) -> Tensor:
        probs, ids = distribution(log_probs, temperature, top_k, top_p)
        # The token that wins a race of exponential clocks is drawn with its probability, and
        # nothing has to wait for a GPU; torch.multinomial does this too, then looks for errors.
        noise = torch.empty_like(probs).exponential_(generator=generator)
        return ids.gather(-1, (probs / noise).argmax(-1, keepdim=True))[:, 0]

    return generate(model, source, tokens, choose, max_len, eos_id, pad_id)


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
    values, ids = log_probs.topk(min(top_k or vocab_size, vocab_size))
    # The highest at 0 and float32's range for the temperature: then nothing can overflow.
    values = (values - values[:, :1]) / min(max(float(temperature), 1e-30), 1e30)
    probs = values.softmax(-1)
    if top_p is not None and top_p < 1:
        before = probs.cumsum(-1) - probs  # so the first one stays, whatever top_p is
        probs = probs.masked_fill(before >= top_p, 0.0)
    return probs / probs.sum(-1, keepdim=True), ids
