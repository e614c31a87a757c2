"""Every command of every page is run, as it stands there, in a small clone of its own.

    commands_test.py GROUP [PAGE ...]     a group of table.py; all of its pages, or these

What may differ from the page stands in table.py, and nowhere else. A command that is neither run nor listed there fails by what it
does; an entry of the table to which no command belongs fails, too.
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

from pages import SOURCE, commands, heads, pages
from sandbox import make_sandbox
from stand_ins import Stock
from table import BASE, GROUPS, LISTED, PENDING, PRELUDE, PYTHON_BEFORE, SUBSTITUTIONS, TOML_OF_MACHINES

GROUP, *CHOSEN = sys.argv[1:]
WORK = pathlib.Path.cwd() / "work"
TIMEOUT_S = 120
# Runs the command $2 with the variables that those before it have exported, which the file $1 keeps.
SHELL = '[ ! -e "$1" ] || . "$1"; eval "$2"; code=$?; export -p >"$1"; exit $code'


def pages_of(group):
    """Pages that no group names belong to "runs", and what examples and configurations say to "examples"."""
    named = {page for members in GROUPS.values() for page in members}
    others = [page for page in pages() if page not in named]
    if group == "examples":
        return [page for page in others if page.startswith("examples/")] + heads()
    return GROUPS[group] or [page for page in others if not page.startswith("examples/")]


def is_listed(command):
    return any(command.page == one.page and command.text.startswith(one.beginning) for one in LISTED)


def is_pending(command):
    return any(command.page == page and command.text.startswith(beginning) for page, beginning in PENDING)


def substituted(page, text, rules=None):
    for what, by, where in SUBSTITUTIONS[:rules]:
        if re.search(where, page):
            text = re.sub(what, by, text)
    return text


class Commands(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        shutil.rmtree(WORK, ignore_errors=True)
        cls.addClassCleanup(shutil.rmtree, WORK)
        cls.stock = Stock(WORK / "stock")

    def prepare(self, page):
        sandbox = WORK / page.replace("/", "-")
        environment = make_sandbox(sandbox)
        for script in sandbox.glob("examples/*/run.sh"):
            script.write_text(substituted(str(script.relative_to(sandbox)), script.read_text()))
        for entry in PRELUDE.get(page, []):
            name, _, called = entry.partition("=")
            self.stock.put(name, sandbox, called or name)
        return sandbox, environment

    def test_every_command_of_the_pages_runs(self):
        for page in CHOSEN or pages_of(GROUP):
            run = [command for command in commands(page) if not is_listed(command)]
            if not run:
                continue
            with self.subTest(page=page):
                sandbox, environment = self.prepare(page)
                for command in run:
                    with self.subTest(command=f"{page}:{command.line}: {command.text.splitlines()[0]}"):
                        self.run_one(command, sandbox, environment)
                shutil.rmtree(sandbox)

    def run_one(self, command, sandbox, environment):
        program, text = program_of(command, sandbox)
        began = time.monotonic()
        code, said = run_to_its_end(program, sandbox, environment)
        print(f"{time.monotonic() - began:5.1f} s  {command.page}:{command.line}: {text.splitlines()[0]}", flush=True)
        if is_pending(command):
            self.assertNotEqual(code, 0, "this command works by now: take it out of PENDING in tests/docs/table.py")
        else:
            self.assertEqual(code, 0, f"run as: {text}\n{said[-3000:]}")


def program_of(command, sandbox):
    """What has to be started for a command, and what of it is shown."""
    text = substituted(command.page, command.text)
    if command.language == "python":
        before = "".join(code for page, part, code in PYTHON_BEFORE if page == command.page and part in text)
        return [sys.executable, "-c", before + text], text
    if command.language == "toml":
        (sandbox / "base.toml").write_text(BASE)
        (sandbox / "part.toml").write_text(command.text)
        validate = ["config", "validate", "base.toml", "part.toml"]
        if any(command.page == page and command.text.startswith(start) for page, start in TOML_OF_MACHINES):
            validate = ["plan", "base.toml", "--nodes", "1", "--gpus-per-node", "1", "--machine", "part.toml"]
        return [sandbox / "bin/ddpm", *validate], command.text
    return ["bash", "-c", SHELL, "bash", sandbox / "scratch/.exported", text], text


def run_to_its_end(program, folder, environment):
    """The exit code, and what was said. What the command has started ends with it, in any case."""
    process = subprocess.Popen(program, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, start_new_session=True)  # fmt: skip
    try:
        said, _ = process.communicate(timeout=TIMEOUT_S)
        return process.returncode, said
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return "none", f"not within {TIMEOUT_S} s: {process.communicate()[0]}"


class Table(unittest.TestCase):
    def test_every_entry_of_the_table_belongs_to_a_command_of_a_page(self):
        everything = [command for page in pages() + heads() for command in commands(page)]
        for one in LISTED:
            self.assertTrue(any(c.page == one.page and c.text.startswith(one.beginning) for c in everything), one)
            self.assertTrue(not one.test or (SOURCE / one.test).exists(), one)
        for page in PRELUDE:
            self.assertTrue(any(c.page == page and not is_listed(c) for c in everything), f"{page} needs no stand-ins")
        for i, (what, _, where) in enumerate(SUBSTITUTIONS):
            used = any(re.search(where, c.page) and re.search(what, substituted(c.page, c.text, i)) for c in everything)
            self.assertTrue(used, f"no command has {what}")

    def test_every_page_is_in_a_group_and_has_the_commands_that_it_shows(self):
        self.assertEqual(sorted(page for group in GROUPS for page in pages_of(group)), sorted(pages() + heads()))
        self.assertGreater(sum(len(commands(page)) for page in pages()), 100)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
