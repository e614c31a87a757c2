#!/usr/bin/env bash
# Submits jobs that follow each other: each starts when the one before it has ended well.
#
#   jobs/submit.sh STAGE ARGUMENTS [-- STAGE ARGUMENTS ...]      a STAGE is prepare, train or sample
#   jobs/submit.sh --help
#
#   jobs/submit.sh prepare photos --output photos-64 --size 64 \
#     -- train my.toml \
#     -- sample --model runs/mine --count 64 --output runs/mine/grid.png
#
# Options of sbatch for a stage are in PREPARE_SBATCH, TRAIN_SBATCH and SAMPLE_SBATCH, such as
# TRAIN_SBATCH="--nodes=4 --time=12:00:00" (words between blanks; quotes are not understood). Prints a line with stage and job
# number for each. When a job fails, those after it are cancelled by Slurm.
set -euo pipefail

jobs=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export DDPM_JOBS=$jobs

fail() {
  printf 'jobs/submit.sh: %s\n' "$1" >&2
  exit 2
}

check() {
  [ -e "$jobs/$1.sbatch" ] || fail "unknown stage '$1'; wanted: prepare, train or sample"
  [ $# -gt 1 ] || fail "$1: no arguments"
}

# Submits stage $1 with its arguments after job $previous, and makes it the previous one.
submit() {
  local stage=$1 variable=${1^^}_SBATCH options=() after=
  shift
  read -r -a options <<<"${!variable:-}"
  [ -z "$previous" ] || options+=("--dependency=afterok:$previous" --kill-on-invalid-dep=yes)
  [ -z "$previous" ] || after="; job $previous, and any before it, are queued: scancel ends them"
  previous=$(sbatch --parsable "${options[@]}" "$jobs/$stage.sbatch" "$@") || fail "$stage: sbatch refuses it$after"
  previous=${previous%%;*} # the cluster's name may follow
  printf '%-8s job %s\n' "$stage" "$previous"
}

# Does $1 with the words of each stage.
each_stage() {
  local work=$1 word words=()
  shift
  for word in "$@" --; do
    if [ "$word" != -- ]; then
      words+=("$word")
    else
      [ ${#words[@]} -gt 0 ] || fail "a stage is missing before or after '--'"
      "$work" "${words[@]}"
      words=()
    fi
  done
}

case ${1:-} in
  --help | -h)
    awk 'NR == 1 { next } !/^#/ { exit } { sub(/^# ?/, ""); print }' "${BASH_SOURCE[0]}"
    exit 0
    ;;
esac
[ $# -gt 0 ] || fail "nothing to submit: jobs/submit.sh prepare|train|sample ARGUMENTS [-- ...]"
previous=
each_stage check "$@"
each_stage submit "$@"
