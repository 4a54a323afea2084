"""Keep a training run in `results/`, without its parameters and with its log thinned out.

    python experiments/add_run.py runs/multi30k-tiny-s0 "What it is."

Of the log, the validations stay, and the run's last line. With `--curve` the training loss and the
learning rate stay too.
"""

import argparse
import json
from pathlib import Path

from result_file import write

from transformer_lib.training import History

parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
parser.add_argument("run", type=Path, help="the run's folder")
parser.add_argument("what", help="a sentence or two: what the run is")
parser.add_argument("--curve", action="store_true", help="keep the training loss, too")
options = parser.parse_args()
log = []
for row in (rows := History.read(options.run / "log.jsonl")):
    if "val_loss" in row or row is rows[-1]:
        log.append(row)
    elif options.curve:
        log.append({name: row[name] for name in ("step", "epoch", "loss", "lr")})
found = {
    "what": options.what,
    "settings": json.loads((options.run / "config.json").read_text("utf-8")),
    "log": log,
    "scores": json.loads((options.run / "scores.json").read_text("utf-8")),
}
write(options.run.name, found)
