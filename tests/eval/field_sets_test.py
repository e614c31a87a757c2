"""`ddpm eval` refuses sets that look like those of the data and are not: of pairs that are numbered otherwise than times, of
variables in another order, and of values that a transform leads beyond all numbers."""

import json
import os
import pathlib
import shutil
import sys
import unittest

import h5py
import numpy as np

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_run import ddpm  # noqa: E402

WORK = pathlib.Path.cwd()
MEMBERS, SIDE, LEAD = 2, 4, 4


def fields(count, seed=1):
    return np.random.default_rng(seed).normal(280, 5, (count, SIDE, SIDE)).astype(np.float32)


def write_times(name, hours, **variables):
    """A foreign file with a time of each image."""
    with h5py.File(WORK / name, "w") as file:
        file["hours"] = np.asarray(hours, float)
        file["hours"].make_scale("hours")
        for key, values in variables.items():
            file[key] = values
            file[key].dims[0].attach_scale(file["hours"])
    return WORK / name


def write_samples(name, conditions):
    """Members of so many conditions, as `ddpm sample --condition` writes them."""
    with h5py.File(WORK / name, "w") as file:
        file["images"] = fields(conditions * MEMBERS, seed=2)[..., None]
        file["condition_index"] = np.repeat(np.arange(conditions), MEMBERS)
        file["member"] = np.tile(np.arange(MEMBERS), conditions)
    return WORK / name


class FieldSets(unittest.TestCase):
    def refuse(self, phrase, *arguments, kind="fields"):
        process = ddpm("eval", kind, *arguments, "--json", check=False)
        self.assertEqual((process.returncode, process.stdout), (3, ""), process.stderr)
        errors = [line for line in process.stderr.splitlines() if line.startswith("ddpm: error")]
        self.assertEqual(len(errors), 1, process.stderr)
        self.assertIn(phrase, errors[0])

    def biases(self, *arguments):
        result = json.loads(ddpm("eval", "fields", *arguments, "--json").stdout)
        return [row["value"] for row in result["metrics"] if row["name"] == "bias"]

    def test_conditions_are_no_numbers_of_pairs_with_a_gap_between_times(self):
        values = fields(39)
        read = ("--variables", "t2m", "--lead", LEAD)
        gap = write_times("gap.h5", np.delete(np.arange(40), 20), t2m=values)
        for conditions in (25, 10, 39):
            said = f"condition {conditions - 1} at most, as 39 times of {gap} are numbered, of which 31 begin a pair with --lead {LEAD}"
            self.refuse(said, write_samples("drawn.h5", conditions), "--data", gap, *read)
        whole = write_times("whole.h5", np.arange(39), t2m=values)
        drawn = write_samples("drawn.h5", 25)
        (bias,) = self.biases(drawn, "--data", whole, *read)
        wanted = fields(25 * MEMBERS, seed=2).mean(dtype=float) - values[LEAD : LEAD + 25].mean(dtype=float)
        self.assertAlmostEqual(bias, wanted, delta=1e-5)

    def test_variables_of_other_names_are_not_held_against_each_other(self):
        data, made = write_times("weather.h5", np.arange(12), t2m=fields(12), u10=fields(12, seed=3)), WORK / "swapped"
        shutil.rmtree(made, ignore_errors=True)
        ddpm("data", "create", data, "--variables", "u10,t2m", "--output", made)
        self.refuse(f"its variable 0 is u10, that of {data} is t2m", made, "--data", data, "--variables", "t2m,u10")
        np.testing.assert_allclose(self.biases(made, "--data", data, "--variables", "u10,t2m"), 0, atol=1e-9)
        # A file whose variables have no names says nothing of their order.
        with h5py.File(WORK / "nameless.h5", "w") as file:
            file["images"] = np.stack([fields(12), fields(12, seed=3)], -1)
        np.testing.assert_allclose(self.biases(WORK / "nameless.h5", "--data", data, "--variables", "t2m,u10"), 0, atol=1e-9)

    def test_values_that_a_transform_leads_beyond_all_numbers(self):
        rain = np.random.default_rng(5).gamma(1, 2, (12, 1, SIDE, SIDE)).astype(np.float32)
        np.save(WORK / "rain.npy", rain.reshape(12, SIDE, SIDE, 1))
        data = WORK / "rain"
        shutil.rmtree(data, ignore_errors=True)
        ddpm("data", "create", WORK / "rain.npy", "--output", data, "--transform", "log1p")
        for name, value in (("negative", -3), ("diverged", 1e4)):
            hurt = rain.copy()
            hurt[7, 0, 1, 2] = value
            np.save(WORK / f"{name}.npy", hurt)
        stored = ("--samples-hold", "stored")
        said = "sample 7 holds -3 in channel 0 at place 6 of its 16 pixels, which is not finite on the model scale by log1p"
        for metrics in (("histogram",), ("neighbours", "--held-out", data)):
            self.refuse(said, WORK / "negative.npy", "--data", data, *stored, "--metrics", *metrics, kind="samples")
        said = "sample 7 holds 10000 in channel 0 at place 6 of its 16 pixels, which is not finite on the stored scale by log1p"
        self.refuse(said, WORK / "diverged.npy", "--data", data)
        self.assertEqual(len(self.biases(WORK / "negative.npy", "--data", data, *stored)), 1)  # no transform is undone


if __name__ == "__main__":
    unittest.main(verbosity=2)
