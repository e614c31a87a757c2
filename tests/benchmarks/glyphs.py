#!/usr/bin/env python3
"""Trains 40,000 pictures of characters for half an hour with ddpm and with diffusers, and compares what they draw.

    ~/.cache/ddpm/peers/bin/python tests/benchmarks/glyphs.py [--minutes 30] [--samples 5000] [--fonts FOLDER] ...

Both trainings have the configuration glyphs.toml, two cores and so many minutes: each is told the number of steps that fit into
them by its own speed, which a short training before measures. Initial weights, order, timesteps and noise are each program's
own. `ddpm sample` draws with both models, by the same sampler from the same noise, and `ddpm eval samples` measures the distances
to the training set: with its built-in random features, and with those of a small network that this script trains to tell the
characters apart. Beside them stand pictures of the set's rest, which neither model has seen.

Prints a Markdown table and draws a picture of both models' samples. Results are kept in the work folder, so that an interrupted
comparison continues where it was. Needs a quiet machine, and the venv of tests/peers/setup.sh.
"""

import json
import os
import shutil
import statistics
import sys
import time
import tomllib
from pathlib import Path

import h5py
import numpy as np
import torch
from PIL import Image

import bench
import diffusers_training
from ddpm_run import DDPM

CONFIG = Path(__file__).with_suffix(".toml")
SIDES = ("ddpm", "diffusers")
TRAINED_ON = 40_000
SIZE = 32
SPEED_STEPS = 60
SAMPLER = ("--scheduler", "dpmsolver++", "--steps", 25)
CLASS_OF = 8  # A class of the extractor has at least so many pictures.
EPOCHS = 10  # of the extractor


def main():
    args = parse_arguments()
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    args.work.mkdir(parents=True, exist_ok=True)
    make_sets(args)
    once(args.work / "extractor.pt", lambda path: train_extractor(args, path))
    for side in SIDES:
        model = args.work / side
        told = once(args.work / f"{side}.json", lambda path, model=model, side=side: train(args, side, model, path))
        once(args.work / f"{side}.npy", lambda path, model=model: draw(args, model, path))
        once(args.work / f"{side}.png", lambda path, model=model: draw(args, model, path, count=64))
        print(f"{side}: {json.loads(told.read_text())}", file=sys.stderr)
    print_report(args)


def parse_arguments():
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ddpm"
    parser = bench.parser(__doc__)
    parser.set_defaults(work=bench.ROOT / "runs" / "bench-glyphs")
    parser.add_argument("--fonts", type=Path, default=cache / "fonts", help="DejaVu's, as modules/setup.sh --fonts fetches them")
    parser.add_argument("--minutes", type=float, default=30, help="of each training")
    parser.add_argument("--samples", type=int, default=5000, help="drawn with each model")
    parser.add_argument("--ranks", type=int, default=2, help="of ddpm; diffusers has as many threads")
    return parser.parse_args()


def once(path, make):
    """What a path holds already is not made again; it appears when it is whole."""
    if not path.exists():
        incoming = path.with_name(f"incoming-{path.name}")
        make(incoming)
        incoming.rename(path)
    return path


# --- Pictures ---------------------------------------------------------------------------------------------------------


def make_sets(args):
    """The training set, and an .npy of the other pictures; the first 40,000 of the whole set's order are the former."""
    for name, count in (("train", ("--count", TRAINED_ON)), ("all", ())):
        if not (args.work / name).exists():
            bench.run([DDPM, "data", "generate", "glyphs", "--fonts", args.fonts, "--size", SIZE, *count, "--output", args.work / name])
    once(args.work / "others.npy", lambda path: write_others(args, path))


def stored(folder):
    """Pictures of uint8 [n, 1, H, W], and their classes."""
    files = [h5py.File(folder / shard["file"]) for shard in json.loads((folder / "dataset.json").read_text())["shards"]]
    images, labels = (np.concatenate([file[name][:] for file in files]) for name in ("images", "labels"))
    return torch.from_numpy(images).permute(0, 3, 1, 2).contiguous(), torch.from_numpy(labels.astype(np.int64))


def write_others(args, path):
    known = {image.tobytes() for image in stored(args.work / "train")[0].numpy()}
    rest = [image for image in stored(args.work / "all")[0].numpy() if image.tobytes() not in known]
    with open(path, "wb") as file:
        np.save(file, np.stack(rest).astype(np.float32))


class Extractor(torch.nn.Module):
    """A few convolutions from pictures [N, 1, 32, 32] in [-1, 1] to 64 features [N, 64]."""

    def __init__(self, classes):
        super().__init__()
        widths = (1, 32, 64, 128)
        self.convolutions = torch.nn.Sequential(
            *(layer for before, after in zip(widths, widths[1:]) for layer in (
                torch.nn.Conv2d(before, after, 3, stride=2, padding=1), torch.nn.BatchNorm2d(after), torch.nn.ReLU()))
        )  # fmt: skip
        self.features = torch.nn.Linear(128 * 4 * 4, 64)
        self.classes = torch.nn.Linear(64, classes)
        self.scale = 1.0  # of a mean square of 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.features(self.convolutions(x).flatten(1))) * self.scale


