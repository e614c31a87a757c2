"""The recipes in packaging/, against what CMake looks for: whatever a build needs is a dependency of the Spack package and of the
EasyBuild recipe, and a Debian package of modules/setup.sh, in no older version. Neither Spack nor EasyBuild takes part:
easyconfig_test.py has EasyBuild read its recipe.
"""

import contextlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import types
import unittest

SOURCE = pathlib.Path(os.environ["DDPM_SOURCE_DIR"])
PACKAGING = SOURCE / "packaging"

# What CMakeLists.txt looks for: what Spack, EasyBuild and Debian call it.
NAMES = {
    "MPI": ("mpi", "foss", "libopenmpi-dev"),
    "HDF5": ("hdf5", "HDF5", "libhdf5-openmpi-dev"),
    "fmt": ("fmt", "fmt", "libfmt-dev"),
    "OpenSSL": ("openssl", "OpenSSL", "libssl-dev"),
    "PNG": ("libpng", "libpng", "libpng-dev"),
    "JPEG": ("jpeg", "libjpeg-turbo", "libjpeg62-turbo-dev"),
    "ZLIB": ("zlib-api", "zlib", "zlib1g-dev"),
    "Freetype": ("freetype", "freetype", "libfreetype-dev"),
    "PkgConfig": ("pkgconfig", "pkgconf", "pkg-config"),
    "libdeflate": ("libdeflate", "libdeflate", "libdeflate-dev"),
    "liblz4": ("lz4", "lz4", "liblz4-dev"),
    "libzstd": ("zstd", "zstd", "libzstd-dev"),
    "libwebp": ("libwebp", "libwebp", "libwebp-dev"),
    "libwebpdemux": ("libwebp", "libwebp", "libwebp-dev"),
    "libtiff-4": ("libtiff", "LibTIFF", "libtiff-dev"),
    "libarchive": ("libarchive", "libarchive", "libarchive-dev"),
    "CLI11": ("cli11", "CLI11", "libcli11-dev"),
    "kissfft": ("kissfft", "kissfft", "libkissfft-dev"),
    "nlohmann_json": ("nlohmann-json", "nlohmann_json", "nlohmann-json3-dev"),
    "tomlplusplus": ("tomlplusplus", "tomlplusplus", "libtomlplusplus-dev"),
    "CMake": ("cmake", "CMake", "cmake"),
    "compiler": ("cxx", "foss", "g++"),
}
OF_THE_COMPILER = {"Threads", "OpenMP"}
# LibTorch: a package of Spack, and from PyPI elsewhere. Spack chooses Ninja by its generator.
BESIDE_SPACK = {"py-torch", "c"}
BESIDE_EASYBUILD = {"Ninja", "Python"}


def looked_for():
    """What CMake looks for, with the oldest version that it takes: {name: version or ""}."""
    text = (SOURCE / "CMakeLists.txt").read_text()
    text = re.sub(r"^if\(DDPM_TESTS\)$.*?^endif\(\)$", "", text, flags=re.MULTILINE | re.DOTALL)
    found = {name: "" for name in re.findall(r"^find_package\((\w+) ", text, re.MULTILINE)}
    for modules in re.findall(r"^pkg_check_modules\(\w+ REQUIRED IMPORTED_TARGET ([^)]*)\)", text, re.MULTILINE):
        found |= {name: version for name, _, version in (module.partition(">=") for module in modules.split())}
    found |= {header: "" for header in re.findall(r"^find_path\(\w+ (\w+)/", text, re.MULTILINE)}
    found["CMake"] = re.search(r"^cmake_minimum_required\(VERSION ([\d.]+)\)", text, re.MULTILINE)[1]
    return {name: version for name, version in found.items() if name not in OF_THE_COMPILER} | {"compiler": ""}


def numbers(version):
    return [int(part) for part in version.split(".")]


class Recorder(types.ModuleType):
    """The words of a Spack package, which remember with what they were called, and under which `with when(...)`."""

    WORDS = ("version", "depends_on", "conflicts", "license", "generator")

    def __init__(self):
        super().__init__("spack.package")
        self.calls = []
        self.conditions = []
        self.when = self.under  # as an attribute, which `import *` finds
        for word in self.WORDS:
            setattr(self, word, lambda *arguments, word=word, **named: self.record(word, arguments, named))

    def record(self, word, arguments, named):
        conditions = [*self.conditions, *([named["when"]] if "when" in named else [])]
        self.calls.append((word, arguments, {**named, "when": " ".join(conditions)} if conditions else named))

    @contextlib.contextmanager
    def under(self, condition):
        self.conditions.append(condition)
        yield
        self.conditions.pop()


class CMakePackage:
    def define(self, key, value):
        return f"-D{key}={';'.join(value) if isinstance(value, tuple) else value}"

    def define_from_variant(self, key, variant):
        return f"-D{key}=variant {variant}"


class CudaPackage:
    cuda_arch_values = ("80", "90")


