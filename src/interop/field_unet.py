"""A UNet2DModel of diffusers with what it has no key for: numbers, such as physical parameters, that are given with each
image, periodic axes, and volumes.

    from field_unet import FieldUNet2D

    unet = FieldUNet2D.from_folder("PATH OF THIS FOLDER")
    prediction = unet(noisy_images, timesteps, parameters)

`parameters` [n, p] are as the data set holds them; they are standardised here. What else the model is given stands beside
the noisy images as further channels, in the order condition, static values, positions; normalization.json lists them.
Volumes are [n, channels, depth, height, width].
"""

import functools
import json
import pathlib

import torch
from diffusers import UNet2DModel
from diffusers.models.resnet import Downsample2D, Upsample2D
from safetensors.torch import load_file
from torch.nn import functional


class Flat:
    """Images as they are."""

    axes = 2

    def spread(self, x):
        return x

    def flatten(self, x):
        return x


class Volumes:
    """Volumes whose layers lie one below the other, which norms and attention take for images."""

    axes = 3

    def __init__(self, depth, width):
        self.depth, self.width = depth, width

    def spread(self, x):
        return x.unflatten(2, (self.depth * x.shape[3] // self.width, -1))

    def flatten(self, x):
        return x.flatten(2, 3)


def convolve(layer, form, modes, margin, x):
    """A convolution with `margin` (before, after) pixels of zeros or of the other side along each axis."""
    x = form.spread(x)
    for axis, mode in enumerate(modes):
        margins = [0] * (2 * form.axes)
        margins[-2 - 2 * axis : len(margins) - 2 * axis] = margin
        x = functional.pad(x, margins, mode=mode)
    run = functional.conv2d if form.axes == 2 else functional.conv3d
    return form.flatten(run(x, layer.weight, layer.bias, layer.stride[0]))


def upsample(layer, form, x, output_size=None):
    x = form.flatten(functional.interpolate(form.spread(x), scale_factor=2.0, mode="nearest"))
    return layer.conv(x) if layer.use_conv else x


def reshape(model, form, padding):
    """Has all layers of the model that see neighbours see those of `form` and `padding`."""
    modes = ["circular" if axis == "periodic" else "constant" for axis in padding]
    if len(modes) == 1:
        modes *= form.axes
    margins = {layer: (layer.padding[0],) * 2 for layer in model.modules() if isinstance(layer, torch.nn.Conv2d)}
    for layer in model.modules():
        if isinstance(layer, Downsample2D) and layer.use_conv and layer.padding == 0:
            layer.padding = 1  # which leaves it to the convolution
            margins[layer.conv] = (0, 1)
        if isinstance(layer, torch.nn.AvgPool2d) and form.axes == 3:
            layer.forward = lambda x: form.flatten(functional.avg_pool3d(form.spread(x), 2))
        if isinstance(layer, Upsample2D) and form.axes == 3:
            layer.forward = functools.partial(upsample, layer, form)
    for layer, margin in margins.items():
        side = layer.kernel_size[0]
        if form.axes == 3:
            layer.weight = torch.nn.Parameter(torch.empty(*layer.weight.shape[:2], side, side, side))
        layer.forward = functools.partial(convolve, layer, form, modes, margin)


class TimeAndParameters(torch.nn.Module):
    """The embedding of the time step, to which that of the parameters is added."""

    def __init__(self, time_embedding, count):
        super().__init__()
        width = time_embedding.linear_2.out_features
        self.time_embedding = time_embedding
        self.linear_1 = torch.nn.Linear(count, width)
        self.linear_2 = torch.nn.Linear(width, width)
        self.parameters_of_images = None
        self.kept = None

    def forward(self, sample, condition=None):
        hidden = torch.nn.functional.silu(self.linear_1(self.parameters_of_images.to(sample.dtype)))
        embedding = self.linear_2(hidden)
        if self.kept is not None:
            embedding = torch.where(self.kept[:, None], embedding, torch.zeros_like(embedding))
        return self.time_embedding(sample, condition) + embedding


class FieldUNet2D(torch.nn.Module):
    def __init__(self, config, fields=()):
        super().__init__()
        config = {key: value for key, value in config.items() if not key.startswith("_")}
        count = config.pop("num_parameters", 0)
        padding = config.pop("padding", ["zeros"])
        size = config["sample_size"]
        size = size if isinstance(size, list) else [size]
        self.form = Volumes(size[0], size[-1]) if config.pop("dimensions", 2) == 3 else Flat()
        self.unet = UNet2DModel(**config)
        if "periodic" in padding or self.form.axes == 3:
            reshape(self.unet, self.form, padding)
        if count:
            self.unet.time_embedding = TimeAndParameters(self.unet.time_embedding, count)
        mean, std = torch.zeros(count), torch.ones(count)
        for field in fields:
            for i, variable in enumerate(field["variables"] if field["role"] == "parameters" else ()):
                transform = variable["transform"]
                if transform["type"] == "standardize":
                    mean[i], std[i] = transform["mean"], transform["std"]
                else:
                    mean[i], std[i] = -transform["offset"] / transform["scale"], 1 / transform["scale"]
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)

    @classmethod
    def from_folder(cls, folder):
        folder = pathlib.Path(folder)
        fields = json.loads((folder / "normalization.json").read_text()).get("fields", ())
        model = cls(json.loads((folder / "unet" / "config.json").read_text()), fields)
        weights = load_file(folder / "unet" / "field_unet.safetensors")
        names = {"time_embedding.": "time_embedding.time_embedding.", "parameter_embedding.": "time_embedding."}
        renamed = {}
        for name, weight in weights.items():
            for old, new in names.items() if len(model.mean) else ():
                if name.startswith(old):
                    name = new + name[len(old):]
                    break
            renamed[name] = weight
        model.unet.load_state_dict(renamed)
        return model.eval()

    def forward(self, sample, timesteps, parameters=None, class_labels=None, kept=None):
        """`kept` [n], of bool: where it is False the image's parameters are left out."""
        if (parameters is None) != (len(self.mean) == 0):
            raise ValueError(f"wanted: parameters [n, {len(self.mean)}]" if len(self.mean) else "the model takes no parameters")
        if parameters is not None:
            self.unet.time_embedding.parameters_of_images = (parameters - self.mean) / self.std
            self.unet.time_embedding.kept = kept
        sample = self.form.flatten(sample)
        return self.form.spread(self.unet(sample, timesteps, class_labels=class_labels).sample)
