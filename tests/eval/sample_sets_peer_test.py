"""`ddpm eval samples` of several sets that differ from each other: in their sizes, and in what they say of themselves, such as
conditions. Numbers are those of NumPy."""

import json
import os
import pathlib
import shutil
import sys
import unittest

import h5py
import numpy as np
import scipy.stats
import torch

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "eval"))
from ddpm_run import ddpm  # noqa: E402
from numpy_pictures import band_power, distances, frechet, radii, random_convolutions  # noqa: E402

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


class SamplesOfConditions(unittest.TestCase):
    """Samples of one condition are alike; conditions are in any order, and have unlike numbers of members."""

    @classmethod
    def setUpClass(cls):
        cls.condition = np.array([7, 7, 7, 2, 2, 9, 9, 9, 9, 4, 4, 4, 0, 0, 7, 2])  # of 16 samples
        cls.units = [np.flatnonzero(cls.condition == c) for c in (7, 2, 9, 4, 0)]
        random = np.random.default_rng(5)
        cls.y = random.normal(size=(40, 1, 4, 4)).astype(np.float32)
        cls.held_out = random.normal(size=(12, 1, 4, 4)).astype(np.float32)
        cls.x = [cls.sets(random, shift) for shift in (0.1, 0.2, 0.9)]
        cls.data, cls.beside = WORK / "y.npy", WORK / "held_out.npy"
        np.save(cls.data, cls.y)
        np.save(cls.beside, cls.held_out)
        cls.paths = [cls.write(f"set-{i}", x) for i, x in enumerate(cls.x)]
        cls.options = ["--data", cls.data, "--held-out", cls.beside]

    @classmethod
    def sets(cls, random, shift):
        base = random.normal(size=(10, 1, 4, 4))[cls.condition]
        return (shift + base + 0.3 * random.normal(size=base.shape)).astype(np.float32)

    @classmethod
    def write(cls, name, x, condition=None):
        with h5py.File(WORK / f"{name}.h5", "w") as file:
            file["images"] = np.moveaxis(x, 1, -1)
            file["condition_index"] = cls.condition if condition is None else condition
        return WORK / f"{name}.h5"

    def left_out(self, statistic):
        """A statistic of samples, given by their numbers, without each condition."""
        return np.array([statistic(np.delete(np.arange(len(self.condition)), unit)) for unit in self.units])

    @staticmethod
    def spread(left_out):
        return np.sqrt((len(left_out) - 1) / len(left_out) * np.square(left_out - np.mean(left_out)).sum())

    def kernel_distance(self, x, y, numbers):
        """Over pairs of samples of different conditions."""
        k = lambda a, b: (a @ b.T / a.shape[1] + 1) ** 3
        apart = self.condition[numbers][:, None] != self.condition[numbers][None]
        of_data = k(y, y)
        return (k(x[numbers], x[numbers])[apart].sum() / apart.sum() - 2 * k(x[numbers], y).mean()
                + (of_data.sum() - np.trace(of_data)) / len(y) / (len(y) - 1))  # fmt: skip

    def statistics(self, x):
        """Numbers of samples, given by which of them, and the rest of their error."""
        features, of_data = (random_convolutions(torch.from_numpy(z)) for z in (x, self.y))
        flat, train, other = (z.reshape(len(z), -1).astype(float) for z in (x, self.y, self.held_out))
        nearest, reference = distances(flat, train).min(1) / 4, distances(other, train).min(1) / 4
        inside = distances(features, of_data) <= radii(of_data, 3)
        wins = (nearest[:, None] < reference[None]) + (nearest[:, None] == reference[None]) / 2
        all_samples = np.arange(len(x))
        of_pairs = lambda i, j: self.kernel_distance(features, of_data[j], i)
        each_out = lambda statistic, count: self.spread([statistic(np.delete(np.arange(count), j)) for j in range(count)])
        return {
            "mean": (lambda i: x[i].astype(float).mean(), 0),
            "deviation": (lambda i: x[i].astype(float).std(), 0),
            "spectrum k 1": (lambda i: band_power(x[i, 0].astype(float), 1, 1), 0),
            "nearest_distance": (lambda i: nearest[i].mean(), 0),
            "nearer_than_held_out": (lambda i: wins[i].mean(), each_out(lambda j: wins[:, j].mean(), len(other))),
            "frechet_distance": (lambda i: frechet(features[i], of_data), 0),
            "kernel_distance": (lambda i: of_pairs(i, np.arange(len(of_data))), each_out(lambda j: of_pairs(all_samples, j), len(of_data))),
            "precision": (lambda i: inside[i].any(1).mean(), 0),
            "density": (lambda i: inside[i].sum() / 3 / len(i), 0),
        }

    def named(self, result):
        name = lambda key: "spectrum k 1" if (key[0], key[2]) == ("spectrum", "k 1") else key[0]
        return {name(key): row for key, row in rows(result).items()}

    def test_errors_are_over_conditions(self):
        result = evaluate(self.paths[0], *self.options)
        found = self.named(result)
        self.assertEqual(result["settings"]["conditions"], 5)
        self.assertTrue(any("of 5 conditions" in note for note in result["notes"]), result["notes"])
        for name, (statistic, rest) in self.statistics(self.x[0]).items():
            # The covariances of fewer samples than features have no inverse; SciPy's root of them is good to 1e-4.
            tolerance = 1e-2 if name == "frechet_distance" else 1e-4
            row = found[name]
            self.assertEqual(row["units"], 5, name)
            np.testing.assert_allclose(row["value"], statistic(np.arange(16)), rtol=tolerance, atol=1e-7, err_msg=name)
            wanted = np.hypot(self.spread(self.left_out(statistic)), rest)
            np.testing.assert_allclose(row["standard_error"], wanted, rtol=tolerance, atol=1e-7, err_msg=name)
        histogram = found["histogram_distance"]
        of_levels = lambda i: scipy.stats.wasserstein_distance(self.x[0][i].ravel(), self.y.ravel())
        np.testing.assert_allclose(histogram["standard_error"], self.spread(self.left_out(of_levels)), rtol=0.02)
        self.assertEqual(evaluate(self.paths[0], *self.options, ranks=3), result)

    def test_several_sets_have_their_conditions_in_common(self):
        both = self.named(evaluate(*self.paths[:2], *self.options))
        compared = {row["metric"].removesuffix("_gap"): row for row in evaluate(self.paths[0], "--against", self.paths[2], *self.options)["comparisons"]
                    if row.get("level", "k 1") == "k 1"}  # fmt: skip
        of_data = self.y.astype(float)
        one, two, three = (self.statistics(x) for x in self.x)
        for name in ("mean", "deviation", "nearest_distance", "density"):
            left = [self.left_out(of[name][0]) for of in (one, two, three)]
            values = [of[name][0](np.arange(16)) for of in (one, two, three)]
            error = np.hypot(self.spread((left[0] + left[1]) / 2), np.std(values[:2], ddof=1) / np.sqrt(2))
            np.testing.assert_allclose([both[name]["value"], both[name]["standard_error"]], [np.mean(values[:2]), error], rtol=1e-4, err_msg=name)
            self.assertEqual((both[name]["units"], both[name]["sets"]), (5, 2))
            if name not in compared:
                continue
            best = {"mean": of_data.mean(), "deviation": of_data.std(), "density": 1}[name]
            signs = [np.sign(values[k] - best) for k in (0, 2)]
            row = compared[name]
            np.testing.assert_allclose(row["difference"], abs(values[0] - best) - abs(values[2] - best), rtol=1e-4, atol=1e-7, err_msg=name)
            of_reference = both[name].get("reference_error", 0) * abs(signs[0] - signs[1])
            wanted = np.hypot(self.spread(signs[0] * left[0] - signs[1] * left[2]), of_reference)
            np.testing.assert_allclose(row["standard_error"], wanted, rtol=1e-4, err_msg=name)
        self.assertIn("mean", compared)

    def test_sets_of_other_conditions_are_independent(self):
        other = self.write("other", self.x[1], self.condition + 1)
        alone = [self.named(evaluate(path, *self.options, "--metrics", "moments"))["mean"] for path in (self.paths[0], other)]
        both = self.named(evaluate(self.paths[0], other, *self.options, "--metrics", "moments"))["mean"]
        within = np.hypot(alone[0]["standard_error"], alone[1]["standard_error"]) / 2
        between = abs(alone[0]["value"] - alone[1]["value"]) / 2
        np.testing.assert_allclose(both["standard_error"], max(within, between), rtol=1e-9)
        self.assertEqual(both["units"], 10)

    def test_one_condition_has_no_error(self):
        one = self.write("single", self.x[0], np.full(16, 3))
        result = evaluate(one, *self.options)
        for name, row in self.named(result).items():
            if name not in ("recall", "coverage"):  # shares of the data
                self.assertIsNone(row["standard_error"], name)
        usual = self.named(evaluate(self.write_plain(self.x[0]), *self.options))
        for name, row in self.named(result).items():
            if name != "frechet_distance_unbiased":  # which is known by the scatter
                np.testing.assert_allclose(row["value"], usual[name]["value"], rtol=1e-12, err_msg=name)
        self.assertTrue(any("of one condition" in note for note in result["notes"]), result["notes"])

    def write_plain(self, x):
        np.save(WORK / "plain.npy", x)
        return WORK / "plain.npy"

    def test_a_condition_for_each_sample_is_none(self):
        each = evaluate(self.write("each", self.x[0], np.arange(16)), *self.options)
        plain = evaluate(self.write_plain(self.x[0]), *self.options)
        for a, b in zip(each["metrics"], plain["metrics"], strict=True):
            self.assertEqual((a["name"], a["units"]), (b["name"], b["units"]))
            for key in ("value", "standard_error", "low", "high"):
                np.testing.assert_allclose(a[key], b[key], rtol=1e-9, atol=1e-12, err_msg=str(a))

    def test_a_file_whose_conditions_are_not_those_of_its_samples_is_refused(self):
        process = ddpm("eval", "samples", self.write("short", self.x[0], self.condition[:-1]), *self.options, check=False)
        self.assertEqual(process.returncode, 3, process.stderr)
        self.assertIn("/condition_index has 15 numbers, for 16 samples", process.stderr)

    def test_conditions_without_end_are_refused_before_memory_is_taken_for_them(self):
        path = self.write("endless", self.x[0])
        with h5py.File(path, "a") as file:
            del file["condition_index"]
            file.create_dataset("condition_index", (1 << 40,), "i8", chunks=(1 << 20,), fillvalue=-1)[0] = 7
        process = ddpm("eval", "samples", path, *self.options, check=False)
        self.assertEqual(process.returncode, 3, process.stderr)
        self.assertIn(f"/condition_index has {1 << 40} numbers, for 16 samples", process.stderr)

    def test_damage_of_what_describes_the_conditions_ends_in_no_crash(self):
        path = self.write("hurt", self.x[0])
        with h5py.File(path) as file:
            place = h5py.h5o.get_info(file["condition_index"].id).addr
        whole = path.read_bytes()
        random = np.random.default_rng(8)
        for damage in [bytes(16), *(random.bytes(8) for _ in range(8))]:
            at = place + (0 if len(damage) == 16 else int(random.integers(16, 200)))
            path.write_bytes(whole[:at] + damage + whole[at + len(damage) :])
            process = ddpm("eval", "samples", path, *self.options, "--metrics", "moments", check=False)
            self.assertIn(process.returncode, (3,) if len(damage) == 16 else (0, 3), process.stderr)

    def test_a_changed_condition_of_an_adopted_file_is_refused(self):
        path = self.write("adopted", self.x[0])
        ddpm("data", "adopt", path)
        with h5py.File(path) as file:
            place = file["condition_index"].id.get_offset()
        content = bytearray(path.read_bytes())
        content[place + 1] ^= 1  # 7 becomes 263
        path.write_bytes(content)
        for ranks in (1, 2):
            process = ddpm("eval", "samples", path, *self.options, ranks=ranks, check=False)
            self.assertEqual(process.returncode, 3, process.stderr)
            self.assertIn("adopted.h5:/condition_index", process.stderr)


