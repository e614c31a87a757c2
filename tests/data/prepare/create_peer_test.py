"""`ddpm data create|inspect|verify` as a user runs them, with the datasets read by h5py and the pixels made by Pillow
and numpy. The program is $DDPM."""

import json
import pathlib
import re
import tempfile
import unittest
from fractions import Fraction

import numpy as np
from PIL import Image

import image_cases
from data_runs import kill_and_run_again, read, run
from ddpm_run import digests


def skipped(dataset):
    return {x["path"]: x["reason"] for x in map(json.loads, (dataset / "skipped.jsonl").read_text().splitlines())}


def by_pillow(pixels, size, crop):
    """A square."""
    return covering(pixels, size, size, crop)


def covering(pixels, height, width, crop):
    """Scaled by Pillow's bilinear filter until `height` x `width` is covered, then the middle; or the whole, squashed."""
    image = Image.fromarray(pixels)
    if crop == "none":
        return np.asarray(image.resize((width, height), Image.BILINEAR))
    factor = max(Fraction(width, image.width), Fraction(height, image.height))
    image = image.resize([int(side * factor) for side in image.size], Image.BILINEAR)
    left, top = (image.width - width) // 2, (image.height - height) // 2
    return np.asarray(image.crop((left, top, left + width, top + height)))


def on_white(image):
    """Pillow's own way for images with transparency."""
    if image.mode in ("LA", "RGBA", "PA") or "transparency" in image.info:
        image = image.convert("RGBA")
        paper = Image.new("RGB", image.size, "white")
        paper.paste(image, mask=image.getchannel("A"))
        return paper
    return image.convert("RGB")


def photo(width, height, seed):
    """Noise with a natural spectrum."""
    rng = np.random.default_rng(seed)
    power = np.fft.fftfreq(height)[:, None] ** 2 + np.fft.fftfreq(width)[None] ** 2
    power[0, 0] = 1
    z = [np.fft.ifft2(np.fft.fft2(rng.normal(size=(height, width))) / power**0.5).real for _ in range(3)]
    return np.clip([(p / p.std() * 50 + 128) for p in z], 0, 255).astype(np.uint8).transpose(1, 2, 0)


