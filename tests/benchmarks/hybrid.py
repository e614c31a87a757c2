#!/usr/bin/env python3
"""Layouts of ranks over slow links between hosts, measured beside what `ddpm plan` predicts and chooses.

    sudo python3 tests/benchmarks/hybrid.py [--mbit 100] [--hosts 2] [--ranks-per-host 2] [--rounds 3]

On emulated hosts (hosts.py), all layouts in turns: ZeRO 3 over all ranks; ZeRO 3 in each host, whose copies are replicated across;
tiles of images in each host, whose sums of gradients cross the links; the same with parts of blocks; plain data parallelism; and the
mesh that the plan chooses among all. The rate at which ranks compute is taken from plain data parallelism over fast links, since no
plan knows of shared cores.
"""

import json
import os
import statistics
import sys

import bench
from hosts import Hosts
from models import MODELS

FAST_MBIT = 10_000


def layouts(local, hosts):
    tiles = {"spatial_size": local}
    return {
        "data": {},
        "ZeRO 3 over all": {"zero_stage": 3},
        "ZeRO 3 in a host × copies": {"zero_stage": 3, "dp_shard_size": local, "dp_replicate_size": hosts},
        "tiles in a host × data": tiles,
        "parts in a host × data": {"tensor_size": local},
        "tiles in a host × ZeRO 3": {**tiles, "zero_stage": 3},
    }


def main():
    parser = bench.parser(__doc__)
    parser.add_argument("--mbit", type=int, default=100, help="of each link")
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--ranks-per-host", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=3, help="measured steps of a round")
    parser.add_argument("--model", choices=MODELS, default="medium")
    args = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("hybrid.py: network namespaces need root")
    ways = layouts(args.ranks_per_host, args.hosts)
    computing = step_seconds(args, {}, FAST_MBIT)
    chosen = plan(args, {}, computing, "--meshes")["meshes"][0]
    ways["the plan's choice"] = keys_of(chosen)
    seconds = {name: [] for name in ways}
    for _ in range(args.rounds):
        for name, parallel in ways.items():
            seconds[name].append(step_seconds(args, parallel, args.mbit))
            print(f"{name}: {seconds[name][-1]:.2f} s", file=sys.stderr, flush=True)
    predicted = {name: plan(args, parallel, computing)["seconds_per_step"] for name, parallel in ways.items()}
    slowest = max(ways, key=lambda name: statistics.median(seconds[name]))
    rows = []
    for name in ways:
        ratios = [slow / own for slow, own in zip(seconds[slowest], seconds[name])]
        rows.append([name, f"{predicted[name]:.2f}", "{:.2f} ({:.2f} to {:.2f})".format(*bench.spread(seconds[name])),
                     "{:.1f} ({:.1f} to {:.1f})".format(*bench.spread(ratios))])  # fmt: skip
    print(f"Seconds per step on {args.hosts} hosts × {args.ranks_per_host} ranks, links of {args.mbit} Mbit/s, {args.model} model:\n")
    bench.print_table(["layout", "predicted", "measured", "times as fast as the slowest"], rows)
    best = {"predicted": min(predicted, key=predicted.get), "measured": min(ways, key=lambda n: statistics.median(seconds[n]))}
    print(f"Fastest: {best['predicted']} by the plan, {best['measured']} as measured.")
    print(f"The plan's choice among all meshes: {json.dumps(keys_of(chosen))}\n{bench.machine()}")


def keys_of(mesh):
    """Those of [parallel] that make a mesh of `ddpm plan --meshes`."""
    sharded = {"zero_stage": mesh["zero_stage"], "dp_shard_size": mesh["shard_size"]} if mesh["zero_stage"] else {}
    return {**{key: mesh[key] for key in ("pipeline_size", "spatial_size", "tensor_size")}, **sharded}


def config_of(args, parallel):
    ranks = args.hosts * args.ranks_per_host
    return bench.write_config(
        args.work, "hybrid", MODELS[args.model], parallel=parallel, run={"threads_per_rank": 1},
        batch={"global_size": 2 * ranks, "micro_size": 2}, train={"steps": args.steps + bench.WARM_UP},
    )  # fmt: skip


def step_seconds(args, parallel, mbit):
    config, folder = config_of(args, parallel)
    with Hosts(args.hosts, mbit, ranks_per_host=args.ranks_per_host) as hosts:
        hosts.mpirun(bench.ddpm_run.DDPM, "train", config)
    return bench.seconds_per_step(bench.ddpm_run.metrics(folder))


def plan(args, parallel, computing, *options):
    """Whose ranks compute as fast as those that took `computing` seconds for their two images."""

    def told(parallel, *options):
        config, _ = config_of(args, parallel)
        return json.loads(bench.run([bench.ddpm_run.DDPM, "plan", config, "--nodes", args.hosts, "--gpus-per-node",
                                     args.ranks_per_host, "--json", "--machine", "cpu", "--machine.network_gb_per_s",
                                     args.mbit * 0.95 / 8000, *options]))  # fmt: skip

    whole = told({})
    flops = 2 * (whole["forward_flops_per_image"] + whole["backward_flops_per_image"])
    return told(parallel, "--machine.tflops", flops / computing / 1e12, *options)


if __name__ == "__main__":
    main()
