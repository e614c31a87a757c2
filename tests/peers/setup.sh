#!/usr/bin/env bash
# Makes the venv of the Python peers that tests labelled `interop` and golden-data generators use:
#   $DDPM_CACHE/peers, or $XDG_CACHE_HOME/ddpm/peers, or ~/.cache/ddpm/peers.
#
#   tests/peers/setup.sh [--help]
#
# Does nothing when the venv was already made from these requirements. PYTHON names another interpreter (3.10 or newer).
set -euo pipefail

# shellcheck source=modules/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../modules/common.sh"
only_help "${BASH_SOURCE[0]}" "$@"
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${DDPM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ddpm}
venv=$cache/peers
python=${PYTHON:-python3}

hash=$(sha256sum "$here/requirements.txt" | cut -d' ' -f1)
stamp=$venv/requirements.sha256
if [[ -f $stamp && $(<"$stamp") == "$hash" ]]; then
  echo "peers: $venv is up to date"
  exit 0
fi

mkdir -p "$cache"
# Two runs at once would write into one venv: the second waits, then finds the work done.
exec 9>"$cache/peers.lock"
flock 9
if [[ -f $stamp && $(<"$stamp") == "$hash" ]]; then
  echo "peers: $venv is up to date"
  exit 0
fi

echo "peers: installing into $venv:"
grep -v '^#' "$here/requirements.txt" | sed 's/^/peers:   /'
rm -f "$stamp"
# -I: Python takes modules from its own folders only, not from the working directory.
"$python" -I -m venv --clear "$venv"
"$venv/bin/python" -I -m pip install --quiet --disable-pip-version-check -r "$here/requirements.txt"
"$venv/bin/python" -I -c 'import accelerate, diffusers, easybuild.framework, h5py, hdf5plugin, lightning, matplotlib, mlflow, netCDF4, onnx, onnxruntime, peft, PIL, pycodestyle, safetensors, scipy, tensorboard, the_well, torch, wandb, xarray'
echo "$hash" >"$stamp"
echo "peers: installed $("$venv/bin/python" -I -m pip list --format=freeze --disable-pip-version-check | wc -l) packages," \
  "$(du -sh "$venv" | cut -f1)"
