"""modules/setup.sh --bundle packs all that a build needs, and --from-bundle installs it where there is no network.

    bundle_test.py CC      run by ctest

apt-get, dpkg and pip are the real ones; what they fetch is small: a repository of empty packages that have the names of
Debian's, and wheels with one file. They install into a system of the test's own, in a namespace without a network.
tests/package/bundle_root.sh does the same with all of Debian's packages and LibTorch, and builds the program from them.
"""

import base64
import hashlib
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile

SOURCE = pathlib.Path(os.environ["DDPM_SOURCE_DIR"])
CC = sys.argv.pop(1)
AS_ROOT = [] if os.getuid() == 0 else ["--map-root-user"]
OFFLINE = ["unshare", *AS_ROOT, "--net"]
SCRIPT = (SOURCE / "modules/setup.sh").read_text()
TORCH = re.search(r"^readonly torch_version=(\S+)$", SCRIPT, re.MULTILINE)[1]
LEAF = "ddpm-leaf"  # a package that no list names, and others need
GIT = {"GIT_CONFIG_GLOBAL": "/dev/null", **{f"GIT_{who}_{what}": "tester" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}}


def run(*command, env=None, check=True, **more):
    done = subprocess.run([str(word) for word in command], env={**os.environ, **GIT, **(env or {})}, capture_output=True, text=True,
                          timeout=240, check=False, **more)  # fmt: skip
    if check and done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def packages_of(variable):
    return re.search(rf"^readonly {variable}=\((.*?)\)$", SCRIPT, re.MULTILINE | re.DOTALL)[1].split()


WANTED = packages_of("build_packages") + packages_of("openmpi_packages")
FOR_TESTS = [*packages_of("test_packages"), *packages_of("mpich_packages"), *packages_of("module_systems")]


def make_package(folder, name, depends="", version="1.0"):
    tree = folder / "tree"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "usr/share").mkdir(parents=True)
    (tree / "usr/share" / name).write_text(version)
    control = {"Package": name, "Version": version, "Architecture": "all", "Maintainer": "nobody <nobody@localhost>", "Description": "empty"}
    if depends:
        control["Depends"] = depends
    (tree / "DEBIAN/control").write_text("".join(f"{key}: {value}\n" for key, value in control.items()))
    file = folder / f"{name}.deb"
    run("dpkg-deb", "--build", "--root-owner-group", "-Znone", tree, file)
    shutil.rmtree(tree)
    sums = {"Filename": f"./{file.name}", "Size": file.stat().st_size, "SHA256": hashlib.sha256(file.read_bytes()).hexdigest()}
    with (folder / "Packages").open("a") as packages:
        packages.write("".join(f"{key}: {value}\n" for key, value in {**control, **sums}.items()) + "\n")


