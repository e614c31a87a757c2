#!/usr/bin/env bash
# LoRA: adapters that teach a model of upright letters to draw italic ones. Goes on from the model that jobs/quickstart.sh has
# trained (run it first), leaves it as it is, and writes the adapters as a folder that PEFT loads.
#
#   examples/lora/run.sh [arguments of ddpm train, such as --train.steps 1000]
#
# Run again, it keeps what is finished and goes on from there.
# shellcheck source=examples/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
readonly here=examples/lora runs=runs/lora base=runs/quickstart/model

if [ ! -e $base/model_index.json ]; then
  printf '%s: there is no %s; wanted: the model that jobs/quickstart.sh trains.\n' "$0" $base >&2
  exit 2
fi
say "Italic letters"
mkdir -p $runs/fonts
for font in "$(cache_folder)"/fonts/DejaVu*{Italic,Oblique}.ttf; do
  ln -sfn "$font" $runs/fonts/
done
unless_there $runs/data everywhere data generate glyphs --fonts $runs/fonts --characters A-Z --size 32 --output $runs/data

say "Training"
everywhere train $here/config.toml "$@"

say "Samples"
everywhere sample --model $runs/run --class-label all --guidance-scale 1.5 --scheduler dpmsolver++ --steps 25 --count 104 \
  --columns 26 --seed 1 --output $runs/grid.png
note "pictures:                    $PWD/$runs/grid.png"
note "the adapters, for PEFT:      $PWD/$runs/run/adapter"
note "the merged model:            $PWD/$runs/run/model"
