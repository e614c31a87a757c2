"""New configurations of `ddpm config new`: what is asked, written and refused."""

import os
import pathlib
import subprocess
import sys
import unittest

from plan_test import WORK, Planned, fresh

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_run import DDPM, ddpm, metrics  # noqa: E402


class ConfigNew(Planned):
    def check(self, path, ranks):
        ddpm("config", "validate", path)
        ddpm("train", path, "--dry-run", "--world", ranks)

    def test_flags_alone_make_a_configuration_that_trains(self):
        path = fresh("new.toml")
        ddpm("config", "new", "--data", self.dataset, "--output", path, "--nodes", 2, "--gpus-per-node", 2,
             "--global-batch", 16, "--machine", "cpu")
        self.check(path, 4)
        run = fresh("new-run")
        ddpm("train", path, "--train.steps", 2, "--run.directory", run, "--run.device", "cpu", ranks=4)
        self.assertEqual(len(metrics(run)), 2)

    def test_labels_become_a_class_embedding(self):
        path = fresh("classes.toml")
        ddpm("config", "new", "--data", self.labelled, "--output", path)
        self.assertIn("num_class_embeds = 2", path.read_text())
        self.check(path, 1)

    def test_gpus_get_a_larger_model_and_bf16(self):
        path = fresh("gpus.toml")
        ddpm("config", "new", "--data", self.dataset, "--output", path, "--machine", "h100", "--gpus-per-node", 4)
        self.assertIn("bf16", path.read_text())
        self.check(path, 4)

    def test_the_precision_is_an_option_and_follows_from_the_machine(self):
        for machine, words, expected in (
            ("cpu", (), None), ("cpu", ("--precision", "bf16"), "bf16"), ("a100", (), "bf16"), ("b200", (), "bf16"),
            ("v100", (), "fp16"), ("t4", (), "fp16"), ("t4", ("--precision", "no"), None),
        ):  # fmt: skip
            path = fresh("precision.toml")
            ddpm("config", "new", "--data", self.dataset, "--output", path, "--machine", machine, "--model", "small", *words)
            found = [line for line in path.read_text().splitlines() if line.startswith("mixed_precision")]
            self.assertEqual(found, [f'mixed_precision = "{expected}"'] if expected else [], (machine, words))
        path = fresh("refused.toml")
        new = ("config", "new", "--data", self.dataset, "--output", path)
        self.refused(2, ["--precision bf16", "take fp16"], *new, "--machine", "v100", "--precision", "bf16")
        self.refused(2, ["--precision", "fp8"], *new, "--precision", "fp8")

    def test_a_small_model_is_not_sharded(self):
        for ranks, batch in ((8, 32), (64, 64)):
            path = fresh("whole.toml")
            ddpm("config", "new", "--data", self.dataset, "--output", path, "--gpus-per-node", ranks, "--machine", "cpu",
                 "--global-batch", batch)
            self.assertNotIn("zero_stage", path.read_text())

    def test_the_sequence_of_the_readme_works_without_gpus(self):
        path = fresh("sequence.toml")
        ddpm("config", "new", "--data", self.dataset, "--gpus-per-node", 8, "--output", path)
        process = ddpm("plan", path, "--nodes", 4, "--gpus-per-node", 8, "--memory-gib", 80)
        self.assertIn("For the cheapest, set", process.stdout)
        ddpm("train", path, "--dry-run", "--world", 8)

    def test_more_ranks_than_a_batch_may_have_images_are_refused_by_their_options(self):
        path = fresh("many.toml")
        self.refused(2, ["--nodes 1048576", "--gpus-per-node 1048576", "at most 2,147,483,647"], "config", "new",
                     "--data", self.dataset, "--output", path, "--nodes", 1 << 20, "--gpus-per-node", 1 << 20)

    def test_nothing_is_overwritten(self):
        path = fresh("kept.toml")
        path.write_text("# mine\n")
        self.refused(4, ["kept.toml"], "config", "new", "--data", self.dataset, "--output", path)
        self.assertEqual(path.read_text(), "# mine\n")

    def test_refusals(self):
        new = ("config", "new", "--output", fresh("refused.toml"))
        self.refused(3, ["nowhere"], *new, "--data", WORK / "nowhere")
        self.refused(2, ["batch.global_size = 7"], *new, "--data", self.dataset, "--global-batch", 7, "--gpus-per-node", 2)
        small = (*new, "--data", self.dataset, "--memory-gib", 0.001, "--machine", "cpu")
        line = self.refused(2, ["micro_size = 1 and activation_checkpointing", "wanted: more memory", "over more ranks"], *small)[0]
        self.assertNotIn("--model small", line)
        self.assertNotIn("zero_stage", line)
        self.refused(2, ["zero_stage = 3", "a smaller model (--model small) or more memory", "over ranks"], *small,
                     "--model", "medium", "--gpus-per-node", 2)  # fmt: skip

    def asked(self, answers, *arguments):
        return subprocess.run(
            [DDPM, "config", "new", *map(str, arguments)], input=answers, capture_output=True, text=True, timeout=120,
            check=False,
        )

    def test_asks_for_what_is_not_said(self):
        path = fresh("asked.toml")
        process = self.asked(f"{self.dataset}\n\n2\n4\nbf16\n{path}\n", "--machine", "cpu")
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertIn("Nodes [1]", process.stderr)
        self.assertIn("Precision (no, bf16, fp16) [no]", process.stderr)
        self.assertIn('mixed_precision = "bf16"', path.read_text())
        self.check(path, 2)

    def test_asks_again_after_what_an_option_would_refuse(self):
        path = fresh("again.toml")
        process = self.asked(f"{self.dataset}\n0.5\n1\ninf\n2\nnan\n4\nfp8\nno\n{path}\n")
        self.assertEqual(process.returncode, 0, process.stderr)
        for refused in ("0.5 not in range", "inf not in range", "nan is not a number from", "fp8 not in"):
            self.assertIn(refused, process.stderr)
        self.check(path, 2)

    def test_the_end_of_the_input_takes_the_defaults(self):
        path = fresh("ended.toml")
        process = self.asked(f"{self.dataset}\n", "--output", path)
        self.assertEqual(process.returncode, 0, process.stderr)
        self.check(path, 1)
        process = self.asked("")
        self.assertEqual(process.returncode, 2, process.stderr)
        self.assertIn("--data", process.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
