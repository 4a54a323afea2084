"""Runs: a task, the folder that a run is kept in, and the command line."""

from transformer_lib.decoding import translate
from transformer_lib.runs.run import Run, environment, train
from transformer_lib.runs.tasks import TASKS, Task

__all__ = ["TASKS", "Run", "Task", "environment", "train", "translate"]
