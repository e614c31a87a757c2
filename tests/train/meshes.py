"""One training on many meshes of ranks: losses and weights are those of one rank.

    meshes.py          run by ctest: a few meshes
    meshes.py --all    all of them, as a table; and a checkpoint of each goes on on three others

Each mesh trains 10 steps of one seed in float32. Its loss at step 10 is compared with that of one rank (wanted: within 1e-6 of
it), and its weights (wanted: a relative distance of the whole model below 1e-5). eps is 1e-4: with Adam's usual 1e-8, weights
whose gradient is nothing but rounding, such as biases before a norm, move by their full rate in a random direction.
"""

import os
import pathlib
import shutil
import sys
import unittest
from dataclasses import dataclass, field

import numpy as np
from PIL import Image
from safetensors.numpy import load_file

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_run import ddpm, metrics, write_config  # noqa: E402

WORK = pathlib.Path.cwd()
STEPS = 10
BASE = {
    "run": {"threads_per_rank": 1},
    "data": {"horizontal_flip": True},
    "model": {"sample_size": 32, "in_channels": 2, "out_channels": 2, "layers_per_block": 1, "block_out_channels": [16, 32],
              "down_block_types": ["DownBlock2D", "AttnDownBlock2D"], "up_block_types": ["AttnUpBlock2D", "UpBlock2D"],
              "norm_num_groups": 4, "dropout": 0.1},
    "batch": {"global_size": 8, "micro_size": 1},
    "train": {"steps": STEPS},
    "optimizer": {"learning_rate": 1e-3, "eps": 1e-4},
    "lr_schedule": {"warmup_steps": 1},
    "validation": {"every_steps": STEPS, "images": 8},
    "sample": {"every_steps": STEPS, "count": 3, "scheduler": "ddpm", "steps": 8},
    "logging": {"every_steps": 1},
}  # fmt: skip
VOLUMES = {"data": {"horizontal_flip": False},
           "model": {"sample_size": [8, 16, 16], "dimensions": 3, "in_channels": 1, "out_channels": 1, "padding": "periodic",
                     "down_block_types": ["DownBlock2D", "DownBlock2D"], "up_block_types": ["UpBlock2D", "UpBlock2D"]}}  # fmt: skip
K_BLOCKS = {"model": {"block_out_channels": [32, 64], "dropout": 0.0, "add_attention": False,
                      "down_block_types": ["KDownBlock2D", "KDownBlock2D"], "up_block_types": ["KUpBlock2D", "KUpBlock2D"]}}
SIDES = {"model": {"padding": ["zeros", "periodic"], "resnet_time_scale_shift": "scale_shift",
                   "down_block_types": ["ResnetDownsampleBlock2D", "DownBlock2D"],
                   "up_block_types": ["UpBlock2D", "ResnetUpsampleBlock2D"]}}  # fmt: skip

# Adapters of the model that one rank trains of BASE.
LORA = {"model": {**dict.fromkeys(("sample_size", "in_channels", "out_channels", "layers_per_block", "block_out_channels",
                                   "down_block_types", "up_block_types", "norm_num_groups", "attention_head_dim", "dropout")),
                  "pretrained": str(WORK / "base" / "model"), "lora_rank": 3, "lora_alpha": 6.0,
                  "lora_targets": ["attention", "convolutions", "time_emb_proj"]}}  # fmt: skip

MOVED = {"data": {"vertical_flip": True, "quarter_turns": True, "positions": True}, "model": {"in_channels": 6}}
PATCHES = {"data": {"patch": [16, 32], "periodic_shift": True, "size": 32},
           "model": {"padding": "periodic", "sample_size": [16, 32]}}  # fmt: skip
REGRESSION = {"diffusion": {"formulation": "regression"}, "sample": {"scheduler": "regression", "steps": 1}}
FLOW = {"diffusion": {"formulation": "flow", "timestep_sampler": "logit_normal", "shift": 2.0},
        "sample": {"scheduler": "euler"}}  # fmt: skip
