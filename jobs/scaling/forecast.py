"""What follows from the samples: efficiencies, the fitted model, its back-test, and its extrapolation.

Back-test: every number of nodes but the smallest is left out once, with all that was measured on it; the model is fitted
to the rest and predicts the median of its repeats. Extrapolation: the model of all points. Its interval is the bootstrap's over repeats, widened on
both sides by the largest error of the series' back-test. It assumes what cannot be known from the inside: that the network
of many nodes is that of the few.
"""

import collections
import contextlib
import math

from description import StudyError, counted, make_point
from intervals import bootstrap, mean_interval, quantiles, ratio_interval
from model import NotEnough, SeriesModel, fit_network, median

# The largest error of a back-test: beyond it an extrapolation is worthless, with an interval or without.
LARGEST_ERROR = 0.25
# GB/s in one direction: NVLink 5 has 900.
LARGEST_BANDWIDTH = 2000.0
# Numbers of nodes: with fewer, leaving one out leaves too little to fit to.
LEAST_COUNTS = 4
# By how much the longest repeat may exceed the shortest one.
NOISY = 0.2

Measured = collections.namedtuple("Measured", "point repeats rate seconds efficiency parts memory")
Measured.__doc__ = """`rate` (images per second), `seconds` and `efficiency` are (value, low, high); ends may be None."""
Tested = collections.namedtuple("Tested", "point predicted measured error")
Predicted = collections.namedtuple("Predicted", "point seconds rate efficiency parts measured_to")
Predicted.__doc__ = """As Measured; `measured_to`: the largest measured number of nodes."""


def by_series(samples):
    groups = collections.OrderedDict()
    for sample in sorted(samples, key=lambda s: (s.point.series, s.point.nodes, s.repeat)):
        groups.setdefault(sample.point.series, []).append(sample)
    return groups


def by_point(samples):
    groups = collections.OrderedDict()
    for sample in samples:
        groups.setdefault(sample.point, []).append(sample)
    return groups


def measured(samples):
    """One line per point of a series. Efficiency: images per second and rank, over those of the smallest point."""
    groups = by_point(samples)
    base = next(iter(groups.values()))
    lines = []
    for point, group in groups.items():
        per_rank = [s.images_per_second / s.point.ranks for s in group]
        base_per_rank = [s.images_per_second / s.point.ranks for s in base]
        efficiency = (1.0, None, None) if group is base else ratio_interval(per_rank, base_per_rank)
        parts = {name: sum(s.parts[name] for s in group) / len(group) for name in group[0].parts}
        lines.append(
            Measured(
                point, len(group), mean_interval([s.images_per_second for s in group]),
                mean_interval([s.seconds for s in group]), efficiency, parts, max(s.peak_memory_bytes for s in group),
            )
        )  # fmt: skip
    return lines


def within_node(samples):
    """{series: its Measured} over the ranks of one node, where more than one number of them was measured. `ranks_per_node` of
    such a series is 0; efficiency is against the fewest ranks."""
    groups = collections.OrderedDict()
    for sample in sorted((s for s in samples if s.point.nodes == 1), key=lambda s: (s.point.series, s.repeat)):
        groups.setdefault(sample.point.series._replace(ranks_per_node=0), []).append(sample)
    return {series: measured(group) for series, group in groups.items() if len(by_point(group)) > 1}


def fit(samples):
    """{series: its model} and the network that they share. A series without several ranks has no model of them."""
    network = fit_network(samples)
    return {series: SeriesModel(group, network) for series, group in by_series(samples).items()}, network


def total(parts):
    return sum(parts.values())


def back_test(samples):
    """Lines of Tested, and notes about what could not be tested."""
    lines, notes = [], []
    counts = sorted({s.point.nodes for s in samples})
    for nodes in counts[1:]:
        rest = [s for s in samples if s.point.nodes != nodes]
        try:
            models, _ = fit(rest)
        except NotEnough as error:
            notes.append(f"{counted(nodes, 'node')}: not tested: {error}")
            continue
        for point, group in by_point([s for s in samples if s.point.nodes == nodes]).items():
            truth = median([s.seconds for s in group])
            try:
                predicted = total(models[point.series].predict(point)) if point.series in models else None
            except NotEnough as error:
                predicted = None
                notes.append(f"{point.name}: not tested: without its nodes, {error}")
            if predicted is not None:
                lines.append(Tested(point, predicted, truth, predicted / truth - 1))
    return sorted(lines, key=lambda line: (line.point.series, line.point.nodes)), notes


