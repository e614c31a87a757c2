"""What pages show beside commands: options that sentences name exist, and links lead from README.md to every page. (house.links follows
each link.)"""

import functools
import os
import re
import subprocess
import unittest

from pages import SOURCE, commands, heads, pages, spoken_commands
from table import PENDING_SPOKEN

DDPM = os.environ["DDPM"]


def run(*arguments):
    return subprocess.run([DDPM, *arguments], capture_output=True, text=True, timeout=60, check=False)


@functools.cache
def help_of(*words):
    done = run(*words, "--help")
    return done.stdout if done.returncode == 0 else None


def subcommands(text):
    """The names that a --help lists as subcommands."""
    return re.findall(r"^  ([a-z0-9-]+) ", text.partition("Subcommands:")[2], re.MULTILINE)


@functools.cache
def configuration_keys():
    """All keys, as section.key."""
    keys, section = set(), ""
    for line in run("config", "show").stdout.splitlines():
        section = line.strip("[] ") if line.startswith("[") else section
        key = re.match(r"#? ?(\w+) =", line)
        if key:
            keys.add(f"{section}.{key[1]}")
    return keys


def mistakes_in(text):
    """What a command of ddpm names that there is not: a subcommand, an option, a key."""
    words = re.sub(r"^.*?\bddpm ", "", text).split()
    path, found = [], []
    while help_of(*path) and words and words[0] in subcommands(help_of(*path)):
        path.append(words.pop(0))
    if subcommands(help_of(*path)) and words and re.fullmatch("[a-z]+", words[0]):
        return [f"subcommand {words[0]}"]
    for option in re.findall(r"(?<![\w-])--([a-z][\w.-]*)", " ".join(words)):
        if "." in option:
            known = option in configuration_keys() or option.startswith("machine.")
        else:
            known = re.search(rf"--{option}(?![\w-])", help_of(*path))
        found += [] if known else [f"--{option} of ddpm {' '.join(path)}"]
    return found


class Texts(unittest.TestCase):
    def test_options_that_commands_and_sentences_name_exist(self):
        pending = set(PENDING_SPOKEN)
        for page in pages() + heads():
            texts = [command.text for command in commands(page) if command.language == "sh" and re.search(r"\bddpm [a-z]", command.text)]
            if page.endswith(".md"):
                texts += spoken_commands(page)
            for text in [part for text in texts for part in text.split("&&") if re.search(r"\bddpm [a-z]", part)]:
                for mistake in mistakes_in(text):
                    with self.subTest(command=f"{page}: {text}"):
                        self.assertIn(mistake, PENDING_SPOKEN)
                    pending.discard(mistake)
        self.assertEqual(pending, set(), "these exist by now: take them out of PENDING_SPOKEN in tests/docs/table.py")

    def test_the_first_run_is_what_the_quickstart_does(self):
        script = (SOURCE / "jobs/quickstart.sh").read_text().replace("\\\n", " ").replace('"', "")
        values = {"cache": "~/.cache/ddpm", **dict(re.findall(r"(\w+)=(\S+)", script.partition("modules/setup.sh")[0]))}
        for _ in range(3):  # values of values
            script = re.sub(r"\$(\w+)", lambda name: values.get(name[1], name[0]), script)
        script = " ".join(script.split())
        first = [command for command in commands("docs/first-run.md") if command.language == "sh" and "quickstart" in command.text]
        self.assertGreaterEqual(len(first), 4)
        for command in first:
            self.assertIn(command.text.partition("ddpm ")[2], script)

    def test_what_does_not_exist_is_found(self):
        self.assertEqual(mistakes_in("mpirun -np 2 ddpm train my.toml --optimizer.learning_rate 1 --optimizer.rate 1 --dry-run --wet-run"),
                         ["--optimizer.rate of ddpm train", "--wet-run of ddpm train"])  # fmt: skip
        self.assertEqual(mistakes_in("ddpm data crate x"), ["subcommand crate"])

    def test_tables_keep_a_line_for_each_row(self):
        for page in pages():
            for number, line in enumerate((SOURCE / page).read_text().splitlines(), 1):
                if re.search(r"\|\s*:?-{3,}", line):
                    with self.subTest(line=f"{page}:{number}"):
                        self.assertRegex(line, r"^\s*\|(\s*:?-{3,}:?\s*\|)+$")

    def test_every_page_is_reached_from_the_readme(self):
        reached, waiting = set(), ["README.md"]
        while waiting:
            page = waiting.pop()
            if page not in reached:
                reached.add(page)
                for target in re.findall(r"\]\(([^)#\s]+\.md)[^)]*\)", (SOURCE / page).read_text()):
                    path = (SOURCE / page).parent / target
                    if path.exists():
                        waiting.append(str(path.resolve().relative_to(SOURCE.resolve())))
        self.assertEqual(sorted(set(pages()) - reached), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
