"""Which numbers three translators get right that differ in their seed: a record of chapter 15.

    python experiments/number_words_seeds.py

`right` has one character per held-out number after 200 updates: 1 where every letter is right, else
0. Half a minute on one thread.
"""

import torch
from result_file import write_result

from transformer_lib import ModelConfig, Transformer
from transformer_lib.data import Batches
from transformer_lib.runs import TASKS, translate
from transformer_lib.training import TrainConfig, fit

task = TASKS["number-words"]
train, held_out = task.load("train"), task.load("val")
english, german = zip(*held_out, strict=True)
tokenizer = task.tokenizer(train, None)
encoded = [(tokenizer.encode(a), tokenizer.encode(b)) for a, b in train]
sizes = {"d_model": 64, "n_heads": 4, "n_layers": 2, "d_ff": 128, "dropout": 0.0}
config = ModelConfig(vocab_size=tokenizer.vocab_size, max_len=256, **sizes)
settings = TrainConfig(max_steps=200, warmup=100, peak_lr=3e-3, label_smoothing=0.1, seed=0)
right = []
for seed in (0, 1, 2):
    torch.manual_seed(seed)
    model = Transformer(config)
    fit(model, Batches(encoded, batch_size=64), settings, progress=False)
    texts = translate(model.eval(), tokenizer, english)
    right.append("".join(str(int(a == b)) for a, b in zip(texts, german, strict=True)))
write_result(right={"200": right})
