"""`ddpm data append`, `reshard` and `--align` of arrays that numpy and h5py wrote, compared with what they make of them.
The program is $DDPM."""

import hashlib
import json
import shutil
import subprocess
import time
import unittest

import h5py
import numpy as np

from arrays_case import NAMED, ArraysCase, fields, stored
from data_runs import DDPM
from ddpm_run import digests


class ChangedArrays(ArraysCase):
    def expect_aligned(self, folder, alignment):
        """Images, conditions and masks begin at multiples; all else lies before them."""
        listed = json.loads((folder / "dataset.json").read_text())
        self.assertEqual(listed.get("alignment"), alignment)
        blocks = [f["path"] for f in listed["fields"] if f["role"] in ("image", "condition", "mask") and not f.get("per_set")]
        for shard in listed["shards"]:
            with h5py.File(folder / shard["file"]) as file:
                offsets = {name: file[name].id.get_offset() for name in file}
            self.assertEqual({offsets["/images"[1:]] % alignment, shard["header_size"] % alignment}, {0})
            self.assertEqual([path for path in blocks if offsets[path[1:]] % alignment], [])
            first = min(offsets[path[1:]] for path in blocks)
            self.assertEqual(first, shard["header_size"])
            self.assertTrue(all(at < first for name, at in offsets.items() if f"/{name}" not in blocks), offsets)

    def test_images_begin_at_multiples(self):
        for name, of_each in (("each", True), ("set", False)):
            source = self.write("stored", fields(40, mask_of_each=of_each))
            first, stripe = {}, 65536
            for ranks in (1, 2, 3):
                output = self.root / f"aligned-{name}-{ranks}"
                create = ("create", source, *NAMED, "--shards", 3, "--output", output)
                self.ddpm(*create, "--align", stripe, ranks=ranks)
                self.expect_aligned(output, stripe)
                first = first or digests(output)
                self.assertEqual(digests(output), first)
            self.ddpm("verify", output, ranks=2)
            shown = self.ddpm("inspect", output).stdout
            self.assertIn("images begin at multiples of 65,536 bytes", shown)
            inspected = json.loads(self.ddpm("inspect", output, "--json").stdout)
            self.assertEqual(inspected["alignment"], stripe)
            usual = self.root / f"usual-{name}"
            self.ddpm("create", source, *NAMED, "--shards", 3, "--output", usual)
            self.assertNotIn("alignment", json.loads((usual / "dataset.json").read_text()))
            hashes = [json.loads(self.ddpm("inspect", p, "--json").stdout)["content_hash"] for p in (usual, output)]
            self.assertEqual(*hashes)
            self.ddpm("append", output, source, *NAMED, "--shards", 2, ranks=2)
            self.expect_aligned(output, stripe)
            for options, wanted in ((("--align", 1048576), 1048576), ((), stripe), (("--align", 0), None)):
                other = self.root / f"other-{name}-{wanted}"
                self.ddpm("reshard", output, "--shards", 2, "--output", other, *options, ranks=2)
                self.ddpm("verify", other)
                if wanted:
                    self.expect_aligned(other, wanted)
                    continue
                self.assertNotIn("alignment", json.loads((other / "dataset.json").read_text()))
        made = self.root / "generated"
        self.ddpm("generate", "ising", "--beta", "0.3,0.5", "--count", 10, "--size", 8, "--sweeps", 2, "--shards", 2,
                  "--align", 8192, "--output", made, ranks=2)  # fmt: skip
        self.expect_aligned(made, 8192)
        self.ddpm("verify", made)

    def test_resharded_sets_have_the_same_content(self):
        _, before = self.create(self.write("h5", fields()), *NAMED, "--transform", "standardize", "--shards", 5)
        self.ddpm("reshard", self.output, "--shards", 3, "--output", self.root / "three", ranks=2)
        self.ddpm("reshard", self.root / "three", "--shards", 5, "--output", self.root / "five")
        _, three = stored(self.root / "three")
        self.assertEqual(len(three["shards"]), 3)
        self.assertEqual((three["fields"], three["statistics"]), (before["fields"], before["statistics"]))
        inspected = [json.loads(self.ddpm("inspect", s, "--json").stdout) for s in (self.output, self.root / "three")]
        self.assertEqual(inspected[0]["content_hash"], inspected[1]["content_hash"])
        self.assertEqual(digests(self.output), digests(self.root / "five"))

    def test_appended_images_stand_behind_the_others(self):
        first, more = fields(20), fields(9, seed=1)
        more["static"] = first["static"]
        _, before = self.create(self.write("h5", first), *NAMED, "--transform", "standardize", "--shards", 2, "--names", "a,b,c")
        old = digests(self.output)
        twin = self.root / "twin"
        shutil.copytree(self.output, twin)
        source = self.write("stored", more)
        self.ddpm("append", self.output, source, *NAMED, "--shards", 3, ranks=2)
        self.ddpm("append", twin, source, *NAMED, "--shards", 3)
        self.assertEqual(digests(self.output), digests(twin))
        found, listed = stored(self.output)
        for name, array in first.items():
            whole = array if name == "static" else np.concatenate([array, more[name]])
            np.testing.assert_array_equal(found["image" if name == "images" else name], whole, name)
        self.assertEqual(listed["fields"], before["fields"])
        self.assertEqual([s["file"] for s in listed["shards"][2:]], [f"shard-0000{i}-of-00005.h5" for i in (2, 3, 4)])
        self.assertEqual({name: digest for name, digest in digests(self.output).items() if name in old and name != "dataset.json"},
                         {name: digest for name, digest in old.items() if name != "dataset.json"})
        valid = np.concatenate([first["mask"], more["mask"]]).astype(bool)
        truth = np.concatenate([first["images"], more["images"]])[..., 0][valid].astype(np.float64)
        np.testing.assert_allclose(listed["statistics"][0]["mean"], truth.mean(), rtol=1e-12)
        self.ddpm("verify", self.output)

    def test_a_killed_append_leaves_the_old_set_and_goes_on(self):
        draw = np.random.default_rng(0)
        np.save(self.root / "first.npy", draw.standard_normal((50, 32, 32, 2), np.float32))
        np.savez_compressed(self.root / "more.npz", images=draw.standard_normal((4000, 32, 32, 2), np.float32))
        self.create(self.root / "first.npy", "--shards", 2)
        old = digests(self.output)
        shutil.copytree(self.output, self.root / "whole")
        journal = self.output / "..appended.partial" / "journal"
        command = [DDPM, "data", "append", self.output, self.root / "more.npz", "--shards", "20"]
        process = subprocess.Popen(list(map(str, command)), stderr=subprocess.DEVNULL)
        while not list(journal.glob("shard*.json")) and process.poll() is None:
            time.sleep(0.002)
        process.kill()
        self.assertNotEqual(process.wait(), 0, "the append ended before it could be killed")
        self.assertEqual({name: hashlib.sha256((self.output / name).read_bytes()).hexdigest() for name in old}, old)
        self.ddpm("verify", self.output)
        said = json.loads(self.ddpm(*command[2:], "--json").stdout)
        self.assertGreater(said["reused_shards"], 0)
        self.assertEqual((said["images"], said["added"], said["shards"]), (4050, 4000, 22))
        self.ddpm("append", self.root / "whole", *command[4:], ranks=2)
        self.assertEqual(digests(self.output), digests(self.root / "whole"))

    def test_a_damaged_image_of_the_old_set_ends_an_append(self):
        """Statistics of masked images are made anew, of the old ones too."""
        first, more = fields(8), fields(4, seed=1)
        more["static"] = first["static"]
        self.create(self.write("h5", first), *NAMED, "--shards", 2)
        shard = self.output / "shard-00000-of-00002.h5"
        with h5py.File(shard) as file:
            place = file["images"].id.get_offset()
        content = bytearray(shard.read_bytes())
        content[place + 100] ^= 1
        shard.write_bytes(content)
        old = digests(self.output)
        for ranks in (1, 2):
            self.refused(3, "shard-00000-of-00002.h5:/images", "append", self.output, self.write("stored", more), *NAMED, ranks=ranks)
            self.assertEqual({name: digest for name, digest in digests(self.output).items() if name in old}, old)

    def test_an_append_that_does_not_fit_leaves_the_set_as_it_was(self):
        first = fields(8)
        self.create(self.write("h5", first), *NAMED, "--shards", 2)
        old = digests(self.output)
        other = fields(4, seed=2)
        for words, changed in (
            ("static", other),  # other values, which all images share
            ("condition", {**other, "static": first["static"], "condition": other["condition"][..., :1]}),
            ("holds 2", {**other, "static": first["static"], "mask": other["mask"] * 2}),
        ):
            source = self.write("stored", changed)
            self.refused(3, words, "append", self.output, source, *NAMED)
            self.assertEqual({f.name for f in self.output.iterdir() if f.is_file()}, set(old))
            shutil.rmtree(self.output / "..appended.partial", ignore_errors=True)  # for the same command to go on with
            self.assertEqual(digests(self.output), old)
            self.ddpm("verify", self.output)


if __name__ == "__main__":
    unittest.main()
