"""`ddpm eval loss` gives what a loop over diffusers' model and add_noise gives with the same noise: for each noise level,
quartile and channel; the same bytes on 1, 2 and 3 ranks. Two models are compared image by image."""

import json
import os
import pathlib
import shutil
import sys
import unittest

import h5py
import netCDF4
import numpy as np
import torch
from diffusers import DDPMPipeline
from diffusers.training_utils import compute_snr

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "train"))
from ddpm_run import ddpm, make_dataset, write_config  # noqa: E402
from philox import VALIDATION_NOISE, normals  # noqa: E402
from validation_peer_test import read  # noqa: E402

WORK = pathlib.Path.cwd()
SEED, COUNT, LEVELS = 3, 11, 8


def evaluate(*arguments, ranks=1):
    return json.loads(ddpm("eval", "loss", *arguments, "--json", ranks=ranks).stdout)


def diffusers_losses(model, dataset, snr_gamma=0.0, conditional=False):
    """[COUNT, LEVELS, channels]"""
    pipeline = DDPMPipeline.from_pretrained(model)
    schedule = pipeline.scheduler
    x0, labels = read(dataset, COUNT)
    total = schedule.config.num_train_timesteps
    levels = []
    for level in range(LEVELS):
        t = torch.full([COUNT], int((level + 0.5) / LEVELS * total))
        noise = torch.tensor(
            [normals(x0[0].numel(), SEED, VALIDATION_NOISE, i, level) for i in range(COUNT)], dtype=torch.float32
        ).reshape(x0.shape)
        with torch.no_grad():
            prediction = pipeline.unet.eval()(
                schedule.add_noise(x0, noise, t), t, class_labels=labels if conditional else None
            ).sample
        velocity = schedule.config.prediction_type == "v_prediction"
        target = schedule.get_velocity(x0, noise, t) if velocity else noise
        losses = ((prediction - target) ** 2).mean(dim=(2, 3)).double()
        if snr_gamma:
            snr = compute_snr(schedule, t)
            losses *= (snr.clamp(max=snr_gamma) / (snr + 1 if velocity else snr))[:, None]
        levels.append(losses)
    return torch.stack(levels, 1).numpy()


