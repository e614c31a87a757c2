"""Trains a UNet2DModel with diffusers, as its example train_unconditional.py does, from a resolved ddpm configuration.

Initial weights, order of the images, flips, timesteps and noise are PyTorch's own, from the seed: nothing of ddpm takes
part. So is every formula: add_noise, AdamW, learning-rate schedule, clipping and EMAModel.
"""

import inspect
import sys
import time

import torch
import torch.nn.functional as F
from diffusers import DDPMScheduler, UNet2DModel
from diffusers.optimization import get_scheduler
from diffusers.training_utils import EMAModel

LOG_STEPS = 100

# Keys that this trainer does not implement, and the only value that each may have.
NOT_HERE = {
    "diffusion": {"snr_gamma": 0.0, "offset_noise": 0.0, "timestep_sampler": "uniform"},
    "precision": {"mixed_precision": "no"},
    "ema": {"enabled": True},
}


def train(config, images, seed, folder):
    """Trains on uint8 `images` [n, C, H, W] and saves the averaged model in `folder`. Returns the loss of each step and
    the seconds taken."""
    refuse_other_trainings(config)
    torch.manual_seed(seed)
    unet = UNet2DModel(**known_keys(UNet2DModel, config["model"])).train()
    noise_scheduler = scheduler_of(config)
    optimizer, lr_scheduler = make_optimizer(config, unet)
    ema = make_ema(config["ema"], unet)
    batches = endless_batches(images, config["batch"]["global_size"], config["data"]["horizontal_flip"])

    losses = []
    start = time.monotonic()
    for step in range(1, config["train"]["steps"] + 1):
        loss = noise_loss(unet, noise_scheduler, next(batches))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(unet.parameters(), config["optimizer"]["max_grad_norm"])
        optimizer.step()
        lr_scheduler.step()
        optimizer.zero_grad()
        ema.step(unet.parameters())
        losses.append(loss.item())
        if step % LOG_STEPS == 0:
            print(f"diffusers: step {step}, loss {losses[-1]:.4f}", file=sys.stderr)
    seconds = time.monotonic() - start
    ema.copy_to(unet.parameters())
    unet.save_pretrained(folder)
    return losses, seconds


def refuse_other_trainings(config):
    for section, keys in NOT_HERE.items():
        for key, wanted in keys.items():
            if config[section][key] != wanted:
                sys.exit(f"{section}.{key} = {config[section][key]!r}: this comparison has only {wanted!r}")


def scheduler_of(config):
    return DDPMScheduler(**known_keys(DDPMScheduler, config["diffusion"]))


def known_keys(component, keys):
    """Returns those of `keys` that the class knows; an empty list is how TOML writes None."""
    known = inspect.signature(component.__init__).parameters
    return {key: value for key, value in keys.items() if key in known and value != []}


def make_optimizer(config, unet):
    c, schedule = config["optimizer"], config["lr_schedule"]
    optimizer = torch.optim.AdamW(
        unet.parameters(), lr=c["learning_rate"], betas=c["betas"], eps=c["eps"], weight_decay=c["weight_decay"]
    )
    lr_scheduler = get_scheduler(
        schedule["name"],
        optimizer,
        num_warmup_steps=schedule["warmup_steps"],
        num_training_steps=config["train"]["steps"],
    )
    return optimizer, lr_scheduler


def make_ema(c, unet):
    return EMAModel(
        unet.parameters(), decay=c["max_decay"][0], use_ema_warmup=True, inv_gamma=c["inv_gamma"], power=c["power"]
    )


def endless_batches(images, size, flip):
    """Batches in the model's range [-1, 1], epoch after epoch in a new random order; as in ddpm, one may span two."""
    waiting = torch.empty(0, dtype=torch.long)
    while True:
        while len(waiting) < size:
            waiting = torch.cat([waiting, torch.randperm(len(images))])
        batch, waiting = images[waiting[:size]] / 127.5 - 1, waiting[size:]
        if flip:
            mirrored = torch.rand(size) < 0.5
            batch[mirrored] = batch[mirrored].flip(-1)
        yield batch


def noise_loss(unet, noise_scheduler, clean):
    noise = torch.randn_like(clean)
    timesteps = torch.randint(0, noise_scheduler.config.num_train_timesteps, (len(clean),))
    noisy = noise_scheduler.add_noise(clean, noise, timesteps)
    predicts_noise = noise_scheduler.config.prediction_type == "epsilon"
    target = noise if predicts_noise else noise_scheduler.get_velocity(clean, noise, timesteps)
    return F.mse_loss(unet(noisy, timesteps).sample, target)
