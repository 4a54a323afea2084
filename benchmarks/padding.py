"""How much of a batch is padding, when batches are made by tokens: Multi30k, the training pairs."""

from __future__ import annotations

from typing import Any

from transformer_lib.data import DownloadError, TokenBatchSampler, Tokenizer, multi30k

GOAL = 5.0  # percent


def padding(options: Any) -> dict[str, Any] | None:
    try:
        pairs = multi30k.load("train")
    except (DownloadError, FileNotFoundError) as error:
        print(f"\npadding: skipped, there is no Multi30k ({error})")
        return None
    tokenizer = Tokenizer.train_bpe((text for pair in pairs for text in pair), vocab_size=8_000)
    # + 1: <bos> in front of the target, or <eos> behind it.
    sizes = [(len(tokenizer.encode(en)), len(tokenizer.encode(de)) + 1) for en, de in pairs]
    print(f"\n{'padding':16}{'batches':>10}{'pairs / batch':>16}{'padding':>18}{'goal':>7}")
    record: dict[str, Any] = {"pairs": len(pairs), "goal_percent": GOAL}
    for max_tokens in (4096, 2048):
        batches = TokenBatchSampler(sizes, max_tokens=max_tokens).epoch(0)
        percent = wasted(batches, sizes)
        record[str(max_tokens)] = {"batches": len(batches), "percent": percent}
        print(f"  {max_tokens:,} tokens  {len(batches):10,}{len(pairs) / len(batches):16.0f}"
              f"{percent:16.1f} %{GOAL:5.0f} %")  # fmt: skip
    at_random = [list(range(i, min(i + 128, len(sizes)))) for i in range(0, len(sizes), 128)]
    record["random_128_percent"] = wasted(at_random, sizes)
    print(f"  as they come, 128 pairs each: {record['random_128_percent']:.1f} %")
    return record


def wasted(batches: list[list[int]], sizes: list[tuple[int, int]]) -> float:
    """Percent of all computed tokens, of both sides, that are padding."""
    tokens = sum(map(sum, sizes))
    computed = sum(
        len(batch) * max(sizes[i][side] for i in batch) for batch in batches for side in (0, 1)
    )
    return 100 * (1 - tokens / computed)
