"""Where `ddpm checkpoint export` writes, and what it leaves alone there."""

import fcntl
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

import numpy as np
import torch
from diffusers import DDPMPipeline, UNet2DModel
from peft import LoraConfig, get_peft_model

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_run import contents, ddpm, make_dataset, write_config  # noqa: E402

WORK = pathlib.Path.cwd()


def export(source, output, *flags, check=True):
    return ddpm("checkpoint", "export", source, "--output", output, *flags, check=check)


class Places(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        for left in WORK.iterdir():
            if left.name != "squares" and not left.name.endswith("-pictures"):
                shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()
        cls.run_folder = WORK / "run"
        ddpm("train", write_config(WORK / "run.toml", cls.run_folder, make_dataset(WORK / "squares"), train={"steps": 2}))

    def expect_refused(self, said, *phrases, code=4):
        self.assertEqual(said.returncode, code, said.stderr)
        self.assertEqual(len(said.stderr.strip().splitlines()), 1, said.stderr)
        for phrase in phrases:
            self.assertIn(phrase, said.stderr)

    def test_what_python_leaves_in_an_export_is_no_obstacle(self):
        export(self.run_folder, WORK / "used")
        (WORK / "used" / "__pycache__").mkdir()
        (WORK / "used" / "__pycache__" / "field_unet.cpython-311.pyc").touch()
        export(self.run_folder, WORK / "used")
        self.assertFalse((WORK / "used" / "__pycache__").exists())

    def test_a_symbolic_link_is_no_output(self):
        (WORK / "elsewhere").mkdir(exist_ok=True)
        for name, target in (("to-folder", "elsewhere"), ("to-nothing", "nowhere")):
            (WORK / name).unlink(missing_ok=True)
            (WORK / name).symlink_to(target)
            for form in ("diffusers", "onnx"):
                self.expect_refused(export(self.run_folder, WORK / name, "--format", form, check=False), "symbolic link", target)
            self.assertTrue((WORK / name).is_symlink())
        self.assertEqual(list((WORK / "elsewhere").iterdir()), [])
        export(self.run_folder, WORK / "elsewhere-model")  # a link on the way there is one that paths may have
        (WORK / "way").unlink(missing_ok=True)
        (WORK / "way").symlink_to("elsewhere")
        export(self.run_folder, WORK / "way" / "net.onnx", "--format", "onnx")
        self.assertEqual([path.name for path in (WORK / "elsewhere").iterdir()], ["net.onnx"])

    def test_what_killed_exports_left_is_removed(self):
        for form, name in (("onnx", "left.onnx"), ("torchscript", "left.pt"), ("diffusers", "left-model")):
            left = [WORK / f".{name}.{kind}-0123456789abcdef" for kind in ("tmp", "old")]
            (left[0].mkdir if form == "diffusers" else left[0].touch)()
            left[1].touch()
            (WORK / f".{name}.lock").touch()
            export(self.run_folder, WORK / name, "--format", form)
            self.assertEqual([path.name for path in WORK.iterdir() if name in path.name], [name])

    def test_one_of_two_exports_to_a_place_wins(self):
        place = WORK / "contested"
        lock = WORK / ".contested.lock"
        with open(lock, "w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)  # as an export at work holds it
            self.expect_refused(export(self.run_folder, place, check=False), "another process is writing it", str(place))
            self.assertTrue(lock.exists())
            self.assertFalse(place.exists())
        command = [os.environ["DDPM"], "checkpoint", "export", str(self.run_folder), "--output", str(place)]
        at_once = [subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) for _ in range(4)]
        said = [process.communicate(timeout=240)[1] for process in at_once]
        codes = [process.returncode for process in at_once]
        self.assertIn(0, codes)
        for code, text in zip(codes, said):
            self.assertIn(code, (0, 4), text)
            self.assertEqual("another process is writing it" in text, code == 4, text)
        self.assertEqual(contents(place), contents(self.run_folder / "model"))
        self.assertEqual([path.name for path in WORK.iterdir() if "contested" in path.name], ["contested"])

    def test_what_another_program_wrote_is_not_replaced(self):
        np.savez(WORK / "arrays.npz", a=np.zeros(3))
        (WORK / "begins-alike").write_bytes(b"\x08\x08" + bytes(50))
        export(self.run_folder, WORK / "amended")
        (WORK / "amended" / "thesis.txt").write_text("mine")
        DDPMPipeline.from_pretrained(self.run_folder / "model").save_pretrained(WORK / "theirs")
        get_peft_model(
            UNet2DModel.from_pretrained(self.run_folder / "model", subfolder="unet"), LoraConfig(r=2, target_modules=["to_q"])
        ).save_pretrained(WORK / "their-adapters")
        torch.jit.save(torch.jit.script(torch.nn.Sequential(torch.nn.Linear(2, 2))), WORK / "their.pt")
        for form, name in (("torchscript", "arrays.npz"), ("onnx", "begins-alike"), ("diffusers", "amended"),
                           ("diffusers", "theirs"), ("peft", "their-adapters"), ("torchscript", "their.pt")):  # fmt: skip
            before = contents(WORK / name) if (WORK / name).is_dir() else (WORK / name).read_bytes()
            self.expect_refused(export(self.run_folder, WORK / name, "--format", form, check=False), "already there")
            after = contents(WORK / name) if (WORK / name).is_dir() else (WORK / name).read_bytes()
            self.assertEqual(after, before)

    def test_what_is_exported_is_not_replaced_by_the_export(self):
        export(self.run_folder, WORK / "kept")
        before = contents(WORK / "kept")
        for source in (WORK / "kept", WORK / "kept" / "unet"):
            said = export(source, WORK / "kept", "--dtype", "fp16", check=False)
            self.expect_refused(said, "is or holds what is exported")
        self.assertEqual(contents(WORK / "kept"), before)


if __name__ == "__main__":
    unittest.main()
