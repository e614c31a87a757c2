"""The processes of one soak, found by a variable that all of them inherit, wherever their namespaces are."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time
from dataclasses import dataclass

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from launcher import rank_of  # noqa: E402

MARK = "DDPM_SOAK"
KILL_PATIENCE_S = 30  # for what SIGKILL ends at once, unless it waits for a disk or a network


@dataclass(frozen=True, order=True)
class Process:
    pid: int
    program: str  # the name of what it runs
    state: str  # a letter, as ps has it
    rank: int | None
    host: str  # of its UTS namespace: a node of a cluster that is made of namespaces


def marked(mark):
    """All living processes of the soak with this mark."""
    wanted = os.fsencode(f"{MARK}={mark}")
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):  # it has ended meanwhile, or is another user's
            variables = (folder / "environ").read_bytes().split(b"\0")
            if wanted not in variables:
                continue
            state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
            if state in "ZX":
                continue
            values = dict(os.fsdecode(line).split("=", 1) for line in variables if b"=" in line)
            program = os.path.basename(os.readlink(folder / "exe"))
            found.append(Process(int(folder.name), program, state, rank_of(values), uts(folder.name)))
    return sorted(found)


def ranks(mark, program):
    """Process numbers of the ranks that run a program, by rank."""
    name = os.path.basename(os.path.realpath(program))
    return {process.rank: process for process in reversed(marked(mark)) if process.program == name and process.rank is not None}


def sruns(mark):
    """srun has a child of its own: it is the first one that counts."""
    return [process for process in marked(mark) if process.program == "srun"]


def uts(pid):
    """The namespace of a process's host name."""
    return os.readlink(f"/proc/{pid}/ns/uts")


def host_of(pid):
    """The name of the host that a process is on, which has a namespace of its own; None where it has ended."""
    asked = subprocess.run(["nsenter", "--target", str(pid), "--uts", "hostname"], capture_output=True, text=True, check=False)
    return asked.stdout.strip() or None


def send(pid, number):
    """Whether the process was there."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def end_all(mark, patience_s):
    """Waits for the marked processes to end, and then kills them by their numbers. Returns those that it had to kill. AssertionError names
    those that are left nevertheless."""
    deadline = time.monotonic() + patience_s
    while (left := marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.05)
    killed = left
    deadline = time.monotonic() + KILL_PATIENCE_S
    while left:
        if time.monotonic() > deadline:
            names = ", ".join(f"{process.program} ({process.pid}, in state {process.state})" for process in left)
            raise AssertionError(f"these are left {KILL_PATIENCE_S} s after SIGKILL: {names}")
        for process in left:
            send(process.pid, signal.SIGKILL)
        time.sleep(0.1)
        left = marked(mark)
    return killed
