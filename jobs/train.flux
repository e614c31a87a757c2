#!/usr/bin/env bash
# Trains under Flux, as often as the time limit demands: saves before it, submits itself again, and continues until the run is
# done. A finished run ends at once with exit code 0, so it may be submitted again at any time.
#
#   jobs/submit.sh train CONFIG.toml [MORE.toml ...] [--section.key VALUE ...]                             later files win
#   TRAIN_FLUX="--nodes=4 --time-limit=12h" jobs/submit.sh train CONFIG.toml                        options of flux batch
#   flux batch jobs/train.flux CONFIG.toml                                               every start with the options below
#
# `flux cancel JOB` ends it; what was last saved remains.

# --- Site settings --------------------------------------------------------------------------------------------------
# flux: --job-name=ddpm-train
# flux: --nodes=1
# flux: --exclusive
# flux: # --queue=QUEUE
# flux: # --setattr=bank=ACCOUNT
# flux: --time-limit=4h
# flux: --signal=USR1@10m
# flux: --output=ddpm-train-{{id}}.log
# USR1 comes ten minutes before the time limit, in which a save and its sync must fit. Flux knows --signal from 0.51 on, and hands
# it to the ranks, from 0.73 on to this script as well; take the line out for an older one, where the clock alone stops training
# so many seconds before the limit (DDPM_SAVE_SECONDS).
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
train "$@"
