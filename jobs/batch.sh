# shellcheck shell=bash disable=SC2034,SC2154 # variables of those that source this file
# What differs between batch systems; sourced by job.sh and submit.sh. `batch` says which of them runs this job: slurm (unless
# the script says otherwise), pbs or flux. The scripts for PBS and for Flux set cpus_per_rank, those for Flux also
# ranks_per_node. Each batch system has these functions, with its name in place of BATCH:
#
#   BATCH_facts         sets job, hosts and task (for the log), index (of this task of an array; empty outside of one),
#                       restarts (how often the job has come back), nodes, ranks, cpus (of each rank), and launcher
#   BATCH_seconds_left  prints the seconds until the time limit; nothing where a signal announces it; fails if it is unknown
#   BATCH_again         has stage $1 run again, with the arguments that follow
#   BATCH_unwanted_node prints why this start is to go back before it begins: it has a node that has failed; or nothing
#   BATCH_code          prints exit code $1 of a start, or 128 and the number of a signal where the log tells that it is one
#   BATCH_refusal       prints the line by which the launcher has refused its own command line, if it has; or nothing
#   BATCH_failure       prints why a start that has ended with exit code $1 before $2 is to come back; or nothing
#   BATCH_submit        submits stage $1 with the arguments that follow and ${options[@]}, and prints the number of the job

# Prints words as one word of letters, digits, +, / and =, which every batch system hands on as it is.
packed() { [ $# -eq 0 ] || printf '%s\0' "$@" | base64 --wrap=0; }

# Sets `words` to the words that $1 holds.
unpack() { mapfile -d '' -t words < <(base64 --decode <<<"$1"); }

# --- Slurm ------------------------------------------------------------------------------------------------------------
slurm_facts() {
  job=${SLURM_JOB_ID:-} hosts=${SLURM_JOB_NODELIST:-} index=${SLURM_ARRAY_TASK_ID:-} restarts=${SLURM_RESTART_COUNT:-0}
  task=${index:+" (task ${SLURM_ARRAY_JOB_ID:-}_$index)"}
  nodes=${SLURM_JOB_NUM_NODES:-1} ranks=${SLURM_NTASKS:-1} cpus=${SLURM_CPUS_PER_TASK:-1} launcher=srun
}

slurm_seconds_left() { :; } # --signal

# failed_nodes.sh has slurm_again, slurm_unwanted_node, slurm_code, slurm_refusal and slurm_failure.

slurm_submit() { sbatch --parsable "${options[@]}" "$jobs/$1.sbatch" "${@:2}"; }

# --- PBS Professional, OpenPBS ------------------------------------------------------------------------------------------
# qsub hands no arguments to a script, and of the variables only those that -v names. It copies their values twice, and takes
# quotes, backslashes and commas in them for its own: words therefore travel packed, in DDPM_PACKED the arguments of the
# stage, in DDPM_OPTIONS the options of qsub for this stage and the next ones.

# Sets `words` to the arguments of this job: those of the script, or else those that submit.sh has packed, or else those that
# somebody has named by hand (qsub -v DDPM_ARGUMENTS=...), as the shell reads them.
pbs_words() {
  words=("$@")
  if [ $# -gt 0 ]; then
    :
  elif [ -n "${DDPM_PACKED:-}" ]; then
    unpack "$DDPM_PACKED"
  else
    eval "words=(${DDPM_ARGUMENTS:-})"
  fi
  unset DDPM_PACKED DDPM_ARGUMENTS
}

pbs_facts() {
  local words runs
  unpack "${DDPM_OPTIONS:-}"
  [ ${#words[@]} -eq 0 ] || export "${words[@]}"
  unset DDPM_OPTIONS
  job=${PBS_JOBID:-} index=${PBS_ARRAY_INDEX:-} restarts=${DDPM_RESTARTS:-0} task=
  [ -n "$job" ] || die "this script wants a job of PBS: jobs/submit.sh train CONFIG.toml"
  hosts=$(sort -u "$PBS_NODEFILE" | paste -sd,)
  nodes=$(sort -u "$PBS_NODEFILE" | wc -l) ranks=$(wc -l <"$PBS_NODEFILE") cpus=$cpus_per_rank launcher=mpiexec
  # When a node is lost, the server runs a job again that may be (qsub -r y). The program knows by number and count that a lock
  # is of an earlier start of this job.
  runs=$(pbs_job 2>/dev/null | awk '$1 == "run_count" { print $3 }') || runs=
  [ "${runs:-1}" -le 1 ] || restarts=$((restarts + runs - 1))
  export DDPM_RESTARTS=$restarts
}

# What the server knows of this job.
pbs_job() { qstat -f "$PBS_JOBID"; }

pbs_seconds_left() {
  pbs_job | awk -v spent="$SECONDS" '
    $1 == "Resource_List.walltime" { split($3, t, ":"); print t[1] * 3600 + t[2] * 60 + t[3] - spent; found = 1 }
    END { exit !found }'
}

# A task of an array comes back alone, with the arguments of its line.
pbs_again() { TRAIN_QSUB=$(sed -E 's/(^| )-J *[^ ]+/ /g' <<<"${TRAIN_QSUB:-}") submit_from_here "$@"; }

pbs_unwanted_node() { :; }
pbs_code() { printf '%d' "$1"; }
pbs_refusal() { :; }
pbs_failure() { :; }

# The variables that a job gets.
pbs_variables() { compgen -e | grep '^DDPM'; }

# Ends the script where qsub would change what a variable says.
pbs_check() {
  local name
  unset DDPM_ARGUMENTS # of a job that somebody has submitted by hand
  for name in $(pbs_variables); do
    case ${!name} in
      *[\'\"\\,]* | *$'\n'*) fail "qsub -v does not carry quotes, backslashes, commas and line breaks as they are, and $name is ${!name@Q}" ;;
    esac
  done
}

# qrerun is for operators: what comes back is a job of its own. Of several -v qsub heeds the last one, so that of the user's own
# options joins ours.
pbs_submit() {
  local name i variables others=() stages=()
  for name in PREPARE_QSUB TRAIN_QSUB SAMPLE_QSUB; do
    [ -z "${!name:-}" ] || stages+=("$name=${!name}")
  done
  DDPM_PACKED=$(packed "${@:2}") DDPM_OPTIONS=$(packed "${stages[@]}")
  export DDPM_PACKED DDPM_OPTIONS
  variables=$(pbs_variables | paste -sd,)
  for ((i = 0; i < ${#options[@]}; i++)); do
    case ${options[i]} in
      -v) variables+=,${options[++i]:-} ;;
      -v*) variables+=,${options[i]#-v} ;;
      *) others+=("${options[i]}") ;;
    esac
  done
  qsub "${others[@]}" -v "${variables%,}" "$jobs/$1.pbs"
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
flux_code() { printf '%d' "$1"; }
flux_refusal() { :; }
flux_failure() { :; }

# A job's own commands of Flux speak to the instance that it is; --parent to the one that runs jobs.
flux_submit() { flux ${DDPM_RESTARTS:+--parent} batch "${options[@]}" "$jobs/$1.flux" "${@:2}"; }
