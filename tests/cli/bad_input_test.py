"""Bad input: the documented exit code, one clear line on rank 0, and no file left behind."""

import os
import pathlib
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_run import DDPM, MPIEXEC, TIMEOUT_S, ddpm, files_below, make_dataset, write_config  # noqa: E402

WORK = pathlib.Path.cwd()


class BadInput(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dataset = make_dataset(WORK / "squares")

    def refused(self, code, words, overrides=(), dataset=None, ranks=(1, 2), **sections):
        """Trains with a configuration that must be refused before anything is written."""
        run = WORK / "refused"
        shutil.rmtree(run, ignore_errors=True)
        config = write_config(WORK / "refused.toml", run, dataset or self.dataset, **sections)
        for n in ranks:
            process = ddpm("train", config, *overrides, ranks=n, check=False)
            self.assertEqual(process.returncode, code, process.stderr)
            lines = [line for line in process.stderr.splitlines() if line.startswith("ddpm: error")]
            self.assertEqual(len(lines), 1, process.stderr)
            for word in words:
                self.assertIn(word, lines[0])
            self.assertFalse(run.exists(), files_below(WORK))

    def test_unknown_key_names_the_nearest(self):
        self.refused(2, ["learning_rat", "learning_rate"], optimizer={"learning_rat": 1e-3})
        self.refused(2, ["optimizer.epss", "optimizer.eps"], overrides=["--optimizer.epss", "1e-4"])

    def test_wrong_type_and_range(self):
        self.refused(2, ["batch.global_size", "many"], batch={"global_size": "many"})
        self.refused(2, ["learning_rate", "-1"], optimizer={"learning_rate": -1.0})
        self.refused(2, ["mixed_precision", "fp8", "bf16"], precision={"mixed_precision": "fp8"})

    def test_indivisible_batch_names_all_numbers(self):
        self.refused(2, ["9", "2"], batch={"global_size": 9, "micro_size": 2})
        self.refused(2, ["8", "3", "2"], batch={"global_size": 8, "micro_size": 3}, ranks=(2,))

    def test_steps_or_epochs(self):
        self.refused(2, ["train.steps", "train.epochs"], train={"steps": 3, "epochs": 2.0})

    def test_model_that_cannot_be_built(self):
        self.refused(2, ["norm_num_groups", "7"], model={"norm_num_groups": 7})
        self.refused(2, ["NoSuchBlock2D"], model={"down_block_types": ["DownBlock2D", "NoSuchBlock2D"]})

    def test_missing_and_broken_datasets(self):
        self.refused(3, ["nowhere"], dataset=WORK / "nowhere")
        broken = WORK / "broken"
        shutil.rmtree(broken, ignore_errors=True)
        shutil.copytree(self.dataset, broken)
        text = (broken / "dataset.json").read_text()
        (broken / "dataset.json").write_text(text.replace('"count"', '"coumt"', 1))
        self.refused(3, ["dataset.json"], dataset=broken)

    def test_dataset_that_does_not_fit_the_model(self):
        self.refused(3, ["in_channels"], model={"in_channels": 1, "out_channels": 1})
        self.refused(3, ["sample_size", "32"], model={"sample_size": 32})

    def test_another_runs_folder(self):
        run = WORK / "mine"
        shutil.rmtree(run, ignore_errors=True)
        config = write_config(WORK / "mine.toml", run, self.dataset, train={"steps": 1})
        ddpm("train", config, ranks=2)
        before = files_below(run)
        self.assertIn("nothing to do", ddpm("train", config, ranks=2).stderr)
        for ranks in (1, 2):
            process = ddpm("train", config, "--optimizer.learning_rate", "0.5", ranks=ranks, check=False)
            self.assertEqual(process.returncode, 4, process.stderr)
            self.assertEqual(process.stderr.count("ddpm: error: "), 1, process.stderr)
            self.assertIn("optimizer.learning_rate", process.stderr)
            self.assertIn("0.5", process.stderr)
        self.assertEqual(before, files_below(run))

    def test_folder_that_is_no_run(self):
        folder = WORK / "letters"
        folder.mkdir(exist_ok=True)
        (folder / "a.txt").write_text("dear")
        config = write_config(WORK / "letters.toml", folder, self.dataset)
        process = ddpm("train", config, ranks=2, check=False)
        self.assertEqual(process.returncode, 4, process.stderr)
        self.assertEqual(files_below(folder), ["a.txt"])

    def test_damaged_image_ends_training_with_exit_code_3(self):
        damaged = WORK / "damaged"
        shutil.rmtree(damaged, ignore_errors=True)
        shutil.copytree(self.dataset, damaged)
        shard = sorted(damaged.glob("shard-*.h5"))[0]
        data = bytearray(shard.read_bytes())
        data[-5] ^= 1
        shard.write_bytes(data)
        run = WORK / "damaged-run"
        shutil.rmtree(run, ignore_errors=True)
        config = write_config(WORK / "damaged.toml", run, damaged, train={"steps": 20})
        for ranks in (1, 2):
            process = ddpm("train", config, ranks=ranks, check=False)
            self.assertEqual(process.returncode, 3, process.stderr)
            self.assertIn(shard.name, process.stderr)

    def test_sample_refusals(self):
        self.assertEqual(ddpm("sample", "--model", WORK / "nowhere", "--output", "x.png", check=False).returncode, 4)
        self.assertEqual(ddpm("sample", "--output", "x.png", check=False).returncode, 2)
        self.assertEqual(ddpm("no-such-command", check=False).returncode, 2)

    def test_launcher_that_promised_more_ranks(self):
        config = write_config(WORK / "single.toml", WORK / "single", self.dataset)
        process = ddpm("train", config, check=False, env={"SLURM_NTASKS": "2", "SLURM_JOB_ID": "1"})
        self.assertEqual(process.returncode, 5, process.stderr)

    def test_launcher_of_another_mpi_library(self):
        # Two programs that the launcher's MPI does not reach: each would be rank 0 of 1.
        config = write_config(WORK / "strange.toml", WORK / "strange", self.dataset)
        strange = ["bash", "-c", 'unset ${!PMIX_*} ${!OMPI_MCA_*}; exec "$0" "$@"', DDPM, "train", config]
        process = subprocess.run(
            [MPIEXEC, "--oversubscribe", "--bind-to", "none", "-np", "2", *strange],
            capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
        self.assertEqual(process.returncode, 5, process.stderr)
        self.assertEqual(process.stderr.count("ddpm: error: "), 1, process.stderr)
        self.assertIn("OMPI_COMM_WORLD_SIZE=2", process.stderr)
        self.assertFalse((WORK / "strange").exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)
