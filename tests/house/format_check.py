#!/usr/bin/env python3
"""Checks that every C++ and CUDA file is formatted as .clang-format says; changes nothing.

    format_check.py CLANG_FORMAT ROOT
"""

import subprocess
import sys
from pathlib import Path


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: format_check.py CLANG_FORMAT ROOT")
    program, root = sys.argv[1], Path(sys.argv[2])
    suffixes = {".h", ".cpp", ".cu", ".cuh"}
    files = sorted(p for folder in ("src", "tests", "examples") for p in (root / folder).rglob("*") if p.suffix in suffixes)
    if not files:
        sys.exit(f"no C++ files under {root}")
    done = subprocess.run([program, "--dry-run", "--Werror", *map(str, files)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        wrong = sorted({line.split(":")[0] for line in done.stderr.splitlines() if "clang-format-violations" in line})
        sys.exit(f"not formatted (clang-format -i FILE puts it right):\n" + "\n".join(wrong or [done.stderr]))
    print(f"{len(files)} files are formatted")


if __name__ == "__main__":
    main()
