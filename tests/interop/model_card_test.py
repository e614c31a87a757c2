"""The model card of a trained run, read by huggingface_hub: its metadata, and what the text tells of the run."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

import diffusers
import h5py
import numpy as np
import torch
import yaml
from huggingface_hub import ModelCard

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_run import ddpm, make_dataset, metrics, write_config  # noqa: E402

WORK = pathlib.Path.cwd()
HF = pathlib.Path(sys.executable).with_name("hf")
# Texts that would end a line, a cell or a text of YAML early, or be taken for a number.
ODD = ['flowers: "2026" | #1', "yes", "1e3", "- é 漢 🎉", "back\\slash", "tab\there", "line\nend", "{a: [b"]


class Card(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.train = make_dataset(WORK / "train-set", 24)
        cls.held_out = make_dataset(WORK / "held out", 8)
        cls.labelled = make_dataset(WORK / "labelled", 24, 16, 1, "--labels", "folder")

    def trained(self, name, ranks=1, images=None, **sections):
        shutil.rmtree(WORK / name, ignore_errors=True)
        sections = {"train": {"steps": 3}, **sections}
        config = write_config(WORK / f"{name}.toml", WORK / name, images or self.train, **sections)
        # json.dumps, by which it writes texts, writes what lies beyond 16 bits as two surrogates, which TOML refuses.
        text = re.sub(r"(?:\\u[0-9a-f]{4})+", lambda found: json.loads(f'"{found.group()}"'), config.read_text())
        config.write_text(text)
        ddpm("train", config, ranks=ranks)
        return WORK / name

    def card(self, run, folder="model"):
        """The card as the hub's own library reads it; reading it again as that library writes it changes nothing."""
        card = ModelCard.load(run / folder / "README.md")
        self.assertEqual(ModelCard(str(card)).data.to_dict(), card.data.to_dict())
        self.assertRegex(card.text.strip(), r"\A# \S")
        self.assertIsInstance(card.data.tags, list)
        self.assertTrue(all(isinstance(tag, str) for tag in card.data.tags))
        return card

    def test_a_run_with_nothing_stated(self):
        card = self.card(self.trained("plain"))
        self.assertEqual(card.data.library_name, "diffusers")
        self.assertEqual(card.data.pipeline_tag, "unconditional-image-generation")
        self.assertEqual(card.data.license, "unknown")
        self.assertEqual(card.data.tags, ["diffusers", "ddpm"])
        self.assertIsNone(card.data.eval_results)
        self.assertIn("# plain\n", card.text)
        self.assertIn("None was stated", card.text)
        self.assertIn("## Not for", card.text)
        self.assertNotIn(str(WORK), card.text.split("## Configuration")[0])  # no path of this machine

    def test_what_the_author_and_the_run_say(self):
        run = self.trained(
            "stated", ranks=2,
            card={"title": "Squares", "license": "CC-BY-4.0", "authors": ["A. Lee", "B. Kim"],
                  "tags": ["squares", "ddpm"], "dataset_license": "CC0"},
            data={"validation": str(self.held_out)}, validation={"every_steps": 1, "images": 5},
            checkpoint={"every_steps": 1, "keep_latest": 5},
        )  # fmt: skip
        card = self.card(run)
        self.assertEqual(card.data.license, "cc-by-4.0")
        self.assertEqual(card.data.tags, ["diffusers", "ddpm", "squares"])
        (result,) = card.data.eval_results
        last = metrics(run)[-1]
        self.assertEqual(result.metric_value, last["validation_loss"])
        self.assertEqual((result.task_type, result.metric_type), ("unconditional-image-generation", "loss"))
        self.assertEqual((result.dataset_name, result.dataset_type), ("held out", "held-out"))
        self.assertEqual(card.data.model_name, "Squares")
        described = json.loads((self.train / "dataset.json").read_text())
        hash_of_set = re.search(r"its content hash \| ([0-9a-f]{64}) \|", card.text).group(1)
        self.assertEqual(hash_of_set, json.loads(ddpm("data", "inspect", self.train, "--json").stdout)["content_hash"])
        for part in ("# Squares\n", "By A. Lee, B. Kim.", "| training set | train-set |", "| images in it | 24 |",
                     "| its licence | CC0 |", "| optimizer steps | 3 |", "| images seen | 24 |", "2 ranks on 1 host",
                     "| software | LibTorch ", "\nOf these weights: CC-BY-4.0.\n", "validation loss", "DDPMPipeline.from_pretrained"):  # fmt: skip
            self.assertIn(part, card.text)
        for channel, of_channel in zip(("red", "green", "blue"), described["statistics"]):
            row = re.search(rf"^\| {channel} \| (\S+) \| (\S+) \| (\S+) \| (\S+) \|$", card.text, re.MULTILINE)
            for shown, key in zip(row.groups(), ("mean", "std", "min", "max")):
                self.assertAlmostEqual(float(shown), of_channel[key], delta=1e-5 * abs(of_channel[key]))
        # Every other folder of the same run tells as much, each of its own step and weights.
        losses = {line["step"]: line["validation_loss"] for line in metrics(run) if "validation_loss" in line}
        best = min(losses, key=losses.get)
        for folder, step, weights in (("model-best", best, ""), ("at-2", 2, ""), ("at-3", 3, "ema"), ("raw-3", 3, "raw")):
            if folder != "model-best":
                flags = ["--weights", weights] if weights else []
                ddpm("checkpoint", "export", run / f"checkpoints/step-{step:08}", "--output", run / folder, *flags)
            other = self.card(run, folder)
            shared = re.compile(r"^\| (?:hardware|software|red|green|blue|images in it|its content hash) \|.*$", re.MULTILINE)
            self.assertEqual(shared.findall(other.text), shared.findall(card.text))
            self.assertEqual(len(shared.findall(other.text)), 7)
            self.assertIn(f"| optimizer steps | {step} |", other.text)
            results = other.data.eval_results
            self.assertEqual([r.metric_value for r in results or []], [] if weights == "raw" else [losses[step]])

    def test_a_file_that_records_no_statistics_is_sampled(self):
        values = np.random.default_rng(1).normal(280, 20, (300, 16, 16, 1)).astype(np.float32)
        for name, images in (("few", values[:24]), ("many", values), ("bytes", (values[:24] % 256).astype(np.uint8))):
            with h5py.File(WORK / f"{name}.h5", "w") as file:
                file["images"] = images
            run = self.trained(f"of-{name}", images=WORK / f"{name}.h5",
                               model={"in_channels": 1, "out_channels": 1})  # fmt: skip
            text = self.card(run).text
            rows = re.findall(r"^\| [^|]+ \| (\S+) \| (\S+) \| (\S+) \| (\S+) \|$", text, re.MULTILINE)
            self.assertEqual("\nCounted over 256 sampled images.\n" in text, name == "many")
            seen = images[np.arange(256) * 300 // 256] if name == "many" else images
            shown = np.array(rows[-1], dtype=np.float64)
            wanted = [seen.mean(dtype=np.float64), seen.std(dtype=np.float64), seen.min(), seen.max()]
            np.testing.assert_allclose(shown, wanted, rtol=2e-5)
            ddpm("checkpoint", "export", run, "--output", run / "exported")
            self.assertEqual((run / "exported/README.md").read_text(), (run / "model/README.md").read_text())

    def test_cards_of_fine_tuned_models_and_adapters_name_what_they_started_from(self):
        base = self.trained("a-base")
        author = {"license": "apache-2.0", "authors": ["A. Lee"], "tags": ["squares"]}
        shape = dict.fromkeys(("block_out_channels", "down_block_types", "up_block_types", "layers_per_block",
                               "norm_num_groups", "attention_head_dim"))  # fmt: skip
        model = {**shape, "pretrained": str(base / "model")}
        lora = {**model, "lora_rank": 2}
        stated = {**author, "base_model": "owner/squares"}
        for name, keys, card, folder, relation in (
            ("tuned", model, author, "model", None),
            ("tuned-stated", model, stated, "model", "finetune"),
            ("adapted", lora, author, "adapter", None),
            ("adapted-stated", lora, stated, "adapter", "adapter"),
        ):
            run = self.trained(name, model=keys, card=card)
            if folder == "adapter":
                ddpm("checkpoint", "export", run, "--format", "peft", "--output", run / "exported")
                self.assertEqual((run / "exported" / "README.md").read_text(), (run / folder / "README.md").read_text())
            seen = self.card(run, folder)
            self.assertEqual(seen.data.library_name, "peft" if folder == "adapter" else "diffusers")
            self.assertEqual(seen.data.license, "apache-2.0")
            self.assertIn("squares", seen.data.tags)
            self.assertEqual(getattr(seen.data, "base_model", None), relation and "owner/squares")
            self.assertEqual(getattr(seen.data, "base_model_relation", None), relation)
            for part in ("## Not for", '"scale"', "By A. Lee.", "| training set | train-set |", "| optimizer steps | 3 |", "## Configuration",
                         f"| training started from | {'owner/squares' if relation else 'a-base/model'} |"):  # fmt: skip
                self.assertIn(part, seen.text, name)
        config = json.loads((run / "adapter" / "adapter_config.json").read_text())
        self.assertEqual(config["base_model_name_or_path"], "owner/squares")
        self.assertIn('UNet2DModel.from_pretrained("owner/squares", subfolder="unet")', seen.text)

    def test_names_that_no_hub_takes_are_refused(self):
        base = str(self.trained("named-base") / "model")
        shape = dict.fromkeys(("block_out_channels", "down_block_types", "up_block_types", "layers_per_block",
                               "norm_num_groups", "attention_head_dim"))  # fmt: skip
        for name, model, words in (
            ("no name/at all", {**shape, "pretrained": base}, "wanted: OWNER/NAME"),
            ("a/b/c", {**shape, "pretrained": base}, "wanted: OWNER/NAME"),
            ("owner/squares", {}, "model.pretrained is not"),
        ):
            config = write_config(WORK / "named.toml", WORK / "named", self.train, model=model, card={"base_model": name})
            process = ddpm("train", config, check=False)
            self.assertEqual((process.returncode, len(process.stderr.strip().splitlines())), (2, 1), process.stderr)
            self.assertIn(words, process.stderr)

    def test_a_loss_of_an_earlier_step_is_not_that_of_the_model(self):
        run = WORK / "longer"
        held_out = {"data": {"validation": str(self.held_out)}}
        self.trained("longer", **held_out, validation={"every_steps": 3})
        self.assertIsNotNone(self.card(run).data.eval_results)
        ddpm("train", write_config(WORK / "longer.toml", run, self.train, **held_out, train={"steps": 4}))
        self.assertIsNone(self.card(run).data.eval_results)

    def test_odd_texts(self):
        for text in ODD:
            with self.subTest(text):
                run = self.trained("odd", card={"title": text, "license": text, "authors": [text], "tags": [text]})
                card = self.card(run)
                shown = text.translate({ord("\t"): " ", ord("\n"): " ", ord("|"): " "})
                self.assertIn(shown, card.data.tags)
                self.assertEqual(card.data.license, "other")
                self.assertRegex(card.data.license_name, r"\A[a-z0-9.-]+\Z")
                self.assertIn(f"\n# {shown}\n", card.text)

    def test_the_card_is_no_part_of_a_runs_identity(self):
        run = self.trained("renamed")
        config = write_config(WORK / "renamed.toml", run, self.train, train={"steps": 4}, card={"title": "New"})
        ddpm("train", config)
        self.assertIn("# New\n", self.card(run).text)

    def test_what_the_hub_has_no_name_for(self):
        metadata = {}
        for name, model in {"plane": {"padding": "periodic"}, "classes": {"num_class_embeds": 2}}.items():
            images = self.labelled if name == "classes" else self.train
            metadata[name] = self.card(self.trained(name, images=images, model=model)).data
        self.assertEqual(metadata["plane"].library_name, "ddpm")  # diffusers refuses it
        self.assertEqual(metadata["classes"].library_name, "diffusers")

    def test_the_program_of_each_card_runs(self):
        """With noisy images of the model's size, and what else the card says that the model takes."""
        random = np.random.default_rng(0)
        with h5py.File(WORK / "wide.h5", "w") as file:
            file["images"] = random.standard_normal((24, 8, 16, 3)).astype(np.float32)
            file["condition"] = random.standard_normal((24, 8, 16, 2)).astype(np.float32)
            file["labels"] = random.integers(0, 2, 24)
            file["parameters"] = random.standard_normal((24, 2)).astype(np.float32)
        with h5py.File(WORK / "bytes.h5", "w") as file:
            file["images"] = random.integers(0, 256, (24, 8, 16, 3)).astype(np.uint8)
        edm = {"diffusion": {"formulation": "edm"}}
        given = {"condition": "/condition"}
        cases = {
            "pipeline": {"images": WORK / "bytes.h5"},
            "few": {"images": WORK / "bytes.h5", "diffusion": {"num_train_timesteps": 20}},  # as many steps as the card says
            "few-floats": {"data": {"labels": ""}, "diffusion": {"num_train_timesteps": 20}},
            "floats": {"data": {"labels": ""}},
            "loop": {"data": {"labels": ""}, **edm},
            "given": {"data": {"labels": "", **given}, "model": {"in_channels": 5, "out_channels": 3}},
            "classes": {"model": {"num_class_embeds": 2}},
            "everything": {"data": given, "model": {"in_channels": 5, "out_channels": 3, "num_class_embeds": 2}, **edm},
            "periodic": {"data": given, "model": {"in_channels": 5, "out_channels": 3, "num_class_embeds": 2, "padding": "periodic"}},
            "mean": {"data": {"labels": "", **given}, "model": {"in_channels": 5, "out_channels": 3}, "diffusion": {"formulation": "regression"}},
            "own-mean": {"data": {"labels": "", **given}, "model": {"in_channels": 5, "out_channels": 3, "padding": "periodic"},
                         "diffusion": {"formulation": "regression"}},
            "mean-of-parameters": {"data": {"labels": "", "parameters": "/parameters"}, "diffusion": {"formulation": "regression"}},
        }  # fmt: skip
        for name, sections in cases.items():
            folder = self.trained(f"card-{name}", **{"images": WORK / "wide.h5", **sections}) / "model"
            program = re.search(r"```python\n(.*?)```", (folder / "README.md").read_text(), re.DOTALL)[1]
            program = program.replace("PATH OF THIS FOLDER", str(folder)).replace("(batch_size=1)", "(batch_size=1, num_inference_steps=2)")
            names = {"noisy_images": torch.randn(1, 3, 8, 16), "condition": torch.randn(1, 2, 8, 16),
                     "timesteps": torch.tensor([1]), "labels": torch.tensor([1]), "parameters": torch.randn(1, 2)}  # fmt: skip
            if "scale_model_input(noisy_images" in program:
                names["t"] = diffusers.EDMEulerScheduler.from_pretrained(folder / "scheduler").timesteps[10]
            self.assertEqual("DDPMPipeline.from_pretrained" in program, name in ("pipeline", "few"))
            sys.modules.pop("field_unet", None)
            sys.path.insert(0, str(folder))
            with self.subTest(name):
                exec(program, names)
                answer = next(names[key] for key in ("prediction", "mean", "images", "image") if key in names)
                picture = name in ("pipeline", "few")
                self.assertEqual(answer.size if picture else tuple(answer.shape), (16, 8) if picture else (1, 3, 8, 16))
            sys.path.remove(str(folder))

    def test_the_name_of_a_model_on_a_hub(self):
        name = "google/ddpm-cifar10-32"
        run = ddpm("train", write_config(WORK / "hub.toml", WORK / "hub", self.train, model={"pretrained": name}),
                   check=False)  # fmt: skip
        self.assertEqual(run.returncode, 4, run.stderr)
        self.assertIn(f"hf download {name} --local-dir {name}", run.stderr)
        self.assertFalse((WORK / "hub").exists())
        missing = write_config(WORK / "hub.toml", WORK / "hub", self.train, model={"pretrained": "./models/missing"})
        self.assertNotIn("hf download", ddpm("train", missing, check=False).stderr)

    def test_the_commands_that_the_pages_name(self):
        """`hf upload NAME FOLDER` and `hf download NAME --local-dir FOLDER` are commands of the hub's program."""
        for command, options in {"upload": ["REPO_ID", "LOCAL_PATH"], "download": ["REPO_ID", "--local-dir"]}.items():
            text = subprocess.run([HF, command, "--help"], capture_output=True, text=True, check=True, timeout=120).stdout
            for option in options:
                self.assertIn(option.lower(), text.lower())
        page = (pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "docs" / "running.md").read_text()
        self.assertRegex(page, r"hf upload \S+ \S+/model\b")

    def test_yaml_reads_the_metadata_with_the_types_that_the_hub_wants(self):
        run = self.trained("types", card={"tags": ["1.5", "null"]})
        block = (run / "model" / "README.md").read_text().split("---\n")[1]
        data = yaml.safe_load(block)
        self.assertEqual(data["tags"][2:], ["1.5", "null"])


if __name__ == "__main__":
    unittest.main()
