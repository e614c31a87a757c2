"""Means and intervals of 95 %: Student's t for what was measured, a bootstrap over repeats for what was fitted."""

import math
import random

# Student's t, 97.5 %, for 1 to 30 degrees of freedom; beyond, the normal distribution's.
T_975 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110,
    2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
RESAMPLES = 400
SEED = 20260101


def t_975(freedom):
    """Rounded down to whole degrees of freedom, which is the wider interval."""
    return T_975[max(1, int(freedom)) - 1] if freedom < len(T_975) + 1 else 1.960


def log_mean(values):
    """Mean and its variance of the logarithms; no variance for a single value."""
    logs = [math.log(v) for v in values]
    m = sum(logs) / len(logs)
    if len(logs) < 2:
        return m, None
    return m, sum((v - m) ** 2 for v in logs) / (len(logs) - 1) / len(logs)


def mean_interval(values):
    """Geometric mean, lower and upper end; the ends are None for a single value."""
    m, variance = log_mean(values)
    if variance is None:
        return math.exp(m), None, None
    half = t_975(len(values) - 1) * math.sqrt(variance)
    return math.exp(m), math.exp(m - half), math.exp(m + half)


def ratio_interval(above, below):
    """The interval of the ratio of the means of two independent groups, by Welch's t on the logarithms."""
    (ma, va), (mb, vb) = log_mean(above), log_mean(below)
    ratio = math.exp(ma - mb)
    if va is None or vb is None:
        return ratio, None, None
    both = va + vb
    if both == 0:
        return ratio, ratio, ratio
    freedom = both**2 / (va**2 / (len(above) - 1) + vb**2 / (len(below) - 1))
    half = t_975(freedom) * math.sqrt(both)
    return ratio, ratio * math.exp(-half), ratio * math.exp(half)


def bootstrap(samples, function, resamples=RESAMPLES, seed=SEED):
    """What `function` makes of samples that are drawn anew: per point as many repeats as there are, with replacement.

    Equal samples give equal draws. Returns the list of results.
    """
    points = {}
    for sample in sorted(samples, key=lambda s: (s.point.name, s.repeat)):
        points.setdefault(sample.point, []).append(sample)
    generator = random.Random(seed)
    # random() is the one method that Python promises to keep.
    draw = lambda group: group[int(generator.random() * len(group))]  # noqa: E731
    return [function([draw(group) for group in points.values() for _ in group]) for _ in range(resamples)]


def quantiles(values, low=0.025, high=0.975):
    ordered = sorted(values)

    def at(share):
        place = share * (len(ordered) - 1)
        below = int(place)
        above = min(below + 1, len(ordered) - 1)
        return ordered[below] + (place - below) * (ordered[above] - ordered[below])

    return at(low), at(high)
