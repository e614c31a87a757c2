"""Trains with one Python program, a few steps at a time: compare_peers.py asks by lines on stdin.

    worker.py PEER DATASET.h5 DTYPE BATCH MODEL.json

A line with a number asks for so many steps; the answer is one JSON line with the seconds and the loss of each. Every peer
trains the same UNet2DModel with AdamW, clipping and an average of the weights, and gets its images from memory.
"""

import json
import sys
import time

import h5py
import torch
import torch.nn.functional as F
from diffusers import DDPMScheduler, UNet2DModel
from diffusers.models.attention_processor import AttnProcessor
from diffusers.training_utils import EMAModel

LEARNING_RATE = 1e-4
BETAS = (0.95, 0.999)
WEIGHT_DECAY = 1e-6
MAX_GRAD_NORM = 1.0
EMA_DECAY = 0.9999
SEED = 0
ADAMW = {"lr": LEARNING_RATE, "betas": BETAS, "weight_decay": WEIGHT_DECAY}


def images_of(path):
    with h5py.File(path) as file:
        stored = torch.from_numpy(file["images"][:])
    return stored.permute(0, 3, 1, 2).float() / 127.5 - 1


def noise_loss(unet, scheduler, clean):
    noise = torch.randn_like(clean)
    timesteps = torch.randint(0, scheduler.config.num_train_timesteps, (len(clean),))
    return F.mse_loss(unet(scheduler.add_noise(clean, noise, timesteps), timesteps).sample.float(), noise)


class Accelerate:
    """Trains as diffusers' example train_unconditional.py with --use_ema does."""

    def __init__(self, images, dtype, batch, model):
        from accelerate import Accelerator
        from diffusers.optimization import get_scheduler

        self.accelerator = Accelerator(mixed_precision="bf16" if dtype == "bf16" else "no", cpu=True)
        unet = UNet2DModel(**model).train()
        self.ema = EMAModel(unet.parameters(), decay=EMA_DECAY, use_ema_warmup=True)
        optimizer = torch.optim.AdamW(unet.parameters(), **ADAMW)
        loader = torch.utils.data.DataLoader(images, batch, shuffle=True, drop_last=True)
        schedule = get_scheduler("constant", optimizer)
        self.unet, self.optimizer, self.loader, self.schedule = self.accelerator.prepare(
            unet, optimizer, loader, schedule
        )
        self.scheduler = DDPMScheduler()
        self.batches = endless(self.loader)

    def steps(self, count):
        return timed(self.step, count)

    def step(self):
        with self.accelerator.accumulate(self.unet):
            loss = noise_loss(self.unet, self.scheduler, next(self.batches))
            self.accelerator.backward(loss)
            self.accelerator.clip_grad_norm_(self.unet.parameters(), MAX_GRAD_NORM)
            self.optimizer.step()
            self.schedule.step()
            self.optimizer.zero_grad()
        self.ema.step(self.unet.parameters())
        return loss.item()


class Lightning:
    """A LightningModule as its guide shows. The usual program, of jobs/lightning64.toml, neither clips nor averages, and
    leaves AdamW its own defaults."""

    def __init__(self, images, dtype, batch, model, usual=False):
        import lightning

        class Denoiser(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.unet = UNet2DModel(**model)
                self.scheduler = DDPMScheduler()
                self.ema = None if usual else EMAModel(self.unet.parameters(), decay=EMA_DECAY, use_ema_warmup=True)
                self.losses, self.seconds, self.since = [], [], 0.0

            def training_step(self, clean, _):
                return noise_loss(self.unet, self.scheduler, clean)

            def configure_optimizers(self):
                return torch.optim.AdamW(self.unet.parameters(), **({"lr": LEARNING_RATE} if usual else ADAMW))

            def on_train_batch_start(self, *_):
                self.since = self.since or time.monotonic()

            def on_train_batch_end(self, outputs, *_):
                if self.ema:
                    self.ema.step(self.unet.parameters())
                self.losses.append(outputs["loss"].item())
                now = time.monotonic()
                self.seconds.append(now - self.since)
                self.since = now

        self.lightning = lightning
        self.module = Denoiser()
        self.clip = None if usual else MAX_GRAD_NORM
        self.precision = "bf16-mixed" if dtype == "bf16" else "32-true"
        self.loader = torch.utils.data.DataLoader(images, batch, shuffle=True, drop_last=True)

    def steps(self, count):
        module = self.module
        module.losses, module.seconds, module.since = [], [], 0.0
        trainer = self.lightning.Trainer(
            accelerator="cpu", devices=1, precision=self.precision, max_steps=count, gradient_clip_val=self.clip,
            logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        )  # fmt: skip
        trainer.fit(module, self.loader)
        return module.seconds, module.losses


class Plain:
    """A loop of one's own, with what PyTorch offers for speed."""

    def __init__(self, images, dtype, batch, model, compiled=False, attention="sdpa"):
        self.bf16 = dtype == "bf16"
        self.unet = UNet2DModel(**model).train().to(memory_format=torch.channels_last)
        if attention == "plain":
            for module in self.unet.modules():
                if hasattr(module, "set_processor"):
                    module.set_processor(AttnProcessor())
        self.parameters = list(self.unet.parameters())
        self.averages = [p.detach().clone() for p in self.parameters]
        self.optimizer = torch.optim.AdamW(self.parameters, **ADAMW, fused=True)
        self.scheduler = DDPMScheduler()
        self.forward = torch.compile(self.unet) if compiled else self.unet
        loader = torch.utils.data.DataLoader(images, batch, shuffle=True, drop_last=True)
        self.batches = endless(loader)

    def steps(self, count):
        return timed(self.step, count)

    def step(self):
        clean = next(self.batches).contiguous(memory_format=torch.channels_last)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.bf16):
            loss = noise_loss(self.forward, self.scheduler, clean)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.parameters, MAX_GRAD_NORM, foreach=True)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        with torch.no_grad():
            torch._foreach_lerp_(self.averages, self.parameters, 1 - EMA_DECAY)
        return loss.item()


USUAL = "Lightning, usual program"
PEERS = {
    USUAL: lambda *args: Lightning(*args, usual=True),
    "diffusers + accelerate": Accelerate,
    "Lightning": Lightning,
    "loop, channels-last, fused": Plain,
    "loop, compiled": lambda *args: Plain(*args, compiled=True),
    "loop, compiled, plain attention": lambda *args: Plain(*args, compiled=True, attention="plain"),
}


def endless(loader):
    while True:
        yield from loader


def timed(step, count):
    seconds, losses = [], []
    for _ in range(count):
        start = time.monotonic()
        losses.append(step())
        seconds.append(time.monotonic() - start)
    return seconds, losses


def main():
    name, dataset, dtype, batch, model = sys.argv[1:]
    torch.manual_seed(SEED)
    images, model = images_of(dataset), json.loads(model)
    if images.shape[2:] != (model["sample_size"],) * 2:
        sys.exit(f"worker.py: {dataset}: pictures of {tuple(images.shape[2:])}; wanted: those of the model, {model['sample_size']}")
    peer = PEERS[name](images, dtype, int(batch), model)
    answers, sys.stdout = sys.stdout, sys.stderr  # what libraries print is not an answer
    for line in sys.stdin:
        seconds, losses = peer.steps(int(line))
        print(json.dumps({"seconds": seconds, "losses": losses}), file=answers, flush=True)


if __name__ == "__main__":
    main()
