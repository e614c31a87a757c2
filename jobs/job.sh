# shellcheck shell=bash
# What the job scripts of this folder share; sourced by them.
#
# They understand, from the environment (sbatch and flux pass their own on to the job, submit.sh has qsub pass these):
#   DDPM           the program; if unset, ddpm of PATH, or build/release/ddpm of the folder the job was submitted from
#   DDPM_LAUNCHER  srun (the default under Slurm); mpirun (Open MPI); mpiexec (MPICH and its relatives; the default under
#                  PBS); pals (the mpiexec of HPE Cray's PALS, which binds ranks); flux (the default under Flux)
#   DDPM_SRUN_MPI  what srun --mpi= is to be (pmix, cray_shasta, ...: srun --mpi=list names them); if unset, srun does
#                  what the site has chosen (MpiDefault of slurm.conf)
#   DDPM_FLUX_PMI  what flux run -o pmi= is to be (pmix for Open MPI 5); if unset, Flux does what the site has chosen
#   DDPM_SAVE_SECONDS  before the time limit at which training stops by the clock to save, under PBS and Flux (600); Flux also
#                  sends a signal (--signal of train.flux)
#   DDPM_SITE      a file to source first, which loads the site's modules (modules/site.template.sh, filled in);
#                  if unset, site.sh beside this file, if there is one

die() {
  printf '%s: %s\n' "${SLURM_JOB_NAME:-${PBS_JOBNAME:-job}}" "$1" >&2
  exit 2
}

# The arguments are those of the script that was started.
case ${1:-} in
  --help | -h)
    awk 'NR == 1 { next } !/^#/ { exit } { sub(/^# ?/, ""); print }' "${BASH_SOURCE[-1]}"
    exit 0
    ;;
esac

# shellcheck source=jobs/batch.sh
. "$(dirname "${BASH_SOURCE[0]}")/batch.sh"
"${batch:=slurm}_facts"

