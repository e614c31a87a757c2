"""The last validation loss of a run, computed again by diffusers: its model from RUN/model, its noise schedule, and the
noise that the documented generator gives; and the losses at fixed timesteps."""

import os
import pathlib
import shutil
import sys
import unittest

import h5py
import numpy as np
import torch
from diffusers import DDPMPipeline
from diffusers.training_utils import compute_snr

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_run import ddpm, make_dataset, metrics, write_config  # noqa: E402
from philox import VALIDATION_NOISE, VALIDATION_TIMESTEP, below, normals  # noqa: E402

WORK = pathlib.Path.cwd()
SEED = 7  # of write_config
COUNT = 13


def read(dataset, count):
    """Images as float32 [count, C, H, W] in [-1, 1], and labels."""
    images, labels = [], []
    for shard in sorted(dataset.glob("shard-*.h5")):
        with h5py.File(shard) as file:
            images.append(file["images"][:])
            labels.append(file["labels"][:] if "labels" in file else np.zeros(len(images[-1]), np.int64))
    x = np.concatenate(images)[:count].astype(np.float32) / np.float32(127.5) - 1
    return torch.from_numpy(x).permute(0, 3, 1, 2), torch.from_numpy(np.concatenate(labels)[:count])


def loss_of_diffusers(model, dataset, snr_gamma, conditional, level=None):
    """With the timesteps that were drawn, or that of a level of the grid: its number, and its timestep."""
    pipeline = DDPMPipeline.from_pretrained(model)
    schedule = pipeline.scheduler
    x0, labels = read(dataset, COUNT)
    t = torch.tensor([below(schedule.config.num_train_timesteps, SEED, VALIDATION_TIMESTEP, i) for i in range(COUNT)])
    number = 0
    if level is not None:
        number, timestep = level
        t = torch.full_like(t, timestep)
    noise = [normals(x0[0].numel(), SEED, VALIDATION_NOISE, i, number) for i in range(COUNT)]
    noise = torch.tensor(noise).reshape(x0.shape)
    with torch.no_grad():
        x_t = schedule.add_noise(x0, noise, t)
        prediction = pipeline.unet.eval()(x_t, t, class_labels=labels if conditional else None).sample
    velocity = schedule.config.prediction_type == "v_prediction"
    target = schedule.get_velocity(x0, noise, t) if velocity else noise
    losses = ((prediction - target) ** 2).mean(dim=(1, 2, 3))
    if snr_gamma:
        snr = compute_snr(schedule, t)
        losses = losses * snr.clamp(max=snr_gamma) / (snr + 1 if velocity else snr)
    return losses.double().mean().item()


class ValidationPeer(unittest.TestCase):
    def compare(self, name, ranks, dataset, conditional=False, snr_gamma=0.0, **sections):
        run = WORK / name
        shutil.rmtree(run, ignore_errors=True)
        config = write_config(
            WORK / f"{name}.toml",
            run,
            dataset,
            data={"validation": str(dataset)},
            validation={"every_steps": 4, "images": COUNT, "levels": 3},
            **sections,
        )
        ddpm("train", config, ranks=ranks)
        seen = metrics(run)[-1]["validation_loss"]
        wanted = loss_of_diffusers(run / "model", dataset, snr_gamma, conditional)
        print(f"{name}: {seen:.8f}, diffusers {wanted:.8f}, relative difference {abs(seen - wanted) / wanted:.1e}")
        self.assertAlmostEqual(seen, wanted, delta=1e-5 * wanted)
        levels = metrics(run)[-1]["validation_loss_levels"]
        self.assertEqual(len(levels), 3)
        for number, (name, loss) in enumerate(levels.items()):
            level = (number, int(name.removeprefix("t_")))
            wanted = loss_of_diffusers(run / "model", dataset, snr_gamma, conditional, level)
            self.assertAlmostEqual(loss, wanted, delta=1e-5 * wanted)

    def test_noise_prediction_with_averages(self):
        dataset = make_dataset(WORK / "plain", 20)
        self.compare("epsilon", 2, dataset, ema={"max_decay": 0.5}, parallel={"zero_stage": 3})

    def test_weighted_velocity_prediction_with_classes_and_raw_weights(self):
        dataset = make_dataset(WORK / "labelled", 20, 16, 1, "--labels", "folder")
        self.compare(
            "velocity",
            1,
            dataset,
            conditional=True,
            snr_gamma=5.0,
            model={"num_class_embeds": 2, "dropout": 0.1},
            diffusion={"prediction_type": "v_prediction", "snr_gamma": 5.0, "num_train_timesteps": 100},
            ema={"enabled": False},
        )


if __name__ == "__main__":
    unittest.main(verbosity=2)
