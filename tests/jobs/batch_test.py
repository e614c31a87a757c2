"""The job scripts for PBS and Flux, and jobs/submit.sh there, against stand-ins of their commands (stand_ins.py): a run that its
time limit stops comes back until it is done, and no further. tests/slurm/jobs_test.py does the same with a real Slurm.
"""

import base64
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import unittest

SOURCE = pathlib.Path(os.environ["DDPM_SOURCE_DIR"])
WORK = pathlib.Path.cwd()

from qsub_variables import carried  # noqa: E402
from stand_ins import Queue  # noqa: E402 - makes what follows importable
from ddpm_job import sha256_of_model, wait_until  # noqa: E402
from ddpm_run import DDPM, ddpm, make_dataset, make_pictures, metrics, write_config  # noqa: E402
from launcher import RANK_IN_SHELL  # noqa: E402

STEPS = 300
LONG = {"train": {"steps": STEPS}, "batch": {"global_size": 8, "micro_size": 2}}
SHORT = {"train": {"steps": 2}, "batch": {"global_size": 8, "micro_size": 2}}
UNBROKEN = WORK / "unbroken"  # the run that nothing has stopped, by the batch system whose turn is first
SAVE_S = 600  # what the scripts leave to save; a limit that is hardly longer stops training at once


class Batch:
    """What is asked of either batch system."""

    has_unbroken = False

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

    def stopped_by_the_clock(self, name, steps=STEPS, **environment):
        """Submits a run whose time limit is over at once, and returns its configuration."""
        config = self.config(name, **{**LONG, "train": {"steps": steps}})
        self.submit("train", config, **{f"TRAIN_{self.suffix}": f"{self.two_ranks} {self.limit(SAVE_S + 2)}"}, **environment)
        return config

    def run_one(self, code=0):
        """Runs the one job that waits, which leads to no other."""
        (job,) = self.queue.run_all()
        self.assertEqual(job.code, code, job.said)
        return job

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
        self.assertNotIn("back into the queue", second.said)
        self.assertEqual(self.queue.pending(), [])

        # It is the run that nothing has stopped, and submitted again it ends at once.
        if not Batch.has_unbroken:
            self.submit("train", self.config(UNBROKEN.name, **LONG))
            self.assertNotIn("back into the queue", self.run_one().said)
            Batch.has_unbroken = True
        self.submit("train", WORK / "chain.toml")
        self.assertIn("nothing to do", self.run_one().said)
        self.assertEqual(sha256_of_model(WORK / "chain"), sha256_of_model(UNBROKEN))

    def test_restarts_are_bounded(self):
        self.stopped_by_the_clock("bounded", steps=5000, DDPM_MAX_RESTARTS="1")
        first, last = self.queue.run_all()
        self.assertEqual((first.code, last.code), (0, 75))
        self.assertIn("restarted 1 times already (DDPM_MAX_RESTARTS): not once more", last.said)

    def test_errors_arrive_as_they_are_and_are_not_repeated(self):
        self.submit("train", self.config("wrong", optimizer={"learning_rat": 1}), "--", "sample", "--model", WORK / "wrong")
        job = self.run_one(code=2)
        self.assertIn("learning_rate", job.said)

    def test_a_limit_without_time_to_train_is_refused(self):
        self.submit("train", self.config("hasty", **SHORT), DDPM_SAVE_SECONDS="03600")  # no octal number
        job = self.run_one(code=2)
        self.assertIn("the time limit leaves no time to train beside the 3600 seconds to save", job.said)

    def test_a_limit_of_the_users_own_is_left_as_it_is(self):
        self.submit("train", self.config("own", **SHORT), "--fault.max_minutes", 7, DDPM_SAVE_SECONDS="3600")
        self.run_one()

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

    def test_usr1_has_what_makes_a_dataset_come_back_and_go_on(self):
        self.submit("train", self.config("drawn", **SHORT))
        self.queue.run_all()
        for folder in (output := WORK / f"{self.system} drawn set", partial := WORK / f".{self.system} drawn set.partial"):
            shutil.rmtree(folder, ignore_errors=True)
        self.submit("sample", "--model", WORK / "drawn", "--count", 2000, "--steps", 20, "--format", "dataset", "--output", output)
        job, _ = self.queue.start_next()
        with self.queue.ending(job):
            wait_until(lambda: list((partial / "journal").glob("*.json")), 120, "a whole shard")
            job.send_signal(signal.SIGUSR1)
            said, _ = job.communicate(timeout=60)
        self.assertEqual(job.returncode, 0, said)
        self.assertIn("stopped; back into the queue", said)
        self.assertFalse(output.exists())
        self.assertIn("of them from an earlier command", self.run_one().said)
        ddpm("data", "verify", output)

    def test_usr1_does_not_end_what_would_begin_anew(self):
        grid = WORK / f"{self.system}-grid.png"
        grid.unlink(missing_ok=True)
        self.submit("train", self.config("pictured", **SHORT))
        self.queue.run_all()
        self.submit("sample", "--model", WORK / "pictured", "--count", 64, "--steps", 100, "--output", grid)
        (self.queue.folder / "launcher").unlink()
        job, _ = self.queue.start_next()
        with self.queue.ending(job):
            wait_until(lambda: (self.queue.folder / "launcher").exists(), 60, "the launcher")
            job.send_signal(signal.SIGUSR1)
            said, _ = job.communicate(timeout=120)
        self.assertEqual((job.returncode, self.queue.pending()), (0, []), said)
        self.assertTrue(grid.exists(), said)

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
        job = self.run_one()
        self.assertIn("is there already: nothing to do", job.said)
        self.assertEqual(sorted((path, path.stat().st_mtime_ns) for path in dataset.rglob("*")), before)

    def test_odd_words_arrive_as_they_are_also_when_the_job_comes_back(self):
        """With a program that notes what it is given, and is stopped once."""
        program, noted = WORK / "notes its words", WORK / f"noted-{self.system}"
        program.write_text(f"""#!/bin/bash
[ "{RANK_IN_SHELL}" = 0 ] || exit 0
printf '%s\\0' "${{@:2}}" >>'{noted}'
[ -e '{noted}.again' ] || {{ touch '{noted}.again' && exit 75; }}
""")
        program.chmod(0o755)
        for path in (noted, pathlib.Path(f"{noted}.again")):
            path.unlink(missing_ok=True)
        odd = ["my.toml", "it's", 'say "so"', "back\\slash\\", "0.3,0.8", "\\,", "a line\nbreak", "", " ", "*", "$HOME", "-v"]
        odd += ["--fault.max_minutes", "7"]
        self.submit("train", *odd, DDPM=program)
        self.assertEqual([job.code for job in self.queue.run_all()], [0, 0])
        self.assertEqual([os.fsdecode(word) for word in noted.read_bytes().split(b"\0")[:-1]], odd * 2)

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
                job = self.run_one()
                self.assertIn("2 ranks", job.said)
                called = " ".join(self.queue.calls(wanted.split()[0])[-1])
                self.assertRegex(called, wanted + "\\S+ train ")

    def test_ranks_that_no_launcher_binds_have_the_threads_that_are_said(self):
        """Without a word about CPUs each has its share of its node, whatever PBS says, which is of the whole node."""
        (self.queue.folder / "bin" / "mpiexec").write_text("#!/bin/sh\necho threads: $OMP_NUM_THREADS.\n")
        options = f"-v OMP_NUM_THREADS=32 {self.two_ranks} {self.limit(3600)}"
        for variables, threads in (({"DDPM_CPUS_PER_RANK": "8"}, 8), ({"DDPM_CPUS_PER_RANK": "1"}, 1), ({}, 32)):
            self.submit("train", self.config("threads", **SHORT), TRAIN_QSUB=options, **variables)
            (job,) = self.queue.run_all()
            self.assertIn(f"threads: {threads}.", job.said)

    def test_a_task_of_an_array_takes_its_line_and_comes_back_alone(self):
        (WORK / "sweep.txt").write_text(f"--run.directory none\n--run.directory '{WORK}/second line'\n")
        shutil.rmtree(WORK / "second line", ignore_errors=True)
        options = f"-J 2-2 {self.two_ranks} {self.limit(SAVE_S + 8)}"  # time for a step, also on a busy machine
        config = self.config("swept", **{**LONG, "train": {"steps": 5000}})
        self.submit("train", config, "--sweep", WORK / "sweep.txt", TRAIN_QSUB=options, DDPM_MAX_RESTARTS="1")
        first, last = self.queue.run_all()
        self.assertEqual((first.code, last.code), (0, 75), last.said)
        self.assertTrue((WORK / "second line" / "checkpoints").exists(), first.said)
        self.assertNotIn("-J", last.options)
        self.assertEqual({name: last.options[name] for name in ("select", "walltime")},
                         {name: first.options[name] for name in ("select", "walltime")})  # fmt: skip
        said = self.submit("train", config, "--", "sample", "--model", "x", code=2, TRAIN_QSUB=options)
        self.assertIn("each task of a job array would submit the next stage", said)

    def test_a_limit_in_the_line_of_a_sweep_is_left_as_it_is(self):
        (WORK / "limited.txt").write_text("--fault.max_minutes 7\n")
        self.submit("train", self.config("limited", **SHORT), "--sweep", WORK / "limited.txt", DDPM_SAVE_SECONDS="3600",
                    TRAIN_QSUB=f"-J 1-1 {self.two_ranks} {self.limit(3600)}")  # fmt: skip
        self.run_one()

    def test_a_job_that_the_server_runs_again_takes_over_the_lock_of_its_earlier_start(self):
        config = self.config("rerun", **SHORT)
        lock = {"host": "node9", "pid": 7, "process_start": "1", "restart_count": 0, "nonce": "1", "start_time": 1}
        for run_count, of_this_job, code, start in ((1, True, 4, "start 1:"), (3, False, 4, "start 3:"), (3, True, 0, "start 3:")):
            (WORK / "rerun").mkdir(exist_ok=True)
            number = self.submit("train", config).split()[-1]
            owner = lock | {"job_id": number if of_this_job else "1.another"}
            (WORK / "rerun" / "LOCK").write_text(json.dumps(owner, indent=2) + "\n")
            job = self.queue.run_next(run_count)
            self.assertEqual(job.code, code, job.said)
            self.assertIn(start, job.said)
            self.assertIn("node9", job.said)

    def test_variables_that_qsub_would_change_are_refused_in_one_line(self):
        for value in ("/x/it's", '/x/"y"', "/x/a,b", "/x\\y", "/x\ny"):
            said = self.submit("train", "my.toml", code=2, DDPM_SITE=value)
            self.assertEqual(said.count("\n"), 1, said)
            self.assertIn("qsub -v does not carry quotes, backslashes, commas and line breaks as they are, and DDPM_SITE is ", said)
        self.assertEqual(self.queue.calls("qsub"), [])

    def test_what_is_packed_comes_through_every_qsub(self):
        script = f"""set -euo pipefail; fail() {{ exit 3; }}; . '{SOURCE}/jobs/batch.sh'; options=() jobs=/jobs
                     qsub() {{ env -0; printf '%s\\0' "$@"; }}
                     export TRAIN_QSUB='-l select=4,walltime=1:00:00 -m abe'; pbs_submit train "a 'b', \\\\ c" """
        done = subprocess.run(["bash", "-c", script], env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, timeout=60, check=True)
        *variables, _, names, _, _ = done.stdout.split("\0")
        environment = dict(word.split("=", 1) for word in variables if "=" in word)
        for knows_escaped_commas in (False, True):
            job = carried(names, environment, knows_escaped_commas)
            self.assertEqual({name: job[name] for name in names.split(",")}, {name: environment[name] for name in names.split(",")})
            self.assertEqual(base64.b64decode(job["DDPM_PACKED"]), rb"a 'b', \ c" + b"\0")
            self.assertEqual(base64.b64decode(job["DDPM_OPTIONS"]), b"TRAIN_QSUB=-l select=4,walltime=1:00:00 -m abe\0")

    def test_variables_of_the_users_own_options_join_ours(self):
        config = self.config("theirs", **SHORT)
        for own in ("-v MINE=1,THEIRS", "-vMINE=1 -v THEIRS"):
            self.submit("train", config, THEIRS="2", TRAIN_QSUB=f"{own} {self.two_ranks} {self.limit(3600)}")
            job, options = self.queue.start_next()
            with self.queue.ending(job):
                file = pathlib.Path(f"/proc/{job.pid}/environ")
                wait_until(file.read_bytes, 30, "the environment of the job, which is empty while the shell becomes the script")
                environment = file.read_bytes().split(b"\0")
                said, _ = job.communicate(timeout=60)
            self.assertEqual(job.returncode, 0, said)
            self.assertIn(b"MINE=1", environment)
            self.assertIn(b"THEIRS=2", environment)
            self.assertIn(os.fsencode(f"DDPM={DDPM}"), environment)

    def test_a_limit_that_is_unknown_is_said(self):
        (self.queue.folder / "bin" / "qstat").write_text("#!/bin/sh\necho 'qstat: cannot connect' >&2\nexit 1\n")
        self.submit("train", self.config("unknown", **SHORT))
        job = self.run_one()
        self.assertIn("the time limit is unknown", job.said)

    def test_the_script_alone_does_for_one_start_after_the_other(self):
        config = self.config("alone", **SHORT)
        subprocess.run(["qsub", *self.two_ranks.split(), "-v", "DDPM,DDPM_ARGUMENTS,DDPM_JOBS", SOURCE / "jobs" / "train.pbs"], cwd=WORK,
                       env=self.queue.environment() | {"DDPM": DDPM, "DDPM_ARGUMENTS": str(config), "DDPM_JOBS": str(SOURCE / "jobs")},
                       capture_output=True, timeout=60, check=True)  # fmt: skip
        job = self.run_one()
        self.assertEqual(job.options["-N"], "ddpm-train")


