"""How long a step takes on any number of nodes: a model of a few constants, fitted to measured points.

    step = compute + data + optimizer + exposed communication

Communication is a ring's (Thakur, Rabenseifner, Gropp: "Optimization of collective communication operations in MPICH",
2005), as `ddpm plan` has it. Over n ranks a collective of c calls that together pass buffers of B bytes takes

    s (c (n-1) alpha + (n-1)/n B beta),        s = 2 for an all-reduce, otherwise 1

and over k nodes of g ranks: such a ring within the nodes, with alpha and beta of their own, then one between the nodes. Calls
and bytes are what `ddpm plan` counts. What may run beside computing is exposed only as far as it does not fit in:

    exposed = open + max(last, hideable - omega window) + idle

`open`: the weights that ZeRO 1 and 2 gather after the update. `last`: the last bucket's share of the hideable ones. `window`:
the backward pass of the micro-batches that gradients travel beside; with ZeRO 3 all of forward and backward. `omega`: the
share of the window that hides. `idle`: waiting beyond all communication, as ranks of unequal speed cause it.
"""

import collections
import math

Level = collections.namedtuple("Level", "alpha beta")
Level.__doc__ = "Seconds per message, and per byte."
# Smaller buffers are carried by other algorithms than rings, and no bucket is so small.
LEAST_BYTES = 1 << 18


class NotEnough(Exception):
    """The points do not determine the model."""


def fit_two(rows):
    """The a, b >= 0 that bring a x + b y near t; rows are (x, y, t) with y, t > 0.

    Least sum of |log((a x + b y) / t)|: what is too long counts like what is too short, and a few times that are far off (a
    small message that found an empty buffer, a step that another job disturbed) move nothing. For a given a/b the best b is
    a median, so only that ratio has to be searched. Where the rows do not tell a and b apart, a is 0: with one value only, t
    is in proportion to y.
    """
    logs = [(x, y, math.log(t)) for x, y, t in rows if t > 0]
    if not logs:
        return 0.0, 0.0

    def misfit_and_b(ratio):
        off = [t - math.log(ratio * x + y) for x, y, t in logs]
        middle = median(off)
        return round(sum(abs(v - middle) for v in off), 12), math.exp(middle)

    usual = [y / x for x, y, _ in logs if x > 0]
    tried = [0.0] + ([median(usual) * 4.0**k for k in range(-10, 11)] if usual else [])
    ratio = min(tried, key=lambda r: (misfit_and_b(r)[0], r))
    factor = 2.0
    while ratio > 0 and factor > 1.001:
        ratio = min((ratio / factor, ratio, ratio * factor), key=lambda r: (misfit_and_b(r)[0], r))
        factor = factor**0.5
    b = misfit_and_b(ratio)[1]
    return ratio * b, b


# --- Communication ----------------------------------------------------------------------------------------------------


def sends(kind):
    return 2 if kind in ("all_reduce", "all-reduce") else 1


def ring(kind, ranks, calls, size):
    """What alpha and beta are multiplied with."""
    return sends(kind) * calls * (ranks - 1), sends(kind) * (ranks - 1) / ranks * size


class Network:
    """`within` nodes and `between` them; None where nothing was measured."""

    def __init__(self, within, between):
        self.within, self.between = within, between

    def seconds(self, kind, nodes, per_node, calls, size):
        total = 0.0
        for level, ranks in ((self.within, per_node), (self.between, nodes)):
            if ranks > 1:
                if level is None:
                    raise NotEnough(self._missing(per_node))
                a, b = ring(kind, ranks, calls, size)
                total += level.alpha * a + level.beta * b
        return total

    def _missing(self, per_node):
        if per_node > 1 and self.within is None:
            return f"no point of one node with {per_node} ranks was measured, which tells ways within a node from those between"
        return "no point with several nodes was measured"


def fit_network(samples):
    """Fits the collectives that every job timed by themselves: first one node's, then what others take beyond."""
    times = {}
    for s in samples:
        for line in [line for line in s.collectives if line["bytes"] >= LEAST_BYTES] or s.collectives:
            shape = (s.point.nodes, s.point.series.ranks_per_node, line["kind"], line["bytes"])
            times.setdefault(shape, []).append(line["seconds"]["median"])
    within = between = None
    rows = [(*ring(kind, g, 1, size), median(told)) for (k, g, kind, size), told in times.items() if k == 1]
    if rows:
        within = Level(*fit_two(rows))
    rows = []
    for (nodes, per_node, kind, size), told in times.items():
        if nodes > 1 and (per_node == 1 or within is not None):
            seconds = median(told)
            inside = Network(within, None).seconds(kind, 1, per_node, 1, size)
            # What is left is a ring between nodes; no less than a tenth, since both levels overlap in truth.
            rows.append((*ring(kind, nodes, 1, size), max(seconds - inside, 0.1 * seconds)))
    if rows:
        between = Level(*fit_two(rows))
    return Network(within, between)


