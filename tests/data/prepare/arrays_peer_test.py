"""`ddpm data create` of arrays that numpy and h5py wrote, compared with what they make of them. The program is $DDPM."""

import json
import struct
import unittest
import warnings
import zipfile

import h5py
import numpy as np

from arrays_case import NAMED, ArraysCase, fields, seen
from data_runs import kill_and_run_again, run
from ddpm_run import digests


class DataOfArrays(ArraysCase):
    def test_every_role_of_every_kind_of_file(self):
        for kind, each in (("stored", True), ("deflated", False), ("h5", True)):
            with self.subTest(kind=kind):
                values = fields(mask_of_each=each)
                found, listed = self.create(self.write(kind, values), *NAMED, output=self.root / f"set-{kind}", ranks=2)
                self.expect_stored(values, found)
                valid = np.broadcast_to(values["mask"].astype(bool), values["images"].shape[:3])
                for c, statistics in enumerate(listed["statistics"]):
                    truth = values["images"][..., c][valid].astype(np.float64)
                    np.testing.assert_allclose(statistics["mean"], truth.mean(), rtol=1e-12)
                    np.testing.assert_allclose(statistics["std"], truth.std(), rtol=1e-12)
                self.ddpm("verify", self.root / f"set-{kind}")

    def test_npy_files_beside_each_other(self):
        values = fields()
        named = []
        for name, array in values.items():
            np.save(self.root / f"{name}.npy", array)
            named += [] if name == "images" else [f"--{name}", self.root / f"{name}.npy"]
        found, _ = self.create(self.root / "images.npy", *named)
        self.expect_stored(values, found)

    def test_several_files_follow_each_other_and_volumes_are_kept(self):
        volumes = np.random.default_rng(1).standard_normal((7, 4, 6, 8, 2)).astype(np.float32)
        np.save(self.root / "a.npy", volumes[:3])
        np.save(self.root / "b.npy", volumes[3:])
        found, listed = self.create(self.root / "a.npy", self.root / "b.npy", "--shards", 3)
        np.testing.assert_array_equal(found["image"], volumes)
        self.assertEqual([shard["count"] for shard in listed["shards"]], [3, 2, 2])
        flat = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)  # without an axis of channels
        np.save(self.root / "flat.npy", flat)
        found, _ = self.create(self.root / "flat.npy", output=self.root / "flat")
        np.testing.assert_array_equal(found["image"], flat[..., None])

    def test_the_same_bytes_for_any_number_of_ranks(self):
        source = self.write("deflated", fields(50))
        options = [source, *NAMED, "--transform", "quantile", "--names", "t2m,precip,u10; condition: sst,ice", "--units", "K,mm,m/s"]
        made = []
        for ranks in (1, 2, 3):
            output = self.root / f"ranks-{ranks}"
            self.create(*options, ranks=ranks, output=output)
            made.append(digests(output))
        self.assertEqual(made[0], made[1])
        self.assertEqual(made[0], made[2])

    def test_transforms_are_those_of_the_values(self):
        values = fields(60)
        names = ["--names", "t2m,precip,u10;condition:sst,ice", "--units", "K, mm, m/s"]
        kinds = "t2m=standardize, precip=log1p, images/u10=quantile, sst=minmax, ice=quantile-uniform"
        _, listed = self.create(self.write("stored", values), *NAMED, *names, "--transform", kinds, ranks=2)
        by_role = {field["role"]: field["variables"] for field in listed["fields"]}
        self.assertEqual([(v["name"], v["unit"]) for v in by_role["image"]], [("t2m", "K"), ("precip", "mm"), ("u10", "m/s")])
        valid = values["mask"].astype(bool)
        t2m, precip, u10 = (values["images"][..., c][valid] for c in range(3))
        shown = [v["transform"] for v in by_role["image"]]
        self.assertEqual([t["type"] for t in shown], ["standardize", "log1p", "quantile"])
        for transform, x in zip(shown[:2], (t2m, precip)):
            z = seen(transform, x)
            self.assertLess(abs(z.mean()), 1e-6)
            self.assertLess(abs(z.std() - 1), 1e-6)
        np.testing.assert_allclose(shown[2]["from"], np.quantile(u10.astype(np.float64), np.linspace(0, 1, 129)), rtol=1e-6)
        z = seen(shown[2], u10)
        self.assertLess(abs(z.mean()), 0.02)
        self.assertLess(abs(z.std() - 1), 0.03)
        sst, ice = (values["condition"][..., c] for c in range(2))
        shown = [v["transform"] for v in by_role["condition"]]
        self.assertEqual((shown[0]["min"], shown[0]["max"]), (sst.min(), sst.max()))
        z = seen(shown[1], ice)
        counts, _ = np.histogram(z, 8, (-1, 1))
        self.assertLess(np.abs(counts / z.size - 1 / 8).max(), 0.02)
        self.assertEqual(by_role["static"][0]["transform"], {"type": "affine", "scale": 1.0, "offset": 0.0})

    def test_quantiles_of_a_variable_that_is_often_the_same_can_be_inverted(self):
        images = fields(40)["images"][..., 1:2]
        images[np.isnan(images)] = 0
        np.save(self.root / "rain.npy", images)
        _, listed = self.create(self.root / "rain.npy", "--transform", "quantile")
        transform = listed["fields"][0]["variables"][0]["transform"]
        self.assertTrue((np.diff(transform["from"]) > 0).all() and (np.diff(transform["to"]) > 0).all())
        inverse = {"type": "quantile", "from": transform["to"], "to": transform["from"]}
        np.testing.assert_allclose(seen(inverse, seen(transform, images)), images, rtol=1e-9, atol=1e-9)

    def test_goes_on_after_a_kill(self):
        images = np.random.default_rng(0).standard_normal((4000, 32, 32, 2)).astype(np.float32)
        np.savez_compressed(self.root / "large.npz", images=images)
        kill_and_run_again(self, self.root / "large.npz", self.output, "--shards", "20", "--transform", "standardize")
        self.create(self.root / "large.npz", "--shards", 20, "--transform", "standardize", output=self.root / "whole")
        self.assertEqual(digests(self.output), digests(self.root / "whole"))

    def test_what_does_not_fit_is_refused_and_leaves_nothing(self):
        good = fields(6)
        wrong = {
            "rows": ({"condition": good["condition"][:5]}, "5 rows, 6 are wanted"),
            "grid": ({"condition": np.zeros((6, 3, 6, 1), np.float32)}, "the same size, or one that is smaller"),
            "static": ({"static": np.zeros((4, 12, 1), np.float32)}, "the same size"),
            "mask": ({"mask": good["mask"] * 2}, "holds 2 at row"),
            "nothing": ({"mask": good["mask"] * 0}, "stored.npz: no mask says of any pixel"),
            "label": ({"labels": good["labels"] - 9}, "is negative"),
            "double": ({"condition": good["condition"].astype("f8")}, "x.astype('float32')"),
            "nan": ({"parameters": good["parameters"] * np.float32("nan")}, "parameter 0 of image 0 is nan"),
            "visible": ({"mask": good["mask"] | 1}, "image 0 holds nan in channel 0 at row 0, column 5"),
            "fortran": ({"images": np.asfortranarray(good["images"])}, "numpy.ascontiguousarray(x)"),
        }
        for name, (changed, words) in wrong.items():
            with self.subTest(name=name):
                source = self.write("stored", {**good, **changed})
                self.refused(3, words, "create", source, *NAMED, "--output", self.output, ranks=2)
                self.assertFalse(self.output.exists())
        source = self.write("stored", good)
        for words, *options in (
            ("no variable is called", "--transform", "t=standardize"),
            ("is not a transform", "--transform", "standardise"),
            ("a parameter, which training standardises", "--transform", "parameter 0=minmax"),
            ("2 words for images", "--names", "a,b"),
            ("the name \"a\" twice", "--names", "a,a,b"),
            ("no field with variables is called", "--units", "sst:K"),
            ("are for pictures", "--size", 32),
            ("not a folder of pictures", "--labels", "folder"),
            ("channel 0 of images has two transforms", "--transform", "channel 0=minmax,images/channel 0=standardize"),
            ("has two transforms", "--transform", "channel 1=minmax, channel 1=minmax"),
            ("--align 5000: wanted a multiple of 4096", "--align", 5000),
            ("--align 134217728: wanted a multiple of 4096 up to 67108864", "--align", 2**27),
        ):
            self.refused(2, words, "create", source, *NAMED, *options, "--output", self.output)
        same = "--mask condition: --condition names the same array; another one is wanted"
        self.refused(2, same, "create", source, "--condition", "condition", "--mask", "condition", "--output", self.output)
        self.refused(3, "has no array \"depth\"", "create", source, "--static", "depth", "--output", self.output)
        self.refused(3, "log1p takes values above -1", "create", source, *NAMED, "--transform", "log1p", "--output", self.output)

    def test_damaged_and_hostile_numpy_files_are_refused(self):
        np.save(self.root / "good.npy", fields(4)["static"])
        whole = (self.root / "good.npy").read_bytes()

        def header(text, version=b"\x01\x00"):
            length = struct.pack("<H" if version[0] == 1 else "<I", len(text))
            return b"\x93NUMPY" + version + length + text.encode()

        hostile = {
            "short": (whole[:-4], "bytes, wanted"),
            "long": (whole + b"0", "bytes, wanted"),
            "pickle": (header("{'descr': '|O', 'fortran_order': False, 'shape': (2,)}"), "its elements are '|O'"),
            "python": (header("{'descr': __import__('os'), 'fortran_order': False, 'shape': (1,)}"), "no '''"),
            "huge": (header(f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({2**62}, {2**62})}}"), "more than"),
            "header": (b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**31) + b"{", "at most 65536"),
        }
        for name, (data, words) in hostile.items():
            with self.subTest(name=name):
                path = self.root / f"{name}.npy"
                path.write_bytes(data)
                self.refused(3, words, "create", path, "--output", self.output)

    def test_damaged_archives_are_refused(self):
        for kind in ("stored", "deflated"):
            path = self.write(kind, {"images": fields(6)["condition"]})
            whole = bytearray(path.read_bytes())
            damage = {"bit": len(whole) // 2, "directory": len(whole) - 36}  # where the member begins
            for name, place in damage.items():
                with self.subTest(kind=kind, name=name):
                    changed = whole.copy()
                    changed[place] ^= 0x40
                    path.write_bytes(changed)
                    result = run("create", path, "--output", self.output)
                    self.assertEqual(result.returncode, 3, result.stderr)
                    self.assertFalse(self.output.exists())
            path.write_bytes(whole[:-100])
            self.refused(3, "no directory at its end", "create", path, "--output", self.output)
        twice = self.write("twice", {"images": fields(6)["condition"]})
        with warnings.catch_warnings(action="ignore"), zipfile.ZipFile(twice, "a") as archive:  # zipfile warns, too
            archive.writestr("images.npy", archive.read("images.npy"))
        self.refused(3, "two files in it are called images.npy", "create", twice, "--output", self.output)
        with zipfile.ZipFile(self.root / "bomb.npz", "w", zipfile.ZIP_BZIP2) as archive:
            archive.writestr("images.npy", b"x" * 1000)
        self.refused(3, "neither stored nor deflated", "create", self.root / "bomb.npz", "--output", self.output)

    def test_inspect_shows_every_field(self):
        self.create(self.write("h5", fields()), *NAMED, "--transform", "images/t2m=standardize", "--names", "t2m,b,c", "--units", "K,,")
        shown = self.ddpm("inspect", self.output).stdout
        for line in ("  condition (condition): [4, 6, 2] float32", "  static (static): [8, 12, 1] float32, once per set",
                     "  parameters (parameters): [3] float32", "  mask (mask): [8, 12] uint8"):
            self.assertIn(line + "\n", shown)
        self.assertRegex(shown, r"    t2m \[K\]: standardize\(2\d\d\.\d+, \d\.\d+\)\n    b\n")

    def test_verify_sees_a_condition_that_was_changed(self):
        _, listed = self.create(self.write("h5", fields()), *NAMED, "--shards", 1)
        with h5py.File(self.output / listed["shards"][0]["file"], "r+") as f:
            f["condition"][3, 0, 0, 0] += 1
        result = run("verify", self.output, "--json")
        self.assertEqual(result.returncode, 3)
        self.assertFalse(json.loads(result.stdout)["valid"])


if __name__ == "__main__":
    unittest.main()
