#!/usr/bin/env python3
"""Writes the golden values of this folder with diffusers' own schedulers (versions: tests/peers/requirements.txt).

    python make_golden.py    # rewrites schedules.json, trajectories.json, solvers.json and random.json beside it

Random numbers come from golden_noise.py: the C++ side draws its own.
"""

import importlib
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
    FlowMatchEulerDiscreteScheduler,
    FlowMatchHeunDiscreteScheduler,
    HeunDiscreteScheduler,
    PNDMScheduler,
)
from diffusers.schedulers import scheduling_ddim, scheduling_ddpm
from diffusers.training_utils import compute_snr
from golden_noise import (
    FIRST_IMAGE,
    NOISE,
    OFFSET_NOISE,
    SAMPLE_INITIAL,
    SAMPLE_STEP,
    SEED,
    TIMESTEP,
    image_normals,
    philox,
)

HERE = pathlib.Path(__file__).parent

TRAINED_BETAS = [0.01, 0.02, 0.03, 0.05, 0.08, 0.13, 0.21, 0.34]
SCHEDULES = {
    "linear": {},
    "scaled_linear": {"beta_schedule": "scaled_linear", "beta_start": 0.00085, "beta_end": 0.012},
    "squaredcos_cap_v2": {"beta_schedule": "squaredcos_cap_v2"},
    "sigmoid": {"beta_schedule": "sigmoid"},
    "short_linear": {"num_train_timesteps": 37, "beta_end": 0.2},
    "trained": {"num_train_timesteps": 8, "trained_betas": TRAINED_BETAS},
    "linear_zero_snr": {"rescale_betas_zero_snr": True},
    "squaredcos_zero_snr": {"beta_schedule": "squaredcos_cap_v2", "rescale_betas_zero_snr": True},
}
PREDICTIONS = ["epsilon", "sample", "v_prediction"]


def numbers(tensor):
    """Nine significant digits: every float32 reads back as it was."""
    return [float(f"{v:.9g}") for v in torch.as_tensor(tensor, dtype=torch.float32).flatten().tolist()]


def write(name, value):
    lines = ",\n".join(" " + json.dumps(case) for case in value)
    (HERE / name).write_text(f"[\n{lines}\n]\n")


PYTORCH_ROOT = torch.Tensor.sqrt


def exact_root(values):
    """Rounded once. PyTorch's float32 root is MKL's, which is one bit off for a fifth of a schedule on some processors, and
    where terminal SNR is rescaled to zero the first beta differs by 3e-3 for one such bit."""
    return PYTORCH_ROOT(values.double()).to(values.dtype)


