#!/usr/bin/env python3
"""Checks the borders between the folders of src: who includes whom, and who may name MPI, NCCL, HDF5, LibTorch and the
calls that change files.

    include_edges.py ROOT

ROOT is that of the project; the table of folders stands in its docs/architecture.md. Prints one line per violation
(file:line: reason) and exits 1 if there is any. Any Python from 3.9 on; no packages.
"""

import re
import sys
from pathlib import Path

import rooms

# The visitor of configuration keys: a component describes its own keys, and may read them from JSON too.
CONFIG_VISITOR = {"config/schema.h", "config/resolve.h", "config/value.h", "config/json_value.h"}

# These parse untrusted files, or run where LibTorch must not be loaded.
WITHOUT_TORCH = {"base", "config", "layout", "comm", "h5", "data", "data/prepare", "checkpoint", "observe"}
# Part of libddpm_cuda.so, which links LibTorch anyway: its streams and devices.
CUDA_FILES = re.compile(r"^comm/(?:gpu|nccl)_\w+\.(cpp|cu|h)$")
TORCH_HEADER = re.compile(r"^(ATen|c10|torch|caffe2)/")
# CLI11 takes five seconds to compile in every file that includes it.
INCLUDES_CLI11 = "cli/command_line.cpp"

MPI_OR_NCCL = re.compile(r"\b(MPI_\w+|nccl[A-Z]\w*)")
# H5Pset_fapl_mpio is a call of HDF5's that wants an MPI constant.
MPI_NAMES_IN_H5 = {"MPI_INFO_NULL"}
HDF5 = re.compile(r"\bH5(?:[ADEFGILOPRSTZ]|DO|DS|LT)[a-z]\w*(?=\s*\()|\bH5[A-Z]_[A-Z]\w*")
FILE_CHANGE = re.compile(
    r"\b(?:std::)?ofstream\b|\bfopen\s*\(|\bO_(?:CREAT|WRONLY|RDWR)\b|"
    r"(?<![\w.>])::(?:rename|renameat2?|unlink|unlinkat|mkdir|mkdirat|rmdir|fsync|fdatasync|link|symlink|truncate)\s*\(|"
    r"\bfilesystem::(?:rename|remove|remove_all|create_director\w+|resize_file|copy\w*|create_\w*link)\s*\("
)
FILE_READ = re.compile(
    r"\b(?:std::)?ifstream\b|(?<![\w.>:])::(?:open|openat|opendir|stat|lstat|statx|access)\s*\(|"
    r"\bfilesystem::(?:exists|is_\w+|file_size|last_write_time|status|symlink_status|(?:recursive_)?directory_iterator)\b"
)
# What the kernel says of this machine, and where the program's own parts lie: nothing is lost where that cannot be read.
READS_THE_MACHINE = {
    "device/device_library.cpp",
    "device/gpu_signs.cpp",
    "device/processor_name.cpp",
    "comm/launch.cpp",
    "doctor/host_facts.cpp",
    "plan/plan_request.cpp",
}

# Results reach stdout by base/standard_streams.h, which notices when they are lost.
MAY_NAME_STDOUT = ("base/standard_streams.", "base/limited_child.cpp", "base/program_output.cpp")  # the last two: a child's
STDOUT = re.compile(r"\bstdout\b|\bSTDOUT_FILENO\b|\bcout\b|(?<![\w.>])printf\s*\(|\bputs\s*\(|\bputchar\s*\(|"
                    r"\bfmt::print(?:ln)?\s*\(\s*[,)]")

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}


def without_comments_and_strings(text):
    """`text` with comments and the insides of literals blanked; lines keep their numbers."""
    token = re.compile(
        r'//[^\n]*|/\*.*?\*/|R"(?P<tag>[^\s()\\]{0,16})\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"|'
        r"(?<!\w)'(?:\\.|[^'\\\n])+'",
        re.DOTALL,
    )

    def blank(match):
        return re.sub(r"[^\n]", " ", match.group())

    return token.sub(blank, text)


