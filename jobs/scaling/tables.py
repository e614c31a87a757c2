"""The report's tables, as Markdown for people and as CSV for papers and spreadsheets."""

import csv
import io

from description import counted
from forecast import by_series, label, total
from results import PARTS

PART_NAMES = {"compute": "compute", "communication": "exposed communication", "data": "data", "optimizer": "optimizer"}


def shown(value, low=None, high=None, unit=1.0, digits=3):
    """ "97.1 (96.0 to 98.3)" """

    def short(v):
        v *= unit
        return f"{v:.{digits}g}" if abs(v) < 10**digits - 0.5 else f"{v:,.0f}"

    return short(value) if low is None else f"{short(value)} ({short(low)} to {short(high)})"


def markdown(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows]) + "\n"


def comma_separated(head, rows):
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head)
    writer.writerows([[plain(v) for v in row] for row in rows])
    return out.getvalue()


def plain(value):
    if isinstance(value, float):
        return f"{value:.8g}"
    return "" if value is None else value


# --- Markdown ---------------------------------------------------------------------------------------------------------


def report(name, version, lines, within, models, network, tests, forecast, doubts, notes):
    """`lines`: {series: its Measured}; the others are forecast.py's."""
    text = [f"# {name}\n", *warnings(doubts), f"Measured with {version}. Intervals are of 95 %. Efficiency: images per second and rank, over", ]
    text[-1] += "\nthose of the first line.\n"
    for series, rows in (*lines.items(), *within.items()):
        text += [f"## {label(series)[0].upper()}{label(series)[1:]}\n", measured_table(rows), split_table(rows)]
    text += ["## Model\n", model_text(models, network)]
    text += ["## Back-test\n", back_test_table(tests) if tests else "There is none: it needs three numbers of nodes.\n"]
    if forecast:
        text += ["## Extrapolation\n", extrapolation_table(forecast)]
    if notes:
        text += ["## Notes\n", "".join(f"- {note}\n" for note in notes)]
    return "\n".join(text)


def warnings(doubts):
    """What has to be read before any number."""
    if not doubts:
        return []
    text = "**The extrapolation is worthless**, and neither printed nor drawn, of\n\n"
    text += "".join(f"- {label(series)}: {'; '.join(reasons)}.\n" for series, reasons in doubts.items())
    return [
        text,
        "What was measured stands. For an extrapolation, measure four numbers of nodes or more, three repeats or more, on nodes"
        "\nthat run nothing else, with collectives (`comm.max_mib`) as large as the gradients; then see the back-test.\n",
    ]


def measured_table(rows):
    head = ["nodes", "ranks", "batch", "repeats", "seconds per step", "images/s", "efficiency, %", "memory, GB"]
    return markdown(head, [
        [r.point.nodes, r.point.ranks, r.point.global_size, r.repeats, shown(*r.seconds), shown(*r.rate),
         shown(*r.efficiency, unit=100), shown(r.memory, unit=1e-9)]
        for r in rows
    ])  # fmt: skip


def split_table(rows):
    head = ["nodes", "ranks", *(f"{PART_NAMES[part]}, s (%)" for part in PARTS)]
    return markdown(head, [
        [r.point.nodes, r.point.ranks, *(f"{shown(r.parts[p])} ({shown(r.parts[p] / total(r.parts), unit=100, digits=2)})" for p in PARTS)]
        for r in rows
    ])  # fmt: skip


def model_text(models, network):
    levels = []
    for where, level in (("within a node", network.within), ("between nodes", network.between)):
        if level is not None:
            rate = f"{shown(1e-9 / level.beta)} GB/s" if level.beta > 0 else "no limit seen"
            levels.append(f"- {where}: alpha {shown(level.alpha, unit=1e6)} µs per message, 1/beta {rate}\n")
    rows = [
        [label(series), shown(m.omega, digits=2), shown(m.idle, unit=1e3)]
        for series, m in models.items() if m.traffic is not None
    ]  # fmt: skip
    table = markdown(["series", "share of backward that hides", "other waiting, ms"], rows) if rows else ""
    return "".join(levels) + "\n" + table


def back_test_table(tests):
    head = ["series", "nodes left out", "predicted, s", "measured, s", "error"]
    return markdown(head, [
        [label(t.point.series), t.point.nodes, shown(t.predicted), shown(t.measured), f"{t.error:+.1%}"] for t in tests
    ])  # fmt: skip


def extrapolation_table(forecast):
    head = ["series", "nodes", "ranks", "seconds per step", "images/s", "efficiency, %", "communication, %", "measured to"]
    return markdown(head, [
        [label(p.point.series), p.point.nodes, p.point.ranks, shown(*p.seconds), shown(*p.rate),
         shown(*p.efficiency, unit=100), shown(p.parts["communication"] / total(p.parts), unit=100, digits=2),
         counted(p.measured_to, "node")]
        for p in forecast
    ])  # fmt: skip


# --- CSV --------------------------------------------------------------------------------------------------------------

SERIES = ["kind", "batch", "zero_stage", "mixed_precision", "ranks_per_node"]
SPANS = [f"{name}{end}" for name in ("seconds_per_step", "images_per_second", "efficiency") for end in ("", "_low", "_high")]
SECONDS = [f"{part}_seconds" for part in PARTS]


def measured_csv(lines):
    head = [*SERIES, "nodes", "ranks", "global_size", "repeats", *SPANS, *SECONDS, "peak_memory_bytes"]
    return comma_separated(head, [
        [*series, r.point.nodes, r.point.ranks, r.point.global_size, r.repeats, *r.seconds, *r.rate, *r.efficiency,
         *(r.parts[p] for p in PARTS), r.memory]
        for series, rows in lines.items() for r in rows
    ])  # fmt: skip


def back_test_csv(tests):
    head = [*SERIES, "nodes", "predicted_seconds", "measured_seconds", "relative_error"]
    return comma_separated(head, [[*t.point.series, t.point.nodes, t.predicted, t.measured, t.error] for t in tests])


def extrapolation_csv(forecast):
    head = [*SERIES, "nodes", "ranks", "global_size", *SPANS, *SECONDS, "measured_to_nodes"]
    return comma_separated(head, [
        [*p.point.series, p.point.nodes, p.point.ranks, p.point.global_size, *p.seconds, *p.rate, *p.efficiency,
         *(p.parts[part] for part in PARTS), p.measured_to]
        for p in forecast
    ])  # fmt: skip


def samples_csv(samples):
    head = [*SERIES, "nodes", "repeat", "job", "hosts", "version", "seconds_per_step", "images_per_second", *SECONDS]
    return comma_separated(head, [
        [*series, s.point.nodes, s.repeat, s.job, s.hosts, s.version, s.seconds, s.images_per_second,
         *(s.parts[p] for p in PARTS)]
        for series, group in by_series(samples).items() for s in group
    ])  # fmt: skip
