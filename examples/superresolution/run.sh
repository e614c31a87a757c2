#!/usr/bin/env bash
# Fine fields from coarse ones, as in downscaling: makes fields with NumPy, trains a model that is given each field at a quarter
# of its resolution, draws an ensemble for coarse fields that it has not seen, and judges the ensemble.
#
#   examples/superresolution/run.sh [arguments of ddpm train, such as --train.steps 10000]
#
# Needs Python with NumPy ($PYTHON, or python3). Run again, it keeps what is finished and goes on from there.
# shellcheck source=examples/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
readonly here=examples/superresolution runs=runs/superresolution

say "Fields"
mkdir -p $runs
for part in train test; do
  [ -e $runs/$part.npz ] || "${PYTHON:-python3}" $here/make_fields.py $part $runs/$part.npz
  unless_there $runs/$part everywhere data create $runs/$part.npz --output $runs/$part --condition condition \
    --names "temperature,humidity; condition: coarse temperature,coarse humidity" \
    --units "K,g/kg; condition: K,g/kg" --transform standardize
done

say "Training"
everywhere train $here/config.toml "$@"

say "An ensemble of 16 members for each of 32 coarse fields"
unless_drawn $runs/run $runs/ensemble everywhere sample --model $runs/run --condition $runs/test --members 16 --count 512 \
  --scheduler heun --steps 12 --format dataset --denormalize --output $runs/ensemble

say "Judgement"
everywhere eval fields $runs/ensemble --data $runs/test
