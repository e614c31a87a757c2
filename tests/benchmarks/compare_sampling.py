#!/usr/bin/env python3
"""Images per second of `ddpm bench sample` beside loops of diffusers on the same UNet, in turns within one run.

    PEERS/bin/python tests/benchmarks/compare_sampling.py [--dtype float32|bf16] [--rounds 5] [--other DDPM]

The loops are DDIM of diffusers' pipeline class with the model as it is, and with the model compiled, channels-last. Each
program computes with --threads threads. --other is another build of the program. Prints a Markdown table: medians with
the lowest and the highest value, and ratios within a round; then two ranks against one.
"""

import json
import subprocess
import sys
from pathlib import Path

import bench
import ddpm_run
from models import MODELS

WORKER = """
import json, sys, time
import torch
from diffusers import DDIMScheduler, UNet2DModel
threads, dtype, batch, steps, kind, model = json.loads(sys.argv[1])
torch.set_num_threads(threads)
torch.manual_seed(0)
unet = UNet2DModel(**model).eval().to(getattr(torch, dtype))
if kind == "compiled":
    unet = torch.compile(unet.to(memory_format=torch.channels_last))
scheduler = DDIMScheduler()
noise = torch.randn(batch, 3, model["sample_size"], model["sample_size"], dtype=getattr(torch, dtype))
if kind == "compiled":
    noise = noise.to(memory_format=torch.channels_last)
def draw():
    x = noise
    scheduler.set_timesteps(steps)
    with torch.inference_mode():
        for t in scheduler.timesteps:
            x = scheduler.step(unet(x, t).sample, t, x).prev_sample
    return x
draw()
print("ready", flush=True)
for line in sys.stdin:
    start = time.perf_counter()
    draw()
    print(batch / (time.perf_counter() - start), flush=True)
"""


class Loop:
    def __init__(self, kind, args, model):
        dtype = {"float32": "float32", "bf16": "bfloat16"}[args.dtype]
        request = json.dumps([args.threads, dtype, args.batch, args.steps, kind, model])
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER, request], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=bench.environment(OMP_NUM_THREADS=args.threads),
        )  # fmt: skip
        if self.process.stdout.readline() != "ready\n":
            sys.exit(f"the {kind} loop did not start")

    def rate(self):
        print(file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def drawn(program, config, args, ranks=1):
    said = bench.on_ranks(
        ranks, program, "bench", "sample", config, "--json", "--steps", args.steps, "--batch", args.batch,
        "--repeats", 1, "--run.threads_per_rank", args.threads,
    )  # fmt: skip
    return json.loads(said)["images_per_second"]


def main():
    parser = bench.parser(__doc__)
    parser.add_argument("--dtype", choices=("float32", "bf16"), default="float32")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1, help="of each program")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--model", choices=MODELS, default="medium")
    parser.add_argument("--other", type=Path, help="another build of ddpm")
    args = parser.parse_args()
    model = MODELS[args.model]
    precision = {"mixed_precision": "bf16" if args.dtype == "bf16" else "no"}
    config, _ = bench.write_config(args.work, "sampling", model, precision=precision, batch={"global_size": 8}, train={"steps": 1})
    loops = {f"diffusers, {kind}": Loop(kind, args, model) for kind in ("as it is", "compiled")}
    programs = {
        "ddpm": lambda: drawn(ddpm_run.DDPM, config, args),
        **({"ddpm, the other build": lambda: drawn(args.other, config, args)} if args.other else {}),
        **{name: loop.rate for name, loop in loops.items()},
        "ddpm, 2 ranks": lambda: drawn(ddpm_run.DDPM, config, args, ranks=2),
    }
    rates = {name: [] for name in programs}
    for _ in range(args.rounds):
        for name, measure in programs.items():
            rates[name].append(measure())
    for loop in loops.values():
        loop.close()
    rows = []
    for name, values in rates.items():
        ratios = [own / other for own, other in zip(rates["ddpm"], values, strict=True)]
        shown = ["{:.2f} ({:.2f} to {:.2f})".format(*bench.spread(series)) for series in (values, ratios)]
        rows.append([name, *shown])
    bench.print_table([args.dtype, "images per second", "ddpm over it"], rows)
    print(bench.machine())
    return 0


if __name__ == "__main__":
    sys.exit(main())
