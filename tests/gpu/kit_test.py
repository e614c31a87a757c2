"""What of the kit for a GPU machine can be tried without one: the table of kernels, the report, the list of tests, refusals."""

import os
import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "gpu"))
import kernel_times  # noqa: E402
import visit  # noqa: E402

WORK = pathlib.Path.cwd()
STEP_NS = 10_000


def write_times(path, steps, graph=1):
    """Steps of three kernels on two streams, of which two overlap; the last is the marker's."""
    kernels = ((0, 3000, 7, "_ZN4ddpm2nn4cuda8add_biasE"), (2000, 4000, 8, "wgrad"), (6000, 7000, 7, "flat_update_kernel"))
    lines = [f"{step * STEP_NS + start}\t{step * STEP_NS + end}\t{stream}\t{graph}\t{name}\n" for step in range(steps) for start, end, stream, name in kernels]
    path.write_text("".join(reversed(lines)))  # the file has no order


class Kernels(unittest.TestCase):
    def test_a_step_ends_with_its_marker_and_overlapping_kernels_count_once(self):
        path = WORK / "times.tsv"
        write_times(path, 6)
        (step, *others) = kernel_times.steps_of(path, "flat_update", graph=True)
        self.assertEqual((len(step), len(others)), (3, 3), "the first step and the last, of which parts may be missing, are left out")
        self.assertEqual(kernel_times.busy(step), 5000)
        table = kernel_times.table_of(path)
        self.assertIn("4 steps of 3 kernels, copies and fills: 0.010 ms, of which busy 0.005 ms", table)
        self.assertIn("| 0.003 | 1 | 3.0 | nn::cuda::add_bias |", table)

    def test_launched_kernels_and_those_of_graphs_are_apart(self):
        path = WORK / "launched.tsv"
        write_times(path, 4, graph=0)
        self.assertEqual(kernel_times.table_of(path), "no step that flat_update ends")
        self.assertIn("2 steps", kernel_times.table_of(path, graph=False))


class Report(unittest.TestCase):
    def test_it_names_each_failure_and_pairs_rates_by_round(self):
        row, _, batch, _ = visit.ROWS[0]
        results = [
            {"test": "a", "exit_code": 0, "seconds": 1, "said": "OK"},
            {"test": "b", "exit_code": 1, "seconds": 2, "said": "no driver"},
            {"test": "c", "exit_code": None, "seconds": 3, "said": "step 4"},
            {"test": "d", "exit_code": 0, "seconds": 3, "said": "OK (skipped=1)"},
            {"row": row, "program": "compiled", "error": "no triton"},
        ]
        for number, (ours, eager) in enumerate(((100.0, 50.0), (300.0, 100.0), (None, 70.0), (90.0, 90.0))):
            ddpm = {"row": row, "program": "ddpm", "round": number}
            results.append(ddpm | ({"images_per_second": ours, "peak_device_bytes": 2**30} if ours else {"error": "no memory"}))
            results.append({"row": row, "program": "eager", "round": number, "images_per_second": eager, "peak_device_bytes": 2**31})
        report = visit.report_of(results)
        for line in ("| a | passed | 1 |  |", "| b | failed (1) | 2 | no driver |", "| c | time was over | 3 | step 4 |",
                     "| d | skipped | 3 | OK (skipped=1) |", f"| {row} | compiled | no triton | | | |",
                     f"| {row} | ddpm | 100 (90 to 300) | {1000 * batch / 100:.2f} | 1.0 |  |",
                     f"| {row} | ddpm | no memory | | | |",
                     f"| {row} | eager | 80 (50 to 100) | {1000 * batch / 80:.2f} | 2.0 | 2.00 (1.00 to 3.00) |"):  # fmt: skip
            self.assertIn(line, report.splitlines())


class Box(unittest.TestCase):
    def test_every_test_of_training_on_a_gpu_is_taken(self):
        names = visit.names_of(visit.SOURCE / "tests" / "train" / "gpu_test.py")
        text = (visit.SOURCE / "tests" / "train" / "gpu_test.py").read_text()
        self.assertEqual(len(names), text.count("    def test_"))
        self.assertIn("BesideTheCpu.test_float32_has_the_cpus_curve", names)

    def test_all_that_it_imports_of_the_tests_is_packed(self):
        support = visit.SOURCE / "tests" / "support"
        wanted, scripts = set(), [visit.SOURCE / "tests" / "train" / "gpu_test.py", visit.SOURCE / "tests" / "gpu" / "visit.py"]
        while scripts:
            named = re.findall(r"^(?:from|import) (\w+)", scripts.pop().read_text(), re.MULTILINE)
            found = {name for name in named if (support / f"{name}.py").exists()} - wanted
            wanted |= found
            scripts += [support / f"{name}.py" for name in found]
        (packed,) = re.findall(r"^cp tests/support/\{(.+)\}\.py ", (visit.SOURCE / "tests" / "gpu" / "pack.sh").read_text(), re.MULTILINE)
        self.assertEqual(set(packed.split(",")), wanted)

    def test_outside_of_a_box_it_says_what_is_missing(self):
        done = subprocess.run(["bash", visit.SOURCE / "tests" / "gpu" / "box.sh"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("it is no packed box", done.stderr)

    def test_a_build_without_cuda_is_refused(self):
        (WORK / "no-cuda").mkdir(exist_ok=True)
        done = subprocess.run(["bash", visit.SOURCE / "tests" / "gpu" / "pack.sh", WORK / "no-cuda"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("libddpm_cuda.so", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