# Slurm names a job's log before it is known whether the job belongs to an array. The log of an array's task therefore
# gets a second name, which ends in ARRAY_INDEX as squeue shows it: a link to the file to which Slurm keeps writing,
# also after a requeue.
name_log_of_task() {
  local log name index
  [ -n "${SLURM_ARRAY_TASK_ID:-}" ] || return 0
  log=$(readlink "/proc/$$/fd/1") || return 0
  name=${log##*/} index=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID
  [ "$name" = "$SLURM_JOB_NAME-$SLURM_JOB_ID.log" ] || return 0 # --output has named it
  ln -sfn "$name" "${log%/*}/$SLURM_JOB_NAME-$index.log" || printf 'the log has no name with the index %s\n' "$index" >&2
}
name_log_of_task

load_site() {
  local site=${DDPM_SITE:-$(dirname "${BASH_SOURCE[0]}")/site.sh}
  if [ -e "$site" ]; then
    set +u # module systems read variables that are not set
    # shellcheck source=modules/site.template.sh
    . "$site" run || die "$site failed"
    set -u
  elif [ -n "${DDPM_SITE:-}" ]; then
    die "there is no $site (DDPM_SITE)"
  fi
}
load_site

find_ddpm() {
  local built=${SLURM_SUBMIT_DIR:-$PWD}/build/release/ddpm
  if [ -n "${DDPM:-}" ]; then
    printf '%s\n' "$DDPM"
  elif command -v ddpm; then
    :
  elif [ -x "$built" ]; then
    printf '%s\n' "$built"
  else
    die "no ddpm: not in \$DDPM, not on PATH, not at $built"
  fi
}

# Starts ddpm on all ranks of the job: run it with "${on_all_ranks[@]}" ARGUMENTS. Each rank takes the GPU of its number on
# the node, and the CPUs that it is bound to; nothing has to be said about either.
on_all_ranks=()
tell_ranks() { kill "-$1" "$pid"; } # the launcher, which passes it on
case ${DDPM_LAUNCHER:-$launcher} in
  srun)
    # Since Slurm 22.05 steps do not inherit the CPUs per task. The loss of one rank ends the others too.
    export SRUN_CPUS_PER_TASK=$cpus
    # Without it ranks leave MPI_Init before others can receive messages, and now and then one crashes: docs/slurm.md.
    export SLURM_PMIX_FENCE=${SLURM_PMIX_FENCE:-ring}
    # What srun itself fails at may pass; 1, its usual code for that, is one that the program has, too.
    export SLURM_EXIT_ERROR=${SLURM_EXIT_ERROR:-253}
    on_all_ranks+=(srun ${DDPM_SRUN_MPI:+"--mpi=$DDPM_SRUN_MPI"} --kill-on-bad-exit=1)
    ;;
  mpirun)
    if [ -n "${PBS_NODEFILE:-}" ]; then
      on_all_ranks+=(mpirun --hostfile "$PBS_NODEFILE" --map-by "ppr:$((ranks / nodes)):node:PE=$cpus")
    else
      on_all_ranks+=(mpirun --map-by "slot:PE=$cpus")
    fi
    ;;
  mpiexec)
    # It binds no rank to CPUs of its own; each computes with as many threads as somebody has said that it has CPUs.
    if [ -n "${DDPM_CPUS_PER_RANK:-}" ] || [ "$cpus" -gt 1 ]; then export OMP_NUM_THREADS=$cpus; fi
    on_all_ranks+=(mpiexec -n "$ranks" -ppn "$((ranks / nodes))")
    ;;
  pals) on_all_ranks+=(mpiexec -n "$ranks" --ppn "$((ranks / nodes))" --cpu-bind depth --depth "$cpus") ;;
  flux)
    # Each rank has cores of its own, and sees all GPUs of its node, as NCCL wants it. Without exit-on-error, which would end
    # the ranks that still save by TERM, and the job by that code.
    on_all_ranks+=(flux run "--nodes=$nodes" "--ntasks=$ranks" "--cores-per-task=$cpus" -o cpu-affinity=per-task -o gpu-affinity=off
      ${DDPM_FLUX_PMI:+-o "pmi=$DDPM_FLUX_PMI"})
    tell_ranks() { flux job killall --force "--signal=$1"; }
    ;;
  *) die "DDPM_LAUNCHER is '$DDPM_LAUNCHER'; wanted: srun, mpirun, mpiexec, pals or flux" ;;
esac
on_all_ranks+=("$(find_ddpm)")

# Signals that come while no ranks run are kept: `stopped_by` is the one that came, TERM rather than USR1, or empty.
keep_signals() {
  trap '[ "$stopped_by" = TERM ] || stopped_by=USR1' USR1
  trap 'stopped_by=TERM' TERM
}

# Has the ranks that the launcher $pid starts save. For a moment that process is a copy of this shell, which would swallow the
# signal.
pass_on() {
  while cmp -s "/proc/$$/cmdline" "/proc/$pid/cmdline"; do sleep 0.1; done
  tell_ranks USR1 || true # the launcher may have ended in this moment
}

# Runs the command and passes USR1 on to it, which the launchers pass on to the ranks; for TERM as well, since TERM itself
# leaves too little time to save. Returns the command's exit code. Where `stopped_by` is set already, the command is not
# started: 75.
until_signalled() {
  local pid code=127 late=0 # 127: the command was over before anybody looked
  [ -z "${stopped_by:=}" ] || return 75
  "$@" &
  pid=$!
  trap '[ "$stopped_by" = TERM ] || stopped_by=USR1; pass_on' USR1
  trap 'stopped_by=TERM; pass_on' TERM
  [ -z "$stopped_by" ] || pass_on # it came before these traps
  # A signal ends wait early, with a code of its own.
  while kill -0 "$pid" 2>/dev/null; do
    code=0
    wait "$pid" || code=$?
  done
  wait "$pid" 2>/dev/null || late=$?
  [ "$late" -eq 127 ] || code=$late # 127: its end was waited for above
  keep_signals # until the script ends: what is decided then takes time where Slurm is busy
  # The launcher had not yet come to catch what was passed on to it: nothing has begun.
  [ -z "$stopped_by" ] || [ "$code" -ne $((128 + $(kill -l USR1))) ] || code=75
  return "$code"
}
