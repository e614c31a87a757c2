"""`ddpm data create` from tar and zip archives, as a user runs it. Archives are written by Python's tarfile and zipfile, sets are
read by h5py."""

import io
import json
import subprocess
import tarfile
import unittest
import zipfile

import h5py
import numpy as np
from PIL import Image

from data_runs import DDPM, kill_and_run_again, read, run
from ddpm_run import digests
from picture_runs import Case, encoded


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
            wanted = digests(self.create(source, *self.size, "--validation-share", "20%"))
            for ranks in (2, 3, 4):
                with self.subTest(source=source.name, ranks=ranks):
                    made = self.create(source, *self.size, "--validation-share", "20%", ranks=ranks)
                    self.assertEqual(digests(made), wanted)

    def test_an_archive_whose_first_file_is_hdf5_is_one(self):
        """The first bytes of a plain tar are those of its first member's name, and then the member's own."""
        hdf5 = self.root / "a.h5"
        with h5py.File(hdf5, "w") as file:
            file["images"] = np.zeros((2, 14, 20, 3), np.uint8)
        inside = {"a.h5": hdf5.read_bytes(), **self.files}
        output = self.create(self.tar("first.tar", files=inside), *self.size)
        np.testing.assert_array_equal(read(output)[0], self.pixels)
        self.assertEqual(list(self.skipped(output)), ["a.h5"])

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
        self.refused(3, "cut.tar: the archive was cut", self.write("cut.tar", whole[: end - 512]), *self.size, ranks=2)
        packed = self.tar("a.tar.gz", "w:gz").read_bytes()
        self.refused(3, "cut.tar.gz", self.write("cut.tar.gz", packed[: len(packed) // 2]), *self.size)
        self.refused(3, "none.tar", self.write("none.tar", b"no archive" * 100), *self.size)
        self.refused(3, "empty.zip", self.write("empty.zip", b""), *self.size)
        self.refused(3, "no file in it ends in .png", self.tar("other.tar", files={"a.txt": b"x"}), *self.size)
        stored = self.zip("a.zip", zipfile.ZIP_STORED).read_bytes()
        for end in (stored.rindex(b"PK\3\4"), stored.index(b"PK\1\2"), len(stored) - 22):  # without the last file, or directory
            self.refused(3, "it has no directory at its end", self.write("cut.zip", stored[:end]), *self.size)
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
                self.assertEqual(digests(output), digests(whole))
        self.assertEqual([p for p in self.root.iterdir() if p.name.startswith(".")], [])


if __name__ == "__main__":
    unittest.main()
