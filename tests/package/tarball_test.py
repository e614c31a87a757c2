"""CPack's tarball, unpacked where nothing of ours is on any path: it trains, resumes, samples, and loads its own libraries.

    tarball_test.py CPACK                  run by ctest: under env -i, on this machine
    tarball_test.py CPACK --root FOLDER    the same inside another system's root (clean_root.sh makes one); needs root

DDPM names the program of the build whose tarball is made.
"""

import hashlib
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
sys.path.insert(0, str(SOURCE / "tests" / "support"))
import library_paths  # noqa: E402
from ddpm_run import make_pictures, write_config  # noqa: E402

CPACK = sys.argv.pop(1)
ROOT = None
if "--root" in sys.argv:
    place = sys.argv.index("--root")
    ROOT = pathlib.Path(sys.argv[place + 1]).resolve()
    del sys.argv[place : place + 2]
WORK = (ROOT or pathlib.Path.cwd()) / "trial"
INSIDE = pathlib.Path("/trial") if ROOT else WORK  # WORK as the program sees it
# What the site provides: the tools of Debian's Open MPI, which root has to ask twice.
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OMPI_MCA_mpi_yield_when_idle": "1", "OMP_NUM_THREADS": "1"}
MPIRUN = ("mpirun", "--oversubscribe", "--bind-to", "none", "-np", "2")
TIMEOUT_S = 240


def in_nothing(*arguments):
    """The command that runs `arguments` in WORK with ENVIRONMENT and nothing else, in ROOT if there is one."""
    settings = [f"{name}={value}" for name, value in ENVIRONMENT.items()]
    change = ["chroot", str(ROOT)] if ROOT else []
    return [*change, "/usr/bin/env", "-i", f"--chdir={INSIDE}", *settings, *map(str, arguments)]


def run(*arguments):
    done = subprocess.run(in_nothing(*arguments), capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, arguments))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def wait_for(happened, process):
    deadline = time.monotonic() + TIMEOUT_S
    while not happened():
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            raise AssertionError(process.communicate()[1])
        time.sleep(0.05)


