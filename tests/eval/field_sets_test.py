"""`ddpm eval fields` refuses sets that look like those of the data and are not: of pairs that are numbered otherwise than times,
of variables in another order, and of values that a transform leads beyond all numbers."""

import json
import os
import pathlib
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


def write_times(name, hours, values):
    """A foreign file with a time of each image."""
    with h5py.File(WORK / name, "w") as file:
        file["hours"] = np.asarray(hours, float)
        file["hours"].make_scale("hours")
        file["t2m"] = values
        file["t2m"].dims[0].attach_scale(file["hours"])
    return WORK / name


def write_samples(name, conditions):
    """Members of so many conditions, as `ddpm sample --condition` writes them."""
    with h5py.File(WORK / name, "w") as file:
        file["images"] = fields(conditions * MEMBERS, seed=2)[..., None]
        file["condition_index"] = np.repeat(np.arange(conditions), MEMBERS)
        file["member"] = np.tile(np.arange(MEMBERS), conditions)
    return WORK / name


class FieldSets(unittest.TestCase):
    def refuse(self, phrase, *arguments):
        process = ddpm("eval", "fields", *arguments, "--json", check=False)
        self.assertEqual((process.returncode, process.stdout), (3, ""), process.stderr)
        errors = [line for line in process.stderr.splitlines() if line.startswith("ddpm: error")]
        self.assertEqual(len(errors), 1, process.stderr)
        self.assertIn(phrase, errors[0])

    def test_conditions_are_no_numbers_of_pairs_with_a_gap_between_times(self):
        values = fields(39)
        read = ("--variables", "t2m", "--lead", LEAD)
        gap = write_times("gap.h5", np.delete(np.arange(40), 20), values)
        for conditions in (25, 10, 39):
            said = f"condition {conditions - 1} at most, as 39 times of {gap} are numbered, of which 31 begin a pair with --lead {LEAD}"
            self.refuse(said, write_samples("drawn.h5", conditions), "--data", gap, *read)
        whole = write_times("whole.h5", np.arange(39), values)
        drawn = write_samples("drawn.h5", 25)
        (bias,) = [row["value"] for row in json.loads(ddpm("eval", "fields", drawn, "--data", whole, *read, "--json").stdout)["metrics"]
                   if row["name"] == "bias"]  # fmt: skip
        wanted = fields(25 * MEMBERS, seed=2).mean(dtype=float) - values[LEAD : LEAD + 25].mean(dtype=float)
        self.assertAlmostEqual(bias, wanted, delta=1e-5)


if __name__ == "__main__":
    unittest.main(verbosity=2)
