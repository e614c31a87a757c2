"""parallel.sync_every: copies of the state that are updated on their own, and averaged at times by an outer step.

The same training is written with diffusers and PyTorch: a UNet2DModel, a torch.optim.AdamW and a share of each batch for every
island, and a torch.optim.SGD(nesterov=True) between them.
"""

import copy
import itertools
import os
import pathlib
import shutil
import sys
import unittest

import h5py
import numpy as np
import torch
from diffusers import DDPMScheduler, UNet2DModel
from safetensors.torch import load_file

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_run import ddpm, metrics, write_config  # noqa: E402
from philox import NOISE, TIMESTEP, below, normals  # noqa: E402

WORK = pathlib.Path.cwd()
SEED = 7  # of write_config
SIZE, COUNT, BATCH, RATE, EVERY, STEPS = 8, 16, 4, 1e-3, 3, 10
MEETINGS = {*range(EVERY, STEPS + 1, EVERY), STEPS}  # the steps that an outer one follows
OUTER = {"outer_learning_rate": 0.6, "outer_momentum": 0.8}


def validation_losses(run):
    return [line["validation_loss"] for line in metrics(run) if "validation_loss" in line]


def distance(weights, wanted):
    away = sum(float((weights[name] - wanted[name]).double().square().sum()) for name in wanted)
    return (away / sum(float(value.double().square().sum()) for value in wanted.values())) ** 0.5


