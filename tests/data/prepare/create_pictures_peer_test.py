"""`ddpm data create` from lists and TIFF files of floating point, with limits and a validation set, as a user runs it. Pixels are
written by Pillow and tifffile, sets are read by h5py."""

import hashlib
import json
import random
import shutil
import subprocess
import time
import unittest

import numpy as np
from PIL import Image

import tiff_cases
from data_runs import DDPM, read, run
from ddpm_run import digests
from picture_runs import Case, encoded


class Lists(Case):
    def test_a_list_names_pictures_and_labels(self):
        for i in range(9):
            self.write(f"pictures/{i}.png", encoded(i))
        pixels = [np.asarray(Image.open(self.root / f"pictures/{i}.png")) for i in range(9)]
        order = [5, 0, 8, 5, 2]
        lines = [f"pictures/{i}.png" if i else str(self.root / "pictures/0.png") for i in order]
        plain = self.write("plain.txt", "\n".join(lines).encode())
        images, labels = read(self.create(plain, "--size", "14x20"))
        np.testing.assert_array_equal(images, [pixels[i] for i in order])
        self.assertEqual(len(labels), 0)
        numbers = self.write("numbers.tsv", "".join(f"{line}\t{i}\r\n" for line, i in zip(lines, order)).encode())
        np.testing.assert_array_equal(read(self.create(numbers, "--size", 16, ranks=2))[1], order)
        names = self.write("names.tsv", "".join(f"{line}\t{'dog' if i else 'cat'}\n" for line, i in zip(lines, order)).encode())
        output = self.create(names, "--size", 16)
        np.testing.assert_array_equal(read(output)[1], [1, 0, 1, 1, 1])
        classes = json.loads(run("inspect", output, "--json").stdout)["classes"]
        self.assertEqual([c["name"] for c in classes], ["cat", "dog"])
        self.assertEqual(len(read(self.create(names, "--size", 16, "--labels", "none"))[1]), 0)
        other = self.write("other.list", names.read_bytes())
        self.create(other, "--format", "list", "--size", 16)

        self.refused(3, "9.png: is gone", self.write("gone.txt", b"pictures/9.png\n"), ranks=2)
        self.refused(3, "9.png: is gone", self.write("gone.txt", b"pictures/1.png\npictures/9.png\n"), ranks=2)
        self.refused(3, "line 2 has no label", self.write("some.tsv", b"pictures/1.png\t1\npictures/2.png\n"))
        self.refused(2, "--labels folder", names, "--labels", "folder")
        self.refused(2, "2 lists, wanted one", [names, numbers])


class Floats(Case):
    def test_values_are_stored_as_they_are(self):
        for name, data, values in tiff_cases.float_cases(np.random.default_rng(3)):
            with self.subTest(name=name):
                output = self.create(self.write(f"{name}-folder/{name}", data).parent, "--size", 24, "--channels", values.shape[2])
                images, _ = read(output)
                self.assertEqual(images.dtype, np.float32)
                self.assertEqual(self.said["dtype"], "float32")
                np.testing.assert_array_equal(images[0], values)
                shown = json.loads(run("inspect", output, "--json").stdout)
                self.assertEqual(shown["dtype"], "float32")
                self.assertEqual(run("verify", output).returncode, 0)

    def test_other_sizes_are_resampled_as_pillow_does_and_not_rounded(self):
        values = np.random.default_rng(4).normal(size=(60, 80)).astype(np.float32).cumsum(0)
        self.write("f/a.tif", tiff_cases.by_tifffile(values, photometric="minisblack"))
        for size in (24, 100):
            images, _ = read(self.create(self.root / "f", "--size", size, "--channels", 1, "--crop", "none"))
            wanted = np.asarray(Image.fromarray(values).resize((size, size), Image.BILINEAR))
            np.testing.assert_allclose(images[0, ..., 0], wanted, rtol=1e-5, atol=2e-5)

    def test_the_first_picture_says_which_type_a_set_has(self):
        values = np.ones((8, 8), np.float32)
        nothing = values.copy()
        nothing[3, 4] = np.nan
        by_tifffile = tiff_cases.by_tifffile
        self.write("f/a-damaged.tif", b"II*\0")
        self.write("f/b.tif", by_tifffile(values, photometric="minisblack"))
        self.write("f/c.png", encoded(1))
        self.write("f/d.tif", by_tifffile(nothing, photometric="minisblack"))
        self.write("f/e.tif", by_tifffile(np.ones((8, 8, 3), np.float32), photometric="rgb"))
        output = self.create(self.root / "f", "--size", 8, "--channels", 1)
        reasons = self.skipped(output)
        self.assertEqual(list(reasons), ["a-damaged.tif", "c.png", "d.tif", "e.tif"])
        self.assertEqual(reasons["c.png"], "integers, while the first picture, which decides for the set, has float32 values")
        self.assertEqual(reasons["d.tif"], "TIFF: holds nan, which is not a number to train on")
        self.assertEqual(reasons["e.tif"], "3 channels of float32, wanted 1 (--channels)")
        self.refused(3, "1 channel of float32, wanted 3 (--channels)", self.write("g/b.tif", (self.root / "f/b.tif").read_bytes()).parent)

    def test_bands_beside_the_colours_are_refused(self):
        bands = tiff_cases.by_tifffile(np.zeros((8, 8, 4), np.float32), photometric="minisblack", planarconfig="contig")
        folder = self.write("h/bands.tif", bands).parent
        self.refused(3, "TIFF: 4 samples per pixel, wanted 1, and opacity as the only one", folder, "--size", 8, "--channels", 1)