def doubts(samples, tests, network):
    """{series: [why nothing may be concluded from its extrapolation]}; a series that may be believed has an empty list."""
    shared = [
        f"the fitted bandwidth {where} is {1e-9 / level.beta if level.beta > 0 else math.inf:,.0f} GB/s, which no link has: the"
        " collectives took no longer for more bytes, so their times say nothing about bandwidth"
        for where, level in (("within a node", network.within), ("between nodes", network.between))
        if level is not None and level.beta * 1e9 * LARGEST_BANDWIDTH < 1
    ]
    found = {}
    for series, group in by_series(samples).items():
        errors = {test.point.nodes: test.error for test in tests if test.point.series == series}
        reasons = []
        if not errors:
            counts = len(by_point(group))
            reasons.append(f"the model could not be tested on a number of nodes that was left out: {counts} measured,"
                           f" {LEAST_COUNTS} or more are wanted")  # fmt: skip
        elif max(map(abs, errors.values())) > LARGEST_ERROR:
            nodes, error = max(errors.items(), key=lambda item: abs(item[1]))
            reasons.append(f"fitted without {counted(nodes, 'node')}, the model misses them by {error:+.0%}, more than the"
                           f" {LARGEST_ERROR:.0%} that can be believed, {cause(group)}")  # fmt: skip
        found[series] = reasons + shared
    return found


def cause(samples):
    """What the samples of a series say about why its model fails."""
    counts = len(by_point(samples))
    spreads = [max(s.seconds for s in group) / min(s.seconds for s in group) - 1 for group in by_point(samples).values()]
    if max(spreads) > NOISY:
        return f"and repeats of one point differ by up to {max(spreads):.0%}: other jobs disturbed them"
    if counts < LEAST_COUNTS:
        return f"and {counted(counts, 'number')} of nodes cannot tell its constants apart; {LEAST_COUNTS} or more are wanted"
    return "though repeats agree: steps depend on something that it does not know"


def extrapolate(samples, tests, counts):
    """Lines of Predicted beyond, or between, the measured points; and notes."""
    groups = by_series(samples)
    lines, notes = [], []
    wanted = {}
    try:
        models, _ = fit(samples)
    except NotEnough as error:
        return [], [f"no extrapolation: {error}"]
    for series, group in groups.items():
        there = {s.point.nodes for s in group}
        points = targets(series, [n for n in counts if n not in there], max(s.point.micro_size for s in group))
        left = sorted(set(counts) - there - {p.nodes for p in points})
        if left:
            notes.append(f"{label(series)}: {', '.join(map(str, left))} node{'' if left == [1] else 's'}: the batch does not divide among their ranks")
        try:
            for point in points:
                models[series].predict(point)
            wanted[series] = [group[0].point, *points]
        except NotEnough as error:
            notes.append(f"{label(series)}: no extrapolation: {error}")

    def predict(drawn):
        fitted, _ = fit(drawn)
        return {point: fitted[series].predict(point) for series, points in wanted.items() for point in points}

    best, drawn = predict(samples), bootstrap(samples, predict)
    for series, (base, *points) in wanted.items():
        errors = [abs(test.error) for test in tests if test.point.series == series]
        group = groups[series]
        several = min(len(g) for g in by_point(group).values()) > 1
        for point in points:
            lines.append(predicted_line(point, base, best, drawn, max(errors, default=None) if several else None,
                                        max(s.point.nodes for s in group)))  # fmt: skip
        if points and not errors:
            notes.append(f"{label(series)}: no interval: the model could not be tested on a point that was left out")
        elif points and not several:
            notes.append(f"{label(series)}: no interval: some point was measured once only")
    return lines, notes


def targets(series, counts, micro_size):
    """Points of the series at these numbers of nodes, as far as they exist."""
    found = []
    for nodes in counts:
        with contextlib.suppress(StudyError):  # fewer images than ranks, or no equal shares
            found.append(make_point(series, nodes, micro_size))
    return found


def predicted_line(point, base, best, drawn, error, measured_to):
    def of(parts):
        """seconds, images per second, efficiency."""
        seconds = total(parts[point])
        rate = point.global_size / seconds
        return seconds, rate, rate / point.ranks / (base.global_size / total(parts[base]) / base.ranks)

    values = of(best)
    spans = [(None, None)] * 3
    if error is not None:
        spans = [quantiles(column) for column in zip(*map(of, drawn))]
        seconds = (spans[0][0] / (1 + error), spans[0][1] * (1 + error))
        spans = [seconds, *((low / (1 + error), high * (1 + error)) for low, high in spans[1:])]
    return Predicted(point, *((v, *span) for v, span in zip(values, spans)), best[point], measured_to)


def label(series):
    batch = counted(series.batch, "image") + ("" if series.kind == "strong" else " per rank")
    ranks = f"{counted(series.ranks_per_node, 'rank')} per node"
    if series.ranks_per_node == 0:
        ranks = "ranks of one node"
    precision = "float32" if series.mixed_precision == "no" else series.mixed_precision
    return f"{series.kind}, {batch}, ZeRO {series.zero_stage}, {precision}, {ranks}"
