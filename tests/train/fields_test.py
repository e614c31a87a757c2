"""Training on fields beside images: conditions, static values, parameters, masks and positions, from a file that h5py
wrote. The same curve on any number of ranks and in every ZeRO stage, masked values that change nothing, and files that
are refused."""

import hashlib
import json
import os
import pathlib
import shutil
import sys
import unittest

import h5py
import numpy as np

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_run import STAGES, assert_same_curve, ddpm, files_below, metrics, planned_bytes, write_config  # noqa: E402

WORK = pathlib.Path.cwd()
COUNT, SIZE = 40, 16
KEYS = {"condition": "/condition", "static": "/static", "parameters": "/parameters", "mask": "/mask"}
CHANNELS = {"condition": 2, "static": 1, "positions": 4}


def arrays(seed=0):
    random = np.random.default_rng(seed)
    condition = random.standard_normal((COUNT, SIZE // 2, SIZE // 2, 2)).astype(np.float32)
    parameters = 10 + 5 * random.random((COUNT, 3), dtype=np.float32)
    noise = 0.2 * random.standard_normal((COUNT, SIZE, SIZE, 2))
    images = np.kron(condition, np.ones((1, 2, 2, 1))) * parameters[:, None, None, :1] / 12 + noise
    return {
        "images": images.astype(np.float32),
        "condition": condition,
        "static": random.standard_normal((SIZE, SIZE, 1)).astype(np.float32),
        "parameters": parameters,
        "mask": (random.random((COUNT, SIZE, SIZE)) > 0.3).astype(np.uint8),
    }


def write_set(path, values):
    with h5py.File(path, "w") as file:
        for name, array in values.items():
            file[name] = array
    return path


def weights(run):
    (file,) = (run / "model" / "unet").glob("*.safetensors")
    return file.read_bytes()


class Fields(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.values = arrays()
        cls.path = write_set(WORK / "fields.h5", cls.values)

    def config(self, name, path, given, **sections):
        """A run of a model that is given the roles in `given`."""
        run = WORK / name
        shutil.rmtree(run, ignore_errors=True)
        data = {role: KEYS[role] for role in given if role in KEYS}
        data["positions"] = "positions" in given
        model = {"in_channels": 2 + sum(CHANNELS.get(role, 0) for role in given), "out_channels": 2}
        sections = {**sections, "data": {**data, **sections.get("data", {})}}
        sections["model"] = {**model, **sections.get("model", {})}
        return run, write_config(WORK / f"{name}.toml", run, path, **sections)

    def train(self, name, given, ranks=1, overrides=(), path=None, **sections):
        run, config = self.config(name, path or self.path, given, **sections)
        ddpm("train", config, *overrides, ranks=ranks)
        return run

    def test_each_role_trains_alike_on_1_2_and_4_ranks(self):
        losses = set()
        for role in (*KEYS, "positions"):
            whole = self.train(f"{role}-1", [role], data={"horizontal_flip": True})
            for ranks in (2, 4):
                assert_same_curve(whole, self.train(f"{role}-{ranks}", [role], ranks, data={"horizontal_flip": True}))
            losses.add(metrics(whole)[-1]["loss"])
        self.assertEqual(len(losses), 5, "a role that changes nothing")

    def test_all_roles_train_alike_in_every_zero_stage(self):
        given = [*KEYS, "positions"]
        changes = {"diffusion": {"condition_dropout": 0.3}, "parallel": {"activation_checkpointing": "blocks"},
                   "model": {"padding": ["zeros", "periodic"]}}  # fmt: skip
        whole = self.train("stage-0", given, diffusion=changes["diffusion"], model=changes["model"])
        for ranks, stage in STAGES:
            run = self.train(f"stage-{stage}-{ranks}", given, ranks, ["--parallel.zero_stage", stage], **changes)
            assert_same_curve(whole, run)
        mixed = self.train("stage-bf16", given, precision={"mixed_precision": "bf16"}, **changes)
        for one, other in zip(metrics(whole), metrics(mixed), strict=True):
            self.assertAlmostEqual(one["loss"], other["loss"], delta=0.05 * one["loss"])

    def test_reproducible_weights_have_the_same_bits_and_a_resumed_run_ends_with_them(self):
        given = [*KEYS, "positions"]
        sections = {
            "batch": {"global_size": 8, "micro_size": 1},
            "run": {"reproducible": True, "threads_per_rank": 1},
            "lr_schedule": {"name": "constant"},
            "diffusion": {"condition_dropout": 0.3},
            "data": {"normalize": "standardize", "horizontal_flip": True},
        }
        hashes = set()
        for ranks in (1, 2, 4):
            run = self.train(f"bits-{ranks}", given, ranks, train={"steps": 6 if ranks < 4 else 3}, **sections)
            if ranks == 4:
                resumed = ddpm("train", WORK / f"bits-{ranks}.toml", "--train.steps", 6, ranks=ranks)
                self.assertIn("fields are transformed as the newest checkpoint of", resumed.stderr)
            hashes.add(hashlib.sha256(weights(run)).hexdigest())
        self.assertEqual(len(hashes), 1)

    def test_samples_of_periodic_models_roll_with_their_noise(self):
        periodic = {"padding": ["periodic", "periodic"]}
        whole = self.train("torus-1", [], model=periodic)
        assert_same_curve(whole, self.train("torus-4", [], 4, model=periodic))
        plain = self.train("plain", [])
        noise = np.random.default_rng(2).standard_normal((4, 2, SIZE, SIZE)).astype(np.float32)

        def difference(run, axis, ranks=1):
            drawn = []
            for shift in (0, SIZE // 2):
                np.save(WORK / "noise.npy", np.roll(noise, shift, axis))
                out = WORK / "drawn.npy"
                out.unlink(missing_ok=True)
                ddpm("sample", "--model", run, "--scheduler", "ddim", "--steps", 10, "--count", 4, "--initial-noise",
                     WORK / "noise.npy", "--output", out, ranks=ranks)  # fmt: skip
                drawn.append(np.load(out))
            return np.abs(np.roll(drawn[0], SIZE // 2, axis) - drawn[1]).max()

        self.assertEqual([difference(whole, 2), difference(whole / "model", 2, ranks=2), difference(whole, 3)], [0, 0, 0])
        self.assertGreater(difference(plain, 2), 0.1)

    def test_what_lies_under_a_mask_changes_nothing(self):
        hashes = set()
        shared = {**self.values, "mask": self.values["mask"][0]}
        for name, values in (("each", self.values), ("set", shared)):
            hidden = np.broadcast_to(values["mask"][..., None] == 0, values["images"].shape)
            for fill in (0.0, 7.0, np.nan, np.inf):
                changed = {**values, "images": np.where(hidden, np.float32(fill), values["images"])}
                path = write_set(WORK / f"masked-{name}.h5", changed)
                run = self.train(f"masked-{name}", ["mask", "condition"], path=path, data={"normalize": "standardize"})
                hashes.add((name, weights(run)))
        self.assertEqual(len(hashes), 2)
        spoiled = self.values["images"].copy()
        image, row, column = np.argwhere(self.values["mask"] == 1)[7]
        spoiled[image, row, column, 1] = np.nan
        path = write_set(WORK / "spoiled.h5", {**self.values, "images": spoiled})
        line = self.refused("spoiled", path, ["mask"], 3)
        self.assertIn(f"holds nan in channel 1 at row {row}, column {column}; finite values are wanted", line)

    def test_standardized_values_have_the_numbers_of_numpy(self):
        run = self.train("standardized", [*KEYS], data={"normalize": "standardize"}, train={"steps": 1})
        fields = json.loads((run / "model" / "normalization.json").read_text())["fields"]
        self.assertEqual([field["role"] for field in fields], ["image", "condition", "parameters", "mask", "static"])
        for field in fields:
            stored = self.values[field["name"]].astype(np.float64)
            for channel, variable in enumerate(field["variables"]):
                values = stored[..., channel]
                if field["role"] == "image":
                    values = values[self.values["mask"] == 1]
                seen = variable["transform"]
                self.assertEqual(seen["type"], "standardize")
                self.assertAlmostEqual(seen["mean"], values.mean(), delta=1e-10)
                self.assertAlmostEqual(seen["std"], values.std(), delta=1e-10)

    def test_a_plan_counts_what_stands_beside_the_images(self):
        plans = []
        for given in ([], [*KEYS, "positions"]):
            _, config = self.config("planned", self.path, given)
            said = ddpm("plan", config, "--nodes", 1, "--gpus-per-node", 2, "--machine", "cpu", "--json").stdout
            plans.append(json.loads(said))
            ddpm("train", config, "--dry-run")
        self.assertLess(*map(planned_bytes, plans))
        self.assertGreater(plans[1]["seconds_per_step"], plans[0]["seconds_per_step"])

    def test_validation_sees_the_fields_of_its_own_set(self):
        other = write_set(WORK / "other.h5", arrays(seed=1))
        given = [*KEYS, "positions"]
        sections = {"data": {"validation": str(other), "normalize": "standardize"}, "validation": {"every_steps": 3}}
        losses = []
        for ranks in (1, 3):
            run = self.train(f"validated-{ranks}", given, ranks, batch={"global_size": 12, "micro_size": 2}, **sections)
            losses.append([line["validation_loss"] for line in metrics(run) if "validation_loss" in line])
        self.assertEqual(len(losses[0]), 2)
        for one, other_loss in zip(*losses, strict=True):
            self.assertAlmostEqual(one, other_loss, delta=1e-4)
        lacking = {name: array for name, array in arrays(seed=1).items() if name != "condition"}
        lacking["condition"] = arrays()["condition"][..., :1]
        path = write_set(WORK / "lacking.h5", lacking)
        sections["data"] = {"validation": str(path)}
        self.assertIn("its field of role condition is not like the one of", self.refused("lacking", self.path, given, 3, **sections))

    def test_sampling_without_the_condition_that_a_model_wants_is_refused(self):
        run = self.train("conditioned", ["condition"], train={"steps": 1})
        for model in (run, run / "model"):
            process = ddpm("sample", "--model", model, "--output", WORK / "never.npy", check=False)
            self.assertEqual(process.returncode, 2, process.stderr)
            self.assertEqual(len(process.stderr.splitlines()), 1, process.stderr)
            self.assertIn("--condition is missing: the model is given a field of role condition", process.stderr)
            self.assertFalse((WORK / "never.npy").exists())

    def refused(self, name, path, given, code, **sections):
        """The one line with which training ends on 1 and 2 ranks; nothing is left."""
        for ranks in (1, 2):
            run, config = self.config(f"refused-{name}", path, given, **sections)
            process = ddpm("train", config, ranks=ranks, check=False)
            lines = [line for line in process.stderr.splitlines() if "error" in line]
            self.assertEqual((process.returncode, len(lines)), (code, 1), process.stderr)
            self.assertEqual([] if not run.exists() else [f for f in files_below(run) if f.startswith("checkpoints")], [])
        return lines[0]

    def test_bad_fields_are_refused_with_one_line(self):
        values = self.values
        nan = values["parameters"].copy()
        nan[11, 2] = np.nan
        twos = values["mask"].copy()
        twos[5, 3, 4] = 2
        spoiled_static = values["static"].copy()
        spoiled_static[2, 9, 0] = np.inf
        cases = {
            "missing": ("condition", None, "/condition"),
            "size": ("condition", np.zeros((COUNT, 6, 6, 2), np.float32), "smaller by the same whole number both ways"),
            "finer": ("condition", np.zeros((COUNT, 32, 32, 2), np.float32), "conditions of 32 × 32"),
            "oblong": ("condition", np.zeros((COUNT, 8, 16, 2), np.float32), "conditions of 8 × 16"),
            "rows": ("condition", values["condition"][:-1], "with n = 40 as the images have it"),
            "axes": ("condition", values["condition"][0], "[n, height, width, channels] is wanted"),
            "dtype": ("condition", values["condition"].astype(np.float64), "its elements are float64"),
            "static-size": ("static", np.zeros((8, 8, 1), np.float32), "static values of 8 × 8"),
            "static-axes": ("static", np.zeros((COUNT, SIZE, SIZE, 1), np.float32), "[height, width, channels] is wanted"),
            "static-value": ("static", spoiled_static, "holds inf in channel 0 at row 2, column 9"),
            "parameters-nan": ("parameters", nan, "parameter 2 of image 11 is nan; finite values are wanted"),
            "parameters-dtype": ("parameters", values["parameters"].astype(np.int32), "float32 is wanted"),
            "parameters-axes": ("parameters", values["parameters"][:, 0], "[n, parameters] is wanted"),
            "parameters-none": ("parameters", values["parameters"][:, :0], "its shape is [40, 0]"),
            "mask-size": ("mask", np.ones((COUNT, 8, 8), np.uint8), "masks of 8 × 8"),
            "mask-dtype": ("mask", values["mask"].astype(bool), "uint8 is wanted"),
            "mask-value": ("mask", twos, "the mask of image 5 (number 5 of the dataset) holds 2 at row 3, column 4"),
        }
        for name, (role, array, phrase) in cases.items():
            changed = {key: array if key == role else value for key, value in values.items()}
            path = write_set(WORK / "bad.h5", {key: value for key, value in changed.items() if value is not None})
            line = self.refused(name, path, [role], 3)
            self.assertIn("bad.h5", line, name)
            self.assertIn(phrase, line, name)

    def test_ranks_that_read_the_same_image_say_its_error_once(self):
        spoiled = self.values["condition"].copy()
        spoiled[9, 3, 5, 1] = np.inf
        path = write_set(WORK / "spoiled-condition.h5", {**self.values, "condition": spoiled})
        for mesh in ({"tensor_size": 2}, {"pipeline_size": 4}, {"tensor_size": 2, "pipeline_size": 2}):
            with self.subTest(mesh=mesh):
                _, config = self.config("spoiled-condition", path, ["condition"], parallel=mesh, train={"steps": 10})
                # Open MPI gives ranks time to say more, as it does by default.
                process = ddpm("train", config, ranks=4, check=False, env={"OMPI_MCA_odls_base_sigkill_timeout": "5"})
                said = [line for line in process.stderr.splitlines() if line.startswith("ddpm: ")]
                self.assertEqual((process.returncode, sum("error" in line for line in said)), (3, 1), process.stderr)
                self.assertIn("image 9 (number 9 of the dataset) holds inf in channel 1", said[-1])

    def test_truncated_files_are_refused(self):
        whole = self.path.read_bytes()
        for part in (2, 20, 60, 95):
            path = WORK / "truncated.h5"
            path.write_bytes(whole[: len(whole) * part // 100])
            self.assertIn("truncated.h5", self.refused("truncated", path, [*KEYS], 3))

    def test_a_model_of_another_number_of_inputs_is_refused_with_all_the_numbers(self):
        given = [*KEYS, "positions"]
        line = self.refused("channels", self.path, given, 3, model={"in_channels": 3})
        self.assertIn("the model sees 9 channels (image 2 + condition 2 + static 1 + positions 4) and predicts 2", line)
        self.assertIn("model.in_channels = 3 and model.out_channels = 2: wanted 9 and 2", line)
        line = self.refused("numbers", self.path, given, 3, model={"num_parameters": 2})
        self.assertIn("3 parameters for each image, but model.num_parameters = 2", line)
        line = self.refused("no-numbers", self.path, ["mask"], 3, model={"num_parameters": 2})
        self.assertIn("0 parameters for each image, but model.num_parameters = 2", line)

    def test_keys_that_name_nothing_sensible_are_refused(self):
        for key, name, phrase in (
            ("condition", "condition", "the absolute name of an array in the file is wanted"),
            ("mask", "/images", "data.images names the same array"),
            ("static", "/", "the absolute name of an array"),
        ):
            line = self.refused(f"key-{key}", self.path, [], 2, data={key: name})
            self.assertIn(f"data.{key} = ", line)
            self.assertIn(phrase, line)


if __name__ == "__main__":
    unittest.main(verbosity=2)
