#!/usr/bin/env python3
"""What our kernels take of a multiprocessor, for each kind of GPU: registers, shared memory, and what does not fit and spills.

    python3 tests/gpu/registers.py BUILD [--record]

Compiles the kernels of BUILD, a build folder with the CUDA part, for compute capability 8.0, 9.0, 10.0 and 12.0, which takes
minutes and no GPU, and prints a Markdown table: of all variants of a kernel those that take most. Exit code 1: a kernel spills,
or takes something else than registers.json says, which --record writes. Numbers are a compiler's own: with another one than
recorded, only spills count.
"""

import argparse
import concurrent.futures
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

CAPABILITIES = ("80", "90", "100", "120")
RECORD = pathlib.Path(__file__).with_suffix(".json")
ENTRY = re.compile(r"Compiling entry function '(\w+)' for 'sm_(\d+)'")
SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--record", action="store_true")
    args = parser.parse_args()
    commands = args.build / "compile_commands.json"
    entries = [entry for entry in json.loads(commands.read_text()) if entry["file"].endswith(".cu")]
    if not entries:
        sys.exit(f"registers.py: {commands} has no .cu file: the build has no CUDA part")
    compilers = {shlex.split(entry["command"])[0] for entry in entries}
    version = re.search(r"V([\d.]+)", subprocess.run([compilers.pop(), "--version"], check=True, capture_output=True, text=True).stdout).group(1)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        kernels = {}
        for found in pool.map(kernels_of, entries):
            kernels |= found
    kernels = dict(sorted(kernels.items()))
    print_table(kernels, version)
    spilling = [name for name, kernel in kernels.items() for most in kernel["most"].values() if most["spilled"]]
    for name in sorted(set(spilling)):
        print(f"registers.py: {name} spills registers", file=sys.stderr)
    if args.record:
        RECORD.write_text(json.dumps({"nvcc": version, "kernels": kernels}, indent=1) + "\n")
        return 1 if spilling else 0
    recorded = json.loads(RECORD.read_text())
    if recorded["nvcc"] != version:
        print(f"registers.py: recorded with nvcc {recorded['nvcc']}, and this is {version}", file=sys.stderr)
        return 1 if spilling else 0
    changed = [name for name in {**recorded["kernels"], **kernels} if recorded["kernels"].get(name) != kernels.get(name)]
    for name in sorted(changed):
        print(f"registers.py: {name}: recorded {recorded['kernels'].get(name)}, now {kernels.get(name)}", file=sys.stderr)
    return 1 if spilling or changed else 0


def kernels_of(entry):
    """Of each kernel of a file how many variants it has, and the most that any of them takes, by compute capability."""
    words, command = iter(shlex.split(entry["command"])), []
    for word in words:
        if word in ("-c", "-o"):
            next(words)
        elif not word.startswith(("--generate-code", "-Xptxas")):
            command.append(word)
    targets = [f"--generate-code=arch=compute_{capability},code=sm_{capability}" for capability in CAPABILITIES]
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.run(
            [*command, "-Xptxas=-v", *targets, "-fatbin", entry["file"], "-o", f"{folder}/kernels.fatbin"],
            cwd=entry["directory"], capture_output=True, text=True, check=False,
        )  # fmt: skip
    if process.returncode != 0:
        sys.exit(f"registers.py: {entry['file']}: nvcc has ended with exit code {process.returncode}\n{process.stderr}")
    kernels = {}
    for part in re.split(r"(?=ptxas info    : Compiling entry function)", process.stderr)[1:]:
        symbol, capability = ENTRY.search(part).groups()
        stack, stores, loads = map(int, SPILLS.search(part).groups())
        shared = SHARED.search(part)
        takes = {
            "registers": int(USED.search(part).group(1)), "shared": int(shared.group(1)) if shared else 0,
            "stack": stack, "spilled": stores + loads,
        }  # fmt: skip
        kernel = kernels.setdefault(name_of(symbol), {"variants": 0, "most": {}})
        kernel["variants"] += capability == CAPABILITIES[0]
        most = kernel["most"].setdefault(capability, takes)
        for what, amount in takes.items():
            most[what] = max(most[what], amount)
    if not kernels:
        sys.exit(f"registers.py: {entry['file']}: nvcc has told nothing of any kernel:\n{process.stderr}")
    return kernels


def name_of(symbol):
    """A kernel's name, without namespaces, template arguments and parameters."""
    text = subprocess.run(["c++filt", symbol], check=True, capture_output=True, text=True).stdout
    text = text.replace("(anonymous namespace)::", "").removeprefix("void ")
    return re.match(r"[\w:]+", text).group().rsplit("::", 1)[-1]


def print_table(kernels, version):
    print("| kernel | variants | " + " | ".join(f"sm_{capability}" for capability in CAPABILITIES) + " |")
    print("|---" * (2 + len(CAPABILITIES)) + "|")
    for name, kernel in kernels.items():
        cells = [cell(kernel["most"][capability]) for capability in CAPABILITIES]
        print(f"| `{name}` | {kernel['variants']} | " + " | ".join(cells) + " |")
    print(f"\nRegisters of a thread, and bytes of shared memory of a block where there are any; nvcc {version}.")


def cell(takes):
    text = str(takes["registers"])
    if takes["shared"]:
        text += f", {takes['shared']} B"
    if takes["spilled"]:
        text += f", spills {takes['spilled']} B"
    return text


if __name__ == "__main__":
    sys.exit(main())
