"""Regressions and models of what a regression leaves: the conditional mean, samples that diffusers' parts draw too, the
same bits on any number of ranks and after a stop, and what is refused."""

import hashlib
import json
import os
import pathlib
import re
import shutil
import sys
import unittest

import diffusers
import h5py
import numpy as np
import torch
from safetensors.torch import load_file

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_run import STAGES, assert_same_curve, ddpm, metrics, write_config  # noqa: E402

WORK = pathlib.Path.cwd()
COUNT, SIZE = 48, 16
NOISE = 0.3


def write_set(path):
    """Images that are their condition, half as large and upside down, with noise: the mean is known."""
    random = np.random.default_rng(1)
    condition = np.kron(random.standard_normal((COUNT, 4, 4, 1)), np.ones((1, 4, 4, 1))).astype(np.float32)
    images = 0.5 * condition[:, ::-1] + NOISE * random.standard_normal(condition.shape)
    with h5py.File(path, "w") as file:
        file["images"] = images.astype(np.float32)
        file["condition"] = condition
        file["mask"] = (random.random((COUNT, SIZE, SIZE)) > 0.2).astype(np.uint8)
    return path


def digest(model):
    (file,) = (model / "unet").glob("*.safetensors")
    return hashlib.sha256(file.read_bytes()).hexdigest()