FOURIER = {**FLOW, "model": {"time_embedding_type": "fourier"}}
EDM = {"diffusion": {"formulation": "edm"}, "sample": {"scheduler": "heun"}}
# What that leaves of the images, where one rank has trained it.
LEFT = {"diffusion": {"mean_model": str(WORK / "regression" / "model")}}


@dataclass
class Mesh:
    ranks: int
    parallel: dict = field(default_factory=dict)
    more: dict = field(default_factory=dict)
    often: bool = False  # in every run of the tests


SMALLER = {"model": {"sample_size": 24}}
WIDE_K_BLOCKS = {"model": {**K_BLOCKS["model"], "block_out_channels": [64, 128]}}


def meshes_of(more):
    """Ways to share one training, of those that `more` describes."""
    volumes = more is VOLUMES
    halves = [[2, 1, 1], [1, 1, 2]] if volumes else [[2, 1], [1, 2]]
    quarters = [[2, 1, 2], [1, 2, 2]] if volumes else [[2, 2], [4, 1], [1, 4]]
    cuts = [(2, cut) for cut in halves] + [(4, cut) for cut in quarters] + [(4, halves[1]), (8, quarters[0])]
    return [Mesh(ranks, {"spatial_size": cut}, more) for ranks, cut in cuts]


HALF, QUARTERS, PARTS = {"spatial_size": [1, 2]}, {"spatial_size": [2, 2]}, {"tensor_size": 2}
STAGES = {"pipeline_size": 2}
UNEVEN = {**STAGES, "stage_units": [3, 9]}
MESHES = [
    Mesh(2), Mesh(4), Mesh(8), Mesh(2, {"zero_stage": 3}),
    Mesh(2, {"spatial_size": 2}, often=True), Mesh(2, HALF), Mesh(3, {"spatial_size": [3, 1]}, SMALLER),
    Mesh(4, QUARTERS, often=True), Mesh(4, {"spatial_size": [4, 1]}), Mesh(8, {"spatial_size": [4, 2]}), Mesh(8, QUARTERS),
    Mesh(6, {"spatial_size": [3, 1]}), Mesh(6, {"spatial_size": [2, 3]}),
    Mesh(4, {**HALF, "zero_stage": 1}), Mesh(4, {**HALF, "zero_stage": 2}), Mesh(4, {**HALF, "zero_stage": 3}, often=True),
    Mesh(8, {**HALF, "zero_stage": 3, "dp_shard_size": 2}), Mesh(8, {**HALF, "zero_stage": 2, "dp_replicate_size": 2}),
    Mesh(4, {**QUARTERS, "activation_checkpointing": "blocks"}), Mesh(4, {**HALF, "activation_checkpointing": "attention"}),
    Mesh(4, {**HALF, "overlap": False}), Mesh(4, {**HALF, "zero_stage": 1, "offload": "optimizer"}),
    Mesh(4, {**HALF, "bucket_mib": 0.01}),
    Mesh(2, PARTS, often=True), Mesh(4, {"tensor_size": 4}), Mesh(4, PARTS), Mesh(8, {"tensor_size": 4}),
    Mesh(4, {**PARTS, "zero_stage": 1}), Mesh(4, {**PARTS, "zero_stage": 2}), Mesh(4, {**PARTS, "zero_stage": 3}, often=True),
    Mesh(8, {**PARTS, "zero_stage": 3, "dp_shard_size": 2}), Mesh(8, {**PARTS, "zero_stage": 2, "dp_replicate_size": 2}),
    Mesh(4, {**HALF, **PARTS}, often=True), Mesh(8, {**QUARTERS, **PARTS}), Mesh(8, {**HALF, "tensor_size": 4}),
    Mesh(8, {**HALF, **PARTS, "zero_stage": 3}), Mesh(8, {**HALF, **PARTS, "zero_stage": 2}),
    Mesh(4, {**PARTS, "activation_checkpointing": "blocks"}), Mesh(4, {**PARTS, "activation_checkpointing": "attention"}),
    Mesh(4, {**PARTS, "overlap": False}), Mesh(4, {**PARTS, "zero_stage": 1, "offload": "optimizer"}),
    *(Mesh(ranks, PARTS, more) for ranks in (2, 4) for more in (VOLUMES, SIDES, WIDE_K_BLOCKS)),
    Mesh(4, {"spatial_size": [1, 1, 2], **PARTS}, VOLUMES), Mesh(4, {**HALF, **PARTS}, SIDES),
    Mesh(2, {"spatial_size": 2}, LORA, often=True), Mesh(4, QUARTERS, LORA), Mesh(4, {**HALF, "zero_stage": 3}, LORA),
    Mesh(4, QUARTERS, MOVED, often=True), Mesh(2, {"spatial_size": 2}, PATCHES, often=True), Mesh(4, QUARTERS, PATCHES),
    Mesh(4, QUARTERS, LEFT, often=True), Mesh(2, PARTS, LORA, often=True), Mesh(4, {**HALF, **PARTS}, LORA), Mesh(2, PARTS, LEFT),
    Mesh(2, STAGES), Mesh(2, UNEVEN, often=True), Mesh(3, {"pipeline_size": 3}), Mesh(4, {"pipeline_size": 4}, often=True), Mesh(4, STAGES),
    Mesh(4, {**STAGES, "zero_stage": 1}), Mesh(4, {**STAGES, "zero_stage": 2}, often=True), Mesh(4, {**STAGES, "zero_stage": 3}),
    Mesh(4, {**STAGES, "zero_stage": 3}, FOURIER, often=True),
    Mesh(4, {**STAGES, **HALF}, often=True), Mesh(4, {**STAGES, **PARTS}), Mesh(8, {**STAGES, **HALF, **PARTS}),
    Mesh(8, {**STAGES, **PARTS, "zero_stage": 2}), Mesh(8, {**STAGES, **HALF, "zero_stage": 3}),
    Mesh(8, {"pipeline_size": 4, "zero_stage": 2}), Mesh(8, {**STAGES, "zero_stage": 1, "dp_shard_size": 2}),
    Mesh(2, {**STAGES, "activation_checkpointing": "blocks"}), Mesh(2, {**STAGES, "activation_checkpointing": "attention"}),
    Mesh(4, {**STAGES, "overlap": False}), Mesh(4, {**STAGES, "zero_stage": 1, "offload": "optimizer"}),
    *(Mesh(ranks, {"pipeline_size": ranks}, more) for ranks in (2, 4) for more in (VOLUMES, K_BLOCKS, SIDES)),
    Mesh(4, {**STAGES, "spatial_size": [1, 1, 2]}, VOLUMES), Mesh(4, {**STAGES, **PARTS}, WIDE_K_BLOCKS),
    Mesh(2, STAGES, LORA), Mesh(2, STAGES, LEFT),
    *(Mesh(4, mesh, more) for more in (FLOW, EDM) for mesh in (QUARTERS, {**HALF, **PARTS}, {**STAGES, **HALF})),
    Mesh(2, {"spatial_size": 2}, FLOW, often=True), Mesh(2, PARTS, EDM, often=True),
    *meshes_of(VOLUMES), *meshes_of(K_BLOCKS), *meshes_of(SIDES),
]  # fmt: skip


