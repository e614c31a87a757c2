"""Which mask counts: samples have the model's own, or those of the set that is given, a folder, a bare file or one of another
program; a model that learned from images without one draws values everywhere. What is left, or lacks, is told in one warning.
Losses count the pixels that the data's masks leave."""

import json
import os
import pathlib
import re
import shutil
import sys
import unittest

import h5py
import netCDF4
import numpy as np

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_run import ddpm, write_config  # noqa: E402

WORK = pathlib.Path.cwd()
COUNT, SIZE = 8, 16
NUMBERS = np.random.default_rng(0)
CONDITION = NUMBERS.standard_normal((COUNT, SIZE, SIZE, 1), np.float32)
IMAGES = NUMBERS.standard_normal((COUNT, SIZE, SIZE, 1), np.float32)
EACH, OTHERS = ((NUMBERS.random((COUNT, SIZE, SIZE)) > 0.3).astype(np.uint8) for _ in range(2))
ONE = (NUMBERS.random((SIZE, SIZE)) > 0.4).astype(np.uint8)


def write_set(name, **arrays):
    path = WORK / name
    with h5py.File(path, "w") as file:
        for key, array in arrays.items():
            file[key] = array
    return path


def make_folder(name, *options, **arrays):
    folder = WORK / name
    shutil.rmtree(folder, ignore_errors=True)
    roles = [word for role in ("condition", "mask") if role in arrays for word in (f"--{role}", f"/{role}")]
    ddpm("data", "create", write_set(f"{name}.h5", images=IMAGES, **arrays), *roles, *options, "--output", folder)
    return folder


def write_times(name, sea="each", land=True):
    """Two variables of each time, of which t2m has missing values, and a mask of the sea: of each time, or of all."""
    path = WORK / name
    with netCDF4.Dataset(path, "w") as file:
        for axis, extent in (("time", COUNT), ("lat", SIZE), ("lon", SIZE)):
            file.createDimension(axis, extent)
            file.createVariable(axis, "f8", (axis,))[:] = np.arange(extent)
        if land:
            t2m = file.createVariable("t2m", "f4", ("time", "lat", "lon"), fill_value=-999.0)
            t2m[:] = np.where(OTHERS == 1, IMAGES[..., 0], -999.0)
        file.createVariable("u10", "f4", ("time", "lat", "lon"))[:] = IMAGES[..., 0]
        file.createVariable("sst", "f4", ("time", "lat", "lon"))[:] = CONDITION[..., 0]
        if sea == "each":
            file.createVariable("sea", "i1", ("time", "lat", "lon"))[:] = EACH
        elif sea == "one":
            file.createVariable("sea", "i1", ("lat", "lon"))[:] = ONE
    return path


def train(name, path, **data):
    run = WORK / name
    shutil.rmtree(run, ignore_errors=True)
    model = {"in_channels": 1 + int("condition" in data) + int("lead" in data), "out_channels": 1}
    config = write_config(WORK / f"{name}.toml", run, path, data=data, model=model, diffusion={"formulation": "flow"},
                          train={"steps": 2}, batch={"global_size": 4})  # fmt: skip
    ddpm("train", config)
    return run


def without(model, *keys):
    """The model's folder as an older version wrote it: its record lacks a key, or one of an object in it."""
    folder = WORK / f"{model.name}-older"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(model / "model", folder)
    record = json.loads((folder / "normalization.json").read_text())
    holder = record
    for key in keys[:-1]:
        holder = holder[key]
    del holder[keys[-1]]
    (folder / "normalization.json").write_text(json.dumps(record))
    return folder


