"""Every kind of block in training: the same curve with recomputed activations on any number of ranks and in every ZeRO
stage, a plan that knows the model's parameters, and a stopped run that ends with the same bits."""

import json
import os
import pathlib
import shutil
import sys
import unittest

import h5py
import numpy as np

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_run import BLOCK_MODELS, STAGES, assert_same_curve, ddpm, digest_of_model, write_config  # noqa: E402

WORK = pathlib.Path.cwd()


class Blocks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.path = WORK / "fields.h5"
        with h5py.File(cls.path, "w") as file:
            file["images"] = np.random.default_rng(0).standard_normal((40, 16, 16, 3)).astype(np.float32)

    def config(self, name, model, **sections):
        run = WORK / name
        shutil.rmtree(run, ignore_errors=True)
        return run, write_config(WORK / f"{name}.toml", run, self.path, model=BLOCK_MODELS[model], **sections)

    def train(self, name, model, ranks=1, **sections):
        run, config = self.config(name, model, **sections)
        ddpm("train", config, ranks=ranks)
        return run

    def test_each_trains_alike_in_every_zero_stage_with_recomputed_activations(self):
        for model in BLOCK_MODELS:
            whole = self.train(f"{model}-whole", model)
            for ranks, stage in STAGES:
                parallel = {"zero_stage": stage, "activation_checkpointing": "blocks"}
                run = self.train(f"{model}-{stage}-{ranks}", model, ranks, parallel=parallel)
                with self.subTest(model=model, ranks=ranks, stage=stage):
                    assert_same_curve(whole, run)

    def test_reproducible_runs_end_with_the_same_bits_after_a_stop(self):
        sections = {"run": {"reproducible": True, "threads_per_rank": 1}, "lr_schedule": {"name": "constant"},
                    "batch": {"global_size": 8, "micro_size": 1}}  # fmt: skip
        for model in BLOCK_MODELS:
            digests = set()
            for ranks, steps in ((1, 4), (2, 2)):
                run = self.train(f"{model}-bits-{ranks}", model, ranks, train={"steps": steps}, **sections)
                if steps < 4:
                    ddpm("train", WORK / f"{model}-bits-{ranks}.toml", "--train.steps", 4, ranks=ranks)
                digests.add(digest_of_model(run))
            self.assertEqual(len(digests), 1, model)

    def test_plans_count_their_parameters(self):
        for model in BLOCK_MODELS:
            run = self.train(f"{model}-counted", model, train={"steps": 1})
            (file,) = (run / "model" / "unet").glob("*.safetensors")
            header = json.loads(file.read_bytes()[8 : 8 + int.from_bytes(file.read_bytes()[:8], "little")])
            weights = sum(int(np.prod(entry["shape"])) for key, entry in header.items() if key != "__metadata__")
            _, config = self.config(f"{model}-planned", model)
            said = ddpm("plan", config, "--nodes", 1, "--gpus-per-node", 2, "--machine", "cpu", "--json").stdout
            self.assertEqual(json.loads(said)["parameters"], weights, model)


if __name__ == "__main__":
    unittest.main(verbosity=2)
