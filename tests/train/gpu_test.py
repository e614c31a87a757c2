"""Training and drawing on one GPU, through the program: beside the CPU, beside itself without a CUDA graph, in every ZeRO
stage, offloaded, with recomputed activations, with skipped steps, killed and resumed.

Python's standard library only: the tests are carried to machines that have no more.
"""

import json
import math
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_run import BLOCK_MODELS, DDPM, TIMEOUT_S, ddpm, digest_of_model, make_dataset, metrics, write_config  # noqa: E402
from plain_hdf5 import FLOAT32, plain_hdf5  # noqa: E402

WORK = pathlib.Path.cwd()
STEPS = 12
# What decides the order of a GPU's additions is fixed, so that trainings can be compared bit for bit.
REPRODUCIBLE = {"reproducible": True, "threads_per_rank": 2}
# All that depends on an image or a step: flips, labels and their dropout, dropout, several micro-batches, validations.
EVERYTHING = {
    "data": {"horizontal_flip": True},
    "model": {"num_class_embeds": 3, "dropout": 0.1},
    "diffusion": {"class_dropout": 0.2, "offset_noise": 0.1},
    "validation": {"every_steps": 5},
    "batch": {"global_size": 8, "micro_size": 2},
}
EXACT = {"precision": {"allow_tf32": False}}


def merged(*all_sections):
    result = {}
    for sections in all_sections:
        for name, keys in sections.items():
            result[name] = result.get(name, {}) | keys
    return result


def npy_values(path):
    """The float32 numbers of a .npy file, and its shape."""
    data = pathlib.Path(path).read_bytes()
    length = struct.unpack("<H", data[8:10])[0]
    values = data[10 + length :]
    return struct.unpack(f"<{len(values) // 4}f", values)


