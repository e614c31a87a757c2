#!/usr/bin/env python3
"""Writes golden data of UNet2DModel: prediction, loss and every parameter's gradient for a set of configurations.

    make_golden.py [--output DIR] [--only NAME] [--seed S]
    make_golden.py --output DIR --random N [--seed S]

With --random, N configurations are drawn (random_configurations.py). Those that diffusers itself cannot run become
NAME.refused.json, with what it said.

Neither weights nor inputs are stored: both sides make them from the same random numbers (see philox.py and `weights`,
`inputs` below). diffusers runs in float64, so the data are the truth and not another rounding. Gradients are stored as
float16 in units of their largest element: relative error below 3e-4 in norm; those of drawn configurations as float32.
"""

import argparse
import itertools
import json
import math
import pathlib

import diffusers
import diffusers.models.downsampling
import diffusers.models.upsampling
import numpy as np
import torch
from safetensors import safe_open
from safetensors.numpy import save_file

import philox
import random_configurations

DIFFUSERS_VERSION = "0.35.2"
STEP_WEIGHTS, STEP_IMAGE, STEP_TARGET, STEP_TIME, STEP_LABEL = range(5)
TIMESTEPS = 1000
FLOAT32_ROUNDS = 3e-6  # what comes into an activation, relative to its root mean square
MOST_KINKS = 6

SMALL = {
    "block_out_channels": [8, 16],
    "down_block_types": ["DownBlock2D", "AttnDownBlock2D"],
    "up_block_types": ["AttnUpBlock2D", "UpBlock2D"],
    "layers_per_block": 1,
    "norm_num_groups": 4,
    "time_embedding_dim": 32,
}

