"""The job scripts for PBS and Flux, and jobs/submit.sh there, against stand-ins of their commands (stand_ins.py): a run that its
time limit stops comes back until it is done, and no further. tests/slurm/jobs_test.py does the same with a real Slurm.
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import unittest

SOURCE = pathlib.Path(os.environ["DDPM_SOURCE_DIR"])
WORK = pathlib.Path.cwd()

from stand_ins import Queue  # noqa: E402 - makes what follows importable
from ddpm_job import sha256_of_model, wait_until  # noqa: E402
from ddpm_run import DDPM, make_dataset, make_pictures, metrics, write_config  # noqa: E402

STEPS = 150
LONG = {"train": {"steps": STEPS}, "batch": {"global_size": 8, "micro_size": 2}}
SHORT = {"train": {"steps": 2}, "batch": {"global_size": 8, "micro_size": 2}}
SAVE_S = 600  # what the scripts leave to save; a limit that is hardly longer stops training at once


class Batch:
    """What is asked of either batch system."""

    def setUp(self):
        self.queue = Queue(WORK / f"queue-{self.system}")

    @classmethod
    def setUpClass(cls):
        cls.dataset = make_dataset(WORK / "squares")

    def config(self, name, **sections):
        shutil.rmtree(WORK / name, ignore_errors=True)
        return write_config(WORK / f"{name}.toml", WORK / name, self.dataset, **sections)

    def submit(self, *stages, code=0, **environment):
        values = {"DDPM": DDPM, "DDPM_BATCH": self.system, "DDPM_RANKS_PER_NODE": "2", **environment}
        values.setdefault(f"TRAIN_{self.suffix}", f"{self.two_ranks} {self.limit(3600)}")
        for stage in ("PREPARE", "SAMPLE"):
            values[f"{stage}_{self.suffix}"] = self.two_ranks
        done = subprocess.run([SOURCE / "jobs" / "submit.sh", *map(str, stages)], cwd=WORK, env=self.queue.environment() | values,
                              capture_output=True, text=True, timeout=60, check=False)  # fmt: skip
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr if code else done.stdout

    def stopped_by_the_clock(self, name, **environment):
        """Submits a run whose time limit is over at once, and returns its configuration."""
        config = self.config(name, **LONG)
        self.submit("train", config, **{f"TRAIN_{self.suffix}": f"{self.two_ranks} {self.limit(SAVE_S + 2)}"}, **environment)
        return config

    def test_a_run_comes_back_until_it_is_done(self):
        self.stopped_by_the_clock("chain")
        first = self.queue.run_next()
        self.assertEqual(first.code, 0, first.said)
        self.assertIn("start 1:", first.said)
        self.assertIn("2 ranks", first.said)
        self.assertIn("fault.max_minutes", first.said)
        self.assertIn("back into the queue", first.said)
        self.assertLess(len(metrics(WORK / "chain")), STEPS)
        # What comes back is given more time.
        kept = self.queue.pending()
        self.assertEqual(len(kept), 1)
        (kept[0] / "options").write_bytes((kept[0] / "options").read_bytes().replace(*self.more_time))
        second = self.queue.run_next()
        self.assertEqual(second.code, 0, second.said)
        self.assertIn("start 2:", second.said)
        self.assertEqual([line["step"] for line in metrics(WORK / "chain")], list(range(1, STEPS + 1)))
        self.assertEqual(self.queue.pending(), [])

        # It is the run that nothing has stopped, and submitted again it ends at once.
        self.submit("train", self.config("unbroken", **LONG))
        self.submit("train", WORK / "chain.toml")
        unbroken, again = self.queue.run_all()
        self.assertEqual(sha256_of_model(WORK / "chain"), sha256_of_model(WORK / "unbroken"))
        self.assertEqual(again.code, 0)
        self.assertIn("nothing to do", again.said)
        self.assertNotIn("back into the queue", unbroken.said)

    def test_restarts_are_bounded(self):
        self.stopped_by_the_clock("bounded", DDPM_MAX_RESTARTS="1")
        first, last = self.queue.run_all()
        self.assertEqual((first.code, last.code), (0, 75))
        self.assertIn("restarted 1 times already (DDPM_MAX_RESTARTS): not once more", last.said)

    def test_errors_arrive_as_they_are_and_are_not_repeated(self):
        self.submit("train", self.config("wrong", optimizer={"learning_rat": 1}), "--", "sample", "--model", WORK / "wrong")
        (job,) = self.queue.run_all()
        self.assertEqual(job.code, 2, job.said)
        self.assertIn("learning_rate", job.said)

    def test_a_limit_without_time_to_train_is_refused(self):
        self.submit("train", self.config("hasty", **SHORT), DDPM_SAVE_SECONDS="3600")
        (job,) = self.queue.run_all()
        self.assertEqual(job.code, 2, job.said)
        self.assertIn("the time limit leaves no time to train beside the 3600 seconds to save", job.said)

    def test_a_limit_of_the_users_own_is_left_as_it_is(self):
        self.submit("train", self.config("own", **SHORT), "--fault.max_minutes", 7, DDPM_SAVE_SECONDS="3600")
        (job,) = self.queue.run_all()
        self.assertEqual(job.code, 0, job.said)

    def test_term_saves_and_ends(self):
        self.submit("train", self.config("ended", **{**LONG, "train": {"steps": 5000}}))
        job, _ = self.queue.start_next()
        with self.queue.ending(job):
            wait_until(lambda: (WORK / "ended/metrics.jsonl").exists() and len(metrics(WORK / "ended")) > 5, 60, "a few steps")
            job.send_signal(signal.SIGTERM)
            said, _ = job.communicate(timeout=60)
        self.assertEqual(job.returncode, 75, said)
        self.assertTrue(list((WORK / "ended/checkpoints").glob("step-*")), said)
        self.assertEqual(self.queue.pending(), [])

    def test_stages_follow_each_other_and_words_arrive_as_they_are(self):
        name = f"{self.system}, with 'a' name"
        pictures, dataset, run = WORK / "pictures", WORK / f"{name} set", WORK / name
        for folder in (pictures, dataset, run):
            shutil.rmtree(folder, ignore_errors=True)
        make_pictures(pictures, 40)
        config, grid = self.config("stages", **SHORT), WORK / "stages.png"
        grid.unlink(missing_ok=True)
        said = self.submit(
            "prepare", pictures, "--output", dataset, "--size", 16, "--",
            "train", config, "--run.directory", run, "--data.train", dataset, "--",
            "sample", "--model", run, "--steps", 2, "--scheduler", "ddim", "--count", 4, "--output", grid,
        )  # fmt: skip
        self.assertRegex(said, r"^prepare +job \S+\n$")
        jobs = self.queue.run_all()
        self.assertEqual([job.code for job in jobs], [0, 0, 0], [job.said for job in jobs])
        self.assertEqual(grid.read_bytes()[:4], b"\x89PNG")
        self.assertIn("start 1:", jobs[1].said)

        before = sorted((path, path.stat().st_mtime_ns) for path in dataset.rglob("*"))
        self.submit("prepare", pictures, "--output", dataset)
        (job,) = self.queue.run_all()
        self.assertEqual(job.code, 0, job.said)
        self.assertIn("is there already: nothing to do", job.said)
        self.assertEqual(sorted((path, path.stat().st_mtime_ns) for path in dataset.rglob("*")), before)

    def test_a_script_outside_of_a_job_says_so(self):
        done = subprocess.run(["bash", SOURCE / f"jobs/train.{self.system}", "my.toml"], cwd=SOURCE, env=self.queue.environment(),
                              capture_output=True, text=True, timeout=60, check=False)  # fmt: skip
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("this script wants a job of", done.stderr)


class Pbs(Batch, unittest.TestCase):
    system, suffix, two_ranks = "pbs", "QSUB", "-l select=2:ncpus=8:mpiprocs=1"
    more_time = (b"walltime=00:10:02", b"walltime=04:00:00")

    def limit(self, seconds):
        return f"-l walltime={seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"

    def test_ranks_are_started_by_any_launcher(self):
        nodes = r"queue/\d+/nodes"
        for launcher, wanted in (
            ("mpiexec", r"mpiexec -n 2 -ppn 1 "),
            ("pals", r"mpiexec -n 2 --ppn 1 --cpu-bind depth --depth 8 "),
            ("mpirun", rf"mpirun --hostfile \S+{nodes} --map-by ppr:1:node:PE=8 "),
        ):
            with self.subTest(launcher=launcher):
                self.submit("train", self.config("launched", **SHORT), DDPM_LAUNCHER=launcher, DDPM_CPUS_PER_RANK="8")
                (job,) = self.queue.run_all()
                self.assertEqual(job.code, 0, job.said)
                self.assertIn("2 ranks", job.said)
                called = " ".join(self.queue.calls(wanted.split()[0])[-1])
                self.assertRegex(called, wanted + "\\S+ train ")

    def test_a_task_of_an_array_takes_its_line_and_comes_back_alone(self):
        (WORK / "sweep.txt").write_text(f"--run.directory none\n--run.directory '{WORK}/second line'\n")
        shutil.rmtree(WORK / "second line", ignore_errors=True)
        options = f"-J 2-2 {self.two_ranks} {self.limit(SAVE_S + 2)}"
        config = self.config("swept", **LONG)
        self.submit("train", config, "--sweep", WORK / "sweep.txt", TRAIN_QSUB=options, DDPM_MAX_RESTARTS="1")
        first, last = self.queue.run_all()
        self.assertEqual((first.code, last.code), (0, 75), last.said)
        self.assertTrue((WORK / "second line" / "checkpoints").exists())
        self.assertNotIn("-J", last.options)
        self.assertEqual({name: last.options[name] for name in ("select", "walltime")},
                         {name: first.options[name] for name in ("select", "walltime")})  # fmt: skip
        said = self.submit("train", config, "--", "sample", "--model", "x", code=2, TRAIN_QSUB=options)
        self.assertIn("each task of a job array would submit the next stage", said)

    def test_a_limit_that_is_unknown_is_said(self):
        (self.queue.folder / "bin" / "qstat").write_text("#!/bin/sh\necho 'qstat: cannot connect' >&2\nexit 1\n")
        self.submit("train", self.config("unknown", **SHORT))
        (job,) = self.queue.run_all()
        self.assertEqual(job.code, 0, job.said)
        self.assertIn("the time limit is unknown", job.said)

    def test_the_script_alone_does_for_one_start_after_the_other(self):
        config = self.config("alone", **SHORT)
        subprocess.run(["qsub", *self.two_ranks.split(), "-v", "DDPM,DDPM_ARGUMENTS,DDPM_JOBS", SOURCE / "jobs" / "train.pbs"], cwd=WORK,
                       env=self.queue.environment() | {"DDPM": DDPM, "DDPM_ARGUMENTS": str(config), "DDPM_JOBS": str(SOURCE / "jobs")},
                       capture_output=True, timeout=60, check=True)  # fmt: skip
        (job,) = self.queue.run_all()
        self.assertEqual(job.code, 0, job.said)
        self.assertEqual(job.options["-N"], "ddpm-train")


class Flux(Batch, unittest.TestCase):
    system, suffix, two_ranks = "flux", "FLUX", "--nodes=1"
    more_time = (b"--time-limit=602s", b"--time-limit=4h")

    def limit(self, seconds):
        return f"--time-limit={seconds}s"

    def test_ranks_are_started_by_flux_run(self):
        for variables, pmi in (({}, ""), ({"DDPM_FLUX_PMI": "pmix"}, "-o pmi=pmix ")):
            self.submit("train", self.config("launched", **SHORT), DDPM_CPUS_PER_RANK="8", **variables)
            (job,) = self.queue.run_all()
            self.assertEqual(job.code, 0, job.said)
            self.assertIn("2 ranks", job.said)
            wanted = rf"flux run --nodes=1 --ntasks=2 --cores-per-task=8 -o gpu-affinity=off {pmi}\S+ train "
            self.assertRegex(" ".join(self.queue.calls("flux", "run")[-1]), wanted)


class Choice(unittest.TestCase):
    def test_the_batch_system_is_the_one_whose_command_is_there(self):
        queue = Queue(WORK / "choice")
        for commands, wanted in ((("sbatch", "qsub", "flux"), "sbatch"), (("qsub", "flux"), "qsub"), (("flux",), "flux")):
            with self.subTest(commands=commands):
                path = queue.folder / "-".join(commands)
                path.mkdir()
                for name in commands:
                    (path / name).write_text(f"#!/bin/sh\necho {name} >&2\nexit 1\n")
                    (path / name).chmod(0o755)
                for tool in ("bash", "env", "awk", "dirname", "grep", "paste", "sed"):
                    (path / tool).symlink_to(shutil.which(tool))
                done = subprocess.run([SOURCE / "jobs" / "submit.sh", "train", "my.toml"], env={"PATH": str(path)}, cwd=WORK,
                                      capture_output=True, text=True, timeout=60, check=False)  # fmt: skip
                self.assertEqual(done.returncode, 2)
                self.assertEqual(done.stderr.splitlines()[0], wanted)
                self.assertIn(f"train: {wanted}", done.stderr)
        done = subprocess.run([SOURCE / "jobs" / "submit.sh", "train", "my.toml"], env={**queue.environment(), "DDPM_BATCH": "lsf"},
                              capture_output=True, text=True, timeout=60, check=False)  # fmt: skip
        self.assertEqual(done.returncode, 2)
        self.assertIn("DDPM_BATCH is 'lsf'; wanted: slurm, pbs or flux", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]], verbosity=2)
