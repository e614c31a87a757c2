"""Training on random windows (data.patch) and samples that are larger than the model (ddpm sample --size): the same bits
on any number of ranks and after a resume, fields that wrap, all that images are drawn given, and what is refused."""

import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

import h5py
import numpy as np

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_run import STAGES, TIMEOUT_S, assert_same_curve, command, ddpm, metrics, planned_bytes, write_config  # noqa: E402

WORK = pathlib.Path.cwd()
COUNT, SIZE, PATCH = 24, 16, 8
KEYS = {"condition": "/condition", "static": "/static", "parameters": "/parameters", "mask": "/mask"}
ALL = [*KEYS, "positions"]
CONVOLUTIONAL = {"down_block_types": ["DownBlock2D"] * 2, "up_block_types": ["UpBlock2D"] * 2, "add_attention": False}
REPRODUCIBLE = {
    "batch": {"global_size": 8, "micro_size": 1},
    "run": {"reproducible": True, "threads_per_rank": 1},
    "lr_schedule": {"name": "constant"},
}


def arrays(grid=(SIZE, SIZE), count=COUNT):
    random = np.random.default_rng(0)
    condition = random.standard_normal((count, *(side // 2 for side in grid), 2)).astype(np.float32)
    images = np.kron(condition, np.ones((1, *(2 for _ in grid), 1)))
    images += 0.2 * random.standard_normal(images.shape)
    return {
        "images": images.astype(np.float32),
        "condition": condition,
        "static": random.standard_normal((*grid, 1)).astype(np.float32),
        "parameters": random.random((count, 3), dtype=np.float32),
        "mask": (random.random((count, *grid)) > 0.3).astype(np.uint8),
    }


def crc32c(data):
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def write_set(path, values):
    with h5py.File(path, "w") as file:
        for name, array in values.items():
            file[name] = array
    return path


def digest(folder, pattern):
    files = sorted(folder.glob(pattern))
    assert files, f"no {pattern} in {folder}"
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def weights(run):
    return digest(run / "model" / "unet", "*.safetensors")


class Patches(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.path = write_set(WORK / "fields.h5", arrays())

    def config(self, name, given=(), patch=(PATCH, PATCH), path=None, **sections):
        """A run of a model that is given the roles in `given`."""
        run = WORK / name
        shutil.rmtree(run, ignore_errors=True)
        data = {role: KEYS[role] for role in given if role in KEYS} | {"positions": "positions" in given}
        if patch is not None:
            data["patch"] = list(patch)
        axes = sections.get("model", {}).get("dimensions", 2)
        channels = {"condition": 2, "static": 1, "positions": 2 * axes}
        model = {"in_channels": 2 + sum(channels.get(role, 0) for role in given), "out_channels": 2}
        sections = {**sections, "data": {**data, **sections.get("data", {})}}
        sections["model"] = {**model, **sections.get("model", {})}
        return run, write_config(WORK / f"{name}.toml", run, path or self.path, **sections)

    def train(self, name, given=(), ranks=1, **sections):
        run, config = self.config(name, given, **sections)
        ddpm("train", config, ranks=ranks)
        return run

    def sample(self, model, output, *options, ranks=1):
        path = WORK / output
        path.unlink(missing_ok=True) if path.suffix else shutil.rmtree(path, ignore_errors=True)
        ddpm("sample", "--model", model, "--scheduler", "ddim", "--steps", 4, "--output", path, *options, ranks=ranks)
        return path

    def drawn(self, model, *options, ranks=1):
        return np.load(self.sample(model, "drawn.npy", *options, ranks=ranks))

    def test_weights_have_the_same_bits_on_1_and_2_ranks_and_after_a_resume(self):
        sections = {
            **REPRODUCIBLE,
            "model": {"padding": ["periodic", "zeros"]},
            "data": {"normalize": "standardize", "horizontal_flip": True, "validation": str(self.path)},
            "validation": {"every_steps": 2},
        }
        digests, losses = set(), set()
        for name, ranks, first in (("one", 1, 4), ("two", 2, 4), ("resumed", 2, 2)):
            run = self.train(f"bits-{name}", ALL, ranks, train={"steps": first}, **sections)
            if first < 4:
                ddpm("train", WORK / f"bits-{name}.toml", "--train.steps", 4, ranks=ranks)
            digests.add(weights(run))
            losses.add(tuple(line["validation_loss"] for line in metrics(run) if "validation_loss" in line))
        self.assertEqual((len(digests), len(losses)), (1, 1))
        self.assertEqual(len(losses.pop()), 2)

    def test_patches_train_alike_in_every_zero_stage(self):
        sections = {"data": {"horizontal_flip": True}, "diffusion": {"condition_dropout": 0.3}}
        whole = self.train("stage-0", ALL, **sections)
        for ranks, stage in STAGES:
            run = self.train(f"stage-{stage}-{ranks}", ALL, ranks, parallel={"zero_stage": stage}, **sections)
            assert_same_curve(whole, run)

    def test_windows_that_are_read_give_the_weights_of_windows_that_are_cut(self):
        """Images of 1 MiB are read by windows, those of the same file with checksums whole; from memory or from files."""
        values = arrays((512, 256), 4)
        path = write_set(WORK / "large.h5", values)
        checked = write_set(WORK / "checked.h5", values)
        with h5py.File(checked, "a") as file:
            file["checksums"] = np.array([crc32c(image.tobytes()) for image in values["images"]], np.uint32)
            file["checksums"].attrs["algorithm"] = np.bytes_("CRC-32C")
        results = set()
        for name, ranks, file in (
            ("cut", 1, checked),
            ("cut-held", 2, checked),
            ("one", 1, path),
            ("held", 2, path),
            ("four", 4, path),
        ):
            sections = {
                **REPRODUCIBLE,
                "model": {"padding": "periodic"},
                "data": {
                    "horizontal_flip": True,
                    "quarter_turns": True,
                    "validation": str(file),
                    "hold": name.endswith("held"),
                },
                "validation": {"every_steps": 2},
                "train": {"steps": 2},
            }
            run = self.train(f"large-{name}", ALL, ranks, path=file, **sections)
            dry = ddpm("train", WORK / f"large-{name}.toml", "--dry-run").stdout
            self.assertEqual("windows of 8 × 8 of each, read without the rest" in dry, not name.startswith("cut"), dry)
            results.add((weights(run), metrics(run)[-1]["validation_loss"]))
        self.assertEqual(len(results), 1)
        thirds = {"batch": {"global_size": 12, "micro_size": 1}, "model": {"padding": "periodic"}, "train": {"steps": 2}}
        assert_same_curve(*(self.train(f"large-{n}-of-12", ALL, n, path=path, **thirds) for n in (1, 3)))

    def test_the_memory_of_a_process_may_be_limited(self):
        """Memory for unpacked chunks, 1 GiB of a host as a rule, is a part of what `ulimit` leaves."""
        _, config = self.config("limited", patch=(64, 64), path=write_set(WORK / "wide.h5", arrays((2048, 2048), 1)),
                                batch={"global_size": 4, "micro_size": 1}, train={"steps": 1})  # fmt: skip
        for ranks in (1, 2):
            done = subprocess.run(["bash", "-c", f"ulimit -d {2**19}; exec \"$@\"", "bash", *command("train", config, ranks=ranks)],
                                  capture_output=True, text=True, timeout=TIMEOUT_S, check=False)  # fmt: skip
            self.assertEqual(done.returncode, 0, done.stderr)
            shutil.rmtree(WORK / "limited")

    def test_turned_and_shifted_images_are_the_same_on_1_and_2_ranks_and_after_a_resume(self):
        moves = {"vertical_flip": True, "quarter_turns": True, "periodic_shift": True, "vectors": ["channel 0, -channel 1"]}
        for patch in (None, (PATCH, PATCH)):
            sections = {**REPRODUCIBLE, "model": {"padding": "periodic"}, "data": moves, "patch": patch}
            digests = set()
            for name, ranks, first in (("one", 1, 3), ("two", 2, 3), ("resumed", 2, 1)):
                run = self.train(f"moved-{name}", ALL, ranks, train={"steps": first}, **sections)
                if first < 3:
                    ddpm("train", WORK / f"moved-{name}.toml", "--train.steps", 3, ranks=ranks)
                digests.add(weights(run))
            self.assertEqual(len(digests), 1)

    def test_moves_that_fields_do_not_allow_are_refused(self):
        for data, model, said in (
            ({"periodic_shift": True}, {}, 'wanted: "periodic" along one axis at least'),
            ({"quarter_turns": True}, {"padding": ["periodic", "zeros"]}, "wanted: the same along height and width"),
            ({"quarter_turns": True, "patch": [8, 16]}, {}, "images are 8 × 16; wanted: as high as wide"),
            ({"vectors": ["u, v"]}, {}, "no field of the set has variables of both names"),
        ):
            run, config = self.config("refused-moves", model=model, data=data, patch=None)
            self.refused(2, said, "train", config)
            self.assertFalse((run / "checkpoints").exists())

    def test_a_patch_of_the_whole_image_changes_nothing(self):
        sections = {"train": {"steps": 2}, "model": {"padding": "periodic"}, **REPRODUCIBLE}
        runs = [self.train(f"whole-{i}", ALL, patch=patch, **sections) for i, patch in enumerate((None, (SIZE, SIZE)))]
        self.assertEqual(weights(runs[0]), weights(runs[1]))
        texts = [(run / "model" / "normalization.json").read_text() for run in runs]
        self.assertEqual(texts[0], texts[1])

    def test_samples_larger_than_the_model_roll_with_their_noise_where_fields_wrap(self):
        run = self.train("ring", model={"padding": ["periodic", "zeros"], **CONVOLUTIONAL})
        self.assertEqual(json.loads((run / "model" / "normalization.json").read_text())["wraps"], [True, False])
        noise = np.random.default_rng(2).standard_normal((2, 2, 2 * SIZE, SIZE)).astype(np.float32)

        def rolled(model, turn, axis):
            np.save(WORK / "noise.npy", np.roll(noise, turn, axis))
            return self.drawn(model, "--count", 2, "--initial-noise", WORK / "noise.npy", "--size", "32x16", "--overlap", 4)

        whole = rolled(run, 0, 2)
        self.assertEqual(whole.shape, (2, 2, 2 * SIZE, SIZE))
        np.testing.assert_allclose(np.roll(whole, 4, 2), rolled(run / "model", 4, 2), atol=1e-3)
        self.assertGreater(np.abs(np.roll(whole, 4, 3) - rolled(run, 4, 3)).max(), 1e-2)

    def test_without_a_size_samples_are_as_large_as_the_patch(self):
        run = self.train("plain")
        one = self.drawn(run, "--count", 3)
        self.assertEqual(one.shape, (3, 2, PATCH, PATCH))
        np.testing.assert_allclose(self.drawn(run / "model", "--count", 3, "--size", "8x8", ranks=2), one, atol=1e-4)
        with h5py.File(self.sample(run, "made.h5", "--count", 2, "--size", "8x20")) as file:
            self.assertEqual(file["images"].shape, (2, 8, 20, 2))

    def test_samples_are_drawn_given_fields_of_their_size(self):
        run = self.train("given", ALL, model={"padding": "periodic"})
        options = ("--condition", self.path, "--size", "16x16", "--count", 5)
        one = self.drawn(run, *options, "--overlap", 3)
        self.assertEqual(one.shape, (5, 2, SIZE, SIZE))
        np.testing.assert_allclose(self.drawn(run / "model", *options, "--overlap", 3, "--batch", 2, ranks=2), one, atol=1e-4)
        self.assertGreater(np.abs(self.drawn(run, *options, "--overlap", 0) - one).max(), 1e-4)
        wide = write_set(WORK / "wide.h5", arrays((SIZE, 2 * SIZE), 4))
        digests = set()
        for ranks in (1, 2):
            made = self.sample(run, f"made-{ranks}", "--condition", wide, "--size", "16x32", "--members", 2, "--format",
                               "dataset", "--denormalize", ranks=ranks)  # fmt: skip
            ddpm("data", "verify", made)
            digests.add(digest(made, "*.h5"))
        self.assertEqual(len(digests), 1)
        description = json.loads((made / "dataset.json").read_text())
        self.assertEqual([description[key] for key in ("count", "height", "width")], [8, 16, 32])

    def test_guidance_and_what_a_regression_leaves_are_drawn_by_windows(self):
        regression = self.train("mean", ["condition"], diffusion={"formulation": "regression"})
        diffusion = {"formulation": "edm", "mean_model": str(regression)}
        runs = [self.train(f"left-{steps}", ["condition"], diffusion=diffusion, train={"steps": steps}) for steps in (2, 6)]
        options = ("--condition", self.path, "--size", "16x16", "--count", 2, "--scheduler", "heun", "--steps", 3)
        plain = np.load(self.sampled(runs[1], *options))
        guided = np.load(self.sampled(runs[1], *options, "--guidance-model", runs[0], "--guidance-scale", 1.5))
        self.assertEqual((plain.shape, guided.shape), ((2, 2, SIZE, SIZE),) * 2)
        self.assertGreater(np.abs(plain - guided).max(), 1e-5)
        dropped = self.train("dropped", ["condition"], diffusion={"condition_dropout": 0.3})
        options = ("--condition", self.path, "--size", "16x16", "--count", 2, "--guidance-scale")
        self.assertGreater(np.abs(self.drawn(dropped, *options, 2) - self.drawn(dropped, *options, 1)).max(), 1e-5)

    def test_positions_are_those_of_whole_images(self):
        """A window's size is refused, another one than that of the training warned of; both of runs and model folders."""
        for name, given, options in (("alone", ["positions"], ()), ("fields", ALL, ("--condition", self.path))):
            run = self.train(f"positions-{name}", given, train={"steps": 1})
            for model in (run, run / "model"):
                none = ("--steps", 2, "--output", WORK / "none.npy")
                self.refused(2, "wanted: --size 16x16", "sample", "--model", model, *options, *none)
                self.drawn(model, *options, "--count", 1, "--size", "16x16")
        record = run / "model" / "normalization.json"
        self.assertNotIn("whole", json.loads(record.read_text()))  # the images' field tells it
        run = WORK / "positions-alone"
        options = ("--scheduler", "ddim", "--steps", 2, "--count", 1, "--output", WORK / "drawn.npy")
        process = ddpm("sample", "--model", run, "--size", "16x24", *options)
        self.assertIn("has learned that in images of 16 × 16, whose positions are others", process.stderr)
        self.assertNotIn("learned", ddpm("sample", "--model", run, "--size", "16x16", *options).stderr)
        record = run / "model" / "normalization.json"
        values = json.loads(record.read_text())
        self.assertEqual(values.pop("whole"), [SIZE, SIZE])
        record.write_text(json.dumps(values))  # as an older version wrote it
        process = ddpm("sample", "--model", run / "model", *options)
        self.assertIn("an older version of the program", process.stderr)

    def test_a_weak_model_that_is_periodic_where_windows_are_cut_is_refused(self):
        one, other = (
            self.train(f"weak-{padding}", patch=(8, SIZE), model={"padding": ["zeros", padding]}, train={"steps": 1})
            for padding in ("zeros", "periodic")
        )
        guided = ("--guidance-model", other, "--guidance-scale", 2)
        self.refused(2, "--guidance-model: --size 8x32: the model is periodic along its width; wanted: 16 there", "sample",
                     "--model", one, *guided, "--steps", 2, "--output", WORK / "none.npy", "--size", "8x32")  # fmt: skip
        self.assertEqual(self.drawn(one, *guided, "--count", 1, "--size", "16x16").shape, (1, 2, 16, 16))

    def sampled(self, model, *options):
        path = WORK / "sampled.npy"
        path.unlink(missing_ok=True)
        ddpm("sample", "--model", model, "--output", path, *options)
        return path

    def test_volumes_are_cut_and_drawn_by_windows(self):
        grid = (4, 8, 12)
        path = write_set(WORK / "volumes.h5", arrays(grid))
        sections = {"path": path, "patch": (2, 8, 4), "model": {"dimensions": 3, "padding": ["periodic", "periodic", "zeros"]}}
        runs = [self.train(f"volumes-{ranks}", ALL, ranks, **sections, train={"steps": 2}) for ranks in (1, 2)]
        for one, other in zip(*map(metrics, runs), strict=True):
            self.assertAlmostEqual(one["loss"], other["loss"], delta=1e-4)
        options = ("--condition", path, "--size", "4x8x12", "--count", 2)
        one = self.drawn(runs[0], *options)
        self.assertEqual(one.shape, (2, 2, *grid))
        np.testing.assert_allclose(self.drawn(runs[0] / "model", *options, ranks=2), one, atol=1e-4)

    def test_plan_and_dry_run_know_the_patch(self):
        plans = []
        for patch in (None, (PATCH, PATCH)):
            _, config = self.config("planned", ALL, patch)
            said = ddpm("plan", config, "--nodes", 1, "--gpus-per-node", 1, "--machine", "cpu", "--json").stdout
            plans.append(planned_bytes(json.loads(said)))
            dry = ddpm("train", config, "--dry-run").stdout
            self.assertEqual("windows of 8 × 8 of each" in dry, patch is not None)
        self.assertLess(plans[1], plans[0])
        _, config = self.config("absent", path=WORK / "no-such-set")
        ddpm("plan", config, "--nodes", 1, "--gpus-per-node", 1, "--machine", "cpu")

    def refused(self, code, words, *arguments, ranks=1):
        process = ddpm(*arguments, ranks=ranks, check=False)
        lines = [line for line in process.stderr.splitlines() if "error" in line]
        self.assertEqual((process.returncode, len(lines)), (code, 1), process.stderr)
        self.assertIn(words, lines[0])

    def test_patches_that_do_not_fit_are_refused_with_one_line(self):
        for name, patch, code, words in (
            ("greater", (16, 17), 2, "data.patch = [16, 17]: images are 16 × 16; wanted: 2 sides, none greater"),
            ("sides", (8,), 2, "data.patch = [8]: the model has model.dimensions = 2; wanted: [height, width]"),
            ("odd", (8, 7), 3, "with data.patch: images are 8 × 7, but this model halves them 1 times"),
            ("zero", (0, 8), 2, "data.patch"),
        ):
            for ranks in (1, 2):
                run, config = self.config(f"refused-{name}", patch=patch)
                self.refused(code, words, "train", config, ranks=ranks)
                self.assertFalse((run / "checkpoints").exists())

    def test_sizes_that_the_model_cannot_draw_are_refused_with_one_line(self):
        run = self.train("small", ["condition"], train={"steps": 1})
        odd = write_set(WORK / "odd.h5", arrays((SIZE, SIZE + 2), 2))
        whole = self.train("periodic", patch=None, model={"padding": "periodic"}, train={"steps": 1})
        given = ("--condition", self.path)
        for model, options, code, words in (
            (run, (*given, "--size", "4x16"), 2, "--size 4x16: the model draws windows of 8x8"),
            (run, (*given, "--size", "16"), 2, "wanted: 2 sides"),
            (run, (*given, "--size", "16xa"), 2, "wanted: a size such as 64x128"),
            (run, (*given, "--size", "16x16", "--overlap", 8), 2, "--overlap 8: windows are 8x8; wanted: 0 to 7"),
            (run, (*given, "--size", "16x17"), 2, "wanted: multiples of 2"),
            (run, (*given, "--size", "16x18"), 3, "its field of role condition is [8, 8, 2] of float32; the model takes [8, 9, 2]"),
            (run, ("--condition", odd, "--size", "16x16"), 3, "the model takes [8, 8, 2]"),
            (run, given, 3, "the model takes [4, 4, 2] of float32; wanted: --size 16x16"),
            (whole, ("--size", "32x16"), 2, "the model is periodic along its height; wanted: 16 there"),
        ):
            self.refused(code, words, "sample", "--model", model, "--steps", 2, "--output", WORK / "none.npy", *options)
        self.assertFalse((WORK / "none.npy").exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)