class OnGpu(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = WORK / cls.__name__
        cls.work.mkdir(exist_ok=True)
        cls.dataset = make_dataset(cls.work / "squares", 60, 16, 1, "--labels", "folder")

    def config(self, name, *sections, device="cuda", dataset=None):
        run = self.work / name
        shutil.rmtree(run, ignore_errors=True)
        here = {"run": {"device": device, "threads_per_rank": 2}, "train": {"steps": STEPS}, "data": {"validation": str(self.dataset)}}
        wanted = merged(here, *sections)
        if not wanted.get("validation", {}).get("every_steps"):
            wanted["data"].pop("validation")
        if "num_class_embeds" not in wanted.get("model", {}) and dataset is None:
            wanted["data"]["labels"] = ""
        return run, write_config(self.work / f"{name}.toml", run, dataset or self.dataset, **wanted)

    def train(self, name, *sections, device="cuda", dataset=None, options=(), ranks=1):
        run, config = self.config(name, *sections, device=device, dataset=dataset)
        process = ddpm("train", config, *options, ranks=ranks)
        self.assertNotIn("warning", process.stderr)
        return run

    def assert_near(self, a, b, loss, norm):
        """That two runs have the same losses to `loss` and norms of gradients to the share `norm`."""
        worst = [0.0, 0.0]
        for one, other in zip(metrics(a), metrics(b), strict=True):
            worst[0] = max(worst[0], abs(one["loss"] - other["loss"]))
            self.assertEqual(one["grad_norm"] is None, other["grad_norm"] is None)  # null where the step was skipped
            if one["grad_norm"] is not None:
                worst[1] = max(worst[1], abs(one["grad_norm"] - other["grad_norm"]) / other["grad_norm"])
            self.assertEqual("validation_loss" in one, "validation_loss" in other)
            if "validation_loss" in one:
                worst[0] = max(worst[0], abs(one["validation_loss"] - other["validation_loss"]))
        print(f"{a.name}, {b.name}: losses differ by {worst[0]:.1e}, norms by {worst[1]:.1e}", file=sys.stderr)
        self.assertLessEqual(worst[0], loss)
        self.assertLessEqual(worst[1], norm)


class BesideTheCpu(OnGpu):
    def compare(self, name, loss, norm, *sections, dataset=None):
        cpu = self.train(f"{name}-cpu", *sections, device="cpu", dataset=dataset)
        gpu = self.train(f"{name}-gpu", *sections, dataset=dataset)
        self.assert_near(gpu, cpu, loss, norm)
        return gpu

    def test_float32_has_the_cpus_curve(self):
        self.compare("float32", 1e-4, 1e-3, EVERYTHING, EXACT, {"train": {"steps": 30}})

    def test_tf32_and_bf16_are_near_it(self):
        self.compare("tf32", 5e-3, 5e-2, EVERYTHING)
        self.compare("bf16", 3e-2, 1e-1, EVERYTHING, {"precision": {"mixed_precision": "bf16"}})

    def test_every_kind_of_block_has_it(self):
        for name, model in BLOCK_MODELS.items():
            with self.subTest(name):
                self.compare(name, 1e-4, 1e-3, EXACT, {"model": model})

    def test_other_formulations_have_it(self):
        for formulation in ("edm", "flow"):
            with self.subTest(formulation):
                self.compare(formulation, 3e-4, 2e-3, EXACT, {"diffusion": {"formulation": formulation}})
        self.compare("velocity", 3e-4, 2e-3, EXACT, {"diffusion": {"prediction_type": "v_prediction", "snr_gamma": 5.0}})

    def test_volumes_have_it(self):
        path, shape = self.work / "volumes.h5", (12, 8, 16, 16, 2)
        values = [(i * 7919 >> 4) % 256 / 128.0 - 1.0 for i in range(math.prod(shape))]
        path.write_bytes(plain_hdf5(shape, struct.pack(f"<{len(values)}f", *values), FLOAT32))
        model = {"in_channels": 2, "out_channels": 2, "dimensions": 3, "block_out_channels": [16, 16],
                 "down_block_types": ["DownBlock2D", "AttnDownBlock2D"], "up_block_types": ["AttnUpBlock2D", "UpBlock2D"]}
        self.compare("volumes", 1e-4, 1e-3, EXACT, {"model": model, "batch": {"global_size": 4, "micro_size": 2}}, dataset=path)

    def test_samples_are_the_cpus(self):
        run = self.train("drawn", EVERYTHING, EXACT)
        for scheduler, steps in (("ddpm", 1000), ("ddim", 20), ("dpmsolver++", 10)):
            images = []
            for device in ("cpu", "cuda"):
                path = self.work / f"{scheduler}-{device}.npy"
                path.unlink(missing_ok=True)
                ddpm("sample", "--model", run, "--scheduler", scheduler, "--steps", 30 if scheduler == "ddpm" else steps, "--count", 6, "--class-label", "all",
                     "--guidance-scale", 2, "--device", device, "--output", path, env={"NVIDIA_TF32_OVERRIDE": "0"})
                images.append(npy_values(path))
            worst = max(abs(a - b) for a, b in zip(*images, strict=True))
            print(f"{scheduler}: values differ by {worst:.1e}", file=sys.stderr)
            self.assertLess(worst, 5e-3, scheduler)


class BesideItself(OnGpu):
    """What has the same bits: all runs here are reproducible."""

    def digest(self, name, *sections, options=()):
        run = self.train(name, {"run": REPRODUCIBLE}, *sections, options=options)
        return digest_of_model(run), [line["loss"] for line in metrics(run)]

    def test_a_step_recorded_as_a_graph_has_the_bits_of_one_that_is_launched(self):
        for precision in ("no", "bf16", "fp16"):
            sections = (EVERYTHING, {"precision": {"mixed_precision": precision}})
            with self.subTest(precision):
                graph = self.digest(f"graph-{precision}", *sections)
                # A start that is profiled records no graph.
                self.assertEqual(graph, self.digest(f"launched-{precision}", *sections, options=["--profile"]))

    def test_skipped_steps_of_fp16_are_the_cpus(self):
        sections = (EVERYTHING, {"precision": {"mixed_precision": "fp16", "initial_loss_scale": 2.0**26, "loss_scale_window": 4}})
        cpu, gpu = self.train("skips-cpu", *sections, device="cpu"), self.train("skips-gpu", *sections)
        scales = [[line["loss_scale"] for line in metrics(run)] for run in (cpu, gpu)]
        self.assertEqual(*scales)
        self.assertGreater(len(set(scales[0])), 2, "no step was skipped")
        self.assert_near(gpu, cpu, 1e-2, 5e-2)

    def test_stages_offload_and_recomputed_activations_change_nothing(self):
        whole = self.train("whole", EXACT, EVERYTHING)
        ways = [{"zero_stage": stage} for stage in (1, 2, 3)]
        ways += [{"offload": "optimizer"}, {"offload": "optimizer", "zero_stage": 2}, {"offload": "parameters", "zero_stage": 3}]
        for way in ways:
            name = "-".join(map(str, way.values()))
            with self.subTest(name):
                self.assert_near(self.train(f"way-{name}", EXACT, EVERYTHING, {"parallel": way}), whole, 1e-4, 1e-3)
        whole = self.digest("kept", EVERYTHING)
        for what in ("blocks", "attention"):
            self.assertEqual(whole, self.digest(f"again-{what}", EVERYTHING, {"parallel": {"activation_checkpointing": what}}), what)

    def test_ranks_that_share_the_gpu_train_what_one_does(self):
        whole = self.train("alone", EXACT, EVERYTHING)
        ways = {"two": {}, "two-3": {"zero_stage": 3}, "two-reduced-in-bf16": {"gradient_compression": "bf16"}}
        for name, way in ways.items():
            with self.subTest(name):
                shared = self.train(name, EXACT, EVERYTHING, {"parallel": {"share_gpus": True, **way}}, ranks=2)
                self.assert_near(shared, whole, *((1e-2, 5e-2) if "gradient_compression" in way else (1e-4, 1e-3)))
        for name, way in {"tiles": {"spatial_size": [2, 1]}, "channels": {"tensor_size": 2}, "stages": {"pipeline_size": 2}}.items():
            with self.subTest(name):
                alone = self.train(f"{name}-alone", EXACT)
                shared = self.train(name, EXACT, {"parallel": {"share_gpus": True, **way}}, ranks=2)
                self.assert_near(shared, alone, 1e-4, 1e-3)

    def test_a_killed_run_ends_with_the_bits_of_the_unbroken_one(self):
        sections = (EVERYTHING, {"precision": {"mixed_precision": "bf16"}, "train": {"steps": 600}, "checkpoint": {"every_steps": 50},
                                 "validation": {"every_steps": 0}, "logging": {"every_steps": 50}})  # fmt: skip
        whole = self.digest("unbroken", *sections)
        run, config = self.config("killed", {"run": REPRODUCIBLE}, *sections)
        process = subprocess.Popen([DDPM, "train", config], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + TIMEOUT_S
        while not (run / "LATEST").exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        self.assertFalse((run / "model").exists(), "the run had ended before it was killed")
        told = ddpm("train", config).stderr
        self.assertIn("resuming", told)
        self.assertEqual((digest_of_model(run), [line["loss"] for line in metrics(run)]), whole)


class Program(OnGpu):
    def test_auto_takes_the_gpu_and_says_so(self):
        _, config = self.config("auto", device="auto")
        self.assertIn("cuda:0", ddpm("train", config).stderr)

    def test_the_doctor_finds_it(self):
        told = json.loads(ddpm("doctor", "--json", check=False).stdout)
        gpus = told["ranks"][0]["gpus"]["gpus"]
        self.assertTrue(gpus and "NVIDIA" in gpus[0]["name"], told["ranks"][0]["gpu_problem"])

    def test_memory_that_is_measured_is_the_devices(self):
        run = self.train("memory", {"precision": {"mixed_precision": "bf16"}})
        last = metrics(run)[-1]
        self.assertLess(last["peak_memory_bytes"], 600e6, "the host's memory holds LibTorch alone, which takes more")
        self.assertGreater(last["device_memory_bytes"], 0)

    def test_a_measured_step_tells_its_limits(self):
        _, config = self.config("bench", {"precision": {"mixed_precision": "bf16"}})
        told = json.loads(ddpm("bench", "step", config, "--json").stdout)
        self.assertGreater(told["images_per_second"], 0)

    def test_every_kind_of_step_can_be_recorded(self):
        """A step that cannot be is told as a warning, which train() would find."""
        for way in ({}, {"zero_stage": 3}, {"activation_checkpointing": "blocks"}):
            self.train("graph", EVERYTHING, {"precision": {"mixed_precision": "bf16"}, "parallel": way})


if __name__ == "__main__":
    unittest.main(verbosity=2)
