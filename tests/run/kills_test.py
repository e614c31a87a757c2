"""A run killed anywhere resumes from its last checkpoint and reaches equal bits; and what it refuses to resume from.

    kills_test.py                run by ctest: a short form
    kills_test.py --kills 200    so many kills at random times, then the rest
"""

import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_job import Job, is_running, sha256_of_model, wait_until  # noqa: E402
from ddpm_run import MPIRUN, TIMEOUT_S, ddpm, make_dataset, metrics, write_config  # noqa: E402
from launcher import RANK_IN_SHELL  # noqa: E402

WORK = pathlib.Path.cwd()
KILLS = 10
EVERY = {"checkpoint": {"every_steps": 1, "keep_latest": 1000}, "run": {"threads_per_rank": 1}}


def fresh(name):
    shutil.rmtree(WORK / name, ignore_errors=True)
    return WORK / name


def acknowledged(said):
    """The steps whose checkpoints were reported as written."""
    return [int(step) for step in re.findall(r"checkpoint \S*/step-(\d+) written", said)]


class Resuming(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dataset = make_dataset(WORK / "squares")

    def test_from_every_step(self):
        steps = 20
        config = write_config(WORK / "every.toml", fresh("every"), self.dataset, train={"steps": steps}, **EVERY)
        self.assertEqual(acknowledged(ddpm("train", config).stderr), list(range(1, steps + 1)))
        wanted = sha256_of_model(WORK / "every")
        for step in range(1, steps):
            run = fresh("from-step")
            checkpoint = WORK / "every" / "checkpoints" / f"step-{step:08}"
            ddpm("train", config, "--run.directory", run, "--checkpoint.resume", checkpoint)
            self.assertEqual([m["step"] for m in metrics(run)], list(range(step + 1, steps + 1)))
            self.assertEqual(sha256_of_model(run), wanted, f"from step {step}")

    def test_saving_at_once_is_the_same(self):
        config = write_config(WORK / "sync.toml", fresh("sync"), self.dataset, **EVERY)
        ddpm("train", config)
        other = fresh("async")
        ddpm("train", config, "--run.directory", other, "--checkpoint.async", "false")
        self.assertEqual(sha256_of_model(other), sha256_of_model(WORK / "sync"))
        shards = sorted((other / "checkpoints").glob("*/shard-*"))
        self.assertEqual(len(shards), 6)
        for shard in shards:
            self.assertEqual(shard.read_bytes(), (WORK / "sync" / shard.relative_to(other)).read_bytes(), shard)


class Killing(unittest.TestCase):
    """SIGKILL to the whole job, or to one rank, at any time."""

    @classmethod
    def setUpClass(cls):
        cls.dataset = make_dataset(WORK / "squares")

    def kill(self, job, chance):
        """Waits some time, mostly after a step has been made, kills, and returns what was said."""
        pids = {}
        if chance.random() < 0.8:
            log = job.run / "metrics.jsonl"
            size = log.stat().st_size if log.exists() else 0

            def stepped():
                return job.process.poll() is not None or (log.exists() and log.stat().st_size > size)

            wait_until(stepped, TIMEOUT_S, "a step")
            end = time.monotonic() + chance.uniform(0.0, 0.8)
        else:
            end = time.monotonic() + chance.uniform(0.2, 2.0)
        while time.monotonic() < end and job.process.poll() is None:
            time.sleep(0.005)
        pids = job.pids()
        if job.process.poll() is None and pids:
            victim = chance.choice(sorted(pids.values()))
            if is_running(victim):
                os.kill(victim, signal.SIGKILL)
        if job.process.poll() is None and chance.random() < 0.5:
            job.process.kill()
        _, said = job.process.communicate(timeout=60)
        wait_until(lambda: not any(map(is_running, pids.values())), 15, "all ranks are gone")
        return said

    def expect_nothing_lost(self, ranks, kills, seed):
        chance = random.Random(seed)
        patience = 240 + 20 * kills
        sections = {"run": {"threads_per_rank": 1}, "train": {"steps": 60 + 10 * kills}, "batch": {"global_size": 12, "micro_size": 2},
                    "checkpoint": {"every_steps": 2, "keep_latest": 2}, "fault": {"max_starts_without_progress": 0}}
        with Job(f"kept-{ranks}", self.dataset, ranks, **sections) as job:
            code, said = job.end(patience)
            self.assertEqual(code, 0, said)
            wanted = sha256_of_model(job.run)
        newest, done, fresh_run = 0, 0, True
        while done < kills:
            with Job(f"killed-{ranks}", self.dataset, ranks, fresh=fresh_run, **sections) as job:
                fresh_run = False
                said = self.kill(job, chance)
                if job.process.returncode == 0:
                    break
                found = re.search(r"steps (\d+) to ", said)
                if found:
                    self.assertGreaterEqual(int(found.group(1)) - 1, newest, f"an acknowledged checkpoint is lost:\n{said}")
                newest = max([newest, *acknowledged(said)])
                self.assertNotIn("DAMAGED", said)
                done += 1
        with Job(f"killed-{ranks}", self.dataset, ranks, fresh=False, **sections) as job:
            code, said = job.end(patience)
            self.assertEqual(code, 0, said)
        run = WORK / f"killed-{ranks}"
        self.assertEqual(sha256_of_model(run), wanted)
        self.assertEqual([m["step"] for m in metrics(run)], list(range(1, sections["train"]["steps"] + 1)))
        self.assertEqual(sorted(p.name for p in (run / "checkpoints").iterdir() if p.name.startswith(".")), [])
        print(f"{ranks} ranks: {done} of {done} kills survived; steps acknowledged up to {newest}, weights equal")
        return done

    def test_at_random_times(self):
        done = self.expect_nothing_lost(1, KILLS // 2, 1) + self.expect_nothing_lost(2, KILLS - KILLS // 2, 2)
        self.assertGreaterEqual(done, KILLS // 2)


class Refusing(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dataset = make_dataset(WORK / "squares")

    def test_a_run_that_gets_nowhere_is_not_started_for_ever(self):
        run = fresh("nowhere")
        config = write_config(WORK / "nowhere.toml", run, self.dataset, train={"steps": 2},
                              fault={"max_starts_without_progress": 2})
        # Sums that overflow in the first step, every time.
        for _ in range(2):
            self.assertEqual(ddpm("train", config, "--optimizer.learning_rate", 1e38, check=False).returncode, 6)
        process = ddpm("train", config, "--optimizer.learning_rate", 1e38, check=False)
        self.assertEqual(process.returncode, 5, process.stderr)
        self.assertIn("started 2 times from step 0", process.stderr)
        self.assertFalse((run / "LOCK").exists())

    def test_a_rank_that_never_starts_is_waited_for_no_longer_than_asked(self):
        pids = WORK / "late-pid"
        pids.unlink(missing_ok=True)
        wrapper = f'if [ "{RANK_IN_SHELL}" = 1 ]; then echo $$ > {pids}; exec sleep 100; fi; exec "$0" "$@"'
        config = write_config(WORK / "late.toml", fresh("late"), self.dataset)
        start = time.monotonic()
        process = subprocess.run(
            [*MPIRUN, "-np", "2",
             "sh", "-c", wrapper, os.environ["DDPM"], "train", str(config)],
            capture_output=True, text=True, timeout=60, check=False, env={**os.environ, "DDPM_START_TIMEOUT_S": "3"})
        self.assertEqual(process.returncode, 5, process.stderr)
        self.assertIn("the ranks have not met within 3 s", process.stderr)
        self.assertLess(time.monotonic() - start, 30)


if __name__ == "__main__":
    if "--kills" in sys.argv:
        at = sys.argv.index("--kills")
        KILLS = int(sys.argv[at + 1])
        del sys.argv[at : at + 2]
    unittest.main(verbosity=2)
