#!/usr/bin/env bash
# Tests and measures the packed build on this machine's GPU; tests/gpu/pack.sh makes the box, of which this is box.sh.
#
#   tests/gpu/box.sh [--help] [--output FOLDER] [--minutes N] [--rounds N] [--rows N,N...] [check] [bench] [kernels] [sanitize]
#
#   check      the tests on a GPU; trainings and samples beside the CPU's
#   bench      training steps of four models beside PyTorch's, in turns
#   kernels    what the GPU does in a step of each model: kernels, their time, time without any
#   sanitize   compute-sanitizer over the kernels' tests
#
# Without names: check, bench and kernels. --rows takes some of the models: 0, 1, 2, 3. FOLDER (gpu-results) gets report.md,
# results.jsonl and logs.tar.gz. After N minutes (30) what still runs is ended. Exit code 0: all passed; 1: some did not, as the
# report says of each; 2: it cannot run.
set -euo pipefail
box=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
common=$box/common.sh # in the box; in the repository it lies elsewhere
[ -e "$common" ] || common=$box/../../modules/common.sh
# shellcheck source=modules/common.sh
. "$common"
help_if_asked "${BASH_SOURCE[0]}" "$@"
for ((i = 1; i <= $#; ++i)); do
  case ${!i} in
    check | bench | kernels | sanitize) ;;
    --output | --minutes | --rounds | --rows) ((++i)) ;;
    *) refuse_argument tests/gpu/box.sh "${!i}" "known are --help, --output, --minutes, --rounds, --rows, check, bench, kernels, sanitize" ;;
  esac
done

cannot() {
  printf 'box.sh: %s\n' "$1" >&2
  exit 2
}

[ -e "$box/bin/ddpm" ] || cannot "it is no packed box, since it has no bin/ddpm: see tests/gpu/pack.sh"
site=$(python3 -c 'import importlib.util as i, pathlib as p; print(p.Path(i.find_spec("torch").origin).parents[1])' 2>/dev/null) \
  || cannot "python3 has no torch; install the wheel torch of the build's version, which brings CUDA"
libraries=$box/lib:$site/torch/lib
for folder in "$site"/nvidia/*/lib; do libraries+=:$folder; done
export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export OPAL_PREFIX=$box/usr PMIX_INSTALL_PREFIX=$box/usr/lib/x86_64-linux-gnu/pmix2 PATH=$box/usr/bin:$PATH
# shellcheck disable=SC2031 # The subshell of common.sh is another.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_ess_singleton_isolated=1
export DDPM=$box/bin/ddpm DDPM_SOURCE_DIR=$box/source DDPM_GOLDEN=$box/golden PYTHONPATH=$box/python${PYTHONPATH:+:$PYTHONPATH}
export DDPM_CUDA_LIBRARY=$box/bin/libddpm_cuda.so PYTHONDONTWRITEBYTECODE=1

missing=$(ldd "$box"/bin/* 2>&1 | awk '/not found/ && !/libcuda\.so/ {print $1}' | sort -u | tr '\n' ' ')
[ -z "$missing" ] || cannot "libraries are missing: $missing"
exec python3 "$box/source/tests/gpu/visit.py" "$@"
