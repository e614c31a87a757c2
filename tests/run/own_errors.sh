#!/usr/bin/env bash
# own_errors.sh PROGRAM MPIEXEC FLAGS...: an error that rank 1 alone has is said by it, with its host, and ends the job: the other rank
# would wait for it.
set -uo pipefail

# expect WHERE CODE LINE: `PROGRAM WHERE` on two ranks ends with the exit code, and says the line once.
expect() {
  timeout --kill-after=5 20 "${mpiexec[@]}" -np 2 "$program" "$1" 2>"said-$1.txt"
  local code=$?
  if ((code != $2)) || [ "$(grep -c "^ddpm: error: $3" "said-$1.txt")" -ne 1 ]; then
    cat "said-$1.txt" >&2
    echo "$1: exit code $code; wanted: $2, and one line like: $3" >&2
    exit 1
  fi
}

program=$1
shift
mpiexec=("$@")
expect start 5 "rank 1 on [^ ]*: MPI_Comm_dup failed on rank 1: "
expect end 3 "rank 1 on [^ ]*: MPI_Ibarrier failed on rank 1: "
