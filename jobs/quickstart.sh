#!/usr/bin/env bash
# Everything on one machine, without questions: sets up, builds, makes an image set of letters in 22 fonts, trains a small
# model on two ranks into runs/quickstart, has it draw the alphabet, and says where the picture and the run's report lie.
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
readonly grid=$run/grid.png report=$run/report.html
readonly ddpm=build/release/ddpm

modules/setup.sh --fonts
cache=$(cache_folder)

say "Build"
configure release -DDDPM_UNITY=ON
cmake --build build/release --target ddpm --parallel "$(build_jobs)"
note "$ddpm: $($ddpm --version)"

say "Image set: the letters A to Z of the fonts in $cache/fonts, 32 x 32 pixels"
if [ -e $dataset/dataset.json ]; then
  note "$dataset is there"
else
  on_ranks $world $ddpm data generate glyphs --fonts "$cache/fonts" --characters A-Z --size 32 --output $dataset
fi

say "Training on $world ranks into $run"
on_ranks $world $ddpm train $config

say "Sampling"
if [ -e $grid ] && [ $grid -nt $run/model/model_index.json ]; then
  note "$grid is there"
else
  on_ranks $world $ddpm sample --model $run --class-label all --guidance-scale 1.5 --scheduler dpmsolver++ --steps 25 \
    --count 104 --columns 26 --seed 1 --output $grid
fi

say "Report"
$ddpm report $run --output $report

say "Done"
note "pictures drawn by the model:  $PWD/$grid"
note "how the training went:        $PWD/$report"
note "the model, for diffusers:     $PWD/$run/model"
