"""jobs/scaling/study.py from outside: what it submits, and submits again; what it refuses. report_test.py has its report.

sbatch and squeue are stand-ins here, since the tests end jobs as they please; slurm.scaling goes through a real Slurm.
"""

import ast
import fcntl
import hashlib
import json
import pathlib
import shutil
import unittest

from study_case import WORK, StudyTest
from synthetic import SOURCE, Machine, jsonl, study, weak

from description import Study


class Submitting(StudyTest):
    def test_every_point_is_one_job_per_repeat(self):
        self.assertIn("6 jobs: 0 done, 0 queued, 0 failed, 6 missing", self.study("status"))
        self.study("submit")
        lines = self.submitted()
        self.assertEqual(len(lines), 6)
        for line, nodes in zip(lines, [1, 2, 4] * 2):
            self.assertIn("--partition=gpu", line)
            self.assertIn(f"--nodes={nodes} --ntasks-per-node=1", line)
            self.assertIn(str(SOURCE / "jobs" / "scaling" / "point.sbatch"), line)
        self.assertIn("0 done, 6 queued", self.study("status"))

    def test_the_arguments_are_those_of_the_point(self):
        changes = {"strong": {"global_batch": [24]}, "zero_stage": [3], "ranks_per_node": [3], "set": {"run.seed": 3}}
        self.describe(**changes, steps=7, warm_up=1)
        self.study("submit")
        folder = self.folder / "jobs" / "strong-24-zero3-bf16-4x3" / "1"
        step = (folder / "step.arguments").read_text().split()
        self.assertEqual(step[:7], ["bench", "step", str(folder / "config.toml"), "--steps", "7", "--warm-up", "1"])
        overrides = dict(zip(step[7::2], step[8::2]))
        self.assertEqual(overrides, {
            "--batch.global_size": "24", "--batch.micro_size": "2", "--parallel.zero_stage": "3",
            "--precision.mixed_precision": '"bf16"', "--run.seed": "3",
        })  # fmt: skip
        self.assertIn("--nodes\n4\n--gpus-per-node\n3\n", (folder / "plan.arguments").read_text())
        weak_folder = self.folder / "jobs" / "weak-8-zero3-bf16-2x3" / "1"
        self.assertIn("--batch.global_size\n48\n--batch.micro_size\n8\n", (weak_folder / "step.arguments").read_text())

    def test_settings_are_values_of_toml(self):
        texts = {"data.train": ["a b", "\U0001d518.png"], "run.dir": '\u00e9 "'}
        self.describe(set={"ema.max_decay": [0.9, 0.99], "data.shuffle": True, **texts})
        self.study("submit")
        folder = self.folder / "jobs" / "weak-8-zero0-bf16-2x1" / "1"
        for name in ("plan", "step", "comm"):
            words = (folder / f"{name}.arguments").read_text(encoding="utf-8").splitlines()[-8:]
            self.assertEqual(words, [
                "--ema.max_decay", "[0.9, 0.99]", "--data.shuffle", "true", "--data.train", '["a b", "\U0001d518.png"]',
                "--run.dir", '"\u00e9 \\""',
            ])  # fmt: skip
        self.finish(self.jobs()[:1])
        self.study("collect")

    def test_collectives_are_timed_between_ranks_only(self):
        self.study("submit")
        has = {job.point.ranks: (job.folder / "comm.arguments").exists() for job in self.jobs()}
        self.assertEqual(has, {1: False, 2: True, 4: True})

    def test_a_half_finished_study_goes_on(self):
        self.study("submit")
        jobs = self.jobs()
        self.finish(jobs[:2])
        queue = (self.work / "queue").read_text().split()
        queue.remove(jobs[2].number())  # ended without a result
        (self.work / "queue").write_text("\n".join(queue) + "\n")
        said = self.study("status")
        self.assertIn("2 done, 3 queued, 1 failed, 0 missing", said)
        self.assertIn(f"{jobs[2].name}: failed (job 3 is gone", said)

        before = [job.result.read_text() for job in jobs[:2]]
        self.assertIn("1 of 6 jobs submitted", self.study("submit"))
        self.assertEqual(len(self.submitted()), 7)
        self.assertIn(f"--job-name={jobs[2].name}", self.submitted()[-1])
        self.assertEqual([job.result.read_text() for job in jobs[:2]], before)
        self.assertIn("0 of 6 jobs submitted", self.study("submit"))

        self.assertIn("2 of 6 jobs", self.study("collect"))
        self.finish(jobs[2:])
        self.assertIn("6 of 6 jobs", self.study("collect"))
        self.assertIn("6 done", self.study("status"))

    def test_more_points_are_added_to_what_is_done(self):
        self.study("submit")
        self.finish(self.jobs())
        self.describe(nodes=[1, 2, 4, 8], repeats=3)
        self.assertIn("6 of 12 jobs submitted", self.study("submit"))

    def test_a_broken_result_is_measured_again(self):
        self.study("submit")
        jobs = self.jobs()
        self.finish(jobs)
        jobs[1].result.write_text(jobs[1].result.read_text()[:100])
        self.assertIn("5 done, 0 queued, 1 failed", self.study("status"))
        self.refused("collect", str(jobs[1].folder.name), "result.json", "no JSON")
        self.assertIn("1 of 6 jobs submitted", self.study("submit"))

    def test_another_configuration_is_another_study(self):
        self.study("submit")
        self.finish(self.jobs()[:1])
        (self.work / "my.toml").write_text("[run]\nseed = 1\n")
        self.refused("submit", "my.toml has changed")
        self.refused("collect", "my.toml has changed")

    def test_a_job_keeps_the_configuration_that_it_was_submitted_with(self):
        self.study("submit")
        (self.work / "my.toml").write_text("[run]\nseed = 1\n")
        for job in self.jobs():
            words = (job.folder / "step.arguments").read_text().splitlines()
            self.assertEqual(pathlib.Path(words[2]).read_text(), "[run]\n")
            told = json.loads((job.folder / "point.json").read_text())["config_sha256"]
            self.assertEqual(told, hashlib.sha256(b"[run]\n").hexdigest())

    def test_results_of_earlier_versions_are_kept(self):
        self.describe(set={"run.directory": "runs/é"})
        self.study("submit")
        self.finish(self.jobs())
        for job in self.jobs():
            job.config.unlink()
            for path in job.folder.glob("*.arguments"):
                # Jobs had no copies of the configuration, and texts were escaped as JSON's may be.
                path.write_text(path.read_text(encoding="utf-8").replace(str(job.config), "my.toml").replace("é", "\\u00e9"))
        self.assertIn("6 of 6 jobs", self.study("collect"))
        self.assertIn("0 of 6 jobs submitted", self.study("submit"))

    def test_other_settings_are_another_study(self):
        self.study("submit")
        self.finish(self.jobs())
        for changes, words in (
            ({"set": {"parallel.bucket_mib": 50}}, ("'4' after --parallel.bucket_mib", "the study has '50'")),
            ({"steps": 99}, ("after --steps", "'99'")),
            ({"micro_size": 4}, ("'8' after --batch.micro_size", "'4'")),
            ({"comm": {"repeats": 99}}, ("comm.arguments", "'99'")),
        ):
            self.describe(**changes)
            self.refused("submit", *words)
            self.refused("collect", *words)
        self.describe()
        self.assertIn("0 of 6 jobs submitted", self.study("submit"))

    def test_slurm_that_refuses_is_quoted(self):
        (self.bin / "sbatch").write_text("#!/bin/sh\necho 'sbatch: error: invalid partition' >&2\nexit 1\n")
        self.refused("submit", "sbatch", "exit code 1", "invalid partition")
        self.assertIn("0 failed, 6 missing", self.study("status"))
        (self.bin / "sbatch").unlink()
        self.refused("submit", "sbatch is not on PATH", "study.py run")


