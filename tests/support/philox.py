"""The random numbers of base/random.h, written from the paper (Salmon et al., 2011) and the header's words alone, so that
tests can say beforehand what the program draws."""

import math

TIMESTEP, NOISE = 4, 5
VALIDATION_TIMESTEP, VALIDATION_NOISE = 13, 14
MASK = 0xFFFFFFFF


def words(seed, stream, position, block, step=0):
    """Four words: counter {block, position, step, stream}."""
    x = [block, position, step, stream]
    key = [seed & MASK, seed >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * x[0], 0xCD9E8D57 * x[2]
        x = [(b >> 32) ^ x[1] ^ key[0], b & MASK, (a >> 32) ^ x[3] ^ key[1], a & MASK]
        key = [(key[0] + 0x9E3779B9) & MASK, (key[1] + 0xBB67AE85) & MASK]
    return x


def below(n, seed, stream, position, step=0):
    return words(seed, stream, position, 0, step)[0] * n >> 32


def normals(count, seed, stream, position, step=0):
    values = []
    for block in range((count + 3) // 4):
        u = [(word + 0.5) / 2.0**32 for word in words(seed, stream, position, block, step)]
        for a, b in ((u[0], u[1]), (u[2], u[3])):
            radius, angle = math.sqrt(-2.0 * math.log(a)), 2.0 * math.pi * b
            values += [radius * math.cos(angle), radius * math.sin(angle)]
    return values[:count]
