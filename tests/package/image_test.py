"""packaging/image.sh makes an image without a network, which others' tools accept, and in whose system the program trains.

    image_test.py CMAKE ROOT.tar      run by ctest; ROOT.tar is of packaging/debian_root.sh

skopeo reads the image as every container engine does; umoci unpacks it, and the program runs in what it unpacks, as image and
engine would start it: with the settings of the image alone.
"""

import contextlib
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["DDPM_SOURCE_DIR"])
BUILD = pathlib.Path(os.environ["DDPM"]).parent
sys.path.insert(0, str(SOURCE / "tests" / "support"))
from ddpm_run import make_pictures, write_config  # noqa: E402

CMAKE, ROOT = sys.argv[1:3]
del sys.argv[1:3]
AS_ROOT = [] if os.getuid() == 0 else ["--map-root-user"]
TIMEOUT_S = 300


def run(*command, **more):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=TIMEOUT_S, check=False, **more)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class Image(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(dir=".")
        cls.addClassCleanup(folder.cleanup)
        cls.work = pathlib.Path(folder.name).resolve()
        version = re.search(r"^ +VERSION ([\d.]+)$", (SOURCE / "CMakeLists.txt").read_text(), re.MULTILINE)[1]
        name = f"ddpm-{version}-linux-x86_64-cpu"
        run(CMAKE, "--install", BUILD, "--prefix", cls.work / name, "--component", "program")
        cls.tarball = cls.work / f"{name}.tar"  # as CPack's, but not compressed, which would take a minute
        # By somebody whose files are nobody else's; so is what the script makes.
        (cls.work / name / "share").chmod(0o700)
        run("tar", "-cf", cls.tarball, "--owner=somebody:4321", "--group=somebody:4321", "-C", cls.work, name)
        shutil.rmtree(cls.work / name)
        cls.layout = cls.work / "image"
        # A network of its own, in which there is nothing.
        run("unshare", *AS_ROOT, "--net", SOURCE / "packaging/image.sh", "--root", ROOT, cls.tarball, cls.layout, umask=0o077)
        cls.image = f"{cls.layout}:{version}"
        cls.version = version

    def test_skopeo_accepts_it(self):
        seen = json.loads(run("skopeo", "inspect", f"oci:{self.image}"))
        self.assertEqual((seen["Os"], len(seen["Layers"])), ("linux", 2))
        self.assertEqual(seen["Labels"]["org.opencontainers.image.version"], self.version)
        self.assertIn("PATH=/opt/ddpm/bin:/usr/local/bin:/usr/bin:/bin", seen["Env"])
        config = json.loads(run("skopeo", "inspect", "--config", f"oci:{self.image}"))["config"]
        self.assertEqual(config["Entrypoint"], ["ddpm"])

    def test_every_blob_has_the_digest_that_it_is_named_by_and_none_is_left_over(self):
        named = {path.name for path in (self.layout / "blobs/sha256").iterdir()}
        for name in named:
            self.assertEqual(hashlib.sha256((self.layout / "blobs/sha256" / name).read_bytes()).hexdigest(), name)
        index = (self.layout / "index.json").read_text()
        manifest = json.loads(index)["manifests"][0]["digest"]
        used = set(re.findall(r"sha256:([0-9a-f]{64})", index + (self.layout / "blobs/sha256" / manifest.partition(":")[2]).read_text()))
        self.assertEqual(named, used)

    def test_everybody_may_read_it_and_nobody_but_root_may_write(self):
        manifest = json.loads((self.layout / "index.json").read_text())["manifests"][0]["digest"].partition(":")[2]
        layer = json.loads((self.layout / "blobs/sha256" / manifest).read_text())["layers"][-1]["digest"].partition(":")[2]
        members = []
        # umoci leaves out the zeros at the end.
        with tarfile.open(self.layout / "blobs/sha256" / layer) as packed, contextlib.suppress(tarfile.ReadError):
            members.extend(packed)
        self.assertGreater(len(members), 100)
        self.assertIn("opt/ddpm/bin/ddpm", {member.name.strip("./") for member in members})
        for member in members:
            self.assertEqual((member.uid, member.gid), (0, 0), member.name)
            if not member.issym():
                executable = member.isdir() or member.mode & 0o100
                self.assertEqual(oct(member.mode & 0o077), "0o55" if executable else "0o44", member.name)

    def test_the_program_trains_on_two_ranks_in_it(self):
        run("umoci", "unpack", *(["--rootless"] if AS_ROOT else []), "--image", self.image, self.work / "unpacked")
        system = self.work / "unpacked/rootfs"
        process = json.loads((self.work / "unpacked/config.json").read_text())["process"]

        def inside(*command):
            """In a process tree of its own, which ends with the command that is run here."""
            enter = 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$0" "$@"'
            settings = [*process["env"], "OMP_NUM_THREADS=1", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"]
            return run("unshare", *AS_ROOT, "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", enter, system,
                       "/usr/bin/env", "-i", "--chdir=/trial", *settings, *command)  # fmt: skip

        (system / "trial").mkdir()
        make_pictures(system / "trial/pictures", 20)
        write_config(system / "trial/tiny.toml", "run", "squares", train={"steps": 4})
        entry = process["args"]
        self.assertIn(self.version, inside(*entry, "--version"))
        inside(*entry, "data", "create", "pictures", "--output", "squares", "--size", "16")
        inside("mpirun", "--oversubscribe", "--bind-to", "none", "-np", "2", *entry, "train", "tiny.toml")
        last = json.loads((system / "trial/run/metrics.jsonl").read_text().splitlines()[-1])
        self.assertEqual(last["step"], 4)
        self.assertTrue((system / "trial/run/model/unet/diffusion_pytorch_model.safetensors").exists())
        maps = inside("ldd", "/opt/ddpm/bin/ddpm")
        self.assertNotIn("not found", maps)
        self.assertRegex(maps, r"libtorch_cpu\.so => /opt/ddpm/")
        self.assertRegex(maps, r"libmpi\.so\.40 => /(usr/)?lib/")

    def test_what_cannot_be_made_is_refused_and_nothing_is_left(self):
        for arguments, said in (
            (["--root", ROOT, self.work / "none.tar", "new"], "none.tar"),
            (["--root", ROOT, self.work / "ddpm-9.9.9-linux.tar", "new"], "there is no such file"),
            (["--root", ROOT, self.tarball, self.layout], "is there already"),
            (["--root", ROOT, self.tarball, "no/such/new"], "the folder that it is to be made in is not there"),
            (["--root", ROOT, self.tarball], "one new folder"),
            (["--root"], "ROOT.tar"),
        ):
            with self.subTest(arguments=arguments):
                done = subprocess.run([SOURCE / "packaging/image.sh", *arguments], cwd=self.work, capture_output=True, text=True,
                                      timeout=60, check=False)  # fmt: skip
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn(said, done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1)
                self.assertFalse((self.work / "new").exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)
