#!/usr/bin/env python3
"""SIGKILL at every system call by which a save changes files, on every rank: what was acknowledged survives.

    python3 tests/checkpoint/syscall_kills.py --build build/release --all

A small program saves checkpoints of known values (save_program.cpp). First it is only traced, to learn which calls the
last save makes; then, for each of them, it is started again and killed by strace as it enters that call. A fresh process
then loads every checkpoint that is left and compares each element, and saves another one.

Kinds of save: the first one, one that replaces a checkpoint of the same step, one after which retention removes an old
one. Without --all, a short form: the first save on one rank whole, of everything else a few calls, spread evenly.

Wants strace and the right to trace; Python's standard library only.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from launcher import MPIRUN  # noqa: E402

# Calls that can change a file; opening counts where it creates.
CALLS = (
    "open openat creat write pwrite64 writev pwritev fsync fdatasync sync_file_range rename renameat renameat2 mkdir mkdirat "
    "unlink unlinkat rmdir truncate ftruncate link linkat symlink symlinkat fallocate chmod fchmod fchmodat utimensat "
    "copy_file_range sendfile"
).split()
# What is saved before, what is saved while it is killed, as STEP:VALUES.
KINDS = {
    "first": ([], "10:10"),
    "overwrite": (["10:10", "20:20"], "20:21"),
    "retention": (["10:10", "20:20"], "30:30"),
}
TIMEOUT_S = 60
ENVIRONMENT = {
    **os.environ,
    "OMP_NUM_THREADS": "1",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_MCA_odls_base_sigkill_timeout": "0",  # mpirun waits no second before it ends the ranks that are left
}
CALL = re.compile(r"^(?P<pid>\d+) +(?P<name>\w+)\((?P<arguments>.*)$")
RESULT = re.compile(r"\)?\s+(?:= |<unfinished)")
RANDOM_PART = re.compile(r"[0-9a-f]{16}")


class Harness:
    def __init__(self, build, work):
        self.program = pathlib.Path(build).resolve() / "tests" / "checkpoint" / "checkpoint_save_program"
        self.work = work
        self.run = work / "run"
        self.trace = work / "trace"
        self.go = work / "run.go"

    def save(self, kind, ranks, traced, inject=()):
        """One life of the program, whose rank `traced` is traced in its last save. Returns the lines that it printed."""
        shutil.rmtree(self.run, ignore_errors=True)
        self.run.mkdir()
        self.go.unlink(missing_ok=True)
        self.trace.unlink(missing_ok=True)
        before, during = KINDS[kind]
        command = [*MPIRUN, "-np", str(ranks), str(self.program)]
        command += ["save", str(self.run), str(traced), *before, during]
        lines, tracer = [], None
        job = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, text=True, env=ENVIRONMENT
        )
        try:
            for line in job.stdout:
                lines.append(line.strip())
                if line.startswith("READY "):
                    tracer = self.attach(line.split()[1], inject)
            job.wait(TIMEOUT_S)
        finally:
            if job.poll() is None:
                job.kill()
            job.wait()
            job.stdout.close()
            if tracer:
                tracer.wait(TIMEOUT_S)
        if tracer is None:
            raise SystemExit(f"the program did not get as far as its last save: {lines}")
        return lines

    def attach(self, pid, inject):
        options = ["-f", "-y", "-s", "8", "-o", str(self.trace), "-e", "trace=" + ",".join("?" + c for c in CALLS)]
        tracer = subprocess.Popen(
            ["strace", "-p", pid, *options, *inject], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True
        )
        end = time.monotonic() + TIMEOUT_S
        while not (self.trace.exists() and "truncate(" in self.trace.read_text(errors="replace")):
            if tracer.poll() is not None or time.monotonic() > end:
                raise SystemExit("strace could not trace the program")
            time.sleep(0.005)
        self.go.touch()
        return tracer

    def traced_calls(self):
        """(name, ordinal of that name, what it does) of the main thread's calls, in order."""
        counts, calls, main = {}, [], None
        for line in self.trace.read_text(errors="replace").splitlines():
            match = CALL.match(line)
            if not match:
                continue
            main = main or match["pid"]
            if match["pid"] != main:
                continue
            name = match["name"]
            counts[name] = counts.get(name, 0) + 1
            what = RANDOM_PART.sub("ID", RESULT.split(match["arguments"])[0])
            calls.append((name, counts[name], what.replace(str(self.run), "RUN")))
        return calls

    def mutating_calls(self, kind, ranks, rank):
        """The calls of a whole save of that rank that change files of the run."""
        lines = self.save(kind, ranks, rank)
        if f"ACKNOWLEDGED {KINDS[kind][1]}" not in lines:
            raise SystemExit(f"{kind}, {ranks} ranks: the save failed without a kill: {lines}")
        opens = ("open", "openat")
        return [
            call
            for call in self.traced_calls()
            if "RUN" in call[2] and (call[0] not in opens or "O_CREAT" in call[2] or "O_TRUNC" in call[2])
        ]

    def kill_at(self, kind, ranks, rank, call):
        """The lines that were printed before the kill. Fails unless the kill struck at that very call."""
        name, ordinal, what = call
        lines = self.save(kind, ranks, rank, ["-e", f"inject={name}:signal=SIGKILL:when={ordinal}"])
        struck = self.traced_calls()
        if not struck or struck[-1][:2] != (name, ordinal) or comparable(struck[-1][2]) != comparable(what):
            raise Failure(f"the kill struck elsewhere: {struck[-1:]}")
        return lines

    def verify(self, kind, lines):
        """Throws unless what is left is whole and holds what was acknowledged."""
        done = subprocess.run(
            [*MPIRUN, "-np", "1", str(self.program), "verify", str(self.run)],
            capture_output=True, text=True, timeout=TIMEOUT_S, env=ENVIRONMENT, stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        found = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("FOUND ")]
        if done.returncode != 0:
            raise Failure(f"left: {found}; {done.stdout[-2000:]}{done.stderr[-2000:]}")
        before, during = KINDS[kind]
        acknowledged = [line.split()[1] for line in lines if line.startswith("ACKNOWLEDGED ")]
        new = dict(saved.split(":") for saved in [*before, during])
        old = dict(saved.split(":") for saved in before)
        kept = sorted(new, key=int)[-2:]
        with_new = [f"{step}:{new[step]}" for step in reversed(kept)]
        without = [f"{step}:{old[step]}" for step in sorted(old, key=int, reverse=True)]
        unpruned = [f"{step}:{new[step]}" for step in sorted(new, key=int, reverse=True)]
        allowed = [with_new, unpruned] if during in acknowledged else [with_new, unpruned, without]
        if found not in allowed:
            raise Failure(f"left: {found}, allowed: {allowed}")


