"""Validation while training: the value, what it leaves alone, what is recorded and kept, early stopping."""

import hashlib
import json
import math
import os
import pathlib
import random
import shutil
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_run import ddpm, fill_weights, make_dataset, metrics, write_config, write_png  # noqa: E402
from philox import VALIDATION_NOISE, VALIDATION_TIMESTEP, below, normals  # noqa: E402

WORK = pathlib.Path.cwd()
WEIGHTS = "model/unet/diffusion_pytorch_model.safetensors"
SEED = 7  # of write_config
SIZE = 16
COUNT = 37  # nothing divides it
CONSTANT = {"name": "constant", "warmup_steps": 0}


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def noisy_picture(index):
    """Bytes of an RGB picture, row by row."""
    return random.Random(index).randbytes(3 * SIZE * SIZE)


def expected_loss(prediction_type, count):
    """The loss of a model that predicts zeros: the mean square of what it should predict."""
    alphas_cumprod, product = [], 1.0
    for t in range(1000):
        product *= 1.0 - (0.0001 + (0.02 - 0.0001) * t / 999)
        alphas_cumprod.append(product)
    losses = []
    for i in range(count):
        x0 = [value / 127.5 - 1.0 for value in noisy_picture(i)]
        x0 = [x0[3 * pixel + c] for c in range(3) for pixel in range(SIZE * SIZE)]
        noise = normals(len(x0), SEED, VALIDATION_NOISE, i)
        target = noise
        if prediction_type == "v_prediction":
            a = alphas_cumprod[below(1000, SEED, VALIDATION_TIMESTEP, i)]
            target = [math.sqrt(a) * e - math.sqrt(1.0 - a) * x for e, x in zip(noise, x0, strict=True)]
        losses.append(sum(v * v for v in target) / len(target))
    return sum(losses) / count


def validations(run):
    return {line["step"]: line["validation_loss"] for line in metrics(run) if "validation_loss" in line}


def checkpoints(run):
    return sorted(int(path.name[5:]) for path in (run / "checkpoints").glob("step-*"))


def state(run, step):
    return json.loads((run / "checkpoints" / f"step-{step:08}" / "MANIFEST.json").read_text())["state"]


