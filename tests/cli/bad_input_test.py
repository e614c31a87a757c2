"""Bad input: the documented exit code, one clear line on rank 0, and no file left behind."""

import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_run import DDPM, MPIRUN, TIMEOUT_S, ddpm, files_below, make_dataset, says, write_config  # noqa: E402

WORK = pathlib.Path.cwd()


class BadInput(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dataset = make_dataset(WORK / "squares")
        cls.labelled = make_dataset(WORK / "labelled", 60, 16, 1, "--labels", "folder")
        cls.run_folder = cls.trained("plain")

    @classmethod
    def trained(cls, name, dataset=None, **sections):
        """A run of one step, made once."""
        run = WORK / name
        if not (run / "model").exists():
            shutil.rmtree(run, ignore_errors=True)
            diffusion = {"num_train_timesteps": 4}
            ddpm("train", write_config(WORK / f"{name}.toml", run, dataset or cls.dataset, train={"steps": 1},
                                       diffusion=diffusion, **sections))  # fmt: skip
        return run

    def sample(self, *arguments, model=None, output="out.npy", **options):
        return ddpm("sample", "--model", model or self.run_folder, "--output", f"{WORK}/{output}", "--count", 2, *arguments,
                    check=False, **options)  # fmt: skip

    def sample_refused(self, code, words, *arguments, **where):
        """Sampling that must be refused before it begins."""
        process = self.sample(*arguments, **where)
        self.assertEqual(process.returncode, code, process.stderr)
        lines = [line for line in process.stderr.splitlines() if line.startswith("ddpm: ")]
        self.assertEqual(len(lines), 1, process.stderr)
        for word in words:
            self.assertTrue(says(lines[0], word), (word, lines[0]))

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
                self.assertTrue(says(lines[0], word), (word, lines[0]))
            self.assertFalse(run.exists(), files_below(WORK))

    def test_unknown_key_names_the_nearest(self):
        self.refused(2, ["learning_rat", "learning_rate"], optimizer={"learning_rat": 1e-3})
        self.refused(2, ["optimizer.epss", "optimizer.eps"], overrides=["--optimizer.epss", "1e-4"])

    def test_wrong_type_and_range(self):
        self.refused(2, ['batch.global_size = "many"', "an integer"], batch={"global_size": "many"})
        self.refused(2, ["optimizer.learning_rate = -1.0", "at least 0"], optimizer={"learning_rate": -1.0})
        self.refused(2, ['precision.mixed_precision = "fp8"', "one of no, bf16, fp16"], precision={"mixed_precision": "fp8"})

    def test_indivisible_batch_names_all_numbers(self):
        for ranks in (1, 2):
            product = f"batch.micro_size × data-parallel ranks = 2 × {ranks} = {2 * ranks}"
            self.refused(2, ["batch.global_size = 9", product], batch={"global_size": 9, "micro_size": 2}, ranks=(ranks,))
        self.refused(2, ["batch.global_size = 8", "batch.micro_size × data-parallel ranks = 3 × 2 = 6"], batch={"global_size": 8, "micro_size": 3}, ranks=(2,))

    def test_steps_or_epochs(self):
        self.refused(2, ["train.steps", "train.epochs"], train={"steps": 3, "epochs": 2.0})

    def test_model_that_cannot_be_built(self):
        self.refused(2, ["norm_num_groups = 7"], model={"norm_num_groups": 7})
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
        self.refused(3, ["images are 16 × 16", "model.sample_size = 32"], model={"sample_size": 32})

    def test_validation_set_that_does_not_fit(self):
        def refused(code, words, validation, dataset=None, images=0, **sections):
            data = {"validation": str(validation)} if validation else {}
            self.refused(code, words, dataset=dataset, data=data, validation={"every_steps": 1, "images": images},
                         **sections)  # fmt: skip

        refused(2, ["data.validation", "every_steps"], None)
        refused(3, ["nowhere"], WORK / "nowhere")
        refused(3, ["larger", "images are 32 × 32 × 3 of", "squares are 16 × 16 × 3 of"], make_dataset(WORK / "larger", 4, 32))
        refused(3, ["grey", "channels", "images are 16 × 16 × 1 of", "squares are 16 × 16 × 3 of"], make_dataset(WORK / "grey", 4, 16, 1, "--channels", 1))
        refused(3, ["holds 60 images", "validation.images = 61"], self.dataset, images=61)
        classes = {"model": {"num_class_embeds": 2}, "dataset": self.labelled}
        refused(3, ["no labels"], self.dataset, **classes)
        half = WORK / "half-pictures"
        shutil.rmtree(half, ignore_errors=True)
        shutil.copytree(WORK / "labelled-pictures" / "b", half / "b")
        if not (WORK / "half").exists():
            ddpm("data", "create", half, "--output", WORK / "half", "--size", 16, "--labels", "folder")
        refused(3, ["half", "classes"], WORK / "half", **classes)
        self.refused(2, ["early_stopping.patience", "validation.every_steps"], early_stopping={"patience": 3})

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
            self.assertTrue(says(process.stderr, "optimizer.learning_rate = 0.002, yours is 0.5"), process.stderr)
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
        self.sample_refused(2, ["--class-label", "no class embedding"], "--class-label", 0)
        for option, value in (("--steps", 0), ("--steps", 2**63), ("--batch", 2**63 - 1), ("--seed", -1)):
            process = self.sample(option, value)
            self.assertEqual(process.returncode, 2, process.stderr)
            self.assertLess(len(process.stderr), 200, process.stderr)
        count = ("--count", 2**63 - 1, "--model", self.run_folder, "--output", WORK / "many.npy")
        process = ddpm("sample", *count, check=False)
        self.assertEqual(process.returncode, 2, process.stderr)
        self.assertTrue(says(process.stderr, "in range 1 to 1000000000"), process.stderr)
        self.assertEqual(ddpm("data", "create", "x", "--output", "y", "--seed", "-1", check=False).returncode, 2)

    def test_empty_words_are_usage(self):
        run, out = self.run_folder, WORK / "empty-words"
        for command in (
            ("checkpoint", "list", ""), ("checkpoint", "verify", ""),
            ("checkpoint", "reshard", run, "--ranks", 2, "--output", ""), ("checkpoint", "reshard", "", "--ranks", 2, "--output", out),
            ("sample", "--model", "", "--output", out), ("sample", "--model", run, "--output", ""),
            ("sample", "--model", run, "--output", out, "--initial-noise", ""),
            ("data", "inspect", ""), ("data", "verify", ""), ("data", "create", "", "--output", out),
            ("data", "create", WORK / "squares-pictures", "--output", ""), ("train", ""), ("plan", ""),
            ("plan", WORK / "plain.toml", "--machine", ""), ("config", "show", ""), ("config", "validate", ""),
            ("config", "new", "--data", ""), ("bench", "io", ""), ("bench", "step", ""),
        ):  # fmt: skip
            with self.subTest(command=command):
                process = ddpm(*command, check=False)
                self.assertEqual(process.returncode, 2, process.stderr)
                self.assertEqual(len(process.stderr.splitlines()), 1, process.stderr)
                self.assertIn("empty", process.stderr)
        self.assertFalse(out.exists())

    def test_class_embeddings(self):
        self.refused(2, ["class_embed_type", "identity", "timestep"], dataset=self.labelled,
                     model={"class_embed_type": "identity"})  # fmt: skip
        for name, model in {"table": {"num_class_embeds": 2}, "timestep": {"class_embed_type": "timestep"}}.items():
            run = self.trained(name, self.labelled, model=model)
            for folder in (run, run / "checkpoints/step-00000001", run / "model"):
                self.sample_refused(2, ["--class-label is missing"], model=folder)
                self.sample_refused(2, ["--class-label -1"], "--class-label", "-1", model=folder)
                for label in (1, "b"):
                    process = self.sample("--class-label", label, model=folder)
                    self.assertEqual(process.returncode, 0, process.stderr)
                    self.assertIn("sampling 2 images of class 1 (b) with", process.stderr)
                words = ["--class-label bb", "no class has this name", "did you mean b?"]
                self.sample_refused(2, words, "--class-label", "bb", model=folder)
            self.assertEqual(json.loads((run / "model/class_names.json").read_text()), ["a", "b"])
            (run / "model/class_names.json").rename(run / "class_names.json")  # as an older program wrote the model
            self.sample_refused(2, ["--class-label b", "a number is wanted"], "--class-label", "b", model=run / "model")
            (run / "class_names.json").rename(run / "model/class_names.json")
        self.sample_refused(2, ["--class-label 2", "0 to 1"], "--class-label", 2, model=WORK / "table")
        model = self.changed_model("identity", "unet/config.json", class_embed_type="identity")
        self.sample_refused(4, ["identity"], model=model)

    def changed_model(self, name, file, **keys):
        """The model folder of the run, with other values in one of its JSON files."""
        model = WORK / f"{name}-model"
        shutil.rmtree(model, ignore_errors=True)
        shutil.copytree(self.run_folder / "model", model)
        text = json.loads((model / file).read_text())
        (model / file).write_text(json.dumps({**text, **keys}))
        return model

    def test_numbers_beyond_all_measure(self):
        self.refused(2, ["block_out_channels = 1000000000", "at most 65536"], ["--model.block_out_channels", "[1000000000, 8]"])
        for key in ("batch.global_size", "batch.micro_size", "train.steps"):
            self.refused(2, [key, "at most"], [f"--{key}", "9223372036854775807"])
        for value in ("1e300", "inf"):
            self.refused(2, ["train.epochs"], ["--train.epochs", value], train={"steps": None})
        for key in ("optimizer.learning_rate", "diffusion.snr_gamma"):
            self.refused(2, [key, "finite"], [f"--{key}", "inf"])

    def test_memory_that_there_is_not(self):
        # Hundreds of gigabytes for one convolution; a limit makes sure that LibTorch is refused them.
        levels = 2
        run = WORK / "giant"
        config = write_config(WORK / "giant.toml", run, self.dataset, model={
            "block_out_channels": [65536] * levels, "down_block_types": ["DownBlock2D"] * levels,
            "up_block_types": ["UpBlock2D"] * levels,
        })  # fmt: skip
        process = subprocess.run(["bash", "-c", 'ulimit -v 20000000; exec "$0" "$@"', DDPM, "train", config],
                                 capture_output=True, text=True, timeout=TIMEOUT_S, check=False)  # fmt: skip
        self.assertEqual(process.returncode, 1, process.stderr)
        errors = [line for line in process.stderr.splitlines() if line.startswith("ddpm: error")]
        self.assertEqual(len(errors), 1, process.stderr)
        self.assertNotIn("frame #", process.stderr)

    def test_model_folder_with_a_bad_scheduler(self):
        model = self.changed_model("scheduler", "scheduler/scheduler_config.json", num_train_timesteps="abc")
        for ranks in (1, 2):
            self.sample_refused(4, ["scheduler_config.json", "num_train_timesteps", "abc"], model=model, ranks=ranks)
        self.refused(4, ["scheduler_config.json", "abc"], model={"pretrained": str(model)})

    def test_pretrained_model_keeps_its_scheduler(self):
        model = self.changed_model("velocity", "scheduler/scheduler_config.json", prediction_type="v_prediction")
        shape = {key: None for key in ("block_out_channels", "down_block_types", "up_block_types")}
        run = self.trained("continued", model={"pretrained": str(model), **shape})
        self.assertIn('prediction_type = "v_prediction"', (run / "config.toml").read_text())
        scheduler = json.loads((run / "model/scheduler/scheduler_config.json").read_text())
        self.assertEqual(scheduler["prediction_type"], "v_prediction")
        config = ddpm("config", "show", WORK / "continued.toml", "--diffusion.prediction_type", "sample").stdout
        self.assertIn('prediction_type = "sample"', config)

    def test_model_named_in_every_way(self):
        step = self.run_folder / "checkpoints/step-00000001"
        here = pathlib.Path.cwd()
        for folder, name in ((here, f"{step}/"), (step.parent, step.name), (step, "."), (self.run_folder, "."),
                             (step, "../.."), (self.run_folder / "model", "unet/")):  # fmt: skip
            try:
                os.chdir(folder)
                process = self.sample(model=name)
            finally:
                os.chdir(here)
            self.assertEqual(process.returncode, 0, f"{folder} {name}: {process.stderr}")

    def test_damaged_configuration_of_a_run(self):
        run = WORK / "damaged-config"
        shutil.rmtree(run, ignore_errors=True)
        shutil.copytree(self.run_folder, run)
        text = (run / "config.toml").read_text()
        for damaged in ("[run\n", text.replace("norm_num_groups = 4", "norm_num_groups = 7")):
            (run / "config.toml").write_text(damaged)
            self.sample_refused(4, [str(run / "config.toml")], model=run)

    def test_places_that_samples_cannot_go_to(self):
        folder = WORK / "full"
        folder.mkdir(exist_ok=True)
        (folder / "000000.png").write_text("mine")
        self.sample_refused(4, ["full", "not empty"], output="full")
        self.sample_refused(4, ["full", "not empty"], output="full/")
        (WORK / "file").write_text("mine")
        self.sample_refused(4, ["is a file"], output="file")
        for name in ("dd.png", "dd.npy", "dd.h5"):
            (WORK / name).mkdir(exist_ok=True)
            self.sample_refused(4, [name, "is a folder"], output=name)
        for name in ("a.jpg", "a.PNG", "a.b/"):
            self.sample_refused(2, [name, ".png, .npy, .h5"], output=name)
        self.assertEqual(files_below(folder), ["000000.png"])

    def test_sample_folder_is_whole_or_absent(self):
        for name in ("empty", "new"):
            shutil.rmtree(WORK / name, ignore_errors=True)
        (WORK / "empty").mkdir()
        for name in ("empty", "new/"):
            self.assertEqual(self.sample(output=name).returncode, 0)
            self.assertEqual(files_below(WORK / name), ["000000.png", "000001.png"])
        process = self.sample("--initial-noise", WORK / "empty/000000.png", output="none")
        self.assertEqual(process.returncode, 2, process.stderr)
        self.assertFalse((WORK / "none").exists())

    def test_noise_that_is_not_finite(self):
        header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3, 16, 16), }".ljust(117) + "\n"
        for odd in ("nan", "inf"):
            noise = [0.0] * (2 * 768)
            noise[768 + 5] = float(odd)
            (WORK / "odd.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
                                           + struct.pack(f"<{len(noise)}f", *noise))  # fmt: skip
            self.sample_refused(2, ["odd.npy", "value 5 of image 1", odd], "--initial-noise", WORK / "odd.npy",
                                output="spoilt.npy")  # fmt: skip
        self.assertFalse((WORK / "spoilt.npy").exists())

    def test_seeds_are_those_of_run_seed(self):
        for seed in (-1, 2**63, 2**64 + 1, "1e3", ""):
            process = self.sample("--seed", seed)
            self.assertEqual(process.returncode, 2, process.stderr)
            self.assertIn("--seed", process.stderr)
        self.assertEqual(self.sample("--seed", 2**63 - 1, output="last-seed.npy").returncode, 0)

    def test_labels_beyond_all_measure(self):
        # A bare file whose labels would need terabytes of counters.
        bare = WORK / "bare.h5"
        shutil.copy(sorted(self.labelled.glob("shard-*.h5"))[1], bare)  # where one class ends and the next begins
        data = bare.read_bytes()
        count = json.loads(ddpm("data", "inspect", bare, "--json").stdout)["count"]
        where = next(at for at in range(len(data) - 8 * count)
                     if set(struct.unpack(f"<{count}q", data[at : at + 8 * count])) == {0, 1})  # fmt: skip
        bare.write_bytes(data[:where] + struct.pack("<q", 10**13) + data[where + 8 :])
        classes = json.loads(ddpm("data", "inspect", bare, "--json").stdout)["classes"]
        self.assertEqual([c["id"] for c in classes], [0, 1, 10**13])

    def test_launcher_that_promised_more_ranks(self):
        config = write_config(WORK / "single.toml", WORK / "single", self.dataset)
        slurm = {"SLURM_NTASKS": "2", "SLURM_JOB_ID": "1"}
        process = ddpm("train", config, check=False, env=slurm)
        self.assertEqual(process.returncode, 5, process.stderr)
        lonely = {"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "0"}
        for env in (slurm, lonely):
            create = ("data", "create", WORK / "squares-pictures", "--output", WORK / "fourfold")
            self.assertEqual(ddpm(*create, check=False, env=env).returncode, 5)
            self.assertFalse((WORK / "fourfold").exists())
            self.assertEqual(self.sample(env=env).returncode, 5)
        self.assertEqual(ddpm("data", "inspect", self.dataset, env=slurm).returncode, 0)

    def test_launcher_of_another_mpi_library(self):
        # The launcher's MPI does not reach these two programs, so each would be rank 0 of 1.
        config = write_config(WORK / "strange.toml", WORK / "strange", self.dataset)
        # Rank 0 speaks, and rank 1 may be the first to end: mpirun waits for the other as long as it does by default.
        grace = {"OMPI_MCA_odls_base_sigkill_timeout": "1"}
        strange = ["bash", "-c", 'unset ${!PMIX_*} ${!OMPI_MCA_*} PMI_FD PMI_PORT; exec "$0" "$@"', DDPM, "train", config]
        process = subprocess.run(
            [*MPIRUN, "-np", "2", *strange],
            capture_output=True, text=True, timeout=TIMEOUT_S, check=False, env={**os.environ, **grace},
        )  # fmt: skip
        self.assertEqual(process.returncode, 5, process.stderr)
        self.assertEqual(process.stderr.count("ddpm: error: "), 1, process.stderr)
        self.assertRegex(process.stderr, "(OMPI_COMM_WORLD|PMI)_SIZE=2 ")
        self.assertFalse((WORK / "strange").exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)