# name: (UNet2DModel's arguments, images, height, width)
CONFIGURATIONS = {
    # As many groups as channels would hide the time embedding: hence fewer groups than the default 32.
    "defaults": ({"block_out_channels": [16, 16, 24, 32], "norm_num_groups": 8, "sample_size": 16}, 2, 16, 16),
    "scale_shift": ({**SMALL, "resnet_time_scale_shift": "scale_shift", "sample_size": [8, 12]}, 2, 8, 12),
    "scale_shift_attn_groups": (
        {**SMALL, "resnet_time_scale_shift": "scale_shift", "attn_norm_num_groups": 8, "attention_head_dim": 4}, 2, 8, 8),
    "class_table": ({**SMALL, "num_class_embeds": 7, "act_fn": "mish", "time_embedding_dim": None}, 3, 8, 8),
    "class_timestep": ({**SMALL, "class_embed_type": "timestep", "act_fn": "gelu", "in_channels": 1}, 2, 8, 8),
    "class_identity": ({**SMALL, "class_embed_type": "identity", "act_fn": "relu", "out_channels": 6}, 2, 8, 8),
    "attention": (
        {**SMALL, "block_out_channels": [8, 8, 16], "layers_per_block": 3, "attention_head_dim": None,
         "down_block_types": ["AttnDownBlock2D", "DownBlock2D", "AttnDownBlock2D"],
         "up_block_types": ["UpBlock2D", "AttnUpBlock2D", "AttnUpBlock2D"]}, 1, 12, 8),
    "resnet_resampling": (
        {**SMALL, "down_block_types": ["AttnDownBlock2D", "DownBlock2D"], "up_block_types": ["AttnUpBlock2D", "UpBlock2D"],
         "downsample_type": "resnet", "upsample_type": "resnet", "attention_head_dim": 2}, 2, 10, 6),
    "padding_0": ({**SMALL, "downsample_padding": 0, "mid_block_scale_factor": 1.4142135623730951, "norm_eps": 1e-3,
                   "time_embedding_type": "learned", "num_train_timesteps": 50}, 2, 6, 14),
    "fourier": ({**SMALL, "time_embedding_type": "fourier", "center_input_sample": True, "add_attention": False}, 2, 8, 8),
    "one_level": (
        {**SMALL, "block_out_channels": [18], "down_block_types": ["DownBlock2D"], "up_block_types": ["UpBlock2D"],
         "norm_num_groups": 3, "flip_sin_to_cos": False, "freq_shift": 1, "layers_per_block": 2, "attention_head_dim": 6}, 2, 7, 5),
    "growing_frequencies": ({**SMALL, "freq_shift": 20, "mid_block_scale_factor": -1.5}, 2, 8, 8),
    "one_channel": (
        {**SMALL, "block_out_channels": [1, 4], "norm_num_groups": 1, "attention_head_dim": 1, "freq_shift": 3}, 2, 6, 4),
    "residual_blocks": (
        {**SMALL, "down_block_types": ["ResnetDownsampleBlock2D", "DownBlock2D"],
         "up_block_types": ["UpBlock2D", "ResnetUpsampleBlock2D"], "attention_head_dim": 3}, 2, 8, 8),
    "residual_resampling": (
        {**SMALL, "down_block_types": ["ResnetDownsampleBlock2D", "DownBlock2D"],
         "up_block_types": ["ResnetUpsampleBlock2D", "UpBlock2D"]}, 2, 8, 8),
    "skip_blocks": (
        {**SMALL, "block_out_channels": [8, 12], "down_block_types": ["SkipDownBlock2D", "SkipDownBlock2D"],
         "up_block_types": ["SkipUpBlock2D", "SkipUpBlock2D"], "act_fn": "mish"}, 2, 8, 12),
    "skip_blocks_with_attention": (
        {**SMALL, "block_out_channels": [32, 32], "down_block_types": ["AttnSkipDownBlock2D", "DownBlock2D"],
         "up_block_types": ["UpBlock2D", "AttnSkipUpBlock2D"], "attention_head_dim": 16, "mid_block_type": None}, 1, 8, 8),
    "skip_blocks_with_attention_up": (
        {**SMALL, "block_out_channels": [32, 32], "down_block_types": ["AttnSkipDownBlock2D", "AttnSkipDownBlock2D"],
         "up_block_types": ["AttnSkipUpBlock2D", "AttnSkipUpBlock2D"], "attention_head_dim": 16,
         "mid_block_type": None, "resnet_time_scale_shift": "scale_shift"}, 1, 8, 8),
    "k_blocks": (
        {**SMALL, "block_out_channels": [32, 48], "down_block_types": ["KDownBlock2D", "KDownBlock2D"],
         "up_block_types": ["KUpBlock2D", "KUpBlock2D"], "act_fn": "gelu", "mid_block_type": None}, 1, 8, 12),
    "no_mid_block": ({**SMALL, "block_out_channels": [9, 18], "norm_num_groups": 3, "mid_block_type": None,
                      "attention_head_dim": 3, "act_fn": "swish"}, 2, 4, 6),
    "skip_blocks_of_own_groups": (
        {**SMALL, "norm_num_groups": None, "block_out_channels": [8, 12], "down_block_types": ["SkipDownBlock2D", "SkipDownBlock2D"],
         "up_block_types": ["SkipUpBlock2D", "SkipUpBlock2D"]}, 1, 8, 8),
    "k_blocks_of_own_groups": (
        {**SMALL, "norm_num_groups": None, "block_out_channels": [32, 32], "down_block_types": ["KDownBlock2D", "KDownBlock2D"],
         "up_block_types": ["KUpBlock2D", "KUpBlock2D"], "act_fn": "gelu"}, 1, 8, 8),
}


def let_filters_work_in_float64():
    """diffusers makes the kernels of its FIR filters in float32, whatever they are applied to."""
    for module in (diffusers.models.downsampling, diffusers.models.upsampling):
        original = module.upfirdn2d_native
        module.upfirdn2d_native = lambda x, kernel, original=original, **options: original(x, kernel.to(x.dtype), **options)


def uniform_like(shape, seed, step, position):
    return philox.uniform(seed, step, position, math.prod(shape)).reshape(shape)


def weights(model, seed):
    """Parameter i in the bytewise order of names, of unit gain: activations stay near 1."""
    state = {}
    for i, (name, value) in enumerate(sorted(model.state_dict().items())):
        u = uniform_like(tuple(value.shape), seed, STEP_WEIGHTS, i)
        if value.dim() > 1:
            u = u * np.float32(math.sqrt(3.0 / math.prod(value.shape[1:])))
        elif name.endswith("weight"):
            u = np.float32(1.0) + np.float32(0.25) * u
        else:
            u = np.float32(0.25) * u
        state[name] = torch.from_numpy(u)
    return state