def include_violation(folder, name, quoted, header, allowed):
    if not quoted:
        if header == "mpi.h" or header == "nccl.h":
            return None if folder == "comm" else f"<{header}> is included outside of comm"
        if header.startswith("hdf5") or header.startswith("H5"):
            return None if folder == "h5" else f"<{header}> is included outside of h5"
        if header.startswith("CLI/"):
            return None if name == INCLUDES_CLI11 else f"<{header}> is included outside of {INCLUDES_CLI11}"
        if TORCH_HEADER.match(header) and folder in WITHOUT_TORCH and not CUDA_FILES.match(name):
            return f"<{header}>: {folder} does without LibTorch"
        return None
    target = rooms.room_of(header, allowed)
    if not target:
        return f'"{header}" names no folder of src; wanted: "folder/file.h"'
    if target != folder and target not in allowed[folder] and not (folder != "base" and header in CONFIG_VISITOR):
        wanted = ", ".join(sorted(allowed[folder])) or "nothing"
        return f'{folder} may not include "{header}"; it may include: {wanted}'
    return None


def call_violations(folder, file, line):
    if folder != "comm":
        for name in MPI_OR_NCCL.findall(line):
            if not (folder == "h5" and name in MPI_NAMES_IN_H5):
                yield f"{name}: only comm calls MPI and NCCL"
    if folder != "h5":
        for name in HDF5.findall(line):
            yield f"{name}: only h5 calls HDF5"
    if not file.startswith(MAY_NAME_STDOUT):
        for word in STDOUT.findall(line):
            yield f"{word.strip('( ,)')}: only base/standard_streams.h writes to stdout"
    if folder != "base":
        for name in FILE_CHANGE.findall(line):
            yield f"{name.strip('( ')}: only base/file_system.h creates, syncs, renames and removes files"
    if folder != "base" and file not in READS_THE_MACHINE:
        for name in FILE_READ.findall(line):
            yield f"{name.strip('( ')}: base/input_file.h opens, reads and looks at files: it tells what the machine fails at"


def violations_of(name, text, allowed):
    """(line, reason) for everything in the file `name` (relative to src) that crosses a border of the table `allowed`."""
    folder = rooms.room_of(name, allowed)
    if not folder:
        yield 1, f"src/{name.split('/')[0]} is not in the table of {rooms.PAGE}"
        return
    raw_lines = text.split("\n")
    for number, line in enumerate(without_comments_and_strings(text).split("\n"), start=1):
        include = INCLUDE.match(raw_lines[number - 1]) if re.match(r"\s*#\s*include", line) else None
        if include:
            reason = include_violation(folder, name, include.group(1) == '"', include.group(2), allowed)
            if reason:
                yield number, reason
            continue
        for reason in call_violations(folder, name, line):
            yield number, reason


def stem(name):
    """A header and its source are one: "comm/launch" for comm/launch.h and comm/launch.cpp."""
    return name.rpartition(".")[0]


def stem_edges(texts):
    """For each stem of the files {name: text} the other stems whose headers its files include."""
    edges = {}
    for name, text in texts.items():
        included = (INCLUDE.match(line) for line in text.split("\n"))
        headers = {stem(found.group(2)) for found in included if found and found.group(1) == '"'}
        edges.setdefault(stem(name), set()).update(headers - {stem(name)})
    return edges


def main():
    if len(sys.argv) != 2 or not Path(sys.argv[1], "src/base").is_dir():
        sys.exit("usage: include_edges.py ROOT, the folder that holds src and docs")
    root = Path(sys.argv[1])
    allowed = rooms.allowed_includes((root / rooms.PAGE).read_text(encoding="utf-8"))
    files = sorted(p for p in (root / "src").rglob("*") if p.suffix in SUFFIXES)
    texts = {path.relative_to(root / "src").as_posix(): path.read_text(encoding="utf-8") for path in files}
    count = 0
    for name, text in texts.items():
        for line, reason in violations_of(name, text, allowed):
            print(f"{root / 'src' / name}:{line}: {reason}", file=sys.stderr)
            count += 1
    for circle in rooms.circles(stem_edges(texts)):
        print(f"these include each other in a circle: {', '.join(circle)}", file=sys.stderr)
        count += 1
    if count:
        sys.exit(f"{count} violation(s) in {len(files)} files")
    print(f"{len(files)} files: every include and every call is on its side of the border")


if __name__ == "__main__":
    main()
