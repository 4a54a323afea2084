"""From logits to text, for any model that can take one step at a time."""

from transformer_lib.decoding.beam import beam_search
from transformer_lib.decoding.ensemble import Ensemble
from transformer_lib.decoding.greedy import greedy
from transformer_lib.decoding.protocol import Beams, Generation, State, StepModel, evaluating
from transformer_lib.decoding.sampling import sample

__all__ = [
    "Beams",
    "Ensemble",
    "Generation",
    "State",
    "StepModel",
    "beam_search",
    "evaluating",
    "greedy",
    "sample",
]
