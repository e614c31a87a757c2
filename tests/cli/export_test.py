"""`ddpm checkpoint export` of runs, checkpoints, averages and model folders, seen by diffusers, PyTorch and onnxruntime."""

import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

import numpy as np
import torch
from diffusers import DDPMPipeline, DDPMScheduler, DPMSolverMultistepScheduler, UNet2DModel
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "interop"))
import networks_peer  # noqa: E402
from checkpoint_test import read_state  # noqa: E402
from ddpm_run import contents, ddpm, files_below, make_dataset, write_config  # noqa: E402

WORK = pathlib.Path.cwd()
RUN_TORCHSCRIPT = sys.argv.pop()
WEIGHTS = "unet/diffusion_pytorch_model.safetensors"


def export(source, output, *flags, ranks=1, check=True):
    return ddpm("checkpoint", "export", source, "--output", output, *flags, ranks=ranks, check=check)


class Export(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        for left in WORK.iterdir():
            if left.name != "squares" and not left.name.endswith("-pictures"):
                shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()
        dataset = make_dataset(WORK / "squares")
        cls.run_folder = WORK / "run"
        config = write_config(
            WORK / "run.toml",
            cls.run_folder,
            dataset,
            checkpoint={"every_steps": 2},
            ema={"max_decay": [0.1, 0.9]},
            train={"steps": 4},
        )
        ddpm("train", config, ranks=2)
        generator = torch.Generator().manual_seed(1)
        cls.inputs = {"sample": torch.randn(2, 3, 16, 16, generator=generator), "timestep": torch.tensor([3, 900])}

    def predict(self, unet):
        with torch.no_grad():
            return unet.eval()(**self.inputs).sample

    def test_a_run_exports_as_its_finished_model(self):
        for ranks in (1, 2):
            said = export(self.run_folder, WORK / f"whole-{ranks}", ranks=ranks)
            self.assertIn("step 4, ema:0 weights", said.stdout)
            written, finished = contents(WORK / f"whole-{ranks}"), contents(self.run_folder / "model")
            self.assertEqual(written.keys(), finished.keys())
            self.assertEqual(written, finished)  # the model card, too
            card = written["README.md"].decode()
            for known in ("| hardware | 2 ranks on 1 host", "| software | LibTorch ", "| red | "):
                self.assertIn(known, card)
        result = json.loads(export(self.run_folder, WORK / "whole-1", "--json").stdout)  # replaces the earlier one
        self.assertEqual(result["output"], str(WORK / "whole-1"))
        self.assertFalse([name for name in files_below(WORK) if ".tmp-" in name or ".old-" in name])

    def test_any_checkpoint_and_average(self):
        seen = set()
        for step in (2, 4):
            for weights in ("raw", "ema:0", "ema:1"):
                output = WORK / f"{step}-{weights}"
                export(self.run_folder / f"checkpoints/step-{step:08}", output, "--weights", weights)
                DDPMPipeline.from_pretrained(output)
                _, wanted = read_state(self.run_folder / f"checkpoints/step-{step:08}")
                prefix = {"raw": "model", "ema:0": "ema.0", "ema:1": "ema.1"}[weights]
                state = load_file(output / WEIGHTS)
                for name, value in state.items():
                    self.assertEqual(value.numpy().tobytes(), wanted[f"{prefix}/{name}"][2], name)
                seen.add(hashlib.sha256(state["conv_in.weight"].numpy().tobytes()).hexdigest())
                card = (output / "README.md").read_text()
                self.assertIn(f"| optimizer steps | {step} |", card)
                self.assertIn({"raw": "| raw, ", "ema:0": "max_decay 0.1", "ema:1": "max_decay 0.9"}[weights], card)
        self.assertEqual(len(seen), 6)
        again = export(WORK / "2-raw", WORK / "again")
        self.assertIn("diffusers folder", again.stdout)
        for name in (WEIGHTS, "unet/config.json", "scheduler/scheduler_config.json", "normalization.json", "export.py"):
            self.assertEqual((WORK / "again" / name).read_bytes(), (WORK / "2-raw" / name).read_bytes(), name)

    def test_short_types_are_rounded_as_torch_rounds_and_open_in_diffusers(self):
        whole = UNet2DModel.from_pretrained(self.run_folder / "model", subfolder="unet")
        for dtype, torch_type in (("bf16", torch.bfloat16), ("fp16", torch.float16)):
            output = WORK / dtype
            export(self.run_folder, output, "--dtype", dtype)
            stored = load_file(output / WEIGHTS)
            theirs = UNet2DModel.from_pretrained(self.run_folder / "model", subfolder="unet").to(torch_type)
            theirs.save_pretrained(WORK / f"theirs-{dtype}")
            wanted = load_file(WORK / f"theirs-{dtype}" / "diffusion_pytorch_model.safetensors")
            self.assertEqual(sorted(stored), sorted(wanted))
            for name, value in wanted.items():
                self.assertEqual(stored[name].dtype, torch_type)
                self.assertTrue(torch.equal(stored[name], value), name)
            pipeline = DDPMPipeline.from_pretrained(output, torch_dtype=torch_type)
            self.assertEqual(pipeline.unet.dtype, torch_type)
            error = networks_peer.error_of(self.predict(DDPMPipeline.from_pretrained(output).unet), self.predict(whole))
            self.assertLess(error, 0.02)
            self.assertIn(str(torch_type).removeprefix("torch."), (output / "README.md").read_text())
            ddpm("sample", "--model", output, "--count", 1, "--steps", 1, "--output", WORK / f"{dtype}.npy")

    def test_networks_of_a_run(self):
        wanted = self.predict(UNet2DModel.from_pretrained(self.run_folder / "model", subfolder="unet"))
        for attempt in range(2):  # the second replaces the first
            export(self.run_folder, WORK / "net.pt", "--format", "torchscript")
            export(self.run_folder, WORK / "net.onnx", "--format", "onnx", ranks=1 + attempt)
        self.assertLess(networks_peer.check_torchscript(WORK / "net.pt", self.inputs, wanted), 1e-5)
        self.assertLess(networks_peer.check_onnx(WORK / "net.onnx", self.inputs, wanted), 1e-5)
        for dtype in ("bf16", "fp16"):
            export(self.run_folder, WORK / f"model-{dtype}", "--dtype", dtype)
            rounded = self.predict(UNet2DModel.from_pretrained(WORK / f"model-{dtype}", subfolder="unet"))
            export(self.run_folder, WORK / f"{dtype}.onnx", "--format", "onnx", "--dtype", dtype)
            self.assertLess(networks_peer.check_onnx(WORK / f"{dtype}.onnx", self.inputs, rounded), 1e-5)
            export(self.run_folder, WORK / f"{dtype}.pt", "--format", "torchscript", "--dtype", dtype)
            self.assertLess(networks_peer.check_torchscript(WORK / f"{dtype}.pt", self.inputs, wanted), 0.05)

    def test_frequencies_stay_float32_in_short_types(self):
        """Their phases are hundreds of turns at most timesteps: rounded to 16 bits, the model is told any other time."""
        torch.manual_seed(3)
        unet = UNet2DModel(
            sample_size=16, time_embedding_type="fourier", block_out_channels=(32, 32), layers_per_block=1,
            norm_num_groups=4, down_block_types=("DownBlock2D",) * 2, up_block_types=("UpBlock2D",) * 2,
        )  # fmt: skip
        with torch.no_grad():  # of a model that tells times apart
            for weight in unet.time_embedding.linear_1.weight, unet.time_embedding.linear_2.weight:
                weight *= 4
        whole = WORK / "fourier"
        # What the last step draws is the model's answer, and none is at time 0, whose logarithm is infinite.
        scheduler = DDPMScheduler(prediction_type="sample", timestep_spacing="trailing", clip_sample=False)
        DDPMPipeline(unet, scheduler).save_pretrained(whole)
        inputs = {**self.inputs, "timestep": self.inputs["timestep"].float()}  # which may lie between whole steps
        wanted = self.predict(unet)
        name = "time_proj.weight"
        for dtype, bound in (("bf16", 0.05), ("fp16", 0.01)):
            output = WORK / f"fourier-{dtype}"
            for form, path in (("diffusers", output), ("onnx", output.with_suffix(".onnx")), ("torchscript", output.with_suffix(".pt"))):
                export(whole, path, "--format", form, "--dtype", dtype)
            self.assertTrue(torch.equal(load_file(output / WEIGHTS)[name], unet.time_proj.weight.detach()))
            opened = UNet2DModel.from_pretrained(output, subfolder="unet")
            self.assertTrue(torch.equal(opened.time_proj.weight, unet.time_proj.weight))
            self.assertLess(networks_peer.error_of(self.predict(opened), wanted), bound)
            self.assertLess(networks_peer.check_onnx(output.with_suffix(".onnx"), inputs, wanted), bound)
            self.assertLess(networks_peer.check_torchscript(output.with_suffix(".pt"), inputs, wanted), bound)
        drawn = []
        for precision in ("no", "bf16"):
            place = WORK / f"fourier-{precision}.npy"
            ddpm("sample", "--model", whole, "--count", 2, "--steps", 2, "--scheduler", "ddim", "--precision", precision, "--output", place)
            drawn.append(torch.from_numpy(np.load(place)))
        self.assertLess(networks_peer.error_of(drawn[1], drawn[0]), 0.05)

    def test_a_folder_without_a_size_exports_with_open_sides(self):
        unet = UNet2DModel.from_pretrained(self.run_folder / "model", subfolder="unet")
        sizeless = WORK / "sizeless"
        DDPMPipeline(unet, DDPMScheduler()).save_pretrained(sizeless)
        config = sizeless / "unet" / "config.json"
        for size in (None, 15):  # UNet2DModel does not read it, and would take no images of 15
            config.write_text(json.dumps({**json.loads(config.read_text()), "sample_size": size}))
            export(sizeless, WORK / "open")
            self.assertIsNone(json.loads((WORK / "open" / "unet" / "config.json").read_text())["sample_size"])
            self.assertFalse((WORK / "open" / "export.py").exists())
            self.assertNotIn("DDPMPipeline", (WORK / "open" / "README.md").read_text())
            opened = UNet2DModel.from_pretrained(WORK / "open", subfolder="unet")
            self.assertTrue(torch.equal(self.predict(opened), self.predict(unet)))
            said = ddpm("sample", "--model", sizeless, "--count", 1, "--output", WORK / "x.npy", check=False)
            self.expect_refused(said, "has no sample_size that its model takes", "--size HxW")
        export(sizeless, WORK / "open.onnx", "--format", "onnx")
        export(sizeless, WORK / "open.pt", "--format", "torchscript")
        for height, width in ((16, 16), (8, 32)):
            inputs = {**self.inputs, "sample": torch.randn(2, 3, height, width)}
            with torch.no_grad():
                wanted = unet.eval()(**inputs).sample
            self.assertLess(networks_peer.check_onnx(WORK / "open.onnx", inputs, wanted), 1e-5)
            self.assertLess(networks_peer.check_torchscript(WORK / "open.pt", inputs, wanted), 1e-5)

    def test_torchscript_runs_in_cpp_without_ddpm(self):
        export(self.run_folder, WORK / "cpp.pt", "--format", "torchscript")
        said = subprocess.run([RUN_TORCHSCRIPT, WORK / "cpp.pt", "3", "16"], capture_output=True, text=True, check=True)
        unet = UNet2DModel.from_pretrained(self.run_folder / "model", subfolder="unet")
        with torch.no_grad():
            wanted = unet.eval()(torch.ones(2, 3, 16, 16), torch.tensor([3, 900])).sample.double()
        total, magnitude = map(float, said.stdout.split())
        self.assertAlmostEqual(total, wanted.sum().item(), delta=1e-5 * magnitude)
        self.assertAlmostEqual(magnitude, wanted.abs().sum().item(), delta=1e-5 * magnitude)

    def test_a_foreign_folder_keeps_its_scheduler(self):
        unet = UNet2DModel.from_pretrained(self.run_folder / "model", subfolder="unet")
        foreign = WORK / "foreign"
        DDPMPipeline(unet, DPMSolverMultistepScheduler()).save_pretrained(foreign)
        export(foreign, WORK / "copy")
        name = "scheduler/scheduler_config.json"
        self.assertEqual((WORK / "copy" / name).read_bytes(), (foreign / name).read_bytes())
        pipeline = DDPMPipeline.from_pretrained(WORK / "copy")
        self.assertIsInstance(pipeline.scheduler, DPMSolverMultistepScheduler)
        self.assertTrue(torch.equal(self.predict(pipeline.unet), self.predict(unet)))
        export(foreign / "unet", WORK / "bare")
        self.assertTrue(torch.equal(self.predict(DDPMPipeline.from_pretrained(WORK / "bare").unet), self.predict(unet)))

    def test_the_script_of_a_folder_says_what_it_wants(self):
        """Before it loads PyTorch: with any argument that it cannot use, and where it was moved away from the model."""
        shutil.copy(self.run_folder / "model" / "export.py", WORK / "export.py")
        for script in (self.run_folder / "model" / "export.py", WORK / "export.py"):
            for arguments in ([], ["absent/x.pt2"], ["--help"], ["x.pt2", "y.pt2"], [""], ["x.pt2"]):
                if arguments == ["x.pt2"] and script.parent != WORK:
                    continue
                said = subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True, timeout=120)
                self.assertEqual(said.returncode, 2, (arguments, said.stderr))
                self.assertRegex(said.stderr, r"\Aexport\.py: wanted: PROGRAM\.pt2 .*\n\Z")
                self.assertIn(str(script.parent / "unet"), said.stderr)
        self.assertEqual(list(WORK.glob("*.pt2")), [])

    def test_the_name_of_a_model_on_a_hub(self):
        name = "google/ddpm-cifar10-32"
        own = ("--model", self.run_folder / "model")
        rest = ("--count", 1, "--steps", 1, "--output", WORK / "x.npy")
        for arguments in (
            ("checkpoint", "export", name, "--output", WORK / "x"),
            ("sample", "--model", name, *rest),
            ("sample", *own, "--guidance-model", name, "--guidance-scale", 2, *rest),
            ("eval", "loss", "--model", name, "--data", WORK / "squares"),
            ("eval", "loss", *own, "--against", name, "--data", WORK / "squares"),
        ):
            self.expect_refused(ddpm(*arguments, check=False), f"hf download {name} --local-dir {name}")
        self.expect_refused(export(WORK / "absent", WORK / "x", check=False), "absent: not a run")
        self.assertNotIn("hf download", export(WORK / "absent", WORK / "x", check=False).stderr)

    def expect_refused(self, said, *phrases, code=4):
        self.assertEqual(said.returncode, code, said.stderr)
        self.assertEqual(len(said.stderr.strip().splitlines()), 1, said.stderr)
        for phrase in phrases:
            self.assertIn(phrase, said.stderr)

    def test_weights_or_averages_of_a_folder(self):
        """A folder as diffusers' scripts save it with --use_ema, of which either is taken by name."""
        both, alone = WORK / "checkpoint-500", WORK / "averages-alone"
        state = self.run_folder / "checkpoints/step-00000004"
        for weights, name in (("raw", "unet"), ("ema:1", "unet_ema")):
            export(state, WORK / "one", "--weights", weights)
            shutil.copytree(WORK / "one" / "unet", both / name)
        shutil.copytree(both / "unet_ema", alone / "unet_ema")
        for weights, name in (("raw", "unet"), ("ema", "unet_ema")):
            wanted = load_file(both / name / "diffusion_pytorch_model.safetensors")
            self.assertIn(f"{weights} weights", export(both, WORK / "chosen", "--weights", weights, ranks=2).stdout)
            taken = load_file(WORK / "chosen" / WEIGHTS)
            self.assertTrue(all(torch.equal(taken[key], value) for key, value in wanted.items()))
            card = (WORK / "chosen" / "README.md").read_text()
            self.assertEqual("averages (unet_ema/) of a diffusers folder" in card, weights == "ema")
            drawn = [WORK / f"by-{how}.npy" for how in ("name", "path")]
            fixed = ("--count", 1, "--steps", 2, "--output")
            self.assertIn(f"{weights} weights", ddpm("sample", "--model", both, "--weights", weights, *fixed, drawn[0]).stderr)
            ddpm("sample", "--model", both / name, *fixed, drawn[1])
            self.assertEqual(drawn[0].read_bytes(), drawn[1].read_bytes())
        for weights in ((), ("--weights", "ema")):
            export(alone, WORK / "chosen", *weights)
            taken = load_file(WORK / "chosen" / WEIGHTS)
            self.assertTrue(all(torch.equal(taken[key], value) for key, value in wanted.items()))
        model = self.run_folder / "model"
        export(model, WORK / "chosen", "--weights", "raw")  # what it has one set of
        own = ("--model", model, "--data", WORK / "squares", "--count", 2, "--levels", 1)
        for said, phrase in (
            (export(both, WORK / "x", check=False), "unet_ema/; wanted: --weights raw or ema, or the path"),
            (export(both, WORK / "x", "--weights", "ema:1", check=False), "--weights ema:1: "),
            (export(model, WORK / "x", "--weights", "ema", check=False), "holds no folder unet_ema with averages"),
            (export(alone, WORK / "x", "--weights", "raw", check=False), "holds averages alone"),
            (ddpm("sample", "--model", both, "--count", 1, "--output", WORK / "x.npy", check=False), "--weights raw or ema"),
            (ddpm("sample", "--model", model, "--guidance-model", both, "--guidance-scale", 2, "--count", 1, "--output",
                  WORK / "x.npy", check=False), "--guidance-weights raw or ema"),
            (ddpm("eval", "loss", *own, "--against", both, check=False), "--against-weights raw or ema"),
        ):  # fmt: skip
            self.expect_refused(said, phrase, code=2)
        self.assertEqual(export(both, WORK / "x", ranks=2, check=False).stderr.count("ddpm: error: "), 1)
        self.assertFalse((WORK / "x").exists())
        ddpm("eval", "loss", *own, "--against", both, "--against-weights", "ema")

    def test_what_is_no_model_says_what_it_is(self):
        model = self.run_folder / "model"
        unet = UNet2DModel.from_pretrained(model, subfolder="unet")
        get_peft_model(unet, LoraConfig(r=2, target_modules=["to_q"])).save_pretrained(WORK / "adapters")
        alone = WORK / "alone.safetensors"
        shutil.copy(model / WEIGHTS, alone)
        step = self.run_folder / "checkpoints/step-00000004"
        for path, phrase in (
            (WORK / "adapters", "adapters: adapters alone; wanted: the run that trained them"),
            (WORK / "adapters" / "adapter_model.safetensors", "adapters alone; wanted: the run that trained them"),
            (model / WEIGHTS, f"is a file; wanted: the folder around it, {model / 'unet'}"),
            (step / "shard-00001-of-00002.safetensors", f"is a file; wanted: the folder around it, {step}"),
            (alone, "weights alone; wanted: a model folder, whose config.json"),
        ):
            self.expect_refused(export(path, WORK / "x", check=False), phrase)
            self.expect_refused(ddpm("sample", "--model", path, "--count", 1, "--output", WORK / "x.npy", check=False), phrase)

    def test_the_name_of_a_file_says_its_format(self):
        for name, form in (("by-name.onnx", "onnx"), ("by-name.pt", "torchscript"), ("by-name.ts", "torchscript"),
                           ("by-name", "diffusers"), ("by-name.v2", "diffusers")):  # fmt: skip
            said = json.loads(export(self.run_folder, WORK / name, "--json").stdout)
            self.assertEqual((said["format"], (WORK / name).is_dir()), (form, form == "diffusers"))
        for form, name in (("onnx", "x.pt"), ("diffusers", "x.onnx"), ("torchscript", "x.onnx"), ("peft", "x.ts")):
            said = export(self.run_folder, WORK / name, "--format", form, check=False)
            self.expect_refused(said, f"--format {form} and --output {WORK / name}", "wanted: another name, or ", code=2)
            self.assertFalse((WORK / name).exists())
        said = export(self.run_folder, WORK / "x.pt", "--format", "onnx", ranks=2, check=False)
        self.assertEqual(said.stderr.count("ddpm: error: "), 1, said.stderr)

    def test_refusals(self):
        taken = WORK / "taken"
        taken.mkdir(exist_ok=True)
        (taken / "notes.txt").write_text("mine")
        before = contents(self.run_folder)
        for form in ("diffusers", "torchscript", "onnx"):
            for output in (taken, taken / "notes.txt", self.run_folder):
                said = export(self.run_folder / "model", output, "--format", form, check=False)
                self.expect_refused(said, "--output", "already there")
            said = export(self.run_folder, WORK / "nowhere" / "x", "--format", form, check=False)
            self.expect_refused(said, "there is no folder")
        self.expect_refused(export(WORK / "absent", WORK / "x", check=False), "absent", "not a run")
        model = self.run_folder / "model"
        self.expect_refused(export(model, model, check=False), "what is exported")
        self.assertEqual(contents(taken), {"notes.txt": b"mine"})
        self.assertEqual(contents(self.run_folder), before)
        for said in (
            export(self.run_folder, WORK / "x", "--weights", "ema:2", check=False),
            export(model, WORK / "x", "--weights", "ema", check=False),
            export(self.run_folder, WORK / "x", "--format", "pickle", check=False),
        ):
            self.assertEqual(said.returncode, 2, said.stderr)

    def test_float16_that_cannot_hold_a_weight(self):
        large = WORK / "large"
        unet = UNet2DModel.from_pretrained(self.run_folder / "model", subfolder="unet")
        unet.conv_out.bias.data[0] = 70000.0
        DDPMPipeline(unet, DDPMPipeline.from_pretrained(self.run_folder / "model").scheduler).save_pretrained(large)
        for form in ("diffusers", "torchscript", "onnx"):
            said = export(large, WORK / "large-16", "--format", form, "--dtype", "fp16", check=False)
            self.expect_refused(said, "conv_out.bias", "float16")
            self.assertFalse((WORK / "large-16").exists())
        export(large, WORK / "large-16", "--dtype", "bf16")

    def test_a_model_that_nothing_could_use(self):
        unet = UNet2DModel.from_pretrained(self.run_folder / "model", subfolder="unet")
        pipeline = DDPMPipeline(unet, DDPMPipeline.from_pretrained(self.run_folder / "model").scheduler)
        odd = WORK / "odd"
        pipeline.save_pretrained(odd)
        scheduler = odd / "scheduler/scheduler_config.json"
        text = scheduler.read_text()
        for before, after in (('"beta_schedule": "linear"', '"beta_schedule": "cubic"'),
                              ('"num_train_timesteps": 1000', '"num_train_timesteps": -1000')):  # fmt: skip
            self.assertIn(before, text)
            scheduler.write_text(text.replace(before, after))
            for form in ("diffusers", "torchscript", "onnx"):
                said = export(odd, WORK / "odd-copy", "--format", form, check=False)
                self.expect_refused(said, str(scheduler), after.split('"')[1], after.split()[1].strip('"'))
                self.assertFalse((WORK / "odd-copy").exists())
        scheduler.write_text(text)
        unet.conv_out.bias.data[0] = float("nan")
        pipeline.save_pretrained(odd)
        for form in ("diffusers", "torchscript", "onnx"):
            said = export(odd, WORK / "odd-copy", "--format", form, check=False)
            self.expect_refused(said, f"{odd / WEIGHTS}: conv_out.bias holds values that are not finite")
            self.assertFalse((WORK / "odd-copy").exists())


if __name__ == "__main__":
    unittest.main()
