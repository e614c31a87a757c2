"""Trainings and other commands in the background, to be sent signals."""

import hashlib
import os
import pathlib
import shutil
import signal
import subprocess
import time

from ddpm_run import DDPM, MPIRUN, TIMEOUT_S, metrics, write_config
from launcher import rank_of

WORK = pathlib.Path.cwd()
STEPS = 60


def sha256_of_model(run):
    return hashlib.sha256((run / "model/unet/diffusion_pytorch_model.safetensors").read_bytes()).hexdigest()


def wait_until(condition, seconds, what):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.02)


def is_running(pid):
    """Whether the process is there and no zombie."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def processor_seconds(pid):
    """What the process has used of processors so far: on a busy machine a better clock of its work than time."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def is_program(pid):
    """Whether the process runs ddpm: not a tracer's own child, nor one that has ended in between."""
    try:
        return os.path.samefile(f"/proc/{pid}/exe", DDPM)
    except OSError:
        return False


def ranks_of(launcher):
    """Process ids of an mpirun's ranks, by rank. MPICH's mpiexec starts a proxy on each host, which starts the ranks."""
    found = {}
    for pid in children_of(launcher):
        try:
            if (pathlib.Path("/proc") / str(pid) / "comm").read_text().strip() == "hydra_pmi_proxy":
                found.update(ranks_of(pid))
                continue
            environment = (pathlib.Path("/proc") / str(pid) / "environ").read_text().split("\0")
            variables = dict(v.split("=", 1) for v in environment if "=" in v)
            if (rank := rank_of(variables)) is not None:
                found[rank] = pid
        except OSError:
            continue
    return found


def children_of(parent):
    found = []
    for folder in pathlib.Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and f"PPid:\t{parent}\n" in (folder / "status").read_text():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


class Started:
    """A program in the background, on some ranks. `last_rank`: a command before the program of the last of several ranks; `env`:
    more variables of the environment."""

    def __init__(self, command, ranks, last_rank=(), env=None):
        command = [DDPM, *map(str, command)]
        if ranks > 1:
            last = [":", "-np", "1", *map(str, last_rank), *command] if last_rank else []
            command = [*MPIRUN, "-np", str(ranks - 1 if last else ranks), *command, *last]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                        env={**os.environ, **(env or {})})  # fmt: skip
        self.ranks = ranks

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pid in [*self.pids().values(), self.process.pid]:
            if is_running(pid):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        self.process.stderr.close()

    def pids(self):
        """Process ids by rank."""
        if self.ranks == 1:
            return {0: self.process.pid}
        return ranks_of(self.process.pid)

    def end(self, seconds=TIMEOUT_S):
        """Exit code and what was said."""
        _, said = self.process.communicate(timeout=seconds)
        return self.process.returncode, said


class Job(Started):
    """A training in the background; the last arguments are those of Started and sections of its configuration."""

    def __init__(self, name, dataset, ranks, overrides=(), fresh=True, last_rank=(), env=None, **sections):
        self.run = WORK / name
        if fresh:
            shutil.rmtree(self.run, ignore_errors=True)
        sections.setdefault("train", {"steps": STEPS})
        sections.setdefault("batch", {"global_size": 12, "micro_size": 2})
        config = write_config(WORK / f"{name}.toml", self.run, dataset, **sections)
        super().__init__(["train", config, *overrides], ranks, last_rank, env)

    def wait_for_step(self, step):
        def reached():
            if self.process.poll() is not None:
                raise AssertionError(f"ended with {self.process.returncode}: {self.process.stderr.read()}")
            return (self.run / "metrics.jsonl").exists() and len(metrics(self.run)) >= step

        wait_until(reached, TIMEOUT_S, f"step {step}")
