"""`ddpm sample` given conditions and written as a dataset: equal bytes on any number of ranks, in any batch and after
any kill, physical units, the same images as diffusers draws, and inputs that are refused.

    sample_dataset_test.py [--samples N --kills K] [arguments of unittest]

With K kills of an ensemble of N samples (100,000 and 50 take some minutes), on 1, 2 and 3 ranks in turn."""

import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time
import unittest

import h5py
import numpy as np
import torch
from diffusers import DDIMScheduler, UNet2DModel

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_run import DDPM, MPIRUN, ddpm, digests, write_config  # noqa: E402

WORK = pathlib.Path.cwd()
COUNT, SIZE, MEMBERS = 15, 16, 3
PARSER = argparse.ArgumentParser(add_help=False)
PARSER.add_argument("--samples", type=int, default=COUNT * MEMBERS)
PARSER.add_argument("--kills", type=int, default=3)
OPTIONS, sys.argv[1:] = PARSER.parse_known_args()


def write_set(path, **changes):
    numbers = np.random.default_rng(0)
    arrays = {
        "images": (5 + 3 * numbers.standard_normal((COUNT, SIZE, SIZE, 2))).astype(np.float32),
        "condition": numbers.standard_normal((COUNT, SIZE // 2, SIZE // 2, 2)).astype(np.float32),
        "static": numbers.standard_normal((SIZE, SIZE, 1)).astype(np.float32),
        "parameters": numbers.random((COUNT, 3), dtype=np.float32),
    }
    with h5py.File(path, "w") as file:
        for name, array in {**arrays, **changes}.items():
            if array is not None:
                file[name] = array
    return path


def digests_of_shards(folder):
    return {name: digest for name, digest in digests(folder / "journal").items() if name.endswith(".json")}


class SampleDataset(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.path = write_set(WORK / "fields.h5")
        cls.given = cls.train("given", ["condition", "static", "parameters"], channels=3)
        cls.plain = cls.train("plain", [], channels=0, model={"num_class_embeds": 3}, labels=True)
        cls.conditioned = cls.train("conditioned", ["condition", "static"], channels=3, positions=True)
        cls.drawn = cls.ensemble("drawn")
        cls.stored = cls.ensemble("stored", "--denormalize")

    @classmethod
    def train(cls, name, roles, channels, positions=False, model=None, labels=False):
        run = WORK / name
        shutil.rmtree(run, ignore_errors=True)
        path = cls.path
        if labels:
            path = write_set(WORK / "labelled.h5", labels=np.arange(COUNT) % 3)
        data = {role: f"/{role}" for role in roles} | {"positions": positions, "normalize": "standardize"}
        total = 2 + channels + (4 if positions else 0)
        config = write_config(
            WORK / f"{name}.toml", run, path, data=data, model={"in_channels": total, "out_channels": 2, **(model or {})},
            diffusion={"condition_dropout": 0.2} if roles else {},
        )  # fmt: skip
        ddpm("train", config)
        return run

    @classmethod
    def sample(cls, output, *arguments, run=None, ranks=1, check=True, steps=3):
        output = WORK / output
        shutil.rmtree(output, ignore_errors=True)
        common = ("--scheduler", "ddim", "--steps", steps, "--format", "dataset", "--output", output)
        process = ddpm("sample", "--model", run or cls.given, *common, *arguments, ranks=ranks, check=check)
        return output if check else process

    @classmethod
    def ensemble(cls, output, *arguments, **options):
        return cls.sample(output, "--condition", cls.path, "--members", MEMBERS, *arguments, **options)

    def test_equal_bytes_on_any_number_of_ranks_and_in_any_batch(self):
        one = self.stored
        self.assertEqual(digests(one), digests(self.ensemble("two", "--denormalize", ranks=2)))
        process = self.ensemble("three", "--denormalize", "--batch", 5, ranks=3, check=False)
        self.assertIn("--batch 5 is not used", process.stderr)
        self.assertEqual(digests(one), digests(WORK / "three"))
        ddpm("data", "verify", one)
        info = json.loads((one / "dataset.json").read_text())
        self.assertEqual(info["count"], COUNT * MEMBERS)
        shards = sorted(one.glob("shard-*.h5"))
        index = np.concatenate([h5py.File(shard)["condition_index"][:] for shard in shards])
        member = np.concatenate([h5py.File(shard)["member"][:] for shard in shards])
        np.testing.assert_array_equal(index, np.arange(COUNT * MEMBERS) // MEMBERS)
        np.testing.assert_array_equal(member, np.arange(COUNT * MEMBERS) % MEMBERS)

    def test_every_rank_has_work_of_a_small_set(self):
        output = self.sample("small", "--class-label", "all", "--count", 9, run=self.plain, ranks=3)
        writers = [h5py.File(shard)["images"].shape[0] for shard in sorted(output.glob("*.h5"))]
        self.assertEqual(writers, [1] * 9, "shards are what ranks take in turn")
        self.assertEqual(digests(output), digests(self.sample("small-1", "--class-label", "all", "--count", 9, run=self.plain)))

    def test_denormalized_values_are_those_of_the_training_set(self):
        model_range, stored = self.drawn, self.stored
        fields = json.loads((self.given / "model" / "normalization.json").read_text())["fields"]
        (image,) = [field for field in fields if field["role"] == "image"]
        for one, other in zip(sorted(model_range.glob("*.h5")), sorted(stored.glob("*.h5")), strict=True):
            wanted = h5py.File(one)["images"][:].astype(np.float64)
            for c, variable in enumerate(image["variables"]):
                wanted[..., c] = wanted[..., c] * variable["transform"]["std"] + variable["transform"]["mean"]
            np.testing.assert_allclose(h5py.File(other)["images"][:], wanted, rtol=1e-5, atol=1e-4)
        listed = json.loads((stored / "dataset.json").read_text())["fields"][0]
        self.assertEqual(listed["variables"], image["variables"], "the set does not say how its values are mapped")

    def test_transforms_of_a_folder_travel_with_the_model_and_are_inverted(self):
        positive = np.abs(np.random.default_rng(3).standard_normal((COUNT, SIZE, SIZE, 2), np.float32))
        path = write_set(WORK / "positive.h5", images=positive, condition=None, static=None, parameters=None)
        shutil.rmtree(WORK / "mapped", ignore_errors=True)
        ddpm("data", "create", path, "--output", WORK / "mapped", "--names", "rain,wind", "--units", "mm,m/s",
             "--transform", "rain=quantile,wind=log1p")  # fmt: skip
        run = WORK / "mapped-run"
        shutil.rmtree(run, ignore_errors=True)
        config = write_config(WORK / "mapped.toml", run, WORK / "mapped", model={"in_channels": 2, "out_channels": 2}, train={"steps": 2})
        ddpm("train", config)
        (image,) = json.loads((run / "model" / "normalization.json").read_text())["fields"]
        self.assertEqual(image["variables"], json.loads((WORK / "mapped" / "dataset.json").read_text())["fields"][0]["variables"])
        seen = self.sample("mapped-range", "--count", 4, run=run)
        stored = self.sample("mapped-stored", "--count", 4, "--denormalize", run=run)
        read = [np.concatenate([h5py.File(shard)["images"][:] for shard in sorted(s.glob("*.h5"))]) for s in (seen, stored)]
        rain, wind = (variable["transform"] for variable in image["variables"])
        start, end = np.array(rain["from"]), np.array(rain["to"])
        line = np.clip(np.searchsorted(end, read[0][..., 0]) - 1, 0, len(end) - 2)
        slope = (start[line + 1] - start[line]) / (end[line + 1] - end[line])
        np.testing.assert_allclose(read[1][..., 0], start[line] + (read[0][..., 0] - end[line]) * slope, rtol=1e-3, atol=1e-4)
        wanted = np.expm1((read[0][..., 1].astype(np.float64) - wind["offset"]) / wind["scale"])
        np.testing.assert_allclose(read[1][..., 1], wanted, rtol=1e-3, atol=1e-4)

    def test_a_killed_command_goes_on_where_it_was(self):
        members = str(OPTIONS.samples // COUNT)
        steps = 20 if OPTIONS.samples == COUNT * MEMBERS else 2
        began = time.monotonic()
        whole = digests(self.sample("whole", "--condition", self.path, "--members", members, steps=steps))
        seconds = time.monotonic() - began
        output = WORK / "killed"
        shutil.rmtree(output, ignore_errors=True)
        shutil.rmtree(WORK / ".killed.partial", ignore_errors=True)
        command = [DDPM, "sample", "--model", self.given, "--condition", self.path, "--members", members, "--scheduler",
                   "ddim", "--steps", steps, "--format", "dataset", "--output", output]  # fmt: skip
        chance = random.Random(1)
        kills = 0
        for attempt in range(10 * OPTIONS.kills):
            ranks = 1 + attempt % 3
            launcher = [*MPIRUN, "-np", str(ranks)] if ranks > 1 else []
            process = subprocess.Popen([*launcher, *map(str, command)], stdout=subprocess.DEVNULL,
                                       stderr=subprocess.PIPE, start_new_session=True)  # fmt: skip
            patience = 0.2 + 1.2 * chance.random() * seconds / OPTIONS.kills  # less than all of the time, as long as it is killed
            try:
                process.wait(timeout=patience if kills < OPTIONS.kills else None)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                kills += 1
            error = process.communicate()[1].decode()
            if output.exists():
                break
            if process.returncode > 0:
                self.assertIn("another process is at work", error)  # a rank that outlived its launcher
                time.sleep(0.5)
        print(f"{members} x {COUNT} samples, {kills} kills in {attempt + 1} starts")
        self.assertEqual(kills, OPTIONS.kills)
        self.assertEqual(digests(output), whole)

    def test_what_another_network_drew_is_not_taken(self):
        """Weights alone do not tell networks apart."""
        folders = [WORK / name for name in ("silu", "gelu")]
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(self.plain / "model", folder)
        config = folders[1] / "unet" / "config.json"
        config.write_text(config.read_text().replace('"silu"', '"gelu"'))
        draw = ("--class-label", "all", "--count", 40, "--steps", 20, "--scheduler", "ddim", "--format", "dataset", "--output", WORK / "mixed")
        alone = digests(self.sample("gelu-alone", "--class-label", "all", "--count", 40, run=folders[1], steps=20))
        shutil.rmtree(WORK / "mixed", ignore_errors=True)
        shutil.rmtree(WORK / ".mixed.partial", ignore_errors=True)
        process = subprocess.Popen([DDPM, "sample", "--model", folders[0], *map(str, draw)], stderr=subprocess.DEVNULL)
        while process.poll() is None and not list((WORK / ".mixed.partial" / "journal").glob("*.json")):
            time.sleep(0.002)
        process.kill()
        process.wait()
        self.assertTrue(list((WORK / ".mixed.partial").glob("*.h5")), "the first command had no shard when it was killed")
        kept = digests_of_shards(WORK / ".mixed.partial")
        process = ddpm("sample", "--model", folders[1], *draw, check=False)
        self.refused(process, 4, [".mixed.partial: ", "finished there by a command with \"model ", "and this one has \"model "])
        self.assertEqual(digests_of_shards(WORK / ".mixed.partial"), kept)
        shutil.rmtree(WORK / ".mixed.partial")
        ddpm("sample", "--model", folders[1], *draw)
        self.assertEqual(digests(WORK / "mixed"), alone)

    def test_one_file_says_of_each_sample_what_a_folder_says(self):
        folder, file, labelled = self.drawn, WORK / "columns.h5", WORK / "labels-of-one-class.h5"
        draw = ("--scheduler", "ddim", "--steps", 3, "--output")
        ddpm("sample", "--model", self.given, "--condition", self.path, "--members", MEMBERS, *draw, file, ranks=2)
        for name in ("condition_index", "member"):
            shards = np.concatenate([h5py.File(shard)[name][:] for shard in sorted(folder.glob("*.h5"))])
            np.testing.assert_array_equal(h5py.File(file)[name][:], shards)
        ddpm("sample", "--model", self.plain, "--class-label", 2, "--count", 3, *draw, labelled)
        self.assertEqual(h5py.File(labelled)["labels"][:].tolist(), [2, 2, 2])
        ddpm("data", "inspect", file)

    def test_what_other_conditions_gave_is_not_taken(self):
        """A file without digests that has other values at the next start."""
        conditions = write_set(WORK / "tomorrow.h5")
        draw = ("--condition", conditions, "--members", 4, "--format", "dataset", "--output", WORK / "forecast",
                "--scheduler", "ddim", "--steps", 20)  # fmt: skip
        for left in ("forecast", ".forecast.partial"):
            shutil.rmtree(WORK / left, ignore_errors=True)
        process = subprocess.Popen([DDPM, "sample", "--model", self.given, *map(str, draw)], stderr=subprocess.DEVNULL)
        while process.poll() is None and not list((WORK / ".forecast.partial" / "journal").glob("*.json")):
            time.sleep(0.002)
        process.kill()
        process.wait()
        self.assertTrue(list((WORK / ".forecast.partial").glob("*.h5")), "the first command had no shard when it was killed")
        write_set(conditions, condition=np.zeros((COUNT, SIZE // 2, SIZE // 2, 2), np.float32))
        self.refused(ddpm("sample", "--model", self.given, *draw, check=False), 4, ["forecast.partial", "finished there by a command"])
        shutil.rmtree(WORK / ".forecast.partial")
        ddpm("sample", "--model", self.given, *draw)
        seen = digests(WORK / "forecast")
        shutil.rmtree(WORK / "forecast")
        ddpm("sample", "--model", self.given, *draw)
        self.assertEqual(digests(WORK / "forecast"), seen)

    def test_a_copied_or_touched_file_of_conditions_is_the_same(self):
        """Files without digests are known by what they hold: not by their times, nor by their names."""
        output = self.ensemble("of-original")
        made = digests(output)
        staged = WORK / "staged.h5"
        shutil.copyfile(self.path, staged)
        os.utime(staged, (10**9, 10**9))
        options = ("--model", self.given, "--members", MEMBERS, "--scheduler", "ddim", "--steps", 3, "--format", "dataset",
                   "--output", output)  # fmt: skip
        for ranks in (1, 2):
            process = ddpm("sample", *options, "--condition", staged, ranks=ranks)
            self.assertIn("of-original: this command has made its 45 samples before", process.stderr)
        self.assertEqual(digests(output), made)
        with h5py.File(staged, "r+") as file:
            file["condition"][COUNT - 1, 0, 0, 0] += 1  # of the same size
        os.utime(staged, ns=(os.stat(self.path).st_mtime_ns,) * 2)
        process = ddpm("sample", *options, "--condition", staged, check=False)
        self.refused(process, 4, ["of-original: exists already"])

    def test_a_mistyped_option_takes_nothing_from_what_is_done(self):
        draw = ("--condition", self.path, "--members", 4, "--format", "dataset", "--output", WORK / "seeded", "--scheduler", "ddim")
        for left in ("seeded", ".seeded.partial"):
            shutil.rmtree(WORK / left, ignore_errors=True)
        process = subprocess.Popen([DDPM, "sample", "--model", self.given, *map(str, draw), "--steps", "20"], stderr=subprocess.DEVNULL)
        while process.poll() is None and not list((WORK / ".seeded.partial" / "journal").glob("*.json")):
            time.sleep(0.002)
        process.kill()
        process.wait()
        kept = digests_of_shards(WORK / ".seeded.partial")
        self.assertTrue(kept, "the first command had no shard when it was killed")
        for ranks in (1, 2):
            process = ddpm("sample", "--model", self.given, *draw, "--steps", 20, "--seed", 1, ranks=ranks, check=False)
            self.refused(process, 4, ['by a command with "seed 0", and this one has "seed 1"; wanted: the same command'])
            self.assertEqual(digests_of_shards(WORK / ".seeded.partial"), kept)
        process = ddpm("sample", "--model", self.given, *draw, "--steps", 20, ranks=2)
        self.assertIn("from an earlier command", process.stderr)

    def test_what_is_complete_is_left_as_it_is(self):
        output = self.ensemble("complete-0.25")  # a name with a dot is a folder's, too
        made = digests(output)
        options = ("--model", self.given, "--condition", self.path, "--members", MEMBERS, "--scheduler", "ddim", "--steps", 3,
                   "--format", "dataset", "--output", output)
        for ranks in (1, 2):
            process = ddpm("sample", *options, ranks=ranks)
            self.assertIn("complete-0.25: this command has made its 45 samples before", process.stderr)
            self.assertEqual(digests(output), made)
        (output / "journal").mkdir()  # A kill after the folder has its name leaves its notes.
        (output / "journal" / "made-by.txt").write_text("notes")
        ddpm("data", "verify", output)
        ddpm("sample", *options)
        self.assertEqual(digests(output), made)
        self.refused(ddpm("sample", *options, "--seed", 9, check=False), 4, ["complete-0.25: exists already"])
        ddpm("data", "verify", output)

    def test_classes_one_after_another(self):
        output = self.sample("classes", "--class-label", "all", "--count", 20, run=self.plain)
        labels = np.concatenate([h5py.File(shard)["labels"][:] for shard in sorted(output.glob("*.h5"))])
        np.testing.assert_array_equal(labels, np.arange(20) % 3)
        bf16 = self.sample("bf16", "--class-label", "all", "--count", 20, "--precision", "bf16", run=self.plain)
        for one, other in zip(sorted(output.glob("*.h5")), sorted(bf16.glob("*.h5")), strict=True):
            exact, rounded = h5py.File(one)["images"][:], h5py.File(other)["images"][:]
            self.assertLess(np.abs(rounded - exact).max(), 0.1 * np.abs(exact).max())
            self.assertGreater(np.abs(rounded - exact).max(), 0)

    def test_diffusers_draws_the_same_from_conditions(self):
        model = self.conditioned / "model"
        values = json.loads((model / "normalization.json").read_text())
        maps = {field["role"]: field["variables"] for field in values["fields"]}
        with h5py.File(self.path) as file:
            arrays = {role: file[role][:] for role in ("condition", "static")}
        for role, array in arrays.items():
            for c, variable in enumerate(maps[role]):
                transform = variable["transform"]
                array[..., c] = (array[..., c] - transform["mean"]) / transform["std"]
        condition = torch.tensor(arrays["condition"][:2]).permute(0, 3, 1, 2)
        condition = torch.nn.functional.interpolate(condition, scale_factor=2, mode="bilinear", align_corners=False)
        angle = 2 * np.pi * np.arange(SIZE) / SIZE
        rows, columns = np.meshgrid(angle, angle, indexing="ij")
        positions = torch.tensor(np.stack([np.sin(rows), np.cos(rows), np.sin(columns), np.cos(columns)]), dtype=torch.float32)
        static = torch.tensor(arrays["static"]).permute(2, 0, 1)
        beside = torch.cat([condition, static.expand(2, -1, -1, -1), positions.expand(2, -1, -1, -1)], 1)
        noise = np.random.default_rng(2).standard_normal((2, 2, SIZE, SIZE)).astype(np.float32)
        np.save(WORK / "noise.npy", noise)
        ddpm("sample", "--model", model, "--condition", self.path, "--count", 2, "--scheduler", "ddim", "--steps", 10,
             "--initial-noise", WORK / "noise.npy", "--output", WORK / "drawn.npy")  # fmt: skip
        unet = UNet2DModel.from_pretrained(model, subfolder="unet").eval()
        scheduler = DDIMScheduler.from_pretrained(model, subfolder="scheduler")
        scheduler.set_timesteps(10)
        x = torch.tensor(noise)
        for t in scheduler.timesteps:
            with torch.no_grad():
                x = scheduler.step(unet(torch.cat([x, beside], 1), t).sample, t, x).prev_sample
        seen = np.load(WORK / "drawn.npy")
        self.assertLess(np.abs(seen - x.numpy()).max() / np.abs(x.numpy()).max(), 1e-4)

    def test_parameters_of_the_command_line_are_those_of_a_dataset(self):
        with h5py.File(self.path) as file:
            row = file["parameters"][4]
        alike = write_set(WORK / "alike.h5", parameters=np.tile(row, (COUNT, 1)))
        run = self.train("parameters", ["parameters"], channels=0)
        one = self.sample("of-set", "--condition", alike, run=run)
        other = self.sample("of-line", "--parameters", ",".join(repr(float(v)) for v in row), "--count", COUNT, run=run)
        for a, b in zip(sorted(one.glob("*.h5")), sorted(other.glob("*.h5")), strict=True):
            np.testing.assert_allclose(h5py.File(a)["images"][:], h5py.File(b)["images"][:], rtol=1e-5, atol=1e-5)

    def test_guidance_by_what_training_left_out(self):
        plain = self.drawn
        one = self.ensemble("guided-1", "--guidance-scale", 1.0)
        two = self.ensemble("guided-2", "--guidance-scale", 2.0)
        read = lambda folder: np.concatenate([h5py.File(s)["images"][:] for s in sorted(folder.glob("*.h5"))])  # noqa: E731
        np.testing.assert_allclose(read(one), read(plain), atol=1e-4 * np.abs(read(plain)).max())
        self.assertGreater(np.abs(read(two) - read(plain)).max(), 1e-3)

    def test_what_is_refused(self):
        bad = {
            "missing": (3, write_set(WORK / "missing.h5", condition=None), ["missing.h5", "/condition"]),
            "shape": (3, write_set(WORK / "shape.h5", condition=np.zeros((COUNT, SIZE, SIZE, 2), np.float32)),
                      ["role condition", "[16, 16, 2]", "[8, 8, 2]"]),
            "number": (3, write_set(WORK / "nan.h5", parameters=np.full((COUNT, 3), np.nan, np.float32)), ["nan.h5"]),
            "nowhere": (3, WORK / "nowhere.h5", ["nowhere.h5"]),
        }  # fmt: skip
        for name, (code, path, words) in bad.items():
            process = self.sample(f"bad-{name}", "--condition", path, check=False)
            self.refused(process, code, words)
        self.refused(self.sample("bad-none", check=False), 2, ["--condition is missing", "role condition"])
        self.refused(self.sample("bad-file.h5", "--condition", self.path, check=False), 2, ["--format dataset", "folder"])
        self.refused(self.ensemble("bad-count", "--count", 1000, check=False), 2, ["--count 1000", "45 images"])
        self.refused(self.sample("bad-given", "--condition", self.path, "--class-label", 1, run=self.plain, check=False),
                     2, ["--condition"])  # fmt: skip
        self.refused(self.sample("bad-guidance", "--class-label", 1, "--guidance-scale", 2, run=self.plain, check=False),
                     2, ["--guidance-scale 2", "diffusion.class_dropout = 0"])  # fmt: skip
        for text in ("0.1,0.2", "a,b,c", "1,,2"):
            self.refused(self.sample("bad-numbers", "--parameters", text, check=False), 2, [f"--parameters {text}"])
        process = ddpm("sample", "--model", self.given, "--condition", self.path, "--format", "dataset", "--output",
                       self.drawn, check=False)  # fmt: skip
        self.refused(process, 4, ["drawn: exists already"])

    def refused(self, process, code, words):
        self.assertEqual(process.returncode, code, process.stderr)
        errors = [line for line in process.stderr.splitlines() if line.startswith("ddpm: error")]
        self.assertEqual(len(errors), 1, process.stderr)
        for word in words:
            self.assertIn(word, errors[0])


if __name__ == "__main__":
    unittest.main(verbosity=2)
