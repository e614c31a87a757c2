# shellcheck shell=bash
# What this site provides, in one place. Copy it, fill in what `module avail` prints, and source the copy:
#
#   . ./site.sh build                                     to build: compiler, CMake and headers too
#   modules/setup.sh --no-packages                        LibTorch only, which no site has
#   cmake --preset release && cmake --build build/release --parallel && cmake --install build/release --prefix PREFIX
#
#   export DDPM_SITE=$PWD/site.sh                         each job sources it: what running needs
#   sbatch jobs/train.sbatch my.toml
#
# Job scripts also find it as site.sh in their own folder. What is left empty is not loaded.

# module          wanted                                                      built and tested with
site_compiler=  # GCC 12 or newer: C++20, and its libstdc++ at run time       GCC 12.2
site_mpi=       # MPI 3 or newer, with MPI_THREAD_MULTIPLE                    Open MPI 4.1.4
site_hdf5=      # 1.10 or newer, parallel, built with that MPI                HDF5 1.10.8
# To build only: CMake 3.24, Ninja, fmt, CLI11, toml++, nlohmann-json, libpng, libjpeg, libwebp, libtiff 4.5, libarchive, zlib, FreeType, libdeflate, LZ4, Zstandard, kissfft, OpenSSL 3; separated by spaces.
site_build=     #                                                             CMake 3.25, Debian 12's libraries
# For GPUs: the versions that LibTorch 2.11 of PyPI was built with.
site_cuda=      # 13.0                                                        nvcc 13.0
site_cudnn=     # 9.19
site_nccl=      # 2.28

# How ranks are started (srun, mpirun, mpiexec, pals, flux), and defaults of sbatch for jobs submitted from a shell that has sourced this file.
# export DDPM_LAUNCHER=mpirun
# export DDPM_SRUN_MPI=pmix      # where `scontrol show config` says MpiDefault = none
# export SBATCH_ACCOUNT= SBATCH_PARTITION=

# ----------------------------------------------------------------------------------------------------------------------

# Read by cmake: the installed module file of ddpm loads these first.
export DDPM_SITE_MODULES="$site_compiler $site_mpi $site_hdf5 $site_cuda $site_cudnn $site_nccl"
site_modules=$DDPM_SITE_MODULES
if [ "${1:-run}" = build ]; then
  site_modules="$site_modules $site_build"
fi
for site_module in $site_modules; do
  module load "$site_module" || return
done
unset site_module site_modules
