# shellcheck shell=bash
# What the run.sh of the examples share; sourced by them. They run on this machine, on two ranks unless RANKS says otherwise,
# and keep what they make below runs/. The program is $DDPM, or ddpm of PATH, or build/release/ddpm.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. modules/common.sh
help_if_asked "$0" "$@"

RANKS=${RANKS:-2}

find_ddpm() {
  if [ -n "${DDPM:-}" ]; then
    printf '%s\n' "$DDPM"
  elif command -v ddpm; then
    :
  elif [ -x build/release/ddpm ]; then
    printf '%s\n' build/release/ddpm
  else
    printf '%s: there is no ddpm: not in DDPM, not on PATH, not at build/release/ddpm; jobs/quickstart.sh builds it.\n' "$0" >&2
    exit 2
  fi
}
ddpm=$(find_ddpm)

# A command of the program on all ranks.
everywhere() { on_ranks "$RANKS" "$ddpm" "$@"; }

# Makes the dataset $1 by the command that follows, unless it is there.
unless_there() {
  local dataset=$1
  shift
  if [ -e "$dataset/dataset.json" ]; then
    note "$dataset is there"
  else
    "$@"
  fi
}

# Draws the samples $2 with the model of the run $1 by the command that follows, unless they are there. Those of an earlier state
# of the model are drawn anew.
unless_drawn() {
  local run=$1 samples=$2
  shift 2
  [ "$samples/dataset.json" -nt "$run/LATEST" ] || rm -rf "$samples"
  unless_there "$samples" "$@"
}