def text_of(mesh):
    keys = ", ".join(f"{key} = {value}" for key, value in mesh.parallel.items())
    kinds = {id(VOLUMES): "volumes, periodic", id(K_BLOCKS): "K blocks", id(WIDE_K_BLOCKS): "wide K blocks",
             id(SMALLER): "pictures of 24 × 24", id(SIDES): "one axis periodic", id(LORA): "adapters", id(MOVED): "mirrored, turned",
             id(FLOW): "flow matching", id(EDM): "EDM", id(PATCHES): "windows", id(LEFT): "what a regression leaves",
             id(FOURIER): "Fourier embedding"}
    return f"{mesh.ranks} rank{'s' if mesh.ranks > 1 else ''}: {keys or 'replicated'}", kinds.get(id(mesh.more), "pictures")


def merged(more):
    sections = {name: dict(keys) for name, keys in BASE.items()}
    for name, keys in more.items():
        sections.setdefault(name, {}).update(keys)
    return sections


def with_steps(more, steps):
    """`more` for a run that ends at a step, at a rate that does not depend on it."""
    return {**more, "lr_schedule": {"name": "constant"}, "train": {"steps": steps}}


def dataset_of(sections):
    side = sections["data"].pop("size", sections["model"]["sample_size"]) or BASE["model"]["sample_size"]
    size = "x".join(map(str, np.atleast_1d(side)))
    kind = "grf" if sections["model"].get("dimensions") == 3 else "gray-scott"
    folder = WORK / f"{kind}-{size}"
    if not folder.exists():
        ddpm("data", "generate", kind, *(["--steps", 300] if kind == "gray-scott" else []), "--size", size, "--count", 32,
             "--output", folder)  # fmt: skip
    return folder


