"""The exam's training with diffusers: the same UNet, formulation, rates, batch and sampler in a loop of PyTorch, for as many minutes.

    python3 diffusers_loop.py THEORY SET SAMPLES.npy --minutes M [--count N] [--steps S]

THEORY is one of the exam's, whose configuration lies beside this file; SET is a folder that `ddpm data generate` made. Minutes are
of two cores: half the processor time, so that other work on the machine does not count. SAMPLES.npy holds stored values, for
`ddpm eval fields SAMPLES.npy --samples-hold stored --exact …`. Needs PyTorch, diffusers and h5py.
"""

import argparse
import math
import os
import pathlib
import time
import tomllib

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before PyTorch: threads that wait for others take no processor time

import diffusers  # noqa: E402
import diffusers.training_utils  # noqa: E402
import h5py  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402

def configuration(theory):
    """The sections of common.toml and THEORY.toml, whose keys win."""
    sections = {}
    for name in ("common", theory):
        path = pathlib.Path(__file__).with_name(f"{name}.toml")
        for section, keys in tomllib.loads(path.read_text()).items():
            sections.setdefault(section, {}).update(keys)
    return sections


def read(folder):
    """Images of float [n, C, H, W], standardised channel by channel, and what undoes that."""
    shards = [h5py.File(path)["images"][:] for path in sorted(pathlib.Path(folder).glob("*.h5"))]
    images = torch.from_numpy(np.concatenate(shards)).permute(0, 3, 1, 2)
    if images.dtype == torch.uint8:
        images, mean, deviation = images / 127.5 - 1, torch.tensor(127.5), torch.tensor(127.5)
        return images, lambda x: x * deviation + mean
    mean, deviation = images.mean((0, 2, 3), keepdim=True), images.std((0, 2, 3), keepdim=True)
    return (images - mean) / deviation, lambda x: x * deviation + mean


def periodic_unet(keys):
    names = ("sample_size", "in_channels", "out_channels", "layers_per_block", "block_out_channels", "down_block_types", "up_block_types",
             "norm_num_groups", "add_attention", "resnet_time_scale_shift")  # fmt: skip
    model = diffusers.UNet2DModel(**{name: keys[name] for name in names})
    for module in model.modules():
        if isinstance(module, torch.nn.Conv2d):
            module.padding_mode = "circular"
    return model.to(memory_format=torch.channels_last)


def denoise(model, x, sigma):
    """Karras et al. 2022, table 1, for data of deviation 1."""
    s = sigma.view(-1, 1, 1, 1)
    whole = (s**2 + 1).sqrt()
    return x / whole**2 + s / whole * model(x / whole, sigma.log() / 4).sample


def train(model, images, minutes, keys):
    size, peak, diffusion = keys["batch"]["global_size"], keys["optimizer"]["learning_rate"], keys["diffusion"]
    rise = keys["lr_schedule"]["warmup_steps"] / keys["train"]["steps"]
    average = diffusers.training_utils.EMAModel(model.parameters(), decay=keys["ema"]["max_decay"], use_ema_warmup=True, power=0.75)
    optimizer = torch.optim.AdamW(model.parameters(), lr=peak, betas=(0.95, 0.999), weight_decay=1e-6)
    start, steps = time.process_time(), 0
    while (done := (time.process_time() - start) / (120 * minutes)) < 1:
        for group in optimizer.param_groups:
            group["lr"] = peak * min(done / rise, 0.5 + 0.5 * math.cos(math.pi * done))
        batch = images[torch.randint(len(images), (size,))]
        batch = torch.roll(batch, torch.randint(8, (2,)).tolist(), (2, 3))
        sigma = (diffusion["p_mean"] + diffusion["p_std"] * torch.randn(size)).exp()
        s = sigma.view(-1, 1, 1, 1)
        noisy = batch + s * torch.randn_like(batch)
        loss = ((s**2 + 1) / s**2 * (denoise(model, noisy, sigma) - batch) ** 2).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        average.step(model.parameters())
        steps += 1
        if steps % 100 == 0:
            print(f"step {steps}, {100 * done:.0f} % of {minutes} minutes, loss {loss.item():.4f}", flush=True)
    average.copy_to(model.parameters())
    print(f"{steps} steps of {size} images")


@torch.no_grad()
def draw(model, shape, steps, keys):
    scheduler = diffusers.EDMDPMSolverMultistepScheduler(sigma_min=keys["sigma_min"], sigma_max=keys.get("sigma_max", 80.0), sigma_data=1.0)
    scheduler.set_timesteps(steps)
    x = scheduler.config.sigma_max * torch.randn(shape)
    for t in scheduler.timesteps:
        x = scheduler.step(model(scheduler.scale_model_input(x, t), t).sample, t, x).prev_sample
    return x


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("theory", choices=("ising", "phi4", "grf", "u1", "su2"))
    parser.add_argument("set")
    parser.add_argument("samples")
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--steps", type=int, default=100, help="of the sampler, dpmsolver++")
    arguments = parser.parse_args()
    keys = configuration(arguments.theory)
    torch.manual_seed(0)
    images, stored = read(arguments.set)
    model = periodic_unet(keys["model"])
    train(model, images, arguments.minutes, keys)
    model.eval()
    sizes = [min(125, arguments.count - begin) for begin in range(0, arguments.count, 125)]
    samples = torch.cat([draw(model, (size, *images.shape[1:]), arguments.steps, keys["diffusion"]) for size in sizes])
    np.save(arguments.samples, stored(samples).numpy())


main()
