#!/usr/bin/env python3
"""Compares the reading of chunked float32 fields with h5py and with the codec alone, in turns, each on one core.

    chunks.py [--build build/release] [--rounds 5] [--rows 64]

Fields are smooth and have noise, as forecasts do, a chunk of 4 MiB each; half of the sets are rounded to 1/64, as packed
data are. Both programs read blocks of 8 fields into memory that they have; the file lies in the page cache. The codec
alone unpacks the same chunks from memory, and leaves them shuffled. Prints medians in MB of fields per second, and the
ratios to h5py and to the codec with their ranges over the rounds. Needs the Python of tests/peers/setup.sh; run it
under `taskset -c 0`.
"""

import argparse
import contextlib
import pathlib
import statistics
import struct
import subprocess
import tempfile
import time

import h5py
import hdf5plugin
import numpy as np

ROWS_PER_READ = 8
SHAPE = (512, 512, 4)
GZIP, LZ4, ZSTANDARD = 1, 32004, 32015  # HDF5's numbers
CODECS = {
    "gzip-4, shuffle": (GZIP, {"compression": "gzip", "compression_opts": 4, "shuffle": True}),
    "LZ4, shuffle": (LZ4, {**hdf5plugin.LZ4(), "shuffle": True}),
    "Zstandard, shuffle": (ZSTANDARD, {**hdf5plugin.Zstd(), "shuffle": True}),
    "bitshuffle, LZ4": (None, {**hdf5plugin.Bitshuffle()}),
    "none": (None, {}),
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


@contextlib.contextmanager
def passes(*command):
    """A function that has bench_chunks make one pass, and returns its seconds."""
    pipe = subprocess.PIPE
    with subprocess.Popen([str(word) for word in command], stdin=pipe, stdout=pipe, text=True) as process:

        def seconds():
            process.stdin.write("\n")
            process.stdin.flush()
            return float(process.stdout.readline())

        yield seconds
        process.stdin.close()


def write_packed(path, packed_path):
    """The chunks of the file at `path` as they are stored."""
    with h5py.File(path) as file, open(packed_path, "wb") as packed:
        images = file["images"].id
        for i in range(images.get_num_chunks()):
            chunk = images.read_direct_chunk(images.get_chunk_info(i).chunk_offset)[1]
            packed.write(struct.pack("=Q", len(chunk)) + chunk)


def compare(program, path, codec, rounds):
    """Seconds by round: ours, h5py's, and the codec's (none: no codec)."""
    block = np.empty((ROWS_PER_READ, *SHAPE), np.float32)
    packed = path.with_suffix(".packed")
    with contextlib.ExitStack() as stack:
        turns = [stack.enter_context(passes(program, path, "/images")), lambda: h5py_seconds(path, block)]
        if codec is not None:
            write_packed(path, packed)
            turns.append(stack.enter_context(passes(program, packed, codec, block[0].nbytes)))
        seconds = [[turn() for turn in turns] for _ in range(rounds + 1)]
    return [*zip(*seconds[1:])]  # the first round warms up


def ratio_text(others, ours):
    ratios = [other / own for own, other in zip(ours, others)]
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=64)
    options = parser.parse_args()
    program = options.build / "tests" / "benchmarks" / "bench_chunks"
    print("| filters | values | packed to | ddpm | h5py | codec | ddpm : h5py | ddpm : codec |\n|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="ddpm-chunks-") as folder:
        path = pathlib.Path(folder) / "fields.h5"
        for rounded in (False, True):
            values = fields(options.rows, rounded)
            for name, (codec, how) in CODECS.items():
                with h5py.File(path, "w") as file:
                    images = file.create_dataset("images", data=values, chunks=(1, *SHAPE), **how)
                    packed = images.id.get_storage_size() / values.nbytes
                ours, theirs, *alone = compare(program, path, codec, options.rounds)
                speeds = [values.nbytes / 1e6 / statistics.median(seconds) for seconds in (ours, theirs, *alone)]
                columns = [name, "rounded" if rounded else "full", f"{packed:.2f}", *(f"{s:.0f}" for s in speeds)]
                columns += [] if alone else [""]
                columns += [ratio_text(theirs, ours), *(ratio_text(seconds, ours) for seconds in alone)]
                columns += [] if alone else [""]
                print(f"| {' | '.join(columns)} |", flush=True)


if __name__ == "__main__":
    main()
