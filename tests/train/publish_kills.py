#!/usr/bin/env python3
"""SIGKILL at every system call by which a run with adapters publishes RUN/adapter, RUN/model and RUN/model-best: what lies
there is always whole, and the same command then completes the run.

    python3 tests/train/publish_kills.py --all          DDPM and DDPM_SOURCE_DIR say where program and sources are

Two kinds: a run whose steps are done and which has published nothing, and one that goes on for a step and then replaces
what it published before. Each is traced once, to learn the calls; then, for each of them, strace kills the same start as
it enters that call. Without --all, a few calls of each kind, spread evenly.

Wants strace and the right to trace; Python's standard library only.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

SOURCE = pathlib.Path(os.environ["DDPM_SOURCE_DIR"])
sys.path[:0] = [str(SOURCE / "tests" / folder) for folder in ("checkpoint", "support")]
import syscall_kills  # noqa: E402
from ddpm_run import DDPM, contents, ddpm, make_dataset, write_config  # noqa: E402
from syscall_kills import CALL, CALLS, RANDOM_PART, RESULT, Failure, comparable, sampled  # noqa: E402

WORK = pathlib.Path.cwd()
RUN = WORK / "run"
TRACE = WORK / "trace"
PUBLISHED = ("adapter", "model", "model-best")
STEPS = {"first": 3, "replace": 4}
TIMEOUT_S = 120


def command(kind):
    return [DDPM, "train", str(WORK / "run.toml"), "--train.steps", str(STEPS[kind])]


def published(run):
    return {name: contents(run / name) for name in PUBLISHED if (run / name).exists()}


def prepare():
    """WORK/first and WORK/replace: run folders as they are before the start that is killed. Returns, of each kind, what the
    whole start publishes."""
    images, held_out = make_dataset(WORK / "set", 24, 8), make_dataset(WORK / "held-out", 8, 8)
    shutil.rmtree(WORK / "base", ignore_errors=True)
    ddpm("train", write_config(WORK / "base.toml", WORK / "base", images, train={"steps": 1}))
    unset = dict.fromkeys(("block_out_channels", "down_block_types", "up_block_types", "layers_per_block",
                           "norm_num_groups", "attention_head_dim"))  # fmt: skip
    # Calls are counted thread by thread: where checkpoints are written by the main one, no other comes as far as it.
    write_config(
        WORK / "run.toml", RUN, images, data={"validation": str(held_out)}, validation={"every_steps": 1},
        run={"threads_per_rank": 1}, checkpoint={"every_steps": 1, "async": False}, logging={"tensorboard": False},
        model={**unset, "pretrained": str(WORK / "base" / "model"), "lora_rank": 2},
    )  # fmt: skip
    wanted = {}
    for kind in STEPS:
        shutil.rmtree(WORK / kind, ignore_errors=True)
        shutil.rmtree(RUN, ignore_errors=True)
        ddpm("train", WORK / "run.toml", "--train.steps", 3)
        if kind == "first":
            for name in PUBLISHED:
                shutil.rmtree(RUN / name)
        shutil.copytree(RUN, WORK / kind)
        ddpm(*command(kind)[1:])
        wanted[kind] = published(RUN)
        assert wanted[kind].keys() == set(PUBLISHED), wanted[kind].keys()
    return wanted


def start(kind, inject=()):
    """The start under strace; returns (name, ordinal of that name, what it does) of the main thread's calls, in order."""
    shutil.rmtree(RUN, ignore_errors=True)
    shutil.copytree(WORK / kind, RUN)
    TRACE.unlink(missing_ok=True)
    options = ["-f", "-y", "-s", "8", "-o", str(TRACE), "-e", "trace=" + ",".join("?" + call for call in CALLS)]
    subprocess.run(["strace", *options, *inject, *command(kind)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, timeout=TIMEOUT_S, env=syscall_kills.ENVIRONMENT, check=False)  # fmt: skip
    counts, calls, main = {}, [], None
    for line in TRACE.read_text(errors="replace").splitlines():
        match = CALL.match(line)
        if not match or match["pid"] != (main := main or match["pid"]):
            continue
        counts[match["name"]] = counts.get(match["name"], 0) + 1
        what = RANDOM_PART.sub("ID", RESULT.split(match["arguments"])[0]).replace(str(RUN), "RUN")
        calls.append((match["name"], counts[match["name"]], what))
    return calls


def publishing_calls(kind):
    """The calls on the run's folder from the first one on that publishes something, without those that only look."""
    names = re.compile(r"RUN/\.?(?:adapter|model)[-./\">]")
    calls = start(kind)
    begin = next(i for i, (name, _, what) in enumerate(calls) if name.startswith("mkdir") and names.search(what))
    looks = [i for i, (name, _, what) in enumerate(calls) if name in ("open", "openat") and "O_CREAT" not in what]
    return [call for i, call in enumerate(calls) if i >= begin and i not in looks and "RUN" in call[2]]


def kill_at(kind, call, wanted):
    name, ordinal, what = call
    struck = start(kind, ["-e", f"inject={name}:signal=SIGKILL:when={ordinal}"])
    if not struck or struck[-1][:2] != (name, ordinal) or comparable(struck[-1][2]) != comparable(what):
        raise Failure(f"the kill struck elsewhere: {struck[-1:]}")
    before = published(WORK / kind)
    for folder, files in published(RUN).items():
        if files not in (before.get(folder), wanted[folder]):
            raise Failure(f"RUN/{folder} is half written: {sorted(files)}")
    again = ddpm(*command(kind)[1:], check=False, env=syscall_kills.ENVIRONMENT)
    if again.returncode != 0:
        raise Failure(f"the same command ends with exit code {again.returncode}: {again.stderr[-1000:]}")
    differ = [folder for folder in PUBLISHED if published(RUN).get(folder) != wanted[folder]]
    # A run that was killed with its models out, but before it tidied up, is done: nothing is changed any more.
    untidy = set() if "nothing to do" in again.stderr else {"LOCK", "model.previous"}
    left = [path.name for path in RUN.iterdir() if path.name.startswith(".") or path.name in untidy]
    if differ or left:
        raise Failure(f"after the same command again these are others: {differ}; left behind: {left}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help="every call")
    arguments = parser.parse_args()
    kills, failures = 0, []
    for kind, wanted in prepare().items():
        began = time.monotonic()
        calls = publishing_calls(kind)
        chosen = sampled(calls, None if arguments.all else 5)
        for call in chosen:
            kills += 1
            try:
                kill_at(kind, call, wanted)
            except (Failure, subprocess.TimeoutExpired) as failure:
                failures.append(f"{kind}, {call[0]} {call[1]} {call[2]}: {failure}")
        print(f"{kind}: {len(chosen)} of {len(calls)} calls, {time.monotonic() - began:.0f} s", flush=True)
    for failure in failures:
        print(failure)
    print(f"{kills - len(failures)} of {kills} survive")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