def inputs(model, images, height, width, seed):
    """Images, targets, timesteps and class labels (None without class embedding)."""
    c = model.config
    x = np.stack([uniform_like((c.in_channels, height, width), seed, STEP_IMAGE, i) for i in range(images)])
    target = np.stack([uniform_like((c.out_channels, height, width), seed, STEP_TARGET, i) for i in range(images)])
    if c.time_embedding_type == "fourier":
        t = np.concatenate([philox.uniform(seed, STEP_TIME, i, 1) + np.float32(1.25) for i in range(images)])
    else:
        count = c.num_train_timesteps or TIMESTEPS
        t = np.array([philox.below(count, seed, STEP_TIME, i) for i in range(images)])
    labels = None
    if c.class_embed_type == "identity":
        labels = np.stack([philox.uniform(seed, STEP_LABEL, i, c.time_embedding_dim) for i in range(images)])
    elif c.class_embed_type == "timestep" or c.num_class_embeds:
        count = c.num_class_embeds or c.num_train_timesteps or TIMESTEPS
        least = 1 if c.class_embed_type == "timestep" and c.time_embedding_type == "fourier" else 0  # its logarithm is taken
        labels = np.array([max(least, philox.below(count, seed, STEP_LABEL, i)) for i in range(images)])
    return x, target, t, labels


def tensor(array):
    if array is None:
        return None
    return torch.from_numpy(array).double() if array.dtype == np.float32 else torch.from_numpy(array)


def differentiated(configuration, seed, kinks=None):
    """The model with its gradients, its output and its loss, in float64. `kinks`: see KinkedReLU."""
    arguments, images, height, width = configuration
    model = diffusers.UNet2DModel(**arguments).double().eval()  # without dropout
    model.load_state_dict(weights(model, seed))
    if kinks is not None:
        for module in list(model.modules()):
            for name, child in module.named_children():
                if isinstance(child, torch.nn.ReLU):
                    setattr(module, name, KinkedReLU(kinks))
    model.time_proj.register_forward_hook(lambda module, arguments, features: features.double())
    x, target, t, labels = map(tensor, inputs(model, images, height, width, seed))
    t, labels = (n.double() if n is not None and n.is_floating_point() else n for n in (t, labels))
    output = model(x, t, labels).sample
    loss = torch.nn.functional.mse_loss(output, target)
    loss.backward()
    return model, output, loss


class Kinks:
    """What the relus of one forward pass share: the tensors that came into them, which units of these lie as near to 0 as float32
    rounds, and at which of these, pairs of tensor and place, the slope is the other one. Many relus may take the same tensor, the
    embedding of time say, whose units then lie on one side for all of them."""

    def __init__(self, turned=()):
        self.turned, self.near, self.tensors = turned, [], []

    def number(self, x):
        """That of a tensor, which is looked at when it comes for the first time."""
        for i, seen in enumerate(self.tensors):
            if seen is x:
                return i
        flat = x.detach().reshape(-1)
        near = flat.abs() <= FLOAT32_ROUNDS * flat.square().mean().sqrt()
        self.tensors.append(x)
        self.near += [(len(self.tensors) - 1, place) for place in near.nonzero()[:, 0].tolist()]
        return len(self.tensors) - 1


class KinkedReLU(torch.nn.Module):
    def __init__(self, kinks):
        super().__init__()
        self.kinks = kinks

    def forward(self, x):
        number = self.kinks.number(x)
        slope = (x.detach().reshape(-1) > 0).to(x.dtype)
        for place in (place for turned, place in self.kinks.turned if turned == number):
            slope[place] = 1 - slope[place]
        slope = slope.reshape(x.shape)
        return x * slope + (x.relu() - x * slope).detach()


def beyond_kinks(configuration, seed):
    """relu's derivative jumps at 0, and float32 may put a unit that is nearly 0 on either side: the gradients for each choice of
    such units, [choices, elements]. None where no unit is."""
    kinks = Kinks()
    differentiated(configuration, seed, kinks)
    if len(kinks.near) > MOST_KINKS:
        raise SystemExit(f"{len(kinks.near)} units lie at relu's jump, at most {MOST_KINKS} are wanted; seed {seed}")
    choices = [choice for n in range(1, len(kinks.near) + 1) for choice in itertools.combinations(kinks.near, n)]
    gradients = [gradients_of(differentiated(configuration, seed, Kinks(choice))[0]) for choice in choices]
    return np.stack(gradients).astype(np.float32) if gradients else None


def gradients_of(model):
    """All gradients, one after the other by their parameters' names."""
    parts = [p.grad if p.requires_grad else torch.zeros_like(p) for _, p in sorted(model.named_parameters())]
    return torch.cat([part.reshape(-1) for part in parts]).numpy()


