#!/usr/bin/env python3
"""Measures what run.reproducible costs: seconds per step with it over seconds per step without, on the same ranks.

    python3 tests/benchmarks/reproducible.py [--ranks 2] [--repeats 7]

Runs with and without are paired and take turns in going first. Prints a Markdown table: medians, and the lowest and
highest ratio of a pair.
"""

import sys

import bench
from models import SMALL

GLOBAL_SIZE = 32
MICRO_SIZE = 4


def main():
    parser = bench.parser(__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=7, help="pairs of runs")
    parser.add_argument("--steps", type=int, default=10, help="measured steps of a run")
    args = parser.parse_args()
    rows = []
    for precision in ("no", "bf16"):
        pairs = [pair(args, precision, with_first=i % 2 == 1) for i in range(args.repeats)]
        fast, fixed = (bench.spread([p[kind] for p in pairs]) for kind in (False, True))
        ratio = bench.spread([p[True] / p[False] for p in pairs])
        dtype = "float32" if precision == "no" else precision
        rows.append([dtype, f"{fast[0]:.3f}", f"{fixed[0]:.3f}",
                     f"{ratio[0]:.3f} ({ratio[1]:.3f} to {ratio[2]:.3f})"])  # fmt: skip
    accumulation = GLOBAL_SIZE // (MICRO_SIZE * args.ranks)
    print(f"{args.ranks} ranks, one thread each, {accumulation} micro-batches of {MICRO_SIZE} images, {args.repeats} pairs:\n")
    bench.print_table(["weights", "seconds per step", "with run.reproducible", "ratio of a pair"], rows)
    print(bench.machine())
    return 0


def pair(args, precision, with_first):
    """Seconds per step, by run.reproducible."""
    seconds = {}
    for reproducible in (with_first, not with_first):
        config, folder = bench.write_config(
            args.work, "reproducible", SMALL, batch={"global_size": GLOBAL_SIZE, "micro_size": MICRO_SIZE},
            train={"steps": bench.WARM_UP + args.steps}, precision={"mixed_precision": precision},
            run={"reproducible": reproducible, "threads_per_rank": 1},
        )  # fmt: skip
        seconds[reproducible] = bench.seconds_per_step(bench.train(config, folder, args.ranks))
    print(f"{precision}: {seconds[False]:.3f} s, {seconds[True]:.3f} s", file=sys.stderr)
    return seconds


if __name__ == "__main__":
    sys.exit(main())
