"""Model folders as they are found: sharded files, names of older releases, pickles and hostile indices; and the sizes of
published models."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

# The products of two loops are compared: on processors that are not Intel's, MKL's depend on where memory lies.
os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")
import numpy as np  # noqa: E402
import torch  # noqa: E402
from diffusers import (  # noqa: E402
    CMStochasticIterativeScheduler,
    DDIMInverseScheduler,
    DDIMScheduler,
    DEISMultistepScheduler,
    DDPMPipeline,
    DDPMScheduler,
    DiffusionPipeline,
    DPMSolverMultistepScheduler,
    DPMSolverSinglestepScheduler,
    EulerDiscreteScheduler,
    HeunDiscreteScheduler,
    KDPM2DiscreteScheduler,
    LMSDiscreteScheduler,
    PNDMScheduler,
    ScoreSdeVeScheduler,
    UnCLIPScheduler,
    UniPCMultistepScheduler,
    UNet2DModel,
)
from safetensors.torch import load_file, save_file  # noqa: E402

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_run import ddpm, make_dataset  # noqa: E402

WORK = pathlib.Path.cwd()
FILE = "diffusion_pytorch_model.safetensors"
INDEX = FILE + ".index.json"
OLD_NAMES = {"to_q": "query", "to_k": "key", "to_v": "value", "to_out.0": "proj_attn"}

# The models of huggingface.co/google, whose pages and papers state these sizes.
CIFAR10 = {
    "sample_size": 32, "in_channels": 3, "out_channels": 3, "layers_per_block": 2,
    "block_out_channels": [128, 256, 256, 256], "attention_head_dim": None, "downsample_padding": 0,
    "flip_sin_to_cos": False, "freq_shift": 1, "norm_eps": 1e-06,
    "down_block_types": ["DownBlock2D", "AttnDownBlock2D", "DownBlock2D", "DownBlock2D"],
    "up_block_types": ["UpBlock2D", "UpBlock2D", "AttnUpBlock2D", "UpBlock2D"],
}  # fmt: skip
CELEBAHQ = {
    **CIFAR10, "sample_size": 256, "block_out_channels": [128, 128, 256, 256, 512, 512],
    "down_block_types": ["DownBlock2D"] * 4 + ["AttnDownBlock2D", "DownBlock2D"],
    "up_block_types": ["UpBlock2D", "AttnUpBlock2D"] + ["UpBlock2D"] * 4,
}  # fmt: skip
NCSNPP = {
    "sample_size": 256, "in_channels": 3, "out_channels": 3, "layers_per_block": 2, "act_fn": "silu",
    "block_out_channels": [128, 128, 256, 256, 256, 256, 256], "center_input_sample": True,
    "down_block_types": ["SkipDownBlock2D"] * 4 + ["AttnSkipDownBlock2D"] + ["SkipDownBlock2D"] * 2,
    "up_block_types": ["SkipUpBlock2D"] * 2 + ["AttnSkipUpBlock2D"] + ["SkipUpBlock2D"] * 4,
    "mid_block_scale_factor": 1.41421356237, "norm_eps": 1e-06, "time_embedding_type": "fourier",
    "freq_shift": 0, "flip_sin_to_cos": True, "attention_head_dim": None, "downsample_padding": 1,
}  # fmt: skip
PUBLISHED = {"ddpm-cifar10-32": (CIFAR10, 35746307), "ddpm-celebahq-256": (CELEBAHQ, 113673219), "ncsnpp": (NCSNPP, None)}


def make_unet():
    torch.manual_seed(0)
    return UNet2DModel(
        sample_size=16, block_out_channels=(16, 32), layers_per_block=1, norm_num_groups=4, attention_head_dim=8,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    ).eval()  # fmt: skip


class Folders(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.unet = make_unet()
        cls.noise = np.random.default_rng(0).standard_normal((2, 3, 16, 16)).astype(np.float32)
        np.save(WORK / "noise.npy", cls.noise)

    def save(self, name, **options):
        folder = WORK / name
        shutil.rmtree(folder, ignore_errors=True)
        DDPMPipeline(self.unet, DDPMScheduler(clip_sample=False)).save_pretrained(folder, **options)
        return folder

    def draw(self, folder, *options, ranks=1, check=True):
        out = WORK / "out.npy"
        out.unlink(missing_ok=True)
        return ddpm("sample", "--model", folder, "--scheduler", "ddim", "--steps", 3, "--count", 2, "--initial-noise",
                    WORK / "noise.npy", "--output", out, *options, ranks=ranks, check=check)  # fmt: skip

    def assert_drawn(self, folder, *options, ranks=1, noise=None):
        self.draw(folder, *options, ranks=ranks)
        scheduler = DDIMScheduler(clip_sample=False)
        scheduler.set_timesteps(3)
        x = torch.tensor(self.noise if noise is None else noise)
        for t in scheduler.timesteps:
            with torch.no_grad():
                x = scheduler.step(self.unet(x, t).sample, t, x).prev_sample
        error = np.abs(np.load(WORK / "out.npy") - x.numpy()).max() / np.abs(x.numpy()).max()
        self.assertLess(error, 1e-4)

    def assert_refused(self, folder, words):
        process = self.draw(folder, check=False)
        self.assertEqual(process.returncode, 4, process.stderr)
        (line,) = process.stderr.strip().splitlines()
        for word in words:
            self.assertIn(word, line)
        return line

    def test_a_folder_whose_scheduler_scales_is_no_pipeline(self):
        """DDPMPipeline would neither start from its noise nor scale what the network is shown; the card's lines do both."""
        for scheduler in (EulerDiscreteScheduler(), HeunDiscreteScheduler(), LMSDiscreteScheduler(), KDPM2DiscreteScheduler()):
            name = type(scheduler).__name__
            shutil.rmtree(WORK / name, ignore_errors=True)
            DDPMPipeline(self.unet, scheduler).save_pretrained(WORK / name)
            output = WORK / f"of-{name}"
            ddpm("checkpoint", "export", WORK / name, "--output", output)
            file = "scheduler/scheduler_config.json"
            self.assertEqual((output / file).read_bytes(), (WORK / name / file).read_bytes())
            for pipeline in (DiffusionPipeline, DDPMPipeline):
                with self.assertRaisesRegex((AttributeError, ValueError), "ScaledInput"):
                    pipeline.from_pretrained(output)
            card = (output / "README.md").read_text()
            self.assertNotIn("DDPMPipeline", card)
            lines = card.split("```python\n")[1].split("```")[0].replace("PATH OF THIS FOLDER", str(output))
            space = {}
            torch.manual_seed(1)
            exec(lines, space)  # noqa: S102
            noise = torch.Generator().manual_seed(1)
            x = torch.randn(1, 3, 16, 16, generator=noise) * space["scheduler"].init_noise_sigma
            again = type(scheduler).from_pretrained(output, subfolder="scheduler")
            again.set_timesteps(50)
            for t in again.timesteps:
                with torch.no_grad():
                    x = again.step(self.unet(again.scale_model_input(x, t), t).sample, t, x).prev_sample
            torch.testing.assert_close(space["images"], x)

    def test_a_folder_whose_scheduler_takes_no_generator_is_no_pipeline(self):
        """DDPMPipeline gives one to each step; the card's lines give none."""
        for scheduler in (PNDMScheduler(), UniPCMultistepScheduler(), DEISMultistepScheduler()):
            name = type(scheduler).__name__
            shutil.rmtree(WORK / name, ignore_errors=True)
            DDPMPipeline(self.unet, scheduler).save_pretrained(WORK / name)
            with self.assertRaisesRegex(TypeError, "generator"):
                DDPMPipeline.from_pretrained(WORK / name)(num_inference_steps=4)
            output = WORK / f"of-{name}"
            ddpm("checkpoint", "export", WORK / name, "--output", output)
            for pipeline in (DiffusionPipeline, DDPMPipeline):
                with self.assertRaisesRegex((AttributeError, ValueError), "OwnSteps"):
                    pipeline.from_pretrained(output)
            lines = (output / "README.md").read_text().split("```python\n")[1].split("```")[0]
            space = {}
            exec(lines.replace("PATH OF THIS FOLDER", str(output)), space)  # noqa: S102
            self.assertEqual(tuple(space["images"].shape), (1, 3, 16, 16))
            self.assertTrue(space["images"].isfinite().all())

    def test_weights_in_several_files(self):
        folder = self.save("sharded", max_shard_size="60KB")
        self.assertGreater(len(list((folder / "unet").glob("*.safetensors"))), 2)
        self.assert_drawn(folder)
        self.assert_drawn(folder / "unet", ranks=2)
        # What an earlier save left counts less than the index, for diffusers, too.
        stale = {name: torch.zeros_like(value) for name, value in self.unet.state_dict().items()}
        save_file(stale, folder / "unet" / FILE, metadata={"format": "pt"})
        opened = UNet2DModel.from_pretrained(folder, subfolder="unet")
        self.assertTrue(torch.equal(opened.conv_in.weight, self.unet.conv_in.weight))
        self.assert_drawn(folder)

    def test_a_folder_without_a_size_draws_images_of_that_which_is_asked_for(self):
        folder = self.save("sizeless")
        config = folder / "unet" / "config.json"
        config.write_text(json.dumps({**json.loads(config.read_text()), "sample_size": None}))
        self.assert_refused(folder, ["config.json has no sample_size", "--size HxW"])
        config.write_text(json.dumps({**json.loads(config.read_text()), "sample_size": 15}))
        self.assert_refused(folder, ["config.json has no sample_size that its model takes", "that 2 divides"])
        for ranks in (1, 2):
            self.assert_drawn(folder, "--size", "16x16", ranks=ranks)
        for size, words in (("16x15", "a multiple of 2 is wanted"), ("16x16x16", "have 2 sides")):
            process = self.draw(folder, "--size", size, check=False)
            self.assertEqual(process.returncode, 2, process.stderr)
            (line,) = process.stderr.strip().splitlines()
            self.assertIn(f"--size {size}: ", line)
            self.assertIn(words, line)
        np.save(WORK / "noise.npy", self.noise[..., :12])
        try:
            self.assert_drawn(folder, "--size", "16x12", noise=self.noise[..., :12])
        finally:
            np.save(WORK / "noise.npy", self.noise)

    def test_names_of_older_releases(self):
        folder = self.save("old")
        weights = load_file(folder / "unet" / FILE)
        renamed = {}
        for name, value in weights.items():
            for new, old in OLD_NAMES.items():
                if ".attentions." in name:
                    name = name.replace(f".{new}.", f".{old}.")
            renamed[name] = value
        self.assertEqual(sum("proj_attn" in name for name in renamed), 8)
        save_file(renamed, folder / "unet" / FILE, metadata={"format": "pt"})
        UNet2DModel.from_pretrained(folder, subfolder="unet")  # diffusers reads them, too
        self.assert_drawn(folder)

    def test_a_folder_of_one_variant(self):
        for name, options in (("variant", {}), ("variant_parts", {"max_shard_size": "60KB"})):
            folder = self.save(name, variant="fp16", **options)
            self.assertFalse((folder / "unet" / FILE).exists())
            self.assert_drawn(folder)
        (folder / "unet" / f"{FILE}.index.fp16.json").rename(folder / "unet" / f"{FILE}.fp16.index.json")
        # The name of older releases, which diffusers looks for where no point stands in the path of the folder.
        opened = UNet2DModel.from_pretrained(folder.name, subfolder="unet", variant="fp16")
        self.assertTrue(torch.equal(opened.conv_in.weight, self.unet.conv_in.weight))
        self.assert_drawn(folder)

    def test_weights_of_a_smaller_model_take_no_memory_of_the_larger_one(self):
        folder = self.save("large")
        config = folder / "unet" / "config.json"
        large = {"block_out_channels": [65536, 65536], "layers_per_block": 200}
        config.write_text(json.dumps({**json.loads(config.read_text()), **large}))
        self.assert_refused(folder, ["does not fit the model", "other shapes", "conv_in.weight is [16, 3, 3, 3]"])

    def test_a_pipeline_of_latents_is_refused(self):
        folder = self.save("latents")
        index = json.loads((folder / "model_index.json").read_text())
        index |= {"_class_name": "LDMPipeline", "vqvae": ["diffusers", "VQModel"]}
        (folder / "model_index.json").write_text(json.dumps(index))
        for path in (folder, folder / "unet"):
            self.assert_refused(path, ["model_index.json", "latents, of which its vqvae makes images"])

    def test_a_pickle_is_refused_with_what_converts_it(self):
        folder = self.save("pickle", safe_serialization=False)
        line = self.assert_refused(folder, ["pickle", FILE])
        (code,) = re.findall(r'python3 -c "(.*)" makes', line)
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=120)
        self.assert_drawn(folder)
        folder = self.save("pickle-variant", safe_serialization=False, variant="fp16")
        (code,) = re.findall(r'python3 -c "(.*)" makes', self.assert_refused(folder, ["pickle", FILE]))
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=120)
        self.assert_drawn(folder)

    def test_keys_that_diffusers_ignores(self):
        """One may be of a newer release, and change what the model computes: it is named. Private ones never stop a model."""
        folder = self.save("ignored")
        file = folder / "unet" / "config.json"
        config = json.loads(file.read_text())
        file.write_text(json.dumps({**config, "gated": True}))
        with self.assertLogs("diffusers.configuration_utils", "WARNING") as told:
            UNet2DModel.from_pretrained(folder, subfolder="unet")
        self.assertIn("gated", "".join(told.output))
        self.assert_refused(folder, [f"{file}: unknown key 'gated'", "may change what the model computes; remove it where"])
        file.write_text(json.dumps({**config, "_gated": True, "_commit_hash": "a1", "gated": None}))
        UNet2DModel.from_pretrained(folder, subfolder="unet")
        self.assert_drawn(folder)

    def test_null_switches_are_off(self):
        folder = self.save("nulls")
        for name, keys in (("unet/config.json", ("center_input_sample", "flip_sin_to_cos")), ("scheduler/scheduler_config.json", ("clip_sample",))):
            file = folder / name
            file.write_text(json.dumps({**json.loads(file.read_text()), **dict.fromkeys(keys)}))
        self.assertFalse(DDPMScheduler.from_pretrained(folder, subfolder="scheduler").config.clip_sample)
        whole, self.unet = self.unet, UNet2DModel.from_pretrained(folder, subfolder="unet").eval()
        x = torch.tensor(self.noise)
        with torch.no_grad():
            self.assertFalse(torch.allclose(self.unet(x, 900).sample, whole(x, 900).sample))
        self.assert_drawn(folder)

    def test_scheduler_files_as_diffusers_saves_them(self):
        folder = self.save("schedulers")
        for cls, keys in (
            (DPMSolverMultistepScheduler, {}), (DPMSolverSinglestepScheduler, {}), (UniPCMultistepScheduler, {}),
            (EulerDiscreteScheduler, {}), (HeunDiscreteScheduler, {}),
            (DDIMScheduler, {"clip_sample": False}),
            (EulerDiscreteScheduler, {"use_karras_sigmas": True, "sigma_min": 0.02, "sigma_max": 20.0}),
        ):  # fmt: skip
            shutil.rmtree(folder / "scheduler")
            cls(**keys).save_pretrained(folder / "scheduler")
            out = WORK / "out.npy"
            solver = "ddim" if cls is DDIMScheduler else "dpmsolver++" if "Multistep" in cls.__name__ else "euler"
            peer = {"ddim": DDIMScheduler, "euler": EulerDiscreteScheduler}.get(solver, DPMSolverMultistepScheduler)
            ddpm("sample", "--model", folder, "--scheduler", solver, "--steps", 4, "--count", 2, "--initial-noise",
                 WORK / "noise.npy", "--output", out)  # fmt: skip
            scheduler = peer.from_pretrained(folder / "scheduler")
            scheduler.set_timesteps(4)
            x = torch.tensor(self.noise) * scheduler.init_noise_sigma
            for t in scheduler.timesteps:
                with torch.no_grad():
                    x = scheduler.step(self.unet(scheduler.scale_model_input(x, t), t).sample, t, x).prev_sample
            error = np.abs(np.load(out) - x.numpy()).max() / np.abs(x.numpy()).max()
            self.assertLess(error, 1e-4, (cls.__name__, solver))

    def test_schedulers_of_other_processes_are_refused(self):
        folder = self.save("process")
        for cls in (ScoreSdeVeScheduler, CMStochasticIterativeScheduler, UnCLIPScheduler, DDIMInverseScheduler):
            shutil.rmtree(folder / "scheduler")
            cls().save_pretrained(folder / "scheduler")
            self.assert_refused(folder, [cls.__name__, "scheduler_config.json"])

    def test_hostile_indices(self):
        def change(name, edit):
            folder = self.save(name, max_shard_size="60KB") / "unet"
            index = json.loads((folder / INDEX).read_text())
            edit(folder, index["weight_map"], sorted(path.name for path in folder.glob("*.safetensors")))
            (folder / INDEX).write_text(json.dumps(index))
            return folder

        def outside(folder, names, files):
            shutil.copy(folder / files[0], folder.parent / "outside.safetensors")
            names["conv_in.weight"] = "../outside.safetensors"

        def absolute(folder, names, files):
            names["conv_in.weight"] = str(folder / files[0])

        def gone(folder, names, files):
            (folder / files[1]).unlink()

        def promised(folder, names, files):
            names["nothing.weight"] = files[0]

        def unlisted(folder, names, files):
            del names["conv_in.weight"]

        def elsewhere(folder, names, files):
            names["conv_in.weight"] = next(file for file in files if file != names["conv_in.weight"])

        def twice(folder, names, files):
            more = {**load_file(folder / files[-1]), "conv_in.weight": load_file(folder / names["conv_in.weight"])["conv_in.weight"]}
            save_file(more, folder / files[-1])

        for edit, words in (
            (outside, ["conv_in.weight", "../outside.safetensors", "in this folder"]),
            (absolute, ["conv_in.weight", "in this folder"]),
            (gone, ["-00002-of-"]),
            (promised, ["nothing.weight", "says lies in it"]),
            (unlisted, ["conv_in.weight", "does not list"]),
            (elsewhere, ["conv_in.weight"]),
            (twice, ["conv_in.weight"]),
        ):
            with self.subTest(edit.__name__):
                self.assert_refused(change(f"hostile-{edit.__name__}", edit), words)
        for name, text in (("list", "[]"), ("none", "{}"), ("number", '{"weight_map": 3}'), ("empty", '{"weight_map": {}}')):
            folder = self.save(f"hostile-{name}", max_shard_size="60KB") / "unet"
            (folder / INDEX).write_text(text)
            self.assert_refused(folder, [INDEX, "weight_map"])

    def test_published_models_have_their_sizes(self):
        dataset = make_dataset(WORK / "data", 4)
        for name, (config, size) in PUBLISHED.items():
            with torch.device("meta"):
                counted = sum(p.numel() for p in UNet2DModel(**config).parameters())
            constants = 0
            if config.get("time_embedding_type") == "fourier":
                constants = config["block_out_channels"][0]  # a parameter of diffusers' that is not trained
            self.assertEqual(counted, size or counted)
            (WORK / f"{name}.json").write_text(json.dumps({"_class_name": "UNet2DModel", **config}))
            path = WORK / f"{name}.toml"
            levels = "flow" if config.get("time_embedding_type") == "fourier" else "ddpm"  # fourier has no ln 0
            path.write_text(f'[diffusion]\nformulation = "{levels}"\n[data]\ntrain = "{dataset}-absent"\n[model]\nconfig = "{WORK / name}.json"\n'
                            '[train]\nsteps = 1\n[batch]\nglobal_size = 1\nmicro_size = 1\n[run]\ndirectory = "r"\n')  # fmt: skip
            process = ddpm("plan", path, "--nodes", 1, "--gpus-per-node", 1, "--json", check=False)
            self.assertEqual(process.returncode, 0, process.stderr)
            seen = json.loads(process.stdout)["parameters"]
            self.assertIn(seen, (counted, counted - constants), name)


if __name__ == "__main__":
    unittest.main(verbosity=2)
