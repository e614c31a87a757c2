#!/usr/bin/env python3
"""How much of what tiles send each other is hidden behind convolutions, over slow links between hosts.

    sudo python3 tests/benchmarks/halo.py [--mbit 100] [--hosts 2] [--side 160] [--rounds 3]

One tile of each image on each emulated host (hosts.py). Steps of 2 and of 10 micro-batches are timed in turns: their difference
over 8 is the time of one micro-batch, without the update and the sums of gradients, which a step has once. Three ways: over the
slow links with parallel.overlap, without it, and over fast links. What is hidden is one less than (slow - fast) / wire, where wire
is the time that the bytes of `ddpm plan` take on a link; the same of the seconds in which a rank waits for borders, with less noise.
"""

import json
import os
import statistics
import sys

import bench
from hosts import Hosts
from models import CONVOLUTIONS

FAST_MBIT = 10_000
BURST_BYTES = 3000  # two packets: single messages are to take their time on the link
FEW, MANY = 2, 10  # micro-batches of a step


def main():
    parser = bench.parser(__doc__)
    parser.add_argument("--mbit", type=int, default=100, help="of each link")
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--side", type=int, default=160, help="of the images, whose rows are cut")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=3, help="measured steps of a round")
    args = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("halo.py: network namespaces need root")
    ways = {"beside computation": (args.mbit, True), "waited for": (args.mbit, False), "fast links": (FAST_MBIT, True)}
    seconds, waits = ({name: [] for name in ways} for _ in range(2))
    for _ in range(args.rounds):
        for name, way in ways.items():
            for kept, value in zip((seconds, waits), of_micro_batch(args, *way), strict=True):
                kept[name].append(value)
            print(f"{name}: {seconds[name][-1]:.3f} s, {waits[name][-1]:.3f} s of waiting", file=sys.stderr, flush=True)
    sent = bytes_sent(args)
    wire = sent * 8 / args.mbit / 1e6
    rows = []
    for name, (mbit, _) in ways.items():
        hidden = [share_hidden(of[name], of["fast links"], wire) if mbit == args.mbit else "" for of in (seconds, waits)]
        rows.append([name, *("{:.3f} ({:.3f} to {:.3f})".format(*bench.spread(of[name])) for of in (seconds, waits)), *hidden])
    print(f"One image of {args.side} × {args.side} in {args.hosts} tiles, each on a host, links of {args.mbit} Mbit/s: a tile sends "
          f"{sent / 1e6:.2f} MB, {wire:.3f} s on its link. Of a micro-batch:\n")  # fmt: skip
    bench.print_table(["pixels of other tiles", "seconds", "of them waited", "hidden, by seconds", "by waiting"], rows)
    print(bench.machine())


def share_hidden(slow, fast, wire):
    return "{:.0%} ({:.0%} to {:.0%})".format(*bench.spread([1 - (a - b) / wire for a, b in zip(slow, fast)]))


def of_micro_batch(args, mbit, overlap):
    """Its seconds, and those of them in which borders or sums were waited for."""
    few, many = (of_step(args, mbit, overlap, count) for count in (FEW, MANY))
    return [(more - less) / (MANY - FEW) for less, more in zip(few, many)]


def config_of(args, overlap, micro_batches):
    model = {**CONVOLUTIONS, "block_out_channels": [32, 64], "sample_size": args.side}
    return bench.write_config(
        args.work, "halo", model, parallel={"spatial_size": [args.hosts, 1], "overlap": overlap}, run={"threads_per_rank": 1},
        batch={"global_size": micro_batches, "micro_size": 1}, train={"steps": args.steps + bench.WARM_UP},
    )  # fmt: skip


def of_step(args, mbit, overlap, micro_batches):
    config, folder = config_of(args, overlap, micro_batches)
    with Hosts(args.hosts, mbit, burst_ms=BURST_BYTES * 8 / mbit / 1000) as hosts:
        hosts.mpirun(bench.ddpm_run.DDPM, "train", config)
    lines = bench.ddpm_run.metrics(folder)[bench.WARM_UP :]
    waited = [line["comm_wait_fraction"] * line["seconds_per_step"] for line in lines]
    return statistics.median(line["seconds_per_step"] for line in lines), statistics.median(waited)


def bytes_sent(args):
    """By a tile, of one micro-batch, forward and backward."""
    config, _ = config_of(args, True, 1)
    told = json.loads(bench.run([bench.ddpm_run.DDPM, "plan", config, "--nodes", args.hosts, "--gpus-per-node", 1, "--json"]))
    return sum(line["sent_bytes"] for line in told["communication"] if "tiles" in line["of"])


if __name__ == "__main__":
    main()
