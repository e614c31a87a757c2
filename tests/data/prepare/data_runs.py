"""`ddpm data` as a user runs it, and the datasets that it makes read by h5py. The program is $DDPM."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import h5py
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
from launcher import MPIRUN  # noqa: E402

DDPM = os.environ["DDPM"]


def run(*arguments, ranks=1):
    launcher = [*MPIRUN, "-np", str(ranks)] if ranks > 1 else []
    return subprocess.run([*launcher, DDPM, "data", *map(str, arguments)], capture_output=True, text=True)


def read(dataset):
    """Images and labels of all shards, in order."""
    images, labels = [], []
    for path in sorted(dataset.glob("shard-*.h5")):
        with h5py.File(path) as shard:
            images.append(shard["images"][:])
            labels.append(shard["labels"][:] if "labels" in shard else [])
    return np.concatenate(images), np.concatenate(labels)


def kill_and_run_again(test, source, output, *options):
    """Kills a create on two ranks once a shard is done, and runs it again until no dying rank holds the lock, and with
    what was done."""
    journal = output.with_name(f".{output.name}.partial") / "journal"
    command = [*MPIRUN, "-np", "2", DDPM, "data", "create", source, "--output", output, *options]
    process = subprocess.Popen(list(map(str, command)), stderr=subprocess.DEVNULL, start_new_session=True)
    deadline = time.monotonic() + 60
    while not list(journal.glob("shard*.json")) and process.poll() is None:
        test.assertLess(time.monotonic(), deadline)
        time.sleep(0.002)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    test.assertFalse(output.exists(), "the create ended before it could be killed")
    while (result := run("create", source, "--output", output, *options, "--json")).returncode == 4:
        test.assertLess(time.monotonic(), deadline)
        time.sleep(0.1)
    test.assertGreater(json.loads(result.stdout)["reused_shards"], 0)
