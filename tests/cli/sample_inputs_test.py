"""What `ddpm sample` draws from, and what it leaves out for guidance: classes and labels of datasets, null classes, weak
models, model folders in place of runs, values that are not finite, and work that an earlier command of another model
left behind."""

import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import unittest

import h5py
import numpy as np
import PIL.Image
from safetensors.numpy import load_file, save_file

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_run import DDPM, ddpm, write_config  # noqa: E402

WORK = pathlib.Path.cwd()
COUNT, SIZE, CLASSES = 12, 8, 3


def write_set(name, channels=2, **arrays):
    numbers = np.random.default_rng(0)
    path = WORK / name
    with h5py.File(path, "w") as file:
        file["images"] = numbers.standard_normal((COUNT, SIZE, SIZE, channels), np.float32)
        file["condition"] = numbers.standard_normal((COUNT, SIZE, SIZE, 1), np.float32)
        for key, array in arrays.items():
            file[key] = array
    return path


LABELS = np.arange(COUNT) % CLASSES


def train(name, path, data=None, model=None, diffusion=None, steps=2):
    run = WORK / name
    shutil.rmtree(run, ignore_errors=True)
    condition = 1 if (data or {}).get("condition") else 0
    config = write_config(
        WORK / f"{name}.toml", run, path, data=data or {}, model={"in_channels": 2 + condition, "out_channels": 2, **(model or {})},
        diffusion=diffusion or {}, train={"steps": steps}, batch={"global_size": 4},
    )  # fmt: skip
    ddpm("train", config)
    return run


def read(folder, name="images"):
    return np.concatenate([h5py.File(shard)[name][:] for shard in sorted(pathlib.Path(folder).glob("shard-*.h5"))])


