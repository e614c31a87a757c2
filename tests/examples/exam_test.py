"""The exam of theories, tiny: it judges what it draws, keeps what is finished, and has a table; a loop of diffusers takes it, too.

    exam_test.py Exam|Peers
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

SOURCE = pathlib.Path(os.environ["DDPM_SOURCE_DIR"])
WORK = pathlib.Path.cwd() / "clone"
EXAM = WORK / "runs" / "exam"
COUNT = 24


def run(*command, code=0, count=COUNT):
    process = subprocess.run([*map(str, command)], cwd=WORK, env={**os.environ, "COUNT": str(count)}, stdin=subprocess.DEVNULL,
                             capture_output=True, text=True, timeout=500, check=False)  # fmt: skip
    if process.returncode != code:
        raise AssertionError(f"{command}: exit code {process.returncode}, not {code}\n{process.stdout}\n{process.stderr}")
    return process.stdout + process.stderr


def take_the_exam(*arguments, **wanted):
    return run("bash", "examples/exam/run.sh", *arguments, **wanted)


def result(path):
    return {row["name"]: row for row in json.loads(path.read_text())["metrics"]}


class InAClone(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        shutil.rmtree(WORK, ignore_errors=True)
        for name in ("examples", "modules"):
            shutil.copytree(SOURCE / name, WORK / name)

    def setUp(self):
        shutil.rmtree(WORK / "runs", ignore_errors=True)


class Exam(InAClone):
    def test_a_model_that_has_learned_nothing_fails(self):
        said = take_the_exam("ising", "u1", "--train.steps", 2, code=6)
        self.assertIn("Beyond 4 standard errors: ising", said)
        for theory, name in (("ising", "energy"), ("u1", "plaquette")):
            self.assertEqual(json.loads((EXAM / theory / "result.json").read_text())["count"], COUNT)
            self.assertIn(name, result(EXAM / theory / "result.json"))
        said = take_the_exam("ising", "--train.steps", 2, code=6)
        self.assertIn("runs/exam/ising/set is there", said)
        self.assertIn("nothing to do", said)
        self.assertIn(f"holds an exam with {COUNT} configurations; wanted: {COUNT + 1}", take_the_exam("ising", count=COUNT + 1, code=2))
        table = run(sys.executable, "-B", "examples/exam/table.py", EXAM)
        self.assertRegex(table, r"(?m)^\| ising \| energy \| -0\.7\d+ \| -?\d\.\d+ ± \d\.\d+ \| [+-]\d+\.\d \|$")
        self.assertIn("| u1 | wilson loop 2 x 2 |", table)
        self.assertNotIn("diffusers", table)

    def test_every_theory_has_a_configuration_that_trains(self):
        script = WORK / "examples" / "exam" / "run.sh"
        script.write_text(script.read_text().replace("--gate 4", "--gate 1000000"))
        said = take_the_exam("--train.steps", 2)
        shutil.copy(SOURCE / "examples" / "exam" / "run.sh", script)
        self.assertIn("All within", said)
        for theory in ("ising", "phi4", "grf", "u1", "su2"):
            self.assertTrue((EXAM / theory / "result.json").exists())


class Peers(InAClone):
    def test_a_loop_of_diffusers_learns_the_same(self):
        folder = EXAM / "u1"
        folder.mkdir(parents=True)
        run(os.environ["DDPM"], "data", "generate", "u1", "--beta", 1.5, "--links", "vectors", "--gauge", "landau", "--size", 8,
            "--count", 200, "--output", folder / "set")  # fmt: skip
        said = run(sys.executable, "-B", "examples/exam/diffusers_loop.py", "u1", folder / "set", folder / "drawn.npy", "--minutes", 0.05,
                   "--count", 200, "--steps", 10)  # fmt: skip
        self.assertRegex(said, r"\d+ steps of 32 images")
        run(os.environ["DDPM"], "eval", "fields", folder / "drawn.npy", "--samples-hold", "stored", "--exact", "u1,beta=1.5",
            "--output", folder / "diffusers.json")  # fmt: skip
        self.assertGreater(result(folder / "diffusers.json")["plaquette"]["value"], 0.2, "noise has 0")
        self.assertIn("| diffusers |", run(sys.executable, "-B", "examples/exam/table.py", EXAM).splitlines()[0])


if __name__ == "__main__":
    unittest.main(verbosity=2)