def train(name, mesh):
    """The losses at the last step, and what has been trained: adapters, or all weights."""
    sections = merged(mesh.more)
    for needs, folder, more in (("pretrained", "base", {}), ("mean_model", "regression", REGRESSION)):
        if any(needs in keys for keys in mesh.more.values()) and not (WORK / folder).exists():
            train(folder, Mesh(1, {}, more))
    data = dataset_of(sections)
    sections["data"]["validation"] = str(data)
    config = write_config(WORK / f"{name}.toml", WORK / name, data, **sections, parallel=mesh.parallel)
    ddpm("train", config, ranks=mesh.ranks)
    line = metrics(WORK / name)[-1]
    trained = WORK / name / ("adapter" if (WORK / name / "adapter").exists() else "model/unet")
    (weights,) = trained.glob("*.safetensors")
    return line["loss"], line["validation_loss"], load_file(weights)


def pictures(name):
    """The grid of samples at the last step."""
    return np.asarray(Image.open(WORK / name / "samples" / f"step-{STEPS:08d}.png")).astype(int)


class References:
    """What one rank makes of each kind of training, in runs that are named after the test."""

    def __init__(self, test):
        self.test = test
        self.known = {}

    def of(self, mesh):
        key = repr(mesh.more)
        if key not in self.known:
            name = f"{self.test}-{len(self.known)}"
            self.known[key] = (*train(name, Mesh(1, {}, mesh.more)), name)
        return self.known[key]


def distance(weights, wanted):
    away = sum(float(((weights[name].astype(np.float64) - wanted[name]) ** 2).sum()) for name in wanted)
    return (away / sum(float((value.astype(np.float64) ** 2).sum()) for value in wanted.values())) ** 0.5


