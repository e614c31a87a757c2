"""What is seen while training: grids of samples, losses by level and variable, norms, tables, TensorBoard, a file of each
rank, a timeline. The same on any number of ranks, and nothing twice after a resume."""

import csv
import hashlib
import io
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

import h5py
import numpy as np
import torch
from PIL import Image
from safetensors.torch import load_file
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_run import command, ddpm, make_dataset, metrics, write_config  # noqa: E402

WORK = pathlib.Path.cwd()
CONSTANT = {"name": "constant", "warmup_steps": 0}
SIZE = 16


def png(run, step):
    with Image.open(run / "samples" / f"step-{step:08}.png") as image:
        return np.asarray(image)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def events(run):
    accumulator = EventAccumulator(str(run / "events"), size_guidance={"images": 0, "scalars": 0, "tensors": 0})
    accumulator.Reload()
    return accumulator


def rows(run):
    with open(run / "metrics.csv", newline="") as file:
        return list(csv.DictReader(file))


def block(name):
    return re.match(r"(\w+(\.\d+)?)", name)[1]


class Monitors(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dataset = make_dataset(WORK / "labelled", 20, SIZE, 1, "--labels", "folder")

    def train(self, name, *arguments, ranks=1, dataset=None, **sections):
        run = WORK / name
        shutil.rmtree(run, ignore_errors=True)
        config = write_config(WORK / f"{name}.toml", run, dataset or self.dataset, **sections)
        self.process = ddpm("train", config, *arguments, ranks=ranks)
        return run

    def test_a_run_that_is_watched(self):
        sections = {
            "run": {"reproducible": True, "threads_per_rank": 1},
            "data": {"validation": str(self.dataset)},
            "model": {"num_class_embeds": 2},
            "train": {"steps": 6},
            "lr_schedule": CONSTANT,
            "ema": {"max_decay": 0.5},
            "checkpoint": {"every_steps": 3, "keep_latest": 9},
            "validation": {"every_steps": 3, "images": 5, "levels": 4},
            "sample": {"every_steps": 2, "count": 6, "scheduler": "ddim", "steps": 3},
            "logging": {"every_steps": 5, "csv": True, "norms": True, "rank_files": True},
        }
        run = self.train("watched", **sections)
        other = self.train("watched-2", "--profile", ranks=2, parallel={"zero_stage": 1}, **sections)

        # The same pictures and numbers on two ranks.
        self.assertEqual(names(run / "samples"), [f"step-{step:08}.png" for step in (2, 4, 6)])
        for step in (2, 4, 6):
            np.testing.assert_array_equal(png(run, step), png(other, step))
        self.assertEqual(png(run, 6).shape, (3 * (SIZE + 2) + 2, 2 * (SIZE + 2) + 2, 3), "a column for each class")
        self.assertTrue((png(run, 2) != png(run, 6)).any())
        keys = ["loss", "validation_loss", "validation_loss_levels", "grad_norm_blocks", "weight_norm_blocks", "epoch"]
        lines = metrics(run)
        self.assertEqual([line["step"] for line in lines], [1, 2, 3, 4, 5, 6])  # validated and drawn ones are logged
        for one, two in zip(lines, metrics(other), strict=True):
            self.assertEqual([one.get(key) for key in keys], [two.get(key) for key in keys])
        self.assertEqual(lines[-1]["epoch"], 6 * 8 / 20)
        self.assertGreaterEqual(lines[-1]["host_peak_memory_bytes"], lines[-1]["host_memory_bytes"])
        self.assertGreater(lines[-1]["host_memory_bytes"], 1 << 20)
        self.assertNotIn("device_memory_bytes", lines[-1])

        self.check_sample_command(run)
        self.check_norms(run, lines)
        self.check_tensorboard(run, lines)
        self.check_table(run, lines)
        self.check_rank_files(other)
        self.check_timeline(other / "profile" / "step-00000003.json", 2, "step 3", {"checkpoint", "validation"})
        self.check_resume(run, lines)

    def test_a_rank_whose_file_cannot_grow_goes_on(self):
        """Only the first line of the second start has room in the file."""
        sections = {"train": {"steps": 1}, "model": {"num_class_embeds": 2}, "logging": {"rank_files": True}}
        run = self.train("full-log", ranks=2, **sections)
        limit = 1 << 30  # beyond what MPI maps
        os.truncate(run / "logs" / "rank-0001.log", limit - 200)
        words = command("train", WORK / "full-log.toml", "--train.steps", 4, ranks=2)
        process = subprocess.run(["bash", "-c", f'ulimit -f {limit >> 10}; exec "$@"', "bash", *words],
                                 capture_output=True, text=True, timeout=240, check=False)  # fmt: skip
        (run / "logs" / "rank-0001.log").unlink()
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertEqual(process.stderr.count("the log of a rank is not written"), 1, process.stderr)
        self.assertEqual(len(metrics(run)), 4)

    def check_sample_command(self, run):
        """The grid is what `ddpm sample` draws of the same weights, whose convolutions round otherwise."""
        ddpm("sample", "--model", run, "--scheduler", "ddim", "--steps", 3, "--count", 6, "--seed", 7,
             "--class-label", "all", "--threads", 1, "--output", WORK / "again.npy")  # fmt: skip
        with Image.open(run / "samples" / "step-00000006.png") as image:
            seen = np.asarray(image).astype(np.int64)
        again = np.load(WORK / "again.npy").transpose(0, 2, 3, 1)
        again = np.rint((again.clip(-1, 1) + 1) * 127.5).astype(np.int64)
        for i in range(6):
            top, left = 2 + i // 2 * (SIZE + 2), 2 + i % 2 * (SIZE + 2)
            self.assertLessEqual(np.abs(seen[top : top + SIZE, left : left + SIZE] - again[i]).max(), 1)

    def check_norms(self, run, lines):
        for line in lines:
            whole = math.sqrt(sum(norm**2 for norm in line["grad_norm_blocks"].values()))
            self.assertAlmostEqual(whole, line["grad_norm"], delta=1e-6 * whole)
        ddpm("checkpoint", "export", run, "--weights", "raw", "--output", WORK / "raw")
        squares = {}
        for name, value in load_file(next((WORK / "raw" / "unet").glob("*.safetensors"))).items():
            squares[block(name)] = squares.get(block(name), 0.0) + value.to(torch.float64).square().sum().item()
        seen = lines[-1]["weight_norm_blocks"]
        self.assertEqual(set(seen), set(squares))
        for name, norm in seen.items():
            self.assertAlmostEqual(norm, math.sqrt(squares[name]), delta=1e-12 * norm)

    def check_tensorboard(self, run, lines):
        seen = events(run)
        pictures = seen.Images("samples")
        self.assertEqual([picture.step for picture in pictures], [2, 4, 6])
        with Image.open(io.BytesIO(pictures[-1].encoded_image_string)) as image:
            np.testing.assert_array_equal(np.asarray(image), png(run, 6))
        (text,) = seen.Tensors("configuration")
        self.assertIn("every_steps = 2", text.tensor_proto.string_val[0].decode())
        self.assertEqual(seen.SummaryMetadata("_hparams_/session_start_info").plugin_data.plugin_name, "hparams")
        for level, loss in lines[2]["validation_loss_levels"].items():
            scalar = seen.Scalars(f"validation/loss_level/{level}")
            self.assertEqual([event.step for event in scalar], [3, 6])
            self.assertAlmostEqual(scalar[0].value, loss, delta=1e-6)
        self.assertEqual([event.step for event in seen.Scalars("train/epoch")], [1, 2, 3, 4, 5, 6])
        self.assertEqual(list(lines[2]["validation_loss_levels"]), ["t_125", "t_375", "t_625", "t_875"])

    def check_table(self, run, lines):
        table = rows(run)
        self.assertEqual([int(row["step"]) for row in table], [line["step"] for line in lines])
        for row, line in zip(table, lines, strict=True):
            self.assertEqual(float(row["loss"]), line["loss"])
            self.assertEqual(float(row["grad_norm_blocks.mid_block"]), line["grad_norm_blocks"]["mid_block"])
            loss = line.get("validation_loss_levels", {}).get("t_375")
            self.assertEqual(row["validation_loss_levels.t_375"], "" if loss is None else repr(loss))

    def check_rank_files(self, run):
        self.assertEqual(names(run / "logs"), ["rank-0000.log", "rank-0001.log"])
        for rank in (0, 1):
            text = (run / "logs" / f"rank-{rank:04}.log").read_text()
            for line in text.splitlines():
                self.assertRegex(line, r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (info|warning|error|step) \S+ .")
            self.assertIn(f"rank {rank} of 2 starts after step 0", text)
            self.assertIn("samples drawn in", text)
            self.assertEqual(len(re.findall(r"Z step \S+ \d+: [\d.]+ s, ", text)), 6)

    def check_timeline(self, path, ranks, step, phases):
        trace = json.loads(path.read_text())["traceEvents"]
        names_of_ranks = {e["pid"]: e["args"]["name"] for e in trace if e["name"] == "process_name"}
        self.assertEqual(sorted(names_of_ranks), list(range(ranks)))
        bounds = []
        for rank in range(ranks):
            self.assertTrue(names_of_ranks[rank].startswith(f"rank {rank} on "))
            spans = [e for e in trace if e["pid"] == rank and e["ph"] == "X"]
            work = sorted((e for e in spans if e["tid"] == 0), key=lambda e: (e["ts"], -e["dur"]))
            self.assertEqual(work[0]["name"], step)
            kinds = {e["name"].split(" ")[0] for e in work}
            self.assertEqual(kinds, {"step", "data", "forward", "backward", "reduction", "update"})
            for kind in ("forward", "backward"):
                for unit in ("conv_in", "conv_out", "mid_block.resnets.0", "down_blocks.0.resnets.0"):
                    self.assertEqual(sum(e["name"] == f"{kind} {unit}" for e in work), 4 // ranks, f"{kind} {unit}")
            # Spans of a track lie within each other or one after the other.
            open_until = []
            for event in work:
                while open_until and event["ts"] >= open_until[-1] - 0.01:
                    open_until.pop()
                if open_until:
                    self.assertLessEqual(event["ts"] + event["dur"], open_until[-1] + 0.01, event)
                open_until.append(event["ts"] + event["dur"])
            self.assertLessEqual(phases, {e["name"].removeprefix("the ") for e in spans if e["tid"] == 1})
            bounds.append((work[0]["ts"], work[0]["ts"] + work[0]["dur"]))
        # One clock: the step ends with messages between all ranks, so it overlaps on all of them.
        self.assertLess(max(begin for begin, _ in bounds), min(end for _, end in bounds))
        return trace

    def check_resume(self, run, lines):
        """A start from the checkpoint of step 3 writes what comes later once."""
        before = png(run, 6)
        shutil.rmtree(run / "model")
        (run / "samples" / ".step-00000004.png.tmp-0123").touch()
        checkpoint = run / "checkpoints" / "step-00000003"
        resume = ["train", WORK / "watched.toml", "--checkpoint.resume", checkpoint]
        ddpm(*resume, "--sample.every_steps", 0, "--train.steps", 4)
        self.assertEqual(names(run / "samples"), ["step-00000002.png"])
        shutil.rmtree(run / "model")
        ddpm(*resume)  # from step 4, which the start before has reached
        self.assertEqual(names(run / "samples"), [f"step-{step:08}.png" for step in (2, 6)])
        np.testing.assert_array_equal(png(run, 6), before)
        seen = events(run)
        self.assertEqual([picture.step for picture in seen.Images("samples")], [2, 6])
        self.assertEqual([text.step for text in seen.Tensors("configuration")], [1, 4, 5])
        self.assertEqual([line["step"] for line in metrics(run)], [1, 2, 3, 4, 5, 6])
        self.check_table(run, metrics(run))
        for step in (3, 6):
            self.assertEqual(metrics(run)[step - 1]["validation_loss_levels"], lines[step - 1]["validation_loss_levels"])

    def test_three_ranks_that_share_each_unit_draw_the_same(self):
        grids = set()
        for ranks, stage in ((1, 0), (3, 3)):
            run = self.train(
                f"still-{ranks}",
                *(["--profile"] if ranks == 3 else []),
                ranks=ranks,
                run={"threads_per_rank": 1},
                data={"labels": ""},
                batch={"global_size": 12, "micro_size": 2},
                train={"steps": 2},
                optimizer={"learning_rate": 0.0},
                lr_schedule=CONSTANT,
                parallel={"zero_stage": stage},
                sample={"every_steps": 1, "count": 5, "scheduler": "ddim", "steps": 2},
                logging={"every_steps": 1, "norms": True},
            )
            grids |= {hashlib.sha256((run / "samples" / f"step-{step:08}.png").read_bytes()).hexdigest() for step in (1, 2)}
            norms = metrics(run)[-1]["weight_norm_blocks"]
            if ranks == 1:
                single = norms
        self.assertEqual(len(grids), 1)
        self.assertEqual(norms, single, "no bit of a norm depends on who holds which part")
        trace = json.loads((run / "profile" / "step-00000002.json").read_text())["traceEvents"]
        for rank in range(3):
            for sent in ("bucket", "weights of unit"):
                self.assertTrue(any(e["pid"] == rank and e["name"].startswith(sent) and e["ph"] == "b" for e in trace), sent)
            self.assertTrue(any(e["pid"] == rank and e["name"] == "drawing samples" for e in trace))

    def test_a_timeline_shows_the_units_of_each_stage(self):
        run = self.train(
            "stages", "--profile", ranks=2, data={"labels": ""}, batch={"global_size": 4, "micro_size": 2}, train={"steps": 2},
            parallel={"pipeline_size": 2},
        )  # fmt: skip
        trace = json.loads((run / "profile" / "step-00000002.json").read_text())["traceEvents"]
        for part in ("forward", "backward"):
            units = [{e["name"] for e in trace if e["pid"] == rank and re.match(rf"{part} (?!and )", e["name"])} for rank in range(2)]
            self.assertTrue(all(units), part)
            self.assertFalse(units[0] & units[1], part)

    def test_fields_are_drawn_in_colours_of_the_first_conditions(self):
        random = np.random.default_rng(0)
        with h5py.File(WORK / "fields.h5", "w") as file:
            file["condition"] = random.standard_normal((12, SIZE, SIZE, 1)).astype(np.float32)
            file["images"] = random.standard_normal((12, SIZE, SIZE, 2)).astype(np.float32)
        fields = {"data": {"condition": "/condition"}, "model": {"in_channels": 3, "out_channels": 2}}
        run = self.train(
            "fields",
            dataset=WORK / "fields.h5",
            train={"steps": 2},
            data={**fields["data"], "validation": str(WORK / "fields.h5")},
            model=fields["model"],
            diffusion={"formulation": "edm"},
            validation={"every_steps": 2, "levels": 3},
            sample={"every_steps": 2, "count": 3, "steps": 2},
        )
        # Three samples, each of two variables side by side.
        self.assertEqual(png(run, 2).shape, (3 * (SIZE + 2) + 2, 2 * (SIZE + 2) + 2, 3))
        line = metrics(run)[-1]
        self.assertEqual(len(line["validation_loss_variables"]), 2)
        by_variable, by_level = line["validation_loss_variables"], line["validation_loss_levels"]
        self.assertAlmostEqual(sum(by_variable.values()) / 2, sum(by_level.values()) / 3, delta=1e-9)
        sigmas = [float(name.removeprefix("sigma_")) for name in line["validation_loss_levels"]]
        expected = [math.exp(-1.2 + 1.2 * z) for z in (-0.967421566, 0.0, 0.967421566)]
        np.testing.assert_allclose(sigmas, expected, rtol=1e-3)

    def test_what_cannot_be_drawn_is_refused_before_the_first_step(self):
        for keys, phrase in (
            (["--sample.scheduler", "heun", "--sample.steps", "2000"], "sample.steps = 2000"),
            (["--validation.levels", "101"], "validation.levels"),
        ):
            config = write_config(WORK / "refused.toml", WORK / "refused", self.dataset, sample={"every_steps": 1})
            process = ddpm("train", config, "--data.labels", "", *keys, check=False)
            self.assertEqual(process.returncode, 2, process.stderr)
            self.assertIn(phrase, process.stderr)
            self.assertFalse((WORK / "refused").exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)
