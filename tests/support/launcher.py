"""How the tests start ranks: with the MPI that the program was built with, which CMake names, or else with Open MPI's mpirun; and what
launchers tell ranks of themselves, as the table of src/comm/launch.cpp has it."""

import os
import shlex
import shutil

FLAGS = tuple(os.environ.get("DDPM_MPIEXEC_FLAGS", "--oversubscribe --bind-to none").split())
# Before "-np N PROGRAM". The flags let it start more ranks than there are cores.
MPIRUN = (os.environ.get("DDPM_MPIEXEC", "mpirun"), *FLAGS)
# The plugin through which ranks of that MPI find each other under srun.
SRUN_MPI = os.environ.get("DDPM_TEST_SRUN_MPI", "pmix")
# That MPI's own launcher, as DDPM_LAUNCHER names it for the job scripts: Open MPI meets through PMIx.
LAUNCHER = "mpirun" if SRUN_MPI == "pmix" else "mpiexec"

# The rank, by the launcher that is nearest to it.
RANK_VARIABLES = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "FLUX_TASK_RANK", "SLURM_PROCID", "PALS_RANKID")
# A shell puts the rank in its place, or 0 where no launcher has told one.
RANK_IN_SHELL = "".join(f"${{{name}:-" for name in RANK_VARIABLES) + "0" + "}" * len(RANK_VARIABLES)
# How the variables begin that batch systems and launchers set for what they start.
PREFIXES = ("SLURM", "SBATCH_", "SALLOC_", "PBS_", "PALS_", "FLUX_", "PMI", "MPI_LOCAL", "OMPI_COMM_WORLD_")


def variables_of_launcher(folder):
    """Variables with which LAUNCHER is that of this MPI, where there are several of that name."""
    program = shutil.which(MPIRUN[0]) or MPIRUN[0]
    if os.path.realpath(shutil.which(LAUNCHER) or "") == os.path.realpath(program):
        return {}
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / LAUNCHER
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(program)} "$@"\n')  # no link: MPICH's looks for its proxy beside itself
    script.chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}:/usr/sbin:/sbin"}


def rank_of(variables):
    """The rank of a process with these variables; None where no launcher has started it."""
    return next((int(variables[name]) for name in RANK_VARIABLES if variables.get(name, "").isdigit()), None)


def without_launchers():
    """The environment of this process, for a program that is started bare: in an allocation it would look for other ranks."""
    return {name: value for name, value in os.environ.items() if not name.startswith(PREFIXES)}
