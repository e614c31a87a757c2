#!/usr/bin/env python3
"""Writes initial_statistics.json: how diffusers initialises the parameters of UNet2DModel, over several seeds.

Per configuration its config.json and, per parameter, [elements over all seeds, mean, standard deviation, min, max].
"""

import json
import pathlib

import diffusers
import torch

from make_golden import DIFFUSERS_VERSION, SMALL

SEEDS = 16
CONFIGURATIONS = {
    "fourier_class_table": {**SMALL, "time_embedding_type": "fourier", "num_class_embeds": 7},
    "learned_scale_shift": {
        **SMALL, "time_embedding_type": "learned", "num_train_timesteps": 50, "resnet_time_scale_shift": "scale_shift"},
}


def statistics(arguments):
    drawn = {}
    for seed in range(SEEDS):
        torch.manual_seed(seed)
        model = diffusers.UNet2DModel(**arguments)
        for name, value in model.state_dict().items():
            drawn.setdefault(name, []).append(value.double().reshape(-1))
    values = {name: torch.cat(parts) for name, parts in drawn.items()}
    return {
        "config": {key: value for key, value in model.config.items() if not key.startswith("_")},
        "parameters": {
            name: [v.numel()] + [float(f"{x:.8g}") for x in (v.mean(), v.std(), v.min(), v.max())]
            for name, v in values.items()
        },
    }


def main():
    if diffusers.__version__ != DIFFUSERS_VERSION:
        raise SystemExit(f"diffusers {DIFFUSERS_VERSION} is wanted, {diffusers.__version__} is installed")
    result = {"diffusers": diffusers.__version__, "torch": torch.__version__, "seeds": SEEDS}
    result["configurations"] = {name: statistics(arguments) for name, arguments in CONFIGURATIONS.items()}
    path = pathlib.Path(__file__).parent / "initial_statistics.json"
    path.write_text(json.dumps(result, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
