# shellcheck shell=bash disable=SC2154 # batch.sh has set job and task
# What jobs of Slurm do about nodes that fail; sourced by stages.sh after job.sh. docs/fault-tolerance.md has the rules.
#
# The job's log is the memory: `sbatch --output` names one file for all starts, to which each start appends a line with the
# nodes that it has, and a line for each node that has failed. A job whose log is not a file excludes no node.
#
#   DDPM_EXCLUDE_HOURS  for so long a node that has failed is left out (12; 0: no node is ever excluded)
#   DDPM_MAX_EXCLUDED   never more nodes than this (8); those that failed last stay excluded

exclude_hours=${DDPM_EXCLUDE_HOURS:-12}
readonly max_excluded=${DDPM_MAX_EXCLUDED:-8}
[[ $exclude_hours =~ ^[0-9]+$ ]] || die "DDPM_EXCLUDE_HOURS is '$exclude_hours'; wanted: a number"
[[ $max_excluded =~ ^[0-9]+$ ]] || die "DDPM_MAX_EXCLUDED is '$max_excluded'; wanted: a number"
readonly exclude_hours=$((10#$exclude_hours)) # printf takes 08 for an octal number

job_log=$(readlink "/proc/$$/fd/2") || job_log=
[ -f "$job_log" ] && [ -r "$job_log" ] || job_log=/dev/null
# What this start writes follows here.
log_begin=$(($(wc -c <"$job_log") + 1))

# Slurm takes the number of an array's last task alone for all of its tasks.
this_job=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_}${SLURM_ARRAY_TASK_ID:-${SLURM_JOB_ID:-}}

# After so many starts in a row that failed before they came to train, what ends them is no node: memory, say. (Starts that train
# and make no checkpoint are counted by the program.)
readonly max_starts_in_vain=10

# Seconds after which a busy controller is asked once more: a minute in all.
readonly pauses=(2 4 8 16 30)

# What a command of Slurm answers; fails where it has no answer for a minute.
answer_of() {
  local answer pause
  for pause in "${pauses[@]}" 0; do
    if answer=$("$@" 2>/dev/null) && [ -n "$answer" ]; then
      printf '%s\n' "$answer"
      return
    fi
    sleep "$pause"
  done
  printf '%s: Slurm does not answer: %s\n' "$(date '+%F %T')" "$*" >&2
  return 1
}

# What Slurm knows of this job, a KEY=VALUE a line; fails where it does not answer.
facts_of_job() {
  local facts
  facts=$(answer_of scontrol --oneliner show job "$this_job") && tr ' ' '\n' <<<"$facts"
}

# The value of key $1 in facts $2.
value_in() {
  sed -n "s/^$1=//p" <<<"$2"
}

# The nodes of a list such as node[1-3,7], one a line.
nodes_of() {
  [ -z "$1" ] || [ "$1" = "(null)" ] || scontrol show hostnames "$1"
}

# Whether list $1 has node $2.
is_node_of() {
  grep -qFx -- "$2" <<<"$(nodes_of "$1")"
}

# What this start has written into the log.
said_by_start() { tail -c "+$log_begin" "$job_log"; }

# The signal by which a rank of this start has ended, where Hydra of MPICH says so. Its exit code is then the number of the
# signal itself, of which 4, 5 and 6 are codes that the program has, too.
signal_of_rank() {
  sed -nE 's/^YOUR APPLICATION TERMINATED WITH THE EXIT STRING: .*\(signal ([0-9]+)\)$/\1/p' < <(said_by_start) | head -n 1
}

# What exit code $1 of the launcher stands for: 128 and a signal's number, as other launchers have it.
slurm_code() {
  local signal
  signal=$(signal_of_rank)
  case $1 in
    0 | 75) signal= ;; # the others have done their work
  esac
  if [ -n "$signal" ]; then printf '%d' $((128 + signal)); else printf '%d' "$1"; fi
}

