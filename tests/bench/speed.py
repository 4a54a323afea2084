"""Our Transformer beside two others, in one run: `make bench`.

The peers are `torch.nn.Transformer`, wrapped the plain way, and Hugging Face's `MarianMTModel`.
All have the same sizes, weights drawn alike, dropout, data, loss, optimiser and threads. They take
turns within each round and what counts is the median of the ratios *per round*: whatever else
the machine is doing then slows all of them, and cancels.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing here is downloaded
if "cpu" in sys.argv:  # threads that wait for work must sleep, or their waiting is counted
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn

import transformer_lib
from transformer_lib import ModelConfig, SinusoidalPositions, Transformer, greedy
from transformer_lib.training import cross_entropy

BATCH, LENGTH = 32, 32  # training: 32 pairs of 32 + 32 tokens, the longest of them
GREEDY_BATCH, NEW_TOKENS = 16, 48
CONFIG = ModelConfig(
    vocab_size=8000, d_model=256, n_heads=8, n_layers=3, d_ff=1024, dropout=0.1, max_len=128
)
NO_TOKEN = CONFIG.vocab_size  # as the id that ends a text: looked for, never found
GOALS = {  # speed of ours in units of the peer's
    "training": {"nn.Transformer": 1.3, "MarianMTModel": 1.1},
    "greedy": {"MarianMTModel": 1.5},
}


class TorchTransformer(nn.Module):
    """`nn.Transformer` with tied, scaled embeddings and sinusoidal positions around it."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        nn.init.normal_(self.embedding.weight, std=config.d_model**-0.5)
        self.positions = SinusoidalPositions(d_model=config.d_model, max_len=config.max_len)
        self.dropout = nn.Dropout(config.dropout)
        self.body = nn.Transformer(
            config.d_model, config.n_heads, config.n_layers, config.n_layers, config.d_ff,
            config.dropout, norm_first=config.pre_norm, batch_first=True,
        )  # fmt: skip

    def embed(self, ids: Tensor) -> Tensor:
        return self.dropout(self.positions(self.embedding(ids) * self.config.d_model**0.5))

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        hidden = source == self.config.pad_id  # True = hidden, as nn.Transformer has it
        future = torch.ones(target.size(1), target.size(1), dtype=torch.bool).triu(1)
        x = self.body(
            self.embed(source), self.embed(target), tgt_mask=future, tgt_is_causal=True,
            src_key_padding_mask=hidden, memory_key_padding_mask=hidden,
            tgt_key_padding_mask=target == self.config.pad_id,
        )  # fmt: skip
        return F.linear(x, self.embedding.weight)

    @torch.no_grad()
    def generate(self, source: Tensor, new_tokens: int) -> Tensor:
        """Greedy, without a cache: it has none."""
        hidden = source == self.config.pad_id
        memory = self.body.encoder(self.embed(source), src_key_padding_mask=hidden)
        ids = torch.full((source.size(0), 1), self.config.bos_id)
        for _ in range(new_tokens):
            future = torch.ones(ids.size(1), ids.size(1), dtype=torch.bool).triu(1)
            x = self.body.decoder(
                self.embed(ids), memory, tgt_mask=future, tgt_is_causal=True,
                memory_key_padding_mask=hidden,
            )  # fmt: skip
            best = F.linear(x[:, -1], self.embedding.weight).argmax(-1)
            ids = torch.cat((ids, best[:, None]), dim=1)
        return ids[:, 1:]


