"""Pictures of four shapes, as NumPy arrays, and a small network that has learned to tell them apart."""

import numpy as np
import torch

SIDE = 16
KINDS = 4


def pictures(count, seed, noise=0, kinds=KINDS):
    """uint8 [count, SIDE, SIDE, 3] of squares, discs, crosses and stripes, or the first `kinds` of these, and which they are.
    `noise`: the deviation of white noise, in grey values."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[:SIDE, :SIDE]
    images, drawn = [], random.integers(kinds, size=count)
    for kind in drawn:
        row, column, size = random.uniform(5, 10), random.uniform(5, 10), random.uniform(2.5, 4.5)
        inside = (
            np.maximum(abs(y - row), abs(x - column)) < size,
            np.hypot(y - row, x - column) < size,
            np.minimum(abs(y - row), abs(x - column)) < 1.2,
            (y - row) % 4 < 2,
        )[kind]
        ground, colour = random.integers(0, 100, 3), random.integers(120, 256, 3)
        image = np.where(inside[..., None], colour, ground).astype(float)
        images.append(np.clip(image + random.normal(0, noise or 1e-9, image.shape), 0, 255))
    return np.rint(images).astype(np.uint8), drawn


def seen(images):
    """What a model sees of uint8 [n, h, w, c]: float32 [n, c, h, w]."""
    return torch.from_numpy(images.astype(np.float32) / np.float32(127.5) - 1).permute(0, 3, 1, 2).contiguous()


class Extractor(torch.nn.Module):
    """Features [n, 12] within [-1, 1] of pictures whose values reach from `low` to `high`."""

    def __init__(self, low=-1.0, high=1.0):
        super().__init__()
        self.low, self.high = low, high
        self.first = torch.nn.Conv2d(3, 12, 3, stride=2)
        self.second = torch.nn.Conv2d(12, 24, 3, stride=2)
        self.third = torch.nn.Linear(24 * 3 * 3, 12)
        self.last = torch.nn.Linear(12, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = (x - self.low) / (self.high - self.low) * 2.0 - 1.0
        x = torch.relu(self.second(torch.relu(self.first(x))))
        return torch.tanh(self.third(x.flatten(1)) / 10.0)


def train_extractor(path, low=-1.0, high=1.0):
    """Trains one, says how good it is on pictures that it has not seen, and saves its features by torch.jit.script."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    network = Extractor()
    optimizer = torch.optim.Adam(network.parameters(), 5e-3)
    for step in range(150):
        images, kinds = pictures(64, 1000 + step, noise=8)
        loss = torch.nn.functional.cross_entropy(network.last(network(seen(images)) * 10.0), torch.from_numpy(kinds))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    images, kinds = pictures(256, 5, noise=8)
    right = (network.last(network(seen(images)) * 10.0).argmax(1).numpy() == kinds).mean()
    network.low, network.high = low, high
    torch.jit.script(network.eval()).save(str(path))
    return network, right
