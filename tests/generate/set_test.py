"""The sets of `ddpm data generate`: the same bytes for any number of ranks and after a kill, what they record, and what is refused.
The program is $DDPM."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import numpy as np

for folder in ("support", "data/prepare"):
    sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / folder))
from data_runs import DDPM, MPIRUN, read, run  # noqa: E402
from ddpm_run import digests  # noqa: E402

KINDS = {
    "grf": ["--slope", "2,3"],
    "ising": ["--beta", "0.3,0.5"],
    "phi4": ["--trajectories", 5],
    "u1": ["--beta", "1,4"],
    "su2": ["--beta", 2],
    "gray-scott": ["--steps", 20],
    "glyphs": ["--fonts", "fonts"],
}
FONT = pathlib.Path("/usr/share/fonts/truetype/dejavu/DejaVuSansMono-Oblique.ttf")


class GeneratedSets(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "fonts").mkdir()
        (self.root / "fonts" / FONT.name).symlink_to(FONT)

    def generate(self, kind, output, *options, ranks=1):
        result = run("generate", kind, "--output", self.root / output, *self.whole(options), "--json", ranks=ranks)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def whole(self, options):
        """The options with the path of the fonts."""
        return [self.root / "fonts" if option == "fonts" else option for option in options]

    def test_bytes_do_not_depend_on_the_number_of_ranks(self):
        for kind, options in KINDS.items():
            with self.subTest(kind=kind):
                common = ["--size", "12x16", "--count", 21, "--shards", 4, "--seed", 9, *options]
                for ranks in (1, 3):
                    self.generate(kind, f"{kind}-{ranks}", *common, ranks=ranks)
                self.assertEqual(digests(self.root / f"{kind}-1"), digests(self.root / f"{kind}-3"))
                verified = run("verify", self.root / f"{kind}-3", ranks=2)
                self.assertEqual(verified.returncode, 0, verified.stderr)

    def test_a_sample_does_not_depend_on_count_and_shards_but_on_the_seed(self):
        for kind, options in KINDS.items():
            with self.subTest(kind=kind):
                for name, count, shards, seed in (("few", 5, 1, 9), ("many", 11, 3, 9), ("other", 5, 1, 8)):
                    more = ["--size", "12", "--count", count, "--shards", shards, "--seed", seed, *options]
                    self.generate(kind, f"{kind}-{name}", *more)
                few, many, other = (read(self.root / f"{kind}-{name}")[0] for name in ("few", "many", "other"))
                np.testing.assert_array_equal(many[:5], few)
                self.assertEqual(len({image.tobytes() for image in (*many, *other)}), len(many) + len(other))

    def test_a_killed_command_continues(self):
        options = ["--size", 64, "--count", 300, "--shards", 30, "--steps", 300, "--seed", 1]
        output = self.root / "set"
        journal = self.root / ".set.partial" / "journal"
        command = [*MPIRUN, "-np", "2", DDPM, "data", "generate", "gray-scott", "--output", output, *options]
        process = subprocess.Popen(list(map(str, command)), stderr=subprocess.DEVNULL, start_new_session=True)
        deadline = time.monotonic() + 100
        while len(list(journal.glob("shard*.json"))) < 3 and process.poll() is None:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.002)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        self.assertFalse(output.exists(), "the command ended before it could be killed")
        # Ranks of the killed job may hold the folder for a moment.
        while (result := run("generate", "gray-scott", "--output", output, *options, "--json")).returncode == 4:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.1)
        said = json.loads(result.stdout)
        self.assertGreaterEqual(said["reused_shards"], 2)
        self.generate("gray-scott", "whole", *options)
        self.assertEqual(digests(output), digests(self.root / "whole"))

    def test_the_set_says_how_it_was_made(self):
        said = self.generate("ising", "set", "--size", 8, "--count", 7, "--beta", "0.25,0.5", "--seed", 4)
        noted = json.loads((self.root / "set/generate.json").read_text())
        self.assertEqual(noted["kind"], "ising")
        self.assertEqual((noted["beta"], noted["sweeps"], noted["sides"]), ([0.25, 0.5], 50, [8, 8]))
        self.assertEqual((noted["seed"], noted["count"]), (4, 7))
        self.assertEqual({key: noted[key] for key in said["description"]}, said["description"])
        info = json.loads((self.root / "set/dataset.json").read_text())
        self.assertEqual(info["class_names"], ["beta 0.25", "beta 0.5"])
        np.testing.assert_array_equal(read(self.root / "set")[1], np.arange(7) % 2)

    def test_couplings_that_are_not_given(self):
        for kind, options in {"grf": ["--slope", 3], "ising": ["--beta", 0.4406867935097715], "u1": ["--beta", 1], "su2": ["--beta", 2],
                              "phi4": ["--mass-squared", 0.1, "--lambda", 0.1]}.items():  # fmt: skip
            with self.subTest(kind=kind):
                common = ["--size", 6, "--count", 4, "--seed", 2]
                self.generate(kind, f"{kind}-given", *common, *options)
                self.generate(kind, f"{kind}-default", *common)
                self.assertEqual(digests(self.root / f"{kind}-given"), digests(self.root / f"{kind}-default"))

    def test_volumes_have_a_depth(self):
        self.generate("grf", "set", "--size", "4x5x6", "--count", 3)
        self.assertEqual(read(self.root / "set")[0].shape, (3, 4, 5, 6, 1))

    def refused(self, code, words, kind, *options, ranks=1):
        result = run("generate", kind, "--output", self.root / "set", *self.whole(options), ranks=ranks)
        self.assertEqual(result.returncode, code, result.stderr)
        lines = [line for line in result.stderr.splitlines() if line.startswith("ddpm: ")]
        self.assertEqual(len(lines), 1, result.stderr)
        self.assertIn(words, lines[0])
        self.assertEqual(list(self.root.glob("*set*")), [])

    def test_what_cannot_be_made_is_refused_in_one_line(self):
        few = ("--count", 2)
        (self.root / "empty").mkdir()
        self.refused(2, "--count", "grf")
        self.refused(2, "--count", "grf", "--count", 0)
        self.refused(2, "--size 3x4x5x6", "grf", *few, "--size", "3x4x5x6")
        self.refused(2, "--size 1", "grf", *few, "--size", "1")
        self.refused(2, "--size 16384x16384", "grf", *few, "--size", "16384x16384")
        self.refused(2, "--size x", "grf", *few, "--size", "x")
        self.refused(2, "--slope 3,x", "grf", *few, "--slope", "3,x")
        self.refused(2, "--slope nan", "grf", *few, "--slope", "nan")
        self.refused(2, "--slope 21", "grf", *few, "--slope", "21")
        self.refused(2, "--slope 1,", "grf", *few, "--slope", "1,")
        self.refused(2, "--shards", "grf", *few, "--shards", 0)
        self.refused(2, "--seed", "grf", *few, "--seed", -1)
        self.refused(2, "--beta", "grf", *few, "--beta", 1)
        self.refused(2, "both were given", "ising", *few, "--beta", 1, "--temperature", 1)
        self.refused(2, "--beta -1", "ising", *few, "--beta", "-1")
        self.refused(2, "--temperature 0", "ising", *few, "--temperature", 0)
        self.refused(2, "--size 2x8", "ising", *few, "--beta", 1, "--size", "2x8")
        self.refused(2, "--sweeps", "ising", *few, "--beta", 1, "--sweeps", 0)
        self.refused(2, "--mass-squared 0", "phi4", *few, "--mass-squared", 0, "--lambda", 0)
        self.refused(2, "--mass-squared 21", "phi4", *few, "--mass-squared", 21)
        self.refused(2, "--lambda", "phi4", *few, "--lambda", -1)
        self.refused(2, "--trajectories", "phi4", *few, "--trajectories", 0)
        self.refused(2, "--beta 101", "u1", *few, "--beta", 101)
        self.refused(2, "wanted height and width", "su2", *few, "--beta", 1, "--size", "4x4x4")
        self.refused(2, "--feed", "gray-scott", *few, "--feed", 0.3)
        self.refused(2, "--kill", "gray-scott", *few, "--kill", -0.1)
        self.refused(2, "--diffusion-u 0.2: the steps", "gray-scott", *few, "--diffusion-u", 0.2, "--size", "8x8x8")
        self.refused(2, "--diffusion-v", "gray-scott", *few, "--diffusion-v", 0.3)
        self.refused(2, "--steps", "gray-scott", *few, "--steps", -1)
        self.refused(2, "--class", "glyphs", *few, "--class", "script")
        self.refused(2, "--size 7x7", "glyphs", *few, "--size", "7x7")
        self.refused(2, "distinct glyphs", "glyphs", "--count", 10**8, "--size", 8, "--fonts", "fonts")
        self.refused(2, "DejaVu*.ttf", "glyphs", *few, "--fonts", self.root / "empty")
        self.refused(2, "DejaVu*.ttf", "glyphs", *few, "--fonts", self.root / "absent", ranks=2)
        result = run("generate", "potts", "--output", self.root / "set")
        self.assertEqual(result.returncode, 2, result.stderr)

    def test_damaged_fonts_and_existing_outputs_are_refused(self):
        (self.root / "fonts/DejaVuBad.ttf").write_bytes(b"no font")
        self.refused(3, "DejaVuBad.ttf", "glyphs", "--fonts", "fonts")
        (self.root / "other").mkdir()
        result = run("generate", "grf", "--output", self.root / "other", "--count", 1)
        self.assertEqual(result.returncode, 4, result.stderr)
        self.assertIn("exists already", result.stderr)
        self.assertEqual(list((self.root / "other").iterdir()), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
