"""What was measured: reads the jobs' results strictly, one JSON object per line, and takes from them what the model needs.

A step is split into four parts that add up to its median duration: computing (forward, backward, noise and bookkeeping),
exposed communication (ranks wait for each other, wherever that was), waiting for images, and the update (optimizer and
averages).
"""

import json
import math
import os

from description import KINDS, PRECISIONS, Point, StudyError, point_of_json

FORMAT = 1
PARTS = ("compute", "communication", "data", "optimizer")
MODELLED = {"gradients", "weights"}  # as `ddpm plan` names what is sent


class Sample:
    """One job's result. `name` says where it is from, for messages."""

    def __init__(self, value, name):
        if not isinstance(value, dict) or value.get("format") != FORMAT:
            raise StudyError(f'{name}: "format" is not {FORMAT}: no result of this version of study.py')
        self.value = value
        look = Look(value, name)
        self.point = read_point(look)
        self.repeat = look.count("point", "repeat")
        self.job, self.hosts, self.version = (look.text("job", key) for key in ("id", "hosts", "version"))
        self.seconds = look.positive("step", "seconds_per_step")
        self.images_per_second = look.positive("step", "images_per_second")
        self.parts, self.forward, self.backward = split(look, self.seconds)
        self.parameters = look.count("step", "parameters")
        self.peak_memory_bytes = look.count("step", "peak_memory_bytes")
        self.lines = look.lines("plan", "communication", ("calls", "sent_bytes", "ranks"), ("collective", "of"))
        value["plan"] = {"communication": self.lines}  # the rest is the plan's own table
        self.collectives = []
        if self.point.ranks > 1:
            self.collectives = look.lines("comm", "collectives", ("bytes",), ("kind",), ("seconds", "median"))
        for part in ("comm", "step"):
            ranks = (value.get(part) or {}).get("ranks", self.point.ranks)
            if ranks != self.point.ranks:
                raise StudyError(f"{name}: {part}.ranks is {ranks}; the point wants {self.point.ranks}: see --launch or `options`")
        for key, wanted in told_by(self.point).items():
            if value["step"].get(key, wanted) != wanted:
                raise StudyError(f"{name}: step.{key} is {json.dumps(value['step'][key])[:80]}; the point wants {wanted}")
        shown = {line["ranks"] for line in self.lines}
        if self.point.ranks > 1 and shown != {self.point.ranks}:
            raise StudyError(
                f"{name}: communicating groups of {sorted(shown)} of {self.point.ranks} ranks; the model wants one group:"
                " leave parallel.dp_shard_size as it is"
            )
        others = sorted({line["of"] for line in self.lines} - MODELLED)
        if others:
            raise StudyError(
                f"{name}: ranks exchange {', '.join(others)}; the model wants gradients and weights alone: set no keys of"
                " [parallel] that make islands (sync_every), replicas, tiles, stages or parts"
            )

    @property
    def key(self):
        return self.point, self.repeat


class Look:
    """Values at a path of keys; what is not as it should be is one line."""

    def __init__(self, value, name):
        self._value, self.name = value, name

    def at(self, *path):
        value = self._value
        for key in path:
            if not isinstance(value, dict) or key not in value:
                raise StudyError(f"{self.name}: {'.'.join(path)} is missing")
            value = value[key]
        return value

    def wanted(self, ok, path, what):
        value = self.at(*path)
        if not ok(value):
            raise StudyError(f"{self.name}: {'.'.join(path)} is {json.dumps(value)[:80]}; wanted: {what}")
        return value

    def positive(self, *path):
        return float(self.wanted(lambda v: is_number(v) and v > 0, path, "a positive number"))

    def seconds(self, *path):
        return float(self.wanted(lambda v: is_number(v) and v >= 0, path, "a number of at least 0"))

    def count(self, *path):
        return self.wanted(lambda v: is_number(v) and v == int(v) and v >= 1, path, "a positive integer")

    def text(self, *path):
        return self.wanted(lambda v: isinstance(v, str), path, "a text")

    def lines(self, table, key, counts, texts, inner=None):
        rows = self.wanted(lambda v: isinstance(v, list), (table, key), "a list")
        for i, row in enumerate(rows):
            one = Look(row, f"{self.name}: {table}.{key}[{i}]")
            for name in texts:
                one.text(name)
            for name in counts:
                one.positive(name)
            if inner:
                one.positive(*inner)
        return rows


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def read_point(look):
    for key in ("nodes", "micro_size", "batch", "ranks_per_node"):
        look.count("point", key)
    look.wanted(lambda v: v in KINDS, ("point", "kind"), " or ".join(KINDS))
    look.wanted(lambda v: v in (0, 1, 2, 3), ("point", "zero_stage"), "0 to 3")
    look.wanted(lambda v: v in PRECISIONS, ("point", "mixed_precision"), ", ".join(PRECISIONS))
    point: Point = point_of_json(look.at("point"))
    return point


def told_by(point):
    """What `ddpm bench step` says of the point that it measured."""
    precision = point.series.mixed_precision
    return {
        "global_size": point.global_size,
        "micro_size": point.micro_size,
        "precision": "float32" if precision == "no" else precision,
    }


def split(look, seconds):
    """The parts, and what of them is forward and backward; all in proportion to the median step.

    `ddpm bench step` counts waiting after backward as reduction, and waiting in the midst of forward and backward (stages
    1 to 3 gather weights there) with these; its mean_comm_wait is both. Older results have that of the slowest rank alone.
    """
    names = ("data", "forward", "backward", "reduction", "optimizer", "ema", "other")
    told = {name: look.seconds("step", "seconds", name) for name in names}
    total = sum(told.values())
    if total <= 0:
        raise StudyError(f"{look.name}: step.seconds are all 0")
    waited = "mean_comm_wait_seconds" if "mean_comm_wait_seconds" in look.at("step") else "comm_wait_seconds"
    within = max(0.0, look.seconds("step", waited) - told["reduction"])
    within = min(within, told["forward"] + told["backward"])
    computing = told["forward"] + told["backward"] - within
    scale = seconds / total
    parts = {
        "compute": (computing + told["other"]) * scale,
        "communication": (told["reduction"] + within) * scale,
        "data": told["data"] * scale,
        "optimizer": (told["optimizer"] + told["ema"]) * scale,
    }
    share = computing / max(told["forward"] + told["backward"], 1e-300) * scale
    return parts, told["forward"] * share, told["backward"] * share


def parse(line, name):
    try:
        value = json.loads(line)
    except ValueError as error:
        raise StudyError(f"{name}: no JSON: {error}") from None
    return Sample(value, name)


def read_result(path):
    """A job's own."""
    return parse(path.read_text(errors="replace"), str(path))


def read_samples(path):
    """The results that `collect` has gathered. A point measured twice under one repeat is refused."""
    if not path.exists():
        raise StudyError(f"{path} is missing; `study.py collect` writes it")
    samples = {}
    for i, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        sample = parse(line, f"{path}:{i}")
        if sample.key in samples:
            raise StudyError(f"{path}:{i}: {sample.point.name}, repeat {sample.repeat}, is there twice")
        samples[sample.key] = sample
    if not samples:
        raise StudyError(f"{path} is empty: no job has finished")
    return list(samples.values())


def write_samples(path, samples):
    """Whole or not at all."""
    incoming = path.with_name(f".{path.name}-{os.getpid()}")
    incoming.write_text("".join(json.dumps(sample.value, separators=(",", ":")) + "\n" for sample in samples))
    os.replace(incoming, path)
