"""Two runs in one folder: the second is refused, unless it is told to take over; the first then writes no more."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_run import ddpm, files_below, make_dataset, metrics, write_config  # noqa: E402
from ddpm_job import Job, children_of, wait_until  # noqa: E402

WORK = pathlib.Path.cwd()
SECTIONS = {"train": {"steps": 400}, "checkpoint": {"every_steps": 5}}


def lock_of(run):
    """The owner, as the file says: JSON, then a line for renewals."""
    return json.JSONDecoder().raw_decode((run / "LOCK").read_text())[0]


def owned_by_another(run, owner):
    try:
        return lock_of(run)["pid"] != owner["pid"]
    except (OSError, ValueError):  # just being taken
        return False


class Lock(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dataset = make_dataset(WORK / "squares")

    def test_a_second_run_is_refused_and_changes_nothing(self):
        with Job("held", self.dataset, 2, **SECTIONS) as job:
            job.wait_for_step(6)
            owner = lock_of(job.run)
            self.assertEqual(owner["pid"], job.pids()[0])
            for ranks in (1, 2):
                second = ddpm("train", WORK / "held.toml", ranks=ranks, check=False)
                self.assertEqual(second.returncode, 4, second.stderr)
                self.assertIn(f"in use by process {owner['pid']} on {owner['host']}", second.stderr)
                self.assertRegex(second.stderr, r"stale 300 s after its last renewal, this one in \d+ s")
                self.assertIn("--force-unlock takes it at once", second.stderr)
            self.assertEqual(lock_of(job.run), owner)
            job.process.send_signal(signal.SIGUSR1)
            self.assertEqual(job.end()[0], 75)

    def test_force_unlock_takes_over_and_the_first_run_writes_no_more(self):
        with Job("taken", self.dataset, 1, **SECTIONS) as first:
            first.wait_for_step(6)
            owner = lock_of(first.run)
            os.kill(first.process.pid, signal.SIGSTOP)  # not dead: it continues once another run has the folder
            with Job("taken", self.dataset, 2, ["--force-unlock", "--train.steps", 40], False, **SECTIONS) as second:
                wait_until(lambda: owned_by_another(second.run, owner), 60, "another owner")
                os.kill(first.process.pid, signal.SIGCONT)
                code, said = first.end()
                self.assertEqual(code, 4, said)
                self.assertIn("this run no longer owns its folder", said)
                code, said = second.end()
                self.assertEqual(code, 0, said)
                self.assertIn(f"--force-unlock: taken from process {owner['pid']} on {owner['host']}", said)
                self.assertEqual(metrics(second.run)[-1]["step"], 40)
                ddpm("checkpoint", "verify", second.run)
                self.assertFalse([f for f in files_below(second.run) if "tmp" in f or f == "LOCK"])

    def test_a_killed_run_is_no_obstacle(self):
        with Job("killed", self.dataset, 1, **SECTIONS) as job:
            job.wait_for_step(6)
            job.process.kill()
            job.end()
            self.assertTrue((job.run / "LOCK").exists())
        self.assertEqual(ddpm("train", WORK / "killed.toml", "--train.steps", 20).returncode, 0)

    def test_a_start_that_another_run_overtakes_is_refused(self):
        # The second start has read its checkpoint, and is held up before it takes the lock; meanwhile the first run saves
        # more, and ends.
        log = WORK / "overtaken.strace"
        log.unlink(missing_ok=True)
        with Job("overtaken", self.dataset, 1, **SECTIONS) as first:
            first.wait_for_step(6)
            # It sets its umask in between: there it is stopped.
            checkpoints = first.run / "checkpoints"
            stopping = ["strace", "-f", "-qq", "-o", str(log)]
            stopping += ["-e", "trace=openat,umask", "-e", "inject=umask:signal=STOP"]
            second = subprocess.Popen(
                [*stopping, os.environ["DDPM"], "train", str(WORK / "overtaken.toml")], stderr=subprocess.PIPE, text=True
            )
            try:
                wait_until(lambda: log.exists() and "stopped by SIGSTOP" in log.read_text(), 60, "the second start is stopped")
                self.assertIn(str(checkpoints), log.read_text(), "it has not looked before")
                (stopped,) = children_of(second.pid)
                first.wait_for_step(len(metrics(first.run)) + 6)
                first.process.send_signal(signal.SIGUSR1)
                self.assertEqual(first.end()[0], 75)
                saved = files_below(checkpoints)
                os.kill(stopped, signal.SIGCONT)
                _, said = second.communicate(timeout=120)
            finally:
                if second.poll() is None:
                    for pid in (*children_of(second.pid), second.pid):
                        os.kill(pid, signal.SIGKILL)
            self.assertEqual(second.returncode, 4, said)
            self.assertIn("another run has worked in this folder while this one was starting", said)
            self.assertEqual(files_below(checkpoints), saved)
            self.assertFalse((first.run / "LOCK").exists())

    def test_a_checkpoint_that_a_kill_left_displaced_is_resumed_from(self):
        # As SIGKILL between the two renames leaves it, by which a save replaces the checkpoint of the same step.
        config = write_config(WORK / "displaced.toml", WORK / "displaced", self.dataset, train={"steps": 4},
                              checkpoint={"every_steps": 2})  # fmt: skip
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                shutil.rmtree(WORK / "displaced", ignore_errors=True)
                ddpm("train", config, ranks=ranks)
                checkpoints = WORK / "displaced" / "checkpoints"
                (checkpoints / "step-00000004").rename(checkpoints / ".old-step-00000004-0123456789abcdef")
                said = ddpm("train", config, "--train.steps", 6, ranks=ranks).stderr
                self.assertIn("steps 5 to 6", said)
                names = sorted(path.name for path in checkpoints.iterdir())
                self.assertEqual(names, ["step-00000002", "step-00000004", "step-00000006"])

    def test_a_named_checkpoint_takes_no_newer_ones_place_that_cannot_be_seen_now(self):
        config = write_config(WORK / "named.toml", WORK / "named", self.dataset, train={"steps": 2}, checkpoint={"every_steps": 2})
        later = write_config(WORK / "later.toml", WORK / "later", self.dataset, train={"steps": 4}, checkpoint={"every_steps": 2})
        for name in ("named", "later"):
            shutil.rmtree(WORK / name, ignore_errors=True)
        ddpm("train", config)
        resume = ["train", later, "--checkpoint.resume", WORK / "named" / "checkpoints" / "step-00000002"]
        ddpm(*resume)
        checkpoints = WORK / "later" / "checkpoints"
        newest = checkpoints / "step-00000004"
        saved = files_below(checkpoints)
        failing = ["-P", newest / "MANIFEST.json", "-P", newest,
                   "-e", "trace=openat,newfstatat", "-e", "inject=openat:error=ENOENT", "-e", "inject=newfstatat:error=EIO"]  # fmt: skip
        command = ["strace", "-f", "-qq", "-o", WORK / "named.strace", *failing, os.environ["DDPM"], *resume, "--train.steps", 6]
        process = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(process.returncode, 4, process.stderr)
        self.assertIn("may be whole", process.stderr)
        self.assertEqual(files_below(checkpoints), saved)
        self.assertIn("steps 5 to 6", ddpm(*resume, "--train.steps", 6).stderr)

    def test_a_start_that_was_killed_before_its_first_file_is_no_obstacle(self):
        with Job("early", self.dataset, 1, train={"steps": 2}) as job:
            self.assertEqual(job.end()[0], 0)
        for name in [path.name for path in job.run.iterdir()]:
            path = job.run / name
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        (job.run / ".config.toml.tmp-0123").write_text("half")
        (job.run / "LOCK").write_text("{")
        self.assertEqual(ddpm("train", WORK / "early.toml").returncode, 0)

    def test_an_error_of_one_rank_leaves_no_lock(self):
        # Slots 24 and 31 are those of the first and of the last rank in step 4.
        for image, rank in ((24, 0), (31, 1)):
            damaged = WORK / f"damaged-{image}"
            shutil.rmtree(damaged, ignore_errors=True)
            shutil.copytree(self.dataset, damaged)
            shards = json.loads((damaged / "dataset.json").read_text())["shards"]
            shard = next(s for s in shards if s["first"] <= image < s["first"] + s["count"])
            path = damaged / shard["file"]
            content = bytearray(path.read_bytes())  # the images are its last bytes
            content[-(shard["first"] + shard["count"] - image) * 16 * 16 * 3] ^= 1
            path.write_bytes(content)
            sections = {**SECTIONS, "data": {"shuffle": "none"}, "checkpoint": {"every_steps": 1}}
            with self.subTest(rank=rank), Job(f"damaged-run-{rank}", damaged, 2, **sections) as job:
                code, said = job.end()
                self.assertEqual(code, 3, said)
                self.assertIn(f"rank {rank} on", said)
                self.assertIn(f"(number {image} of the dataset) is damaged", said)
                self.assertFalse((job.run / "LOCK").exists())
                self.assertLessEqual(metrics(job.run)[-1]["step"], 3)

    def test_checkpoints_that_are_gone_are_missed(self):
        with Job("purged", self.dataset, 1, train={"steps": 2}) as job:
            self.assertEqual(job.end()[0], 0)
        shutil.rmtree(job.run / "checkpoints")
        refused = ddpm("train", WORK / "purged.toml", "--train.steps", 4, check=False)
        self.assertEqual(refused.returncode, 4, refused.stderr)
        self.assertIn("says that there was a checkpoint", refused.stderr)
        self.assertEqual(len(metrics(job.run)), 2)
        (job.run / "LATEST").unlink()
        self.assertEqual(ddpm("train", WORK / "purged.toml", "--train.steps", 4).returncode, 0)

    def test_a_refused_start_leaves_the_finished_model(self):
        with Job("finished", self.dataset, 1, train={"steps": 2}) as job:
            self.assertEqual(job.end()[0], 0)
        before = files_below(job.run)
        (job.run / "starts.json").write_text('{"step": 2, "starts": 3}')
        refused = ddpm(
            "train", WORK / "finished.toml", "--train.steps", 4, "--fault.max_starts_without_progress", 3, check=False
        )
        self.assertEqual(refused.returncode, 5, refused.stderr)
        self.assertEqual(files_below(job.run), before)

    def test_a_dry_run_takes_no_lock(self):
        self.assertEqual(ddpm("train", WORK / "absent.toml", "--dry-run", "--force-unlock", check=False).returncode, 2)


if __name__ == "__main__":
    unittest.main()
