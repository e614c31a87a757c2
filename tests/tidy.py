#!/usr/bin/env python3
"""Runs clang-tidy 14 (.clang-tidy) on sources and on the headers that they include. Needs the build folder's commands.

    tests/tidy.py [--build DIR] [--since REV [--at-most N] | FILE ...]

Without files: all of src, tests and examples, which takes an hour or more on two cores. --since REV: the sources that differ
from REV, and for a header that differs its own source; what is not committed yet counts too. --at-most N: the first N of
them, and a line that says how many are left out.
Exit code 0: nothing found; 1: findings, which are printed; 2: it cannot run.
"""

import argparse
import concurrent.futures
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "house"))
from build_commands import commands_by_source  # noqa: E402

FOLDERS = ("src", "tests", "examples")
PCH = re.compile(r"-include (\S+/cmake_pch\.hxx)")
# GCC's own options, and the options of its precompiled headers, which clang cannot read.
UNKNOWN = {"-fcx-limited-range", "-fpch-preprocess", "-Winvalid-pch", "-Werror", "-fno-trapping-math"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release", metavar="DIR")
    parser.add_argument("--since", metavar="REV")
    parser.add_argument("--at-most", type=int, metavar="N")
    parser.add_argument("files", type=Path, nargs="*", metavar="FILE")
    args = parser.parse_args()
    program = shutil.which("clang-tidy-14")
    commands = args.build / "compile_commands.json"
    if program is None or not commands.exists():
        missing = "clang-tidy-14 (modules/setup.sh --tests installs it)" if program is None else f"{commands} (configure first)"
        print(f"tests/tidy.py: there is no {missing}", file=sys.stderr)
        sys.exit(2)
    with tempfile.TemporaryDirectory() as folder:
        known = database(commands_by_source(args.build, ROOT), Path(folder))
        chosen = sources(args, known)
        taken = chosen[: args.at_most]
        left_out = f"; {len(chosen) - len(taken)} that differ are left out" if len(taken) < len(chosen) else ""
        print(f"clang-tidy: {len(taken)} of {len(known)} sources{left_out}", flush=True)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            found = sum(pool.map(lambda file: check(program, folder, file), taken))
    sys.exit(1 if found else 0)


def database(by_source, folder):
    """Writes a compilation database that clang can use; returns the files of this project in it."""
    clean, files = [], []
    for file, entry in by_source.items():
        if file.relative_to(ROOT).parts[0] not in FOLDERS:
            continue
        words = shlex.split(PCH.sub(lambda match: f"-include {text_of(match.group(1), folder)}", entry["command"]))
        compiler = next(i for i, word in enumerate(words) if Path(word).name in ("c++", "g++"))
        kept = [str(file) if word == entry["file"] else word for word in words[compiler:] if word not in UNKNOWN]
        clean.append({"directory": entry["directory"], "file": str(file), "command": shlex.join(kept)})
        files.append(file)
    (folder / "compile_commands.json").write_text(json.dumps(clean))
    return sorted(set(files))


def text_of(header, folder):
    """The text of a precompiled header, away from what GCC made of it."""
    copy = folder / (Path(header).parent.name + ".h")
    if not copy.exists():
        shutil.copy(header, copy)
    return copy


def sources(args, known):
    if args.files:
        wanted = {file.resolve() for file in args.files}
    elif args.since:
        done = subprocess.run(["git", "-C", ROOT, "diff", "--name-only", args.since], capture_output=True, text=True, check=True)
        wanted = {ROOT / name for name in done.stdout.split("\n")}
    else:
        return known
    return [file for file in known if file in wanted or file.with_suffix(".h") in wanted]


def check(program, folder, file):
    """The number of findings, which it prints."""
    done = subprocess.run([program, "--quiet", "-p", folder, str(file)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(done.stdout.strip() or done.stderr.strip(), flush=True)
    return int(done.returncode != 0)


if __name__ == "__main__":
    main()
