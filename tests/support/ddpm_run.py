"""For tests of the whole program: pictures to train on, a small configuration, and ways to start `ddpm`.

Python's standard library only, so that these tests run wherever the program builds.
"""

import hashlib
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import zlib

from launcher import MPIRUN

DDPM = os.environ["DDPM"]
TIMEOUT_S = 240


def write_png(path, width, height, rows):
    """An RGB picture; `rows` holds `height` bytes objects of 3 * width."""

    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    raw = b"".join(b"\0" + row for row in rows)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + data)


def make_pictures(folder, count, size=16):
    """Squares of many colours and places on a coloured ground, in two folders."""
    for i in range(count):
        left, top, side = (i * 5) % (size - 4), (i * 7) % (size - 4), 4 + i % (size // 3)
        ground = bytes([(i * 37) % 256, (i * 11) % 256, 80])
        square = bytes([255 - (i * 29) % 256, (i * 53) % 256, (i * 17) % 256])
        rows = [
            b"".join(square if left <= x < left + side and top <= y < top + side else ground for x in range(size))
            for y in range(size)
        ]
        place = folder / ("a" if i % 2 else "b")
        place.mkdir(parents=True, exist_ok=True)
        write_png(place / f"{i:04}.png", size, size, rows)


def command(*arguments, ranks=1):
    words = [DDPM, *map(str, arguments)]
    return [*MPIRUN, "-np", str(ranks), *words] if ranks > 1 else words


def ddpm(*arguments, ranks=1, check=True, env=None, inherited=None):
    """Runs the program and returns the finished process; `check` asserts success. `inherited` is its environment in place of this
    process's, `env` has variables more."""
    words = command(*arguments, ranks=ranks)
    process = subprocess.run(
        words, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
        env={**(os.environ if inherited is None else inherited), **(env or {})},
    )
    if check and process.returncode != 0:
        raise AssertionError(f"{' '.join(words)}: exit code {process.returncode}\n{process.stderr}")
    return process


def says(line, phrase):
    """Whether `phrase` stands in `line` as whole words. A number stands beside what it is of ("batch.micro_size = 3"):
    by itself it would be found in any line number, shape or path."""
    phrase = str(phrase)
    if not re.search("[^\\W\\d]", phrase):
        raise AssertionError(f"{phrase!r} has no word beside its number")
    return re.search(rf"(?<!\w){re.escape(phrase)}(?!\w|\.\d)" if phrase[-1].isalnum() else re.escape(phrase), line) is not None


def make_dataset(folder, count=60, size=16, ranks=1, *extra, inherited=None):
    """A dataset of small pictures; made once per folder."""
    if not folder.exists():
        pictures = folder.with_name(folder.name + "-pictures")
        shutil.rmtree(pictures, ignore_errors=True)
        make_pictures(pictures, count, size)
        ddpm("data", "create", pictures, "--output", folder, "--size", size, "--shards", 3, *extra, ranks=ranks, inherited=inherited)
    return folder


def write_config(path, folder, dataset, **sections):
    """A configuration of a tiny model; `sections` override keys: optimizer={"eps": 1e-4}."""
    values = {
        "run": {"directory": str(folder), "seed": 7, "device": "cpu"},
        "data": {"train": str(dataset), "block_images": 8, "pool_images": 32},
        "model": {
            "block_out_channels": [8, 16],
            "down_block_types": ["DownBlock2D", "AttnDownBlock2D"],
            "up_block_types": ["AttnUpBlock2D", "UpBlock2D"],
            "layers_per_block": 1,
            "norm_num_groups": 4,
            "attention_head_dim": 8,
        },
        "batch": {"global_size": 8, "micro_size": 2},
        "train": {"steps": 6},
        "optimizer": {"learning_rate": 2e-3},
        "lr_schedule": {"warmup_steps": 2},
        "logging": {"every_steps": 1, "progress": "off"},
        "checkpoint": {"every_steps": 1000},
    }
    for section, keys in sections.items():
        values.setdefault(section, {}).update(keys)
    lines = []
    for section, keys in values.items():
        lines.append(f"[{section}]")
        lines += [f"{key} = {json.dumps(value)}" for key, value in keys.items() if value is not None]
    path.write_text("\n".join(lines) + "\n")
    return path


# A small model of every kind of block, as keys of [model].
# The blocks have LayerNorm or groups of 32 channels of their own, whatever norm_num_groups is.
BLOCK_MODELS = {
    "skip": {"down_block_types": ["AttnSkipDownBlock2D", "SkipDownBlock2D"], "attention_head_dim": 16,
             "up_block_types": ["SkipUpBlock2D", "AttnSkipUpBlock2D"], "block_out_channels": [32, 32]},
    "k": {"down_block_types": ["KDownBlock2D", "KDownBlock2D"], "up_block_types": ["KUpBlock2D", "KUpBlock2D"],
          "block_out_channels": [32, 64], "add_attention": False},
    "residual": {"down_block_types": ["ResnetDownsampleBlock2D", "AttnDownBlock2D"], "downsample_type": "resnet",
                 "up_block_types": ["AttnUpBlock2D", "ResnetUpsampleBlock2D"], "upsample_type": "resnet"},
    "no-middle": {"mid_block_type": "", "resnet_time_scale_shift": "scale_shift", "dropout": 0.1},
}  # fmt: skip


def fill_weights(model, value):
    """Sets every weight of a model folder to one float32 number."""
    path = pathlib.Path(model) / "unet" / "diffusion_pytorch_model.safetensors"
    data = path.read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    path.write_bytes(data[:begin] + struct.pack("<f", value) * ((len(data) - begin) // 4))
    return model


def planned_bytes(plan):
    """Of the answer of `ddpm plan --json`: memory of a rank but for that of the process, which each start measures anew."""
    return plan["peak_memory_bytes"] - plan["given"]["memory_bytes"]["process"]


def metrics(run):
    return [json.loads(line) for line in (pathlib.Path(run) / "metrics.jsonl").read_text().splitlines()]


def digest_of_model(run):
    """SHA-256 of the weights of RUN/model."""
    (file,) = (pathlib.Path(run) / "model" / "unet").glob("*.safetensors")
    return hashlib.sha256(file.read_bytes()).hexdigest()


def assert_same_curve(a, b, precision=1e-4):
    """Asserts that two runs have the same losses to `precision`, and norms of gradients to ten times that share."""
    for one, other in zip(metrics(a), metrics(b), strict=True):
        assert abs(one["loss"] - other["loss"]) <= precision, (a, b, one, other)
        assert abs(one["grad_norm"] - other["grad_norm"]) <= 10 * precision * one["grad_norm"], (a, b, one, other)


# Number of ranks and ZeRO stage of runs that have to have one curve with that of one rank.
STAGES = ((4, 0), (2, 1), (4, 2), (4, 3))


def contents(folder):
    return {name: (folder / name).read_bytes() for name in files_below(folder) if (folder / name).is_file()}


def digests(folder):
    """SHA-256 of each file below the folder, by its name there."""
    return {name: hashlib.sha256(data).hexdigest() for name, data in contents(pathlib.Path(folder)).items()}


def files_below(folder):
    return sorted(str(path.relative_to(folder)) for path in pathlib.Path(folder).rglob("*"))
