"""What a job that has GPUs is told when it computes on CPUs, or on GPUs that are older than bf16."""

import os
import pathlib
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_run import DDPM, ddpm, files_below, make_dataset, write_config  # noqa: E402

WORK = pathlib.Path.cwd()
OLD_GPU = pathlib.Path(sys.argv.pop())
SIGNS = ("SLURM_JOB_GPUS", "SLURM_STEP_GPUS", "SLURM_GPUS_ON_NODE", "SLURM_GPUS", "CUDA_VISIBLE_DEVICES")


def config_of(name, dataset, device="auto", precision="no"):
    run = WORK / f"{name}-run"
    shutil.rmtree(run, ignore_errors=True)
    return write_config(
        WORK / f"{name}.toml", run, dataset, run={"device": device}, precision={"mixed_precision": precision},
        train={"steps": 1}, batch={"global_size": 2, "micro_size": 1},
    )  # fmt: skip


class Cpus(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dataset = make_dataset(WORK / "squares")

    def warnings(self, device="auto", ranks=1, **variables):
        """The warnings of a training on a machine that shows no GPUs."""
        hidden = {name: "" for name in SIGNS if name != "CUDA_VISIBLE_DEVICES"}
        process = ddpm("train", config_of("cpus", self.dataset, device), ranks=ranks, env={**hidden, **variables})
        return [line for line in process.stderr.splitlines() if "computes on CPUs" in line]


class OnCpus(Cpus):
    def test_nobody_else_is_told(self):
        self.assertEqual(self.warnings(device="cpu", SLURM_JOB_GPUS="0,1"), [])
        self.assertEqual(self.warnings(SLURM_JOB_GPUS="0,1", CUDA_VISIBLE_DEVICES=""), [])

    def test_the_doctor_says_that_the_driver_is_missing(self):
        process = ddpm("doctor", env={"SLURM_JOB_GPUS": "0,1"}, check=False)
        self.assertRegex(process.stdout + process.stderr, r"SLURM_JOB_GPUS=0,1, but no NVIDIA driver is loaded|driver is loaded, but")


class WithoutGpu(Cpus):
    """For machines without a GPU."""

    def test_a_job_with_gpus_is_told_once_why_it_computes_on_cpus(self):
        for ranks in (1, 2):
            (line,) = self.warnings(ranks=ranks, SLURM_JOB_GPUS="0,1")
            self.assertTrue(line.startswith("ddpm: warning: "), line)
            self.assertIn('device = "auto" computes on CPUs, although the job has GPUs (SLURM_JOB_GPUS=0,1)', line)
            # The driver is missing, or already the CUDA part of this build.
            self.assertRegex(line, "GPUs cannot be used, because|libddpm_cuda.so is neither")


class OnOldGpus(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dataset = make_dataset(WORK / "squares")
        cls.folder = WORK / "old"
        shutil.rmtree(cls.folder, ignore_errors=True)
        cls.folder.mkdir()
        shutil.copy(DDPM, cls.folder / "ddpm")
        shutil.copy(OLD_GPU, cls.folder / "libddpm_cuda.so")

    def run_here(self, *words, answers=""):
        return subprocess.run(
            [self.folder / "ddpm", *map(str, words)], input=answers, capture_output=True, text=True, timeout=120, check=False
        )

    def test_bf16_is_refused_in_one_line_that_says_what_to_take(self):
        config = config_of("old", self.dataset, precision="bf16")
        before = files_below(WORK)
        process = self.run_here("train", config)
        self.assertEqual(process.returncode, 2, process.stderr)
        (line,) = process.stderr.splitlines()
        self.assertIn("Tesla V100-SXM2-32GB (compute capability 7.0)", line)
        self.assertIn('take precision.mixed_precision = "fp16"', line)
        self.assertEqual(before, files_below(WORK))

    def test_so_are_samples_in_bf16(self):
        process = self.run_here("sample", "--model", WORK / "none", "--precision", "bf16", "--output", WORK / "old.npy")
        self.assertEqual(process.returncode, 2, process.stderr)
        (line,) = process.stderr.splitlines()
        self.assertIn("--precision bf16 on a Tesla V100-SXM2-32GB (compute capability 7.0)", line)
        self.assertIn("take --precision no", line)

    def test_plans_are_for_the_gpu_that_is_here(self):
        plan = ("--nodes", 1, "--gpus-per-node", 1)
        for device in ("auto", "cuda"):
            process = self.run_here("plan", config_of("old", self.dataset, device, "fp16"), *plan)
            self.assertEqual(process.returncode, 0, process.stderr)
            self.assertIn('constants of machine "v100"', process.stderr)
            self.assertRegex(process.stdout, r"Limit +31\.0 GiB per rank")
        # A memory that is said wins, and so does a machine that is named.
        config = config_of("old", self.dataset, precision="fp16")
        for words in (("--memory-gib", 10), ("--machine.memory_gib", 10)):
            self.assertRegex(self.run_here("plan", config, *plan, *words).stdout, r"Limit +10\.0 GiB per rank")
        self.assertRegex(self.run_here("plan", config, *plan, "--machine", "a100").stdout, r"Limit +80\.0 GiB per rank")
        config = config_of("old", self.dataset, precision="bf16")
        process = self.run_here("plan", config, *plan)
        self.assertEqual(process.returncode, 2, process.stderr)
        self.assertIn('bf16" on the v100 here (--machine names another), which is older than bf16: take "fp16"', process.stderr)
        self.assertEqual(self.run_here("plan", config, *plan, "--machine", "a100").returncode, 0)

    def test_a_dry_run_counts_the_memory_of_the_gpu_that_is_here(self):
        for device, on_gpu in (("auto", True), ("cuda", True), ("cpu", False)):
            process = self.run_here("train", config_of("old", self.dataset, device), "--dry-run")
            self.assertEqual(process.returncode, 0, process.stderr)
            self.assertEqual("beside the GPU" in process.stdout, on_gpu, process.stdout)

    def test_config_new_proposes_the_memory_that_the_gpu_has(self):
        path = WORK / "old-asked.toml"
        path.unlink(missing_ok=True)
        process = self.run_here("config", "new", "--output", path, answers=f"{self.dataset}\n")
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertIn('constants of machine "v100"; --machine names another', process.stderr)
        self.assertIn("Memory of a rank in GiB [31]", process.stderr)
        path.unlink()

    def test_config_new_takes_fp16(self):
        path = WORK / "old-new.toml"
        path.unlink(missing_ok=True)
        process = self.run_here("config", "new", "--data", self.dataset, "--output", path)
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertIn('mixed_precision = "fp16"', path.read_text())
        path.unlink()
        process = self.run_here("config", "new", "--data", self.dataset, "--output", path, "--precision", "bf16")
        self.assertEqual(process.returncode, 2, process.stderr)
        self.assertIn("--precision bf16: v100 GPUs are older than bf16; take fp16", process.stderr)
        self.assertFalse(path.exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)
