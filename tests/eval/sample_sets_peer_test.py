"""`ddpm eval samples` of several sets that differ from each other: in their sizes, and in what they say of themselves. Numbers are
those of NumPy."""

import json
import os
import pathlib
import sys
import unittest

import numpy as np

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_run import ddpm  # noqa: E402

WORK = pathlib.Path.cwd()


def evaluate(*arguments, ranks=1):
    return json.loads(ddpm("eval", "samples", *arguments, "--json", ranks=ranks).stdout)


def rows(result):
    named = {(row["name"], row.get("variable"), row.get("level")): row for row in result["metrics"]}
    assert len(named) == len(result["metrics"])
    return named


def drawn(name, count, seed):
    np.save(WORK / f"{name}.npy", np.random.default_rng(seed).normal(size=(count, 1, 4, 4)).astype(np.float32))
    return WORK / f"{name}.npy"


class SetsOfUnlikeSizes(unittest.TestCase):
    """Only a large set has the kernel distance of subsets: one row more, before those of the manifolds."""

    @classmethod
    def setUpClass(cls):
        cls.few, cls.many = drawn("few", 40, 1), drawn("many", 1100, 2)
        cls.options = ["--data", drawn("data", 1050, 3), "--metrics", "frechet,kernel,manifold"]
        cls.alone = {path: rows(evaluate(path, *cls.options)) for path in (cls.few, cls.many)}

    def test_only_one_of_them_has_a_row_of_subsets(self):
        extra = self.alone[self.many].keys() - self.alone[self.few].keys()
        self.assertEqual({key[0] for key in extra}, {"kernel_distance_subsets"})

    def test_a_mean_is_of_one_number_of_each(self):
        for sets in ((self.few, self.many), (self.many, self.few)):
            result = evaluate(*sets, *self.options)
            both = rows(result)
            self.assertEqual(both.keys(), self.alone[self.few].keys())
            for key, row in both.items():
                each = [self.alone[path][key]["value"] for path in sets]
                np.testing.assert_allclose(row["value"], np.mean(each), rtol=1e-12, err_msg=str(key))
                self.assertEqual(row["sets"], 2)
            self.assertTrue(any("40, 1100 samples" in note and "--most 40" in note for note in result["notes"]), result["notes"])
            even = evaluate(*sets, *self.options, "--most", 40)
            self.assertFalse(any("unlike" in note for note in even["notes"]), even["notes"])

    def test_a_comparison_is_of_one_number_of_both(self):
        ideal = {"precision": 1, "density": 1, "frechet_distance_unbiased": 0, "kernel_distance": 0}
        for a, b in ((self.few, self.many), (self.many, self.few)):
            found = {row["metric"].removesuffix("_gap"): row for row in evaluate(a, "--against", b, *self.options)["comparisons"]}
            self.assertEqual(found.keys(), ideal.keys())
            for name, best in ideal.items():
                (key,) = [key for key in self.alone[a] if key[0] == name]
                of = lambda path: self.alone[path][key]["value"] if best == 0 else abs(1 - self.alone[path][key]["value"])
                np.testing.assert_allclose([found[name]["a"], found[name]["b"]], [of(a), of(b)], rtol=1e-9, atol=1e-15, err_msg=name)
                np.testing.assert_allclose(found[name]["difference"], of(a) - of(b), rtol=1e-6, atol=1e-12, err_msg=name)


if __name__ == "__main__":
    unittest.main(verbosity=2)
