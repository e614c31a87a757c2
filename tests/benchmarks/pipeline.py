#!/usr/bin/env python3
"""Measures the bubble of a pipeline: the time of a step for several numbers of accumulation steps, beside theory.

    python3 tests/benchmarks/pipeline.py [--stages 2] [--steps 6]

With P stages and M micro-batches a step takes (M + P - 1) a, of which a stage works M a: of a line through the measured times
(T = a M + b) b/a is P - 1. Prints a Markdown table: the fastest step of each run, the part of it in which the rank that waits
longest waits for others, and (P - 1)/(M + P - 1).
"""

import sys

import bench
import numpy as np
from models import MEDIUM

MICRO_SIZE = 4


def main():
    parser = bench.parser(__doc__)
    parser.add_argument("--stages", type=int, default=2)
    parser.add_argument("--steps", type=int, default=6, help="measured steps of a run")
    parser.add_argument("--micro-batches", type=int, nargs="+", default=[1, 2, 4, 8])
    args = parser.parse_args()
    rows, fastest = [], []
    for count in args.micro_batches:
        config, folder = bench.write_config(
            args.work, "pipeline", MEDIUM, batch={"global_size": MICRO_SIZE * count, "micro_size": MICRO_SIZE},
            train={"steps": bench.WARM_UP + args.steps}, run={"threads_per_rank": 1}, parallel={"pipeline_size": args.stages},
        )  # fmt: skip
        lines = bench.train(config, folder, args.stages)[bench.WARM_UP :]
        best = min(lines, key=lambda line: line["seconds_per_step"])
        fastest.append(best["seconds_per_step"])
        theory = (args.stages - 1) / (count + args.stages - 1)
        rows.append([count, f"{fastest[-1]:.3f}", f"{best['comm_wait_fraction']:.3f}", f"{theory:.3f}"])
        print(f"{count} micro-batches: {fastest[-1]:.3f} s", file=sys.stderr)
    print(f"{args.stages} stages, a rank of one thread each, micro-batches of {MICRO_SIZE} images:\n")
    bench.print_table(["micro-batches", "seconds per step", "waiting", "theory"], rows)
    if len(rows) > 1:
        slope, rest = np.polyfit(args.micro_batches, fastest, 1)
        print(f"T = {slope:.3f} M + {rest:.3f}: b/a is {rest / slope:.2f}, {args.stages - 1} in theory\n")
    print(bench.machine())
    return 0


if __name__ == "__main__":
    sys.exit(main())
