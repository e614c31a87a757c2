#!/usr/bin/env python3
"""Writes the golden values of this folder with PyTorch and diffusers (versions: tests/peers/requirements.txt).

    python make_golden.py    # rewrites adamw.json, ema.json, learning_rates.json and loss_scale.json beside it
"""

import json
import pathlib

import torch
from diffusers.optimization import (
    get_cosine_schedule_with_warmup,
    get_cosine_with_hard_restarts_schedule_with_warmup,
    get_polynomial_decay_schedule_with_warmup,
    get_scheduler,
)
from diffusers.training_utils import EMAModel

HERE = pathlib.Path(__file__).parent
BASE_LR = 3e-4


def numbers(tensor):
    """Nine significant digits: every float32 reads back as it was."""
    return [float(f"{v:.9g}") for v in tensor.flatten().tolist()]


def write(name, value):
    lines = ",\n".join(" " + json.dumps(case) for case in value)
    (HERE / name).write_text(f"[\n{lines}\n]\n")


def gradients(steps, count):
    """Sizes from 1e-12 to 1e4, some signs that alternate, some zeros."""
    torch.manual_seed(0)
    scale = torch.logspace(-12, 4, count)
    rows = []
    for _ in range(steps):
        g = torch.randn(count) * scale
        g[::7] = 0.0
        rows.append(g)
    return rows


def adamw_case(steps, count, **options):
    grads = gradients(steps, count)
    start = torch.linspace(-2.0, 2.0, count)

    def train(dtype):
        p = torch.nn.Parameter(start.to(dtype, copy=True))
        optimizer = torch.optim.AdamW([p], foreach=False, fused=False, **options)
        rows = []
        for g in grads:
            p.grad = g.to(dtype)
            optimizer.step()
            rows.append(p.detach().clone())
        return rows, optimizer.state[p]

    single, state = train(torch.float32)
    double, _ = train(torch.float64)
    return {
        **{key: options[key] for key in ("lr", "betas", "eps", "weight_decay")},
        "start": numbers(start),
        "gradients": [numbers(g) for g in grads],
        "parameters": [numbers(p) for p in single],
        "exp_avg": numbers(state["exp_avg"]),
        "exp_avg_sq": numbers(state["exp_avg_sq"]),
        "float64": double[-1].tolist(),
    }


def adamw_cases():
    yield adamw_case(12, 37, lr=1e-4, betas=(0.95, 0.999), eps=1e-8, weight_decay=1e-6)
    yield adamw_case(8, 37, lr=0.1, betas=(0.9, 0.99), eps=1e-3, weight_decay=0.2)
    yield adamw_case(4, 37, lr=1e-2, betas=(0.0, 0.5), eps=1e-8, weight_decay=0.0)


def ema_cases():
    torch.manual_seed(1)
    for inv_gamma, power, max_decay in ((1.0, 0.75, 0.9999), (1.0, 0.75, 0.6), (10.0, 2 / 3, 0.99)):
        rows = [torch.randn(13) for _ in range(8)]
        parameter = torch.nn.Parameter(rows[0].clone())
        ema = EMAModel([parameter], decay=max_decay, use_ema_warmup=True, inv_gamma=inv_gamma, power=power)
        averages = []
        for row in rows:
            parameter.data.copy_(row)
            ema.step([parameter])
            averages.append(numbers(ema.shadow_params[0]))
        steps = [1, 2, 3, 5, 10, 100, 1000, 100_000, 10_000_000]
        yield {
            "inv_gamma": inv_gamma,
            "power": power,
            "max_decay": max_decay,
            "steps": steps,
            "decays": [ema.get_decay(step) for step in steps],
            "parameters": [numbers(row) for row in rows],
            "averages": averages,
        }


def rates(make, total):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=BASE_LR)
    scheduler = make(optimizer)
    seen = []
    for update in range(total):
        if update > 0:
            optimizer.step()
            scheduler.step()
        seen.append(optimizer.param_groups[0]["lr"])
    return seen


def rate_case(keys, total, make, steps=None):
    steps = total if steps is None else steps
    return {"keys": keys, "total": total, "rates": rates(make, steps)}


def learning_rate_cases():
    names = ("constant", "constant_with_warmup", "linear", "cosine", "cosine_with_restarts", "polynomial")
    for name in names:
        for warmup, total in ((0, 20), (5, 30), (30, 20), (10, 10)):
            # polynomial divides by the updates after the warm-up.
            steps = total if name != "polynomial" or warmup < total else total - 1
            yield rate_case(
                {"name": name, "warmup_steps": warmup},
                total,
                lambda o, n=name, w=warmup, t=total: get_scheduler(n, o, num_warmup_steps=w, num_training_steps=t),
                steps,
            )
    # Beyond the planned end: a run that was given fewer updates than its schedule got.
    for name in ("linear", "polynomial"):
        make = lambda o, n=name: get_scheduler(n, o, num_warmup_steps=2, num_training_steps=8)
        yield rate_case({"name": name, "warmup_steps": 2}, 8, make, 12)
    yield rate_case(
        {"name": "cosine", "warmup_steps": 4, "num_cycles": 1.75},
        25,
        lambda o: get_cosine_schedule_with_warmup(o, 4, 25, num_cycles=1.75),
    )
    yield rate_case(
        {"name": "cosine_with_restarts", "warmup_steps": 3, "num_cycles": 3.0},
        25,
        lambda o: get_cosine_with_hard_restarts_schedule_with_warmup(o, 3, 25, num_cycles=3),
    )
    yield rate_case(
        {"name": "polynomial", "warmup_steps": 3, "power": 2.5, "lr_end": 1e-5},
        25,
        lambda o: get_polynomial_decay_schedule_with_warmup(o, 3, 25, lr_end=1e-5, power=2.5),
    )
    one_cycles = [
        {},
        {"pct_start": 0.5, "anneal_strategy": "linear", "div_factor": 10.0, "final_div_factor": 100.0},
        {"three_phase": True, "pct_start": 0.4},
        {"three_phase": True, "anneal_strategy": "linear"},
        {"pct_start": 0.0},
    ]
    for keys in one_cycles:
        for total in (7, 24):
            make = lambda o, k=keys, t=total: torch.optim.lr_scheduler.OneCycleLR(o, BASE_LR, total_steps=t, **k)
            yield rate_case({"name": "one_cycle", **keys}, total, make)


def loss_scale_cases():
    """Scale and growth tracker after each step, by the operation under torch.amp.GradScaler.update."""
    patterns = ["0" * 9, "1110" + "0" * 8, "0010010000100", "0001" * 4]
    for pattern in patterns:
        scale, tracker = torch.tensor(65536.0), torch.tensor(0, dtype=torch.int32)
        states = []
        for overflow in pattern:
            torch._amp_update_scale_(scale, tracker, torch.tensor(float(overflow)), 2.0, 0.5, 3)
            states.append([scale.item(), tracker.item()])
        yield {"initial": 65536.0, "window": 3, "overflows": [c == "1" for c in pattern], "states": states}


if __name__ == "__main__":
    torch.set_num_threads(1)
    write("adamw.json", list(adamw_cases()))
    write("ema.json", list(ema_cases()))
    write("learning_rates.json", list(learning_rate_cases()))
    write("loss_scale.json", list(loss_scale_cases()))
