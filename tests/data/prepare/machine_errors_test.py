"""`ddpm data create` while system calls fail: no picture is missing because the machine stumbled.

strace lets the calls that one file or folder meets fail. What passes is tried again; what stays ends the command with exit
code 3 and a line that names the file; the set is then absent, and the same command makes the same bytes afterwards.
"""

import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tarfile
import unittest
import zipfile
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_run import DDPM, MPIRUN, TIMEOUT_S, digests, make_pictures  # noqa: E402
from plain_hdf5 import plain_hdf5  # noqa: E402

WORK = pathlib.Path.cwd()
# An error that stays: the call that meets it, and what is said of it. Some are first waited for, for two seconds.
ERRORS = {
    "EMFILE": "Too many open files",
    "ENFILE": "Too many open files in system",
    "ENOMEM": "Cannot allocate memory",
    "ESTALE": "Stale file handle",
    "ETIMEDOUT": "Connection timed out",
    "EIO": "Input/output error",
    "EACCES": "Permission denied",
}
# The calls by which a file is opened, read and looked at, on any processor.
OPEN = "openat"
READ = "read,pread64"
LOOK = "newfstatat,fstat,statx,?stat,?lstat"


def failing(path, calls, error, when=""):
    """A command before the program under which these calls on `path` fail."""
    inject = f"inject={calls}:error={error}" + (f":when={when}" if when else "")
    return ["strace", "-f", "-qq", "-o", "/dev/null", "-P", str(path), "-e", f"trace={calls}", "-e", inject]


def run(command):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


# Which call is the first to fail: each of the first ones, which read metadata, and then fewer and fewer.
CALLS = (*range(1, 9), *(13 * 2**k for k in range(12)))


