"""The report's plots: gnuplot scripts with their data inside, and SVG and PNG where gnuplot is installed.

For each kind of study one figure of throughput and one of efficiency over nodes: filled points with intervals are measured,
open ones extrapolated, lines are the model. Where several numbers of ranks were measured on one node, the same over those. For
each series one figure of the parts of a step.
"""

import shutil
import subprocess

from description import KINDS, StudyError
from forecast import label, total
from model import NotEnough
from results import PARTS
from tables import PART_NAMES

COLOURS = ("#1b6ca8", "#d1495b", "#2e8b57", "#8d6a9f", "#c08a1e", "#4a4a4a", "#17a2a2", "#e07b39")
# Filled for measured points, open for extrapolated ones: another pair for each round of colours.
POINT_TYPES = ((7, 6), (5, 4), (9, 8), (11, 10), (13, 12))
PART_COLOURS = ("#1b6ca8", "#d1495b", "#c08a1e", "#2e8b57")
TERMINALS = {
    "svg": 'svg size 760,{height} enhanced font "Helvetica,14" background "#ffffff"',
    "png": 'pngcairo size 1520,{twice} enhanced font "Helvetica,14" fontscale 1.6 linewidth 2 pointscale 1.6',
}
# Lines of the key; more of them make the picture higher.
USUAL_LINES = 6
COMMON = """set encoding utf8
set border 3 lc rgb "#444444"
set tics nomirror
set grid ytics lc rgb "#dddddd" lw 0.5
set key bmargin center horizontal Left reverse width 2
"""
HOW_TO_READ = {
    "nodes": 'set title "filled: measured, open: extrapolated, bars: 95 %, lines: model" font ",12" textcolor rgb "#666666"',
    "ranks": 'set title "measured on one node; bars: 95 %" font ",12" textcolor rgb "#666666"',
}


def scripts(lines, within, curves, forecast):
    """{name: text} of gnuplot scripts that write to the terminal and the file that draw() sets.

    `lines`: {series: its Measured}; `within`: the same over the ranks of one node; `curves`: {series: [(nodes, images per
    second, efficiency)]} of the model at and between all points; `forecast`: Predicted.
    """
    result = {}
    for kind, axis, there in [(kind, axis, there) for kind in KINDS for axis, there in (("nodes", lines), ("ranks", within))]:
        chosen = {series: rows for series, rows in there.items() if series.kind == kind}
        for figure, title, column, unit in (
            ("efficiency", f"Efficiency, {kind} scaling (%)", "efficiency", 100.0),
            ("throughput", f"Images per second, {kind} scaling", "rate", 1.0),
        ):
            if chosen:
                name = f"{kind}-{figure}" if axis == "nodes" else f"{kind}-one-node-{figure}"
                result[name] = curve_figure(chosen, curves, forecast, title, column, unit, axis)
    for i, (series, rows) in enumerate(lines.items(), 1):
        result[f"split-{i}"] = split_figure(series, rows, "nodes")
    for i, (series, rows) in enumerate(within.items(), 1):
        result[f"split-one-node-{i}"] = split_figure(series, rows, "ranks")
    return result


def at(point, axis):
    return point.nodes if axis == "nodes" else point.ranks


