#!/usr/bin/env bash
# Volumes: periodic Gaussian fields of 16 x 16 x 16 points, a UNet of three dimensions, and the samples' spectrum beside the
# exact one.
#
#   examples/volumes/run.sh [arguments of ddpm train, such as --train.steps 10000]
#
# Run again, it keeps what is finished and goes on from there.
# shellcheck source=examples/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
readonly here=examples/volumes runs=runs/volumes

say "Fields"
mkdir -p $runs
unless_there $runs/data everywhere data generate grf --slope 3 --size 16x16x16 --count 2000 --output $runs/data

say "Training"
everywhere train $here/config.toml "$@"

say "Samples"
unless_drawn $runs/run $runs/samples everywhere sample --model $runs/run --count 256 --scheduler heun --steps 12 \
  --format dataset --denormalize --output $runs/samples

say "Judgement"
everywhere eval fields $runs/samples --exact grf,slope=3
