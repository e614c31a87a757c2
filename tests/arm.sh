#!/usr/bin/env bash
# Builds for 64-bit Arm what needs no LibTorch, into build/aarch64, and runs its tests under qemu.
#
#   tests/arm.sh [ctest's arguments]     such as: tests/arm.sh -R nn_kernels
#
# The compiler, Arm's libraries and qemu are set up first (modules/setup.sh --arm). ctest's summary comes last.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. modules/common.sh
only_ctests tests/arm.sh "$@"

modules/setup.sh --arm

say "Build"
configure aarch64 -DDDPM_TESTS=ON -DDDPM_UNITY=ON -DDDPM_WERROR="${DDPM_WERROR:-OFF}"
cmake --build build/aarch64 --parallel "$(build_jobs)"

say "Tests"
exec ctest --test-dir build/aarch64 --parallel "$(nproc)" --output-on-failure --no-tests=error "$@" </dev/null
