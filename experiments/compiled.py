"""What `torch.compile` gains a whole model on a CPU: the record of chapter 17.

    python experiments/compiled.py

Times training updates of a small translator on one core, eager and compiled. Needs a C++ compiler;
takes some minutes, most of them compiling.
"""

import statistics
import time

import torch
from result_file import write_result

from transformer_lib import ModelConfig, Transformer
from transformer_lib.training import cross_entropy

CONFIG = ModelConfig(vocab_size=4_000, d_model=128, n_heads=4, n_layers=2, d_ff=512)
PAIRS, LENGTH, UPDATES, ROUNDS = 16, 32, 12, 7


def update_ms(compiled: bool) -> float:
    """Processor milliseconds of an update, in the median of the rounds after the first."""
    torch.manual_seed(0)
    model = Transformer(CONFIG)
    adam = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
    run = torch.compile(model) if compiled else model
    batches = [torch.randint(3, CONFIG.vocab_size, (3, PAIRS, LENGTH)) for _ in range(UPDATES)]
    rounds = []
    for _ in range(1 + ROUNDS):
        start = time.process_time()
        for source, target, labels in batches:
            adam.zero_grad()
            cross_entropy(run(source, target), labels, pad_id=CONFIG.pad_id).mean.backward()
            adam.step()
        rounds.append(time.process_time() - start)
    return round(1e3 * statistics.median(rounds[1:]) / UPDATES, 1)


write_result(update_ms={"eager": update_ms(False), "compiled": update_ms(True)})
