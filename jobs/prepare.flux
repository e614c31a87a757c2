#!/usr/bin/env bash
# Makes an image set on all ranks, under Flux. Submitted again after an interruption, it continues. An image set that is there
# already is left as it is, and the job ends well, so that a chain of jobs may be submitted again.
#
#   flux batch jobs/prepare.flux SOURCE --output DATASET [options of ddpm data create]

# --- Site settings --------------------------------------------------------------------------------------------------
# flux: --job-name=ddpm-prepare
# flux: --nodes=1
# flux: --exclusive
# flux: # --queue=QUEUE
# flux: # --setattr=bank=ACCOUNT
# flux: --time-limit=1h
# flux: --output=ddpm-prepare-{{id}}.log
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
prepare "$@"