class Reference:
    """The islands as PyTorch trains them."""

    def __init__(self, start, images, islands, meetings=MEETINGS):
        self.meetings, self.met = meetings, 0
        self.anchor = UNet2DModel.from_pretrained(start / "model" / "unet")
        self.islands = [copy.deepcopy(self.anchor) for _ in range(islands)]
        settings = {"lr": RATE, "betas": (0.95, 0.999), "eps": 1e-4, "weight_decay": 1e-6}
        self.optimizers = [torch.optim.AdamW(island.parameters(), **settings) for island in self.islands]
        self.outer = torch.optim.SGD(self.anchor.parameters(), lr=0.6, momentum=0.8, nesterov=True)
        self.schedule = DDPMScheduler.from_pretrained(start / "model" / "scheduler")
        self.images = images
        self.average = None

    def step(self, step):
        losses = []
        share = BATCH // len(self.islands)
        for number, (island, optimizer) in enumerate(zip(self.islands, self.optimizers)):
            positions = range(number * share, (number + 1) * share)
            x0 = self.images[[(step * BATCH + p) % COUNT for p in positions]]
            t = torch.tensor([below(1000, SEED, TIMESTEP, p, step) for p in positions])
            noise = torch.tensor([normals(x0[0].numel(), SEED, NOISE, p, step) for p in positions]).reshape(x0.shape)
            loss = torch.nn.functional.mse_loss(island(self.schedule.add_noise(x0, noise, t), t).sample, noise)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(island.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
        if step + 1 in self.meetings:
            self.meet(step)
        return sum(losses) / len(losses)

    @torch.no_grad()
    def meet(self, step):
        for anchor, *own in zip(self.anchor.parameters(), *(island.parameters() for island in self.islands)):
            anchor.grad = anchor - torch.stack(list(own)).mean(0)
        self.outer.step()
        for island in self.islands:
            for anchor, own in zip(self.anchor.parameters(), island.parameters()):
                own.copy_(anchor)
        # The average as if the weights had been these for all steps since the last time.
        decay = 1.0
        for passed in range(self.met + 1, step + 2):
            decay *= 0.0 if passed == 1 else min(1 - passed**-0.75, 0.9999)
        self.met = step + 1
        weights = {name: value.clone() for name, value in self.anchor.state_dict().items()}
        if self.average is None:
            self.average = weights
        for name, value in self.average.items():
            value.lerp_(weights[name], 1 - decay)


class Islands(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        images = np.random.default_rng(2).uniform(-1, 1, (COUNT, SIZE, SIZE, 3)).astype(np.float32)
        with h5py.File(WORK / "set.h5", "w") as file:
            file["images"] = images
        cls.images = torch.from_numpy(images).permute(0, 3, 1, 2)

    def train(self, name, ranks, every=EVERY, anew=True, options=(), **sections):
        run = WORK / name
        if anew:
            shutil.rmtree(run, ignore_errors=True)
        defaults = {
            "run": {"threads_per_rank": 1},
            "data": {"shuffle": "none"},
            "model": {"block_out_channels": [8, 16], "layers_per_block": 1, "norm_num_groups": 4, "attention_head_dim": 8,
                      "down_block_types": ["DownBlock2D", "AttnDownBlock2D"], "up_block_types": ["AttnUpBlock2D", "UpBlock2D"]},
            "batch": {"global_size": BATCH, "micro_size": 1},
            "optimizer": {"learning_rate": RATE, "eps": 1e-4},
            "lr_schedule": {"name": "constant", "warmup_steps": None},
            "parallel": {"sync_every": every, **OUTER},
            "train": {"steps": STEPS},
            "logging": {"every_steps": 1},
            "ema": {"enabled": False},
        }  # fmt: skip
        for section, keys in sections.items():
            defaults.setdefault(section, {}).update(keys)
        ddpm("train", write_config(WORK / f"{name}.toml", run, WORK / "set.h5", **defaults), *options, ranks=ranks)
        return run

    def weights(self, run):
        (file,) = (run / "model" / "unet").glob("*.safetensors")
        return load_file(file)

    def test_it_is_the_training_that_pytorch_does(self):
        start = self.train("start", 1, optimizer={"learning_rate": 0.0}, train={"steps": 1})
        run = self.train("two", 2)
        averaged = self.train("averaged", 2, ema={"enabled": True})
        reference = Reference(start, self.images, 2)
        for step, line in enumerate(metrics(run)):
            self.assertLess(abs(line["loss"] - reference.step(step)), 1e-5)
        away = distance(self.weights(run), reference.anchor.state_dict())
        away_average = distance(self.weights(averaged), reference.average)
        print(f"relative distance of the weights: {away:.1e}, of their average: {away_average:.1e}")
        self.assertLess(max(away, away_average), 1e-5)

    def test_islands_may_meet_after_every_step(self):
        start = self.train("start", 1, optimizer={"learning_rate": 0.0}, train={"steps": 1})
        run = self.train("every", 2, every=1)
        reference = Reference(start, self.images, 2, set(range(1, STEPS + 1)))
        for step, line in enumerate(metrics(run)):
            self.assertLess(abs(line["loss"] - reference.step(step)), 1e-5)
        self.assertLess(distance(self.weights(run), reference.anchor.state_dict()), 1e-5)

    def test_an_island_may_be_many_ranks_in_any_stage(self):
        judged = {"data": {"validation": str(WORK / "set.h5")}, "validation": {"every_steps": 2, "images": 4}}
        plain = self.train("plain", 2, **judged)
        wanted = self.weights(plain)
        halves = {"dp_shard_size": 2, "dp_replicate_size": 2}
        for number, keys in enumerate((
            {"zero_stage": 1, **halves}, {"zero_stage": 2, **halves}, {"zero_stage": 3, **halves}, {"spatial_size": 2},
            {"tensor_size": 2}, {"zero_stage": 1, "offload": "optimizer", **halves},
        )):  # fmt: skip
            run = self.train(f"stage-{number}", 4, parallel=keys, **judged)
            with self.subTest(keys=keys):
                self.assertLess(distance(self.weights(run), wanted), 1e-5)
                np.testing.assert_allclose(validation_losses(run), validation_losses(plain), rtol=1e-5)

    def test_one_island_moves_on_its_own(self):
        whole = self.weights(self.train("alone", 1, parallel={"outer_learning_rate": 1.0, "outer_momentum": 0.0}))
        self.assertLess(distance(whole, self.weights(self.train("usual", 1, every=0))), 1e-6)

    def test_it_goes_on_bit_for_bit(self):
        averaged = {"ema": {"enabled": True}, "checkpoint": {"every_steps": 1, "keep_every": 1}}
        whole = self.train("whole", 2, **averaged)
        for stop in (EVERY, EVERY + 1):  # after an outer step, and between two
            checkpoint = whole / "checkpoints" / f"step-{stop:08d}"
            later = self.train("later", 2, options=["--checkpoint.resume", checkpoint], **averaged)
            self.assertEqual(metrics(later)[0]["step"], stop + 1)
            got = self.weights(later)
            for name, value in self.weights(whole).items():
                self.assertTrue(torch.equal(got[name], value), name)

    def test_averages_count_the_updates_that_were_applied(self):
        skipping = {"precision": {"mixed_precision": "fp16", "initial_loss_scale": 1e9}, "ema": {"enabled": True}, "train": {"steps": 20}}
        usual = self.train("usual-16", 1, every=0, **skipping)
        skipped = sum(a["loss_scale"] > b["loss_scale"] for a, b in itertools.pairwise(metrics(usual)))
        self.assertGreater(skipped, 5)
        alone = self.train("alone-16", 1, every=1, parallel={"outer_learning_rate": 1.0, "outer_momentum": 0.0}, **skipping)
        self.assertLess(distance(self.weights(alone), self.weights(usual)), 1e-6)

    def test_averages_of_any_length_are_made_of_those_of_outer_steps(self):
        run = self.train("lengths", 2, ema={"enabled": True, "relative_lengths": [0.05, 0.1]},
                         checkpoint={"every_steps": 1, "keep_every": 1})  # fmt: skip
        export = ("checkpoint", "export", "--format", "diffusers", "--ema-length", 0.07, "--output", WORK / "length")
        shutil.rmtree(WORK / "length", ignore_errors=True)
        self.assertIn(f"from {len(MEETINGS)} checkpoints", ddpm(*export, run).stderr)
        shutil.rmtree(WORK / "length")
        refused = ddpm(*export, run / "checkpoints" / f"step-{EVERY - 1:08d}", check=False)
        self.assertEqual(refused.returncode, 4, refused.stderr)
        self.assertIn("its averages have seen no update yet", refused.stderr)

    def test_averages_of_a_run_that_is_prolonged_see_each_step_once(self):
        start = self.train("start", 1, optimizer={"learning_rate": 0.0}, train={"steps": 1})
        self.train("prolonged", 2, train={"steps": EVERY + 1}, ema={"enabled": True})  # with an outer step after the last one
        run = self.train("prolonged", 2, anew=False, ema={"enabled": True})
        reference = Reference(start, self.images, 2, {*MEETINGS, EVERY + 1})
        for step in range(STEPS):
            reference.step(step)
        self.assertLess(distance(self.weights(run), reference.average), 1e-5)

    def test_checkpoints_go_on_with_other_numbers_of_islands(self):
        for name, ranks, every in (("fewer", 1, 0), ("more", 4, EVERY), ("without", 2, 0)):
            self.train(name, 2, train={"steps": EVERY + 1})
            run = self.train(name, ranks, every, anew=False, train={"steps": STEPS})
            self.assertEqual(metrics(run)[-1]["step"], STEPS)
        self.train("begun", 2, 0, train={"steps": 4})
        run = self.train("begun", 2, anew=False)
        self.assertEqual(metrics(run)[-1]["step"], STEPS)

    def test_what_cannot_be_is_refused(self):
        for keys, phrase in (
            ({"parallel": {"sync_every": -1}}, "parallel.sync_every"),
            ({"parallel": {"outer_momentum": 1.0}}, "parallel.outer_momentum"),
            ({"data": {"validation": str(WORK / "set.h5")}, "validation": {"every_steps": 4}, "early_stopping": {"patience": 2}},
             "validation.every_steps = 4 with early_stopping.patience = 2"),
            ({"run": {"reproducible": True}}, "parallel.sync_every = 3: what copies that are updated on their own"),
        ):  # fmt: skip
            with self.assertRaises(AssertionError) as refused:
                self.train("refused", 1, **keys)
            self.assertIn("exit code 2", str(refused.exception))
            self.assertIn(phrase, str(refused.exception))


if __name__ == "__main__":
    unittest.main(verbosity=2)
