"""Plain .h5 files, without digests: what is said of them, ones that change, and ones that HDF5 does not survive."""

import json
import math
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_job import wait_until  # noqa: E402
from ddpm_run import DDPM, MPIRUN, TIMEOUT_S, ddpm, files_below, make_dataset, metrics, write_config  # noqa: E402
from plain_hdf5 import FLOAT32, UNDEFINED, plain_hdf5  # noqa: E402

WORK = pathlib.Path.cwd()
SHAPE = (64, 16, 16, 3)
VALUES = bytes(range(256)) * 192


def written(name, **odd):
    path = WORK / name
    path.unlink(missing_ok=True)
    path.write_bytes(plain_hdf5(SHAPE, VALUES, **odd))
    return path


def errors_of(stderr):
    return [line for line in stderr.splitlines() if line.startswith("ddpm: error")]


class Verify(unittest.TestCase):
    def test_says_what_was_compared_with_digests(self):
        plain = written("verified.h5")
        folder = make_dataset(WORK / "squares")
        shard = sorted(folder.glob("*.h5"))[0]
        for path, words, files, images in (
            (plain, "64 images, all of them readable; the file has no digests", False, False),
            (shard, "all with the CRC-32C that was written with them; the rest of the file", False, True),
            (folder, "60 images, all as they were written", True, True),
        ):
            for ranks in (1, 2):
                self.assertIn(words, ddpm("data", "verify", path, ranks=ranks).stdout)
            said = json.loads(ddpm("data", "verify", path, "--json").stdout)
            self.assertEqual(said["compared_with_digests"], {"files": files, "images": images})
            self.assertTrue(said["valid"])


class OldestFormat(unittest.TestCase):
    def test_volumes_of_float32_are_read(self):
        shape = (4, 4, 8, 8, 2)
        values = [i % 8 / 4.0 - 1.0 for i in range(math.prod(shape))]
        path = WORK / "volumes.h5"
        path.write_bytes(plain_hdf5(shape, struct.pack(f"<{len(values)}f", *values), FLOAT32))
        said = json.loads(ddpm("data", "inspect", path, "--json").stdout)
        (field,) = said["fields"]
        self.assertEqual((said["count"], field["shape"], field["dtype"]), (4, [4, 8, 8, 2], "float32"))
        self.assertEqual([(seen["min"], seen["mean"], seen["max"]) for seen in said["statistics"]], [(-1.0, -0.25, 0.5), (-0.75, 0.0, 0.75)])


class DamagedFiles(unittest.TestCase):
    def refused(self, name, words, **odd):
        path = written(f"{name}.h5", **odd)
        config = write_config(WORK / f"{name}.toml", WORK / f"{name}-run", path)
        for command in (("data", "inspect", path), ("data", "verify", path), ("train", config),
                        ("train", config, "--dry-run")):  # fmt: skip
            for ranks in (1, 2):
                process = ddpm(*command, ranks=ranks, check=False)
                self.assertEqual(process.returncode, 3, process.stderr)
                self.assertEqual(len(errors_of(process.stderr)), 1, process.stderr)
                for word in (str(path), *words):
                    self.assertIn(word, process.stderr)
                self.assertNotIn("Process received signal", process.stderr)
        self.assertEqual([name for name in files_below(WORK) if "core" in name or f"{name}-run" in name], [])

    def test_addresses_that_lead_nowhere(self):
        words = ["the child process in which HDF5 opened it", "signal 11 (Segmentation fault)", "not damaged is wanted"]
        for field in ("names", "tree", "symbols"):
            with self.subTest(field):
                self.refused(f"nowhere-{field}", words, **{field: UNDEFINED})

    def test_a_file_that_takes_for_ever_and_all_memory(self):
        path = written("endless.h5", name_bytes=2**64 - 1)
        process = ddpm("data", "inspect", path, check=False)  # which limit it meets first is the machine's choice
        self.assertEqual(process.returncode, 3, process.stderr)
        self.assertIn(f"{path}: the child process in which HDF5 opened it", process.stderr)
        self.assertEqual(len(process.stderr.splitlines()), 1, process.stderr)

    def test_an_error_of_hdf5s_own_is_said_as_before(self):
        self.refused("too-long", ["cannot look for /images: actual len exceeds EOA"], name_bytes=2**40)


class ChangedFiles(unittest.TestCase):
    def trained_until_changed(self, name, change, words, ranks=1):
        path = written(f"{name}.h5")
        run = WORK / f"{name}-run"
        shutil.rmtree(run, ignore_errors=True)
        # Nothing is read ahead: otherwise it would take a minute until training reaches what was read after the change.
        config = write_config(WORK / f"{name}.toml", run, path, train={"steps": 100_000}, data={"prefetch": 0},
                              checkpoint={"every_steps": 2}, batch={"global_size": 4})  # fmt: skip
        command = [*MPIRUN, "-np", str(ranks)] if ranks > 1 else []
        with subprocess.Popen([*command, DDPM, "train", config], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              text=True) as process:  # fmt: skip
            try:
                wait_until(lambda: (run / "LATEST").exists(), TIMEOUT_S, "a checkpoint")
                change(path)
                stderr = process.communicate(timeout=TIMEOUT_S)[1]
            finally:
                process.kill()
        self.assertEqual(process.returncode, 3, stderr)
        errors = errors_of(stderr)  # of each rank that comes to read the file
        self.assertIn(len(errors), range(1, ranks + 1), stderr)
        for word in (str(path), *words):
            self.assertTrue(all(word in line for line in errors), stderr)
        self.assertEqual(ddpm("checkpoint", "verify", run).returncode, 0)
        self.assertTrue(all(line["loss"] > 0 for line in metrics(run)))

    def test_a_file_that_shrinks_while_training(self):
        words = ["it was changed since it was opened", "it has 25600 bytes", "and had 51200 bytes"]
        for ranks in (1, 2):
            self.trained_until_changed(f"shrinks-{ranks}", lambda path: os.truncate(path, 25600), words, ranks)

    def test_a_file_that_is_rewritten_in_place(self):
        def rewrite(path):
            with path.open("r+b") as file:
                file.seek(5000)
                file.write(b"x")

        self.trained_until_changed("rewritten", rewrite, ["it was changed since it was opened"])

    def test_a_file_that_is_replaced(self):
        def replace(path):
            other = written("other.h5")
            os.utime(other, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
            other.rename(path)

        self.trained_until_changed("replaced", replace, ["another file has taken its place since it was opened"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
