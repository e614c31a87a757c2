"""Training while the file server fails: a checkpoint that cannot be written is tried once more, and what fails twice ends the run."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_job import sha256_of_model  # noqa: E402
from ddpm_run import DDPM, MPIRUN, TIMEOUT_S, ddpm, make_dataset, metrics, write_config  # noqa: E402

WORK = pathlib.Path.cwd()
AGAIN = "a checkpoint could not be written, and is tried once more while training waits: rank 0 on "


class FailingServer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dataset = make_dataset(WORK / "squares")
        cls.wanted = {}

    def config(self, name):
        shutil.rmtree(WORK / name, ignore_errors=True)
        return write_config(WORK / f"{name}.toml", WORK / name, self.dataset, checkpoint={"every_steps": 2}, run={"threads_per_rank": 1})

    def weights(self, ranks):
        """Of a run without failures."""
        if ranks not in self.wanted:
            ddpm("train", self.config(f"whole-{ranks}"), ranks=ranks)
            self.wanted[ranks] = sha256_of_model(WORK / f"whole-{ranks}")
        return self.wanted[ranks]

    def train(self, name, ranks, when, file="checkpoints"):
        """Rank 0's calls of this number fail to bring this file of the run, or the folder of checkpoints, to the disk."""
        failing = ["strace", "-f", "-qq", "-o", "/dev/null", "-P", WORK / name / file,
                   "-e", "trace=fsync", "-e", f"inject=fsync:error=EIO:when={when}"]  # fmt: skip
        own = [DDPM, "train", self.config(name)]
        command = [*failing, *own] if ranks == 1 else [*MPIRUN, "-np", 1, *failing, *own, ":", "-np", ranks - 1, *own]
        return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=TIMEOUT_S, check=False)

    def test_a_failure_that_passes_costs_nothing(self):
        for ranks in (1, 2):
            for when in (1, 2):
                with self.subTest(ranks=ranks, when=when):
                    name = f"once-{ranks}-{when}"
                    process = self.train(name, ranks, when)
                    self.assertEqual(process.returncode, 0, process.stderr)
                    self.assertEqual(process.stderr.count(AGAIN), 1, process.stderr)
                    self.assertEqual(process.stderr.count("Input/output error"), 1, process.stderr)
                    self.assertNotIn("ddpm: error:", process.stderr)
                    names = sorted(path.name for path in (WORK / name / "checkpoints").iterdir())
                    self.assertEqual(names, ["step-00000002", "step-00000004", "step-00000006"])
                    self.assertEqual([line["step"] for line in metrics(WORK / name)], list(range(1, 7)))
                    self.assertEqual(sha256_of_model(WORK / name), self.weights(ranks))

    def test_a_log_that_cannot_be_brought_to_the_disk_is_tried_once_more(self):
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                name = f"log-{ranks}"
                process = self.train(name, ranks, 1, "metrics.jsonl")
                self.assertEqual(process.returncode, 0, process.stderr)
                self.assertEqual(process.stderr.count(AGAIN), 1, process.stderr)
                self.assertIn(f"{WORK / name}/metrics.jsonl", process.stderr)
                names = sorted(path.name for path in (WORK / name / "checkpoints").iterdir())
                self.assertEqual(names, ["step-00000002", "step-00000004", "step-00000006"])
                self.assertEqual([line["step"] for line in metrics(WORK / name)], list(range(1, 7)))
                self.assertEqual(sha256_of_model(WORK / name), self.weights(ranks))

    def test_the_account_costs_no_checkpoint(self):
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                name = f"account-{ranks}"
                process = self.train(name, ranks, 2, "usage.jsonl")  # the first call is that of the start's line
                self.assertEqual(process.returncode, 0, process.stderr)
                self.assertNotIn(AGAIN, process.stderr)
                self.assertEqual(process.stderr.count("goes on without a line in its account: "), 1, process.stderr)
                lines = [json.loads(line) for line in (WORK / name / "usage.jsonl").read_text().splitlines()]
                self.assertEqual([line["to"] for line in lines], [0, 2, 4, 6, 6])
                self.assertEqual([line["event"] for line in lines], ["begin", *["checkpoint"] * 3, "end"])
                self.assertEqual(sha256_of_model(WORK / name), self.weights(ranks))

    def test_a_failure_that_stays_ends_the_run(self):
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                name = f"twice-{ranks}"
                process = self.train(name, ranks, "1+")
                self.assertEqual(process.returncode, 4, process.stderr)
                self.assertEqual(process.stderr.count(AGAIN), 1, process.stderr)
                self.assertEqual(process.stderr.count("ddpm: error:"), 1, process.stderr)
                self.assertNotIn(" written: ", process.stderr)
                ddpm("train", WORK / f"{name}.toml", ranks=ranks)
                self.assertEqual(sha256_of_model(WORK / name), self.weights(ranks))


if __name__ == "__main__":
    unittest.main(verbosity=2)