class DataCreate(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.source = self.root / "source"
        self.output = self.root / "set"

    def add(self, name, data):
        path = self.source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def create(self, *options, ranks=1, output=None):
        result = run("create", self.source, "--output", output or self.output, *options, "--json", ranks=ranks)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def test_every_kind_of_file(self):
        good = sorted(image_cases.good_cases(), key=lambda case: case[0].encode())
        for name, data, _ in good:
            self.add(name, data)
        bad = {"bad-" + name: (data, reason) for name, data, reason in image_cases.bad_cases()}
        for name, (data, _) in bad.items():
            self.add(name, data)
        for size, crop in ((9, "center"), (6, "center"), (6, "none"), (20, "none")):
            with self.subTest(size=size, crop=crop):
                output = self.root / f"{size}-{crop}"
                self.create("--size", size, "--crop", crop, "--shards", 4, ranks=2, output=output)
                images, _ = read(output)
                self.assertEqual(len(images), len(good))
                for (name, _, pixels), image in zip(good, images):
                    error = np.abs(image.astype(int) - by_pillow(pixels, size, crop))
                    limit = 3 if re.search("jpg|jpeg|JPG|lossy", name) else 1  # libjpeg and libwebp may be other builds
                    self.assertLessEqual(error.max(), limit, name)
                reasons = skipped(output)
                self.assertEqual(sorted(reasons), sorted(bad))
                for name, (_, reason) in bad.items():
                    self.assertIn(reason, reasons[name])

    def test_files_written_by_pillow(self):
        names = []
        for number, mode in enumerate(("1", "L", "LA", "P", "RGB", "RGBA")):
            picture = Image.fromarray(photo(90, 61, number))
            image = picture.convert("L").convert("LA") if mode == "LA" else picture.convert(mode)
            if mode in ("LA", "RGBA"):
                image.putalpha(Image.fromarray(photo(90, 61, 99)[..., 0]))
            names.append(self.source / f"{mode}.png")
            names[-1].parent.mkdir(exist_ok=True)
            image.save(names[-1], optimize=True)
        for number, options in enumerate(({}, {"quality": 30}, {"progressive": True}, {"subsampling": 0})):
            names.append(self.source / f"x{number}.jpg")
            Image.fromarray(photo(120, 70, number)).save(names[-1], **options)
        self.create("--size", 24)
        images, _ = read(self.output)
        for path, image in zip(sorted(names, key=lambda p: p.name), images):
            pixels = np.asarray(on_white(Image.open(path)))
            error = np.abs(image.astype(int) - by_pillow(pixels, 24, "center"))
            self.assertLessEqual(error.max(), 2 if path.suffix == ".jpg" else 1, path.name)

    def test_sixteen_bit_grey_by_pillow(self):
        values = np.random.default_rng(1).integers(0, 65536, (32, 32)).astype(np.uint16)
        self.source.mkdir()
        Image.fromarray(values).save(self.source / "deep.png")
        self.create("--size", 32, "--channels", 1)
        images, _ = read(self.output)
        self.assertEqual(images.shape, (1, 32, 32, 1))
        np.testing.assert_array_equal(images[0, ..., 0], np.floor(values / 257 + 0.5))

    def test_grey_is_pillows_luma(self):
        pixels = photo(32, 32, 5)
        self.source.mkdir()
        Image.fromarray(pixels).save(self.source / "a.png")
        self.create("--size", 32, "--channels", 1)
        images, _ = read(self.output)
        np.testing.assert_array_equal(images[0, ..., 0], np.asarray(Image.fromarray(pixels).convert("L")))

    def test_large_photographs(self):
        for number, (width, height) in enumerate(((1600, 1067), (700, 1900), (640, 480))):
            self.source.mkdir(exist_ok=True)
            Image.fromarray(photo(width, height, number)).save(self.source / f"{number}.png")
        for size in (32, 64, 512):
            output = self.root / str(size)
            self.create("--size", size, output=output)
            images, _ = read(output)
            for number, image in enumerate(images):
                pixels = np.asarray(Image.open(self.source / f"{number}.png"))
                self.assertLessEqual(np.abs(image.astype(int) - by_pillow(pixels, size, "center")).max(), 1)

    def test_rectangles(self):
        sizes = ((160, 107), (70, 190), (64, 48), (48, 24), (20, 10), (31, 77))
        self.source.mkdir()
        for number, (width, height) in enumerate(sizes):
            Image.fromarray(photo(width, height, number)).save(self.source / f"{number}.png")
        for height, width in ((24, 48), (50, 17), (1, 9)):
            for crop in ("center", "none"):
                with self.subTest(height=height, width=width, crop=crop):
                    output = self.root / f"{height}-{width}-{crop}"
                    self.create("--size", f"{height}x{width}", "--crop", crop, ranks=2, output=output)
                    images, _ = read(output)
                    self.assertEqual(images.shape, (len(sizes), height, width, 3))
                    for number, image in enumerate(images):
                        pixels = np.asarray(Image.open(self.source / f"{number}.png"))
                        wanted = covering(pixels, height, width, crop)
                        self.assertLessEqual(np.abs(image.astype(int) - wanted).max(), 1, number)
        shown = json.loads(run("inspect", output, "--json").stdout)
        self.assertEqual((shown["height"], shown["width"]), (1, 9))
        self.assertEqual(run("verify", output).returncode, 0)
        for size, words in (("8x8x8", "3 sides"), ("8x", "--size 8x: a side is missing"), ("4x5000", "not in range 1 to 4096"), ("0", "not in range 1 to 4096")):
            result = run("create", self.source, "--output", self.output, "--size", size, ranks=2)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(words, result.stderr)

    def test_labels_statistics_and_inspect(self):
        counts = {"b": 3, "a-b": 2, "a": 4}
        for folder, count in counts.items():
            for i in range(count):
                self.add(f"{folder}/deep/{i}.png", image_cases.png(np.full((4, 4, 3), i * 10), 8, image_cases.RGB))
        self.add("top.png", image_cases.png(np.zeros((4, 4, 3), int), 8, image_cases.RGB))
        self.create("--size", 4, "--labels", "folder", "--shards", 3)
        images, labels = read(self.output)
        # Images lie in the order of their paths ("a-b/..." before "a/..."), ids in the order of the folders' names.
        self.assertEqual(list(labels), [1] * 2 + [0] * 4 + [2] * 3)
        self.assertEqual(list(skipped(self.output)), ["top.png"])
        shown = json.loads(run("inspect", self.output, "--json").stdout)
        self.assertEqual(shown["classes"], [{"id": 0, "name": "a", "count": 4}, {"id": 1, "name": "a-b", "count": 2},
                                            {"id": 2, "name": "b", "count": 3}])
        self.assertEqual([shown[k] for k in ("count", "height", "width", "channels", "dtype")], [9, 4, 4, 3, "uint8"])
        for c, channel in enumerate(shown["statistics"]):
            values = images[..., c].astype(float)
            wanted = {"mean": values.mean(), "std": values.std(), "min": values.min(), "max": values.max()}
            for key, value in wanted.items():
                self.assertAlmostEqual(channel[key], value, places=9)
        files = {f.name: f.stat().st_size for f in self.output.glob("*.h5")}
        self.assertEqual({s["file"]: s["size"] for s in shown["shards"]}, files)
        self.assertEqual(shown["bytes"], sum(files.values()))

    def test_same_bytes_for_any_number_of_ranks(self):
        for number in range(30):
            self.add(f"{number % 3}/{number}.png", image_cases.png(photo(40, 33, number), 8, image_cases.RGB))
        self.add("1/bad.png", b"")
        for ranks in (1, 2, 3, 4):
            self.create("--size", 16, "--crop", "random", "--labels", "folder", "--shards", 5, ranks=ranks,
                        output=self.root / f"np{ranks}")
        first = digests(self.root / "np1")
        for ranks in (2, 3, 4):
            self.assertEqual(digests(self.root / f"np{ranks}"), first)

    def test_killed_and_run_again(self):
        photos = [image_cases.png(photo(500, 500, seed), 8, image_cases.RGB) for seed in range(3)]
        for number in range(48):
            self.add(f"{number}.png", photos[number % 3])
        self.create("--shards", 6, output=self.root / "whole")
        kill_and_run_again(self, self.source, self.output, "--shards", 6)
        self.assertEqual(digests(self.output), digests(self.root / "whole"))
        self.assertEqual([p for p in self.root.iterdir() if p.name.startswith(".")], [])

    def test_refusals(self):
        self.add("a.png", b"nothing")
        result = run("create", self.source, "--output", self.output, ranks=2)
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertIn("a.png: neither PNG, JPEG", result.stderr)
        self.assertEqual(sorted(p.name for p in self.root.iterdir()), ["source"])
        self.assertEqual(run("create", self.root / "absent", "--output", self.output).returncode, 3)
        self.assertEqual(run("create", self.source, "--output", self.source, ranks=2).returncode, 4)
        self.assertEqual(run("create", self.source, "--output", self.output, "--crop", "centre").returncode, 2)
        self.assertEqual(run("create", self.source, "--output", self.output, "--size", 0).returncode, 2)
        self.assertEqual(run("create", self.source).returncode, 2)
        self.assertEqual(run("inspect", self.root / "absent").returncode, 3)

    def test_verify_finds_any_changed_byte(self):
        for number in range(12):
            self.add(f"{number}.png", image_cases.png(photo(16, 16, number), 8, image_cases.RGB))
        self.create("--size", 16, "--shards", 3)
        result = run("verify", self.output, "--json", ranks=2)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(json.loads(result.stdout)["valid"], True)
        shard = self.output / "shard-00001-of-00003.h5"
        whole = shard.read_bytes()
        for place in (9, len(whole) // 2, len(whole) - 1):
            shard.write_bytes(whole[:place] + bytes([whole[place] ^ 16]) + whole[place + 1 :])
            result = run("verify", self.output, "--json", ranks=2)
            self.assertEqual(result.returncode, 3, place)
            self.assertIn(shard.name, json.loads(result.stdout)["damaged"][0])
        shard.unlink()
        self.assertEqual(run("verify", self.output).returncode, 3)


if __name__ == "__main__":
    unittest.main(verbosity=2)
