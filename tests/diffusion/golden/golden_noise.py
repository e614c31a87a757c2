"""The random numbers of the golden values: Philox 4x32-10, written from the paper and NumPy's float64 functions."""

import numpy as np
import torch

SHAPE = (2, 3, 3, 2)
SEED = 20_240_607_123  # more than 32 bits
FIRST_IMAGE = 5
TIMESTEP, NOISE, SAMPLE_INITIAL, SAMPLE_STEP, OFFSET_NOISE = 4, 5, 7, 8, 10


def philox(seed, stream, step, position, blocks):
    """uint32 [4 * blocks]: Salmon et al. 2011, counter {block, position, step, stream}."""
    mask = np.uint64(0xFFFFFFFF)
    x = [np.arange(blocks, dtype=np.uint64)] + [np.full(blocks, v, np.uint64) for v in (position, step, stream)]
    key = [np.uint64(seed & 0xFFFFFFFF), np.uint64(seed >> 32)]
    for _ in range(10):
        a, b = np.uint64(0xD2511F53) * x[0], np.uint64(0xCD9E8D57) * x[2]
        shift = np.uint64(32)
        x = [(b >> shift) ^ x[1] ^ key[0], b & mask, (a >> shift) ^ x[3] ^ key[1], a & mask]
        key = [(key[0] + np.uint64(0x9E3779B9)) & mask, (key[1] + np.uint64(0xBB67AE85)) & mask]
    return np.stack(x, axis=1).reshape(-1)


def normals(stream, step, position, count):
    """float32 [count]: Box-Muller on pairs of words."""
    u = (philox(SEED, stream, step, position, (count + 3) // 4).astype(np.float64) + 0.5) / 2.0**32
    radius, angle = np.sqrt(-2.0 * np.log(u[0::2])), 2.0 * np.pi * u[1::2]
    z = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).reshape(-1)
    return z[:count].astype(np.float32)


def image_normals(stream, step, first, shape=SHAPE):
    size = int(np.prod(shape[1:]))
    return torch.from_numpy(np.stack([normals(stream, step, first + i, size) for i in range(shape[0])])).reshape(shape)
