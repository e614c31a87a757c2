# shellcheck shell=bash disable=SC2034,SC2154 # variables of those that source this file
# All that batch systems have different names for, side by side; sourced by job.sh. `batch` is the one that runs this job:
# slurm (unless the script says otherwise), pbs or flux. The scripts of the latter say cpus_per_rank, those of Flux also
# ranks_per_node. For each of them there is
#
#   BATCH_facts         sets job, hosts and task (for the log), index (of this task of an array; empty outside of one),
#                       restarts (how often the job has come back), nodes, ranks, cpus (of each rank), and launcher
#   BATCH_seconds_left  prints the seconds until the time limit; nothing where a signal announces it; fails if it is unknown
#   BATCH_again         has stage $1 run again, with the arguments that follow
#   BATCH_unwanted_node prints why this start is to go back before it begins: it has a node that has failed; or nothing
#   BATCH_failure       prints why a start that has ended with exit code $1 is to come back; or nothing
#   BATCH_submit        submits stage $1 with the arguments that follow and ${options[@]}, and prints the number of the job

# Prints words such that the shell reads them as they are.
quoted() { printf '%s' "${*@Q}"; }

# --- Slurm ------------------------------------------------------------------------------------------------------------
slurm_facts() {
  job=${SLURM_JOB_ID:-} hosts=${SLURM_JOB_NODELIST:-} index=${SLURM_ARRAY_TASK_ID:-} restarts=${SLURM_RESTART_COUNT:-0}
  task=${index:+" (task ${SLURM_ARRAY_JOB_ID:-}_$index)"}
  nodes=${SLURM_JOB_NUM_NODES:-1} ranks=${SLURM_NTASKS:-1} cpus=${SLURM_CPUS_PER_TASK:-1} launcher=srun
}

slurm_seconds_left() { :; } # --signal

# failed_nodes.sh has slurm_again, slurm_unwanted_node and slurm_failure.

slurm_submit() { sbatch --parsable "${options[@]}" "$jobs/$1.sbatch" "${@:2}"; }

# --- PBS Professional, OpenPBS ------------------------------------------------------------------------------------------
pbs_facts() {
  job=${PBS_JOBID:-} index=${PBS_ARRAY_INDEX:-} restarts=${DDPM_RESTARTS:-0} task=
  [ -n "$job" ] || die "this script wants a job of PBS: jobs/submit.sh train CONFIG.toml"
  hosts=$(sort -u "$PBS_NODEFILE" | paste -sd,)
  nodes=$(sort -u "$PBS_NODEFILE" | wc -l) ranks=$(wc -l <"$PBS_NODEFILE") cpus=$cpus_per_rank launcher=mpiexec
}

pbs_seconds_left() {
  qstat -f "$PBS_JOBID" | awk -v spent="$SECONDS" '
    $1 == "Resource_List.walltime" { split($3, t, ":"); print t[1] * 3600 + t[2] * 60 + t[3] - spent; found = 1 }
    END { exit !found }'
}

# A task of an array comes back alone, with the arguments of its line.
pbs_again() { TRAIN_QSUB=$(sed -E 's/(^| )-J *[^ ]+/ /g' <<<"${TRAIN_QSUB:-}") submit_from_here "$@"; }

pbs_unwanted_node() { :; }
pbs_failure() { :; }

# qrerun is for operators. qsub hands no arguments to a script, and of the variables only those that -v names.
pbs_submit() {
  DDPM_ARGUMENTS=$(quoted "${@:2}") && export DDPM_ARGUMENTS
  qsub "${options[@]}" -v "$(compgen -e | grep -E '^DDPM|^(PREPARE|TRAIN|SAMPLE)_QSUB$' | paste -sd,)" "$jobs/$1.pbs"
}

# --- Flux -------------------------------------------------------------------------------------------------------------
flux_facts() {
  job=$(flux getattr jobid) || die "this script wants a job of Flux: jobs/submit.sh train CONFIG.toml"
  hosts=$(flux getattr hostlist) index='' restarts=${DDPM_RESTARTS:-0} task=
  nodes=$(flux getattr size) cpus=$cpus_per_rank launcher=flux
  ranks=$((nodes * ranks_per_node))
}

flux_seconds_left() { flux job timeleft; }

flux_again() { submit_from_here "$@"; }
flux_unwanted_node() { :; }
flux_failure() { :; }

# A job's own commands of Flux speak to the instance that it is; --parent to the one that runs jobs.
flux_submit() { flux ${DDPM_RESTARTS:+--parent} batch "${options[@]}" "$jobs/$1.flux" "${@:2}"; }
