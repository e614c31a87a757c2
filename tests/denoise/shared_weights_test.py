"""The weights of a model folder are read once, by one rank, for all ranks that need them."""

import os
import pathlib
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_run import DDPM, MPIRUN, TIMEOUT_S, ddpm, make_dataset, write_config  # noqa: E402

WORK = pathlib.Path.cwd()
RANKS = 3
BATCH = {"global_size": 6, "micro_size": 2}


class SharedWeights(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dataset = make_dataset(WORK / "squares")
        cls.model = cls.config("first").parent / "first/model"
        if not cls.model.exists():
            ddpm("train", WORK / "first.toml")
        cls.weights = cls.model / "unet/diffusion_pytorch_model.safetensors"

    @classmethod
    def config(cls, name, **sections):
        return write_config(WORK / f"{name}.toml", WORK / name, cls.dataset, train={"steps": 1}, batch=BATCH, **sections)

    def opened(self, *command):
        """How often the ranks of the command opened the weights."""
        log = WORK / "opened.txt"
        log.unlink(missing_ok=True)
        trace = ["strace", "-f", "-qq", "-o", log, "-P", self.weights, "-e", "trace=openat"]
        launch = [*MPIRUN, "-np", str(RANKS), DDPM, *command]
        subprocess.run([*map(str, trace), *map(str, launch)], check=True, capture_output=True, timeout=TIMEOUT_S)
        return sum(" = -1 " not in line for line in log.read_text().splitlines() if "openat(" in line)

    def test_a_training_that_starts_from_them(self):
        shutil.rmtree(WORK / "second", ignore_errors=True)
        shape = {key: None for key in ("block_out_channels", "down_block_types", "up_block_types")}
        config = self.config("second", model={"pretrained": str(self.model), **shape})
        self.assertEqual(self.opened("train", config), 1)

    def test_sampling(self):
        out = WORK / "out.npy"
        out.unlink(missing_ok=True)
        self.assertEqual(self.opened("sample", "--model", self.model, "--output", out, "--steps", 2, "--count", 3), 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
