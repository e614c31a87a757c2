from spack_repo.builtin.build_systems.cmake import CMakePackage

from spack.package import *


class Kissfft(CMakePackage):
    """A small Fourier transform, of which ddpm uses the C++ header."""

    homepage = "https://github.com/mborgerding/kissfft"
    url = "https://github.com/mborgerding/kissfft/archive/refs/tags/131.1.0.tar.gz"

    license("BSD-3-Clause")

    version("131.1.0", sha256="76c1aac87ddb7258f34b08a13f0eebf9e53afa299857568346aa5c82bcafaf1a")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.6:", type="build")

    def cmake_args(self):
        return [
            self.define("KISSFFT_TEST", False),
            self.define("KISSFFT_TOOLS", False),
            self.define("CMAKE_POLICY_VERSION_MINIMUM", "3.6"),
        ]
