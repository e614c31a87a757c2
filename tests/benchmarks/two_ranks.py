#!/usr/bin/env python3
"""Measures what working together costs on one machine: two ranks against two runs of their own beside each other.

    python3 tests/benchmarks/two_ranks.py [--repeats 7] [--model medium]

Ranks and runs have one thread and one core each, and the same images per step to compute. Two runs beside each other
share the machine's memory and clock as two ranks do, but need not talk. Prints the throughput of the ranks over that of
the runs: median, lowest and highest of paired measurements.
"""

import subprocess
import sys

import bench
from models import MODELS

CORES = (0, 1)


def main():
    parser = bench.parser(__doc__)
    parser.add_argument("--repeats", type=int, default=7, help="pairs of measurements")
    parser.add_argument("--steps", type=int, default=10, help="measured steps")
    parser.add_argument("--model", choices=MODELS, default="medium")
    parser.add_argument("--micro-size", type=int, default=8, help="images of a rank and step")
    parser.add_argument("--precision", choices=("no", "bf16"), default="no")
    args = parser.parse_args()
    pairs = [pair(args, together_first=i % 2 == 0) for i in range(args.repeats)]
    rates = [bench.spread([p[kind] for p in pairs]) for kind in ("apart", "together")]
    ratio = bench.spread([p["together"] / p["apart"] for p in pairs])
    rows = [[args.model, *(f"{rate[0]:.2f}" for rate in rates), f"{ratio[0]:.3f} ({ratio[1]:.3f} to {ratio[2]:.3f})"]]
    print(f"Images per second, {args.micro_size} per rank and step, {args.repeats} pairs:\n")
    bench.print_table(["model", "two runs", "two ranks", "ratio of a pair"], rows)
    print(bench.machine())
    return 0


def pair(args, together_first):
    """Images per second of both ways."""
    ways = {"together": together, "apart": apart}
    order = list(ways) if together_first else list(reversed(ways))
    rates = {way: ways[way](args) for way in order}
    print(f"apart {rates['apart']:.2f}, together {rates['together']:.2f} images per second", file=sys.stderr)
    return rates


def config(args, name, ranks):
    return bench.write_config(
        args.work, name, MODELS[args.model], batch={"global_size": ranks * args.micro_size, "micro_size": args.micro_size},
        train={"steps": bench.WARM_UP + args.steps}, precision={"mixed_precision": args.precision},
        run={"threads_per_rank": 1},
    )  # fmt: skip


def together(args):
    path, folder = config(args, "together", len(CORES))
    # --bind-to none is on_ranks' own; each rank then takes the core of its number.
    own_core = ["sh", "-c", 'exec taskset -c "$OMPI_COMM_WORLD_LOCAL_RANK" "$@"', "sh"]
    bench.on_ranks(len(CORES), *own_core, bench.ddpm_run.DDPM, "train", path)
    return len(CORES) * args.micro_size / bench.seconds_per_step(bench.ddpm_run.metrics(folder))


def apart(args):
    configs = [config(args, f"apart-{core}", 1) for core in CORES]
    runs = [
        subprocess.Popen(
            ["taskset", "-c", str(core), bench.ddpm_run.DDPM, "train", path],
            env=bench.environment(), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )
        for core, (path, _) in zip(CORES, configs, strict=True)
    ]  # fmt: skip
    for process in runs:
        _, messages = process.communicate()
        if process.returncode != 0:
            sys.exit(messages)
    return sum(args.micro_size / bench.seconds_per_step(bench.ddpm_run.metrics(folder)) for _, folder in configs)


if __name__ == "__main__":
    sys.exit(main())