class SampleInputs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.labelled = write_set("labelled.h5", labels=LABELS)
        with_null = {"num_class_embeds": CLASSES + 1}
        cls.classes = train("classes", cls.labelled, model=with_null, diffusion={"class_dropout": 0.2})
        cls.given = train("given", cls.labelled, {"condition": "/condition"}, with_null,
                          {"class_dropout": 0.2, "condition_dropout": 0.2})  # fmt: skip
        cls.kept = train("kept", write_set("plain.h5"), {"condition": "/condition"})

    def sample(self, run, output, *arguments, check=True, scheduler="ddim", steps=2, ranks=1):
        path = WORK / output
        shutil.rmtree(path, ignore_errors=True)
        path.unlink(missing_ok=True) if path.is_file() else None
        process = ddpm("sample", "--model", run, "--device", "cpu", "--threads", 1, "--scheduler", scheduler, "--steps", steps,
                       "--output", path, *arguments, check=check, ranks=ranks)  # fmt: skip
        return path if check else process

    def refused(self, process, code, *words):
        self.assertEqual(process.returncode, code, process.stderr)
        errors = [line for line in process.stderr.splitlines() if line.startswith("ddpm: error")]
        self.assertEqual(len(errors), 1, process.stderr)
        for word in words:
            self.assertIn(word, errors[0])

    def test_all_classes_are_without_the_null_class(self):
        for model in (self.classes, self.classes / "model"):
            drawn = self.sample(model, "all", "--class-label", "all", "--count", 8, "--format", "dataset")
            np.testing.assert_array_equal(read(drawn, "labels"), np.arange(8) % CLASSES)

    def test_a_folder_that_is_guided_from_its_last_class_does_not_draw_it(self):
        """Where no record says whether that is the null class, it is one class as long as nothing is guided from it."""
        folder = WORK / "unsaid"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.classes / "model", folder)
        (folder / "normalization.json").unlink()
        (folder / "class_names.json").unlink(missing_ok=True)
        draw = ("--class-label", "all", "--count", 8, "--format", "dataset")
        np.testing.assert_array_equal(read(self.sample(folder, "unguided", *draw), "labels"), np.arange(8) % (CLASSES + 1))
        shutil.rmtree(WORK / "guided", ignore_errors=True)
        process = ddpm("sample", "--model", folder, "--device", "cpu", "--scheduler", "ddim", "--steps", 2, *draw,
                       "--guidance-scale", 2, "--output", WORK / "guided")  # fmt: skip
        self.assertIn(f"guided from class {CLASSES}, taken for the null class", process.stderr)
        np.testing.assert_array_equal(read(WORK / "guided", "labels"), np.arange(8) % CLASSES)

    def test_guidance_leaves_out_the_labels_of_a_dataset(self):
        one = write_set("of-class-1.h5", labels=np.ones(COUNT, np.int64))
        dataset = self.sample(self.given, "of-set", "--condition", one, "--guidance-scale", 2, "--format", "dataset")
        option = self.sample(self.given, "of-option", "--condition", one, "--class-label", 1, "--guidance-scale", 2,
                             "--format", "dataset")  # fmt: skip
        np.testing.assert_array_equal(read(dataset), read(option))

    def test_guidance_cannot_leave_out_the_null_class(self):
        holding = write_set("of-null-class.h5", labels=np.arange(COUNT) % (CLASSES + 1))
        arguments = ("--condition", holding, "--guidance-scale", 2)
        self.refused(self.sample(self.given, "of-null.npy", *arguments, check=False), 3, "of-null-class.h5",
                     f"holds the label {CLASSES}, the null class itself")  # fmt: skip
        label = ("--class-label", CLASSES, "--guidance-scale", 2)
        self.refused(self.sample(self.classes, "of-null.npy", *label, check=False), 2, f"--class-label {CLASSES} is the null class")
        self.sample(self.given, "of-null.npy", "--condition", holding)

    def test_a_model_folder_leaves_out_what_its_run_does(self):
        arguments = ("--condition", WORK / "plain.h5", "--guidance-scale", 2)
        for model in (self.kept, self.kept / "model"):
            self.refused(self.sample(model, "kept.npy", *arguments, check=False), 2, "--guidance-scale 2", "condition_dropout = 0")
        self.sample(self.given / "model", "guided.npy", "--condition", self.labelled, "--guidance-scale", 2)

    def test_classes_without_a_table_have_none_that_stands_for_no_class(self):
        timed = train("timed", self.labelled, model={"class_embed_type": "timestep"})
        process = self.sample(timed, "timed.npy", "--class-label", 1, "--guidance-scale", 2, check=False)
        self.refused(process, 2, "--guidance-scale 2", 'class_embed_type = "timestep" has no table of classes')

    def test_weak_models_must_be_given_the_same(self):
        numbers = np.random.default_rng(1).random((COUNT, 2), np.float32)
        parameters = train("parameters", write_set("numbers.h5", parameters=numbers), {"parameters": "/parameters"})
        plain = train("plain", WORK / "plain.h5")
        for model, weak, given in ((plain, parameters, ()), (parameters, plain, ("--parameters", "0.1,0.2"))):
            process = self.sample(model, "weak.npy", "--guidance-model", weak, "--guidance-scale", 2, *given, check=False)
            self.refused(process, 2, "its parameters are num_parameters = ", "of --model, num_parameters = ")
            self.assertNotIn("guided by", process.stderr)
        regression = train("regression", WORK / "plain.h5", {"condition": "/condition"}, diffusion={"formulation": "regression"})
        rest = train("rest", WORK / "plain.h5", {"condition": "/condition"}, diffusion={"mean_model": str(regression)})
        process = self.sample(self.kept, "rest.npy", "--condition", WORK / "plain.h5", "--guidance-model", rest,
                              "--guidance-scale", 2, check=False)  # fmt: skip
        self.refused(process, 2, "--guidance-model", "draws what a regression leaves")

    def test_weak_models_draw_the_same_variables(self):
        runs = []
        for names, units in (("t2m,u10", "K,m/s"), ("t2m,v10", "K,m/s")):
            folder = WORK / names
            shutil.rmtree(folder, ignore_errors=True)
            ddpm("data", "create", WORK / "plain.h5", "--output", folder, "--names", names, "--units", units)
            runs.append(train(f"of-{names}", folder))
        guided = ("--guidance-scale", 2, "--count", 1)
        process = self.sample(runs[0], "names.npy", "--guidance-model", runs[1], *guided, check=False)
        self.refused(process, 2, "--guidance-model", "image: t2m (K), v10 (m/s), wanted t2m (K), u10 (m/s)")
        self.sample(runs[0], "names.npy", "--guidance-model", runs[0] / "model", *guided)

    def test_values_that_are_not_finite_end_with_exit_code_6(self):
        broken = WORK / "broken"
        shutil.rmtree(broken, ignore_errors=True)
        shutil.copytree(self.classes / "model", broken)
        weights = load_file(broken / "unet" / "diffusion_pytorch_model.safetensors")
        weights["conv_norm_out.weight"][:] = np.finfo(np.float32).max  # Each a number, their products are none.
        save_file(weights, broken / "unet" / "diffusion_pytorch_model.safetensors", {"format": "pt"})
        for output in (("broken.npy",), ("broken.h5",), ("broken-set", "--format", "dataset")):
            self.refused(self.sample(broken, *output, "--class-label", 0, check=False), 6, "sample 0", "not finite")
            self.assertFalse((WORK / output[0]).exists())

    def test_records_that_are_not_of_the_model_are_refused(self):
        lone = train("lone", write_set("lone.h5", labels=np.zeros(COUNT, np.int64)), model={"num_class_embeds": 1})
        self.refused_record(lone, {"class_dropout": 0.1}, "class_dropout", "--class-label", "all")
        fields = json.loads((self.kept / "model" / "normalization.json").read_text())["fields"]
        images, condition = (next(f for f in fields if f["role"] == role) for role in ("image", "condition"))
        for field, channels in ((images, 1), (condition, 2)):  # in all as many as the model sees
            field["shape"][-1] = channels
            field["variables"] = [{**field["variables"][0], "name": f"v{number}"} for number in range(channels)]
        self.refused_record(self.kept, {"fields": fields}, "1 channel, but the model draws 2", "--condition", WORK / "plain.h5")

    def refused_record(self, run, changes, phrase, *arguments):
        folder = WORK / "of-another"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(run / "model", folder)
        record = json.loads((folder / "normalization.json").read_text())
        (folder / "normalization.json").write_text(json.dumps({**record, **changes}))
        self.refused(self.sample(folder, "another.npy", *arguments, check=False), 4, "normalization.json", phrase)

    def test_labels_beyond_the_classes_are_refused(self):
        beyond = write_set("beyond.h5", labels=np.full(COUNT, 9))
        self.refused(self.sample(self.given, "beyond.npy", "--condition", beyond, check=False), 3, "beyond.h5", "9 to 9", "0 to 3")

    def test_names_beyond_the_classes_are_refused(self):
        """A class that has a name has a place in the table, with images or without, and the null class is not it."""
        pictures = WORK / "pictures"
        shutil.rmtree(pictures, ignore_errors=True)
        for name in "abc":
            (pictures / name).mkdir(parents=True)
            for i in range(4):
                content = np.random.default_rng(i).integers(0, 256, (SIZE, SIZE, 3), np.uint8)
                image = pictures / name / f"{i}.png"
                PIL.Image.fromarray(content).save(image) if name != "c" else image.write_bytes(b"broken")
        shutil.rmtree(WORK / "named", ignore_errors=True)
        ddpm("data", "create", pictures, "--labels", "folder", "--size", SIZE, "--output", WORK / "named")
        for table, dropout, wanted in ((2, 0.0, "wanted: 3"), (3, 0.2, "wanted: model.num_class_embeds = 4")):
            config = write_config(
                WORK / "named.toml", WORK / "of-named", WORK / "named", model={"num_class_embeds": table},
                diffusion={"class_dropout": dropout} if dropout else {},
            )  # fmt: skip
            for options in ((), ("--dry-run",)):
                self.refused(ddpm("train", config, *options, check=False), 3, "3 classes", f"num_class_embeds = {table}", wanted)
        folder = WORK / "six-names"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.classes / "model", folder)
        (folder / "class_names.json").write_text(json.dumps(list("abcdef")))
        process = self.sample(folder, "six.npy", "--class-label", "all", "--count", 6, check=False)
        self.refused(process, 4, "class_names.json names 6 classes", "the model has 4")

    def test_a_record_of_other_parameters_is_refused(self):
        numbers = np.random.default_rng(1).random((COUNT, 2), np.float32)
        fields = {"condition": "/condition", "parameters": "/parameters"}
        path = write_set("both.h5", parameters=numbers)
        run = train("both", path, fields)
        record = run / "model" / "normalization.json"
        whole = json.loads(record.read_text())
        whole["fields"] = [field for field in whole["fields"] if field["role"] != "parameters"]
        record.write_text(json.dumps(whole))
        process = self.sample(run / "model", "both.npy", "--condition", WORK / "plain.h5", check=False)
        self.refused(process, 4, "2 numbers", "its record says 0", "normalization.json")

    def test_images_beside_conditions_are_not_looked_at(self):
        other = write_set("other.h5", channels=5)
        one = self.sample(self.kept, "five.npy", "--condition", other)
        two = self.sample(self.kept, "two.npy", "--condition", WORK / "plain.h5")
        self.assertEqual(np.load(one).shape, np.load(two).shape)

    def test_a_file_of_conditions_needs_no_images(self):
        """What a model is given may lie in a file by itself; the same samples come out. Training on it is refused."""
        whole = WORK / "plain.h5"
        alone = WORK / "conditions.h5"
        with h5py.File(whole) as source, h5py.File(alone, "w") as file:
            file["condition"] = source["condition"][:]
        for ranks in (1, 2):
            one, two = (
                np.load(self.sample(self.kept, f"{path.stem}.npy", "--condition", path, "--members", 2, ranks=ranks))
                for path in (whole, alone)
            )
            self.assertEqual(len(two), 2 * COUNT)
            np.testing.assert_array_equal(one, two)
        config = write_config(WORK / "alone.toml", WORK / "alone", alone, data={"condition": "/condition"},
                              model={"in_channels": 3, "out_channels": 2})  # fmt: skip
        for options in ((), ("--dry-run",)):
            self.refused(ddpm("train", config, *options, check=False), 3, "there is no /images")
        with h5py.File(WORK / "neither.h5", "w") as file:
            file["other"] = np.zeros((3, SIZE, SIZE, 1), np.float32)
        self.refused(self.sample(self.kept, "no.npy", "--condition", WORK / "neither.h5", check=False), 3, "there is no /images")
        with h5py.File(WORK / "small.h5", "w") as file:
            file["condition"] = np.zeros((3, SIZE // 2, SIZE // 2, 1), np.float32)
        process = self.sample(self.kept, "no.npy", "--condition", WORK / "small.h5", check=False)
        self.refused(process, 3, "small.h5", "the model takes [8, 8, 1]")

    def test_coarser_conditions_labels_and_numbers_need_no_images(self):
        numbers = np.random.default_rng(3)
        arrays = {
            "condition": numbers.standard_normal((COUNT, SIZE // 2, SIZE // 2, 1), np.float32),
            "static": numbers.standard_normal((SIZE, SIZE, 1), np.float32),
            "parameters": numbers.random((COUNT, 2), np.float32),
            "labels": LABELS,
        }
        whole, alone = WORK / "coarse.h5", WORK / "coarse-alone.h5"
        for path, images in ((whole, True), (alone, False)):
            with h5py.File(path, "w") as file:
                for name, array in arrays.items():
                    file[name] = array
                if images:
                    file["images"] = numbers.standard_normal((COUNT, SIZE, SIZE, 2), np.float32)
        names = {role: f"/{role}" for role in ("condition", "static", "parameters")}
        model = {"in_channels": 4, "num_class_embeds": CLASSES}
        run = train("coarse", whole, names, model)
        one, two = (read(self.sample(run, f"drawn-{path.stem}", "--condition", path, "--format", "dataset")) for path in (whole, alone))
        np.testing.assert_array_equal(one, two)

    def test_masks_that_leave_out_everything_are_refused(self):
        """Of each image and of the set; one valid pixel in the last image is enough."""
        masks = {"each": np.zeros((COUNT, SIZE, SIZE), np.uint8), "set": np.zeros((SIZE, SIZE), np.uint8)}
        for name, mask in masks.items():
            path = write_set(f"hidden-{name}.h5", mask=mask)
            shutil.rmtree(WORK / f"hidden-{name}", ignore_errors=True)
            config = write_config(WORK / f"hidden-{name}.toml", WORK / f"hidden-{name}", path, data={"mask": "/mask"},
                                  model={"in_channels": 2, "out_channels": 2}, train={"steps": 1}, batch={"global_size": 4})  # fmt: skip
            for ranks, options in ((1, ()), (2, ()), (1, ("--dry-run",))):
                process = ddpm("train", config, *options, ranks=ranks, check=False)
                self.refused(process, 3, str(path), "no mask says of any pixel that it is valid")
            self.assertFalse((WORK / f"hidden-{name}" / "checkpoints").exists())
            with h5py.File(path, "r+") as file:
                file["mask"][..., -1, -1] = 0 if mask.ndim == 3 else 1
                if mask.ndim == 3:
                    file["mask"][-1, -1, -1] = 1
            ddpm("train", config, ranks=2)

    def test_work_of_another_normalisation_is_not_taken_over(self):
        models = []
        for scale in (1.0, 0.125):
            model = WORK / f"scaled-{scale}"
            shutil.rmtree(model, ignore_errors=True)
            shutil.copytree(self.classes / "model", model)
            record = json.loads((model / "normalization.json").read_text())
            (model / "normalization.json").write_text(json.dumps({**record, "scale": scale}))
            models.append(model)
        arguments = ("--class-label", "all", "--count", 512, "--format", "dataset", "--denormalize")
        whole = self.sample(models[1], "whole", *arguments, steps=20)
        output = WORK / "mixed"
        shutil.rmtree(output, ignore_errors=True)
        shutil.rmtree(WORK / ".mixed.partial", ignore_errors=True)
        process = subprocess.Popen(
            [str(part) for part in (DDPM, "sample", "--model", models[0], "--device", "cpu", "--threads", 1, "--scheduler", "ddim",
                                    "--steps", 20, "--output", output, *arguments)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        while process.poll() is None and not list((WORK / ".mixed.partial").glob("*/*.json")):
            time.sleep(0.01)
        self.assertIsNone(process.poll(), "the command was done before it could be killed")
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        again = ("sample", "--model", models[1], "--device", "cpu", "--threads", 1, "--scheduler", "ddim", "--steps", 20, "--output",
                 output, *arguments)  # fmt: skip
        self.refused(ddpm(*again, check=False), 4, "finished there by a command with", '"scale":0.125')
        shutil.rmtree(WORK / ".mixed.partial")
        ddpm(*again)
        digest = lambda folder: {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.glob("*.h5")}  # noqa: E731
        self.assertEqual(digest(output), digest(whole))

    def test_work_of_a_model_that_leaves_out_other_things_is_not_taken_over(self):
        """Guidance goes by what training left out, which a model folder records beside the same weights."""
        model, other = self.given / "model", WORK / "never-dropped"
        shutil.rmtree(other, ignore_errors=True)
        shutil.copytree(model, other)
        record = json.loads((model / "normalization.json").read_text())
        (other / "normalization.json").write_text(json.dumps({**record, "condition_dropout": 0.0}))
        draw = ("--condition", self.labelled, "--guidance-scale", 2, "--format", "dataset")
        output = self.sample(model, "left-out", *draw)
        self.assertIn("\nguidance 2 class_dropout 0.2 condition_dropout 0.2\n", (output / "made-by.txt").read_text())
        again = ("--device", "cpu", "--threads", 1, "--scheduler", "ddim", "--steps", 2, "--output", output, *draw)
        self.assertIn("has made its", ddpm("sample", "--model", model, *again).stderr)
        self.refused(ddpm("sample", "--model", other, *again, check=False), 4, "left-out: exists already")
        self.assertFalse(np.array_equal(read(output), read(self.sample(other, "left-less", *draw))))
        draw = ("--class-label", "all", "--count", 2 * CLASSES, "--format", "dataset")
        model = self.classes / "model"
        shutil.rmtree(other)
        shutil.copytree(model, other)
        record = json.loads((model / "normalization.json").read_text())
        (other / "normalization.json").write_text(json.dumps({**record, "class_dropout": 0.0}))
        output = self.sample(model, "left-out", *draw)
        again = ("--device", "cpu", "--threads", 1, "--scheduler", "ddim", "--steps", 2, "--output", output, *draw)
        self.assertIn("has made its", ddpm("sample", "--model", model, *again).stderr)
        self.refused(ddpm("sample", "--model", other, *again, check=False), 4, "left-out: exists already")

    def test_options_that_would_do_nothing_are_refused(self):
        for output in ("pictures", "grid.png"):
            process = self.sample(self.kept, output, "--condition", WORK / "plain.h5", "--denormalize", check=False)
            self.refused(process, 2, "--denormalize", ".npy, .h5")
        config = write_config(WORK / "dry.toml", WORK / "dry", WORK / "plain.h5", model={"in_channels": 2, "out_channels": 2})
        for key, value in (("logit_mean", 0.5), ("logit_std", 2.0), ("condition_dropout", 0.1)):
            process = ddpm("train", config, "--dry-run", f"--diffusion.{key}", value, check=False)
            self.refused(process, 2, f"diffusion.{key}")

    def test_bench_draws_volumes_and_other_formulations(self):
        config = write_config(WORK / "bench.toml", WORK / "bench", WORK / "none", model={"in_channels": 2, "out_channels": 2})
        for more in (("--model.dimensions", 3, "--model.sample_size", 8), ("--model.sample_size", 8, "--diffusion.formulation", "edm")):
            seen = ddpm("bench", "sample", config, "--json", "--steps", 2, "--batch", 1, "--repeats", 1, *more)
            self.assertGreater(json.loads(seen.stdout)["images_per_second"], 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
