"""Every numeric key at the ends of its range: a training ends with a documented exit code, never with 1 or a signal, and a
refused one leaves no run folder.

The test takes the keys that float32 computes with. `key_ends_test.py --all`, by hand, takes every numeric key: ten minutes on
two cores.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_run import ddpm, make_dataset, write_config  # noqa: E402

WORK = pathlib.Path.cwd()
LARGEST, SMALLEST = 3.4028234663852886e38, 1.401298464324817e-45  # float32
LAST = 2**63 - 1
COMPUTED = ("diffusion", "optimizer", "lr_schedule", "ema", "precision")
# Keys whose largest value is a matter of hours or of memory, not of a type.
LONG = ("model.", "batch.", "train.", "run.threads_per_rank")
# Keys that take a list of so many numbers, in the configuration below.
LISTS = {"optimizer.betas": 2, "model.block_out_channels": 2}
# Numeric keys whose default is another one or none.
UNSET = {"time_embedding_dim": "integer", "num_class_embeds": "integer", "num_train_timesteps": "integer",
         "attn_norm_num_groups": "integer", "steps": "integer", "epochs": "number", "num_cycles": "number",
         "warmup_fraction": "number", "dp_shard_size": "integer", "dp_replicate_size": "integer"}  # fmt: skip


def numeric_keys():
    """(path, kind, documentation) of every numeric key, a list's too."""
    section, doc = "", ""
    for line in ddpm("config", "show").stdout.splitlines():
        if line.startswith("["):
            section = line.strip("[]")
            continue
        unset = re.fullmatch(r"# (\w+) = \(.*\)", line)
        value = re.fullmatch(r"(\w+) = \[?(-?[\d.e+-]+)\b.*", line)
        if unset and unset.group(1) in UNSET:
            yield f"{section}.{unset.group(1)}", UNSET[unset.group(1)], doc
        elif value:
            yield f"{section}.{value.group(1)}", "number" if re.search(r"[.e]", value.group(2)) else "integer", doc
        doc = line


def ends(kind, doc):
    """The lowest and the highest value that a key's documentation allows, and what lies beyond them."""
    low = re.search(r"\((at least|above) ([-\d.e+]+)", doc)
    high = re.search(r"(at most|below) ([-\d.e+]+)\)", doc)
    if kind == "integer":
        first, last = int(float(low.group(2))) if low else -LAST - 1, int(float(high.group(2))) if high else LAST
        return [first, last], [f"{first - 1}", f"{last + 1}"]
    least, most = float(low.group(2)) if low else -LARGEST, float(high.group(2)) if high else LARGEST
    beyond = [f"{least - 1:.17g}" if least > -1e30 else "-1e39", f"{most + 1:.17g}" if most < 1e30 else "3.5e38", "1e-46"]
    below = low and low.group(1) == "above"
    above = high and high.group(1) == "below"
    return [SMALLEST if below else least, most * (1 - 1e-7) if above else most], beyond


def setting(path, value):
    """The argument that gives a key this value, or a list of it."""
    return f"--{path}=[{', '.join([str(value)] * LISTS[path])}]" if path in LISTS else f"--{path}={value}"


class KeyEnds(unittest.TestCase):
    every = False

    @classmethod
    def setUpClass(cls):
        cls.dataset = make_dataset(WORK / "squares", 16)
        cls.keys = list(numeric_keys())

    def chosen(self):
        return [key for key in self.keys if self.every or key[0].split(".")[0] in COMPUTED]

    def config(self, name, path):
        """A configuration that reads the key, where another key decides whether it is read."""
        sections = {"train": {"steps": 2}, "diffusion": {"num_train_timesteps": 8}, "checkpoint": {"every_steps": 1},
                    "ema": {"enabled": True}}  # fmt: skip
        key = path.split(".")[1]
        if path.startswith("lr_schedule."):
            schedules = {"pct_start": "one_cycle", "div_factor": "one_cycle", "final_div_factor": "one_cycle",
                         "power": "polynomial", "lr_end": "polynomial", "num_cycles": "cosine_with_restarts"}  # fmt: skip
            sections["lr_schedule"] = {"name": schedules.get(key, "cosine"), "warmup_steps": 1}
        if path.startswith(("validation.", "early_stopping.")):
            sections["data"] = {"validation": str(self.dataset)}
            sections["validation"] = {"every_steps": 1}
        if path.startswith("precision."):
            sections["precision"] = {"mixed_precision": "fp16"}
        run = WORK / f"run-{name}"
        shutil.rmtree(run, ignore_errors=True)
        return run, write_config(WORK / f"{name}.toml", run, self.dataset, **sections)

    def train(self, path, value):
        """Trains at one end of a key; returns how the process ended (None: not within its time), and the run's folder."""
        run, config = self.config(f"{path}-{value}", path)
        try:
            return ddpm("train", config, setting(path, value), check=False), run
        except subprocess.TimeoutExpired:
            return None, run

    def test_there_are_keys(self):
        paths = {path for path, _, _ in self.keys}
        for path in ("diffusion.snr_gamma", "optimizer.betas", "model.block_out_channels", "lr_schedule.warmup_fraction",
                     "fault.step_timeout_s"):  # fmt: skip
            self.assertIn(path, paths)

    def test_training_at_the_ends(self):
        cases = []
        for path, kind, doc in self.chosen():
            cases += [(path, value) for value in ends(kind, doc)[0][: 1 if path.startswith(LONG) else 2]]
        with ThreadPoolExecutor(2) as pool:
            trained = pool.map(lambda case: self.train(*case), cases)
            for (path, value), (process, run) in zip(cases, trained):
                if self.every:
                    print(f"{process.returncode if process else 'none':>4}  {path} = {value}", flush=True)
                with self.subTest(key=path, value=value):
                    self.expect_documented_end(process, run)
                shutil.rmtree(run, ignore_errors=True)

    def expect_documented_end(self, process, run):
        self.assertIsNotNone(process, "it did not end")
        said = process.stderr[-600:]
        self.assertIn(process.returncode, (0, 2, 3, 4, 6), said)
        errors = [line for line in process.stderr.splitlines() if line.startswith("ddpm: error")]
        self.assertEqual(len(errors), int(process.returncode != 0), said)
        if process.returncode in (2, 3):
            self.assertFalse(run.exists(), said)

    def test_beyond_the_ends(self):
        for path, kind, doc in self.chosen() if self.every else [key for key in self.keys if key[0].startswith("diffusion.")]:
            config = self.config("beyond", path)[1]
            for value in ends(kind, doc)[1]:
                with self.subTest(key=path, value=value):
                    process = ddpm("config", "validate", config, setting(path, value), check=False)
                    self.assertEqual(process.returncode, 2, process.stderr)
                    self.assertEqual(len(process.stderr.splitlines()), 1, process.stderr)
                    self.assertIn(path, process.stderr)


if __name__ == "__main__":
    if "--all" in sys.argv:
        sys.argv.remove("--all")
        KeyEnds.every = True
    unittest.main(verbosity=2)
