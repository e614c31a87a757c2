"""The trends of a report's curves are those of SciPy's straight lines, and decide what the page counsels."""

import json
import os
import pathlib
import shutil
import sys
import unittest

import numpy as np
from scipy import stats

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_run import ddpm  # noqa: E402

WORK = pathlib.Path.cwd()
COUNT, BLOCKS = 400, 16


def make_run(name, losses):
    run = WORK / name
    shutil.rmtree(run, ignore_errors=True)
    (run / "checkpoints").mkdir(parents=True)
    (run / "config.toml").write_text('[train]\nsteps = 8000\n[lr_schedule]\nname = "constant"\n')
    line = {"learning_rate": 1e-3, "grad_norm": 1.0, "loss_scale": 1.0, "images_per_second": 100.0, "seconds_per_step": 0.3,
            "data_wait_fraction": 0.01, "comm_wait_fraction": 0.0, "peak_memory_bytes": 1000000, "loss_quartiles": [1, 1, 1, 1]}
    (run / "metrics.jsonl").write_text("".join(
        json.dumps({"step": 10 * (i + 1), "images_seen": 320 * (i + 1), "loss": loss, **line}) + "\n" for i, loss in enumerate(losses)
    ))  # fmt: skip
    return run


class Trends(unittest.TestCase):
    def test_a_trend_is_scipys_line_through_the_means_of_blocks(self):
        random = np.random.default_rng(3)
        for name, slope, deviation, direction in (("falling", -3e-4, 0.003, "falling"), ("rising", 3e-4, 0.003, "rising"),
                                                  ("flat", 0.0, 0.0005, "flat"), ("creeping", 1e-6, 1e-6, "flat"),
                                                  ("noisy", 0.0, 0.1, "unknown")):  # fmt: skip
            losses = 0.1 + slope * np.arange(COUNT) + random.normal(0, deviation, COUNT)
            (run,) = json.loads(ddpm("report", make_run(name, losses.tolist()), "--json").stdout)["runs"]
            recent = int(np.ceil(0.3 * COUNT))
            steps = np.array([block.mean() for block in np.split(10.0 * (1 + np.arange(COUNT))[-recent:], self.cuts(recent))])
            means = np.array([block.mean() for block in np.split(losses[-recent:], self.cuts(recent))])
            line = stats.linregress(steps, means)
            half = stats.t.ppf(0.975, BLOCKS - 2) * line.stderr
            scale = (steps[-1] - steps[0]) / abs(means.mean())
            found = run["loss"]
            self.assertEqual((found["direction"], found["blocks"]), (direction, BLOCKS), name)
            for key, wanted in (("value", line.slope), ("low", line.slope - half), ("high", line.slope + half)):
                self.assertAlmostEqual(found["change"][key], wanted * scale, delta=1e-9, msg=f"{name}, {key}")

    @staticmethod
    def cuts(count):
        return [(i + 1) * count // BLOCKS for i in range(BLOCKS - 1)]


if __name__ == "__main__":
    unittest.main()
