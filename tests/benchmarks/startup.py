#!/usr/bin/env python3
"""What starting takes: commands of a login node, and from a process's start to its first training step.

    python3 tests/benchmarks/startup.py [--repeats 5] [--python PEERS/bin/python]

Prints a Markdown table of seconds, medians with the lowest and the highest value; programs run in turns. With --python, a
Python with diffusers makes the same model and does one forward and backward pass, for comparison.
"""

import subprocess
import sys
import time
from pathlib import Path

import bench
import ddpm_run
from models import MODELS

COMMANDS = {"ddpm --version": ["--version"], "ddpm config show": ["config", "show"], "ddpm env": ["env"]}
PYTHON = """
import sys
import torch
from diffusers import UNet2DModel
torch.set_num_threads(2)
unet = UNet2DModel(**{model!r})
x = torch.randn(8, 3, 32, 32)
torch.nn.functional.mse_loss(unet(x, torch.arange(8)).sample, x).backward()
"""


def main():
    parser = bench.parser(__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--model", choices=MODELS, default="small")
    parser.add_argument("--python", type=Path, help="a Python with torch and diffusers")
    args = parser.parse_args()
    config, folder = bench.write_config(
        args.work, "startup", MODELS[args.model], batch={"global_size": 8, "micro_size": 8}, train={"steps": 4}
    )
    command = [ddpm_run.DDPM, "train", config]
    seconds = {}
    for _ in range(args.repeats):
        for name, words in COMMANDS.items():
            seconds.setdefault(name, []).append(timed([ddpm_run.DDPM, *words]))
        # run.directory is fresh each time: nothing is resumed.
        for ranks in (1, 2):
            bench.write_config(
                args.work, "startup", MODELS[args.model], batch={"global_size": 8, "micro_size": 4}, train={"steps": 4}
            )
            launcher = [*ddpm_run.MPIRUN, "-np", "2"] if ranks == 2 else []
            seconds.setdefault(f"first step, {ranks} rank(s)", []).append(until_first_step([*launcher, *command], folder))
        if args.python:
            code = PYTHON.format(model=MODELS[args.model])
            seconds.setdefault("Python with diffusers, first backward pass", []).append(timed([args.python, "-c", code]))
    rows = [[name, "{:.2f} ({:.2f} to {:.2f})".format(*bench.spread(values))] for name, values in seconds.items()]
    bench.print_table(["from the process's start", "seconds"], rows)
    print(bench.machine())
    return 0


def timed(command):
    start = time.monotonic()
    bench.run(command)
    return time.monotonic() - start


def until_first_step(command, folder):
    """Seconds until the metrics of step 1 can be read."""
    metrics = folder / "metrics.jsonl"
    start = time.monotonic()
    with subprocess.Popen(
        list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=bench.environment()
    ) as process:
        while not (metrics.exists() and metrics.stat().st_size > 0):
            if process.poll() is not None:
                sys.exit(f"ended with {process.returncode}: {process.stderr.read().decode()}")
            time.sleep(0.005)
        seconds = time.monotonic() - start
        process.communicate()
    return seconds


if __name__ == "__main__":
    sys.exit(main())
