"""`ddpm data create` from archives, lists and TIFF files of floating point, with limits and a validation set, as a user
runs it. Archives are written by Python's tarfile and zipfile, pixels by Pillow and tifffile, sets are read by h5py."""

import hashlib
import io
import json
import pathlib
import random
import shutil
import subprocess
import tarfile
import tempfile
import time
import unittest
import zipfile

import numpy as np
from PIL import Image

import image_cases
import tiff_cases
from data_runs import DDPM, digests, kill_and_run_again, read, run


def encoded(seed, width=20, height=14):
    rng = np.random.default_rng(seed)
    return image_cases.png(rng.integers(0, 256, (height, width, 3)), 8, image_cases.RGB)


def tree_digests(folder):
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.rglob("*") if p.is_file()}


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.made = 0

    def attempt(self, source, *options, ranks=1, output=None):
        self.made += 1
        output = output or self.root / f"set-{self.made}"
        sources = source if isinstance(source, list) else [source]
        return output, run("create", *sources, "--output", output, *options, ranks=ranks)

    def create(self, source, *options, ranks=1, output=None):
        output, result = self.attempt(source, *options, "--json", ranks=ranks, output=output)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.said = json.loads(result.stdout)
        return output

    def refused(self, code, words, source, *options, ranks=1):
        output, result = self.attempt(source, *options, ranks=ranks)
        self.assertEqual(result.returncode, code, result.stderr)
        errors = [line for line in result.stderr.splitlines() if line.startswith("ddpm: error:")]
        self.assertEqual(len(errors), 1, result.stderr)
        self.assertIn(words, errors[0])
        self.assertFalse(output.exists())

    def skipped(self, dataset):
        lines = (dataset / "skipped.jsonl").read_text().splitlines()
        return {x["path"]: x["reason"] for x in map(json.loads, lines)}

    def write(self, name, data):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path


def add(tar, name, data=b"", **fields):
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for key, value in fields.items():
        setattr(info, key, value)
    tar.addfile(info, io.BytesIO(data))


