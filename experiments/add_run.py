"""Keep a training run in `results/`, without its parameters and with its log thinned out.

    python experiments/add_run.py runs/multi30k-tiny-s0 "What it is."

Of the log, the validations stay, and the run's last line. With `--curve` the training loss and the
learning rate stay too.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from result_file import write_result

from transformer_lib.training import History

CURVE = ("step", "epoch", "loss", "lr")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("run", type=Path, help="the run's folder")
    parser.add_argument("what", help="a sentence or two: what the run is")
    parser.add_argument("--curve", action="store_true", help="keep the training loss, too")
    options = parser.parse_args()
    log = History.read(options.run / "log.jsonl")
    found: dict[str, Any] = {
        "what": options.what,
        "settings": json.loads((options.run / "config.json").read_text("utf-8")),
        "log": thinned(log, options.curve),
        "scores": json.loads((options.run / "scores.json").read_text("utf-8")),
    }
    print(write_result(options.run.name, found))


def thinned(log: list[dict[str, Any]], curve: bool) -> list[dict[str, Any]]:
    kept = []
    for number, row in enumerate(log, start=1):
        if "val_loss" in row or number == len(log):
            kept.append(row)
        elif curve:
            kept.append({name: row[name] for name in CURVE})
    return kept


if __name__ == "__main__":
    main()
