#!/usr/bin/env bash
# The golden test on data that diffusers makes now, from a seed never used before:
#   golden_interop_test.sh PYTHON NN_GOLDEN_TEST
# Runs in an empty folder of its own. DDPM_GOLDEN_SEED repeats a run.
set -euo pipefail

python=$1
golden_test=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
seed=${DDPM_GOLDEN_SEED:-$((RANDOM * 32768 + RANDOM))}

rm -rf golden
mkdir golden
echo "DDPM_GOLDEN_SEED=$seed"
"$python" "$here/golden/make_golden.py" --output golden --only attention --seed "$seed"
DDPM_GOLDEN=golden "$golden_test"
