#!/usr/bin/env python3
"""Windows of a field that is larger than the memory of the ranks that read it.

    windows.py [--build build/release] [--folder DIR] [--side 16384] [--window 256] [--windows 256] [--rounds 5] [--train]

Writes one float32 field of side × side pixels, 1 GiB, and reads random periodic windows of it on 2 ranks, in turns: with
a pread for each row of pixels, and as training does. Before each pass the kernel forgets the file's pages. The address
space of each rank is limited to 3/4 of the field (RLIMIT_AS). Prints medians in MB of windows per second and the ratio
with its range over the rounds; the ratio is of passes that follow each other. The same windows are then read on 1, 2 and
4 ranks, and must have the same bytes. With --train, `ddpm train` learns from windows of 64 × 64 on 1, 2 and 4 ranks with
half of the field as its limit (RLIMIT_DATA), and the weights must be the same.
"""

import argparse
import contextlib
import hashlib
import os
import pathlib
import statistics
import subprocess
import tempfile

import h5py
import numpy as np

TRAINING = """
[run]
directory = "{run}"
reproducible = true
threads_per_rank = 1
device = "cpu"
[data]
train = "{field}"
patch = [64, 64]
[model]
in_channels = 1
out_channels = 1
padding = "periodic"
block_out_channels = [8, 16]
down_block_types = ["DownBlock2D", "DownBlock2D"]
up_block_types = ["UpBlock2D", "UpBlock2D"]
add_attention = false
layers_per_block = 1
norm_num_groups = 4
[batch]
global_size = 8
micro_size = 1
[train]
steps = 4
"""


def write_field(path, side):
    """Blocks of rows that differ, so that no byte can be taken for another."""
    random = np.random.default_rng(0)
    with h5py.File(path, "w") as file:
        images = file.create_dataset("images", (1, side, side, 1), np.float32)
        for first in range(0, side, 256):
            images[0, first : first + 256, :, 0] = random.random((min(256, side - first), side), np.float32)
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def forget(path):
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def limited(ranks, limit, command):
    """Runs a program on so many ranks under `ulimit`; returns what it prints."""
    words = ["mpirun", "-np", str(ranks), "--oversubscribe", "--bind-to", "none", "bash", "-c", f'ulimit {limit}; exec "$@"']
    environment = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return subprocess.run([*words, "bash", *map(str, command)], check=True, stdout=subprocess.PIPE, text=True,
                          env=environment).stdout  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--folder", type=pathlib.Path, help="on the file system that is measured")
    parser.add_argument("--side", type=int, default=16384)
    parser.add_argument("--window", type=int, default=256)
    parser.add_argument("--windows", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--train", action="store_true")
    arguments = parser.parse_args()
    program = arguments.build.resolve() / "tests" / "benchmarks" / "bench_windows"
    field_kib = arguments.side**2 * 4 // 1024
    with contextlib.ExitStack() as stack:
        folder = arguments.folder or pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        path = folder / "field.h5"
        stack.callback(path.unlink, missing_ok=True)
        write_field(path, arguments.side)

        def read(how, seed, ranks=2):
            forget(path)
            command = (program, path, arguments.window, arguments.windows, seed, how)
            seconds, digest = limited(ranks, f"-v {field_kib * 3 // 4}", command).split()
            return float(seconds), digest

        times = {"raw": [], "loader": []}
        for seed in range(arguments.rounds):
            digests = set()
            for how in ("raw", "loader") if seed % 2 == 0 else ("loader", "raw"):
                seconds, digest = read(how, seed)
                times[how].append(seconds)
                digests.add(digest)
            assert len(digests) == 1, "the loader's windows are not those that were read raw"
        megabytes = arguments.windows * arguments.window**2 * 4 / 1e6
        for how, seconds in times.items():
            print(f"{how:8} {megabytes / statistics.median(seconds):8.1f} MB/s of windows")
        ratios = [raw / loader for raw, loader in zip(times["raw"], times["loader"], strict=True)]
        print(f"loader as fast as {statistics.median(ratios):.2f} of raw ({min(ratios):.2f} to {max(ratios):.2f})")
        same = {read("loader", 99, ranks)[1] for ranks in (1, 2, 4)}
        assert len(same) == 1, "the bytes depend on the number of ranks"
        print("the same bytes on 1, 2 and 4 ranks")
        if arguments.train:
            weights = set()
            for ranks in (1, 2, 4):
                run = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory())) / "run"
                config = run.parent / "run.toml"
                config.write_text(TRAINING.format(run=run, field=path))
                limited(ranks, f"-d {field_kib // 2}", (arguments.build.resolve() / "ddpm", "train", config))
                files = sorted((run / "model" / "unet").glob("*.safetensors"))
                weights.add(hashlib.sha256(b"".join(each.read_bytes() for each in files)).hexdigest())
            assert len(weights) == 1, "the weights depend on the number of ranks"
            print("the same weights on 1, 2 and 4 ranks")


if __name__ == "__main__":
    main()
