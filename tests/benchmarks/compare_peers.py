#!/usr/bin/env python3
"""Measures training beside Python programs: the same UNet, batch, dtype and optimizer, in turns, in one run.

    PEERS/bin/python tests/benchmarks/compare_peers.py [--rounds 5] [--steps 6] [--dtypes no bf16] [--output docs/images]

PEERS is the venv that tests/peers/setup.sh makes. In every round each program trains a few steps, one after another, and
ddpm's images per second are divided by the others' of the same round. Prints a Markdown table per dtype, with the loss of
all programs over the same number of steps, and draws peers-DTYPE.svg (images per second, loss curves).
"""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import bench
import ddpm_run
from models import LIGHTNING64, MODELS
from peers.worker import BETAS, LEARNING_RATE, MAX_GRAD_NORM, PEERS, SEED, USUAL, WEIGHT_DECAY

OURS = "ddpm"
USUAL_MODEL = "lightning64"
SMOOTH = 15


def main():
    parser = bench.parser(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=6, help="measured steps of a program and round")
    parser.add_argument("--loss-steps", type=int, default=60, help="steps of each program before, whose losses are compared")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--model", choices=[*MODELS, USUAL_MODEL], default="medium")
    parser.add_argument("--dtypes", nargs="+", choices=("no", "bf16"), default=["no", "bf16"])
    parser.add_argument("--peers", nargs="+", choices=PEERS, help="all that train as the configuration says")
    parser.add_argument("--output", type=Path, help="folder for the plots")
    args = parser.parse_args()
    args.peers = args.peers or [name for name in PEERS if (name == USUAL) == (args.model == USUAL_MODEL)]
    for dtype in args.dtypes:
        results = compare(args, dtype)
        print_results(args, dtype, results)
        if args.output:
            draw(args.output / f"peers-{'float32' if dtype == 'no' else dtype}.svg", results)
    print(bench.machine())
    return 0


def sections_of(args):
    """What all programs are told: of the model of jobs/lightning64.toml, what that says."""
    if args.model == USUAL_MODEL:
        job = tomllib.loads((bench.ROOT / "jobs" / "lightning64.toml").read_text())
        return {name: job[name] for name in ("optimizer", "lr_schedule", "ema")}
    return {
        "optimizer": {
            "learning_rate": LEARNING_RATE, "betas": list(BETAS), "weight_decay": WEIGHT_DECAY, "max_grad_norm": MAX_GRAD_NORM,
        },
        "lr_schedule": {"name": "constant", "warmup_steps": 0},
    }  # fmt: skip


def compare(args, dtype):
    """Images per second by round, and losses, of each program."""
    model = (MODELS | {USUAL_MODEL: LIGHTNING64})[args.model] | {"attention_head_dim": 8}
    config, folder = bench.write_config(
        args.work, "peers", model,
        data={"horizontal_flip": False},
        batch={"global_size": args.batch, "micro_size": args.batch},
        train={"steps": args.loss_steps},
        precision={"mixed_precision": dtype},
        run={"threads_per_rank": args.threads, "seed": SEED},
        **sections_of(args),
    )  # fmt: skip
    shard = next(bench.dataset(args.work, model["sample_size"]).glob("*.h5"))
    workers = {name: Worker(name, shard, dtype, args, model) for name in args.peers}
    rates = {name: [] for name in (OURS, *workers)}
    try:
        losses = {OURS: ours_losses(config, folder)}
        for name, worker in workers.items():  # compilers and caches warm up here
            losses[name] = worker.steps(args.loss_steps)["losses"]
            print(f"{dtype}: {name}: {args.loss_steps} steps", file=sys.stderr)
        for number in range(args.rounds):
            for name in turned(list(rates), number):
                rate = ours(config, args) if name == OURS else workers[name].rate(args)
                rates[name].append(rate)
                print(f"{dtype}, round {number + 1}: {name}: {rate:.2f} images/s", file=sys.stderr)
    finally:
        for worker in workers.values():
            worker.close()
    return {name: (rates[name], losses[name]) for name in rates}


def turned(names, number):
    return names[number % len(names) :] + names[: number % len(names)]


def ours(config, args):
    told = bench.run([ddpm_run.DDPM, "bench", "step", config, "--steps", args.steps, "--warm-up", 2, "--json"])
    return json.loads(told)["images_per_second"]


def ours_losses(config, folder):
    return [line["loss"] for line in bench.train(config, folder, 1)]


class Worker:
    def __init__(self, name, shard, dtype, args, model):
        command = [sys.executable, Path(__file__).parent / "peers" / "worker.py", name, shard, dtype, args.batch]
        self.name = name
        self.process = subprocess.Popen(
            [*map(str, command), json.dumps(model)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=bench.environment(OMP_NUM_THREADS=args.threads),
        )  # fmt: skip

    def steps(self, count):
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{self.name}: ended with exit code {self.process.wait()}")
        return json.loads(line)

    def rate(self, args):
        """Images per second in the median step, after two that bring its memory back into the caches."""
        seconds = self.steps(args.steps + 2)["seconds"][2:]
        return args.batch / bench.spread(seconds)[0]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def print_results(args, dtype, results):
    ours_rates = results[OURS][0]
    rows = []
    for name, (rates, losses) in results.items():
        ratio = bench.spread([a / b for a, b in zip(ours_rates, rates, strict=True)])
        rows.append([
            name, "{:.2f} ({:.2f} to {:.2f})".format(*bench.spread(rates)),
            "" if name == OURS else "{:.2f} ({:.2f} to {:.2f})".format(*ratio),
            f"{sum(losses[-SMOOTH:]) / len(losses[-SMOOTH:]):.3f}",
        ])  # fmt: skip
    precision = "float32" if dtype == "no" else dtype
    print(f"{precision}, {args.model} model, batch {args.batch}, {args.threads} threads, {args.rounds} rounds:\n")
    head = ["program", "images per second", "ddpm over it", f"loss, last {min(SMOOTH, args.loss_steps)} of {args.loss_steps} steps"]
    bench.print_table(head, rows)


def draw(path, results):
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 3.6), layout="constrained")
    names = list(results)
    medians = [bench.spread(rates)[0] for rates, _ in results.values()]
    errors = [
        [median - min(rates) for median, (rates, _) in zip(medians, results.values(), strict=True)],
        [max(rates) - median for median, (rates, _) in zip(medians, results.values(), strict=True)],
    ]
    left.barh(names, medians, xerr=errors, color=["#c44e52"] + ["#8c9bb0"] * (len(names) - 1))
    left.invert_yaxis()
    left.set_xlabel("images per second")
    for name, (_, losses) in results.items():
        smooth = [sum(losses[max(0, i - SMOOTH + 1) : i + 1]) / min(i + 1, SMOOTH) for i in range(len(losses))]
        right.plot(range(1, len(losses) + 1), smooth, label=name, linewidth=2 if name == OURS else 1)
    right.set_xlabel("step")
    right.set_ylabel(f"loss, mean of {SMOOTH} steps")
    right.legend(fontsize=7)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    sys.exit(main())