# --- Steps ------------------------------------------------------------------------------------------------------------


class Traffic:
    """What a series exchanges per step, from a measured point of several ranks, for any number of them."""

    def __init__(self, sample):
        n, point = sample.point.ranks, sample.point
        self.stage = point.series.zero_stage
        self.lines = []
        for line in sample.lines:
            weights = line["of"] == "weights"
            times = self._times(weights, point.accumulation)
            size = line["sent_bytes"] / sends(line["collective"]) * n / (n - 1)
            self.lines.append((line["collective"], weights, line["calls"] / times, size / times))

    def _times(self, weights, accumulation):
        """How often per step all gradients are summed, or all weights gathered (docs/parallel.md)."""
        if weights:
            return 2 * accumulation if self.stage == 3 else 1
        return accumulation if self.stage >= 2 else 1

    def exposed_terms(self, point, network, forward, backward):
        """open, hideable, last, window: seconds."""
        accumulation = point.accumulation
        still, hideable, last = 0.0, 0.0, 0.0
        for kind, weights, calls, size in self.lines:
            times = self._times(weights, accumulation)
            seconds = network.seconds(kind, point.nodes, point.series.ranks_per_node, times * calls, times * size)
            if weights and self.stage < 3:
                still += seconds
            else:
                hideable += seconds
                last = max(last, seconds / (times * calls))
        window = backward / accumulation if self.stage < 2 else backward
        return still, hideable, last, window + (forward if self.stage == 3 else 0.0)


class SeriesModel:
    """Predicts the parts of a step of one series. `samples` are all of it; `network` is fitted elsewhere."""

    def __init__(self, samples, network):
        several = [s for s in samples if s.point.ranks > 1]
        self.network = network
        self.traffic = Traffic(several[0]) if several else None
        # Computing and reading grow with a rank's images, the update with its share of the state.
        self._compute = fit_two([(1.0, s.point.images_per_rank, s.parts["compute"]) for s in samples])
        self._data = median([s.parts["data"] for s in samples])
        self._optimizer = fit_two([(1.0, share(s.point), s.parts["optimizer"]) for s in samples])
        self.forward_share = mean([s.forward / s.parts["compute"] for s in samples])
        self.backward_share = mean([s.backward / s.parts["compute"] for s in samples])
        self.omega, self.idle = 0.0, 0.0
        if several:
            self._fit_exposed(several)

    def _fit_exposed(self, samples):
        told = {}
        for s in samples:
            told.setdefault(s.point, []).append(s.parts["communication"])
        terms = [(median(seconds), len(seconds), self._terms(point)) for point, seconds in told.items()]
        self.omega, step = 0.5, 0.05
        for _ in range(3):
            near = [self.omega + i * step for i in range(-10, 11) if -1e-9 <= self.omega + i * step <= 1 + 1e-9]
            # The least among equals is taken: where nothing is left to hide, the data tell no more.
            self.omega = min(near, key=lambda omega: (round(misfit(terms, omega), 15), omega))
            step /= 10
        self.omega = min(max(self.omega, 0.0), 1.0)
        self.idle = max(0.0, mean([seconds - exposed(term, self.omega) for seconds, _, term in terms]))

    def _terms(self, point):
        compute = self.compute(point)
        return self.traffic.exposed_terms(
            point, self.network, compute * self.forward_share, compute * self.backward_share
        )

    def compute(self, point):
        return self._compute[0] + self._compute[1] * point.images_per_rank

    def predict(self, point):
        """Seconds of each part. Throws NotEnough where it would need what was not measured."""
        communication = 0.0
        if point.ranks > 1:
            if self.traffic is None:
                raise NotEnough("no point with several ranks was measured")
            communication = exposed(self._terms(point), self.omega) + self.idle
        return {
            "compute": self.compute(point),
            "communication": communication,
            "data": self._data,
            "optimizer": self._optimizer[0] + self._optimizer[1] * share(point),
        }


def exposed(terms, omega):
    still, hideable, last, window = terms
    return still + max(last, hideable - omega * window)


def misfit(terms, omega):
    return sum(count * (exposed(term, omega) - seconds) ** 2 for seconds, count, term in terms)


def share(point):
    """The share of the state that a rank updates."""
    return 1.0 if point.series.zero_stage == 0 else 1.0 / point.ranks


def mean(values):
    return sum(values) / len(values)


def median(values):
    ordered = sorted(values)
    return (ordered[len(ordered) // 2] + ordered[(len(ordered) - 1) // 2]) / 2
