"""What a GPU does in a training step, from the file that kernel_times.cpp wrote: kernels, their time, and time without any.

    kernel_times.py FILE [--marker NAME] [--rows N] [--launched]

A step ends with the last kernel in a row whose name has NAME in it ("flat_update"); --launched takes those that no graph
launched. Prints the median step, and the kernels that take most of one.
"""

import argparse
import collections
import re
import statistics
import subprocess


def steps_of(path, marker, graph):
    """Lists of (start, end, stream, name), a list for each step but the first and last."""
    records = []
    with open(path) as file:
        for line in file:
            start, end, stream, launched, name = line.rstrip("\n").split("\t", 4)
            if launched == ("1" if graph else "0"):
                records.append((int(start), int(end), int(stream), name))
    records.sort()
    steps, step, ending = [], [], False
    for record in records:
        if ending and marker not in record[3]:
            steps.append(step)
            step, ending = [], False
        step.append(record)
        ending = ending or marker in record[3]
    return steps[1:]


def busy(step):
    """ns in which at least one kernel runs."""
    total, until = 0, 0
    for start, end, *_ in step:
        total += max(0, end - max(start, until))
        until = max(until, end)
    return total


def demangled(names):
    try:
        told = subprocess.run(["c++filt", "-p"], input="\n".join(names), capture_output=True, text=True, check=True).stdout.split("\n")
    except (FileNotFoundError, subprocess.CalledProcessError):
        told = names
    return dict(zip(names, told, strict=False))


def short(name):
    name = re.sub(r"\(anonymous namespace\)::|void |at::native::|c10::|ddpm::", "", name)
    return name if len(name) <= 110 else name[:107] + "..."


def table_of(path, marker="flat_update", rows=40, graph=True):
    """What a median step does, and the kernels that take most of one."""
    steps = steps_of(path, marker, graph)
    if not steps:
        return f"no step that {marker} ends"
    usual = statistics.mode(len(step) for step in steps)
    walls = [later[0][0] - step[0][0] for step, later in zip(steps, steps[1:], strict=False) if len(step) == usual]
    steps = [step for step in steps if len(step) == usual]
    wall = statistics.median(walls) if walls else steps[0][-1][1] - steps[0][0][0]
    lines = [f"{len(steps)} steps of {usual} kernels, copies and fills: {wall / 1e6:.3f} ms, of which busy {statistics.median(map(busy, steps)) / 1e6:.3f} ms",
             "", "| ms per step | launches | µs each | kernel |", "|---|---|---|---|"]  # fmt: skip
    spent, counts = collections.Counter(), collections.Counter()
    for step in steps:
        for start, end, _, name in step:
            spent[name] += end - start
            counts[name] += 1
    names = demangled([name for name, _ in spent.most_common(rows)])
    for name, time in spent.most_common(rows):
        lines.append(f"| {time / len(steps) / 1e6:.3f} | {counts[name] / len(steps):g} | {time / counts[name] / 1e3:.1f} | {short(names[name])} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description="What a GPU does in a training step.")
    parser.add_argument("file")
    parser.add_argument("--marker", default="flat_update")
    parser.add_argument("--rows", type=int, default=40)
    parser.add_argument("--launched", action="store_true")
    args = parser.parse_args()
    print(table_of(args.file, args.marker, args.rows, not args.launched))


if __name__ == "__main__":
    main()
