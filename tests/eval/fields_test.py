"""`ddpm eval fields --data` gives what NumPy and SciPy compute from the same arrays, with the same bytes on 1, 2 and 3 ranks, and
refuses sets that do not fit."""

import json
import os
import pathlib
import shutil
import sys
import unittest

import h5py
import numpy as np
import scipy.stats

import numpy_fields as wanted

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_run import ddpm  # noqa: E402

WORK = pathlib.Path.cwd()
CONDITIONS, MEMBERS, SIDES, VARIABLES = 9, 4, (6, 8), 2
THRESHOLD_SHARES = [share for share in wanted.SHARES if share != 0.5]
SUMMARY = ("bias", "deviation_ratio", "correlation", "rmse", "crps", "energy_score", "spread_skill")


def write(name, images, **arrays):
    """A bare .h5 file; images are channels first here, and channels last in the file."""
    path = WORK / f"{name}.h5"
    with h5py.File(path, "w") as file:
        file["images"] = np.moveaxis(images, 1, -1).astype(np.float32)
        for key, array in arrays.items():
            file[key] = array
    return path


def ensemble(seed, spread, offset=0.0):
    """[conditions, members, variables, sides...] around TRUTH, as float32."""
    noise = np.random.default_rng(seed).normal(size=(CONDITIONS, MEMBERS, VARIABLES, *SIDES))
    return (TRUTH[:CONDITIONS, None] + offset + spread * noise).astype(np.float32)


def write_ensemble(name, x):
    return write(name, x.reshape(-1, VARIABLES, *SIDES), condition_index=np.repeat(np.arange(len(x)), x.shape[1]),
                 member=np.tile(np.arange(x.shape[1]), len(x)))  # fmt: skip


RANDOM = np.random.default_rng(5)
TRUTH = (280 + np.cumsum(RANDOM.normal(size=(CONDITIONS + 3, VARIABLES, *SIDES)), axis=-1)).astype(np.float32)
VALID = RANDOM.uniform(size=(CONDITIONS + 3, *SIDES)) < 0.8


def thresholds_in(result, variable):
    """The data's quantiles, which are those that shares are counted beyond."""
    return {share: row["reference"] for share in THRESHOLD_SHARES for row in result["metrics"]
            if row["name"] == "quantile" and row["variable"] == variable and row["level"] == f"{100 * share:g} %"}  # fmt: skip