class Regression(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.path = write_set(WORK / "pairs.h5")
        cls.mean, process = cls.train("mean", "regression", steps=6)
        assert process.returncode == 0, process.stderr
        cls.other, _ = cls.train("another-mean", "regression", steps=2)

    @classmethod
    def train(cls, name, formulation, ranks=1, steps=6, **sections):
        run = WORK / name
        shutil.rmtree(run, ignore_errors=True)
        defaults = {
            "run": {"reproducible": True, "threads_per_rank": 1},
            "batch": {"global_size": 8, "micro_size": 1},
            "lr_schedule": {"name": "constant"},
            "model": {"in_channels": 2, "out_channels": 1},
            "data": {"condition": "/condition"},
            "diffusion": {"formulation": formulation},
            "train": {"steps": steps},
        }
        for section, keys in sections.items():
            defaults[section] = {**defaults.get(section, {}), **keys}
        config = write_config(WORK / f"{name}.toml", run, cls.path, **defaults)
        return run, ddpm("train", config, ranks=ranks, check=False)

    def draw(self, model, *options, ranks=1, check=True):
        out = WORK / "drawn.npy"
        out.unlink(missing_ok=True)
        process = ddpm("sample", "--model", model, "--condition", self.path, "--count", 3, "--output", out, *options,
                       ranks=ranks, check=check)  # fmt: skip
        return np.load(out) if check else process

    def given(self):
        with h5py.File(self.path) as file:
            return torch.tensor(file["condition"][:3]).permute(0, 3, 1, 2).contiguous()

    def test_a_regression_learns_the_mean(self):
        run, _ = self.train("learns", "regression", steps=250, run={"reproducible": False},
                            batch={"global_size": 16, "micro_size": 16}, optimizer={"learning_rate": 5e-3},
                            ema={"max_decay": [0.9]}, data={"validation": str(self.path)},
                            validation={"every_steps": 250})  # fmt: skip
        lines = metrics(run)
        with h5py.File(self.path) as file:
            variance = file["images"][:].var()
        self.assertGreater(lines[0]["loss"], 0.8 * variance)
        self.assertLess(lines[-1]["validation_loss"], 0.3 * variance)
        self.assertEqual([q is None for q in lines[0]["loss_quartiles"]], [False, True, True, True])

    def test_its_answer_is_that_of_diffusers_unet_without_noise(self):
        unet = diffusers.UNet2DModel.from_pretrained(self.mean / "model", subfolder="unet").eval()
        given = self.given()
        with torch.no_grad():
            wanted = unet(torch.cat([torch.zeros(3, 1, SIZE, SIZE), given], 1), 0).sample.numpy()
        for model, ranks in ((self.mean, 1), (self.mean / "model", 2)):
            np.testing.assert_allclose(self.draw(model, ranks=ranks), wanted, atol=1e-5 * np.abs(wanted).max())
        with self.assertRaises(AttributeError):
            diffusers.DiffusionPipeline.from_pretrained(self.mean / "model")

    def test_the_same_bits_on_any_number_of_ranks_and_after_a_stop(self):
        for name, keys in (("regression", {}), ("ddpm", {"mean_model": str(self.mean)})):
            digests = {digest(self.mean / "model")} if name == "regression" else set()
            for ranks in (1, 2, 4)[len(digests) :]:
                diffusion = {"formulation": name, **keys}
                run, process = self.train(f"{name}-{ranks}", name, ranks, 6 if ranks < 4 else 3, diffusion=diffusion)
                self.assertEqual(process.returncode, 0, process.stderr)
                if ranks == 4:
                    ddpm("train", WORK / f"{name}-{ranks}.toml", "--train.steps", 6, ranks=ranks)
                digests.add(digest(run / "model"))
            self.assertEqual(len(digests), 1, name)

    def test_both_networks_train_alike_in_every_zero_stage(self):
        for name, keys in (("regression", {}), ("ddpm", {"mean_model": str(self.mean)})):
            runs = []
            for ranks, stage in ((1, 0), *STAGES):
                run, process = self.train(
                    f"{name}-stage-{stage}-{ranks}", name, ranks, run={"reproducible": False},
                    batch={"global_size": 8, "micro_size": 2}, diffusion={"formulation": name, **keys},
                    parallel={"zero_stage": stage},
                )  # fmt: skip
                self.assertEqual(process.returncode, 0, process.stderr)
                runs.append(run)
            for run in runs[1:]:
                assert_same_curve(runs[0], run)

    def test_samples_are_what_diffusers_draws_added_to_the_mean(self):
        for stage in (0, 3):
            run, process = self.train(
                f"leftovers-{stage}", "ddpm", 2, run={"reproducible": False}, diffusion={"mean_model": str(self.mean)},
                parallel={"zero_stage": stage}, data={"mask": "/mask"},
            )  # fmt: skip
            self.assertEqual(process.returncode, 4, process.stderr)  # the mask is a field of the one alone
            self.assertIn("trained on other fields", process.stderr)
            run, process = self.train(
                f"leftovers-{stage}", "ddpm", 2, run={"reproducible": False}, diffusion={"mean_model": str(self.mean)},
                parallel={"zero_stage": stage}, data={"validation": str(self.path)}, validation={"every_steps": 3},
            )  # fmt: skip
            self.assertEqual(process.returncode, 0, process.stderr)
            self.assertEqual(digest(run / "mean_model"), digest(self.mean / "model"))
            self.assertEqual(digest(run / "model" / "mean_model"), digest(self.mean / "model"))
            unet = diffusers.UNet2DModel.from_pretrained(run / "model", subfolder="unet").eval()
            mean = diffusers.UNet2DModel.from_pretrained(run / "model" / "mean_model", subfolder="unet").eval()
            scheduler = diffusers.DDIMScheduler.from_pretrained(run / "model", subfolder="scheduler")
            self.assertFalse(scheduler.config.clip_sample)
            scheduler.set_timesteps(8)
            given = self.given()
            noise = torch.randn(3, 1, SIZE, SIZE, generator=torch.Generator().manual_seed(2))
            np.save(WORK / "noise.npy", noise.numpy())
            x = noise
            with torch.no_grad():
                for t in scheduler.timesteps:
                    x = scheduler.step(unet(torch.cat([x, given], 1), t).sample, t, x).prev_sample
                x = x + mean(torch.cat([torch.zeros_like(x), given], 1), 0).sample
            options = ("--scheduler", "ddim", "--steps", 8, "--initial-noise", WORK / "noise.npy")
            for model in (run, run / "model"):
                seen = self.draw(model, *options, ranks=2)
                self.assertLess(np.abs(seen - x.numpy()).max() / np.abs(x.numpy()).max(), 1e-4)
            with self.assertRaises(AttributeError):
                diffusers.DiffusionPipeline.from_pretrained(run / "model")

    def test_sigma_data_is_held_against_whole_images_alone(self):
        """The deviation of what a regression leaves is not known."""
        for keys, warned in (({}, True), ({"mean_model": str(self.mean)}, False)):
            run, process = self.train("far", "edm", steps=1, diffusion={"sigma_data": 5.0, **keys})
            self.assertEqual(process.returncode, 0, process.stderr)
            shutil.rmtree(run)
            for said in (process, ddpm("train", WORK / "far.toml", "--dry-run")):
                self.assertEqual("but diffusion.sigma_data = 5; wanted: diffusion.sigma_data = " in said.stderr, warned)

    def test_the_log_tells_what_is_left_of_windows_that_have_a_valid_pixel(self):
        """Unit images of which a quarter is valid: a regression that has learned nothing leaves them whole."""
        random = np.random.default_rng(2)
        path, mask = WORK / "quarter.h5", np.zeros((32, 32), np.uint8)
        mask[:, :8] = 1
        with h5py.File(path, "w") as file:
            file["images"], file["condition"] = random.standard_normal((2, COUNT, 32, 32, 1)).astype(np.float32)
            file["mask"] = mask
        data = {"train": str(path), "validation": str(path), "condition": "/condition", "mask": "/mask", "patch": [8, 8]}
        sections = {"optimizer": {"learning_rate": 1e-9}, "validation": {"every_steps": 1}}
        found = set()
        for name, ranks, tiles in (("one", 1, [1]), ("two", 2, [1]), ("tiles", 2, [2, 1])):
            parallel = {"spatial_size": tiles}
            run, process = self.train(f"blank-{name}", "regression", ranks, 1, data=data, parallel=parallel, **sections)
            said = re.search(r"valid pixel, (\d+), count as 0, and the mean of the others is (\S+)\)", process.stderr)
            self.assertIsNotNone(said, process.stderr)
            blank, others, loss = int(said[1]), float(said[2]), metrics(run)[-1]["validation_loss"]
            self.assertGreater(blank, COUNT // 3)
            self.assertAlmostEqual(loss * COUNT / (COUNT - blank), others, delta=2e-6)
            self.assertAlmostEqual(others, 1, delta=0.3)
            found.add((blank, loss) if name != "tiles" else (blank, *min(found)[1:]))
        self.assertEqual(len(found), 1)
        data = {"condition": "/condition", "mask": "/mask", "validation": str(self.path)}
        _, process = self.train("none-blank", "regression", 1, 1, data=data, **sections)
        self.assertIn("validation loss", process.stderr)
        self.assertNotIn("valid pixel", process.stderr)

    def test_a_regression_of_other_windows_or_values_is_named_by_what_differs(self):
        windows, process = self.train("mean-of-windows", "regression", steps=1, data={"patch": [SIZE // 2, SIZE // 2]})
        self.assertEqual(process.returncode, 0, process.stderr)
        mapped, process = self.train("mean-of-mapped", "regression", steps=1, data={"normalize": "standardize"})
        self.assertEqual(process.returncode, 0, process.stderr)
        for mean, words in (
            (windows, f"was trained on images, or windows, of {SIZE // 2} × {SIZE // 2}; wanted: {SIZE} × {SIZE}"),
            (mapped, "than the model's training set has: image channel 0: standardize("),
        ):
            _, process = self.train("of-others", "ddpm", steps=1, diffusion={"mean_model": str(mean)})
            self.assertEqual(process.returncode, 4, process.stderr)
            (line,) = [line for line in process.stderr.splitlines() if "error" in line]
            self.assertIn(words, line)
            self.assertLess(len(line), 600)

    def test_a_model_without_its_own_regression_is_refused(self):
        run, process = self.train("whole-parts", "ddpm", steps=1, diffusion={"mean_model": str(self.mean)})
        self.assertEqual(process.returncode, 0, process.stderr)
        steps = ("--steps", 2)
        np.testing.assert_array_equal(self.draw(run / "model" / "unet", *steps), self.draw(run / "model", *steps))
        for name, words in (("gone", "mean_model/ beside it is gone"), ("other", "in mean_model/ are others")):
            copy = WORK / f"parts-{name}"
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(run / "model", copy)
            shutil.rmtree(copy / "mean_model")
            if name == "other":
                shutil.copytree(self.other / "model", copy / "mean_model")
            for ranks in (1, 2):
                process = self.draw(copy, ranks=ranks, check=False)
                lines = [line for line in process.stderr.splitlines() if "error" in line]
                self.assertEqual((process.returncode, len(lines)), (4, 1), process.stderr)
                self.assertIn(words, lines[0])

    def test_a_run_keeps_its_regression(self):
        copy = WORK / "copied"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.mean / "model", copy)
        run, _ = self.train("kept", "edm", steps=3, diffusion={"mean_model": str(copy)})
        shutil.rmtree(copy)
        ddpm("train", WORK / "kept.toml", "--train.steps", 6)
        whole, _ = self.train("whole", "edm", steps=6, diffusion={"mean_model": str(self.mean)})
        self.assertEqual(digest(run / "model"), digest(whole / "model"))

        # An export of it is RUN/model, in which both networks are; one file holds one network.
        exported = WORK / "exported"
        shutil.rmtree(exported, ignore_errors=True)
        ddpm("checkpoint", "export", whole, "--output", exported)
        self.assertEqual(digest(exported), digest(whole / "model"))
        self.assertEqual(digest(exported / "mean_model"), digest(whole / "model" / "mean_model"))
        for form in ("torchscript", "onnx"):
            refused = ddpm("checkpoint", "export", whole, "--format", form, "--output", WORK / "one", check=False)
            self.assertEqual((refused.returncode, len(refused.stderr.strip().splitlines())), (4, 1), refused.stderr)
            self.assertIn("holds one network", refused.stderr)
        shutil.rmtree(exported)
        ddpm("checkpoint", "export", whole / "model" / "unet", "--output", exported)  # which finds what lies beside it
        self.assertEqual(digest(exported / "mean_model"), digest(whole / "model" / "mean_model"))

    def test_another_regression_in_the_run_is_noticed(self):
        """One that fits the run as well, and one of whose weights a bit is another."""
        run, process = self.train("exchanged", "ddpm", steps=2, diffusion={"mean_model": str(self.mean)})
        self.assertEqual(process.returncode, 0, process.stderr)
        kept = run / "mean_model"
        for name in ("other", "bit"):
            shutil.rmtree(kept)
            shutil.copytree(self.other / "model" if name == "other" else self.mean / "model", kept)
            if name == "bit":
                (file,) = (kept / "unet").glob("*.safetensors")
                content = bytearray(file.read_bytes())
                content[-2] ^= 1
                file.write_bytes(content)
            before = sorted(run.rglob("*"))
            for ranks in (1, 2):
                process = ddpm("train", WORK / "exchanged.toml", "--train.steps", 4, ranks=ranks, check=False)
                for refused in (process, self.draw(run, ranks=ranks, check=False)):
                    lines = [line for line in refused.stderr.splitlines() if "error" in line]
                    self.assertEqual((refused.returncode, len(lines)), (4, 1), refused.stderr)
                    self.assertIn("in mean_model/ are others", lines[0])
            self.assertEqual(sorted(run.rglob("*")), before)
        shutil.rmtree(kept)  # it is read from where the configuration says, and is the same
        ddpm("train", WORK / "exchanged.toml", "--train.steps", 4)
        self.assertEqual(digest(kept), digest(self.mean / "model"))

    def test_plan_and_dry_run_count_the_regression(self):
        plans = []
        for keys in ({}, {"mean_model": str(self.mean)}):
            run, process = self.train("planned", "ddpm", steps=1, diffusion=keys)
            self.assertEqual(process.returncode, 0, process.stderr)
            said = ddpm("plan", WORK / "planned.toml", "--nodes", 1, "--gpus-per-node", 2, "--machine", "cpu", "--json")
            plans.append(json.loads(said.stdout))
            shutil.rmtree(run)
            ddpm("train", WORK / "planned.toml", "--dry-run")
        self.assertGreater(plans[1]["seconds_per_step"], plans[0]["seconds_per_step"])
        # The peak itself has what the process holds in it, which differs by some pages between two calls.
        alone, beside = (plan["given"]["memory_bytes"] for plan in plans)
        (file,) = (self.mean / "model" / "unet").glob("*.safetensors")
        weights = sum(tensor.numel() for tensor in load_file(file).values())
        self.assertEqual(beside["weights"] - alone["weights"], 4 * weights)
        self.assertEqual({kind for kind in alone if alone[kind] != beside[kind]} - {"process"}, {"weights"})

    def test_tiles_that_the_regression_cannot_halve_are_refused_and_not_proposed(self):
        deep = {"block_out_channels": [8] * 5, "down_block_types": ["DownBlock2D"] * 5, "up_block_types": ["UpBlock2D"] * 5}
        mean, process = self.train("deep-mean", "regression", steps=1, model=deep)
        self.assertEqual(process.returncode, 0, process.stderr)
        keys = {"run": {"reproducible": False}, "diffusion": {"mean_model": str(mean)}}
        lines = set()
        for refused in (
            self.train("deep", "ddpm", 2, parallel={"spatial_size": [2, 1]}, **keys)[1],
            ddpm("train", WORK / "deep.toml", "--dry-run", ranks=2, check=False),
            ddpm("plan", WORK / "deep.toml", "--nodes", 1, "--gpus-per-node", 2, ranks=2, check=False),
        ):
            self.assertEqual(refused.returncode, 2, refused.stderr)
            (line,) = [line for line in refused.stderr.splitlines() if line.startswith("ddpm: error")]
            lines.add(line)
        self.assertEqual(len(lines), 1, lines)
        self.assertIn("the regression halves images to tiles of multiples of 16 pixels", lines.pop())
        self.train("deep", "ddpm", **keys)
        said = ddpm("plan", WORK / "deep.toml", "--nodes", 1, "--gpus-per-node", 2, "--meshes", "--json")
        self.assertEqual({tuple(mesh["spatial_size"]) for mesh in json.loads(said.stdout)["meshes"]}, {(1,)})

    def test_what_makes_no_sense_is_refused(self):
        (WORK / "empty").mkdir(exist_ok=True)
        other, _ = self.train("other", "ddpm", steps=1)
        for name, formulation, keys, code, words in (
            ("offset", "regression", {"offset_noise": 0.1}, 2, "diffusion.offset_noise"),
            ("dropout", "regression", {"condition_dropout": 0.1}, 2, "diffusion.condition_dropout"),
            ("nested", "regression", {"mean_model": str(self.mean)}, 2, "diffusion.mean_model"),
            ("guided", "ddpm", {"mean_model": str(self.mean), "condition_dropout": 0.1}, 2, "condition_dropout"),
            ("missing", "ddpm", {"mean_model": str(WORK / "nowhere")}, 4, "nowhere"),
            ("empty", "ddpm", {"mean_model": str(WORK / "empty")}, 4, "empty"),
            ("noisy", "ddpm", {"mean_model": str(other)}, 4, "its formulation is ddpm; wanted: regression"),
        ):
            for ranks in (1, 2):
                run, process = self.train(f"bad-{name}", formulation, ranks, diffusion=keys)
                self.assertEqual(process.returncode, code, process.stderr)
                lines = [line for line in process.stderr.splitlines() if "error" in line]
                self.assertEqual(len(lines), 1, process.stderr)
                self.assertIn(words, lines[0])
                self.assertFalse((run / "checkpoints").exists())
        process = ddpm("plan", WORK / "bad-noisy.toml", "--nodes", 1, "--gpus-per-node", 1, "--machine", "cpu", check=False)
        self.assertEqual(process.returncode, 4, process.stderr)
        self.assertIn("its formulation is ddpm; wanted: regression", process.stderr)
        for options, words in (
            (["--steps", 2], "a regression takes 1"),
            (["--scheduler", "ddim"], "wanted: one of regression"),
            (["--guidance-scale", 2], "a regression is not guided"),
            (["--members", 2], "a regression"),
        ):
            process = self.draw(self.mean, *options, check=False)
            self.assertEqual(process.returncode, 2, process.stderr)
            self.assertIn(words, process.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
