#!/usr/bin/env python3
"""Writes dummy.json: what diffusers' own scheduler tests draw with their dummy model.

Versions are those of tests/peers/requirements.txt.

    python make_dummy_golden.py    # rewrites dummy.json beside it
"""

import functools
import itertools
import json
import pathlib
import tempfile

import torch
from diffusers import (
    DDIMScheduler,
    DDPMScheduler,
    DPMSolverMultistepScheduler,
    DPMSolverSinglestepScheduler,
    EDMDPMSolverMultistepScheduler,
    EDMEulerScheduler,
    EulerDiscreteScheduler,
    HeunDiscreteScheduler,
)
from make_golden import write

COUNT = 768  # numbers of a sample, which has the shape [4, 3, 8, 8]


def dummy(x, t):
    """The model of diffusers' own tests of schedulers (tests/schedulers/test_schedulers.py)."""
    return x * t / (t + 1)


def dummy_images(numbers):
    """The order that the samples of those tests have in memory."""
    return (numbers.reshape(3, 8, 8, 4) / COUNT).permute(3, 0, 1, 2)


def dummy_loop(scheduler, steps, loop, first_step, adds_noise):
    """
    The sample after the 'full loop' of a scheduler's test. `loop` says what the model is shown, and what is stepped
    from:
    - pipeline: the scaled sample, and the sample, as pipelines do;
    - from_shown: the scaled sample twice, as the tests of Euler and Heun do;
    - unscaled: the sample twice, as the test of EDM's multistep solver does; it begins without init_noise_sigma, too.
    A loop that starts at a later step than the first one mostly adds the noise of that step's level.
    """
    scheduler.set_timesteps(steps)
    x = dummy_images(torch.arange(COUNT)) * (1.0 if loop == "unscaled" else scheduler.init_noise_sigma)
    timesteps = scheduler.timesteps[first_step * scheduler.order :]
    if adds_noise:
        x = scheduler.add_noise(x, dummy_images(torch.arange(COUNT).flip(0)), timesteps[:1])
    random = {"generator": torch.manual_seed(0)} if isinstance(scheduler, DDPMScheduler) else {}
    for t in timesteps:
        shown = x if loop == "unscaled" else scheduler.scale_model_input(x, t)
        x = scheduler.step(dummy(shown, t), t, shown if loop == "from_shown" else x, **random).prev_sample
    return x


def dummy_sum(
    cls, sampler, steps, stated=None, tolerance=1e-2, loop="pipeline", first_step=0, adds_noise=False, **keys
):
    """
    The wheel holds no tests, so the loop is run here with diffusers' own class, and has to give the number that the
    test states: the sum of all magnitudes, to the tolerance of the test. Where `stated` is None, no test states one.
    """
    scheduler = cls(**keys)
    with tempfile.TemporaryDirectory() as folder:
        scheduler.save_pretrained(folder)
        file = json.loads((pathlib.Path(folder) / "scheduler_config.json").read_text())
    magnitudes = dummy_loop(scheduler, steps, loop, first_step, adds_noise).abs()
    total = float(magnitudes.sum())
    assert stated is None or abs(total - stated) < tolerance, (cls.__name__, keys, total, stated)
    return {
        "file": {k: v for k, v in file.items() if v not in (float("inf"), float("-inf"))},
        "sampler": sampler,
        "steps": steps,
        "loop": loop,
        "first_step": first_step,
        "adds_noise": adds_noise,
        "sum": total,
        "mean": float(magnitudes.mean()),
        "stated": stated,
        "tolerance": None if stated is None else tolerance,
    }


def mean(value):
    """A stated mean, as the sum that it is of."""
    return {"stated": round(value * COUNT, 4), "tolerance": 1e-3 * COUNT}


V = {"prediction_type": "v_prediction"}
KARRAS = {"use_karras_sigmas": True}
THRESHOLD = {"thresholding": True, "dynamic_thresholding_ratio": 0.87, "sample_max_value": 0.5}


def noise_from(step):
    """The keys of the loops named 'with noise'."""
    return {"first_step": step, "adds_noise": True}


