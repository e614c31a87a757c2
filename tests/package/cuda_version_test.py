"""cmake/Cuda.cmake takes no nvcc of another major version of CUDA than LibTorch's.

    cuda_version_test.py CMAKE      run by ctest

nvcc, LibTorch and NCCL are files that have their names, and CMake's own look at the compiler is left out.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["DDPM_SOURCE_DIR"])
CMAKE = sys.argv.pop()
FILES = ("lib/libtorch_cuda.so", "lib/libc10_cuda.so", "nccl/include/nccl.h", "nccl/lib/libnccl.so")


class CudaVersion(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.here = pathlib.Path(folder.name)
        for name in (*FILES, "CheckLanguage.cmake"):
            (self.here / name).parent.mkdir(parents=True, exist_ok=True)
            (self.here / name).touch()
        (self.here / "CheckLanguage.cmake").write_text("function(check_language)\nendfunction()\n")
        (self.here / "version.py").write_text("__version__ = '2.11.0+cu130'\ncuda: Optional[str] = '13.0'\n")

    def configure(self, nvcc, cuda):
        """What CMake says of an nvcc that says this of itself."""
        (self.here / "nvcc").write_text(f"#!/bin/sh\necho '{nvcc}'\n")
        (self.here / "nvcc").chmod(0o755)
        done = subprocess.run(
            [CMAKE, f"-DDDPM_CUDA={cuda}", f"-DDDPM_TORCH_DIR={self.here}", f"-DCMAKE_CUDA_COMPILER={self.here}/nvcc",
             f"-DCMAKE_MODULE_PATH={self.here}", "-P", SOURCE / "cmake/Cuda.cmake"],
            env={**os.environ, "NCCL_ROOT_DIR": str(self.here / "nccl")}, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        return done.returncode, " ".join((done.stdout + done.stderr).split())

    def test_another_major_version_is_refused(self):
        both = "nvcc 12.4 alone, while LibTorch was built with CUDA 13.0"
        old = "Cuda compilation tools, release 12.4, V12.4.131"
        code, said = self.configure(old, "AUTO")
        self.assertEqual(code, 0, said)
        self.assertIn(f"CUDA part: off ({both}", said)
        code, said = self.configure(old, "ON")
        self.assertEqual(code, 1, said)
        self.assertIn(f"DDPM_CUDA=ON, but there is {both}", said)

    def test_the_version_of_libtorch_is_taken_and_one_that_is_not_named(self):
        for nvcc in ("Cuda compilation tools, release 13.1, V13.1.80", "clang version 20.1.0"):
            _, said = self.configure(nvcc, "AUTO")
            self.assertIn("enable_language", said)  # which comes next, and which no script may call
            self.assertNotIn("CUDA part: off", said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
