"""What the documentation says of the configuration is what the program says."""

import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

SOURCE = pathlib.Path(os.environ["DDPM_SOURCE_DIR"])
sys.path.insert(0, str(SOURCE / "tests" / "support"))
from ddpm_run import ddpm  # noqa: E402


class Reference(unittest.TestCase):
    maxDiff = None

    def test_configuration_page_is_the_programs_own(self):
        page = (SOURCE / "docs" / "configuration.md").read_text()
        self.assertEqual(page, ddpm("config", "show", "--markdown").stdout,
                         "repeat: ddpm config show --markdown > docs/configuration.md")  # fmt: skip

    def test_example_configurations_are_valid(self):
        # jobs/scaling/study.toml describes a study, not a run; tests/scaling reads it.
        examples = sorted((SOURCE / "jobs").glob("*.toml"))
        self.assertTrue(examples)
        for example in examples:
            ddpm("config", "validate", example)

    def test_example_models_have_the_published_sizes(self):
        # Ho et al. 2020, appendix B: 35.7 and 114 million, to the parameter those of google/ddpm-cifar10-32 and
        # google/ddpm-celebahq-256 of the Hugging Face hub; Nichol and Dhariwal 2021: 52.5 million. With the layout that the
        # file's own head names: each step divides.
        for name, nodes, gpus, parameters in (("cifar10", 1, 4, 35_746_307), ("celebahq256", 4, 4, 113_673_219),
                                              ("cifar10-classes", 1, 4, 52_547_587)):
            plan = json.loads(ddpm("plan", SOURCE / "jobs" / f"{name}.toml", "--nodes", nodes, "--gpus-per-node", gpus,
                                   "--machine", "a100", "--json").stdout)
            self.assertEqual(plan["parameters"], parameters, name)
            self.assertTrue(plan["given"]["works"] and plan["fits"], name)

    def test_every_subcommand_has_help(self):
        def walk(*command):
            text = subprocess.run(
                [os.environ["DDPM"], *command, "--help"], check=True, capture_output=True, text=True, timeout=60
            ).stdout
            self.assertIn("Usage:", text)
            below = re.search(r"^Subcommands:\n((?:  .*\n)+)", text, re.MULTILINE)
            for line in below.group(1).splitlines() if below else []:
                if line[2] != " ":
                    walk(*command, line.split()[0])

        walk()

    def test_help_names_every_exit_code(self):
        table = (SOURCE / "docs" / "running.md").read_text().split("## Exit codes")[1]
        codes = re.findall(r"^\| (\d+) \|", table, re.MULTILINE)
        self.assertIn("75", codes)
        text = subprocess.run([os.environ["DDPM"], "--help"], check=True, capture_output=True, text=True, timeout=60).stdout
        listed = re.search(r"Exit codes: (.*?)\.$", text, re.MULTILINE | re.DOTALL).group(1)
        self.assertEqual(sorted(codes), sorted(re.findall(r"\b\d+\b", listed)))


if __name__ == "__main__":
    unittest.main(verbosity=2)
