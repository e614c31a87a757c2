"""Philox 4x32-10 in numpy, with the counter layout of the program's base/random.h.

Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

import numpy as np

STREAM_TEST = 100
ROUNDS = 10
MASK = np.uint64(0xFFFFFFFF)
SHIFT = np.uint64(32)


def words(seed, step, position, count):
    """The first `count` 32-bit words of (seed, STREAM_TEST, step, position)."""
    blocks = (count + 3) // 4
    x = [np.arange(blocks, dtype=np.uint64)] + [
        np.full(blocks, value, dtype=np.uint64) for value in (position, step, STREAM_TEST)
    ]
    key = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(ROUNDS):
        product0 = np.uint64(0xD2511F53) * x[0]
        product1 = np.uint64(0xCD9E8D57) * x[2]
        x = [
            (product1 >> SHIFT) ^ x[1] ^ np.uint64(key[0]),
            product1 & MASK,
            (product0 >> SHIFT) ^ x[3] ^ np.uint64(key[1]),
            product0 & MASK,
        ]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return np.stack(x, axis=1).reshape(-1)[:count]


def uniform(seed, step, position, count):
    """float32 in (-1, 1), bit for bit RandomSequence::fill_uniform(out, -1, 1)."""
    fraction = (words(seed, step, position, count).astype(np.float64) + 0.5) * 2.0**-32
    return np.minimum((-1.0 + 2.0 * fraction).astype(np.float32), np.nextafter(np.float32(1), np.float32(0)))


def below(n, seed, step, position):
    """An integer in [0, n), RandomSequence::below(n)."""
    return int((int(words(seed, step, position, 1)[0]) * n) >> 32)
