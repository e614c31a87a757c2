#!/usr/bin/env python3
"""Checks that every header compiles alone, with the flags that its folder's sources are compiled with.

    header_check.py BUILD ROOT [--since REV] [--jobs N]

BUILD holds compile_commands.json. A header that its own source file includes first is proved by the build, unless several
sources are compiled at once (DDPM_UNITY); the others are compiled here, included twice; not those with code for GPUs, which come
after CUDA's own headers. With --since, those of the others that differ from REV. Where sources are compiled with a precompiled header, that would hide a missing include: there the names that the header
uses are also looked up in what it includes, itself or by way of our other headers.
Any Python from 3.9 on; no packages.
"""

import argparse
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from build_commands import commands_by_source
from include_edges import without_comments_and_strings

COMPILER = re.compile(r"(c\+\+|g\+\+|clang\+\+)(-[\d.]+)?$")
DROPPED = {"-c", "-MD", "-MMD", "-MP"}
DROPPED_WITH_VALUE = {"-o", "-MT", "-MF", "-MQ"}
# Names that a precompiled header could hide, and the includes that bring them.
NEEDS = {
    r"\b(at|torch|c10)::\w": r"<(ATen|c10|torch)/",
    r"\bu?int(8|16|32|64)_t\b": r"<cstdint>",
    r"\bstd::string\b": r"<string>",
    r"\bstd::string_view\b": r"<string_view>",
    r"\bstd::vector\b": r"<vector>",
    r"\bstd::array\b": r"<array>",
    r"\bstd::span\b": r"<span>",
    r"\bstd::optional\b": r"<optional>",
    r"\bstd::variant\b": r"<variant>",
    r"\bstd::function\b": r"<functional>",
    r"\bstd::(unique_ptr|shared_ptr|make_unique)\b": r"<memory>",
    r"\bstd::filesystem\b": r"<filesystem>",
    r"\bstd::(unordered_)?map\b": r"<(unordered_)?map>",
    r"\bstd::set\b": r"<set>",
    r"\bstd::chrono\b": r"<chrono>",
    r"\bstd::thread\b": r"<thread>",
    r"\bstd::numeric_limits\b": r"<limits>",
    r"\bfmt::\w": r"<fmt/",
    r"\bnlohmann::": r"<nlohmann/",
}
DEVICE_CODE = re.compile(r"\b__(global|device)__\b")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"][^>"]+[>"])', re.MULTILINE)


def first_include(text):
    match = INCLUDE.search(text)
    return match.group(1) if match else None


def flags_of(entry):
    """The compiler and its flags, without launcher, source, output and dependency files."""
    words = shlex.split(entry["command"])
    start = next(i for i, word in enumerate(words) if COMPILER.search(word))
    flags = []
    skip = False
    for word in words[start:]:
        if skip:
            skip = False
        elif word in DROPPED_WITH_VALUE:
            skip = True
        elif word not in DROPPED and word != entry["file"]:
            flags.append(word)
    return flags


class Commands:
    """The compile commands of C++ sources under ROOT's src and tests."""

    def __init__(self, build, root, changed):
        self.by_file = commands_by_source(build, root)
        self.changed = changed  # headers; None: all

    def for_header(self, header):
        """The entry of its own source, of one beside or below it, or of one in a folder above; None when there is none."""
        own = self.by_file.get(header.with_suffix(".cpp"))
        if own:
            return own
        for folder in (header.parent, *header.parents):
            beside = sorted(f for f in self.by_file if f.parent == folder or (folder == header.parent and folder in f.parents))
            if beside:
                return self.by_file[beside[0]]
            if folder.name in ("src", "tests"):
                return None
        return None

    def proof(self, header, include_name):
        """ "proved" by the build, "left" out, or None: it is to be compiled alone."""
        source = header.with_suffix(".cpp")
        entry = self.by_file.get(source)
        leads = entry is not None and first_include(source.read_text(encoding="utf-8")) == f'"{include_name}"'
        if leads and not entry["together"]:
            return "proved"
        return None if self.changed is None or header in self.changed else "left"


def reached_includes(header, roots, seen=None):
    """The <...> that the header, or a header of ours that it includes, includes."""
    seen = set() if seen is None else seen
    found = set()
    if header in seen or not header.is_file():
        return found
    seen.add(header)
    for name in INCLUDE.findall(header.read_text(encoding="utf-8")):
        if name[0] == "<":
            found.add(name)
        else:
            for root in roots:
                found |= reached_includes(root / name[1:-1], roots, seen)
    return found


def hidden_include(header, text, roots):
    """A name that the header uses without any include that could bring it; None when there is none."""
    code = without_comments_and_strings(text)
    includes = reached_includes(header, roots)
    for name, include in NEEDS.items():
        used = re.search(name, code)
        if used and not any(re.match(include, candidate) for candidate in includes):
            return used.group()
    return None


def compile_alone(header, include_name, entry):
    """What the compiler says; None when it is content."""
    text = f'#include "{include_name}"\n#include "{include_name}"\n'
    command = [*flags_of(entry), "-fsyntax-only", "-x", "c++", "-"]
    done = subprocess.run(command, input=text, cwd=entry["directory"], capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else f"{header} does not compile alone:\n{done.stderr[:2000]}"


def check(header, include_name, commands, roots):
    """("proved" | "compiled" | "absent" | "failed", message)"""
    text = header.read_text(encoding="utf-8")
    if "#pragma once" not in text:
        return "failed", f"{header}: no #pragma once"
    entry = commands.for_header(header)
    if entry is None or DEVICE_CODE.search(without_comments_and_strings(text)):
        return "absent", str(header)
    hidden = hidden_include(header, text, roots) if "cmake_pch" in entry["command"] else None
    if hidden:
        return "failed", f"{header}: uses {hidden}..., but includes nothing that brings it"
    proof = commands.proof(header, include_name)
    if proof:
        return proof, ""
    message = compile_alone(header, include_name, entry)
    return ("failed", message) if message else ("compiled", "")


def changed_since(revision, root):
    """The files that differ from `revision`, not yet committed ones too; None without a revision."""
    if revision is None:
        return None
    done = subprocess.run(["git", "-C", root, "diff", "--name-only", revision], capture_output=True, text=True, check=True)
    return {root / name for name in done.stdout.splitlines()}


def main():
    parser = argparse.ArgumentParser(description="Compiles every header alone.")
    parser.add_argument("build", type=Path)
    parser.add_argument("root", type=Path)
    parser.add_argument("--since", metavar="REV")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    root = arguments.root.resolve()
    commands = Commands(arguments.build, root, changed_since(arguments.since, root))
    roots = [root / "src", root / "tests"]
    headers = [(header, header.relative_to(base).as_posix()) for base in roots for header in sorted(base.rglob("*.h"))]
    with ThreadPoolExecutor(arguments.jobs) as pool:
        results = list(pool.map(lambda item: check(*item, commands, roots), headers))
    for kind, message in results:
        if kind == "absent":
            print(f"not in this build: {message}")
        elif kind == "failed":
            print(message, file=sys.stderr)
    kinds = [kind for kind, _ in results]
    print(
        f"{len(headers)} headers: {kinds.count('proved')} proved by the build, {kinds.count('compiled')} compiled alone, "
        f"{kinds.count('left')} that did not change left out"
    )
    if "failed" in kinds or kinds.count("absent") == len(headers):
        sys.exit(1)


if __name__ == "__main__":
    main()
