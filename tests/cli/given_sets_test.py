"""Sets of `ddpm sample --condition` whose numbers mean other things than those of the training set: variables in another
order or unit, and other classes; labels under another name; and noise of a file."""

import hashlib
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

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
import sample_inputs_test as inputs  # noqa: E402
from ddpm_run import DDPM, ddpm  # noqa: E402
from sample_inputs_test import CLASSES, COUNT, LABELS, SIZE, WORK, read, train, write_set  # noqa: E402


class GivenSets(unittest.TestCase):
    sample = inputs.SampleInputs.sample
    refused = inputs.SampleInputs.refused

    def test_folders_whose_variables_mean_other_things_are_refused(self):
        """In another order, or of another unit: exit code 3 and both lists. A file without names is taken as it is, and so
        is a folder with other transforms."""
        numbers = np.random.default_rng(5)
        arrays = {"images": numbers.standard_normal((COUNT, SIZE, SIZE, 2), np.float32), "static": np.ones((SIZE, SIZE, 1), np.float32),
                  "condition": numbers.standard_normal((COUNT, SIZE, SIZE, 2), np.float32),
                  "parameters": numbers.random((COUNT, 2), np.float32)}  # fmt: skip
        file = WORK / "means.h5"
        with h5py.File(file, "w") as made:
            for name, array in arrays.items():
                made[name] = array

        def folder(name, condition="t2m,u10", units="K,m/s", parameters="dose,age", transform=()):
            path = WORK / f"means-{name}"
            shutil.rmtree(path, ignore_errors=True)
            ddpm("data", "create", file, "--output", path, "--condition", "/condition", "--static", "/static", "--parameters",
                 "/parameters", "--names", f"a,b; condition: {condition}; static: height; parameters: {parameters}", "--units",
                 f"m,m; condition: {units}; static: m; parameters: g,a", *transform)  # fmt: skip
            return path

        run = train("means", folder("trained"), model={"in_channels": 5})
        for given, words in (
            (folder("swapped", "u10,t2m", "m/s,K"), ("role condition holds u10 (m/s), t2m (K)", "is wanted: t2m (K), u10 (m/s)")),
            (folder("unit", units="degC,m/s"), ("role condition holds t2m (degC)", "is wanted: t2m (K)")),
            (folder("renamed", parameters="age,dose"), ("role parameters holds age", "is wanted: dose")),
        ):
            for model in (run, run / "model"):
                process = self.sample(model, "means.npy", "--condition", given, check=False)
                self.refused(process, 3, f"--condition: {given}: its field of role", *words)
        other = folder("transformed", transform=("--transform", "condition/t2m=standardize"))
        one, two, three = (np.load(self.sample(run, "means.npy", "--condition", path)) for path in (WORK / "means-trained", other, file))
        np.testing.assert_array_equal(one, two)
        np.testing.assert_array_equal(one, three)

    def test_a_folder_that_lacks_a_class_is_refused(self):
        """Its numbers are those of other classes. With --class-label they are not read."""

        def pictures(name, classes):
            for kind in classes:
                (WORK / name / kind).mkdir(parents=True, exist_ok=True)
                for i in range(4):
                    content = np.random.default_rng(i).integers(0, 256, (SIZE, SIZE, 3), np.uint8)
                    PIL.Image.fromarray(content).save(WORK / name / kind / f"{i}.png")
            made = WORK / f"{name}-set"
            shutil.rmtree(made, ignore_errors=True)
            ddpm("data", "create", WORK / name, "--labels", "folder", "--size", SIZE, "--output", made)
            return made

        run = train("insects", pictures("insects", ("ant", "bee", "cat")), model={"in_channels": 3, "out_channels": 3, "num_class_embeds": 3})
        fewer = pictures("two-insects", ("bee", "cat"))
        for model in (run, run / "model"):
            process = self.sample(model, "insects.npy", "--condition", fewer, check=False)
            self.refused(process, 3, f"--condition: {fewer}: its 2 classes are not the 3 of the training set", "labels mean other things")
        self.sample(run, "insects.npy", "--condition", WORK / "insects-set")

    def test_labels_are_read_where_the_training_set_had_them(self):
        """Of images alone and of images with conditions, by a run and by its model folder."""
        for name, given in (("of-images", {}), ("of-conditions", {"condition": "/condition"})):
            data = given | {"labels": "/kind"}
            path = write_set(f"{name}.h5", kind=LABELS, labels=np.zeros(COUNT, np.int64))
            run = train(f"labels-{name}", path, data, {"num_class_embeds": CLASSES})
            for model in (run, run / "model"):
                drawn = self.sample(model, f"{name}-drawn", "--condition", path, "--format", "dataset")
                np.testing.assert_array_equal(read(drawn, "labels"), LABELS)
            with h5py.File(path, "r+") as file:
                del file["kind"]
            self.refused(self.sample(run, "no.npy", "--condition", path, check=False), 3, path.name, "/kind")
            if given:  # which the labels are not read for
                self.sample(run, f"{name}.npy", "--condition", path, "--class-label", 1)

    def test_noise_of_a_file_is_recorded_by_its_digest_and_may_not_change(self):
        def save(seed):
            np.save(WORK / "other.npy", np.random.default_rng(seed).standard_normal((40, 2, SIZE, SIZE), np.float32))
            os.replace(WORK / "other.npy", noise)

        noise, set_of = WORK / "noise.npy", ("--format", "dataset", "--count", 40, "--initial-noise", WORK / "noise.npy")
        run = train("noisy", write_set("noisy.h5"))
        save(1)
        drawn = self.sample(run, "of-noise", *set_of)
        self.assertIn(f"noise {hashlib.sha256(noise.read_bytes()).hexdigest()} ", (drawn / "made-by.txt").read_text())
        again = ("sample", "--model", run, "--device", "cpu", "--threads", 1, "--scheduler", "ddim", "--steps", 2, *set_of,
                 "--output", drawn)  # fmt: skip
        noise.touch()
        self.assertIn("this command has made its 40 samples before", ddpm(*again).stderr)
        save(2)
        self.refused(ddpm(*again, check=False), 4, "of-noise: exists already")

        # What is drawn after a change is none of the file whose digest is recorded.
        partial, output = WORK / ".of-changed-noise.partial", WORK / "of-changed-noise"
        for folder in (partial, output):
            shutil.rmtree(folder, ignore_errors=True)
        words = ("--scheduler", "ddim", "--steps", 100, "--device", "cpu", "--threads", 1, "--output", output, *set_of)
        with subprocess.Popen([DDPM, "sample", "--model", run, *map(str, words)], stderr=subprocess.PIPE, text=True) as process:
            while process.poll() is None and not list((partial / "journal").glob("*.json")):
                time.sleep(0.002)
            process.send_signal(signal.SIGSTOP)
            save(3)
            process.send_signal(signal.SIGCONT)
            said = process.communicate(timeout=240)[1]
        self.assertEqual(process.returncode, 2, said)
        self.assertIn(f"{noise}: it was changed, replaced or removed since it was opened", said)
        self.assertFalse(output.exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)
