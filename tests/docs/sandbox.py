"""A small clone for the commands of a page, with programs that stand in for a batch system's."""

import os
import shlex
import shutil
import sys

from pages import SOURCE
from stand_ins import DDPM, FONTS
from table import TINY

sys.path.insert(0, str(SOURCE / "tests" / "support"))
from launcher import FLAGS, MPIRUN, PREFIXES  # noqa: E402


# srun starts two ranks on this machine, whatever it is asked for. sbatch runs the script at once, and prints the number of its job.
SRUN = f"""while [[ $1 == -* ]]; do shift; done
unset {" ".join(f"${{!{prefix}*}}" for prefix in PREFIXES)}
exec mpirun -np 2 "$@"
"""
SBATCH = """export SLURM_JOB_ID=$$ SLURM_JOB_NAME=job SLURM_JOB_NODELIST=node01 SLURM_SUBMIT_DIR=$PWD
while [[ $1 == -* ]]; do
  [[ $1 != --array=* ]] || export SLURM_ARRAY_JOB_ID=$$ SLURM_ARRAY_TASK_ID=1
  shift
done
bash "$@" >&2 && echo $SLURM_JOB_ID
"""


def write_program(path, text):
    path.write_text(f"#!/bin/bash\n{text}")
    path.chmod(0o755)


def make_sandbox(folder):
    """A folder like a clone with a built program, and the environment to run commands in it."""
    for name in ("jobs", "examples", "modules"):
        shutil.copytree(SOURCE / name, folder / name)
    for name in ("bin", "build/release", "home/.cache/ddpm", "scratch"):
        (folder / name).mkdir(parents=True)
    (folder / "tiny.toml").write_text(TINY)
    (folder / "home/.cache/ddpm/fonts").symlink_to(FONTS)
    for place in ("bin", "build/release"):
        (folder / place / "ddpm").symlink_to(DDPM)
    for name in ("python", "python3"):
        write_program(folder / "bin" / name, f'exec {sys.executable} "$@"\n')
    write_program(folder / "bin/mpirun", f'exec {shutil.which(MPIRUN[0])} {shlex.join(FLAGS)} "$@"\n')
    write_program(folder / "bin/srun", SRUN)
    write_program(folder / "bin/sbatch", SBATCH)
    return {**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}", "HOME": str(folder / "home"), "DDPM": "",
            "TMPDIR": str(folder / "scratch"), "DDPM_CACHE": "", "XDG_CACHE_HOME": ""}  # fmt: skip
