#!/usr/bin/env python3
"""Scaling as most users meet it: two emulated hosts (hosts.py), a core each, 16 to 64 images per rank.

    sudo python3 tests/benchmarks/scaling_usual.py [--draw docs/images/scaling-usual.svg]

Efficiency is the images per second of two hosts that train together, over those of the same two hosts that train by
themselves at the same time: both ways each host has a core to itself and the same share of the memory's bandwidth. More
hosts than cores would wait for each other's computing, so there are two. Each measurement is a `ddpm bench step`; repeats
are taken in turns. Prints a table; --draw writes the picture of it, with gnuplot.

A measurement counts if the machine does nothing else before and after it (--anyway: always). 3 repeats take 20 minutes on
two cores of an AMD EPYC.

Exit code 3: the machine was not idle within --patience.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import bench
from hosts import Hosts
from models import MODELS
from scaling_network import IDLE, busy_cores

sys.path.insert(0, str(bench.ROOT / "jobs" / "scaling"))
import plots  # noqa: E402

HOSTS = 2


def main():
    parser = bench.parser(__doc__)
    parser.add_argument("--images", type=int, nargs="+", default=[16, 32, 64], help="of a rank and step, at once")
    parser.add_argument("--mbit", type=int, nargs="+", default=[1000, 10000], help="of each link")
    parser.add_argument("--model", choices=MODELS, default="medium")
    parser.add_argument("--precision", choices=["no", "bf16"], default="no")
    parser.add_argument("--steps", type=int, default=5, help="measured steps")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--patience", type=float, default=600, metavar="SECONDS", help="to wait for an idle machine")
    parser.add_argument("--anyway", action="store_true", help="measure on a busy machine, too")
    parser.add_argument("--draw", type=Path, metavar="FILE.svg", help="write the picture")
    args = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("scaling_usual.py: network namespaces need root")
    if len(os.sched_getaffinity(0)) < HOSTS:
        sys.exit(f"scaling_usual.py: {HOSTS} hosts want {HOSTS} cores")
    if args.draw and shutil.which("gnuplot") is None:
        sys.exit("scaling_usual.py: --draw needs gnuplot")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as an exception: the hosts are removed
    rows = [row for images in args.images for row in measure(args, images)]
    print(f"{HOSTS} hosts, a core each; {args.model} model, precision {args.precision}; median of {args.repeats} (lowest to highest):\n")
    head = ["images per rank", "Mbit/s", "alone, images/s and host", "together", "waiting for the other, s of a step", "efficiency"]
    bench.print_table(head, [[row["images"], row["mbit"], text(row["alone"]), text(row["together"]),
                              f"{text(row['wait'])} of {text(row['step'])}", text(row["efficiency"], 100, " %")]
                             for row in rows])  # fmt: skip
    print(bench.machine())
    if args.draw:
        draw(args, rows)
    return 0


def measure(args, images):
    """One row per rate of the links, all against the hosts by themselves."""
    config, _ = bench.write_config(
        args.work, "usual", MODELS[args.model], batch={"global_size": images, "micro_size": images},
        run={"threads_per_rank": 1}, precision={"mixed_precision": args.precision},
    )  # fmt: skip
    alone, together = [], {mbit: [] for mbit in args.mbit}
    for repeat in range(1, args.repeats + 1):
        alone.append(when_idle(args, lambda: step_alone(args, config)))
        for mbit in args.mbit:
            together[mbit].append(when_idle(args, lambda mbit=mbit: step_together(args, config, images, mbit)))
        print(f"{images} images per rank: {repeat} of {args.repeats}", file=sys.stderr, flush=True)
    return [row_of(images, mbit, alone, together[mbit]) for mbit in args.mbit]


def row_of(images, mbit, alone, together):
    return {
        "images": images,
        "mbit": mbit,
        "alone": bench.spread(alone),
        "together": bench.spread([one["images_per_second"] / HOSTS for one in together]),
        "wait": bench.spread([one["comm_wait_seconds"] for one in together]),
        "step": bench.spread([one["seconds_per_step"] for one in together]),
        "efficiency": bench.spread(
            [both["images_per_second"] / HOSTS / one for one, both in zip(alone, together, strict=True)]
        ),
    }


def command(args, config, images=None):
    words = [bench.ddpm_run.DDPM, "bench", "step", config, "--steps", args.steps, "--warm-up", bench.WARM_UP, "--json"]
    return words + (["--batch.global_size", HOSTS * images] if images else [])


def step_alone(args, config):
    """Images per second of a host, mean of all that compute at the same time."""
    with Hosts(HOSTS, args.mbit[0], cores=1.0) as hosts:
        told = [json.loads(text) for text in hosts.alone(*command(args, config), OMP_NUM_THREADS=1)]
    return sum(one["images_per_second"] for one in told) / HOSTS


def step_together(args, config, images, mbit):
    with Hosts(HOSTS, mbit, cores=1.0) as hosts:
        return json.loads(hosts.mpirun(*command(args, config, images), OMP_NUM_THREADS=1))


def when_idle(args, work):
    """What `work` returns, from a time at which the machine was idle before and after."""
    deadline = time.monotonic() + args.patience
    while True:
        if args.anyway:
            return work()
        if busy_cores() <= IDLE:
            result = work()
            if busy_cores() <= IDLE:
                return result
            print("the machine was not idle; again", file=sys.stderr, flush=True)
        if time.monotonic() > deadline:
            print("scaling_usual.py: the machine is busy; nothing more is measured", file=sys.stderr)
            sys.exit(3)


def text(span, unit=1.0, name=""):
    return f"{span[0] * unit:.3g} ({span[1] * unit:.3g} to {span[2] * unit:.3g}){name}"


def draw(args, rows):
    """Efficiency over images per rank, a line for each rate of the links."""
    lines, drawn = [plots.COMMON, 'set xlabel "images per rank and step" offset 0,0.4', 'set ylabel "efficiency (%)"'], []
    lines.append(f'set title "{HOSTS} hosts, a core each; bars: lowest to highest of {args.repeats}" font ",12" textcolor rgb "#666666"')
    lines += ["set logscale x 2", "set yrange [0:110]", f"set xrange [{min(args.images) * 0.8:g}:{max(args.images) * 1.25:g}]"]
    lines.append("set xtics (" + ", ".join(f'"{n}" {n}' for n in args.images) + ")")
    for i, mbit in enumerate(args.mbit):
        points = [[row["images"], *(100 * end for end in row["efficiency"])] for row in rows if row["mbit"] == mbit]
        lines.append(plots.block(f"$rate{i}", points))
        look = f'lc rgb "{plots.COLOURS[i % len(plots.COLOURS)]}"'
        drawn.append(f'$rate{i} using 1:2 with lines lw 1.2 {look} notitle')
        drawn.append(f'$rate{i} using 1:2:3:4 with yerrorbars pt 7 ps 0.7 {look} title "links of {mbit / 1000:g} Gbit/s"')
    drawn.append('100 with lines dt 2 lw 0.8 lc rgb "#aaaaaa" title "as fast as by themselves"')
    terminal = plots.TERMINALS["svg"].format(height=480, twice=960)
    told = "\n".join([f"set terminal {terminal}", f'set output "{args.draw}"', *lines, "plot " + ", \\\n  ".join(drawn), "set output"])
    subprocess.run(["gnuplot", "-"], input=told, text=True, check=True)
    print(f"{args.draw} is drawn", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
