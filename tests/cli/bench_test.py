"""`ddpm bench step|comm|io|sample`: what they count, and what they refuse. No figure depends on how fast this machine is."""

import json
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_run import ddpm, files_below, make_dataset, write_config  # noqa: E402

WORK = pathlib.Path.cwd()
PARTS = ["data", "forward", "backward", "reduction", "optimizer", "ema", "other"]


class Bench(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.run_folder = WORK / "never"
        cls.config = write_config(
            WORK / "bench.toml", cls.run_folder, make_dataset(WORK / "squares"), batch={"global_size": 12, "micro_size": 3}
        )

    def bench(self, *args, ranks=1):
        answer = json.loads(ddpm("bench", *args, "--json", ranks=ranks).stdout)
        self.assertEqual(files_below(self.run_folder), [])
        return answer

    def test_a_step_is_the_sum_of_its_parts(self):
        for ranks in (1, 2):
            answer = self.bench("step", self.config, "--steps", 4, "--warm-up", 1, ranks=ranks)
            told = [answer[key] for key in ("ranks", "precision", "global_size", "micro_size", "warm_up", "steps")]
            self.assertEqual(told, [ranks, "float32", 12, 3, 1, 4])
            self.assertEqual(list(answer["seconds"]), PARTS)
            self.assertTrue(all(seconds > 0 for seconds in answer["seconds"].values()), answer["seconds"])
            spread = answer["seconds_per_step_spread"]
            self.assertLessEqual(spread["lowest"], spread["median"])
            self.assertLessEqual(spread["median"], spread["highest"])
            self.assertLessEqual(sum(answer["seconds"].values()), 1.1 * spread["highest"])
            self.assertAlmostEqual(answer["images_per_second_spread"]["highest"] * spread["lowest"], 12, places=6)
            most, mean = answer["comm_wait_seconds"], answer["mean_comm_wait_seconds"]
            self.assertLessEqual(mean, most + 1e-9)
            self.assertLessEqual(most, ranks * mean + 1e-9)
            # Norm, AdamW and one average: 1 + 1 + 2 × 4 passes over float32 on each of the ranks.
            self.assertEqual(answer["update_bytes"], 10 * 4 * ranks * answer["parameters"])

    def test_sharded_ranks_update_their_share_only(self):
        answer = self.bench("step", self.config, "--steps", 1, "--parallel.zero_stage", 1, ranks=2)
        self.assertEqual(answer["update_bytes"], 40 * answer["parameters"])

    def test_parameters_are_those_of_the_model_whatever_cuts_it(self):
        step = ("step", self.config, "--steps", 1, "--warm-up", 1)
        whole = self.bench(*step)
        for key, copies in (("pipeline_size", 1), ("sync_every", 2)):
            with self.subTest(key):
                answer = self.bench(*step, f"--parallel.{key}", 2, ranks=2)
                self.assertEqual(answer["parameters"], whole["parameters"])
                self.assertEqual(answer["update_bytes"], 40 * copies * answer["parameters"])

    def test_sampling(self):
        for ranks, sampler in ((1, "ddim"), (2, "heun")):
            size = ("--model.sample_size", "[16]", "--scheduler", sampler, "--steps", 3, "--batch", 2, "--repeats", 2)
            answer = self.bench("sample", self.config, *size, ranks=ranks)
            self.assertEqual([answer[key] for key in ("ranks", "steps", "batch", "precision")], [ranks, 3, 2, "float32"])
            per_step = answer["seconds_per_step_spread"]
            self.assertAlmostEqual(answer["images_per_second_spread"]["highest"] * per_step["lowest"] * 3, 2 * ranks, places=6)
        # Without model.sample_size, images have the size of the data set's.
        answer = self.bench("sample", self.config, "--steps", 1, "--batch", 1, "--repeats", 1)
        self.assertGreater(answer["images_per_second_spread"]["lowest"], 0)
        process = ddpm("bench", "sample", self.config, "--data.train", WORK / "none", check=False)
        self.assertEqual(process.returncode, 3, process.stderr)
        self.assertIn("set model.sample_size", process.stderr)

    def test_memory_that_runs_out_is_said_in_one_line(self):
        # 200 TB, which is more than an address can reach.
        process = ddpm("bench", "sample", self.config, "--model.sample_size", "[4096]", "--batch", 1000000, check=False)
        self.assertEqual(process.returncode, 1, process.stderr)
        (line,) = [line for line in process.stderr.splitlines() if line.startswith("ddpm: error")]
        self.assertRegex(line, r"not enough memory \(LibTorch tried to allocate \d+ bytes.*`ddpm plan` says what is needed$")

    def test_communication(self):
        answer = self.bench("comm", "--repeats", 2, "--max-mib", 0.25, ranks=2)
        self.assertEqual((answer["ranks"], answer["hosts"]), (2, 1))
        sizes = [(one["kind"], one["bytes"]) for one in answer["collectives"]]
        kinds = ("all_reduce", "reduce_scatter", "all_gather")
        self.assertEqual(sizes, [(kind, 4096 * 4**i) for i in range(4) for kind in kinds])
        for one in answer["collectives"]:
            sent = one["bytes"] / 2 * (2 if one["kind"] == "all_reduce" else 1)
            self.assertAlmostEqual(one["bytes_per_second"] * one["seconds"]["median"] / sent, 1)
            sends = 2 if one["kind"] == "all_reduce" else 1
            fit = sends * (answer["alpha_seconds"] + one["bytes"] / 2 * answer["beta_seconds_per_byte"])
            self.assertAlmostEqual(one["fit_seconds"] / fit, 1)

    def test_sizes_that_are_no_numbers_are_usage(self):
        for size in ("nan", "inf", "0", "1e"):
            failed = ddpm("bench", "comm", "--max-mib", size, check=False)
            self.assertEqual(failed.returncode, 2, size)
            self.assertIn(f"{size} is not a number from", failed.stderr)

    def test_communication_wants_ranks(self):
        failed = ddpm("bench", "comm", check=False)
        self.assertEqual(failed.returncode, 2)
        self.assertIn("2 or more are wanted", failed.stderr)

    def test_communication_ignores_no_word(self):
        for ranks in (1, 2):
            failed = ddpm("bench", "comm", "--repeat=3", ranks=ranks, check=False)
            self.assertEqual(failed.returncode, 2)
            self.assertIn("unknown option --repeat; did you mean --repeats?", failed.stderr)

    def test_reading(self):
        for ranks in (1, 2):
            answer = self.bench("io", self.config, "--repeats", 2, ranks=ranks)
            self.assertEqual(answer["images"] % 12, 0)
            training = answer["training_bytes_per_second"]["median"]
            self.assertAlmostEqual(answer["images_per_second"] * answer["image_bytes"] / training, 1)
            self.assertTrue(answer["cold"])
            for kind in ("raw", "block"):
                self.assertGreater(answer[f"{kind}_bytes_per_second"]["lowest"], 0)
            ratio = answer["block_bytes_per_second"]["median"] / answer["raw_bytes_per_second"]["median"]
            self.assertAlmostEqual(answer["block_fraction"], ratio)

    def test_a_bad_configuration_is_refused_as_in_training(self):
        for command in ("step", "io"):
            failed = ddpm("bench", command, self.config, "--batch.micro_size", 5, check=False)
            self.assertEqual(failed.returncode, 2)
            self.assertEqual(failed.stderr.count("ddpm: error:"), 1, failed.stderr)


if __name__ == "__main__":
    unittest.main()
