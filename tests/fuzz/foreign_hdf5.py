#!/usr/bin/env python3
"""Gives damaged HDF5 files of other people to `ddpm`, which has to refuse or read each of them.

    foreign_hdf5.py [--build build/release] [--names 24] FOLDER

FOLDER is any folder with such files, for example a clone of the collection that the HDF Group keeps of files for which
CVE numbers were given (BSD-style licence, see its COPYING; this project holds none of its files):

    git clone https://github.com/HDFGroup/cve_hdf5

Each file is given to `data inspect`, to `data verify` and to `train` for one step, to the latter once more for each
name that the file seems to hold, and a copy of it to `data adopt` and then to `data verify`. Wanted: no signal, exit code 0 or 3, one line of error with 3, 10 s and 1 GiB at most.
Prints counts and each violation, and exits 1 if there is any. Not part of ctest, since the files come from elsewhere.
"""

import argparse
import collections
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

MAX_SECONDS = 10  # of processor time; on a busy machine the clock says nothing
MAX_WAIT_SECONDS = 120
MAX_BYTES = 1 << 30
CONFIG = """
[run]
directory = "{run}"
device = "cpu"
[data]
train = "{file}"
images = "{images}"
[model]
in_channels = 1
out_channels = 1
block_out_channels = [8]
down_block_types = ["DownBlock2D"]
up_block_types = ["UpBlock2D"]
layers_per_block = 1
norm_num_groups = 4
[batch]
global_size = 1
micro_size = 1
[train]
steps = 1
"""


def is_hdf5(path):
    return path.is_file() and (path.suffix == ".h5" or path.read_bytes()[:4] == b"\x89HDF")


def names_in(file, most):
    """What may be the names of arrays: HDF5 stores them as plain text. No library of HDF5 is asked, it might crash."""
    data = file.read_bytes()[: 1 << 20]
    words = re.findall(rb"(?<![\w./-])[A-Za-z_][\w.-]{0,31}(?=\0)", data)
    names = ["/" + word.decode() for word in dict.fromkeys(words) if not word.isupper()]  # no signature, such as TREE
    return names[:most]


def run(command):
    """Exit code (negative: a signal), lines of error, and processor time and most memory of it and its children."""
    with tempfile.TemporaryFile() as errors:
        start = time.monotonic()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors)
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() - start > MAX_WAIT_SECONDS:
                process.kill()  # which is a violation: a signal
            time.sleep(0.005)
        process.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        lines = errors.read().decode(errors="replace").splitlines()
    seconds = usage.ru_utime + usage.ru_stime
    return process.returncode, [line for line in lines if line], seconds, usage.ru_maxrss * 1024


def violation(code, lines, seconds, memory):
    """What is wrong with the end of a process, or ""."""
    if seconds > MAX_SECONDS:
        return f"slow: {seconds:.1f} s"
    if code < 0:
        return f"signal {-code}"
    if code not in (0, 3):
        return f"exit code {code}: {lines[-1:]}"
    if memory > MAX_BYTES:
        return f"memory: {memory >> 20} MiB"
    if code == 3 and len(lines) != 1:
        return f"lines: {len(lines)}"
    return ""


def commands(ddpm, file, work, most_names):
    yield "inspect", [ddpm, "data", "inspect", file]
    yield "verify", [ddpm, "data", "verify", file]
    for number, images in enumerate(["/images", *names_in(file, most_names)]):
        config = work / f"{number}.toml"
        config.write_text(CONFIG.format(run=work / f"run-{number}", file=file, images=images))
        yield f"train {images}", [ddpm, "train", config]
    copy = work / "copy.h5"
    shutil.copyfile(file, copy)
    yield "adopt", [ddpm, "data", "adopt", copy]
    yield "adopted", [ddpm, "data", "verify", copy]


def try_file(ddpm, file, most_names, counts):
    """Gives it to all commands; returns what went wrong."""
    wrong = []
    with tempfile.TemporaryDirectory(prefix="ddpm-foreign-") as folder:
        for name, command in commands(ddpm, file, pathlib.Path(folder), most_names):
            end = run(command)
            while any("before MPI_INIT" in line for line in end[1]):  # Open MPI does not always start on a busy machine
                end = run(command)
            said = violation(*end)
            counts[name.split()[0], said.split(":")[0] or f"exit code {end[0]}"] += 1
            if said:
                wrong.append(f"{file.name}: {name}: {said}")
                print(wrong[-1], file=sys.stderr, flush=True)
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--names", type=int, default=24, help="arrays to train on per file, beside /images")
    parser.add_argument("folder", type=pathlib.Path)
    options = parser.parse_args()
    ddpm = str((options.build / "ddpm").resolve())
    files = [path.resolve() for path in sorted(options.folder.rglob("*")) if is_hdf5(path)]
    counts = collections.Counter()
    wrong = [said for file in files for said in try_file(ddpm, file, options.names, counts)]
    for (command, end), count in sorted(counts.items()):
        print(f"{command:8} {end:24} {count:6}")
    print(f"{len(files)} files, {counts.total()} runs, {len(wrong)} violations")
    return 1 if wrong or not files else 0


if __name__ == "__main__":
    sys.exit(main())
