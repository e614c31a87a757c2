"""Training and sampling in each formulation: the same bits on any number of ranks, resumed runs, sampling by each
sampler that knows the formulation, and folders that diffusers opens and from which it draws the same."""

import hashlib
import json
import os
import pathlib
import shutil
import sys
import unittest

import diffusers
import h5py
import numpy as np
import torch

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_run import STAGES, assert_same_curve, ddpm, metrics, write_config  # noqa: E402

WORK = pathlib.Path.cwd()
COUNT, SIZE, CLASSES = 48, 16, 3
FORMULATIONS = {
    "edm": {"class": "EDMEulerScheduler", "keys": {"sigma_data": 0.6}},
    "flow": {"class": "FlowMatchEulerDiscreteScheduler", "keys": {"shift": 2.0, "timestep_sampler": "logit_normal"}},
}
SAMPLERS = ("euler", "heun", "dpmsolver++", "dpmsolver++2s")
CONSTANT = {"batch": {"global_size": 8, "micro_size": 1}, "lr_schedule": {"name": "constant"}}


def write_set(path, labels=False):
    random = np.random.default_rng(1)
    images = (255 * random.random((COUNT, SIZE // 4, SIZE // 4, 3))).astype(np.uint8)
    with h5py.File(path, "w") as file:
        file["images"] = np.kron(images, np.ones((1, 4, 4, 1), np.uint8))
        if labels:
            file["labels"] = np.arange(COUNT, dtype=np.int64) % CLASSES
    return path


def draw(run, noise, scheduler, steps, *options, ranks=1):
    """The images that the program draws from `noise`."""
    path = WORK / "noise.npy"
    np.save(path, noise.astype(np.float32))
    out = WORK / "drawn.npy"
    out.unlink(missing_ok=True)
    ddpm("sample", "--model", run, "--scheduler", scheduler, "--steps", steps, "--count", len(noise), "--initial-noise",
         path, "--output", out, *options, ranks=ranks)  # fmt: skip
    return np.load(out)


class Formulations(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.path = write_set(WORK / "pictures.h5")
        cls.labelled = write_set(WORK / "labelled.h5", labels=True)

    def train(self, name, formulation, ranks=1, steps=6, check=True, path=None, **sections):
        run = WORK / name
        shutil.rmtree(run, ignore_errors=True)
        diffusion = {"formulation": formulation, **FORMULATIONS.get(formulation, {}).get("keys", {})}
        sections = {**CONSTANT, **sections, "diffusion": {**diffusion, **sections.get("diffusion", {})}}
        sections["run"] = {"reproducible": True, "threads_per_rank": 1, **sections.get("run", {})}
        config = write_config(WORK / f"{name}.toml", run, path or self.path, train={"steps": steps}, **sections)
        return run, ddpm("train", config, ranks=ranks, check=check)

    def test_the_same_bits_on_any_number_of_ranks_and_after_a_stop(self):
        for formulation in FORMULATIONS:
            hashes = set()
            for ranks in (1, 2, 4):
                run, _ = self.train(f"{formulation}-{ranks}", formulation, ranks, steps=6 if ranks < 4 else 3)
                if ranks == 4:
                    ddpm("train", WORK / f"{formulation}-{ranks}.toml", "--train.steps", 6, ranks=ranks)
                (file,) = (run / "model" / "unet").glob("*.safetensors")
                hashes.add(hashlib.sha256(file.read_bytes()).hexdigest())
            self.assertEqual(len(hashes), 1, formulation)

    def test_every_formulation_trains_alike_in_every_zero_stage(self):
        for formulation in FORMULATIONS:
            one, *others = [
                self.train(f"{formulation}-stage-{stage}-{ranks}", formulation, ranks, run={"reproducible": False},
                           parallel={"zero_stage": stage})[0]
                for ranks, stage in ((1, 0), *STAGES)
            ]  # fmt: skip
            for other in others:
                assert_same_curve(one, other)

    def test_losses_fall_and_are_told_by_quarters_of_the_noise_levels(self):
        for formulation in FORMULATIONS:
            run, _ = self.train(f"{formulation}-long", formulation, steps=40, optimizer={"learning_rate": 2e-3})
            lines = metrics(run)
            self.assertLess(np.mean([line["loss"] for line in lines[-8:]]), np.mean([l["loss"] for l in lines[:8]]))
            quarters = [q for line in lines for q in line["loss_quartiles"] if q is not None]
            self.assertGreater(len(quarters), 40)

    def test_diffusers_opens_the_folder_and_draws_the_same(self):
        noise = np.random.default_rng(3).standard_normal((2, 3, SIZE, SIZE))
        for formulation, expected in FORMULATIONS.items():
            run, _ = self.train(f"{formulation}-export", formulation, steps=4)
            index = json.loads((run / "model" / "model_index.json").read_text())
            self.assertEqual(index["scheduler"], ["diffusers", expected["class"]])
            unet = diffusers.UNet2DModel.from_pretrained(run / "model", subfolder="unet").eval()
            scheduler = getattr(diffusers, expected["class"]).from_pretrained(run / "model", subfolder="scheduler")
            for key, value in expected["keys"].items():
                self.assertEqual(scheduler.config.get(key, value), value)
            scheduler.set_timesteps(10)
            x = torch.tensor(noise, dtype=torch.float32) * getattr(scheduler, "init_noise_sigma", 1.0)
            for t in scheduler.timesteps:
                shown = scheduler.scale_model_input(x, t) if hasattr(scheduler, "scale_model_input") else x
                with torch.no_grad():
                    x = scheduler.step(unet(shown, t).sample, t, x).prev_sample
            seen = draw(run / "model", noise, "euler", 10)
            self.assertLess(np.abs(seen - x.numpy()).max() / np.abs(x.numpy()).max(), 1e-4)
            if formulation == "flow":
                pipeline = diffusers.DDPMPipeline.from_pretrained(run / "model")
                self.assertEqual(type(pipeline.scheduler).__name__, expected["class"])
            else:
                with self.assertRaises(AttributeError):
                    diffusers.DiffusionPipeline.from_pretrained(run / "model")
                for pipeline in (diffusers.DDPMPipeline, diffusers.DDIMPipeline):  # which would draw something else
                    with self.assertRaisesRegex((AttributeError, ValueError), "EDMUNet2D"):
                        pipeline.from_pretrained(run / "model")

    def test_every_sampler_that_knows_the_formulation_draws_on_1_and_2_ranks(self):
        noise = np.random.default_rng(4).standard_normal((5, 3, SIZE, SIZE))
        for formulation in FORMULATIONS:
            run, _ = self.train(f"{formulation}-draw", formulation, steps=4)
            process = ddpm("sample", "--model", run, "--steps", 2, "--count", 1, "--output", WORK / "default.npy")
            self.assertIn({"edm": "with heun", "flow": "with euler"}[formulation], process.stderr)
            for sampler in SAMPLERS:
                options = ("--churn", 3) if (formulation, sampler) == ("edm", "heun") else ()
                one = draw(run, noise, sampler, 5, *options)
                self.assertTrue(np.isfinite(one).all())
                two = draw(run, noise, sampler, 5, *options, "--batch", 2, ranks=2)
                np.testing.assert_allclose(two, one, atol=1e-5 * np.abs(one).max())
            for arguments, words in (
                (["--scheduler", "ddim"], ["--scheduler ddim", formulation, "euler"]),
                (["--scheduler", "euler", "--karras-sigmas"], ["--karras-sigmas", formulation]),
                (["--scheduler", "euler", "--timestep-spacing", "leading"], ["--timestep-spacing", formulation]),
            ):
                process = ddpm("sample", "--model", run, *arguments, "--output", WORK / "no.npy", check=False)
                self.assertEqual(process.returncode, 2, process.stderr)
                for word in words:
                    self.assertIn(word, process.stderr)
                self.assertFalse((WORK / "no.npy").exists())

    def test_guidance_by_the_null_class_and_by_an_earlier_checkpoint(self):
        noise = np.random.default_rng(5).standard_normal((2, 3, SIZE, SIZE))
        for formulation in ("ddpm", *FORMULATIONS):
            run, _ = self.train(
                f"{formulation}-classes", formulation, steps=6, path=self.labelled,
                model={"num_class_embeds": CLASSES + 1}, diffusion={"class_dropout": 0.2},
                checkpoint={"every_steps": 2, "keep_latest": 3},
            )  # fmt: skip
            label = ("--class-label", 1)
            plain = draw(run, noise, "euler", 4, *label)
            same = draw(run, noise, "euler", 4, *label, "--guidance-scale", 1.0)
            np.testing.assert_allclose(same, plain, atol=1e-5 * np.abs(plain).max())
            null = draw(run, noise, "euler", 4, "--class-label", CLASSES)
            np.testing.assert_allclose(draw(run, noise, "euler", 4, *label, "--guidance-scale", 0.0), null, atol=1e-5)
            guided = draw(run, noise, "euler", 4, *label, "--guidance-scale", 3.0)
            self.assertGreater(np.abs(guided - plain).max(), 1e-6)
            weak = min((run / "checkpoints").glob("step-*"))
            auto = draw(run, noise, "euler", 4, *label, "--guidance-model", weak, "--guidance-scale", 2.0)
            whole = draw(run / "model", noise, "euler", 4, *label, "--guidance-model", run, "--guidance-scale", 2.0)
            again = draw(run, noise, "euler", 4, *label, "--guidance-model", run / "model", "--guidance-scale", 2.0)
            np.testing.assert_array_equal(whole, again)
            self.assertGreater(np.abs(auto - plain).max(), 1e-6)

    def test_noise_levels_and_classes_that_the_network_cannot_embed_are_refused(self):
        for name, model, words in (
            ("short", {"time_embedding_type": "learned", "num_train_timesteps": 999},
             ["model.num_train_timesteps = 999", "diffusion.num_train_timesteps = 1000"]),
            ("logarithm", {"time_embedding_type": "fourier"}, ["fourier", "logarithm", "flow"]),
        ):  # fmt: skip
            _, process = self.train(f"embed-{name}", "ddpm", check=False, model=model)
            planned = ddpm("train", WORK / f"embed-{name}.toml", "--dry-run", check=False)
            for refused in (process, planned):
                self.assertEqual(refused.returncode, 2, refused.stderr)
                (line,) = refused.stderr.strip().splitlines()
                for word in words:
                    self.assertIn(word, line)
        _, process = self.train(
            "embed-labels", "flow", check=False, path=self.labelled,
            model={"time_embedding_type": "fourier", "class_embed_type": "timestep"},
        )  # fmt: skip
        self.assertEqual(process.returncode, 3, process.stderr)
        self.assertIn("class 0", process.stderr)

    def test_samplers_tell_the_network_what_it_can_embed(self):
        small = {"sample_size": SIZE, "block_out_channels": (8, 16), "norm_num_groups": 4, "layers_per_block": 1,
                 "down_block_types": ("DownBlock2D",) * 2, "up_block_types": ("UpBlock2D",) * 2}  # fmt: skip
        torch.manual_seed(0)
        for name, model in (
            ("learned", {"time_embedding_type": "learned", "num_train_timesteps": 1000}),
            ("fourier", {"time_embedding_type": "fourier", "class_embed_type": "timestep"}),
        ):
            unet = diffusers.UNet2DModel(**small, **model).eval()
            folder = WORK / f"embeds-{name}"
            shutil.rmtree(folder, ignore_errors=True)
            kept = diffusers.DDPMScheduler(clip_sample=False, timestep_spacing="leading", steps_offset=1)
            diffusers.DDPMPipeline(unet, kept).save_pretrained(folder)
            label = ("--class-label", 2) if "class_embed_type" in model else ()
            noise = np.random.default_rng(6).standard_normal((2, 3, SIZE, SIZE))
            seen = draw(folder, noise, "ddim", 4, *label)
            scheduler = diffusers.DDIMScheduler.from_config(kept.config)
            scheduler.set_timesteps(4)
            x = torch.tensor(noise, dtype=torch.float32)
            for t in scheduler.timesteps:
                with torch.no_grad():
                    x = scheduler.step(unet(x, t, torch.tensor([2, 2]) if label else None).sample, t, x).prev_sample
            self.assertLess(np.abs(seen - x.numpy()).max() / np.abs(x.numpy()).max(), 1e-4)
            refused = {
                "learned": (("--scheduler", "euler", "--karras-sigmas"), ("--scheduler", "euler", "--timestep-spacing", "linspace")),
                "fourier": ((*label, "--scheduler", "ddim", "--timestep-spacing", "linspace"),
                            ("--scheduler", "ddim", "--class-label", 0)),
            }  # fmt: skip
            for options in refused[name]:
                process = ddpm("sample", "--model", folder, "--steps", 5, "--count", 1, "--output", WORK / "no.npy", *options,
                               check=False)  # fmt: skip
                self.assertEqual(process.returncode, 2, process.stderr)
                (line,) = process.stderr.strip().splitlines()
                self.assertIn(name, line)

    def test_a_last_timestep_that_min_snr_leaves_out_is_warned_of(self):
        for gamma in (5.0, 0.0):
            keys = {"prediction_type": "v_prediction", "rescale_betas_zero_snr": True, "snr_gamma": gamma}
            run, process = self.train("no-signal", "ddpm", steps=1, diffusion=keys)
            shutil.rmtree(run)
            for said in (process, ddpm("train", WORK / "no-signal.toml", "--dry-run")):
                self.assertEqual("diffusion.snr_gamma = 5: the last timestep holds no signal" in said.stderr, gamma > 0)

    def test_what_makes_no_sense_is_refused(self):
        for name, sections, words in (
            ("key", {"diffusion": {"beta_start": 0.001}}, ["diffusion.beta_start = 0.001", "edm", "ddpm"]),
            ("sample", {"diffusion": {"prediction_type": "sample"}}, ["prediction_type", "edm"]),
            ("dropout", {"diffusion": {"class_dropout": 0.1}}, ["diffusion.class_dropout = 0.1", "num_class_embeds"]),
            ("embedding", {"model": {"time_embedding_type": "fourier"}}, ["fourier"]),
        ):
            _, process = self.train(f"bad-{name}", "edm", check=False, **sections)
            self.assertEqual(process.returncode, 2, process.stderr)
            (line,) = process.stderr.strip().splitlines()
            for word in words:
                self.assertIn(word, line)
        _, process = self.train(
            "bad-room", "edm", check=False, path=self.labelled, model={"num_class_embeds": CLASSES},
            diffusion={"class_dropout": 0.1},
        )  # fmt: skip
        planned = ddpm("train", WORK / "bad-room.toml", "--dry-run", check=False)
        for refused in (process, planned):
            self.assertEqual(refused.returncode, 3, refused.stderr)
            self.assertIn(f"model.num_class_embeds = {CLASSES + 1}", refused.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
