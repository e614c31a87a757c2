"""Stopping on request, hanging ranks and lost ones: exit codes, what is said, and what a resumed run makes of it."""

import os
import pathlib
import re
import shutil
import signal
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_job import Job, is_running, sha256_of_model, wait_until  # noqa: E402
from ddpm_run import ddpm, make_dataset, metrics  # noqa: E402

WORK = pathlib.Path.cwd()
TO_STOP = {"train": {"steps": 40}}  # far more than pass before a signal comes; resumed, and trained again


class Stopping(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dataset = make_dataset(WORK / "squares")
        cls.unbroken = {}

    def expect_same_as_unbroken(self, run, ranks, beside=None, **sections):
        """Resumes `run` to its end, which is bit for bit that of an undisturbed run, without the sections `beside` training."""
        with Job(run.name, self.dataset, ranks, fresh=False, **sections, **(beside or {})) as job:
            self.assertEqual(job.end()[0], 0)
        self.assertEqual([m["step"] for m in metrics(run)], list(range(1, len(metrics(run)) + 1)))
        key = (ranks, str(sections))
        if key not in self.unbroken:
            with Job(f"unbroken-{len(self.unbroken)}", self.dataset, ranks, **sections) as job:
                self.assertEqual(job.end()[0], 0)
                self.unbroken[key] = sha256_of_model(job.run)
        self.assertEqual(sha256_of_model(run), self.unbroken[key])

    def test_each_signal_ends_with_75_and_a_checkpoint(self):
        for name, ranks in (("USR1", 1), ("TERM", 1), ("USR1", 2), ("USR2", 3)):
            with self.subTest(signal=name, ranks=ranks), Job(f"stop-{name}-{ranks}", self.dataset, ranks, **TO_STOP) as job:
                job.wait_for_step(3)
                job.process.send_signal(getattr(signal, "SIG" + name))  # mpirun passes USR1 and USR2 on to all ranks
                code, said = job.end()
                self.assertEqual(code, 75, said)
                self.assertIn(f"by SIG{name}; the same command continues", said)
                self.assertEqual(said.count(f"SIG{name} came after step "), 1, said)
                self.assertIn("until then this run has no checkpoint yet", said)
                step = metrics(job.run)[-1]["step"]
                self.assertTrue((job.run / f"checkpoints/step-{step:08}/MANIFEST.json").exists(), said)
                self.assertFalse((job.run / "model").exists())
                self.assertFalse((job.run / "LOCK").exists())
                self.expect_same_as_unbroken(job.run, ranks, **TO_STOP)

    def test_a_signal_to_one_rank_stops_all(self):
        with Job("stop-one", self.dataset, 2) as job:
            job.wait_for_step(3)
            os.kill(job.pids()[1], signal.SIGUSR2)
            code, said = job.end()
            self.assertEqual(code, 75, said)
            self.assertIn("by a signal to another rank", said)

    def test_more_signals_change_nothing(self):
        with Job("stop-often", self.dataset, 1, **TO_STOP) as job:
            job.wait_for_step(2)
            while job.process.poll() is None:
                job.process.send_signal(signal.SIGUSR1)
                time.sleep(0.002)
            code, said = job.end()
            self.assertEqual(code, 75, said)
            self.assertEqual(said.count("stopped at step"), 1)
            self.expect_same_as_unbroken(job.run, 1, **TO_STOP)

    def test_between_micro_batches_the_step_is_discarded(self):
        # Steps of seconds: the signal comes within one.
        sections = {"batch": {"global_size": 240, "micro_size": 2}, "train": {"steps": 2}}
        for stage in (0, 2, 3):
            parallel = {"parallel": {"zero_stage": stage}}
            with self.subTest(stage=stage), Job(f"discard-{stage}", self.dataset, 2, **sections, **parallel) as job:
                job.wait_for_step(1)
                time.sleep(0.2)
                job.process.send_signal(signal.SIGUSR1)
                code, said = job.end()
                self.assertEqual(code, 75, said)
                self.assertIn("stopped at step 1,", said)
                self.expect_same_as_unbroken(job.run, 2, **sections, **parallel)

    def test_long_work_after_a_step_is_given_up(self):
        images = make_dataset(WORK / "many-squares", 1200)
        validation = {"data": {"validation": str(images)}, "validation": {"every_steps": 2}}
        samples = {"sample": {"every_steps": 2, "count": 32, "scheduler": "ddpm", "steps": 250}}
        for name, work in (("validation", validation), ("drawing samples", samples)):
            training = {"train": {"steps": 4}}
            with self.subTest(name), Job(f"given-up-{name.split()[0]}", self.dataset, 2, **training, **work) as job:
                job.wait_for_step(1)  # of the second step nothing is written before that work is done
                time.sleep(0.5)
                job.process.send_signal(signal.SIGUSR1)
                code, said = job.end()
                self.assertEqual(code, 75, said)
                self.assertIn(f"step 2: {name} is given up, by SIGUSR1", said)
                self.assertIn("stopped at step 2, with a checkpoint", said)
                self.expect_same_as_unbroken(job.run, 2, beside=work, **training)

    def test_the_clock_stops_a_run_too(self):
        with Job("clock", self.dataset, 2, ["--fault.max_minutes", 0.05, "--train.steps", 100000]) as job:
            code, said = job.end(60)
            self.assertEqual(code, 75, said)
            self.assertIn("by fault.max_minutes = 0.05", said)

    def test_signals_that_are_not_asked_for_keep_their_meaning(self):
        with Job("no-signals", self.dataset, 1, fault={"stop_signals": []}) as job:
            job.wait_for_step(1)
            job.process.send_signal(signal.SIGUSR1)
            self.assertEqual(job.end()[0], -signal.SIGUSR1)
        process = ddpm("train", WORK / "no-signals.toml", "--fault.stop_signals", '["KILL"]', check=False)
        self.assertEqual(process.returncode, 2)
        self.assertIn('fault.stop_signals holds "KILL"; wanted: any of', process.stderr)


    def test_who_ignores_a_signal_from_the_start_ignores_it_unless_it_stops_the_run(self):
        before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # as a batch script's trap '' USR1 does
        try:
            for stops, wanted in (("TERM", 0), ("USR1", 75)):
                with self.subTest(stop_signals=stops), Job("ignored-usr1", self.dataset, 1, fault={"stop_signals": [stops]}) as job:
                    while job.process.poll() is None:  # while the program starts, too
                        job.process.send_signal(signal.SIGUSR1)
                        time.sleep(0.02)
                    code, said = job.end()
                    self.assertEqual(code, wanted, said)
                    self.assertEqual("SIGUSR1 came" in said or "by SIGUSR1" in said, wanted == 75, said)
        finally:
            signal.signal(signal.SIGUSR1, before)


class Interrupted(unittest.TestCase):
    """Ctrl-C, which saves nothing unless fault.stop_signals holds INT."""

    @classmethod
    def setUpClass(cls):
        cls.dataset = make_dataset(WORK / "squares")

    def lost_text(self, job, said):
        """The one line, and that its numbers are those of the run's files."""
        lines = [line for line in said.splitlines() if "interrupted by SIGINT" in line]
        self.assertEqual(len(lines), 1, said)
        found = re.search(r"after step (\d+): the last checkpoint is that of step (\d+), (\d+) steps? (is|are) lost", lines[0])
        self.assertTrue(found, lines[0])
        step, saved, lost = (int(found[i]) for i in (1, 2, 3))
        self.assertEqual(lost, step - saved)
        self.assertTrue((job.run / f"checkpoints/step-{saved:08}/MANIFEST.json").exists(), lines[0])
        self.assertLessEqual(abs(metrics(job.run)[-1]["step"] - step), 1)

    def test_says_what_is_lost_and_dies_of_it(self):
        # Only odd steps count: a checkpoint of the step itself means that nothing is lost.
        sections = {"checkpoint": {"every_steps": 4, "async": False}, "train": {"steps": 100_000}}
        for attempt in range(5):
            with Job("interrupted", self.dataset, 1, **sections) as job:
                job.wait_for_step(9)
                job.process.send_signal(signal.SIGINT)
                code, said = job.end(20)
                self.assertEqual(code, -signal.SIGINT, said)
                if "nothing is lost" in said:
                    continue
                return self.lost_text(job, said)
        self.fail("five times at a checkpoint")

    def test_without_a_checkpoint_all_is_lost(self):
        with Job("interrupted-early", self.dataset, 1, train={"steps": 100_000}) as job:
            job.wait_for_step(2)
            job.process.send_signal(signal.SIGINT)
            code, said = job.end(20)
            self.assertEqual(code, -signal.SIGINT, said)
            self.assertRegex(said, r"after step \d+: this run has no checkpoint yet, all of its steps are lost")

    def test_a_rank_that_is_stuck_in_a_collective_says_it_too(self):
        fault = {"step_timeout_s": 0.0}
        with Job("interrupted-stuck", self.dataset, 2, train={"steps": 100_000}, fault=fault) as job:
            job.wait_for_step(2)
            os.kill(job.pids()[1], signal.SIGSTOP)
            time.sleep(1)
            os.kill(job.pids()[0], signal.SIGINT)
            code, said = job.end(20)
            self.assertNotEqual(code, 0)
            self.assertIn("interrupted by SIGINT after step", said)

    def test_an_interrupted_mpirun_gives_its_ranks_time_to_say_it(self):
        grace = {"OMPI_MCA_odls_base_sigkill_timeout": "1"}  # Open MPI's default, which tests otherwise do without
        with Job("interrupted-launcher", self.dataset, 2, env=grace, train={"steps": 100_000}) as job:
            job.wait_for_step(2)
            job.process.send_signal(signal.SIGINT)
            code, said = job.end(30)
            self.assertNotEqual(code, 0)
            self.assertIn("SIGTERM came after step", said)
            self.assertIn("until then this run has no checkpoint yet", said)

    def test_what_stops_the_run_loses_nothing(self):
        with Job("int-stops", self.dataset, 1, fault={"stop_signals": ["INT"]}) as job:
            job.wait_for_step(3)
            job.process.send_signal(signal.SIGINT)
            code, said = job.end()
            self.assertEqual(code, 75, said)
            self.assertIn("by SIGINT; the same command continues", said)
            self.assertNotIn("lost", said)

    def test_who_ignores_it_from_the_start_goes_on(self):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a shell does for commands that end with &
        try:
            with Job("ignored", self.dataset, 1) as job:
                signal.signal(signal.SIGINT, signal.default_int_handler)
                job.wait_for_step(2)
                job.process.send_signal(signal.SIGINT)
                self.assertEqual(job.end()[0], 0)
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)


