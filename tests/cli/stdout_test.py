"""Results that stdout does not take: a full disk, a closed descriptor, a limit on file sizes, a reader that has left. Every
command either delivers all of its result or says in one line that it did not, with exit code 4."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_run import DDPM, MPIRUN, TIMEOUT_S, ddpm, make_dataset, write_config  # noqa: E402

WORK = pathlib.Path.cwd()


def commands():
    """Every command that prints a result, by name: none that prints is missing (test_every_command_is_here)."""
    dataset = make_dataset(WORK / "squares", 16)
    run = WORK / "run"
    config = write_config(WORK / "run.toml", run, dataset, train={"steps": 1}, diffusion={"num_train_timesteps": 4})
    if not (run / "model").exists():
        ddpm("train", config)
    return {
        "help": ["--help"],
        "version": ["--version"],
        "data --help": ["data", "--help"],
        "data create": ["data", "create", WORK / "squares-pictures", "--output", WORK / "made", "--size", 16],
        "data create --json": ["data", "create", WORK / "squares-pictures", "--output", WORK / "made", "--size", 16, "--json"],
        "data inspect": ["data", "inspect", dataset],
        "data inspect --json": ["data", "inspect", dataset, "--json"],
        "data verify": ["data", "verify", dataset],
        "data verify --json": ["data", "verify", dataset, "--json"],
        "data stats": ["data", "stats", dataset],
        "data stats --json": ["data", "stats", dataset, "--json"],
        "data generate": ["data", "generate", "grf", "--output", WORK / "made", "--count", 2, "--size", 8],
        "data append": ["data", "append", WORK / "grown", dataset],
        "data reshard": ["data", "reshard", dataset, "--shards", 1, "--output", WORK / "made"],
        "data adopt": ["data", "adopt", WORK / "grown" / "shard-00000-of-00003.h5"],
        "eval fields": ["eval", "fields", dataset, "--data", dataset],
        "eval fields --json": ["eval", "fields", dataset, "--data", dataset, "--json"],
        "train --dry-run": ["train", config, "--dry-run"],
        "checkpoint list": ["checkpoint", "list", run],
        "checkpoint list --json": ["checkpoint", "list", run, "--json"],
        "checkpoint verify": ["checkpoint", "verify", run],
        "checkpoint reshard": ["checkpoint", "reshard", run, "--ranks", 2, "--output", WORK / "resharded"],
        "checkpoint export": ["checkpoint", "export", run, "--output", WORK / "exported"],
        "checkpoint export --json": ["checkpoint", "export", run, "--output", WORK / "exported", "--json"],
        "plan": ["plan", config, "--nodes", 1, "--gpus-per-node", 1],
        "plan --json": ["plan", config, "--nodes", 1, "--gpus-per-node", 1, "--json"],
        "config show": ["config", "show"],
        "config show --markdown": ["config", "show", "--markdown"],
        "bench step": ["bench", "step", config, "--steps", 1, "--warm-up", 0],
        "bench sample": ["bench", "sample", config, "--model.sample_size", 16, "--steps", 1, "--batch", 1, "--repeats", 1],
        "bench stages": ["bench", "stages", config, "--stages", 2, "--repeats", 1],
        "bench stages --json": ["bench", "stages", config, "--stages", 2, "--repeats", 1, "--json"],
        "bench io": ["bench", "io", config, "--repeats", 1],
        "eval samples": ["eval", "samples", dataset, "--data", dataset, "--metrics", "moments"],
        "eval samples --json": ["eval", "samples", dataset, "--data", dataset, "--metrics", "moments", "--json"],
        "eval loss": ["eval", "loss", "--model", run, "--data", dataset, "--count", 2, "--levels", 4],
        "eval loss --json": ["eval", "loss", "--model", run, "--data", dataset, "--count", 2, "--levels", 4, "--json"],
        "report": ["report", run, "--output", WORK / "page.html"],
        "report --json": ["report", run, "--json"],
        "completion bash": ["completion", "bash"],
        "env": ["env"],
        "env --json": ["env", "--json"],
        "doctor": ["doctor", "--max-mib", 1, "--file-mib", 1],
    }  # fmt: skip


def remove_results():
    for name in ("made", "resharded", "exported", "grown"):
        if (WORK / name).exists():
            shutil.rmtree(WORK / name)
    shutil.copytree(WORK / "squares", WORK / "grown")  # for what changes a set


def start(arguments, shell):
    """The program under `shell`, which says where "$@" prints to."""
    remove_results()
    return subprocess.run(["bash", "-c", shell, "bash", DDPM, *map(str, arguments)], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=TIMEOUT_S, check=False)  # fmt: skip


class Stdout(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.commands = commands()

    def lost(self, process, reason):
        self.assertEqual(process.returncode, 4, process.stderr)
        errors = [line for line in process.stderr.splitlines() if line.startswith("ddpm: error")]
        self.assertEqual(len(errors), 1, process.stderr)
        self.assertRegex(errors[0], "standard output: cannot write: " + reason)

    def test_a_full_disk(self):
        for name, arguments in self.commands.items():
            with self.subTest(command=name):
                self.lost(start(arguments, '"$@" >/dev/full'), "No space left on device, after 0 of [0-9]+ bytes")

    def test_a_closed_stdout(self):
        for name, arguments in self.commands.items():
            with self.subTest(command=name):
                self.lost(start(arguments, '"$@" >&-'), "Bad file descriptor")

    def test_all_is_well(self):
        for name, arguments in self.commands.items():
            with self.subTest(command=name):
                process = start(arguments, '"$@"')
                self.assertEqual(process.returncode, 0, process.stderr)
                self.assertTrue(process.stdout.endswith("\n"), process.stdout[-80:])
                if "--json" in arguments:
                    json.loads(process.stdout)

    def test_a_disk_that_fills_in_the_middle(self):
        # 8 blocks of 512 bytes.
        process = start(["config", "show"], f"ulimit -f 8; \"$@\" >'{WORK}/limited'")
        self.lost(process, r"File too large, after \d+ of \d+ bytes")
        self.lost(start(["--help"], f"ulimit -f 0; \"$@\" >'{WORK}/limited'"), "File too large, after 0 of")

    def test_a_reader_that_has_left(self):
        # It ends quietly, as the shell's tools do, or with an exit code of its own where the parent ignores the signal.
        for name in ("help", "config show", "env", "data inspect"):
            with self.subTest(command=name):
                process = start(self.commands[name], '(sleep 1; exec "$@") | true; exit ${PIPESTATUS[0]}')
                self.assertEqual((process.returncode, process.stderr), (128 + signal.SIGPIPE, ""))
        self.lost(start(["config", "show"], "trap '' PIPE; (sleep 1; exec \"$@\") | true; exit ${PIPESTATUS[0]}"), "Broken pipe")

    def test_closed_descriptors_are_not_those_of_files(self):
        # Otherwise the first files that are opened get the numbers 0, 1 and 2, and messages are written into them.
        process = start(self.commands["data create"], '"$@" <&- >&- 2>&-')
        self.assertEqual(process.returncode, 4)
        ddpm("data", "verify", WORK / "made")
        process = start(["data", "verify", WORK / "squares"], '"$@" <&- 2>&-')
        self.assertEqual((process.returncode, process.stderr), (0, ""))

    def test_ranks_agree_on_a_lost_result(self):
        # mpirun reads the ranks' stdout, so that they see its failures only where a rank's own stdout fails.
        process = subprocess.run(
            [*MPIRUN, "-np", "2", "bash", "-c", '"$@" >/dev/full', "bash", DDPM,
             "config", "show"],
            capture_output=True, text=True, timeout=TIMEOUT_S, check=False)  # fmt: skip
        self.lost(process, "No space left on device")

    def test_every_command_is_here(self):
        names = {" ".join(name.split()[:2]) for name in self.commands}
        silent = {"config new", "config validate", "bench comm", "sample"}  # messages on stderr; comm wants two ranks
        for source in pathlib.Path(os.environ["DDPM_SOURCE_DIR"], "src", "cli").glob("*.cpp"):
            self.assertNotRegex(source.read_text(), r"std::cout|\bprintf\(|\bputs\(", source)
        for top in subcommands():
            below = subcommands(top)
            for command in [f"{top} {one}" for one in below] or [top]:
                known = command in names | silent or any(name.startswith(command) for name in names)
                self.assertTrue(known, f"{command} has no line in commands()")


def subcommands(*chain):
    text = subprocess.run([DDPM, *chain, "--help"], check=True, capture_output=True, text=True, timeout=60).stdout
    below = re.search(r"^Subcommands:\n((?:  .*\n)+)", text, re.MULTILINE)
    return [line.split()[0] for line in below.group(1).splitlines() if line[2] != " "] if below else []


if __name__ == "__main__":
    unittest.main(verbosity=2)
