#!/usr/bin/env python3
"""Checks that no comment begins with "Of", which leaves out what it is about.

    comments_test.py ROOT

Any Python from 3.9 on; no packages.
"""

import re
import sys
import unittest
from pathlib import Path

from include_edges import SUFFIXES

HEADLESS = re.compile(r"//[/!]?<? ?Of\b")


def headless(text):
    """The numbers of the lines that the check refuses."""
    return [number for number, line in enumerate(text.splitlines(), 1) if HEADLESS.search(line)]


class Check(unittest.TestCase):
    def test_a_comment_that_begins_with_of_is_found(self):
        self.assertEqual(headless("/// Of each row.\nint a;  // of b\nint b;  ///< Of c.\n// Often.\n"), [1, 3])


def main():
    if len(sys.argv) != 2 or not Path(sys.argv[1], "src").is_dir():
        sys.exit("usage: comments_test.py ROOT, the folder that holds src")
    root = Path(sys.argv[1])
    files = sorted(p for folder in ("src", "tests", "examples") for p in (root / folder).rglob("*") if p.suffix in SUFFIXES)
    found = [f"{path}:{line}" for path in files for line in headless(path.read_text(encoding="utf-8"))]
    if found:
        sys.exit("\n".join(f'{place}: the comment begins with "Of"; it is to say what is of that' for place in found))
    unittest.main(argv=sys.argv[:1], verbosity=2)


if __name__ == "__main__":
    main()
