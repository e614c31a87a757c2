"""`ddpm data stats` gives what NumPy and SciPy compute from the same arrays, with the same bytes on 1 to 4 ranks."""

import json
import math
import os
import pathlib
import shutil
import sys
import unittest

import h5py
import hdf5plugin
import numpy as np
import scipy.stats

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_run import ddpm, make_dataset  # noqa: E402

WORK = pathlib.Path.cwd()
PERCENTS = [1, 5, 25, 50, 75, 95, 99]
COUNT, HEIGHT, WIDTH = 41, 12, 18


def write(path, arrays, **options):
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file.create_dataset(name, data=array, **(options if array.ndim > 2 else {}))
    return path


def cut(values):
    """float32 with the 8 lowest bits cleared."""
    return (values.view(np.uint32) & np.uint32(0xFFFFFF00)).view(np.float32)


def spectrum(images, masks=None):
    """(modes, power) of each ring, from the definition in docs/data.md; `images` is [n, sides...]."""
    axes = tuple(range(1, images.ndim))
    sides = images.shape[1:]
    longest = max(sides)
    valid = np.ones(images.shape, bool) if masks is None else np.broadcast_to(masks.astype(bool), images.shape)
    mean = np.where(valid, images, 0.0).sum(axes, keepdims=True) / valid.sum(axes, keepdims=True)
    power = np.abs(np.fft.fftn(np.where(valid, images - mean, 0.0), axes=axes)) ** 2 / math.prod(sides)
    # Whole numbers, so that no ring's border is rounded: (r * common)^2 = whole.
    common = math.lcm(*sides)
    cycles = [np.rint(np.fft.fftfreq(side) * side).astype(int) * longest * (common // side) for side in sides]
    whole = sum(k**2 for k in np.meshgrid(*cycles, indexing="ij"))
    ring = np.vectorize(lambda squared: (math.isqrt(4 * int(squared) // common**2) + 1) // 2)(whole)
    rings = range(1, longest // 2 + 1)
    return [(ring == r).sum() for r in rings], [power[:, ring == r].mean() for r in rings]


class StatsPeer(unittest.TestCase):
    def stats(self, *arguments):
        """The object of one rank, which is that of 2, 3 and 4 byte for byte."""
        outputs = [ddpm("data", "stats", *arguments, "--json", ranks=ranks).stdout for ranks in (1, 2, 3, 4)]
        self.assertEqual(outputs[1:], outputs[:1] * 3)
        return json.loads(outputs[0])

    def field(self, stats, role):
        (field,) = [field for field in stats["fields"] if field["role"] == role]
        return field

    def close(self, seen, wanted, tolerance=1e-10, scale=0.0):
        np.testing.assert_allclose(seen, wanted, rtol=tolerance, atol=tolerance * scale)

    def check_values(self, seen, values, bins=64):
        """`values`: those of one variable that are valid and finite, float32 or uint8, in any order."""
        exact = values.astype(np.float64)
        self.assertEqual(seen["count"], exact.size)
        self.assertEqual((seen["min"], seen["max"]), (exact.min(), exact.max()))
        self.close(seen["mean"], exact.mean(), scale=exact.std())
        self.close(seen["std"], exact.std())
        self.close(seen["skewness"], scipy.stats.skew(exact), scale=1.0)
        self.close(seen["kurtosis"], scipy.stats.kurtosis(exact), scale=1.0)
        ordered = np.sort(cut(values.astype(np.float32)))
        self.assertEqual([q["percent"] for q in seen["quantiles"]], PERCENTS)
        self.assertEqual([q["value"] for q in seen["quantiles"]],
                         [ordered[-(-exact.size * p // 100) - 1] for p in PERCENTS])
        edges = np.array(seen["histogram"]["edges"])
        if values.dtype == np.uint8:
            np.testing.assert_array_equal(edges, np.arange(257))
        else:
            self.close(edges, np.histogram_bin_edges(exact, bins), scale=exact.max() - exact.min())
        np.testing.assert_array_equal(seen["histogram"]["counts"], np.histogram(exact, edges)[0])

    def check_spectra(self, field, images, masks=None):
        for v, seen in enumerate(field["variables"]):
            modes, power = spectrum(images[..., v].astype(np.float64), masks)
            self.assertEqual(field["spectrum_modes"], modes)
            self.close(seen["spectrum"]["power"], power, scale=max(power))
            self.assertEqual(seen["spectrum"]["images"], len(images))

    def test_a_folder_of_pictures(self):
        folder = make_dataset(WORK / "pictures", 60, 16, 1, "--labels", "folder")
        shards = [h5py.File(shard) for shard in sorted(folder.glob("*.h5"))]
        images = np.concatenate([shard["images"][:] for shard in shards])
        labels = np.concatenate([shard["labels"][:] for shard in shards])
        stats = self.stats(folder)
        field = self.field(stats, "image")
        for v in range(3):
            self.check_values(field["variables"][v], images[..., v].ravel())
        self.check_spectra(field, images)
        self.assertEqual([c["count"] for c in stats["classes"]], np.bincount(labels).tolist())
        self.assertEqual([c["name"] for c in stats["classes"]], ["a", "b"])
        # The statistics that dataset.json records are the same numbers.
        recorded = json.loads((folder / "dataset.json").read_text())["statistics"]
        for seen, wanted in zip(field["variables"], recorded, strict=True):
            self.close([seen[key] for key in ("mean", "std", "min", "max")],
                       [wanted[key] for key in ("mean", "std", "min", "max")])

    def test_the_same_images_in_two_folders(self):
        one = make_dataset(WORK / "pictures", 60, 16, 1, "--labels", "folder")
        two = WORK / "again"
        shutil.copytree(one, two, dirs_exist_ok=True)
        alone, both = self.stats(one), self.stats(one, two)
        self.assertEqual(both["count"], 120)
        for a, b in zip(alone["fields"][0]["variables"], both["fields"][0]["variables"], strict=True):
            self.assertEqual(b["count"], 2 * a["count"])
            self.assertEqual(b["histogram"]["counts"], [2 * count for count in a["histogram"]["counts"]])
            self.assertEqual(b["spectrum"]["power"], a["spectrum"]["power"])
            self.assertEqual(b["quantiles"], a["quantiles"])

    def fields(self):
        numbers = np.random.default_rng(3)
        images = numbers.gamma(2.0, 3.0, (COUNT, HEIGHT, WIDTH, 3)).astype(np.float32)
        images[..., 1] = 1e6 + np.cumsum(images[..., 1], axis=1)
        images[..., 2] = -4.25
        return {
            "images": images,
            "condition": numbers.standard_cauchy((COUNT, HEIGHT // 3, WIDTH // 3, 2)).astype(np.float32),
            "static": numbers.standard_normal((HEIGHT, WIDTH, 1)).astype(np.float32),
            "parameters": numbers.random((COUNT, 4), dtype=np.float32) - 0.5,
            "mask": (numbers.random((COUNT, HEIGHT, WIDTH)) < 0.7).astype(np.uint8),
        }

    NAMES = ["--condition", "/condition", "--static", "/static", "--parameters", "/parameters", "--mask", "/mask"]

    def test_every_field_of_a_file(self):
        fields = self.fields()
        fields["images"][fields["mask"] == 0] = np.nan
        path = write(WORK / "fields.h5", fields)
        stats = self.stats(path, *self.NAMES, "--bins", 50)
        valid = fields["mask"] == 1
        image = self.field(stats, "image")
        for v in (0, 1):
            self.check_values(image["variables"][v], fields["images"][..., v][valid], 50)
        self.check_spectra(image, np.nan_to_num(fields["images"]), fields["mask"])
        constant = image["variables"][2]
        self.assertEqual((constant["mean"], constant["std"], constant["skewness"], constant["kurtosis"]),
                         (-4.25, 0.0, None, None))
        self.assertEqual(sum(constant["histogram"]["counts"]), valid.sum())
        for v in image["variables"]:
            self.assertEqual((v["masked"], v["non_finite"]), ((~valid).sum(), 0))
        condition = self.field(stats, "condition")
        for v in range(2):
            self.check_values(condition["variables"][v], fields["condition"][..., v].ravel(), 50)
        self.check_spectra(condition, fields["condition"])
        static = self.field(stats, "static")
        self.check_values(static["variables"][0], fields["static"].ravel(), 50)
        self.check_spectra(static, fields["static"][None])
        parameters = self.field(stats, "parameters")
        for v in range(4):
            self.check_values(parameters["variables"][v], fields["parameters"][:, v], 50)
            self.assertIsNone(parameters["variables"][v]["spectrum"])

    def test_what_the_model_sees(self):
        fields = self.fields()
        path = write(WORK / "fields.h5", fields)
        stats = self.stats(path, *self.NAMES, "--transformed")
        self.assertEqual(stats["values"], "transformed")
        raw = fields["parameters"].astype(np.float64)
        for v, seen in enumerate(self.field(stats, "parameters")["variables"]):
            self.close([seen["mean"], seen["std"]], [0.0, 1.0], 1e-6, scale=1.0)
            self.close(seen["max"], ((raw[:, v] - raw[:, v].mean()) / raw[:, v].std()).max(), 1e-6)

    def test_what_the_model_sees_of_a_folder(self):
        images = np.random.default_rng(4).gamma(2.0, 3.0, (COUNT, HEIGHT, WIDTH, 3)).astype(np.float32)
        source, folder = write(WORK / "gamma.h5", {"images": images}), WORK / "gamma"
        shutil.rmtree(folder, ignore_errors=True)
        ddpm("data", "create", source, "--output", folder, "--names", "rain,snow,wind",
             "--transform", "rain=quantile,snow=log1p,wind=minmax", ranks=2)  # fmt: skip
        (listed,) = json.loads((folder / "dataset.json").read_text())["fields"]
        points, logarithm = (listed["variables"][v]["transform"] for v in (0, 1))
        x = images.astype(np.float64)
        wanted = [np.interp(x[..., 0], points["from"], points["to"]),
                  np.log1p(x[..., 1]) * logarithm["scale"] + logarithm["offset"],
                  2 * (x[..., 2] - x[..., 2].min()) / np.ptp(x[..., 2]) - 1]
        stats = self.stats(folder, "--transformed")
        for seen, values in zip(self.field(stats, "image")["variables"], wanted, strict=True):
            self.close([seen["mean"], seen["std"], seen["min"], seen["max"]],
                       [values.mean(), values.std(), values.min(), values.max()], 1e-6, scale=1.0)

    def test_values_that_are_not_finite_are_counted(self):
        images = self.fields()["images"]
        images[3, 2, 1, 0] = np.inf
        images[3, 2, 2, 0] = np.nan
        images[40, 0, 0, 1] = -np.inf
        stats = self.stats(write(WORK / "broken.h5", {"images": images}))
        field = self.field(stats, "image")
        self.assertEqual([v["non_finite"] for v in field["variables"]], [2, 1, 0])
        self.assertEqual([v["spectrum"]["images"] for v in field["variables"]], [COUNT - 1, COUNT - 1, COUNT])
        for v in (0, 1):
            values = images[..., v]
            self.check_values(field["variables"][v], values[np.isfinite(values)])
            whole = np.isfinite(values).all(axis=(1, 2))
            self.close(field["variables"][v]["spectrum"]["power"], spectrum(values[whole].astype(np.float64))[1])

    def test_packed_volumes(self):
        numbers = np.random.default_rng(5)
        volumes = numbers.standard_normal((9, 6, 8, 10, 2)).astype(np.float32)
        for name, options in (("gzip", {"compression": "gzip", "shuffle": True}), ("lz4", hdf5plugin.LZ4())):
            path = write(WORK / f"{name}.h5", {"images": volumes}, chunks=(2, 6, 8, 10, 2), **options)
            field = self.field(self.stats(path), "image")
            for v in range(2):
                self.check_values(field["variables"][v], volumes[..., v].ravel())
            self.check_spectra(field, volumes)

    def test_white_noise_has_the_power_of_its_variance_at_any_size(self):
        numbers = np.random.default_rng(6)
        for size in ((16, 16), (24, 64)):
            noise = 3.0 * numbers.standard_normal((200, *size, 1)).astype(np.float32)
            path = write(WORK / "noise.h5", {"images": noise})
            (seen,) = json.loads(ddpm("data", "stats", path, "--json").stdout)["fields"][0]["variables"]
            np.testing.assert_allclose(seen["spectrum"]["power"], 9.0, rtol=0.25)

    def test_a_sample_of_the_images(self):
        fields = self.fields()
        path = write(WORK / "fields.h5", fields)
        stats = self.stats(path, "--most", 8)
        chosen = fields["images"][[i * COUNT // 8 for i in range(8)]]
        self.assertEqual(self.field(stats, "image")["images"], 8)
        self.check_values(stats["fields"][0]["variables"][1], chosen[..., 1].ravel())

    def test_text_for_people(self):
        folder = make_dataset(WORK / "pictures", 60, 16, 1, "--labels", "folder")
        text = ddpm("data", "stats", folder, ranks=2).stdout
        for word in ("red", "green", "blue", "kurtosis", "median", "spectrum", "50 %"):
            self.assertIn(word, text)
        self.assertLess(max(map(len, text.splitlines())), 140)

    def test_what_cannot_be_is_refused_with_one_line(self):
        path = write(WORK / "fields.h5", self.fields())
        for code, arguments in ((3, [WORK / "nowhere"]), (3, [path, "--images", "/none"]), (2, [path, "--bins", 0]),
                                (2, [path, "--most", -1]), (2, []), (2, [path, "--images", ""])):
            result = ddpm("data", "stats", *arguments, check=False)
            with self.subTest(arguments=arguments):
                self.assertEqual(result.returncode, code, result.stderr)
                self.assertEqual(result.stdout, "")
                self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)


if __name__ == "__main__":
    unittest.main()
