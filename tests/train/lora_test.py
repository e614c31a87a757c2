"""LoRA: adapters that PEFT loads and trains alike, merged and alone, on any number of ranks and in any stage; what a
checkpoint holds of them; and what is refused."""

import json
import os
import pathlib
import shutil
import sys
import unittest

import h5py
import numpy as np
import torch
from diffusers import DDPMPipeline, DDPMScheduler, UNet2DModel
from peft import LoraConfig, PeftModel, get_peft_model, set_peft_model_state_dict
from safetensors.torch import load_file, save_file

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_run import ddpm, metrics, planned_bytes, says, write_config  # noqa: E402
from philox import NOISE, TIMESTEP, below, normals  # noqa: E402

WORK = pathlib.Path.cwd()
SEED = 7  # of write_config
SIZE, COUNT, BATCH, RATE = 8, 32, 4, 1e-2
ALL = ["attention", "convolutions", "time_emb_proj"]


def make_base(folder, seed=0):
    torch.manual_seed(seed)
    unet = UNet2DModel(
        sample_size=SIZE, block_out_channels=(8, 16), layers_per_block=1, norm_num_groups=4, attention_head_dim=8,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )  # fmt: skip
    DDPMPipeline(unet, DDPMScheduler()).save_pretrained(folder)
    return folder


def opened(base, adapter=None):
    """The model, with adapters as PEFT opens them."""
    unet = UNet2DModel.from_pretrained(base / "unet")
    return (PeftModel.from_pretrained(unet, adapter) if adapter else unet).eval()


def predict(model):
    random = torch.Generator().manual_seed(1)
    with torch.no_grad():
        return model(torch.randn(3, 3, SIZE, SIZE, generator=random), torch.tensor([3, 300, 900])).sample


def distance(a, b):
    return ((a - b).norm() / b.norm()).item()


