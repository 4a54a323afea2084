"""Ensembles: the mean of the probabilities, for every way to decode."""

import pytest
import torch
from torch import nn

from transformer_lib import ModelConfig, Transformer, beam_search, sample
from transformer_lib.decoding import Ensemble
from transformer_lib.recurrent import RNNSeq2Seq

V = 11
CONFIG = ModelConfig(vocab_size=V, d_model=12, n_heads=3, n_layers=2, d_ff=17, dropout=0.5)
SOURCE = torch.tensor([[5, 6, 7, 8, 9], [7, 8, 0, 0, 0], [4, 4, 9, 0, 0]])


def members(*seeds: int) -> list[Transformer]:
    made = []
    for seed in seeds:
        torch.manual_seed(seed)
        made.append(Transformer(CONFIG))
        for parameter in made[-1].parameters():
            nn.init.normal_(parameter, std=0.5)  # so that they say different things
    return made


def test_a_step_is_the_mean_of_the_probabilities() -> None:
    models = members(0, 1, 2)
    together = Ensemble(models).eval()
    tokens, more = torch.tensor([1, 1, 1]), torch.tensor([4, 5, 6])
    with torch.no_grad():
        _, state = together.step(tokens, together.start(SOURCE))
        logits, _ = together.step(more, state)
        wanted = torch.zeros(3, V)
        for model in models:
            _, own = model.step(tokens, model.start(SOURCE))
            wanted += model.step(more, own)[0].softmax(-1) / 3
    torch.testing.assert_close(logits.exp(), wanted)


def test_beams_swap_parents_in_all_members() -> None:
    together = Ensemble(members(4, 5))
    beams = beam_search(together, SOURCE, max_len=7, beam_size=4)
    together.eval()
    for row, source in enumerate(SOURCE):
        for ids, score in zip(beams.ids[row], beams.scores[row], strict=True):
            # The same text again, one token at a time, without a search.
            state, total, token = together.start(source[None]), 0.0, torch.tensor([1])
            for id_ in ids.tolist():
                with torch.no_grad():
                    logits, state = together.step(token, state)
                total += logits[0, id_].item()
                token = torch.tensor([id_])
                if id_ == 2:
                    break
            assert total == pytest.approx(score.item(), abs=1e-4)


def test_models_of_several_kinds() -> None:
    torch.manual_seed(0)
    recurrent = RNNSeq2Seq(vocab_size=V, d_model=8)
    together = Ensemble([*members(8), recurrent.double()])
    generation = sample(together, SOURCE, max_len=4, generator=torch.Generator().manual_seed(1))
    assert len(generation.ids) == 3


@pytest.mark.parametrize(
    "models, error, message",
    [
        (members(0), ValueError, "models must be two or more, got 1"),
        ([*members(0), nn.Linear(2, 3)], TypeError, "number 1 is a Linear"),
    ],
)
def test_members_that_do_not_go_together(models, error, message) -> None:
    with pytest.raises(error, match=message):
        Ensemble(models)
