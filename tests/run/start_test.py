"""The way to the first step: stop signals from the process's start on, hung ranks, folders that ranks do not share,
limits on file sizes, and folders that a power cut must not take."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_job import Job, is_program, wait_until  # noqa: E402
from ddpm_run import DDPM, MPIRUN, TIMEOUT_S, ddpm, files_below, make_dataset, write_config  # noqa: E402

WORK = pathlib.Path.cwd()


def on_two(first, last, **how):
    """Rank 0 runs one command, rank 1 another."""
    command = [*MPIRUN, "-np", "1", *first, ":", "-np", "1", *last]
    return subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=TIMEOUT_S, check=False, **how
    )


class Start(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dataset = make_dataset(WORK / "squares")

    def config(self, name, **sections):
        shutil.rmtree(WORK / name, ignore_errors=True)
        return write_config(WORK / f"{name}.toml", WORK / name, self.dataset, **sections)

    def test_signals_count_from_the_start(self):
        for ranks, delays in ((1, (0.02, 0.1, 0.2)), (2, (0.3, 0.6))):
            for delay in delays:
                with self.subTest(ranks=ranks, delay=delay), Job("early", self.dataset, ranks) as job:
                    # Before main() a process is the system's, and dies; mpirun passes signals on to what it has started.
                    wait_until(lambda: self.catches_usr1(job), 30, "the program to catch USR1")
                    time.sleep(delay)
                    job.process.send_signal(signal.SIGUSR1)
                    code, said = job.end()
                    self.assertEqual(code, 75, said)

    def test_signals_count_while_libraries_are_initialised(self):
        # LibTorch's initialisers, which run before main(), ask the kernel for its CPUs. Here the answer takes seconds.
        config = self.config("initialising")
        slow = ["-P", "/sys/devices/system/cpu/possible", "-e", "inject=openat:delay_enter=4000000:when=1"]
        for name in ("USR1", "TERM"):
            command = ["strace", "-qq", "-o", WORK / "trace.txt", *slow, DDPM, "train", config]
            with subprocess.Popen([str(word) for word in command], stderr=subprocess.PIPE, text=True) as process:
                program = self.wait_for_initialisers(process.pid)
                os.kill(program, getattr(signal, f"SIG{name}"))
                _, said = process.communicate(timeout=TIMEOUT_S)
            self.assertEqual(process.returncode, 75, said)
            self.assertIn(f"by SIG{name}", said)

    def wait_for_initialisers(self, tracer):
        """The traced program's process, which waits in the call that takes seconds."""

        def program():
            for child in pathlib.Path(f"/proc/{tracer}/task/{tracer}/children").read_text().split():
                if is_program(child) and "libtorch" in pathlib.Path(f"/proc/{child}/maps").read_text():
                    return int(child)
            return None

        wait_until(program, 30, "the program to load its libraries")
        found = program()
        time.sleep(1)  # from there on to the call
        return found

    def test_commands_that_train_nothing_end_by_signals_as_ever(self):
        held = [["config", "show"], ["train", self.config("dry"), "--dry-run"]]
        slow = ["-P", "/sys/devices/system/cpu/possible", "-e", "inject=openat:delay_enter=4000000:when=1"]
        for arguments in held:
            command = ["strace", "-qq", "-o", WORK / "trace.txt", *slow, DDPM, *arguments]
            with subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL) as process:
                os.kill(self.wait_for_initialisers(process.pid), signal.SIGUSR1)
                self.assertEqual(process.wait(TIMEOUT_S), -signal.SIGUSR1)

    def catches_usr1(self, job):
        pids = job.pids()
        if len(pids) < job.ranks:
            return False
        for pid in pids.values():
            status = pathlib.Path(f"/proc/{pid}/status").read_text()
            if not is_program(pid):
                return False
            caught = int(re.search(r"SigCgt:\s*(\w+)", status)[1], 16)
            if not caught >> (signal.SIGUSR1 - 1) & 1:
                return False
        return True

    def test_a_signal_that_stops_nothing_ends_the_program_as_ever(self):
        with Job("other", self.dataset, 1, fault={"stop_signals": ["USR2"]}) as job:
            wait_until(lambda: self.catches_usr1(job), 30, "the program to catch USR1")
            job.process.send_signal(signal.SIGUSR1)
            code, said = job.end()
            self.assertEqual(code, -signal.SIGUSR1, said)

    def test_a_run_that_is_always_stopped_before_its_first_step_is_refused(self):
        config = self.config("hurried", fault={"max_minutes": 1e-6, "max_starts_without_progress": 2})
        codes = [ddpm("train", config, check=False).returncode for _ in range(3)]
        self.assertEqual(codes, [75, 75, 5])
        self.assertEqual(files_below(WORK / "hurried"), ["starts.json"])

    def test_a_rank_that_hangs_before_its_configuration_is_named(self):
        command = [DDPM, "train", self.config("hung")]
        copy = WORK / "hung-copy.toml"
        shutil.copy(command[-1], copy)
        strace = ["strace", "-qq", "-o", "/dev/null", "-P", copy, "-e", "inject=openat:delay_enter=60000000"]
        began = time.monotonic()
        process = on_two(command, [*strace, DDPM, "train", copy], env={**os.environ, "DDPM_START_TIMEOUT_S": "5"})
        self.assertNotEqual(process.returncode, 0)
        self.assertRegex(process.stderr, r"rank 1 on \S+ is late: \d+ s in starting; DDPM_START_TIMEOUT_S = 5")
        self.assertLess(time.monotonic() - began, 40)

    def test_a_wrong_deadline_of_the_start_is_told_by_a_rank_that_has_it(self):
        command = [DDPM, "train", self.config("wrong")]
        wrong = ["env", "DDPM_START_TIMEOUT_S=soon", *command]
        for first, last, rank in ((command, wrong, 1), (wrong, command, 0), (wrong, wrong, 0)):
            process = on_two(first, last)
            self.assertEqual(process.returncode, 2, process.stderr)
            told = rf"ddpm: error: rank {rank} on \S+: DDPM_START_TIMEOUT_S = soon: seconds are wanted"
            self.assertRegex(process.stderr, told)
            self.assertEqual(process.stderr.count("ddpm: error:"), 1, process.stderr)
        self.assertFalse((WORK / "wrong").exists())

    def test_ranks_that_run_different_commands_are_refused(self):
        config = self.config("mixed")
        for other in ([DDPM, "train", config, "--dry-run"], [DDPM, "checkpoint", "list", WORK], [DDPM, "trian"]):
            process = on_two([DDPM, "train", config], other)
            self.assertEqual(process.returncode, 5, process.stderr)
            self.assertIn("ranks disagree on the command", process.stderr)
            self.assertEqual(process.stderr.count("ddpm: error:"), 1, process.stderr)
        self.assertFalse((WORK / "mixed").exists())

    def test_ranks_that_see_different_folders_are_refused(self):
        for name in ("here", "there"):
            shutil.rmtree(WORK / name, ignore_errors=True)
            (WORK / name).mkdir()
        config = write_config(WORK / "apart.toml", "run", self.dataset)
        command = [DDPM, "train", config]
        process = on_two(["-wdir", WORK / "here", *command], ["-wdir", WORK / "there", *command])
        self.assertEqual(process.returncode, 4, process.stderr)
        self.assertRegex(process.stderr, r"rank 1 on \S+: run/\S+: cannot create: No such file or directory")
        self.assertEqual(files_below(WORK / "here") + files_below(WORK / "there"), [])

    def test_ranks_that_see_a_lock_of_another_start_are_refused(self):
        with Job("killed-here", self.dataset, 1, train={"steps": 100_000}) as job:
            job.wait_for_step(1)
            job.process.kill()
        for name in ("lock-here", "lock-there"):
            shutil.rmtree(WORK / name, ignore_errors=True)
            (WORK / name / "run").mkdir(parents=True)
        shutil.copy(job.run / "LOCK", WORK / "lock-there" / "run")
        config = write_config(WORK / "lock-apart.toml", "run", self.dataset)
        command = [DDPM, "train", config]
        process = on_two(["-wdir", WORK / "lock-here", *command], ["-wdir", WORK / "lock-there", *command])
        self.assertEqual(process.returncode, 4, process.stderr)
        self.assertRegex(process.stderr, r"rank 1 on \S+: run/LOCK names another owner here than on rank 0: run.directory is another")
        self.assertEqual(process.stderr.count("ddpm: error:"), 1, process.stderr)
        self.assertEqual(files_below(WORK / "lock-here"), ["run"])
        self.assertEqual(files_below(WORK / "lock-there"), ["run", "run/LOCK"])

    def test_a_limit_on_file_sizes_is_an_error(self):
        config = self.config("limited")
        # In blocks of 1024 bytes: room for small files, not for a shard.
        process = subprocess.run(
            ["bash", "-c", 'ulimit -f 20 && exec "$@"', "bash", DDPM, "train", str(config)],
            capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
        self.assertEqual(process.returncode, 4, process.stderr)
        self.assertIn("File too large", process.stderr)

    def test_new_folders_are_on_disk_with_all_their_parents(self):
        trace = WORK / "trace.txt"
        shutil.rmtree(WORK / "deep", ignore_errors=True)
        config = write_config(WORK / "deep.toml", WORK / "deep/er/run", self.dataset, train={"steps": 1})
        subprocess.run(
            ["strace", "-f", "-qq", "-y", "-o", str(trace), "-e", "trace=fsync,mkdir,rename", DDPM, "train", str(config)],
            capture_output=True, timeout=TIMEOUT_S, check=True,
        )  # fmt: skip
        lines = trace.read_text().splitlines()
        committed = next(i for i, line in enumerate(lines) if re.search(r'rename\(.*/step-00000001"', line))
        synced = set(re.findall(r"fsync\(\d+<([^>]*)>", "\n".join(lines[:committed])))
        for folder in (WORK, WORK / "deep", WORK / "deep/er", WORK / "deep/er/run"):
            self.assertIn(str(folder), synced)


if __name__ == "__main__":
    unittest.main(verbosity=2)
