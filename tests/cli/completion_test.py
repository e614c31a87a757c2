"""`ddpm completion`: bash itself completes command lines by the script, and the manual has a page of each command."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_run import ddpm  # noqa: E402

ASK = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _ddpm; printf "%s\\n" "${COMPREPLY[@]}"'


class Completions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.script = cls.folder / "ddpm.bash"
        cls.script.write_text(ddpm("completion", "bash").stdout)
        (cls.folder / "my.toml").touch()

    def offered(self, *words):
        bash = subprocess.run(["bash", "-c", ASK, "bash", self.script, *words], capture_output=True, text=True, timeout=60, check=True, cwd=self.folder)
        self.assertEqual(bash.stderr, "")
        return set(bash.stdout.split())

    def test_commands_and_their_commands(self):
        self.assertLessEqual({"train", "sample", "eval", "report", "data", "checkpoint", "completion"}, self.offered("ddpm", ""))
        self.assertEqual(self.offered("ddpm", "rep"), {"report"})
        self.assertLessEqual({"create", "generate", "verify"}, self.offered("ddpm", "data", ""))
        self.assertEqual(self.offered("ddpm", "completion", ""), {"bash", "zsh", "fish"})

    def test_options_and_their_words(self):
        self.assertLessEqual({"--model", "--scheduler", "--output"}, self.offered("ddpm", "sample", "--"))
        self.assertEqual(self.offered("ddpm", "sample", "--scheduler", "dd"), {"ddim", "ddpm"})
        self.assertEqual(self.offered("ddpm", "sample", "--steps", ""), set())

    def test_keys_of_the_configuration_and_files(self):
        self.assertEqual(self.offered("ddpm", "train", "--optimizer.lear"), {"--optimizer.learning_rate"})
        self.assertEqual(self.offered("ddpm", "train", "--precision.mixed_precision", ""), {"no", "bf16", "fp16"})
        self.assertEqual(self.offered("ddpm", "train", "my"), {"my.toml"})
        self.assertEqual(self.offered("ddpm", "sample", "--optimizer.lear"), set())

    def test_other_shells_have_scripts_and_unknown_ones_are_refused(self):
        for shell in ("zsh", "fish"):
            self.assertIn("--optimizer.learning_rate" if shell == "zsh" else "optimizer.learning_rate", ddpm("completion", shell).stdout)
        self.assertEqual(ddpm("completion", "csh", check=False).returncode, 2)
        self.assertEqual(ddpm("completion", check=False).returncode, 2)

    def test_the_manual_has_a_page_of_each_command(self):
        ddpm("completion", "--man-pages", self.folder / "man")
        pages = {page.name: page.read_text() for page in (self.folder / "man").iterdir()}
        commands = self.offered("ddpm", "") - {path.name for path in self.folder.iterdir()}
        self.assertEqual(set(pages), {"ddpm.1", *(f"ddpm-{command}.1" for command in commands)})
        for name, text in pages.items():
            self.assertTrue(text.startswith(".TH ") or ".TH " in text.splitlines()[1], name)
            for section in (".SH NAME", ".SH SYNOPSIS"):
                self.assertIn(section, text, name)
        self.assertIn("scheduler", pages["ddpm-sample.1"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
