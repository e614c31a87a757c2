#!/usr/bin/env bash
# Submits jobs that follow each other: each starts when the one before it has ended well. Under Slurm all of them are queued at
# once; under PBS and Flux each submits the next.
#
#   jobs/submit.sh STAGE ARGUMENTS [-- STAGE ARGUMENTS ...]      a STAGE is prepare, train or sample
#   jobs/submit.sh --help
#
#   jobs/submit.sh prepare photos --output photos-64 --size 64 \
#     -- train my.toml \
#     -- sample --model runs/mine --count 64 --output runs/mine/grid.png
#
# Options of sbatch for a stage are in PREPARE_SBATCH, TRAIN_SBATCH and SAMPLE_SBATCH, such as
# TRAIN_SBATCH="--nodes=4 --time=12:00:00" (words between blanks; quotes are not understood); those of qsub in PREPARE_QSUB and
# so on, those of flux batch in PREPARE_FLUX. DDPM_BATCH (slurm, pbs or flux) says which batch system is meant; if unset, the
# first of them whose command is there. Prints a line with stage and job number for each job.
set -euo pipefail

jobs=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export DDPM_JOBS=$jobs

fail() {
  printf 'jobs/submit.sh: %s\n' "$1" >&2
  exit 2
}

# shellcheck source=jobs/batch.sh
. "$jobs/batch.sh"

find_batch() {
  local system
  for system in slurm:sbatch pbs:qsub flux:flux; do
    ! command -v "${system#*:}" >/dev/null || { printf '%s\n' "${system%:*}" && return; }
  done
  fail "no sbatch, qsub or flux on PATH"
}

check() {
  [ -e "$jobs/$1.sbatch" ] || fail "unknown stage '$1'; wanted: prepare, train or sample"
  [ $# -gt 1 ] || fail "$1: no arguments"
}

# Submits stage $1 with its arguments, under Slurm after job $previous, and makes it the previous one.
submit() {
  local variable=${1^^}_$suffix options=() after=
  read -r -a options <<<"${!variable:-}"
  if [ -n "$previous" ]; then
    options+=("--dependency=afterok:$previous" --kill-on-invalid-dep=yes)
    after="; job $previous, and any before it, are queued: scancel ends them"
  fi
  [ -z "${DDPM_NEXT:-}" ] || [[ " ${options[*]}" != *" -J"* ]] || fail "$1: each task of a job array would submit the next stage"
  previous=$("${batch}_submit" "$@") || fail "$1: $command refuses it$after"
  previous=${previous%%;*} # the cluster's name may follow
  printf '%-8s job %s\n' "$1" "$previous"
}

# Submits the first stage, which is told of the others.
submit_first() {
  local words=()
  while [ $# -gt 0 ] && [ "$1" != -- ]; do
    words+=("$1")
    shift
  done
  export DDPM_NEXT=
  [ $# -eq 0 ] || DDPM_NEXT=$(packed "${@:2}")
  submit "${words[@]}"
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
batch=${DDPM_BATCH:-$(find_batch)}
case $batch in
  slurm) command=sbatch suffix=SBATCH && each_stage submit "$@" ;;
  pbs) command=qsub suffix=QSUB && pbs_check && submit_first "$@" ;;
  flux) command='flux batch' suffix=FLUX && submit_first "$@" ;;
  *) fail "DDPM_BATCH is '$batch'; wanted: slurm, pbs or flux" ;;
esac
