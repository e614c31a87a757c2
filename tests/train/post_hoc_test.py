"""Averages of any length, made after training (EDM2's post-hoc averages), beside one that was computed while training and
beside a NumPy reference of the paper's appendix."""

import os
import pathlib
import re
import shutil
import sys
import unittest

import numpy as np
from safetensors.numpy import load_file

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_run import ddpm, make_dataset, write_config  # noqa: E402

WORK = pathlib.Path.cwd()
STEPS, KEPT, LENGTH = 96, 4, 0.075
LENGTHS = [0.05, 0.10]


def gamma_of(length):
    """Algorithm 2 of Karras et al. 2024: the greatest root of a cubic."""
    t = length**-2
    return np.roots([1, 7, 16 - t, 12 - t]).real.max()


def product(t_a, gamma_a, t_b, gamma_b):
    """Algorithm 3: integral of the product of two profiles."""
    ratio = t_a / t_b
    power = np.where(t_a < t_b, gamma_b, -gamma_a)
    return (gamma_a + 1) * (gamma_b + 1) * ratio**power / ((gamma_a + gamma_b + 1) * np.maximum(t_a, t_b))


def shares(times, gammas, time, gamma):
    times, gammas = np.asarray(times, np.float64), np.asarray(gammas, np.float64)
    products = product(times[:, None], gammas[:, None], times, gammas)
    return np.linalg.solve(products, product(times, gammas, time, gamma))


def stored(checkpoint, prefix):
    (shard,) = checkpoint.glob("*.safetensors")
    return {k.removeprefix(prefix): v.astype(np.float64) for k, v in load_file(shard).items() if k.startswith(prefix)}


def flat(weights):
    return np.concatenate([weights[name].ravel() for name in sorted(weights)]).astype(np.float64)


class PostHoc(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dataset = make_dataset(WORK / "squares")

    def train(self, name, lengths, **sections):
        run = WORK / name
        shutil.rmtree(run, ignore_errors=True)
        config = write_config(WORK / f"{name}.toml", run, self.dataset, run={"threads_per_rank": 1}, train={"steps": STEPS},
                              ema={"relative_lengths": lengths}, lr_schedule={"name": "constant"},
                              checkpoint={"every_steps": KEPT, "keep_every": KEPT}, **sections)  # fmt: skip
        ddpm("train", config)
        return run

    def export(self, run, *options, ranks=1, check=True):
        shutil.rmtree(WORK / "out", ignore_errors=True)
        process = ddpm("checkpoint", "export", run, "--format", "diffusers", "--output", WORK / "out", *options, ranks=ranks, check=check)
        return process, WORK / "out" / "unet" / "diffusion_pytorch_model.safetensors"

    def test_near_the_average_of_training_and_equal_to_the_reference(self):
        run = self.train("snapshots", LENGTHS)
        during = self.train("during", [LENGTH])
        process, file = self.export(run, "--ema-length", LENGTH)
        made = flat(load_file(file))

        last = during / "checkpoints" / f"step-{STEPS:08}"
        wanted = flat(stored(last, "ema.1/"))  # after that of max_decay
        weights = flat(stored(last, "model/"))
        away = np.linalg.norm(made - wanted) / np.linalg.norm(weights - wanted)
        print(f"distance from the average of training, over that of the weights from it: {away:.2e}")
        self.assertLess(away, 0.05)

        steps = range(KEPT, STEPS + 1, KEPT)
        profiles = [(step, gamma_of(length), i) for step in steps for i, length in enumerate(LENGTHS)]
        parts = shares([p[0] for p in profiles], [p[1] for p in profiles], STEPS, gamma_of(LENGTH))
        reference = sum(
            share * flat(stored(run / "checkpoints" / f"step-{step:08}", f"ema.{1 + i}/"))
            for share, (step, _, i) in zip(parts, profiles, strict=True)
        )
        self.assertLess(np.linalg.norm(made - reference) / np.linalg.norm(reference), 1e-6)

        self.assertIn("24 checkpoints", process.stderr)
        said = float(re.search(r"within ([\d.e-]+) %", process.stderr)[1])
        self.assertLess(said, 5.0)
        _, on_ranks = self.export(run, "--ema-length", LENGTH, ranks=2)
        np.testing.assert_array_equal(flat(load_file(on_ranks)), made)

    def test_one_of_the_lengths_is_that_average(self):
        run = self.train("known", LENGTHS)
        _, file = self.export(run, "--ema-length", LENGTHS[1])
        wanted = flat(stored(run / "checkpoints" / f"step-{STEPS:08}", "ema.2/"))
        self.assertLess(np.linalg.norm(flat(load_file(file)) - wanted) / np.linalg.norm(wanted), 1e-6)

    def test_a_run_does_not_go_on_with_averages_of_other_lengths(self):
        run = self.train("of-lengths", LENGTHS)
        ema = {"relative_lengths": LENGTHS[:1], "max_decay": [0.99, 0.999]}  # as many averages, under other numbers
        other = write_config(WORK / "others.toml", WORK / "others", self.dataset, train={"steps": STEPS + 2}, ema=ema,
                             checkpoint={"resume": str(run / "checkpoints" / f"step-{STEPS:08}")})  # fmt: skip
        for options in ((), ("--dry-run",)):
            process = ddpm("train", other, *options, check=False)
            self.assertEqual(process.returncode, 4, process.stderr)
            self.assertIn("its averages of relative lengths are 0.05, 0.1 behind 1 other average; ema.relative_lengths wants "
                          "0.05 behind 2 other averages", process.stderr)  # fmt: skip
        self.assertFalse((WORK / "others").exists())

    def test_what_cannot_be_made_is_refused(self):
        run = self.train("plain", [])
        for options, code, phrase in (
            (("--ema-length", 0.1), 4, "ema.relative_lengths"),
            (("--ema-length", 0.5), 2, "0.5"),
            (("--ema-length", 0.5), 2, "--ema-length"),
            (("--weights", "length:0.5"), 2, "--weights length:0.5"),
            (("--ema-length", 0.1, "--weights", "raw"), 2, "--weights"),
        ):
            process, file = self.export(run, *options, check=False)
            self.assertEqual(process.returncode, code, process.stderr)
            self.assertIn(phrase, process.stderr)
            self.assertFalse(file.exists())
        process, _ = self.export(run / "model", "--ema-length", 0.1, check=False)
        self.assertEqual((process.returncode, len(process.stderr.strip().splitlines())), (2, 1), process.stderr)
        self.assertIn(f"--ema-length 0.1: {run}/model is a model folder; wanted: --weights raw or ema", process.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
