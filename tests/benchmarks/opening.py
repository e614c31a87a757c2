#!/usr/bin/env python3
"""How long a dataset of many shards takes to be opened, on 1, 2 and 4 ranks, and how many system calls that is.

    opening.py [--build build/release] [--folder DIR] [--shards 1000] [--rounds 5]

Makes a set of 2 images a shard. Prints the seconds of the slowest rank, medians with their ranges, and the system calls
of all ranks on files of the set. Needs strace for the calls, and the Python of tests/peers/setup.sh.
"""

import argparse
import collections
import contextlib
import os
import pathlib
import re
import shutil
import statistics
import struct
import subprocess
import tempfile

import numpy as np

CALLS = ("openat", "stat", "newfstatat", "fstat", "lseek", "pread64", "read", "close", "fcntl", "statfs", "fstatfs", "flock")
ENVIRONMENT = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def write_images(path, count):
    pixels = np.random.default_rng(0).integers(0, 256, (count, 8, 8), np.uint8)
    path.write_bytes(struct.pack(">4BIII", 0, 0, 8, 3, count, 8, 8) + pixels.tobytes())


def run(ranks, command):
    mpirun = ["mpirun", "-np", str(ranks), "--oversubscribe", "--bind-to", "none"]
    return subprocess.run([*mpirun, *map(str, command)], check=True, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT).stdout


def calls(ranks, command, folder, data):
    """Calls of all ranks on files of `data`, by their names."""
    logs = folder / "calls"
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir()
    script = 'exec strace -f -y -o "$0/$OMPI_COMM_WORLD_RANK" -e "trace=$1" "${@:2}"'
    run(ranks, ["bash", "-c", script, logs, ",".join(CALLS), *command])
    count = collections.Counter()
    for log in logs.iterdir():
        for line in log.read_text(errors="replace").splitlines():
            found = re.match(r"\d+ +(\w+)\(", line)
            if found and str(data) in line:
                count[found[1]] += 1
    return count


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--folder", type=pathlib.Path, help="on the file system that is measured")
    parser.add_argument("--shards", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    program = build / "tests" / "benchmarks" / "bench_opening"
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(dir=arguments.folder)))
        images = folder / "images-idx3-ubyte"
        write_images(images, 2 * arguments.shards)
        data = folder / "set"
        run(1, [build / "ddpm", "data", "create", images, "--output", data, "--size", 8, "--labels", "none", "--shards", arguments.shards])
        for ranks in (1, 2, 4):
            seconds = [[float(word) for word in run(ranks, [program, data]).split()] for _ in range(arguments.rounds)]
            for what, times in zip(("opened", "closed"), zip(*seconds, strict=True), strict=True):
                print(f"{ranks} ranks: {what} in {statistics.median(times):.3f} s ({min(times):.3f} to {max(times):.3f})")
            if shutil.which("strace"):
                count = calls(ranks, [program, data], folder, data)
                each = {name: round(n / arguments.shards / ranks, 2) for name, n in count.most_common()}
                print(f"{ranks} ranks: calls for each shard and rank: {each}, {sum(count.values())} in all")


if __name__ == "__main__":
    main()