def curve_figure(lines, curves, forecast, title, column, unit, axis):
    text = [COMMON, x_label(axis), HOW_TO_READ[axis], "set logscale x", f'set ylabel "{title}"']
    if column == "rate":
        text.append("set logscale y")
    else:
        text.append("set yrange [0:*]")
    plots, names = [], set()
    for i, (series, rows) in enumerate(lines.items()):
        colour = COLOURS[i % len(COLOURS)]
        filled, open_ = POINT_TYPES[i // len(COLOURS) % len(POINT_TYPES)]
        names.update(at(r.point, axis) for r in rows)
        text.append(block(f"$measured{i}", [[at(r.point, axis), *ends(getattr(r, column), unit)] for r in rows]))
        plots.append(f'$measured{i} using 1:2:3:4 with yerrorbars pt {filled} ps 0.7 lc rgb "{colour}" title "{series_title(series)}"')
        if axis == "ranks":  # no model: what was measured is joined
            plots.append(f'$measured{i} using 1:2 with lines lw 0.8 lc rgb "{colour}" notitle')
        curve = [(n, (rate if column == "rate" else efficiency) * unit) for n, rate, efficiency in curves.get(series, [])]
        if curve:
            text.append(block(f"$model{i}", curve))
            plots.append(f'$model{i} using 1:2 with lines lw 1.2 lc rgb "{colour}" notitle')
        beyond = [p for p in forecast if p.point.series == series and p.point.nodes > rows[-1].point.nodes]
        names.update(p.point.nodes for p in beyond)
        if column == "rate":
            n, (rate, *_) = at(rows[0].point, axis), rows[0].rate
            last = max(at(r.point, axis) for r in [*rows, *beyond])
            text.append(block(f"$ideal{i}", [(n, rate), (last, rate * last / n)]))
            title = "notitle" if i else 'title "ideal"'
            plots.insert(0, f'$ideal{i} using 1:2 with lines dt 2 lw 0.8 lc rgb "#aaaaaa" {title}')
        if beyond:
            text.append(block(f"$beyond{i}", [[p.point.nodes, *ends(getattr(p, column), unit)] for p in beyond]))
            plots.append(f'$beyond{i} using 1:2:3:4 with yerrorbars pt {open_} ps 0.7 lc rgb "{colour}" notitle')
    ticks = ", ".join(f'"{n}" {n}' for n in sorted(names))
    text.append(f"set xtics ({ticks})")
    text.append(f"set xrange [{min(names) * 0.85:g}:{max(names) * 1.2:g}]")
    text.append("plot " + ", \\\n  ".join(plots))
    return "\n".join(text) + "\n"


def split_figure(series, rows, axis):
    text = [
        COMMON, x_label(axis), f'set title "{escaped(label(series))}"', 'set ylabel "seconds per step"',
        "set yrange [0:*]", "set style data histograms", "set style histogram rowstacked", "set boxwidth 0.6",
        "set style fill solid 0.85 noborder",
        block("$parts", [[f'"{at(r.point, axis)}"', *(r.parts[p] for p in PARTS)] for r in rows]),
    ]  # fmt: skip
    plots = [
        f'$parts using {i + 2}:xtic(1) lc rgb "{PART_COLOURS[i]}" title "{PART_NAMES[part]}"' for i, part in enumerate(PARTS)
    ]
    text.append("plot " + ", \\\n  ".join(plots))
    return "\n".join(text) + "\n"


def block(name, rows):
    return f"{name} << EOD\n" + "".join(" ".join(cell(v) for v in row) + "\n" for row in rows) + "EOD"


def cell(value):
    return value if isinstance(value, str) else f"{value:.6g}"


def ends(span, unit):
    """The interval's ends; without an interval, both are the value."""
    value, low, high = span
    return [value * unit, (value if low is None else low) * unit, (value if high is None else high) * unit]


def x_label(axis):
    return f'set xlabel "{axis}" offset 0,0.4'


def series_title(series):
    return escaped(label(series).partition(", ")[2])


def escaped(text):
    return text.replace("\\", "").replace('"', "'").replace("_", "\\\\_")


def draw(folder, texts):
    """Writes the scripts, and the pictures if there is gnuplot. Returns False if there is none."""
    for name, text in texts.items():
        (folder / f"{name}.gp").write_text(text)
    program = shutil.which("gnuplot")
    if program is None:
        return False
    for name, text in texts.items():
        height = 480 + 22 * max(0, text.count(' title "') - USUAL_LINES)
        for suffix, terminal in TERMINALS.items():
            told = f'set terminal {terminal.format(height=height, twice=2 * height)}\nset output "{name}.{suffix}"\n{text}set output\n'
            done = subprocess.run(
                [program, "-"], cwd=str(folder), input=told, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                check=False,
            )  # fmt: skip
            if done.returncode != 0:
                raise StudyError(f"gnuplot could not draw {folder / name}.{suffix}: {' '.join(done.stderr.split())}")
    return True


def model_curves(models, lines, counts, points_at):
    """`curves` of scripts(): the model at `counts` nodes, as far as points_at(series, counts) gives points."""
    curves = {}
    for series, rows in lines.items():
        base = rows[0].point
        model = models.get(series)
        if model is None or model.traffic is None:
            continue
        base_rate = base.global_size / total(model.predict(base)) / base.ranks
        curves[series] = curve = []
        for point in points_at(series, counts):
            try:
                rate = point.global_size / total(model.predict(point))
            except NotEnough:  # several nodes, where only one was measured
                continue
            curve.append((point.nodes, rate, rate / point.ranks / base_rate))
    return curves
