"""`ddpm sample --spatial-size`: the images that one rank draws whole, drawn by ranks that hold a tile each."""

import os
import pathlib
import shutil
import subprocess
import sys
import unittest

import h5py
import numpy as np

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_run import DDPM, ddpm, says, write_config  # noqa: E402
from launcher import MPIRUN, RANK_IN_SHELL  # noqa: E402

WORK = pathlib.Path.cwd()
COUNT, SIZE = 8, 16
CLOSE = 5e-5  # of the largest value: sums of a tile have another order, and a sampler's steps add up


def write_set(name, shape, **arrays):
    numbers = np.random.default_rng(0)
    path = WORK / name
    with h5py.File(path, "w") as file:
        file["images"] = numbers.standard_normal((COUNT, *shape), np.float32)
        for key, array in arrays.items():
            file[key] = array(numbers)
    return path


def train(name, path, **sections):
    run = WORK / name
    shutil.rmtree(run, ignore_errors=True)
    ddpm("train", write_config(WORK / f"{name}.toml", run, path, **{"train": {"steps": 4}, **sections}))
    return run


class SampleTiles(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.set = write_set("fields.h5", (SIZE, 24, 2), condition=lambda n: n.standard_normal((COUNT, SIZE, 24, 1), np.float32))
        channels = {"out_channels": 2, "padding": ["zeros", "periodic"]}
        cls.plain = train("plain", cls.set, model={"in_channels": 2, **channels})
        given = {"data": {"condition": "/condition", "positions": True}, "model": {"in_channels": 7, **channels}}
        cls.given = train("given", cls.set, diffusion={"condition_dropout": 0.2}, **given)
        mean = train("mean", cls.set, diffusion={"formulation": "regression"}, **given)
        cls.rest = train("rest", cls.set, diffusion={"mean_model": str(mean)}, **given)

    def sample(self, run, output, *arguments, ranks=1, check=True):
        output = WORK / output
        output.unlink(missing_ok=True)
        process = ddpm("sample", "--model", run, "--threads", 1, "--output", output, *arguments, ranks=ranks, check=check)
        return output if check else process

    def compare(self, run, *arguments, cuts=(("2", 2), ("1x3", 3), ("2x1", 4))):
        """The last of these has two groups, of which one draws fewer images."""
        common = ("--count", 5, "--batch", 2, *arguments)
        whole = np.load(self.sample(run, "whole.npy", *common))
        for cut, ranks in cuts:
            tiles = np.load(self.sample(run, "tiles.npy", *common, "--spatial-size", cut, ranks=ranks))
            np.testing.assert_allclose(tiles, whole, rtol=0, atol=CLOSE * np.abs(whole).max(), err_msg=f"{arguments}, {cut}")

    def test_images_equal_those_drawn_whole(self):
        self.compare(self.plain, "--scheduler", "dpmsolver++", "--steps", 5)

    def test_samplers_that_add_noise(self):
        self.compare(self.plain, "--scheduler", "ddim", "--eta", 1, "--steps", 5)

    def test_what_a_model_is_given_and_guided_by(self):
        self.compare(self.given, "--scheduler", "ddim", "--steps", 3, "--condition", self.set, "--guidance-scale", 2)

    def test_answers_of_a_regression_are_added(self):
        self.compare(self.rest, "--scheduler", "ddim", "--steps", 3, "--condition", self.set)

    def test_noise_of_a_file(self):
        noise = np.random.default_rng(4).standard_normal((5, 2, SIZE, 24), np.float32)
        np.save(WORK / "noise.npy", noise)
        self.compare(self.plain, "--scheduler", "ddim", "--steps", 3, "--initial-noise", WORK / "noise.npy", cuts=[("2", 2)])

    def test_a_condition_that_one_rank_cannot_read_ends_all(self):
        """Ranks that draw an image together read its condition each, before they wait for each other's tiles."""
        places = WORK / "places"
        for made in (WORK / "checked", places):
            shutil.rmtree(made, ignore_errors=True)
        ddpm("data", "create", self.set, "--output", WORK / "checked", "--images", "images", "--condition", "condition",
             "--shards", 1)  # fmt: skip
        for rank in "01":
            shutil.copytree(WORK / "checked", places / rank / "checked")
        (shard,) = (places / "1" / "checked").glob("*.h5")
        with h5py.File(shard) as file:
            offset = file["condition"].id.get_offset()
        with shard.open("r+b") as file:
            file.seek(offset)
            byte = file.read(1)
            file.seek(offset)
            file.write(bytes([byte[0] ^ 1]))
        own_place = f'cd "$0/{RANK_IN_SHELL}" && exec "$@"'
        process = subprocess.run(
            [*MPIRUN, "-np", "2", "bash", "-c", own_place, places, DDPM, "sample", "--model", self.given, "--threads", "1",
             "--output", WORK / "unread.npy", "--scheduler", "ddim", "--steps", "2", "--condition", "checked",
             "--guidance-scale", "2", "--spatial-size", "2"],
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        errors = [line for line in process.stderr.splitlines() if line.startswith("ddpm: error")]
        self.assertEqual((process.returncode, len(errors)), (3, 1), process.stderr)
        self.assertIn("condition", errors[0])

    def test_volumes(self):
        volumes = train("volumes", write_set("volumes.h5", (8, SIZE, SIZE, 1)), data={"horizontal_flip": False}, model={
            "sample_size": [8, SIZE, SIZE], "dimensions": 3, "in_channels": 1, "out_channels": 1, "padding": "periodic",
            "down_block_types": ["DownBlock2D", "DownBlock2D"], "up_block_types": ["UpBlock2D", "UpBlock2D"],
        })  # fmt: skip
        self.compare(volumes, "--scheduler", "ddim", "--steps", 3, cuts=[("2x1x2", 4)])

    def test_what_cannot_be_is_refused_in_one_line(self):
        steps = ("--scheduler", "ddim", "--steps", 2)
        for words, arguments, ranks in (
            (("--spatial-size 2x1: 3 ranks for 2 tiles of each image", "a multiple of that many ranks"), ("2x1",), 3),
            (("--spatial-size 1x16 cuts a side of 24 pixels into 16 parts", "there can be 1 to 12"), ("1x16",), 1),
            (("--spatial-size 2x1x1 for images of 16 × 24 pixels",), ("2x1x1",), 1),
            (("--spatial-size 2y2: Value 2y2", "wanted: parts such as 2x2"), ("2y2",), 1),
            (("--spatial-size 2: --format dataset",), ("2", "--format", "dataset"), 2),
        ):
            process = self.sample(self.plain, "refused", *steps, "--spatial-size", *arguments, ranks=ranks, check=False)
            errors = [line for line in process.stderr.splitlines() if line.startswith("ddpm: error")]
            self.assertEqual((process.returncode, len(errors)), (2, 1), process.stderr)
            for word in words:
                self.assertTrue(says(errors[0], word), errors[0])
        process = self.sample(self.plain, "refused.npy", *steps, "--spatial-size", "2", "--size", "32x48", check=False)
        self.assertEqual(process.returncode, 2, process.stderr)


if __name__ == "__main__":
    unittest.main()
