"""From logits to text, for any model that can take one step at a time."""

from transformer_lib.decoding.beam import beam_search
from transformer_lib.decoding.ensemble import Ensemble
from transformer_lib.decoding.generate import greedy, sample
from transformer_lib.decoding.protocol import Beams, Generation, State, StepModel, evaluating
from transformer_lib.decoding.text import Candidate, candidates, complete, translate

__all__ = [
    "Beams",
    "Candidate",
    "Ensemble",
    "Generation",
    "State",
    "StepModel",
    "beam_search",
    "candidates",
    "complete",
    "evaluating",
    "greedy",
    "sample",
    "translate",
]
