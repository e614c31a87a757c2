"""Arrays of all roles, sources that hold them, and what a dataset of them holds: for tests of `ddpm data`."""

import json
import pathlib
import tempfile
import unittest

import h5py
import numpy as np

from data_runs import run

ROLES = ("images", "labels", "condition", "static", "parameters", "mask")
NAMED = [word for role in ROLES[2:] for word in (f"--{role}", role)]


def fields(n=20, seed=0, mask_of_each=True):
    """One array of each role; the second variable of the images is 0 in half of all places."""
    draw = np.random.default_rng(seed)
    images = draw.standard_normal((n, 8, 12, 3), np.float32) * np.float32(4) + np.float32(280)
    images[..., 1] = np.maximum(0, draw.standard_normal((n, 8, 12), np.float32))
    mask = np.ones((n, 8, 12) if mask_of_each else (8, 12), np.uint8)
    mask[..., :2, 5] = 0
    images[:, :2, 5] = np.nan  # which the mask hides
    return {
        "images": images,
        "labels": draw.integers(0, 5, n).astype(np.int16),
        "condition": draw.standard_normal((n, 4, 6, 2), np.float32),
        "static": draw.standard_normal((8, 12, 1), np.float32),
        "parameters": draw.random((n, 3), np.float32),
        "mask": mask,
    }


def stored(dataset):
    """All fields as h5py reads them, in the order of dataset.json."""
    listed = json.loads((dataset / "dataset.json").read_text())
    shards = [h5py.File(dataset / shard["file"]) for shard in listed["shards"]]
    values = {}
    for field in listed["fields"]:
        arrays = [shard[field["path"]] for shard in (shards[:1] if field.get("per_set") else shards)]
        values[field["role"]] = arrays[0][:] if field.get("per_set") else np.concatenate([a[:] for a in arrays])
    return values, listed


def seen(transform, x):
    """What the model sees of stored values, as docs/data.md has it."""
    x = np.asarray(x, np.float64)
    kind = transform["type"]
    if kind == "standardize":
        return (x - transform["mean"]) / transform["std"]
    if kind == "minmax":
        return 2 * (x - transform["min"]) / (transform["max"] - transform["min"]) - 1
    if kind == "log1p":
        return np.log1p(x) * transform["scale"] + transform["offset"]
    if kind == "quantile":
        start, end = np.array(transform["from"]), np.array(transform["to"])
        line = np.clip(np.searchsorted(start, x) - 1, 0, len(start) - 2)
        return end[line] + (x - start[line]) * (end[line + 1] - end[line]) / (start[line + 1] - start[line])
    return x * transform["scale"] + transform["offset"]


class ArraysCase(unittest.TestCase):
    """A folder of its own for each test, sources made of arrays, and the program's answers."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.output = self.root / "set"

    def ddpm(self, *arguments, ranks=1):
        result = run(*arguments, ranks=ranks)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def create(self, *arguments, ranks=1, output=None):
        self.ddpm("create", *arguments, "--output", output or self.output, ranks=ranks)
        return stored(output or self.output)

    def refused(self, code, words, *arguments, ranks=1):
        result = run(*arguments, ranks=ranks)
        lines = [line for line in result.stderr.splitlines() if line.startswith("ddpm: error: ")]
        self.assertEqual((result.returncode, len(lines)), (code, 1), result.stderr)
        self.assertIn(words, lines[0])

    def write(self, kind, values):
        """A source that holds these arrays."""
        path = self.root / f"{kind}.{'h5' if kind == 'h5' else 'npz'}"
        if kind == "h5":
            with h5py.File(path, "w") as f:
                for name, array in values.items():
                    f.create_dataset(name, data=array, **({"compression": "gzip"} if array.ndim > 3 else {}))
        else:
            (np.savez if kind == "stored" else np.savez_compressed)(path, **values)
        return path

    def expect_stored(self, values, found):
        self.assertEqual(len(values), len(found))
        for name, array in values.items():
            role = "image" if name == "images" else name
            self.assertEqual(found[role].dtype, np.dtype("i8") if name == "labels" else array.dtype)
            np.testing.assert_array_equal(found[role], array, name)