class Validation(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dataset = make_dataset(WORK / "squares", ranks=2)
        cls.validation = cls.noisy_dataset("noisy", COUNT)
        cls.zeros = WORK / "zeros"
        if not cls.zeros.exists():
            run = WORK / "zeros-run"
            shutil.rmtree(run, ignore_errors=True)
            ddpm("train", write_config(WORK / "zeros.toml", run, cls.dataset, train={"steps": 1}))
            shutil.copytree(fill_weights(run / "model", 0.0), cls.zeros)

    @staticmethod
    def noisy_dataset(name, count):
        folder = WORK / name
        if not folder.exists():
            pictures = WORK / f"{name}-pictures"
            shutil.rmtree(pictures, ignore_errors=True)
            pictures.mkdir()
            for i in range(count):
                data = noisy_picture(i)
                rows = [data[y * 3 * SIZE : (y + 1) * 3 * SIZE] for y in range(SIZE)]
                write_png(pictures / f"{i:04}.png", SIZE, SIZE, rows)
            ddpm("data", "create", pictures, "--output", folder, "--size", SIZE, "--shards", 5)
        return folder

    def train(self, name, *overrides, ranks=1, fresh=True, every=1, **sections):
        """Trains with validation every `every` steps; 0: without."""
        run = WORK / name
        if fresh:
            shutil.rmtree(run, ignore_errors=True)
        sections["data"] = {"validation": str(self.validation), **sections.get("data", {})}
        sections["validation"] = {"every_steps": every, **sections.get("validation", {})}
        config = write_config(WORK / f"{name}.toml", run, self.dataset, **sections)
        self.process = ddpm("train", config, *overrides, ranks=ranks)
        return run

    def still(self, name, *overrides, **options):
        """A run whose weights stay at zero."""
        options.setdefault("optimizer", {"learning_rate": 0.0})
        return self.train(name, *overrides, model={"pretrained": str(self.zeros)}, lr_schedule=CONSTANT, **options)

    def best_model(self, run, step):
        """The files of RUN/model-best, which is what the checkpoint of `step` exports as."""
        exported = WORK / "exported"
        shutil.rmtree(exported, ignore_errors=True)
        ddpm("checkpoint", "export", run / "checkpoints" / f"step-{step:08}", "--output", exported)
        contents = [
            {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
            for folder in (run / "model-best", exported)
        ]
        self.assertEqual(*contents)
        return contents[0]

    def test_the_value_is_the_expected_one_on_1_to_4_ranks(self):
        batch = {"global_size": 12, "micro_size": 1}
        for prediction, images in (("epsilon", 0), ("v_prediction", 29)):
            wanted = expected_loss(prediction, images or COUNT)
            values = set()
            for ranks in (1, 2, 3, 4):
                run = self.still(
                    f"zero-{prediction}-{ranks}",
                    ranks=ranks,
                    batch=batch,
                    train={"steps": 1},
                    diffusion={"prediction_type": prediction},
                    validation={"images": images},
                    parallel={"zero_stage": ranks - 1},
                )
                values.add(validations(run)[1])
            self.assertEqual(len(values), 1, "other bits on other numbers of ranks")
            self.assertAlmostEqual(values.pop(), wanted, delta=1e-6 * wanted)

    def test_the_weights_are_those_of_the_finished_model(self):
        averaged = self.train("averaged", train={"steps": 4})
        raw = self.train("raw", train={"steps": 4}, ema={"enabled": False})
        self.assertNotEqual(validations(averaged)[4], validations(raw)[4])
        for run in (averaged, raw):
            again = self.train(
                f"{run.name}-again",
                train={"steps": 1},
                model={"pretrained": str(run / "model")},
                optimizer={"learning_rate": 0.0},
                ema={"enabled": False},
            )
            self.assertEqual(validations(again)[1], validations(run)[4])

    def test_training_is_the_same_bit_for_bit_without(self):
        layouts = [(1, 0, "no"), (2, 1, "bf16"), (2, 2, "fp16"), (3, 3, "no")]
        for ranks, stage, precision in layouts:
            runs = []
            for every in (0, 2):
                runs.append(
                    self.train(
                        f"touched-{every}",
                        ranks=ranks,
                        every=every,
                        batch={"global_size": 12, "micro_size": 2},
                        train={"steps": 5},
                        model={"dropout": 0.1, "block_out_channels": [8, 8]},
                        validation={"images": 13},
                        parallel={"zero_stage": stage, "activation_checkpointing": "blocks"},
                        precision={"mixed_precision": precision},
                    )
                )
            without, with_it = runs
            self.assertEqual(validations(without), {})
            self.assertEqual(list(validations(with_it)), [2, 4, 5])
            self.assertEqual(sha256(without / WEIGHTS), sha256(with_it / WEIGHTS), (ranks, stage, precision))
            for a, b in zip(metrics(without), metrics(with_it), strict=True):
                self.assertEqual((a["loss"], a["grad_norm"]), (b["loss"], b["grad_norm"]))

    def test_reproducible_runs_have_the_same_bits_on_1_2_and_4_ranks(self):
        curves = [
            validations(
                self.train(
                    f"bits-{ranks}",
                    ranks=ranks,
                    train={"steps": 3},
                    batch={"global_size": 8, "micro_size": 2},
                    run={"reproducible": True, "threads_per_rank": 1},
                )
            )
            for ranks in (1, 2, 4)
        ]
        self.assertEqual(curves[0], curves[1])
        self.assertEqual(curves[0], curves[2])

    def test_validated_steps_are_logged_and_none_appears_twice(self):
        keys = {"logging": {"every_steps": 4}, "lr_schedule": CONSTANT, "checkpoint": {"every_steps": 4, "keep_latest": 9}}
        run = self.train("lines", every=3, train={"steps": 10}, **keys)
        self.assertEqual([line["step"] for line in metrics(run)], [1, 3, 4, 6, 8, 9, 10])
        self.assertEqual(list(validations(run)), [3, 6, 9, 10])
        events = b"".join(path.read_bytes() for path in (run / "events").iterdir())
        self.assertEqual(events.count(b"validation/loss"), 4)
        before = metrics(run)
        # A run resumed from step 4, as after a crash, logs equal steps and losses, each once.
        shutil.rmtree(run / "model")
        ddpm("train", WORK / "lines.toml", "--checkpoint.resume", run / "checkpoints" / "step-00000004")
        for a, b in zip(before, metrics(run), strict=True):
            self.assertEqual((a["step"], a["loss"], a.get("validation_loss")), (b["step"], b["loss"], b.get("validation_loss")))

    def test_a_grown_run_has_the_losses_of_the_unbroken_one(self):
        whole = self.train("whole", every=2, train={"steps": 8}, lr_schedule=CONSTANT)
        grown = self.train("grown", every=2, train={"steps": 4}, lr_schedule=CONSTANT)
        ddpm("train", WORK / "grown.toml", "--train.steps", 8)
        self.assertEqual(validations(whole), validations(grown))
        self.assertEqual(state(whole, 8), state(grown, 8))

    def test_the_best_checkpoint_is_kept(self):
        # The loss never changes, so the first is the best. Nothing else would save a checkpoint of its step.
        keys = {"checkpoint": {"every_steps": 3, "keep_latest": 1}, "ema": {"enabled": False}}
        run = self.still("kept", every=2, train={"steps": 8}, **keys)
        self.assertEqual(checkpoints(run), [2, 6, 8])  # two of the newest stay in any case
        self.assertEqual(state(run, 8)["validation_best_step"], 2)
        self.assertIn("step-00000002", self.process.stderr)
        self.assertIn("| optimizer steps | 2 |", self.best_model(run, 2)["README.md"].decode())
        # A run that was killed before its model was there, which comes last, makes both.
        shutil.rmtree(run / "model")
        shutil.rmtree(run / "model-best")
        (run / ".model-best.tmp-0123456789abcdef").mkdir()
        ddpm("train", WORK / "kept.toml")
        self.best_model(run, 2)
        self.assertTrue((run / "model" / "model_index.json").exists())
        self.assertFalse([name for name in os.listdir(run) if ".tmp-" in name])
        # The best checkpoint is still kept when the run continues, even without further validations.
        ddpm("train", WORK / "kept.toml", "--train.steps", 10)
        self.assertEqual(checkpoints(run), [2, 9, 10])
        ddpm("train", WORK / "kept.toml", "--train.steps", 14, "--validation.every_steps", 0)
        self.assertEqual(checkpoints(run), [2, 12, 14])
        self.best_model(run, 2)
        # When the loss falls, the best checkpoint moves on.
        run = self.train("falling", every=5, train={"steps": 30}, checkpoint={"every_steps": 1000, "keep_latest": 1})
        losses = validations(run)
        best = min(losses, key=losses.get)
        self.assertGreater(best, 5)
        kept = checkpoints(run)  # of each best so far, and of the end: the newest two
        self.assertEqual((len(kept), kept[-1]), (2, 30))
        self.assertIn(best, kept)
        self.assertEqual(state(run, 30)["validation_best_loss"], losses[best])
        self.best_model(run, best)

    def test_what_no_longer_holds_is_forgotten(self):
        keys = {"checkpoint": {"every_steps": 2, "keep_latest": 9}, "train": {"steps": 4}}
        run = self.still("forgetful", every=2, **keys)
        self.assertEqual(state(run, 4)["validation_best_step"], 2)
        shutil.rmtree(run / "checkpoints" / "step-00000002")
        process = ddpm("train", WORK / "forgetful.toml", "--train.steps", 6)
        self.assertIn("not there", process.stderr)
        self.assertEqual(state(run, 6)["validation_best_step"], 6)
        process = ddpm("train", WORK / "forgetful.toml", "--train.steps", 8, "--validation.images", 5)
        self.assertIn("another one now", process.stderr)
        self.assertEqual(state(run, 8)["validation_best_step"], 8)
        self.best_model(run, 8)
        self.assertEqual(state(run, 8)["validation_waited"], 0)
        # Without a best loss there is no best model, not even an earlier one.
        for step in (6, 8):
            shutil.rmtree(run / "checkpoints" / f"step-{step:08}")
        ddpm("train", WORK / "forgetful.toml", "--train.steps", 5, "--validation.every_steps", 0)
        self.assertTrue((run / "model").exists())
        self.assertFalse((run / "model-best").exists())

    def test_early_stopping_ends_a_run_as_done(self):
        for ranks in (1, 4):
            name = f"early-{ranks}"
            run = self.still(name, ranks=ranks, train={"steps": 50}, early_stopping={"patience": 2})
            self.assertIn("stopped early at step 3 of 50", self.process.stderr)
            self.assertEqual([line["step"] for line in metrics(run)], [1, 2, 3])
            self.assertEqual(checkpoints(run), [1, 3])
            self.assertTrue((run / "model" / "model_index.json").exists())
            before = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
            process = ddpm("train", WORK / f"{name}.toml", ranks=ranks)
            self.assertIn("nothing to do", process.stderr)
            self.assertEqual(before, {path: path.stat().st_mtime_ns for path in run.rglob("*")})
        # This is what a crash between the last checkpoint and the model leaves.
        shutil.rmtree(run / "model")
        ddpm("train", WORK / f"{name}.toml")
        self.assertTrue((run / "model" / "model_index.json").exists())
        self.assertEqual([line["step"] for line in metrics(run)], [1, 2, 3])
        # With more patience the run continues.
        ddpm("train", WORK / f"{name}.toml", "--early_stopping.patience", 4)
        self.assertEqual([line["step"] for line in metrics(run)], [1, 2, 3, 4, 5])
        ddpm("train", WORK / f"{name}.toml", "--early_stopping.patience", 0, "--train.steps", 7)
        self.assertEqual([line["step"] for line in metrics(run)], list(range(1, 8)))

    def test_a_run_from_a_stopped_ones_checkpoint_has_its_own_patience(self):
        stopped = self.still("stopped", train={"steps": 9}, early_stopping={"patience": 2})
        self.assertEqual(checkpoints(stopped), [1, 3])
        run = self.still(
            "onward",
            train={"steps": 9},
            early_stopping={"patience": 2},
            checkpoint={"resume": str(stopped / "checkpoints" / "step-00000003")},
        )
        self.assertEqual([line["step"] for line in metrics(run)], [4, 5, 6])
        self.assertEqual(checkpoints(run), [4, 6])

    def test_overfitting_is_noticed(self):
        few = make_dataset(WORK / "few", 4)
        others = make_dataset(WORK / "others", 24)
        run = WORK / "overfit"
        shutil.rmtree(run, ignore_errors=True)
        config = write_config(
            WORK / "overfit.toml",
            run,
            few,
            data={"validation": str(others)},
            model={"block_out_channels": [16, 32]},
            batch={"global_size": 8, "micro_size": 8},
            train={"steps": 1500},
            optimizer={"learning_rate": 4e-3},
            ema={"enabled": False},
            validation={"every_steps": 10},
            early_stopping={"patience": 8},
            checkpoint={"every_steps": 1000, "keep_latest": 1},
        )
        ddpm("train", config)
        losses = validations(run)
        best = min(losses, key=losses.get)
        last = max(losses)
        print(f"best {losses[best]:.4f} at step {best}, last {losses[last]:.4f} at step {last}")
        self.assertLess(last, 1500)
        self.assertEqual(last, best + 8 * 10)
        self.assertEqual(checkpoints(run), [best, last])
        curve = [line["loss"] for line in metrics(run)]
        self.assertLess(sum(curve[last - 80 : last]), sum(curve[best - 80 : best]), "training has not gone on")

    def test_a_loss_that_is_not_finite_is_reported_and_never_best(self):
        huge = WORK / "huge"
        shutil.rmtree(huge, ignore_errors=True)
        shutil.copytree(self.zeros, huge)
        fill_weights(huge, 6e4)
        run = self.train(
            "huge-run", train={"steps": 2}, model={"pretrained": str(huge)}, precision={"mixed_precision": "fp16"}
        )
        self.assertEqual(validations(run), {1: None, 2: None})
        self.assertIn("of 37 images, 37 had a validation loss that is not finite", self.process.stderr)
        self.assertNotIn("validation_best_step", state(run, 2))


if __name__ == "__main__":
    unittest.main(verbosity=2)
