#!/usr/bin/env python3
"""Compares the reading of chunked float32 fields with h5py, in turns, each on one core.

    chunks.py [--build build/release] [--rounds 5] [--rows 64]

Fields are smooth and have noise, as forecasts do, a chunk of 4 MiB each; half of the sets are rounded to 1/64, as packed
data are. Both programs read blocks of 8 fields into memory that they have; the file lies in the page cache. Prints the
medians, in MB of fields per second, and their ratio. Needs the Python of tests/peers/setup.sh.
"""

import argparse
import pathlib
import statistics
import subprocess
import tempfile
import time

import h5py
import hdf5plugin
import numpy as np

ROWS_PER_READ = 8
SHAPE = (512, 512, 4)
CODECS = {
    "gzip-4, shuffle": {"compression": "gzip", "compression_opts": 4, "shuffle": True},
    "LZ4, shuffle": {**hdf5plugin.LZ4(), "shuffle": True},
    "Zstandard, shuffle": {**hdf5plugin.Zstd(), "shuffle": True},
    "none": {},
}


def fields(rows, rounded):
    random = np.random.default_rng(0)
    y, x = np.mgrid[: SHAPE[0], : SHAPE[1]].astype(np.float32) / 100
    smooth = 280 + 10 * np.sin(x) * np.cos(y)
    values = smooth[None, :, :, None] + random.standard_normal((rows, *SHAPE), np.float32) / 50
    return np.round(values * 64) / 64 if rounded else values


def h5py_seconds(path, block):
    start = time.perf_counter()
    with h5py.File(path, "r") as file:
        images = file["images"]
        for first in range(0, len(images), ROWS_PER_READ):
            n = min(ROWS_PER_READ, len(images) - first)
            images.read_direct(block, np.s_[first : first + n], np.s_[:n])
    return time.perf_counter() - start


def compare(program, path, rounds):
    """Seconds of ours and of h5py, by round."""
    block = np.empty((ROWS_PER_READ, *SHAPE), np.float32)
    ours, theirs = [], []
    with subprocess.Popen([program, path, "/images"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        for _ in range(rounds + 1):
            process.stdin.write("\n")
            process.stdin.flush()
            ours.append(float(process.stdout.readline()))
            theirs.append(h5py_seconds(path, block))
        process.stdin.close()
    return ours[1:], theirs[1:]  # the first round warms up


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=64)
    options = parser.parse_args()
    program = options.build / "tests" / "benchmarks" / "bench_chunks"
    print(f"{'filter':20} {'values':8} {'packed':>6} {'ours':>8} {'h5py':>8}  ratio")
    with tempfile.TemporaryDirectory(prefix="ddpm-chunks-") as folder:
        path = pathlib.Path(folder) / "fields.h5"
        for rounded in (False, True):
            values = fields(options.rows, rounded)
            for codec, how in CODECS.items():
                with h5py.File(path, "w") as file:
                    images = file.create_dataset("images", data=values, chunks=(1, *SHAPE), **how)
                    packed = images.id.get_storage_size() / values.nbytes
                ours, theirs = compare(program, path, options.rounds)
                ratio = statistics.median(t / o for o, t in zip(ours, theirs))
                speeds = [values.nbytes / 1e6 / statistics.median(seconds) for seconds in (ours, theirs)]
                print(f"{codec:20} {'rounded' if rounded else 'full':8} {packed:6.2f} {speeds[0]:8.0f} {speeds[1]:8.0f}  {ratio:5.2f}")


if __name__ == "__main__":
    main()
