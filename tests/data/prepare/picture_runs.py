"""What tests of `ddpm data create` from pictures share: pictures, and a test case whose sets lie in a folder of its own."""

import json
import pathlib
import tempfile
import unittest

import numpy as np

import image_cases
from data_runs import run


def encoded(seed, width=20, height=14):
    rng = np.random.default_rng(seed)
    return image_cases.png(rng.integers(0, 256, (height, width, 3)), 8, image_cases.RGB)


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.made = 0

    def attempt(self, source, *options, ranks=1, output=None):
        self.made += 1
        output = output or self.root / f"set-{self.made}"
        sources = source if isinstance(source, list) else [source]
        return output, run("create", *sources, "--output", output, *options, ranks=ranks)

    def create(self, source, *options, ranks=1, output=None):
        output, result = self.attempt(source, *options, "--json", ranks=ranks, output=output)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.said = json.loads(result.stdout)
        return output

    def refused(self, code, words, source, *options, ranks=1):
        output, result = self.attempt(source, *options, ranks=ranks)
        self.assertEqual(result.returncode, code, result.stderr)
        errors = [line for line in result.stderr.splitlines() if line.startswith("ddpm: error:")]
        self.assertEqual(len(errors), 1, result.stderr)
        self.assertIn(words, errors[0])
        self.assertFalse(output.exists())

    def skipped(self, dataset):
        lines = (dataset / "skipped.jsonl").read_text().splitlines()
        return {x["path"]: x["reason"] for x in map(json.loads, lines)}

    def write(self, name, data):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path