def marian(config: ModelConfig) -> Any:
    """A Marian of the same size, on its fastest attention, with nothing extra in `generate`."""
    model: Any = transformers.MarianMTModel(
        transformers.MarianConfig(
            vocab_size=config.vocab_size, decoder_vocab_size=config.vocab_size,
            d_model=config.d_model, max_position_embeddings=config.max_len,
            encoder_layers=config.n_layers, decoder_layers=config.n_layers,
            encoder_attention_heads=config.n_heads, decoder_attention_heads=config.n_heads,
            encoder_ffn_dim=config.d_ff, decoder_ffn_dim=config.d_ff,
            dropout=config.dropout, attention_dropout=config.dropout,
            activation_dropout=config.dropout, activation_function=config.activation,
            init_std=config.d_model**-0.5, scale_embedding=True,
            pad_token_id=config.pad_id, bos_token_id=config.bos_id, eos_token_id=config.eos_id,
            decoder_start_token_id=config.bos_id, forced_eos_token_id=None,
        )
    )  # fmt: skip
    model.set_attn_implementation("sdpa")
    model.generation_config = transformers.GenerationConfig(
        pad_token_id=config.pad_id, decoder_start_token_id=config.bos_id, eos_token_id=NO_TOKEN
    )
    return model


def torch_loss(logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), label_smoothing=0.1, ignore_index=CONFIG.pad_id
    )


class Contender:
    """A model, how it makes logits, how it generates, and its own optimiser."""

    def __init__(
        self,
        model: nn.Module,
        logits: Callable[[Tensor, Tensor], Tensor],
        generate: Callable[[Tensor], Tensor],
        loss: Callable[[Tensor, Tensor], Tensor] = torch_loss,
    ) -> None:
        self.model, self.logits, self.generate, self.loss = model, logits, generate, loss
        self.optimizer = torch.optim.Adam(
            model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True
        )

    def train_step(self, source: Tensor, target: Tensor) -> None:
        self.model.train()
        loss = self.loss(self.logits(source, target[:, :-1]), target[:, 1:])
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def decode(self, source: Tensor) -> None:
        self.model.eval()
        ids = self.generate(source)
        if ids.shape != (GREEDY_BATCH, NEW_TOKENS):
            raise RuntimeError(f"wanted {GREEDY_BATCH} x {NEW_TOKENS} new tokens: {ids.shape}")


def contenders() -> dict[str, Contender]:
    ours, theirs, hf = Transformer(CONFIG), TorchTransformer(CONFIG), marian(CONFIG)
    return {
        "ours": Contender(
            ours,
            ours,
            lambda source: greedy(ours, source, max_len=NEW_TOKENS, eos_id=NO_TOKEN).ids,
            lambda logits, labels: cross_entropy(logits, labels, label_smoothing=0.1).mean,
        ),
        "nn.Transformer": Contender(
            theirs, theirs, lambda source: theirs.generate(source, NEW_TOKENS)
        ),
        "MarianMTModel": Contender(
            hf,
            lambda source, target: hf(
                input_ids=source, attention_mask=(source != CONFIG.pad_id).long(),
                decoder_input_ids=target,
                decoder_attention_mask=(target != CONFIG.pad_id).long(), use_cache=False,
            ).logits,
            lambda source: hf.generate(
                input_ids=source, attention_mask=(source != CONFIG.pad_id).long(),
                max_new_tokens=NEW_TOKENS, num_beams=1, do_sample=False, use_cache=True,
            )[:, 1:],
        ),
    }  # fmt: skip


