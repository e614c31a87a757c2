"""Fields as a simulation could have made them, and their means over blocks of 4 x 4 points.

    python3 make_fields.py train|test FILE.npz

temperature is a Gaussian random field whose power falls with the third power of the wave number; humidity follows it where it
is warm, and has details of its own. Both are periodic.
"""

import os
import sys

import numpy as np

SIZE, COARSE = 32, 4
COUNT = {"train": 4000, "test": 32}


def smooth_noise(random, count, slope):
    """Gaussian fields of variance 1 whose power falls with this power of the wave number."""
    frequency = np.fft.fftfreq(SIZE)
    wave = np.hypot(frequency[:, None], frequency[None, :])
    wave[0, 0] = np.inf
    spectrum = np.fft.fft2(random.standard_normal((count, SIZE, SIZE))) * wave ** (-slope / 2)
    fields = np.fft.ifft2(spectrum).real
    return fields / fields.std()


def main(part, path):
    random = np.random.default_rng(list(COUNT).index(part))
    first = smooth_noise(random, COUNT[part], 3.0)
    second = smooth_noise(random, COUNT[part], 2.0)
    temperature = 285.0 + 5.0 * first
    humidity = 8.0 * np.exp(0.4 * first + 0.2 * second)
    images = np.stack([temperature, humidity], axis=-1).astype(np.float32)
    blocks = images.reshape(-1, SIZE // COARSE, COARSE, SIZE // COARSE, COARSE, 2)
    partial = path + ".partial"  # what is interrupted leaves no half file of that name
    with open(partial, "wb") as file:
        np.savez(file, images=images, condition=blocks.mean(axis=(2, 4), dtype=np.float64).astype(np.float32))
    os.replace(partial, path)


main(*sys.argv[1:])