def schedule_cases():
    for (name, keys), prediction in itertools.product(SCHEDULES.items(), PREDICTIONS):
        scheduler = DDPMScheduler(**keys, prediction_type=prediction)
        total = scheduler.config.num_train_timesteps
        t = torch.tensor([0, 1, total // 3, total // 2, total - 2, total - 1])
        shape = (len(t), 1, 1, 2)
        x0, noise = image_normals(100, 0, 0, shape), image_normals(100, 1, 0, shape)
        target = {"epsilon": noise, "sample": x0, "v_prediction": scheduler.get_velocity(x0, noise, t)}[prediction]
        snr = compute_snr(scheduler, t)
        # As examples/text_to_image/train_text_to_image.py weights its loss; for `sample` as Hang et al. define it.
        clamped = torch.minimum(snr, torch.full_like(snr, 5.0))
        weight = {"epsilon": clamped / snr, "sample": clamped, "v_prediction": clamped / (snr + 1)}[prediction]
        yield {
            "name": f"{name}, {prediction}",
            "config": {**keys, "prediction_type": prediction},
            "timesteps": t.tolist(),
            "betas": numbers(scheduler.betas[t]),
            "alphas_cumprod": numbers(scheduler.alphas_cumprod[t]),
            "snr": numbers(snr),
            "min_snr_5": numbers(weight) if torch.isfinite(weight).all() else None,
            "x0": numbers(x0),
            "noise": numbers(noise),
            "noisy": numbers(scheduler.add_noise(x0, noise, t)),
            "target": numbers(target),
        }


def denoise(x, t, total):
    """The model of all trajectories."""
    tau = float(t) / total
    return (0.4 + 0.5 * tau) * x + (0.3 - 0.2 * tau) * torch.tanh(x)


def run(scheduler, steps, **options):
    """The reverse process from initial noise, with the scheduler's own generator replaced by Philox normals."""
    scheduler.set_timesteps(steps)
    x = image_normals(SAMPLE_INITIAL, 0, FIRST_IMAGE)
    for i, t in enumerate(scheduler.timesteps):
        step_noise = image_normals(SAMPLE_STEP, i, FIRST_IMAGE)
        for module in (scheduling_ddpm, scheduling_ddim):
            module.randn_tensor = lambda *_, n=step_noise, **__: n
        output = denoise(x, t, scheduler.config.num_train_timesteps)
        x = scheduler.step(output, t, x, **options).prev_sample
    assert torch.isfinite(x).all(), (dict(scheduler.config), steps, options)
    return x


def trajectory(written_by, sampler, steps, eta=0.0):
    """`written_by`: the scheduler whose file a model came with."""
    cls = {"ddpm": DDPMScheduler, "ddim": DDIMScheduler}[sampler]
    with tempfile.TemporaryDirectory() as folder:
        written_by.save_pretrained(folder)
        scheduler = cls.from_pretrained(folder)
        file = json.loads((pathlib.Path(folder) / "scheduler_config.json").read_text())
    x = run(scheduler, steps, **({"eta": eta} if sampler == "ddim" else {}))
    return {
        "file": file,
        "sampler": sampler,
        "steps": steps,
        "eta": eta,
        "visited": scheduler.timesteps.tolist() if steps <= 30 else scheduler.timesteps[:: steps // 10].tolist(),
        "sample": numbers(x),
    }


def short_and_long_cases():
    """10 and 50 steps of every spacing and prediction, with each variance that ddpm has and three of ddim."""
    for spacing, prediction, steps in itertools.product(("leading", "linspace", "trailing"), PREDICTIONS, (10, 50)):
        keys = {"timestep_spacing": spacing, "prediction_type": prediction}
        # Of fixed_large_log diffusers takes the root of a negative logarithm, and learned ones need a model's answer.
        for variance in ("fixed_small", "fixed_small_log", "fixed_large"):
            yield trajectory(DDPMScheduler(variance_type=variance, **keys), "ddpm", steps)
        for eta in (0.0, 0.5, 1.0):
            yield trajectory(DDPMScheduler(**keys), "ddim", steps, eta)


def trajectory_cases():
    samplers = [("ddpm", 0.0), ("ddim", 0.0), ("ddim", 1.0)]
    for keys, prediction, (sampler, eta) in itertools.product(SCHEDULES.values(), PREDICTIONS, samplers):
        # Where a sample holds no signal, epsilon says nothing about the image: the first step would divide by zero.
        if keys.get("rescale_betas_zero_snr") and prediction == "epsilon":
            continue
        if keys.get("beta_schedule") == "sigmoid" and sampler == "ddim":
            continue  # DDIMScheduler does not know it
        if keys.get("rescale_betas_zero_snr") and eta == 1.0:
            eta = 0.9  # at 1, diffusers takes the root of a rounded -0 at the first step
        steps = min(25, keys.get("num_train_timesteps", 25))
        for spacing in ("leading", "trailing") if "rescale_betas_zero_snr" in keys else ("leading",):
            file = DDPMScheduler(**keys, prediction_type=prediction, timestep_spacing=spacing)
            yield trajectory(file, sampler, steps, eta)
    for spacing, (sampler, eta), steps in itertools.product(("leading", "linspace", "trailing"), samplers, (1, 7, 30)):
        yield trajectory(DDPMScheduler(timestep_spacing=spacing), sampler, steps, eta)
    yield from short_and_long_cases()
    for sampler, eta in samplers:
        yield trajectory(DDPMScheduler(), sampler, 1000, eta)
        yield trajectory(DDPMScheduler(clip_sample=False, prediction_type="v_prediction"), sampler, 20, eta)
        yield trajectory(DDPMScheduler(clip_sample_range=0.5), sampler, 20, eta)
        yield trajectory(DDPMScheduler(steps_offset=3), sampler, 20, eta)
        yield trajectory(
            DDPMScheduler(thresholding=True, sample_max_value=1.7, dynamic_thresholding_ratio=0.9), sampler, 20, eta
        )
    for variance in ("fixed_small_log", "fixed_large"):
        yield trajectory(DDPMScheduler(variance_type=variance), "ddpm", 20)
    # Stops above timestep 0, where only a large variance shows that noise is added once more.
    yield trajectory(DDPMScheduler(variance_type="fixed_large", timestep_spacing="trailing"), "ddpm", 20)
    yield trajectory(DDIMScheduler(set_alpha_to_one=False, clip_sample=False, steps_offset=1), "ddim", 20)
    # Files of other classes: keys that they lack take the asked class's defaults.
    others = [
        PNDMScheduler(steps_offset=1, skip_prk_steps=True),
        EulerDiscreteScheduler(beta_schedule="scaled_linear", prediction_type="v_prediction"),
        HeunDiscreteScheduler(),
    ]
    for other, (sampler, eta) in itertools.product(others, samplers):
        yield trajectory(other, sampler, 20, eta)


SOLVERS = {
    "dpmsolver++": DPMSolverMultistepScheduler,
    "dpmsolver++2s": DPMSolverSinglestepScheduler,
    "euler": EulerDiscreteScheduler,
    "heun": HeunDiscreteScheduler,
}
FLOW_KEYS = {"use_flow_sigmas": True, "prediction_type": "flow_prediction"}


def in_float64(scheduler):
    """Has a scheduler compute with its noise levels, and with samples, in float64."""
    scheduler.sigmas = scheduler.sigmas.double()
    return scheduler


class NoFloat32:
    """torch, but with float64 where a module says float32."""

    float32 = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


def solve(scheduler, steps, model, x, float64=False, sigma_times=False):
    """x and the model's times: of `sigma_times` those of the noise levels, not truncated to whole ones."""
    module = importlib.import_module(type(scheduler).__module__)
    scheduler.set_timesteps(steps)
    times = scheduler.sigmas[:-1] * scheduler.config.num_train_timesteps if sigma_times else scheduler.timesteps
    if float64:
        x, scheduler, module.torch = x.double(), in_float64(scheduler), NoFloat32()
    x = x * getattr(scheduler, "init_noise_sigma", 1.0)
    scheduler.set_begin_index(0)  # otherwise a first timestep that comes twice is taken for the second one
    for t, time in zip(scheduler.timesteps, times):
        shown = scheduler.scale_model_input(x, t) if hasattr(scheduler, "scale_model_input") else x
        x = scheduler.step(model(shown, time), t, x).prev_sample
    module.torch = torch
    assert torch.isfinite(x).all(), (dict(scheduler.config), steps)
    return x, times


def told(x, t, total):
    """The model of ddpm and flow."""
    return denoise(x, t, total)


def told_edm(x, c_noise, _):
    """The model of edm: its time is the logarithm of a noise level."""
    tau = float(c_noise)
    return (0.4 + 0.1 * tau) * x + (0.3 - 0.05 * tau) * torch.tanh(x)


def solution(written_by, cls, sampler, steps, model=told, sigma_times=False, more=None):
    """`written_by`: the scheduler whose file a model came with, and which has the keys `more`; `cls` the one that solves."""
    with tempfile.TemporaryDirectory() as folder:
        written_by.save_pretrained(folder)
        path = pathlib.Path(folder) / "scheduler_config.json"
        file = json.loads(path.read_text()) | (more or {})
        path.write_text(json.dumps(file))
        total = file["num_train_timesteps"]
        keys = FLOW_KEYS | {"flow_shift": file.get("flow_shift", file.get("shift"))} if sigma_times else {}
        make = lambda: cls.from_pretrained(folder, **keys)
        called = lambda x, t: model(x, t, total)
        x0 = image_normals(SAMPLE_INITIAL, 0, FIRST_IMAGE)
        x, times = solve(make(), steps, called, x0, sigma_times=sigma_times)
        exact, _ = solve(make(), steps, called, x0, float64=True, sigma_times=sigma_times)
    # Where diffusers' own float32 is far from its float64, that is what is compared with.
    spread = float((x.double() - exact).abs().max() / exact.abs().max())
    return {
        "file": {k: v for k, v in file.items() if v not in (float("inf"), float("-inf"))},
        "sampler": sampler,
        "steps": steps,
        "times": [float(t) for t in times] if "heun" not in sampler else [float(t) for t in times[::2]],
        "float32_error": spread,
        "sample": numbers(exact if spread > 2e-5 else x),
    }


def solver_cases():
    """Every sampler x prediction x spacing x number of steps, and the keys that solvers alone read."""
    files = [
        {"timestep_spacing": spacing, "prediction_type": prediction, **keys}
        for spacing in ("leading", "linspace", "trailing")
        for prediction in PREDICTIONS
        for keys in ({}, {"beta_schedule": "squaredcos_cap_v2"})
    ]
    for keys, (sampler, cls), steps in itertools.product(files, SOLVERS.items(), (10, 50)):
        if sampler == "dpmsolver++2s" and keys["timestep_spacing"] != "linspace":
            continue  # it visits linspace timesteps, whatever the file says
        yield solution(DDPMScheduler(**keys, clip_sample=False), cls, sampler, steps)
    for keys, (sampler, cls) in itertools.product(({"steps_offset": 1}, {"clip_sample_range": 0.7}), SOLVERS.items()):
        yield solution(DDPMScheduler(**keys), cls, sampler, 13)
    threshold = {"thresholding": True, "sample_max_value": 1.7, "dynamic_thresholding_ratio": 0.9}
    multistep = [
        {"solver_type": "heun"},
        {"solver_order": 1},
        {"lower_order_final": False},
        {"euler_at_final": True, "final_sigmas_type": "sigma_min"},
        {"final_sigmas_type": "sigma_min", "lower_order_final": False},
        {"lambda_min_clipped": -5.1, "beta_schedule": "squaredcos_cap_v2"},
        {"use_karras_sigmas": True},
        {"use_karras_sigmas": True, "beta_schedule": "squaredcos_cap_v2"},
        {"rescale_betas_zero_snr": True, "prediction_type": "v_prediction", "timestep_spacing": "trailing"},
        threshold,
    ]
    for keys, steps in itertools.product(multistep, (9, 20)):
        cls = DPMSolverMultistepScheduler
        yield solution(cls(**keys), cls, "dpmsolver++", steps)
    for steps in (48, 144):  # numpy's arange rounds twice here
        yield solution(DPMSolverMultistepScheduler(timestep_spacing="trailing"), DPMSolverMultistepScheduler, "dpmsolver++", steps)
    singlestep = [
        {"solver_type": "heun"},
        {"final_sigmas_type": "sigma_min"},
        {"lambda_min_clipped": -5.1, "beta_schedule": "squaredcos_cap_v2"},
        {"use_karras_sigmas": True},
        {"use_karras_sigmas": True, "beta_schedule": "squaredcos_cap_v2"},
        threshold,
    ]
    for keys, steps in itertools.product(singlestep, (9, 20)):
        cls = DPMSolverSinglestepScheduler
        yield solution(cls(**keys), cls, "dpmsolver++2s", steps)
    euler = [
        {"use_karras_sigmas": True},
        {"final_sigmas_type": "sigma_min"},
        {"rescale_betas_zero_snr": True, "prediction_type": "v_prediction", "timestep_spacing": "trailing"},
        {"use_karras_sigmas": True, "timestep_spacing": "trailing", "num_train_timesteps": 1100},
    ]
    for keys, steps in itertools.product(euler, (1, 9, 20)):
        yield solution(EulerDiscreteScheduler(**keys), EulerDiscreteScheduler, "euler", steps)
    bounds = ({"sigma_min": 0.02, "sigma_max": 20.0}, {"sigma_min": 0.05}, {"sigma_max": 30.0})
    for keys, karras, (sampler, cls) in itertools.product(bounds, (True, False), SOLVERS.items()):
        yield solution(EulerDiscreteScheduler(use_karras_sigmas=karras, **keys), cls, sampler, 9)
    for keys, steps in itertools.product(({}, {"use_karras_sigmas": True}, {"clip_sample": True}), (1, 9, 20)):
        yield solution(HeunDiscreteScheduler(**keys), HeunDiscreteScheduler, "heun", steps)
    yield solution(PNDMScheduler(), DPMSolverMultistepScheduler, "dpmsolver++", 20)
    yield solution(PNDMScheduler(), HeunDiscreteScheduler, "heun", 20)
    for keys, steps in itertools.product(({}, {"sigma_data": 1.3, "sigma_max": 20.0, "rho": 5.0}), (1, 10, 50)):
        yield solution(EDMEulerScheduler(**keys), EDMEulerScheduler, "euler", steps, told_edm)
        if steps > 1:
            yield solution(
                EDMDPMSolverMultistepScheduler(**keys), EDMDPMSolverMultistepScheduler, "dpmsolver++", steps, told_edm
            )
    yield solution(EDMEulerScheduler(prediction_type="v_prediction"), EDMEulerScheduler, "euler", 10, told_edm)
    for cls, sampler in ((EDMDPMSolverMultistepScheduler, "dpmsolver++"), (EDMEulerScheduler, "euler")):
        yield solution(EDMDPMSolverMultistepScheduler(**threshold), cls, sampler, 10, told_edm)
    for shift, steps in itertools.product((1.0, 3.0), (1, 9, 20)):
        cls = FlowMatchEulerDiscreteScheduler
        yield solution(cls(shift=shift, use_karras_sigmas=True), cls, "euler", steps)
    for keys, steps in itertools.product(({}, threshold, {"solver_type": "heun", "euler_at_final": True}), (10, 20)):
        for sampler in ("dpmsolver++", "dpmsolver++2s"):
            cls = SOLVERS[sampler]
            known = keys if sampler == "dpmsolver++" else {k: v for k, v in keys.items() if k != "euler_at_final"}
            file = cls(**FLOW_KEYS, flow_shift=3.0, **known)
            yield solution(file, cls, sampler, steps, sigma_times=True)
    for shift, steps in itertools.product((1.0, 3.0), (1, 10, 50)):
        file = FlowMatchEulerDiscreteScheduler(shift=shift)
        yield solution(file, FlowMatchEulerDiscreteScheduler, "euler", steps)
        yield solution(file, FlowMatchHeunDiscreteScheduler, "heun", steps)
        # The solver's levels, but with their own times: diffusers tells the model whole ones.
        if steps > 1:
            yield solution(file, DPMSolverMultistepScheduler, "dpmsolver++", steps, sigma_times=True)
            yield solution(file, DPMSolverSinglestepScheduler, "dpmsolver++2s", steps, sigma_times=True)
    # With both names of the shift, each class reads its own.
    for file, more in (
        (DPMSolverMultistepScheduler(**FLOW_KEYS, flow_shift=3.0), {"shift": 1.5}),
        (FlowMatchEulerDiscreteScheduler(shift=1.5), {"flow_shift": 3.0}),
    ):
        for sampler in ("dpmsolver++", "dpmsolver++2s"):
            yield solution(file, SOLVERS[sampler], sampler, 10, sigma_times=True, more=more)
        yield solution(file, FlowMatchEulerDiscreteScheduler, "euler", 10, more=more)
        yield solution(file, FlowMatchHeunDiscreteScheduler, "heun", 10, more=more)


def random_cases():
    shape = (3, 2, 3, 5)
    for step, first, offset, total in ((0, 0, 0.0, 1000), (7, 4, 0.1, 37)):
        noise = image_normals(NOISE, step, first, shape)
        if offset:
            noise = noise + offset * image_normals(OFFSET_NOISE, step, first, (shape[0], shape[1], 1, 1))
        words = [int(philox(SEED, TIMESTEP, step, first + i, 1)[0]) for i in range(shape[0])]
        yield {
            "seed": SEED,
            "step": step,
            "first_position": first,
            "offset_noise": offset,
            "num_train_timesteps": total,
            "shape": shape,
            "timesteps": [word * total >> 32 for word in words],
            "noise": numbers(noise),
        }


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.Tensor.sqrt = exact_root
    write("schedules.json", list(schedule_cases()))
    write("trajectories.json", list(trajectory_cases()))
    write("solvers.json", list(solver_cases()))
    write("random.json", list(random_cases()))
