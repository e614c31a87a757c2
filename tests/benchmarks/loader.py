#!/usr/bin/env python3
"""Compares training's reader with a PyTorch DataLoader over h5py, in turns, on the same CPUs and the same file.

    loader.py [--build build/release] [--cpus 0,1] [--rounds 5] [--count 256] [--size 256] [--batch 8] [--chunk 1]

Images are float32 fields, smooth with noise, [n, size, size, 4], --chunk of them in a chunk; each codec once. The DataLoader has a
worker for each CPU, each with the file open, draws images in random order, and stacks batches as it does by default. Our
reader is `ddpm bench io`, whose rank has a thread for each CPU and reads micro-batches in training's order, every float
looked at for NaN. The file lies in the page cache. Prints medians in MB of fields per second and the ratio with its range
over the rounds. Needs the Python of tests/peers/setup.sh.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

import h5py
import hdf5plugin
import numpy as np
import torch

CODECS = {
    "gzip-4, shuffle": {"compression": "gzip", "compression_opts": 4, "shuffle": True},
    "LZ4, shuffle": {**hdf5plugin.LZ4(), "shuffle": True},
    "Zstandard, shuffle": {**hdf5plugin.Zstd(), "shuffle": True},
    "bitshuffle, LZ4": {**hdf5plugin.Bitshuffle()},
    "none": {},
}
CONFIG = """
[run]
directory = "{folder}/run"
device = "cpu"
threads_per_rank = {threads}
[data]
train = "{folder}/fields.h5"
[model]
sample_size = {size}
in_channels = 4
out_channels = 4
block_out_channels = [8]
down_block_types = ["DownBlock2D"]
up_block_types = ["UpBlock2D"]
layers_per_block = 1
norm_num_groups = 4
[batch]
global_size = {batch}
micro_size = {batch}
[train]
steps = 1
"""


def fields(count, size):
    random = np.random.default_rng(0)
    y, x = np.mgrid[:size, :size].astype(np.float32) / 50
    smooth = 280 + 10 * np.sin(x) * np.cos(y)
    noise = random.standard_normal((count, size, size, 4), np.float32) / 50
    return np.round((smooth[None, :, :, None] + noise) * 64) / 64


class Fields(torch.utils.data.Dataset):
    """What people write: the file is opened once in each worker."""

    def __init__(self, path, count):
        self.path, self.count, self.images = path, count, None

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if self.images is None:
            self.images = h5py.File(self.path, "r")["images"]
        return torch.from_numpy(self.images[index])


def epochs(loader):
    """A function that goes through the set once, and returns the seconds; workers were started before."""
    next(iter(loader))

    def seconds():
        start = time.perf_counter()
        for _ in loader:
            pass
        return time.perf_counter() - start

    return seconds


def ours(program, config, environment):
    """Images per second of one pass in training's order."""
    process = subprocess.run([program, "bench", "io", config, "--repeats", "1", "--warm", "--json"], env=environment,
                             capture_output=True, text=True, check=True)  # fmt: skip
    said = json.loads(process.stdout)
    return said["images_per_second"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--cpus", default="0")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--count", type=int, default=256)
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--chunk", type=int, default=1, help="images in a chunk")
    options = parser.parse_args()
    cpus = {int(cpu) for cpu in options.cpus.split(",")}
    os.sched_setaffinity(0, cpus)
    torch.set_num_threads(1)
    values = fields(options.count, options.size)
    print("| filters | ddpm | DataLoader | ddpm : DataLoader |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="ddpm-loader-") as folder:
        path, config = pathlib.Path(folder) / "fields.h5", pathlib.Path(folder) / "run.toml"
        config.write_text(CONFIG.format(folder=folder, threads=len(cpus), size=options.size, batch=options.batch))
        for name, how in CODECS.items():
            path.unlink(missing_ok=True)  # the loader before may have it open
            with h5py.File(path, "w") as file:
                file.create_dataset("images", data=values, chunks=(options.chunk, *values.shape[1:]), **how)
            workers = len(cpus) if len(cpus) > 1 else 0
            loader = torch.utils.data.DataLoader(Fields(path, options.count), batch_size=options.batch, shuffle=True,
                                                 num_workers=workers, persistent_workers=workers > 0)  # fmt: skip
            theirs = epochs(loader)
            rates = []
            for _ in range(options.rounds):
                own = ours(options.build / "ddpm", config, os.environ) * values[0].nbytes
                rates.append((own / 1e6, values.nbytes / 1e6 / theirs()))
            ratios = [own / their for own, their in rates]
            own, their = (statistics.median(column) for column in zip(*rates))
            print(f"| {name} | {own:.0f} | {their:.0f} | {statistics.median(ratios):.2f} ({min(ratios):.2f} to"
                  f" {max(ratios):.2f}) |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