class Failure(Exception):
    pass


def comparable(what):
    """A call's text without the numbers of descriptors."""
    return re.sub(r"\b\d+<", "<", what)


def sampled(calls, count):
    if count is None or len(calls) <= count:
        return calls
    return [calls[(i * (len(calls) - 1)) // (count - 1)] for i in range(count)]


def kill_all(harness, everything):
    """Number of kills, of survivals, and what went wrong."""
    kills, failures = 0, []
    for ranks in (1, 2):
        for kind in KINDS:
            for rank in range(ranks):
                whole = everything or (kind == "first" and ranks == 1)
                calls = harness.mutating_calls(kind, ranks, rank)
                if not calls:
                    raise SystemExit(f"{kind}, rank {rank} of {ranks}: no call changes a file; the trace was empty")
                chosen = sampled(calls, None if whole else 4 if rank == 0 else 2)
                began, survived = time.monotonic(), 0
                for call in chosen:
                    kills += 1
                    try:
                        harness.verify(kind, harness.kill_at(kind, ranks, rank, call))
                        survived += 1
                    except (Failure, subprocess.TimeoutExpired) as failure:
                        failures.append(f"{kind}, rank {rank} of {ranks}, {call[0]} {call[1]} {call[2]}: {failure}")
                print(
                    f"{kind:9} rank {rank} of {ranks}: {survived} of {len(chosen)} survive"
                    f" ({len(calls)} calls in all), {time.monotonic() - began:.0f} s",
                    flush=True,
                )
    return kills, failures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True, help="the build folder, such as build/release")
    parser.add_argument("--all", action="store_true", help="every call, on one and two ranks")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ddpm-kills-") as work:
        kills, failures = kill_all(Harness(arguments.build, pathlib.Path(work)), arguments.all)
    for failure in failures:
        print(failure)
    print(f"{kills - len(failures)} of {kills} survive")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
