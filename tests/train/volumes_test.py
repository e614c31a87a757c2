"""Training on volumes with all that may stand beside them, from a file that h5py wrote: the same curve on any number of
ranks and in every ZeRO stage, the same bits, samples that PyTorch draws too, ensembles, and files that are refused."""

import hashlib
import json
import os
import pathlib
import shutil
import sys
import unittest

import h5py
import numpy as np
import torch
from diffusers import DDIMScheduler, UNet2DModel

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_run import STAGES, assert_same_curve, ddpm, digest_of_model, metrics, planned_bytes, write_config  # noqa: E402

WORK = pathlib.Path.cwd()
COUNT, GRID = 24, (4, 8, 12)
KEYS = {"condition": "/condition", "static": "/static", "parameters": "/parameters", "mask": "/mask"}
CHANNELS = {"condition": 2, "static": 1, "positions": 6}
ALL = [*KEYS, "positions"]


def arrays():
    random = np.random.default_rng(0)
    condition = random.standard_normal((COUNT, *(side // 2 for side in GRID), 2)).astype(np.float32)
    parameters = 10 + 5 * random.random((COUNT, 3), dtype=np.float32)
    images = np.kron(condition, np.ones((1, 2, 2, 2, 1))) * parameters[:, None, None, None, :1] / 12
    images += 0.2 * random.standard_normal(images.shape)
    return {
        "images": images.astype(np.float32),
        "condition": condition,
        "static": random.standard_normal((*GRID, 1)).astype(np.float32),
        "parameters": parameters,
        "mask": (random.random((COUNT, *GRID)) > 0.3).astype(np.uint8),
    }


def write_set(path, values):
    with h5py.File(path, "w") as file:
        for name, array in values.items():
            file[name] = array
    return path


class Volumes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.values = arrays()
        cls.path = write_set(WORK / "volumes.h5", cls.values)

    def config(self, name, given, path=None, **sections):
        run = WORK / name
        shutil.rmtree(run, ignore_errors=True)
        data = {role: KEYS[role] for role in given if role in KEYS}
        data["positions"] = "positions" in given
        model = {"in_channels": 2 + sum(CHANNELS.get(role, 0) for role in given), "out_channels": 2, "dimensions": 3}
        sections = {**sections, "data": {**data, **sections.get("data", {})}}
        sections["model"] = {**model, **sections.get("model", {})}
        return run, write_config(WORK / f"{name}.toml", run, path or self.path, **sections)

    def train(self, name, given, ranks=1, overrides=(), **sections):
        run, config = self.config(name, given, **sections)
        ddpm("train", config, *overrides, ranks=ranks)
        return run

    def sample(self, model, output, *options, ranks=1):
        path = WORK / output
        path.unlink(missing_ok=True) if path.suffix else shutil.rmtree(path, ignore_errors=True)
        ddpm("sample", "--model", model, "--scheduler", "ddim", "--steps", 6, "--output", path, *options, ranks=ranks)
        return path

    def test_all_fields_train_alike_on_any_number_of_ranks_and_in_every_zero_stage(self):
        changes = {
            "diffusion": {"condition_dropout": 0.3},
            "parallel": {"activation_checkpointing": "blocks"},
            "model": {"padding": ["periodic", "zeros", "periodic"]},
            "data": {"horizontal_flip": True, "normalize": "standardize", "validation": str(self.path)},
            "validation": {"every_steps": 3},
        }
        whole = self.train("stage-0", ALL, **{**changes, "parallel": {}})
        self.assertEqual(sum("validation_loss" in line for line in metrics(whole)), 2)
        for ranks, stage in ((2, 0), *STAGES):
            run = self.train(f"stage-{stage}-{ranks}", ALL, ranks, ["--parallel.zero_stage", stage], **changes)
            assert_same_curve(whole, run)
        for precision, delta in (("bf16", 0.1), ("fp16", 0.1)):
            run = self.train(f"stage-{precision}", ALL, precision={"mixed_precision": precision}, **changes)
            assert_same_curve(whole, run, delta)

    def test_reproducible_weights_have_the_same_bits_and_a_resumed_run_ends_with_them(self):
        sections = {
            "batch": {"global_size": 8, "micro_size": 1},
            "run": {"reproducible": True, "threads_per_rank": 1},
            "lr_schedule": {"name": "constant"},
        }
        digests = set()
        for ranks in (1, 2, 4):
            run = self.train(f"bits-{ranks}", ALL, ranks, train={"steps": 4 if ranks < 4 else 2}, **sections)
            if ranks == 4:
                ddpm("train", WORK / f"bits-{ranks}.toml", "--train.steps", 4, ranks=ranks)
            digests.add(digest_of_model(run))
        self.assertEqual(len(digests), 1)

    def test_pytorch_draws_the_same(self):
        """diffusers' UNet with convolutions of three dimensions, and inputs that PyTorch makes of the file's values."""
        given = [role for role in ALL if role != "mask"]
        for name, padding in (("plain", ["zeros"]), ("wound", ["periodic", "periodic", "zeros"])):
            run = self.train(name, given, model={"padding": padding}, train={"steps": 4})
            model = run / "model"
            with self.assertRaises((AttributeError, OSError, ValueError)):
                UNet2DModel.from_pretrained(model / "unet")
            noise = np.random.default_rng(2).standard_normal((3, 2, *GRID)).astype(np.float32)
            np.save(WORK / "noise.npy", noise)
            sys.path.insert(0, str(model))
            from field_unet import FieldUNet2D

            sys.path.pop(0)
            del sys.modules["field_unet"]
            unet = FieldUNet2D.from_folder(model)
            channels_first = lambda array: torch.tensor(array).movedim(-1, -4).float()  # noqa: E731
            condition = channels_first(self.values["condition"][:3])
            condition = torch.nn.functional.interpolate(condition, GRID, mode="trilinear", align_corners=False)
            static = channels_first(self.values["static"]).expand(3, -1, *GRID)
            angles = [2 * np.pi * axis / side for axis, side in zip(np.meshgrid(*map(np.arange, GRID), indexing="ij"), GRID)]
            positions = np.stack([wave(angle) for angle in angles for wave in (np.sin, np.cos)]).astype(np.float32)
            beside = torch.cat([condition, static, torch.tensor(positions).expand(3, -1, *GRID)], 1)
            parameters = torch.tensor(self.values["parameters"][:3])
            scheduler = DDIMScheduler.from_pretrained(model, subfolder="scheduler")
            scheduler.set_timesteps(6)
            x = torch.tensor(noise)
            with torch.no_grad():
                for t in scheduler.timesteps:
                    shown = torch.cat([x, beside], 1)
                    x = scheduler.step(unet(shown, t.expand(3), parameters), t, x).prev_sample
            for source, ranks in ((run, 1), (model, 2)):
                drawn = np.load(self.sample(source, "drawn.npy", "--condition", self.path, "--count", 3,
                                            "--initial-noise", WORK / "noise.npy", ranks=ranks))  # fmt: skip
                self.assertEqual(drawn.shape, (3, 2, *GRID))
                self.assertLess(np.abs(drawn - x.numpy()).max() / np.abs(x.numpy()).max(), 1e-4)

    def test_samples_of_periodic_models_roll_with_their_noise(self):
        plain = {"down_block_types": ["DownBlock2D"] * 2, "up_block_types": ["UpBlock2D"] * 2, "add_attention": False}
        run = self.train("torus", [], model={"padding": "periodic", **plain}, train={"steps": 2})
        noise = np.random.default_rng(2).standard_normal((2, 2, *GRID)).astype(np.float32)
        for axis, shift in ((2, 2), (3, 4), (4, 6)):
            drawn = []
            for turn in (0, shift):
                np.save(WORK / "noise.npy", np.roll(noise, turn, axis))
                options = ("--count", 2, "--initial-noise", WORK / "noise.npy")
                drawn.append(np.load(self.sample(run, "rolled.npy", *options)))
            self.assertLess(np.abs(np.roll(drawn[0], shift, axis) - drawn[1]).max(), 1e-3)

    def test_ensembles_are_sets_of_volumes_that_train_again(self):
        run = self.train("first", ["condition"], data={"normalize": "standardize"}, train={"steps": 2})
        digests = []
        for ranks in (1, 3):
            made = self.sample(run, f"made-{ranks}", "--condition", self.path, "--members", 2, "--format", "dataset",
                               "--denormalize", ranks=ranks)  # fmt: skip
            ddpm("data", "verify", made)
            digests.append([hashlib.sha256(shard.read_bytes()).hexdigest() for shard in sorted(made.glob("*.h5"))])
        self.assertEqual(digests[0], digests[1])
        description = json.loads((made / "dataset.json").read_text())
        self.assertEqual([description[side] for side in ("depth", "height", "width")], [*GRID])
        self.assertIn("48 images [4, 8, 12, 2]", ddpm("data", "inspect", made).stdout)
        self.assertEqual(json.loads(ddpm("data", "inspect", made, "--json").stdout)["depth"], GRID[0])
        with h5py.File(sorted(made.glob("*.h5"))[0]) as file:
            self.assertEqual(file["images"].shape[1:], (*GRID, 2))
        again, config = self.config("again", [], path=made, train={"steps": 2})
        ddpm("train", config, ranks=2)
        one = np.load(self.sample(again, "a.npy", "--count", 3))
        two = np.load(self.sample(again / "model", "b.npy", "--count", 3, "--batch", 2, ranks=2))
        np.testing.assert_allclose(one, two, atol=1e-5 * np.abs(one).max())
        with h5py.File(self.sample(again, "c.h5", "--count", 2)) as file:
            self.assertEqual(file["images"].shape, (2, *GRID, 2))

    def test_plan_dry_run_and_new_configurations_know_volumes(self):
        plans = []
        for given, model in (([], {}), (ALL, {})):
            _, config = self.config("planned", given, model=model)
            said = ddpm("plan", config, "--nodes", 1, "--gpus-per-node", 2, "--machine", "cpu", "--json").stdout
            plans.append(json.loads(said))
            self.assertIn("4 × 8 × 12 × 2", ddpm("train", config, "--dry-run").stdout)
        self.assertGreater(planned_bytes(plans[1]), planned_bytes(plans[0]))
        new = WORK / "new.toml"
        new.unlink(missing_ok=True)
        ddpm("config", "new", "--data", self.path, "--output", new, "--nodes", 1, "--gpus-per-node", 1)
        ddpm("train", new, "--run.directory", WORK / "of-new", "--train.steps", 1, "--batch.global_size", 4,
             "--batch.micro_size", 4, "--checkpoint.every_steps", 1000)  # fmt: skip

    def test_what_does_not_fit_is_refused_with_one_line(self):
        values = self.values
        flat = write_set(WORK / "flat.h5", {"images": np.zeros((8, 8, 8, 2), np.float32)})
        static = write_set(WORK / "static.h5", {**values, "static": values["static"][0]})
        shallow = write_set(WORK / "shallow.h5", {**values, "condition": values["condition"][:, :1]})
        odd = write_set(WORK / "odd.h5", {"images": np.zeros((8, 3, 8, 12, 2), np.float32)})
        for name, given, path, code, words, model in (
            ("flat", [], flat, 3, "flat images of 8 × 8, but model.dimensions = 3", {}),
            ("deep", [], None, 3, "volumes of 4 × 8 × 12, but model.dimensions = 2", {"dimensions": 2}),
            ("static", ["static"], static, 3, "/static", {}),
            ("shallow", ["condition"], shallow, 3, "1 × 4 × 6 (depth × height × width)", {}),
            ("odd", [], odd, 3, "images are 3 × 8 × 12, but this model halves them 1 times", {}),
            ("size", [], None, 3, "model.sample_size = 4 × 8 × 8", {"sample_size": [4, 8, 8]}),
            ("skip", [], None, 2, "SkipDownBlock2D", {"down_block_types": ["SkipDownBlock2D", "DownBlock2D"]}),
            ("padding", [], None, 2, "model.padding", {"padding": ["zeros", "zeros"]}),
        ):
            for ranks in (1, 2):
                run, config = self.config(f"refused-{name}", given, path, model=model)
                process = ddpm("train", config, ranks=ranks, check=False)
                lines = [line for line in process.stderr.splitlines() if "error" in line]
                self.assertEqual((process.returncode, len(lines)), (code, 1), process.stderr)
                self.assertIn(words, lines[0])
                self.assertFalse((run / "checkpoints").exists())
        run = self.train("pictured", [], train={"steps": 1})
        process = ddpm("sample", "--model", run, "--count", 1, "--output", WORK / "no.png", check=False)
        self.assertEqual(process.returncode, 4)
        self.assertIn("volumes have no picture", process.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
