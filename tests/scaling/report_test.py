"""The report of jobs/scaling/study.py from outside: its tables and plots, and what it says of an unreliable model."""

import re
import unittest

from study_case import StudyTest
from synthetic import SOURCE, Machine, jsonl, noise_of, strong, study, weak

import tables

GOLDEN = SOURCE / "tests" / "scaling" / "golden"
REPORT = ("report.md", "measured.csv", "back_test.csv", "extrapolation.csv")


class Reporting(StudyTest):
    def write_golden_study(self):
        samples = study(
            Machine(), [strong(64, 0, 2), weak(8, 0, 2), weak(8, 2, 2)], [1, 2, 4], noise=noise_of(11, 0.02)
        )
        (self.folder / "results.jsonl").write_text(jsonl(samples))
        self.describe(name="golden", extrapolate={"nodes": [16, 1000]})
        return self.study("report")

    def test_tables_are_those_that_were_read_once(self):
        said = self.write_golden_study()
        self.assertIn("no plots: gnuplot is not on PATH", said)
        for name in REPORT:
            with self.subTest(name=name):
                written = (self.folder / "report" / name).read_text()
                self.assertEqual(written, (GOLDEN / name).read_text())
        scripts = {path.name for path in (self.folder / "report").glob("*.gp")}
        wanted = {f"{kind}-{figure}.gp" for kind in ("strong", "weak") for figure in ("efficiency", "throughput")}
        self.assertEqual(scripts, wanted | {"split-1.gp", "split-2.gp", "split-3.gp"})

    def test_a_report_needs_the_results_only(self):
        first = self.write_golden_study()
        self.assertEqual(self.study("report"), first)
        self.assertFalse((self.folder / "jobs").exists())

    def test_half_a_study_has_a_report_without_a_model(self):
        for nodes, note in (([1], ""), ([2, 4], "There is no model: no point of one node with 2 ranks was measured")):
            samples = study(Machine(), [weak(8, 0, 2)], nodes, repeats=2)
            (self.folder / "results.jsonl").write_text(jsonl(samples))
            self.study("report")
            text = (self.folder / "report" / "report.md").read_text()
            self.assertIn(note, text)
            self.assertIn(f"| {nodes[0]} | {2 * nodes[0]} |", text)
            self.assertTrue((self.folder / "report" / "weak-efficiency.gp").exists())

    def test_ranks_of_one_node_are_a_line_of_their_own(self):
        samples = study(Machine(), [strong(64, 0, ranks) for ranks in (1, 2, 4)], [1], repeats=2)
        (self.folder / "results.jsonl").write_text(jsonl(samples))
        self.study("report")
        text = (self.folder / "report" / "report.md").read_text()
        table = text[text.index("## Strong, 64 images, ZeRO 0, bf16, ranks of one node") :]
        rate = {s.point.ranks: s.images_per_second for s in samples}
        for ranks in (1, 2, 4):
            row = next(line for line in table.splitlines() if line.startswith(f"| 1 | {ranks} | 64 |"))
            self.assertIn(f"| {tables.shown(rate[ranks] / ranks / rate[1], unit=100)}", row)
        plot = (self.folder / "report" / "strong-one-node-efficiency.gp").read_text()
        self.assertIn('set xlabel "ranks"', plot)
        self.assertIn('set xtics ("1" 1, "2" 2, "4" 4)', plot)
        self.assertTrue((self.folder / "report" / "split-one-node-1.gp").exists())

    def worthless(self, samples, *words):
        """The report of samples whose model is beyond belief says so first, and shows no extrapolation."""
        (self.folder / "results.jsonl").write_text(jsonl(samples))
        self.describe(extrapolate={"nodes": [64, 1000]})
        said = self.study("report")
        self.assertIn("is worthless: the report says why", said)
        folder = self.folder / "report"
        text = (folder / "report.md").read_text()
        head = text[: text.index("Measured with")]
        self.assertLess(head.count("\n"), 12)
        for word in ("**The extrapolation is worthless**", "measure four numbers of nodes or more", *words):
            self.assertIn(word, head)
        self.assertNotIn("## Extrapolation", text)
        self.assertIn("## Back-test", text)
        self.assertEqual(len((folder / "extrapolation.csv").read_text().splitlines()), 1)
        for plot in folder.glob("weak-*.gp"):
            self.assertNotIn("$beyond", plot.read_text())
            self.assertNotIn("$model", plot.read_text())
        return text

    def test_an_extrapolation_that_fails_its_back_test_is_worthless(self):
        samples = study(Machine(), [weak()], [1, 2, 4], noise=noise_of(2, 0.02))
        samples += study(Machine(beta=8e-9), [weak()], [8], noise=noise_of(3, 0.02))
        self.worthless(samples, "fitted without 2 nodes, the model misses them by +", "though repeats agree")
        self.worthless(study(Machine(), [weak()], [1, 2, 3], noise=noise_of(5, 0.7)), "other jobs disturbed them")

    def test_a_bandwidth_that_no_link_has_is_not_believed(self):
        samples = study(Machine(beta=1e-18, alpha=5e-3), [weak()], [1, 2, 4, 8])
        self.worthless(samples, "the fitted bandwidth between nodes is", "which no link has")

    def test_an_extrapolation_that_cannot_be_tested_is_worthless(self):
        self.worthless(study(Machine(), [weak()], [1, 2]), "could not be tested", "2 measured, 4 or more are wanted")

    def test_a_good_series_keeps_its_extrapolation_beside_a_bad_one(self):
        samples = study(Machine(), [weak(16)], [1, 2, 4, 8])
        samples += study(Machine(), [weak()], [1, 2, 4]) + study(Machine(per_image=0.2), [weak()], [8])
        (self.folder / "results.jsonl").write_text(jsonl(samples))
        self.describe(extrapolate={"nodes": [64]})
        self.assertIn("the extrapolation of 1 of 2 series is worthless", self.study("report"))
        lines = (self.folder / "report" / "extrapolation.csv").read_text().splitlines()[1:]
        self.assertEqual([line.split(",")[:2] for line in lines], [["weak", "16"]])

    def test_many_series_have_points_of_their_own(self):
        samples = study(Machine(), [weak(8, stage, ranks) for stage in range(4) for ranks in (1, 2, 4)], [1, 2])
        (self.folder / "results.jsonl").write_text(jsonl(samples))
        self.study("report")
        text = (self.folder / "report" / "weak-throughput.gp").read_text()
        looks = re.findall(r'yerrorbars pt (\d+) ps 0.7 lc rgb "(#\w+)" title', text)
        self.assertEqual(len(looks), 12)
        self.assertEqual(len(set(looks)), 12)

    def test_numbers_are_short(self):
        self.assertEqual(tables.shown(0.997, unit=100, digits=2), "100")
        for value, text in ((0.012345, "0.0123"), (12.345, "12.3"), (12345.6, "12,346"), (0.0, "0")):
            self.assertEqual(tables.shown(value), text)
        self.assertEqual(tables.shown(0.5, 0.25, 0.75, unit=100), "50 (25 to 75)")


if __name__ == "__main__":
    unittest.main()