def sentences(batch: int, length: int) -> Tensor:
    """Random ids, `(batch, length)`; rows end a little early, as those of a real batch do."""
    ids = torch.randint(4, CONFIG.vocab_size, (batch, length))
    lengths = torch.randint(length - length // 4, length + 1, (batch, 1))
    lengths[0] = length
    return ids.masked_fill(torch.arange(length) >= lengths, CONFIG.pad_id)


def race(
    tasks: dict[str, Callable[[], None]], budget: float, clock: Callable[[], float]
) -> dict[str, list[float]]:
    """Seconds of each task in each round; rounds go on until `budget` seconds have passed."""
    deadline = time.perf_counter() + budget
    for task in tasks.values():  # warm-up
        task()
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    names = list(tasks)
    while time.perf_counter() < deadline or len(seconds[names[0]]) < 3:
        names = names[1:] + names[:1]  # nobody always goes first
        for name in names:
            start = clock()
            tasks[name]()
            seconds[name].append(clock() - start)
    return seconds


def summary(
    kind: str, seconds: dict[str, list[float]], tokens: int
) -> dict[str, dict[str, float | None]]:
    rows: dict[str, dict[str, float | None]] = {}
    for name, theirs in seconds.items():
        ratios = sorted(t / o for t, o in zip(theirs, seconds["ours"], strict=True))
        quarter = len(ratios) // 4
        rows[name] = {
            "tokens_per_second": tokens / statistics.median(theirs),
            "ours_is_faster": statistics.median(ratios),
            "from": ratios[quarter],
            "to": ratios[-1 - quarter],
            "goal": GOALS[kind].get(name),
        }
    return rows


def show(kind: str, rows: dict[str, dict[str, float | None]]) -> None:
    print(f"\n{kind:16}{'tokens/s':>10}{'ours / theirs':>16}{'half of rounds':>18}{'goal':>7}")
    for name, row in rows.items():
        line = f"  {name:14}{row['tokens_per_second']:10,.0f}"
        if name != "ours":
            line += f"{row['ours_is_faster']:15.2f}×{row['from']:11.2f} to {row['to']:.2f}"
            line += f"{row['goal']:7.1f}" if row["goal"] else "      –"
        print(line)


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="under 30 seconds, not 100")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument(
        "--clock", choices=("wall", "cpu"), default="wall",
        help="cpu: the main thread's processor time, for a machine that is busy with other work",
    )  # fmt: skip
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    warnings.filterwarnings("ignore", message="enable_nested_tensor is True")
    clock = time.perf_counter if options.clock == "wall" else time.thread_time
    transformers.logging.set_verbosity_error()

    where = {
        "hardware": f"{processor()}, {os.cpu_count()} cores",
        "threads": options.threads,
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "transformer_lib": transformer_lib.__version__,
        },
    }
    models = contenders()
    print(", ".join(f"{name} {version}" for name, version in where["versions"].items()))
    print(f"{where['hardware']}; {options.threads} threads; {options.clock} clock")
    if hasattr(os, "getloadavg") and os.getloadavg()[0] > 1 and options.clock == "wall":
        print(f"The machine is busy (load {os.getloadavg()[0]:.1f}): better take --clock cpu.")
    print(
        f"{CONFIG.n_layers}+{CONFIG.n_layers} layers, d_model {CONFIG.d_model}, d_ff {CONFIG.d_ff},"
        f" {CONFIG.n_heads} heads, vocabulary {CONFIG.vocab_size} tied, dropout {CONFIG.dropout};"
        " float32; fused Adam, label smoothing 0.1"
    )
    sizes = {n: sum(p.numel() for p in c.model.parameters()) for n, c in models.items()}
    print("parameters:", ", ".join(f"{name} {size:,}" for name, size in sizes.items()))

    source, target = sentences(BATCH, LENGTH), sentences(BATCH, LENGTH + 1)
    target[:, 0] = CONFIG.bos_id
    seconds = race(
        {n: lambda c=c: c.train_step(source, target) for n, c in models.items()},
        10 if options.quick else 45,
        clock,
    )
    training = summary("training", seconds, BATCH * 2 * LENGTH)
    show("training", training)

    source = sentences(GREEDY_BATCH, LENGTH)
    seconds = race(
        {n: lambda c=c: c.decode(source) for n, c in models.items()},
        10 if options.quick else 45,
        clock,
    )
    decoding = summary("greedy", seconds, GREEDY_BATCH * NEW_TOKENS)
    show("greedy", decoding)
    print("\nMedians over rounds; nn.Transformer has no cache and decodes its whole prefix again.")
    if options.json:
        record = {**where, "parameters": sizes, "training": training, "greedy": decoding}
        options.json.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