class Hanging(unittest.TestCase):
    DEADLINE_S = 3

    @classmethod
    def setUpClass(cls):
        cls.dataset = make_dataset(WORK / "squares")

    def test_a_stopped_rank_is_named_and_all_end(self):
        for ranks, late in ((2, 1), (3, 2), (3, 0)):
            fault = {"step_timeout_s": self.DEADLINE_S}
            with self.subTest(ranks=ranks, late=late), Job("stopped", self.dataset, ranks, fault=fault) as job:
                job.wait_for_step(3)
                pids = job.pids()
                self.assertEqual(sorted(pids), list(range(ranks)))
                os.kill(pids[late], signal.SIGSTOP)
                self.expect_late(job, late, "", "fault.step_timeout_s")
                wait_until(lambda p=pids: not any(map(is_running, p.values())), 10, "all ranks are gone")
        self.assertEqual(ddpm("train", WORK / "stopped.toml", "--train.steps", 6, ranks=2).returncode, 0)

    def test_a_job_that_was_suspended_accuses_nobody(self):
        deadline = 10  # of which the pause takes two seconds: enough for a step on a busy machine is left
        with Job("suspended", self.dataset, 2, fault={"step_timeout_s": deadline}) as job:
            job.wait_for_step(3)
            pids = job.pids()
            for pid in pids.values():
                os.kill(pid, signal.SIGSTOP)
            time.sleep(deadline + 3)
            for pid in pids.values():
                os.kill(pid, signal.SIGCONT)
            code, said = job.end(60)
            self.assertEqual(code, 0, said)
            self.assertNotIn("late", said)

    def test_a_watchdog_that_seldom_gets_to_look_comes_to_its_verdict(self):
        # This imitates a machine so loaded that rank 0 computes for a third of a second at a time.
        fault = {"step_timeout_s": 2 * self.DEADLINE_S}
        with Job("loaded", self.dataset, 2, fault=fault) as job:
            job.wait_for_step(3)
            pids = job.pids()
            os.kill(pids[1], signal.SIGSTOP)
            end = time.monotonic() + 30
            while is_running(pids[0]) and time.monotonic() < end:
                os.kill(pids[0], signal.SIGSTOP)
                time.sleep(2.6)
                os.kill(pids[0], signal.SIGCONT)
                time.sleep(0.35)
            self.assertFalse(is_running(pids[0]), "no verdict within 30 s")
            self.expect_late(job, 1, "", "fault.step_timeout_s", 2 * self.DEADLINE_S)

    def expect_late(self, job, rank, doing, key, deadline=DEADLINE_S):
        """All are gone within the deadline and 10 s; one line names the rank, what it does and the key."""
        code, said = job.end(deadline + 10)
        self.assertEqual(code, 5, said)
        late_lines = [line for line in said.splitlines() if " is late: " in line]
        self.assertEqual(len(late_lines), 1, said)
        self.assertIn(f"rank {rank} on {os.uname().nodename} is late", late_lines[0])
        self.assertIn(doing, late_lines[0])
        self.assertIn(f"{key} = {deadline}", late_lines[0])

    def test_a_checkpoint_has_its_own_deadline(self):
        # Rank 1's disk does not answer: its first fsync takes a minute.
        stuck = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync", "-e", "inject=fsync:delay_enter=60000000"]
        sections = {"checkpoint": {"every_steps": 3, "async": False}, "fault": {"checkpoint_timeout_s": self.DEADLINE_S}}
        with Job("stuck-disk", self.dataset, 2, last_rank=stuck, **sections) as job:
            job.wait_for_step(3)
            self.expect_late(job, 1, "the checkpoint", "fault.checkpoint_timeout_s")
        self.assertEqual(sorted((job.run / "checkpoints").glob("step-*")), [])

    def slow_disk(self, seconds):
        """A command under which each first fsync of a thread takes so long: of a rank other than 0, that of a shard."""
        return ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync",
                "-e", f"inject=fsync:delay_enter={seconds}000000:when=1"]  # fmt: skip

    def test_an_error_of_all_ranks_waits_for_the_checkpoint_on_its_way(self):
        # The weights after the first step are so large that the second one overflows.
        sections = {"optimizer": {"learning_rate": 1e30, "max_grad_norm": 0}, "lr_schedule": {"warmup_steps": 0}}
        sections |= {"checkpoint": {"every_steps": 1}, "fault": {"step_timeout_s": self.DEADLINE_S}}
        with Job("failed-while-saving", self.dataset, 2, last_rank=self.slow_disk(4 * self.DEADLINE_S), **sections) as job:
            code, said = job.end()
            self.assertEqual(code, 6, said)
            self.assertNotIn("late", said)
            self.assertIn("not finite", said)
            self.assertIn("step-00000001 written", said)
        self.assertTrue((job.run / "checkpoints/step-00000001/MANIFEST.json").exists())

    def test_an_error_of_one_rank_waits_for_no_checkpoint(self):
        # Rank 1 has a copy of the set, which is damaged while its shard is being written.
        place = WORK / "place-of-rank-1"
        shutil.rmtree(place, ignore_errors=True)
        copy = shutil.copytree(self.dataset, place / self.dataset.name)
        last_rank = ["env", "-C", str(place), *self.slow_disk(60)]
        sections = {"data": {"prefetch": 0}, "checkpoint": {"every_steps": 50}, "train": {"steps": 1000}}
        sections |= {"fault": {"step_timeout_s": self.DEADLINE_S}}
        with Job("own-error-while-saving", self.dataset.name, 2, last_rank=last_rank, **sections) as job:
            job.wait_for_step(51)
            for shard in copy.glob("*.h5"):
                with shard.open("r+b") as file:
                    file.write(bytes(shard.stat().st_size))
            code, said = job.end(30)
            self.assertEqual(code, 3, said)
            self.assertNotIn("late", said)
            self.assertEqual(said.count("ddpm: error:"), 1, said)
            self.assertIn("ddpm: error: rank 1 on ", said)
        self.assertFalse((job.run / "LOCK").exists())

    def test_starting_has_its_own_deadline(self):
        # Rank 1 waits for a file server that does not answer when it looks at the shard that is its to check.
        shard = self.dataset / "shard-00001-of-00003.h5"
        stuck = ["strace", "-f", "-qq", "-o", "/dev/null", "-P", str(shard), "-e", "trace=openat"]
        stuck += ["-e", "inject=openat:delay_enter=60000000"]
        with Job("stuck-data", self.dataset, 2, last_rank=stuck, fault={"init_timeout_s": self.DEADLINE_S}) as job:
            self.expect_late(job, 1, "starting", "fault.init_timeout_s")
        self.assertFalse((job.run / "checkpoints").exists())

    def test_a_slow_start_that_gets_on_may_take_longer_than_the_deadline(self):
        # A slow file system: each read of a file of the set takes a part of the deadline.
        shards = sorted(self.dataset.glob("*.h5"))
        slow = ["strace", "-f", "-qq", "-o", "/dev/null", *(word for shard in shards for word in ("-P", str(shard)))]
        slow += ["-e", "trace=pread64", "-e", "inject=pread64:delay_enter=400000:when=1..60"]
        with Job("slow-data", self.dataset, 2, last_rank=slow, fault={"init_timeout_s": self.DEADLINE_S}, train={"steps": 2}) as job:
            begun = time.monotonic()
            code, said = job.end(120)
            self.assertEqual(code, 0, said)
            self.assertNotIn("late", said)
            self.assertGreater(time.monotonic() - begun, 2 * self.DEADLINE_S)

    def test_a_validation_has_its_own_deadline(self):
        # The first step's loss is written with its validation's: a rank that stops before it stops in the validation,
        # which takes far longer than the step, but not so long as its deadline, on a busy machine either.
        deadline = 12
        images = make_dataset(WORK / "many-squares", 1200)
        sections = {"data": {"validation": str(images)}, "validation": {"every_steps": 1}}
        sections |= {"fault": {"validation_timeout_s": deadline}, "train": {"steps": 1000}}
        with Job("stopped-validation", self.dataset, 2, **sections) as job:
            job.wait_for_step(1)
            time.sleep(0.5)
            os.kill(job.pids()[1], signal.SIGSTOP)
            self.expect_late(job, 1, "validation", "fault.validation_timeout_s", deadline)

    def test_nobody_is_late_in_a_run_that_goes_on(self):
        fault = {"step_timeout_s": 5, "checkpoint_timeout_s": 5, "init_timeout_s": 60}
        with Job("in-time", self.dataset, 2, fault=fault, checkpoint={"every_steps": 5}) as job:
            code, said = job.end()
            self.assertEqual(code, 0, said)
            self.assertNotIn("late", said)


class Lost(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dataset = make_dataset(WORK / "squares")

    def test_a_killed_rank_ends_the_job(self):
        with Job("killed", self.dataset, 3) as job:
            job.wait_for_step(3)
            pids = job.pids()
            os.kill(pids[1], signal.SIGKILL)
            self.assertNotEqual(job.end(20)[0], 0)
            wait_until(lambda: not any(map(is_running, pids.values())), 10, "all ranks are gone")
        self.assertEqual(ddpm("train", WORK / "killed.toml", "--train.steps", 6, ranks=2).returncode, 0)

    def test_ranks_die_with_their_launcher(self):
        with Job("orphans", self.dataset, 3) as job:
            job.wait_for_step(3)
            pids = job.pids()
            job.process.kill()
            wait_until(lambda: not any(map(is_running, pids.values())), 10, "all ranks are gone")


if __name__ == "__main__":
    unittest.main(verbosity=2)
