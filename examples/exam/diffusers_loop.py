"""The exam's training with diffusers: the same UNet, formulation, batch and sampler in a loop of PyTorch, for as many minutes.

    python3 diffusers_loop.py SET SAMPLES.npy --minutes M [--count N] [--steps S] [--width C] [--layers L]

SET is a folder that `ddpm data generate` made. Minutes are of two cores: half the processor time, so that other work on the
machine does not count. SAMPLES.npy holds stored values, for `ddpm eval fields SAMPLES.npy --samples-hold stored --exact …`.
Needs PyTorch, diffusers and h5py.
"""

import argparse
import math
import os
import pathlib
import time

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before PyTorch: threads that wait for others take no processor time

import diffusers  # noqa: E402
import diffusers.training_utils  # noqa: E402
import h5py  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402

BATCH, PEAK_RATE, WARMUP = 32, 2e-3, 0.03
P_MEAN, P_STD = 0.0, 0.9
SIGMA_MIN, SIGMA_MAX, RHO = 0.02, 20.0, 7.0


def read(folder):
    """Images of float [n, C, H, W], standardised channel by channel, and what undoes that."""
    shards = [h5py.File(path)["images"][:] for path in sorted(pathlib.Path(folder).glob("*.h5"))]
    images = torch.from_numpy(np.concatenate(shards)).permute(0, 3, 1, 2)
    if images.dtype == torch.uint8:
        images, mean, deviation = images / 127.5 - 1, torch.tensor(127.5), torch.tensor(127.5)
        return images, lambda x: x * deviation + mean
    mean, deviation = images.mean((0, 2, 3), keepdim=True), images.std((0, 2, 3), keepdim=True)
    return (images - mean) / deviation, lambda x: x * deviation + mean


def periodic_unet(channels, width, layers):
    model = diffusers.UNet2DModel(sample_size=8, in_channels=channels, out_channels=channels, layers_per_block=layers,
                                  block_out_channels=[width], down_block_types=["DownBlock2D"], up_block_types=["UpBlock2D"],
                                  norm_num_groups=8, add_attention=False, resnet_time_scale_shift="scale_shift")  # fmt: skip
    for module in model.modules():
        if isinstance(module, torch.nn.Conv2d):
            module.padding_mode = "circular"
    return model.to(memory_format=torch.channels_last)


def denoise(model, x, sigma):
    """Karras et al. 2022, table 1, for data of deviation 1."""
    s = sigma.view(-1, 1, 1, 1)
    whole = (s**2 + 1).sqrt()
    return x / whole**2 + s / whole * model(x / whole, sigma.log() / 4).sample


def train(model, images, minutes):
    average = diffusers.training_utils.EMAModel(model.parameters(), decay=0.999, use_ema_warmup=True, power=0.75)
    optimizer = torch.optim.AdamW(model.parameters(), lr=PEAK_RATE, betas=(0.95, 0.999), weight_decay=1e-6)
    start, steps = time.process_time(), 0
    while (done := (time.process_time() - start) / (120 * minutes)) < 1:
        for group in optimizer.param_groups:
            group["lr"] = PEAK_RATE * min(done / WARMUP, 0.5 + 0.5 * math.cos(math.pi * done))
        batch = images[torch.randint(len(images), (BATCH,))]
        batch = torch.roll(batch, torch.randint(8, (2,)).tolist(), (2, 3))
        sigma = (P_MEAN + P_STD * torch.randn(BATCH)).exp()
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
    print(f"{steps} steps of {BATCH} images")


@torch.no_grad()
def heun(model, shape, steps):
    ramp = torch.arange(steps, dtype=torch.float64) / (steps - 1)
    levels = (SIGMA_MAX ** (1 / RHO) + ramp * (SIGMA_MIN ** (1 / RHO) - SIGMA_MAX ** (1 / RHO))) ** RHO
    levels = torch.cat([levels, torch.zeros(1, dtype=torch.float64)]).tolist()
    x = levels[0] * torch.randn(shape)
    for now, then in zip(levels, levels[1:]):
        slope = (x - denoise(model, x, torch.full(shape[:1], now))) / now
        ahead = x + (then - now) * slope
        if then > 0:
            slope = (slope + (ahead - denoise(model, ahead, torch.full(shape[:1], then))) / then) / 2
        x = x + (then - now) * slope
    return x


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("set")
    parser.add_argument("samples")
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--steps", type=int, default=60, help="of the sampler, two evaluations each")
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--layers", type=int, default=2)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    images, stored = read(arguments.set)
    model = periodic_unet(images.shape[1], arguments.width, arguments.layers)
    train(model, images, arguments.minutes)
    model.eval()
    sizes = [min(125, arguments.count - begin) for begin in range(0, arguments.count, 125)]
    samples = torch.cat([heun(model, (size, *images.shape[1:]), arguments.steps) for size in sizes])
    np.save(arguments.samples, stored(samples).numpy())


main()