def train_extractor(args, path):
    images, labels = stored(args.work / "train")
    kinds, labels, counts = labels.unique(return_inverse=True, return_counts=True)
    often = counts >= CLASS_OF
    images, labels = images[often[labels]], (often.cumsum(0) - 1)[labels[often[labels]]]
    torch.manual_seed(0)
    network = Extractor(int(often.sum()))
    optimizer = torch.optim.Adam(network.parameters(), 2e-3)
    for epoch in range(EPOCHS):
        right = 0
        for rows in torch.randperm(len(images)).split(128):
            guesses = network.classes(network(images[rows] / 127.5 - 1))
            loss = torch.nn.functional.cross_entropy(guesses, labels[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            right += int((guesses.argmax(1) == labels[rows]).sum())
        print(f"extractor: epoch {epoch + 1}, {right / len(images):.1%} of {len(images)} right, {often.sum()} characters", file=sys.stderr)
    with torch.no_grad():
        network.eval().scale = float(network(images[:TRAINED_ON // 4] / 127.5 - 1).square().mean() ** -0.5)
    torch.jit.script(network).save(str(path))


# --- Trainings --------------------------------------------------------------------------------------------------------


def train(args, side, folder, path):
    """Writes what a training took to `path`; its model lies in `folder`."""
    trainer = {"ddpm": train_with_ddpm, "diffusers": train_with_diffusers}[side]
    seconds, _ = trainer(args, folder, SPEED_STEPS)
    steps = int(60 * args.minutes / statistics.median(seconds[SPEED_STEPS // 3 :]))
    start = time.monotonic()
    _, losses = trainer(args, folder, steps)
    result = {"steps": steps, "minutes": (time.monotonic() - start) / 60, "loss": statistics.mean(losses[-len(losses) // 10 :])}
    path.write_text(json.dumps(result))


def train_with_ddpm(args, folder, steps):
    shutil.rmtree(folder, ignore_errors=True)
    told = {"run.directory": folder, "data.train": args.work / "train", "train.steps": steps}
    overrides = [word for key, value in told.items() for word in (f"--{key}", value)]
    bench.on_ranks(args.ranks, DDPM, "train", CONFIG, *overrides)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [[line[key] for line in lines] for key in ("seconds_per_step", "loss")]


def train_with_diffusers(args, folder, steps):
    config = tomllib.loads(bench.run([DDPM, "config", "show", CONFIG]))
    config["model"]["sample_size"] = SIZE
    config["train"]["steps"] = steps
    images, _ = stored(args.work / "train")
    losses, seconds = diffusers_training.train(config, images, config["run"]["seed"], folder / "unet")
    scheduler = diffusers_training.scheduler_of(config)
    scheduler.save_pretrained(folder / "scheduler")
    index = {"_class_name": "DDPMPipeline", "unet": ["diffusers", "UNet2DModel"], "scheduler": ["diffusers", "DDPMScheduler"]}
    (folder / "model_index.json").write_text(json.dumps(index))
    return [seconds / steps] * steps, losses


def draw(args, model, path, count=None):
    bench.on_ranks(args.ranks, DDPM, "sample", "--model", model, *SAMPLER, "--count", count or args.samples, "--batch", 50,
                   "--threads", 1, "--output", path)  # fmt: skip


# --- Report -----------------------------------------------------------------------------------------------------------


def print_report(args):
    extractor = ("--extractor", args.work / "extractor.pt")
    drawn = {side: (args.work / f"{side}.npy", "model") for side in SIDES}
    rows = []
    for name, samples in {"not trained on": (args.work / "others.npy", "stored"), **drawn}.items():
        told = json.loads((args.work / f"{name}.json").read_text()) if name in SIDES else None
        took = [told["steps"], f"{told['minutes']:.1f}", f"{told['loss']:.4f}"] if told else [""] * 3
        learned = evaluate(args, *samples, "--metrics", "kernel,frechet", *extractor)["metrics"]
        random = evaluate(args, *samples, "--metrics", "kernel")["metrics"]
        rows.append([name, *took, value_of(learned, "kernel_distance"), value_of(learned, "frechet_distance_unbiased"),
                     value_of(random, "kernel_distance")])  # fmt: skip
    print(f"{TRAINED_ON:,} glyphs, {args.samples:,} samples of each model by {SAMPLER[1]} in {SAMPLER[3]} steps:\n")
    bench.print_table(["pictures", "steps", "minutes", "training loss", "kernel distance, trained features",
                       "Fréchet distance, trained features", "kernel distance, built-in features"], rows)  # fmt: skip
    for options in ((), extractor):
        told = evaluate(args, *drawn["ddpm"], "--against", drawn["diffusers"][0], "--metrics", "kernel", *options)
        (one,) = [c for c in told["comparisons"] if c["metric"] == "kernel_distance"]
        print(f"Kernel distance, {'trained' if options else 'built-in'} features: {one['verdict']} (A: ddpm, p = {one['p_adjusted']:.2g})")
    print(f"{beside(args)}\n{bench.machine()}")


def evaluate(args, samples, hold, *options):
    """As many of the data as there are samples, so that distances of all rows are comparable."""
    return json.loads(bench.on_ranks(args.ranks, DDPM, "eval", "samples", samples, "--data", args.work / "train",
                                     "--samples-hold", hold, "--most", args.samples, "--json", *options))  # fmt: skip


def value_of(metrics, name):
    (one,) = [metric for metric in metrics if metric["name"] == name]
    return f"{one['value']:.4f} ± {one['standard_error']:.4f}"


def beside(args):
    """Both models' samples in one picture, from the same noise."""
    pictures = [Image.open(args.work / f"{side}.png") for side in SIDES]
    width, height = pictures[0].size
    whole = Image.new("L", (2 * width + width // 16, height), 128)
    for number, picture in enumerate(pictures):
        whole.paste(picture, (number * (width + width // 16), 0))
    path = args.work / "glyphs.png"
    whole.save(path)
    return f"Samples of {SIDES[0]} (left) and {SIDES[1]} (right): {path}"


if __name__ == "__main__":
    main()
