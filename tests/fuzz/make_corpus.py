#!/usr/bin/env python3
"""Writes the seeds of the fuzz targets into tests/fuzz/corpus: small files that their parsers accept, or nearly.

    make_corpus.py

Inputs that once broke a target are kept beside them, as found-*, and stay. Any Python from 3.9 on; no packages.
"""

import base64
import gzip
import io
import json
import math
import struct
import tarfile
import zipfile
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"


def seed(target, name, data):
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data if isinstance(data, bytes) else data.encode())


def safetensors_header(empty=False):
    header = {
        "__metadata__": {"format": "pt"},
        "weight": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
        "bias": {"dtype": "F16", "shape": [3], "data_offsets": [24, 30]},
        "scalar": {"dtype": "U8", "shape": [], "data_offsets": [30, 31]},
        "none": {"dtype": "I64", "shape": [0, 4], "data_offsets": [31, 31]},
    }
    return json.dumps({} if empty else header)


def manifest(slices, shape):
    text = '{\n"format": 1,\n"step": 1000,\n"world": 2,\n"config_hash": "c0",\n"dataset_hash": "d0",\n'
    text += '"state": {"images_seen":64000,"loss_scale":65536.5,"kind":"a"},\n"files": [\n'
    text += json.dumps({"name": "a.safetensors", "size": 100, "sha256": "a" * 64}) + ",\n"
    text += json.dumps({"name": "b.safetensors", "size": 200, "sha256": "0" * 64}) + '\n],\n"tensors": [\n'
    tensors = [
        {"name": "s", "dtype": "F64", "shape": [], "slices": [{"file": "b.safetensors", "entry": "s", "box": [], "flat": [0, 1]}]},
        {"name": "w", "dtype": "F32", "shape": shape, "slices": slices},
    ]
    return text + ",\n".join(map(json.dumps, tensors)) + "\n],\n"


def grid(*sides):
    """A transform with a mean and a deviation for each of 12 points."""
    numbers = {"mean": [1.5] * 12, "std": [0.0] + [0.25] * 11}
    texts = {key: base64.b64encode(struct.pack("<12f", *values)).decode() for key, values in numbers.items()}
    return {"type": "grid", "sides": sides, **texts}


def dataset(dtype, normalization, labels, version, transform=None):
    def shard(index, first, count):
        return {
            "file": f"shard-0000{index}-of-00002.h5",
            "first": first,
            "count": count,
            "size": 1000 + count * 24 * (1 if dtype == "uint8" else 4),
            "sha256": "a" * 64,
            "header_size": 1000,
            "header_sha256": "b" * 64,
        }

    def field(name, role, shape, kind, variables):
        return {"name": name, "role": role, "path": "/" + name, "shape": shape, "dtype": kind, "variables": variables}

    def variable(name):
        return {"name": name, "unit": "K", "transform": transform or {"type": "affine", **normalization}}

    images = field("images", "image", [4, 3, 2], dtype, [variable("a"), variable("b")])
    listed = {"fields": [images] + ([field("labels", "labels", [], "int64", [])] if labels else [])}
    return json.dumps(
        {
            "format": "ddpm-dataset",
            "version": version,
            "count": 5,
            "height": 4,
            "width": 3,
            "channels": 2,
            "dtype": dtype,
            "normalization": normalization,
            "has_labels": labels,
            "class_names": ["cat", "dog"] if labels else [],
            **(listed if version > 1 else {}),
            "statistics": [{"mean": 0.1, "std": 0.5, "min": -3.0, "max": 1.25}] * 2,
            "shards": [shard(0, 0, 3), shard(1, 3, 2)],
        }
    )


def npy(header, floats, version=1):
    length = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes([version, 0]) + length + header.encode() + bytes(4 * floats)


def npz(members, method):
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w", method) as archive:
        for name, data in members.items():  # as numpy does: with sizes of 64 bits
            info = zipfile.ZipInfo(name + ".npy")
            info.compress_type = method
            with archive.open(info, "w", force_zip64=True) as file:
                file.write(data)
    return memory.getvalue()


def idx(*shape, data=b""):
    return struct.pack(f">4B{len(shape)}I", 0, 0, 8, len(shape), *shape) + data


MODEL_FILES = ["config", "scheduler", "index", "classes", "normalization", "weights", "weight index", "a", "b", "adapter", "adapters"]


def model_folder(files):
    """A row of files, each by its place in the target's list."""
    row = [struct.pack("<BH", MODEL_FILES.index(name), len(data)) + data for name, data in files.items()]
    return b"".join(row)


