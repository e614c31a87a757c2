"""Training on a set whose variables have a mean and a deviation for each point, from the arrays to denormalised samples."""

import base64
import hashlib
import json
import os
import pathlib
import shutil
import sys
import unittest

import h5py
import numpy as np

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_run import ddpm, metrics, write_config  # noqa: E402

WORK = pathlib.Path.cwd()
COUNT, SIZE = 24, 16
REPRODUCIBLE = {"run": {"reproducible": True, "threads_per_rank": 1}, "batch": {"global_size": 8, "micro_size": 1}}


def arrays(seed=0, count=COUNT):
    draw = np.random.default_rng(seed)
    place = np.arange(SIZE * SIZE, dtype=np.float32).reshape(SIZE, SIZE, 1)
    images = (250 + place / 4 + (1 + place / 50) * draw.standard_normal((count, SIZE, SIZE, 2))).astype(np.float32)
    images[:, 3, 5, 0] = 273.0
    return {"images": images, "condition": 5 + draw.standard_normal((count, SIZE // 2, SIZE // 2, 1), np.float32)}


def floats(transform, key):
    return np.frombuffer(base64.b64decode(transform[key]), "<f4").reshape(transform["sides"]).astype(np.float64)


def inverted(variables, values):
    """What is stored of values that the model makes: [..., h, w, c]."""
    stored = values.astype(np.float64)
    for c, transform in enumerate(variable["transform"] for variable in variables):
        grid = transform["type"] == "grid"
        mean, std = (floats(transform, key) if grid else transform[key] for key in ("mean", "std"))
        stored[..., c] = stored[..., c] * std + mean
    return stored


def images_of(folder):
    return np.concatenate([h5py.File(shard)["images"][:] for shard in sorted(folder.glob("*.h5"))])


class Grids(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        for folder in ("set", "grown"):
            shutil.rmtree(WORK / folder, ignore_errors=True)
        np.savez(WORK / "set.npz", **arrays())
        ddpm("data", "create", WORK / "set.npz", "--output", WORK / "set", "--condition", "condition", "--names",
             "u,v;condition:c", "--transform", "u=grid,v=standardize,c=grid")  # fmt: skip
        fields = json.loads((WORK / "set" / "dataset.json").read_text())["fields"]
        cls.variables = {field["role"]: field["variables"] for field in fields}
        cls.run_of_set = cls.train("run", WORK / "set")

    @classmethod
    def train(cls, name, folder, ranks=1, steps=2, check=True, **sections):
        run = WORK / name
        if steps == 2:
            shutil.rmtree(run, ignore_errors=True)
        config = write_config(WORK / f"{name}.toml", run, folder, model={"in_channels": 3, "out_channels": 2, **sections.pop("model", {})},
                              train={"steps": steps}, lr_schedule={"name": "constant"}, **{**REPRODUCIBLE, **sections})  # fmt: skip
        process = ddpm("train", config, ranks=ranks, check=check)
        return run if check else process

    def sample(self, name, *arguments, model=None, condition=None, check=True):
        output = WORK / name
        shutil.rmtree(output, ignore_errors=True)
        process = ddpm("sample", "--model", model or self.run_of_set, "--condition", condition or WORK / "set", "--count", 6,
                       "--scheduler", "ddim", "--steps", 3, "--format", "dataset", "--output", output, *arguments, check=check)  # fmt: skip
        return output if check else process

    def refused(self, process, code, words):
        lines = [line for line in process.stderr.splitlines() if line.startswith("ddpm: error")]
        self.assertEqual((process.returncode, len(lines)), (code, 1), process.stderr)
        self.assertIn(words, lines[0])

    def weights(self, run):
        (file,) = (run / "model" / "unet").glob("*.safetensors")
        return hashlib.sha256(file.read_bytes()).hexdigest()

    def test_the_numbers_travel_and_samples_are_inverted(self):
        recorded = json.loads((self.run_of_set / "model" / "normalization.json").read_text())["fields"]
        self.assertEqual({field["role"]: field["variables"] for field in recorded}, self.variables)
        for model in (self.run_of_set, self.run_of_set / "model"):
            seen, stored = images_of(self.sample("seen", model=model)), images_of(self.sample("stored", "--denormalize", model=model))
            np.testing.assert_allclose(stored, inverted(self.variables["image"], seen), rtol=1e-5, atol=1e-4)
            np.testing.assert_array_equal(stored[:, 3, 5, 0], 273)
        listed = json.loads((WORK / "stored" / "dataset.json").read_text())["fields"][0]
        self.assertEqual(listed["variables"], self.variables["image"])
        self.assertLess(max(map(len, (self.run_of_set / "model" / "README.md").read_text().splitlines())), 700)

    def test_the_same_weights_on_2_ranks_and_after_a_resume(self):
        two = self.train("two", WORK / "set", ranks=2)
        self.assertEqual(self.weights(two), self.weights(self.run_of_set))
        self.train("two", WORK / "set", ranks=2, steps=4)
        whole = WORK / "whole"
        shutil.rmtree(whole, ignore_errors=True)
        self.train("whole", WORK / "set", steps=4)
        self.assertEqual(metrics(two)[-1]["step"], 4)
        self.assertEqual(self.weights(two), self.weights(whole))

    def test_a_run_goes_on_with_the_set_that_has_grown(self):
        shutil.copytree(WORK / "set", WORK / "grown")
        run = self.train("growing", WORK / "grown")
        np.savez(WORK / "more.npz", **arrays(1, 8))
        ddpm("data", "append", WORK / "grown", WORK / "more.npz", "--condition", "condition", "--shards", 1, ranks=2)
        self.train("growing", WORK / "grown", steps=3, data={"continue_with_other": True})
        fields = json.loads((run / "model" / "normalization.json").read_text())["fields"]
        self.assertEqual({field["role"]: field["variables"] for field in fields}, self.variables)

    def test_windows_are_inverted_as_whole_images_alone(self):
        plain = WORK / "plain"
        shutil.rmtree(plain, ignore_errors=True)
        np.save(WORK / "plain.npy", arrays()["images"])
        ddpm("data", "create", WORK / "plain.npy", "--output", plain, "--names", "u,v", "--transform", "grid")
        run = self.train("windows", plain, data={"patch": [8, 8], "horizontal_flip": True}, model={"in_channels": 2})
        (image,) = json.loads((run / "model" / "normalization.json").read_text())["fields"]
        draw = ("sample", "--model", run / "model", "--count", 2, "--scheduler", "ddim", "--steps", 2, "--output")
        self.refused(ddpm(*draw, WORK / "window.npy", "--denormalize", check=False), 2,
                     "the transform of u is a grid (16 x 16 points), but images of 8 x 8 are drawn; wanted: --size 16x16")  # fmt: skip
        ddpm(*draw, WORK / "window.npy")
        for name, more in (("seen", ()), ("stored", ("--denormalize",))):
            ddpm(*draw, WORK / f"{name}.npy", "--size", "16x16", *more)
        seen, stored = (np.load(WORK / f"{name}.npy").transpose(0, 2, 3, 1) for name in ("seen", "stored"))
        np.testing.assert_allclose(stored, inverted(image["variables"], seen), rtol=1e-5, atol=1e-4)
        self.refused(ddpm(*draw, WORK / "large.npy", "--size", "24x24", "--denormalize", check=False), 2, "images of 24 x 24 are drawn")

    def test_what_a_grid_cannot_do_is_refused(self):
        process = self.train("vectors", WORK / "set", check=False, data={"horizontal_flip": True, "vectors": ["u, v"]})
        self.refused(process, 2, "u of images has the transform grid (16 x 16 points), whose means do not turn as vectors")
        run = self.train("patched", WORK / "set", data={"patch": [8, 8]})
        lower = {name: array[:, : array.shape[1] // 2, : array.shape[2] // 2] for name, array in arrays().items()}
        np.savez(WORK / "lower.npz", **lower)
        shutil.rmtree(WORK / "lower", ignore_errors=True)
        ddpm("data", "create", WORK / "lower.npz", "--output", WORK / "lower", "--condition", "condition")
        self.refused(self.sample("lower-samples", model=run, condition=WORK / "lower", check=False), 3,
                     "condition is 4 × 4, but its variable c is to be mapped by a grid (8 x 8 points)")  # fmt: skip
        self.assertEqual(images_of(self.sample("whole-samples", "--size", "16x16", "--denormalize", model=run)).shape, (6, SIZE, SIZE, 2))


if __name__ == "__main__":
    unittest.main(verbosity=2)
