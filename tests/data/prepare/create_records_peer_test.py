"""`ddpm data create` from IDX and CIFAR files that numpy wrote, compared with what numpy and Pillow make of the same
pixels. The program is $DDPM."""

import gzip
import json
import pathlib
import tempfile
import unittest

import numpy as np
from PIL import Image

import record_cases
from data_runs import kill_and_run_again, read, run
from ddpm_run import digests


def random_images(count, *shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (count, *shape), "u1")


def random_labels(count, classes, seed=0):
    labels = np.random.default_rng(seed).integers(0, classes, count)
    labels[:classes] = np.arange(classes)[:count]
    return labels.astype("u1")


class DataCreateRecords(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.output = self.root / "set"

    def create(self, *arguments, ranks=1, output=None):
        """Images, labels, and what --json says."""
        output = output or self.output
        result = run("create", *arguments, "--output", output, "--json", ranks=ranks)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual((output / "skipped.jsonl").read_text(), "")
        return *read(output), json.loads(result.stdout)

    def refused(self, code, words, *arguments, ranks=1):
        result = run("create", *arguments, "--output", self.output, ranks=ranks)
        self.assertEqual(result.returncode, code, result.stderr)
        lines = [line for line in result.stderr.splitlines() if line.startswith("ddpm: ")]
        self.assertEqual(len(lines), 1, result.stderr)
        self.assertIn(words, lines[0])
        self.assertEqual([p.name for p in self.root.iterdir() if "set" in p.name], [])

    def test_mnist_is_stored_as_it_is(self):
        pixels, classes = random_images(200, 28, 28), random_labels(200, 10)
        for packed in (False, True):
            with self.subTest(packed=packed):
                output = self.root / f"set-{packed}"
                path = record_cases.write_mnist(self.root / str(packed), "train", pixels, classes, packed)
                images, labels, said = self.create(path, "--size", 28, "--channels", 1, ranks=2, output=output)
                np.testing.assert_array_equal(images, pixels[..., None])
                np.testing.assert_array_equal(labels, classes)
                self.assertEqual((said["images"], said["classes"], said["skipped"]), (200, 10, 0))
        shown = json.loads(run("inspect", output, "--json").stdout)
        self.assertEqual([c["count"] for c in shown["classes"]], list(np.bincount(classes)))
        self.assertAlmostEqual(shown["statistics"][0]["mean"], pixels.mean(), places=9)
        self.assertEqual(run("verify", output).returncode, 0)

    def test_grey_is_repeated_and_sizes_are_pillows(self):
        pixels = random_images(20, 40, 24)
        path = record_cases.write_mnist(self.root / "wide", "t10k", pixels, random_labels(20, 3))
        images, _, _ = self.create(path, "--size", 12)
        for image, made in zip(pixels, images):
            wanted = np.asarray(Image.fromarray(image).resize((12, 20), Image.BILINEAR))[4:16]
            self.assertLessEqual(np.abs(made.astype(int) - wanted[..., None]).max(), 1)
            np.testing.assert_array_equal(made, np.repeat(made[..., :1], 3, -1))

    def test_four_axes_and_no_labels(self):
        pixels = random_images(30, 16, 16, 3)
        path = self.root / "colours.idx"
        path.write_bytes(record_cases.idx(pixels))
        self.refused(3, "--labels none", path)
        images, labels, said = self.create(path, "--size", 16, "--labels", "none", "--shards", 3)
        np.testing.assert_array_equal(images, pixels)
        self.assertEqual((len(labels), said["classes"]), (0, 0))

    def test_a_folder_of_cifar_10_is_its_training_part(self):
        folder = self.root / "cifar-10-batches-bin"
        names = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
        pixels, classes = random_images(50, 32, 32, 3), random_labels(50, 10)
        for i in range(5):
            part = slice(10 * i, 10 * i + 10)
            record_cases.write_cifar(folder / f"data_batch_{i + 1}.bin", pixels[part], classes[part])
        record_cases.write_cifar(folder / "test_batch.bin", pixels[:7][::-1], classes[:7][::-1])
        (folder / "batches.meta.txt").write_text("\n".join(names) + "\n\n")
        images, labels, _ = self.create(folder, "--size", 32, ranks=2)
        np.testing.assert_array_equal(images, pixels)
        np.testing.assert_array_equal(labels, classes)
        shown = json.loads(run("inspect", self.output, "--json").stdout)
        self.assertEqual([c["name"] for c in shown["classes"]], names)
        images, labels, _ = self.create(folder / "test_batch.bin", "--size", 32, output=self.root / "test")
        np.testing.assert_array_equal(images, pixels[:7][::-1])
        np.testing.assert_array_equal(labels, classes[:7][::-1])
        files = [folder / f"data_batch_{i}.bin" for i in (4, 2)]
        images, _, _ = self.create(*files, "--size", 32, "--shards", 3, output=self.root / "two")
        np.testing.assert_array_equal(images, np.concatenate([pixels[30:40], pixels[10:20]]))

    def test_cifar_100_has_the_fine_labels(self):
        pixels, fine = random_images(120, 32, 32, 3), random_labels(120, 100)
        path = record_cases.write_cifar(self.root / "c" / "train.bin", pixels, fine // 5, fine)
        (path.parent / "fine_label_names.txt").write_text("".join(f"thing {i}\n" for i in range(100)))
        images, labels, said = self.create(path.parent, "--size", 32)
        np.testing.assert_array_equal(images, pixels)
        np.testing.assert_array_equal(labels, fine)
        self.assertEqual(said["classes"], 100)
        self.assertEqual(json.loads(run("inspect", self.output, "--json").stdout)["classes"][7]["name"], "thing 7")

    def test_grey_of_cifar_is_pillows_luma(self):
        pixels = random_images(9, 32, 32, 3)
        path = record_cases.write_cifar(self.root / "x.bin", pixels, random_labels(9, 10))
        images, _, _ = self.create(path, "--size", 32, "--channels", 1)
        for image, made in zip(pixels, images):
            np.testing.assert_array_equal(made[..., 0], np.asarray(Image.fromarray(image).convert("L")))

    def test_same_bytes_for_any_number_of_ranks(self):
        path = record_cases.write_mnist(self.root / "m", "train", random_images(90, 20, 30), random_labels(90, 10), True)
        for ranks in (1, 2, 3, 4):
            self.create(path, "--size", 16, "--crop", "random", "--shards", 5, ranks=ranks, output=self.root / f"np{ranks}")
        for ranks in (2, 3, 4):
            self.assertEqual(digests(self.root / f"np{ranks}"), digests(self.root / "np1"))

    def test_killed_and_run_again(self):
        path = record_cases.write_mnist(self.root / "m", "train", random_images(5000, 28, 28), random_labels(5000, 10), True)
        options = ("--size", "128", "--shards", "12")
        self.create(path, *options, output=self.root / "whole")
        kill_and_run_again(self, path, self.output, *options)
        self.assertEqual(digests(self.output), digests(self.root / "whole"))

    def test_refusals(self):
        folder = self.root / "m"
        pixels, classes = random_images(30, 8, 8), random_labels(30, 10)
        path = record_cases.write_mnist(folder, "train", pixels, classes)
        whole = path.read_bytes()
        path.write_bytes(whole[:-1])
        self.refused(3, f"{path}: 1935 bytes, wanted 1936", path, ranks=2)
        path.write_bytes(gzip.compress(whole + b"x"))
        self.refused(3, f"{path}: more than 1936 bytes unpacked, wanted 1936", path)
        path.write_bytes(gzip.compress(whole)[:-9])
        self.refused(3, "the gzip file is cut short", path)
        path.write_bytes(record_cases.idx(pixels.astype(">f4")))
        self.refused(3, "IDX of float32, wanted uint8", folder)
        path.write_bytes(record_cases.idx(pixels[:29]))
        self.refused(3, "30 labels, wanted 29", folder, ranks=2)
        path.write_bytes(whole)
        self.refused(2, "--labels folder", path, "--labels", "folder")
        self.refused(2, "--format mnist: unknown", path, "--format", "mnist")
        self.refused(2, "wanted one folder or files only", path, folder)
        self.refused(3, "wanted whole records of 3073", path, "--format", "cifar10")
        cifar = record_cases.write_cifar(self.root / "c.bin", random_images(3, 32, 32, 3), [1, 10, 2])
        self.refused(3, "image 1 has label 10, wanted 0 to 9", cifar, ranks=2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