class Flux(Batch, unittest.TestCase):
    system, suffix, two_ranks = "flux", "FLUX", "--nodes=1"
    more_time = (b"--time-limit=602s", b"--time-limit=4h")

    def limit(self, seconds):
        return f"--time-limit={seconds}s"

    def test_ranks_are_started_by_flux_run(self):
        for variables, pmi in (({}, ""), ({"DDPM_FLUX_PMI": "pmix"}, "-o pmi=pmix ")):
            self.submit("train", self.config("launched", **SHORT), DDPM_CPUS_PER_RANK="8", **variables)
            job = self.run_one()
            self.assertIn("2 ranks", job.said)
            wanted = rf"flux run --nodes=1 --ntasks=2 --cores-per-task=8 -o cpu-affinity=per-task -o gpu-affinity=off {pmi}\S+ train "
            self.assertRegex(" ".join(self.queue.calls("flux", "run")[-1]), wanted)

    def test_the_signal_before_the_limit_saves_and_the_run_comes_back(self):
        flux = self.queue.folder / "bin" / "flux"
        # A job that ends in the moment of the signal is an error of killall.
        flux.write_text(flux.read_text().replace('"job killall") ', '"job killall") trap "exit 1" EXIT && '))
        for name, is_told in (("signalled", True), ("ranks-signalled", False)):  # the script is told from Flux 0.73 on
            with self.subTest(name):
                self.submit("train", self.config(name, **{**LONG, "train": {"steps": 5000}}))
                job, options = self.queue.start_next()
                self.assertEqual(options["--signal"], "USR1@10m")
                with self.queue.ending(job):
                    wait_until(lambda: (WORK / name / "metrics.jsonl").exists() and len(metrics(WORK / name)) > 5, 60, "a few steps")
                    os.kill(int((self.queue.folder / "launcher").read_text()), signal.SIGUSR1)
                    if is_told:
                        job.send_signal(signal.SIGUSR1)
                    said, _ = job.communicate(timeout=60)
                self.assertEqual(job.returncode, 0, said)
                self.assertIn("stopped; back into the queue", said)
                self.assertTrue(list((WORK / name / "checkpoints").glob("step-*")), said)
                self.assertEqual(len(self.queue.pending()), 1)
                self.queue.ran += 1  # what comes back is not run

    def test_a_signal_before_the_ranks_have_started_is_kept(self):
        slow = WORK / "slow-site.sh"
        slow.write_text(f"touch '{WORK}/site-loads'; sleep 2\n")
        (WORK / "site-loads").unlink(missing_ok=True)
        self.submit("train", self.config("early", **SHORT), DDPM_SITE=slow)
        job, _ = self.queue.start_next()
        with self.queue.ending(job):
            wait_until(lambda: (WORK / "site-loads").exists(), 60, "the job has begun")
            job.send_signal(signal.SIGUSR1)
            said, _ = job.communicate(timeout=60)
        self.assertEqual(job.returncode, 0, said)
        self.assertIn("stopped; back into the queue", said)
        self.assertFalse((WORK / "early").exists())


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
                for tool in ("bash", "env", "awk", "base64", "dirname", "grep", "paste", "sed"):
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
