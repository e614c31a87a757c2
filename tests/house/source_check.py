#!/usr/bin/env python3
"""Checks that sources which are compiled with others (DDPM_UNITY) compile alone too, as a build without DDPM_UNITY does it.

    source_check.py BUILD ROOT [--since REV [--at-most N]] [--jobs N]

BUILD holds compile_commands.json. With --since, the sources that differ from REV, and for a header that differs its own
source; --at-most N: the first N of them. A source takes some seconds, all of them an hour on two cores.
Any Python from 3.9 on; no packages.
"""

import argparse
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from build_commands import commands_by_source
from header_check import changed_since, flags_of


def said_of(source, entry):
    """What the compiler says of a source alone; None when it is content."""
    command = [*flags_of(entry), "-fsyntax-only", str(source)]
    done = subprocess.run(command, cwd=entry["directory"], capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else f"{source} does not compile alone:\n{done.stderr[:2000]}"


def main():
    parser = argparse.ArgumentParser(description="Compiles sources alone that the build compiles together.")
    parser.add_argument("build", type=Path)
    parser.add_argument("root", type=Path)
    parser.add_argument("--since", metavar="REV")
    parser.add_argument("--at-most", type=int, metavar="N")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    root = arguments.root.resolve()
    together = {source: entry for source, entry in commands_by_source(arguments.build, root).items() if entry["together"]}
    changed = changed_since(arguments.since, root)
    chosen = sorted(s for s in together if changed is None or s in changed or s.with_suffix(".h") in changed)
    taken = chosen[: arguments.at_most]
    with ThreadPoolExecutor(arguments.jobs) as pool:
        failures = [said for said in pool.map(lambda source: said_of(source, together[source]), taken) if said]
    for said in failures:
        print(said, file=sys.stderr)
    print(f"{len(taken)} of {len(together)} sources compiled alone; {len(chosen) - len(taken)} that differ left out")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
