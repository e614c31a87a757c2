"""What a study is: reads and checks study.toml (or study.json), and lists the points to measure.

A point is one way to run the program: how many nodes, ranks, images, which ZeRO stage and precision. Points that differ
in the number of nodes only are a series: a line of a plot.
"""

import collections
import difflib
import json
import math
import pathlib
import re

PRECISIONS = ("no", "bf16", "fp16")
KINDS = {"strong": "global_batch", "weak": "batch_per_rank"}
EXTRAPOLATE_TO = (64, 256, 1000)


class StudyError(Exception):
    """One line for the user: what is wrong where, the value seen and the value wanted."""


Series = collections.namedtuple("Series", "kind batch zero_stage mixed_precision ranks_per_node")
Series.__doc__ = """`batch` is the global batch of a strong series, the images per rank and step of a weak one."""


class Point(collections.namedtuple("Point", "series nodes micro_size")):
    """`micro_size`: images that a rank takes at once; its share of the batch is a multiple of that."""

    @property
    def ranks(self):
        return self.nodes * self.series.ranks_per_node

    @property
    def images_per_rank(self):
        """Images of one step. Not an integer where a strong series continues beyond one image per rank."""
        return self.series.batch if self.series.kind == "weak" else exact(self.series.batch, self.ranks)

    @property
    def global_size(self):
        return self.series.batch if self.series.kind == "strong" else self.series.batch * self.ranks

    @property
    def accumulation(self):
        """Micro-batches per step."""
        return max(1, self.images_per_rank // self.micro_size)

    @property
    def name(self):
        s = self.series
        return f"{s.kind}-{s.batch}-zero{s.zero_stage}-{s.mixed_precision}-{self.nodes}x{s.ranks_per_node}"

    def as_json(self):
        return {**self.series._asdict(), "nodes": self.nodes, "micro_size": self.micro_size}


def counted(number, noun):
    """ "1 node", "2 nodes" """
    return f"{number} {noun}{'' if number == 1 else 's'}"


def exact(images, ranks):
    return images // ranks if images % ranks == 0 else images / ranks


def make_point(series, nodes, micro_size):
    """The micro-batch becomes the share's largest divisor that is no larger than `micro_size`, as in `ddpm plan`."""
    share = Point(series, nodes, 1).images_per_rank
    if share != int(share):
        raise StudyError(
            f"strong.global_batch {series.batch} is not a multiple of {counted(nodes, 'node')} x"
            f" {counted(series.ranks_per_node, 'rank')}"
        )
    return Point(series, nodes, max(d for d in range(1, min(micro_size, share) + 1) if share % d == 0))


def point_of_json(value):
    fields = [value[name] for name in (*Series._fields, "nodes", "micro_size")]
    return Point(Series(*fields[:5]), *fields[5:])


class Study:
    """`folder` has the description; jobs, results and the report go there."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.source = find_description(self.folder)
        values = checked(read(self.source), self.source)
        self.name = values["name"]
        self.config = pathlib.Path(values["config"])
        self.nodes = sorted(values["nodes"])
        self.repeats = values["repeats"]
        self.steps, self.warm_up = values["steps"], values["warm_up"]
        self.settings = values["set"]
        self.sbatch = values["slurm"]["options"]
        self.comm_max_mib, self.comm_repeats = values["comm"]["max_mib"], values["comm"]["repeats"]
        self.extrapolate = sorted(set(values["extrapolate"]["nodes"]))
        self._values = values

    def series(self):
        v = self._values
        return [
            Series(kind, batch, stage, precision, per_node)
            for kind, key in KINDS.items()
            for batch in v[kind][key]
            for stage in v["zero_stage"]
            for precision in v["mixed_precision"]
            for per_node in v["ranks_per_node"]
        ]

    def points(self):
        """The points in the order in which they are run: a repeat is one pass over all of them."""
        try:
            return [make_point(one, nodes, self._values["micro_size"]) for one in self.series() for nodes in self.nodes]
        except StudyError as error:
            raise StudyError(f"{self.source}: {error}") from None


def find_description(folder):
    for name in ("study.toml", "study.json"):
        if (folder / name).exists():
            return folder / name
    raise StudyError(f"{folder}: no study.toml (or study.json); copy jobs/scaling/study.toml there and adapt it")


def read(path):
    if path.suffix == ".json":
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise StudyError(f"{path}: {error}") from None
    try:
        import tomllib
    except ImportError:
        raise StudyError(f"{path}: TOML needs Python 3.11; write the same keys into study.json, or use a newer python3") from None
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise StudyError(f"{path}: {error}") from None


# --- Checks -----------------------------------------------------------------------------------------------------------


def integer(least, most=10**9):
    return lambda v: isinstance(v, int) and not isinstance(v, bool) and least <= v <= most, f"an integer from {least} to {most}"


def number(least):
    ok = lambda v: isinstance(v, (int, float)) and not isinstance(v, bool) and math.isfinite(v) and v >= least  # noqa: E731
    return ok, f"a number of at least {least}"


def several(one, least=1):
    test, wanted = one
    ok = lambda v: isinstance(v, list) and len(v) >= least and all(map(test, v)) and len(set(v)) == len(v)  # noqa: E731
    return ok, f"a list of different values, each {wanted}"


TEXT = (lambda v: isinstance(v, str) and v != "" and "\n" not in v, "a text of one line")
PLAIN = (lambda v: isinstance(v, (str, int, float, bool)) and re.search("[\n\ud800-\udfff]", str(v)) is None,
         "a text of one line, a number or a boolean")  # fmt: skip
SETTING = (lambda v: all(map(PLAIN[0], v if isinstance(v, list) else [v])), f"{PLAIN[1]}, or a list of such")
PRECISION = (lambda v: v in PRECISIONS, f"one of {', '.join(PRECISIONS)}")
REQUIRED = object()
# What no setting may say, since other keys of the study do.
TAKEN = {
    "batch.global_size": "strong.global_batch and weak.batch_per_rank",
    "batch.micro_size": "micro_size",
    "parallel.zero_stage": "zero_stage",
    "precision.mixed_precision": "mixed_precision",
}

# Key: default and check; a table of such keys; or None, a table of keys that the program knows.
KEYS = {
    "name": ("scaling", TEXT),
    "config": (REQUIRED, TEXT),
    "nodes": (REQUIRED, several(integer(1))),
    "ranks_per_node": ([1], several(integer(1))),
    "micro_size": (REQUIRED, integer(1)),
    "zero_stage": ([0], several(integer(0, 3))),
    "mixed_precision": (["no"], several(PRECISION)),
    "repeats": (3, integer(1)),
    "steps": (20, integer(1)),
    "warm_up": (5, integer(0)),
    "strong": {"global_batch": ([], several(integer(1), 0))},
    "weak": {"batch_per_rank": ([], several(integer(1), 0))},
    "comm": {"max_mib": (64, number(1)), "repeats": (5, integer(1))},
    "slurm": {"options": ([], several(TEXT, 0))},
    "extrapolate": {"nodes": (list(EXTRAPOLATE_TO), several(integer(1), 0))},
    "set": None,
}


def checked(values, path, keys=None, prefix=""):
    """The values with defaults filled in. Throws StudyError at the first that is wrong."""
    keys = KEYS if keys is None else keys
    if not isinstance(values, dict):
        raise StudyError(f"{path}: {prefix or 'the file'} is not a table of keys")
    for name in values:
        if name not in keys:
            near = difflib.get_close_matches(name, keys, 1, 0.5)
            raise StudyError(f"{path}: unknown key {prefix}{name}" + (f"; did you mean {prefix}{near[0]}?" if near else ""))
    result = {}
    for name, rule in keys.items():
        if rule is None:
            result[name] = checked_settings(values.get(name, {}), path, name)
        elif isinstance(rule, dict):
            result[name] = checked(values.get(name, {}), path, rule, f"{name}.")
        else:
            default, (test, wanted) = rule
            value = values.get(name, default)
            if value is REQUIRED:
                raise StudyError(f"{path}: {prefix}{name} is missing; wanted: {wanted}")
            if not test(value):
                raise StudyError(f"{path}: {prefix}{name} is {json.dumps(value)}; wanted: {wanted}")
            result[name] = value
    if not prefix and not any(result[kind][key] for kind, key in KINDS.items()):
        raise StudyError(f"{path}: nothing to measure: strong.global_batch and weak.batch_per_rank are empty")
    return result


def checked_settings(values, path, table):
    test, wanted = SETTING
    for name, value in values.items() if isinstance(values, dict) else [(table, values)]:
        if "." not in name or not test(value):
            raise StudyError(f'{path}: {table}: "{name}" = {json.dumps(value)}; wanted: "section.key" = {wanted}')
        if name in TAKEN:
            raise StudyError(f'{path}: {table}: "{name}" = {json.dumps(value)}; a study takes that from {TAKEN[name]}')
        if name == "parallel.sync_every" and value != 0:
            raise StudyError(f'{path}: {table}: "{name}" = {json.dumps(value)}; wanted: 0, since the model knows no islands')
    return values
