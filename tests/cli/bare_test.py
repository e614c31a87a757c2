"""Commands without a launcher: many at once, without a folder for MPI, and the same commands under mpirun."""

import concurrent.futures
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_job import Job, wait_until  # noqa: E402
from ddpm_run import DDPM, TIMEOUT_S, ddpm, make_dataset, write_config  # noqa: E402

WORK = pathlib.Path.cwd()
# Open MPI cannot make its session folder there: a process that tries fails in MPI_Init.
NOWHERE = {"TMPDIR": "/proc/nowhere"}


class Bare(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dataset = make_dataset(WORK / "squares")
        shutil.rmtree(WORK / "run", ignore_errors=True)
        cls.config = write_config(WORK / "run.toml", WORK / "run", cls.dataset, train={"steps": 1})
        ddpm("train", cls.config)
        plan = ["plan", cls.config, "--nodes", 1, "--gpus-per-node", 1]
        cls.one_process = [
            ["config", "show"],
            ["config", "validate", cls.config],
            ["env"],
            plan,
            ["data", "inspect", cls.dataset],
            ["data", "verify", cls.dataset],
            ["checkpoint", "list", WORK / "run"],
            ["checkpoint", "verify", WORK / "run"],
            ["train", cls.config, "--dry-run"],
        ]

    def sharing(self, name):
        """Commands whose ranks share the work, with outputs that are not there yet."""
        outputs = [WORK / f"{name}-{kind}" for kind in ("set", "run", "resharded", "grid.png", "samples.h5")]
        for output in outputs:
            shutil.rmtree(output, ignore_errors=True)
            output.unlink(missing_ok=True)
        made, run, resharded, grid, samples = outputs
        sample = ["sample", "--model", WORK / "run", "--steps", 1, "--count", 1, "--output"]
        return [
            ["data", "create", WORK / "squares-pictures", "--output", made, "--size", 16],
            ["train", self.config, "--run.directory", run],
            ["checkpoint", "reshard", WORK / "run", "--ranks", 2, "--output", resharded],
            [*sample, grid],
            [*sample, samples],
            ["bench", "io", self.config, "--repeats", 1, "--max-mib", 1],
            ["doctor", "--output", WORK / "runs", "--max-mib", 1, "--file-mib", 1],
        ]

    def test_mpi_gets_no_folder(self):
        for command in [*self.one_process, *self.sharing("nowhere")]:
            with self.subTest(command=command[:2]):
                ddpm(*command, env=NOWHERE)

    def test_commands_of_one_process_start_no_mpi(self):
        for command in self.one_process:
            with self.subTest(command=command[:2]):
                trace = WORK / "trace.txt"
                subprocess.run(
                    ["strace", "-f", "-qq", "-o", str(trace), "-e", "trace=openat", DDPM, *map(str, command)],
                    capture_output=True, timeout=TIMEOUT_S, check=True,
                )  # fmt: skip
                self.assertNotIn("openmpi-mca-params.conf", trace.read_text())

    def test_nothing_is_left_behind(self):
        folder = WORK / "temporary"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        env = {"TMPDIR": str(folder)}
        for command in [*self.one_process, *self.sharing("left")]:
            ddpm(*command, env=env)
        for command in (["data", "verify", WORK / "none"], ["train", self.config, "--run.device", "none"]):
            self.assertNotEqual(ddpm(*command, check=False, env=env).returncode, 0)
        os.environ.update(env)
        try:
            with Job("killed", self.dataset, 1) as job:
                job.wait_for_step(2)
                job.process.send_signal(signal.SIGKILL)
                wait_until(lambda: job.process.poll() is not None, 10, "the end")
        finally:
            del os.environ["TMPDIR"]
        self.assertEqual(list(folder.iterdir()), [])

    def test_many_at_once(self):
        commands = [["config", "show"], ["env"], ["data", "inspect", self.dataset], ["checkpoint", "list", WORK / "run"]]
        commands += [["bench", "io", self.config, "--repeats", 1, "--max-mib", 1]]
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            ends = list(pool.map(lambda command: ddpm(*command, check=False), commands * 16))
        failed = [end.stderr for end in ends if end.returncode != 0]
        self.assertEqual(failed, [])

    def test_what_the_user_has_set_stays(self):
        folder = WORK / "wanted"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        trace = WORK / "trace.txt"
        env = {"OMPI_MCA_orte_create_session_dirs": "1", "OMPI_MCA_orte_tmpdir_base": str(folder)}
        subprocess.run(
            ["strace", "-f", "-qq", "-o", str(trace), "-e", "trace=mkdir", DDPM, "bench", "io", str(self.config)],
            capture_output=True, timeout=TIMEOUT_S, check=True, env={**os.environ, **env},
        )  # fmt: skip
        self.assertIn(f'mkdir("{folder}/ompi.', trace.read_text())
        self.assertEqual(list(folder.iterdir()), [])


class Launched(unittest.TestCase):
    """Any number of ranks: the first speaks, and all end alike."""

    def test_one_rank_speaks(self):
        for ranks in (1, 3):
            process = ddpm("config", "show", ranks=ranks)
            self.assertEqual(process.stdout.count("[optimizer]"), 1)
            self.assertEqual(process.stderr, "")

    def test_a_refusal_is_said_once_and_has_its_code(self):
        for ranks in (1, 3):
            process = ddpm("config", "validate", WORK / "none.toml", ranks=ranks, check=False)
            self.assertEqual(process.returncode, 2)
            self.assertEqual(process.stderr.count("ddpm: error:"), 1, process.stderr)

    def test_env_tells_of_the_same_mpi_with_and_without_it(self):
        bare, launched = (json.loads(ddpm("env", "--json", ranks=ranks).stdout) for ranks in (1, 2))
        self.assertEqual(bare["mpi"], launched["mpi"])
        self.assertTrue(bare["mpi"].strip())
        self.assertEqual((bare["ranks"], bare["ranks_on_this_host"]), (1, 1))
        self.assertEqual((launched["ranks"], launched["ranks_on_this_host"]), (2, 2))


if __name__ == "__main__":
    unittest.main(verbosity=2)