class Limits(Case):
    def test_too_many_unusable_pictures_end_the_command(self):
        for i in range(40):
            self.write(f"p/{i:02}.png", encoded(i) if i % 10 else b"broken")
        self.write("p/x.gif", b"GIF89a")  # five of 41
        source = self.root / "p"
        for limit in ("5", "12.5%", "100%", "1000"):
            self.create(source, "--size", 8, "--max-bad", limit, ranks=2)
            self.assertEqual(self.said["skipped"], 5)
        for limit in ("0", "4", "12%"):
            for ranks in (1, 3):
                self.refused(3, f"--max-bad {limit}: more than ", source, "--size", 8, "--max-bad", limit, ranks=ranks)
        self.refused(2, "wanted a number of pictures", source, "--max-bad", "few", ranks=2)
        # What was finished is taken over when more is allowed.
        output, result = self.attempt(source, "--size", 8, "--max-bad", "4")
        self.assertEqual(result.returncode, 3)
        self.create(source, "--size", 8, "--max-bad", "5", output=output)
        self.assertGreater(self.said["reused_shards"], 0)

    def test_shards_hold_equal_shares_of_the_bytes(self):
        sizes = {}
        for i in range(120):
            side = 8 if i < 60 else 100
            name = f"{i:03}.png"
            sizes[name] = self.write(f"p/{name}", encoded(i, side, side)).stat().st_size
        output = self.create(self.root / "p", "--size", 8, "--shards", 6, ranks=2)
        shards = json.loads((output / "dataset.json").read_text())["shards"]
        names = sorted(sizes)
        costs = [sum(sizes[n] + 8192 for n in names[s["first"] : s["first"] + s["count"]]) for s in shards]
        largest = max(sizes.values()) + 8192
        self.assertLessEqual(max(costs) - min(costs), 2 * largest)
        self.assertGreater(shards[0]["count"], 3 * shards[-1]["count"])

    def test_progress_shows_rate_and_remaining_time(self):
        for i in range(30):
            self.write(f"p/{i}.png", encoded(i))
        _, result = self.attempt(self.root / "p", "--size", 8)
        self.assertRegex(result.stderr, r"data create: image 30/30, [0-9.]+ images/s, .* passed")


class Validation(Case):
    def named(self, count):
        for i in range(count):
            self.write(f"p/{i % 3}/{i}.png", encoded(i, 8, 8))

    def held_out(self, percent):
        names = sorted((str(p.relative_to(self.root / "p")) for p in (self.root / "p").rglob("*.png")), key=str.encode)
        number = lambda name: int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
        return names, [name for name in names if number(name) < percent / 100 * 2**64]

    def pixels(self, names):
        return np.stack([np.asarray(Image.open(self.root / "p" / name)) for name in names])

    def test_a_hash_of_the_name_says_which_pictures_are_held_out(self):
        options = ("--size", 8, "--labels", "folder", "--shards", 4, "--validation-share", "25%")
        for count in (60, 90):
            self.named(count)
            output = self.create(self.root / "p", *options, ranks=2)
            names, held_out = self.held_out(25)
            self.assertTrue(5 < len(held_out) < count / 2)
            rest = [name for name in names if name not in held_out]
            np.testing.assert_array_equal(read(output / "validation")[0], self.pixels(held_out))
            np.testing.assert_array_equal(read(output)[0], self.pixels(rest))
            np.testing.assert_array_equal(read(output)[1], [int(name[0]) for name in rest])
            self.assertEqual((self.said["images"], self.said["validation_images"]), (count, len(held_out)))
            for dataset, images in ((output, rest), (output / "validation", held_out)):
                self.assertEqual(run("verify", dataset).returncode, 0)
                self.assertEqual(json.loads(run("inspect", dataset, "--json").stdout)["count"], len(images))
        for ranks in (1, 3):
            self.assertEqual(digests(self.create(self.root / "p", *options, ranks=ranks)), digests(output))

    def test_refusals(self):
        self.named(3)
        self.refused(3, "falls into the validation set of --validation-share 0.001%", self.root / "p", "--validation-share", "0.001%", ranks=2)
        for share in ("0.05", "100%", "-1%"):
            self.refused(2, "wanted a percentage such as 5%", self.root / "p", "--validation-share", share)
        for option in (("--labels", "kinds"), ("--names", "a,b"), ("--mask", "m")):
            self.refused(2, f"{option[0]} {option[1]}: {self.root / 'p'} is n", self.root / "p", *option)
        self.refused(3, "p: it is neither an HDF5 nor", self.root / "p", "--variables", "t2m", "--size", 32)
        cifar = self.write("c.bin", bytes(3073) * 4)
        self.refused(2, "have no names", cifar, "--validation-share", "5%", "--size", 32, ranks=2)

    def test_killed_at_any_time_and_run_again(self):
        for i in range(60):
            self.write(f"p/{i}.png", encoded(i, 300, 200))
        options = ("--size", 32, "--shards", 6, "--validation-share", "20%")
        began = time.monotonic()
        wanted = digests(self.create(self.root / "p", *options))
        whole = time.monotonic() - began
        chance = random.Random(5)
        output = self.root / "again"
        killed = 0
        for part in (0.3, 0.5, chance.random(), chance.random(), 0.9):
            command = [DDPM, "data", "create", self.root / "p", "--output", output, *options]
            process = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                process.wait(part * whole)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                killed += 1
            if output.exists():  # else the next one goes on
                self.assertEqual(digests(output), wanted)
                shutil.rmtree(output)
        self.create(self.root / "p", *options, output=output)
        self.assertEqual(digests(output), wanted)
        self.assertGreater(killed, 0)


if __name__ == "__main__":
    unittest.main()
