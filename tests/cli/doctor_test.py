"""`ddpm doctor` and `ddpm env`: what they report, what they refuse, and that nothing is left behind. No figure depends on
how fast this machine is."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_job import is_running, ranks_of, wait_until  # noqa: E402
from ddpm_run import DDPM, MPIRUN, TIMEOUT_S, ddpm, make_dataset, write_config  # noqa: E402

WORK = pathlib.Path.cwd()
AREAS = ["ranks", "versions", "environment", "binding", "memory", "limits", "GPUs", "links", "clocks", "run folder"]
QUICK = ("--max-mib", 1, "--file-mib", 1)


def contexts(*commands):
    """One rank for each command, all of one job."""
    launcher = [*MPIRUN]
    for i, command in enumerate(commands):
        launcher += ([":"] if i else []) + ["-np", "1", *map(str, command)]
    return subprocess.run(launcher, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


def areas_of(answer):
    return list(dict.fromkeys(finding["area"] for finding in answer["findings"]))


class Doctor(unittest.TestCase):
    def setUp(self):
        self.folder = WORK / "runs"
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()

    def expect_nothing_left(self):
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_any_number_of_ranks(self):
        for ranks in (1, 2, 4):
            process = ddpm("doctor", "--output", self.folder / "x", "--json", *QUICK, ranks=ranks)
            answer = json.loads(process.stdout)
            self.assertEqual(answer["exit_code"], 0)
            self.assertEqual(areas_of(answer), AREAS)
            self.assertEqual(len(answer["ranks"]), ranks)
            self.assertEqual([host["ranks"] for host in answer["hosts"]], [list(range(ranks))])
            sizes = [point["bytes"] for curve in answer["all_reduce"] for point in curve["points"]]
            self.assertEqual(sizes, [1024 * 4**i for i in range(6)] if ranks > 1 else [])
            self.assertEqual(answer["folder"]["tested"], str(self.folder))
            self.assertEqual(len(answer["folder"]["visits"]), min(ranks, 2))
            for visit in answer["folder"]["visits"]:
                self.assertEqual((visit["error"], visit["damage"]), ("", ""))
            self.assertEqual(answer["folder"]["exclusive_creators"], [1] * 8)
            self.assertGreater(answer["hosts"][0]["machine"]["memory_bytes"], 0)
            self.expect_nothing_left()

    def test_the_report_is_for_people(self):
        text = ddpm("doctor", "--output", self.folder, *QUICK, ranks=2).stdout
        self.assertIn("2 ranks on 1 host, started by mpirun", text)
        self.assertIn("thread level multiple", text)
        for area in AREAS:
            self.assertRegex(text, rf"(?m)^(ok|note|warning) +{area} ")
        self.assertNotIn("\x1b", text)
        self.assertLessEqual(max(map(len, text.splitlines())), 100)
        self.expect_nothing_left()

    def test_a_folder_that_cannot_be_written_is_exit_code_4(self):
        # Not even root makes folders in /proc.
        for ranks in (1, 2):
            process = ddpm("doctor", "--output", "/proc/runs/x", "--json", *QUICK, ranks=ranks, check=False)
            self.assertEqual(process.returncode, 4, process.stderr)
            self.assertEqual(process.stderr.count("doctor: 1 problem"), 1, process.stderr)
            answer = json.loads(process.stdout)
            problems = [finding for finding in answer["findings"] if finding["severity"] == "problem"]
            self.assertEqual([problem["area"] for problem in problems], ["run folder"])
            self.assertIn("/proc", problems[0]["seen"])
            self.assertIn("--output", problems[0]["advice"])

    def test_another_environment_is_a_warning(self):
        command = [DDPM, "doctor", "--output", self.folder, "--json", *QUICK]
        process = contexts(command, ["env", "NCCL_ALGO=Tree", *command])
        self.assertEqual(process.returncode, 0, process.stderr)
        found = [one for one in json.loads(process.stdout)["findings"] if one["area"] == "environment"]
        self.assertEqual([one["severity"] for one in found], ["warning"])
        self.assertIn("NCCL_ALGO = (not set) on rank 0", found[0]["seen"])
        self.assertIn("Tree on rank 1", found[0]["seen"])

    def test_another_program_and_other_options_are_found_before_anything_else(self):
        other = WORK / "ddpm-of-yesterday"
        shutil.copy(DDPM, other)
        with other.open("ab") as program:  # what follows an ELF file is not read
            program.write(b"\0")
        options = ["doctor", "--output", self.folder, "--json", *QUICK]
        process = contexts([DDPM, *options], [other, *options])
        self.assertEqual(process.returncode, 5, process.stderr)
        self.assertIn("ranks run different programs", process.stderr)
        self.assertEqual(json.loads(process.stdout)["exit_code"], 5)
        process = contexts([DDPM, *options], [DDPM, *options, "--timeout", 70])
        self.assertEqual(process.returncode, 5, process.stderr)
        self.assertIn("ranks have different options", process.stderr)
        self.expect_nothing_left()

    def test_a_rank_that_stops_is_named_and_its_files_are_removed(self):
        # Large files: the test of the folder is surely not over when the rank is stopped.
        command = [DDPM, "doctor", "--output", str(self.folder), "--max-mib", "1", "--file-mib", "256", "--timeout", "10"]
        with subprocess.Popen(
            [*MPIRUN, "-np", "2", *command],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        ) as process:  # fmt: skip
            wait_until(lambda: any(self.folder.iterdir()), TIMEOUT_S, "the test of the folder")
            stopped = ranks_of(process.pid)[1]
            os.kill(stopped, signal.SIGSTOP)
            try:
                _, said = process.communicate(timeout=TIMEOUT_S)
            finally:
                if is_running(stopped):
                    os.kill(stopped, signal.SIGKILL)
        self.assertEqual(process.returncode, 5, said)
        # A rank speaks once a second: where it was last may be the part before.
        self.assertRegex(said, r"ddpm: error: .*rank 1 on \S+ is late: .*, silent for \d+ s; --timeout = 10")
        self.expect_nothing_left()

    def test_bad_options_are_usage(self):
        for options in (("--timeout", 0), ("--timeout", "nan"), ("--max-mib", 0), ("--file-mib", -1), ("x",)):
            failed = ddpm("doctor", *options, check=False)
            self.assertEqual(failed.returncode, 2, options)

    def test_training_starts_where_a_killed_doctor_left_its_files(self):
        left = self.folder / ".ddpm-doctor.tmp-0123456789abcdef"
        left.mkdir()
        config = write_config(WORK / "after.toml", self.folder, make_dataset(WORK / "squares"), train={"steps": 1})
        ddpm("train", config)
        self.assertTrue((self.folder / "model").exists())


class Env(unittest.TestCase):
    def test_a_first_thread_that_openmp_has_bound_is_let_go(self):
        plain = json.loads(ddpm("env", "--json").stdout)
        for bound in ({"OMP_PROC_BIND": "close", "OMP_PLACES": "cores"}, {"OMP_PLACES": "threads"}):
            answer = json.loads(ddpm("env", "--json", env=bound).stdout)
            self.assertEqual(answer["affinity"], plain["affinity"])
            self.assertEqual(answer["threads"], plain["threads"])

    def test_one_process_tells_of_itself(self):
        answer = json.loads(ddpm("env", "--json", env={"OMP_NUM_THREADS": "1", "NCCL_DEBUG": "WARN"}).stdout)
        self.assertEqual(answer["launcher"], "bare")
        self.assertEqual(answer["cpus_of_this_rank"], len(os.sched_getaffinity(0)))
        self.assertEqual(answer["kernel"], os.uname().release)
        self.assertEqual(answer["host"], os.uname().nodename)
        self.assertEqual(answer["environment"]["NCCL_DEBUG"], "WARN")
        self.assertNotIn("PATH", answer["environment"])
        self.assertEqual(answer["threads"], 1)
        self.assertRegex(answer["program_sha256"], r"^[0-9a-f]{64}$")
        text = ddpm("env", ranks=2).stdout
        self.assertRegex(text, r"(?m)^ranks +2$")
        self.assertRegex(text, r"(?m)^  open_files +-?\d+$")


if __name__ == "__main__":
    unittest.main(verbosity=2)