def tensors_of(shapes):
    header, end = {}, 0
    for name, shape in shapes.items():
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [end, end := end + 4 * math.prod(shape)]}
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(end)


def tar(members, packing):
    """Without the zeros behind the end, which would not fit the length that inputs have at most."""
    memory = io.BytesIO()
    with tarfile.open(fileobj=memory, mode="w" + packing) as archive:
        for name, data in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
        link = tarfile.TarInfo("link.png")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    return memory.getvalue()[:4096]


def gridded_dataset():
    return dataset("float32", {"scale": 1.0, "offset": 0.0}, False, 2, grid(4, 3))


ADAPTER = {
    "auto_mapping": {"base_model_class": "UNet2DModel"}, "base_model_name_or_path": "a/b", "bias": "none", "r": 8,
    "fan_in_fan_out": False, "init_lora_weights": True, "lora_alpha": 16, "lora_dropout": 0.0, "peft_type": "LORA",
    "target_modules": ["to_q", "mid_block.attentions.0.to_k"], "task_type": None, "use_rslora": False,
    "rank_pattern": {}, "layers_to_transform": None, "megatron_core": "megatron.core",
}  # fmt: skip
SCHEDULER = {
    "_class_name": "DDPMScheduler",
    "num_train_timesteps": 1000,
    "beta_start": 0.0001,
    "beta_end": 0.02,
    "beta_schedule": "linear",
    "trained_betas": None,
    "variance_type": "fixed_small",
    "clip_sample": True,
    "prediction_type": "epsilon",
}


def seed_json_values():
    seed("json", "values", '{"a": [1, -2, 3.5e-7, true, false, null, "x\\u00e9\\n"], "b": {"c": {}, "d": [[[]]]}}')
    seed("json", "text", '"\\ud83d\\ude00 ä"')
    seed("json", "twice", '{"a": 1, "a": 1}')
    seed("json", "deep", "[" * 8 + "]" * 8)


def seed_safetensors():
    header = safetensors_header()
    seed("safetensors", "four", struct.pack("<Q", len(header)) + header.encode() + bytes(31))
    seed("safetensors", "none", struct.pack("<Q", 2) + b"{}")
    seed("safetensors_header", "four", struct.pack("<H", 31) + header.encode())
    seed("safetensors_header", "none", struct.pack("<H", 0) + b"{}")


def seed_manifests():
    whole = [[0, 4], [0, 3]]
    flat = [
        {"file": "a.safetensors", "entry": "w", "box": whole, "flat": [0, 7]},
        {"file": "b.safetensors", "entry": "w", "box": whole, "flat": [7, 12]},
    ]
    boxes = [
        {"file": "a.safetensors", "entry": "w", "box": [[0, 2], [0, 3]], "flat": [0, 6]},
        {"file": "b.safetensors", "entry": "w", "box": [[2, 4], [0, 3]], "flat": [0, 6]},
    ]
    seed("manifest", "flat", manifest(flat, [4, 3]))
    seed("manifest", "boxes", manifest(boxes, [4, 3]))


def seed_datasets():
    eighth = {"scale": 1.0 / 127.5, "offset": -1.0}
    for version, suffix in ((1, ""), (2, "-2")):
        seed("dataset_json", "uint8" + suffix, dataset("uint8", eighth, True, version))
        seed("dataset_json", "float32" + suffix, dataset("float32", {"scale": 0.25, "offset": -0.5}, False, version))
    seed("dataset_json", "float32-grid", gridded_dataset())


def seed_toml():
    seed("toml", "run", '[run]\nseed = 3 # a\n[data]\ntrain = [{ path = "a", weight = 0.5 }, { path = \'b\' }]\n')
    seed("toml", "strings", 'a = """\n"x" \\\n y""""\nb = \'\'\'\'z\'\'\'\nc."d e".f = 0x1F\n')
    seed("toml", "value", "[1_000, 0b11, -inf, 1979-05-27T07:32:00Z, [true]]")
    seed("toml", "arrays", "[[a]]\nb.c = 1\n[[a]]\n[a.d]\ne = {f = [[1]]}\n")


