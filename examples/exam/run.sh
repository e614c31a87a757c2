#!/usr/bin/env bash
# The exam: theories whose exact values are known. Of each it makes 10,000 configurations of 8 x 8 sites, trains a model of them,
# draws 10,000 configurations from the model, and holds these against the exact values.
#
#   examples/exam/run.sh [ising] [phi4] [grf] [u1] [su2] [arguments of ddpm train, such as --train.steps 10000]
#
# Without names it takes all five. COUNT (10000) says how many configurations are made and drawn. Exit code 6: a value is further
# off than 4 standard errors. Run again, it keeps what is finished and goes on from there.
# shellcheck source=examples/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
readonly here=examples/exam runs=runs/exam count=${COUNT:-10000} known="ising phi4 grf u1 su2"

# What `ddpm data generate` is told of a theory, and what `ddpm eval fields --exact` calls it.
generated() {
  case $1 in
    ising) echo --beta 0.4 ;;
    phi4) echo --mass-squared -0.5 --lambda 0.5 ;;
    grf) echo --slope 2 ;;
    u1) echo --beta 1.5 --links vectors --gauge landau ;;
    su2) echo --beta 2 --gauge landau ;;
  esac
}
exact() {
  case $1 in
    ising) echo ising,beta=0.4 ;;
    phi4) echo phi4,mass-squared=-0.5,lambda=0.5 ;;
    grf) echo grf,slope=2 ;;
    u1) echo u1,beta=1.5 ;;
    su2) echo su2,beta=2 ;;
  esac
}

theories=()
while [[ $# -gt 0 && " $known " == *" $1 "* ]]; do
  theories+=("$1")
  shift
done
[ ${#theories[@]} -gt 0 ] || read -ra theories <<< "$known"

beyond=()
for theory in "${theories[@]}"; do
  here_runs=$runs/$theory
  mkdir -p "$here_runs"
  say "$theory: configurations"
  # shellcheck disable=SC2046
  unless_there "$here_runs/set" everywhere data generate "$theory" --size 8 --count "$count" $(generated "$theory") --output "$here_runs/set"
  say "$theory: training"
  everywhere train $here/common.toml "$here/$theory.toml" "$@"
  say "$theory: samples"
  everywhere sample --model "$here_runs/run" --count "$count" --batch 128 --steps 36 --format dataset --denormalize \
    --output "$here_runs/samples"
  say "$theory: judgement"
  everywhere eval fields "$here_runs/samples" --exact "$(exact "$theory")" --gate 4 --output "$here_runs/result.json" && continue
  [ $? -eq 6 ] || exit 1
  beyond+=("$theory")
done
