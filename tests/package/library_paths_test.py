"""Nothing that the build makes looks for libraries in the working directory, and what lies there is not run.

    library_paths_test.py CC      run by ctest, after the build; CC is the C compiler
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

import library_paths

SOURCE = pathlib.Path(os.environ["DDPM_SOURCE_DIR"])
DDPM = pathlib.Path(os.environ["DDPM"])
BUILD = DDPM.parent
sys.path.insert(0, str(SOURCE / "tests" / "support"))
from ddpm_run import write_config  # noqa: E402

CC = sys.argv.pop(1)
WORK = pathlib.Path.cwd() / "trial"
TRAP = """#include <stdio.h>
#include <stdlib.h>
__attribute__((constructor)) static void run(void) { puts("a library of the working directory runs"); exit(99); }
const void* ddpm_cuda_functions(void) { return 0; }
"""


class LibraryPaths(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        shutil.rmtree(WORK, ignore_errors=True)
        WORK.mkdir()
        (WORK / "trap.c").write_text(TRAP)
        cls.trap = WORK / "trap.so"
        subprocess.run([CC, "-shared", "-fPIC", "-o", cls.trap, WORK / "trap.c"], check=True, timeout=60)

    def setUp(self):
        self.here = WORK / self._testMethodName
        self.here.mkdir()

    def plant(self, *names):
        for name in names:
            shutil.copy(self.trap, self.here / name)

    def run_here(self, program, *arguments, **environment):
        kept = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
        return subprocess.run([program, *map(str, arguments)], cwd=self.here, env=kept | environment, capture_output=True,
                              text=True, timeout=120, check=False)

    def test_what_is_built_looks_into_no_working_directory(self):
        files = list(library_paths.elf_files(BUILD))
        self.assertIn(DDPM, files)
        print(len(files), "programs and libraries")
        self.assertEqual([line for path in files for line in library_paths.complaints(path)], [])

    def test_the_check_finds_empty_and_relative_places(self):
        found = {"": 1, "/usr/lib:": 1, ":/usr/lib": 1, "/usr/lib::/lib": 1, "lib": 1, "./lib:../lib": 2, "$ORIGINAL/lib": 1,
                 "/usr/lib": 0, "$ORIGIN:$ORIGIN/../lib": 0}  # fmt: skip
        for path, wanted in found.items():
            library = WORK / "places.so"
            # Without a path of libraries the linker writes none; an empty one it drops.
            subprocess.run([CC, "-shared", "-o", library, "-x", "c", "/dev/null", f"-Wl,--enable-new-dtags,-rpath,{path or ':'}"],
                           check=True, timeout=60)
            complaints = library_paths.complaints(library)
            self.assertEqual(bool(complaints), bool(wanted), (path, complaints))

    def needed_libraries(self):
        said = subprocess.run(["ldd", DDPM], check=True, capture_output=True, text=True, timeout=60).stdout
        return re.findall(r"^\s+(\S+\.so\S*) => ", said, re.MULTILINE)

    def test_a_planted_library_is_not_run(self):
        self.plant(*self.needed_libraries())
        done = self.run_here(DDPM, "--version")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"^ddpm \d")

    def test_the_trap_works_where_the_loader_is_told_to_look(self):
        (name,) = (name for name in self.needed_libraries() if name.startswith("libfmt"))
        self.plant(name)
        self.assertNotEqual(self.run_here(DDPM, "--version", LD_LIBRARY_PATH=":/nonexistent").returncode, 0)

    def test_the_cuda_part_is_not_taken_from_the_working_directory(self):
        self.plant("libddpm_cuda.so")
        program = WORK / "elsewhere" / "ddpm"  # where no CUDA part lies beside it
        program.parent.mkdir()
        shutil.copy(DDPM, program)
        config = write_config(WORK / "tiny.toml", WORK / "run", WORK / "no-set", run={"device": "cuda"})
        for settings in ({}, {"LD_LIBRARY_PATH": f":{self.here}"}):
            with self.subTest(settings=settings):
                done = self.run_here(program, "train", config, **settings)
                self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
                self.assertIn(f"libddpm_cuda.so is neither in {program.parent} nor in {WORK / 'lib'}", done.stderr)
                self.assertFalse((WORK / "run").exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)
