# shellcheck shell=bash
# What the scripts that set up, build and test share; sourced by modules/setup.sh, jobs/quickstart.sh, tests/run.sh, .ci/run and
# others below tests.

say() { printf '==> %s\n' "$*"; }
note() { printf '    %s\n' "$*"; }

# Prints the comment at the head of the script $1, which says how it is used.
usage() { awk 'NR == 1 { next } !/^#/ { exit } { sub(/^# ?/, ""); print }' "$1"; }

# Ends the script $1 with exit code 2, because it does not know the argument $2; $3 says what it knows.
refuse_argument() {
  printf "%s: unknown argument '%s'; %s.\n" "$1" "$2" "$3" >&2
  exit 2
}

# Prints the usage of script $1, and ends the script, if the first argument after it asks for help. It comes
# before everything that a script does.
help_if_asked() {
  case ${2:-} in
    --help | -h)
      usage "$1"
      exit 0
      ;;
  esac
}

# For the script $1, which takes no arguments but --help.
only_help() {
  help_if_asked "$@"
  [ $# -eq 1 ] || refuse_argument "$1" "$2" "it takes none but --help"
}

# For the script $1, which hands its arguments on to ctest: what ctest would refuse after the build is refused before it.
only_ctests() {
  local script=$1 option takes_value=no
  help_if_asked "$@"
  shift
  for option in "$@"; do
    if [ $takes_value = yes ]; then
      takes_value=no
      continue
    fi
    case $option in
      -L | --label-regex | -LE | --label-exclude | -R | --tests-regex | -E | --exclude-regex | -I | --tests-information) takes_value=yes ;;
      -j | --parallel | --repeat | --timeout | --output-junit | -O | --output-log) takes_value=yes ;;
      -V | --verbose | -VV | --extra-verbose | -Q | --quiet | --progress | --output-on-failure) ;;
      -N | --show-only | --print-labels | --rerun-failed | --stop-on-failure | --schedule-random | -F | -U | --union) ;;
      -j[0-9]* | --parallel=* | --repeat=* | --timeout=*) ;;
      *) refuse_argument "$script" "$option" "known are --help and ctest's options, such as -L LABEL and -R NAME" ;;
    esac
  done
  [ $takes_value = no ] || refuse_argument "$script" "$option" "a value must follow it"
}

# Where LibTorch, the quickstart's pictures and the tests' Python peers are kept; cmake/LibTorch.cmake has the same rule.
cache_folder() {
  if [ -n "${DDPM_CACHE:-}" ]; then
    printf '%s\n' "$DDPM_CACHE"
  elif [ -n "${XDG_CACHE_HOME:-}" ]; then
    printf '%s\n' "$XDG_CACHE_HOME/ddpm"
  else
    printf '%s\n' "${HOME:?is not set; name a cache folder with DDPM_CACHE}/.cache/ddpm"
  fi
}

# Compilers to run at once: one per core, but LibTorch's headers take about 1.5 GB each.
build_jobs() {
  local cores memory
  cores=$(nproc)
  memory=$(awk '/^MemAvailable:/ { print int($2 / 1500000) }' /proc/meminfo)
  if [ "$memory" -lt 1 ]; then
    memory=1
  fi
  echo $((cores < memory ? cores : memory))
}

# Runs a command that says much. When it fails, the end of its output is shown; otherwise only the lines that match $1
# are, if $1 is not empty.
quietly() {
  local shown=$1 log status=0
  shift
  log=$(mktemp)
  "$@" >"$log" 2>&1 || status=$?
  if [ $status -ne 0 ]; then
    tail -n 20 "$log" >&2
  elif [ -n "$shown" ]; then
    grep -E "$shown" "$log" || true
  fi
  rm -f "$log"
  return $status
}

# Configures the preset $1 with the further arguments, for build/$1.
configure() { quietly '^-- (LibTorch|Test|CUDA)|Warning' cmake --preset "$@"; }

# mpirun with $1 ranks on this machine. Ranks share the cores, whatever their number: ddpm gives each an even share.
on_ranks() {
  local ranks=$1 flags=(-bind-to none)
  shift
  # MPICH's starts as many ranks as it is told to without being asked twice.
  if mpirun --version 2>&1 | grep -qE 'Open ?(MPI|RTE)'; then flags=(--oversubscribe --bind-to none); fi
  (
    if [ "$(id -u)" -eq 0 ]; then
      # Open MPI asks root twice; in a container there is often no other user.
      export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    fi
    mpirun "${flags[@]}" -np "$ranks" "$@" </dev/null
  )
}
