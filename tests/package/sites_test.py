"""docs/sites.md as far as it can be tried without the systems that it is about: scripts that shellcheck accepts and that come
back after exit code 75 and no other, Python that parses.
"""

import os
import pathlib
import re
import shutil
import subprocess
import unittest

PAGE = (pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "docs" / "sites.md").read_text()
WORK = pathlib.Path.cwd() / "trial"


def blocks(section, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.split(f"\n## {section}\n")[1].split("\n## ")[0], re.MULTILINE | re.DOTALL)


class Sites(unittest.TestCase):
    def setUp(self):
        shutil.rmtree(WORK, ignore_errors=True)
        (WORK / "bin").mkdir(parents=True)
        (WORK / "site.sh").write_text("")

    def tearDown(self):
        shutil.rmtree(WORK)

    def program(self, name, script):
        path = WORK / "bin" / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def run_job(self, section, *arguments, **environment):
        (script,) = blocks(section, "sh")
        path = WORK / "job"
        path.write_text(script)
        subprocess.run(["shellcheck", "--exclude=SC1091", path], check=True, timeout=60)
        done = subprocess.run(["bash", path, *arguments], cwd=WORK, timeout=60, capture_output=True, text=True, check=False,
                              env={"PATH": f"{WORK}/bin:/usr/bin:/bin", **environment})
        return done.returncode, done.stdout.splitlines()

    def test_a_pbs_job_submits_its_successor_when_it_was_stopped(self):
        self.program("qsub", 'echo "qsub $*"')
        for code, starts, wanted in ((0, 1, (0, None)), (6, 1, (6, None)), (75, 7, (0, "qsub -v CONFIG=my.toml,STARTS=8 train.pbs")),
                                     (75, 100, (75, None))):
            self.program("mpirun", f'echo "mpirun $*"; exit {code}')
            returned, said = self.run_job("PBS", PBS_O_WORKDIR=str(WORK), PBS_NODEFILE="nodes", CONFIG="my.toml", STARTS=str(starts))
            self.assertIn("--hostfile nodes", said[0])
            self.assertIn("ddpm train my.toml --fault.max_minutes 230", said[0])
            self.assertEqual((returned, said[1] if len(said) > 1 else None), wanted)

    def test_a_flux_job_submits_its_successor_when_it_was_stopped(self):
        for code, starts, wanted in ((0, 1, (0, None)), (6, 1, (6, None)), (75, 7, (0, "STARTS=8 flux --parent batch train.flux my.toml")),
                                     (75, 100, (75, None))):
            self.program("flux", f'case $1 in run) echo "flux $*"; exit {code} ;; *) echo "STARTS=$STARTS flux $*" ;; esac')
            returned, said = self.run_job("Flux", "my.toml", STARTS=str(starts))
            self.assertIn("ddpm train my.toml --fault.max_minutes 230", said[0])
            self.assertEqual((returned, said[1] if len(said) > 1 else None), wanted)

    def test_recipes_are_python(self):
        for section in ("Spack", "EasyBuild"):
            (recipe,) = blocks(section, "python")
            compile(recipe, section, "exec")

    def test_the_page_says_that_it_is_not_tested(self):
        self.assertIn("**Not tested here.**", PAGE.split("\n## ")[0])


if __name__ == "__main__":
    unittest.main(verbosity=2)
