"""`cmake --install` of a build folder in which something is missing: it is built first, or nothing is installed at all.

    install_test.py CMAKE      run by ctest, after the build

The build folder is a copy: the same installation scripts, hard links to what was built, and a build.ninja of the test's own.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

BUILD = pathlib.Path(os.environ["DDPM"]).parent
CMAKE = sys.argv.pop(1)
WORK = pathlib.Path.cwd() / "trial"
COPY = WORK / "build"
PREFIX = WORK / "prefix"
LIBRARIES = BUILD / "src"


def copy_text(path):
    place = COPY / path.relative_to(BUILD)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(path.read_text().replace(str(BUILD), str(COPY)))


def copy_build():
    shutil.rmtree(WORK, ignore_errors=True)
    COPY.mkdir(parents=True)
    for path in (BUILD / "cmake_install.cmake", *LIBRARIES.rglob("cmake_install.cmake"), *(BUILD / "tests").rglob("cmake_install.cmake"),
                 *(path for path in (BUILD / "package").iterdir() if path.is_file() and path.suffix != ".in")):  # fmt: skip
        if ".work" not in str(path.relative_to(BUILD)):
            copy_text(path)
    for path in (BUILD / "CMakeFiles" / "Export").rglob("*.cmake"):
        copy_text(path)
    for path in (*LIBRARIES.rglob("libddpm_*.a"), BUILD / "ddpm", BUILD / "libddpm_cuda.so"):
        place = COPY / path.relative_to(BUILD)
        place.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            os.link(path, place)
    kept = re.findall(r"^CMAKE_(?:GENERATOR|MAKE_PROGRAM|PROJECT_NAME):.*$", (BUILD / "CMakeCache.txt").read_text(), re.MULTILINE)
    (COPY / "CMakeCache.txt").write_text("\n".join(kept) + "\n")


def install(*arguments, **environment):
    return subprocess.run([CMAKE, "--install", COPY, "--prefix", PREFIX, *arguments], env=os.environ | environment,
                          capture_output=True, text=True, timeout=240, check=False)


class Install(unittest.TestCase):
    def setUp(self):
        copy_build()
        self.addCleanup(shutil.rmtree, WORK)

    def refused(self, done, *parts):
        said = " ".join((done.stdout + done.stderr).split())
        self.assertNotEqual(done.returncode, 0, done.stdout)
        for part in (*parts, f"nothing was installed into {PREFIX}"):
            self.assertIn(part, said)
        self.assertFalse(PREFIX.exists(), list(PREFIX.rglob("*"))[:5])

    def test_what_cannot_be_built_leaves_no_prefix(self):
        (COPY / "build.ninja").write_text("rule fail\n  command = false\nbuild ddpm: fail\nbuild ddpm_base: fail\n")
        for file, target, arguments in (("ddpm", "ddpm", ()), ("ddpm", "ddpm", ("--component", "program")),
                                        ("src/base/libddpm_base.a", "ddpm_base", ("--component", "development"))):  # fmt: skip
            with self.subTest(file=file, arguments=arguments):
                kept = (COPY / file).rename(WORK / "kept")
                self.refused(install(*arguments), f"built now: {target}", f"of {COPY} cannot be built")
                kept.rename(COPY / file)

    def test_what_was_not_built_is_built_first(self):
        library = COPY / "src" / "base" / "libddpm_base.a"
        library.rename(WORK / "kept")
        (COPY / "build.ninja").write_text(f"rule build\n  command = cp {WORK}/kept {library}\nbuild ddpm_base: build\n")
        done = install("--component", "development")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("Not built yet, and built now: ddpm_base", done.stdout)
        self.assertEqual((PREFIX / "lib" / library.name).read_bytes(), library.read_bytes())

    def test_a_disk_without_room_for_the_libraries_is_seen_before(self):
        df = WORK / "bin" / "df"
        df.parent.mkdir()
        df.write_text("#!/bin/sh\necho Filesystem 1024-blocks Used Available Capacity Mounted on\necho /dev/x 9 9 2048 99% /\n")
        df.chmod(0o755)
        self.refused(install(PATH=f"{df.parent}:{os.environ['PATH']}"), "has 2 MiB free, and the libraries take")

    def test_a_program_that_cannot_be_loaded_leaves_no_prefix(self):
        said = subprocess.run(["readelf", "--dynamic", "--wide", COPY / "ddpm"], capture_output=True, text=True, check=True).stdout
        mpi = re.search(r"Shared library: \[(libmpi[^]]*)\]", said)[1]
        other = WORK / "other" / mpi
        other.parent.mkdir()
        other.write_text("This is no library.\n")
        for arguments in ((), ("--component", "program")):
            with self.subTest(arguments=arguments):
                self.refused(install(*arguments, LD_LIBRARY_PATH=str(other.parent)), f"{COPY}/ddpm cannot be run here (127:", mpi,
                             "Load the modules that it was built with")  # fmt: skip


if __name__ == "__main__":
    unittest.main(verbosity=2)
