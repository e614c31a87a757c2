#!/usr/bin/env python3
"""Feeds collections of odd TOML and JSON texts that others keep to the real program. By hand, because the texts are not ours:

  git clone https://github.com/toml-lang/toml-test        (MIT licence)
  git clone https://github.com/nst/JSONTestSuite          (MIT licence)
  tests/fuzz/foreign_texts.py --ddpm build/release/ddpm --toml toml-test --json JSONTestSuite

TOML goes to `ddpm config validate`; JSON goes to `ddpm data inspect` as a dataset.json, to `ddpm config validate` as a
model's config.json, and to `ddpm checkpoint verify` as a MANIFEST.json. What is asked of each text:

  - no signal, and the documented exit code of what is wrong: 2, 3, 4 (never 1, a bug);
  - one line on stderr, that names the file;
  - valid texts are not refused for their syntax (they are for their keys: none is a configuration of ours);
  - invalid texts are refused for their syntax.

A manifest's checksum is looked at before its syntax, so that of a manifest only the first two are asked. Texts of TOML 1.1
are held to the first two as well: the program reads TOML 1.0. It prints a count for each kind, then every text that failed,
and exits with 1 if there is one.
"""

import argparse
import collections
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile

TOML_SYNTAX = ("Error while parsing", "utf-8", "a key of more than")
JSON_SYNTAX = ("syntax error", "out of range", "utf-8", "UTF-8")
INCOMPLETE = "run.directory is not set"  # what a text of comments only is told
# Syntax that the program limits, and says so: it is not called wrong.
LIMITS = ("nested more than", "duplicate key", "bytes of JSON")


def run(ddpm, folder, *arguments):
    """Exit code and stderr. With one thread and a temporary folder of its own for Open MPI, whose programs remove that of others
    that start at the same time."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(folder)}
    process = subprocess.run([ddpm, *map(str, arguments)], capture_output=True, timeout=120, check=False, env=environment)
    return process.returncode, process.stderr.decode(errors="replace")


def complaints(code, said, name, codes, syntax, words):
    """What is wrong with the answer to one text. `syntax`: whether it must be called wrong; None: either will do."""
    if code not in codes:
        yield f"exit code {code}, wanted {' or '.join(map(str, codes))}"
    lines = said.splitlines()
    if len(lines) != 1 or not lines[0].startswith("ddpm: error: "):
        yield f"{len(lines)} lines: {said[:300]!r}"
    elif name not in lines[0] and INCOMPLETE not in lines[0]:
        yield f"the file is not named: {lines[0][:300]}"
    called_wrong = any(word in said for word in words) and not any(word in said for word in LIMITS)
    limited = any(word in said for word in LIMITS)
    if syntax is False and called_wrong:
        yield f"valid, but refused for its syntax: {said[:300]}"
    if syntax is True and not called_wrong and not limited:
        yield f"invalid, but not refused for its syntax: {said[:300]}"


def toml_texts(root):
    """(path, whether it must be refused for its syntax)"""
    tests = root / "tests"
    version_1_0 = set((tests / "files-toml-1.0.0").read_text().split())
    for path in sorted(tests.rglob("*.toml")):
        name = path.relative_to(tests).as_posix()
        yield path, name.startswith("invalid/") if name in version_1_0 else None


def json_texts(root):
    for path in sorted([*(root / "test_parsing").glob("*.json"), *(root / "test_transform").glob("*.json")]):
        yield path, {"y": False, "n": True}.get(path.name[0] if path.name[1] == "_" else "i")


def try_toml(ddpm, path, syntax, folder):
    code, said = run(ddpm, folder, "config", "validate", path)
    return list(complaints(code, said, path.name, (2,), syntax, TOML_SYNTAX))


def try_dataset(ddpm, path, syntax, folder):
    (folder / "dataset.json").write_bytes(path.read_bytes())
    code, said = run(ddpm, folder, "data", "inspect", folder)
    return list(complaints(code, said, "dataset.json", (3,), syntax, JSON_SYNTAX))


def try_model(ddpm, path, syntax, folder):
    (folder / "config.json").write_bytes(path.read_bytes())
    (folder / "run.toml").write_text("[run]\ndirectory = \"x\"\n[data]\ntrain = \"x\"\n[train]\nsteps = 1\n")
    code, said = run(ddpm, folder, "config", "validate", folder / "run.toml", "--model.config", folder)
    if code == 0 and not syntax:  # {}: the defaults
        return []
    return list(complaints(code, said, "config.json", (2,), syntax, JSON_SYNTAX))


def try_manifest(ddpm, path, _, folder):
    step = folder / "checkpoints" / "step-00000001"
    step.mkdir(parents=True)
    (step / "MANIFEST.json").write_bytes(path.read_bytes())
    code, said = run(ddpm, folder, "checkpoint", "verify", step)
    return list(complaints(code, said, "step-00000001", (4,), None, ()))


def attempt(job):
    ddpm, what, path, syntax = job
    with tempfile.TemporaryDirectory() as folder:
        return what, path, what(ddpm, path, syntax, pathlib.Path(folder))


def main():
    parser = argparse.ArgumentParser(description="See the head of this file.")
    parser.add_argument("--ddpm", required=True, type=lambda text: str(pathlib.Path(text).resolve()), help="the program")
    parser.add_argument("--toml", type=pathlib.Path, help="a clone of toml-lang/toml-test")
    parser.add_argument("--json", type=pathlib.Path, help="a clone of nst/JSONTestSuite")
    arguments = parser.parse_args()
    jobs = []
    if arguments.toml:
        jobs += [(arguments.ddpm, try_toml, path, syntax) for path, syntax in toml_texts(arguments.toml)]
    if arguments.json:
        texts = list(json_texts(arguments.json))
        for what in (try_dataset, try_model, try_manifest):
            jobs += [(arguments.ddpm, what, path, syntax) for path, syntax in texts]
    if not jobs:
        parser.error("there are no texts: name a clone with --toml or --json")
    good, bad = collections.Counter(), []
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for what, path, wrong in pool.map(attempt, jobs):
            good[what] += not wrong
            bad += [(what, path, reason) for reason in wrong]
    for what in good:
        total = sum(job[1] is what for job in jobs)
        print(f"{what.__name__.removeprefix('try_')}: {good[what]} of {total} texts hold")
    for what, path, reason in bad:
        print(f"{what.__name__.removeprefix('try_')} {path.name}: {reason}")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
