"""A folder with a scaling study, and stand-ins for sbatch and squeue, for tests that run jobs/scaling/study.py."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

from synthetic import SOURCE, Machine

from description import Study
from jobs import jobs_of

WORK = pathlib.Path.cwd()
PROGRAM = SOURCE / "jobs" / "scaling" / "study.py"
DESCRIPTION = {
    "config": "my.toml", "nodes": [1, 2, 4], "micro_size": 8, "mixed_precision": ["bf16"], "repeats": 2,
    "weak": {"batch_per_rank": [8]}, "slurm": {"options": ["--partition=gpu"]}, "set": {"parallel.bucket_mib": 4},
}  # fmt: skip

SBATCH = """#!/bin/sh
number=$(($(cat {work}/number) + 1))
echo $number > {work}/number
echo $number >> {work}/queue
echo "$@" >> {work}/submitted
echo "$number;cluster"
"""


class StudyTest(unittest.TestCase):
    def setUp(self):
        self.work = WORK / self._testMethodName
        shutil.rmtree(self.work, ignore_errors=True)
        self.folder = self.work / "study"
        self.folder.mkdir(parents=True)
        (self.work / "my.toml").write_text("[run]\n")
        (self.work / "number").write_text("0")
        (self.work / "queue").touch()
        self.bin = self.work / "bin"
        self.bin.mkdir()
        # PATH holds nothing else, neither this machine's Slurm nor gnuplot.
        for name, text in (("sbatch", SBATCH), ("squeue", "#!/bin/sh\ncat {work}/queue\n")):
            (self.bin / name).write_text(text.format(work=self.work))
            (self.bin / name).chmod(0o755)
        for name in ("cat", "sh"):
            (self.bin / name).symlink_to(shutil.which(name))
        self.describe()

    def describe(self, **changes):
        (self.folder / "study.json").write_text(json.dumps({**DESCRIPTION, **changes}))

    def study(self, command, code=0):
        done = subprocess.run(
            [sys.executable, PROGRAM, command, "study"], cwd=self.work, env={**os.environ, "PATH": str(self.bin)},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        self.assertEqual(done.returncode, code, done.stderr + done.stdout)
        return done.stdout + done.stderr

    def refused(self, command, *words):
        """Expects a refusal of one line, which has these words."""
        said = self.study(command, 2)
        self.assertEqual(len(said.splitlines()), 1, said)
        for word in ("study.py: error: ", *words):
            self.assertIn(word, said)

    def submitted(self):
        path = self.work / "submitted"
        return path.read_text().splitlines() if path.exists() else []

    def jobs(self):
        os.chdir(self.work)
        self.addCleanup(os.chdir, WORK)
        return jobs_of(Study(self.folder))

    def finish(self, jobs, machine=None):
        """Finishes jobs as Slurm and point.sbatch do."""
        for job in jobs:
            value = (machine or Machine()).result(job.point, job.repeat)
            job.result.write_text(json.dumps(value) + "\n")
            queue = (self.work / "queue").read_text().split()
            (self.work / "queue").write_text("".join(f"{n}\n" for n in queue if n != job.number()))