def make_wheel(folder, name, version, files):
    stem = f"{name.replace('-', '_')}-{version}"
    files = {**files, f"{stem}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode(),
             f"{stem}.dist-info/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}  # fmt: skip
    record = ""
    with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as wheel:
        for path, data in files.items():
            wheel.writestr(path, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record += f"{path},sha256={digest},{len(data)}\n"
        wheel.writestr(f"{stem}.dist-info/RECORD", record + f"{stem}.dist-info/RECORD,,\n")


def make_system(folder, source=""):
    """A system in which nothing is installed, and the variables with which apt-get and dpkg work on it."""
    for name in ("var/lib/dpkg/updates", "var/lib/dpkg/info", "lists/partial", "cache/archives/partial", "log"):
        (folder / name).mkdir(parents=True)
    for name in ("status", "available"):
        (folder / "var/lib/dpkg" / name).write_text("")
    (folder / "sources.list").write_text(f"deb [trusted=yes] {source} ./\n" if source else "")
    config = folder / "apt.conf"
    settings = {"Dir::Etc::parts": "/dev/null", "Dir::Etc::main": "/dev/null", "Dir::Etc::sourcelist": folder / "sources.list", "Dir::Etc::sourceparts": "/dev/null",
                "Dir::State::lists": folder / "lists", "Dir::State::status": folder / "var/lib/dpkg/status", "Dir::Cache": folder / "cache",
                "Dir::Log": folder / "log", "APT::Sandbox::User": "root"}  # fmt: skip
    options = [f"--root={folder}", "--force-not-root", f"--log={folder}/log/dpkg.log"]
    config.write_text("".join(f'{key} "{value}";\n' for key, value in settings.items()) +
                      "DPkg::Options {" + "".join(f' "{option}";' for option in options) + " };\n")  # fmt: skip
    return {"APT_CONFIG": str(config), "DPKG_ADMINDIR": str(folder / "var/lib/dpkg")}


def replaced(bundle, to, path, change):
    """The bundle with another content of one of its files, and the old sums."""
    with tarfile.open(bundle) as old, tarfile.open(to, "w") as new:
        for member in old:
            data = old.extractfile(member) if member.isfile() else None
            if member.name == path:
                text = change(data.read())
                member.size = len(text)
                data = io.BytesIO(text)
            new.addfile(member, data)
    return to


class Bundle(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.work = pathlib.Path(folder.name)
        debian, wheels = cls.work / "debian", cls.work / "wheels"
        debian.mkdir()
        wheels.mkdir()
        for name in dict.fromkeys(WANTED + FOR_TESTS):
            make_package(debian, name, depends=LEAF)
        make_package(debian, LEAF, version="1:2.0")
        (cls.work / "empty.c").write_text("")
        run(CC, "-shared", "-o", cls.work / "libtorch_cpu.so", cls.work / "empty.c")
        make_wheel(wheels, "torch", TORCH, {"torch/include/ATen/ATen.h": b"", "torch/lib/libtorch_cpu.so": (cls.work / "libtorch_cpu.so").read_bytes()})
        for name, version in (wheel.split("==") for wheel in re.findall(r'"(nvidia-[^"]+)"', SCRIPT.partition("readonly wheels=")[2].splitlines()[0])):
            make_wheel(wheels, name, version, {})
        cls.clone = cls.work / "clone"
        shutil.copytree(SOURCE / "modules", cls.clone / "modules")
        for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message=all"]):
            run("git", "-C", cls.clone, *command)
        cls.online = {**make_system(cls.work / "online", f"copy:{debian}"), "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels)}
        run("apt-get", "update", env=cls.online)
        # What is installed there is packed nevertheless.
        (cls.work / "online/var/lib/dpkg/status").write_text(f"Package: {LEAF}\nStatus: install ok installed\nVersion: 1:2.0\n"
                                                             "Architecture: all\nMaintainer: nobody\nDescription: empty\n\n")  # fmt: skip
        cls.bundle = cls.work / "bundle.tar"
        cls.said = run(cls.clone / "modules/setup.sh", "--bundle", cls.bundle, env=cls.online, cwd=cls.work).stdout

    def offline(self, name):
        """A new system without a network, and the variables for setup.sh there."""
        system = self.work / name
        env = make_system(system)
        return system, {**env, "DDPM_CACHE": str(system / "the cache"), "CMAKE_PREFIX_PATH": "", "Torch_ROOT": "", "PIP_FIND_LINKS": ""}

    def refusal(self, bundle, env=None):
        """What is said of a bundle that is refused in one line, before anything is installed."""
        system, variables = self.offline(f"refuses-{self.id()}-{pathlib.Path(bundle).name}")
        done = run(*OFFLINE, self.clone / "modules/setup.sh", "--from-bundle", bundle, env={**variables, **(env or {})}, check=False)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertEqual((system / "var/lib/dpkg/status").read_text(), "")
        self.assertEqual(list(system.glob("the cache/.bundle*")), [])
        return done.stderr

    def test_it_holds_everything_with_its_sums_and_nothing_is_left_beside_it(self):
        self.assertEqual({path.name for path in self.work.glob("bundle*")}, {"bundle.tar", "bundle.tar.sha256"})
        self.assertEqual(list(self.work.glob(".incoming*")), [])
        run("sha256sum", "--check", "bundle.tar.sha256", cwd=self.work)
        with tarfile.open(self.bundle) as bundle:
            sums = dict(line.split("  ")[::-1] for line in bundle.extractfile("SHA256SUMS").read().decode().splitlines())
            files = {member.name: hashlib.sha256(bundle.extractfile(member).read()).hexdigest() for member in bundle if member.isfile()}
            self.assertEqual(bundle.getnames()[0], "bundle.txt")
        del files["SHA256SUMS"]
        self.assertEqual(files, sums)
        debs = {path.partition("/")[2].partition("_")[0] for path in files if path.endswith(".deb")}
        self.assertEqual(debs, {*WANTED, LEAF})
        self.assertEqual(sum(path.startswith("wheels/") for path in files), 3)
        self.assertNotIn("not committed", self.said)

    def test_it_installs_where_there_is_no_network_from_the_sources_that_it_holds(self):
        system, env = self.offline("bare")
        run("sh", "-c", f"tar -xOf {self.bundle} sources.tar.gz | tar -xz", cwd=system)
        setup = system / "ddpm/modules/setup.sh"
        said = run(*OFFLINE, setup, "--from-bundle", self.bundle, env=env).stdout
        self.assertIn("missing:", said)
        self.assertEqual({path.name for path in (system / "usr/share").iterdir()}, {*WANTED, LEAF})
        installed = re.findall(r"^Package: (\S+)\nStatus: install ok installed$", (system / "var/lib/dpkg/status").read_text(), re.MULTILINE)
        self.assertEqual(set(installed), {*WANTED, LEAF})
        (torch,) = (system / "the cache").glob(f"libtorch-{TORCH}/lib/python3*/site-packages/torch/lib/libtorch_cpu.so")
        self.assertEqual(torch.read_bytes(), (self.work / "libtorch_cpu.so").read_bytes())
        self.assertEqual(list((system / "the cache").glob(".bundle*")), [])
        again = run(*OFFLINE, setup, env=env).stdout  # and a build that calls the script finds all
        self.assertIn(f"all {len(WANTED)} packages are installed", again)
        self.assertIn("in the cache:", again)

    def test_without_a_bundle_it_would_not(self):
        _, env = self.offline("poor")
        done = run(*OFFLINE, self.clone / "modules/setup.sh", env=env, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("--from-bundle", done.stderr)

    def test_a_damaged_bundle_is_refused(self):
        whole = self.bundle.read_bytes()
        with tarfile.open(self.bundle) as bundle:
            (wheel,) = [member for member in bundle if member.name.startswith("wheels/torch-")]
        other = bytearray(whole)
        other[wheel.offset_data + wheel.size // 2] ^= 1
        for name, data, wanted in (("flipped", other, wheel.name), ("short", whole[: wheel.offset_data + 10], "does not unpack: tar: "),
                                   ("empty", b"", "not a whole bundle"), ("else", b"not a tarball" * 1000, "not a whole bundle")):
            with self.subTest(damage=name):
                path = self.work / f"{name}.tar"
                path.write_bytes(data)
                said = self.refusal(path)
                self.assertIn(wanted, said)
                self.assertIn(str(path), said)
        self.assertIn("there is no bundle", self.refusal(self.work / "none.tar"))

    def test_a_bundle_of_another_system_is_refused(self):
        for name, of, to, wanted in (("release", rb"system \S+", b"system debian-11", "made for debian-11"),
                                     ("machine", rb"machine \S+", b"machine aarch64", "aarch64, and this machine is")):
            path = replaced(self.bundle, self.work / f"{name}.tar", "bundle.txt", lambda text, of=of, to=to: re.sub(of, to, text))
            self.assertIn(wanted, self.refusal(path))

    def test_wheels_of_another_python_are_refused(self):
        bundle = self.work / "wheels-only.tar"
        run(self.clone / "modules/setup.sh", "--no-packages", "--bundle", bundle, env=self.online)
        with tarfile.open(bundle) as packed:
            facts = dict(line.split(" ", 1) for line in packed.extractfile("bundle.txt").read().decode().splitlines())
            self.assertFalse([name for name in packed.getnames() if name.endswith(".deb")])
        self.assertEqual((facts["system"], facts["options"]), ("any", "--mpi openmpi --no-packages"))
        python = self.work / "python3"
        python.write_text('#!/bin/sh\ncase "$*" in *version_info*) echo 3.99 ;; *) exit 1 ;; esac\n')
        python.chmod(0o755)
        for of_wheels_or_all in (bundle, self.bundle):
            said = self.refusal(of_wheels_or_all, {"PYTHON": str(python)})
            self.assertIn(f"for Python {facts['python']}", said)
            self.assertIn("3.99", said)
        system, env = self.offline("wheels only")
        run(*OFFLINE, self.clone / "modules/setup.sh", "--from-bundle", bundle, env=env)
        self.assertTrue(list((system / "the cache").glob(f"libtorch-{TORCH}/lib/python3*/site-packages/torch")))
        self.assertEqual((system / "var/lib/dpkg/status").read_text(), "")

    def test_a_bundle_for_tests_says_that_it_has_no_bare_debian(self):
        bundle = self.work / "tests.tar"
        said = run(self.clone / "modules/setup.sh", "--tests", "--bundle", bundle, env=self.online).stdout
        self.assertIn("the bare Debian of the test of images is left out", said)
        system, env = self.offline("tests")
        said = run(*OFFLINE, self.clone / "modules/setup.sh", "--from-bundle", bundle, env=env).stdout
        installed = {path.name for path in (system / "usr/share").iterdir()}
        self.assertEqual(installed, {*WANTED, *FOR_TESTS, LEAF} - set(packages_of("module_systems")))
        self.assertTrue((system / "the cache/module-systems/lmod/usr/share/lmod").exists())
        self.assertIn("going on without: no bundle holds it", said)

    def test_what_cannot_be_packed_is_refused(self):
        for env, arguments, cwd, said in (({}, [self.bundle], self.clone, "is there already"), ({}, [self.work / "no/b.tar"], self.clone, "there is no folder"),
                                          ({"GIT_DIR": "/nowhere"}, [self.work / "b.tar"], self.clone, "is not a clone")):
            with self.subTest(said=said):
                done = run(cwd / "modules/setup.sh", "--bundle", *arguments, env={**self.online, **env}, check=False)
                self.assertEqual(done.returncode, 1)
                self.assertIn(said, done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1)
        in_place = make_system(self.work / "in place", f"file:{self.work / 'debian'}")
        run("apt-get", "update", env=in_place)
        done = run(self.clone / "modules/setup.sh", "--bundle", self.work / "b.tar", env=in_place, check=False)
        self.assertIn("copy: in place of file:", done.stderr)
        self.assertFalse((self.work / "b.tar").exists())
        no_arm = "a bundle holds nothing for another processor"
        for arguments, said in ((["--from-bundle", self.bundle, "--tests"], "stands alone"),
                                (["--arm", "--bundle", self.work / "b.tar"], no_arm),
                                (["--bundle", self.work / "b.tar", "--arm-libtorch"], no_arm)):  # fmt: skip
            done = run(self.clone / "modules/setup.sh", *arguments, check=False)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertEqual(done.stderr.count("\n"), 1)
            self.assertIn(said, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
