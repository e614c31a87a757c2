"""What a model sees of a set's fields, and the masked loss, against NumPy; and folders of shards that h5py wrote."""

import base64
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

import h5py
import numpy as np

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from crc32c import crc32c  # noqa: E402
from ddpm_run import ddpm  # noqa: E402

PROGRAM = sys.argv.pop(1)
WORK = pathlib.Path.cwd()
COUNT, HEIGHT, WIDTH = 12, 8, 12


def arrays(coarser=2, seed=0, mask_of_set=False, width=WIDTH):
    random = np.random.default_rng(seed)
    shape = (HEIGHT, width) if mask_of_set else (COUNT, HEIGHT, width)
    values = {
        "images": (3 + 2 * random.standard_normal((COUNT, HEIGHT, width, 2))).astype(np.float32),
        "condition": random.standard_normal((COUNT, HEIGHT // coarser, width // coarser, 3)).astype(np.float32) - 5,
        "static": random.random((HEIGHT, width, 1), dtype=np.float32) * 100,
        "parameters": random.random((COUNT, 4), dtype=np.float32) * [1, 10, 100, 0] + 7,
        "mask": (random.random(shape) > 0.4).astype(np.uint8),
    }
    values["parameters"] = values["parameters"].astype(np.float32)
    if not mask_of_set:
        values["mask"][3] = 0
    values["images"][np.broadcast_to(values["mask"][..., None] == 0, values["images"].shape)] = np.nan
    return values


def standardized(values, axes, valid=None):
    wide = np.where(np.isfinite(values), values, 0).astype(np.float64)
    weight = np.ones_like(wide) if valid is None else np.broadcast_to(valid, wide.shape)
    mean = (wide * weight).sum(axes) / weight.sum(axes)
    std = np.sqrt((weight * (wide - mean) ** 2).sum(axes) / weight.sum(axes))
    return (values - mean) / np.where(std > 0, std, 1)


def upsampled(condition, times):
    """Bilinear, with half-pixel centres, written as a loop."""

    def along(values, axis):
        extent = values.shape[axis]
        rows = []
        for i in range(extent * times):
            place = min(max((i + 0.5) / times - 0.5, 0), extent - 1)
            low = int(np.floor(place))
            high = min(low + 1, extent - 1)
            rows.append(
                (1 - (place - low)) * np.take(values, low, axis) + (place - low) * np.take(values, high, axis)
            )
        return np.stack(rows, axis)

    return along(along(condition.astype(np.float64), 1), 2)


def positions(width=WIDTH):
    row, column = np.meshgrid(np.arange(HEIGHT), np.arange(width), indexing="ij")
    y, x = 2 * np.pi * row / HEIGHT, 2 * np.pi * column / width
    return np.stack([np.sin(y), np.cos(y), np.sin(x), np.cos(x)], -1)


def turned(image, quarters, mirrored, vector=False):
    """An image [h, w, c], of which the first two channels may be a vector's components along the columns and against
    the rows: it turns with the image."""
    image = np.rot90(image, quarters)
    if vector:
        u, v = image[..., 0], image[..., 1]
        for _ in range(quarters):
            u, v = -v, u
        image = np.concatenate([np.stack([-u if mirrored else u, v], -1), image[..., 2:]], -1)
    return image[:, ::-1] if mirrored else image


def grid(seed, values):
    """A transform with a mean and a deviation for each point of the last variable of values [n, h, w, c], one of which
    is 0, and what the model sees of that variable."""
    random = np.random.default_rng(seed)
    sides = values.shape[1:3]
    mean = random.standard_normal(sides).astype(np.float32) + values[..., -1].mean(where=np.isfinite(values[..., -1]))
    std = random.random(sides, dtype=np.float32) + np.float32(0.5)
    std[1, 2] = 0
    numbers = {name: base64.b64encode(array.astype("<f4").tobytes()).decode() for name, array in (("mean", mean), ("std", std))}
    seen = np.where(std > 0, (values[..., -1].astype(np.float64) - mean) / np.where(std > 0, std, 1), 0)
    return {"type": "grid", "sides": list(sides), **numbers}, seen


def write_folder(folder, values, counts, transforms=None):
    """A dataset's folder as docs/data-format.md describes it, in shards of `counts` images."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    shards, first = [], 0
    for s, count in enumerate(counts):
        name = f"shard-{s:05}-of-{len(counts):05}.h5"
        with h5py.File(folder / name, "w") as file:
            part = {k: v[first : first + count] for k, v in values.items() if v.shape[0] == COUNT}
            if s == 0:
                part.update({k: v for k, v in values.items() if v.shape[0] != COUNT})
            blocks = [key for key in ("images", "condition", "mask") if key in part and len(part[key]) == count]
            for key in blocks:
                sums = np.array([crc32c(image.tobytes()) for image in part[key]], np.uint32)
                file["checksums" if key == "images" else f"{key}_checksums"] = sums
            for key in sorted(set(part) - set(blocks)) + blocks:
                file[key] = part[key]
            file.flush()
            offsets = {key: file[key].id.get_offset() for key in part}
        data = (folder / name).read_bytes()
        header = min(offsets[key] for key in blocks) if count else len(data)
        assert not count or all(offsets[key] < header for key in part if key not in blocks)
        shards.append({"file": name, "first": first, "count": count, "size": len(data),
                       "sha256": hashlib.sha256(data).hexdigest(), "header_size": header,
                       "header_sha256": hashlib.sha256(data[:header]).hexdigest()})  # fmt: skip
        first += count
    roles = {"images": "image"}
    fields = []
    for key in ("images", "condition", "parameters", "mask", "static"):
        array = values[key]
        per_set = array.shape[0] != COUNT
        shape = list(array.shape if per_set else array.shape[1:])
        variables = []
        for channel in range(0 if key == "mask" else shape[-1]):
            transform = (transforms or {}).get((key, channel), {"type": "affine", "scale": 1.0, "offset": 0.0})
            variables.append({"name": f"{key} {channel}", "unit": "K", "transform": transform})
        fields.append({"name": key, "role": roles.get(key, key), "path": f"/{key}", "shape": shape,
                       "dtype": str(array.dtype), "variables": variables})  # fmt: skip
        if per_set:
            fields[-1]["per_set"] = True
    statistics = [{"mean": 0.0, "std": 1.0, "min": -1.0, "max": 1.0}] * 2
    text = {"format": "ddpm-dataset", "version": 2, "count": COUNT, "height": HEIGHT, "width": values["images"].shape[2],
            "channels": 2,
            "dtype": "float32", "normalization": {"scale": 1.0, "offset": 0.0}, "has_labels": False, "class_names": [],
            "fields": fields, "statistics": statistics, "shards": shards}  # fmt: skip
    text["checksum"] = hashlib.sha256(json.dumps(text, separators=(",", ":")).encode()).hexdigest()
    (folder / "dataset.json").write_text(json.dumps(text))
    return folder


class ModelInputs(unittest.TestCase):
    def seen(self, path, normalize="none", side="upright", dropout=0.0, patch=()):
        output = WORK / "seen"
        shutil.rmtree(output, ignore_errors=True)
        output.mkdir()
        subprocess.run([PROGRAM, path, output, normalize, side, str(dropout), *map(str, patch)], check=True, timeout=60)
        return {file.stem: np.load(file) for file in output.glob("*.npy")}

    def write(self, values):
        path = WORK / "set.h5"
        with h5py.File(path, "w") as file:
            for name, array in values.items():
                file[name] = array
        return path

    def wanted(self, values, normalize):
        width = values["static"].shape[1]
        valid = np.broadcast_to(values["mask"], (COUNT, HEIGHT, width))[..., None] == 1
        images, condition, static = values["images"], values["condition"], values["static"]
        if normalize == "standardize":
            images = standardized(images, (0, 1, 2), valid)
            condition = standardized(condition, (0, 1, 2))
            static = standardized(static, (0, 1))
        condition = upsampled(condition, HEIGHT // condition.shape[1])
        shared = np.broadcast_to(np.concatenate([static, positions(width)], -1), (COUNT, HEIGHT, width, 5))
        return {
            "x0": np.where(valid, images, 0),
            "beside": np.concatenate([condition, shared], -1),
            "parameters": standardized(values["parameters"], 0),
            "valid": valid,
        }

    def assert_close(self, seen, wanted, flips=None):
        for name, array in wanted.items():
            if array.ndim == 4:
                array = np.moveaxis(array, -1, 1)
                if flips is not None:
                    array = np.where(flips[:, None, None, None], array[..., ::-1], array)
            np.testing.assert_allclose(seen[name], array, rtol=2e-5, atol=2e-5, err_msg=name)

    def test_is_what_numpy_makes_of_the_fields(self):
        for coarser in (1, 2, 4):
            for mask_of_set in (False, True):
                values = arrays(coarser, seed=coarser, mask_of_set=mask_of_set)
                path = self.write(values)
                for normalize in ("none", "standardize"):
                    self.assert_close(self.seen(path, normalize), self.wanted(values, normalize))

    def test_the_masked_loss_is_a_loop_over_valid_elements(self):
        values = arrays()
        seen = self.seen(self.write(values))
        for n in range(COUNT):
            total, count = 0.0, 0
            for y, x in zip(*np.nonzero(values["mask"][n]), strict=True):
                for c in range(2):
                    value = float(values["images"][n, y, x, c])
                    total += (np.sin(10 * value) - 0.25 - value) ** 2
                    count += 1
            self.assertAlmostEqual(seen["losses"][n], total / max(count, 1), delta=1e-4)
        self.assertEqual(seen["losses"][3], 0.0)

    def expect_windows(self, path, padding, side):
        """Windows of what is seen of whole images, each at one place."""
        height, width = 4, 6
        together = lambda seen: np.concatenate([seen[name] for name in ("x0", "beside", "valid")], 1)  # noqa: E731
        whole = together(self.seen(path))
        windows = together(self.seen(path, side=side, patch=(height, width, padding)))
        self.assertEqual(windows.shape, (COUNT, whole.shape[1], height, width))
        places, flips = set(), set()
        for image, window in zip(whole, windows, strict=True):
            found = [
                (row, column, flip)
                for row in range(HEIGHT)
                for column in range(WIDTH)
                for flip in (1, -1)
                if np.allclose(np.roll(image, (-row, -column), (1, 2))[:, :height, :width][..., ::flip], window, atol=1e-6)
            ]
            self.assertEqual(len(found), 1)
            places.add(found[0][:2])
            flips.add(found[0][2])
        self.assertGreater(len(places), COUNT // 2)
        self.assertEqual(flips, {1} if side == "upright" else {1, -1})
        across = [place for place in places if place[0] > HEIGHT - height or place[1] > WIDTH - width]
        self.assertEqual(bool(across), padding == "periodic")

    def test_windows_of_all_fields_lie_at_one_place(self):
        for padding, coarser, mask_of_set, side in (
            ("zeros", 1, True, "upright"),
            ("zeros", 4, False, "flipped"),
            ("periodic", 2, False, "upright"),
            ("periodic", 2, True, "flipped"),
        ):
            self.expect_windows(self.write(arrays(coarser, mask_of_set=mask_of_set)), padding, side)

    def expect_turned(self, seen, wanted, vector):
        kinds = set()
        for n in range(COUNT):
            found = []
            for kind in [(quarters, mirrored) for quarters in range(4) for mirrored in (False, True)]:
                together = [
                    turned(wanted["x0"][n], *kind, vector=vector),
                    turned(wanted["beside"][n], *kind, vector=vector),
                    turned(wanted["valid"][n], *kind),
                ]
                close = [
                    np.allclose(np.moveaxis(seen[name][n], 0, -1), array, rtol=1e-4, atol=1e-4)
                    for name, array in zip(("x0", "beside", "valid"), together, strict=True)
                ]
                found += [kind] if all(close) else []
            self.assertEqual(len(found), 1, n)
            kinds.update(found)
        self.assertGreater(len(kinds), 4)

    def test_turns_all_fields_of_an_image_alike_and_vectors_with_them(self):
        for coarser, mask_of_set in ((1, False), (2, True)):
            values = arrays(coarser, mask_of_set=mask_of_set, width=HEIGHT)
            self.expect_turned(self.seen(self.write(values), side="turned"), self.wanted(values, "none"), vector=True)

    def gridded(self, coarser, mask_of_set=False, width=WIDTH):
        """A folder two of whose variables have grids, and what the model sees of its values."""
        values = arrays(coarser, mask_of_set=mask_of_set, width=width)
        transforms, seen = {}, dict(values)
        for name, channel in (("images", 1), ("condition", 2)):
            transforms[name, channel], of_channel = grid(channel, values[name])
            seen[name] = np.concatenate([values[name][..., :-1], of_channel[..., None]], -1)
        return write_folder(WORK / "grids", values, [5, 7], transforms), self.wanted(seen, "none")

    def test_grids_are_cut_mirrored_and_turned_with_their_images(self):
        for coarser, mask_of_set in ((1, False), (2, True), (4, False)):
            folder, wanted = self.gridded(coarser, mask_of_set)
            self.assert_close(self.seen(folder), wanted)
            seen = self.seen(folder, side="flipped")
            flips = np.array([not np.allclose(a, b, atol=1e-3) for a, b in
                              zip(seen["beside"], np.moveaxis(wanted["beside"], -1, 1), strict=True)])  # fmt: skip
            self.assertTrue(0 < flips.sum() < COUNT)
            self.assert_close(seen, wanted, flips)
            for padding, side in (("zeros", "flipped"), ("periodic", "upright")):
                self.expect_windows(folder, padding, side)
        for coarser in (1, 2):
            folder, wanted = self.gridded(coarser, width=HEIGHT)
            self.expect_turned(self.seen(folder, side="turned"), wanted, vector=False)

    def test_mirrors_all_fields_of_an_image_alike(self):
        values = arrays()
        path = self.write(values)
        seen = self.seen(path, "standardize", "flipped")
        wanted = self.wanted(values, "standardize")
        flips = np.array([np.allclose(a, b[..., ::-1], atol=1e-5) for a, b in
                          zip(seen["x0"], np.moveaxis(wanted["x0"], -1, 1), strict=True)])  # fmt: skip
        flips[3] = np.allclose(seen["beside"][3, :3], np.moveaxis(wanted["beside"], -1, 1)[3, :3, :, ::-1], atol=1e-5)
        self.assertTrue(0 < flips.sum() < COUNT)
        self.assert_close(seen, wanted, flips)

    def test_leaves_out_conditions_of_a_part_of_the_images(self):
        values = arrays()
        path = self.write(values)
        whole = self.seen(path)
        self.assertNotIn("kept", whole)
        seen = self.seen(path, dropout=0.5)
        kept = seen["kept"] == 1
        self.assertTrue(0 < kept.sum() < COUNT)
        np.testing.assert_array_equal(seen["beside"][~kept, :3], 0)
        np.testing.assert_array_equal(seen["beside"][kept], whole["beside"][kept])
        np.testing.assert_array_equal(seen["beside"][:, 3:], whole["beside"][:, 3:])
        less = self.seen(path, dropout=0.2)["kept"] == 1
        self.assertTrue((less >= kept).all(), "a coin is a function of seed, step and position")

    def test_a_folder_of_shards_is_the_same_and_its_transforms_count(self):
        transforms = {
            ("images", 0): {"type": "standardize", "mean": 2.5, "std": 3.0},
            ("images", 1): {"type": "minmax", "min": -5.0, "max": 10.0},
            ("condition", 0): {"type": "quantile", "from": [-0.5, 0.25, 1.0], "to": [-2.0, 0.0, 0.5]},
            ("condition", 1): {"type": "affine", "scale": 0.5, "offset": 2.0},
            ("static", 0): {"type": "log1p", "scale": 0.25, "offset": -1.0},
        }
        values = arrays()
        folder = write_folder(WORK / "set", values, [5, 0, 7], transforms)
        wanted_values = {name: array.astype(np.float64) for name, array in values.items() if name != "mask"}
        wanted_values["mask"] = values["mask"]
        wanted_values["images"][..., 0] = (values["images"][..., 0] - 2.5) / 3
        wanted_values["images"][..., 1] = 2 * (values["images"][..., 1] + 5) / 15 - 1
        x = wanted_values["condition"][..., 0].copy()  # the outer lines go on
        wanted_values["condition"][..., 0] = np.where(x <= 0.25, -2 + (x + 0.5) / 0.375, (x - 0.25) / 1.5)
        wanted_values["condition"][..., 1] = 0.5 * values["condition"][..., 1] + 2
        wanted_values["static"] = 0.25 * np.log1p(values["static"].astype(np.float64)) - 1
        self.assert_close(self.seen(folder), self.wanted(wanted_values, "none"))
        said = ddpm("data", "verify", folder).stdout
        self.assertIn("all as they were written", said)

    def test_a_changed_bit_of_any_field_is_found(self):
        values = arrays()
        folder = write_folder(WORK / "damaged", values, [5, 7])
        shard = folder / "shard-00001-of-00002.h5"
        with h5py.File(shard) as file:
            offsets = {name: file[name].id.get_offset() for name in ("images", "condition", "mask", "parameters")}
        whole = shard.read_bytes()
        for name, offset in offsets.items():
            shard.write_bytes(whole[: offset + 3] + bytes([whole[offset + 3] ^ 1]) + whole[offset + 4 :])
            process = ddpm("data", "verify", folder, check=False)
            self.assertEqual(process.returncode, 3, name)
            process = subprocess.run([PROGRAM, folder, WORK, "none", "upright", "0"], capture_output=True, text=True, timeout=60)
            self.assertNotEqual(process.returncode, 0, name)
            self.assertRegex(process.stderr, "is damaged" if name != "parameters" else "the file is damaged", name)
        for part in (0.3, 0.6, 0.99):
            shard.write_bytes(whole[: int(len(whole) * part)])
            self.assertEqual(ddpm("data", "verify", folder, check=False).returncode, 3)


if __name__ == "__main__":
    unittest.main(verbosity=2)
