"""What the documentation says of the configuration is what the program says."""

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