class Meshes(unittest.TestCase):
    chosen = [mesh for mesh in MESHES if mesh.often]

    def test_every_mesh_is_the_run_of_one_rank(self):
        references = References("one")
        for number, mesh in enumerate(self.chosen):
            with self.subTest(mesh=text_of(mesh)):
                wanted_loss, wanted_validation, wanted, one = references.of(mesh)
                loss, validation, weights = train(f"mesh-{number}", mesh)
                away = distance(weights, wanted)
                print(f"| {' | '.join(text_of(mesh))} | {loss:.7f} | {loss - wanted_loss:+.1e} | {away:.1e} |", flush=True)
                self.assertLess(abs(loss - wanted_loss), 1e-6 * max(1.0, wanted_loss))
                self.assertLess(abs(validation - wanted_validation), 1e-6 * max(1.0, wanted_validation))
                self.assertLess(away, 1e-5)
                self.assertLessEqual(np.abs(pictures(f"mesh-{number}") - pictures(one)).max(), 1)  # of 256

    def test_reproducible_tiles_have_the_same_bits_beside_any_number_of_images(self):
        reproducible = {"run": {"reproducible": True}, "batch": {"micro_size": 1}}
        runs = []
        for ranks in (2, 4):
            _, _, weights = train(f"bits-{ranks}", Mesh(ranks, {"spatial_size": 2}, reproducible))
            runs.append((weights, (WORK / f"bits-{ranks}" / "samples" / f"step-{STEPS:08d}.png").read_bytes()))
        for name, values in runs[0][0].items():
            np.testing.assert_array_equal(values, runs[1][0][name])
        self.assertEqual(runs[0][1], runs[1][1])

    def test_a_checkpoint_goes_on_on_other_meshes(self):
        constant = {"lr_schedule": {"name": "constant"}}  # whatever the number of steps
        wanted, _, wanted_weights = train("unmoved", Mesh(1, {}, constant))
        stops = ((2, Mesh(4, QUARTERS, constant)), (3, Mesh(4, {**STAGES, "zero_stage": 1}, constant)),
                 (4, Mesh(4, {**PARTS, "zero_stage": 3}, constant)), (5, Mesh(4, {**STAGES, **PARTS}, constant)),
                 (6, Mesh(2, {"zero_stage": 3}, constant)), (7, Mesh(3, {"pipeline_size": 3}, constant)),
                 (8, Mesh(4, {**HALF, **PARTS}, constant)), (9, Mesh(4, {"spatial_size": 2, "zero_stage": 2}, constant)),
                 (STEPS, Mesh(1, {}, constant)))  # fmt: skip
        for steps, mesh in stops:
            loss, _, weights = train("moving", Mesh(mesh.ranks, mesh.parallel, {**constant, "train": {"steps": steps}}))
        self.assertLess(abs(loss - wanted), 1e-6)
        self.assertLess(distance(weights, wanted_weights), 1e-5)


def a_checkpoint_of_each_mesh_goes_on_on_three_others(self):
    """The test that --all adds: the first half of the steps on a mesh, the second one on each of three others."""
    others = [Mesh(1), Mesh(2, STAGES), Mesh(2, {"spatial_size": 2}), Mesh(2, PARTS), Mesh(2, {"zero_stage": 3})]
    references = References("unbroken")
    gone_on = 0
    for number, mesh in enumerate(MESHES):
        whole, half = with_steps(mesh.more, STEPS), with_steps(mesh.more, STEPS // 2)
        train(f"half-{number}", Mesh(mesh.ranks, mesh.parallel, half))
        in_turn = [others[(number + i) % len(others)] for i in range(len(others))]
        # What is refused: groups of channels that are cut, and quarter turns of tiles that are not square.
        refused = PARTS if mesh.more is K_BLOCKS else {"spatial_size": 2} if mesh.more is MOVED else None
        for other in [other for other in in_turn if other.parallel not in (mesh.parallel, refused)][:3]:
            with self.subTest(mesh=text_of(mesh), goes_on_on=text_of(other)):
                wanted, _, wanted_weights, _ = references.of(Mesh(1, {}, whole))
                shutil.rmtree(WORK / "other", ignore_errors=True)
                shutil.copytree(WORK / f"half-{number}", WORK / "other")
                loss, _, weights = train("other", Mesh(other.ranks, other.parallel, whole))
                self.assertLess(abs(loss - wanted), 1e-6 * max(1.0, wanted))
                self.assertLess(distance(weights, wanted_weights), 1e-5)
                gone_on += 1
    print(f"{gone_on} times, a checkpoint of one of {len(MESHES)} meshes went on on another one.", flush=True)


if __name__ == "__main__":
    if "--all" in sys.argv:
        sys.argv.remove("--all")
        Meshes.chosen = MESHES
        Meshes.test_a_checkpoint_of_each_mesh = a_checkpoint_of_each_mesh_goes_on_on_three_others
    unittest.main(verbosity=2)
