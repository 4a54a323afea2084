"""What one core can do at most, and products of few and many tokens: the record of Roofline.

    python experiments/roofline.py

Times a product that fits into the caches and a sum of numbers that don't, the fastest of 21 runs
each, and products of tokens with matrices that don't, the median. Processor time of one thread;
takes half a minute.
"""

import statistics
import time
from collections.abc import Callable

import torch
from result_file import write_result

SQUARE, LONG = 1024, 64 * 2**20  # 256 MiB of numbers that are added up
WIDTH, MATRICES, TOKENS = 2048, 12, (1, 2, 4, 8, 16, 32, 64, 128, 256)


def seconds(run: Callable[[], object]) -> list[float]:
    """Processor time of each of 21 runs; one before them warms up."""
    spent = []
    for _ in range(22):
        start = time.process_time()
        run()
        spent.append(time.process_time() - start)
    return spent[1:]


square, long = torch.randn(SQUARE, SQUARE), torch.randn(LONG)
rate = 2 * SQUARE**3 / min(seconds(lambda: square @ square))
bandwidth = 4 * LONG / min(seconds(long.sum))
del long
matrices = [torch.randn(WIDTH, WIDTH) for _ in range(MATRICES)]
spent = {}
for tokens in TOKENS:
    x = torch.randn(tokens, WIDTH)
    runs = seconds(lambda x=x: [x @ matrix.T for matrix in matrices])
    spent[tokens] = round(1e3 * statistics.median(runs) / MATRICES, 3)
write_result(
    bytes=4,
    gflops=round(rate / 1e9, 1),
    gbytes=round(bandwidth / 1e9, 1),
    width=WIDTH,
    milliseconds=spent,
)
