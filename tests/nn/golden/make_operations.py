#!/usr/bin/env python3
"""Writes operations.json: floating-point operations of a forward pass of one image, as PyTorch counts them.

Per configuration of make_golden.py: all of them, and those of attention's two products. PyTorch counts where the
products are computed (torch.utils.flop_counter), and neither knows names nor shapes of the model's layers.
"""

import json
import pathlib

import diffusers
import diffusers.models.downsampling
import diffusers.models.upsampling
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from make_golden import CONFIGURATIONS, DIFFUSERS_VERSION, inputs


def do_not_count_filters():
    """Ours count matrix products. diffusers' filters are convolutions too, those of K blocks with a dense weight."""
    halve = torch.nn.functional.avg_pool2d
    double = torch.nn.functional.interpolate
    diffusers.models.downsampling.KDownsample2D.forward = lambda self, x: halve(x, 2)
    diffusers.models.upsampling.KUpsample2D.forward = lambda self, x: double(x, scale_factor=2)
    for module in (diffusers.models.downsampling, diffusers.models.upsampling):
        module.upfirdn2d_native = lambda x, kernel, up=1, down=1, pad=(0, 0): halve(x, 2) if down == 2 else double(x, scale_factor=2)


def floats(array):
    if array is None:
        return None
    return torch.from_numpy(array).float() if array.dtype.kind == "f" else torch.from_numpy(array)


def operations(name):
    arguments, _, height, width = CONFIGURATIONS[name]
    model = diffusers.UNet2DModel(**arguments)
    x, _, t, labels = map(floats, inputs(model, 1, height, width, seed=0))
    # The fused kernels of attention are none of the counter's operations on a CPU; plain products are.
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        model(x, t, labels)
    counts = {str(operation): count for operation, count in counter.get_flop_counts()["Global"].items()}
    return {"height": height, "width": width, "all": sum(counts.values()), "attention": counts.get("aten.bmm", 0)}


def main():
    if diffusers.__version__ != DIFFUSERS_VERSION:
        raise SystemExit(f"diffusers {DIFFUSERS_VERSION} is wanted, {diffusers.__version__} is installed")
    do_not_count_filters()
    result = {"diffusers": diffusers.__version__, "torch": torch.__version__}
    result["configurations"] = {name: operations(name) for name in CONFIGURATIONS}
    path = pathlib.Path(__file__).parent / "operations.json"
    path.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
