"""The model of scaling studies against that of `ddpm plan`: two implementations of the same formulas."""

import json
import pathlib
import sys
import unittest

from synthetic import SOURCE, strong, weak

sys.path.insert(0, str(SOURCE / "tests" / "support"))
from ddpm_run import ddpm, make_dataset, write_config  # noqa: E402

from description import make_point  # noqa: E402
from model import Level, Network, Traffic, sends  # noqa: E402

WORK = pathlib.Path.cwd()
MACHINE = {"network_latency_us": 40.0, "network_gb_per_s": 2.0, "node_latency_us": 3.0, "node_gb_per_s": 20.0}
NETWORK = Network(Level(3e-6, 1 / 20e9), Level(40e-6, 1 / 2e9))


class Told:
    """What Traffic wants of a sample."""

    def __init__(self, point, lines):
        self.point, self.lines = point, lines


class Plan(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # Large enough that what pads the parts of many ranks is small beside it.
        model = {"block_out_channels": [64, 256], "norm_num_groups": 32}
        cls.config = write_config(WORK / "plan.toml", WORK / "plan-run", make_dataset(WORK / "squares"), model=model)

    def planned(self, point):
        constants = [word for key, value in MACHINE.items() for word in (f"--machine.{key}", value)]
        answer = json.loads(ddpm(
            "plan", self.config, "--nodes", point.nodes, "--gpus-per-node", point.series.ranks_per_node, "--json",
            "--batch.global_size", point.global_size, "--batch.micro_size", point.micro_size, "--parallel.bucket_mib", 1,
            "--parallel.zero_stage", point.series.zero_stage, "--precision.mixed_precision", "bf16", *constants,
        ).stdout)  # fmt: skip
        return answer["communication"]

    def test_traffic_and_seconds_are_those_of_the_plan(self):
        for stage in (0, 1, 2, 3):
            for series in (weak(8, stage, 2), strong(64, stage, 1)):
                near, far = make_point(series, 2, 2), make_point(series, 16, 2)
                lines = self.planned(far)
                traffic = Traffic(Told(near, self.planned(near)))
                with self.subTest(point=far.name):
                    self.assertEqual(len(traffic.lines), len(lines))
                    for (kind, weights, calls, size), line in zip(traffic.lines, lines):
                        self.assertEqual((kind, weights), (line["collective"], line["of"] == "weights"))
                        times = traffic._times(weights, far.accumulation)
                        self.assertEqual(times * calls, line["calls"])
                        buffer = line["sent_bytes"] / sends(kind) * far.ranks / (far.ranks - 1)
                        self.assertAlmostEqual(times * size / buffer, 1, delta=0.1)
                        seconds = NETWORK.seconds(kind, far.nodes, series.ranks_per_node, line["calls"], buffer)
                        self.assertAlmostEqual(seconds / line["seconds"], 1, places=5)


if __name__ == "__main__":
    unittest.main()