def spack_package(name):
    """The class of a package and what it declares, as [(word, arguments, named arguments)]."""
    words = Recorder()
    cmake, cuda = (types.ModuleType(f"spack_repo.builtin.build_systems.{name}") for name in ("cmake", "cuda"))
    cmake.CMakePackage, cmake.generator, cuda.CudaPackage = CMakePackage, words.generator, CudaPackage
    modules = {"spack": types.ModuleType("spack"), "spack.package": words, cmake.__name__: cmake, cuda.__name__: cuda}
    modules |= {f"spack_repo{part}": types.ModuleType(part) for part in ("", ".builtin", ".builtin.build_systems")}
    sys.modules.update(modules)
    try:
        path = PACKAGING / "spack/spack_repo/ddpm/packages" / name / "package.py"
        defined = {"__file__": str(path)}
        exec(compile(path.read_text(), path, "exec"), defined)
    finally:
        for module in modules:
            del sys.modules[module]
    (package,) = [value for key, value in defined.items() if key.lower() == name and isinstance(value, type)]
    return package, words.calls


def spack_dependencies(calls):
    """{package: the oldest version of it, or ""}, of what is wanted for training on CPUs."""
    specs = [arguments[0] for word, arguments, named in calls if word == "depends_on" and named.get("when", "~cuda") == "~cuda"]
    return {name: version for name, version in (re.match(r"([\w-]+)(?:@([\d.]+):)?", spec).groups("") for spec in specs)}


def easyconfig(name):
    """A recipe of EasyBuild as its variables."""
    (path,) = (PACKAGING / "easybuild").glob(f"{name}-*.eb")
    defined = {"SYSTEM": "system", "SOURCE_TAR_GZ": "sources", "SHLIB_EXT": "so"}
    exec(compile(path.read_text(), path, "exec"), defined)
    return path, defined


