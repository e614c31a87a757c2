"""Files that earlier versions wrote (make.py) are read by this one: image sets, plain files, checkpoints, models, configurations.

    kept_test.py      run by ctest; docs/upgrading.md promises what is tested here
"""

import array
import hashlib
import json
import os
import pathlib
import shutil
import struct
import sys
import unittest

SOURCE = pathlib.Path(os.environ["DDPM_SOURCE_DIR"])
sys.path.insert(0, str(SOURCE / "tests" / "support"))
from ddpm_run import ddpm, digests  # noqa: E402
from safetensors_file import tensors_of  # noqa: E402

sys.path.insert(0, str(SOURCE / "tests" / "kept"))
from make import ALL_STEPS, FIRST_STEPS, SAMPLES  # noqa: E402

KEPT = SOURCE / "tests" / "kept"
VERSIONS = sorted(path.name for path in KEPT.iterdir() if (path / "config.toml").exists())
WORK = pathlib.Path.cwd() / "trial"
# Other processors sum in another order.
SAME = 2e-4


def floats(data):
    values = array.array("f")
    values.frombytes(data)
    return values


def weights_of(path):
    """{name: values} of a file of float32 tensors."""
    return {name: floats(data) for name, data in tensors_of(path).items()}


def values_of_npy(path):
    data = path.read_bytes()
    (length,) = struct.unpack("<H", data[8:10])
    return floats(data[10 + length :])


def distance(values, wanted):
    """Relative, in the Euclidean norm."""
    assert len(values) == len(wanted), (len(values), len(wanted))
    return (sum((a - b) ** 2 for a, b in zip(values, wanted)) / sum(b * b for b in wanted)) ** 0.5


class Kept(unittest.TestCase):
    """Each test goes over all versions; a copy of a version's folder is the working directory, as its paths are relative."""

    def setUp(self):
        self.addCleanup(os.chdir, pathlib.Path.cwd())

    def each_version(self):
        for version in VERSIONS:
            print("files of", version, flush=True)
            shutil.rmtree(WORK, ignore_errors=True)
            shutil.copytree(KEPT / version, WORK)
            os.chdir(WORK)
            yield WORK

    def refused(self, code, *arguments):
        done = ddpm(*arguments, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr

    def test_there_is_a_version(self):
        self.assertIn("0.1.0", VERSIONS)

    def test_image_sets_are_inspected_and_verified(self):
        for _ in self.each_version():
            said = json.loads(ddpm("data", "inspect", "squares", "--json").stdout)
            self.assertEqual((said["count"], said["height"], said["width"], said["channels"]), (12, 8, 8, 3))
            self.assertEqual([one["name"] for one in said["classes"]], ["a", "b"])
            ddpm("data", "verify", "squares", ranks=2)
            self.assertEqual(json.loads(ddpm("data", "inspect", "plain.h5", "--json").stdout)["count"], 2)

    def test_checkpoints_are_listed_and_verified_and_cut_anew(self):
        for _ in self.each_version():
            (found,) = json.loads(ddpm("checkpoint", "list", "run", "--deep", "--json").stdout)["checkpoints"]
            self.assertEqual((found["step"], found["ranks"], found["state"], found["newest"]), (FIRST_STEPS, 2, "ok", True))
            ddpm("checkpoint", "verify", "run", ranks=2)
            ddpm("checkpoint", "reshard", "run", "--ranks", 3, "--output", "cut")
            ddpm("checkpoint", "verify", "cut")

    def test_a_finished_run_is_left_as_it_is(self):
        for work in self.each_version():
            before = digests(work / "run" / "checkpoints") | digests(work / "run" / "model")
            self.assertIn("nothing to do", ddpm("train", "config.toml", ranks=2).stderr)
            self.assertEqual(digests(work / "run" / "checkpoints") | digests(work / "run" / "model"), before)

    def test_a_run_goes_on_as_it_would_have_on_any_number_of_ranks(self):
        for work in self.each_version():
            kept = (work / "run").rename(work / "kept-run")
            wanted = weights_of(work / f"weights-{ALL_STEPS}.safetensors")
            for ranks in (1, 2):
                shutil.rmtree("run", ignore_errors=True)
                shutil.copytree(kept, "run")
                said = ddpm("train", "config.toml", "--train.steps", ALL_STEPS, ranks=ranks).stderr
                self.assertIn(f"steps {FIRST_STEPS + 1} to {ALL_STEPS}", said)
                found = weights_of(work / "run" / "model" / "unet" / "diffusion_pytorch_model.safetensors")
                self.assertEqual(list(found), list(wanted))
                for name, values in wanted.items():
                    self.assertLess(distance(found[name], values), SAME, name)

    def test_samples_are_those_of_then(self):
        for work in self.each_version():
            for source, weights in (("run", "raw"), ("run", "ema"), ("run/model", None)):
                chosen = ("--weights", weights) if weights else ()
                ddpm("sample", "--model", source, *chosen, *SAMPLES, "--output", "now.npy")
                wanted = values_of_npy(work / f"samples-{weights or 'ema'}.npy")
                self.assertLess(distance(values_of_npy(work / "now.npy"), wanted), SAME, (source, weights))

    def test_models_are_evaluated_on_their_own_sets(self):
        for _ in self.each_version():
            losses = [json.loads(ddpm("eval", "loss", "--model", model, "--data", "squares", "--levels", 4, "--json").stdout)["metrics"]
                      for model in ("run", "run/model")]  # fmt: skip
            self.assertEqual(losses[0], losses[1])

    def test_models_and_plain_files_begin_new_runs(self):
        for work in self.each_version():
            overrides = ("--run.directory", "new", "--model.pretrained", "run/model", "--train.steps", 1)
            ddpm("train", "config.toml", *overrides)
            self.assertTrue((work / "new" / "model" / "model_index.json").exists())
            text = (work / "config.toml").read_text()
            (work / "plain.toml").write_text(text.replace("num_class_embeds = 2\n", ""))  # pictures alone
            ddpm("train", "plain.toml", "--run.directory", "plain", "--data.train", "plain.h5", "--train.steps", 1,
                 "--batch.global_size", 2, "--batch.micro_size", 2)  # fmt: skip
            self.assertTrue((work / "plain" / "model" / "model_index.json").exists())

    def test_configurations_say_the_same(self):
        for work in self.each_version():
            said = ddpm("config", "show", "run/config.toml").stdout
            for key in ('directory = "run"', "zero_stage = 2", f"steps = {FIRST_STEPS}", "num_class_embeds = 2"):
                self.assertIn(key, said)
            ddpm("config", "validate", "config.toml")

    def test_formats_of_later_versions_are_refused_by_their_number(self):
        for work in self.each_version():
            description = work / "squares" / "dataset.json"
            description.write_text(description.read_text().replace('"version": 1', '"version": 1000'))
            self.assertIn("format version 1000, this program reads version", self.refused(3, "data", "inspect", "squares"))
            manifest = work / "run" / "checkpoints" / f"step-{FIRST_STEPS:08}" / "MANIFEST.json"
            text = manifest.read_text().replace('"format": 1', '"format": 1000')
            before = text[: text.rindex('"sha256": "')]
            digest = hashlib.sha256(before.encode()).hexdigest()
            manifest.write_text(f'{before}"sha256": "{digest}"\n}}\n')
            said = self.refused(4, "checkpoint", "verify", "run")
            self.assertIn("format 1000, this program reads", said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
