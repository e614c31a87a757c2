#!/usr/bin/env bash
# Pictures of 64 x 64 pixels, without classes: capital and small letters in 22 fonts, or the pictures of a folder of your own.
#
#   examples/pictures64/run.sh [arguments of ddpm train, such as --train.steps 10000]
#   PICTURES=photos/ examples/pictures64/run.sh     # JPEG, PNG, ... of any size, in colour
#
# Run again, it keeps what is finished and goes on from there.
# shellcheck source=examples/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
readonly here=examples/pictures64 runs=runs/pictures64 data=runs/pictures64/data

say "Pictures"
mkdir -p $runs
if [ -n "${PICTURES:-}" ]; then
  unless_there $data everywhere data create "$PICTURES" --output $data --size 64
  set -- --model.in_channels 3 --model.out_channels 3 "$@"
else
  fonts=$(cache_folder)/fonts
  unless_there $data everywhere data generate glyphs --fonts "$fonts" --characters A-Za-z --class none --size 64 --output $data
fi

say "Training"
everywhere train $here/config.toml "$@"

say "Samples"
everywhere sample --model $runs/run --scheduler dpmsolver++ --steps 25 --count 64 --columns 16 --seed 1 --output $runs/grid.png
note "pictures drawn by the model:  $PWD/$runs/grid.png"
