#!/usr/bin/env python3
"""Measures communication between emulated hosts (hosts.py): all-reduces against the model of `ddpm plan`, and what
overlap and compression gain in training.

    sudo python3 tests/benchmarks/network.py [--hosts 2 3 4] [--mbit 1000 100] [--repeats 5] [--parts all-reduce training]

Prints Markdown tables. The model has two constants. Bandwidth is the rate that the links are given, not measured;
latency is half of a small message's way there and back. Of each 1514 bytes on a link, 1448 are the message's. Trainings
of the same settings are interleaved.

Exit code 1: an all-reduce differs from the model by more than 15 %, overlap hides less than half of the communication, or
overlap or compression gains nothing.
"""

import json
import os
import signal
import statistics
import sys

import bench
from hosts import Hosts
from models import MEDIUM

MEBIBYTES = {1000: (4, 16, 64), 100: (1, 4, 16)}
BUCKET_MIB = 1
TOLERANCE = 0.15
PAYLOAD = 1448 / 1514  # of Ethernet frames with TCP over IP
STEPS = bench.WARM_UP + 3


def main():
    parser = bench.parser(__doc__)
    parser.add_argument("--hosts", type=int, nargs="+", default=[2, 3, 4])
    parser.add_argument("--mbit", type=int, nargs="+", choices=MEBIBYTES, default=list(MEBIBYTES), help="of each link")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--micro-size", type=int, default=8, help="images of a rank and step, in training")
    parser.add_argument("--parts", choices=PARTS, nargs="+", default=list(PARTS))
    args = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("network.py: network namespaces need root")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as an exception: the hosts are removed
    good = [PARTS[part](args) for part in args.parts]
    print(bench.machine())
    return 0 if all(good) else 1


# --- All-reduces ------------------------------------------------------------------------------------------------------


def predicted(ranks, size, latency, mbit):
    """src/plan/step_time.h: a ring."""
    return 2 * (ranks - 1) * latency + 2 * (ranks - 1) / ranks * size / (PAYLOAD * mbit * 1e6 / 8)


def measure_all_reduces(args):
    rows, good = [], True
    for mbit in args.mbit:
        for count in args.hosts:
            with Hosts(count, mbit) as hosts:
                program = [bench.ddpm_run.DDPM, "bench", "comm", "--repeats", args.repeats]
                told = json.loads(hosts.mpirun(*program, "--max-mib", MEBIBYTES[mbit][-1], "--json"))
            latency = told["latency_seconds"]["median"]
            for line in told["collectives"]:
                if line["kind"] != "all_reduce" or line["bytes"] >> 20 not in MEBIBYTES[mbit]:
                    continue
                wanted = predicted(count, line["bytes"], latency, mbit)
                median, least, most = (line["seconds"][key] for key in ("median", "lowest", "highest"))
                off = median / wanted - 1
                good = good and abs(off) <= TOLERANCE
                size = f"{line['bytes'] >> 20} MiB"
                spread = f"{least:.3f} to {most:.3f}"
                rows.append([mbit, count, f"{latency * 1e6:.0f}", size, f"{wanted:.3f}", f"{median:.3f}", spread,
                             f"{off:+.1%}"])  # fmt: skip
    print("All-reduce of float32, seconds:\n")
    head = ["Mbit/s", "hosts", "latency, µs", "buffer", "model", "measured", "from, to", "difference"]
    bench.print_table(head, rows)
    return good


# --- Training ---------------------------------------------------------------------------------------------------------

SETTINGS = {
    "all after backward": {"overlap": False},
    "overlap": {"overlap": True},
    "overlap, bf16 on the wire": {"overlap": True, "gradient_compression": "bf16"},
}
PLAIN, OVERLAP, COMPRESSED = SETTINGS


def measure_training(args):
    good, rows = True, []
    for mbit in args.mbit:
        with Hosts(2, mbit) as hosts:
            runs = [{name: train(args, hosts, name) for name in SETTINGS} for _ in range(args.repeats)]
        for name in SETTINGS:
            step = bench.spread([run[name]["step"] for run in runs])
            wait = bench.spread([run[name]["wait"] for run in runs])
            rows.append([mbit, name, three(step), three(wait)])
        hidden = bench.spread([1 - run[OVERLAP]["wait"] / run[PLAIN]["wait"] for run in runs])
        gains = [
            bench.spread([run[before]["step"] / run[after]["step"] for run in runs])
            for before, after in ((PLAIN, OVERLAP), (OVERLAP, COMPRESSED))
        ]
        rows.append([mbit, "hidden by overlap", "", f"{hidden[0]:.0%} ({hidden[1]:.0%} to {hidden[2]:.0%})"])
        for name, gain in zip(("gain of overlap", "gain of compression"), gains, strict=True):
            rows.append([mbit, name, f"{gain[0]:.2f} ({gain[1]:.2f} to {gain[2]:.2f})", ""])
        good = good and hidden[0] >= 0.5 and all(gain[1] > 1 for gain in gains)
    print(f"Training on 2 hosts, {args.micro_size} images per rank, buckets of {BUCKET_MIB} MiB; median of")
    print(f"{args.repeats} interleaved runs (lowest to highest); gains are ratios of paired runs:\n")
    bench.print_table(["Mbit/s", "", "seconds per step", "of it waiting for communication"], rows)
    return good


def train(args, hosts, name):
    batch = {"global_size": 2 * args.micro_size, "micro_size": args.micro_size}
    parallel = {"bucket_mib": BUCKET_MIB, **SETTINGS[name]}
    config, folder = bench.write_config(
        args.work, "network", MEDIUM, batch=batch, train={"steps": STEPS}, parallel=parallel,
        run={"threads_per_rank": 1},
    )  # fmt: skip
    hosts.mpirun(bench.ddpm_run.DDPM, "train", config)
    lines = bench.ddpm_run.metrics(folder)
    waits = [line["seconds_per_step"] * line["comm_wait_fraction"] for line in lines[bench.WARM_UP :]]
    print(f"{name}: {bench.seconds_per_step(lines):.3f} s per step", file=sys.stderr)
    return {"step": bench.seconds_per_step(lines), "wait": statistics.median(waits)}


def three(values):
    return f"{values[0]:.2f} ({values[1]:.2f} to {values[2]:.2f})"


PARTS = {"all-reduce": measure_all_reduces, "training": measure_training}

if __name__ == "__main__":
    sys.exit(main())
