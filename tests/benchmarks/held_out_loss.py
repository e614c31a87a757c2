#!/usr/bin/env python3
"""Trains the same images for the same number of steps with diffusers and with ddpm, and compares the held-out loss.

    ~/.cache/ddpm/peers/bin/python tests/benchmarks/held_out_loss.py [--ddpm BINARY] [--pictures FOLDER] [--seeds 3] ...

Each side trains once per seed, with initial weights, order, timesteps and noise of its own: the two trainings share
the stored pixels and the configuration (held_out_loss.toml), nothing else. Both averaged models are then opened by
diffusers and judged by one piece of code, on pictures that neither has seen, with the same noise.

Prints a Markdown page. Exit code 1: the mean losses differ by more than 3 %. Results are kept in the work folder, so
that an interrupted comparison continues where it was. Needs the venv of tests/peers/setup.sh and the pictures of
modules/setup.sh --pictures.
"""

import argparse
import hashlib
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import diffusers
import h5py
import numpy as np
import torch
from diffusers import UNet2DModel
from PIL import Image

import diffusers_training

ROOT = Path(__file__).resolve().parents[2]
CONFIG = Path(__file__).with_suffix(".toml")
SIDES = ("diffusers", "ddpm")
TOLERANCE = 0.03
PARTS = ("train", "held-out")
HELD_OUT_EVERY = 10  # every tenth picture
DRAWS = 32  # noise draws per held-out picture, one in each of as many equal parts of the timestep range
DRAW_SEED = 20


def main():
    args = parse_arguments()
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    config = resolved_config(args)
    settle_work_folder(args, config)
    if not (args.work / "data").exists():
        make_datasets(args, config["model"]["sample_size"])
    images = {part: stored_images(args.work / "data" / part) for part in PARTS}
    results = {side: [] for side in SIDES}
    for seed in range(1, args.seeds + 1):
        for side in SIDES:
            results[side].append(train_and_evaluate(args, config, images, side, seed))
        check_same_model(args.work, seed)
    print_report(args, config, images, results)
    return 1 if abs(mean_ratio(results) - 1) > TOLERANCE else 0


def parse_arguments():
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ddpm"
    pictures = Path(os.environ.get("DDPM_CACHE") or cache) / "pictures" / "32x32"
    binary = os.environ.get("DDPM") or ROOT / "build" / "release" / "ddpm"
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--ddpm", metavar="BINARY", type=Path, default=binary, help="the program")
    parser.add_argument("--pictures", metavar="FOLDER", type=Path, default=pictures, help="PNG files, at any depth")
    parser.add_argument("--steps", type=int, help="optimizer steps, in place of those of held_out_loss.toml")
    parser.add_argument("--seeds", type=int, default=3, help="trainings per side, from seed 1 on")
    parser.add_argument("--ranks", type=int, default=2, help="ranks of ddpm")
    parser.add_argument("--work", metavar="FOLDER", type=Path, default=ROOT / "runs" / "bench-held-out")
    return parser.parse_args()


def ddpm(args, *arguments, ranks=1):
    """Runs the program and returns what it prints; its messages pass through."""
    command = [str(args.ddpm.resolve()), *map(str, arguments)]
    if ranks > 1:
        mpirun = [os.environ.get("DDPM_MPIEXEC", "mpirun"), "--oversubscribe", "--bind-to", "none", "-np", str(ranks)]
        command = mpirun + command
    environment = dict(os.environ)
    if os.geteuid() == 0:  # Open MPI asks root twice
        environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    process = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False, env=environment
    )
    if process.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {process.returncode}")
    return process.stdout


def resolved_config(args):
    """All keys with their values, defaults included: ddpm's own account of what it will do."""
    config = tomllib.loads(ddpm(args, "config", "show", CONFIG))
    config["model"]["sample_size"] = config["model"]["sample_size"][0]  # square
    config["train"]["steps"] = args.steps or config["train"]["steps"]
    return config


def settle_work_folder(args, config):
    """Makes the work folder, or refuses one whose results are of another comparison."""
    settings = {"config": config, "ranks": args.ranks, "pictures": str(args.pictures.resolve())}
    path = args.work / "settings.json"
    if not path.exists():
        args.work.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(settings, indent=1))
    elif json.loads(path.read_text()) != settings:
        sys.exit(f"{args.work} holds a comparison with other settings: remove it, or name another folder with --work")


