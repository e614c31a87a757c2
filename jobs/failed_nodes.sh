# shellcheck shell=bash
# What jobs of Slurm do about nodes that fail; sourced by stages.sh after job.sh. docs/fault-tolerance.md has the rules.
#
# The job's log is the memory: `sbatch --output` names one file for all starts, to which each start appends a line with the
# nodes that it has, and a line for each node that has failed. A job whose log is not a file excludes no node.
#
#   DDPM_EXCLUDE_HOURS  for so long a node that has failed is left out (12; 0: no node is ever excluded)
#   DDPM_MAX_EXCLUDED   never more nodes than this (8); those that failed last stay excluded

readonly exclude_hours=${DDPM_EXCLUDE_HOURS:-12}
readonly max_excluded=${DDPM_MAX_EXCLUDED:-8}
[[ $exclude_hours =~ ^[0-9]+$ ]] || die "DDPM_EXCLUDE_HOURS is '$exclude_hours'; wanted: a number"
[[ $max_excluded =~ ^[0-9]+$ ]] || die "DDPM_MAX_EXCLUDED is '$max_excluded'; wanted: a number"

job_log=$(readlink "/proc/$$/fd/2") || job_log=
[ -f "$job_log" ] && [ -r "$job_log" ] || job_log=/dev/null
# What this start writes follows here.
log_begin=$(($(wc -c <"$job_log") + 1))

# Slurm takes the number of an array's last task alone for all of its tasks.
this_job=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_}${SLURM_ARRAY_TASK_ID:-${SLURM_JOB_ID:-}}

# One value of what Slurm knows of this job: its KEY.
value_of_job() {
  scontrol --oneliner show job "$this_job" 2>/dev/null | tr ' ' '\n' | sed -n "s/^$1=//p"
}

# The nodes of a list such as node[1-3,7], one a line.
nodes_of() {
  [ -z "$1" ] || [ "$1" = "(null)" ] || scontrol show hostnames "$1"
}

# Whether list $1 has node $2.
is_node_of() {
  grep -qFx -- "$2" <<<"$(nodes_of "$1")"
}

# The node on which this start has lost a rank, if that is known: the one whose rank hangs, by the program's own line; the
# one whose rank was the first to end by a signal, by the launcher's; or the one that Slurm has lost.
node_of_lost_rank() {
  local node
  node=$(awk '
    /^ddpm: error: .* on [^ ]+ is late: / { sub(/ is late: .*/, ""); print $NF; exit }
    /^srun: error: Node failure on / { print $NF; exit }
    /^srun: error: [^ :]+: tasks? [-0-9,]+: / {
      # srun itself ends the other ranks, by SIGKILL: only its first such line tells.
      node = $3; sub(/:$/, "", node)
      if ($0 ~ /: (Killed|Segmentation fault|Bus error|Illegal instruction|Floating point exception|Aborted|Out Of Memory)/) print node
      exit
    }
    # Open MPI, which may break the line behind "exited on".
    /^(mpirun|mpiexec|orterun|prterun) noticed that process rank [0-9]+ with PID [0-9]+ on node [^ ]+ exited on( signal |$)/ { print $12; exit }
  ' < <(tail -c "+$log_begin" "$job_log"))
  grep -Fx -- "$node" <<<"$(nodes_of "$SLURM_JOB_NODELIST")" || true
}

# After a return to the queue that Slurm ordered itself: the nodes of the previous start that do not answer now, or whose
# slurmd has started anew since. Several at once are the work of an administrator, and none of them is named.
nodes_lost_before() {
  local line began nodes found
  line=$(awk '
    / job [^ ]+ (\(task [^)]*\) )?on [^ ]+, start [0-9]+: / { last = $0; sub(/, start [0-9]+: .*/, "", last); gsub(/: job .* on /, " ", last) }
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
  sinfo --noheader --Node --partition="$SLURM_JOB_PARTITION" --format='%N %t' | awk '$2 ~ /^(idle|mix|alloc|comp|plnd)[^*]*$/ { print $1 }' | sort -u
}

# The nodes that the job shall do without, as a list for Slurm: what its owner has excluded, and the nodes that have failed,
# as many of them, the last ones first, as leave enough nodes for the job.
exclusions() {
  local theirs usable spare node list=() taken=0
  # What was excluded here before is forgotten with time; the rest is the owner's.
  theirs=$(nodes_of "$(value_of_job ExcNodeList)" | grep -vFx -f <(remembered_nodes; echo) || true)
  usable=$(usable_nodes | grep -vFx -f <(printf '%s\n' "$theirs") || true)
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
  local lost
  lost=$(nodes_lost_before)
  [ -n "$lost" ] || return 0
  remember_node "$lost"
  if is_node_of "$SLURM_JOB_NODELIST" "$lost" && is_node_of "$(exclusions)" "$lost"; then printf '%s is left out' "$lost"; fi
}

# A rank was lost or hung (exit code 5), or the launcher was killed. The job of an owner who has cancelled it, or whose time is
# over, is not running any more.
slurm_failure() {
  local lost
  lost=$(node_of_lost_rank)
  if [ "$(value_of_job JobState)" != RUNNING ]; then
    :
  elif [ -n "$lost" ]; then
    remember_node "$lost"
    printf 'a rank on %s is lost (exit code %d)' "$lost" "$1"
  elif [ "$1" -ne 5 ]; then
    printf 'a rank or the launcher is lost (exit code %d)' "$1"
  fi
}

# Puts the job back into the queue, without the nodes that have failed, and ends this script. Returns 1 where Slurm does not
# take the job back.
slurm_again() {
  local list before ended=
  list=$(exclusions) before=$(value_of_job ExcNodeList)
  # On the way to the queue Slurm sends SIGTERM to all that the job runs. A script that stays for KillWait seconds is killed,
  # but then Slurm may take what the next start runs for the rest of this one.
  trap 'ended=yes' TERM
  if ! (trap '' TERM && scontrol requeue "$this_job"); then
    trap 'stopped_by=TERM' TERM
    return 1
  fi
  # Exclusions of a job that runs cannot be changed.
  if [ "${before#(null)}" != "$list" ]; then
    (trap '' TERM && scontrol update "JobId=$this_job" "ExcNodeList=$list" &&
      printf '%s: excluded now: %s\n' "$(date '+%F %T')" "${list:-no node}" >&2) || true
  fi
  while [ -z "$ended" ]; do sleep 0.2; done
  exit 75
}