# The line by which srun has refused its own command line, or what its variables say in place of options; nothing where ranks
# have begun: what they or their step fail at may pass.
slurm_refusal() {
  awk '
    /^ddpm: / { exit }
    /^srun: (unrecognized|invalid|ambiguous) option / || /^srun: option .* (requires an argument|is ambiguous|doesn.t allow an argument)/ ||
      /^srun: error: (Invalid|unrecognized) --[-a-z]+ (specification|argument)/ || /^srun: error: Invalid numeric value .* for --/ ||
      /^srun: error: .* is not a valid node count/ || /^srun: error: Couldn.t find the specified plugin name for mpi\// { print; exit }
  ' < <(said_by_start)
}

# Reasons of exit code 5 that another start would find again, in the program's words.
readonly final_reasons='without reaching another checkpoint|ranks, but MPI found a world of|but the program was started bare as one rank|without a PMIx server|ranks disagree on the |MPI provides thread level'

# By which the client of a network file system says that its server has evicted it, or does not answer: of a job's nodes, one
# alone may have that, and have its files again after a while.
readonly passing_file_errors='Input/output error|Stale file handle|Connection timed out|Cannot send after transport endpoint shutdown|Transport endpoint is not connected|Remote I/O error'

# The node whose rank has ended this start by such an error, which is the last one that the program has said; nothing where
# that is another one. The line of a single rank names no node; of a checkpoint that a rank cannot read, rank 0 speaks: "-".
node_without_files() {
  said_by_start | awk -v errors="$passing_file_errors" -v node="$SLURM_JOB_NODELIST" '
    /^ddpm: error: / { last = $0 }
    END {
      # HDF5 goes on behind the text of the system, and so does the program where it says what to do.
      if (last !~ "(: (" errors ")(;|: it cannot be read now|$)|error message = .(" errors "))") exit
      if (last ~ /^ddpm: error: rank [0-9]+ on [^ ]+: /) { split(last, words, " "); node = words[6]; sub(/:$/, "", node) }
      print last ~ /: it cannot be read now/ ? "-" : node
    }'
}

# Whether exit code 5 is for a reason that is gone with this start: a link, an adapter or a node that failed. A job whose log is
# no file tells no reason, and does not come back by itself.
may_pass() {
  [ "$job_log" != /dev/null ] && ! grep -qE "^ddpm: error: .*($final_reasons)" < <(said_by_start)
}

# How many starts of this job in a row, this one the last, failed before the program said that it trains. A start that was asked
# to stop, as by the time limit, ends the row: what makes a dataset has kept what it had made. One that Slurm itself has ended is
# no failure. Other jobs may write into the same log.
starts_in_vain() {
  awk -v own=" job $job$task on " '
    / job [^ ]+ (\(task [^)]*\) )?on [^ ]+, start [0-9]+: / { is_own = index($0, own) }
    !is_own { next }
    /\(exit code [0-9]+\); back into the queue$/ { failed++ }
    /: stopped; back into the queue$/ { failed = 0 }
    /^ddpm: (starting|resuming) / && !/^ddpm: resuming with / { failed = 0 }
    END { print failed + 1 }' "$job_log"
}