class Fields(unittest.TestCase):
    def evaluate(self, *arguments, ranks=(1, 2, 3), code=0):
        outputs = [ddpm("eval", "fields", *arguments, "--json", ranks=n, check=False) for n in ranks]
        for output in outputs:
            self.assertEqual(output.returncode, code, output.stderr)
            self.assertEqual(output.stdout, outputs[0].stdout)
        return json.loads(outputs[0].stdout)

    def rows(self, result, variable):
        return {(row["name"], row.get("level", "")): row for row in result["metrics"] if row["variable"] == variable}

    def check(self, row, value, error, degrees=None):
        np.testing.assert_allclose(row["value"], value, rtol=1e-6, atol=1e-9, err_msg=str(row))
        if error is None:
            return
        np.testing.assert_allclose(row["standard_error"], error, rtol=1e-6, atol=1e-9, err_msg=str(row))
        if degrees is not None:
            ends = wanted.interval(value, error, degrees)
            np.testing.assert_allclose([row["low"], row["high"]], ends, rtol=1e-6, atol=1e-8, err_msg=str(row))

    def test_ensembles_have_the_scores_of_numpy(self):
        data = write("truth", TRUTH, mask=VALID.astype(np.uint8))
        x = ensemble(1, 0.9, 0.2)
        result = self.evaluate(write_ensemble("a", x), "--data", data, "--mask", "/mask")
        self.assertEqual((result["kind"], result["count"]), ("fields", CONDITIONS * MEMBERS))
        self.assertEqual((result["settings"]["conditions"], result["settings"]["members"]), (CONDITIONS, MEMBERS))
        for v in range(VARIABLES):
            rows = self.rows(result, f"channel {v}")
            thresholds = thresholds_in(result, f"channel {v}")
            x64, y64 = x[:, :, v].astype(float), TRUTH[:CONDITIONS, v].astype(float)
            valid = VALID[:CONDITIONS]
            for share, threshold in thresholds.items():
                np.testing.assert_allclose(threshold, np.quantile(y64[valid], share), atol=2e-3 * y64[valid].std())
            numbers = wanted.jackknife(lambda u: wanted.paired(x64[u], y64[u], valid[u], thresholds),
                                       [np.array([c]) for c in range(CONDITIONS)])  # fmt: skip
            for key, (value, error) in numbers.items():
                self.check(rows[key], value, error, CONDITIONS - 1)
            self.assertEqual({key[0] for key in rows} - {key[0] for key in numbers}, {"quantile", "rank_chi2"})
            bias = rows["bias", ""]
            np.testing.assert_allclose(bias["sigmas"], bias["value"] / bias["standard_error"], rtol=1e-9)
            self.check_ranks(rows, numbers, x64, y64, valid)
            self.check_quantiles(rows, x64[np.repeat(valid[:, None], MEMBERS, 1)])
            for share in wanted.SHARES:
                row = rows["quantile", f"{100 * share:g} %"]
                of = lambda units: {"sigma": wanted.share_moved(x64[units][np.repeat(valid[units][:, None], MEMBERS, 1)], y64[units][valid[units]], row)}
                moved, error = wanted.jackknife(of, [np.array([c]) for c in range(CONDITIONS)])["sigma"]
                np.testing.assert_allclose(row["sigmas"], moved / error, rtol=1e-6)

    def check_ranks(self, rows, numbers, x, y, valid):
        shares = np.array([numbers["rank_share", r] for r in range(MEMBERS + 1)])
        statistic = MEMBERS * np.square(shares[:, 0] - 1 / (MEMBERS + 1)).sum() / np.square(shares[:, 1]).sum()
        np.testing.assert_allclose(rows["rank_chi2", ""]["value"], statistic, rtol=1e-6)
        # Of all ways to have one of each condition be the truth; the program draws 9,999 of them.
        p = wanted.exchange_p_value(x, y, valid)
        self.assertLess(abs(rows["rank_chi2", ""]["p_value"] - p), 5 * np.sqrt(p * (1 - p) / 9999) + 2e-4)

    def check_quantiles(self, rows, values):
        for share in wanted.SHARES:
            row = rows["quantile", f"{100 * share:g} %"]
            np.testing.assert_allclose(row["value"], np.quantile(values, share), atol=2e-3 * values.std())
            self.assertLessEqual(row["low"], row["value"])
            self.assertGreaterEqual(row["high"], row["value"])

    def test_two_seeds_and_another_model(self):
        data = write("truth", TRUTH)
        a = [ensemble(seed, 1.0) for seed in (1, 2)]
        b = [ensemble(seed, 1.0, 0.9) for seed in (3, 4)]
        paths = [write_ensemble(f"set-{i}", x) for i, x in enumerate(a + b)]
        result = self.evaluate(*paths[:2], "--data", data, "--against", *paths[2:])
        valid = np.ones((CONDITIONS, *SIDES), bool)
        rows = self.rows(result, "channel 1")
        thresholds = thresholds_in(result, "channel 1")
        y = TRUTH[:CONDITIONS, 1].astype(float)

        def of_all(units):
            each = [wanted.paired(x[units, :, 1].astype(float), y[units], valid[units], thresholds) for x in a + b]
            means = {(key, side): np.mean([one[key] for one in sets]) for key in each[0] for side, sets in (("a", each[:2]), ("b", each[2:]))}
            spread = {(key, f"between {side}"): np.var([one[key] for one in sets], ddof=1) / 2 for key in each[0]
                      for side, sets in (("a", each[:2]), ("b", each[2:]))}  # fmt: skip
            scores = {(key, "difference"): means[key, "a"] - means[key, "b"] for key in each[0]}
            return {**means, **spread, **scores}

        numbers = wanted.jackknife(of_all, [np.array([c]) for c in range(CONDITIONS)])
        for name in SUMMARY:
            value, of_units = numbers[(name, ""), "a"]
            between = numbers[(name, ""), "between a"][0]
            self.check(rows[name, ""], value, np.sqrt(of_units**2 + between))
            self.assertEqual(rows[name, ""]["sets"], 2)
        verdicts = {row["metric"]: row for row in result["comparisons"] if row["variable"] == "channel 1"}
        for name in ("rmse", "crps", "energy_score"):
            value, of_units = numbers[(name, ""), "difference"]
            variances = np.array([of_units**2, numbers[(name, ""), "between a"][0], numbers[(name, ""), "between b"][0]])
            degrees = variances.sum() ** 2 / (variances**2 / [CONDITIONS - 1, 1, 1]).sum()
            row = verdicts[name]
            np.testing.assert_allclose([row["difference"], row["standard_error"]], [value, np.sqrt(variances.sum())], rtol=1e-6)
            p = 2 * scipy.stats.t.sf(abs(value) / np.sqrt(variances.sum()), max(degrees, 1))
            np.testing.assert_allclose(row["p_value"], p, rtol=1e-6, atol=1e-12)
        self.check_holm(result["comparisons"])

    def check_holm(self, comparisons):
        p = np.array([row["p_value"] for row in comparisons])
        order = np.argsort(p, kind="stable")
        adjusted = np.empty(len(p))
        adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), 1)
        np.testing.assert_allclose([row["p_adjusted"] for row in comparisons], adjusted, rtol=1e-12)
        for row, q in zip(comparisons, adjusted):
            better = "A is better" if row["difference"] < 0 else "B is better"
            self.assertEqual(row["verdict"], better if q < 0.05 else "no significant difference")

    def test_a_clear_difference_has_a_verdict_and_none_has_not(self):
        data = write("truth", TRUTH)
        good, alike, bad = (write_ensemble(name, ensemble(seed, 1.0, offset))
                            for name, seed, offset in (("good", 1, 0.0), ("alike", 2, 0.0), ("bad", 3, 3.0)))  # fmt: skip
        verdict = lambda *sets: {row["metric"]: row["verdict"] for row in self.evaluate(sets[0], "--data", data, "--against", sets[1],
                                                                                       ranks=(1,))["comparisons"]}  # fmt: skip
        self.assertEqual(verdict(good, bad)["crps"], "A is better")
        self.assertEqual(verdict(bad, good)["crps"], "B is better")
        self.assertEqual(set(verdict(good, alike).values()), {"no significant difference"})

    def test_two_draws_in_blocks(self):
        # More than 1000 samples are left out in blocks, whose borders are those of numpy.array_split.
        random = np.random.default_rng(8)
        x = random.normal(0.1, 1.2, (2501, 1, 4, 4)).astype(np.float32)
        y = random.normal(0.0, 1.0, (40, 1, 4, 4)).astype(np.float32)
        np.save(WORK / "x.npy", x)
        result = self.evaluate(WORK / "x.npy", "--data", write("y", y))
        rows, thresholds = self.rows(result, "channel 0"), thresholds_in(result, "channel 0")
        x, y = x[:, 0].astype(float), y[:, 0].astype(float)
        ones = lambda array: np.ones(array.shape, bool)
        number = lambda u, w: wanted.marginal(x[u], ones(x[u]), y[w], ones(y[w]), thresholds)
        all_x, all_y = np.arange(len(x)), np.arange(len(y))
        of_samples = wanted.jackknife(lambda u: number(u, all_y), np.array_split(all_x, 1000))
        of_data = wanted.jackknife(lambda w: number(all_x, w), [np.array([w]) for w in all_y])
        for key, (value, error) in of_samples.items():
            own = 0 if key[0] in ("power", "share_below", "share_above") else of_data[key][1]
            self.check(rows[key], value, np.hypot(error, own))
        self.assertNotIn(("crps", ""), rows)

    def test_values_come_from_the_scale_that_samples_are_on(self):
        # The data's transforms are recorded: of u1, the model sees angles over pi.
        data = WORK / "angles"
        if not data.exists():
            ddpm("data", "generate", "u1", "--output", data, "--count", 30, "--size", 4, "--beta", 1)
        images = np.concatenate([h5py.File(shard)["images"][:] for shard in sorted(data.glob("*.h5"))])
        np.save(WORK / "model.npy", np.moveaxis(images / np.float32(np.pi), -1, 1))
        np.save(WORK / "stored.npy", np.ascontiguousarray(np.moveaxis(images, -1, 1)))
        value = lambda *arguments: self.rows(self.evaluate(*arguments, "--data", data, ranks=(1,)), "angle right")["deviation_ratio", ""]["value"]
        self.assertAlmostEqual(value(WORK / "model.npy"), 1, 6)
        self.assertAlmostEqual(value(WORK / "stored.npy"), np.pi, 5)
        self.assertAlmostEqual(value(WORK / "stored.npy", "--samples-hold", "stored"), 1, 12)
        self.assertAlmostEqual(value(data), 1, 12)

    def test_samples_that_record_transforms_are_in_stored_units(self):
        # As ddpm sample --denormalize writes them: training and test sets each have statistics of their own.
        sets = {}
        for name, mean in (("train", 280.0), ("test", 285.0)):
            sets[name] = np.random.default_rng(7).normal(mean, 5.0, (12, 4, 4, 1)).astype(np.float32)
            array = WORK / f"{name}.npy"
            np.save(array, sets[name])
            shutil.rmtree(WORK / name, ignore_errors=True)
            ddpm("data", "create", array, "--output", WORK / name, "--transform", "standardize")
        result = self.evaluate(WORK / "train", "--data", WORK / "test")
        bias = next(row for row in result["metrics"] if row["name"] == "bias")
        self.assertAlmostEqual(bias["value"], sets["train"].mean(dtype=float) - sets["test"].mean(dtype=float), 5)
        self.assertEqual((result["settings"]["samples_hold"], len(result["notes"])), ("stored", 1))
        # An .npy says nothing, which is said.
        np.save(WORK / "silent.npy", sets["train"].reshape(12, 1, 4, 4))
        notes = self.evaluate(WORK / "silent.npy", "--data", WORK / "test", ranks=(1,))["notes"]
        self.assertTrue(any("silent.npy records no transforms" in note for note in notes), notes)

    def test_an_ensemble_that_the_truth_is_always_beyond(self):
        far = write_ensemble("far", ensemble(1, 0.5, 100.0))
        test = self.rows(self.evaluate(far, "--data", write("truth", TRUTH), ranks=(1,)), "channel 0")["rank_chi2", ""]
        # The truth itself alone is as far off, of 5 to the power 9 ways; the least that 9,999 draws can say.
        self.assertEqual((test["value"], test["p_value"]), (None, 1e-4))

    def test_ranks_of_a_perfect_model(self):
        """Truth and members are draws from one distribution, with pixels that are alike."""
        random, seen = np.random.default_rng(3), []
        for _ in range(4):
            shape = (CONDITIONS, MEMBERS + 1, VARIABLES)
            fields = (280 + random.normal(size=(*shape, 1, 1)) + 0.3 * random.normal(size=(*shape, *SIDES))).astype(np.float32)
            data, samples = write("truth-drawn", fields[:, 0]), write_ensemble("drawn", fields[:, 1:])
            result = self.evaluate(samples, "--data", data, ranks=(1, 2))
            for v in range(VARIABLES):
                p = self.rows(result, f"channel {v}")["rank_chi2", ""]["p_value"]
                x, y = fields[:, 1:, v].astype(float), fields[:, 0, v].astype(float)
                exact = wanted.exchange_p_value(x, y, np.ones(y.shape, bool))
                self.assertLess(abs(p - exact), 5 * np.sqrt(exact * (1 - exact) / 9999) + 2e-4)
                seen.append(p)
        self.assertGreater(np.mean(seen), 0.2)

    def test_quantiles_of_rain(self):
        """Three quarters of the values are 0, in the data a few more than in the samples or a few less."""
        random, rain = np.random.default_rng(0), {}
        for name, dry in (("x", 0.7519), ("y", 0.7481)):
            values = 0.5 + random.gamma(1, 2, 200 * 256)
            values[random.permutation(len(values))[: round(dry * len(values))]] = 0
            rain[name] = values.reshape(200, 1, 16, 16).astype(np.float32)
        for x, y in ("xy", "yx"):
            np.save(WORK / "rain.npy", rain[x])
            rows = self.rows(self.evaluate(WORK / "rain.npy", "--data", write("rain-truth", rain[y]), ranks=(1,)), "channel 0")
            row = rows["quantile", "75 %"]
            self.assertEqual((row["value"] == 0, row["reference"] == 0), (x == "x", x == "y"))
            of_x, of_y = (wanted.share_up_to(rain[name].astype(float), row, of_each=True) for name in (x, y))
            error = np.hypot(of_x.std(ddof=1), of_y.std(ddof=1)) / np.sqrt(200)
            np.testing.assert_allclose(row["sigmas"], (of_y.mean() - of_x.mean()) / error, rtol=1e-6)
            self.assertEqual(rows["quantile", "50 %"]["sigmas"], 0)
            self.assertLess(abs(row["sigmas"]), 5)

    def test_forecasts_without_spread_are_worse(self):
        """The distance of their spread over skill from 1 is infinite, whichever condition is left out."""
        data, x = write("truth", TRUTH), ensemble(1, 1.0)
        good, same = write_ensemble("good", x), write_ensemble("same", x[:, :1].repeat(MEMBERS, 1))
        verdicts = lambda *sets: [row for row in self.evaluate(sets[0], "--data", data, "--against", *sets[1:], ranks=(1,))["comparisons"]
                                  if row["metric"] == "spread_skill"]  # fmt: skip
        self.assertEqual([(row["verdict"], row["p_value"]) for row in verdicts(same, good)], [("B is better", 0.0)] * VARIABLES)
        self.assertEqual([row["verdict"] for row in verdicts(good, same)], ["A is better"] * VARIABLES)
        for sets in ((same, same), (good, good, same)):  # nobody knows what two infinite ones differ by, and one seed of two is no rule
            for row in verdicts(*sets):
                self.assertEqual((row["verdict"], row["p_value"], row["p_adjusted"]), ("no verdict", None, None))

    def test_a_share_of_none_or_all_has_an_interval(self):
        data = write("truth", TRUTH)
        rows = self.rows(self.evaluate(write_ensemble("far", ensemble(1, 0.5, 100.0)), "--data", data, ranks=(1,)), "channel 0")
        for name, level, count in (("share_above", "75 %", CONDITIONS), ("share_below", "5 %", 0)):
            row, ends = rows[name, level], scipy.stats.binomtest(count, CONDITIONS).proportion_ci(0.95, "wilson")
            np.testing.assert_allclose([row["value"], row["low"], row["high"]], [count / CONDITIONS, ends.low, ends.high], atol=1e-12)
            self.assertEqual(row["method"], "wilson")

    def test_of_several_sets_the_truth_is_held_against_each(self):
        data, x = write("truth", TRUTH), ensemble(1, 0.9)
        paths = [write_ensemble(f"one-{i}", x) for i in range(2)]
        one, two = (self.rows(self.evaluate(*paths[: i + 1], "--data", data, ranks=(1,)), "channel 0")["rank_chi2", ""] for i in range(2))
        self.assertAlmostEqual(two["p_value"], min(1, 2 * one["p_value"]), delta=1e-12)

    def test_one_condition_and_one_sample_have_no_errors(self):
        data = write("truth", TRUTH)
        result = self.evaluate(write_ensemble("single", ensemble(1, 0.9)[:1]), "--data", data, ranks=(1,))
        self.assertEqual([row["name"] for row in result["metrics"] if "sigmas" in row], [])
        np.save(WORK / "one.npy", np.zeros((1, 2, 4, 4), np.float32))
        gated = ddpm("eval", "fields", WORK / "one.npy", "--exact", "u1,beta=1", "--gate", 4, check=False)
        self.assertEqual(gated.returncode, 3, gated.stderr)
        self.assertIn("has no error with 1 sample", gated.stderr)

    def test_numbers_that_depend_on_the_count_are_not_compared_between_counts(self):
        data = write("truth", TRUTH)
        x = ensemble(1, 0.9).reshape(-1, VARIABLES, *SIDES)
        many, few = write("many", x), write("few-samples", x[:20])
        compared = lambda a, b: {row["metric"] for row in self.evaluate(a, "--data", data, "--against", b, ranks=(1,))["comparisons"]}
        self.assertEqual(compared(many, many) - compared(many, few), {"spectrum_error", "tail_error"})
        self.assertTrue(any("different numbers of samples" in note
                            for note in self.evaluate(many, "--data", data, "--against", few, ranks=(2,))["notes"]))  # fmt: skip

    def test_one_odd_pixel_leaves_quantiles_where_they_are(self):
        """Not at the place of most values: the first pixel. The cells in which quantiles are looked for begin elsewhere."""
        truth = TRUTH.copy()
        truth[0, :, 0, 0] = 1e6
        result = self.evaluate(write_ensemble("a", ensemble(1, 0.9)), "--data", write("odd", truth), ranks=(1,))
        for v in range(VARIABLES):
            y = truth[:CONDITIONS, v].astype(float)
            scale = np.subtract(*np.quantile(y, (0.75, 0.25)))
            for share, threshold in thresholds_in(result, f"channel {v}").items():
                if 0.01 <= share <= 0.99:
                    np.testing.assert_allclose(threshold, np.quantile(y, share), atol=2e-3 * scale)

    def test_sets_with_the_same_conditions_share_their_error(self):
        """Two sets that are one: their mean's quantiles are known no better than those of each."""
        data, x = write("truth", TRUTH), ensemble(1, 0.9)
        paths = [write_ensemble(f"twin-{i}", x) for i in range(2)]
        one, two = (self.evaluate(*paths[: i + 1], "--data", data, ranks=(1,)) for i in range(2))
        for v in range(VARIABLES):
            a, b = self.rows(one, f"channel {v}"), self.rows(two, f"channel {v}")
            for key in a:
                if key[0] == "quantile":
                    self.assertAlmostEqual(b[key]["value"], a[key]["value"], delta=1e-12)
                    self.assertAlmostEqual(b[key]["standard_error"], a[key]["standard_error"], delta=1e-9)

    def test_members_of_an_npy_and_unpaired_sets(self):
        data, x = write("truth", TRUTH), ensemble(1, 0.9)
        np.save(WORK / "members.npy", x.reshape(-1, VARIABLES, *SIDES))
        known = write_ensemble("a", x)
        paired = self.evaluate(known, "--data", data, ranks=(1,))
        named = self.evaluate(WORK / "members.npy", "--members", MEMBERS, "--data", data, ranks=(2,))
        self.assertEqual(named["metrics"], paired["metrics"])
        apart = self.evaluate(known, "--data", data, "--unpaired", ranks=(1,))
        self.assertFalse(apart["settings"]["paired"])
        self.assertNotIn("crps", {row["name"] for row in apart["metrics"]})
        one = self.evaluate(WORK / "members.npy", "--members", 1, "--data", write("long", np.tile(TRUTH, (4, 1, 1, 1))), ranks=(1,))
        rows = self.rows(one, "channel 0")
        truth = np.tile(TRUTH, (4, 1, 1, 1))[: CONDITIONS * MEMBERS, 0]
        error = np.abs(x.reshape(-1, VARIABLES, *SIDES)[:, 0].astype(float) - truth)
        np.testing.assert_allclose(rows["crps", ""]["value"], error.mean(), rtol=1e-6)
        self.assertNotIn(("spread_skill", ""), rows)

    def test_the_result_is_a_file_too(self):
        data, samples = write("truth", TRUTH), write_ensemble("a", ensemble(1, 0.9))
        output = WORK / "run" / "evaluation" / "fields.json"
        printed = ddpm("eval", "fields", samples, "--data", data, "--output", output)
        self.assertIn("spread_skill", printed.stdout)
        self.assertEqual(json.loads(output.read_text()), self.evaluate(samples, "--data", data, ranks=(1,)))

    def refuse(self, code, phrase, *arguments):
        process = ddpm("eval", "fields", *arguments, "--json", check=False)
        self.assertEqual((process.returncode, process.stdout), (code, ""), process.stderr)
        errors = [line for line in process.stderr.splitlines() if line.startswith("ddpm: error")]
        self.assertEqual(len(errors), 1, process.stderr)
        self.assertIn(phrase, errors[0])

    def test_what_cannot_be_compared_is_refused(self):
        data, x = write("truth", TRUTH), ensemble(1, 0.9)
        good = write_ensemble("a", x)
        hurt = x.reshape(-1, VARIABLES, *SIDES).copy()
        hurt[7, 1, 2, 3] = np.nan
        np.save(WORK / "hurt.npy", hurt)
        np.save(WORK / "flat.npy", np.zeros((3, 4), np.float32))
        self.refuse(2, "wanted --data, --exact or both", good)
        self.refuse(2, "no exact values are known of", good, "--exact", "potts,beta=1")
        self.refuse(2, "wanted beta with a number", good, "--exact", "u1,bta=1")
        self.refuse(2, "is not a number from 0 to 100", good, "--exact", "u1,beta=-1")
        self.refuse(2, "--members", good, "--data", data, "--member", 3)
        self.refuse(2, "--gate 4", good, "--data", data, "--gate", 4)
        self.refuse(2, ".json", good, "--data", data, "--output", WORK / "result.txt")
        self.refuse(4, "is not a folder", good, "--data", data, "--output", data / "result.json")
        self.refuse(3, "sample 7 holds nan in channel 1", WORK / "hurt.npy", "--data", data)
        self.refuse(3, "absent.npy", WORK / "absent.npy", "--data", data)
        self.refuse(3, "absent", WORK / "absent", "--data", data)
        self.refuse(3, "2 variables of 6 x 8", good, "--data", write("small", TRUTH[..., :4]))
        self.refuse(3, "wanted samples", WORK / "flat.npy", "--data", data)
        index, member = np.repeat(np.arange(CONDITIONS), MEMBERS), np.tile(np.arange(MEMBERS), CONDITIONS)
        images = x.reshape(-1, VARIABLES, *SIDES)
        self.refuse(3, "sample 5 is member 2", write("gap", np.delete(images, 5, 0), condition_index=np.delete(index, 5),
                                                     member=np.delete(member, 5)), "--data", data)  # fmt: skip
        self.refuse(3, "condition 8 has 3 members", write("short", images[:-1], condition_index=index[:-1], member=member[:-1]),
                    "--data", data)  # fmt: skip
        np.save(WORK / "three.npy", images[:3])
        self.refuse(3, "--members 4: ", WORK / "three.npy", "--data", data, "--members", 4)
        self.refuse(3, "has images 0 to 3", good, "--data", write("few", TRUTH[:4]))
        self.refuse(3, "the same conditions in all sets", good, write_ensemble("fewer", x[:5]), "--data", data)


if __name__ == "__main__":
    unittest.main(verbosity=2)
