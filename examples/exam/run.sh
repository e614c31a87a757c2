#!/usr/bin/env bash
# The exam: theories whose exact values are known. Of each it makes 10,000 configurations of 8 x 8 sites, trains a model of them,
# draws 10,000 configurations with the model, and holds these against the exact values.
#
#   examples/exam/run.sh [ising] [phi4] [grf] [u1] [su2] [arguments of ddpm train, such as --train.steps 10000]
#
# Without names it takes all five. COUNT says how many configurations are made and drawn, where it is not 10,000. Exit code 6: some
# value is further off than 4 standard errors. Run again, it keeps what is finished and goes on from there.
# shellcheck source=examples/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
readonly here=examples/exam count=${COUNT:-10000} all="ising phi4 grf u1 su2"

# The exam in one theory: what `ddpm data generate` is told of it, what `eval fields --exact` calls it, and the sampler's steps.
examine() {
  local theory=$1 options=$2 exact=$3 steps=$4
  shift 4
  local runs=runs/exam/$theory
  mkdir -p "$runs"
  [ -e "$runs/count" ] || echo "$count" >"$runs/count"
  if [ "$(cat "$runs/count")" -ne "$count" ]; then
    printf '%s: %s holds an exam with %s configurations; wanted: %s (remove it, or move it away)\n' "$0" "$runs" "$(cat "$runs/count")" \
      "$count" >&2
    exit 2
  fi

  say "$theory: configurations"
  # shellcheck disable=SC2086
  unless_there "$runs/set" everywhere data generate "$theory" $options --size 8 --count "$count" --output "$runs/set"

  say "$theory: training"
  everywhere train $here/common.toml "$here/$theory.toml" "$@"

  say "$theory: samples"
  unless_drawn "$runs/run" "$runs/samples" everywhere sample --model "$runs/run" --count "$count" --batch 125 \
    --scheduler dpmsolver++ --steps "$steps" --format dataset --denormalize --output "$runs/samples"

  say "$theory: judgement"
  local code=0
  everywhere eval fields "$runs/samples" --exact "$exact" --gate 4 --output "$runs/result.json" || code=$?
  [ $code -eq 0 ] || [ $code -eq 6 ] || exit $code
  [ $code -eq 0 ] || failed+=("$theory")
}

theories=()
while [[ $# -gt 0 && " $all " == *" $1 "* ]]; do
  theories+=("$1")
  shift
done
[ ${#theories[@]} -gt 0 ] || read -ra theories <<<"$all"

failed=()
for theory in "${theories[@]}"; do
  case $theory in
    ising) examine ising "--beta 0.3" ising,beta=0.3 100 "$@" ;;
    phi4) examine phi4 "--mass-squared -0.5 --lambda 0.5" phi4,mass-squared=-0.5,lambda=0.5 100 "$@" ;;
    grf) examine grf "--slope 2" grf,slope=2 100 "$@" ;;
    u1) examine u1 "--beta 1.5 --links vectors --gauge landau" u1,beta=1.5 100 "$@" ;;
    su2) examine su2 "--beta 2 --gauge landau" su2,beta=2 100 "$@" ;;
  esac
done

if [ ${#failed[@]} -gt 0 ]; then
  say "Beyond 4 standard errors: ${failed[*]}"
  exit 6
fi
say "All within 4 standard errors"