class LossPeer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.plain = make_dataset(WORK / "plain", 24)
        cls.labelled = make_dataset(WORK / "labelled", 24, 16, 1, "--labels", "folder")
        cls.trained = cls.train("run", cls.plain, train={"steps": 12}, ema={"max_decay": 0.5})
        cls.options = ["--data", cls.plain, "--count", COUNT, "--levels", LEVELS, "--seed", SEED]

    @staticmethod
    def train(name, dataset, **sections):
        run = WORK / name
        if not run.exists():
            ddpm("train", write_config(WORK / f"{name}.toml", run, dataset, **sections))
        return run

    def compare(self, result, wanted):
        def expect(value, name, **where):
            (metric,) = [
                m for m in result["metrics"] if m["name"] == name and m.get("level") == where.get("level") and m.get("variable") == where.get("variable")
            ]
            self.assertAlmostEqual(metric["value"], value.mean(), delta=1e-5 * value.mean(), msg=f"{name} {where}")
            error = value.std(ddof=1) / np.sqrt(len(value))
            self.assertAlmostEqual(metric["standard_error"], error, delta=1e-4 * error, msg=f"{name} {where}")
            return abs(metric["value"] - value.mean()) / value.mean()

        worst = [expect(wanted.mean((1, 2)), "loss")]
        total = int(result["settings"]["loss"].split(", ")[1].split()[0])
        for level in range(LEVELS):
            worst.append(expect(wanted[:, level].mean(1), "loss", level=f"t {int((level + 0.5) / LEVELS * total)}"))
        for quartile in range(4):
            part = wanted[:, quartile * LEVELS // 4 : (quartile + 1) * LEVELS // 4]
            worst.append(expect(part.mean((1, 2)), "loss_quartile", level=quartile + 1))
        for channel, name in enumerate(("red", "green", "blue")):
            worst.append(expect(wanted[..., channel].mean(1), "loss", variable=name))
        print(f"{len(worst)} losses, greatest relative difference {max(worst):.1e}")

    def test_a_run_and_its_diffusers_folder(self):
        result = evaluate("--model", self.trained, *self.options)
        self.compare(result, diffusers_losses(self.trained / "model", self.plain))
        self.assertEqual(result["count"], COUNT)
        folder = evaluate("--model", self.trained / "model", *self.options)
        self.assertEqual(folder["metrics"], result["metrics"])
        for ranks in (2, 3):
            again = ddpm("eval", "loss", "--model", self.trained, *self.options, "--json", ranks=ranks).stdout
            self.assertEqual(json.loads(again), result, f"{ranks} ranks")

    def test_weighted_velocity_with_classes_and_raw_weights(self):
        diffusion = {"prediction_type": "v_prediction", "snr_gamma": 5.0, "num_train_timesteps": 100}
        run = self.train("velocity", self.labelled, model={"num_class_embeds": 2, "dropout": 0.1}, diffusion=diffusion, ema={"enabled": False})
        result = evaluate("--model", run, "--data", self.labelled, *self.options[2:])
        self.compare(result, diffusers_losses(run / "model", self.labelled, snr_gamma=5.0, conditional=True))

    def test_other_formulations(self):
        # No outer loop knows their noise levels; training's own mean over random ones does, within its error.
        for name in ("edm", "flow"):
            run = self.train(name, self.plain, diffusion={"formulation": name})
            result = evaluate("--model", run, "--data", self.plain, "--levels", 32)
            few = evaluate("--model", run, "--data", self.plain, "--levels", 16)
            a, b = result["metrics"][0], few["metrics"][0]
            self.assertAlmostEqual(a["value"], b["value"], delta=0.05 * a["value"])
            self.assertEqual([m["level"] for m in result["metrics"] if m["name"] == "loss_quartile"], [1, 2, 3, 4])

    def test_two_models_on_the_same_noise(self):
        short = self.train("short", self.plain, train={"steps": 2}, ema={"max_decay": 0.5})
        result = evaluate("--model", self.trained, "--against", short, *self.options)
        a, b = (diffusers_losses(run / "model", self.plain).mean((1, 2)) for run in (self.trained, short))
        comparison = next(c for c in result["comparisons"] if c["metric"] == "loss" and "variable" not in c and "level" not in c)
        self.assertAlmostEqual(comparison["difference"], (a - b).mean(), delta=1e-5 * abs(a.mean()))
        error = (a - b).std(ddof=1) / np.sqrt(COUNT)
        self.assertAlmostEqual(comparison["standard_error"], error, delta=1e-3 * error)
        self.assertEqual(comparison["verdict"], "A is better")
        same = evaluate("--model", self.trained, "--against", self.trained, *self.options)
        self.assertEqual({c["verdict"] for c in same["comparisons"]}, {"no significant difference"})
        self.assertIn("A is better", ddpm("eval", "loss", "--model", self.trained, "--against", short, *self.options).stdout)

    def test_models_of_several_seeds_count_how_they_differ(self):
        runs = [self.train(f"seed-{seed}", self.plain, run={"seed": seed}, train={"steps": 6}) for seed in (1, 2, 3)]
        single = [evaluate("--model", run, *self.options)["metrics"][0] for run in runs]
        result = evaluate("--model", *runs, *self.options)
        values = np.array([metric["value"] for metric in single])
        mean = result["metrics"][0]
        self.assertEqual((mean["sets"], mean["units"]), (3, COUNT))
        self.assertAlmostEqual(mean["value"], values.mean(), delta=1e-12)
        losses = np.mean([diffusers_losses(run / "model", self.plain).mean((1, 2)) for run in runs], axis=0)
        error = np.hypot(losses.std(ddof=1) / np.sqrt(COUNT), values.std(ddof=1) / np.sqrt(3))
        self.assertAlmostEqual(mean["standard_error"], error, delta=1e-3 * error)
        against = evaluate("--model", runs[0], "--against", *runs[1:], *self.options)
        comparison = against["comparisons"][0]
        self.assertAlmostEqual(comparison["difference"], values[0] - values[1:].mean(), delta=1e-12)
        self.assertEqual(against["against"], [str(run) for run in runs[1:]])

    def test_values_that_the_run_standardised_itself(self):
        fields = WORK / "fields"
        if not fields.exists():
            ddpm("data", "generate", "phi4", "--mass-squared", 1, "--lambda", 0.5, "--size", 16, "--count", 24, "--output", fields)
        files = f"{fields}/*.h5"
        one = {"in_channels": 1, "out_channels": 1}
        run = self.train("standardised", files, model=one, data={"normalize": "standardize"}, train={"steps": 2})
        as_stored = ddpm("eval", "loss", "--model", run, "--data", fields, check=False)
        self.assertEqual(as_stored.returncode, 3)
        self.assertIn(f"; the folder's files, named as '{files}', take these", as_stored.stderr)
        self.assertEqual(evaluate("--model", run, "--data", files)["count"], 24)
        stored = self.train("as_stored", files, model=one, data={"normalize": "none"}, train={"steps": 2})
        apart = ddpm("eval", "loss", "--model", run, "--against", stored, "--data", files, check=False)
        self.assertEqual(apart.returncode, 2)
        self.assertIn("wanted: the same values", apart.stderr)

    def test_variables_are_compared_by_their_names(self):
        """Two models that take the variables of one file in another order, and one that takes fewer."""
        with h5py.File(WORK / "weather.h5", "w") as file:
            for seed, name in enumerate("tu"):
                file[name] = np.random.default_rng(seed).normal(size=(24, 16, 16)).astype(np.float32) * (1 + seed)
        two, runs = {"in_channels": 2, "out_channels": 2}, {}
        for name, variables, model in (("tu", ["t", "u"], two), ("ut", ["u", "t"], two), ("t", ["t"], {"in_channels": 1, "out_channels": 1})):
            runs[name] = self.train(f"of_{name}", WORK / "weather.h5", model=model, data={"variables": variables}, train={"steps": 2})
        options = ["--data", WORK / "weather.h5", "--levels", LEVELS]
        key = lambda row: (row.get("metric", row.get("name")), row.get("variable"), str(row.get("level")))
        each = {name: {key(row): row["value"] for row in evaluate("--model", runs[name], *options)["metrics"]} for name in ("tu", "ut")}
        result = evaluate("--model", runs["tu"], "--against", runs["ut"], *options)
        self.assertEqual({key(row) for row in result["comparisons"]}, set(each["tu"]))
        for row in result["comparisons"]:
            self.assertAlmostEqual(row["difference"], each["tu"][key(row)] - each["ut"][key(row)], delta=1e-12)
        both = {key(row): row["value"] for row in evaluate("--model", runs["tu"], runs["ut"], *options)["metrics"]}
        for name, value in both.items():
            self.assertAlmostEqual(value, (each["tu"][name] + each["ut"][name]) / 2, delta=1e-12)
        for sides in (("t", "tu"), ("tu", "t")):
            fewer = ddpm("eval", "loss", "--model", runs[sides[0]], "--against", runs[sides[1]], *options, check=False)
            self.assertEqual(fewer.returncode, 2, fewer.stderr)
            self.assertIn("wanted: the same variables", fewer.stderr)

    def test_models_that_read_other_images_are_not_compared(self):
        """Of one file, runs read pairs of times that are one or two apart, or count the pixels of other masks."""
        path, random = WORK / "times.nc", np.random.default_rng(4)
        with netCDF4.Dataset(path, "w") as file:
            for axis, extent in (("time", 24), ("lat", 16), ("lon", 16)):
                file.createDimension(axis, extent)
            file.createVariable("t2m", "f4", ("time", "lat", "lon"))[:] = random.normal(size=(24, 16, 16))
            for name in ("land", "sea"):
                file.createVariable(name, "i1", ("lat", "lon"))[:] = (random.uniform(size=(16, 16)) < 0.5).astype(np.int8)
        runs = {}
        for name, keys in (("one", {"lead": 1}), ("two", {"lead": 2}), ("land", {"mask": "land"}), ("sea", {"mask": "sea"})):
            model = {"in_channels": 1 + int("lead" in keys), "out_channels": 1}
            runs[name] = self.train(f"reads_{name}", path, model=model, data={"variables": ["t2m"], **keys}, train={"steps": 2})
        for a, b, phrases in (("one", "two", ("22 images, lead 2", "23 images, lead 1")),
                              ("land", "sea", ("24 images, mask sea", "24 images, mask land"))):  # fmt: skip
            for models in (["--model", runs[a], "--against", runs[b], "--count", COUNT], ["--model", runs[a], runs[b]]):
                process = ddpm("eval", "loss", *models, "--data", path, "--levels", 2, check=False)
                self.assertEqual(process.returncode, 2, process.stderr)
                for phrase in (*phrases, "wanted: the same images"):
                    self.assertIn(phrase, process.stderr)
            same = evaluate("--model", runs[a], "--against", runs[a] / "model", "--data", path, "--levels", 2)
            self.assertEqual({c["verdict"] for c in same["comparisons"]}, {"no significant difference"})

    def test_refusals(self):
        small = make_dataset(WORK / "small", 8, 8)
        edm = self.train("edm", self.plain, diffusion={"formulation": "edm"})
        shifted = self.train("shifted", self.plain, diffusion={"offset_noise": 0.1}, train={"steps": 1})
        windows = self.train("windows", self.plain, data={"patch": [8, 8]}, train={"steps": 1})
        betas = [WORK / f"betas_{i}" for i in range(2)]
        for folder, beta in zip(betas, (0.001, 0.002)):
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(self.trained / "model", folder)
            path = folder / "scheduler" / "scheduler_config.json"
            path.write_text(json.dumps({**json.loads(path.read_text()), "trained_betas": [beta] * 1000}))
        shutil.rmtree(WORK / "nothing", ignore_errors=True)
        (WORK / "nothing").mkdir()
        cases = [
            (3, ["--model", self.trained, "--data", small], ["8 × 8", "must agree"]),
            (3, ["--model", self.trained, "--data", self.plain, "--count", 25], ["--count 25", "24 images"]),
            (3, ["--model", self.trained, "--data", WORK / "absent"], ["absent"]),
            (4, ["--model", WORK / "nothing", "--data", self.plain], ["nothing"]),
            (2, ["--model", self.trained, "--against", edm, "--data", self.plain], ["the same loss"]),
            (2, ["--model", self.trained, "--against", shifted, "--data", self.plain], ["offset_noise 0.1", "the same loss"]),
            (2, ["--model", self.trained, "--against", windows, "--data", self.plain], ["windows of 8 × 8", "the same loss"]),
            (2, ["--model", betas[0], "--against", betas[1], "--data", self.plain], ["trained betas", "the same loss"]),
            (2, ["--model", self.trained, "--weights", "ema:7", "--data", self.plain], ["ema:7"]),
            (2, ["--model", self.trained, "--data", self.plain, "--levels", 0], ["--levels"]),
        ]
        for code, arguments, phrases in cases:
            process = ddpm("eval", "loss", *arguments, check=False)
            self.assertEqual(process.returncode, code, process.stderr)
            for phrase in phrases:
                self.assertIn(phrase, process.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
