"""A dry run refuses what training would refuse before its first step: with the same line and exit code, without a trace."""

import os
import pathlib
import shutil
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_run import ddpm, make_dataset, says, write_config  # noqa: E402
from safetensors_file import with_header  # noqa: E402

WORK = pathlib.Path.cwd()
WEIGHTS = "unet/diffusion_pytorch_model.safetensors"


def state_of(folder):
    """All below it, with sizes and times of the files (MPI-IO keeps a file of its own in a folder for a moment)."""
    files = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()]
    return sorted(files), sorted(str(path) for path in folder.rglob("*"))


def write_bytes(path, change):
    path.write_bytes(change(path.read_bytes()))


class DryRun(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dataset = make_dataset(WORK / "squares")
        cls.labelled = make_dataset(WORK / "labelled", 60, 16, 1, "--labels", "folder")
        cls.run_folder = WORK / "trained"
        shutil.rmtree(cls.run_folder, ignore_errors=True)
        ddpm("train", write_config(WORK / "trained.toml", cls.run_folder, cls.dataset, train={"steps": 1}))

    def copied(self, source, name):
        folder = WORK / name
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(source, folder)
        return folder

    def lines(self, *arguments, ranks=1):
        process = ddpm(*arguments, check=False, ranks=ranks)
        return process.returncode, [line for line in process.stderr.splitlines() if line.startswith("ddpm: error")]

    def refused(self, code, words, run=None, dataset=None, ranks=1, **sections):
        """Refused by a dry run and by training alike."""
        folder = run or WORK / "refused"
        if run is None:
            shutil.rmtree(folder, ignore_errors=True)
        sections.setdefault("train", {"steps": 2})
        config = write_config(WORK / "refused.toml", folder, dataset or self.dataset, **sections)
        before = state_of(WORK)
        dry = self.lines("train", config, "--dry-run", ranks=ranks)
        self.assertEqual(state_of(WORK), before)
        self.assertEqual(dry[0], code, dry)
        self.assertEqual(len(dry[1]), 1, dry)
        for word in words:
            self.assertTrue(says(dry[1][0], word), (word, dry[1][0]))
        self.assertEqual(dry, self.lines("train", config, ranks=ranks))

    def test_pretrained_weights(self):
        def pickled(model):
            (model / WEIGHTS).rename(model / "unet/diffusion_pytorch_model.bin")

        def split(model):
            (model / WEIGHTS).rename(model / "unet/diffusion_pytorch_model-00001-of-00002.safetensors")
            (model / "unet/diffusion_pytorch_model.safetensors.index.json").write_text("{}")

        def other_type(data):
            return data.replace(b'"F32"', b'"I32"', 1)

        def other_name(data):
            return data.replace(b"conv_in.bias", b"conv_on.bias", 1)

        cases = {
            "pickled": (pickled, ["pickle"]),
            "split": (split, ["index.json", "weight_map"]),
            "absent": (lambda model: (model / WEIGHTS).unlink(), ["has no diffusion_pytorch_model.safetensors"]),
            "truncated": (lambda model: write_bytes(model / WEIGHTS, lambda data: data[:-100]), ["bytes of data"]),
            "empty": (lambda model: write_bytes(model / WEIGHTS, lambda data: b""), ["not a safetensors file"]),
            "noise": (lambda model: write_bytes(model / WEIGHTS, lambda data: b"\xff" * 999), ["safetensors"]),
            "other-type": (lambda model: write_bytes(model / WEIGHTS, with_header(other_type)), ["wanted: a floating type"]),
            "other-name": (lambda model: write_bytes(model / WEIGHTS, with_header(other_name)), ["conv_in.bias", "missing"]),
            "no-config": (lambda model: (model / "unet/config.json").unlink(), ["config.json"]),
            "no-folder": (shutil.rmtree, ["no-folder"]),
        }
        for name, (change, words) in cases.items():
            with self.subTest(name):
                model = self.copied(self.run_folder / "model", name)
                change(model)
                self.refused(4, [str(model), *words], model={"pretrained": str(model)})
        model = str(self.run_folder / "model")
        self.refused(4, ["does not fit the model"], model={"pretrained": model, "block_out_channels": [16, 16]})
        deeper = {"pretrained": model, "layers_per_block": 2}
        self.refused(4, ["does not fit the model"], model=deeper, ranks=2)

    def test_tiles(self):
        tiles = {"parallel": {"spatial_size": [2, 1]}}
        self.refused(2, ["makes a tile of 8 × 16 pixels"], ranks=2, data={"quarter_turns": True}, **tiles)
        self.refused(2, ["sample.every_steps = 2", "which parallel.spatial_size = [2, 1] cuts"], ranks=2,
                     diffusion={"thresholding": True, "clip_sample": False}, sample={"every_steps": 2}, **tiles)  # fmt: skip

    def test_pretrained_weights_that_training_takes(self):
        run = WORK / "fitting"
        shutil.rmtree(run, ignore_errors=True)
        config = write_config(WORK / "fitting.toml", run, self.dataset, train={"steps": 1},
                              model={"pretrained": str(self.run_folder / "model")})  # fmt: skip
        self.assertIn("new; nothing was written", ddpm("train", config, "--dry-run").stdout)
        ddpm("train", config)
        shutil.rmtree(self.copied(self.run_folder / "model", "gone"))  # a resumed run no longer needs them
        done = ddpm("train", config, "--dry-run").stdout
        self.assertIn("which is done at step 1; nothing was written", done)
        more = ddpm("train", config, "--dry-run", "--train.steps", 2).stdout
        self.assertIn("which would continue from", more)

    def test_checkpoint_to_resume_from(self):
        step = "checkpoints/step-00000001"
        named = self.run_folder / step

        def resumed(words, path, **sections):
            self.refused(4, words, checkpoint={"resume": str(path)}, **sections)

        resumed(["nowhere"], WORK / "nowhere")
        resumed(["MANIFEST.json"], self.dataset)
        damaged = self.copied(self.run_folder, "damaged")
        shard = next((damaged / step).glob("*.safetensors"))
        write_bytes(shard, lambda data: data[:-5] + b"\x01\x02\x03\x04\x05")
        resumed([str(shard), "SHA-256"], damaged / step)
        write_bytes(shard, lambda data: data[:-5])
        resumed([str(shard)], damaged / step)
        resumed(["tensor 'model/"], named, model={"block_out_channels": [16, 16]})
        resumed(["holds no tensor"], named, ema={"max_decay": [0.9, 0.99]})
        other = make_dataset(WORK / "other", 30)
        resumed(["was trained on other images"], named, dataset=other)
        resumed(["has a checkpoint of step 1", "never"], "never", run=self.run_folder)
        self.refused(4, ["is another run's", "learning_rate"], run=self.run_folder, optimizer={"learning_rate": 0.5})
        self.refused(4, ["no readable checkpoint among 1 (newest"], run=damaged)
        self.refused(4, ["holds files but no run"], run=self.dataset)

    def test_validation_set(self):
        def refused(words, validation, images=0, **sections):
            self.refused(3, words, data={"validation": str(validation)},
                         validation={"every_steps": 1, "images": images}, **sections)  # fmt: skip

        refused(["nowhere"], WORK / "nowhere")
        refused(["images are 32 × 32 × 3 of", "squares are 16 × 16 × 3 of"], make_dataset(WORK / "larger", 4, 32))
        refused(["images are 16 × 16 × 1 of"], make_dataset(WORK / "grey", 4, 16, 1, "--channels", 1))
        refused(["holds 60 images", "validation.images = 61"], self.dataset, images=61)
        refused(["no labels"], self.dataset, dataset=self.labelled, model={"num_class_embeds": 2})
        cut = self.copied(self.dataset, "cut")
        write_bytes(sorted(cut.glob("*.h5"))[0], lambda data: data[:-1])
        refused(["bytes", "were written"], cut)
        plain = WORK / "plain.h5"
        plain.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(4000))
        refused(["plain.h5"], plain)

    def test_a_validation_set_that_is_not_used_is_said(self):
        config = write_config(WORK / "unused.toml", WORK / "unused", self.dataset, data={"validation": str(WORK / "nowhere")})
        self.assertIn("validation.every_steps = 0: the validation set is not used", ddpm("train", config, "--dry-run").stderr)

    def test_a_run_that_stopped_early_goes_on_with_another_validation_set(self):
        run = WORK / "patient"
        shutil.rmtree(run, ignore_errors=True)
        first, second = (make_dataset(WORK / f"held-out-{count}", count) for count in (6, 7))
        config = write_config(WORK / "patient.toml", run, self.dataset, data={"validation": str(first)},
                              train={"steps": 9}, validation={"every_steps": 1},
                              early_stopping={"patience": 2, "min_delta": 100.0})  # fmt: skip
        ddpm("train", config)
        self.assertIn("which is done at step 3; nothing was written", ddpm("train", config, "--dry-run").stdout)
        other = ("train", config, "--data.validation", second)
        foretold = ddpm(*other, "--dry-run")
        self.assertIn("which would continue from", foretold.stdout)
        trained = ddpm(*other)
        self.assertTrue((run / "checkpoints" / "step-00000006").is_dir(), trained.stderr)
        for process in (foretold, trained):
            self.assertIn("the validation set is another one now", process.stderr)

    def test_outer_steps_that_are_not_made_are_said(self):
        config = write_config(WORK / "outer.toml", WORK / "outer", self.dataset)
        for keys, warned in ((("outer_momentum", 0.9), True), (("outer_learning_rate", 0.5), True), (("sync_every", 0), False)):
            said = ddpm("train", config, "--dry-run", f"--parallel.{keys[0]}", keys[1]).stderr
            self.assertEqual("parallel.sync_every = 0: no outer steps are made" in said, warned, said)

    def test_averages_that_no_checkpoint_keeps_are_said(self):
        for name, checkpoint, warned in (("lost", {}, True), ("kept", {"keep_every": 1000}, False)):
            config = write_config(WORK / f"{name}.toml", WORK / name, self.dataset, ema={"relative_lengths": [0.05, 0.1]},
                                  checkpoint=checkpoint)  # fmt: skip
            self.assertEqual("too few for averages" in ddpm("train", config, "--dry-run").stderr, warned)

    def test_too_many_starts(self):
        run = WORK / "often"
        shutil.rmtree(run, ignore_errors=True)
        run.mkdir()
        (run / "starts.json").write_text('{"step":0,"starts":3}\n')
        self.refused(5, ["started 3 times from step 0"], run=run, fault={"max_starts_without_progress": 3})


if __name__ == "__main__":
    unittest.main(verbosity=2)