class ScalesOfSamples(unittest.TestCase):
    """Kelvins beside data that a model sees standardised."""

    def test_it_is_said_where_samples_do_not_tell_theirs(self):
        kelvins = np.random.default_rng(3).normal(280, 5, (30, 4, 4, 1)).astype(np.float32)
        np.save(WORK / "kelvins.npy", kelvins)
        shutil.rmtree(WORK / "standardised", ignore_errors=True)
        ddpm("data", "create", WORK / "kelvins.npy", "--output", WORK / "standardised", "--transform", "standardize")
        np.save(WORK / "silent.npy", kelvins.reshape(30, 1, 4, 4))
        options = ["--data", WORK / "standardised", "--metrics", "moments"]
        for sets in ([WORK / "silent.npy"], [WORK / "standardised", "--against", WORK / "silent.npy"]):
            notes = evaluate(*sets, *options)["notes"]
            self.assertTrue(any("silent.npy records no transforms" in note and "--samples-hold stored" in note for note in notes), notes)
        cases = [(WORK / "silent.npy", (), "model", 1), (WORK / "silent.npy", ("--samples-hold", "stored"), "stored", 0),
                 (WORK / "silent.npy", ("--samples-hold", "model"), "model", 0), (WORK / "standardised", (), "stored", 0)]  # fmt: skip
        for samples, hold, scale, notes in cases:
            result = evaluate(samples, *options, *hold)
            self.assertEqual((result["settings"]["samples_hold"], len(result["notes"])), (scale, notes), (samples, hold))
            mean = (kelvins.astype(float).mean() if scale == "model" else 0)
            self.assertAlmostEqual(rows(result)["mean", "channel 0", None]["value"], mean, delta=1e-4)


if __name__ == "__main__":
    unittest.main(verbosity=2)
