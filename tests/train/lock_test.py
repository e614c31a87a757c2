"""Two runs in one folder: the second is refused, unless it is told to take over; the first then writes no more."""

import json
import os
import pathlib
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_run import ddpm, files_below, make_dataset, metrics  # noqa: E402
from fault_test import Job, wait_until  # noqa: E402

WORK = pathlib.Path.cwd()
SECTIONS = {"train": {"steps": 400}, "checkpoint": {"every_steps": 5}}


def lock_of(run):
    """The owner, as the file says: JSON, then a line for renewals."""
    return json.JSONDecoder().raw_decode((run / "LOCK").read_text())[0]


class Lock(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dataset = make_dataset(WORK / "squares")

    def test_a_second_run_is_refused_and_changes_nothing(self):
        with Job("held", self.dataset, 2, **SECTIONS) as job:
            job.wait_for_step(6)
            owner = lock_of(job.run)
            self.assertEqual(owner["pid"], job.pids()[0])
            for ranks in (1, 2):
                second = ddpm("train", WORK / "held.toml", ranks=ranks, check=False)
                self.assertEqual(second.returncode, 4, second.stderr)
                self.assertIn(f"in use by process {owner['pid']} on {owner['host']}", second.stderr)
                self.assertRegex(second.stderr, r"stale 300 s after its last renewal, this one in \d+ s")
                self.assertIn("--force-unlock takes it at once", second.stderr)
            self.assertEqual(lock_of(job.run), owner)
            job.process.send_signal(signal.SIGUSR1)
            self.assertEqual(job.end()[0], 75)

    def test_force_unlock_takes_over_and_the_first_run_writes_no_more(self):
        with Job("taken", self.dataset, 1, **SECTIONS) as first:
            first.wait_for_step(6)
            owner = lock_of(first.run)
            os.kill(first.process.pid, signal.SIGSTOP)  # not dead: it goes on once another run has the folder
            with Job("taken", self.dataset, 2, ["--force-unlock", "--train.steps", 40], False, **SECTIONS) as second:
                wait_until(lambda: lock_of(second.run)["pid"] != owner["pid"], 60, "another owner")
                os.kill(first.process.pid, signal.SIGCONT)
                code, said = first.end()
                self.assertEqual(code, 4, said)
                self.assertIn("this run no longer owns its folder", said)
                code, said = second.end()
                self.assertEqual(code, 0, said)
                self.assertIn(f"--force-unlock: taken from process {owner['pid']} on {owner['host']}", said)
                self.assertEqual(metrics(second.run)[-1]["step"], 40)
                ddpm("checkpoint", "verify", second.run)
                self.assertFalse([f for f in files_below(second.run) if "tmp" in f or f == "LOCK"])

    def test_a_killed_run_is_no_obstacle(self):
        with Job("killed", self.dataset, 1, **SECTIONS) as job:
            job.wait_for_step(6)
            job.process.kill()
            job.end()
            self.assertTrue((job.run / "LOCK").exists())
        self.assertEqual(ddpm("train", WORK / "killed.toml", "--train.steps", 20).returncode, 0)

    def test_a_dry_run_takes_no_lock(self):
        self.assertEqual(ddpm("train", WORK / "absent.toml", "--dry-run", "--force-unlock", check=False).returncode, 2)


if __name__ == "__main__":
    unittest.main()