class Tarball(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        shutil.rmtree(WORK, ignore_errors=True)
        WORK.mkdir()
        packing = WORK / "packing"
        subprocess.run([CPACK, "--config", BUILD / "CPackConfig.cmake", "-G", "TGZ", "-B", packing], check=True,
                       capture_output=True, timeout=2 * TIMEOUT_S)
        cls.tarball, = packing.glob("ddpm-*.tar.gz")
        subprocess.run(["tar", "-xzf", cls.tarball, "-C", WORK], check=True, timeout=TIMEOUT_S)
        cls.folder = WORK / cls.tarball.name.removesuffix(".tar.gz")
        cls.ddpm = INSIDE / cls.folder.name / "bin" / "ddpm"
        make_pictures(WORK / "pictures", 40)
        write_config(WORK / "tiny.toml", "run", "squares", train={"steps": 6})
        run(cls.ddpm, "data", "create", "pictures", "--output", "squares", "--size", "16")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(WORK)

    def test_the_checksum_is_that_of_the_tarball(self):
        wanted = self.tarball.with_name(self.tarball.name + ".sha256").read_text().split()[0]
        self.assertEqual(hashlib.sha256(self.tarball.read_bytes()).hexdigest(), wanted)

    def test_running_it_maps_its_own_libraries_and_the_systems(self):
        process = subprocess.Popen(in_nothing(self.ddpm, "train", "tiny.toml", "--run.directory", "long", "--train.steps", "1000000"),
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        metrics = WORK / "long" / "metrics.jsonl"
        wait_for(lambda: metrics.exists() and metrics.stat().st_size > 0, process)
        maps = pathlib.Path(f"/proc/{process.pid}/maps").read_text()
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(TIMEOUT_S), 75, process.stderr.read())
        process.stderr.close()
        mapped = {line.split(None, 5)[5] for line in maps.splitlines() if re.search(r"\.so(\.|$)", line)}
        if ROOT:  # seen from here
            mapped = {path.removeprefix(str(ROOT)) for path in mapped}
        carried_folder = INSIDE / self.folder.name / "lib" / "ddpm"
        carried = {pathlib.Path(path).name for path in mapped if pathlib.Path(path).parent == carried_folder}
        print("carried:", *sorted(carried))
        self.assertLessEqual({"libtorch_cpu.so", "libc10.so"}, carried)
        unused = {path.name for path in (self.folder / "lib" / "ddpm").iterdir()} - carried
        if (self.folder / "lib" / "libddpm_cuda.so").exists():  # LibTorch's CUDA libraries are for device = "cuda"
            unused = {name for name in unused if "cuda" not in name and "nvshmem" not in name}
        self.assertEqual(unused, set())
        others = {path for path in mapped if pathlib.Path(path).parent != carried_folder}
        self.assertTrue(any("libmpi" in path for path in others))
        self.assertTrue(any("libhdf5" in path for path in others))
        self.assertEqual({path for path in others if not path.startswith(("/usr/lib/", "/lib/"))}, set())

    def test_two_ranks_train_and_sample_also_after_a_move(self):
        run(*MPIRUN, self.ddpm, "train", "tiny.toml")
        self.assertTrue((WORK / "run" / "model" / "unet" / "diffusion_pytorch_model.safetensors").exists())
        moved = self.folder.with_name("moved")
        self.folder.rename(moved)
        try:
            run(INSIDE / "moved" / "bin" / "ddpm", "sample", "--model", "run", "--scheduler", "ddim", "--steps", "2",
                "--count", "4", "--output", "grid.png")
        finally:
            moved.rename(self.folder)
        self.assertEqual((WORK / "grid.png").read_bytes()[:4], b"\x89PNG")

    def test_it_says_what_it_needs_and_carries_the_licences_of_the_rest(self):
        doc = self.folder / "share" / "doc" / "ddpm"
        said = (doc / "libraries.txt").read_text()
        print(said)
        self.assertRegex(said, r"glibc 2\.\d+ or newer")
        for library in (self.folder / "lib" / "ddpm").iterdir():
            owner = re.search(rf"^  {re.escape(library.name)}  from (\S+)$", said, re.MULTILINE)
            self.assertTrue(owner, f"{library.name} has no licence")
            texts = [path for path in (doc / "licences" / owner.group(1)).rglob("*") if path.is_file()]
            self.assertTrue(texts and all(path.stat().st_size > 200 for path in texts), owner.group(1))
        self.assertTrue((doc / "LICENSE").exists())

    def test_what_belongs_to_it_is_there_and_nothing_to_develop_with(self):
        for path in ("share/ddpm/jobs/train.sbatch", "share/ddpm/jobs/cifar10.toml", "share/ddpm/site.template.sh",
                     "share/doc/ddpm/docs/running.md"):
            self.assertTrue((self.folder / path).exists(), path)
        self.assertTrue(os.access(self.folder / "share/ddpm/jobs/submit.sh", os.X_OK))
        self.assertEqual([path.name for path in self.folder.rglob("*") if path.suffix in (".a", ".h", ".cmake")], [])

    def test_nothing_in_it_looks_for_libraries_in_the_working_directory(self):
        files = list(library_paths.elf_files(self.folder))
        self.assertIn(self.folder / "bin" / "ddpm", files)
        self.assertIn(self.folder / "lib" / "ddpm" / "libtorch_cpu.so", files)
        self.assertEqual([line for path in files for line in library_paths.complaints(path)], [])

    def test_the_program_looks_for_libraries_nowhere_in_a_home_or_build_folder(self):
        for file, wanted in (("bin/ddpm", "$ORIGIN/../lib/ddpm"), ("lib/libddpm_cuda.so", "$ORIGIN/ddpm")):
            if not (self.folder / file).exists() and "cuda" in file:
                continue  # a build without the CUDA part
            said = subprocess.run(["readelf", "-d", self.folder / file], check=True, capture_output=True, text=True).stdout
            (path,) = re.findall(r"R(?:UN)?PATH.*\[(.*)\]", said)
            first, *others = path.split(":")
            self.assertEqual(first, wanted)
            self.assertEqual([place for place in others if str(BUILD) in place or "torch" in place], [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