# --- Images -----------------------------------------------------------------------------------------------------------


def make_datasets(args, size):
    """Two ddpm datasets of different pictures. They appear under their names only when both are whole."""
    incoming = args.work / "incoming"
    shutil.rmtree(incoming, ignore_errors=True)
    for i, picture in enumerate(different_pictures(args.pictures.resolve())):
        folder = incoming / "pictures" / PARTS[i % HELD_OUT_EVERY == 0]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{i:06}.png").symlink_to(picture)
    for part in PARTS:
        source, output = incoming / "pictures" / part, incoming / "data" / part
        ddpm(args, "data", "create", source, "--output", output, "--size", size, ranks=args.ranks)
    (incoming / "data").rename(args.work / "data")
    shutil.rmtree(incoming)


def different_pictures(folder):
    """Paths in their order, without those that look like an earlier one: icon sets have many under two names."""
    seen = {}
    for path in sorted(folder.rglob("*.png")):
        with Image.open(path) as picture:
            pixels = picture.convert("RGBA")
        white = Image.new("RGBA", pixels.size, "white")
        shown = Image.alpha_composite(white, pixels).convert("RGB")
        seen.setdefault(hashlib.sha256(shown.tobytes()).digest(), path)
    if len(seen) < HELD_OUT_EVERY:
        sys.exit(f"{folder} has {len(seen)} different PNG files; wanted: at least {HELD_OUT_EVERY}")
    return list(seen.values())


def stored_images(dataset):
    """The pixels that ddpm reads, as uint8 [n, C, H, W]."""
    shards = [shard["file"] for shard in json.loads((dataset / "dataset.json").read_text())["shards"]]
    parts = []
    for shard in shards:
        with h5py.File(dataset / shard) as file:
            parts.append(file["images"][:])
    return torch.from_numpy(np.concatenate(parts)).permute(0, 3, 1, 2).contiguous()


# --- Training and evaluation ------------------------------------------------------------------------------------------