def seed_pictures():
    images, labels = idx(3, 2, 4, data=bytes(range(24))), idx(3, data=bytes([2, 0, 1]))
    seed("idx", "grey", b"\0\0" + images)
    seed("idx", "labels", bytes([2, len(labels)]) + labels + images)
    seed("idx", "packed", bytes([3, len(labels)]) + labels + images)
    seed("idx", "gzip", b"\0\0" + gzip.compress(images, mtime=0))
    seed("idx", "colours", b"\0\0" + idx(2, 2, 1, 3, data=bytes(12)))
    seed("cifar", "ten", b"\0\x80" + bytes([7]) + bytes(range(256)) * 12)
    seed("cifar", "hundred", b"\1\x80" + bytes([19, 99]) + bytes(range(256)) * 12)
    seed("cifar", "three_tens", b"\4\x83\t\0\4")
    seed("cifar", "three_hundreds", b"\5\x83\t\0\4")
    seed("cifar", "names", b"\2\0" + "a\nb b\r\nc\nd\ne\nf\ng\nh\ni\n\u00e9\n\n".encode())
    seed("cifar", "names_of_a_hundred", b"\3\0" + b"x\n" * 100)


def seed_arrays():
    v1 = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }".ljust(117) + "\n"
    seed("npy", "v1", npy(v1, 6))
    seed("npy", "v2", npy(v1.replace("(2, 3)", "(0,)  "), 0, 2))
    seed("npy", "scalar", npy("{'shape': (), 'descr': '<f4', 'fortran_order': False}\n", 1, 3))
    for name, method in (("stored", zipfile.ZIP_STORED), ("deflated", zipfile.ZIP_DEFLATED)):
        seed("npz", name, npz({"images": npy(v1, 6), "labels": npy(v1.replace("(2, 3)", "(0,)  "), 0)}, method))


def seed_archives():
    samples = {"./a/0001.png": b"no picture", "a/0001.cls": b"7\n", "\u00e9.json": b'{"label": 3}'}
    for name, packing in (("tar", ""), ("gzip", ":gz"), ("bzip2", ":bz2"), ("xz", ":xz")):
        seed("archive", name, tar(samples, packing))
    for name, method in (("stored", zipfile.ZIP_STORED), ("deflated", zipfile.ZIP_DEFLATED)):
        memory = io.BytesIO()
        with zipfile.ZipFile(memory, "w", method) as archive:
            for member, data in samples.items():
                archive.writestr(zipfile.ZipInfo(member), data)
        seed("archive", "zip-" + name, memory.getvalue())


def seed_unets():
    seed(
        "unet_json",
        "model",
        json.dumps(
            {
                "_class_name": "UNet2DModel",
                "_diffusers_version": "0.30.0",
                "sample_size": [32, 16],
                "in_channels": 3,
                "out_channels": 3,
                "block_out_channels": [32, 64],
                "down_block_types": ["DownBlock2D", "AttnDownBlock2D"],
                "up_block_types": ["AttnUpBlock2D", "UpBlock2D"],
                "layers_per_block": 1,
                "norm_num_groups": 8,
                "attention_head_dim": None,
                "dropout": 0.1,
                "act_fn": "silu",
                "time_embedding_type": "positional",
                "num_class_embeds": 10,
            }
        ),
    )
    seed("unet_json", "defaults", "{}")
    weights = {"conv_in.weight": "model-00001-of-00002.safetensors", "conv_out.bias": "model-00002-of-00002.safetensors"}
    seed("weight_index", "two", json.dumps({"metadata": {"total_size": 1000}, "weight_map": weights}))


def seed_states():
    state = {
        "step": 1000,
        "applied_updates": 998,
        "images_seen": 64000,
        "loss_scale": 65536.0,
        "loss_scale_growth_tracker": 17,
        "consecutive_skips": 0,
        "resumed_from": "runs/a/checkpoints/step-00000500",
        "image_height": 32,
        "image_width": 16,
        "image_dtype": "uint8",
        "normalization_scale": 1.0 / 127.5,
        "normalization_offset": -1.0,
        "validation_set": "37 images of 1234",
        "validation_waited": 2,
        "validation_improved_loss": 0.25,
        "validation_best_loss": 0.125,
        "validation_best_step": 900,
    }
    seed("state", "whole", json.dumps(state))
    period = {"first_step": 0, "first_epoch": 0, "images": 60, "name": "set", "content_hash": "a" * 64}
    channel = {"channel": "t2m [K]", "mean": 280.5, "deviation": 10.25, "min": 200, "max": 320}
    facts = {"training_hardware": "2 ranks on 1 host; CPU", "training_software": "LibTorch 2", "training_program": "0.1.0"}
    listed = {"data_history": json.dumps([period, {**period, "first_step": 9}]), "training_statistics": json.dumps([channel])}
    seed("state", "card", json.dumps({**state, **facts, **listed}))
    seed("state", "early", json.dumps({key: value for key, value in list(state.items())[:6]}))


