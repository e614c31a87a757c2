"""The numbers of `ddpm eval fields` by NumPy and SciPy, from the formulas of docs/evaluation.md: everything is computed anew for
each set of units that the jackknife leaves."""

import math

import numpy as np
import scipy.stats

SHARES = (0.001, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 0.999)


def rings(sides):
    """The ring of each mode of numpy.fft.fftn, 0 for the mean and for what lies beyond the last ring."""
    longest = max(sides)
    waves = np.meshgrid(*[np.fft.fftfreq(side) * longest for side in sides], indexing="ij")
    ring = np.floor(np.sqrt(sum(k**2 for k in waves)) + 0.5 + 1e-12).astype(int)
    return np.where(ring > longest // 2, 0, ring)


def power(images, valid):
    """[ring]: the mean power of the modes of each ring, over images [n, sides...]."""
    axes = tuple(range(1, images.ndim))
    mean = np.where(valid, images, 0).sum(axes, keepdims=True) / valid.sum(axes, keepdims=True)
    spectra = np.abs(np.fft.fftn(np.where(valid, images - mean, 0), axes=axes)) ** 2 / math.prod(images.shape[1:])
    ring = rings(images.shape[1:])
    return np.array([spectra[:, ring == r].mean() for r in range(1, max(images.shape[1:]) // 2 + 1)])


def crps(x, y):
    """As properscoring's crps_ensemble computes it, x is [members, ...]: the usual one and Ferro's fair one."""
    m = len(x)
    to_truth = np.abs(x - y).mean(0)
    between = np.abs(x[:, None] - x[None, :]).sum((0, 1))
    return to_truth - between / (2 * m * m), to_truth - between / (2 * m * (m - 1)) if m > 1 else to_truth


def energy(x, y, valid):
    """One condition: x is [members, sides...]."""
    m = len(x)
    norm = lambda d: np.sqrt((np.where(valid, d, 0) ** 2).sum(tuple(range(-y.ndim, 0))))
    to_truth = norm(x - y).mean()
    between = norm(x[:, None] - x[None, :]).sum()
    return to_truth - between / (2 * m * m), to_truth - between / (2 * m * (m - 1)) if m > 1 else to_truth


def tails(values, thresholds):
    return {share: (values < t if share < 0.5 else values > t).mean() for share, t in thresholds.items()}


def marginal(x, x_valid, y, y_valid, thresholds):
    """What is said of two draws, [n, sides...] each."""
    a, b = x[x_valid], y[y_valid]
    numbers = {("bias", ""): a.mean() - b.mean(), ("deviation_ratio", ""): a.std() / b.std()}
    of_a, of_b = tails(a, thresholds), tails(b, thresholds)
    for share in thresholds:
        name = "share_below" if share < 0.5 else "share_above"
        numbers[name, f"{100 * share:g} %"] = of_a[share]
    numbers["tail_error", ""] = np.mean([abs(of_a[s] - of_b[s]) / min(s, 1 - s) for s in thresholds])
    ratio = power(x, x_valid) / power(y, y_valid)  # of at most 12 rings each is a band
    for k, r in enumerate(ratio):
        numbers["power", f"k {k + 1}"] = power(x, x_valid)[k]
        numbers["power_error", f"k {k + 1}"] = r - 1
    numbers["spectrum_error", ""] = np.abs(np.log(ratio)).mean()
    return numbers


def paired(x, y, valid, thresholds):
    """x is [conditions, members, sides...], y and valid are [conditions, sides...]."""
    m = x.shape[1]
    everywhere = np.repeat(valid, m, 0)
    numbers = marginal(x.reshape(-1, *y.shape[1:]), everywhere, y, valid, thresholds)
    mean = x.mean(1)
    numbers["correlation", ""] = np.corrcoef(mean[valid], y[valid])[0, 1]
    numbers["rmse", ""] = np.sqrt(((mean - y)[valid] ** 2).mean())
    usual, fair = crps(np.moveaxis(x, 1, 0), y)
    numbers["crps", ""] = usual[valid].mean()
    scores = np.array([energy(x[c], y[c], valid[c]) for c in range(len(x))]).mean(0)
    numbers["energy_score", ""] = scores[0]
    if m == 1:
        return numbers
    numbers["crps_fair", ""] = fair[valid].mean()
    numbers["energy_score_fair", ""] = scores[1]
    spread = x.var(1, ddof=1)[valid].mean()
    numbers["spread_skill", ""] = np.sqrt((m + 1) / m * spread) / numbers["rmse", ""]
    below = (x < y[:, None]).sum(1)[valid]
    for rank in range(m + 1):
        numbers["rank_share", rank] = (below == rank).mean()
    return numbers


def share_up_to(values, row, of_each=False):
    """The share of values up to the reference of a quantile's row, or below it where the row's value is."""
    counted = values <= row["reference"] if row["value"] > row["reference"] else values < row["reference"]
    return counted.reshape(len(values), -1).mean(1) if of_each else counted.mean()


def share_moved(x, y, row):
    return share_up_to(y, row) - share_up_to(x, row)


def exchange_p_value(x, y, valid):
    """How often the histogram of ranks is as far from a flat one where any of each condition is the truth: of all ways."""
    fields = np.concatenate([y[:, None], x], 1)
    places = fields.shape[1]
    rank = fields.argsort(1).argsort(1)
    counts = np.array([[[((rank[c, j] == r) & valid[c]).sum() for r in range(places)] for j in range(places)] for c in range(len(x))])
    sums = np.zeros((1, places))
    for of_condition in counts:
        sums = (sums[:, None] + of_condition[None]).reshape(-1, places)
    away = np.square(sums - sums.mean(1, keepdims=True)).sum(1)
    return (away >= away[0] * (1 - 1e-9)).mean()  # the first way has the truth itself everywhere


def jackknife(number, blocks):
    """{key: (value, standard error)} of a function of a list of units, whose blocks are left out in turn."""
    units = np.concatenate(blocks)
    whole = number(units)
    rest = [number(np.concatenate(blocks[:b] + blocks[b + 1 :])) for b in range(len(blocks))]
    return {key: (value, deviation([one[key] for one in rest])) for key, value in whole.items()}


def deviation(left_out):
    n = len(left_out)
    return math.sqrt((n - 1) / n * np.square(np.array(left_out) - np.mean(left_out)).sum())


def interval(value, error, degrees):
    reach = scipy.stats.t.ppf(0.975, degrees) * error
    return value - reach, value + reach
