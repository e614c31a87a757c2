#!/usr/bin/env python3
"""Writes dummy.json: what diffusers' own scheduler tests draw with their dummy model.

Versions are those of tests/peers/requirements.txt.

    python make_dummy_golden.py    # rewrites dummy.json beside it
"""

import itertools
import json
import pathlib
import tempfile

import numpy as np
import torch
from diffusers import (
    DDIMScheduler,
    DPMSolverMultistepScheduler,
    DPMSolverSinglestepScheduler,
    EDMDPMSolverMultistepScheduler,
    EDMEulerScheduler,
    EulerDiscreteScheduler,
    HeunDiscreteScheduler,
)
from make_golden import PREDICTIONS, write

DUMMY_SHAPE = (4, 3, 8, 8)


def dummy(x, t):
    """The model of diffusers' own tests of schedulers (tests/schedulers/test_schedulers.py)."""
    return x * t / (t + 1)


def dummy_loop(scheduler, steps, sampler, keeps_scaled):
    """The 'full loop' of a scheduler's test. Those of Euler and Heun step from the sample that the model was shown."""
    count = int(np.prod(DUMMY_SHAPE))
    x = (torch.arange(count).reshape(3, 8, 8, 4) / count).permute(3, 0, 1, 2)
    scheduler.set_timesteps(steps)
    x = x * scheduler.init_noise_sigma
    for t in scheduler.timesteps:
        shown = scheduler.scale_model_input(x, t)
        begin = shown if keeps_scaled else x
        x = scheduler.step(dummy(shown, t), t, begin, **({"eta": 0.0} if sampler == "ddim" else {})).prev_sample
    return float(x.abs().sum()), float(x.abs().mean())


def dummy_sum(cls, sampler, steps, stated, tolerance=1e-2, **keys):
    """
    The wheel holds no tests, so the loop is run here with diffusers' own class, and has to give the number that the
    test states. A step of heun is two of that class, so the samples between them are those of a loop that scales only
    what it shows.
    """
    scheduler = cls(**keys)
    with tempfile.TemporaryDirectory() as folder:
        scheduler.save_pretrained(folder)
        file = json.loads((pathlib.Path(folder) / "scheduler_config.json").read_text())
    quirk = stated is not None and cls in (EulerDiscreteScheduler, HeunDiscreteScheduler)
    scaled = quirk and sampler == "euler"
    total, mean = dummy_loop(scheduler, steps, sampler, keeps_scaled=quirk)
    assert stated is None or abs(total - stated) < tolerance, (cls.__name__, keys, total, stated)
    if not scaled:
        total, mean = dummy_loop(cls(**keys), steps, sampler, keeps_scaled=False)
    file = {k: v for k, v in file.items() if v not in (float("inf"), float("-inf"))}
    return {"file": file, "sampler": sampler, "steps": steps, "scaled": scaled, "sum": total, "mean": mean}


def dummy_cases():
    """Keys of each class's test, and the sums that the tests state, where one is known (None: computed here alone)."""
    ddim = {"clip_sample": True}
    for prediction, stated in (("epsilon", 172.0067), ("v_prediction", 52.5302), ("sample", None)):
        yield dummy_sum(DDIMScheduler, "ddim", 10, stated, prediction_type=prediction, **ddim)
    for one, stated in ((True, 149.8295), (False, 149.0784)):
        yield dummy_sum(DDIMScheduler, "ddim", 10, stated, beta_start=0.01, set_alpha_to_one=one, **ddim)
    cosine = {"beta_schedule": "squaredcos_cap_v2"}
    zero_snr = {"rescale_betas_zero_snr": True, "timestep_spacing": "trailing"}
    for steps, spacing in itertools.product((10, 25), ("leading", "linspace", "trailing")):
        yield dummy_sum(DDIMScheduler, "ddim", steps, None, timestep_spacing=spacing)
    multistep = DPMSolverMultistepScheduler
    # The tests are older than final_sigmas_type: they state what "sigma_min" gives.
    no_low_end = {"lower_order_final": False, "final_sigmas_type": "sigma_min"}
    yield dummy_sum(multistep, "dpmsolver++", 10, 0.3301 * 768, 0.768, **no_low_end)
    yield dummy_sum(multistep, "dpmsolver++", 10, 0.2251 * 768, 0.768, prediction_type="v_prediction", **no_low_end)
    variants = ({}, {"solver_type": "heun"}, {"solver_order": 1}, {"use_karras_sigmas": True}, {"euler_at_final": True}, cosine)
    variants += tuple({"prediction_type": prediction} for prediction in ("v_prediction", "sample"))
    for keys, steps in itertools.product(variants, (10, 25)):
        yield dummy_sum(multistep, "dpmsolver++", steps, None, **keys)
    singlestep = DPMSolverSinglestepScheduler
    yield dummy_sum(singlestep, "dpmsolver++2s", 10, 0.2791 * 768, 0.768, **no_low_end)
    yield dummy_sum(singlestep, "dpmsolver++2s", 10, 0.1453 * 768, 0.768, prediction_type="v_prediction", **no_low_end)
    for keys in ({"solver_type": "heun"}, {"solver_order": 1}, {"use_karras_sigmas": True}, cosine):
        yield dummy_sum(singlestep, "dpmsolver++2s", 10, None, **keys)
    euler = {"num_train_timesteps": 1100}
    yield dummy_sum(EulerDiscreteScheduler, "euler", 10, 10.0807, **euler)
    yield dummy_sum(EulerDiscreteScheduler, "euler", 10, 124.5230, use_karras_sigmas=True, **euler)
    for prediction, keys in itertools.product(("v_prediction", "sample"), ({}, {"timestep_spacing": "trailing"})):
        yield dummy_sum(EulerDiscreteScheduler, "euler", 10, None, prediction_type=prediction, **keys, **euler)
    for keys in ({"timestep_spacing": "leading"}, {"final_sigmas_type": "sigma_min"}, cosine):
        yield dummy_sum(EulerDiscreteScheduler, "euler", 10, None, **keys, **euler)
    yield dummy_sum(EulerDiscreteScheduler, "euler", 10, None, prediction_type="v_prediction", **zero_snr)
    heun = {"num_train_timesteps": 1100, "beta_start": 0.0001, "beta_end": 0.02}
    yield dummy_sum(HeunDiscreteScheduler, "heun", 10, 0.1233, **heun)
    for prediction, keys in itertools.product(
        PREDICTIONS, ({}, {"use_karras_sigmas": True}, {"timestep_spacing": "trailing"})
    ):
        yield dummy_sum(HeunDiscreteScheduler, "heun", 10, None, prediction_type=prediction, **keys, **heun)
    yield dummy_sum(EDMEulerScheduler, "euler", 10, 34.1855)
    for keys in ({"prediction_type": "v_prediction"}, {"sigma_data": 1.0}, {"rho": 3.0}):
        yield dummy_sum(EDMEulerScheduler, "euler", 10, None, **keys)
    yield dummy_sum(EDMDPMSolverMultistepScheduler, "dpmsolver++", 10, None)


if __name__ == "__main__":
    torch.set_num_threads(1)
    write("dummy.json", list(dummy_cases()))
