"""Trains one of diffusers' UNets on a GPU with PyTorch alone, a number of steps at a time: visit.py asks by lines on stdin.

    peers.py KIND MODEL.json BATCH      KIND: eager or compiled

A line with a number asks for so many steps, and is answered by one JSON line with the seconds of one, the loss of the last
and the peak of memory. Both kinds compute in bf16 by autocast, channels last, with the fused AdamW, clipping and an average
of the weights by foreach; images are on the device already. "compiled" is torch.compile with CUDA graphs.
"""

import json
import sys
import time

# diffusers would import them for models that are not trained here.
sys.modules["transformers"] = sys.modules["peft"] = None

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

LEARNING_RATE, BETAS, WEIGHT_DECAY, MAX_GRAD_NORM, EMA_DECAY = 1e-4, (0.95, 0.999), 1e-6, 1.0, 0.9999
TIMESTEPS = 1000


class Peer:
    def __init__(self, kind, model, batch, device):
        from diffusers import UNet2DModel

        torch.manual_seed(0)
        torch.set_float32_matmul_precision("high")
        torch.backends.cudnn.benchmark = True
        self.device, self.batch = device, batch
        self.unet = UNet2DModel(**model).train().to(device, memory_format=torch.channels_last)
        self.parameters = list(self.unet.parameters())
        self.averages = [p.detach().clone() for p in self.parameters]
        self.optimizer = torch.optim.AdamW(self.parameters, LEARNING_RATE, BETAS, weight_decay=WEIGHT_DECAY, fused=True)
        betas = torch.linspace(1e-4, 0.02, TIMESTEPS, device=device)
        self.alphas_cumprod = torch.cumprod(1 - betas, 0)
        size = model["sample_size"]
        self.images = torch.randint(0, 256, (max(256, batch), 3, size, size), dtype=torch.uint8, device=device)
        self.loss = torch.compile(self.loss_of, mode="reduce-overhead") if kind == "compiled" else self.loss_of

    def loss_of(self, noisy, timesteps, noise):
        with torch.autocast(self.device, dtype=torch.bfloat16):
            predicted = self.unet(noisy, timesteps, return_dict=False)[0]
        return F.mse_loss(predicted.float(), noise)

    def step(self):
        chosen = torch.randint(0, len(self.images), (self.batch,), device=self.device)
        clean = (self.images[chosen].float() / 127.5 - 1).contiguous(memory_format=torch.channels_last)
        noise = torch.randn_like(clean)
        timesteps = torch.randint(0, TIMESTEPS, (self.batch,), device=self.device)
        share = self.alphas_cumprod[timesteps].view(-1, 1, 1, 1)
        loss = self.loss(share.sqrt() * clean + (1 - share).sqrt() * noise, timesteps, noise)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.parameters, MAX_GRAD_NORM, foreach=True)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        with torch.no_grad():
            torch._foreach_lerp_(self.averages, self.parameters, 1 - EMA_DECAY)
        return loss.detach().clone()

    def wait(self):
        if self.device == "cuda":
            torch.cuda.synchronize()

    def steps(self, count):
        self.wait()
        start = time.perf_counter()
        for _ in range(count):
            loss = self.step()
        self.wait()
        seconds = (time.perf_counter() - start) / count
        peak = torch.cuda.max_memory_reserved() if self.device == "cuda" else 0
        return {"seconds_per_step": seconds, "loss": loss.item(), "peak_device_bytes": peak}


def main():
    kind, model, batch = sys.argv[1:4]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    answers, sys.stdout = sys.stdout, sys.stderr  # what libraries print is not an answer
    peer = Peer(kind, json.loads(model), int(batch), device)
    for line in sys.stdin:
        print(json.dumps(peer.steps(int(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
