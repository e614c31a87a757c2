#!/usr/bin/env python3
"""A scaling study over emulated hosts (hosts.py): the model of jobs/scaling against hosts that it was not fitted to.

    sudo python3 tests/benchmarks/scaling_network.py [--hosts 1 2 3 4] [--mbit 1000 100] [--repeats 3]

Every host has the same share of a core, so that more hosts compute more, as machines do. For each rate of the links there
is a study folder below --work; what it has already is not measured again, and its report has tables and plots. Prints the
back-tests.

Shares of cores mean something on a machine that does nothing else. Each job waits until it is idle, and is measured again
if it is not so right after.

Exit codes: 1: the model misses the duration of a step on a number of hosts that was left out by more than 15 %; 3: the
machine was not idle within --patience.
"""

import os
import signal
import sys
import time

import bench
from hosts import Hosts
from models import MODELS

sys.path.insert(0, str(bench.ROOT / "jobs" / "scaling"))
import forecast  # noqa: E402
import study as scaling  # noqa: E402
from description import Study  # noqa: E402
from jobs import DONE, jobs_of  # noqa: E402
from results import read_samples  # noqa: E402

TOLERANCE = 0.15
IDLE = 0.15  # busy cores
SHARE = 0.45  # of a core, for each host: four of them fit two cores

STUDY = """
name = "emulated hosts, links of {mbit} Mbit/s, {share} of a core each"
config = "{config}"
nodes = {hosts}
micro_size = {micro_size}
zero_stage = {stages}
repeats = {repeats}
steps = {steps}
warm_up = {warm_up}

[weak]
batch_per_rank = [{micro_size}]

[strong]
global_batch = {global_batch}

[comm]
max_mib = {max_mib}
repeats = 3

[set]
"parallel.bucket_mib" = {bucket_mib}
"run.threads_per_rank" = 1
"""


def main():
    parser = bench.parser(__doc__)
    parser.add_argument("--hosts", type=int, nargs="+", default=[1, 2, 3, 4])
    parser.add_argument("--mbit", type=int, nargs="+", default=[1000, 100], help="of each link")
    parser.add_argument("--model", choices=MODELS, default="medium")
    parser.add_argument("--micro-size", type=int, default=2, help="images of a rank and step")
    parser.add_argument("--global-batch", type=int, nargs="*", default=[12], help="of the strong studies")
    parser.add_argument("--stages", type=int, nargs="+", default=[0], help="of ZeRO")
    parser.add_argument("--bucket-mib", type=int, default=1, help="of gradients")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--steps", type=int, default=5, help="measured steps")
    parser.add_argument("--patience", type=float, default=600, metavar="SECONDS", help="to wait for an idle machine")
    args = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("scaling_network.py: network namespaces need root")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as an exception: the hosts are removed
    os.environ.update(bench.environment(OMP_NUM_THREADS=1))
    rows = [row for mbit in args.mbit for row in study_of(args, mbit)]
    print(f"Steps on hosts that were left out, seconds; median of {args.repeats}:\n")
    head = ["Mbit/s", "series", "hosts left out", "predicted", "measured", "error"]
    bench.print_table(head, [[*row[:3], f"{row[3]:.2f}", f"{row[4]:.2f}", f"{row[5]:+.1%}"] for row in rows])
    print(bench.machine())
    return 0 if all(abs(row[5]) <= TOLERANCE for row in rows) else 1


def study_of(args, mbit):
    """Measures what is missing, writes the report; the rows of its back-test."""
    config, _ = bench.write_config(args.work, "scaling", MODELS[args.model])
    folder = args.work / f"scaling-{mbit}-{args.bucket_mib}mib"
    folder.mkdir(exist_ok=True)
    (folder / "study.toml").write_text(
        STUDY.format(
            hosts=args.hosts, mbit=mbit, share=SHARE, config=config, micro_size=args.micro_size, stages=args.stages,
            repeats=args.repeats, steps=args.steps, warm_up=bench.WARM_UP, global_batch=args.global_batch,
            max_mib=16 if mbit >= 1000 else 4, bucket_mib=args.bucket_mib,
        )
    )  # fmt: skip
    study = Study(folder)
    for job in jobs_of(study):
        while job.state(set())[0] != DONE:
            measure(args, job, mbit)
    scaling.report(study, args)
    tests, notes = forecast.back_test(read_samples(folder / "results.jsonl"))
    for note in notes:
        print(note, file=sys.stderr)
    return [[mbit, forecast.label(t.point.series), t.point.nodes, t.predicted, t.measured, t.error] for t in tests]


def measure(args, job, mbit):
    """Leaves a result if the machine was idle before and after."""
    deadline = time.monotonic() + args.patience
    while busy_cores() > IDLE:
        if time.monotonic() > deadline:
            print(f"scaling_network.py: the machine is busy; {job.name} and what follows is not measured", file=sys.stderr)
            sys.exit(3)
    with Hosts(job.point.nodes, mbit, cores=SHARE) as hosts:
        good = job.run(str(hosts.launcher()), hosts=",".join(hosts.names))
    if not good:
        sys.exit(f"{job.name}: failed; see {job.folder}/log-local.txt")
    disturbed = busy_cores() > IDLE
    if disturbed:
        job.result.unlink()
    print(f"{mbit} Mbit/s: {job.name}" + (": the machine was not idle; again" if disturbed else ""), file=sys.stderr, flush=True)


def busy_cores(seconds=1.0):
    """How many cores were busy, on average over some time."""

    def ticks():
        names = "user nice system idle iowait irq softirq steal".split()
        with open("/proc/stat") as file:
            times = dict(zip(names, map(int, file.readline().split()[1:]), strict=False))
        return sum(times.values()) - times["idle"] - times["iowait"]

    before = ticks()
    time.sleep(seconds)
    return (ticks() - before) / os.sysconf("SC_CLK_TCK") / seconds


if __name__ == "__main__":
    sys.exit(main())
