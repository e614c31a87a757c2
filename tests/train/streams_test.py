"""What a training says, and to whom: readers that go away, streams that were never open, and terminals."""

import fcntl
import os
import pathlib
import pty
import select
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_job import wait_until  # noqa: E402
from ddpm_run import DDPM, MPIRUN, TIMEOUT_S, make_dataset, metrics, write_config  # noqa: E402

WORK = pathlib.Path.cwd()
STEPS = 40
BAR = b"\r\x1b[Ktrain ["


class Streams(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dataset = make_dataset(WORK / "squares")

    def command(self, name, progress, ranks=1, launcher_options=()):
        sections = {"logging": {"progress": progress}, "train": {"steps": STEPS}, "checkpoint": {"every_steps": 5}}
        self.run_folder = WORK / name
        subprocess.run(["rm", "-rf", str(self.run_folder)], check=True)
        config = write_config(WORK / f"{name}.toml", self.run_folder, self.dataset, **sections)
        launcher = [*MPIRUN, *launcher_options, "-np", str(ranks)] if ranks > 1 else []
        return [*launcher, DDPM, "train", str(config)]

    def expect_complete(self):
        self.assertEqual([entry["step"] for entry in metrics(self.run_folder)], list(range(1, STEPS + 1)))
        self.assertTrue((self.run_folder / "model").exists())

    def test_a_reader_that_goes_away_ends_no_training(self):
        for progress in ("off", "lines", "bar"):
            with self.subTest(progress=progress):
                process = subprocess.Popen(
                    self.command(f"unread-{progress}", progress),
                    stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                )  # fmt: skip
                process.stderr.read(1)
                process.stderr.close()  # `2>&1 | head -c 1` also does this
                self.assertEqual(process.wait(TIMEOUT_S), 0)
                self.expect_complete()

    def test_streams_that_are_closed_from_the_start_get_no_file(self):
        command = self.command("closed", "lines")
        process = subprocess.Popen(["bash", "-c", 'exec "$@" 0<&- 1>&- 2>&-', "bash", *command])
        opened = [f"/proc/{process.pid}/fd/{stream}" for stream in range(3)]
        wait_until(lambda: (self.run_folder / "metrics.jsonl").exists(), TIMEOUT_S, "the first step")
        self.assertEqual([os.readlink(path) for path in opened], ["/dev/null"] * 3)
        self.assertEqual(process.wait(TIMEOUT_S), 0)
        self.expect_complete()

    def said_on_terminal(self, command):
        """What a terminal shows of the command, which has to end well."""
        master, terminal = pty.openpty()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=terminal)
        os.close(terminal)
        fcntl.fcntl(master, fcntl.F_SETFL, os.O_NONBLOCK)
        said = b""
        end = time.monotonic() + TIMEOUT_S
        while time.monotonic() < end:
            over = process.poll() is not None
            if select.select([master], [], [], 0.1)[0]:
                try:
                    said += os.read(master, 65536)
                    continue
                except OSError:  # the other side is closed
                    pass
            if over:
                break
        os.close(master)
        self.assertEqual(process.wait(1), 0, said)
        return said

    def test_a_terminal_shows_a_bar_behind_mpirun_too(self):
        for ranks in (1, 2):
            said = self.said_on_terminal(self.command(f"bar-{ranks}", "auto", ranks))
            self.assertIn(BAR, said)
            self.assertIn(f"step {STEPS}/{STEPS}".encode(), said)

    def test_lines_where_nobody_looks_or_mpirun_marks_them(self):
        said = self.said_on_terminal(self.command("tagged", "auto", 2, ["--tag-output"]))
        self.assertNotIn(BAR, said)
        self.assertIn(b"ddpm: train: step", said)
        process = subprocess.run(self.command("piped", "auto", 2), capture_output=True, timeout=TIMEOUT_S, check=True)
        self.assertNotIn(BAR, process.stderr)
        self.assertIn(b"ddpm: train: step", process.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
