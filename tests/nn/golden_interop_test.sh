#!/usr/bin/env bash
# The golden test on configurations that are drawn now, over all block types, from a seed never used before:
#   golden_interop_test.sh PYTHON NN_GOLDEN_TEST EXPORT_GOLDEN
# Compares prediction and gradients, then exports the models and compares the files with diffusers' own, bit for bit, and
# what TorchScript, ONNX and torch.export make of them with our own forward.
# Runs in an empty folder of its own. DDPM_GOLDEN_SEED repeats a run; DDPM_GOLDEN_COUNT draws more than 50, of which diffusers
# runs 30 or so; torch.export, which takes seconds for each, has 8 of them, or DDPM_GOLDEN_PROGRAMS.
set -euo pipefail

python=$1
golden_test=$2
export_golden=$3
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
seed=${DDPM_GOLDEN_SEED:-$((RANDOM * 32768 + RANDOM))}

rm -rf golden exports networks
mkdir golden
echo "DDPM_GOLDEN_SEED=$seed"
"$python" "$here/golden/make_golden.py" --output golden --random "${DDPM_GOLDEN_COUNT:-50}" --seed "$seed"
DDPM_GOLDEN=golden "$golden_test"
DDPM_GOLDEN=golden "$export_golden" exports networks
"$python" "$here/golden/make_golden.py" --output golden --check-exports exports
"$python" "$here/../interop/networks_peer.py" networks "${DDPM_GOLDEN_PROGRAMS:-8}"
