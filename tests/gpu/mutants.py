#!/usr/bin/env python3
"""Takes what orders the GPU's work out of our sources, one piece at a time, and sees whether the tests without a GPU notice.

    python3 tests/gpu/mutants.py BUILD [--of barriers|streams|nccl] [--only TEXT] [--jobs N]

barriers: each barrier of the CUDA kernels, by cuda_races_test. streams: each event that is recorded or waited for, each
record_stream, each wait of the host and for a collective, by engine_async_device_test on 1 and on 2 ranks. nccl: the
same of our use of NCCL, by engine_nccl_stubs_test. BUILD is a build folder with tests, made by ninja. Of each mutant the
files that it changes are compiled anew and linked to the test, which has to fail. Prints a Markdown table; exit code 1:
a mutant survives.
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
TESTS = {"barriers": "cuda_races_test", "streams": "engine_async_device_test", "nccl": "engine_nccl_stubs_test"}
LIMIT_S = 1200
ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

BARRIER = re.compile(r"__syncthreads\(\);")
STREAM_FILES = ("denoise/batch_stager.cpp", "device/copy_stream.cpp", "engine/device_update.cpp", "engine/optimizer_step.cpp",
                "engine/outer_step.cpp", "engine/training_state.cpp",
                "parallel/gradient_reducer.cpp", "parallel/offload.cpp", "parallel/transfer_queue.cpp", "parallel/tree_reducer.cpp",
                "parallel/weight_gatherer.cpp", "run/saver.cpp", "run/snapshot.cpp", "train/denoising_step.cpp")  # fmt: skip
NCCL_FILES = ("comm/nccl_communicator.cpp", "comm/nccl_stream.cpp")
# What orders work, and what stands in its place.
ORDERING = (
    (re.compile(r"\b(?:stream_|copies_?|down_|up_)\.(?:after_caller|before_caller|after|keep|enter)\([^;]*\);"), ";"),
    (re.compile(r"\bqueue_\.(?:drain|wait_for)\([^;]*\);"), ";"),
    (re.compile(r"\bslot\.\w+ = \w+\.(?:mark|mark_caller)\(\);"), ";"),
    (re.compile(r"\bslots_\.at\(\w+\)\.used = [^;]*;"), ";"),
    (re.compile(r"\bevent\.(?:record|block)\(\w+\);"), ";"),
    (re.compile(r"\bmark\.event_\.emplace\([^;]*;"), ";"),
    (re.compile(r"\b(?:mark\.)?event_->block\([^;]*\);"), ";"),
    (re.compile(r"\b(?:snapshot\.copied|model\.reader) = copies\.mark\(\);"), ";"),
    (re.compile(r"\b(?:state_|model_)\.before_change\(\);"), ";"),
    (re.compile(r"std::exchange\(reader, \{\}\)\.before_caller\(\);"), ";"),
    (re.compile(r"\bsnapshot_\.wait\(\);"), ";"),
    (re.compile(r"\btensor\.record_stream\([^;]*;"), ";"),
    (re.compile(r"\bslot\.(?:copied|fetched|sent)\.wait\(\);"), ";"),
    (re.compile(r"\bevent_->synchronize\(\);"), ";"),
    (re.compile(r"check_cuda\(cuda(?:EventRecord|StreamWaitEvent)\([^;]*\);"), ";"),
    (re.compile(r"(?<=[)k])(?<!mark\(\))\.wait\(\);"), ".forget();"),
)


class Build:
    """How a test is compiled and linked, and which files each object is made of."""

    def __init__(self, folder, test):
        self.folder, self.test = folder, test
        self.run("cmake", "--build", ".", "--target", test)
        self.compile, self.link = {}, None
        for line in self.run("ninja", "-t", "commands", test).splitlines():
            words = shlex.split(line)
            if "-c" in words:
                self.compile[words[words.index("-o") + 1]] = words
            elif re.search(rf"-o \S*/{test}\b", line):
                self.link = words
        told = self.run("ninja", "-t", "deps", *self.compile)
        self.files = {block.split(":", 1)[0]: set(re.findall(r"\S*/src/(\S+)", block)) for block in told.split("\n\n") if block.strip()}

    def run(self, *command):
        return subprocess.run(command, cwd=self.folder, check=True, capture_output=True, text=True).stdout

    def compiled(self, name, folder, source=None):
        """An object as `name` is compiled, but with the headers of folder/src, or of another source alone."""
        words = self.compile[name]
        start = next(i for i, word in enumerate(words) if word.startswith("-I"))
        command = [*words[:start], "-I", str(folder / "src"), *words[start:], "-w"]  # a mutant may leave a name unused
        made = str(folder / f"{len(list(folder.glob('*.o')))}.o")
        command[command.index("-o") + 1] = made
        if source:
            command[command.index("-c") + 1] = str(source)
        if "-MF" in command:
            command[command.index("-MF") + 1] = str(folder / "made.d")
        self.run(*command)
        return made

    def test_of(self, changed, text, folder):
        """The test with `text` as the file `changed` of src."""
        overlay = folder / "src" / changed
        overlay.parent.mkdir(parents=True)
        overlay.write_text(text)
        makers = [name for name in self.compile if changed in self.files.get(name, ())]
        if not makers:
            sys.exit(f"mutants.py: {self.test} is not made of {changed}")
        if overlay.suffix == ".cpp":  # its object comes before the one that has it, too
            more, replaced = [self.compiled(makers[0], folder, overlay), "-Wl,--allow-multiple-definition"], {}
        else:
            more, replaced = [], {name: self.compiled(name, folder) for name in makers if f"{self.test}.dir" in name}
        program = folder / self.test
        words = [replaced.get(word, word) for word in self.link]
        words = words[words.index("&&") + 1 : -2]  # ": && c++ ... && :"
        words[words.index("-o") + 1] = str(program)
        first = next(i for i, word in enumerate(words) if word.endswith(".o"))
        self.run(*words[:first], *more, *words[first:])
        return program


def barriers():
    """(file, line, what is taken out, text without it) of each barrier."""
    for path in sorted([*SOURCE.rglob("*.cuh"), *SOURCE.rglob("cuda/*.h")]):
        yield from mutants_of(path, BARRIER, ";")


def orderings(paths):
    """The same of what orders streams and the host in these files."""
    for path in paths:
        yield from sorted(mutant for pattern, instead in ORDERING for mutant in mutants_of(SOURCE / path, pattern, instead))


def mutants_of(path, pattern, instead):
    text = path.read_text()
    for match in pattern.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        yield path.relative_to(SOURCE), line, match.group(), text[: match.start()] + instead + text[match.end() :]


def verdict(program, folder, ranks):
    """What a run of the test finds; nothing when it passes."""
    launcher = ["mpirun", "--oversubscribe", "-np", str(ranks)] if ranks else []
    try:
        done = subprocess.run(
            [*launcher, program, "--gtest_fail_fast"], cwd=folder, capture_output=True, text=True, timeout=LIMIT_S, check=False,
            env=os.environ | ROOT | {"TSAN_OPTIONS": "halt_on_error=1"},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"hangs for {LIMIT_S} s"
    if done.returncode == 0:
        return ""
    said = done.stdout + done.stderr
    for words, meaning in (("ThreadSanitizer: data race", "a race"), ("nothing orders them", "work that nothing orders"),
                           ("is given out again", "memory given out again too early"),
                           ("host memory has changed", "host memory changed during a copy"),
                           ("before the host has waited", "a copy from memory that has not arrived"),
                           ("recording", "a fault of a recording"), ("Failure", "another result")):  # fmt: skip
        if words in said:
            return meaning
    return f"exit code {done.returncode}"


def judge(build, mutant):
    path, _, _, text = mutant
    with tempfile.TemporaryDirectory() as folder:
        program = build.test_of(str(path), text, pathlib.Path(folder))
        began = time.monotonic()
        for ranks in (0,) if build.test == TESTS["barriers"] else (1, 2):
            found = verdict(program, folder, ranks)
            if found:
                where = f" on {ranks} rank{'s' if ranks > 1 else ''}" if ranks else ""
                return f"{found}{where}, after {time.monotonic() - began:.0f} s"
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--of", choices=tuple(TESTS), default="barriers")
    parser.add_argument("--only", default="", help="mutants whose file:line has this")
    parser.add_argument("--jobs", type=int, default=1)
    args = parser.parse_args()
    build = Build(args.build, TESTS[args.of])
    paths = {"streams": STREAM_FILES, "nccl": NCCL_FILES}
    every = barriers() if args.of == "barriers" else orderings(paths[args.of])
    chosen = [mutant for mutant in every if args.only in f"{mutant[0]}:{mutant[1]}"]
    if not chosen:
        sys.exit(f"mutants.py: no mutant has {args.only!r} in its file:line")
    caught = 0
    print("| taken out | | what the test finds |\n|---|---|---|", flush=True)
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for (path, line, what, _), found in zip(chosen, pool.map(lambda mutant: judge(build, mutant), chosen)):
            print(f"| `{path}:{line}` | `{' '.join(what.split())}` | {found or '**nothing**'} |", flush=True)
            caught += bool(found)
    print(f"\n{caught} of {len(chosen)} are caught.")
    return 0 if caught == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
