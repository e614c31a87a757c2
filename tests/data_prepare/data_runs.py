"""`ddpm data` as a user runs it, and the datasets that it makes read by h5py. The program is $DDPM; mpiexec is $MPIEXEC."""

import hashlib
import os
import subprocess

import h5py
import numpy as np

DDPM = os.environ["DDPM"]
MPIEXEC = os.environ["MPIEXEC"]


def run(*arguments, ranks=1):
    launcher = [MPIEXEC, "--oversubscribe", "--bind-to", "none", "-np", str(ranks)] if ranks > 1 else []
    return subprocess.run([*launcher, DDPM, "data", *map(str, arguments)], capture_output=True, text=True)


def digests(folder):
    return {f.name: hashlib.sha256(f.read_bytes()).hexdigest() for f in sorted(folder.iterdir())}


def read(dataset):
    """Images and labels of all shards, in order."""
    images, labels = [], []
    for path in sorted(dataset.glob("shard-*.h5")):
        with h5py.File(path) as shard:
            images.append(shard["images"][:])
            labels.append(shard["labels"][:] if "labels" in shard else [])
    return np.concatenate(images), np.concatenate(labels)
