#!/usr/bin/env python3
"""Checks that no string literal is split so that a piece of it holds a single word, as clang-format leaves behind when a text grows.

    literals_test.py ROOT

A piece that is a line of the text by itself, with "\\n" before and behind it, may hold one word. Any Python from 3.9 on; no packages.
"""

import re
import sys
import unittest
from pathlib import Path

from include_edges import SUFFIXES

TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<tag>[^\s()\\]{0,16})\(.*?\)(?P=tag)"|(?P<literal>"(?:\\.|[^"\\\n])*")|'
    r"(?<!\w)'(?:\\.|[^'\\\n])+'",
    re.DOTALL,
)


def split_literals(text):
    """Lists of (line, content) for each literal that is written as several adjacent pieces."""
    pieces, end = [], None
    for match in TOKEN.finditer(text):
        if match.group("literal") is None:
            continue
        if end is None or text[end : match.start()].strip():
            if len(pieces) > 1:
                yield pieces
            pieces = []
        pieces.append((text.count("\n", 0, match.start()) + 1, match.group("literal")[1:-1]))
        end = match.end()
    if len(pieces) > 1:
        yield pieces


def lonely_words(text):
    """(line, piece) for everything that the check refuses."""
    for pieces in split_literals(text):
        for i, (line, piece) in enumerate(pieces):
            begins_line = i == 0 or pieces[i - 1][1].endswith("\\n")
            ends_line = i == len(pieces) - 1 or piece.endswith("\\n")
            if len(piece.replace("\\n", " ").split()) <= 1 and not (begins_line and ends_line):
                yield line, piece


class Check(unittest.TestCase):
    def found(self, text):
        return [piece for _, piece in lonely_words(text)]

    def test_a_piece_of_one_word_is_found_wherever_it_is(self):
        self.assertEqual(self.found('f("one two "\n  "by "\n  "three four");'), ["by "])
        self.assertEqual(self.found('f("one two "\n  "three");'), ["three"])
        self.assertEqual(self.found('f("one "\n  "two three");'), ["one "])
        self.assertEqual([line for line, _ in lonely_words('\nf("one two "\n\n  "three");')], [4])

    def test_lines_of_a_table_and_whole_literals_are_let_through(self):
        self.assertEqual(self.found('f("head\\n"\n  "\\n"\n  "foot");'), [])
        self.assertEqual(self.found('f("one", "two"); g("three" + x); // "four" "five"'), [])
        self.assertEqual(self.found('f("one two "\n  "three four");'), [])
        self.assertEqual(self.found('auto a = R"(x "one" "two three" y)";'), [])


def main():
    if len(sys.argv) != 2 or not Path(sys.argv[1], "src").is_dir():
        sys.exit("usage: literals_test.py ROOT, the folder that holds src")
    root = Path(sys.argv[1])
    files = sorted(p for folder in ("src", "tests", "examples") for p in (root / folder).rglob("*") if p.suffix in SUFFIXES)
    count = 0
    for path in files:
        for line, piece in lonely_words(path.read_text(encoding="utf-8")):
            print(f'{path}:{line}: the piece "{piece}" of a split literal holds a single word', file=sys.stderr)
            count += 1
    if count:
        sys.exit(f"{count} piece(s) in {len(files)} files; break these texts at other places")
    unittest.main(argv=sys.argv[:1], verbosity=2)


if __name__ == "__main__":
    main()
