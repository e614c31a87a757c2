#!/usr/bin/env bash
# Builds the fuzz targets into build/fuzz and runs them under the address and undefined-behaviour sanitizers.
#
#   tests/fuzz/run.sh [--runs 100000] [--seed 1] [--help] [TARGET ...]     such as: tests/fuzz/run.sh --runs 5000000 manifest
#
# Without targets, all of them. Each begins with its seeds, tests/fuzz/corpus/TARGET (of images also the pictures of
# tests/data/prepare/golden), and with equal seeds does the same. It prints what each target did; an input that breaks
# one is left in build/fuzz. CXX names another clang than clang++-14.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. modules/common.sh
help_if_asked tests/fuzz/run.sh "$@"

fail() {
  printf 'tests/fuzz/run.sh: %s\n' "$1" >&2
  exit 2
}

# Runs target $1; one line of what it did, or the end of what it said when it broke.
run_target() {
  local name=$1 corpus=("build/fuzz/found-$1" "tests/fuzz/corpus/$1") log=build/fuzz/$1.log begin=$SECONDS
  case $name in png | jpeg | tiff | webp) corpus+=(tests/data/prepare/golden) ;; esac
  # What reaches new code is written into the first folder, which starts empty.
  rm -rf "${corpus[0]}" && mkdir "${corpus[0]}"
  if TMPDIR=$files "build/fuzz/fuzz_$name" -runs="$runs" -seed="$seed" -max_len=4096 -timeout=20 -rss_limit_mb=2048 \
    -artifact_prefix="build/fuzz/$name-" "${corpus[@]}" >"$log" 2>&1; then
    printf '%-20s %s runs, %s s\n' "$name" "$(sed -n 's/^Done \([0-9]*\) runs.*/\1/p' "$log")" $((SECONDS - begin))
  else
    tail -n 30 "$log" >&2
    printf '%-20s BROKEN, see %s\n' "$name" "$log"
    return 1
  fi
}

# Where a target writes the files that it reads: in memory, where the system has such a folder.
files=/dev/shm
[ -w "$files" ] || files=${TMPDIR:-/tmp}

if [ "${1:-}" = --one ]; then
  runs=$2 seed=$3
  run_target "$4"
  exit
fi

runs=100000 seed=1
targets=()
while [ $# -gt 0 ]; do
  case $1 in
    --runs) runs=${2:?--runs wants a number} && shift ;;
    --seed) seed=${2:?--seed wants a number} && shift ;;
    -*) refuse_argument tests/fuzz/run.sh "$1" "known are --runs, --seed and --help" ;;
    *)
      [ -d "tests/fuzz/corpus/$1" ] || fail "there is no target '$1'; tests/fuzz/corpus has a folder for each."
      targets+=("$1")
      ;;
  esac
  shift
done
if [ ${#targets[@]} -eq 0 ]; then
  mapfile -t targets < <(find tests/fuzz/corpus -mindepth 1 -maxdepth 1 -type d -printf '%f\n' | sort)
fi

compiler=${CXX:-clang++-14}
command -v "$compiler" >/dev/null || fail "$compiler is not there; Debian: apt-get install clang-14 libclang-rt-14-dev"
mkdir -p build
cmake -S tests/fuzz -B build/fuzz -G Ninja -DCMAKE_CXX_COMPILER="$compiler" >build/fuzz.log 2>&1 ||
  { tail -n 20 build/fuzz.log >&2 && fail "cannot be configured"; }
cmake --build build/fuzz --parallel "$(nproc)" --target "${targets[@]/#/fuzz_}" >build/fuzz.log 2>&1 ||
  { tail -n 40 build/fuzz.log >&2 && fail "cannot be built"; }
printf '%s\0' "${targets[@]}" | xargs -0 -n 1 -P "$(nproc)" tests/fuzz/run.sh --one "$runs" "$seed"
