"""From logits to text, for any model that can take one step at a time."""

from transformer_lib.decoding.greedy import Generation, StepModel, greedy

__all__ = ["Generation", "StepModel", "greedy"]
