#!/usr/bin/env bash
# differing_collectives.sh PROGRAM MPIEXEC FLAGS...: collectives in which ranks differ are named by both, and end the job.
set -uo pipefail

# expect HOW LINE...: `PROGRAM HOW` on two ranks ends with the exit code of collective_check.cpp, and says the lines.
expect() {
  local how=$1 code line
  shift
  DDPM_COLLECTIVES_PATIENCE_S=3 timeout --kill-after=5 20 "${mpiexec[@]}" -np 2 "$program" "$how" 2>"said-$how.txt"
  code=$?
  for line in "$@"; do
    if ((code != 86)) || ! grep -q "$line" "said-$how.txt"; then
      cat "said-$how.txt" >&2
      echo "$how: exit code $code; wanted: 86, and a line like: $line" >&2
      exit 1
    fi
  done
}

program=$1
shift
mpiexec=("$@")
expect other-operation "rank 0 differs from others: call .*, MPI_Ibarrier on a duplicate" \
  "rank 1 differs from others: call .*, MPI_Ibcast(3 of MPI_DOUBLE, 8 bytes, root 0) on a duplicate"
expect other-count "rank 0 differs from others: call .*, MPI_Iallreduce(2 of MPI_FLOAT, 4 bytes, sum)" \
  "rank 1 differs from others: call .*, MPI_Iallreduce(1 of MPI_FLOAT, 4 bytes, sum)"
expect other-reduction "rank 0 differs from others: call .*, MPI_Iallreduce(2 of MPI_FLOAT, 4 bytes, sum)" \
  "rank 1 differs from others: call .*, MPI_Iallreduce(2 of MPI_FLOAT, 4 bytes, max)"
expect other-type "rank 0 differs from others: call .*, MPI_Iallreduce(2 of MPI_FLOAT, 4 bytes, sum)" \
  "rank 1 differs from others: call .*, MPI_Iallreduce(2 of MPI_INT32_T, 4 bytes, sum)"
expect other-half "rank 0 differs from others: call .*, MPI_Iallreduce(2 of a type of its own, 2 bytes, an operation of its own at" \
  "rank 1 differs from others: call .*, MPI_Iallreduce(2 of a type of its own, 2 bytes, an operation of its own at"
expect ring-type "rank 0 differs from others: call .*, ring all_reduce(65536 of MPI_FLOAT, 4 bytes, sum)" \
  "rank 1 differs from others: call .*, ring all_reduce(65536 of MPI_INT32_T, 4 bytes, sum)"
expect ring-reduction "rank 0 differs from others: call .*, ring all_reduce(65536 of MPI_FLOAT, 4 bytes, sum)" \
  "rank 1 differs from others: call .*, ring all_reduce(65536 of MPI_FLOAT, 4 bytes, max)"
expect window "rank 0 differs from others: call .*, MPI_Win_allocate_shared on a duplicate" \
  "rank 1 differs from others: call .*, MPI_Ibarrier on a duplicate"
expect freed-window "rank 0 differs from others: call .*, MPI_Win_free on a duplicate" \
  "rank 1 differs from others: call .*, MPI_Ibarrier on a duplicate"
expect missing "rank 0 waits for others that do not come: call .*, MPI_Ibarrier"
