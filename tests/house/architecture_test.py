#!/usr/bin/env python3
"""Checks docs/architecture.md against the tree: callbacks of a training are named there, and rooms and files stay readable.

    architecture_test.py ROOT

Any Python from 3.9 on; no packages.
"""

import re
import sys
import unittest
from collections import Counter
from pathlib import Path

import rooms
from include_edges import SUFFIXES

MOST_LINES = 400  # of a file
MOST_SHARE = 0.15  # of all lines, in one row of the table
CALLBACK = re.compile(r"^class (\w+) final : public Callback\b", re.MULTILINE)


def unnamed(callbacks, page):
    """The callbacks that the table under "After a step" does not have."""
    _, _, section = page.partition("### After a step")
    return [name for name in callbacks if f"`{name}`" not in section.partition("\n## ")[0]]


def crowded(lines_of_rooms):
    """The rooms that hold more than their share, as texts."""
    total = sum(lines_of_rooms.values())
    return [f"{room or 'src'} holds {lines / total:.1%} of the lines; wanted: {MOST_SHARE:.0%} at most"
            for room, lines in sorted(lines_of_rooms.items()) if lines > MOST_SHARE * total]  # fmt: skip


class Check(unittest.TestCase):
    def test_a_callback_that_the_table_lacks_is_found(self):
        page = "### After a step\n| `A`, `B` | ... |\n\n## Next\n`C`\n"
        self.assertEqual(unnamed(["A", "B", "C"], page), ["C"])

    def test_a_crowded_room_is_found(self):
        self.assertEqual(crowded(dict.fromkeys("abcdefgh", 10)), [])
        (text,) = crowded({**dict.fromkeys("abcdefgh", 10), "i": 20})
        self.assertRegex(text, "^i holds 20.0%")


def main():
    if len(sys.argv) != 2 or not Path(sys.argv[1], rooms.PAGE).is_file():
        sys.exit("usage: architecture_test.py ROOT, the folder that holds docs and src")
    root = Path(sys.argv[1])
    page = (root / rooms.PAGE).read_text(encoding="utf-8")
    allowed = rooms.allowed_includes(page)
    lines_of_rooms, found, callbacks = Counter(), [], []
    for path in sorted(p for p in (root / "src").rglob("*") if p.suffix in SUFFIXES):
        text = path.read_text(encoding="utf-8")
        lines = text.count("\n")
        lines_of_rooms[rooms.room_of(path.relative_to(root / "src").as_posix(), allowed)] += lines
        if lines > MOST_LINES:
            found.append(f"{path}: {lines} lines; wanted: {MOST_LINES} at most")
        callbacks += CALLBACK.findall(text)
    found += crowded(lines_of_rooms)
    found += [f"{rooms.PAGE}: the table under 'After a step' lacks the callback {name}" for name in unnamed(callbacks, page)]
    if found or not callbacks:
        sys.exit("\n".join(found or ["no callback was found in src: the check has lost what it looks for"]))
    unittest.main(argv=sys.argv[:1], verbosity=2)


if __name__ == "__main__":
    main()
