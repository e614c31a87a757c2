#!/usr/bin/env python3
"""Holds the instructions that pieces of ddpm's own code take against those recorded in instructions.json.

    python3 tests/benchmarks/instructions.py PROGRAM            compares; exit code 1 when a piece takes 3 % more, or 10 % less
    python3 tests/benchmarks/instructions.py PROGRAM --record   records what PROGRAM takes now

PROGRAM is bench_instructions, built with the compiler that instructions.json names. Counts are callgrind's, with AVX2
and one thread: they vary by far less than 1 %, on an idle machine and a busy one. A piece that has become 10 % cheaper
is recorded anew, so that what was gained is not lost unseen.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

RECORD = pathlib.Path(__file__).with_name("instructions.json")
MORE, LESS = 1.03, 0.90


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--record", action="store_true")
    args = parser.parse_args()
    counts = measure(args.program.resolve())
    record = json.loads(RECORD.read_text())
    if args.record:
        RECORD.write_text(json.dumps(record | {"instructions": counts}, indent=2) + "\n")
        return 0
    return compare(record["instructions"], counts)


def measure(program):
    """Instructions of each piece, by name."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"ATEN_CPU_CAPABILITY": "avx2", "OMP_NUM_THREADS": "1"}
        command = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={folder}/out", str(program)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr[-2000:]}")
        counts = {}
        for path in sorted(pathlib.Path(folder).iterdir(), key=lambda p: [int(n) for n in re.findall(r"\d+", p.name)]):
            text = path.read_text()
            name = re.search(r"^desc: Trigger: Client Request: (.+)$", text, re.MULTILINE)
            if name:
                counts[name.group(1)] = int(re.search(r"^(?:totals|summary): (\d+)", text, re.MULTILINE).group(1))
        return counts


def compare(recorded, counts):
    wrong = []
    for name in recorded.keys() | counts.keys():
        if name not in counts or name not in recorded:
            wrong.append(f"{name}: {'not measured' if name in recorded else 'not recorded'}")
    print(f"{'':28}{'recorded':>14}{'now':>14}{'ratio':>9}")
    for name, now in counts.items():
        before = recorded.get(name, now)
        print(f"{name:28}{before:14,}{now:14,}{now / before:9.3f}")
        if now > MORE * before:
            wrong.append(f"{name}: {now:,} instructions; {before:,} are recorded: a regression, or worth a new record?")
        elif now < LESS * before:
            wrong.append(f"{name}: {now:,} instructions; {before:,} are recorded: better, so record it (--record)")
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
