"""The installed module files under the real Lmod and Environment Modules, and the site's file that jobs source.

    modules_test.py CMAKE FOLDER      run by ctest; FOLDER has both module systems, unpacked by modules/setup.sh --tests
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

SOURCE = pathlib.Path(os.environ["DDPM_SOURCE_DIR"])
BUILD = pathlib.Path(os.environ["DDPM"]).parent
FOLDER = pathlib.Path(sys.argv.pop())
CMAKE = sys.argv.pop()
WORK = pathlib.Path.cwd() / "trial"
INSTALLED = WORK / "installed"
(LMOD,) = FOLDER.glob("lmod/usr/share/lmod/[0-9]*/libexec/lmod")
(TCL,) = FOLDER.glob("environment-modules/usr/lib/*/modulecmd.tcl")
SYSTEMS = {"Lmod": f"lua5.3 {LMOD}", "Environment Modules": f"tclsh8.6 {TCL}"}
# What a module system keeps for itself.
BOOKKEEPING = re.compile(r"(__LMOD|__MODULES|_ModuleTable|LMOD_|MODULES_|BASH_FUNC)|(_|LOADEDMODULES|_LMFILES_|MODULEPATH|SHLVL)$")
DUMP = f"'{sys.executable}' -c 'import json, os; print(json.dumps(dict(os.environ)))'"


class Shell:
    """A shell with nothing in its environment but a module system."""

    def __init__(self, system, modulepath):
        self.start = f"set -euo pipefail\nmodule() {{ eval \"$({SYSTEMS[system]} bash \"$@\")\"; }}\nexport -f module\n"
        self.environment = {"PATH": "/usr/bin:/bin", "HOME": str(WORK), "MODULEPATH": str(modulepath), "LMOD_CMD": str(LMOD)}

    def run(self, script, **environment):
        return subprocess.run(["bash", "-c", self.start + script], env={**self.environment, **environment}, cwd=WORK,
                              capture_output=True, text=True, timeout=60, check=False)

    def lines(self, script, **environment):
        done = self.run(script, **environment)
        if done.returncode != 0:
            raise AssertionError(f"{script}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout.splitlines()


def without_bookkeeping(line):
    return {name: value for name, value in json.loads(line).items() if not BOOKKEEPING.match(name)}


def write_site_modules(folder, names):
    """Modules that say that they were loaded, in the language that both systems know."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#%Module1.0\nsetenv SITE_{path.parent.name.upper()} {path.name}\n")


def set_site_modules(modulefiles, names):
    """Fills in the line of the two module files that a user of the tarball fills in."""
    for file in (modulefiles / "ddpm").iterdir():
        begin, end = ("local site_modules = \"", "\"") if file.suffix == ".lua" else ("set site_modules {", "}")
        text, count = re.subn(rf"^{re.escape(begin)}.*{end}$", begin + names + end, file.read_text(), flags=re.MULTILINE)
        assert count == 1, file
        file.write_text(text)