# The node on which this start has lost a rank, if that is known: the one whose rank hangs, or whose device or adapter has
# failed, by the program's own line; the one whose rank was the first to end by a signal, by the launcher's; or the one that
# Slurm has lost.
node_of_lost_rank() {
  local node
  node=$(awk -v signal="$(signal_of_rank)" '
    /^ddpm: error: .* on [^ ]+ is late: / { sub(/ is late: .*/, ""); print $NF; exit }
    /^ddpm: error: .* on [^ ]+ cannot communicate any more: / {
      # The first rank that notices says so, of a failure on the other side of the network, too, which may be any node.
      if ($0 ~ /remote process exited|network error|[Cc]onnection (closed|refused|reset|timed out)/) next
      sub(/ cannot communicate any more: .*/, ""); print $NF; exit
    }
    /^srun: error: Node failure on / { print $NF; exit }
    /^srun: error: [^ :]+: tasks? [-0-9,]+: / {
      # srun itself ends the other ranks, by SIGKILL: only its first such line tells.
      node = $3; sub(/:$/, "", node)
      if ($0 ~ /: (Killed|Segmentation fault|Bus error|Illegal instruction|Floating point exception|Aborted|Out Of Memory)/) print node
      exit
    }
    # Hydra of MPICH, and Intel MPI: the node, and then how its rank has ended.
    /^= +(RANK [0-9]+ )?PID [0-9]+ RUNNING AT / { hydra = $NF }
    /^= +EXIT CODE: [0-9]+$/ { if ($NF == signal || $NF ~ /^(7|8|9|11|132|134|135|136|137|139)$/) { print hydra; exit } }
    /^= +KILLED BY SIGNAL: (4|6|7|8|9|11)( |$)/ { print hydra; exit }
    # Open MPI, which may break the line behind "exited on".
    /^(mpirun|mpiexec|orterun|prterun) noticed that process rank [0-9]+ with PID [0-9]+ on node [^ ]+ exited on( signal |$)/ { print $12; exit }
  ' < <(said_by_start))
  grep -Fx -- "$node" <<<"$(nodes_of "$SLURM_JOB_NODELIST")" || true
}

# After a return to the queue that Slurm ordered itself: the nodes of the previous start that do not answer now, or whose
# slurmd has started anew since. Several at once are the work of an administrator, and none of them is named.
nodes_lost_before() {
  local line began nodes found
  line=$(awk -v own=" job $job$task on " '
    index($0, own) && / on [^ ]+, start [0-9]+: / { last = $0; sub(/, start [0-9]+: .*/, "", last); gsub(/: job .* on /, " ", last) }
    /: .*back into the queue$/ { last = "" }
    END { print last }' "$job_log")
  [ -n "$line" ] || return 0
  began=${line% *} nodes=${line##* }
  found=$(SLURM_TIME_FORMAT=standard scontrol --oneliner show node "$nodes" 2>/dev/null | awk -v began="$(date -d "$began" +%FT%T)" '
    {
      name = state = started = ""
      for (i = 1; i <= NF; i++) {
        if ($i ~ /^NodeName=/) name = substr($i, 10)
        if ($i ~ /^State=/) state = substr($i, 7)
        if ($i ~ /^SlurmdStartTime=/) started = substr($i, 17)
      }
      if (state ~ /DOWN|FAIL|NOT_RESPONDING|\*/ || (started ~ /^[0-9]/ && started > began)) print name
    }')
  [ "$(wc -l <<<"$found")" -gt 1 ] || printf '%s' "$found"
}

# Notes in the log that node $1 has failed.
remember_node() {
  [ "$exclude_hours" -eq 0 ] || printf '%s: node %s has failed: left out for %d hours if the others suffice\n' "$(date '+%F %T')" "$1" "$exclude_hours" >&2
}

# The nodes that have failed, by the log; those of the last hours with $1, the last one first.
remembered_nodes() {
  local since=0
  [ -z "${1:-}" ] || since=$(date -d "-$exclude_hours hours" '+%F %T')
  sed -nE 's/^([-0-9]{10} [0-9:]{8}): node ([^ ]+) has failed: .*/\1 \2/p' "$job_log" | sort -r |
    awk -v since="$since" '$1 " " $2 >= since && !seen[$3]++ { print $3 }'
}

# Nodes of the job's partition that can take work, now or when what they do has ended.
usable_nodes() {
  local nodes
  nodes=$(answer_of sinfo --noheader --Node --partition="$SLURM_JOB_PARTITION" --format='%N %t') || return 1
  awk '$2 ~ /^(idle|mix|alloc|comp|plnd)[^*]*$/ { print $1 }' <<<"$nodes" | sort -u
}

# The nodes that the job shall do without, as a list for Slurm: what its owner has excluded, and the nodes that have failed,
# as many of them, the last ones first, as leave enough nodes for the job. $1 is what is excluded now. Fails where Slurm does
# not tell which nodes there are.
exclusions() {
  local theirs usable spare node list=() taken=0
  # What was excluded here before is forgotten with time; the rest is the owner's.
  theirs=$(nodes_of "$1" | grep -vFx -f <(remembered_nodes; echo) || true)
  usable=$(usable_nodes) || return 1
  usable=$(grep -vFx -f <(printf '%s\n' "$theirs") <<<"$usable" || true)
  spare=$(($(grep -c . <<<"$usable" || true) - SLURM_JOB_NUM_NODES))
  [ -z "$theirs" ] || mapfile -t list <<<"$theirs"
  for node in $(remembered_nodes recent); do
    [ "$taken" -lt "$max_excluded" ] || break
    if grep -qFx -- "$node" <<<"$usable"; then
      [ "$spare" -gt 0 ] || continue
      spare=$((spare - 1))
    fi
    list+=("$node")
    taken=$((taken + 1))
  done
  [ ${#list[@]} -eq 0 ] || scontrol show hostlistsorted "$(IFS=,; echo "${list[*]}")"
}

# After a return to the queue that Slurm ordered: whether a node that was lost then is up again, and the job has it once more.
slurm_unwanted_node() {
  local lost facts list
  lost=$(nodes_lost_before)
  [ -n "$lost" ] || return 0
  remember_node "$lost"
  is_node_of "$SLURM_JOB_NODELIST" "$lost" || return 0
  if facts=$(facts_of_job) && list=$(exclusions "$(value_in ExcNodeList "$facts")") && is_node_of "$list" "$lost"; then
    printf '%s is left out' "$lost"
  fi
}

# A rank was lost or hung or communication failed (exit code 5), a node has lost its files (3 and 4), or the launcher was
# killed, before $2. The job of an owner who has cancelled it, or whose time is over, is not running any more; of one of which
# Slurm tells nothing that is not known.
slurm_failure() {
  local lost='' facts who='a rank or the launcher' what='is lost'
  case $1 in
    3 | 4)
      lost=$(node_without_files) who='a rank' what='has lost its files'
      [ -n "$lost" ] || return 0
      ;;
    5) may_pass || return 0 ;;
  esac
  facts=$(facts_of_job) || facts=
  case $(value_in JobState "$facts") in
    RUNNING | '') ;;
    *) return ;;
  esac
  # Another job is to have its nodes: SIGTERM comes first, where the partition gives jobs time to end (GraceTime).
  case $1:$(value_in PreemptTime "$facts") in
    *: | *:None) ;;
    15:* | 143:*)
      printf 'preempted'
      return
      ;;
  esac
  if [ "$(starts_in_vain)" -ge "$max_starts_in_vain" ]; then
    printf '%d starts in a row ended before %s: not once more\n' "$max_starts_in_vain" "$2" >&2
    return
  fi
  [ -n "$lost" ] || lost=$(node_of_lost_rank)
  if [ -n "$lost" ] && is_node_of "$SLURM_JOB_NODELIST" "$lost"; then
    remember_node "$lost"
    printf 'a rank on %s %s (exit code %d)' "$lost" "$what" "$1"
  else
    printf '%s %s (exit code %d)' "$who" "$what" "$1"
  fi
}

