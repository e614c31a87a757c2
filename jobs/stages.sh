# shellcheck shell=bash disable=SC2154 # jobs and batch are the script's
# The stages of a run: what the job scripts of this folder do once their batch system has read its directives. Sourced by
# them; a function for each.

# shellcheck source=jobs/job.sh
. "$jobs/job.sh"
if [ "$batch" = slurm ]; then
  # shellcheck source=jobs/failed_nodes.sh
  . "$jobs/failed_nodes.sh"
fi
# Returns to the queue before somebody has to look, those that Slurm itself ordered included.
readonly max_restarts=${DDPM_MAX_RESTARTS:-100}
: "${stopped_by:=}"
[[ $max_restarts =~ ^[0-9]+$ ]] || die "DDPM_MAX_RESTARTS is '$max_restarts'; wanted: a number"
# What Slurm has ended, such as by the loss of a node, it takes back without asking, however often that is.
if [ "$restarts" -gt "$max_restarts" ]; then
  printf '%s: job %s%s has come back %d times, and DDPM_MAX_RESTARTS is %s: it does not begin; submit it again\n' \
    "$(date '+%F %T')" "$job" "$task" "$restarts" "$max_restarts" >&2
  exit 75
fi
keep_signals

# --- What follows a job -----------------------------------------------------------------------------------------------
# Under PBS and Flux a job submits what comes next itself. DDPM_NEXT holds the stages that are to follow this one, as
# submit.sh takes them.

# Submits the words given, and behind them what was to follow this job.
submit_from_here() {
  local words
  unpack "${DDPM_NEXT:-}" # submit.sh has packed them
  [ ${#words[@]} -eq 0 ] || [ $# -eq 0 ] || set -- "$@" --
  DDPM_BATCH=$batch "$jobs/submit.sh" "$@" "${words[@]}"
}

# Ends the job with exit code $1, and has the next stage begin if that is 0.
finish() {
  if [ "$1" -eq 0 ] && [ -n "${DDPM_NEXT:-}" ]; then
    DDPM_RESTARTS=0 submit_from_here
  fi
  exit "$1"
}

# Whether the job may come back once more.
may_return() { [ "$restarts" -lt "$max_restarts" ]; }

# Has the job come back because of $1, with the stage and the arguments that follow. Returns where it does not.
go_back() {
  if ! may_return; then
    printf 'restarted %d times already (DDPM_MAX_RESTARTS): not once more\n' "$restarts" >&2
    return
  fi
  printf '%s: %s; back into the queue\n' "$(date '+%F %T')" "$1" >&2
  if DDPM_RESTARTS=$((restarts + 1)) "${batch}_again" "${@:2}"; then
    exit 0 # a job of its own continues
  fi
  printf 'it is not taken back: submit it again\n' >&2
}

# Prints why a start that has ended with exit code $1 before $2 is to come back; or nothing.
why_again() {
  case $1 in
    0 | 1 | 2 | 6) ;; # the program has done its work, or has said why it cannot
    126 | 127) ;;     # there is no such program, or the system cannot load it
    75) printf stopped ;;
    # 3 and 4, where a node may have lost its files; 5, or a code that the program does not have: launchers have many for
    # lost ranks.
    *) "${batch}_failure" "$1" "$2" ;;
  esac
}

# Says in the log, which is the file of stderr, that this start begins, of stage $1 with the arguments that follow; or has the
# job come back at once, for another node.
begin_start() {
  local why=''
  [ "$restarts" -eq 0 ] || why=$("${batch}_unwanted_node")
  [ -z "$why" ] || ! may_return || go_back "$why" "$@"
  printf '%s: job %s%s on %s, start %d: %s\n' "$(date '+%F %T')" "$job" "$task" "$hosts" $((restarts + 1)) "${*:2}" >&2
}

# Ends the job with exit code 2 where the launcher, which has ended with $1, does not take its own options.
end_if_refused() {
  local line=''
  case $1 in
    0 | 75) ;;
    *) line=$("${batch}_refusal") ;;
  esac
  [ -n "$line" ] || return 0
  printf '%s: the launcher does not take what it is told (%s), and would not at another start: see DDPM_SRUN_MPI, variables SLURM_*, %s\n' \
    "$(date '+%F %T')" "$line" "$jobs/job.sh" >&2
  finish 2
}

# Has the job come back with stage $3 and the arguments that follow, where exit code $1 of a start that ended before $2 says so;
# or ends it with that code.
end_start() {
  local why=''
  end_if_refused "$1"
  [ "$stopped_by" = TERM ] || why=$(why_again "$("${batch}_code" "$1")" "$2") # TERM: somebody wants it to end
  [ -z "$why" ] || [ "$stopped_by" = TERM ] || go_back "$why" "${@:3}"
  finish "$1"
}

