"""Going on with a model that exists: diffusers' weights or their averages, another resolution, classes or channels that
it did not have, runs and checkpoints of our own. Each continues the loss that diffusers computes for the model."""

import json
import os
import pathlib
import shutil
import sys
import unittest

import h5py
import numpy as np
import torch
from diffusers import DDPMPipeline, DDPMScheduler, EDMEulerScheduler, UNet2DModel
from diffusers.training_utils import EMAModel
from safetensors.torch import load_file, save_file

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_run import ddpm, make_pictures, metrics, says, write_config  # noqa: E402
from philox import NOISE, TIMESTEP, below, normals  # noqa: E402

WORK = pathlib.Path.cwd()
SEED = 7  # of write_config
BATCH = 4
ARCHITECTURE = {
    "block_out_channels": (8, 16), "layers_per_block": 1, "norm_num_groups": 4, "attention_head_dim": 8,
    "down_block_types": ("DownBlock2D", "AttnDownBlock2D"), "up_block_types": ("AttnUpBlock2D", "UpBlock2D"),
}  # fmt: skip
UNSET = dict.fromkeys(ARCHITECTURE)


def make_unet(seed, size=8):
    torch.manual_seed(seed)
    return UNet2DModel(sample_size=size, **ARCHITECTURE)


def write_set(path, size=8):
    random = np.random.default_rng(size)
    with h5py.File(path, "w") as file:
        file["images"] = random.uniform(-1, 1, (16, size, size, 3)).astype(np.float32)
        file["condition"] = random.standard_normal((16, size, size, 2)).astype(np.float32)
        file["labels"] = random.integers(0, 3, 16)
    return path


def first_loss(unet, path):
    """The loss of the first step, by diffusers."""
    with h5py.File(path) as file:
        x0 = torch.from_numpy(file["images"][:BATCH]).permute(0, 3, 1, 2)
    t = torch.tensor([below(1000, SEED, TIMESTEP, p) for p in range(BATCH)])
    noise = torch.tensor([normals(x0[0].numel(), SEED, NOISE, p) for p in range(BATCH)]).reshape(x0.shape)
    with torch.no_grad():
        prediction = unet.eval()(DDPMScheduler().add_noise(x0, noise, t), t).sample
    return torch.nn.functional.mse_loss(prediction, noise).item()


def put_nan(path):
    weights = load_file(path)
    weights["conv_out.bias"][0] = float("nan")
    save_file(weights, path)


def add_decoder(path):
    path.write_text(json.dumps({**json.loads(path.read_text()), "vae": ["diffusers", "AutoencoderKL"]}))


def weights_of(folder):
    return load_file(folder / "unet" / "diffusion_pytorch_model.safetensors")