class Modules(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        shutil.rmtree(WORK, ignore_errors=True)
        WORK.mkdir()
        subprocess.run([CMAKE, "--install", BUILD, "--prefix", WORK / "first", "--component", "program"], check=True,
                       capture_output=True, timeout=120)
        (WORK / "first").rename(INSTALLED)
        cls.modulefiles = INSTALLED / "share" / "ddpm" / "modulefiles"
        set_site_modules(cls.modulefiles, "")
        (cls.script, cls.lua) = sorted((cls.modulefiles / "ddpm").iterdir())

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(WORK)

    def of_each_system(self, modulepath=None):
        return ((system, Shell(system, modulepath or self.modulefiles)) for system in SYSTEMS)

    def test_loads_and_leaves_the_environment_as_it_was(self):
        for system, shell in self.of_each_system():
            before, loaded, where, version, after = shell.lines(
                f"{DUMP}\nmodule load ddpm\n{DUMP}\ncommand -v ddpm\nddpm --version\nmodule unload ddpm\n{DUMP}")
            self.assertEqual(where, str(INSTALLED / "bin" / "ddpm"))
            self.assertEqual(version, f"ddpm {self.script.name}")
            self.assertEqual(json.loads(loaded)["_LMFILES_"], str(self.lua if system == "Lmod" else self.script))
            before, loaded, after = map(without_bookkeeping, (before, loaded, after))
            self.assertEqual(after, before)
            self.assertEqual({name: value for name, value in loaded.items() if before.get(name) != value},
                             {"PATH": f"{INSTALLED}/bin:/usr/bin:/bin", "DDPM": where, "DDPM_ROOT": str(INSTALLED),
                              "DDPM_JOBS": f"{INSTALLED}/share/ddpm/jobs"})
            self.assertTrue(pathlib.Path(loaded["DDPM_JOBS"], "train.sbatch").exists())

    def test_lists_one_version_and_explains_itself(self):
        for _, shell in self.of_each_system():
            said = shell.run("module -t avail; module whatis ddpm; module help ddpm")
            said = said.stdout + said.stderr
            self.assertEqual(len(re.findall(rf"^ddpm/{self.script.name}$", said, re.MULTILINE)), 1, said)
            self.assertIn("diffusion UNets", said)
            self.assertIn("sbatch $DDPM_JOBS/train.sbatch", said)
            self.assertNotIn("@", said)

    def test_works_by_way_of_links_in_the_sites_own_folder(self):
        for kind in ("absolute", "relative"):
            folder = WORK / f"links-{kind}" / "modulefiles"
            (folder / "ddpm").mkdir(parents=True)
            for file in (self.script, self.lua):
                target = file if kind == "absolute" else pathlib.Path("../../..") / file.relative_to(WORK)
                (folder / "ddpm" / file.name).symlink_to(target)
            for _, shell in self.of_each_system(folder):
                self.assertEqual(shell.lines("module load ddpm\nprintenv DDPM_ROOT"), [str(INSTALLED)])

    def test_a_copy_says_what_is_wrong(self):
        folder = WORK / "copies" / "modulefiles"
        shutil.copytree(self.modulefiles, folder)
        for _, shell in self.of_each_system(folder):
            done = shell.run("module load ddpm || true\nprintenv DDPM_ROOT")
            # Lmod breaks lines at the terminal's width.
            self.assertIn("link to it, do not copy it", " ".join(done.stderr.split()))
            self.assertEqual(done.stdout, "")

    def test_loads_the_modules_that_the_site_named(self):
        write_site_modules(WORK / "site", ("mpi/4.1", "hdf5/1.10"))
        copy = WORK / "configured"
        shutil.copytree(INSTALLED / "bin", copy / "bin")
        shutil.copytree(self.modulefiles, copy / "share" / "ddpm" / "modulefiles")
        set_site_modules(copy / "share" / "ddpm" / "modulefiles", "mpi/4.1 hdf5/1.10")
        for _, shell in self.of_each_system(f"{copy}/share/ddpm/modulefiles:{WORK}/site"):
            self.assertEqual(shell.lines("module load ddpm\nprintenv SITE_MPI SITE_HDF5 DDPM_ROOT"), ["4.1", "1.10", str(copy)])

    def test_jobs_source_the_sites_file(self):
        write_site_modules(WORK / "site", ("gcc/12", "cmake/3.25", "mpi/4.1", "hdf5/1.10"))
        text = (INSTALLED / "share" / "ddpm" / "site.template.sh").read_text()
        for name, module in (("compiler", "gcc/12"), ("build", "cmake/3.25"), ("mpi", "mpi/4.1"), ("hdf5", "hdf5/1.10")):
            text, count = re.subn(rf"^site_{name}= *#", f"site_{name}={module} #", text, flags=re.MULTILINE)
            self.assertEqual(count, 1, name)
        site = WORK / "site.sh"
        site.write_text(text)
        program = WORK / "program.sh"
        program.write_text('#!/bin/sh\necho "$SITE_GCC $SITE_MPI $SITE_HDF5 ${SITE_CMAKE-none}: $*"\n')
        program.chmod(0o755)
        job = f"bash '{INSTALLED}/share/ddpm/jobs/prepare.sbatch' photos --output out"
        surroundings = {"DDPM": str(program), "DDPM_JOBS": str(INSTALLED / "share" / "ddpm" / "jobs"), "DDPM_LAUNCHER": "mpirun",
                        "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_plm": "isolated"}
        for _, shell in self.of_each_system(WORK / "site"):
            self.assertEqual(set(shell.lines(job, DDPM_SITE=str(site), **surroundings)),
                             {"12 4.1 1.10 none: data create photos --output out"})
            self.assertEqual(shell.lines(f". '{site}' build\nprintenv SITE_GCC SITE_CMAKE DDPM_SITE_MODULES"),
                             ["12", "3.25", "gcc/12 mpi/4.1 hdf5/1.10   "])
            done = shell.run(job, DDPM_SITE=str(WORK / "absent.sh"), **surroundings)
            self.assertEqual((done.returncode, done.stderr), (2, f"job: there is no {WORK}/absent.sh (DDPM_SITE)\n"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