class Recipes(unittest.TestCase):
    def test_every_library_that_cmake_looks_for_has_its_names(self):
        self.assertEqual(set(looked_for()), set(NAMES))

    def test_debian_packages_are_complete(self):
        script = (SOURCE / "modules/setup.sh").read_text()
        packages = set(" ".join(re.findall(r"^readonly (?:build|openmpi)_packages=\((.*?)\)$", script, re.MULTILINE | re.DOTALL)).split())
        self.assertEqual({NAMES[name][2] for name in looked_for()} - packages, set())

    def test_the_spack_package_depends_on_all_and_on_nothing_else(self):
        wanted = {}
        for name, version in looked_for().items():
            wanted[NAMES[name][0]] = max(version, wanted.get(NAMES[name][0], ""))
        depends = spack_dependencies(spack_package("ddpm")[1])
        self.assertEqual(set(depends), set(wanted) | BESIDE_SPACK)
        for package, version in wanted.items():
            if version:
                self.assertEqual(depends[package], version, package)
        torch = re.search(r"DDPM_TORCH_VERSION VERSION_LESS ([\d.]+)\)", (SOURCE / "cmake/LibTorch.cmake").read_text())[1]
        self.assertEqual(depends["py-torch"], torch)

    def test_the_spack_package_builds_the_clone_that_it_lies_in(self):
        package, calls = spack_package("ddpm")
        self.assertEqual(package.git, SOURCE.resolve().as_uri())
        self.assertIn(("version", ("main",), {"branch": "main"}), calls)

        class Torch:
            cmake_prefix_paths = ("/opt/site-packages/torch/share/cmake",)

        class Spec(dict):
            variants = {"cuda_arch": types.SimpleNamespace(value=("80", "90"))}
            cuda = False

            def satisfies(self, spec):
                return spec == "+cuda" and self.cuda

        built = package()
        built.spec = Spec({"py-torch": types.SimpleNamespace(package=Torch)})
        wanted = ["-DTorch_ROOT=/opt/site-packages/torch", "-DDDPM_CUDA=variant cuda", "-DDDPM_CARRY_LIBRARIES=False", "-DDDPM_TESTS=False"]
        self.assertEqual(built.cmake_args(), wanted)
        built.spec.cuda = True
        self.assertEqual(built.cmake_args(), [*wanted, "-DCMAKE_CUDA_ARCHITECTURES=80;90"])

    def test_the_spack_package_for_gpus_has_torch_and_nccl_for_the_same_gpus(self):
        specs = {(arguments[0], named.get("when")) for word, arguments, named in spack_package("ddpm")[1] if word == "depends_on"}
        self.assertLessEqual({("py-torch@2.11:+cuda+cudnn+nccl", "+cuda"), ("nccl", "+cuda"), ("cuda@13:", "+cuda")}, specs)
        for library in ("py-torch", "nccl"):
            self.assertIn((f"{library} cuda_arch=90", "+cuda cuda_arch=90"), specs)

    def test_options_that_recipes_set_are_options_of_cmake(self):
        listed = "".join((SOURCE / name).read_text() for name in ("CMakeLists.txt", "cmake/Install.cmake"))
        options = set(re.findall(r"^option\((\w+) ", listed, re.MULTILINE)) | {"DDPM_CUDA"}
        spoken = re.findall(r"DDPM_[A-Z_]+(?=[\"=])", (PACKAGING / "spack/spack_repo/ddpm/packages/ddpm/package.py").read_text())
        spoken += re.findall(r"-D(\w+)=", easyconfig("ddpm")[1]["configopts"])
        self.assertGreaterEqual(len(spoken), 5)
        self.assertEqual(set(spoken) - options, set())

    def test_the_easybuild_recipe_depends_on_all_and_on_nothing_else(self):
        path, recipe = easyconfig("ddpm")
        listed = {name: version for name, version, *_ in recipe["builddependencies"] + recipe["dependencies"]}
        listed["foss"] = recipe["toolchain"]["version"]
        self.assertEqual(recipe["toolchain"]["name"], "foss")
        self.assertEqual(set(listed), {NAMES[name][1] for name in looked_for()} | BESIDE_EASYBUILD)
        for name, version in looked_for().items():
            if version:
                self.assertGreaterEqual(numbers(listed[NAMES[name][1]]), numbers(version), name)
        project = re.search(r"^ +VERSION ([\d.]+)$", (SOURCE / "CMakeLists.txt").read_text(), re.MULTILINE)[1]
        self.assertEqual((recipe["version"], path.name), (project, f"ddpm-{project}-foss-{recipe['toolchain']['version']}.eb"))

    def test_the_command_by_which_easybuild_checks_the_program_works(self):
        _, recipe = easyconfig("ddpm")
        self.assertIn("bin/ddpm", recipe["sanity_check_paths"]["files"])
        (command,) = recipe["sanity_check_commands"]
        self.assertEqual(command.split()[0], "ddpm")
        subprocess.run([os.environ["DDPM"], *command.split()[1:]], capture_output=True, timeout=60, check=True)

    def test_both_managers_get_the_same_kissfft(self):
        package, calls = spack_package("kissfft")
        ((_, (version,), named),) = [call for call in calls if call[0] == "version"]
        _, recipe = easyconfig("kissfft")
        self.assertEqual((recipe["version"], recipe["checksums"]), (version, [named["sha256"]]))
        self.assertEqual(recipe["source_urls"][0] + recipe["sources"][0]["download_filename"] % {"version": version}, package.url)

    def test_images_have_the_same_packages_and_settings_however_they_are_made(self):
        image, container = ((PACKAGING / name).read_text() for name in ("image.sh", "Containerfile"))
        root = (PACKAGING / "debian_root.sh").read_text()
        included = [names.split(",") for names in re.findall(r"^ *(?:mpich\) )?packages=(\S+)", root, re.MULTILINE)]
        said = [names.split() for names in re.findall(r'PACKAGES="(.*?)"', container)]
        self.assertEqual(included, [["openmpi-bin", "libhdf5-openmpi-103-1"], ["mpich", "libhdf5-mpich-103-1"]])
        self.assertEqual(sorted(said), sorted(included))
        self.assertIn('--include="$packages"', root)
        self.assertIn("--no-install-recommends $PACKAGES &&", container)
        self.assertEqual(re.findall(r"--config\.env (\S+)", image), re.search(r"^ENV (.*)$", container, re.MULTILINE)[1].split())
        self.assertEqual(re.findall(r"--config\.entrypoint (\S+)", image), re.findall(r'^ENTRYPOINT \["(.*)"\]$', container, re.MULTILINE))
        definition = (PACKAGING / "apptainer/ddpm.def").read_text()
        project = re.search(r"^ +VERSION ([\d.]+)$", (SOURCE / "CMakeLists.txt").read_text(), re.MULTILINE)[1]
        self.assertIn(f"\nFrom: ddpm-image:{project}\n", definition)
        self.assertIn('\n    exec ddpm "$@"\n', definition)

    def test_an_image_of_several_packages_is_refused_by_their_names(self):
        container = (PACKAGING / "Containerfile").read_text()
        (command,) = re.findall(r"^RUN --mount=type=bind,target=/packages \\\n((?:.*\\\n)*.*)\n", container, re.MULTILINE)
        with tempfile.TemporaryDirectory() as folder:
            packages, installed = pathlib.Path(folder, "packages"), pathlib.Path(folder, "installed")
            packages.mkdir()
            command = command.replace("/packages", str(packages)).replace("/opt/ddpm", str(installed))
            pathlib.Path(folder, "ddpm-1", "bin").mkdir(parents=True)
            pathlib.Path(folder, "ddpm-1", "bin", "ddpm").touch()
            subprocess.run(["tar", "-czf", packages / "ddpm-1.tar.gz", "-C", folder, "ddpm-1"], check=True)
            subprocess.run(["sh", "-c", command], timeout=60, check=True)
            self.assertTrue((installed / "bin" / "ddpm").exists())
            (packages / "ddpm-2.tar.gz").touch()
            refused = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(refused.returncode, 1, refused.stderr)
            self.assertRegex(refused.stderr, r"one is wanted: .*/ddpm-1\.tar\.gz .*/ddpm-2\.tar\.gz$")


if __name__ == "__main__":
    unittest.main(verbosity=2)