class MachineErrors(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.pictures = WORK / "pictures"
        shutil.rmtree(cls.pictures, ignore_errors=True)
        make_pictures(cls.pictures, 12)
        (cls.pictures / "a" / "damaged.png").write_bytes(b"not a picture")
        cls.options = ["--size", 16, "--shards", 3, "--labels", "folder"]
        cls.wanted = digests(cls.make("wanted"))
        cls.picture = cls.pictures / "a" / "0003.png"

    @classmethod
    def create(cls, output, *before, source=None):
        return run([*before, DDPM, "data", "create", source or cls.pictures, "--output", output, *cls.options])

    @classmethod
    def make(cls, name):
        output = WORK / name
        shutil.rmtree(output, ignore_errors=True)
        result = cls.create(output)
        assert result.returncode == 0, result.stderr
        return output

    def fresh(self, name):
        output = WORK / name.replace(",", "-")
        shutil.rmtree(output, ignore_errors=True)
        shutil.rmtree(output.with_name(f".{output.name}.partial"), ignore_errors=True)
        return output

    def expect_refused(self, result, output, path, reason):
        self.assertEqual(result.returncode, 3, result.stderr)
        lines = [line for line in result.stderr.splitlines() if line.startswith("ddpm: error:")]
        self.assertEqual(len(lines), 1, result.stderr)
        self.assertIn(str(path), lines[0])
        self.assertIn(reason, lines[0])
        self.assertFalse(output.exists())

    def expect_refused_then_made(self, path, calls, error):
        output = self.fresh(f"{path.name}-{calls}-{error}")
        self.expect_refused(self.create(output, *failing(path, calls, error)), output, path, ERRORS[error])
        again = self.create(output)
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual(digests(output), self.wanted)

    def test_an_error_that_stays_ends_the_command_and_leaves_no_picture_out(self):
        # Waiting takes the most time: four at once.
        with ThreadPoolExecutor(4) as pool:
            cases = [(self.picture, calls, error) for calls in (OPEN, READ) for error in ERRORS]
            cases += [(self.picture, LOOK, error) for error in ("EIO", "EACCES", "ESTALE")]
            cases += [(self.pictures / "b", OPEN, error) for error in ("EACCES", "EIO", "EMFILE")]
            cases += [(self.pictures / "b", "getdents64", error) for error in ("EIO", "ESTALE")]
            running = [(case, pool.submit(self.expect_refused_then_made, *case)) for case in cases]
            for case, result in running:
                with self.subTest(case=case):
                    result.result()

    def test_an_error_that_passes_is_waited_for(self):
        for error in ("EMFILE", "ENFILE", "ENOMEM", "ESTALE", "ETIMEDOUT", "EINTR"):
            for path, calls in ((self.picture, OPEN), (self.picture, READ), (self.pictures / "b", "getdents64")):
                if (calls, error) == ("getdents64", "EINTR"):
                    continue
                with self.subTest(error=error, calls=calls):
                    output = self.fresh(f"passes-{calls}-{error}")
                    result = self.create(output, *failing(path, calls, error, "1"))
                    self.assertEqual(result.returncode, 0, result.stderr)
                    self.assertEqual(digests(output), self.wanted)

    def test_a_listing_that_fails_halfway_is_none(self):
        # The first call lists all that there is, the second says that there is no more.
        output = self.fresh("halfway")
        folder = self.pictures / "b"
        result = self.create(output, *failing(folder, "getdents64", "EIO", "2"))
        self.expect_refused(result, output, folder, "cannot list: Input/output error")

    def test_a_picture_that_vanishes_is_missed(self):
        for calls in (OPEN, LOOK):
            with self.subTest(calls=calls):
                output = self.fresh(f"vanishes-{calls}")
                result = self.create(output, *failing(self.picture, calls, "ENOENT"))
                self.expect_refused(result, output, self.picture, "No such file" if calls == OPEN else "is gone")

    def test_what_one_rank_meets_ends_all(self):
        output = self.fresh("ranks")
        create = [DDPM, "data", "create", self.pictures, "--output", output, *self.options]
        launcher = [*MPIRUN, "-np", 1, *create, ":", "-np", 1]
        # The picture lies in the second shard, which the second rank makes.
        shards = json.loads((WORK / "wanted" / "dataset.json").read_text())["shards"]
        names = sorted(str(p.relative_to(self.pictures)) for p in self.pictures.rglob("*.png"))
        place = names.index("b/0000.png")
        self.assertTrue(shards[1]["first"] <= place < shards[1]["first"] + 5, "the picture lies elsewhere")
        path = self.pictures / "b" / "0000.png"
        result = run([*launcher, *failing(path, READ, "EIO"), *create])
        self.expect_refused(result, output, path, "Input/output error")
        self.assertEqual(self.create(output).returncode, 0)
        self.assertEqual(digests(output), self.wanted)

    def expect_full(self, result, output):
        """Exit code 4 and one line: no signal, and no word of a crash."""
        self.assertEqual(result.returncode, 4, result.stderr)
        errors = [line for line in result.stderr.splitlines() if line.startswith("ddpm: error:")]
        self.assertEqual(len(errors), 1, result.stderr)
        self.assertRegex(errors[0], r"shard-0000\d-of-00003\.h5.*: cannot write: (No space left on device|Input/output error)$")
        self.assertNotIn("Signal", result.stderr)
        self.assertNotIn("could not be released", result.stderr)
        self.assertFalse(output.exists())

    def test_no_write_that_fails_ends_in_a_crash(self):
        # From which write of HDF5's on all fail, metadata and the last ones of a close among them.
        for error, step in (("ENOSPC", 1), ("EIO", 5)):
            for when in range(1, 60, step):
                output = self.fresh(f"full-{error}-{when}")
                fails = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=pwrite64,ftruncate"]
                result = self.create(output, *fails, "-e", f"inject=pwrite64,ftruncate:error={error}:when={when}+")
                if result.returncode == 0:
                    break
                with self.subTest(error=error, when=when):
                    self.expect_full(result, output)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertGreater(when, 12, "few writes failed")
            self.assertEqual(digests(output), self.wanted)

    def test_a_disk_that_is_full_for_one_rank_ends_all(self):
        create = [DDPM, "data", "create", self.pictures, "--output"]
        for when in (1, 3, 5):
            output = self.fresh(f"full-ranks-{when}")
            command = [*create, output, *self.options]
            launcher = [*MPIRUN, "-np", 1, *command, ":", "-np", 1]
            fails = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=pwrite64"]
            result = run([*launcher, *fails, "-e", f"inject=pwrite64:error=ENOSPC:when={when}+", *command])
            self.expect_full(result, output)
            self.assertEqual(self.create(output).returncode, 0)
            self.assertEqual(digests(output), self.wanted)

    def test_files_of_records_and_what_lies_beside_them(self):
        folder = WORK / "idx"
        folder.mkdir(exist_ok=True)
        images, labels = folder / "train-images-idx3-ubyte", folder / "train-labels-idx1-ubyte"
        images.write_bytes(struct.pack(">IIII", 0x803, 5, 16, 16) + bytes(range(256)) * 5)
        labels.write_bytes(struct.pack(">II", 0x801, 5) + bytes(5))
        cifar = WORK / "cifar"
        cifar.mkdir(exist_ok=True)
        for i in range(1, 6):
            (cifar / f"data_batch_{i}.bin").write_bytes((bytes([i]) + bytes(3072)) * 4)
        names = cifar / "batches.meta.txt"
        names.write_text("".join(f"class{i}\n" for i in range(10)))
        cases = [(folder, images, OPEN), (folder, images, READ), (folder, labels, OPEN), (folder, labels, READ)]
        # A file whose existence cannot be determined is not taken for absent.
        cases += [(folder, labels, LOOK), (cifar, names, LOOK), (cifar, cifar / "data_batch_3.bin", LOOK)]
        for source, path, calls in cases:
            with self.subTest(path=path.name, calls=calls):
                output = self.fresh(f"records-{calls}")
                options = ["--size", 32, "--output", output]
                create = [DDPM, "data", "create", source, *options]
                result = run([*failing(path, calls, "EIO"), *create])
                self.expect_refused(result, output, path, "Input/output error")
        output = self.fresh("records")
        result = run([*failing(images, OPEN, "EMFILE", "1"), DDPM, "data", "create", folder, "--output", output])
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_archives_and_lists(self):
        pictures = sorted(p.relative_to(self.pictures) for p in self.pictures.rglob("00*.png"))
        archives = [WORK / "some.tar", WORK / "some.zip"]
        with tarfile.open(archives[0], "w") as tar, zipfile.ZipFile(archives[1], "w", zipfile.ZIP_DEFLATED) as zipped:
            for name in pictures:
                tar.add(self.pictures / name, name)
                zipped.write(self.pictures / name, name)
        listed = WORK / "some.tsv"
        listed.write_text("".join(f"{self.pictures / name}\t{name.parent}\n" for name in pictures))
        options = ["--size", 16, "--shards", 3]
        for source in (*archives, listed):
            wanted = self.fresh(f"wanted-{source.suffix[1:]}")
            self.assertEqual(run([DDPM, "data", "create", source, "--output", wanted, *options]).returncode, 0)
            # The first reads look for what the source is, the next ones list it, the last ones read pictures.
            for calls, when in ((OPEN, "1+"), (OPEN, "3+"), (READ, "1+"), (READ, "2+"), (READ, "4+"), (LOOK, "1+")):
                with self.subTest(source=source.name, calls=calls, when=when):
                    output = self.fresh(f"archived-{source.suffix[1:]}")
                    create = [DDPM, "data", "create", source, "--output", output, *options]
                    result = run([*failing(source, calls, "EIO", when), *create])
                    if result.returncode == 0:
                        self.assertNotEqual(when, "1+")
                        continue
                    self.expect_refused(result, output, source, "Input/output error")
                    self.assertEqual(run(create).returncode, 0)
                    self.assertEqual(digests(output), digests(wanted))
        output = self.fresh("listed")
        create = [DDPM, "data", "create", listed, "--output", output, *options]
        self.expect_refused(run([*failing(self.picture, OPEN, "EIO"), *create]), output, self.picture, "Input/output error")
        self.expect_refused(run([*failing(self.picture, LOOK, "EIO"), *create]), output, self.picture, "Input/output error")

    def test_a_journal_that_cannot_be_read_is_not_made_anew(self):
        output = self.fresh("journal")
        partial = output.with_name(f".{output.name}.partial")
        self.expect_refused(
            self.create(output, *failing(self.pictures / "b" / "0010.png", OPEN, "EIO")), output, "b/0010.png", "output error"
        )
        entry = sorted((partial / "journal").iterdir())[0]
        before = (entry.stat().st_ino, entry.stat().st_mtime_ns)
        result = self.create(output, *failing(entry, OPEN, "EIO"))
        self.assertEqual(result.returncode, 4, result.stderr)
        self.assertIn(str(entry), result.stderr)
        self.assertEqual((entry.stat().st_ino, entry.stat().st_mtime_ns), before)
        self.assertEqual(self.create(output).returncode, 0)
        self.assertEqual(digests(output), self.wanted)

    def test_other_readers_of_a_dataset(self):
        dataset = WORK / "wanted"
        description, shard = dataset / "dataset.json", dataset / "shard-00001-of-00003.h5"
        for path, calls in ((description, OPEN), (description, READ), (shard, OPEN), (shard, READ), (dataset, LOOK)):
            for command in ("inspect", "verify"):
                with self.subTest(path=path.name, calls=calls, command=command):
                    result = run([*failing(path, calls, "EIO"), DDPM, "data", command, dataset])
                    self.assertEqual(result.returncode, 3, result.stderr)
                    self.assertIn(str(path), result.stderr)
                    self.assertIn("Input/output error", result.stderr)
                    self.assertNotIn("damaged", result.stderr)
                    again = run([*failing(path, calls, "EINTR", "1..3"), DDPM, "data", command, dataset])
                    self.assertEqual(again.returncode, 0, again.stderr)
        # The error may occur in our own checks of the shard's digest, or in HDF5.
        for calls, error in ((OPEN, "EMFILE"), (READ, "ETIMEDOUT"), (READ, "ESTALE")):
            for when in range(1, 7):
                with self.subTest(calls=calls, error=error, when=when):
                    result = run([*failing(shard, calls, error, when), DDPM, "data", "verify", dataset])
                    self.assertEqual(result.returncode, 0, result.stderr)


    def large_shard(self):
        output = WORK / "large"
        if not output.exists():
            options = ["--size", 768, "--shards", 1, "--output", output]
            self.assertEqual(run([DDPM, "data", "create", self.pictures, *options]).returncode, 0)
        return output / "shard-00000-of-00001.h5"

    def test_no_image_is_called_unusable_because_the_machine_stumbles(self):
        # A shard by itself: its images are read by HDF5 alone, in several blocks. Wherever the error strikes, it ends the
        # command.
        shard = self.large_shard()
        for command in ("inspect", "verify"):
            for when in CALLS:
                result = run([*failing(shard, READ, "EIO", f"{when}+"), DDPM, "data", command, shard])
                if result.returncode == 0:
                    break
                with self.subTest(command=command, when=when):
                    self.assertEqual(result.returncode, 3, result.stderr)
                    self.assertIn(str(shard), result.stderr)
                    self.assertIn("Input/output error", result.stderr)
                    self.assertNotIn("cannot be used", result.stderr)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertGreater(when, 12, "no read of the images failed")

    def test_nor_because_that_of_another_rank_does(self):
        shard = self.large_shard()
        verify = [DDPM, "data", "verify", shard]
        launcher = [*MPIRUN, "-np", 1, *verify, ":", "-np", 1]
        for when in CALLS:
            result = run([*launcher, *failing(shard, f"{READ},preadv,readv", "EIO", f"{when}+"), *verify])
            if result.returncode == 0:
                break
            with self.subTest(when=when):
                self.assertEqual(result.returncode, 3, result.stderr)
                self.assertIn(str(shard), result.stderr)
                self.assertNotIn("cannot be used", result.stderr)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertGreater(when, 1, "no read failed")

    def test_what_one_of_several_ranks_cannot_read_is_no_image_of_zeros(self):
        # Another program's file has no digests, so only the failed read itself reveals the damage.
        path = WORK / "plain.h5"
        path.write_bytes(plain_hdf5((200, 64, 64, 3), bytes([200]) * (200 * 64 * 64 * 3)))
        inspect = [DDPM, "data", "inspect", path, "--json"]
        launcher = [*MPIRUN, "-np", 1, *inspect, ":", "-np", 1]
        whole = run([*launcher, *inspect])
        self.assertEqual(json.loads(whole.stdout)["statistics"][0]["min"], 200, whole.stderr)
        for when in CALLS:
            result = run([*launcher, *failing(path, f"{READ},preadv,readv", "EIO", f"{when}+"), *inspect])
            if result.returncode == 0:
                self.assertEqual(result.stdout, whole.stdout)
                break
            with self.subTest(when=when):
                self.assertEqual(result.returncode, 3, result.stderr)
                self.assertIn(str(path), result.stderr)
                self.assertEqual(result.stdout, "")
        self.assertEqual(result.returncode, 0, result.stderr)


if __name__ == "__main__":
    unittest.main()
