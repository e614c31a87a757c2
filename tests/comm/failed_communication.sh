#!/usr/bin/env bash
# failed_communication.sh PROGRAM MPIEXEC FLAGS...: a failure that the main thread does not see ends the job, with a line that says
# whose it was.
set -uo pipefail

# expect HOW CODE LINE: `PROGRAM HOW` on two ranks ends with the exit code, and says the line.
expect() {
  timeout --kill-after=5 15 "${mpiexec[@]}" -np 2 "$program" "$1" 2>"said-$1.txt"
  local code=$?
  if ((code != $2)) || ! grep -q "$3" "said-$1.txt"; then
    cat "said-$1.txt" >&2
    echo "$1: exit code $code; wanted: $2, and a line like: $3" >&2
    exit 1
  fi
}

program=$1
shift
mpiexec=("$@")
expect reports 5 "rank 1 on .* cannot communicate any more: NCCL: remote process exited"
expect throws 5 "rank 1 on .*: the watchdog cannot go on, which ends the job: NCCL: no answer"
expect throws-odd 1 "rank 1 on .*: the watchdog cannot go on, which ends the job: out of something"
