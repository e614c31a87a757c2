#!/usr/bin/env bash
# lost_launcher.sh PROGRAM MPIEXEC FLAGS...: ranks whose mpiexec is killed do not stay behind.
set -euo pipefail

program=$1
shift
: >pids.txt
"$@" -np 2 "$program" >pids.txt &
launcher=$!
until [[ $(wc -l <pids.txt) -eq 2 ]]; do sleep 0.1; done

kill -KILL "$launcher"
for ((i = 0; i < 50; i++)); do
  # A process that has ended but is not yet reaped counts as gone.
  left=0
  while read -r pid; do
    if [[ -e /proc/$pid/status ]] && ! grep -q '^State:\sZ' "/proc/$pid/status"; then left=$((left + 1)); fi
  done <pids.txt
  if ((left == 0)); then exit 0; fi
  sleep 0.1
done
echo "$left ranks outlived their launcher by 5 s" >&2
xargs kill -KILL <pids.txt
exit 1
