"""`ddpm eval fields` of few samples: sigmas of shares that none or all of them have, and differences without an error. Numbers are
those of NumPy and SciPy."""

import json
import os
import pathlib
import sys
import unittest

import numpy as np
import scipy.stats

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_run import ddpm  # noqa: E402

WORK = pathlib.Path.cwd()
SHARES = (0.001, 0.01, 0.05, 0.25, 0.75, 0.95, 0.99, 0.999)


def save(name, images):
    np.save(WORK / f"{name}.npy", images.astype(np.float32))
    return WORK / f"{name}.npy"


def evaluate(*arguments):
    return json.loads(ddpm("eval", "fields", *arguments, "--json").stdout)


def rows_of(result):
    return {(row["name"], row.get("level", "")): row for row in result["metrics"]}


def error_of_mean(numbers):
    return numbers.std(ddof=1) / np.sqrt(len(numbers))


def wilson_error(count):
    """Of none or all of so many units: what the width of the interval amounts to."""
    ends = scipy.stats.binomtest(0, count).proportion_ci(0.95, "wilson")
    return (ends.high - ends.low) / (2 * scipy.stats.norm.ppf(0.975))


class FewSamples(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        random = np.random.default_rng(2)
        cls.y = random.normal(size=(600, 1, 3, 3)).astype(np.float32)
        cls.x = random.normal(size=(8, 1, 3, 3)).astype(np.float32)
        cls.data, cls.samples = save("data", cls.y), save("samples", cls.x)

    def test_a_share_of_none_or_all_counts_wilson_s_error_in_sigma(self):
        rows = rows_of(evaluate(self.samples, "--data", self.data))
        seen = set()
        for share in SHARES:
            level = f"{100 * share:g} %"
            quantile = rows["quantile", level]
            low, threshold = share < 0.5, quantile["reference"]
            beyond = lambda z: (z < threshold if low else z > threshold).mean((1, 2, 3))
            row = rows["share_below" if low else "share_above", level]
            under = lambda z: (z <= threshold if quantile["value"] > threshold else z < threshold).mean((1, 2, 3))
            for name, found, of, sign in (("share", row, beyond, 1), ("quantile", quantile, under, -1)):
                own, data = of(self.x), of(self.y)
                none_or_all = own.mean() in (0, 1)
                error = np.hypot(wilson_error(len(own)) if none_or_all else error_of_mean(own), error_of_mean(data))
                wanted = sign * (own.mean() - data.mean()) / error
                np.testing.assert_allclose(found["sigmas"], wanted, rtol=1e-6, atol=1e-9, err_msg=f"{name} {level}")
                if none_or_all:
                    seen.add(name)
                    self.assertLess(abs(found["sigmas"]), 1)
        self.assertEqual(seen, {"share", "quantile"})

    def test_six_sets_whose_values_all_count_have_wilson_s_interval(self):
        """The mean of six ones is rounded."""
        above = [save(f"above-{i}", self.x + 50) for i in range(6)]
        row = rows_of(evaluate(*above, "--data", self.data))["share_above", "75 %"]
        low = scipy.stats.binomtest(48, 48).proportion_ci(0.95, "wilson").low
        self.assertEqual((row["value"], row["high"], row["method"]), (1, 1, "wilson"))
        self.assertAlmostEqual(row["low"], low, delta=1e-12)

    def test_one_sample_and_another_have_no_verdict(self):
        """Nothing tells how far two draws of one model are apart."""
        random = np.random.default_rng(4)
        a, b = (save(name, random.normal(size=(1, 2, 4, 4))) for name in ("one", "other"))
        result = evaluate(a, "--against", b, "--exact", "u1,beta=1")
        self.assertTrue(result["comparisons"])
        for row in result["comparisons"]:
            self.assertEqual((row["p_value"], row["p_adjusted"], row["verdict"]), (None, None, "no verdict"), row)


if __name__ == "__main__":
    unittest.main(verbosity=2)
