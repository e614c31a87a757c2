"""How long a step takes on any number of nodes: a model of a few constants, fitted to measured points.

    step = compute + data + optimizer + exposed communication

Communication is a ring's (Thakur, Rabenseifner, Gropp: "Optimization of collective communication operations in MPICH",
2005), as `ddpm plan` has it. Over n ranks a collective of c calls that together pass buffers of B bytes takes

    s (c (n-1) alpha + (n-1)/n B beta),        s = 2 for an all-reduce, else 1

and over k nodes of g ranks: such a ring within the nodes, with alpha and beta of their own, then one between the nodes. Calls
and bytes are what `ddpm plan` counts. What may run beside computing is exposed only as far as it does not fit in:

    exposed = open + max(last, hideable - omega window) + idle

`open`: the weights that ZeRO 1 and 2 gather after the update. `last`: the last bucket's share of the hideable ones. `window`:
the backward pass of the micro-batches that gradients travel beside; with ZeRO 3 all of forward and backward. `omega`: the
share of the window that hides. `idle`: waiting beyond all communication, as ranks of unequal speed cause it.
"""

import collections

Level = collections.namedtuple("Level", "alpha beta")
Level.__doc__ = "Seconds per message, and per byte."
# Below, other algorithms than rings carry the data, and no bucket is so small.
LEAST_BYTES = 1 << 18


class NotEnough(Exception):
    """The points do not determine the model."""


def fit_two(rows):
    """The a, b >= 0 with the least sum of squares of (a x + b y) / t - 1; rows are (x, y, t) with t > 0.

    Where the rows do not tell a and b apart, b is as large as it can be: with one value only, t is proportional to y.
    """
    scaled = [(x / t, y / t) for x, y, t in rows if t > 0]
    if not scaled:
        return 0.0, 0.0
    xx, xy, yy = (sum(p * q for p, q in pairs) for pairs in (
        [(x, x) for x, _ in scaled], [(x, y) for x, y in scaled], [(y, y) for _, y in scaled]
    ))  # fmt: skip
    x1, y1 = sum(x for x, _ in scaled), sum(y for _, y in scaled)
    determinant = xx * yy - xy * xy
    if determinant > 1e-9 * xx * yy:
        a, b = (yy * x1 - xy * y1) / determinant, (xx * y1 - xy * x1) / determinant
        if a >= 0 and b >= 0:
            return a, b
        if b < 0:
            return x1 / xx, 0.0
    return (0.0, y1 / yy) if yy > 0 else (x1 / xx, 0.0)


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
                    where = "nodes" if level is self.between else "ranks of a node"
                    raise NotEnough(f"no point with several {where} was measured")
                a, b = ring(kind, ranks, calls, size)
                total += level.alpha * a + level.beta * b
        return total


def fit_network(samples):
    """From the collectives that every job timed by themselves: first those of one node, then what others take beyond."""
    within = between = None
    rows = [row for s in samples if s.point.nodes == 1 for row in collective_rows(s, s.point.series.ranks_per_node)]
    if rows:
        within = Level(*fit_two(rows))
    rows = []
    for s in samples:
        per_node = s.point.series.ranks_per_node
        if s.point.nodes == 1 or (per_node > 1 and within is None):
            continue
        for (a, b, seconds), line in zip(collective_rows(s, s.point.nodes), big(s)):
            inside = Network(within, None).seconds(line["kind"], 1, per_node, 1, line["bytes"])
            # What is left is a ring between nodes; no less than a tenth, since both levels overlap in truth.
            rows.append((a, b, max(seconds - inside, 0.1 * seconds)))
    if rows:
        between = Level(*fit_two(rows))
    return Network(within, between)


def big(sample):
    return [line for line in sample.collectives if line["bytes"] >= LEAST_BYTES] or sample.collectives


def collective_rows(sample, ranks):
    return [(*ring(line["kind"], ranks, 1, line["bytes"]), line["seconds"]["median"]) for line in big(sample)]


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
        self._data = mean([s.parts["data"] for s in samples])
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
        terms = [(mean(seconds), len(seconds), self._terms(point)) for point, seconds in told.items()]
        self.omega, step = 0.5, 0.05
        for _ in range(3):
            near = [self.omega + i * step for i in range(-10, 11) if -1e-9 <= self.omega + i * step <= 1 + 1e-9]
            # The least among equals: where nothing is left to hide, no more than that is known.
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
    """Of the state that a rank updates."""
    return 1.0 if point.series.zero_stage == 0 else 1.0 / point.ranks


def mean(values):
    return sum(values) / len(values)
