"""`ddpm eval samples` gives what NumPy and SciPy compute from the same pictures and features, the same bytes on 1, 2 and 3
ranks; it finds copies of training pictures, says which of two models is better, and refuses what it cannot measure."""

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
from PIL import Image

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "eval"))
from ddpm_run import ddpm  # noqa: E402
from numpy_pictures import band_power, distances, frechet, jackknife, kernel_distance, manifold, random_convolutions  # noqa: E402
from shapes import SIDE, pictures, seen, train_extractor  # noqa: E402

WORK = pathlib.Path.cwd()


def evaluate(*arguments, ranks=1):
    return json.loads(ddpm("eval", "samples", *arguments, "--json", ranks=ranks).stdout)


def find(result, name, variable=None, level=None):
    found = [
        m
        for m in result["metrics"]
        if m["name"] == name and variable in (None, m.get("variable")) and level in (None, m.get("level"))
    ]
    assert len(found) == 1, (name, variable, level, found)
    return found[0]


def relative(a, b):
    return abs(a - b) / max(abs(a), abs(b), 1e-300)


class SamplesPeer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.train_images, _ = pictures(150, seed=1)
        cls.held_out_images, _ = pictures(60, seed=2)
        cls.sample_images, _ = pictures(70, seed=3, noise=4)
        cls.collapsed_images, _ = pictures(70, seed=4, noise=4, kinds=1)  # of a model that knows squares alone
        cls.sample_images[:6] = cls.train_images[10:16]  # copies
        for name in ("train", "held_out", "sample", "collapsed"):
            np.save(WORK / f"{name}.npy", getattr(cls, f"{name}_images"))
            if not (WORK / name).exists():
                ddpm("data", "create", WORK / f"{name}.npy", "--output", WORK / name, "--shards", 2)
        cls.network, cls.right = train_extractor(WORK / "extractor.pt", 0.0, 255.0)
        cls.arguments = [
            WORK / "sample",
            *("--data", WORK / "train"),
            *("--held-out", WORK / "held_out"),
            *("--extractor", WORK / "extractor.pt"),
            *("--extractor-range", "0..255"),
        ]
        cls.result = evaluate(*cls.arguments, "--neighbours", WORK / "nearest.png")

    def features(self, images):
        batches = ((seen(images) + 1) * 127.5).split(32)  # those of the program, whose bits depend on them
        with torch.no_grad():
            return torch.cat([self.network(batch) for batch in batches]).double().numpy()

    def expect(self, wanted, name, variable=None, level=None, tolerance=1e-6):
        value = find(self.result, name, variable, level)["value"]
        print(f"{name} {variable or ''} {level or ''}: {value:.8g}, relative difference {relative(value, wanted):.1e}")
        self.assertLess(relative(value, wanted), tolerance)

    def test_the_extractor_has_learned(self):
        self.assertGreater(self.right, 0.8)

    def test_moments_and_spectra(self):
        x = self.sample_images / 127.5 - 1
        for c, name in enumerate(("red", "green", "blue")):
            plane = x[..., c]
            self.expect(plane.mean(), "mean", name)
            self.expect(plane.std(), "deviation", name)
            self.expect(scipy.stats.skew(plane.ravel()), "skewness", name)
            self.expect(scipy.stats.kurtosis(plane.ravel(), fisher=False), "kurtosis", name)
            for band, low, high in (("k 1", 1, 1), ("k 2-3", 2, 3), ("k 4-7", 4, 7), ("k 8", 8, 8)):
                self.expect(band_power(plane, low, high), "spectrum", name, band)
            self.expect(
                scipy.stats.wasserstein_distance(plane.ravel(), (self.train_images[..., c] / 127.5 - 1).ravel()),
                "histogram_distance",
                name,
            )
        deviation = find(self.result, "deviation", "red")
        self.assertLess(relative(deviation["standard_error"], jackknife(x[..., 0], np.std)), 1e-6)
        self.assertLess(relative(deviation["reference"], (self.train_images[..., 0] / 127.5 - 1).std()), 1e-6)

    def test_distances_of_features(self):
        samples, data = self.features(self.sample_images), self.features(self.train_images)
        self.expect(frechet(samples, data), "frechet_distance")
        self.expect(kernel_distance(samples, data), "kernel_distance")
        for name, value in manifold(samples, data, 3).items():
            self.expect(value, name, tolerance=1e-12)
        error = find(self.result, "kernel_distance")["standard_error"]
        both = np.hypot(
            jackknife(samples, lambda x: kernel_distance(x, data)), jackknife(data, lambda y: kernel_distance(samples, y))
        )
        self.assertLess(relative(error, both), 1e-6)

    def test_built_in_features(self):
        metrics = ["--metrics", "frechet,kernel,manifold", "--manifold-neighbours", 5]
        self.result = evaluate(WORK / "sample", "--data", WORK / "train", *metrics)
        samples, data = (random_convolutions(seen(x)) for x in (self.sample_images, self.train_images))
        # The covariances of fewer pictures than features have no inverse; SciPy's root of them is good to 1e-4.
        self.expect(frechet(samples, data), "frechet_distance", tolerance=1e-4)
        self.expect(kernel_distance(samples, data), "kernel_distance", tolerance=1e-5)
        for name, value in manifold(samples, data, 5).items():
            self.expect(value, name, tolerance=1e-12)
        self.assertIn("random convolutions", find(self.result, "frechet_distance")["variable"])
        told = ddpm("eval", "samples", WORK / "sample", "--data", WORK / "train", *metrics).stdout
        self.assertIn("not the FID", told)
        self.assertIn("read the kernel distance", told)

    def test_extrapolated_distance_of_one_distribution(self):
        random = np.random.default_rng(0)
        data, samples = random.normal(size=(2000, 1, 4, 4)), random.normal(size=(300, 1, 4, 4))
        for name, x in (("gauss_data", data), ("gauss_samples", samples)):
            np.save(WORK / f"{name}.npy", np.float32(x))
        result = evaluate(WORK / "gauss_samples.npy", "--data", WORK / "gauss_data.npy", "--metrics", "frechet")
        biased, unbiased = find(result, "frechet_distance"), find(result, "frechet_distance_unbiased")
        print(f"of one distribution: {biased['value']:.4f}, extrapolated {unbiased['value']:.4f}")
        self.assertGreater(biased["value"], 5 * biased["standard_error"])
        self.assertLess(abs(unbiased["value"]), 0.4 * biased["value"])

    def test_copies(self):
        flat = {name: getattr(self, f"{name}_images").reshape(-1, SIDE * SIDE * 3) / 127.5 - 1 for name in ("train", "held_out", "sample")}
        spaces = {"pixels": flat, "extractor.pt": {name: self.features(getattr(self, f"{name}_images")) for name in flat}}
        for space, x in spaces.items():
            dimensions = x["train"].shape[1]
            to_train, from_held_out = distances(x["sample"], x["train"]), distances(x["held_out"], x["train"])
            nearest, reference = to_train.min(1), from_held_out.min(1)
            metric = find(self.result, "nearest_distance", space)
            self.assertLess(relative(metric["value"], nearest.mean() / np.sqrt(dimensions)), 1e-5)
            self.assertLess(relative(metric["reference"], reference.mean() / np.sqrt(dimensions)), 1e-5)
            share = (nearest[:, None] < reference[None]).mean() + (nearest[:, None] == reference[None]).mean() / 2
            self.assertAlmostEqual(find(self.result, "nearer_than_held_out", space)["value"], share, delta=1e-4)
            metric = find(self.result, "nearer_than_all_held_out", space)
            self.assertAlmostEqual(metric["value"], (nearest < reference.min()).mean(), delta=1e-12)
            self.assertGreaterEqual(metric["value"], 6 / 70)  # the copies
            self.assertAlmostEqual(metric["reference"], 1 / 61, delta=1e-12)
            copies = np.mean([d < from_held_out[:, t].min() for d, t in zip(nearest, to_train.argmin(1))])
            own = np.mean(
                [
                    d < np.delete(from_held_out[:, t], v).min()
                    for v, (d, t) in enumerate(zip(reference, from_held_out.argmin(1)))
                ]
            )
            metric = find(self.result, "copies", space)
            self.assertAlmostEqual(metric["value"], copies, delta=1e-12)
            self.assertAlmostEqual(metric["reference"], own, delta=1e-12)
        # The picture begins with the copies, each beside its original.
        drawn = np.asarray(Image.open(WORK / "nearest.png"))
        tiles = [drawn[2 : 2 + SIDE, 2 + i * (SIDE + 2) : 2 + i * (SIDE + 2) + SIDE] for i in range(8)]
        for i in range(4):
            np.testing.assert_array_equal(tiles[2 * i], self.sample_images[i])
            np.testing.assert_array_equal(tiles[2 * i + 1], self.train_images[10 + i])

    def test_the_same_bytes_on_any_number_of_ranks(self):
        one = json.dumps(self.result)
        for ranks in (2, 3):
            self.assertEqual(json.dumps(evaluate(*self.arguments, ranks=ranks)), one, f"{ranks} ranks")
        most = [WORK / "sample", WORK / "collapsed", "--against", WORK / "collapsed", "--data", WORK / "train", "--most", 50]
        self.assertEqual(evaluate(*most, ranks=3), evaluate(*most))

    def test_the_same_numbers_from_any_kind_of_file(self):
        x = np.ascontiguousarray(self.sample_images.transpose(0, 3, 1, 2)).astype(np.float32) / np.float32(127.5) - 1
        np.save(WORK / "floats.npy", x)
        with h5py.File(WORK / "floats.h5", "w") as file:
            file["images"] = np.float32(x).transpose(0, 2, 3, 1)
        folder = WORK / "pictures"
        folder.mkdir(exist_ok=True)
        for i, image in enumerate(self.sample_images):
            Image.fromarray(image).save(folder / f"{i:06}.png")
        metrics = ["--data", WORK / "train", "--metrics", "moments,spectrum,histogram,kernel"]
        wanted = evaluate(WORK / "sample", *metrics)
        for other in ("floats.npy", "floats.h5", "pictures"):
            result = evaluate(WORK / other, *metrics)
            for a, b in zip(result["metrics"], wanted["metrics"], strict=True):
                self.assertLess(abs(a["value"] - b["value"]), 1e-6 * abs(b["value"]) + 1e-8, (other, a, b))
        as_data = evaluate(WORK / "collapsed", "--data", folder, "--metrics", "moments")
        self.assertEqual(find(as_data, "mean", "red")["reference"], find(wanted, "mean", "red")["value"])

    def test_values_beyond_the_data_count_as_far_as_they_lie(self):
        random = np.random.default_rng(3)
        data, samples = (random.uniform(0, 1, (40, 1, 6, 6)).astype(np.float32) for _ in range(2))
        samples[:20] += 50
        samples[20:30] -= 7
        np.save(WORK / "inside.npy", data)
        np.save(WORK / "beyond.npy", samples)
        arguments = [WORK / "beyond.npy", "--data", WORK / "inside.npy", "--metrics", "histogram"]
        self.result = evaluate(*arguments)
        wanted = scipy.stats.wasserstein_distance(samples.ravel().astype(float), data.ravel().astype(float))
        self.assertLess(relative(find(self.result, "histogram_distance")["value"], wanted), 1e-3)  # 256 levels
        self.assertEqual(evaluate(*arguments, ranks=3), self.result)

    def test_values_far_from_zero_lose_nothing(self):
        """Pressures: exact copies are found among them, and their moments are those of SciPy."""
        random = np.random.default_rng(9)
        sets = {name: random.normal(101325, 10, (count, 1, 8, 8)).astype(np.float32) for name, count in (("p_train", 300), ("p_held", 60))}
        sets["p_copies"] = sets["p_train"][:60]
        for name, x in sets.items():
            np.save(WORK / f"{name}.npy", x)
        arguments = ["--data", WORK / "p_train.npy", "--held-out", WORK / "p_held.npy", "--metrics", "moments,neighbours"]
        self.result = evaluate(WORK / "p_copies.npy", *arguments)
        self.assertEqual(find(self.result, "nearest_distance")["value"], 0)
        copies = find(self.result, "copies")
        self.assertEqual((copies["value"], copies["high"]), (1, 1))
        self.assertEqual(evaluate(WORK / "p_copies.npy", *arguments, ranks=3), self.result)
        x = sets["p_copies"].astype(float).ravel()
        for name, wanted in (("mean", x.mean()), ("deviation", x.std()), ("skewness", scipy.stats.skew(x)), ("kurtosis", scipy.stats.kurtosis(x, fisher=False))):
            self.expect(wanted, name, tolerance=1e-8)
        # Two sets of copies are no less sure than one.
        copies = find(evaluate(WORK / "p_copies.npy", WORK / "p_copies.npy", *arguments), "copies")
        low = scipy.stats.binomtest(120, 120).proportion_ci(0.95, "wilson").low
        np.testing.assert_allclose([copies["value"], copies["low"], copies["high"]], [1, low, 1], atol=1e-12)

    def test_verdicts_of_kernel_distances_leave_out_the_data_they_share(self):
        random = np.random.default_rng(6)
        images = {"a": random.normal(0.4, 1, (60, 1, 4, 4)), "b": random.normal(0.6, 1, (60, 1, 4, 4)), "y": random.normal(0, 1, (30, 1, 4, 4))}
        for name, x in images.items():
            np.save(WORK / f"shared_{name}.npy", x.astype(np.float32))
        sets = [WORK / "shared_a.npy", "--against", WORK / "shared_b.npy", "--data", WORK / "shared_y.npy"]
        result = evaluate(*sets, "--metrics", "kernel")
        (comparison,) = [c for c in result["comparisons"] if c["metric"] == "kernel_distance"]
        a, b, y = (random_convolutions(torch.from_numpy(images[name].astype(np.float32))) for name in "aby")
        error = np.sqrt(
            np.square(jackknife(a, lambda x: kernel_distance(x, y)))
            + np.square(jackknife(b, lambda x: kernel_distance(x, y)))
            + np.square(jackknife(y, lambda x: kernel_distance(a, x) - kernel_distance(b, x)))
        )
        self.assertLess(relative(comparison["standard_error"], error), 1e-4)

    def test_two_models_and_several_seeds(self):
        metrics = ["--data", WORK / "train", "--metrics", "moments,frechet,kernel,manifold", *self.arguments[5:]]
        result = evaluate(WORK / "sample", "--against", WORK / "collapsed", *metrics)
        verdicts = {c["metric"]: c for c in result["comparisons"]}
        for name in ("frechet_distance", "kernel_distance"):
            self.assertEqual(verdicts[name]["verdict"], "A is better", verdicts[name])
        same = evaluate(WORK / "sample", "--against", WORK / "sample", *metrics)
        self.assertEqual({c["verdict"] for c in same["comparisons"]}, {"no significant difference"})
        both = find(evaluate(WORK / "sample", WORK / "collapsed", *metrics), "kernel_distance")
        each = [find(evaluate(WORK / name, *metrics), "kernel_distance")["value"] for name in ("sample", "collapsed")]
        self.assertEqual(both["sets"], 2)
        self.assertAlmostEqual(both["value"], np.mean(each), delta=1e-12)
        self.assertGreater(both["high"] - both["low"], abs(each[1] - each[0]))  # Student's t of two

    def test_the_error_of_the_data_counts_where_models_lie_on_either_side_of_it(self):
        random = np.random.default_rng(4)
        sets = {"middle": random.normal(0, 1, (50, 1, 4, 4)), "above": random.normal(0.3, 1, (80, 1, 4, 4)),
                "higher": random.normal(0.5, 1, (80, 1, 4, 4)), "below": random.normal(-0.3, 1, (80, 1, 4, 4))}  # fmt: skip
        for name, x in sets.items():
            np.save(WORK / f"{name}.npy", x.astype(np.float32))
        error = {name: jackknife(x.astype(np.float32).astype(float), np.mean) for name, x in sets.items()}
        for b, of_data in (("higher", 0.0), ("below", 2.0)):
            result = evaluate(WORK / "above.npy", "--against", WORK / f"{b}.npy", "--data", WORK / "middle.npy", "--metrics", "moments")
            (row,) = [one for one in result["comparisons"] if one["metric"] == "mean_gap"]
            wanted = np.linalg.norm([error["above"], error[b], of_data * error["middle"]])
            self.assertLess(relative(row["standard_error"], wanted), 1e-6, b)

    def test_numbers_without_an_error_of_their_samples_are_not_compared(self):
        metrics = ["--data", WORK / "train", "--metrics", "frechet,kernel,manifold"]
        names = lambda *sets: {c["metric"] for c in evaluate(*sets, *metrics)["comparisons"]}
        single = names(WORK / "sample", "--against", WORK / "collapsed")
        several = names(WORK / "sample", WORK / "collapsed", "--against", WORK / "collapsed", WORK / "sample")
        self.assertEqual(several - single, {"recall_gap", "coverage_gap"})
        result = evaluate(WORK / "sample", "--against", WORK / "held_out", *metrics)  # 70 and 60 pictures
        self.assertEqual(single - {c["metric"] for c in result["comparisons"]}, {"frechet_distance"})
        self.assertTrue(any("--most 60" in note for note in result["notes"]), result["notes"])

    def test_held_out_floats_are_values_as_the_data_stores_them(self):
        # Each set of float32 records statistics of its own.
        sets = {}
        for name, seed in (("float_data", 1), ("float_held_out", 2)):
            sets[name] = np.random.default_rng(seed).normal(100.0 * seed, 10.0, (30, 4, 4, 1)).astype(np.float32)
            np.save(WORK / f"{name}.npy", sets[name])
            shutil.rmtree(WORK / name, ignore_errors=True)
            ddpm("data", "create", WORK / f"{name}.npy", "--output", WORK / name, "--transform", "standardize")
        result = evaluate(WORK / "float_data", "--data", WORK / "float_data", "--held-out", WORK / "float_held_out", "--metrics", "neighbours")
        x = {name: (y.reshape(30, -1) - sets["float_data"].mean()) / sets["float_data"].std() for name, y in sets.items()}
        wanted = distances(x["float_held_out"], x["float_data"]).min(1).mean() / 4
        self.assertLess(relative(find(result, "nearest_distance")["reference"], wanted), 1e-4)

    def test_an_extractor_answers_with_as_many_features_of_all_pictures(self):
        class Counting(torch.nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return x.flatten(1)[:, : x.shape[0]]

        torch.jit.script(Counting()).save(str(WORK / "counting.pt"))
        for count in (20, 32, 33):  # the batches have 32 pictures
            np.save(WORK / f"first_{count}.npy", seen(self.sample_images).numpy()[:count])
        for samples, data, ranks in ((33, 33, 1), (33, 33, 2), (20, 32, 1)):
            process = ddpm("eval", "samples", WORK / f"first_{samples}.npy", "--data", WORK / f"first_{data}.npy", "--metrics", "kernel",
                           "--extractor", WORK / "counting.pt", ranks=ranks, check=False)  # fmt: skip
            self.assertEqual(process.returncode, 4, process.stderr)
            self.assertIn("of others; wanted: as many of each", process.stderr)

    def test_refusals(self):
        class Odd(torch.nn.Module):
            def __init__(self, kind: str):
                super().__init__()
                self.kind = kind

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                if self.kind == "fails":
                    assert x.shape[1] == 1, "one channel is wanted here"
                if self.kind == "nan":
                    return x.flatten(1) / 0.0 * 0.0
                return x.mean()

        for kind in ("fails", "nan", "scalar"):
            torch.jit.script(Odd(kind)).save(str(WORK / f"{kind}.pt"))
        (WORK / "text.pt").write_text("no archive")
        grey, bad = self.sample_images[..., :1], np.float32(seen(self.sample_images))
        np.save(WORK / "grey.npy", np.float32(grey.transpose(0, 3, 1, 2)))
        bad[3, 1, 2, 5] = np.nan
        np.save(WORK / "nan.npy", bad)
        np.save(WORK / "two.npy", seen(self.sample_images).numpy()[:, :2])
        np.save(WORK / "small.npy", bad[:, :, :8, :8])
        np.save(WORK / "few.npy", bad[10:13])
        (WORK / "empty").mkdir(exist_ok=True)
        data = ["--data", WORK / "train"]
        kernel = [WORK / "sample", *data, "--metrics", "kernel", "--extractor"]
        cases = [
            (4, [*kernel, WORK / "fails.pt"], ["one channel is wanted here", "fails on pictures"]),
            (4, [*kernel, WORK / "nan.pt"], ["features that are not finite"]),
            (4, [*kernel, WORK / "scalar.pt"], ["answers with []"]),
            (4, [*kernel, WORK / "text.pt"], ["cannot be loaded"]),
            (4, [*kernel, WORK / "absent.pt"], ["absent.pt"]),
            (2, [WORK / "sample", *data, "--metrics", "fid"], ["'fid' is none", "frechet"]),
            (2, [*kernel, WORK / "extractor.pt", "--extractor-range", "0-255"], ["0..255"]),
            (2, [WORK / "sample", *data, "--neighbours", "x.jpg"], ["ends with .png"]),
            (2, [WORK / "two.npy", "--data", WORK / "two.npy", "--neighbours", "x.png"], ["2 channels cannot be drawn"]),
            (3, [WORK / "grey.npy", *data], ["1 variable of 16 x 16", "3 variables"]),
            (3, [WORK / "small.npy", *data], ["3 variables of 8 x 8"]),
            (3, [WORK / "nan.npy", *data], ["sample 3 holds nan", "green"]),
            (3, [WORK / "few.npy", *data, "--metrics", "manifold"], ["3 pictures", "wanted: 4 at least"]),
            (3, [WORK / "empty", *data], ["neither dataset.json nor pictures"]),
            (3, [WORK / "absent.npy", *data], ["absent.npy"]),
        ]
        for code, arguments, phrases in cases:
            process = ddpm("eval", "samples", *arguments, check=False)
            self.assertEqual(process.returncode, code, process.stderr)
            lines = [line for line in process.stderr.splitlines() if "error:" in line]
            self.assertEqual(len(lines), 1, process.stderr)
            self.assertEqual(process.stdout, "")
            for phrase in phrases:
                self.assertIn(phrase, lines[0])


if __name__ == "__main__":
    unittest.main(verbosity=2)
