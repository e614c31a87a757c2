"""Studies without Slurm: `study.py run` measures with the program, continues, tells failures, and can be stopped."""

import json
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import unittest

from synthetic import SOURCE

sys.path.insert(0, str(SOURCE / "tests" / "support"))
from ddpm_run import make_dataset, write_config  # noqa: E402

WORK = pathlib.Path.cwd()
PROGRAM = SOURCE / "jobs" / "scaling" / "study.py"
DESCRIPTION = {
    "config": "run.toml", "nodes": [1, 2], "micro_size": 2, "zero_stage": [3], "repeats": 1, "steps": 2, "warm_up": 0,
    "strong": {"global_batch": [8]}, "comm": {"max_mib": 1, "repeats": 1},
}  # fmt: skip
PATIENCE_S = 60


def processes_in(folder):
    """Command lines that name the folder."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it has ended
        if str(folder) in line:
            found.append(line)
    return found


class Run(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        write_config(WORK / "run.toml", WORK / "run-run", make_dataset(WORK / "squares"))

    def describe(self, **changes):
        self.folder = WORK / self._testMethodName
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        (self.folder / "study.json").write_text(json.dumps({**DESCRIPTION, **changes}))

    def start(self, *command):
        return subprocess.Popen(
            [sys.executable, "-B", PROGRAM, *command, self.folder], text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def study(self, *command, code=0):
        process = self.start(*command)
        said, _ = process.communicate(timeout=4 * PATIENCE_S)
        self.assertEqual(process.returncode, code, said)
        return said

    def test_measures_what_is_missing(self):
        self.describe()
        self.assertIn("2/2 strong-8-zero3-no-2x1-1: done", self.study("run"))
        results = sorted((self.folder / "jobs").rglob("result.json"))
        self.assertEqual(len(results), 2)
        kept = results[0].read_text()
        results[1].unlink()
        said = self.study("run")
        self.assertIn("1 of 2 are done", said)
        self.assertEqual(results[0].read_text(), kept)
        self.study("report")
        self.assertIn("| 2 | 2 | 8 | 1 |", (self.folder / "report" / "report.md").read_text())

    def test_says_what_failed_and_where(self):
        self.describe(nodes=[1], set={"optimizer.learning_rat": 1})
        log = self.folder / "jobs" / "strong-8-zero3-no-1x1" / "1" / "log-local.txt"
        self.assertIn(f"failed; see {log}", self.study("run", code=1))
        self.assertIn("learning_rat", log.read_text())
        self.assertIn(f"failed (no result; see {log})", self.study("status"))
        self.study("run", code=1)
        self.assertIn("learning_rat", (log.parent / "earlier" / log.name).read_text())

    def test_other_launchers(self):
        self.describe(nodes=[1], ranks_per_node=[2])
        self.study("run", "--launch", "mpirun --oversubscribe --bind-to none -np {ranks} env NODES={nodes}")
        (result,) = (self.folder / "jobs").rglob("result.json")
        self.assertEqual(json.loads(result.read_text())["comm"]["ranks"], 2)

    def test_a_configuration_that_changes_meanwhile_is_not_measured(self):
        config = WORK / "edited.toml"
        shutil.copy(WORK / "run.toml", config)
        wrapper = WORK / "edit.sh"
        wrapper.write_text(f'echo "[nothing]" > {config}\nexec "$@"\n')
        self.describe(nodes=[1], config=str(config))
        self.study("run", "--launch", f"sh {wrapper} mpirun --oversubscribe --bind-to none -np {{ranks}}")
        self.assertEqual(config.read_text(), "[nothing]\n")
        self.assertIn(f"{config} has changed since", self.study("collect", code=2))
        shutil.copy(WORK / "run.toml", config)
        self.assertIn("1 of 1 job", self.study("collect"))

    def test_launchers_that_start_other_ranks_are_found_out(self):
        self.describe(nodes=[1])
        self.study("run", "--launch", "mpirun --oversubscribe --bind-to none -np 2")
        self.assertIn("step.ranks is 2; the point wants 1", self.study("status"))
        self.assertIn("{ranks}, {nodes} and {ranks_per_node}", self.study("run", "--launch", "mpirun {rank}", code=2))

    def test_ctrl_c_ends_the_ranks_too(self):
        self.check_end_by(signal.SIGINT)

    def test_so_does_the_end_of_a_session(self):
        self.check_end_by(signal.SIGHUP)

    def check_end_by(self, ended_by):
        config = WORK / "endless.toml"
        shutil.copy(WORK / "run.toml", config)
        self.describe(nodes=[2], steps=1_000_000, config=str(config))
        copy = self.folder / "jobs" / "strong-8-zero3-no-2x1" / "1" / "config.toml"
        process = self.start("run")
        self.addCleanup(process.stdout.close)
        self.wait_for(lambda: len(processes_in(copy)) >= 3)  # mpirun and two ranks
        process.send_signal(ended_by)
        self.assertEqual(process.wait(PATIENCE_S), 130)
        self.wait_for(lambda: processes_in(copy) == [])
        self.assertIn("1 failed", self.study("status"))

    def wait_for(self, condition):
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
