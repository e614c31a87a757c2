"""`ddpm train` and `ddpm sample` from end to end: the same training on any number of ranks, exact resume, the same
pictures on any number of ranks."""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_run import MPIRUN, command, ddpm, make_dataset, metrics, write_config  # noqa: E402
from launcher import RANK_IN_SHELL  # noqa: E402

WORK = pathlib.Path.cwd()
WEIGHTS = "model/unet/diffusion_pytorch_model.safetensors"


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Training(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dataset = make_dataset(WORK / "squares", ranks=2)

    def fresh(self, name):
        run = WORK / name
        shutil.rmtree(run, ignore_errors=True)
        return run

    def train(self, name, ranks=1, overrides=(), **sections):
        run = self.fresh(name)
        config = write_config(WORK / f"{name}.toml", run, self.dataset, **sections)
        ddpm("train", config, *overrides, ranks=ranks)
        return run

    def test_same_loss_curve_on_1_2_and_4_ranks(self):
        curves = {}
        for ranks in (1, 2, 4):
            run = self.train(f"ranks-{ranks}", ranks=ranks, train={"steps": 50})
            curves[ranks] = [line["loss"] for line in metrics(run)]
            self.assertEqual([line["step"] for line in metrics(run)], list(range(1, 51)))
        for ranks in (2, 4):
            worst = max(abs(a - b) for a, b in zip(curves[1], curves[ranks], strict=True))
            print(f"{ranks} ranks: largest difference of the loss over 50 steps {worst:.2e}")
            self.assertLess(worst, 1e-4)
        self.assertLess(sum(curves[1][-10:]), 0.8 * sum(curves[1][:10]), "the loss does not fall")

    def test_micro_size_and_accumulation_change_nothing(self):
        whole = metrics(self.train("micro-8", batch={"micro_size": 8}, data={"horizontal_flip": True}))
        parts = metrics(self.train("micro-1", batch={"micro_size": 1}, data={"horizontal_flip": True}))
        for a, b in zip(whole, parts, strict=True):
            self.assertAlmostEqual(a["loss"], b["loss"], delta=1e-4)
            self.assertAlmostEqual(a["grad_norm"], b["grad_norm"], delta=1e-3 * a["grad_norm"])

    def test_resumed_run_ends_bit_identical_to_the_unbroken_one(self):
        constant = {"lr_schedule": {"name": "constant"}, "checkpoint": {"every_steps": 3}}
        for ranks in (1, 2):
            unbroken = self.train(f"whole-{ranks}", ranks=ranks, train={"steps": 8}, **constant)
            broken = self.train(f"grown-{ranks}", ranks=ranks, train={"steps": 5}, **constant)
            ddpm("train", WORK / f"grown-{ranks}.toml", "--train.steps", 8, ranks=ranks)
            self.assertEqual(sha256(unbroken / WEIGHTS), sha256(broken / WEIGHTS))
            self.assertEqual(
                [line["loss"] for line in metrics(unbroken)], [line["loss"] for line in metrics(broken)]
            )

    def test_resume_at_another_number_of_ranks(self):
        self.train("moved", ranks=4, train={"steps": 4}, lr_schedule={"name": "constant"})
        ddpm("train", WORK / "moved.toml", "--train.steps", 8, ranks=1)
        whole = metrics(self.train("unmoved", ranks=1, train={"steps": 8}, lr_schedule={"name": "constant"}))
        for a, b in zip(metrics(WORK / "moved"), whole, strict=True):
            self.assertAlmostEqual(a["loss"], b["loss"], delta=1e-4)

    def test_resume_from_an_older_checkpoint_sets_newer_ones_aside(self):
        run = self.train(
            "rewound", train={"steps": 6}, lr_schedule={"name": "constant"}, checkpoint={"every_steps": 2}
        )
        weights = sha256(run / WEIGHTS)
        shutil.rmtree(run / "model")
        older = run / "checkpoints" / "step-00000002"
        process = ddpm("train", WORK / "rewound.toml", "--checkpoint.resume", older)
        self.assertIn("set aside", process.stderr)
        aside = sorted(path.name[:23] for path in (run / "checkpoints").glob("abandoned-*"))
        self.assertEqual(aside, ["abandoned-step-00000004", "abandoned-step-00000006"])
        self.assertEqual([line["step"] for line in metrics(run)], list(range(1, 7)))
        self.assertEqual(sha256(run / WEIGHTS), weights)
        # A repeated command has nothing left to do.
        before = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
        process = ddpm("train", WORK / "rewound.toml", "--checkpoint.resume", f"{older}/")
        self.assertIn("nothing to do", process.stderr)
        self.assertEqual(before, {path: path.stat().st_mtime_ns for path in run.rglob("*")})
        # The zeros of its name may be left out, then and at the first start.
        short = older.with_name("step-2")
        process = ddpm("train", WORK / "rewound.toml", "--checkpoint.resume", short, ranks=2)
        self.assertIn("nothing to do", process.stderr)
        shutil.rmtree(WORK / "rewound-elsewhere", ignore_errors=True)
        ddpm("train", WORK / "rewound.toml", "--checkpoint.resume", short, "--run.directory", WORK / "rewound-elsewhere")
        self.assertEqual([line["step"] for line in metrics(WORK / "rewound-elsewhere")], [3, 4, 5, 6])
        self.assertEqual(sha256(WORK / "rewound-elsewhere" / WEIGHTS), weights)
        # Asked for more steps, it continues from its newest checkpoint, even though the named one is damaged now, and
        # reports that.
        (older / "MANIFEST.json").write_text("{}")
        process = ddpm("train", WORK / "rewound.toml", "--checkpoint.resume", older, "--train.steps", 7)
        self.assertIn(f"{older} was resumed before; continuing from {run}/checkpoints/step-00000006", process.stderr)

    def test_logs_that_are_switched_off_at_a_resume_keep_no_abandoned_steps(self):
        logging = {"csv": True, "tensorboard": True}
        run = self.train("switched-off", checkpoint={"every_steps": 2}, logging=logging)
        shutil.rmtree(run / "model")
        off = ("--logging.csv", "false", "--logging.tensorboard", "false")
        ddpm("train", WORK / "switched-off.toml", *off, "--checkpoint.resume", run / "checkpoints/step-00000002")
        rows = (run / "metrics.csv").read_text().splitlines()
        self.assertEqual([row.split(",")[0] for row in rows], ["step", "1", "2"])
        events = sorted((run / "events").iterdir())
        self.assertEqual(len(events), 2)  # the second one says from which step on the first does not count
        self.assertEqual([line["step"] for line in metrics(run)], [1, 2, 3, 4, 5, 6])

    def test_an_empty_resume_is_refused(self):
        run = self.train("unnamed", train={"steps": 2}, checkpoint={"every_steps": 1})
        manifest = run / "checkpoints" / "step-00000002" / "MANIFEST.json"
        manifest.write_text("{}")
        process = ddpm("train", WORK / "unnamed.toml", "--checkpoint.resume", "", "--train.steps", 3, check=False)
        self.assertEqual(process.returncode, 2, process.stderr)
        self.assertIn("checkpoint.resume", process.stderr)
        self.assertEqual(len(process.stderr.splitlines()), 1, process.stderr)

    def test_names_that_no_checkpoint_can_remember_are_refused_at_the_start(self):
        run = self.train("named", train={"steps": 2})
        odd = [os.fsencode(WORK) + name for name in (b"/place-\xfc", b"/set-\xfc")]  # Latin-1
        for folder in odd:
            shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(os.fsencode(run / "checkpoints" / "step-00000002"), odd[0] + b"/step-00000002")
        shutil.copytree(os.fsencode(self.dataset), odd[1])
        never = self.fresh("never-made")
        for said, *arguments in (("place-\\xfc", "--checkpoint.resume", "step-00000002"), ("set-\\xfc", "--data.train", WORK / "set-*")):
            with self.subTest(arguments):
                words = command("train", WORK / "named.toml", "--run.directory", never, *arguments)
                process = subprocess.run(words, cwd=odd[0], capture_output=True, text=True, timeout=240, check=False)
                self.assertEqual(process.returncode, 2, process.stderr)
                self.assertIn(said, process.stderr)
                self.assertIn("is not UTF-8", process.stderr)
                self.assertEqual(process.stderr.count("ddpm: error:"), 1, process.stderr)
                self.assertFalse(never.exists())

    def test_a_grown_run_replaces_its_model_even_when_it_died_before_the_export(self):
        run = self.train("regrown", train={"steps": 2}, lr_schedule={"name": "constant"})
        ddpm("train", WORK / "regrown.toml", "--train.steps", 4)
        weights = sha256(run / WEIGHTS)
        self.assertFalse((run / "model.previous").exists())
        (run / "model").rename(run / "model.previous")  # as a death between the last checkpoint and the export leaves it
        ddpm("train", WORK / "regrown.toml", "--train.steps", 4)
        self.assertEqual(sha256(run / WEIGHTS), weights)
        self.assertFalse((run / "model.previous").exists())

    def test_fewer_steps_than_the_newest_checkpoint_has_make_none_and_are_said(self):
        run = self.train("past", train={"steps": 4}, lr_schedule={"name": "constant"})
        weights = sha256(run / WEIGHTS)
        fewer = ("train", WORK / "past.toml", "--train.steps", 2)
        self.assertIn("done: 4 steps, 2 wanted; nothing to do", ddpm(*fewer).stderr)
        shutil.rmtree(run / "model")  # as a death between the last checkpoint and the export leaves it
        for ranks in (1, 2):
            said = ddpm(*fewer, ranks=ranks).stderr
            self.assertEqual(said.count("warning: resumed at step 4, of 2 wanted: no step follows"), 1, said)
            self.assertEqual(sha256(run / WEIGHTS), weights)
            self.assertEqual([line["step"] for line in metrics(run)], [1, 2, 3, 4])
            shutil.rmtree(run / "model")

    def test_ranks_with_different_configurations_are_refused(self):
        run = self.fresh("odd")
        config = write_config(WORK / "odd.toml", run, self.dataset)
        odd = WORK / "odd.sh"
        odd.write_text(
            f'#!/bin/sh\n[ "{RANK_IN_SHELL}" = 1 ] && set -- "$@" --optimizer.learning_rate 0.5\n'
            f'exec "{os.environ["DDPM"]}" "$@"\n'
        )
        odd.chmod(0o755)
        plan = ("plan", "--nodes", "1", "--gpus-per-node", "4")
        for words in (("train",), ("train", "--dry-run"), plan, ("bench", "stages")):
            with self.subTest(words):
                process = subprocess.run(
                    [*MPIRUN, "-np", "4", odd, *words, config],
                    capture_output=True, text=True, timeout=120, check=False,
                )  # fmt: skip
                self.assertEqual(process.returncode, 5, process.stderr)
                said = "ranks disagree on the configuration: 1 of 4 differ from the others: rank 1"
                self.assertIn(said, process.stderr)
                self.assertFalse(run.exists())

    def test_every_zero_stage_trains_alike_and_resumes_in_any_other(self):
        layouts = [
            (4, 3, 4, "parameters"),
            (2, 2, 1, "none"),
            (3, 1, 3, "optimizer"),
            (4, 2, 2, "none"),
            (1, 0, None, "optimizer"),
        ]
        batch = {"global_size": 12, "micro_size": 1}
        whole = metrics(
            self.train("stage-whole", train={"steps": 10}, batch=batch, lr_schedule={"name": "constant"})
        )
        run = self.fresh("stages")
        config = write_config(
            WORK / "stages.toml", run, self.dataset, train={"steps": 2}, batch=batch, lr_schedule={"name": "constant"}
        )
        for i, (ranks, stage, shard, offload) in enumerate(layouts):
            shape = ["--parallel.zero_stage", stage, *(["--parallel.dp_shard_size", shard] if shard else [])]
            shape += ["--parallel.offload", offload]
            ddpm("train", config, "--train.steps", 2 * (i + 1), *shape, ranks=ranks)
        for a, b in zip(metrics(run), whole, strict=True):
            self.assertAlmostEqual(a["loss"], b["loss"], delta=1e-4)
            self.assertAlmostEqual(a["grad_norm"], b["grad_norm"], delta=1e-3 * a["grad_norm"])

    def test_reproducible_weights_have_the_same_bits_on_1_2_4_and_8_ranks(self):
        for precision in ("no", "bf16"):
            hashes = set()
            for ranks, stage in ((1, 0), (2, 1), (4, 0), (4, 1), (8, 0), (8, 1)):
                run = self.train(
                    f"bits-{precision}-{ranks}-{stage}",
                    ranks=ranks,
                    overrides=["--parallel.zero_stage", stage],
                    train={"steps": 4},
                    batch={"global_size": 8, "micro_size": 1},
                    precision={"mixed_precision": precision},
                    run={"reproducible": True, "threads_per_rank": 1},
                )
                hashes.add(sha256(run / WEIGHTS))
            self.assertEqual(len(hashes), 1, precision)

    def test_finished_run_changes_nothing(self):
        run = self.train("finished", train={"steps": 2})
        before = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
        process = ddpm("train", WORK / "finished.toml")
        self.assertIn("nothing to do", process.stderr)
        self.assertEqual(before, {path: path.stat().st_mtime_ns for path in run.rglob("*")})

    def test_mixed_precision_follows_float32(self):
        exact = metrics(self.train("float32", train={"steps": 8}))
        for dtype in ("bf16", "fp16"):
            mixed = metrics(self.train(dtype, train={"steps": 8}, precision={"mixed_precision": dtype}))
            for a, b in zip(exact, mixed, strict=True):
                self.assertAlmostEqual(a["loss"], b["loss"], delta=0.05 * a["loss"])
            self.assertEqual(mixed[0]["loss_scale"], 65536 if dtype == "fp16" else 1)

    def test_activation_checkpointing_changes_no_bit(self):
        weights = set()
        curves = []
        for kept in ("none", "blocks", "attention"):
            run = self.train(
                f"checkpointing-{kept}",
                model={"dropout": 0.1},
                parallel={"activation_checkpointing": kept},
                precision={"mixed_precision": "bf16"},
            )
            weights.add(sha256(run / WEIGHTS))
            curves.append([(line["loss"], line["grad_norm"]) for line in metrics(run)])
        self.assertEqual(curves[0], curves[1])
        self.assertEqual(curves[0], curves[2])
        self.assertEqual(len(weights), 1)

    def test_overflow_is_skipped_and_the_scale_halved(self):
        run = self.train(
            "overflow", train={"steps": 8}, precision={"mixed_precision": "fp16", "initial_loss_scale": 2.0**40}
        )
        scales = [line["loss_scale"] for line in metrics(run)]
        self.assertEqual(scales[:3], [2.0**40, 2.0**39, 2.0**38])

    def test_exhausted_loss_scale_ends_with_exit_code_6(self):
        run = self.fresh("exhausted")
        config = write_config(
            WORK / "exhausted.toml",
            run,
            self.dataset,
            precision={
                "mixed_precision": "fp16",
                "initial_loss_scale": 2.0**60,
                "min_loss_scale": 2.0**59,
            },
        )
        for ranks in (1, 2):
            process = ddpm("train", config, ranks=ranks, check=False)
            self.assertEqual(process.returncode, 6, process.stderr)
            shutil.rmtree(run, ignore_errors=True)

    def test_samples_are_the_same_on_any_number_of_ranks(self):
        run = self.train("sampled", train={"steps": 3})
        outputs = {}
        for ranks, batch in ((1, 5), (2, 2), (3, 1)):
            for scheduler in ("ddpm", "ddim"):
                output = WORK / f"samples-{ranks}.npy"
                ddpm(
                    "sample", "--model", run, "--scheduler", scheduler, "--steps", 4, "--count", 5, "--batch", batch,
                    "--seed", 3, "--output", output, ranks=ranks,
                )  # fmt: skip
                outputs.setdefault(scheduler, []).append(output.read_bytes())
        for scheduler, files in outputs.items():
            for other in files[1:]:
                worst = max(
                    abs(a - b)
                    for a, b in zip(memoryview(files[0][128:]).cast("f"), memoryview(other[128:]).cast("f"), strict=True)
                )
                self.assertLess(worst, 1e-4, scheduler)

    def test_sample_from_every_kind_of_model_folder(self):
        run = self.train("kinds", train={"steps": 2})
        sources = [run, run / "checkpoints" / "step-00000002", run / "model", run / "model" / "unet"]
        outputs = []
        for i, source in enumerate(sources):
            output = WORK / f"kind-{i}.npy"
            ddpm("sample", "--model", source, "--scheduler", "ddim", "--steps", 2, "--count", 2, "--output", output)
            outputs.append(output.read_bytes())
        self.assertEqual(len(set(outputs)), 1)
        ddpm("sample", "--model", run, "--steps", 2, "--count", 4, "--output", WORK / "grid.png")
        self.assertEqual((WORK / "grid.png").read_bytes()[:8], b"\x89PNG\r\n\x1a\n")
        h5 = WORK / "samples.h5"
        h5.unlink(missing_ok=True)
        ddpm("sample", "--model", run, "--steps", 2, "--count", 4, "--denormalize", "--output", h5)
        self.assertIn("16", ddpm("data", "inspect", h5).stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
