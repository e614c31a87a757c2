"""The job scripts of jobs/, submitted to a real Slurm as they are: training over nodes, save and requeue, time limits,
chains, arrays, and a node that fails."""

import pathlib
import re
import shutil
import unittest

from cluster import PATIENCE_S
from cluster_case import SOURCE, WORK, ClusterCase
from ddpm_job import sha256_of_model
from ddpm_run import ddpm, make_pictures, metrics
from launcher import LAUNCHER, variables_of_launcher

JOBS = SOURCE / "jobs"
TWO_BY_TWO = ("--nodes=2", "--ntasks-per-node=2")
LONG = {"train": {"steps": 120}, "batch": {"global_size": 8, "micro_size": 2}}
LONGER = {**LONG, "train": {"steps": 200}}  # two tasks, of which the first shall be there when the second has begun
ENVIRONMENT = {"DDPM_JOBS": str(JOBS), **variables_of_launcher(WORK / "bin")}


class Jobs(ClusterCase):
    def submit(self, script, *arguments, options=(), **environment):
        """A job's number and its log."""
        log = WORK / "log-%j.txt"
        number = self.cluster.sbatch(
            *options, f"--output={log}", JOBS / script, *arguments, env=ENVIRONMENT | environment, cwd=WORK
        )
        return number, pathlib.Path(str(log).replace("%j", str(number)))

    def expect(self, job, state, exit_code="0:0", timeout=4 * PATIENCE_S):
        number, log = job
        ended = self.cluster.wait_for_job(number, timeout=timeout)
        said = log.read_text() if log.exists() else ""
        self.assertEqual((ended["JobState"], ended["ExitCode"]), (state, exit_code), said)
        return ended, said

    def train_unbroken(self, name):
        """LONG on four ranks."""
        self.expect(self.submit("train.sbatch", self.config(name, **LONG), options=TWO_BY_TWO), "COMPLETED")

    def test_trains_over_nodes_by_either_launcher(self):
        for launcher in ("srun", LAUNCHER):
            with self.subTest(launcher=launcher):
                config = self.config(launcher, train={"steps": 3}, batch={"global_size": 8, "micro_size": 2})
                job = self.submit("train.sbatch", config, options=TWO_BY_TWO, DDPM_LAUNCHER=launcher)
                _, said = self.expect(job, "COMPLETED")
                self.assertIn("4 ranks", said)
                self.assertEqual(len(metrics(WORK / launcher)), 3)
                again = self.submit("train.sbatch", config, options=TWO_BY_TWO, DDPM_LAUNCHER=launcher)
                self.assertIn("nothing to do", self.expect(again, "COMPLETED")[1])

    def test_usr1_saves_and_goes_back_into_the_queue(self):
        wanted = self.weights_of_unbroken()
        for launcher in ("srun", LAUNCHER):
            with self.subTest(launcher=launcher):
                name = f"requeued-{launcher}"
                job = self.submit("train.sbatch", self.config(name, **LONG), options=TWO_BY_TWO, DDPM_LAUNCHER=launcher)
                self.wait_for_step(name, 10)
                self.cluster.client("scancel", "--batch", "--signal=USR1", job[0], check=True)
                ended, said = self.expect(job, "COMPLETED")
                self.assertEqual(ended["Restarts"], "1", said)
                self.assertIn("back into the queue", said)
                self.assertEqual([m["step"] for m in metrics(WORK / name)], list(range(1, LONG["train"]["steps"] + 1)))
                self.assertEqual(sha256_of_model(WORK / name), wanted)

    def test_term_saves_and_ends(self):
        job = self.submit("train.sbatch", self.config("ended", **LONG), options=TWO_BY_TWO)
        self.wait_for_step("ended", 10)
        self.cluster.client("scancel", "--batch", "--signal=TERM", job[0], check=True)
        ended, _ = self.expect(job, "FAILED", "75:0")
        self.assertEqual(ended["Restarts"], "0")
        self.assertTrue(list((WORK / "ended" / "checkpoints").glob("step-*")))

    def test_the_time_limit_is_no_end(self):
        sections = {**LONG, "train": {"steps": 100000}, "fault": {"stop_signals": ["USR1"]}}
        options = (*TWO_BY_TWO, "--time=1", "--signal=B:USR1@45")
        job = self.submit("train.sbatch", self.config("limited", **sections), options=options)

        # Slurm may send the signal up to a minute early: before the ranks can save, even.
        def saved():
            return int(self.cluster.job(job[0])["Restarts"]) > 0 and list((WORK / "limited").glob("checkpoints/step-*"))

        self.cluster.wait_for(saved, "a restart and a checkpoint", 5 * PATIENCE_S)
        self.assertIn("back into the queue", job[1].read_text())
        self.cluster.client("scancel", job[0], check=True)

    def test_restarts_are_bounded(self):
        job = self.submit("train.sbatch", self.config("bounded", **LONG), options=TWO_BY_TWO, DDPM_MAX_RESTARTS="0")
        self.wait_for_step("bounded", 10)
        self.cluster.client("scancel", "--batch", "--signal=USR1", job[0], check=True)
        ended, said = self.expect(job, "FAILED", "75:0")
        self.assertEqual(ended["Restarts"], "0")
        self.assertIn("not once more", said)

    def test_errors_arrive_as_they_are(self):
        job = self.submit("train.sbatch", self.config("wrong", optimizer={"learning_rat": 1}), options=TWO_BY_TWO)
        self.assertIn("learning_rat", self.expect(job, "FAILED", "2:0")[1])
        self.assertIn("no configuration", self.expect(self.submit("train.sbatch"), "FAILED", "2:0")[1])
        job = self.submit("train.sbatch", self.config("unplugged", **LONG), options=TWO_BY_TWO, DDPM_SRUN_MPI="pmixx")
        ended, said = self.expect(job, "FAILED", "2:0")
        self.assertIn("the launcher does not take what it is told", said)
        self.assertEqual(ended["Restarts"], "0")

    def chain(self, *words, **environment):
        """Job numbers by stage."""
        logs = f"--output={WORK}/log-%j.txt --ntasks-per-node=2"
        variables = {f"{stage}_SBATCH": logs for stage in ("PREPARE", "TRAIN", "SAMPLE")} | ENVIRONMENT | environment
        done = self.cluster.client(JOBS / "submit.sh", *words, env=variables, cwd=WORK, check=True)
        return {stage: (int(number), WORK / f"log-{number}.txt") for stage, number in re.findall(r"(\w+) +job (\d+)", done.stdout)}

    def test_stages_follow_each_other(self):
        pictures, dataset = WORK / "pictures", WORK / "prepared"
        for folder in (pictures, dataset):
            shutil.rmtree(folder, ignore_errors=True)
        make_pictures(pictures, 40)
        config = self.config("chained", dataset, train={"steps": 3}, batch={"global_size": 8, "micro_size": 2})
        grid = WORK / "chained.png"
        grid.unlink(missing_ok=True)
        jobs = self.chain(
            "prepare", pictures, "--output", dataset, "--size", 16, "--", "train", config, "--",
            "sample", "--model", WORK / "chained", "--steps", 2, "--scheduler", "ddim", "--count", 4, "--output", grid,
        )  # fmt: skip
        self.assertEqual(list(jobs), ["prepare", "train", "sample"])
        for job in jobs.values():
            self.expect(job, "COMPLETED")
        self.assertEqual(grid.read_bytes()[:4], b"\x89PNG")

    def test_an_image_set_that_is_there_is_left_as_it_is(self):
        before = sorted((path, path.stat().st_mtime_ns) for path in self.dataset.rglob("*"))
        for words in (("--output", self.dataset), (f"--output={self.dataset}",)):
            job = self.submit("prepare.sbatch", WORK / "pictures", *words)
            _, said = self.expect(job, "COMPLETED")
            self.assertIn("is there already: nothing to do", said)
        self.assertEqual(sorted((path, path.stat().st_mtime_ns) for path in self.dataset.rglob("*")), before)

    def test_jobs_from_another_folder_are_told_so(self):
        environment = {key: value for key, value in ENVIRONMENT.items() if key != "DDPM_JOBS"}
        done = self.cluster.client(
            "sbatch", "--wait", "--output", WORK / "elsewhere.log", JOBS / "train.sbatch", "my.toml", env=environment, cwd=WORK
        )
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("submit from the folder that holds jobs/, or set DDPM_JOBS", (WORK / "elsewhere.log").read_text())

    def test_a_stage_that_fails_ends_the_chain(self):
        config = self.config("never")
        jobs = self.chain("prepare", WORK / "nowhere", "--output", WORK / "never-set", "--", "train", config)
        self.expect(jobs["prepare"], "FAILED", "3:0")
        self.expect(jobs["train"], "CANCELLED")
        self.assertFalse((WORK / "never").exists())

    def test_an_array_runs_a_sweep(self):
        config = self.config("sweep", train={"steps": 2})
        lines = [f"--run.directory '{WORK}/sweep {i}' --optimizer.learning_rate {i}e-4" for i in (1, 2)]
        (WORK / "sweep.txt").write_text("\n".join(lines) + "\n")
        for i in (1, 2):
            shutil.rmtree(WORK / f"sweep {i}", ignore_errors=True)
        options = ("--array=1-2", "--nodes=1", "--ntasks-per-node=2")
        job = self.submit("train.sbatch", config, "--sweep", WORK / "sweep.txt", options=options)
        for i in (1, 2):
            self.cluster.wait_for(lambda i=i: self.cluster.job(f"{job[0]}_{i}")["JobState"] == "COMPLETED", f"task {i}")
            shown = ddpm("config", "show", WORK / f"sweep {i}" / "config.toml").stdout
            self.assertRegex(shown, rf"learning_rate = 0?\.?0*{i}e?-?0?4?")

    def test_a_task_of_an_array_is_requeued_alone(self):
        lines = [f"--run.directory {WORK}/array-{i}" for i in (1, 2)]
        (WORK / "array.txt").write_text("\n".join(lines) + "\n")
        for i in (1, 2):
            shutil.rmtree(WORK / f"array-{i}", ignore_errors=True)
        options = ("--array=1-2", "--nodes=1", "--ntasks-per-node=2")
        job = self.submit("train.sbatch", self.config("array", **LONGER), "--sweep", WORK / "array.txt", options=options)
        for i in (1, 2):
            self.wait_for_step(f"array-{i}", 5)
        tasks = {i: self.cluster.job(f"{job[0]}_{i}") for i in (1, 2)}
        # One of them has the array's own number.
        (first,) = (i for i, task in tasks.items() if task["JobId"] == str(job[0]))
        self.cluster.client("scancel", "--batch", "--signal=USR1", f"{job[0]}_{first}", check=True)
        for i in (1, 2):
            name = f"{job[0]}_{i}"
            self.cluster.wait_for(lambda name=name: self.cluster.job(name)["JobState"] == "COMPLETED", name, 4 * PATIENCE_S)
            self.assertEqual(self.cluster.job(name)["Restarts"], "1" if i == first else "0")

    def test_the_log_of_a_task_is_found_by_its_index(self):
        folder = WORK / "logs"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        (folder / "sweep.txt").write_text("".join(f"--run.directory {folder}/run-{i}\n" for i in (1, 2)))
        config = self.config("array-logs", **LONGER)
        options = ("--array=1-2", "--nodes=1", "--ntasks-per-node=2")
        job = self.cluster.sbatch(*options, JOBS / "train.sbatch", config, "--sweep", folder / "sweep.txt", env=ENVIRONMENT, cwd=folder)
        logs = {i: folder / f"ddpm-train-{job}_{i}.log" for i in (1, 2)}
        self.wait_for_step("logs/run-2", 5)
        self.cluster.client("scancel", "--batch", "--signal=USR1", f"{job}_2", check=True)
        for i, log in logs.items():
            self.cluster.wait_for(lambda i=i: self.cluster.job(f"{job}_{i}")["JobState"] == "COMPLETED", f"task {i}", 4 * PATIENCE_S)
            said = log.read_text()
            self.assertIn(f"(task {job}_{i})", said)
            self.assertIn(f"run-{i}", said)
            self.assertNotIn(f"run-{3 - i}", said)
        # A requeued task continues in its log, and Slurm's own name leads to it.
        self.assertIn("start 2", logs[2].read_text())
        number = self.cluster.job(f"{job}_2")["JobId"]
        self.assertEqual((folder / f"ddpm-train-{number}.log").read_text(), logs[2].read_text())
        # A log that --output has named has that name only, and a job alone has no index.
        again = (JOBS / "prepare.sbatch", WORK / "pictures", "--output", self.dataset)  # nothing to do
        named = self.cluster.sbatch("--wait", "--array=1", "--output=mine-%A_%a.txt", *again, env=ENVIRONMENT, cwd=folder)
        alone = self.cluster.sbatch("--wait", *again, env=ENVIRONMENT, cwd=folder)
        found = {path.name for path in folder.iterdir() if path.name.startswith(("mine", "ddpm-prepare"))}
        self.assertEqual(found, {f"mine-{named}_1.txt", f"ddpm-prepare-{alone}.log"})

    def test_a_line_of_a_sweep_that_is_not_understood(self):
        (WORK / "quotes.txt").write_text("--run.seed '1\n")
        job = self.submit("train.sbatch", self.config("quotes"), "--sweep", WORK / "quotes.txt", options=("--array=1",))
        _, said = self.expect(job, "FAILED", "2:0")
        self.assertIn("quotes.txt, line 1: --run.seed '1", said)
        self.assertFalse((WORK / "quotes").exists())

    def test_a_chain_that_is_not_understood_is_not_begun(self):
        for words, wanted in ((("prepare", "a", "--", "trian", "b"), "unknown stage 'trian'"), (("prepare", "a", "--", "train"), "no arguments")):
            done = self.cluster.client(JOBS / "submit.sh", *words, env=ENVIRONMENT, cwd=WORK)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(wanted, done.stderr)
        self.assertEqual(self.cluster.client("squeue", "--noheader").stdout, "")

    def test_a_node_that_fails(self):
        wanted = self.weights_of_unbroken()
        sections = {**LONG, "checkpoint": {"every_steps": 10}}
        job = self.submit("train.sbatch", self.config("lost-node", **sections), options=TWO_BY_TWO)
        self.wait_for_step("lost-node", 30)
        self.cluster.kill_node("node2")
        self.cluster.start_node("node2")
        ended, said = self.expect(job, "COMPLETED")
        self.assertEqual(ended["Restarts"], "1", said)
        self.assertEqual(sha256_of_model(WORK / "lost-node"), wanted)


if __name__ == "__main__":
    unittest.main(verbosity=2)
