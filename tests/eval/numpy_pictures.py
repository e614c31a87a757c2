"""What `ddpm eval samples` measures, by NumPy, SciPy and PyTorch, from the words of the headers alone."""

import os
import pathlib
import sys

import numpy as np
import scipy.linalg
import torch

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from philox import normals  # noqa: E402

FEATURES_STREAM = 31


def frechet(a, b):
    ca, cb = np.cov(a, rowvar=False), np.cov(b, rowvar=False)
    root = scipy.linalg.sqrtm(ca @ cb).real
    return ((a.mean(0) - b.mean(0)) ** 2).sum() + np.trace(ca) + np.trace(cb) - 2 * np.trace(root)


def kernel_distance(x, y):
    def k(a, b):
        return (a @ b.T / a.shape[1] + 1) ** 3

    n, m = len(x), len(y)
    kx, ky = k(x, x), k(y, y)
    return (kx.sum() - np.trace(kx)) / n / (n - 1) + (ky.sum() - np.trace(ky)) / m / (m - 1) - 2 * k(x, y).mean()


def distances(a, b):
    return np.linalg.norm(a[:, None] - b[None], axis=2)


def radii(x, k):
    return np.array([np.sort(row)[k] for row in distances(x, x)])


def manifold(samples, data, k):
    between = distances(samples, data)
    inside = between <= radii(data, k)[None]
    return {
        "precision": np.mean([row.any() for row in inside]),
        "recall": np.mean([column.any() for column in (between <= radii(samples, k)[:, None]).T]),
        "density": inside.sum() / k / len(samples),
        "coverage": np.mean([column.any() for column in inside.T]),
    }


def random_convolutions(images):
    """The built-in features, from the header's words."""

    def weights(outputs, inputs, scale, layer):
        values = np.array(normals(outputs * inputs * 9, 0, FEATURES_STREAM, layer, scale), np.float32)
        return torch.from_numpy(values).reshape(outputs, inputs, 3, 3) * np.sqrt(2 / (9 * inputs))

    parts, x = [], images
    for scale in range(4):
        if min(x.shape[2:]) < 4:
            break
        hidden = torch.relu(torch.conv2d(x, weights(24, x.shape[1], scale, 0), padding=1))
        hidden = torch.relu(torch.conv2d(hidden, weights(16, 24, scale, 1), padding=1))
        parts.append(torch.nn.functional.adaptive_avg_pool2d(hidden, 2).flatten(1))
        x = torch.nn.functional.avg_pool2d(x, 2)
    return torch.cat(parts, 1).double().numpy()


def band_power(x, low, high):
    """Mean power of the modes between two wave numbers, of [n, side, side]."""
    side = x.shape[-1]
    k = np.fft.fftfreq(side) * side
    ring = np.floor(np.hypot(*np.meshgrid(k, k)) + 0.5)
    power = abs(np.fft.fft2(x - x.mean((1, 2), keepdims=True))) ** 2 / side**2
    return power[:, (ring >= low) & (ring <= high)].mean()


def jackknife(values, statistic):
    left_out = np.array([statistic(np.delete(values, i, 0)) for i in range(len(values))])
    return np.sqrt((len(values) - 1) / len(values) * ((left_out - left_out.mean()) ** 2).sum())