def train_and_evaluate(args, config, images, side, seed):
    """The result of one training; what the work folder holds already is not done again."""
    path = args.work / f"{side}-{seed}.json"
    if path.exists():
        return json.loads(path.read_text())
    print(f"== {side}, seed {seed}", file=sys.stderr)
    folder = args.work / f"{side}-{seed}"
    shutil.rmtree(folder, ignore_errors=True)
    if side == "ddpm":
        model, losses, seconds = train_with_ddpm(args, config, seed, folder)
    else:
        model, losses, seconds = folder, *diffusers_training.train(config, images["train"], seed, folder)
    tail = losses[-max(1, len(losses) // 10) :]
    result = {"train_loss": statistics.mean(tail), "seconds": seconds, **evaluate(config, model, images["held-out"])}
    incoming = path.with_suffix(".incoming")
    incoming.write_text(json.dumps(result, indent=1))
    incoming.rename(path)
    return result


def train_with_ddpm(args, config, seed, run):
    start = time.monotonic()
    own = {"run.directory": run, "run.seed": seed, "data.train": args.work / "data" / "train"}
    overrides = own | {"train.steps": config["train"]["steps"]}
    ddpm(
        args, "train", CONFIG, *(word for key, value in overrides.items() for word in (f"--{key}", value)),
        ranks=args.ranks,
    )  # fmt: skip
    seconds = time.monotonic() - start
    losses = [json.loads(line)["loss"] for line in (run / "metrics.jsonl").read_text().splitlines()]
    return run / "model" / "unet", losses, seconds


def check_same_model(work, seed):
    """The two files that diffusers builds the models from differ in no key."""
    theirs = UNet2DModel.load_config(work / f"diffusers-{seed}")
    ours = UNet2DModel.load_config(work / f"ddpm-{seed}" / "model" / "unet")
    different = [key for key in theirs | ours if theirs.get(key) != ours.get(key)]
    if different:
        sys.exit(f"the models of {work} are configured differently: {', '.join(different)}")


@torch.no_grad()
def evaluate(config, folder, images):
    """Mean squared error of the predicted noise. Timesteps and noise are the same for every model; over all draws, each
    image meets each part of the timestep range once."""
    unet = UNet2DModel.from_pretrained(folder).eval()
    scheduler = diffusers_training.scheduler_of(config)
    steps, count = scheduler.config.num_train_timesteps, len(images)
    clean = images / 127.5 - 1
    generator = torch.Generator().manual_seed(DRAW_SEED)
    losses, timesteps = torch.empty(DRAWS, count), torch.empty(DRAWS, count, dtype=torch.long)
    for draw in range(DRAWS):
        part = (torch.arange(count) + draw) % DRAWS
        timesteps[draw] = ((part + torch.rand(count, generator=generator)) * steps / DRAWS).long()
        noise = torch.randn(clean.shape, generator=generator)
        prediction = unet(scheduler.add_noise(clean, noise, timesteps[draw]), timesteps[draw]).sample
        losses[draw] = (prediction - noise).square().mean((1, 2, 3))
    quarter = timesteps * 4 // steps
    return {
        "loss": losses.mean().item(),
        "draws": losses.mean(1).tolist(),
        "quarters": [losses[quarter == q].mean().item() for q in range(4)],
    }


# --- Report -----------------------------------------------------------------------------------------------------------


def mean_of(results, side, key="loss"):
    return statistics.mean(result[key] for result in results[side])


def mean_ratio(results):
    return mean_of(results, "ddpm") / mean_of(results, "diffusers")


def error_from_draws(results):
    """Relative standard error of the ratio: both sides met the same draws, so only their difference counts."""
    theirs, ours = ([statistics.mean(draw) for draw in zip(*(r["draws"] for r in results[side]))] for side in SIDES)
    difference = [b - a for a, b in zip(theirs, ours, strict=True)]
    return statistics.stdev(difference) / DRAWS**0.5 / mean_of(results, "diffusers")


def print_report(args, config, images, results):
    print("| seed | held-out loss: diffusers | ddpm | training loss: diffusers | ddpm | seconds: diffusers | ddpm |")
    print("|---|---|---|---|---|---|---|")
    columns = [("loss", ".5f"), ("train_loss", ".5f"), ("seconds", ".0f")]
    for i in range(args.seeds):
        print_row(i + 1, [format(results[side][i][key], f) for key, f in columns for side in SIDES])
    print_row("mean", [format(mean_of(results, side, key), f) for key, f in columns for side in SIDES])
    print(f"\nMean held-out loss of ddpm over that of diffusers: {mean_ratio(results):.4f}. Its standard error is")
    print(f"{error_from_draws(results):.2%} from the evaluation's draws", end="")
    if args.seeds > 1:
        spread = [statistics.stdev(r["loss"] for r in results[side]) / mean_of(results, side) for side in SIDES]
        error = math.hypot(*spread) / args.seeds**0.5
        print(f", and {error:.1%} from the trainings: a loss has a standard deviation over")
        print(f"seeds of {spread[0]:.1%} with diffusers and {spread[1]:.1%} with ddpm", end="")
    print(".")

    print("\n| quarter of the timesteps | diffusers | ddpm | ratio |\n|---|---|---|---|")
    for q, name in enumerate(("lowest", "second", "third", "highest")):
        theirs, ours = (statistics.mean(r["quarters"][q] for r in results[side]) for side in SIDES)
        print_row(name, [f"{theirs:.5f}", f"{ours:.5f}", f"{ours / theirs:.4f}"])

    counts = " and ".join(f"{len(images[part])} {part}" for part in PARTS)
    print(f"\n{config['train']['steps']} steps of {config['batch']['global_size']} images. {counts} images;")
    print(f"{DRAWS} noise draws per held-out image.\n{machine(args)}")


def print_row(name, cells):
    print("|", " | ".join([str(name), *cells]), "|")


def machine(args):
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    cpu = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "unknown CPU")
    versions = f"torch {torch.__version__}, diffusers {diffusers.__version__}, {ddpm(args, '--version').strip()}"
    return f"{cpu}, {torch.get_num_threads()} threads, {args.ranks} ranks; {versions}."


if __name__ == "__main__":
    sys.exit(main())
