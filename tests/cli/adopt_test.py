"""`ddpm data adopt`: digests beside a file of another program, and what verify, inspect and training say afterwards."""

import hashlib
import json
import os
import pathlib
import struct
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from crc32c import crc32c  # noqa: E402
from ddpm_run import ddpm, metrics, write_config  # noqa: E402
from plain_hdf5 import DATA, UNDEFINED, plain_hdf5  # noqa: E402

WORK = pathlib.Path.cwd()
SHAPE = (64, 16, 16, 3)
VALUES = bytes(range(256)) * 192
RUN = struct.Struct("<QQQQII")  # as data/adopted_file.h says: offset, bytes, first, number, block, array


def written(name, **odd):
    path = WORK / name
    sidecar_of(path).unlink(missing_ok=True)
    path.write_bytes(plain_hdf5(SHAPE, VALUES, **odd))
    return path


def adopted(name):
    path = written(name)
    ddpm("data", "adopt", path)
    return path


def sidecar_of(path):
    return path.with_name(path.name + ".ddpm")


def flip(path, place):
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


class Adopt(unittest.TestCase):
    def refused(self, command, words, ranks=(1, 2)):
        for n in ranks:
            process = ddpm(*command, ranks=n, check=False)
            self.assertEqual(process.returncode, 3, process.stderr)
            errors = [line for line in process.stderr.splitlines() if line.startswith("ddpm: error")]
            self.assertEqual(len(errors), 1, process.stderr)
            for word in words:
                self.assertIn(word, errors[0])

    def test_the_digests_are_those_of_the_files_bytes(self):
        path = written("described.h5")
        before = path.read_bytes()
        said = json.loads(ddpm("data", "adopt", path, "--json").stdout)["files"][0]
        self.assertEqual(path.read_bytes(), before)
        line, table = sidecar_of(path).read_bytes().split(b"\n", 1)
        about = json.loads(line)
        self.assertEqual((about["file"], about["size"]), (path.name, len(before)))
        self.assertEqual(about["arrays"], [{"name": "/images", "bytes": len(VALUES), "compared_on_read": True}])
        self.assertEqual(said["arrays"], about["arrays"])
        self.assertEqual(said["bytes_compared_on_open"], len(before) - len(VALUES))
        self.assertEqual(about["table_sha256"], hashlib.sha256(table).hexdigest())
        self.assertEqual(RUN.unpack_from(table), (DATA, len(VALUES), 0, 0, 16384, 0))
        rest = before[:DATA] + before[DATA + len(VALUES) :]
        self.assertEqual(table[RUN.size :][:64].decode(), hashlib.sha256(rest).hexdigest())
        blocks = [VALUES[i : i + 16384] for i in range(0, len(VALUES), 16384)]
        self.assertEqual(table[RUN.size + 64 :], struct.pack(f"<{len(blocks)}I", *map(crc32c, blocks)))

    def test_all_ranks_write_the_same(self):
        path = adopted("ranks.h5")
        alone = sidecar_of(path).read_bytes()
        sidecar_of(path).unlink()
        ddpm("data", "adopt", path, ranks=3)
        self.assertEqual(sidecar_of(path).read_bytes(), alone)

    def test_verify_compares_every_byte(self):
        path = adopted("verified.h5")
        for ranks in (1, 2):
            self.assertIn("64 images, all bytes of the file as they were when it was adopted",
                          ddpm("data", "verify", path, ranks=ranks).stdout)  # fmt: skip
        said = json.loads(ddpm("data", "verify", path, "--json").stdout)
        self.assertEqual(said["compared_with_digests"], {"files": True, "images": True})
        flip(path, DATA + 20_000)
        self.refused(("data", "verify", path), [f"{path}:/images: 16384 bytes at byte {DATA + 16384}", "CRC-32C"])

    def test_a_changed_byte_is_an_error_wherever_it_lies(self):
        path = adopted("changed.h5")
        config = write_config(WORK / "changed.toml", WORK / "changed-run", path)
        for place, words in ((DATA + 30_000, ["/images", f"at byte {DATA + 16384}", "adopt it again"]),
                             (1060, ["was changed since it was adopted", f"ddpm data adopt {path}"])):  # fmt: skip
            flip(path, place)
            for command in (("data", "inspect", path, "--all"), ("train", config)):
                self.refused(command, [str(path), *words])
            flip(path, place)

    def test_training_gives_what_it_gave_before(self):
        losses = []
        for name in ("plain", "adopted"):
            path = adopted(f"train-{name}.h5") if name == "adopted" else written(f"train-{name}.h5")
            ddpm("train", write_config(WORK / f"{name}.toml", WORK / f"{name}-run", path))
            losses.append([line["loss"] for line in metrics(WORK / f"{name}-run")])
        self.assertEqual(*losses)

    def test_files_by_a_pattern(self):
        paths = [written(f"year_{number}.h5") for number in (1, 2)]
        said = json.loads(ddpm("data", "adopt", WORK / "year_*.h5", "--json", ranks=2).stdout)["files"]
        self.assertEqual([one["file"] for one in said], [str(path) for path in paths])

    def test_what_is_no_hdf5_file_is_refused(self):
        notes = WORK / "notes.txt"
        notes.write_text("not HDF5")
        self.refused(("data", "adopt", notes), [str(notes)])
        self.refused(("data", "adopt", WORK / "absent.h5"), ["absent.h5"])
        self.refused(("data", "adopt", WORK / "absent_*.h5"), ["no file has a name like this"])
        broken = written("broken.h5", tree=UNDEFINED)
        self.refused(("data", "adopt", broken), [str(broken), "child process"])
        self.assertEqual([path.name for path in WORK.glob("*.ddpm") if path.name.startswith(("notes", "broken"))], [])

    def test_digests_that_cannot_be_written(self):
        path = written("twice.h5")
        sidecar_of(path).mkdir()
        (sidecar_of(path) / "full").touch()
        process = ddpm("data", "adopt", path, check=False)
        self.assertEqual(process.returncode, 4, process.stderr)
        (sidecar_of(path) / "full").unlink()
        sidecar_of(path).rmdir()


if __name__ == "__main__":
    unittest.main(verbosity=2)