class Lora(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.base = make_base(WORK / "base")
        cls.images = np.random.default_rng(2).uniform(-1, 1, (COUNT, SIZE, SIZE, 3)).astype(np.float32)
        with h5py.File(WORK / "set.h5", "w") as file:
            file["images"] = cls.images

    def config(self, name, **sections):
        run = WORK / name
        shutil.rmtree(run, ignore_errors=True)
        unset = dict.fromkeys(("block_out_channels", "down_block_types", "up_block_types", "layers_per_block",
                               "norm_num_groups", "attention_head_dim"))  # fmt: skip
        defaults = {
            "run": {"threads_per_rank": 1},
            "data": {"shuffle": "none"},
            "model": {**unset, "pretrained": str(self.base), "lora_rank": 3, "lora_alpha": 6.0, "lora_targets": ALL},
            "batch": {"global_size": BATCH, "micro_size": 2},
            "optimizer": {"learning_rate": RATE},
            "lr_schedule": {"name": "constant", "warmup_steps": None},
            "ema": {"enabled": False},
        }
        for section, keys in sections.items():
            defaults.setdefault(section, {}).update(keys)
        return run, write_config(WORK / f"{name}.toml", run, WORK / "set.h5", **defaults)

    def train(self, name, ranks=1, **sections):
        run, config = self.config(name, **sections)
        ddpm("train", config, ranks=ranks)
        return run

    def test_peft_loads_the_adapters_and_gives_the_merged_models_output(self):
        run = self.train("trained")
        alone, merged = opened(self.base, run / "adapter"), opened(run / "model")
        self.assertGreater(distance(predict(merged), predict(opened(self.base))), 0.1, "nothing was trained")
        self.assertLess(distance(predict(alone), predict(merged)), 1e-5)
        self.assertLess(distance(predict(alone.merge_and_unload()), predict(merged)), 1e-5)
        ddpm("sample", "--model", run, "--count", 2, "--steps", 3, "--output", WORK / "run.npy")
        ddpm("sample", "--model", run / "model", "--count", 2, "--steps", 3, "--output", WORK / "model.npy")
        np.testing.assert_array_equal(np.load(WORK / "run.npy"), np.load(WORK / "model.npy"))

    def test_a_loop_with_peft_has_the_same_loss_for_100_steps(self):
        start = self.train("start", optimizer={"learning_rate": 0.0}, train={"steps": 1})
        run = self.train("hundred", train={"steps": 100})
        settings = json.loads((start / "adapter" / "adapter_config.json").read_text())
        model = get_peft_model(opened(self.base), LoraConfig(**{k: settings[k] for k in ("r", "lora_alpha", "target_modules")}))
        set_peft_model_state_dict(model, load_file(start / "adapter" / "adapter_model.safetensors"))
        trained = [p for p in model.parameters() if p.requires_grad]
        optimizer = torch.optim.AdamW(trained, lr=RATE, betas=(0.95, 0.999), eps=1e-8, weight_decay=1e-6)
        schedule = DDPMScheduler.from_pretrained(self.base / "scheduler")
        images = torch.from_numpy(self.images).permute(0, 3, 1, 2)
        worst = 0.0
        for step, line in enumerate(metrics(run)):
            x0 = images[[(step * BATCH + p) % COUNT for p in range(BATCH)]]
            t = torch.tensor([below(1000, SEED, TIMESTEP, p, step) for p in range(BATCH)])
            noise = torch.tensor([normals(x0[0].numel(), SEED, NOISE, p, step) for p in range(BATCH)]).reshape(x0.shape)
            loss = torch.nn.functional.mse_loss(model(schedule.add_noise(x0, noise, t), t).sample, noise)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(trained, 1.0)
            optimizer.step()
            worst = max(worst, abs(loss.item() - line["loss"]) / loss.item())
        print(f"largest relative difference of the loss over 100 steps: {worst:.2e}")
        self.assertLess(worst, 1e-4)
        self.assertLess(distance(predict(opened(self.base, run / "adapter")), predict(model)), 1e-3)

    def test_the_same_curve_on_any_number_of_ranks_in_any_stage(self):
        wanted = [line["loss"] for line in metrics(self.train("one"))]
        for stage in range(4):
            run = self.train(f"stage-{stage}", ranks=2, parallel={"zero_stage": stage, "activation_checkpointing": "blocks"})
            np.testing.assert_allclose([line["loss"] for line in metrics(run)], wanted, rtol=1e-5)
        reduced = self.train("bf16", ranks=2, precision={"mixed_precision": "bf16"}, parallel={"zero_stage": 3})
        np.testing.assert_allclose([line["loss"] for line in metrics(reduced)], wanted, rtol=3e-2)
        self.assertLess(distance(predict(opened(self.base, reduced / "adapter")), predict(opened(reduced / "model"))), 1e-5)

    def test_float16(self):
        half = {"precision": {"mixed_precision": "fp16", "initial_loss_scale": 1024.0}}
        curves = [[line["loss"] for line in metrics(self.train(name, **s))] for name, s in (("float", {}), ("half", half))]
        np.testing.assert_allclose(curves[1], curves[0], rtol=3e-2)

    def test_a_checkpoint_holds_the_adapters_and_resumes_exactly(self):
        whole = self.train("whole", train={"steps": 6}, ema={"enabled": True})
        grown = self.train("grown", train={"steps": 3}, ema={"enabled": True})
        ddpm("train", WORK / "grown.toml", "--train.steps", 6)
        files = [run / "adapter" / "adapter_model.safetensors" for run in (whole, grown)]
        self.assertEqual(files[0].read_bytes(), files[1].read_bytes())
        adapters = load_file(files[0])
        (shard,) = (whole / "checkpoints" / "step-00000006").glob("*.safetensors")
        stored = load_file(shard)
        self.assertEqual(sum(t.numel() for t in stored.values()), 4 * sum(t.numel() for t in adapters.values()))
        self.assertTrue(all(".lora_" in name for name in stored))

    def test_another_base_is_refused(self):
        base = make_base(WORK / "other")
        run = self.train("based", model={"pretrained": str(base)})
        weights = base / "unet" / "diffusion_pytorch_model.safetensors"
        changed = load_file(weights)
        changed["conv_in.bias"][0] += 1
        save_file(changed, weights)
        for command in (("train", WORK / "based.toml", "--train.steps", 8),
                        ("sample", "--model", run, "--count", 1, "--output", WORK / "no.npy")):  # fmt: skip
            process = ddpm(*command, check=False)
            self.assertEqual(process.returncode, 4, process.stderr)
            self.assertIn("other weights", process.stderr)
        shutil.rmtree(base)
        process = ddpm("sample", "--model", run, "--count", 1, "--output", WORK / "no.npy", check=False)
        self.assertEqual(process.returncode, 4, process.stderr)
        self.assertIn(str(base), process.stderr)

    def test_what_makes_no_sense_is_refused(self):
        for keys, phrase in (
            ({"pretrained": None, "in_channels": 3}, "model.lora_rank = 3"),
            ({"lora_targets": ["attention", "conv9"]}, '"conv9" means no layer'),
            ({"lora_targets": []}, "model.lora_targets"),
            ({"lora_alpha": 0}, "model.lora_alpha"),
            ({"lora_rank": -1}, "model.lora_rank"),
        ):  # fmt: skip
            run, config = self.config("refused", model=keys)
            process = ddpm("train", config, check=False)
            self.assertEqual(process.returncode, 2, process.stderr)
            self.assertTrue(says(process.stderr, phrase), process.stderr)
            self.assertEqual(len(process.stderr.splitlines()), 1, process.stderr)
            self.assertFalse(run.exists())

    def test_plan_counts_what_is_trained_and_what_is_not(self):
        _, config = self.config("planned", model={"lora_targets": ["attention"]})
        _, full = self.config("planned-full", model={"lora_rank": 0, "lora_targets": None, "lora_alpha": None})
        plans = [json.loads(ddpm("plan", c, "--nodes", 1, "--gpus-per-node", 1, "--json").stdout) for c in (config, full)]
        self.assertLess(*map(planned_bytes, plans))
        said = ddpm("train", config, "--dry-run").stdout
        self.assertTrue(says(said, "pretrained"), said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
