"""Files of a run that are removed or replaced while it trains: what is lost is said, and nothing goes into files that
nobody will read."""

import csv
import os
import pathlib
import shutil
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_job import Job  # noqa: E402
from ddpm_run import ddpm, files_below, make_dataset, metrics  # noqa: E402

WORK = pathlib.Path.cwd()
STEPS = 120
SECTIONS = {"train": {"steps": STEPS}, "checkpoint": {"every_steps": 5}}


class Stopped:
    """The job's processes stand still meanwhile."""

    def __init__(self, job):
        self.pids = list(job.pids().values())

    def __enter__(self):
        for pid in self.pids:
            os.kill(pid, signal.SIGSTOP)

    def __exit__(self, *_):
        for pid in self.pids:
            os.kill(pid, signal.SIGCONT)


class ReplacedFiles(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dataset = make_dataset(WORK / "squares")

    def warnings(self, said):
        return [line for line in said.splitlines() if "was removed or replaced during training" in line]

    def test_removed_metrics_and_events_are_said_to_be_lost_and_go_on(self):
        for ranks in (1, 2):
            with self.subTest(ranks=ranks), Job(f"removed-{ranks}", self.dataset, ranks, **SECTIONS) as job:
                job.wait_for_step(6)
                with Stopped(job):
                    last = metrics(job.run)[-1]["step"]
                    (job.run / "metrics.jsonl").unlink()
                    shutil.rmtree(job.run / "events")
                code, said = job.end()
                self.assertEqual(code, 0, said)
                warnings = self.warnings(said)
                self.assertEqual(len(warnings), 2, said)
                self.assertIn(f"{job.run}/metrics.jsonl: the file was removed", warnings[0])
                self.assertIn(f"{job.run}/events: the file of this run in it was removed", warnings[1])
                steps = [line["step"] for line in metrics(job.run)]
                self.assertEqual(steps, list(range(steps[0], STEPS + 1)))
                self.assertLessEqual(last, steps[0])
                self.assertLessEqual(steps[0], last + 2, "lines went on being lost")
                self.assertEqual(len(list((job.run / "events").iterdir())), 1)

    def test_a_replaced_metrics_file_is_appended_to(self):
        with Job("replaced", self.dataset, 1, **SECTIONS) as job:
            job.wait_for_step(6)
            path = job.run / "metrics.jsonl"
            with Stopped(job):
                path.rename(path.with_suffix(".old"))
                shutil.copy(path.with_suffix(".old"), path)
            code, said = job.end()
            self.assertEqual(code, 0, said)
            self.assertEqual(len(self.warnings(said)), 1, said)
            # One line may have been on its way to the old file when the processes were stopped.
            steps = [line["step"] for line in metrics(job.run)]
            self.assertGreaterEqual(len(steps), STEPS - 1)
            self.assertEqual(steps, sorted(set(steps)))

    def test_a_removed_table_is_made_anew(self):
        held_out = make_dataset(WORK / "held-out", 12)
        sections = SECTIONS | {"logging": {"csv": True}, "data": {"validation": str(held_out)}, "validation": {"every_steps": 60}}
        with Job("table", self.dataset, 1, **sections) as job:
            job.wait_for_step(6)
            with Stopped(job):
                (job.run / "metrics.csv").unlink()
            code, said = job.end()
            self.assertEqual(code, 0, said)
            self.assertEqual(len(self.warnings(said)), 1, said)
            self.assertIn(f"{job.run}/metrics.csv: the file was removed", said)
            with open(job.run / "metrics.csv", newline="") as file:
                rows = list(csv.DictReader(file))
            self.assertEqual([row["step"] for row in rows], [str(step) for step in range(1, STEPS + 1)])
            self.assertEqual([row["step"] for row in rows if row["validation_loss"]], ["60", str(STEPS)])

    def test_a_run_whose_folder_was_replaced_by_a_copy_ends_with_4_and_leaves_both(self):
        for ranks in (1, 2):
            with self.subTest(ranks=ranks), Job(f"copied-{ranks}", self.dataset, ranks, **SECTIONS) as job:
                moved = job.run.with_name(job.run.name + "-moved")
                shutil.rmtree(moved, ignore_errors=True)
                job.wait_for_step(6)
                with Stopped(job):
                    job.run.rename(moved)
                    shutil.copytree(moved, job.run)
                code, said = job.end()
                self.assertEqual(code, 4, said)
                self.assertIn("the folder was replaced by a copy", said)
                self.assertEqual((job.run / "metrics.jsonl").read_text(), (moved / "metrics.jsonl").read_text())
                self.assertFalse((job.run / "model").exists())
                for folder in (job.run, moved):
                    ddpm("checkpoint", "verify", folder)
                committed = [f for f in files_below(moved) if f.endswith("MANIFEST.json")]
                self.assertEqual([f for f in files_below(job.run) if f.endswith("MANIFEST.json")], committed)
                # Repeating the command continues the run in the copy.
                self.assertEqual(ddpm("train", WORK / f"copied-{ranks}.toml", ranks=ranks).returncode, 0)
                self.assertEqual(metrics(job.run)[-1]["step"], STEPS)

    def test_a_run_whose_folder_is_gone_ends_with_4_and_makes_none(self):
        with Job("gone", self.dataset, 1, train={"steps": STEPS}) as job:
            moved = job.run.with_name("gone-moved")
            shutil.rmtree(moved, ignore_errors=True)
            job.wait_for_step(6)
            with Stopped(job):
                job.run.rename(moved)
            code, said = job.end()
            self.assertEqual(code, 4, said)
            self.assertIn("its lock is gone", said)
            self.assertFalse(job.run.exists())


if __name__ == "__main__":
    unittest.main()
