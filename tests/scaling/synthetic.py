"""Results of studies on machines of known constants. The formulas are written out here by themselves: they share nothing
with jobs/scaling/model.py but the paper."""

import json
import math
import os
import pathlib
import random
import sys

SOURCE = pathlib.Path(os.environ["DDPM_SOURCE_DIR"])
sys.path.insert(0, str(SOURCE / "jobs" / "scaling"))
from description import Series, make_point  # noqa: E402
from results import Sample  # noqa: E402


class Machine:
    """Seconds per message and byte between nodes and within them, per image, per update of the whole state."""

    def __init__(self, **constants):
        self.alpha, self.beta = 20e-6, 1e-9
        self.alpha_within, self.beta_within = 2e-6, 1e-10
        self.omega = 0.5
        self.idle = 0.0
        self.fixed, self.per_image = 0.010, 0.020
        self.update = 0.005
        self.data = 0.001
        self.parameters, self.buckets = 25_000_000, 4
        for name, value in constants.items():
            if not hasattr(self, name):
                raise TypeError(name)
            setattr(self, name, value)

    def all_reduce(self, nodes, per_node, calls, size):
        return 2 * self.half(nodes, per_node, calls, size)

    def half(self, nodes, per_node, calls, size):
        """A reduce-scatter, or an all-gather."""
        k, g = nodes, per_node
        within = calls * (g - 1) * self.alpha_within + (g - 1) / g * size * self.beta_within
        return within + calls * (k - 1) * self.alpha + (k - 1) / k * size * self.beta

    def parts(self, point):
        images, k, g = point.images_per_rank, point.nodes, point.series.ranks_per_node
        computing = self.fixed + self.per_image * images
        forward, backward = computing / 3, computing * 2 / 3
        size, calls, times = 4 * self.parameters, self.buckets, point.accumulation
        stage = point.series.zero_stage
        if k * g == 1:
            exposed = 0.0
        elif stage == 0:
            all_of_it = self.all_reduce(k, g, calls, size)
            exposed = max(all_of_it / calls, all_of_it - self.omega * backward / times)
        elif stage == 1:
            scattered = self.half(k, g, calls, size)
            exposed = max(scattered / calls, scattered - self.omega * backward / times) + self.half(k, g, calls, size)
        elif stage == 2:
            scattered = times * self.half(k, g, calls, size)
            exposed = max(scattered / calls / times, scattered - self.omega * backward) + self.half(k, g, calls, size)
        else:
            everything = 3 * times * self.half(k, g, calls, size)
            exposed = max(self.half(k, g, 1, size / calls), everything - self.omega * (forward + backward))
        idle = self.idle if k * g > 1 else 0.0
        share = 1 if stage == 0 else k * g
        return {"forward": forward, "backward": backward, "reduction": exposed + idle, "data": self.data,
                "optimizer": self.update / share, "ema": 0.0, "other": 0.0}  # fmt: skip

    def seconds(self, point):
        return sum(self.parts(point).values())

    def result(self, point, repeat, noise=None):
        """A result as point.sbatch writes it. `noise` gives a factor for each duration."""
        factor = noise or (lambda: 1.0)
        parts = {name: value * factor() for name, value in self.parts(point).items()}
        step = sum(parts.values())
        n, k, g = point.ranks, point.nodes, point.series.ranks_per_node
        size, times, stage = 4 * self.parameters, point.accumulation, point.series.zero_stage
        lines = []
        if n > 1 and stage == 0:
            lines = [("all-reduce", "gradients", self.buckets, 2 * size)]
        elif n > 1:
            sums, gathers = (1 if stage == 1 else times), (2 * times if stage == 3 else 1)
            lines = [("reduce-scatter", "gradients", sums * self.buckets, sums * size),
                     ("all-gather", "weights", gathers * self.buckets, gathers * size)]  # fmt: skip
        told = [
            {"collective": kind, "of": of, "ranks": n, "calls": calls, "sent_bytes": all_of_it * (n - 1) / n, "seconds": 1.0}
            for kind, of, calls, all_of_it in lines
        ]
        collectives = [
            {"kind": kind, "bytes": 4**i, "seconds": {"median": times_half * self.half(k, g, 1, 4**i) * factor()}}
            for i in range(6, 14)
            for kind, times_half in (("all_reduce", 2), ("reduce_scatter", 1), ("all_gather", 1))
        ]
        return {
            "format": 1,
            "point": {**point.as_json(), "repeat": repeat},
            "job": {"id": f"{1000 * k + repeat}", "hosts": f"node[1-{k}]", "version": "ddpm 0.1.0", "ended": ""},
            "step": {
                "precision": point.series.mixed_precision, "global_size": point.global_size, "micro_size": point.micro_size,
                "images_per_second": point.global_size / step, "seconds_per_step": step, "seconds": parts,
                "comm_wait_seconds": parts["reduction"], "mean_comm_wait_seconds": parts["reduction"],
                "parameters": self.parameters, "peak_memory_bytes": 2_000_000_000,
            },
            "comm": {"collectives": collectives} if n > 1 else None,
            "plan": {"communication": told},
        }  # fmt: skip


def noise_of(seed, sigma):
    generator = random.Random(seed)
    # Box-Muller from random(), which Python promises to keep, unlike gauss().
    return lambda: math.exp(
        sigma * math.sqrt(-2 * math.log(1 - generator.random())) * math.cos(2 * math.pi * generator.random())
    )


def study(machine, series, nodes, repeats=3, noise=None, micro_size=8):
    """Samples of a study that is done."""
    return [
        Sample(machine.result(make_point(one, k, micro_size), repeat, noise), "synthetic")
        for one in series for k in nodes for repeat in range(1, repeats + 1)
    ]  # fmt: skip


def weak(batch=8, stage=0, per_node=1):
    return Series("weak", batch, stage, "bf16", per_node)


def strong(batch=256, stage=0, per_node=1):
    return Series("strong", batch, stage, "bf16", per_node)


def jsonl(samples):
    return "".join(json.dumps(sample.value) + "\n" for sample in samples)
