"""Rows whose tokens stand elsewhere: padded on the left."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from transformer_lib import DecoderOnly, KVCache, ModelConfig, record_attention

V, B, P, NEW = 23, 3, 7, 5
LENGTHS = (7, 3, 0)  # of the prompts
SCHEMES = ("sinusoidal", "learned", "rotary", "relative", "alibi", "none")
SAME = {"rtol": 1e-9, "atol": 1e-9}

every_scheme = pytest.mark.parametrize("scheme", SCHEMES)


def model_of(scheme: str, **changes: Any) -> DecoderOnly:
    torch.manual_seed(0)
    sizes = {"vocab_size": V, "d_model": 18, "n_heads": 3, "n_layers": 2, "d_ff": 13, "max_len": 17}
    model = DecoderOnly(ModelConfig(**sizes | changes, positions=scheme)).double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    return model


def left_padded() -> tuple[Tensor, Tensor, Tensor]:
    """Prompts, noise before the shorter ones; their lengths; one more token for each."""
    torch.manual_seed(1)
    return torch.randint(V, (B, P)), torch.tensor(LENGTHS), torch.randint(3, V, (B,))


def write(model: DecoderOnly, state: Any, tokens: Tensor) -> tuple[list[list[int]], Tensor]:
    """Greedy, ``NEW`` tokens; and all logits."""
    texts, seen = [], []
    for _ in range(NEW):
        logits, state = model.step(tokens, state)
        tokens = logits.argmax(-1)
        texts.append(tokens)
        seen.append(logits)
    return torch.stack(texts, 1).tolist(), torch.stack(seen, 1)


@pytest.mark.parametrize("recording", [False, True])
@every_scheme
def test_a_padded_batch_writes_what_each_prompt_writes_alone(scheme: str, recording: bool) -> None:
    model = model_of(scheme, n_kv_heads=1)
    prompts, lengths, tokens = left_padded()
    with torch.inference_mode():
        if recording:  # the explicit path
            with record_attention(model):
                texts, logits = write(model, model.start(prompts, lengths), tokens)
        else:
            texts, logits = write(model, model.start(prompts, lengths), tokens)
        for row, n in enumerate(LENGTHS):
            alone = model.start(prompts[row : row + 1, P - n :])
            text, expected = write(model, alone, tokens[row : row + 1])
            assert texts[row] == text[0]
            torch.testing.assert_close(logits[row], expected[0], **SAME)
    if scheme in ("sinusoidal", "learned"):  # the test would notice: without lengths it differs
        _, wrong = write(model, model.start(prompts), tokens)
        assert not wrong[1].allclose(logits[1])


@every_scheme
def test_rows_of_a_padded_batch_move_with_their_positions(scheme: str) -> None:
    model, index = model_of(scheme), torch.tensor([2, 0, 1, 1])
    prompts, lengths, tokens = left_padded()
    _, expected = write(model, model.start(prompts, lengths), tokens)
    state = model.start(prompts, lengths)
    state.reorder(index)
    _, found = write(model, state, tokens[index])
    torch.testing.assert_close(found, expected[index], **SAME)


def test_what_does_not_go_on_as_it_began_is_refused() -> None:
    model, where = model_of("rotary", max_len=8), torch.zeros(B, P).long()
    x = torch.zeros(B, P, 18).double()
    for first, second, message in (
        (None, where, "positions must be None: earlier keys came without"),
        (where, None, "positions must be given, as they were"),
    ):
        cache = KVCache(2)
        model.decoder(x, cache=cache, positions=first)
        with pytest.raises(ValueError, match=message):
            model.decoder(x, cache=cache, positions=second)
    prompts, lengths, tokens = left_padded()
    _, state = model.step(tokens, model.start(prompts, lengths))
    with pytest.raises(ValueError, match=r"positions must be .*below max_len \(8\), got 8"):
        model.step(tokens, state)
