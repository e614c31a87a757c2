"""Plans and dry runs: what they say, what they refuse, and that they leave nothing behind."""

import json
import os
import pathlib
import shutil
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_run import ddpm, files_below, make_dataset, metrics, says, write_config  # noqa: E402

WORK = pathlib.Path.cwd()


def fresh(name):
    path = WORK / name
    shutil.rmtree(path, ignore_errors=True)
    path.unlink(missing_ok=True)
    return path


class Planned(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dataset = make_dataset(WORK / "squares")
        cls.labelled = make_dataset(WORK / "labelled", 20, 16, 1, "--labels", "folder")

    def config(self, name="plan", dataset=None, **sections):
        return write_config(WORK / f"{name}.toml", fresh(f"{name}-run"), dataset or self.dataset, **sections)

    def refused(self, code, words, *arguments, ranks=1):
        before = files_below(WORK)
        process = ddpm(*arguments, ranks=ranks, check=False)
        self.assertEqual(process.returncode, code, process.stderr)
        self.assertEqual(process.stdout, "")
        lines = [line for line in process.stderr.splitlines() if line.startswith("ddpm: error")]
        for word in words:
            self.assertTrue(any(says(line, word) for line in lines), (word, process.stderr))
        self.assertEqual(before, files_below(WORK))
        return lines


class Plan(Planned):
    def plan(self, config, nodes, per_node, *arguments, **options):
        return ddpm("plan", config, "--nodes", nodes, "--gpus-per-node", per_node, *arguments, **options)

    def test_json_is_one_object_with_the_given_configuration_at_the_top(self):
        config = self.config()
        for ranks in (1, 2):
            process = self.plan(config, 1, 2, "--json", ranks=ranks)
            answer = json.loads(process.stdout)
            self.assertGreater(answer["seconds_per_step"], 0)
            self.assertGreater(answer["peak_memory_bytes"], 1 << 20)
            self.assertEqual([row["zero_stage"] for row in answer["table"]], [0, 1, 2, 3])

    def test_the_best_mesh_is_found_among_all(self):
        config = self.config(batch={"global_size": 8, "micro_size": 2})
        found = json.loads(self.plan(config, 2, 4, "--meshes", "--json").stdout)["meshes"]
        cuts = {(tuple(mesh["spatial_size"]), mesh["tensor_size"]) for mesh in found if mesh["pipeline_size"] == 1}
        self.assertEqual({mesh["pipeline_size"] for mesh in found}, {1, 2, 4, 8})
        # Norms have 4 groups, but attention two heads: blocks are cut into two parts at most.
        # Tiles are square, or strips.
        self.assertEqual(cuts, {(cut, 1) for cut in ((1,), (2, 1), (2, 2), (4, 1), (4, 2), (8, 1))} | {(cut, 2) for cut in ((1,), (2, 1), (2, 2), (4, 1))})
        times = [mesh["seconds_per_step"] for mesh in found]
        self.assertEqual(times, sorted(times))
        for mesh in found:  # each is the plan of its keys
            keys = {key: mesh[key] for key in ("zero_stage", "pipeline_size", "spatial_size", "tensor_size")}
            if mesh["zero_stage"] > 0:
                keys["dp_shard_size"] = mesh["shard_size"]
            set_so = self.config("mesh", batch={"global_size": 8, "micro_size": mesh["micro_size"]}, parallel=keys)
            told = json.loads(self.plan(set_so, 2, 4, "--json").stdout)
            self.assertAlmostEqual(told["seconds_per_step"], mesh["seconds_per_step"], delta=1e-9)
        text = self.plan(config, 2, 4, "--meshes", "--memory-gib", 64).stdout
        self.assertIn("spatial_size = [", text)
        self.assertIn(f"{len(found) - 12} more are in --json", text)
        smallest = min(mesh["peak_memory_bytes"] for mesh in found) / 2**30
        self.assertIn("None fits", self.plan(config, 2, 4, "--meshes", "--memory-gib", round(0.5 * smallest, 3)).stdout)

    def test_meshes_that_training_refuses_are_not_proposed(self):
        def cuts(**sections):
            found = json.loads(self.plan(self.config("refusing", **sections), 1, 4, "--meshes", "--json").stdout)["meshes"]
            return {tuple(mesh["spatial_size"]) for mesh in found}

        self.assertEqual(cuts(), {(1,), (2, 1), (2, 2), (4, 1)})
        self.assertEqual(cuts(run={"reproducible": True, "threads_per_rank": 1}), {(1,), (2, 1), (2, 2), (4, 1)})
        self.assertEqual(cuts(data={"quarter_turns": True}), {(1,), (2, 2)})
        sorting = {"thresholding": True, "clip_sample": False}
        self.assertEqual(cuts(diffusion=sorting, sample={"every_steps": 2}), {(1,)})
        self.assertEqual(cuts(diffusion=sorting), {(1,), (2, 1), (2, 2), (4, 1)})

    def test_all_meshes_have_the_islands_of_the_configuration(self):
        islands = {"sync_every": 50, "zero_stage": 1, "dp_shard_size": 4, "dp_replicate_size": 2}
        config = self.config("islands", batch={"global_size": 64, "micro_size": 4}, parallel=islands)
        answer = json.loads(self.plan(config, 2, 4, "--json").stdout)
        self.assertEqual({row["islands"] for row in answer["table"] if row["works"]}, {2})
        self.assertEqual(answer["recommendation"]["islands"], 2)
        found = json.loads(self.plan(config, 2, 4, "--meshes", "--json").stdout)["meshes"]
        self.assertEqual({mesh["islands"] for mesh in found}, {2})
        self.assertEqual({mesh["pipeline_size"] for mesh in found}, {1, 2, 4})
        for mesh in found:
            keys = {key: mesh[key] for key in ("zero_stage", "pipeline_size", "spatial_size", "tensor_size")}
            keys |= {"sync_every": 50, "dp_replicate_size": 2, "dp_shard_size": mesh["shard_size"]}
            set_so = self.config("mesh", batch={"global_size": 64, "micro_size": mesh["micro_size"]}, parallel=keys)
            told = json.loads(self.plan(set_so, 2, 4, "--json").stdout)
            self.assertAlmostEqual(told["seconds_per_step"], mesh["seconds_per_step"], delta=1e-9)
        text = self.plan(config, 2, 4, "--meshes").stdout
        self.assertIn("Islands  2 in all that is compared", text)
        self.assertIn("dp_replicate_size = 2" if found[0]["zero_stage"] > 0 else "zero_stage = 0", text)

    def test_as_many_tiles_as_there_are_ranks_are_tried(self):
        flat = {"sample_size": [256, 256], "norm_num_groups": 1, "block_out_channels": [1, 1], "add_attention": False,
                "down_block_types": ["DownBlock2D"] * 2, "up_block_types": ["UpBlock2D"] * 2}  # fmt: skip
        config = self.config("one-image", dataset=WORK / "later", model=flat, batch={"global_size": 1, "micro_size": 1})
        found = json.loads(self.plan(config, 32, 4, "--meshes", "--json").stdout)["meshes"]
        cuts = {(mesh["pipeline_size"], *mesh["spatial_size"]) for mesh in found}
        self.assertLessEqual({(1, 16, 8), (1, 128, 1), (8, 4, 4)}, cuts)
        self.assertEqual({mesh["tensor_size"] for mesh in found}, {1})

    def test_the_keys_of_a_mesh_name_those_of_the_file_that_contradict_them(self):
        shared = self.config("shared", parallel={"zero_stage": 1, "dp_shard_size": 2, "dp_replicate_size": 2})
        text = self.plan(shared, 1, 4, "--meshes").stdout
        self.assertIn("and take parallel.dp_shard_size and dp_replicate_size out." if "zero_stage = 0" in text
                      else "and take parallel.dp_replicate_size out.", text)  # fmt: skip
        staged = self.config("staged", parallel={"pipeline_size": 2, "stage_units": [3, 9]})
        self.assertIn("and take parallel.stage_units out.", self.plan(staged, 1, 4, "--meshes").stdout)
        self.assertNotIn("take parallel.", self.plan(self.config(), 1, 4, "--meshes").stdout)

    def test_a_mesh_reads_its_own_tiles_and_holds_no_more_than_its_plan(self):
        fields = fresh("fields")
        ddpm("data", "generate", "grf", "--output", fields, "--count", 4, "--size", 128, "--shards", 1)
        reading = {"dataset": fields, "train": {"steps": 1000}, "data": {"prefetch": 512}, "model": {"in_channels": 1, "out_channels": 1}}
        for given in ([1], [4, 1]):
            config = self.config("reading", batch={"global_size": 8, "micro_size": 2}, parallel={"spatial_size": given}, **reading)
            words = ("--machine", "cpu", "--json")
            peaks = {}
            for mesh in json.loads(self.plan(config, 1, 4, "--meshes", *words).stdout)["meshes"]:
                if mesh["pipeline_size"] * mesh["tensor_size"] > 1:
                    continue
                keys = {"spatial_size": mesh["spatial_size"], "zero_stage": mesh["zero_stage"]}
                set_so = self.config("mesh", batch={"global_size": 8, "micro_size": mesh["micro_size"]}, parallel=keys, **reading)
                told = json.loads(self.plan(set_so, 1, 4, *words).stdout)["peak_memory_bytes"]
                self.assertAlmostEqual(mesh["peak_memory_bytes"], told, delta=8 << 20, msg=str((given, mesh)))
                peaks[tuple(mesh["spatial_size"])] = mesh["peak_memory_bytes"]
            self.assertGreater(peaks[(1,)] - peaks[(4, 1)], 32 << 20)

    def test_no_mesh_is_proposed_for_what_training_refuses(self):
        config = self.config(batch={"global_size": 8, "micro_size": 2})

        def refused(words, per_node, *keys):
            for more in ((), ("--json",)):
                self.refused(2, words, "plan", config, "--nodes", 1, "--gpus-per-node", per_node, "--meshes", *keys, *more)

        islands = ("--parallel.sync_every", 4)
        stage = ("--parallel.zero_stage", 1)
        refused(["no mesh of these ranks", "batch.global_size = 8 does not divide over 6 ranks; wanted: a multiple of 6"], 6, *islands)
        refused(["parallel.zero_stage = 1: all ranks share one copy"], 8, *islands, *stage)
        for keys in ((*stage, "--parallel.dp_shard_size", 8), ("--parallel.spatial_size", "[2,2]")):
            lines = self.refused(2, [], "train", config, "--dry-run", "--world", 6, "--batch.micro_size", 1, "--batch.global_size", 12,
                                 *islands, *keys)  # fmt: skip
            refused([lines[0].removeprefix("ddpm: error: ")], 6, *islands, *keys)
            self.refused(2, [lines[0].removeprefix("ddpm: error: ")], "plan", config, "--nodes", 1, "--gpus-per-node", 6, *islands, *keys)

    def test_a_refusal_is_that_of_the_configuration_s_own_stage(self):
        config = self.config(batch={"global_size": 8, "micro_size": 2})
        self.refused(2, ["one node cannot run this configuration: batch.global_size = 8 does not divide over 6 ranks"],
                     "plan", config, "--nodes", 1, "--gpus-per-node", 6, "--parallel.zero_stage", 1,
                     "--parallel.sync_every", 4, "--parallel.dp_replicate_size", 2)  # fmt: skip

    def test_warns_of_what_a_start_warns_of(self):
        config = self.config(parallel={"spatial_size": 4, "zero_stage": 3})
        self.assertIn("so that nothing is", self.plan(config, 1, 4).stdout)
        warnings = json.loads(self.plan(config, 1, 4, "--json").stdout)["warnings"]
        self.assertEqual(len(warnings), 1)
        self.assertIn(warnings[0], ddpm("train", config, "--dry-run", "--world", 4).stdout)

    def test_people_get_a_table_and_the_keys_to_set(self):
        process = self.plan(self.config(batch={"global_size": 64, "micro_size": 4}), 4, 2, "--memory-gib", 8)
        self.assertIn("ZeRO", process.stdout)
        self.assertIn("zero_stage = ", process.stdout)
        self.assertLessEqual(max(len(line) for line in process.stdout.splitlines()), 100)
        self.assertEqual(len([line for line in process.stdout.splitlines() if line.endswith("  yes")]), 12)

    def test_plans_the_numbers_of_nodes_that_divide_and_names_the_others(self):
        config = self.config("uneven", batch={"global_size": 32, "micro_size": 4})
        process = self.plan(config, 64, 8)
        self.assertIn("Not planned: 8, 16, 32 and 64 nodes, because batch.global_size = 32", process.stdout)
        self.assertIn("As configured: 64 nodes × 8 ranks", process.stdout)
        self.assertIn("4 × 512 = 2048", process.stdout)
        self.assertIn("For the cheapest, set", process.stdout)
        answer = json.loads(self.plan(config, 64, 8, "--json").stdout)
        self.assertIsNone(answer["peak_memory_bytes"])
        self.assertEqual([row["nodes"] for row in answer["table"] if row["works"]], [n for n in (1, 2, 4) for _ in range(4)])
        self.assertEqual(answer["recommendation"]["zero_stage"], 0)

    def test_the_largest_machine_is_answered_too(self):
        process = self.plan(self.config(), 1 << 20, 8)
        self.assertIn("1,048,576 nodes, because batch.global_size = 8", process.stdout)
        self.assertLessEqual(max(len(line) for line in process.stdout.splitlines()), 100)

    def test_parameters_and_ranks_alone_give_the_table_of_the_manual(self):
        text = ddpm("plan", "--parameters", "7e9", "--ranks", 4).stdout
        rows = [line.split() for line in text.splitlines() if line[:3].strip().isdigit() or line.strip()[:1].isdigit()]
        manual = (pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "docs" / "plan.md").read_text()
        for stage in range(4):
            row = next(row for row in rows if row[0] == str(stage) and len(row) == 5)
            self.assertIn("| " + " | ".join(row) + " |", manual)
        answer = json.loads(ddpm("plan", "--parameters", 7000000000, "--ranks", 4, "--json").stdout)
        self.assertEqual(answer["stages"][3], {"zero_stage": 3, "quoted_bytes": 21e9, "paper_bytes": 28e9, "half_bytes": 38.5e9,
                                               "float32_bytes": 35e9})  # fmt: skip
        self.assertIn("on 1 rank:", ddpm("plan", "--parameters", 1e6, "--ranks", 1).stdout)
        for words in (("--parameters", "7e9"), ("--ranks", 4), ("--parameters", 0, "--ranks", 4),
                      (self.config(), "--parameters", "7e9", "--ranks", 4),
                      ("--parameters", "7e9", "--ranks", 4, "--machine", "a100"), ("--parameters", 1.5, "--ranks", 4),
                      ("--parameters", "7e9", "--ranks", 4, "--memory-gib", 10),
                      ("--parameters", "7e9", "--ranks", 4, "--nodes", 2)):  # fmt: skip
            self.assertEqual(ddpm("plan", *words, check=False).returncode, 2, words)

    def test_knows_machines_by_name(self):
        config = self.config(batch={"global_size": 64, "micro_size": 8}, precision={"mixed_precision": "bf16"})
        rates = [json.loads(self.plan(config, 1, 1, "--json", "--machine", name).stdout)["seconds_per_step"]
                 for name in ("rtx4090", "l40s", "b200")]  # fmt: skip
        self.assertEqual(rates, sorted(rates, reverse=True))
        self.refused(2, ["--machine t4", 'take "fp16"'], "plan", config, "--nodes", 1, "--gpus-per-node", 1, "--machine", "t4")

    def test_what_does_not_fit_is_not_recommended(self):
        answer = json.loads(self.plan(self.config(), 1, 1, "--memory-gib", 0.001, "--json").stdout)
        self.assertIsNone(answer["recommendation"])
        self.assertFalse(answer["fits"])

    def test_memory_is_near_what_training_takes(self):
        config = self.config("near", train={"steps": 3}, batch={"global_size": 8, "micro_size": 8})
        planned = json.loads(self.plan(config, 1, 1, "--json").stdout)["peak_memory_bytes"]
        trained = ddpm("train", config)
        self.assertRegex(trained.stderr, r": 1 rank × 8 images × 1 accumulation step = global batch 8; cpu, \d+ threads? per rank")
        measured = metrics(WORK / "near-run")[-1]["peak_memory_bytes"]
        self.assertLess(abs(planned / measured - 1), 0.1, (planned, measured))

    def test_slower_networks_take_longer(self):
        config = self.config(batch={"global_size": 16, "micro_size": 2})
        times = [
            json.loads(self.plan(config, 4, 1, "--json", "--machine.network_gb_per_s", gb).stdout)["seconds_per_step"]
            for gb in (10, 0.001)
        ]
        self.assertGreater(times[1], times[0])

    def test_plans_without_the_data_set_where_the_model_says_enough(self):
        config = self.config(dataset=WORK / "later", model={"sample_size": 16})
        self.assertGreater(json.loads(self.plan(config, 1, 1, "--json").stdout)["peak_memory_bytes"], 0)
        self.refused(3, ["later"], "plan", self.config(dataset=WORK / "later"), "--nodes", 1, "--gpus-per-node", 1)

    def test_refusals(self):
        config = self.config()
        self.refused(2, ["--nodes 3 --gpus-per-node 3: no number of nodes up to that can run", "over 3 ranks; wanted: a multiple of 3"], "plan", config, "--nodes", 3, "--gpus-per-node", 3)
        offload = self.config("offload", parallel={"offload": "parameters"})
        self.refused(2, ["only stage 3"], "plan", offload, "--nodes", 1, "--gpus-per-node", 2)
        many = ("--nodes", 2**20, "--gpus-per-node", 2**20, "--batch.micro_size", 2**24, "--batch.global_size", 2**24 - 1)
        self.refused(2, ["no number of nodes up to that can run"], "plan", config, *many)
        self.refused(2, ["machine.tflop"], "plan", config, "--nodes", 1, "--gpus-per-node", 1, "--machine.tflop", 1)
        self.refused(2, ["b1000"], "plan", config, "--nodes", 1, "--gpus-per-node", 1, "--machine", "b1000")
        self.assertEqual(ddpm("plan", config, check=False).returncode, 2)


class OnAllRanks(Planned):
    def test_what_all_find_wrong_is_said_without_an_abort(self):
        endless = self.config("endless", train={"steps": None, "epochs": 1e12})
        for words in (("plan", "--parameters", 1.5, "--ranks", 2), ("bench", "stages", self.config(), "--stages", 1000),
                      ("train", endless, "--dry-run"), ("train", endless)):  # fmt: skip
            with self.subTest(words):
                process = ddpm(*words, ranks=2, check=False)
                self.assertEqual(process.returncode, 2, process.stderr)
                self.assertEqual(process.stderr.count("ddpm: error"), 1, process.stderr)
                self.assertNotIn("mpi_abort", process.stderr.lower())


class DryRun(Planned):
    def test_says_who_owns_what_and_writes_nothing(self):
        config = self.config(batch={"global_size": 4096, "micro_size": 2})
        before = files_below(WORK)
        process = ddpm("train", config, "--dry-run", "--world", 1024)
        self.assertEqual(before, files_below(WORK))
        for words in ("1,024 ranks × 2 images × 2 accumulation steps", "4092 to 4095", "all-reduce", "activations"):
            self.assertIn(words, process.stdout)

    def test_takes_the_ranks_it_has(self):
        process = ddpm("train", self.config(), "--dry-run", ranks=2)
        self.assertIn("2 ranks × 2 images × 2 accumulation steps", process.stdout)
        self.assertEqual(process.stdout.count("accumulation steps"), 1)

    def test_says_that_held_images_are_shared_as_on_one_host(self):
        words = "data.hold is shared as if all ranks were on one host"
        on_host = ("train", self.config(), "--dry-run", "--run.device", "cpu")
        self.assertIn(words, ddpm(*on_host, "--world", 2, "--data.hold", "true").stdout)
        self.assertNotIn(words, ddpm(*on_host, "--world", 2).stdout)
        self.assertNotIn(words, ddpm(*on_host, "--data.hold", "true").stdout)

    def test_finds_the_checkpoint_that_training_would_go_on_from(self):
        config = self.config("resumed", train={"steps": 2}, checkpoint={"every_steps": 1})
        ddpm("train", config)
        more = ("--train.steps", 3, "--dry-run")
        self.assertRegex(ddpm("train", config, *more).stdout, r"would continue from \S*step-00000002")
        shards = sorted((WORK / "resumed-run" / "checkpoints" / "step-00000002").glob("shard-*"))
        shards[0].write_bytes(shards[0].read_bytes()[:-1])
        process = ddpm("train", config, *more)
        self.assertRegex(process.stdout, r"would continue from \S*step-00000001")
        self.assertIn("DAMAGED CHECKPOINT", process.stderr)

    def test_lists_every_refusal(self):
        config = self.config(batch={"global_size": 9, "micro_size": 2})
        self.refused(2, ["batch.global_size = 9", "ranks = 2 × 5 = 10"], "train", config, "--dry-run", "--world", 5)
        self.refused(2, ["batch.global_size = 9", "also: parallel.dp_shard_size = 3"], "train", config, "--dry-run",
                     "--world", 5, "--parallel.dp_shard_size", 3)  # fmt: skip

    def test_checks_what_training_checks(self):
        self.refused(3, ["nowhere"], "train", self.config(dataset=WORK / "nowhere"), "--dry-run")
        self.refused(3, ["in_channels"], "train", self.config(model={"in_channels": 1, "out_channels": 1}), "--dry-run")
        self.refused(2, ["learning_rat"], "train", self.config(optimizer={"learning_rat": 1}), "--dry-run")
        process = ddpm("train", self.config(), "--world", 4, check=False)
        self.assertEqual(process.returncode, 2, process.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