class Refused(StudyTest):
    def test_descriptions(self):
        for changes, words in (
            ({"node": [1]}, ("unknown key node", "did you mean nodes?")),
            ({"weak": {"batch": [8]}}, ("weak.batch", "batch_per_rank")),
            ({"nodes": []}, ("nodes is []", "a list of different values, each an integer from 1")),
            ({"nodes": [2, 2]}, ("nodes is [2, 2]",)),
            ({"zero_stage": [4]}, ("zero_stage is [4]", "0 to 3")),
            ({"mixed_precision": ["fp8"]}, ("fp8", "no, bf16, fp16")),
            ({"repeats": 0}, ("repeats is 0",)),
            ({"repeats": True}, ("repeats is true",)),
            ({"weak": {}}, ("nothing to measure",)),
            ({"weak": 3}, ("weak. is not a table",)),
            ({"strong": {"global_batch": [6]}}, ("global_batch 6 is not a multiple of 4 nodes x 1 rank",)),
            ({"set": {"seed": 1}}, ('"seed" = 1', "section.key")),
            ({"set": {"data.patch": [[64]]}}, ('"data.patch" = [[64]]', "a list of such")),
            ({"set": {"data.train": "a\ud800"}}, ('"data.train" = "a', "a text of one line")),
            ({"set": {"data.train": ["a\nb"]}}, ('"data.train" = ["a', "a text of one line")),
            ({"set": {"batch.global_size": 64}}, ('"batch.global_size" = 64', "weak.batch_per_rank")),
            ({"set": {"batch.micro_size": 1}}, ('"batch.micro_size" = 1', "takes that from micro_size")),
            ({"set": {"parallel.zero_stage": 1}}, ('"parallel.zero_stage" = 1', "takes that from zero_stage")),
            ({"set": {"precision.mixed_precision": "no"}}, ('= "no"', "takes that from mixed_precision")),
            ({"set": {"parallel.sync_every": 20}}, ('"parallel.sync_every" = 20', "wanted: 0")),
            ({"config": "gone.toml"}, ("gone.toml", "No such file", str(self.work))),
        ):
            with self.subTest(changes=changes):
                self.describe(**changes)
                self.refused("submit", *words)
        self.assertEqual(self.submitted(), [])
        (self.folder / "study.json").write_text('{"nodes": [1,')
        self.refused("status", "study.json", "Expecting")
        (self.folder / "study.json").unlink()
        self.refused("status", "no study.toml")

    def test_results(self):
        good = study(Machine(), [weak()], [1, 2, 4], repeats=2)
        path = self.folder / "results.jsonl"

        def with_change(change):
            values = [json.loads(json.dumps(s.value)) for s in good]
            change(values[2])
            return "".join(json.dumps(value) + "\n" for value in values)

        for text, words in (
            (jsonl(good)[:-20], ("results.jsonl:6", "no JSON")),
            (jsonl(good) + jsonl(good[:1]), ("results.jsonl:7", "twice")),
            ("\n" + jsonl(good), ("results.jsonl:1", "no JSON")),
            ("[1]\n", ("results.jsonl:1", '"format" is not 1')),
            ("", ("is empty",)),
            (with_change(lambda v: v.update(format=2)), ("results.jsonl:3", '"format" is not 1')),
            (with_change(lambda v: v["step"].pop("seconds_per_step")), (":3", "step.seconds_per_step is missing")),
            (with_change(lambda v: v["step"].update(seconds_per_step=float("nan"))), (":3", "NaN", "a positive number")),
            (with_change(lambda v: v["step"].update(images_per_second=-1)), (":3", "is -1", "a positive number")),
            (with_change(lambda v: v["step"]["seconds"].update(data="1")), (":3", "step.seconds.data")),
            (with_change(lambda v: v["point"].update(kind="odd")), (":3", "point.kind", "strong or weak")),
            (with_change(lambda v: v["point"].update(nodes=1.5)), (":3", "point.nodes")),
            (with_change(lambda v: v.update(comm=None)), (":3", "comm.collectives is missing")),
            (with_change(lambda v: v["comm"].update(ranks=3)), (":3", "comm.ranks is 3; the point wants")),
            (with_change(lambda v: v["step"].update(ranks=3)), (":3", "step.ranks is 3; the point wants")),
            (with_change(lambda v: v["step"].update(global_size=9)), (":3", "step.global_size is 9; the point wants 16")),
            (with_change(lambda v: v["step"].update(micro_size=4)), (":3", "step.micro_size is 4; the point wants 8")),
            (with_change(lambda v: v["step"].update(precision="float32")), (":3", '"float32"; the point wants bf16')),
            (with_change(lambda v: v["plan"]["communication"][0].pop("calls")), (":3", "plan.communication[0]", "calls")),
            (with_change(lambda v: v["plan"]["communication"][0].update(ranks=1)), (":3", "dp_shard_size")),
            (
                with_change(lambda v: v["plan"]["communication"][0].update(of="weights of copies, a share")),
                (":3", "ranks exchange weights of copies, a share;", "sync_every"),
            ),
        ):
            with self.subTest(words=words):
                path.write_text(text)
                self.refused("report", *words)

    def test_a_damaged_description_of_a_result(self):
        self.study("submit")
        jobs = self.jobs()
        self.finish(jobs)
        (jobs[0].folder / "point.json").write_text("{")
        self.refused("submit", "my.toml has changed", str(jobs[0].folder.name))

    def test_folders_and_files_that_are_none(self):
        samples = study(Machine(), [weak()], [1, 2, 4], repeats=2)
        (self.folder / "results.jsonl").write_text(jsonl(samples))
        (self.folder / "report").write_text("")
        self.refused("report", "study/report", "File exists")
        (self.folder / "study.json").unlink()
        (self.folder / "study.json").mkdir()
        self.refused("status", "study.json", "Is a directory")

    def test_two_that_submit_at_once(self):
        with (self.folder / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.refused("submit", "another study.py starts jobs of this study")
        self.assertEqual(self.submitted(), [])
        self.assertIn("6 of 6 jobs submitted", self.study("submit"))

    def test_results_of_another_point(self):
        self.study("submit")
        jobs = self.jobs()
        self.finish(jobs)
        shutil.copy(jobs[0].result, jobs[1].result)
        self.refused("collect", "is of weak-8-zero0-bf16-1x1, repeat 1")


class Portable(unittest.TestCase):
    def test_syntax_is_that_of_python_3_8(self):
        files = sorted((SOURCE / "jobs" / "scaling").glob("*.py"))
        self.assertGreater(len(files), 5)
        for file in files:
            ast.parse(file.read_text(), str(file), feature_version=(3, 8))

    def test_the_example_is_valid(self):
        work = WORK / "example"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        shutil.copy(SOURCE / "jobs" / "scaling" / "study.toml", work)
        self.assertEqual(len(Study(work).points()), 4 * 2 * 2)


if __name__ == "__main__":
    unittest.main()
