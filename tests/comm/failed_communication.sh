#!/usr/bin/env bash
# failed_communication.sh MPIEXEC PROGRAM: a failure that the main thread does not see ends the job, with a line that says
# whose it was.
set -uo pipefail

timeout --kill-after=5 30 "$1" --oversubscribe --bind-to none -np 2 "$2" 2>said.txt
code=$?
if ((code != 5)); then
  cat said.txt >&2
  echo "exit code $code, not 5" >&2
  exit 1
fi
grep -q "rank 1 on .* cannot communicate any more: NCCL: remote process exited" said.txt
