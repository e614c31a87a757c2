"""The account of a soak on runs that are written by hand: what counts as lost, how goodput is reckoned, and what is noticed; and when a
soak has tested nothing, or not what it should."""

import contextlib
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import types
import unittest
from unittest import mock

TESTS = pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests"
sys.path[:0] = [str(TESTS / "support"), str(TESTS / "faults"), str(TESTS)]
import account  # noqa: E402
import launcher  # noqa: E402
import places  # noqa: E402
import processes  # noqa: E402
import soak  # noqa: E402
from record import Acknowledged, Record, seconds_of_useful_steps  # noqa: E402
from schedule import KINDS, Fault, schedule  # noqa: E402

WORK = pathlib.Path.cwd()


def lines(*steps, seconds=0.5):
    return [{"step": step, "seconds_per_step": seconds} for step in steps]


class Schedules(unittest.TestCase):
    def test_a_seed_has_one_schedule_and_another_seed_another(self):
        kinds = list(KINDS)
        self.assertEqual(schedule(3, 3600, 40, kinds), schedule(3, 3600, 40, kinds))
        self.assertNotEqual(schedule(3, 3600, 40, kinds), schedule(4, 3600, 40, kinds))

    def test_kinds_come_equally_often_and_stretches_have_one_fault_each(self):
        faults = schedule(1, 3600, 40, list(KINDS))
        self.assertEqual(len(faults), 90)
        self.assertEqual([int(fault.at // 40) for fault in faults], list(range(90)))
        counts = [sum(fault.kind == kind for fault in faults) for kind in KINDS]
        self.assertLessEqual(max(counts) - min(counts), 1)


class Runs(unittest.TestCase):
    """A run folder that grows by hand, looked at at times that are made up."""

    def setUp(self):
        self.run = WORK / "by-hand"
        shutil.rmtree(self.run, ignore_errors=True)
        self.run.mkdir()
        self.record = Record(self.run)

    def write(self, now, *steps, begin=None):
        if begin is not None:
            with (self.run / "usage.jsonl").open("a") as file:
                file.write(json.dumps({"event": "begin", "from": begin}) + "\n")
        (self.run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines(*steps)))
        self.record.look(now)

    def killed_once(self):
        """Begins at 1 s, makes two steps a second, is killed at 11 s after step 20, and goes on from step 16 at 13 s."""
        self.write(1.0, begin=0)
        for i in range(20):
            self.write(1.5 + i / 2, *range(1, i + 2))
        self.write(13.0, *range(1, 17), begin=16)
        for i in range(16, 30):
            self.write(13.5 + (i - 16) / 2, *range(1, i + 2))
        return [{"at": 11.1, "kind": "rank", "hit": "rank 1", "step": 20}]

    def test_goodput_of_a_run_that_is_killed_once(self):
        faults = self.killed_once()
        told = account.figures(self.record, faults, [(11.3, 137)], [0.5, 11.4], 20.0, lines(*range(1, 31)))
        self.assertEqual((told["starts"], told["launches"], told["lost_steps"], told["useful_steps"]), (2, 2, 4, 30))
        self.assertAlmostEqual(told["steps_per_second_undisturbed"], 2.0)
        self.assertAlmostEqual(told["goodput"], 30 / 40)
        self.assertAlmostEqual(told["goodput_by_step_times"], 15 / 20)
        spans = told["median_seconds"]
        for name, seconds in (("until_the_end", 0.2), ("until_it_begins", 1.6), ("until_the_first_step", 0.5), ("in_all", 2.4)):
            self.assertAlmostEqual(spans[name], seconds, msg=name)
        self.assertEqual(told["exit_codes"], {137: 1})
        self.assertIn("goodput", account.table({**told, "load": {"mean": 1.5, "highest": 2.0}, "processors": 2}))

    def test_a_fault_that_ends_nothing_has_no_time_until_the_next_step(self):
        faults = [{"at": 5.0, "kind": "disk", "hit": "ext4 full", "step": 7}, *self.killed_once()]
        told = account.figures(self.record, faults, [(11.3, 137)], [0.5, 11.4], 20.0, lines(*range(1, 31)))
        self.assertIsNone(told["by_kind"]["disk"]["seconds_to_next_step"])
        self.assertAlmostEqual(told["by_kind"]["rank"]["seconds_to_next_step"], 2.4)

    def test_a_start_that_makes_no_step_is_no_recovery(self):
        self.killed_once()
        self.write(21.0, *range(1, 29), begin=28)
        self.assertIsNone(self.record.recovery(20.5))
        self.write(22.0, *range(1, 27), begin=26)
        self.write(23.0, *range(1, 28))
        self.assertEqual(self.record.recovery(20.5), 23.0)

    def test_a_slow_first_step_of_a_start_counts_as_a_usual_one(self):
        told = [*lines(1, seconds=5.0), *lines(*range(2, 10)), *lines(10, seconds=7.0)]
        self.assertAlmostEqual(seconds_of_useful_steps(told, [(0.0, 0), (9.0, 9)]), 5.0)

    def test_half_a_line_is_left_for_later(self):
        self.write(1.0, 1, begin=0)
        with (self.run / "usage.jsonl").open("a") as file:
            file.write('{"event": "begin", ')
        (self.run / "metrics.jsonl").write_text('{"step": 1}\n{"st')
        self.record.look(2.0)
        self.assertEqual((self.record.newest, len(self.record.begins)), (1, 1))
        with (self.run / "usage.jsonl").open("a") as file:
            file.write('"from": 1}\n')
        self.record.look(3.0)
        self.assertEqual(self.record.begins, [(1.0, 0), (3.0, 1)])


class Judged(unittest.TestCase):
    def setUp(self):
        self.run = WORK / "judged"
        shutil.rmtree(self.run, ignore_errors=True)
        (self.run / "checkpoints" / "step-00000003").mkdir(parents=True)

    def test_a_run_that_is_whole(self):
        self.assertEqual(account.what_is_wrong(self.run, lines(1, 2, 3), 3), [])

    def test_steps_that_are_missing_or_there_twice_are_noticed(self):
        for steps, line in (((1, 3), 2), ((1, 2, 2, 3), 3), ((1, 2), 3), ((1, 2, 3, 4), 4)):
            with self.subTest(steps=steps):
                (wrong,) = account.what_is_wrong(self.run, lines(*steps), 3)
                self.assertIn(f"line {line}", wrong)

    def test_what_a_save_has_left_is_noticed(self):
        (self.run / "checkpoints" / ".tmp-step-00000004-12").mkdir()
        (self.run / "LOCK").touch()
        (wrong,) = account.what_is_wrong(self.run, lines(1, 2, 3), 3)
        self.assertIn("LOCK, checkpoints/.tmp-step-00000004-12", wrong)


class Acknowledgements(unittest.TestCase):
    WRITTEN = "ddpm: checkpoint run/checkpoints/step-{:08} written: 1.0 MB in 0.1 s\n"
    GOES_ON = "ddpm: resuming run: 10 parameters, 20 images, steps {} to 99\n"

    def test_a_start_from_the_newest_is_right_and_from_an_older_one_is_not(self):
        said = self.WRITTEN.format(10) + self.WRITTEN.format(20)
        self.assertEqual(Acknowledged().lost(said + self.GOES_ON.format(21)), [])
        (wrong,) = Acknowledged().lost(said + self.GOES_ON.format(11))
        self.assertIn("from step 10, after step 20", wrong)

    def test_what_is_damaged_before_it_is_reported_is_not_lost_either(self):
        said = self.WRITTEN.format(10)
        acknowledged = Acknowledged()
        acknowledged.damaged.append((len(said), 20))  # its folder is there, and the line is on its way
        self.assertEqual(acknowledged.lost(said + self.WRITTEN.format(20) + self.GOES_ON.format(11)), [])
        again = said + self.WRITTEN.format(20) + self.GOES_ON.format(11) + self.WRITTEN.format(20) + self.GOES_ON.format(11)
        self.assertEqual(len(acknowledged.lost(again)), 1)

    def test_paths_may_have_blanks(self):
        said = (self.WRITTEN.format(10) + self.WRITTEN.format(20) + self.GOES_ON.format(11)).replace(" run", " /scratch/my own/run")
        (wrong,) = Acknowledged().lost(said, 1)
        self.assertIn("from step 10, after step 20", wrong)

    def test_a_start_that_does_not_say_where_it_goes_on_is_noticed(self):
        said = self.WRITTEN.format(10) + self.GOES_ON.format(11)
        self.assertEqual(Acknowledged().lost(said, 1), [])
        (wrong,) = Acknowledged().lost(said, 2)
        self.assertIn("2 starts have made steps, and 1 have said", wrong)

    def test_what_was_damaged_may_be_lost_until_it_is_written_again(self):
        said = self.WRITTEN.format(10) + self.WRITTEN.format(20)
        acknowledged = Acknowledged()
        acknowledged.damaged.append((len(said), 20))
        again = said + self.GOES_ON.format(11) + self.WRITTEN.format(20)
        self.assertEqual(acknowledged.lost(again + self.GOES_ON.format(21)), [])
        self.assertEqual(len(acknowledged.lost(again + self.GOES_ON.format(11))), 1)


class Place:
    """A place in which nothing is trained: each start ends with the next of some exit codes."""

    def __init__(self, *codes, asked=True):
        self.codes, self.asked, self.began = list(codes), asked, 0

    def begin(self, *_arguments):
        self.began += 1

    def tend(self):
        pass

    def ranks(self):
        return {}

    def poll(self):
        return self.codes.pop(0)

    def stop(self):
        return self.codes.pop(0), self.asked

    def close(self):
        pass


class Soaks(unittest.TestCase):
    def setUp(self):
        self.work = WORK / "soaks"
        shutil.rmtree(self.work, ignore_errors=True)
        (self.work / "run" / "checkpoints" / "step-00000002").mkdir(parents=True)
        (self.work / "run" / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines(1, 2, 3)))
        self.args = types.SimpleNamespace(
            kinds=["rank"], seed=1, minutes=0.02, failure_every=0.5, size=16, ranks=2, micro_size=2, channels=(8,), save_every=5,
            step_timeout=5, launcher="mpirun", nodes=0, link_mbit=0, reference_ranks=0,
        )  # fmt: skip
        self.soak = soak.Soak(self.args, self.work)

    def stopped(self, code, asked=True, recovered=True):
        self.soak.place = Place(code, asked=asked)
        self.soak.faults = [{"at": 5.0}]
        self.soak.record.begins = [(0.5, 0), (6.0, 1)]
        self.soak.record.steps = [(1.0, 1), *([(7.0, 2)] if recovered else [])]
        return self.soak.stop()

    def test_a_run_that_was_asked_to_save_and_end_has_done_so(self):
        self.assertEqual([line["step"] for line in self.stopped(75)], [1, 2])
        for code in (0, 5, 137):
            with self.assertRaisesRegex(soak.Lost, f"has ended with exit code {code}; wanted: 75"):
                self.stopped(code)
        # Without ranks nobody was asked, and a fault just before the end has its own exit code.
        self.stopped(137, asked=False)
        self.stopped(137, recovered=False)

    def test_a_rank_hangs_only_where_steps_have_a_deadline(self):
        self.soak.place = Place()
        self.soak.place.inject = lambda fault: "rank 1"
        hang = Fault(0.0, "hang", 0.5)
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertFalse(self.soak.inject(hang))
            self.soak.record.begins, self.soak.record.steps = [(0.5, 0), (6.0, 1)], [(1.0, 1)]
            self.assertFalse(self.soak.inject(hang))
            self.assertTrue(self.soak.inject(Fault(0.0, "rank", 0.5)))
            self.soak.record.steps.append((7.0, 2))
            self.assertTrue(self.soak.inject(hang))

    def test_a_bug_in_the_last_start_is_not_tried_again(self):
        self.soak.place = Place(1, 0)
        with self.assertRaisesRegex(soak.Lost, r"exit code 1 \(a bug\)"):
            self.soak.finish(10)
        self.soak.place = Place(137, 0)
        self.soak.finish(10)
        self.assertEqual(self.soak.place.began, 2)

    def test_an_exit_code_is_explained_by_faults_since_the_start_alone(self):
        explained = {4: {"disk", "damage"}, 5: {"rank", "launcher", "node", "damage", "hang"}, 75: {"stop", "term"}}
        for code in (0, 1, 2, 3, 4, 5, 6, 75, 137, -9):
            for kind in KINDS:
                with self.subTest(code=code, kind=kind):
                    self.soak.place = Place()
                    self.soak.launches, self.soak.faults = [0.0, 10.004], [{"at": 10.0, "kind": kind}]
                    if code in (137, -9) or kind in explained.get(code, ()):
                        self.soak.ended(code)
                        self.soak.idle_starts = 0
                        self.soak.launches.append(20.0)
                    if code not in (137, -9):
                        with self.assertRaisesRegex(soak.Lost, f"exit code {code} "):
                            self.soak.ended(code)

    def refusal(self, refused=None):
        """What is said of a soak, or of what else is refused with exit code 2."""
        said = io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()), self.assertRaises(SystemExit) as ended:
            refused() if refused else soak.soak(self.args, self.work)
        self.assertEqual(ended.exception.code, 2)
        self.assertEqual(said.getvalue().count("\n"), 1, said.getvalue())
        return said.getvalue()

    def test_a_soak_without_a_fault_is_none(self):
        with mock.patch.object(sys, "argv", ["soak.py", "--minutes", "0.5", "--failure-every", "60"]):
            self.assertIn("a failure every 60 s is none in 0.5 minutes", self.refusal(soak.arguments))
        place = Place(*[None] * 10000)
        place.inject = lambda _fault: None
        with mock.patch.object(soak, "make_dataset"), mock.patch.object(soak, "make_place", lambda *_: place):
            self.assertIn("no fault was injected: the first one (rank) found nothing that it could hit", self.refusal())

    def test_a_fault_that_finds_nothing_does_not_keep_the_others_waiting(self):
        self.soak.place = Place(*[None] * 10000)
        self.soak.place.inject = lambda fault: None if fault.kind == "launcher" else "rank 1"
        faults = [Fault(0.0, "launcher", 0.5), Fault(0.1, "rank", 0.5), Fault(0.2, "launcher", 0.5), Fault(0.3, "term", 0.5), Fault(99.0, "rank", 0.5)]
        self.args.failure_every = 0.2
        with mock.patch.object(soak, "FAULT_PATIENCE_S", 0.1), mock.patch.object(self.soak, "config"), contextlib.redirect_stdout(io.StringIO()):
            _, left_out, still_to_come = self.soak.disturb(faults, 2.0)
        self.assertEqual((left_out, still_to_come), (2, 1))
        self.assertEqual([fault["kind"] for fault in self.soak.faults], ["rank", "term"])

    def test_a_soak_most_of_whose_faults_were_left_out_has_tested_too_little(self):
        told = {"wrong": [], "faults_planned": 20, "faults_left_out": 3}
        self.assertIn("3 of 20 faults found nothing that they could hit", self.refusal(lambda: soak.verdict(told)))
        with contextlib.redirect_stdout(io.StringIO()) as said:
            self.assertEqual(soak.verdict({**told, "faults_left_out": 2}), 0)
            self.assertEqual(soak.verdict({**told, "wrong": ["a step"]}), 1)
        self.assertIn("nothing was lost", said.getvalue())

    def test_the_launcher_is_the_process_that_the_place_has_started(self):
        """Whatever its name is."""
        place = places.UnderLauncher("any", self.work / "said", "mark", ["flux", "run"])
        with subprocess.Popen(["sleep", "60"]) as place._process:
            self.assertEqual(place.inject(Fault(0.0, "launcher", 0.5)), f"process {place._process.pid}")
            self.assertEqual(place._process.wait(timeout=10), -9)
        self.assertIsNone(place.inject(Fault(0.0, "launcher", 0.5)))

    def test_what_cannot_be_set_up_is_one_line(self):
        with mock.patch.object(soak, "make_dataset", side_effect=AssertionError("ddpm data create: exit code 5\nddpm: error: alone\n")):
            self.assertIn("ddpm data create: exit code 5 ddpm: error: alone", self.refusal())

    def test_a_program_that_is_started_bare_sees_nothing_of_an_allocation(self):
        told = {"SLURM_NTASKS", "SLURM_JOB_ID", "PMI_RANK", "PMIX_RANK", "PALS_RANKID", "FLUX_JOB_SIZE", "OMPI_COMM_WORLD_SIZE"}
        with mock.patch.dict(os.environ, {**dict.fromkeys(told, "2"), "OMPI_MCA_btl": "tcp"}):
            left = launcher.without_launchers()
        self.assertEqual(told & set(left), set())
        self.assertLessEqual({"OMPI_MCA_btl", "PATH"}, set(left))

    def test_the_variables_of_launchers_are_those_that_the_program_knows(self):
        rows = re.findall(r"^    Told\{(.*?)\},", (TESTS.parent / "src" / "comm" / "launch.cpp").read_text(), re.MULTILINE)
        told = [re.findall(r'"(\w+)"|nullptr', row) for row in rows]
        self.assertGreater(len(told), 5)
        self.assertEqual({rank for *_, rank, _ in told}, set(launcher.RANK_VARIABLES))
        for name in filter(None, sum(told, [])):
            self.assertTrue(name.startswith(launcher.PREFIXES), name)

    def test_what_sigkill_does_not_end_is_named(self):
        stuck = processes.Process(2**22 + 1, "ddpm", "D", 1, "host")
        with mock.patch.object(processes, "marked", lambda _mark: [stuck]), mock.patch.object(processes, "KILL_PATIENCE_S", 0.2):
            with self.assertRaisesRegex(AssertionError, r"these are left 0.2 s after SIGKILL: ddpm \(4194305, in state D\)"):
                processes.end_all("mark", 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
