"""`ddpm sample` that a signal ends leaves no hidden file behind, the next one removes what a killed one has left, and one whose
result has no room says so before it begins."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_run import DDPM, MPIRUN, TIMEOUT_S, ddpm, make_dataset, write_config  # noqa: E402

WORK = pathlib.Path.cwd()


class Unfinished(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        shutil.rmtree(WORK / "run", ignore_errors=True)
        cls.run_folder = WORK / "run"
        ddpm("train", write_config(WORK / "run.toml", cls.run_folder, make_dataset(WORK / "squares"), train={"steps": 1}))

    def setUp(self):
        self.place = WORK / "place"
        shutil.rmtree(self.place, ignore_errors=True)
        self.place.mkdir()

    def sample(self, output, count):
        return [DDPM, "sample", "--model", self.run_folder, "--output", self.place / output, "--count", count, "--batch", 1,
                "--scheduler", "ddim", "--steps", 2, "--threads", 1]  # fmt: skip

    def end_by(self, number, output, launcher=(), meanwhile=lambda: None):
        """Sends the signal when something hidden has grown, after `meanwhile`; returns the exit code. Open MPI gives ranks time, as
        it does by default."""
        command = [str(word) for word in (*launcher, *self.sample(output, 200_000))]
        environment = {**os.environ, "OMPI_MCA_odls_base_sigkill_timeout": "5"}
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
        try:
            deadline = time.monotonic() + TIMEOUT_S
            while not any(path.is_file() and path.stat().st_size > 0 for path in self.place.rglob("*")):
                self.assertIsNone(process.poll(), "it has ended too early")
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.05)
            meanwhile()
            process.send_signal(number)
            return process.wait(timeout=TIMEOUT_S)
        finally:
            process.kill()
            process.wait()

    def test_signals_take_what_is_unfinished_with_them(self):
        for output in ("images.npy", "images.h5", "folder"):
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                with self.subTest(output=output, signal=number.name):
                    self.assertEqual(self.end_by(number, output), -number)
                    self.assertEqual(list(self.place.iterdir()), [])

    def test_a_launcher_that_is_ended_leaves_nothing_either(self):
        self.assertNotEqual(self.end_by(signal.SIGTERM, "images.npy", (*MPIRUN, "-np", "2")), 0)
        self.assertEqual(list(self.place.iterdir()), [])

    def test_what_a_killed_command_left_is_removed_by_the_next_one_but_nothing_of_a_living_one(self):
        def expect_refused():
            there = sorted(path.name for path in self.place.iterdir())
            done = subprocess.run([str(word) for word in self.sample(output, 1)], capture_output=True, text=True,
                                  timeout=TIMEOUT_S, check=False)  # fmt: skip
            self.assertEqual(done.returncode, 4, done.stderr)
            self.assertIn(f"{self.place / output}: another process is writing it", done.stderr)
            self.assertEqual(sorted(path.name for path in self.place.iterdir()), there)

        for output in ("images.npy", "images.h5", "folder"):
            with self.subTest(output=output):
                self.setUp()
                self.assertEqual(self.end_by(signal.SIGKILL, output, meanwhile=expect_refused), -signal.SIGKILL)
                self.assertTrue([path for path in self.place.iterdir() if path.name.startswith(f".{output}.tmp-")])
                neighbour = self.place / ".other.npy.tmp-0123456789abcdef"
                neighbour.touch()
                ddpm(*self.sample(output, 2)[1:])
                self.assertEqual(sorted(path.name for path in self.place.iterdir()), sorted([neighbour.name, output]))

    def test_an_ignored_signal_stays_ignored(self):
        process = subprocess.Popen([str(word) for word in self.sample("images.npy", 500)], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))  # fmt: skip
        try:
            while process.poll() is None:
                process.send_signal(signal.SIGHUP)
                time.sleep(0.1)
            self.assertEqual(process.returncode, 0)
        finally:
            process.kill()
            process.wait()
        self.assertEqual([path.name for path in self.place.iterdir()], ["images.npy"])

    def test_what_has_no_room_is_refused_before_it_begins(self):
        for output in ("images.npy", "images.h5"):
            with self.subTest(output=output):
                done = subprocess.run([str(word) for word in self.sample(output, 10**9)], capture_output=True, text=True,
                                      timeout=TIMEOUT_S, check=False)  # fmt: skip
                self.assertEqual(done.returncode, 4, done.stderr)
                errors = [line for line in done.stderr.splitlines() if "error" in line]
                self.assertEqual(len(errors), 1, done.stderr)
                self.assertRegex(errors[0], rf"MB of space are free, --output \S+{output} takes \d+\.\d MB")
                self.assertEqual(list(self.place.iterdir()), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
