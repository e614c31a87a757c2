"""h5py reads our shards, and we read h5py's files.

Usage: peers_test.py PEER_FILES (the program made from peer_files.cpp)
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import h5py
import hdf5plugin
import numpy as np

sys.path.insert(0, str(Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from crc32c import crc32c  # noqa: E402

PEER_FILES = sys.argv.pop(1)


def sample_images(count, dtype):
    """What tests/data/sample_set.h writes."""
    index, element = np.ogrid[:count, : 8 * 6 * 3]
    values = ((index * 37 + element * 11 + element // 7 * 5) % 256).reshape(count, 8, 6, 3)
    return values.astype(np.uint8) if dtype == "u8" else ((values - 100) / 8).astype(np.float32)


class PeersTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)

    def written(self, dtype):
        subprocess.run([PEER_FILES, "write", self.folder / dtype, dtype], check=True)
        return self.folder / dtype, json.loads((self.folder / dtype / "dataset.json").read_text())

    def dumped(self, paths, how="dump"):
        """(images as bytes, shape, labels) of each path, as our reader sees them."""
        result = subprocess.run([PEER_FILES, how, *paths], check=True, capture_output=True, text=True)
        lines = [[int(n) for n in line.split()] for line in result.stdout.splitlines()]
        raw = [Path(f"{path}.raw").read_bytes() for path in paths]
        return list(zip(raw, lines[::2], lines[1::2], strict=True))

    def test_h5py_reads_our_shards(self):
        for dtype in ("u8", "f32"):
            folder, info = self.written(dtype)
            images = sample_images(9, dtype)
            for shard in info["shards"]:
                here = images[shard["first"] : shard["first"] + shard["count"]]
                with h5py.File(folder / shard["file"]) as file:
                    np.testing.assert_array_equal(file["images"][:], here)
                    self.assertEqual(file["images"].dtype, here.dtype)
                    self.assertIsNone(file["images"].chunks)
                    np.testing.assert_array_equal(file["checksums"][:], [crc32c(i.tobytes()) for i in here])
                    index = np.arange(shard["first"], shard["first"] + shard["count"])
                    np.testing.assert_array_equal(file["labels"][:], (index * index + index // 2) % 3)

    def test_the_description_is_true(self):
        for dtype in ("u8", "f32"):
            folder, info = self.written(dtype)
            images = sample_images(9, dtype).astype(np.float64)
            self.assertEqual((info["count"], info["height"], info["width"], info["channels"]), (9, 8, 6, 3))
            for channel, seen in enumerate(info["statistics"]):
                values = images[..., channel]
                for name in ("mean", "std", "min", "max"):
                    self.assertAlmostEqual(seen[name], getattr(values, name)(), delta=1e-11)
            for shard in info["shards"]:
                data = (folder / shard["file"]).read_bytes()
                self.assertEqual(shard["size"], len(data))
                self.assertEqual(shard["sha256"], hashlib.sha256(data).hexdigest())
                header = data[: shard["header_size"]]
                self.assertEqual(shard["header_sha256"], hashlib.sha256(header).hexdigest())
                images_at = shard["size"] - shard["count"] * 8 * 6 * 3 * (1 if dtype == "u8" else 4)
                self.assertEqual(shard["header_size"], images_at)
            checksum = info.pop("checksum")
            # Python and we print floats alike as long as no exponent is needed.
            text = json.dumps(info, separators=(",", ":"), ensure_ascii=False)
            self.assertEqual(checksum, hashlib.sha256(text.encode()).hexdigest())

    def test_the_description_says_where_fields_lie(self):
        folder, info = self.written("u8")
        self.assertEqual([(f["name"], f["role"], f["path"]) for f in info["fields"]],
                         [("images", "image", "/images"), ("labels", "labels", "/labels")])
        self.assertEqual([v["name"] for v in info["fields"][0]["variables"]], ["red", "green", "blue"])
        wanted = self.dumped([folder])
        for shard in info["shards"]:
            with h5py.File(folder / shard["file"], "r+") as file:
                file.move("images", "photos")
                file.move("labels", "genera")
            data = (folder / shard["file"]).read_bytes()
            self.assertEqual(shard["size"], len(data))
            shard["sha256"] = hashlib.sha256(data).hexdigest()
            shard["header_sha256"] = hashlib.sha256(data[: shard["header_size"]]).hexdigest()
        info["fields"][0].update(name="photos", path="/photos")
        info["fields"][1].update(name="genera", path="/genera")
        del info["checksum"]
        text = json.dumps(info, separators=(",", ":"), ensure_ascii=False)
        info["checksum"] = hashlib.sha256(text.encode()).hexdigest()
        (folder / "dataset.json").write_text(json.dumps(info))
        self.assertEqual(self.dumped([folder]), wanted)

    def test_we_read_what_h5py_writes(self):
        rng = np.random.default_rng(0)
        bytes_nhwc = rng.integers(0, 256, (7, 5, 4, 3), np.uint8)
        floats_nhwc = rng.standard_normal((7, 5, 4, 3)).astype(np.float32)
        labels = rng.integers(0, 10, 7)
        compressed = {"chunks": True, "compression": "gzip", "shuffle": True}
        cases = [
            (images, stored_type, order, options, label_type)
            for images, stored_type in ((bytes_nhwc, "u1"), (floats_nhwc, "<f4"), (floats_nhwc, ">f4"))
            for order in ("NHWC", "NCHW")
            for options in ({}, compressed)
            for label_type in ("<i8", ">i2", "u1", None)
        ]
        paths = [self.folder / f"{i}.h5" for i in range(len(cases))]
        for path, (images, stored_type, order, options, label_type) in zip(paths, cases):
            with h5py.File(path, "w") as file:
                stored = images if order == "NHWC" else images.transpose(0, 3, 1, 2)
                file.create_dataset("images", data=stored, dtype=stored_type, **options).attrs["layout"] = order
                if label_type:
                    file["labels"] = labels.astype(label_type)
        for case, (raw, shape, seen_labels) in zip(cases, self.dumped(paths), strict=True):
            images, label_type = case[0], case[4]
            with self.subTest(case=case[1:]):
                self.assertEqual(tuple(shape), images.shape)
                self.assertEqual(raw, images.tobytes())
                self.assertEqual(seen_labels, labels.tolist() if label_type else [])

    def test_we_read_chunks_that_other_codecs_packed(self):
        """Shapes that chunks do not divide, each element size and order; bit for bit, NaNs aside, which are refused."""
        values = np.random.default_rng(1).standard_normal((11, 10, 9, 3)).cumsum(axis=2) * 30 + 100
        codecs = {
            "none": {},
            "gzip": {"compression": "gzip"},
            "shuffled": {"compression": "gzip", "compression_opts": 4, "shuffle": True},
            "summed": {"compression": "gzip", "shuffle": True, "fletcher32": True},
            "sums alone": {"fletcher32": True},
            "shuffle alone": {"shuffle": True},
            "LZF": {"compression": "lzf"},
            "LZF, shuffled": {"compression": "lzf", "shuffle": True},
            "LZ4": hdf5plugin.LZ4(),
            "LZ4 in blocks": {**hdf5plugin.LZ4(nbytes=100), "shuffle": True},
            "Zstandard": hdf5plugin.Zstd(),
            "bitshuffle": hdf5plugin.Bitshuffle(cname="none"),
            "bitshuffle in blocks": hdf5plugin.Bitshuffle(nelems=64, cname="none"),
            "bitshuffle, LZ4": hdf5plugin.Bitshuffle(),
            "bitshuffle in blocks, LZ4": hdf5plugin.Bitshuffle(nelems=64, cname="lz4"),
            "bitshuffle, Zstandard": hdf5plugin.Bitshuffle(cname="zstd"),
            "Zstandard, shuffled": {**hdf5plugin.Zstd(clevel=9), "shuffle": True},
        }
        for codec, options in codecs.items():
            for dtype in ("u1", "<f4", ">f4"):
                for chunk in ((1, 10, 9, 3), (4, 10, 9, 3), (3, 4, 5, 2), (16, 10, 9, 1)):
                    with self.subTest(codec=codec, dtype=dtype, chunk=chunk):
                        path = self.folder / "chunks.h5"
                        with h5py.File(path, "w") as file:
                            stored = values.astype(dtype)
                            file.create_dataset("images", data=stored, chunks=chunk, maxshape=(None, 10, 9, 3), **options)
                        ((raw, shape, _),) = self.dumped([path])
                        self.assertEqual(tuple(shape), values.shape)
                        self.assertEqual(raw, stored.astype(stored.dtype.newbyteorder("=")).tobytes())
                        if chunk == (3, 4, 5, 2):
                            ((adopted, _, _),) = self.dumped([path], "adopt")
                            self.assertEqual(adopted, raw)
                            path.with_name("chunks.h5.ddpm").unlink()

    def test_threads_unpack_what_h5py_writes(self):
        """More chunks than one thread unpacks, in shapes that do not divide."""
        values = np.random.default_rng(2).standard_normal((70, 64, 64, 3)).cumsum(axis=1).astype(np.float32)
        path = self.folder / "large.h5"
        for codec in ({}, {"compression": "gzip", "shuffle": True}, hdf5plugin.LZ4(), hdf5plugin.Bitshuffle()):
            for chunk in ((1, 64, 64, 3), (8, 30, 64, 3), (8, 64, 64, 2)):
                with self.subTest(codec=codec, chunk=chunk):
                    with h5py.File(path, "w") as file:
                        file.create_dataset("images", data=values, chunks=chunk, **codec)
                    self.assertEqual(self.dumped([path])[0][0], values.tobytes())


if __name__ == "__main__":
    unittest.main()
