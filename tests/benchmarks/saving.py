#!/usr/bin/env python3
"""What saving costs a training: beside it (checkpoint.async) and with training waiting, against no saving but the last.

    python3 tests/benchmarks/saving.py [--model medium] [--ranks 1 2] [--repeats 5]

The three kinds run in turns. Prints a Markdown table: seconds of whole programs, their ratio to the one without, and how
long training waited for a save, as the program reports it; medians with the lowest and the highest value.
"""

import re
import sys
import time

import bench
import ddpm_run
from models import MODELS

STEPS = 16
EVERY = 4
KINDS = {"none": None, "beside": True, "waiting": False}


def main():
    parser = bench.parser(__doc__)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--model", choices=MODELS, default="medium")
    parser.add_argument("--repeats", type=int, default=5, help="rounds of the three kinds")
    args = parser.parse_args()
    rows = []
    for ranks in args.ranks:
        rounds = [{kind: measure(args, ranks, kind) for kind in turned(i)} for i in range(args.repeats)]
        for kind in KINDS:
            seconds = [taken[kind][0] for taken in rounds]
            ratios = [taken[kind][0] / taken["none"][0] for taken in rounds]
            waits = [wait for taken in rounds for wait in taken[kind][1]]
            rows.append([ranks, kind, text(seconds), text(ratios), text(waits) if waits else "-"])
    print(f"{STEPS} steps of the {args.model} model, one thread per rank, a checkpoint every {EVERY}:\n")
    bench.print_table(["ranks", "saving", "seconds", "ratio to none", "training waited, seconds per save"], rows)
    print(bench.machine())
    return 0


def turned(i):
    kinds = list(KINDS)
    return kinds[i % len(kinds) :] + kinds[: i % len(kinds)]


def measure(args, ranks, kind):
    """Seconds of the program, and of each wait for a save before the last."""
    config, _ = bench.write_config(
        args.work, "saving", MODELS[args.model], train={"steps": STEPS}, run={"threads_per_rank": 1},
        batch={"global_size": 8, "micro_size": 4},
        checkpoint={"every_steps": 1_000_000 if kind == "none" else EVERY, "async": KINDS[kind]},
    )  # fmt: skip
    start = time.monotonic()
    said = ddpm_run.ddpm("train", config, ranks=ranks, env=bench.environment()).stderr
    seconds = time.monotonic() - start
    waits = [float(wait) for wait in re.findall(r"training waited ([0-9.]+) s", said)]
    print(f"{ranks} ranks, {kind}: {seconds:.2f} s, waits {waits}", file=sys.stderr)
    return seconds, waits[:-1]


def text(values):
    return "{:.3f} ({:.3f} to {:.3f})".format(*bench.spread(values))


if __name__ == "__main__":
    sys.exit(main())
