#!/usr/bin/env python3
"""Takes each barrier out of our CUDA kernels, one at a time, and sees whether the tests without a GPU notice.

    python3 tests/gpu/mutants.py BUILD [--only TEXT] [--jobs N]

BUILD is a build folder with tests, made by ninja. Of each mutant the files that it changes are compiled anew and linked to
cuda_races_test, which has to fail. Prints a Markdown table; exit code 1: a mutant survives.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2] / "src"
TEST = "cuda_races_test"
BARRIER = re.compile(r"__syncthreads\(\);")
LIMIT_S = 1200


class Build:
    """How the test is compiled and linked, and which files each of its objects is made of."""

    def __init__(self, folder):
        self.folder = folder
        self.run("cmake", "--build", ".", "--target", TEST)
        self.compile, self.link = {}, None
        for line in self.run("ninja", "-t", "commands", TEST).splitlines():
            words = shlex.split(line)
            if "-c" in words and f"{TEST}.dir" in line:
                self.compile[words[words.index("-o") + 1]] = words
            elif f"-o tests/gpu/{TEST}" in line:
                self.link = words
        told = self.run("ninja", "-t", "deps", *self.compile)
        self.files = {block.split(":", 1)[0]: set(re.findall(r"\S*/src/(\S+)", block)) for block in told.split("\n\n") if block.strip()}

    def run(self, *command):
        return subprocess.run(command, cwd=self.folder, check=True, capture_output=True, text=True).stdout

    def test_of(self, changed, text, folder):
        """The test with `text` as the file `changed` of src."""
        overlay = folder / "src" / changed
        overlay.parent.mkdir(parents=True)
        overlay.write_text(text)
        replaced = {}
        for name, words in self.compile.items():
            if changed not in self.files[name]:
                continue
            replaced[name] = str(folder / f"{len(replaced)}.o")
            start = next(i for i, word in enumerate(words) if word.startswith("-I"))
            command = [*words[:start], "-I", str(folder / "src"), *words[start:]]
            command[command.index("-o") + 1] = replaced[name]
            if "-MF" in command:
                command[command.index("-MF") + 1] = str(folder / "made.d")
            self.run(*command)
        if not replaced:
            sys.exit(f"mutants.py: {TEST} is not made of {changed}")
        program = folder / TEST
        words = [replaced.get(word, word) for word in self.link]
        words = words[words.index("&&") + 1 : -2]  # ": && c++ ... && :"
        words[words.index("-o") + 1] = str(program)
        self.run(*words)
        return program


def barriers():
    """(file, line, text without this barrier) of each barrier."""
    for path in sorted([*SOURCE.rglob("*.cuh"), *SOURCE.rglob("cuda/*.h")]):
        text = path.read_text()
        for match in BARRIER.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            yield path.relative_to(SOURCE), line, text[: match.start()] + ";" + text[match.end() :]


def judge(build, mutant):
    path, line, text = mutant
    with tempfile.TemporaryDirectory() as folder:
        program = build.test_of(str(path), text, pathlib.Path(folder))
        began = time.monotonic()
        try:
            done = subprocess.run(
                [program, "--gtest_fail_fast"], cwd=folder, capture_output=True, text=True, timeout=LIMIT_S, check=False,
                env=os.environ | {"TSAN_OPTIONS": "halt_on_error=1"},
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return path, line, f"hangs for {LIMIT_S} s"
    if done.returncode == 0:
        return path, line, ""
    how = "a race" if "ThreadSanitizer: data race" in done.stderr else "another result" if "FAILED" in done.stdout else f"exit code {done.returncode}"
    return path, line, f"{how}, after {time.monotonic() - began:.0f} s"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--only", default="", help="mutants of files whose name has this")
    parser.add_argument("--jobs", type=int, default=1)
    args = parser.parse_args()
    build = Build(args.build)
    chosen = [mutant for mutant in barriers() if args.only in str(mutant[0])]
    if not chosen:
        sys.exit(f"mutants.py: no file with a barrier has {args.only!r} in its name")
    caught = 0
    print("| barrier taken out | what the test finds |\n|---|---|", flush=True)
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for path, line, found in pool.map(lambda mutant: judge(build, mutant), chosen):
            print(f"| `{path}:{line}` | {found or '**nothing**'} |", flush=True)
            caught += bool(found)
    print(f"\n{caught} of {len(chosen)} are caught.")
    return 0 if caught == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
