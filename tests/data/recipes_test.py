"""Runs the recipes of data/README.md as they stand there, and reads what they make with the reader that stands there. The
program is $DDPM."""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from launcher import FLAGS, MPIRUN  # noqa: E402

README = pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "data" / "README.md"


def blocks(text):
    """(language, code) of all that is marked as Python or shell, in order."""
    return re.findall(r"^```(python|sh)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


class Recipes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.root = pathlib.Path(folder.name)
        programs = cls.root / "programs"
        programs.mkdir()
        (programs / "ddpm").symlink_to(os.environ["DDPM"])
        (programs / "mpirun").write_text(f'#!/bin/sh\nexec {shutil.which(MPIRUN[0])} {shlex.join(FLAGS)} "$@"\n')
        (programs / "mpirun").chmod(0o755)
        before, recipes, _ = re.split(r"\n## Recipes\n|\n## Sets to try things with\n", README.read_text())
        (cls.reader,) = [code for language, code in blocks(before) if language == "python"]
        cls.recipes = blocks(recipes)
        environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
        for language, code in cls.recipes:
            program = [sys.executable, "-c", code] if language == "python" else ["sh", "-ec", code]
            done = subprocess.run(program, cwd=cls.root, env=environment, capture_output=True, text=True, timeout=200)
            if done.returncode != 0:
                raise AssertionError(f"{code}\n{done.stdout}{done.stderr}")

    def read(self, name):
        names = {}
        exec(self.reader, names)  # the block as a user would paste it
        return names["read"](self.root / name)

    def test_the_reader_is_as_short_as_it_says(self):
        code = [line for line in self.reader.splitlines() if line and not line.startswith(("import", "    \"\"\""))]
        self.assertLessEqual(len(code), 15)

    def test_every_set_holds_what_its_arrays_held(self):
        self.assertGreaterEqual(len(self.recipes), 8)
        arrays, weather = np.load(self.root / "weather.npz"), self.read("weather")
        for name, array in (("images", "images"), ("condition", "condition"), ("static", "orography")):
            np.testing.assert_array_equal(weather[name], arrays[array])
        galaxies, one = self.read("galaxies"), self.read("galaxies-one")
        self.assertEqual(galaxies["images"].shape, (80, 24, 24, 3))
        self.assertEqual(sorted(one), ["images", "labels", "parameters"])
        for name, array in galaxies.items():
            np.testing.assert_array_equal(one[name], array)


if __name__ == "__main__":
    unittest.main()
