"""The installed package: moved, found by examples/own_model, which is built against it and trains the same way on any
number of ranks and in every ZeRO stage.

    own_model_test.py CMAKE      run by ctest, in a folder of its own, after the build
"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

SOURCE = pathlib.Path(os.environ["DDPM_SOURCE_DIR"])
BUILD = pathlib.Path(os.environ["DDPM"]).parent
CMAKE = sys.argv.pop(1)
WORK = pathlib.Path.cwd()
PREFIX = WORK / "moved"
PROGRAM = WORK / "build" / "own_model"
TIMEOUT_S = 600


def succeed(*command):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


def cached(variable):
    """The value of a variable in the CMake cache of the build under test."""
    found = re.search(rf"^{variable}:\w+=(.*)$", (BUILD / "CMakeCache.txt").read_text(), re.MULTILINE)
    return found.group(1) if found else ""


def install():
    """Installs into one prefix and moves it to another."""
    first = WORK / "installed-first"
    for folder in (first, PREFIX, PROGRAM.parent):
        shutil.rmtree(folder, ignore_errors=True)
    succeed(CMAKE, "--install", BUILD, "--prefix", first)
    first.rename(PREFIX)


def build_example():
    options = [f"-D{name}={cached(name)}" for name in ("CMAKE_BUILD_TYPE", "CMAKE_CXX_FLAGS", "CMAKE_CXX_COMPILER")]
    torch = pathlib.Path(cached("DDPM_TORCH_INCLUDE_DIR")).parent
    succeed(CMAKE, "-G", cached("CMAKE_GENERATOR"), "-S", SOURCE / "examples" / "own_model", "-B", PROGRAM.parent,
            f"-DCMAKE_PREFIX_PATH={PREFIX}", f"-DTorch_ROOT={torch}",
            f"-DCMAKE_CXX_COMPILER_LAUNCHER={shutil.which('ccache') or ''}", *options)
    succeed(CMAKE, "--build", PROGRAM.parent)


def command(run, ranks, *arguments, program=PROGRAM, before=()):
    return [*MPIRUN, "-np", str(ranks), str(program), *map(str, before),
            "--run.directory", str(WORK / run), *map(str, arguments)]


def final_loss(done):
    return float(re.search(r"^final loss (\S+)$", done.stdout, re.MULTILINE).group(1))


sys.path[:0] = [str(SOURCE / folder) for folder in ("tests/package", "tests/support", "jobs")]
import library_paths  # noqa: E402
import track  # noqa: E402
from ddpm_run import MPIRUN, make_dataset, metrics  # noqa: E402


class OwnModel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        install()
        build_example()

    def fresh(self, run):
        shutil.rmtree(WORK / run, ignore_errors=True)
        return run

    def train(self, run, ranks, *arguments):
        return final_loss(succeed(*command(self.fresh(run), ranks, *arguments)))

    def test_nothing_installed_says_where_it_was_built(self):
        places = [str(place).encode() for place in (SOURCE / "src", BUILD, WORK / "installed-first", PREFIX)]
        installed = [path for folder in ("lib", "include") for path in (PREFIX / folder).rglob("*") if path.is_file()]
        self.assertGreater(len(installed), 100)
        for path in installed:
            text = path.read_bytes()
            for place in places:
                self.assertFalse(place in text, f"{path} names {place}")
            if "cmake" in path.parts:
                self.assertNotRegex(text.decode(), r'[";:](/usr|/home|/root|/opt|/work)/', path)

    def test_installed_program_starts(self):
        self.assertIn("ddpm 0.", succeed(PREFIX / "bin" / "ddpm", "--version").stdout)

    def test_no_program_looks_for_libraries_in_the_working_directory(self):
        files = [*library_paths.elf_files(PREFIX / "bin"), *library_paths.elf_files(PREFIX / "lib"), *library_paths.elf_files(PROGRAM.parent)]
        self.assertLessEqual({PREFIX / "bin" / "ddpm", PROGRAM}, set(files))
        self.assertEqual([line for path in files for line in library_paths.complaints(path)], [])

    def test_help_shows_the_keys_with_the_programs_defaults(self):
        done = succeed(*MPIRUN, "-np", "2", PROGRAM, "--help")
        self.assertEqual(done.stdout.count("[optimizer]"), 1)
        self.assertIn("learning_rate = 0.003", done.stdout)
        self.assertEqual(done.stderr, "")

    def test_example_is_short(self):
        self.assertLessEqual(len((SOURCE / "examples" / "own_model" / "main.cpp").read_text().splitlines()), 60)

    def test_same_loss_on_any_ranks_in_every_stage(self):
        wanted = self.train("reference", 1)
        self.assertLess(wanted, 0.05, "the loss did not fall")
        for ranks in (1, 2, 4):
            for stage in range(4):
                loss = self.train(f"ranks-{ranks}-stage-{stage}", ranks, "--zero-stage", stage)
                print(f"{ranks} ranks, stage {stage}: final loss {loss} ({wanted})")
                self.assertAlmostEqual(loss, wanted, delta=1e-4)

    def test_same_loss_after_a_kill_on_other_ranks(self):
        arguments = ("--train.steps", 600, "--checkpoint.every_steps", 20)
        wanted = self.train("unbroken", 1, *arguments)
        first = subprocess.Popen(command(self.fresh("broken"), 2, *arguments, "--zero-stage", 3), stdout=subprocess.PIPE,
                                 stderr=subprocess.DEVNULL, text=True)
        deadline = time.monotonic() + TIMEOUT_S
        while not (WORK / "broken" / "LATEST").exists() and time.monotonic() < deadline:
            time.sleep(0.005)
        first.send_signal(signal.SIGKILL)
        self.assertNotIn("final loss", first.communicate(timeout=TIMEOUT_S)[0], "it was too fast to be killed")
        second = succeed(*command("broken", 4, *arguments, "--zero-stage", 2))
        self.assertIn("resuming", second.stderr)
        self.assertAlmostEqual(final_loss(second), wanted, delta=1e-4)
        third = succeed(*command("broken", 2, *arguments))
        self.assertIn("nothing to do", third.stderr)
        self.assertTrue(track.is_done(WORK / "broken"), "what a tracker that follows the run waits for")
        (WORK / "broken" / "LOCK").touch()
        self.assertFalse(track.is_done(WORK / "broken"))
        (WORK / "broken" / "LOCK").unlink()
        newest = max((WORK / "broken" / "checkpoints").iterdir())
        shutil.rmtree(newest)
        self.assertFalse(track.is_done(WORK / "broken"))

    def test_the_example_on_a_set_is_short(self):
        text = (SOURCE / "examples" / "own_model" / "on_dataset.cpp").read_text()
        self.assertLessEqual(len(re.search(r"void train.*?^}", text, re.DOTALL | re.MULTILINE).group().splitlines()), 32)

    def test_a_set_of_images_on_any_ranks(self):
        images = make_dataset(WORK / "set", 24, 16, 1, "--labels", "folder")
        lines = {}
        for ranks, more in ((1, ()), (2, ("--parallel.zero_stage", 1)), (4, ())):
            run = self.fresh(f"set-{ranks}")
            arguments = ("--batch.global_size", 8, "--batch.micro_size", 2, "--train.steps", 6, "--logging.every_steps", 1)
            arguments += ("--checkpoint.every_steps", 4, "--optimizer.learning_rate", 0.01, *more)
            succeed(*command(run, ranks, *arguments, program=PROGRAM.with_name("on_dataset"), before=[images]))
            lines[ranks] = metrics(WORK / run)
            self.assertEqual([line["step"] for line in lines[ranks]], [1, 2, 3, 4, 5, 6])
            self.assertTrue(any((WORK / run / "events").iterdir()))
        for line in zip(*lines.values()):
            for key in ("loss", "accuracy", "brightness", "learning_rate"):
                self.assertAlmostEqual(line[0][key], line[1][key], delta=1e-5)
                self.assertAlmostEqual(line[0][key], line[2][key], delta=1e-5)
        # Three steps are an epoch: each image once, as its set describes them.
        mean = sum(channel["mean"] for channel in json.loads((images / "dataset.json").read_text())["statistics"]) / 3
        for epoch in (lines[2][:3], lines[2][3:]):
            self.assertAlmostEqual(sum(line["brightness"] for line in epoch) / 3, mean / 127.5 - 1, delta=1e-5)
        self.assertLess(lines[1][-1]["loss"], lines[1][0]["loss"])
        # A run that goes back to its checkpoint of step 4 sees the images that come next.
        run = self.fresh("set-resumed")
        arguments = arguments[:4] + ("--logging.every_steps", 1, "--checkpoint.every_steps", 4, "--optimizer.learning_rate", 0.01)
        for steps, ranks in ((4, 2), (6, 1)):
            succeed(*command(run, ranks, "--train.steps", steps, *arguments, "--lr_schedule.name", "constant",
                             program=PROGRAM.with_name("on_dataset"), before=[images]))  # fmt: skip
        resumed = [line["brightness"] for line in metrics(WORK / run)]
        for was, line in zip(resumed, lines[1], strict=True):
            self.assertAlmostEqual(was, line["brightness"], delta=1e-6)

    def test_a_set_without_labels_is_refused(self):
        images = make_dataset(WORK / "unlabelled", 8, 16)
        done = subprocess.run(command(self.fresh("classless"), 2, program=PROGRAM.with_name("on_dataset"), before=[images]),
                              capture_output=True, text=True, timeout=TIMEOUT_S, check=False)  # fmt: skip
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn(f"{images}: has no labels; wanted: a set with classes", done.stderr)
        self.assertFalse((WORK / "classless").exists())

    def test_another_run_is_refused(self):
        self.train("identity", 1, "--train.steps", 3)
        done = subprocess.run(command("identity", 2, "--optimizer.eps", "1e-3"), capture_output=True, text=True,
                              timeout=TIMEOUT_S, check=False)
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("optimizer.eps", done.stderr)


if __name__ == "__main__":
    unittest.main()
