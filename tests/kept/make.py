#!/usr/bin/env python3
"""Writes the files that later versions have to read, with the program of this version: an image set, a plain .h5 file, a run with
a checkpoint of two ranks, its model, and what a resumed run and samples of it gave.

    DDPM=build/release/ddpm DDPM_SOURCE_DIR=. python3 tests/kept/make.py

They go into tests/kept/VERSION, which must not be there yet: files of a version are written once, and then kept.
"""

import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
from ddpm_run import make_pictures, write_config  # noqa: E402

DDPM = pathlib.Path(os.environ["DDPM"]).resolve()
MODEL = {"block_out_channels": [4, 8], "norm_num_groups": 2, "attention_head_dim": 4, "num_class_embeds": 2}
SAMPLES = ("--scheduler", "ddim", "--steps", "3", "--count", "2", "--seed", "5", "--class-label", "1")
FIRST_STEPS, ALL_STEPS = 4, 8


def run(*arguments, ranks=2):
    launch = ["mpirun", "--oversubscribe", "--bind-to", "none", "-np", str(ranks)]
    subprocess.run([*launch, DDPM, *map(str, arguments)], check=True, timeout=300)


def main():
    version = subprocess.run([DDPM, "--version"], check=True, capture_output=True, text=True, timeout=60).stdout.split()[-1]
    folder = HERE / version
    folder.mkdir()
    os.chdir(folder)
    make_pictures(pathlib.Path("pictures"), 12, 8)
    run("data", "create", "pictures", "--output", "squares", "--size", 8, "--shards", 2, "--labels", "folder")
    shutil.rmtree("pictures")
    # Paths from the working directory, so that a copy of the folder serves anywhere.
    write_config(pathlib.Path("config.toml"), "run", "squares", model=MODEL, data={"block_images": 2, "pool_images": 4},
                 train={"steps": FIRST_STEPS}, parallel={"zero_stage": 2}, ema={"max_decay": 0.9})  # fmt: skip
    run("train", "config.toml")
    for weights in ("raw", "ema"):
        run("sample", "--model", "run", "--weights", weights, *SAMPLES, "--output", f"samples-{weights}.npy", ranks=1)
    run("sample", "--model", "run", *SAMPLES, "--output", "plain.h5", ranks=1)
    shutil.copytree("run", "longer")
    run("train", "config.toml", "--run.directory", "longer", "--train.steps", ALL_STEPS)
    shutil.copy("longer/model/unet/diffusion_pytorch_model.safetensors", f"weights-{ALL_STEPS}.safetensors")
    shutil.rmtree("longer")
    shutil.rmtree("run/events")
    for lock in pathlib.Path("run").glob(".*"):
        lock.unlink()


if __name__ == "__main__":
    main()
