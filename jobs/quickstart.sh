#!/usr/bin/env bash
# Everything on one machine, without questions: sets up, builds, makes an image set from real pictures, trains a small
# model on two ranks into runs/quickstart, samples from it, and says where the picture grid lies.
#
#   jobs/quickstart.sh [--help]
#
# Run it again after an interruption: it keeps what is finished and continues from there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. modules/common.sh
only_help jobs/quickstart.sh "$@"

readonly world=2
readonly config=jobs/quickstart.toml run=runs/quickstart dataset=runs/quickstart-data
readonly grid=$run/grid.png
readonly ddpm=build/release/ddpm

modules/setup.sh --pictures
cache=$(cache_folder)

say "Build"
configure release -DDDPM_UNITY=ON
cmake --build build/release --target ddpm --parallel "$(build_jobs)"
note "$ddpm: $($ddpm --version)"

say "Image set: the document icons of $cache/pictures, 32 x 32 pixels"
if [ -e $dataset/dataset.json ]; then
  note "$dataset is there"
else
  on_ranks $world $ddpm data create "$cache/pictures/48x48/mimetypes" --output $dataset --size 32
fi

say "Training on $world ranks into $run"
on_ranks $world $ddpm train $config

say "Sampling"
if [ -e $grid ] && [ $grid -nt $run/model/model_index.json ]; then
  note "$grid is there"
else
  on_ranks $world $ddpm sample --model $run --scheduler ddim --steps 50 --count 64 --seed 1 --output $grid
fi

say "Done"
note "pictures drawn by the model:  $PWD/$grid"
note "loss, speed, memory:          $PWD/$run/metrics.jsonl"
note "the model, for diffusers:     $PWD/$run/model"
