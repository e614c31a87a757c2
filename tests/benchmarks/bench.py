"""What the measuring scripts share: starting programs on ranks, trainings of a few steps, medians with their spread."""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "release"
sys.path.insert(0, str(ROOT / "tests" / "support"))
os.environ.setdefault("DDPM", str(BUILD / "ddpm"))
import ddpm_run  # noqa: E402

# Steps that warm up: first touches of memory, generated kernels, read-ahead.
WARM_UP = 2


def parser(description):
    made = argparse.ArgumentParser(
        description=description.split("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    made.add_argument("--work", metavar="FOLDER", type=Path, default=ROOT / "runs" / "bench", help="for temporary files")
    return made


def environment(**more):
    values = dict(os.environ)
    if os.geteuid() == 0:  # Open MPI asks root twice
        values |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return values | {key: str(value) for key, value in more.items()}


def run(command, **more):
    """Runs a command and returns what it prints; ends this program with its messages if it fails."""
    process = subprocess.run(
        list(map(str, command)), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        env=environment(**more),
    )  # fmt: skip
    if process.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit code {process.returncode}\n{process.stderr}{process.stdout}")
    return process.stdout


def on_ranks(ranks, *command, options=(), **more):
    return run([*ddpm_run.MPIRUN, *options, "-np", ranks, *command], **more)


def dataset(work, size=32, count=256):
    """Pictures of squares; made once per work folder."""
    work.mkdir(parents=True, exist_ok=True)
    os.environ.update(environment())
    return ddpm_run.make_dataset(work / f"squares-{size}", count, size)


def write_config(work, name, model, **sections):
    """A configuration without checkpoints on the way; returns its path and its run folder, which is gone."""
    folder = work / name
    shutil.rmtree(folder, ignore_errors=True)
    size = model["sample_size"]
    quiet = {"every_steps": 1, "tensorboard": False, "progress": "off"}
    defaults = {"logging": quiet, "checkpoint": {"every_steps": 1_000_000}}
    for section, keys in {"model": model, **sections}.items():
        defaults[section] = defaults.get(section, {}) | keys
    path = ddpm_run.write_config(work / f"{name}.toml", folder, dataset(work, size), **defaults)
    return path, folder


def train(config, folder, ranks, options=(), **more):
    """Trains, and returns the lines of metrics.jsonl."""
    on_ranks(ranks, ddpm_run.DDPM, "train", config, options=options, **more)
    return ddpm_run.metrics(folder)


def seconds_per_step(lines):
    """The median over a training's steps after the first ones."""
    return statistics.median(line["seconds_per_step"] for line in lines[WARM_UP:])


def spread(values):
    """The median with the lowest and the highest value."""
    return statistics.median(values), min(values), max(values)


def print_table(head, rows):
    print("|", " | ".join(head), "|")
    print("|" + "---|" * len(head))
    for row in rows:
        print("|", " | ".join(map(str, row)), "|")
    print(flush=True)


def machine():
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    cpu = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "unknown CPU")
    return f"{cpu}, {len(os.sched_getaffinity(0))} cores; {run([ddpm_run.DDPM, '--version']).strip()}."


def json_lines(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]
