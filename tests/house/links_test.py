#!/usr/bin/env python3
"""Every relative link in a Markdown page leads to a file that is there, and to a heading in it that is there.

    links_test.py SOURCE      run by ctest; SOURCE is the root of the repository
"""

import re
import subprocess
import sys
import unittest
from pathlib import Path

SOURCE = Path(sys.argv.pop(1))
FENCE = re.compile(r"^(```|~~~).*?^\1[ ]*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def pages():
    """The pages of the repository; those of build folders are not among them."""
    listed = subprocess.run(["git", "-C", SOURCE, "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
                            capture_output=True, text=True, timeout=30, check=False)
    if listed.returncode == 0:
        return [SOURCE / name for name in listed.stdout.split("\n") if name and (SOURCE / name).exists()]
    return [path for path in SOURCE.rglob("*.md") if "build" not in path.relative_to(SOURCE).parts]


def anchors_of(page):
    """The names that GitHub gives to the headings of a page."""
    names = []
    for heading in re.findall(r"^#+ +(.*?) *$", FENCE.sub("", page.read_text()), re.MULTILINE):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        name = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        names.append(name if name not in names else f"{name}-{names.count(name)}")
    return names


def broken_links(page, text):
    found = []
    for target in LINK.findall(FENCE.sub("", text)):
        if re.match(r"[a-z]+:", target):
            continue  # elsewhere
        name, _, anchor = target.partition("#")
        file = (page.parent / name) if name else page
        if not file.exists():
            found.append(f"{page}: {target}: there is no such file")
        elif anchor and anchor not in anchors_of(file):
            found.append(f"{page}: {target}: there is no such heading")
    return found


class Links(unittest.TestCase):
    def test_every_link_leads_somewhere(self):
        self.assertGreater(len(pages()), 10)
        self.assertEqual([line for page in pages() for line in broken_links(page, page.read_text())], [])

    def test_broken_links_are_found(self):
        page = SOURCE / "README.md"
        text = "[a](docs/nowhere.md) [b](docs/data.md#nowhere) [c](https://example.org/x)\n```\n[d](nowhere)\n```\n"
        self.assertEqual([line.split(": ")[1] for line in broken_links(page, text)], ["docs/nowhere.md", "docs/data.md#nowhere"])


if __name__ == "__main__":
    unittest.main()
