"""Which numbers three translators get right that differ in their seed: a record of chapter 15.

    python experiments/number_words_seeds.py

The translator of chapter 14, two layers per side, width 64, is trained for 200 or 300 updates. The
three differ in their initial parameters alone. For each of them, `right` has one character per
held-out number: 1 where every letter of the translation is right, else 0. About a minute on one
thread.
"""

from __future__ import annotations

import torch
from result_file import head, write_result

from transformer_lib import ModelConfig, Transformer
from transformer_lib.data import Batches, Tokenizer, number_word_pairs, split_pairs
from transformer_lib.runs import translate
from transformer_lib.training import TrainConfig, fit

UPDATES = (200, 300)


def main() -> None:
    torch.set_num_threads(1)
    train, held_out = split_pairs(number_word_pairs(0, 9_999), held_out=1_000)
    words = {word for english, _ in train for word in english.replace("-", " ").split()}
    tokenizer = Tokenizer.characters([text for pair in train for text in pair], words=words)
    encoded = [(tokenizer.encode(a), tokenizer.encode(b)) for a, b in train]
    sizes = {"d_model": 64, "n_heads": 4, "n_layers": 2, "d_ff": 128, "dropout": 0.0}
    config = ModelConfig(vocab_size=tokenizer.vocab_size, max_len=256, **sizes)
    record = head(
        "numbers held out that are right (1) or wrong (0); the models differ by their seed"
    ) | {
        "model": sizes,
        "right": {str(updates): [] for updates in UPDATES},
    }
    for seed in (0, 1, 2):
        for updates in UPDATES:
            torch.manual_seed(seed)
            model = Transformer(config)
            settings = TrainConfig(
                max_steps=updates, warmup=100, peak_lr=3e-3, label_smoothing=0.1, seed=0
            )
            fit(model, Batches(encoded, batch_size=64), settings, progress=False)
            texts = translate(model.eval(), tokenizer, [english for english, _ in held_out])
            right = [text == german for text, (_, german) in zip(texts, held_out, strict=True)]
            record["right"][str(updates)].append("".join(str(int(each)) for each in right))
            print(f"seed {seed}, {updates} updates: {sum(right)} right", flush=True)
    write_result("number-words-seeds", record)


if __name__ == "__main__":
    main()
