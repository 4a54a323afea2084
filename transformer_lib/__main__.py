"""``python -m transformer_lib``: train a model, measure it, use it."""

import sys

from transformer_lib.runs.cli import keep_freed_memory, main

if __name__ == "__main__":
    keep_freed_memory()
    sys.exit(main())
