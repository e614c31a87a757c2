"""The other side of safetensors_peer_test.cpp: `check FILE` compares a file with the tensors below, `write FILE` writes them."""

import sys

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file

METADATA = {"format": "pt", "note": '"quoted" é'}
TENSORS = {
    "bytes": np.array([250, 251, 252, 253, 254], np.uint8),
    "counts": np.arange(-2, 1, dtype=np.int64).reshape(3, 1),
    "empty": np.zeros(0, np.float32),
    "half": np.array([1, -2], np.float16),
    "scalar": np.array(1e300, np.float64),
    "unit.weight": (np.arange(24, dtype=np.float32) + 0.5).reshape(2, 3, 4),
}


def check(path):
    with safe_open(path, framework="np") as file:
        assert file.metadata() == METADATA, file.metadata()
        assert set(file.keys()) == set(TENSORS), file.keys()
        for name, wanted in TENSORS.items():
            seen = file.get_tensor(name)
            assert seen.dtype == wanted.dtype and seen.shape == wanted.shape, name
            assert np.array_equal(seen, wanted), name


if __name__ == "__main__":
    verb, path = sys.argv[1:]
    check(path) if verb == "check" else save_file(TENSORS, path, METADATA)