class GivenMasks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        roles = {"condition": "/condition", "mask": "/mask"}
        cls.bare = write_set("each.h5", condition=CONDITION, mask=EACH)
        cls.bare_other = write_set("others.h5", condition=CONDITION, mask=OTHERS)
        cls.bare_plain = write_set("plain.h5", condition=CONDITION)
        whole = write_set("train-each.h5", images=IMAGES, condition=CONDITION, mask=EACH)
        cls.each = train("each", whole, **roles)
        cls.own = train("own", write_set("train-one.h5", images=IMAGES, condition=CONDITION, mask=ONE), **roles)
        cls.plain = train("plain", whole, condition="/condition")

    def draw(self, model, *arguments, warnings=()):
        """What is drawn, with one warning of masks for each of some words."""
        (WORK / "drawn.npy").unlink(missing_ok=True)
        said = ddpm("sample", "--model", model, "--steps", 2, "--output", WORK / "drawn.npy", *arguments).stderr
        seen = [line for line in said.splitlines() if re.search("masks are left|was trained with", line)]
        self.assertEqual(len(seen), len(warnings), said)
        for line, words in zip(seen, warnings):
            self.assertIn(words, line)
        return np.load(WORK / "drawn.npy")[:, 0]

    def assert_valid(self, drawn, masks):
        masks = np.broadcast_to(masks, drawn.shape)
        self.assertEqual(np.abs(drawn[masks == 0]).max(initial=0), 0)
        self.assertTrue(np.all(drawn[masks == 1] != 0))

    def refused(self, code, words, *arguments):
        process = ddpm(*arguments, check=False)
        self.assertEqual(process.returncode, code, process.stderr)
        self.assertIn(words, process.stderr)

    def test_a_file_gives_the_masks_that_a_folder_of_it_gives(self):
        folder = make_folder("folder-each", condition=CONDITION, mask=EACH)
        for model in (self.each, self.each / "model"):
            of_file = self.draw(model, "--condition", self.bare)
            self.assert_valid(of_file, EACH)
            np.testing.assert_array_equal(of_file, self.draw(model, "--condition", folder))
        self.assert_valid(self.draw(self.each, "--condition", write_set("of-all.h5", condition=CONDITION, mask=ONE)), ONE)

    def test_a_file_of_masks_alone(self):
        run = train("alone", write_set("train-alone.h5", images=IMAGES, mask=EACH), mask="/mask")
        self.assert_valid(self.draw(run, "--condition", write_set("masks.h5", mask=OTHERS)), OTHERS)
        self.draw(run, "--count", 2, warnings=["trained with masks of its images; images are drawn as if they had values everywhere"])
        self.refused(2, "nothing beside noisy images, and this set has no masks", "sample", "--model", run, "--condition",
                     make_folder("no-masks"), "--output", WORK / "none.npy")  # fmt: skip

    def test_masks_that_the_model_learned_and_nobody_gives(self):
        drawn = self.draw(self.each, "--condition", self.bare_plain,
                          warnings=["trained with masks of its images, and " + str(self.bare_plain) + " gives none"])  # fmt: skip
        self.assert_valid(drawn, np.ones(1, np.uint8))

    def test_masks_that_the_model_never_learned_are_left(self):
        of_file = self.draw(self.plain, "--condition", self.bare)
        self.assert_valid(of_file, np.ones(1, np.uint8))
        folder = make_folder("folder-left", condition=CONDITION, mask=EACH)
        left = self.draw(self.plain, "--condition", folder, warnings=["folder-left: its masks are left: the model was trained without any"])
        np.testing.assert_array_equal(of_file, left)

    def test_a_mask_of_the_set_belongs_to_the_model(self):
        own = self.draw(self.own, "--condition", self.bare)
        self.assert_valid(own, ONE)
        words = "folder-other: its masks are left: the one that all images of the training set shared belongs to the model"
        other = make_folder("folder-other", condition=CONDITION, mask=EACH)
        np.testing.assert_array_equal(own, self.draw(self.own, "--condition", other, warnings=[words]))
        same = make_folder("folder-same", condition=CONDITION, mask=ONE)
        np.testing.assert_array_equal(own, self.draw(self.own, "--condition", same))

    def test_a_mask_of_the_set_that_an_older_version_did_not_record(self):
        older = without(self.own, "mask")
        given = write_set("given-one.h5", condition=CONDITION, mask=ONE)
        np.testing.assert_array_equal(self.draw(older, "--condition", given), self.draw(self.own, "--condition", given))
        self.draw(older, "--condition", self.bare_plain, warnings=["a mask, which an older version did not record, and"])

    def test_a_variable_of_another_program_is_the_mask(self):
        times = write_times("times.nc")
        run = train("sea", times, variables=["u10"], condition="sst", mask="sea")
        drawn = self.draw(run, "--condition", times)
        self.assert_valid(drawn, EACH)
        np.testing.assert_array_equal(drawn, self.draw(run / "model", "--condition", times))
        lacks = ["trained with masks of its images, and "]
        self.draw(run, "--condition", write_times("no-sea.nc", sea=""), warnings=lacks)
        self.draw(without(run, "files", "mask"), "--condition", times, warnings=lacks)

    def test_what_is_missing_in_a_file_of_another_program_is_the_mask(self):
        times = write_times("missing.nc")
        run = train("missing", times, variables=["t2m"], condition="sst", missing="mask")
        self.assert_valid(self.draw(run, "--condition", times), OTHERS)
        lacks = ["trained with masks of its images, and "]
        everywhere = self.draw(run, "--condition", write_times("no-images.nc", land=False), warnings=lacks)
        self.assert_valid(everywhere, np.ones(1, np.uint8))
        self.draw(without(run, "files", "missing"), "--condition", times, warnings=lacks)

    def test_a_forecast_has_a_mask_that_all_times_share(self):
        run = train("forecast", write_times("ahead.nc", sea="one"), variables=["u10"], lead=2, mask="sea")
        self.assert_valid(self.draw(run, "--condition", WORK / "ahead.nc"), ONE)
        self.draw(run, "--condition", write_times("changing.nc"), warnings=["trained with masks of its images, and "])

    def test_an_ensemble_with_another_mask_is_another_one(self):
        def draw(output, model, given):
            return ("sample", "--model", model, "--condition", given, "--members", 2, "--steps", 2, "--format", "dataset",
                    "--output", WORK / output)  # fmt: skip

        for left in ("of-each", "of-own"):
            shutil.rmtree(WORK / left, ignore_errors=True)
        ddpm(*draw("of-each", self.each, self.bare))
        copied = WORK / "copied.h5"
        shutil.copyfile(self.bare, copied)
        self.assertIn("has made its 16 samples before", ddpm(*draw("of-each", self.each, copied)).stderr)
        self.refused(4, "of-each: exists already", *draw("of-each", self.each, self.bare_other))
        changed = WORK / "own-changed"
        shutil.rmtree(changed, ignore_errors=True)
        shutil.copytree(self.own / "model", changed)
        ddpm(*draw("of-own", changed, self.bare))
        self.assertIn("has made its 16 samples before", ddpm(*draw("of-own", changed, self.bare_other)).stderr)
        record = json.loads((changed / "normalization.json").read_text())
        record["mask"]["bits"] = "A" + record["mask"]["bits"][1:] if record["mask"]["bits"][0] != "A" else "B" + record["mask"]["bits"][1:]
        (changed / "normalization.json").write_text(json.dumps(record))
        self.refused(4, "of-own: exists already", *draw("of-own", changed, self.bare))

    def test_losses_count_the_pixels_that_the_model_learned_to_count(self):
        whole = write_set("held-out.h5", images=IMAGES, condition=CONDITION, mask=EACH)
        measure = ("eval", "loss", "--data", whole, "--levels", 2, "--json", "--condition", "/condition")
        said = ddpm(*measure, "--model", self.each, "--mask", "/mask")
        masked = json.loads(said.stdout)["metrics"]
        self.assertNotIn("was trained with", said.stderr)
        for model in (self.each, self.each / "model"):
            said = ddpm(*measure, "--model", model)
            self.assertEqual(json.loads(said.stdout)["metrics"], masked)
            self.assertNotIn("was trained with", said.stderr)
        bare = write_set("held-out-bare.h5", images=IMAGES, condition=CONDITION)
        said = ddpm("eval", "loss", "--data", bare, "--levels", 2, "--json", "--condition", "/condition", "--model", self.each)
        self.assertNotEqual(json.loads(said.stdout)["metrics"], masked)
        self.assertEqual(said.stderr.count("was trained with a mask, and " + str(bare) + " has none"), 1, said.stderr)
        self.refused(2, "wanted: --mask, which holds for all models", *measure, "--model", self.each, "--against", self.plain)
        ddpm(*measure, "--model", self.each, "--against", self.plain, "--mask", "/mask")

    def test_losses_of_files_of_another_program(self):
        times = write_times("losses.nc")
        run = train("of-losses", times, variables=["t2m"], condition="sst", missing="mask")
        measure = ("eval", "loss", "--data", times, "--levels", 2, "--json", "--model")
        metrics = [json.loads(ddpm(*measure, model).stdout)["metrics"] for model in (run, run / "model")]
        self.assertEqual(metrics[0], metrics[1])
        asked = ("--variables", "t2m", "--condition", "sst")
        self.assertEqual(json.loads(ddpm(*measure, run, *asked).stdout)["metrics"], metrics[0])


if __name__ == "__main__":
    unittest.main(verbosity=2)
