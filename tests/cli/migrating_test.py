"""docs/migrating.md and jobs/lightning64.toml: keys exist, no flag of the launchers is missing, and the configuration is
what the Lightning program in its head says, by the libraries' own defaults."""

import dataclasses
import inspect
import os
import pathlib
import re
import sys
import tomllib
import unittest

import lightning
import torch
from accelerate.commands.config.config_args import ClusterConfig
from accelerate.commands.launch import launch_command_parser
from diffusers import DDPMScheduler, UNet2DModel
from torch.distributed.run import get_args_parser

SOURCE = pathlib.Path(os.environ["DDPM_SOURCE_DIR"])
sys.path.insert(0, str(SOURCE / "tests" / "support"))
from ddpm_run import ddpm  # noqa: E402

PAGE = SOURCE / "docs" / "migrating.md"
JOB = SOURCE / "jobs" / "lightning64.toml"


def section(name):
    """The text under a heading, up to the next one of its level."""
    level = name.split(" ")[0]
    found = re.search(rf"^{re.escape(name)}\n(.*?)(?=^#{{1,{len(level)}}} |\Z)", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert found, name
    return found.group(1)


def rows(text):
    """The cells of the tables' rows, but of the heads."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def named(text):
    """What stands in backticks in the first column."""
    return {name for cells in rows(text) for name in re.findall(r"`([^`]+)`", cells[0])}


def flags(parser):
    """Of each option, the ways of writing it, with dashes."""
    return [{text.replace("_", "-") for text in action.option_strings} for action in parser._actions if action.option_strings]


class Migrating(unittest.TestCase):
    def test_every_key_that_is_named_exists(self):
        shown, current = set(), ""
        for line in ddpm("config", "show", "--markdown").stdout.splitlines():
            if found := re.match(r"## `\[(\w+)\]`", line):
                current = found.group(1)
            elif found := re.match(r"\| `(\w+)` \|", line):
                shown.add(f"{current}.{found.group(1)}")
        sections = {key.split(".")[0] for key in shown}
        self.assertGreater(len(shown), 100)
        count = 0
        for cells in rows(PAGE.read_text()):
            for name in re.findall(r"`([a-z_]+\.[a-z_0-9]+)(?: = [^`]+)?`", cells[-1]):
                if name.split(".")[0] in sections:
                    self.assertIn(name, shown, cells)
                    count += 1
                else:
                    self.assertRegex(name, r"\.(py|jsonl|log)$", cells)
        self.assertGreater(count, 80)
        for cells in rows(PAGE.read_text()):
            self.assertTrue(cells[-1], f"{cells} says nothing")

    def test_no_flag_of_the_launchers_is_missing(self):
        for heading, parser in {"### `accelerate launch`": launch_command_parser(), "## torchrun": get_args_parser()}.items():
            listed = {name.replace("_", "-") for name in named(section(heading))}
            options = flags(parser)
            self.assertEqual([names for names in options if not names & listed], [], heading)
            every = set().union(*options)
            self.assertEqual({name for name in listed if name.startswith("--")} - every, set(), heading)

    def test_no_key_of_accelerates_file_is_missing(self):
        fields = {field.name for field in dataclasses.fields(ClusterConfig)}
        self.assertEqual(named(section("### The YAML of `accelerate config`")), fields)

    def test_no_argument_of_the_trainer_is_missing(self):
        arguments = set(inspect.signature(lightning.Trainer.__init__).parameters) - {"self"}
        table = section("## Lightning").split("| of a `LightningModule`")[0]
        self.assertEqual(named(table) - {"Trainer"}, arguments)

    def test_the_configuration_is_that_of_the_program(self):
        self.assertEqual(ddpm("config", "validate", JOB).returncode, 0)
        config = tomllib.loads(ddpm("config", "show", JOB).stdout)
        model = UNet2DModel(sample_size=64).config
        self.assertEqual(config["model"]["sample_size"], [model["sample_size"]])
        compared = 0
        for key, value in config["model"].items():
            if key in model and key != "sample_size" and value is not None:
                self.assertEqual(value, list(model[key]) if isinstance(model[key], tuple) else model[key], key)
                compared += 1
        self.assertGreater(compared, 15)
        scheduler = DDPMScheduler().config
        for key in ("num_train_timesteps", "beta_start", "beta_end", "beta_schedule", "prediction_type", "variance_type"):
            self.assertEqual(config["diffusion"][key], scheduler[key])
        adamw = inspect.signature(torch.optim.AdamW.__init__).parameters
        optimizer = config["optimizer"]
        self.assertEqual(tuple(optimizer["betas"]), adamw["betas"].default)
        self.assertEqual((optimizer["eps"], optimizer["weight_decay"]), (adamw["eps"].default, adamw["weight_decay"].default))
        scaler = inspect.signature(torch.amp.GradScaler.__init__).parameters
        precision = config["precision"]
        self.assertEqual(precision["initial_loss_scale"], scaler["init_scale"].default)
        self.assertEqual(precision["loss_scale_window"], scaler["growth_interval"].default)
        self.assertEqual(inspect.signature(lightning.Trainer.__init__).parameters["gradient_clip_val"].default, None)
        self.assertEqual(optimizer["max_grad_norm"], 0.0)
        self.assertFalse(config["ema"]["enabled"])
        self.assertEqual(config["batch"], {"global_size": 64, "micro_size": 16})
        self.assertEqual(config["train"]["epochs"], 50)


if __name__ == "__main__":
    unittest.main()
