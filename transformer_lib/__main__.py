"""``python -m transformer_lib``: train a model, measure it, use it."""

import sys

from transformer_lib.runs.cli import keep_freed_memory, main


def run() -> int:
    """Run the command ``attention-built-by-hand``, which is the same as this module."""
    keep_freed_memory()
    return main()


if __name__ == "__main__":
    sys.exit(run())
