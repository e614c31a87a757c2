import os
import pathlib

from spack_repo.builtin.build_systems.cmake import CMakePackage, generator
from spack_repo.builtin.build_systems.cuda import CudaPackage

from spack.package import *


class Ddpm(CMakePackage, CudaPackage):
    """Trains denoising diffusion UNets on supercomputers; with +cuda, on GPUs."""

    # The clone in which this file lies.
    git = pathlib.Path(__file__).resolve().parents[6].as_uri()

    license("Apache-2.0")

    version("main", branch="main")

    generator("ninja")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.24:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("mpi")
    depends_on("hdf5@1.10:+mpi")
    depends_on("py-torch@2.11:~cuda", when="~cuda")
    depends_on("cli11")
    depends_on("fmt")
    depends_on("freetype")
    depends_on("jpeg")
    depends_on("kissfft")
    depends_on("libarchive")
    depends_on("libdeflate")
    depends_on("libpng")
    depends_on("libtiff@4.5:")
    depends_on("libwebp+libwebpdemux")
    depends_on("lz4")
    depends_on("nlohmann-json")
    depends_on("openssl@3:")
    depends_on("tomlplusplus")
    depends_on("zlib-api")
    depends_on("zstd")

    with when("+cuda"):
        depends_on("py-torch@2.11:+cuda+cudnn+nccl")
        depends_on("cuda@13:")
        depends_on("nccl")
        for arch in CudaPackage.cuda_arch_values:
            depends_on(f"py-torch cuda_arch={arch}", when=f"cuda_arch={arch}")
            depends_on(f"nccl cuda_arch={arch}", when=f"cuda_arch={arch}")

    conflicts("cuda_arch=none", when="+cuda", msg="name the kind of GPU, such as cuda_arch=90")
    conflicts("%gcc@:11", msg="ddpm is written in C++20")

    def cmake_args(self):
        torch_cmake = self.spec["py-torch"].package.cmake_prefix_paths[0]  # .../torch/share/cmake
        settings = [
            self.define("Torch_ROOT", os.path.dirname(os.path.dirname(torch_cmake))),
            self.define_from_variant("DDPM_CUDA", "cuda"),
            self.define("DDPM_CARRY_LIBRARIES", False),
            self.define("DDPM_TESTS", False),
        ]
        if self.spec.satisfies("+cuda"):
            settings.append(self.define("CMAKE_CUDA_ARCHITECTURES", self.spec.variants["cuda_arch"].value))
        return settings
