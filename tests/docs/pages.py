"""The pages of the documentation, and the commands and texts that stand in them."""

import os
import pathlib
import re
from dataclasses import dataclass

SOURCE = pathlib.Path(os.environ["DDPM_SOURCE_DIR"])
PROGRAMS = re.compile(r"(ddpm|mpirun|srun|sbatch|mkdir|cmake|python3?|(jobs|examples|tests)/\S+) ")


@dataclass(frozen=True)
class Block:
    """What a page shows as code: `line` is that of its first line, counted from 1."""

    page: str
    line: int
    language: str
    code: str


@dataclass(frozen=True)
class Command:
    """A command of a shell; a piece of Python, or tables of TOML, are one command."""

    page: str
    line: int
    text: str
    language: str = "sh"


def pages():
    """All pages, by their paths below the root."""
    found = [SOURCE / "README.md", SOURCE / "CONTRIBUTING.md", SOURCE / "data" / "README.md"]
    found += sorted((SOURCE / "docs").glob("*.md")) + sorted(SOURCE.glob("examples/*/README.md"))
    return [str(path.relative_to(SOURCE)) for path in found]


def heads():
    """Example configurations and the examples' scripts, which say in their first comment how they are used."""
    found = [*SOURCE.glob("jobs/*.toml"), *SOURCE.glob("jobs/scaling/*.toml"), *SOURCE.glob("examples/*/*.toml"),
             *SOURCE.glob("examples/*/run.sh")]  # fmt: skip
    return [str(path.relative_to(SOURCE)) for path in sorted(found)]


def blocks(page):
    found, start = [], None
    for number, line in enumerate((SOURCE / page).read_text().splitlines(), 1):
        fence = re.match(r"\s*```(\w*)", line)
        if fence and start is None:
            start, language, code = number + 1, fence[1], []
        elif fence:
            found.append(Block(page, start, language, "\n".join(code) + "\n"))
            start = None
        elif start is not None:
            code.append(line)
    return found


def without_comment(line):
    """The line up to a # that begins a word outside of quotes."""
    quote = ""
    for i, letter in enumerate(line):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter == "#" and (i == 0 or line[i - 1].isspace()):
            return line[:i].rstrip()
    return line.rstrip()


def joined(numbered_lines):
    """Commands of the lines (number, text), those that go on joined: behind a backslash, and behind &&."""
    found, start, text = [], 0, ""
    for number, line in numbered_lines:
        line = without_comment(line)
        if not line and not text:
            continue
        start, text = (start, f"{text} {line.strip()}") if text else (number, line.strip())
        if text.endswith("\\"):
            text = text[:-1].rstrip()
        elif text and not text.endswith("&&"):
            found.append((start, text))
            text = ""
    return found + ([(start, text)] if text else [])


def commands(page):
    """The commands of a page, or of the head of a configuration or script, in their order. A block that begins with #! is a script,
    and one command: its first line."""
    if not page.endswith(".md"):
        lines = [line.rstrip() for line in (SOURCE / page).read_text().splitlines()]
        lines = lines[: next((i for i, line in enumerate(lines) if not line.startswith("#")), len(lines))]
        shown = [(i, line[4:]) for i, line in enumerate(lines, 1) if line.startswith("#   ") and PROGRAMS.match(line[4:] + " ")]
        return [Command(page, number, re.sub(r" {4,}\w.*", "", text)) for number, text in joined(shown)]
    found = []
    for block in blocks(page):
        if block.language in ("sh", "bash"):
            lines = block.code.splitlines()
            listed = [(0, lines[0])] if lines[0].startswith("#!") else joined(enumerate(lines))
            found += [Command(page, block.line + number, text) for number, text in listed]
        elif block.language in ("python", "toml"):
            found.append(Command(page, block.line, block.code, block.language))
    return found


def spoken_commands(page):
    """What the text itself names as commands of the program: `ddpm …` within a sentence."""
    text = re.sub(r"^```.*?^```$", "", (SOURCE / page).read_text(), flags=re.MULTILINE | re.DOTALL)
    return [" ".join(code.split()) for code in re.findall(r"`((?:mpirun -np \d+ )?ddpm [^`]+)`", text)]
