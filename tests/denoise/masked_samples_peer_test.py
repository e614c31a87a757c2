"""What a model draws where the images that it learned from had no values: the denoised image is 0 there at each step, as training
showed it. Loops in PyTorch over the UNet of diffusers draw the same from the same noise."""

import math
import os
import pathlib
import re
import shutil
import sys
import unittest
from unittest import mock

import diffusers
import h5py
import numpy as np
import torch

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_run import ddpm, write_config  # noqa: E402

WORK = pathlib.Path.cwd()
COUNT, SIZE = 24, 16
ONE_MASK = np.ones((SIZE, SIZE), np.uint8)
ONE_MASK[:, SIZE // 2 :] = 0
ONE_MASK[3, 2] = 0
THRESHOLDS = {"thresholding": True, "dynamic_thresholding_ratio": 0.9, "sample_max_value": 50.0}
DIFFUSION = {"ddpm": {}, "thresholds": THRESHOLDS, "v": {"prediction_type": "v_prediction"}, "flow": {"formulation": "flow"},
             "edm": {"formulation": "edm", "sigma_data": 1.0},
             "edm-v": {"formulation": "edm", "sigma_data": 1.0, "prediction_type": "v_prediction"}}  # fmt: skip


def write_set(path, masks):
    images = np.random.default_rng(1).standard_normal((COUNT, SIZE, SIZE, 1)).astype(np.float32)
    images[np.broadcast_to(masks, (COUNT, SIZE, SIZE)) == 0] = np.nan
    with h5py.File(path, "w") as file:
        file["images"], file["mask"] = images, masks
    return path


def edm_by_heun(answer, noise, valid, steps, data=1.0, least=0.002, most=80.0):
    def denoised(x, sigma):
        scale = math.hypot(sigma, data)
        f = answer((x / scale).float(), math.log(sigma) / 4).double()
        return (x * data**2 / scale**2 + f * sigma * data / scale) * valid

    ramp = [(most ** (1 / 7) + i / (steps - 1) * (least ** (1 / 7) - most ** (1 / 7))) ** 7 for i in range(steps)] + [0.0]
    x = noise.double() * math.hypot(most, data)
    for a, b in zip(ramp, ramp[1:]):
        slope = (x - denoised(x, a)) / a
        there = x + (b - a) * slope
        x = there if b == 0 else x + (b - a) * (slope + (there - denoised(there, b)) / b) / 2
    return x


def flow_by_euler(answer, noise, valid, steps):
    x = noise.double()
    times = list(np.linspace(1, 1e-3, steps)) + [0.0]
    for a, b in zip(times, times[1:]):
        clean = (x - a * answer(x.float(), a * 1000)) * valid
        x = x + (b - a) * (x - clean) / a
    return x


def scheduler_of(name, folder, valid, steps):
    """That of diffusers, whose bound of thresholding is the quantile of the valid pixels, and which shows 0 elsewhere."""
    scheduler = getattr(diffusers, name).from_pretrained(folder / "scheduler")
    config = scheduler.config

    def threshold(x):
        seen = torch.stack([image[where.expand_as(image)] for image, where in zip(x, valid.expand(len(x), -1, -1, -1))])
        bound = torch.quantile(seen.abs(), config.dynamic_thresholding_ratio, dim=1).clamp(1, config.sample_max_value)
        bound = bound[:, None, None, None]
        return torch.where(valid, x.clamp(-bound, bound) / bound, torch.zeros(()))

    scheduler._threshold_sample = threshold
    scheduler.set_timesteps(steps)
    return scheduler


def by_ddim(answer, noise, valid, steps, folder):
    scheduler = scheduler_of("DDIMScheduler", folder, valid, steps)
    x = noise
    for t in scheduler.timesteps:
        signal, power = scheduler.alphas_cumprod[t] ** 0.5, (1 - scheduler.alphas_cumprod[t]) ** 0.5
        of_nothing = x / power * (signal if scheduler.config.prediction_type == "v_prediction" else 1)
        x = scheduler.step(torch.where(valid, answer(x, t), of_nothing), t, x).prev_sample
    return x


def by_dpmsolver(name):
    def loop(answer, noise, valid, steps, folder):
        scheduler = scheduler_of(name, folder, valid, steps)
        x = noise * scheduler.init_noise_sigma
        for t in scheduler.timesteps:
            x = scheduler.step(answer(x, t), t, x).prev_sample
        return x * valid

    return loop


OF_DIFFUSERS = {"ddim": by_ddim, "dpmsolver++": by_dpmsolver("DPMSolverMultistepScheduler"),
                "dpmsolver++2s": by_dpmsolver("DPMSolverSinglestepScheduler")}  # fmt: skip


class MaskedSamples(unittest.TestCase):
    def train(self, name, path):
        diffusion = DIFFUSION[name] | {"clip_sample": False} if name in ("ddpm", "thresholds", "v") else DIFFUSION[name]
        model = {"in_channels": 1, "out_channels": 1, "sample_size": SIZE}
        data = {"train": str(path)} | ({"mask": "/mask"} if path.suffix == ".h5" else {})
        run = WORK / f"{path.stem}-{name}"
        shutil.rmtree(run, ignore_errors=True)
        ddpm("train", write_config(WORK / "run.toml", run, path, data=data, model=model, diffusion=diffusion, train={"steps": 30}))
        return run

    def draw(self, run, scheduler, steps, *options, count=4, ranks=1):
        noise = np.random.default_rng(5).standard_normal((count, 1, SIZE, SIZE)).astype(np.float32)
        np.save(WORK / "noise.npy", noise)
        (WORK / "drawn.npy").unlink(missing_ok=True)
        said = ddpm("sample", "--model", run, "--scheduler", scheduler, "--steps", steps, "--count", count, "--initial-noise",
                    WORK / "noise.npy", "--output", WORK / "drawn.npy", *options, ranks=ranks).stderr  # fmt: skip
        return torch.from_numpy(noise), np.load(WORK / "drawn.npy"), said

    def assert_drawn_by_loop(self, run, scheduler, steps, valid, *options, ranks=1):
        noise, drawn, _ = self.draw(run, scheduler, steps, *options, ranks=ranks)
        unet = diffusers.UNet2DModel.from_pretrained(run / "model" / "unet").eval()
        answer = lambda x, t: unet(x, torch.as_tensor(t).expand(len(x))).sample
        loop = {"heun": edm_by_heun, "euler": flow_by_euler}.get(scheduler)
        with torch.no_grad():
            if loop is None:
                wanted = OF_DIFFUSERS[scheduler](answer, noise, valid, steps, run / "model").numpy()
            else:
                wanted = loop(answer, noise, valid, steps).numpy()
        self.assertLessEqual(np.abs(drawn - wanted).max(), 1e-4 * np.abs(wanted).max())
        self.assertEqual(np.abs(drawn * ~valid.numpy()).max(), 0)

    def assert_drawn_by_card(self, model, valid, given=False):
        """The program of the model's card holds every denoised image at 0 under the mask, and so what it draws."""
        program = re.search(r"```python\n(.*?)```", (model / "README.md").read_text(), re.DOTALL)[1]
        kind = getattr(diffusers, re.search(r"from diffusers import (\w+)", program)[1])
        step, denoised = kind.step, []

        def watched(scheduler, *arguments):
            done = step(scheduler, *arguments)
            denoised.append(getattr(done, "pred_original_sample", None))
            return done

        names = {"valid": valid} if given else {}
        torch.manual_seed(3)
        with mock.patch.object(kind, "step", watched):
            exec(program.replace("PATH OF THIS FOLDER", str(model)), names)
        torch.testing.assert_close(names["valid"], valid)
        for image in (names["images"], *(image for image in denoised if image is not None)):
            self.assertLessEqual((image * ~valid).abs().max(), 3e-4)
            self.assertGreater((image * valid).abs().max(), 0.01)
        if kind is not diffusers.FlowMatchEulerDiscreteScheduler:
            return
        torch.manual_seed(3)
        with torch.no_grad():
            wanted = flow_by_euler(lambda x, t: names["unet"](x, torch.as_tensor(t)).sample, torch.randn(1, 1, SIZE, SIZE), valid, 50)
        self.assertLessEqual((names["images"] - wanted).abs().max(), 1e-3 * wanted.abs().max())

    def test_the_mask_of_a_set_belongs_to_the_model(self):
        path = write_set(WORK / "one.h5", ONE_MASK)
        valid = torch.from_numpy(ONE_MASK == 1)[None, None]
        for name, scheduler in (("ddpm", "ddim"), ("v", "ddim"), ("edm", "heun"), ("flow", "euler")):
            with self.subTest(name):
                run = self.train(name, path)
                self.assert_drawn_by_loop(run, scheduler, 12, valid)
                self.assert_drawn_by_loop(run, scheduler, 12, valid, "--spatial-size", "2x1", ranks=2)
                folder = self.draw(run / "model", scheduler, 12)[1]
                np.testing.assert_array_equal(folder, self.draw(run, scheduler, 12)[1])
                self.assert_drawn_by_card(run / "model", valid)

    def test_the_card_of_any_scheduler_holds_the_mask(self):
        path = write_set(WORK / "one.h5", ONE_MASK)
        valid = torch.from_numpy(ONE_MASK == 1)[None, None]
        self.assert_drawn_by_card(self.train("edm-v", path) / "model", valid)
        for name in ("ddpm", "v"):
            run = self.train(name, path)
            own = diffusers.DDPMScheduler.from_pretrained(run / "model/scheduler")
            for kind in ("EulerDiscrete", "HeunDiscrete", "KDPM2Discrete", "DPMSolverMultistep"):  # the last one's has -Infinity
                with self.subTest(name, scheduler=kind):
                    folder, output = WORK / f"{name}-{kind}", WORK / f"{name}-{kind}-exported"
                    shutil.rmtree(folder, ignore_errors=True)
                    shutil.copytree(run / "model", folder)
                    getattr(diffusers, f"{kind}Scheduler").from_config(own.config).save_pretrained(folder / "scheduler")
                    ddpm("checkpoint", "export", folder, "--output", output)
                    file = "scheduler/scheduler_config.json"
                    self.assertEqual((output / file).read_bytes(), (folder / file).read_bytes())
                    self.assert_drawn_by_card(output, valid)

    def test_thresholding_takes_its_bound_from_valid_pixels(self):
        path = write_set(WORK / "one.h5", ONE_MASK)
        valid = torch.from_numpy(ONE_MASK == 1)[None, None]
        run = self.train("thresholds", path)
        for scheduler, steps in (("ddim", 5), ("dpmsolver++", 5), ("dpmsolver++2s", 5)):
            with self.subTest(scheduler):
                self.assert_drawn_by_loop(run, scheduler, steps, valid)

    def test_masks_of_the_set_that_is_given(self):
        masks = (np.random.default_rng(3).random((COUNT, SIZE, SIZE)) > 0.3).astype(np.uint8)
        folder = WORK / "each"
        shutil.rmtree(folder, ignore_errors=True)
        ddpm("data", "create", write_set(WORK / "each-source.h5", masks), "--mask", "mask", "--output", folder)
        run = self.train("flow", folder)
        self.assert_drawn_by_loop(run, "euler", 12, torch.ones(1, 1, 1, 1, dtype=torch.bool).expand(4, 1, SIZE, SIZE))
        valid = torch.from_numpy(masks[:4] == 1)[:, None]
        self.assert_drawn_by_loop(run, "euler", 12, valid, "--condition", folder)
        self.assert_drawn_by_loop(run, "euler", 12, valid, "--condition", WORK / "each-source.h5")
        self.assertIn("whoever draws gives one", (run / "model/README.md").read_text())
        self.assert_drawn_by_card(run / "model", valid[:1], given=True)


if __name__ == "__main__":
    unittest.main(verbosity=2)
