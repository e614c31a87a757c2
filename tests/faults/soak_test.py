"""Short forms of tests/soak.py: a few faults of each kind in a minute, and that it notices a run that is not the unbroken one.

    soak_test.py OnThisMachine     under mpirun
    soak_test.py UnderSlurm        as a job of a Slurm cluster that the test starts
"""

import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import unittest

SOURCE = pathlib.Path(os.environ["DDPM_SOURCE_DIR"])
sys.path.insert(0, str(SOURCE / "tests" / "support"))
from launcher import MPIRUN  # noqa: E402

WORK = pathlib.Path.cwd()
SMALL = ("--channels", "8,16", "--micro-size", "2", "--save-every", "5", "--step-timeout", "5")


def soak(name, *options, program=None, timeout=500, env=None):
    """The finished process and its figures."""
    told = WORK / f"{name}.json"
    told.unlink(missing_ok=True)
    shutil.rmtree(WORK / name, ignore_errors=True)
    command = [sys.executable, "-B", SOURCE / "tests" / "soak.py", *SMALL, *options, "--work", WORK / name, "--json", told]
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               env={**os.environ, **(env or {}), "DDPM": str(program or os.environ["DDPM"])})  # fmt: skip
    try:
        said, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.terminate()  # it ends all that it has started
        said, _ = process.communicate(timeout=60)
        raise AssertionError(f"more than {timeout} s:\n{said}") from None
    return process.returncode, said, json.loads(told.read_text()) if told.exists() else None


class Case(unittest.TestCase):
    def expect_nothing_lost(self, name, *options, least, env=None):
        code, said, told = soak(name, *options, env=env)
        print(said)
        self.assertEqual(code, 0, said)
        self.assertIn("nothing was lost", said)
        self.assertEqual(told["weights"], told["weights_unbroken"])
        self.assertGreaterEqual(len({fault["kind"] for fault in told["schedule"]}), least, said)
        self.assertGreater(told["starts"], least // 2, said)
        return told


class OnThisMachine(Case):
    def test_faults_of_each_kind_and_the_unbroken_weights(self):
        told = self.expect_nothing_lost("soaked", "--minutes", 1, "--failure-every", 6, least=6)
        self.assertGreater(told["goodput"], 0)

    def test_a_launcher_of_ones_own_in_an_allocation_and_a_folder_with_a_blank(self):
        launcher = shlex.join([*MPIRUN, "-np", "2"])
        told = self.expect_nothing_lost("an allocation", "--launcher", launcher, "--minutes", 0.5, "--failure-every", 10, "--faults",
                                        "rank,term", least=2, env={"SLURM_NTASKS": "2", "SLURM_JOB_NUM_NODES": "1"})  # fmt: skip
        self.assertGreater(told["starts"], 1)

    def test_a_run_that_is_not_the_unbroken_one_is_noticed(self):
        # The unbroken run has another seed.
        wrapped = WORK / "wrapped" / "ddpm"
        wrapped.parent.mkdir(exist_ok=True)
        other = 'case "$*" in *unbroken.toml*) set -- "$@" --run.seed 8 ;; esac'
        wrapped.write_text(f'#!/bin/sh\n{other}\nexec {os.environ["DDPM"]} "$@"\n')
        wrapped.chmod(0o755)
        code, said, told = soak("other", "--minutes", 0.4, "--failure-every", 20, "--faults", "rank", program=wrapped)
        self.assertEqual(code, 1, said)
        self.assertIn("the weights differ", said)
        self.assertNotEqual(told["weights"], told["weights_unbroken"])

    def test_what_it_cannot_do_is_refused(self):
        for options, wanted in ((("--faults", "flood"), "--faults flood"), (("--ranks", "3", "--nodes", "2"), "multiple of nodes"),
                                (("--launcher", "mpirun -np 2", "--reference-ranks", "1"), "--reference-ranks 1"),
                                (("--launcher", "mpirun -np 2", "--faults", "disk"), "and no --launcher"),
                                (("--minutes", "0.5", "--failure-every", "60"), "nothing would be tested")):
            code, said, _ = soak("refused", *options, timeout=30)
            self.assertEqual(code, 2, said)
            self.assertIn(wanted, said)
            self.assertFalse((WORK / "refused").exists())


class UnderSlurm(Case):
    def test_faults_of_each_kind_and_the_unbroken_weights(self):
        told = self.expect_nothing_lost("soaked-slurm", "--nodes", 2, "--minutes", 2, "--failure-every", 12, least=5)
        self.assertGreater(told["goodput"], 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
