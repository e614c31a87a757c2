#!/usr/bin/env bash
# Draws pictures from a model on all ranks, under Flux.
#
#   flux batch jobs/sample.flux --model RUN --count 64 --output RUN/grid.png [options of ddpm sample]
#   flux batch jobs/sample.flux --model RUN --condition FORECASTS.h5 --members 50 --format dataset --output ENSEMBLE
#
# The second form is completed by the same command when the time limit ends it.

# --- Site settings --------------------------------------------------------------------------------------------------
# flux: --job-name=ddpm-sample
# flux: --nodes=1
# flux: --exclusive
# flux: # --queue=QUEUE
# flux: # --setattr=bank=ACCOUNT
# flux: --time-limit=30m
# flux: --output=ddpm-sample-{{id}}.log
set -euo pipefail
# Signals that come before the ranks have started are kept.
stopped_by=
trap '[ "$stopped_by" = TERM ] || stopped_by=USR1' USR1
trap 'stopped_by=TERM' TERM
ranks_per_node=${DDPM_RANKS_PER_NODE:-4} cpus_per_rank=${DDPM_CPUS_PER_RANK:-1}

# module load openmpi hdf5 ddpm
# --------------------------------------------------------------------------------------------------------------------

batch=flux jobs=${DDPM_JOBS:-jobs}
[ -e "$jobs/stages.sh" ] || { echo "no $jobs/stages.sh: submit from the folder that holds jobs/, or set DDPM_JOBS" >&2; exit 2; }
# shellcheck source=jobs/stages.sh
. "$jobs/stages.sh"
sample "$@"
