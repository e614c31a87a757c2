# shellcheck shell=bash
# What modules/setup.sh, jobs/quickstart.sh, tests/run.sh and .ci/run share; sourced by them.

say() { printf '==> %s\n' "$*"; }
note() { printf '    %s\n' "$*"; }

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

# Runs a command that says much. The end of it is shown when it fails; else only the lines that match $1, if it is not
# empty.
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
  local ranks=$1
  shift
  (
    if [ "$(id -u)" -eq 0 ]; then
      # Open MPI asks root twice; in a container there is often no other user.
      export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    fi
    mpirun --oversubscribe --bind-to none -np "$ranks" "$@" </dev/null
  )
}
