#!/usr/bin/env python3
"""What people start by hand: --help prints the usage at the head of the script, an unknown argument is refused with exit code 2,
and neither does anything else.

    scripts_test.py SOURCE      run by ctest; SOURCE is the root of the repository
"""

import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(sys.argv.pop(1)).resolve()
# Everything with which a script could begin its work; each is replaced by one that leaves a note.
WORKERS = ("apt-get", "dpkg", "dpkg-query", "cmake", "ctest", "ninja", "python3", "pip", "mpirun", "mpiexec", "sbatch", "srun", "scontrol", "qsub", "qstat",
           "flux", "shellcheck", "mmdebstrap", "umoci", "skopeo", "git", "tar", "chroot", "mount", "clang++-14", "flock", "mktemp", "sha256sum")
# Their further arguments are those of `ddpm`, which checks them when the job runs.
JOBS = {f"jobs/{stage}.{batch}" for stage in ("prepare", "train", "sample") for batch in ("sbatch", "pbs", "flux")}
JOBS |= {"jobs/scaling/point.sbatch"}
# Started by others: by git, and by ctest.
NOT_BY_HAND = {
    ".githooks/pre-commit", "tests/comm/differing_collectives.sh", "tests/comm/failed_communication.sh", "tests/comm/lost_launcher.sh", "tests/comm/mpich.sh",
    "tests/nn/golden_interop_test.sh", "tests/run/own_errors.sh",
}  # fmt: skip


def scripts():
    """The shell scripts of the repository, by their paths in it."""
    folders = (SOURCE / name for name in (".ci", ".githooks", "jobs", "modules", "packaging", "tests"))
    files = (path for folder in folders for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(SOURCE)) for path in files if path.read_bytes().startswith((b"#!/usr/bin/env bash", b"#!/bin/sh"))}


def usage_of(script):
    lines = (SOURCE / script).read_text().splitlines()[1:]
    end = next(i for i, line in enumerate(lines) if not line.startswith("#"))
    return "".join(line.removeprefix("#").removeprefix(" ") + "\n" for line in lines[:end])


class Scripts(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = Path(self.folder.name)
        (self.root / "bin").mkdir()
        (self.root / "home").mkdir()
        for name in WORKERS:
            worker = self.root / "bin" / name
            worker.write_text(f"#!/bin/sh\necho {name} >>'{self.root}/worked'\nexit 1\n")
            worker.chmod(0o755)

    def run_script(self, script, *arguments):
        """The finished process; whatever it began is a failure of the test."""
        worked = self.root / "worked"
        worked.unlink(missing_ok=True)
        environment = {"PATH": f"{self.root}/bin:/usr/bin:/bin", "HOME": str(self.root / "home"), "DDPM_JOBS": str(SOURCE / "jobs")}
        done = subprocess.run(["bash", SOURCE / script, *arguments], env=environment, cwd=self.root, capture_output=True,
                              text=True, timeout=20, check=False, stdin=subprocess.DEVNULL)
        self.assertFalse(worked.exists(), f"{script} {arguments} began to work: {worked.read_text() if worked.exists() else ''}")
        self.assertEqual(list((self.root / "home").iterdir()), [], f"{script} {arguments} wrote into the home folder")
        return done

    def test_the_lists_above_name_scripts_that_exist(self):
        self.assertLessEqual(JOBS | NOT_BY_HAND, scripts())
        self.assertGreater(len(scripts()), 12)

    def test_help_prints_the_usage_and_does_nothing(self):
        for script in sorted(scripts() - NOT_BY_HAND):
            for word in ("--help", "-h"):
                with self.subTest(script=script, word=word):
                    done = self.run_script(script, word)
                    self.assertEqual((done.returncode, done.stderr), (0, ""))
                    self.assertEqual(done.stdout, usage_of(script))
                    self.assertIn(f"  {script}" if script not in JOBS else f"{script} ", done.stdout)

    def test_an_unknown_argument_is_refused_before_anything_is_done(self):
        for script in sorted(scripts() - NOT_BY_HAND - JOBS):
            for word in ("--hepl", "hepl"):
                with self.subTest(script=script, word=word):
                    done = self.run_script(script, word)
                    self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
                    self.assertIn(f"'{word}'", done.stderr)
                    self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_no_script_or_page_puts_the_working_directory_on_a_path(self):
        """VARIABLE=DIR:$VARIABLE ends in an empty element where the variable was empty, and that means the working directory."""
        careless = re.compile(r'\b(LD_LIBRARY_PATH|LIBRARY_PATH|PYTHONPATH|MANPATH)="?([^\s"]*(?<!:\+):\$\{?\1\b(?!:\+)|\$\{?\1\}?:)')
        for text in ("LD_LIBRARY_PATH=/x:$LD_LIBRARY_PATH", "PYTHONPATH=$HOME/y:${PYTHONPATH}", 'PYTHONPATH="$PYTHONPATH:/x"'):
            self.assertTrue(careless.search(text), text)
        self.assertFalse(careless.search("export LD_LIBRARY_PATH=/x${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"))
        listed = (path for name in (".ci", "jobs", "modules", "packaging", "docs", "examples", "cmake", "tests") for path in (SOURCE / name).rglob("*"))
        for path in listed:
            if path.is_file() and path.suffix in (".md", ".sh", ".sbatch", ".pbs", ".flux", ".in", ".cmake", ".py", ".toml", "") and path != Path(__file__).resolve():
                found = careless.search(path.read_text(errors="replace"))
                self.assertIsNone(found, f"{path}: {found}")

    def test_jobs_leave_the_kind_of_mpi_to_the_site_unless_they_are_told(self):
        srun = self.root / "bin" / "srun"
        srun.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
        script = f". '{SOURCE}/jobs/job.sh'; \"${{on_all_ranks[@]}}\" train my.toml"
        for variables, mpi in (({}, []), ({"DDPM_SRUN_MPI": ""}, []), ({"DDPM_SRUN_MPI": "cray_shasta"}, ["--mpi=cray_shasta"])):
            with self.subTest(variables=variables):
                environment = {"PATH": f"{self.root}/bin:/usr/bin:/bin", "DDPM": "/bin/ddpm", **variables}
                done = subprocess.run(["bash", "-eu", "-c", script], env=environment, cwd=self.root, capture_output=True,
                                      text=True, timeout=20, check=True)
                self.assertEqual(done.stdout.split(), [*mpi, "--kill-on-bad-exit=1", "/bin/ddpm", "train", "my.toml"])

    def test_options_of_ctest_are_let_through_and_their_values_are_wanted(self):
        check = f". '{SOURCE}/modules/common.sh'; only_ctests tests/run.sh"
        for words, code in (("-L mpi", 0), ("-R 'a b' -E x -V", 0), ("-j2 --repeat until-fail:3", 0), ("-L", 2), ("-L mpi x", 2)):
            done = subprocess.run(["bash", "-c", f"{check} {words}"], capture_output=True, text=True, timeout=20, check=False)
            self.assertEqual(done.returncode, code, (words, done.stderr))


if __name__ == "__main__":
    unittest.main()
