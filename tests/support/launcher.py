"""How the tests start ranks: with the MPI that the program was built with, which CMake names, or else with Open MPI's mpirun."""

import os

FLAGS = tuple(os.environ.get("DDPM_MPIEXEC_FLAGS", "--oversubscribe --bind-to none").split())
# Before "-np N PROGRAM". The flags let it start more ranks than there are cores.
MPIRUN = (os.environ.get("DDPM_MPIEXEC", "mpirun"), *FLAGS)
# The plugin through which ranks of that MPI find each other under srun.
SRUN_MPI = os.environ.get("DDPM_TEST_SRUN_MPI", "pmix")
