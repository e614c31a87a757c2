#!/usr/bin/env bash
# own_errors.sh PROGRAM MPIEXEC FLAGS...: an error that rank 1 alone has is said by it, with its host, and ends the job: the other rank
# would wait for it. Of three ranks that have one, one says it. A rank in which MPI does not come to its end keeps nobody.
set -uo pipefail

# expect WHERE RANKS CODE ERRORS LINE: `PROGRAM WHERE` ends with the exit code, and with so many errors, the line being one.
expect() {
  timeout --kill-after=5 20 "${mpiexec[@]}" -np "$2" "$program" "$1" 2>"said-$1.txt"
  local code=$?
  if ((code != $3)) || [ "$(grep -c "^ddpm: error: " "said-$1.txt")" -ne "$4" ] || [ "$(grep -c "^ddpm: error: $5" "said-$1.txt")" -ne 1 ]; then
    cat "said-$1.txt" >&2
    echo "$1: exit code $code; wanted: $3, and $4 errors, one of them like: $5" >&2
    exit 1
  fi
}

program=$1
shift
mpiexec=("$@")
expect start 2 5 1 "rank 1 on [^ ]*: MPI_Comm_dup failed on rank 1: "
expect end 2 3 2 "rank 1 on [^ ]*: MPI_Ibarrier failed on rank 1: "
expect some 4 3 1 "rank [1-3] on [^ ]*: image 7 is damaged"
export DDPM_START_TIMEOUT_S=2
expect stuck 2 3 1 "rank 0 on [^ ]*: there is no set"
grep -q "^ddpm: warning: MPI has not ended within 2 s; all work is done" said-stuck.txt || {
  cat said-stuck.txt >&2
  echo "stuck: a warning that MPI has not ended is wanted" >&2
  exit 1
}