def seed_adapters():
    seed("peft_config", "peft", json.dumps(ADAPTER))
    seed("peft_config", "least", json.dumps({"peft_type": "LORA", "r": 1, "target_modules": ["conv1"]}))
    seed("peft_config", "dora", json.dumps({**ADAPTER, "use_dora": True}))


def seed_model_cards():
    texts = ['flowers: "x" | #1', "---", "a\n# b", "ema", "2 ranks", "v", "t\r\n---\n", "MIT", "A. Lee", "- yes", "```\n", "12345678"]
    seed("model_card", "odd", "\x1f".join(texts))
    seed("model_card", "plain", "\x1f".join(["Squares", "set", "", "raw", "1 rank", "LibTorch", "red", "cc-by-4.0"]))


def seed_normalizations():
    seed("normalization", "uint8", json.dumps({"dtype": "uint8", "scale": 1.0 / 127.5, "offset": -1.0}))
    seed("normalization", "float32", json.dumps({"dtype": "float32", "scale": -0.25, "offset": 0}))
    files = {"variables": ["t2m", "z level=500"], "axes": [], "sample_axes": ["time"], "condition": "sst", "static": "",
             "parameters": "", "lead": 4}
    seed("normalization", "files", json.dumps({"dtype": "float32", "scale": 1, "offset": 0, "files": files}))
    variables = [{"name": "u10", "unit": "m/s"}, {"name": "spin", "unit": ""}]
    seed("normalization", "variables", json.dumps({"dtype": "float32", "scale": 1, "offset": 0, "variables": variables}))
    fields = json.loads(gridded_dataset())["fields"]
    seed("normalization", "float32-grid", json.dumps({"dtype": "float32", "scale": 1.0, "offset": 0.0, "fields": fields}))


def seed_locks():
    owner = {
        "host": "node01",
        "pid": 17,
        "process_start": "boot 4711",
        "job_id": "5",
        "restart_count": 1,
        "nonce": "0123456789abcdef",
        "start_time": 1700000000,
    }
    seed("lock", "fresh", json.dumps(owner, indent=2) + "\n")
    seed("lock", "renewed", json.dumps(owner, indent=2) + "\nrenewed 12\n")


def seed_schedulers():
    seed("scheduler_json", "ddpm", json.dumps(SCHEDULER))
    seed("scheduler_json", "betas", json.dumps({"num_train_timesteps": 3, "trained_betas": [0.1, 0.2, 0.5]}))


def seed_model_folders():
    attention, adapted = "down.attentions.0.query.weight", "base_model.model.to_q.lora_A.weight"
    own = {
        "config": b"{}",
        "scheduler": json.dumps({**SCHEDULER, "lambda_min_clipped": float("-inf")}).encode(),
        "classes": b'["cat", "dog"]',
        "normalization": json.dumps({"dtype": "uint8", "scale": 1.0, "offset": -1.0}).encode(),
        "weights": tensors_of({"conv_in.weight": [2, 3], attention: [3]}),
    }
    seed("model_folder", "pipeline", model_folder(own))
    places = {"weight_map": {"conv_in.weight": "a.safetensors", attention: "b.safetensors"}}
    sharded = {
        "config": b'{"_class_name": "UNet2DModel"}',
        "index": b'{"_class_name": "LDMPipeline", "unet": ["diffusers", "UNet2DModel"], "vqvae": []}',
        "weight index": json.dumps(places).encode(),
        "a": tensors_of({"conv_in.weight": [2, 3]}),
        "b": tensors_of({attention: [3]}),
    }
    seed("model_folder", "sharded", model_folder(sharded))
    adapters = {"adapter": json.dumps(ADAPTER).encode(), "adapters": tensors_of({adapted: [2, 3]})}
    seed("model_folder", "adapters", model_folder(adapters))


def main():
    seed_json_values()
    seed_safetensors()
    seed_manifests()
    seed_datasets()
    seed_toml()
    seed_pictures()
    seed_arrays()
    seed_archives()
    seed_unets()
    seed_states()
    seed_adapters()
    seed_model_cards()
    seed_normalizations()
    seed_locks()
    seed_schedulers()
    seed_model_folders()


if __name__ == "__main__":
    main()
