"""Ranks of commands other than `train` that stop, or hang in a call of the system: the job ends with exit code 5, and one
line names the rank, its host and what it was doing. What is slow but moves on is left alone."""

import contextlib
import os
import pathlib
import shutil
import signal
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_job import Started, processor_seconds, ranks_of, wait_until  # noqa: E402
from ddpm_run import TIMEOUT_S, ddpm, make_dataset, write_config  # noqa: E402

WORK = pathlib.Path.cwd()
DEADLINE_S = 3
TOGETHER_S = 8  # where several jobs share the processors: they mostly wait for it, at the same time
HOST = "nid000042"  # as Slurm would call it
STOP = "inject=openat:signal=STOP:when=1"
HANG = "inject=openat:delay_enter=60000000:when=1"


def fresh(name):
    path = WORK / name
    shutil.rmtree(path, ignore_errors=True)
    path.unlink(missing_ok=True)
    return path


class Job(Started):
    """A command on 2 ranks, the last of them under `last`."""

    def __init__(self, command, last=(), deadline=DEADLINE_S):
        super().__init__(command, 2, last, {"DDPM_PROGRESS_TIMEOUT_S": str(deadline), "SLURMD_NODENAME": HOST})
        self.deadline = deadline


class Late(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dataset = make_dataset(WORK / "squares")
        cls.run_folder = fresh("run")
        sections = {"train": {"steps": 1}, "run": {"threads_per_rank": 1}}
        cls.config = write_config(WORK / "run.toml", cls.run_folder, cls.dataset, **sections)
        ddpm("train", cls.config, ranks=2)
        cls.checkpoint = cls.run_folder / "checkpoints" / "step-00000001"
        cls.endless = write_config(WORK / "endless.toml", WORK / "endless", cls.dataset, train={"steps": 1_000_000})

    def expect_late(self, job, doing, key=None):
        code, said = job.end(job.deadline + 60)
        self.assertEqual(code, 5, said)
        late = [line for line in said.splitlines() if " is late: " in line]
        self.assertEqual(len(late), 1, said)
        self.assertRegex(late[0], rf"rank 1 on {HOST} is late: \d+ s .*in {doing}")
        self.assertRegex(late[0], (key or f"DDPM_PROGRESS_TIMEOUT_S = {job.deadline}") + "$")

    def expect_each_late(self, late):
        for command, job, doing in late:
            with self.subTest(command=command[:2]):
                self.expect_late(job, doing)

    def test_a_rank_that_hangs_at_a_file(self):
        self.expect_late_at_files(HANG, lambda command, part: part)

    def test_a_rank_that_is_stopped_at_a_file(self):
        # It may not have reported yet which part of the command it has reached.
        self.expect_late_at_files(STOP, lambda command, part: rf"(starting|.*{command[0]} {command[1]}.*|.*sample.*)")

    def expect_late_at_files(self, how, words):
        shard = self.dataset / "shard-00001-of-00003.h5"
        picture = WORK / "squares-pictures" / "b" / "0000.png"
        weights = self.checkpoint / "shard-00001-of-00002.safetensors"
        fresh(".made.partial")  # what a stopped rank does when it is woken to be ended is kept there
        sample = ["sample", "--model", self.run_folder, "--steps", 2, "--count", 4, "--batch", 1, "--output"]
        create = ["data", "create", WORK / "squares-pictures", "--output", fresh("made"), "--size", 16, "--shards", 2]
        reshard = ["checkpoint", "reshard", self.run_folder, "--ranks", 2, "--output", fresh("resharded")]
        cases = (
            (create, picture, "data create"),
            (["data", "verify", self.dataset], shard, r"comparing files with their digests \(data verify\)"),
            ([*sample, fresh("grid.png")], weights, r"loading the model \(sample\)"),
            ([*sample, fresh("pictures")], weights, r"loading the model \(sample\)"),
            (reshard, weights, ".*checkpoint reshard"),
            (["checkpoint", "verify", self.run_folder], weights, r"reading the checkpoints \(checkpoint verify\)"),
            (["bench", "io", self.config], shard, "bench io"),
        )
        with contextlib.ExitStack() as jobs:
            late = []
            for command, path, part in cases:
                last = ["strace", "-f", "-qq", "-o", "/dev/null", "-P", path, "-e", "trace=openat", "-e", how]
                late.append((command, jobs.enter_context(Job(command, last, TOGETHER_S)), words(command, part)))
            self.expect_each_late(late)
        for output in ("made", "resharded", "grid.png", "pictures"):
            self.assertFalse((WORK / output).exists(), output)

    def test_a_rank_that_is_stopped_at_work(self):
        many = ["--steps", 1000, "--count", 100000, "--batch", 1]
        cases = (
            (["sample", "--model", self.run_folder, *many, "--output", fresh("many.npy")], r"making the images \(sample\)"),
            (["bench", "comm", "--repeats", 1_000_000, "--max-mib", 1], "bench comm"),
            (["bench", "io", self.config, "--repeats", 1_000_000], "bench io"),
        )
        with contextlib.ExitStack() as jobs:
            late = [(command, jobs.enter_context(Job(command, deadline=TOGETHER_S)), doing) for command, doing in cases]
            for _, job, _ in late:
                self.stop_last(job)
            self.expect_each_late(late)
        self.assertFalse((WORK / "many.npy").exists())

    def test_trainings_have_deadlines_of_their_own(self):
        shutil.rmtree(WORK / "endless", ignore_errors=True)
        fault = ["--fault.step_timeout_s", DEADLINE_S, "--fault.init_timeout_s", 20]
        with Job(["train", self.endless, *fault]) as job:
            wait_until((WORK / "endless" / "metrics.jsonl").exists, TIMEOUT_S, "the first step")
            self.stop_last(job)
            self.expect_late(job, ".*", rf"fault\.step_timeout_s = {DEADLINE_S}")
        with Job(["bench", "step", self.endless, "--steps", 1_000_000, *fault]) as job:
            self.stop_last(job)
            # On a busy machine it may not have come to its first step.
            self.expect_late(job, ".*", r"(fault\.\w+_timeout_s|DDPM_PROGRESS_TIMEOUT_S) = \d+")

    def stop_last(self, job):
        wait_until(lambda: 1 in ranks_of(job.process.pid), 30, "rank 1")
        last = ranks_of(job.process.pid)[1]

        def is_well_into_its_work():
            self.assertIsNone(job.process.poll(), f"the job has ended: {job.process.stderr.read() if job.process.poll() else ''}")
            return processor_seconds(last) > 2

        wait_until(is_well_into_its_work, TIMEOUT_S, "rank 1 to be well into its work, which has no end")
        os.kill(last, signal.SIGSTOP)

    def test_slow_work_that_moves_on_is_left_alone(self):
        # Rank 1's pictures come from a disk on which each of the first 24 takes a third of a second: together far more
        # than the deadline.
        pictures = sorted((WORK / "squares-pictures").glob("*/*.png"))
        paths = [word for picture in pictures for word in ("-P", picture)]
        slow = ["strace", "-f", "-qq", "-o", WORK / "trace.txt", *paths, "-e", "trace=openat"]
        slow += ["-e", "inject=openat:delay_enter=330000:when=1..24"]
        command = ["data", "create", WORK / "squares-pictures", "--output", fresh("slow"), "--size", 16, "--shards", 2]
        began = time.monotonic()
        with Job(command, slow) as job:
            code, said = job.end()
        self.assertEqual(code, 0, said)
        self.assertGreater(time.monotonic() - began, 2 * DEADLINE_S)

    def test_no_limit_and_bad_limits(self):
        command = ["data", "verify", self.dataset]
        self.assertEqual(ddpm(*command, ranks=2, env={"DDPM_PROGRESS_TIMEOUT_S": "0"}).returncode, 0)
        for ranks in (1, 2):
            refused = ddpm(*command, ranks=ranks, check=False, env={"DDPM_PROGRESS_TIMEOUT_S": "soon"})
            self.assertEqual(refused.returncode, 2)
            self.assertIn("DDPM_PROGRESS_TIMEOUT_S = soon: seconds are wanted, 0 for no limit", refused.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
