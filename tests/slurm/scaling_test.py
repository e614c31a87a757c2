"""A scaling study of six jobs on a real Slurm, from its description to its plots."""

import json
import shutil
import struct
import sys
import unittest
import xml.etree.ElementTree

from cluster import PATIENCE_S
from cluster_case import SOURCE, WORK, ClusterCase

PROGRAM = SOURCE / "jobs" / "scaling" / "study.py"
DESCRIPTION = {
    "name": "three nodes", "config": "scaling.toml", "nodes": [1, 2, 3], "ranks_per_node": [2], "micro_size": 2,
    "repeats": 2, "steps": 3, "warm_up": 1, "weak": {"batch_per_rank": [4]}, "comm": {"max_mib": 1, "repeats": 2},
    "slurm": {"options": ["--time=10"]}, "extrapolate": {"nodes": [8, 1000]}, "set": {"run.threads_per_rank": 1},
}  # fmt: skip


class Scaling(ClusterCase):
    nodes = 3

    def study(self, command):
        done = self.cluster.client(sys.executable, "-B", PROGRAM, command, "study", cwd=WORK, check=True)
        return done.stdout + done.stderr

    def test_six_jobs_to_their_plots(self):
        folder = WORK / "study"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        self.config("scaling")
        (folder / "study.json").write_text(json.dumps(DESCRIPTION))
        self.assertIn("6 of 6 jobs submitted", self.study("submit"))
        self.assertIn("0 of 6 jobs submitted", self.study("submit"))

        # One is lost while it waits or runs: the last, so that it has not ended yet.
        number = (folder / "jobs" / "weak-4-zero0-no-3x2" / "2" / "job").read_text().strip()
        self.cluster.client("scancel", number, check=True)
        self.wait_for("5 done, 0 queued, 1 failed")
        self.assertIn("5 of 6 jobs", self.study("collect"))
        self.assertIn("1 of 6 jobs submitted", self.study("submit"))
        self.wait_for("6 done, 0 queued, 0 failed")

        self.assertIn("with plots", self.study("report"))
        results = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
        self.assertEqual(len(results), 6)
        hosts = {result["point"]["nodes"]: result["job"]["hosts"] for result in results}
        self.assertEqual(hosts[3], "node[1-3]")
        self.assertEqual(len({result["job"]["id"] for result in results}), 6)
        report = folder / "report"
        text = (report / "report.md").read_text()
        for words in ("## Back-test", "| 3 | 6 | 24 | 2 |"):
            self.assertIn(words, text)
        # Three nodes that share two cores may well be beyond the model; then the report has to say so.
        self.assertNotEqual("| 1000 | 2000 |" in text, "**The extrapolation is worthless**" in text)
        for name in ("weak-efficiency", "weak-throughput", "split-1"):
            root = xml.etree.ElementTree.parse(report / f"{name}.svg").getroot()
            self.assertTrue(root.tag.endswith("svg"))
            self.assertIn("nodes", "".join(root.itertext()))
            png = (report / f"{name}.png").read_bytes()
            self.assertEqual(png[:8], b"\x89PNG\r\n\x1a\n")
            self.assertEqual(struct.unpack(">II", png[16:24]), (1520, 960))

    def wait_for(self, words):
        said = ""

        def there():
            nonlocal said
            said = self.study("status")
            return words in said

        try:
            self.cluster.wait_for(there, words, 5 * PATIENCE_S)
        except AssertionError as error:
            logs = "\n".join(f"--- {log}\n{log.read_text()}" for log in sorted((WORK / "study").rglob("log-*.txt")))
            raise AssertionError(f"{said}{logs}") from error


if __name__ == "__main__":
    unittest.main(verbosity=2)