class Archives(Case):
    """24 pictures in WebDataset's layout, and the set that they must become."""

    def setUp(self):
        super().setUp()
        self.files = {}
        for i in range(24):
            folder = "äö" if i % 3 == 0 else "b"
            self.files[f"{folder}/{'long' * 40 * (i == 5)}{i:04}.png"] = encoded(i)
            if i % 2 == 0:
                self.files[f"{folder}/{'long' * 40 * (i == 5)}{i:04}.cls"] = str(i % 7).encode()
            else:
                self.files[f"{folder}/{'long' * 40 * (i == 5)}{i:04}.json"] = json.dumps({"label": i % 7, "text": "x"}).encode()
        self.pixels = np.stack([np.asarray(Image.open(io.BytesIO(encoded(i)))) for i in range(24)])
        self.size = ("--size", "14x20", "--shards", 5)

    def tar(self, name, mode="w", kind=tarfile.PAX_FORMAT, files=None):
        path = self.root / name
        with tarfile.open(path, mode, format=kind) as tar:
            for file, data in (files or self.files).items():
                add(tar, file, data)
        return path

    def zip(self, name, method=zipfile.ZIP_DEFLATED):
        path = self.root / name
        with zipfile.ZipFile(path, "w", method) as archive:
            for file, data in self.files.items():
                archive.writestr(file, data)
        return path

    def expect_all(self, output):
        images, labels = read(output)
        np.testing.assert_array_equal(images, self.pixels)
        np.testing.assert_array_equal(labels, np.arange(24) % 7)
        self.assertEqual((output / "skipped.jsonl").read_text(), "")

    def test_every_kind_of_archive_gives_the_pictures_and_their_labels(self):
        sources = [
            self.tar("pax.tar"), self.tar("gnu.tar", kind=tarfile.GNU_FORMAT), self.tar("ustar", kind=tarfile.GNU_FORMAT),
            self.tar("packed.tar.gz", "w:gz"), self.tar("packed.tar.xz", "w:xz"), self.tar("packed.tar.bz2", "w:bz2"),
            self.zip("deflated.zip"), self.zip("stored.zip", zipfile.ZIP_STORED),
        ]  # fmt: skip
        for source in sources:
            with self.subTest(source=source.name):
                self.expect_all(self.create(source, *self.size, ranks=2))
                self.assertEqual(self.said["classes"], 7)

    def test_several_archives_are_one_source(self):
        names = list(self.files)
        parts = [self.tar(f"part-{k}.tar", files={n: self.files[n] for n in names[16 * k : 16 * k + 16]}) for k in range(3)]
        self.expect_all(self.create(parts, *self.size))

    def test_the_same_bytes_for_any_number_of_ranks(self):
        for source in (self.tar("a.tar"), self.tar("b.tar.gz", "w:gz"), self.zip("c.zip")):
            wanted = tree_digests(self.create(source, *self.size, "--validation-share", "20%"))
            for ranks in (2, 3, 4):
                with self.subTest(source=source.name, ranks=ranks):
                    made = self.create(source, *self.size, "--validation-share", "20%", ranks=ranks)
                    self.assertEqual(tree_digests(made), wanted)

    def test_labels_of_folders_and_none(self):
        source = self.tar("a.tar")
        output = self.create(source, *self.size, "--labels", "folder")
        self.assertEqual([c["name"] for c in json.loads(run("inspect", output, "--json").stdout)["classes"]], ["b", "äö"])
        np.testing.assert_array_equal(read(output)[1], [int(i % 3 == 0) for i in range(24)])
        images, labels = read(self.create(source, *self.size, "--labels", "none"))
        self.assertEqual((len(images), len(labels)), (24, 0))
        self.assertEqual(self.said["other_files"], {".cls": 12, ".json": 12})

    def test_a_picture_without_a_label_is_left_out(self):
        del self.files["b/0010.cls"]
        output = self.create(self.tar("a.tar"), *self.size)
        self.assertEqual(self.skipped(output), {"b/0010.png": 'no label beside it: a .cls file, or a .json file with "label" or "cls"'})
        self.files["b/0010.cls"] = b"dog"
        self.refused(3, 'b/0010.cls holds "dog", wanted a whole number', self.tar("b.tar"), *self.size, ranks=2)

    def test_names_and_links_in_an_archive_do_nothing(self):
        before = self.write("victim.png", b"mine")
        path = self.root / "hostile.tar"
        with tarfile.open(path, "w") as tar:
            add(tar, "../victim.png", encoded(0))
            add(tar, str(self.root / "absolute.png"), encoded(1))
            add(tar, "./deep/../../up.png", encoded(2))
            add(tar, "line\nbreak.png", encoded(3))
            add(tar, "link.png", type=tarfile.SYMTYPE, linkname="/etc/passwd")
            add(tar, "hard.png", type=tarfile.LNKTYPE, linkname="line\nbreak.png")
            add(tar, "fifo.png", type=tarfile.FIFOTYPE)
            add(tar, "device.png", type=tarfile.CHRTYPE, devmajor=1, devminor=5)
            add(tar, "folder.png", type=tarfile.DIRTYPE)
            add(tar, ".hidden.png", encoded(4))
            add(tar, "__MACOSX/._a.png", b"resource fork")
        output = self.create(path, *self.size)
        self.assertEqual(self.said["images"], 4)
        np.testing.assert_array_equal(read(output)[0], self.pixels[:4])
        self.assertEqual(set(self.skipped(output)), {"link.png", "hard.png", "fifo.png", "device.png"})
        self.assertEqual(before.read_bytes(), b"mine")
        self.assertEqual(sorted(p.name for p in self.root.iterdir()), ["hostile.tar", "set-1", "victim.png"])

    def test_what_is_damaged(self):
        whole = self.tar("a.tar").read_bytes()
        end = whole.index(encoded(20))  # within the twentieth picture
        self.refused(3, "cut.tar", self.write("cut.tar", whole[: end + 100]), *self.size, ranks=2)
        packed = self.tar("a.tar.gz", "w:gz").read_bytes()
        self.refused(3, "cut.tar.gz", self.write("cut.tar.gz", packed[: len(packed) // 2]), *self.size)
        self.refused(3, "none.tar", self.write("none.tar", b"no archive" * 100), *self.size)
        self.refused(3, "empty.zip", self.write("empty.zip", b""), *self.size)
        self.refused(3, "no file in it ends in .png", self.tar("other.tar", files={"a.txt": b"x"}), *self.size)
        twice = self.root / "twice.tar"
        with tarfile.open(twice, "w") as tar:
            for _ in range(2):
                add(tar, "a.png", encoded(0))
        self.refused(3, "holds a.png twice", twice, *self.size)
        archive = bytearray(self.zip("a.zip").read_bytes())
        archive[archive.index(b"b/0010.png") + 200] ^= 0xFF
        output = self.create(self.write("flipped.zip", archive), *self.size)
        self.assertEqual(list(self.skipped(output)), ["b/0010.png"])
        self.assertEqual(self.said["images"], 23)

    def test_an_entry_that_unpacks_to_more_than_is_read_costs_no_memory(self):
        size = 64 << 20
        path = self.root / "bomb.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("a.png", encoded(0))
            archive.writestr("bomb.png", bytes(size))
        whole = path.read_bytes()
        saying = lambda number: whole.replace(size.to_bytes(4, "little"), number.to_bytes(4, "little"))
        told, lies = saying(3 << 30), saying(500)
        self.assertEqual(whole.count(size.to_bytes(4, "little")), 2)  # the entry's own header and the archive's list
        limited = ["bash", "-c", "ulimit -v 1000000; exec \"$0\" \"$@\"", DDPM, "data", "create"]
        for name, data in {"told.zip": told, "lies.zip": lies}.items():
            with self.subTest(name=name):
                output = self.root / f"of-{name}"
                source = self.write(name, data)
                result = subprocess.run([*limited, source, "--output", output, *map(str, self.size)], capture_output=True, text=True)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertIn("more than", self.skipped(output)["bomb.png"])

    def test_killed_and_run_again(self):
        photos = {}
        for i in range(40):
            photos[f"{i:03}.png"] = encoded(i, 700, 500)
            photos[f"{i:03}.cls"] = str(i % 4).encode()
        self.files = photos
        options = ("--shards", 6, "--size", 48, "--validation-share", "15%")
        for source in (self.tar("a.tar"), self.zip("a.zip")):
            with self.subTest(source=source.name):
                whole = self.create(source, *options)
                output = self.root / f"again-{source.suffix[1:]}"
                kill_and_run_again(self, source, output, *options)
                self.assertEqual(tree_digests(output), tree_digests(whole))
        self.assertEqual([p for p in self.root.iterdir() if p.name.startswith(".")], [])


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

        self.refused(3, "9.png: cannot open: No such file", self.write("gone.txt", b"pictures/9.png\n"), ranks=2)
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
            self.assertEqual(tree_digests(self.create(self.root / "p", *options, ranks=ranks)), tree_digests(output))

    def test_refusals(self):
        self.named(3)
        self.refused(3, "falls into the validation set of --validation-share 0.001%", self.root / "p", "--validation-share", "0.001%", ranks=2)
        self.refused(2, "wanted a percentage such as 5%", self.root / "p", "--validation-share", "0.05")
        cifar = self.write("c.bin", bytes(3073) * 4)
        self.refused(2, "have no names", cifar, "--validation-share", "5%", "--size", 32, ranks=2)

    def test_killed_at_any_time_and_run_again(self):
        for i in range(60):
            self.write(f"p/{i}.png", encoded(i, 300, 200))
        options = ("--size", 32, "--shards", 6, "--validation-share", "20%")
        began = time.monotonic()
        wanted = tree_digests(self.create(self.root / "p", *options))
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
                self.assertEqual(tree_digests(output), wanted)
                shutil.rmtree(output)
        self.create(self.root / "p", *options, output=output)
        self.assertEqual(tree_digests(output), wanted)
        self.assertGreater(killed, 0)


if __name__ == "__main__":
    unittest.main()