# Runs subcommand $2 of ddpm with the arguments that follow, for stage $1, which is completed when it runs again: the job comes
# back where USR1 stops it, and where a training would. By hand, outside of a job, it runs once.
until_complete() {
  local stage=$1 subcommand code=0
  read -ra subcommand <<<"$2"
  shift 2
  [ -z "$job" ] || begin_start "$stage" "$@"
  until_signalled "${on_all_ranks[@]}" "${subcommand[@]}" "$@" || code=$?
  if [ -n "$job" ] && [ "$code" -ne 0 ] && [ "$stopped_by" = USR1 ]; then
    go_back stopped "$stage" "$@" # whatever the launcher makes of ranks that USR1 has ended
  elif [ -n "$job" ]; then
    end_start "$code" 'the set was whole' "$stage" "$@"
  fi
  finish "$code"
}

# --- The stages -------------------------------------------------------------------------------------------------------
# prepare SOURCE --output DATASET [options of ddpm data create]
prepare() {
  local output='' i next
  [ $# -gt 0 ] || die "no source: wanted: SOURCE --output DATASET [options of ddpm data create]"
  for ((i = 2; i <= $#; i++)); do
    case ${!i} in
      --output) next=$((i + 1)) && output=${!next:-} ;;
      --output=*) output=${!i#--output=} ;;
    esac
  done
  if [ -n "$output" ] && [ -e "$output" ] && "$(find_ddpm)" data inspect "$output"; then
    printf '%s is there already: nothing to do; for another image set say another --output\n' "$output"
    finish 0
  fi
  until_complete prepare "data create" "$@"
}

# sample --model RUN --output OUT [options of ddpm sample]
sample() {
  local code=0
  [ $# -gt 0 ] || die "no model: wanted: --model RUN --output OUT [options of ddpm sample]"
  if [[ " $* " =~ " --format"[=\ ]"dataset " ]]; then until_complete sample sample "$@"; fi
  # Other outputs begin anew when they are interrupted.
  trap '' USR1
  trap - TERM
  [ "$stopped_by" != TERM ] || finish 75
  "${on_all_ranks[@]}" sample "$@" || code=$?
  end_if_refused "$code"
  finish "$code"
}

# Sets arguments to those given, with those of this task's line of a sweep (FIRST --sweep FILE ...) in their place.
read_sweep() {
  local line words
  arguments=("$@")
  [ "${2:-}" = --sweep ] || return 0
  [ $# -ge 3 ] || die "--sweep wants a file"
  [ -f "$3" ] || die "--sweep $3: there is no such file"
  [ -n "$index" ] || die "--sweep wants a job array: sbatch --array=1-N, or qsub -J 1-N"
  line=$(sed -n "${index}p" "$3")
  [ -n "$line" ] || die "$3 has no line $index"
  # xargs understands quotes.
  words=$(xargs --max-args=1 printf '%s\n' <<<"$line") || die "$3, line $index: $line"
  mapfile -t words <<<"$words"
  arguments=("$1" "${words[@]}" "${@:4}")
}

# Where no signal announces the end of the job: a limit by the clock that leaves DDPM_SAVE_SECONDS to save. Sets by_clock.
read_clock() {
  local left save=${DDPM_SAVE_SECONDS:-600}
  by_clock=()
  [[ $save =~ ^[0-9]+$ ]] || die "DDPM_SAVE_SECONDS is '$save'; wanted: a number"
  save=$((10#$save)) # 0900 is no octal number
  [[ " $* " != *" --fault.max_minutes"[\ =]* ]] || return 0
  left=$("${batch}_seconds_left") || printf 'the time limit is unknown: set --fault.max_minutes\n' >&2
  [ -n "$left" ] || return 0
  left=$((left - save))
  [ "$left" -gt 0 ] || die "the time limit leaves no time to train beside the $save seconds to save (DDPM_SAVE_SECONDS)"
  by_clock=(--fault.max_minutes "$(printf '%d.%02d' $((left / 60)) $((left % 60 * 100 / 60)))")
}

# train CONFIG.toml [--sweep FILE] [MORE.toml ...] [--section.key VALUE ...]
train() {
  local arguments by_clock code=0
  [ -n "$job" ] || die "this script wants a job of Slurm: sbatch jobs/train.sbatch CONFIG.toml"
  [ $# -gt 0 ] || die "no configuration: wanted: CONFIG.toml [--section.key VALUE ...]"
  read_sweep "$@"
  read_clock "${arguments[@]}"

  begin_start train "${arguments[@]}"
  until_signalled "${on_all_ranks[@]}" train "${arguments[@]}" "${by_clock[@]}" || code=$?
  end_start "$code" 'training began' train "${arguments[@]}"
}
