#!/usr/bin/env python3
"""Checks that no comment begins with "Of", "Those", "The same" or "As", which leave out what it is about.

    comments_test.py ROOT

Any Python from 3.9 on; no packages.
"""

import re
import sys
import unittest
from pathlib import Path

from include_edges import SUFFIXES

OF = re.compile(r"//[/!]?<? ?Of\b")
LIKE_BEFORE = re.compile(r"//[/!]?<? ?(Those|The same|As(?! (many|long|soon|if))|Likewise)\b")  # as the first words of a comment; a line may begin so
COMMENT = re.compile(r"\s*//")


def headless(text):
    """The numbers of the lines that the check refuses."""
    lines = text.splitlines()
    return [number for number, (before, line) in enumerate(zip(["", *lines], lines), 1)
            if OF.search(line) or (LIKE_BEFORE.search(line) and not COMMENT.match(before))]


class Check(unittest.TestCase):
    def test_a_comment_that_begins_with_of_is_found(self):
        self.assertEqual(headless("/// Of each row.\nint a;  // of b\nint b;  ///< Of c.\n// Often.\n"), [1, 3])

    def test_a_comment_that_needs_the_one_before_is_found(self):
        self.assertEqual(headless("/// Those of a.\nint a;\n/// The same.\nint b;\n// All of\n// The same bits.\n"), [1, 3])
        self.assertEqual(headless("/// As read().\nint a;\n// As many as there are.\nint b;  ///< likewise\n"), [1])


def main():
    if len(sys.argv) != 2 or not Path(sys.argv[1], "src").is_dir():
        sys.exit("usage: comments_test.py ROOT, the folder that holds src")
    root = Path(sys.argv[1])
    files = sorted(p for folder in ("src", "tests", "examples") for p in (root / folder).rglob("*") if p.suffix in SUFFIXES)
    found = [f"{path}:{line}" for path in files for line in headless(path.read_text(encoding="utf-8"))]
    if found:
        sys.exit("\n".join(f'{place}: the comment begins with "Of", "Those", "The same", "As" or "Likewise"; it is to say of what it speaks' for place in found))
    unittest.main(argv=sys.argv[:1], verbosity=2)


if __name__ == "__main__":
    main()
