#!/usr/bin/env python3
"""Copies of the state that are updated on their own (parallel.sync_every) beside plain data parallelism, over slow links.

    sudo python3 tests/benchmarks/islands.py [--mbit 100] [--every 50] [--hosts 2] [--rounds 3] [--steps 600] [--seeds 2]
                                              [--batch 16] [--outer-momentum 0.5]

Prints two tables: steps per second on emulated hosts (hosts.py), both ways in turns; and the held-out loss after as many steps
of the same images, which does not depend on the links and is measured without them.
"""

import os
import statistics
import sys

import bench
from hosts import Hosts
from models import MODELS

SIZE = 16
PLAIN = {}


def main():
    parser = bench.parser(__doc__)
    parser.add_argument("--mbit", type=int, default=100, help="of each link")
    parser.add_argument("--every", type=int, default=50, help="steps between two outer ones")
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--model", choices=MODELS, default="medium")
    parser.add_argument("--rounds", type=int, default=3, help="of the speed; 0: none")
    parser.add_argument("--steps", type=int, default=600, help="of the held-out loss; 0: none")
    parser.add_argument("--seeds", type=int, default=2, help="of the held-out loss")
    parser.add_argument("--batch", type=int, default=16, help="images of all ranks and step, for the held-out loss")
    parser.add_argument("--outer-momentum", type=float, default=0.5)
    args = parser.parse_args()
    if args.rounds:
        speed(args)
    if args.steps:
        held_out(args)
    print(bench.machine())


def islands(args):
    return {"sync_every": args.every, "outer_momentum": args.outer_momentum}


def config_of(args, name, parallel, **sections):
    model = {**MODELS[args.model], "sample_size": SIZE}
    return bench.write_config(args.work, name, model, parallel=parallel, run={"threads_per_rank": 1}, **sections)


def speed(args):
    if os.geteuid() != 0:
        sys.exit("islands.py: network namespaces need root")
    rows = []
    for ranks_per_host in (1, 2):
        # Ranks of a host share one copy of the state, so that copies are as many as links.
        shared = {"zero_stage": 1, "dp_replicate_size": args.hosts} if ranks_per_host > 1 else {}
        # Of islands, the steps from one outer step to the next, which is one of them.
        ways = {"plain": (shared, bench.WARM_UP, 4), "islands": ({**shared, **islands(args)}, args.every, args.every)}
        seconds = {name: [] for name in ways}
        for _ in range(args.rounds):
            for name, (parallel, before, steps) in ways.items():
                seconds[name].append(step_seconds(args, name, parallel, before, steps, ranks_per_host))
        ratios = [plain / own for plain, own in zip(*seconds.values())]
        rows.append([f"{args.hosts} × {ranks_per_host}", *(f"{1 / statistics.median(s):.3f}" for s in seconds.values()),
                     "{:.1f} ({:.1f} to {:.1f})".format(*bench.spread(ratios))])  # fmt: skip
        print(f"{rows[-1]}", file=sys.stderr, flush=True)
    print(f"Steps per second over links of {args.mbit} Mbit/s, {args.model} model, {SIZE} × {SIZE}:\n")
    bench.print_table(["hosts × ranks", "plain", f"sync_every = {args.every}", "ratio"], rows)


def step_seconds(args, name, parallel, before, steps, ranks_per_host):
    """The mean of `steps` steps, outer ones included, after so many `before`."""
    ranks = args.hosts * ranks_per_host
    config, folder = config_of(args, name, parallel, batch={"global_size": ranks, "micro_size": 1},
                               train={"steps": before + steps})  # fmt: skip
    with Hosts(args.hosts, args.mbit, ranks_per_host=ranks_per_host) as hosts:
        hosts.mpirun(bench.ddpm_run.DDPM, "train", config)
    return statistics.mean(line["seconds_per_step"] for line in bench.ddpm_run.metrics(folder)[before:])


def held_out(args):
    sets = {}
    for number, part in enumerate(("train", "held-out")):
        sets[part] = args.work / f"patterns-{part}"
        if not sets[part].exists():
            bench.run([bench.ddpm_run.DDPM, "data", "generate", "gray-scott", "--size", SIZE, "--steps", 300, "--seed", number + 1,
                       "--count", 4096 if part == "train" else 512, "--output", sets[part]])  # fmt: skip
    rows = []
    for seed in range(1, args.seeds + 1):
        losses = []
        for name, parallel in (("plain", PLAIN), ("islands", islands(args))):
            model = {"in_channels": 2, "out_channels": 2, **MODELS[args.model], "sample_size": SIZE}
            config, folder = bench.write_config(
                args.work, name, model, parallel=parallel, run={"threads_per_rank": 1, "seed": seed},
                data={"train": str(sets["train"]), "validation": str(sets["held-out"])},
                batch={"global_size": args.batch, "micro_size": args.batch // args.hosts}, train={"steps": args.steps},
                optimizer={"learning_rate": 3e-4}, validation={"every_steps": args.steps},
            )  # fmt: skip
            losses.append(bench.train(config, folder, args.hosts)[-1]["validation_loss"])
        rows.append([seed, *(f"{loss:.5f}" for loss in losses), f"{losses[1] / losses[0] - 1:+.1%}"])
    print(f"Held-out loss after {args.steps} steps of {args.batch} images on {args.hosts} copies:\n")
    bench.print_table(["seed", "plain", f"sync_every = {args.every}", "difference"], rows)


if __name__ == "__main__":
    main()