def stated_cases():
    """
    Each sum or mean that the tests of diffusers 0.35.2 state of a class (tests/schedulers/test_scheduler_*.py), with
    the keys of the test. Left out are Lu's levels and variants of algorithm_type, which are not supported, and tests
    that repeat another's loop (on a device, or after changes of the class).
    """
    yield dummy_sum(DDPMScheduler, "ddpm", 1000, 258.9606)
    yield dummy_sum(DDPMScheduler, "ddpm", 1000, 202.0296, **V)
    yield dummy_sum(DDPMScheduler, "ddpm", 1000, 387.9466, **noise_from(998))
    yield dummy_sum(DDIMScheduler, "ddim", 10, 172.0067)
    yield dummy_sum(DDIMScheduler, "ddim", 10, 52.5302, **V)
    for one, stated in ((True, 149.8295), (False, 149.0784)):
        yield dummy_sum(DDIMScheduler, "ddim", 10, stated, beta_start=0.01, set_alpha_to_one=one)
    yield dummy_sum(DDIMScheduler, "ddim", 10, 354.5418, **noise_from(8))

    of_multistep = {"lower_order_final": False, "final_sigmas_type": "sigma_min"}
    multistep = functools.partial(dummy_sum, DPMSolverMultistepScheduler, "dpmsolver++", 10, **of_multistep)
    yield multistep(**mean(0.3301))
    yield multistep(**mean(1.1364), **THRESHOLD)
    yield multistep(**mean(0.2251), **V)
    yield multistep(**mean(0.2096), **V, **KARRAS)
    yield multistep(318.4111, **noise_from(5))

    of_singlestep = {"final_sigmas_type": "sigma_min"}
    singlestep = functools.partial(dummy_sum, DPMSolverSinglestepScheduler, "dpmsolver++2s", **of_singlestep)
    yield singlestep(10, **mean(0.2791))
    yield singlestep(10, **mean(0.2248), **KARRAS)
    yield singlestep(10, **mean(0.1453), **V)
    yield singlestep(10, **mean(0.0649), **V, **KARRAS)
    yield singlestep(10, 269.2187, **noise_from(5))
    yield singlestep(50, **mean(0.2574), first_step=3)

    betas = {"num_train_timesteps": 1100, "beta_start": 0.0001, "beta_end": 0.02}
    for cls, sampler, stated in (
        (EulerDiscreteScheduler, "euler", (10.0807, 0.0002, 124.52299499511719, 57062.9297)),
        (HeunDiscreteScheduler, "heun", (0.1233, 4.6934e-07, 0.00015, 75074.8906)),
    ):
        for number, keys in zip(stated, ({}, V, KARRAS, noise_from(8)), strict=True):
            yield dummy_sum(cls, sampler, 10, number, loop="from_shown", **keys, **betas)

    yield dummy_sum(EDMEulerScheduler, "euler", 10, 34.1855, 1e-3, num_train_timesteps=256)
    edm_multistep = functools.partial(
        dummy_sum, EDMDPMSolverMultistepScheduler, "dpmsolver++", 10, loop="unscaled", **of_multistep
    )
    yield edm_multistep(**mean(0.0001))
    yield edm_multistep(**mean(0.0080), **THRESHOLD)
    yield edm_multistep(**mean(0.0092), **V)
    yield edm_multistep(8.1661, **noise_from(5))


def other_cases():
    """Keys of which no test states a number: the loops of the tests, as pipelines have them."""
    cosine = {"beta_schedule": "squaredcos_cap_v2"}
    zero_snr = {"rescale_betas_zero_snr": True, "timestep_spacing": "trailing"}
    # The model answers 0 at timestep 0. As an image, that would make each sum 0: these loops end at timestep 1.
    of_sample = {"prediction_type": "sample", "timestep_spacing": "leading", "steps_offset": 1}
    yield dummy_sum(DDIMScheduler, "ddim", 10, **of_sample)
    for steps, spacing in itertools.product((10, 25), ("leading", "linspace", "trailing")):
        yield dummy_sum(DDIMScheduler, "ddim", steps, timestep_spacing=spacing)
    multistep = DPMSolverMultistepScheduler
    variants = ({}, {"solver_type": "heun"}, {"solver_order": 1}, KARRAS, {"euler_at_final": True}, cosine)
    variants += tuple({"prediction_type": prediction} for prediction in ("v_prediction", "sample"))
    for keys, steps in itertools.product(variants, (10, 25)):
        yield dummy_sum(multistep, "dpmsolver++", steps, **keys)
    for keys in ({"solver_type": "heun"}, {"solver_order": 1}, KARRAS, cosine):
        yield dummy_sum(DPMSolverSinglestepScheduler, "dpmsolver++2s", 10, **keys)
    euler = {"num_train_timesteps": 1100}
    for prediction, keys in itertools.product((V, of_sample), ({}, {"timestep_spacing": "trailing"})):
        yield dummy_sum(EulerDiscreteScheduler, "euler", 10, **prediction | keys, **euler)
    for keys in ({"timestep_spacing": "leading"}, {"final_sigmas_type": "sigma_min"}, cosine):
        yield dummy_sum(EulerDiscreteScheduler, "euler", 10, **keys, **euler)
    yield dummy_sum(EulerDiscreteScheduler, "euler", 10, **V, **zero_snr)
    heun = {"num_train_timesteps": 1100, "beta_start": 0.0001, "beta_end": 0.02}
    for prediction, keys in itertools.product(({}, V, of_sample), ({}, KARRAS, {"timestep_spacing": "trailing"})):
        yield dummy_sum(HeunDiscreteScheduler, "heun", 10, **prediction | keys, **heun)
    for keys in (V, {"sigma_data": 1.0}, {"rho": 3.0}):
        yield dummy_sum(EDMEulerScheduler, "euler", 10, **keys)
    yield dummy_sum(EDMDPMSolverMultistepScheduler, "dpmsolver++", 10)


if __name__ == "__main__":
    torch.set_num_threads(1)
    write("dummy.json", [*stated_cases(), *other_cases()])
