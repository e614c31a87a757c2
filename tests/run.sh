#!/usr/bin/env bash
# Sets up, builds into build/release, and runs every test that this machine can run.
#
#   tests/run.sh [ctest's arguments]     such as: tests/run.sh -L mpi, tests/run.sh -R observe
#
# ctest's summary comes last. Before it, the configuration says which tests this machine cannot run. DDPM_CUDA=OFF (or ON)
# decides about the CUDA part; otherwise it is built where CUDA is found. DDPM_WERROR=ON makes warnings errors.
# DDPM_MPI=mpich sets up, builds and tests with MPICH in place of Open MPI, in build/mpich.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. modules/common.sh
only_ctests tests/run.sh "$@"

mpi=${DDPM_MPI:-openmpi}
modules/setup.sh --tests --mpi "$mpi"
preset=release
[ "$mpi" = openmpi ] || preset=$mpi
say "Python peers"
tests/peers/setup.sh

say "Build"
configure "$preset" -DDDPM_TESTS=ON -DDDPM_UNITY=ON -DDDPM_WERROR="${DDPM_WERROR:-OFF}" -DDDPM_CUDA="${DDPM_CUDA:-AUTO}"
cmake --build "build/$preset" --parallel "$(build_jobs)"

say "Tests"
# Most tests wait half of their time, for a start, a time limit or a disk: twice as many ranks as cores run at once.
exec ctest --test-dir "build/$preset" --parallel $((2 * $(nproc))) --output-on-failure --no-tests=error "$@" </dev/null
