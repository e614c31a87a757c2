"""Transforms that have a mean and a deviation for each point, `--transform grid`, against NumPy. The program is $DDPM."""

import base64
import hashlib
import json
import pathlib
import tempfile
import unittest

import numpy as np

from data_runs import run
from ddpm_run import digests

COUNT = 50
OPTIONS = ["--condition", "condition", "--names", "t2m,rain;condition:sst", "--transform", "t2m=grid,rain=standardize,sst=grid"]


def arrays(masks=None, sides=(8, 12), seed=0):
    """Values whose scale differs from point to point. `masks` is None, "each" or "set"."""
    draw = np.random.default_rng(seed)
    scale = 10.0 ** draw.uniform(-3, 3, sides)[..., None]
    images = (scale * (draw.standard_normal((COUNT, *sides, 2)) + 20)).astype(np.float32)
    images[:, 0, 1] = np.float32(273.15)  # one value
    images[:, 0, 2] = 0
    images[::7, 0, 2] = 1e-4  # often the same
    values = {"images": images, "condition": draw.standard_normal((COUNT, *(side // 2 for side in sides), 1), np.float32)}
    if masks:
        mask = (draw.random((COUNT, *sides) if masks == "each" else sides) > 0.3).astype(np.uint8)
        mask[..., 1, 1] = 0  # never valid
        mask[..., 0, :3] = 1
        values["mask"] = mask
        images[np.broadcast_to(mask[..., None] == 0, images.shape)] = np.nan
    return values


def floats(transform, key):
    return np.frombuffer(base64.b64decode(transform[key]), "<f4").reshape(transform["sides"])


def transforms(dataset):
    listed = json.loads((dataset / "dataset.json").read_text())["fields"]
    return {variable["name"]: variable["transform"] for field in listed for variable in field["variables"]}


class Grids(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def ddpm(self, *arguments, ranks=1):
        result = run(*arguments, ranks=ranks)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def create(self, name, values, *options, ranks=1):
        source = self.root / "source.npz"
        np.savez(source, **values)
        masks = ["--mask", "mask"] if "mask" in values else []
        self.ddpm("create", source, "--output", self.root / name, *masks, *(options or OPTIONS), ranks=ranks)
        return self.root / name

    def expect_numbers(self, transform, values, valid):
        """Those of NumPy, in double precision."""
        self.assertEqual((transform["type"], transform["sides"]), ("grid", list(values.shape[1:])))
        x = np.where(valid, values, 0).astype(np.float64)
        count = valid.sum(0)
        mean = x.sum(0) / np.maximum(count, 1)
        std = np.sqrt((valid * (x - mean) ** 2).sum(0) / np.maximum(count, 1))
        std[std <= 1e-7 * np.abs(mean)] = 0
        np.testing.assert_allclose(floats(transform, "mean"), mean, rtol=1e-6)
        np.testing.assert_allclose(floats(transform, "std"), std, rtol=1e-6)
        return std

    def test_numbers_are_those_of_numpy_for_any_number_of_ranks(self):
        for masks in (None, "each", "set"):
            with self.subTest(masks=masks):
                values = arrays(masks)
                made = [self.create(f"{masks}-{ranks}", values, ranks=ranks) for ranks in (1, 2, 4)]
                self.assertEqual(digests(made[0]), digests(made[1]))
                self.assertEqual(digests(made[0]), digests(made[2]))
                found = transforms(made[0])
                self.assertEqual([found[name]["type"] for name in ("t2m", "rain", "sst")], ["grid", "standardize", "grid"])
                images = values["images"][..., 0]
                valid = np.broadcast_to(values["mask"] if masks else 1, images.shape) == 1
                std = self.expect_numbers(found["t2m"], images, valid)
                self.assertEqual(std[0, 1], 0)
                self.assertEqual(floats(found["t2m"], "mean")[0, 1], np.float32(273.15))
                self.assertEqual(std[1, 1] == 0, masks is not None)
                self.expect_numbers(found["sst"], values["condition"][..., 0], np.ones(values["condition"].shape[:3], bool))
                self.ddpm("verify", made[0])

    def test_shards_and_the_order_of_the_images_do_not_matter(self):
        values = arrays("each")
        first = transforms(self.create("one", values, *OPTIONS, "--shards", 1))
        order = np.random.default_rng(1).permutation(COUNT)
        other = transforms(self.create("other", {name: array[order] for name, array in values.items()}, *OPTIONS, "--shards", 7, ranks=2))
        self.assertEqual([first[name] for name in ("t2m", "sst")], [other[name] for name in ("t2m", "sst")])

    def test_volumes_have_three_sides(self):
        values = arrays(sides=(2, 4, 6))
        found = transforms(self.create("deep", values, ranks=2))
        self.expect_numbers(found["t2m"], values["images"][..., 0], np.ones(values["images"].shape[:-1], bool))
        self.assertEqual(found["sst"]["sides"], [1, 2, 3])

    def test_shown_without_its_arrays_and_transformed_by_statistics(self):
        folder = self.create("shown", arrays("each"))
        shown = self.ddpm("inspect", folder)
        self.assertIn("    t2m: grid (8 x 12 points)\n", shown)
        self.assertIn("    sst: grid (4 x 6 points)\n", shown)
        self.assertLess(max(map(len, shown.splitlines())), 200)
        text = self.ddpm("inspect", folder, "--json")
        short = json.loads(text)["fields"][0]["variables"][0]["transform"]
        whole = transforms(folder)["t2m"]
        for key in ("mean", "std"):
            numbers = base64.b64decode(whole[key])
            self.assertEqual(short[key], {"float32_values": 96, "sha256": hashlib.sha256(numbers).hexdigest()})
        self.assertEqual(short["sides"], [8, 12])
        stats = json.loads(self.ddpm("stats", folder, "--transformed", "--json", ranks=2))
        sst = stats["fields"][1]["variables"][0]
        self.assertLess(abs(sst["mean"]), 1e-6)
        self.assertLess(abs(sst["std"] - 1), 1e-6)
        t2m = stats["fields"][0]["variables"][0]
        self.assertLess(abs(t2m["mean"]), 1e-4)
        self.assertTrue(0.9 < t2m["std"] < 1, t2m["std"])  # one point of 96 holds one value

    def test_appended_and_resharded_sets_keep_the_numbers(self):
        values = arrays("each")
        folder = self.create("grown", values)
        before = transforms(folder)
        more = arrays("each", seed=1)
        np.savez(self.root / "more.npz", **more)
        self.ddpm("append", folder, self.root / "more.npz", "--condition", "condition", "--mask", "mask", "--shards", 2, ranks=2)
        self.assertEqual(transforms(folder), before)
        self.ddpm("reshard", folder, "--shards", 3, "--output", self.root / "three", ranks=2)
        self.assertEqual(transforms(self.root / "three"), before)
        self.ddpm("verify", self.root / "three")

    def refused(self, code, words, *arguments):
        result = run(*arguments)
        lines = [line for line in result.stderr.splitlines() if line.startswith("ddpm: error: ")]
        self.assertEqual((result.returncode, len(lines)), (code, 1), result.stderr)
        self.assertIn(words, lines[0])

    def test_what_has_no_grid_is_refused(self):
        source, output = self.root / "static.npz", self.root / "refused"
        np.savez(source, static=np.zeros((8, 12, 1), np.float32), images=arrays()["images"])
        options = ("create", source, "--static", "static", "--output", output, "--transform")
        self.refused(2, "static/channel 0 has one value at each point of the set", *options, "grid")
        self.refused(2, "static/channel 0 has one value at each point of the set", *options, "static/channel 0=grid")
        np.savez(self.root / "large.npz", images=np.zeros((2, 2048, 1025, 1), np.float32))
        self.refused(2, "has 2099200 points", "create", self.root / "large.npz", "--output", output, "--transform", "grid")
        self.assertFalse(output.exists())
        folder = self.create("other", arrays())
        listed = json.loads((folder / "dataset.json").read_text())
        listed["fields"][0]["variables"][0]["transform"]["sides"] = [12, 8]
        (folder / "dataset.json").write_text(json.dumps(listed))
        self.refused(3, "variable \"t2m\": its transform is a grid of 12 × 8 points, 8 × 12 are wanted", "inspect", folder)
        nothing = {**arrays("set"), "mask": np.zeros((8, 12), np.uint8)}
        np.savez(self.root / "hidden.npz", **nothing)
        self.refused(3, "no mask says of any pixel", "create", self.root / "hidden.npz", "--mask", "mask", "--output", output,
                     "--transform", "images/channel 0=grid")  # fmt: skip
        self.assertFalse(output.exists())


if __name__ == "__main__":
    unittest.main()