class Continue(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.unet, cls.other = make_unet(0), make_unet(1)
        cls.set = write_set(WORK / "set.h5")
        DDPMPipeline(cls.unet, DDPMScheduler()).save_pretrained(WORK / "base")
        # As diffusers' training scripts save their state.
        cls.unet.save_pretrained(WORK / "checkpoint-500" / "unet")
        averages = EMAModel(cls.other.parameters(), model_cls=UNet2DModel, model_config=cls.other.config)
        averages.save_pretrained(WORK / "checkpoint-500" / "unet_ema")

    def config(self, name, pretrained, path=None, **sections):
        run = WORK / name
        shutil.rmtree(run, ignore_errors=True)
        defaults = {
            "run": {"threads_per_rank": 1},
            "data": {"shuffle": "none", "labels": ""},
            "model": {**UNSET, "pretrained": str(pretrained)},
            "batch": {"global_size": BATCH, "micro_size": 2},
            "train": {"steps": 1},
            "lr_schedule": {"name": "constant", "warmup_steps": None},
            "optimizer": {"learning_rate": 0.0},
        }
        for section, keys in sections.items():
            defaults.setdefault(section, {}).update(keys)
        return run, write_config(WORK / f"{name}.toml", run, path or self.set, **defaults)

    def expect_continued(self, name, pretrained, unet, path=None, ranks=1, **sections):
        """Without learning, the first step has the loss of `unet`; returns the run of a few steps that learn."""
        run, config = self.config(name, pretrained, path, **sections)
        ddpm("train", config, "--dry-run")
        ddpm("train", config, ranks=ranks)
        self.assertAlmostEqual(metrics(run)[0]["loss"], first_loss(unet, path or self.set), delta=1e-5)
        run, config = self.config(name, pretrained, path, **{**sections, "train": {"steps": 4}, "optimizer": {"learning_rate": 1e-3}})
        ddpm("train", config, ranks=ranks)
        return run

    def test_weights_or_averages_are_named(self):
        folder = WORK / "checkpoint-500"
        self.expect_continued("raw", folder, self.unet, model={"pretrained_weights": "raw"})
        self.expect_continued("averages", folder, self.other, ranks=2, model={"pretrained_weights": "ema"})
        for pretrained, weights, code, phrase in (
            (folder, None, 2, 'model.pretrained_weights = "raw" or "ema"'),
            (WORK / "base", "ema", 4, "unet_ema"),
            (folder, "ema:1", 2, 'model.pretrained_weights = "ema:1"'),
        ):
            _, config = self.config("unnamed", pretrained, model={"pretrained_weights": weights})
            process = ddpm("train", config, check=False)
            self.assertEqual(process.returncode, code, process.stderr)
            self.assertTrue(says(process.stderr, phrase), process.stderr)

    def test_another_resolution(self):
        path = write_set(WORK / "large.h5", 16)
        run = self.expect_continued("large", WORK / "base", self.unet, path, model={"sample_size": 16})
        self.assertEqual(UNet2DModel.from_pretrained(run / "model" / "unet").config.sample_size, 16)
        _, config = self.config("unsized", WORK / "base", path)
        process = ddpm("train", config, check=False)
        self.assertEqual(process.returncode, 3, process.stderr)
        self.assertTrue(says(process.stderr, "model.sample_size = [16, 16]"), process.stderr)

    def test_another_formulation(self):
        """Keys that only the model's own formulation reads are left behind, as nobody has set them."""
        torch.manual_seed(2)
        fourier = UNet2DModel(sample_size=8, time_embedding_type="fourier", **ARCHITECTURE)
        DDPMPipeline(fourier, DDPMScheduler()).save_pretrained(WORK / "fourier")
        for pretrained, formulation in (("base", "flow"), ("base", "edm"), ("fourier", "flow")):
            _, config = self.config(f"{pretrained}-{formulation}", WORK / pretrained, diffusion={"formulation": formulation})
            ddpm("train", config)
        # edm reads no num_train_timesteps, which a file of diffusers has all the same.
        shutil.copytree(WORK / "base", WORK / "karras", dirs_exist_ok=True)
        EDMEulerScheduler(num_train_timesteps=256).save_pretrained(WORK / "karras" / "scheduler")
        ddpm("train", self.config("karras-run", WORK / "karras")[1])
        _, config = self.config("set", WORK / "base", diffusion={"formulation": "flow", "clip_sample": False})
        self.assertIn("diffusion.clip_sample = false has no meaning", ddpm("train", config, check=False).stderr)

    def test_what_the_model_was_not_trained_for_is_said_once(self):
        scheduler = DDPMScheduler(prediction_type="v_prediction", num_train_timesteps=500)
        DDPMPipeline(self.unet, scheduler).save_pretrained(WORK / "velocity")
        adapters = {"lora_rank": 2}
        said = 'it goes on with diffusion.{} = {} instead of {}'
        for name, pretrained, diffusion, model, phrases in (
            ("as-it-was", "velocity", {}, {}, []),
            ("same", "velocity", {"prediction_type": "v_prediction", "clip_sample": False}, {}, []),
            ("noise", "velocity", {"prediction_type": "epsilon"}, {}, [said.format("prediction_type", '"epsilon"', '"v_prediction"')]),
            ("noise-beside", "velocity", {"prediction_type": "epsilon"}, adapters,
             [said.format("prediction_type", '"epsilon"', '"v_prediction"')]),
            ("levels", "velocity", {"beta_end": 0.01, "num_train_timesteps": 1000}, {},
             [said.format("num_train_timesteps", 1000, 500) + " and diffusion.beta_end = 0.01 instead of 0.02"]),
            ("flowing", "velocity", {"formulation": "flow"}, {}, [said.format("formulation", '"flow"', '"ddpm"')]),
            ("own", "as-it-was", {"prediction_type": "sample"}, {}, [said.format("prediction_type", '"sample"', '"v_prediction"')]),
            ("unsaid", "checkpoint-500", {"prediction_type": "sample"}, {"pretrained_weights": "raw"},
             ["has no scheduler_config.json", 'it goes on with diffusion.formulation = "ddpm", num_train_timesteps = 1000',
              'prediction_type = "sample"; wanted']),
        ):  # fmt: skip
            _, config = self.config(name, WORK / pretrained, diffusion=diffusion, model=model)
            for option in (["--dry-run"], []):
                stderr = ddpm("train", config, *option).stderr
                self.assertEqual(stderr.count("it goes on with"), min(len(phrases), 1), stderr)
                for phrase in phrases:
                    self.assertIn(phrase, stderr)
            again = ddpm("train", config, "--train.steps", 2).stderr  # from its checkpoint, which is of this training
            self.assertNotIn("it goes on with", again)

    def test_classes_that_it_did_not_have(self):
        run = self.expect_continued("classes", WORK / "base", self.unet, data={"labels": "/labels"}, model={"num_class_embeds": 3})
        table = UNet2DModel.from_pretrained(run / "model" / "unet").class_embedding.weight
        self.assertEqual(tuple(table.shape), (3, 32))
        self.assertGreater(table.abs().max().item(), 0)
        more, config = self.config("more", run / "model", data={"labels": "/labels"},
                                   diffusion={"class_dropout": 0.1}, model={"num_class_embeds": 4}, ema={"enabled": False})  # fmt: skip
        ddpm("train", config)
        grown = weights_of(more / "model")["class_embedding.weight"]
        torch.testing.assert_close(grown[:3], table.detach(), rtol=0, atol=0)
        self.assertEqual(grown[3].abs().max().item(), 0)

    def test_channels_that_it_did_not_have(self):
        run = self.expect_continued("channels", WORK / "base", self.unet, ranks=2, parallel={"zero_stage": 3},
                                    data={"condition": "/condition"}, model={"in_channels": 5})  # fmt: skip
        kernel = weights_of(run / "model")["conv_in.weight"]
        self.assertEqual(tuple(kernel.shape), (8, 5, 3, 3))
        self.assertGreater(kernel[:, 3:].abs().max().item(), 0, "the new channels are not trained")

    def test_a_closing_slash_or_a_point_is_no_part_of_the_name(self):
        """Scheduler and transforms lie beside the unet that is named, with whatever its path ends."""
        scheduler = DDPMScheduler(prediction_type="v_prediction")
        DDPMPipeline(self.unet, scheduler).save_pretrained(WORK / "slashed")
        for name, path in (("slash", "slashed/unet/"), ("point", "slashed/unet/.")):
            run, config = self.config(name, f"{WORK}/{path}")
            self.assertNotIn("has no scheduler_config.json", ddpm("train", config).stderr)
            written = json.loads((run / "model" / "scheduler" / "scheduler_config.json").read_text())
            self.assertEqual(written["prediction_type"], "v_prediction")
        averages = f"{WORK}/checkpoint-500/unet_ema/"
        ddpm("sample", "--model", averages, "--weights", "ema", "--count", 1, "--steps", 1, "--output", WORK / "averages.npy")

    def test_classes_that_it_had_stay_with_their_names(self):
        """Folders are numbered by their names, so that a new one in between moves those behind it."""
        for name, classes in (("animals", ("cat", "dog")), ("more-animals", ("bat", "cat", "dog"))):
            pictures = WORK / f"{name}-pictures"
            shutil.rmtree(pictures, ignore_errors=True)
            shutil.rmtree(WORK / name, ignore_errors=True)
            make_pictures(pictures, 8 * len(classes), 8)
            files = sorted(pictures.glob("*/*.png"))
            for i, file in enumerate(files):
                (pictures / classes[i % len(classes)]).mkdir(exist_ok=True)
                file.rename(pictures / classes[i % len(classes)] / file.name)
            for empty in ("a", "b"):
                (pictures / empty).rmdir()
            ddpm("data", "create", pictures, "--output", WORK / name, "--size", 8, "--labels", "folder")
        whole = {"ema": {"enabled": False}, "data": {"labels": None}}
        before, config = self.config("animals-run", WORK / "base", WORK / "animals", model={"num_class_embeds": 2}, train={"steps": 4},
                                     optimizer={"learning_rate": 1e-2}, **whole)  # fmt: skip
        ddpm("train", config)
        table = weights_of(before / "model")["class_embedding.weight"]
        for name, pretrained in (("animals-folder", before / "model"), ("animals-again", before)):
            to, config = self.config(name, pretrained, WORK / "more-animals", model={"num_class_embeds": 3}, **whole)
            self.assertNotIn("their order counts", ddpm("train", config).stderr)
            grown = weights_of(to / "model")["class_embedding.weight"]
            torch.testing.assert_close(grown[1:], table, rtol=0, atol=0)
            self.assertEqual(grown[0].abs().max().item(), 0)
        _, config = self.config("fewer", before, WORK / "more-animals", model={"num_class_embeds": 2}, **whole)
        self.assertEqual(ddpm("train", config, check=False).returncode, 3)

    def test_other_transforms_are_said(self):
        random = np.random.default_rng(5)
        sets = []
        for name, mean in (("cold", 270.0), ("warm", 300.0)):
            np.save(WORK / f"{name}.npy", random.normal(mean, 9.0, (16, 8, 8, 3)).astype(np.float32))
            shutil.rmtree(WORK / name, ignore_errors=True)
            ddpm("data", "create", WORK / f"{name}.npy", "--output", WORK / name, "--transform", "standardize")
            sets.append(WORK / name)
        untold = {"data": {"labels": None}}
        before, config = self.config("cold-run", WORK / "base", sets[0], **untold)
        ddpm("train", config)
        for path, count in ((sets[0], 0), (sets[1], 1)):
            _, config = self.config("moved-on", before, path, **untold)
            self.assertEqual(ddpm("train", config).stderr.count("it goes on with other transforms of 3 variables"), count)

    def test_the_null_class_stays_the_last_one(self):
        """Of a model that was trained with class_dropout: its row would else become a class, and zeros the null class."""
        sections = {"data": {"labels": "/labels"}, "diffusion": {"class_dropout": 0.5}, "ema": {"enabled": False}}
        before, config = self.config("null", WORK / "base", model={"num_class_embeds": 4}, train={"steps": 4},
                                     optimizer={"learning_rate": 1e-2}, **sections)  # fmt: skip
        ddpm("train", config)
        table = weights_of(before / "model")["class_embedding.weight"]
        self.assertGreater(table[3].abs().max().item(), 0)
        for name, pretrained in (("null-folder", before / "model"), ("null-run", before)):
            to, config = self.config(name, pretrained, model={"num_class_embeds": 6}, **sections)
            ddpm("train", config)
            grown = weights_of(to / "model")["class_embedding.weight"]
            torch.testing.assert_close(grown[:3], table[:3], rtol=0, atol=0)
            torch.testing.assert_close(grown[5], table[3], rtol=0, atol=0)
            self.assertEqual(grown[3:5].abs().max().item(), 0)

    def test_channels_that_it_had_stay_with_their_field(self):
        """Positions are given after a condition, so that their columns move where one is added."""
        positions, whole = {"positions": True}, {"ema": {"enabled": False}}
        before, config = self.config("positions", WORK / "base", data=positions, model={"in_channels": 7}, train={"steps": 4},
                                     optimizer={"learning_rate": 1e-2}, **whole)  # fmt: skip
        ddpm("train", config)
        old = weights_of(before / "model")["conv_in.weight"]
        same, config = self.config("same", before, data=positions, model={"in_channels": 7}, **whole)
        ddpm("train", config)
        for name, pretrained in (("moved-folder", before / "model"), ("moved-run", before)):
            to, config = self.config(name, pretrained, data={**positions, "condition": "/condition"}, model={"in_channels": 9}, **whole)
            ddpm("train", config)
            new = weights_of(to / "model")["conv_in.weight"]
            torch.testing.assert_close(new[:, [0, 1, 2, 5, 6, 7, 8]], old, rtol=0, atol=0)
            self.assertEqual(new[:, 3:5].abs().max().item(), 0)
            self.assertAlmostEqual(metrics(to)[0]["loss"], metrics(same)[0]["loss"], delta=1e-5)

    def test_channels_that_cannot_be_placed_are_refused(self):
        before, config = self.config("placed", WORK / "base", data={"positions": True}, model={"in_channels": 7})
        ddpm("train", config)
        shutil.rmtree(WORK / "unsaid", ignore_errors=True)
        shutil.copytree(before / "model", WORK / "unsaid")
        (WORK / "unsaid" / "normalization.json").unlink()
        with h5py.File(shutil.copy(self.set, WORK / "four.h5"), "r+") as file:
            del file["condition"]
            file["condition"] = np.zeros((16, 8, 8, 4), np.float32)
        for name, pretrained, path, data, channels, phrase in (
            ("gone", before, WORK / "four.h5", {"condition": "/condition"}, 7, "data.positions = true"),
            ("unknown", WORK / "unsaid", self.set, {"positions": True, "condition": "/condition"}, 9, "model.in_channels = 7"),
        ):
            run, config = self.config(name, pretrained, path, data=data, model={"in_channels": channels})
            for option in ([], ["--dry-run"]):
                process = ddpm("train", config, *option, check=False)
                self.assertEqual(process.returncode, 4, process.stderr)
                self.assertTrue(says(process.stderr, phrase), process.stderr)
                self.assertEqual(len(process.stderr.splitlines()), 1, process.stderr)
            self.assertFalse(run.exists())

    def test_runs_and_checkpoints_of_our_own(self):
        ema = {"max_decay": [0.5, 0.9], "power": 5.0}
        run, config = self.config("own", WORK / "base", train={"steps": 4}, optimizer={"learning_rate": 1e-2},
                                  ema=ema, checkpoint={"every_steps": 2})  # fmt: skip
        ddpm("train", config)
        for name, pretrained, weights, wanted in (
            ("newest", run, None, run / "model"),
            ("first", run, "ema:0", run / "model"),
            ("checkpoint", run / "checkpoints" / "step-00000002", "raw", None),
            ("second", run, "ema:1", None),
        ):
            to, config = self.config(name, pretrained, model={"pretrained_weights": weights}, ema={"enabled": False})
            said = ddpm("train", config, ranks=2 if name == "second" else 1).stderr
            stem = {"raw": "model", None: "ema.0"}.get(weights, (weights or "").replace("ema:", "ema."))
            step = 2 if name == "checkpoint" else 4
            self.assertTrue(says(said, f"step {step}"), said)
            (shard,) = (run / "checkpoints" / f"step-0000000{step}").glob("*.safetensors")
            stored = {k.removeprefix(stem + "/"): v for k, v in load_file(shard).items() if k.startswith(stem + "/")}
            torch.testing.assert_close(weights_of(to / "model"), stored, rtol=0, atol=0)
            if wanted:
                torch.testing.assert_close(weights_of(to / "model"), weights_of(wanted), rtol=0, atol=0)
        _, config = self.config("absent", run, model={"pretrained_weights": "ema:2"})
        process = ddpm("train", config, check=False)
        self.assertEqual(process.returncode, 2, process.stderr)
        self.assertIn("keeps 2 averages", process.stderr)

    def test_what_does_not_fit_is_refused(self):
        for name, keys, code, phrase in (
            ("narrower", {"in_channels": 2, "out_channels": 2}, 3, "3 channels"),
            ("wider", {"block_out_channels": [8, 24]}, 4, "does not fit the model"),
            ("deeper", {"layers_per_block": 2}, 4, "does not fit the model"),
            ("shallower", {"add_attention": False}, 4, "the model does not have"),
        ):
            run, config = self.config(name, WORK / "base", model=keys)
            for option in ([], ["--dry-run"]):
                process = ddpm("train", config, *option, check=False)
                self.assertEqual(process.returncode, code, process.stderr)
                self.assertTrue(says(process.stderr, phrase), process.stderr)
                self.assertEqual(len(process.stderr.splitlines()), 1, process.stderr)
            self.assertFalse(run.exists())
        for name, change, phrase in (
            ("nan", lambda folder: put_nan(folder / "unet" / "diffusion_pytorch_model.safetensors"),
             "conv_out.bias holds values that are not finite"),
            ("latent", lambda folder: add_decoder(folder / "model_index.json"), "its unet draws latents"),
        ):  # fmt: skip
            shutil.rmtree(WORK / f"base-{name}", ignore_errors=True)
            shutil.copytree(WORK / "base", WORK / f"base-{name}")
            change(WORK / f"base-{name}")
            run, config = self.config(name, WORK / f"base-{name}")
            sampled = ("sample", "--model", WORK / f"base-{name}", "--count", 1, "--output", WORK / "x.npy")
            for command in (("train", config), sampled):
                process = ddpm(*command, check=False)
                self.assertEqual(process.returncode, 4, process.stderr)
                self.assertIn(phrase, process.stderr)
                self.assertEqual(len(process.stderr.splitlines()), 1, process.stderr)
            self.assertFalse(run.exists())
        _, config = self.config("unfounded", WORK / "base", model={"pretrained": None, "pretrained_weights": "ema", "in_channels": 3})
        process = ddpm("train", config, check=False)
        self.assertEqual(process.returncode, 2, process.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
