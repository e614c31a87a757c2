#!/usr/bin/env bash
# Builds communication and its tests with MPICH, and runs them: the MPI whose interface Cray's and Intel's share.
#
#   mpich.sh SOURCE
set -euo pipefail
cd "$1"
. modules/common.sh
build=$OLDPWD/build

# The tests' folder alone is built; the rest of the program is as far as CMake has looked at it.
configure mpich -B "$build" -DDDPM_TESTS=ON -DDDPM_CUDA=OFF -DDDPM_UNITY=ON
cmake --build "$build" --parallel 2 --target tests/comm/all
exec ctest --test-dir "$build" --output-on-failure --no-tests=error -R '^comm_' </dev/null