# Has Slurm take the job back, and asks again for a minute while it refuses. `ended` is set by the SIGTERM that follows,
# also where the answer was lost.
requeue() {
  local pause
  for pause in "${pauses[@]}" 0; do
    if (trap '' TERM && scontrol requeue "$this_job"); then return; fi
    sleep "$pause" || true
    [ -z "$ended" ] || return 0
  done
  return 1
}

# Puts the job back into the queue, without the nodes that have failed, and ends this script. Returns 1 where Slurm does not
# take the job back, or somebody wants it to end.
slurm_again() {
  local facts before list ended=
  # Where Slurm does not answer, what is excluded stays as it is.
  if facts=$(facts_of_job) && before=$(value_in ExcNodeList "$facts") && list=$(exclusions "$before"); then
    before=${before#(null)}
  else
    before='' list=''
  fi
  # On the way to the queue Slurm sends SIGTERM to all that the job runs. A script that stays for KillWait seconds is killed,
  # but then Slurm may take what the next start runs for the rest of this one.
  trap 'ended=yes' TERM
  if [ "${stopped_by:-}" = TERM ] || ! requeue; then
    keep_signals
    return 1
  fi
  # Exclusions of a job that runs cannot be changed.
  if [ "$before" != "$list" ]; then
    (trap '' TERM && scontrol update "JobId=$this_job" "ExcNodeList=$list" &&
      printf '%s: excluded now: %s\n' "$(date '+%F %T')" "${list:-no node}" >&2) || true
  fi
  while [ -z "$ended" ]; do sleep 0.2; done
  exit 75
}