def make(configuration, seed, gradient_type=np.float16):
    """Tensors and metadata of one golden file."""
    _, _, height, width = configuration
    model, output, loss = differentiated(configuration, seed)

    parameters, scales, gradients = [], [], []
    for parameter_name, p in sorted(model.named_parameters()):
        parameters.append([parameter_name, list(p.shape), p.requires_grad])
        gradient = (p.grad if p.requires_grad else torch.zeros_like(p)).numpy().reshape(-1)
        scale = float(np.abs(gradient).max()) or 1.0
        scales.append(scale)
        gradients.append((gradient / scale).astype(gradient_type))
    assert [entry[0] for entry in parameters] == sorted(model.state_dict())
    tensors = {
        "output": output.detach().numpy().astype(np.float32),
        "loss": np.array([loss.item()], dtype=np.float32),
        "gradients": np.concatenate(gradients),
        "gradient_scales": np.array(scales, dtype=np.float32),
    }
    config = {key: value for key, value in model.config.items() if not key.startswith("_")}
    metadata = {
        "diffusers": diffusers.__version__,
        "torch": torch.__version__,
        "seed": str(seed),
        "height": str(height),
        "width": str(width),
        "config": json.dumps(config),
        "parameters": json.dumps(parameters, separators=(",", ":")),
    }
    beyond = beyond_kinks(configuration, seed) if config["act_fn"] == "relu" else None
    if beyond is not None:
        tensors["gradients_beyond"] = beyond
    return tensors, metadata


def write(name, tensors, metadata, folder):
    path = folder / f"{name}.safetensors"
    save_file(tensors, path, metadata)
    rms = float(np.sqrt(np.mean(np.square(tensors["output"]))))
    print(f"{path}: {tensors['gradients'].size} parameters, output rms {rms:.3f}, loss {tensors['loss'][0]:.4f}")


def write_random(count, seed, folder):
    refused = 0
    for i in range(count):
        name = f"random_{seed}_{i}"
        configuration = random_configurations.draw(seed, i)
        try:
            tensors, metadata = make(configuration, seed + i, np.float32)
        except (ValueError, TypeError, RuntimeError, IndexError, ZeroDivisionError, AssertionError) as error:
            refused += 1
            path = folder / f"{name}.refused.json"
            path.write_text(json.dumps({"config": configuration[0], "height": configuration[2], "width": configuration[3],
                                        "diffusers": f"{type(error).__name__}: {error}"}))
            continue
        write(name, tensors, metadata, folder)
    print(f"{count} configurations, of which diffusers refused {refused}")


def check_exports(folder, exports):
    """Every model of `folder` that the program exported is diffusers' own: each key, each bit."""
    checked = 0
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, "np") as file:
            metadata = file.metadata()
        config = json.loads(metadata["config"])
        wanted = weights(diffusers.UNet2DModel(**config), int(metadata["seed"]))
        model = diffusers.UNet2DModel.from_pretrained(exports / path.stem / "unet")
        seen = model.state_dict()
        assert sorted(seen) == sorted(wanted), path.stem
        for name, value in wanted.items():
            assert torch.equal(seen[name], value), f"{path.stem}: {name}"
        for key, value in config.items():
            held = model.config[key]
            assert held == value or list(held) == list(value), f"{path.stem}: {key} = {held}, wanted {value}"
        checked += 1
    assert checked > 0
    print(f"{checked} exported models are diffusers' own, bit for bit")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path(__file__).parent)
    parser.add_argument("--only", choices=CONFIGURATIONS, help="one configuration (default: all)")
    parser.add_argument("--random", type=int, metavar="N", help="draw N configurations in place of those of this file")
    parser.add_argument("--seed", type=int, default=20240607)
    parser.add_argument("--check-exports", type=pathlib.Path, metavar="DIR", help="compare what tests/interop/export_golden.cpp wrote")
    options = parser.parse_args()
    if diffusers.__version__ != DIFFUSERS_VERSION:
        raise SystemExit(f"diffusers {DIFFUSERS_VERSION} is wanted, {diffusers.__version__} is installed")
    torch.set_num_threads(1)
    let_filters_work_in_float64()
    if options.check_exports:
        return check_exports(options.output, options.check_exports)
    if options.random:
        return write_random(options.random, options.seed, options.output)
    for name in [options.only] if options.only else CONFIGURATIONS:
        write(name, *make(CONFIGURATIONS[name], options.seed), options.output)


if __name__ == "__main__":
    main()
