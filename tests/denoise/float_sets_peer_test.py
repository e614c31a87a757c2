"""Sets of float32 fields, as h5py writes them: their statistics, values that are not finite, values far from unit scale,
and clipping."""

import json
import os
import pathlib
import re
import shutil
import sys
import unittest

import h5py
import numpy as np

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_run import ddpm, make_dataset, metrics, write_config  # noqa: E402

WORK = pathlib.Path.cwd()
MODEL = {"in_channels": 2, "out_channels": 2}
DIFFUSION = {"num_train_timesteps": 4}


def write_fields(name, fields, layout="NHWC"):
    path = WORK / name
    with h5py.File(path, "w") as file:
        stored = fields if layout == "NHWC" else np.ascontiguousarray(np.moveaxis(fields, -1, 1))
        file["images"] = stored.astype(np.float32)
        file["images"].attrs["layout"] = layout
    return path


def standard(count=40, seed=0):
    return np.random.default_rng(seed).standard_normal((count, 16, 16, 2)).astype(np.float32)


class FloatSets(unittest.TestCase):
    def config(self, name, dataset, **sections):
        run = WORK / name
        shutil.rmtree(run, ignore_errors=True)
        sections = {"model": MODEL, "train": {"steps": 1}, "diffusion": DIFFUSION, **sections}
        return run, write_config(WORK / f"{name}.toml", run, dataset, **sections)

    def scheduler(self, run):
        return json.loads((run / "model/scheduler/scheduler_config.json").read_text())

    def test_inspect_computes_statistics_the_same_on_any_number_of_ranks(self):
        fields = 288.0 + 20.0 * standard(300) * [1.0, 0.01]
        for layout in ("NHWC", "NCHW"):
            path = write_fields(f"statistics-{layout}.h5", fields, layout)
            stored = fields.astype(np.float32).astype(np.float64)
            shown = {ranks: ddpm("data", "inspect", path, "--json", ranks=ranks).stdout for ranks in (1, 2, 3)}
            self.assertEqual(shown[1], shown[2])
            self.assertEqual(shown[1], shown[3])
            for c, channel in enumerate(json.loads(shown[1])["statistics"]):
                values = stored[..., c]
                self.assertAlmostEqual(channel["mean"], values.mean(), delta=1e-10 * 288)
                self.assertAlmostEqual(channel["std"], values.std(), delta=1e-10 * values.std())
                self.assertEqual((channel["min"], channel["max"]), (values.min(), values.max()))
            self.assertIn("channel 1: mean 288, std 0.", ddpm("data", "inspect", path).stdout)
            self.assertIn("statistics of 300 images (all 300 were read):", ddpm("data", "inspect", path).stdout)
        quick = json.loads(ddpm("data", "inspect", path, "--quick", "--json").stdout)
        self.assertEqual((quick["statistics"], quick["statistics_images"], quick["images_read"]), ([], 0, 0))

    def test_inspect_looks_at_a_sample_unless_all_is_asked_for(self):
        values = np.random.default_rng(1).standard_normal((6000, 2, 2, 1)).astype(np.float32)
        values[3] = np.inf  # not one of the 4,096 images, which are i * 6,000 // 4,096
        path = write_fields("sampled.h5", values)
        sample = values[[i * 6000 // 4096 for i in range(4096)]].astype(np.float64)
        for ranks in (1, 2):
            shown = json.loads(ddpm("data", "inspect", path, "--json", ranks=ranks).stdout)
            self.assertEqual((shown["count"], shown["statistics_images"], shown["images_read"]), (6000, 4096, 4096))
            self.assertAlmostEqual(shown["statistics"][0]["mean"], sample.mean(), delta=1e-12)
            self.assertEqual(shown["statistics"][0]["max"], sample.max())
        said = ddpm("data", "inspect", path).stdout
        self.assertIn("statistics of 4,096 images (4,096 of 6,000 were read, evenly spread; --all reads every one):", said)

        read = ddpm("data", "inspect", path, "--all", "--json", check=False)
        self.assertEqual(read.returncode, 3, read.stderr)
        self.assertIn("sampled.h5: 1 of 6,000 images cannot be used: ", read.stderr)
        shown = json.loads(read.stdout)
        self.assertEqual((shown["statistics_images"], shown["images_read"]), (5999, 6000))
        self.assertEqual(shown["statistics"][0]["max"], np.delete(values, 3, axis=0).max())

        values[1000 * 6000 // 4096] = np.nan
        read = ddpm("data", "inspect", write_fields("sampled.h5", values), check=False)
        self.assertEqual(read.returncode, 3, read.stderr)
        self.assertIn("sampled.h5: 1 of 4,096 images looked at cannot be used: ", read.stderr)
        self.assertIn("image 1464 ", read.stderr)
        self.assertEqual(ddpm("data", "inspect", path, "--all", "--quick", check=False).returncode, 2)

    def test_values_far_from_unit_scale_are_warned_of_with_the_numbers(self):
        fields = 288.0 + 20.0 * standard() * [1.0, 0.0] + [0.0, -288.0]
        path = write_fields("kelvin.h5", fields)
        values = fields[..., 0].astype(np.float32).astype(np.float64)
        scale = f"mean {values.mean():.4g}, deviation {values.std():.4g}, from {values.min():.4g} to {values.max():.4g}"
        _, config = self.config("kelvin", path)
        dry = ddpm("train", config, "--dry-run")
        self.assertRegex(dry.stdout, rf"Values   as all images show:\n +channel 0: {re.escape(scale)}\n")
        for said in (dry.stderr, ddpm("train", config).stderr, ddpm("train", config, "--train.steps", 2, ranks=2).stderr):
            lines = [line for line in said.splitlines() if "far from unit scale" in line]
            self.assertEqual(len(lines), 1, said)
            self.assertRegex(lines[0], rf"warning: .*kelvin.h5: .*channel 0 \({re.escape(scale)}\)")
            self.assertIn("channel 1 (mean 0, deviation 0, from 0 to 0)", lines[0])
            self.assertIn('data.normalize = "standardize"', lines[0])
            self.assertIn("a channel of deviation 0 holds one value", lines[0])
        _, config = self.config("many", write_fields("many.h5", 288.0 + standard(600)))
        self.assertIn("as 256 sampled images show", ddpm("train", config, "--dry-run").stderr)

    def test_samples_of_floats_are_not_cut_unless_that_is_asked_for(self):
        path = write_fields("standard.h5", standard())
        run, config = self.config("uncut", path)
        said = ddpm("train", config).stderr
        self.assertIn(f"diffusion.clip_sample = false, since {path} holds float32 values", said)
        self.assertNotIn("warning", said)
        self.assertIn("\nclip_sample = false\n", (run / "config.toml").read_text())
        self.assertIs(self.scheduler(run)["clip_sample"], False)

        cut, config = self.config("cut", path, diffusion={**DIFFUSION, "clip_sample": True})
        said = ddpm("train", config).stderr
        self.assertRegex(said, r"warning: .*samples will be cut at ±1 \(diffusion.clip_sample = true\).* from -\d")
        self.assertIs(self.scheduler(cut)["clip_sample"], True)
        for folder, clips in ((run, False), (run / "model", False), (cut, True), (cut / "model", True)):
            ddpm("sample", "--model", folder, "--count", 4, "--output", WORK / "out.npy")
            self.assertEqual(bool(np.abs(np.load(WORK / "out.npy")).max() <= 1.0), clips, folder)

        # A picture set keeps its default.
        pictures, config = self.config("pictures", make_dataset(WORK / "squares"), model={})
        self.assertNotIn("clip_sample", ddpm("train", config).stderr)
        self.assertIs(self.scheduler(pictures)["clip_sample"], True)

    def test_a_run_from_before_goes_on_as_it_began(self):
        path = write_fields("older.h5", standard())
        run, config = self.config("older", path)
        ddpm("train", config, "--diffusion.clip_sample", "true")  # as every run was, whether asked for or not
        self.assertIn(f"as the run in {run} has it", ddpm("train", config, "--dry-run", "--train.steps", 2).stderr)
        for steps, ranks in ((2, 1), (3, 2)):
            said = ddpm("train", config, "--train.steps", steps, ranks=ranks).stderr
            self.assertIn(f"diffusion.clip_sample = true, as the run in {run} has it: samples are cut at ±1", said)
            self.assertIn("samples will be cut", said)
            self.assertNotIn("another configuration", said)
            self.assertEqual(metrics(run)[-1]["step"], steps)
        refused = ddpm("train", config, "--diffusion.clip_sample", "false", "--train.steps", 4, check=False)
        self.assertEqual(refused.returncode, 4, refused.stderr)
        self.assertIn("diffusion.clip_sample = true, yours is false", refused.stderr)

    def test_config_new_does_not_clip_floats(self):
        texts = {}
        for name, dataset in (("floats", write_fields("new.h5", standard())), ("bytes", make_dataset(WORK / "squares"))):
            path = WORK / f"new-{name}.toml"
            path.unlink(missing_ok=True)
            ddpm("config", "new", "--data", dataset, "--output", path)
            texts[name] = path.read_text()
            ddpm("config", "validate", path)
        self.assertIn("[diffusion]\nclip_sample = false", texts["floats"])
        self.assertNotIn("clip_sample", texts["bytes"])

    def test_values_that_are_not_finite_are_named_wherever_they_are_read(self):
        fields = standard(600)
        fields[301, 5, 6, 1] = np.inf  # not among the images that are looked at before the first step
        late = write_fields("late.h5", fields)
        fault = f"{late}:/images: image 301 (number 301 of the dataset) holds inf in channel 1 at row 5, column 6"
        run, config = self.config("late", late, train={"steps": 60}, data={"shuffle": "none"})
        for ranks in (1, 2):
            process = ddpm("train", config, ranks=ranks, check=False)
            self.assertEqual(process.returncode, 3, process.stderr)
            self.assertIn(fault, process.stderr)
            self.assertFalse((run / "model").exists())
            self.assertFalse((run / "LOCK").exists())

        fields[300, 0, 0, 0] = np.nan
        fields[7, 15, 15, 1] = -np.inf
        bad = write_fields("bad.h5", fields)
        run, config = self.config("bad", bad)
        for command in (("train", config), ("train", config, "--dry-run")):
            for ranks in (1, 2):
                process = ddpm(*command, ranks=ranks, check=False)
                self.assertEqual(process.returncode, 3, process.stderr)
                self.assertRegex(process.stderr, r"bad.h5:/images: image (7|300) ")
                self.assertFalse(run.exists())
        for ranks in (1, 2):
            inspected = ddpm("data", "inspect", bad, "--json", ranks=ranks, check=False)
            verified = ddpm("data", "verify", bad, "--json", ranks=ranks, check=False)
            for process in (inspected, verified):
                self.assertEqual(process.returncode, 3, process.stderr)
                self.assertIn("3 of 600 images cannot be used", process.stderr)
                for word in ("image 7 ", "holds -inf", "image 300 ", "holds nan", "image 301 "):
                    self.assertIn(word, process.stderr)
            self.assertEqual(len(json.loads(inspected.stdout)["statistics"]), 2)
            report = json.loads(verified.stdout)
            self.assertEqual((report["valid"], report["images"], report["unusable_images"]), (False, 600, 3))
            self.assertEqual(len(report["damaged"]), 3)
        self.assertEqual(ddpm("data", "verify", write_fields("good.h5", standard())).returncode, 0)

    def test_elements_of_other_types_are_named_with_what_would_work(self):
        with h5py.File(WORK / "half.h5", "w") as file:
            file["images"] = standard(4).astype(np.float16)
        said = ddpm("data", "inspect", WORK / "half.h5", check=False)
        self.assertEqual(said.returncode, 3)
        self.assertIn("float16, bool", said.stderr)
        self.assertIn("x.astype('float32')", said.stderr)

    def test_validation_sets_are_checked_too(self):
        fields = standard()
        fields[3, 1, 2, 0] = np.nan
        bad = write_fields("bad-validation.h5", fields)
        sections = {"data": {"validation": str(bad)}, "validation": {"every_steps": 1}}
        _, config = self.config("validated", write_fields("good-training.h5", standard()), **sections)
        process = ddpm("train", config, check=False)
        self.assertEqual(process.returncode, 3, process.stderr)
        self.assertIn("bad-validation.h5:/images: image 3 ", process.stderr)


if __name__ == "__main__":
    unittest.main()
