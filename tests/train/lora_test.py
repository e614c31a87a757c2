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
from diffusers.models.attention_processor import Attention, AttnProcessor
from peft import EvaConfig, LoraConfig, PeftModel, get_peft_model, set_peft_model_state_dict
from safetensors.torch import load_file, save_file
from torch.utils.flop_counter import FlopCounterMode

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
            file["condition"] = np.zeros((COUNT, SIZE, SIZE, 2), np.float32)
            file["labels"] = np.arange(COUNT) % 3
        cls.trained = cls.train("trained")

    @classmethod
    def config(cls, name, **sections):
        run = WORK / name
        shutil.rmtree(run, ignore_errors=True)
        unset = dict.fromkeys(("block_out_channels", "down_block_types", "up_block_types", "layers_per_block",
                               "norm_num_groups", "attention_head_dim"))  # fmt: skip
        defaults = {
            "run": {"threads_per_rank": 1},
            "data": {"shuffle": "none", "labels": ""},
            "model": {**unset, "pretrained": str(cls.base), "lora_rank": 3, "lora_alpha": 6.0, "lora_targets": ALL},
            "batch": {"global_size": BATCH, "micro_size": 2},
            "optimizer": {"learning_rate": RATE},
            "lr_schedule": {"name": "constant", "warmup_steps": None},
            "ema": {"enabled": False},
        }
        for section, keys in sections.items():
            defaults.setdefault(section, {}).update(keys)
        return run, write_config(WORK / f"{name}.toml", run, WORK / "set.h5", **defaults)

    @classmethod
    def train(cls, name, ranks=1, **sections):
        run, config = cls.config(name, **sections)
        ddpm("train", config, ranks=ranks)
        return run

    def assert_refused(self, *command, words):
        process = ddpm(*command, check=False)
        self.assertEqual(process.returncode, 4, process.stderr)
        self.assertIn(words, process.stderr)

    def test_peft_loads_the_adapters_and_gives_the_merged_models_output(self):
        run = self.trained
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
        wanted = [line["loss"] for line in metrics(self.trained)]
        for stage in range(4):
            run = self.train(f"stage-{stage}", ranks=2, parallel={"zero_stage": stage, "activation_checkpointing": "blocks"})
            np.testing.assert_allclose([line["loss"] for line in metrics(run)], wanted, rtol=1e-5)
        reduced = self.train("bf16", ranks=2, precision={"mixed_precision": "bf16"}, parallel={"zero_stage": 3})
        np.testing.assert_allclose([line["loss"] for line in metrics(reduced)], wanted, rtol=3e-2)
        self.assertLess(distance(predict(opened(self.base, reduced / "adapter")), predict(opened(reduced / "model"))), 1e-5)

    def test_float16(self):
        half = {"precision": {"mixed_precision": "fp16", "initial_loss_scale": 1024.0}}
        curves = [[line["loss"] for line in metrics(run)] for run in (self.trained, self.train("half", **half))]
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

    def test_exports_do_not_replace_the_base(self):
        base = make_base(WORK / "precious")
        (base / "normalization.json").write_text("{}")  # as an earlier export has it
        before = {path: path.read_bytes() for path in base.rglob("*") if path.is_file()}
        run = self.train("of-precious", model={"pretrained": str(base)})
        self.assert_refused("checkpoint", "export", run, "--output", base, words="is or holds the model that the adapters belong to")
        self.assertEqual({path: path.read_bytes() for path in base.rglob("*") if path.is_file()}, before)

    def test_another_base_is_refused(self):
        base = make_base(WORK / "other")
        run = self.train("based", model={"pretrained": str(base)})
        weights = base / "unet" / "diffusion_pytorch_model.safetensors"
        changed = load_file(weights)
        changed["conv_in.bias"][0] += 1
        save_file(changed, weights)
        for command in (("train", WORK / "based.toml", "--train.steps", 8),
                        ("sample", "--model", run, "--count", 1, "--output", WORK / "no.npy")):  # fmt: skip
            self.assert_refused(*command, words="other weights")
        shutil.rmtree(base)
        self.assert_refused("sample", "--model", run, "--count", 1, "--output", WORK / "no.npy", words=str(base))

    def test_a_model_that_computes_otherwise_than_its_base_is_refused(self):
        for keys, said in (
            ({"norm_num_groups": 2}, "model.norm_num_groups = 2 instead of 4"),
            ({"act_fn": "gelu", "freq_shift": 1}, 'model.act_fn = "gelu" instead of "silu" and model.freq_shift = 1 instead of 0'),
        ):
            _, config = self.config("otherwise", model=keys)
            process = ddpm("train", config, check=False)
            self.assertEqual((process.returncode, len(process.stderr.strip().splitlines())), (4, 1), process.stderr)
            self.assertIn(said, process.stderr)
        for keys, said in (
            ({"model": {"num_class_embeds": 3}, "data": {"labels": "/labels"}}, "model.num_class_embeds = 3 instead of none"),
            ({"model": {"in_channels": 5}, "data": {"condition": "/condition"}}, "model.in_channels = 5 instead of 3"),
        ):
            _, config = self.config("more", **keys)
            for option in ([], ["--dry-run"]):
                process = ddpm("train", config, *option, check=False)
                self.assertEqual((process.returncode, len(process.stderr.strip().splitlines())), (4, 1), process.stderr)
                self.assertIn("adapters (model.lora_rank) take no classes, channels or parameters", process.stderr)
                self.assertIn(f"it has {said}; wanted: the model's own", process.stderr)
        base = make_base(WORK / "edited")
        run = self.train("beside-edited", model={"pretrained": str(base)})
        config = base / "unet" / "config.json"
        config.write_text(config.read_text().replace('"silu"', '"gelu"'))
        for command, words in (
            (("train", WORK / "beside-edited.toml", "--train.steps", 8), 'its model.act_fn = "silu", yours is "gelu"'),
            (("sample", "--model", run, "--count", 1, "--output", WORK / "no.npy"), 'model.act_fn = "silu" instead of "gelu"'),
        ):
            self.assert_refused(*command, words=words)
        # Without adapters the model is another one, which is said.
        tuned = {"lora_rank": None, "lora_alpha": None, "lora_targets": None, "norm_num_groups": 2}
        _, config = self.config("tuned", model=tuned, train={"steps": 1})
        self.assertIn("it goes on with model.norm_num_groups = 2 instead of 4", ddpm("train", config).stderr)

    def test_a_base_that_moved(self):
        base = make_base(WORK / "here")
        run = self.train("moved", model={"pretrained": str(base)})
        whole = self.train("moved-whole", model={"pretrained": str(base), "lora_rank": None, "lora_alpha": None, "lora_targets": None})
        sampled = ["sample", "--model", run, "--count", 2, "--steps", 2, "--output"]
        ddpm(*sampled, WORK / "before.npy")
        shutil.rmtree(WORK / "there", ignore_errors=True)
        base.rename(WORK / "there")
        for finished in (run, whole):  # needs no base, and changes nothing
            before = {path: path.stat().st_mtime_ns for path in finished.rglob("*")}
            self.assertIn("nothing to do", ddpm("train", WORK / f"{finished.name}.toml").stderr)
            self.assertEqual({path: path.stat().st_mtime_ns for path in finished.rglob("*")}, before)
        ddpm("train", WORK / "moved-whole.toml", "--train.steps", 7)  # its checkpoints hold all weights
        refused = ddpm("train", WORK / "moved.toml", "--train.steps", 7, check=False)
        self.assertEqual(refused.returncode, 4, refused.stderr)
        self.assertIn(f"{base}: there is no model folder", refused.stderr)
        self.assertIn("wanted: model.pretrained", refused.stderr)
        self.assertIn("--base DIR", ddpm(*sampled, WORK / "no.npy", check=False).stderr)
        ddpm(*sampled, WORK / "after.npy", "--base", WORK / "there")
        self.assertEqual((WORK / "after.npy").read_bytes(), (WORK / "before.npy").read_bytes())
        measured = ["eval", "loss", "--data", WORK / "set.h5", "--count", 4, "--levels", 2, "--json", "--model"]
        of_run = json.loads(ddpm(*measured, run, "--base", WORK / "there").stdout)["metrics"][0]["value"]
        of_merged = json.loads(ddpm(*measured, run / "model").stdout)["metrics"][0]["value"]
        self.assertAlmostEqual(of_run, of_merged, delta=1e-5 * of_merged)
        shutil.rmtree(WORK / "peft", ignore_errors=True)
        ddpm("checkpoint", "export", run, "--format", "peft", "--output", WORK / "peft", "--base", WORK / "there" / "unet")
        settings = json.loads((WORK / "peft" / "adapter_config.json").read_text())
        self.assertEqual(settings["base_model_name_or_path"], str(WORK / "there" / "unet"))
        self.assert_refused(*sampled, WORK / "no.npy", "--base", make_base(WORK / "other", 1), words="other weights")
        of_none = ddpm("sample", "--model", run / "model", "--count", 1, "--output", WORK / "no.npy", "--base", WORK / "there", check=False)
        self.assertEqual(of_none.returncode, 2, of_none.stderr)
        self.assert_refused("train", WORK / "moved.toml", "--train.steps", 7, "--model.pretrained", WORK / "other",
                            words="other weights")  # fmt: skip
        ddpm("train", WORK / "moved.toml", "--train.steps", 7, "--model.pretrained", WORK / "there")
        straight = self.train("straight", model={"pretrained": str(WORK / "there")}, train={"steps": 7})
        files = [folder / "adapter" / "adapter_model.safetensors" for folder in (run, straight)]
        self.assertEqual(files[0].read_bytes(), files[1].read_bytes())
        # A model that is trained whole began from what it began from.
        self.assert_refused("train", WORK / "moved-whole.toml", "--train.steps", 8, "--model.pretrained", WORK / "there",
                            words="model.pretrained")  # fmt: skip

    def test_the_best_model_is_merged_into_a_base_that_moved(self):
        base = make_base(WORK / "best-here")
        shutil.rmtree(WORK / "best-there", ignore_errors=True)
        # Without learning, the first validation is the best one: its checkpoint remembers where the base lay.
        run = self.train("best-moved", model={"pretrained": str(base)}, optimizer={"learning_rate": 0.0}, train={"steps": 2},
                         data={"validation": str(WORK / "set.h5")}, validation={"every_steps": 1, "images": 4},
                         checkpoint={"every_steps": 1, "keep_latest": 9})  # fmt: skip
        self.assertIn("| optimizer steps | 1 |", ((best := run / "model-best") / "README.md").read_text())
        shutil.rmtree(best)
        base.rename(WORK / "best-there")
        ddpm("train", WORK / "best-moved.toml", "--train.steps", 3, "--model.pretrained", WORK / "best-there")
        self.assertIn("| optimizer steps | 1 |", (best / "README.md").read_text())
        self.assertLess(distance(predict(opened(best)), predict(opened(WORK / "best-there"))), 1e-5)

    def test_training_that_starts_from_adapters(self):
        begun = self.trained
        untold = dict.fromkeys(("lora_rank", "lora_alpha", "lora_targets"))
        wanted = load_file(begun / "adapter" / "adapter_model.safetensors")
        # What PEFT writes of the same adapters, with all the keys that it has.
        opened(self.base, begun / "adapter").save_pretrained(WORK / "by-peft")
        still = {"optimizer": {"learning_rate": 0.0}, "train": {"steps": 1}}
        for number, adapters in enumerate((begun / "adapter", begun / "checkpoints" / "step-00000006", WORK / "by-peft")):
            ranks = 2 if number == 0 else 1
            run = self.train(f"from-{number}", ranks=ranks, model={**untold, "lora_adapters": str(adapters)}, **still)
            stored = load_file(run / "adapter" / "adapter_model.safetensors")
            self.assertEqual(stored.keys(), wanted.keys())
            for name, values in wanted.items():
                self.assertTrue(torch.equal(stored[name], values), name)
            self.assertLess(distance(predict(opened(run / "model")), predict(opened(begun / "model"))), 1e-6)
        # The keys that made them name the same layers in other words.
        _, config = self.config("told", model={"lora_adapters": str(begun / "adapter")})
        ddpm("train", config, "--dry-run")
        settings = WORK / "by-peft" / "adapter_config.json"
        kept = json.loads(settings.read_text())
        # PEFT passes over a name that the model lacks, too.
        more = {"lora_dropout": 0.125, "target_modules": [*kept["target_modules"], "q_proj"],
                "eva_config": vars(EvaConfig())}  # fmt: skip
        settings.write_text(json.dumps({**kept, **more}))
        PeftModel.from_pretrained(opened(self.base), WORK / "by-peft")
        for adapters, count in ((WORK / "by-peft", 1), (begun / "adapter", 0)):
            _, config = self.config("dropped", model={**untold, "lora_adapters": str(adapters)})
            said = ddpm("train", config, "--dry-run").stderr
            self.assertEqual(said.count("were trained with lora_dropout = 0.125; training goes on without it"), count, said)
        changed = self.train("changed", model={**untold, "lora_adapters": str(WORK / "by-peft")}, train={"steps": 2})
        self.assertNotIn("q_proj", (changed / "config.toml").read_text())
        shutil.rmtree(WORK / "by-peft")
        ddpm("train", WORK / "changed.toml", "--train.steps", 3)  # the adapters are in its checkpoints

    def test_adapters_that_training_cannot_start_from(self):
        begun = self.train("kept", train={"steps": 1})
        untold = dict.fromkeys(("lora_rank", "lora_alpha", "lora_targets"))

        def changed(name, **keys):
            shutil.rmtree(WORK / name, ignore_errors=True)
            shutil.copytree(begun / "adapter", WORK / name)
            config = WORK / name / "adapter_config.json"
            config.write_text(json.dumps({**json.loads(config.read_text()), **keys}))
            return {"lora_adapters": str(WORK / name)}

        def not_finite(keys):
            path = pathlib.Path(keys["lora_adapters"]) / "adapter_model.safetensors"
            save_file({name: values * float("nan") for name, values in load_file(path).items()}, path)
            return keys

        other = make_base(WORK / "other-base", 5)
        adapter = str(begun / "adapter")
        named = json.loads((begun / "adapter" / "adapter_config.json").read_text())["target_modules"]
        but_conv_in = [name for name in named if name != "conv_in"]
        for code, phrase, keys in (
            (4, "'use_rslora' is true", changed("rslora", use_rslora=True)),
            (4, "'init_lora_weights' is", changed("pissa", init_lora_weights="pissa")),
            (4, "'peft_type' is", changed("ia3", peft_type="IA3")),
            (4, "'r' is", changed("wide", r=10**9)),
            (4, "'target_modules' is", changed("pattern", target_modules=".*")),
            (4, "does not fit the model", changed("fewer", target_modules=["to_q"], lora_dropout=0.5)),
            (4, 'names 2 layers, first "conv9", but none of the model', changed("none", target_modules=["conv9", "q_proj"])),
            (4, "'lora_dropout' is \"x\"", changed("odd-dropout", lora_dropout="x")),
            (4, "holds values that are not finite", not_finite(changed("nan"))),
            (4, "holds no adapters", {"lora_adapters": str(begun / "model")}),
            (4, "hf download someone/adapters", {"lora_adapters": "someone/adapters"}),
            (2, "asks for lora_rank = 5", {"lora_adapters": adapter, "lora_rank": 5}),
            (2, "1 layer of lora_targets differs, first conv_in; wanted: no lora_ keys",
             {"lora_adapters": adapter, "lora_rank": 3, "lora_alpha": 6.0, "lora_targets": but_conv_in}),
            (2, "model.pretrained is not set", {"lora_adapters": adapter, "pretrained": None, "in_channels": 3}),
            (4, "other weights", {"lora_adapters": str(begun), "pretrained": str(other)}),
            (4, "model.lora_adapters this", {"pretrained": adapter}),
            (4, "model.lora_adapters this", {"pretrained": str(begun)}),
            (2, "is a file; wanted: the folder around it", {"pretrained": str(self.base / "unet" / "config.json"), "lora_rank": 3}),
        ):  # fmt: skip
            run, config = self.config("refused-start", model={**untold, **keys})
            for flags in ([], ["--dry-run"])[: 2 if phrase == "does not fit the model" else 1]:
                process = ddpm("train", config, *flags, check=False)
                self.assertEqual(process.returncode, code, process.stderr)
                self.assertTrue(says(process.stderr, phrase), process.stderr)
                self.assertEqual(process.stderr.count("ddpm: error:"), 1, process.stderr)
                self.assertNotIn("adapters beside", process.stderr)
                self.assertNotIn("goes on without it", process.stderr)
                self.assertLess(len(process.stderr), 1000, process.stderr)
                self.assertFalse(run.exists())

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
        # What PyTorch counts of the same model with PEFT: no gradients of the frozen weights, nor before the first adapter.
        targets = ["to_q", "to_k", "to_v", "to_out.0"]
        adapted = get_peft_model(opened(self.base), LoraConfig(r=3, target_modules=targets))
        for plan, model in zip(plans, (adapted, opened(self.base).requires_grad_(True))):
            for module in model.modules():
                if isinstance(module, Attention):
                    module.set_processor(AttnProcessor())  # products that are counted on the CPU, too
            with FlopCounterMode(display=False) as counter:
                loss = model(torch.zeros(1, 3, SIZE, SIZE), torch.tensor([1])).sample.sum()
                forward = counter.get_total_flops()
                loss.backward()
            counted = {"forward": forward, "backward": counter.get_total_flops() - forward}
            planned = {kind: plan[f"{kind}_flops_per_image"] for kind in counted}
            print(f"operations of an image: planned {planned}, counted {counted}")
            self.assertAlmostEqual(planned["forward"], counted["forward"], delta=0.01 * counted["forward"])
            # A plan counts the gradient of the image, and all of the block that has the first adapter.
            self.assertGreaterEqual(planned["backward"], 0.99 * counted["backward"])
            self.assertLessEqual(planned["backward"], 1.1 * counted["backward"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
