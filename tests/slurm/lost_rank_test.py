"""Which node jobs/failed_nodes.sh holds responsible, by what launchers and the program write into a job's log, which nodes it leaves
out, and after which exit codes a training goes back into the queue: with stand-ins for Slurm's commands. (failed_nodes_test.py does it
with a real Slurm.)"""

import datetime
import re
import unittest

from stand_in_case import COMMON, SOURCE, StandInCase, failed_start

SRUN_KILLS_THE_OTHERS = """srun: error: node2: task 1: Killed
srun: Terminating StepId=1.0
slurmstepd: error: *** STEP 1.0 ON node1 CANCELLED AT 2026-11-27T12:00:00 ***
srun: error: node1: task 0: Killed
"""
ABORTED_UNDER_HYDRA = """=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
=   PID 33 RUNNING AT node2
=   EXIT CODE: {0}
=   CLEANING UP REMAINING PROCESSES
YOUR APPLICATION TERMINATED WITH THE EXIT STRING: {1} (signal {0})
This typically refers to a problem with your application.
"""
SAID = {
    "a rank that hangs": ("ddpm: error: rank 0 on node1: rank 1 on node2 is late: 9 s in forward at step 5; fault.step_timeout_s = 9\n", "node2"),
    "a rank that is killed": (SRUN_KILLS_THE_OTHERS, "node2"),
    "several tasks of a node": ("srun: error: node2: tasks 2-3: Segmentation fault\n", "node2"),
    "a rank whose memory ran out": (
        "slurmstepd: error: Detected 1 oom_kill event in StepId=1.0. Some of the step tasks have been OOM Killed.\n"
        "srun: error: node2: task 1: Out Of Memory\nsrun: Terminating StepId=1.0\nsrun: error: node1: task 0: Killed\n", "node2"),
    "several tasks whose memory ran out": ("srun: error: node2: tasks 2-3: Out Of Memory\n", "node2"),
    "a node that Slurm has lost": ("srun: error: Node failure on node2\n", "node2"),
    "a rank that is killed under mpirun": (
        "mpirun noticed that process rank 1 with PID 33 on node node2 exited on signal 9 (Killed).\n", "node2"),
    "a rank that is killed under mpirun of Open MPI 5": (
        "prterun noticed that process rank 1 with PID 33 on node node2 exited on\nsignal 9 (Killed).\n", "node2"),
    "a rank that is killed under Open MPI's mpiexec": (
        "mpiexec noticed that process rank 1 with PID 0 on node node2 exited on signal 11 (Segmentation fault).\n", "node2"),
    "a GPU that fails": (
        "ddpm: error: rank 1 on node2: rank 1 on node2 cannot communicate any more: NCCL: unhandled cuda error (Xid 79)\n", "node2"),
    "a rank behind a link that fails": (
        "ddpm: error: rank 0 on node1: rank 0 on node1 cannot communicate any more: NCCL: remote process exited or there was a network "
        "error (NET/IB: got completion with error 12)\n", ""),
    "a link that fails, and then the rank behind it": (
        "ddpm: error: rank 0 on node1: rank 0 on node1 cannot communicate any more: NCCL: unhandled system error (Connection reset by peer)\n"
        + SRUN_KILLS_THE_OTHERS, "node2"),
    "a message that fails": ("ddpm: error: rank 0 on node1: MPI_Wait failed on rank 0: MPI_ERR_OTHER: known error not in list\n", ""),
    "a rank that is killed under Hydra": (
        "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   PID 33 RUNNING AT node2\n=   EXIT CODE: 9\n"
        "=   CLEANING UP REMAINING PROCESSES\n", "node2"),
    "a rank that aborts under Hydra": (ABORTED_UNDER_HYDRA.format(6, "Aborted"), "node2"),
    "a rank that crashes under Intel MPI": (
        "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   RANK 1 PID 33 RUNNING AT node2\n"
        "=   KILLED BY SIGNAL: 11 (Segmentation fault)\n", "node2"),
    "an error of the program under Hydra": ("=   PID 33 RUNNING AT node2\n=   EXIT CODE: 3\n", ""),
    "an error of the program": ("ddpm: error: rank 1 on node2: set: no such file\nsrun: error: node2: task 1: Exited with exit code 3\n"
                                "srun: error: node1: task 0: Killed\n", ""),
    "a node that is not the job's": ("srun: error: node9: task 1: Killed\n", ""),
    "nothing": ("", ""),
}  # fmt: skip

# What ends a start with exit code 5, and may be gone with the next one, or is not.
PASSING = [
    "MPI_Wait failed on rank 0: MPI_ERR_OTHER: known error not in list",
    "the ranks have not met within 900 s (DDPM_START_TIMEOUT_S): some have not come, or cannot be reached from others",
    "rank 0 on node1 cannot communicate any more: NCCL: remote process exited or there was a network error",
    "no message arrives between node1 and node2",
]
FINAL = [
    "run: started 10 times from step 20 without reaching another checkpoint; look at what ended it, then remove run/starts.json",
    "SLURM_STEP_NUM_TASKS=2 promised 2 ranks, but MPI found a world of 1; start it with srun --mpi=pmix",
    "PALS_RANKID=1 promised at least 2 ranks, but MPI found a world of 1; start it with srun --mpi=pmi2",
    "the Slurm job has 2 tasks (SLURM_NTASKS), but the program was started bare as one rank; start it with srun --mpi=pmix",
    "srun started task 0 of 2 without a PMIx server (no PMIX_RANK); start it with srun --mpi=pmix",
    "ranks disagree on the configuration: 1 of 2 differ from rank 0: rank 1",
    "MPI provides thread level 1; MPI_THREAD_MULTIPLE (3) is wanted: use an MPI built for it",
]

# How an error of the program ends with exit code 3 or 4 where a file system's client fails for a while, or where it does not.
PASSING_FILE_ERRORS = [
    "Input/output error", "Stale file handle", "Connection timed out", "Cannot send after transport endpoint shutdown",
    "Transport endpoint is not connected", "Remote I/O error", "Input/output error; the next start compares the copy with its digests",
]  # fmt: skip
FINAL_FILE_ERRORS = ["No space left on device", "Disk quota exceeded", "Permission denied", "No such file or directory", "Is a directory"]
OF_HDF5 = "set.h5: cannot read: file read failed: time = Mon, filename = 'set.h5', errno = 5, error message = 'Input/output error', buf = 0x1"


class FailedNodes(StandInCase):
    def exclusions(self, now="", **variables):
        return self.call(f"exclusions '{now}'", **variables)

    def note(self, node, hours_ago):
        when = datetime.datetime.now() - datetime.timedelta(hours=hours_ago)
        with self.log.open("a") as log:
            log.write(f"{when:%F %T}: node {node} has failed: left out for 12 hours if the others suffice\n")

    def test_the_node_of_a_lost_rank(self):
        self.log.write_text("srun: error: node1: task 0: Killed\n")  # of an earlier start, which counts no more
        for name, (said, node) in SAID.items():
            with self.subTest(name):
                (self.here / "said").write_text(said)
                self.assertEqual(self.call('cat "$HERE/said" >&2; node_of_lost_rank'), node)

    def test_a_training_goes_back_after_what_may_pass(self):
        late = "ddpm: error: rank 0 on node1: rank 1 on node2 is late: 9 s in forward at step 5; fault.step_timeout_s = 9\n"
        rows = [(code, "", None) for code in (0, 1, 3, 4, 6, 127)]
        rows += [(code, "", f"a rank or the launcher is lost (exit code {code}); back into the queue") for code in (5, 9, 15, 137)]
        on_node2 = "a rank on node2 is lost (exit code {}); back into the queue"
        rows += [(5, late, on_node2.format(5)), (253, "srun: error: node2: task 1: Out Of Memory\n", on_node2.format(253)),
                 (9, "srun: error: node2: task 1: Killed\n", on_node2.format(9)), (75, "", "stopped; back into the queue")]  # fmt: skip
        rows += [(5, f"ddpm: error: rank 0 on node1: {reason}\n", "a rank or the launcher is lost (exit code 5); back into the queue") for reason in PASSING]
        rows += [(5, f"ddpm: error: {reason}\n", None) for reason in FINAL]
        # Hydra's exit codes are the numbers of signals: of SIGILL, SIGTRAP and SIGABRT, which are codes that the program has, too.
        rows += [(number, ABORTED_UNDER_HYDRA.format(number, "Some"), on_node2.format(128 + number)) for number in (4, 5, 6)]
        rows += [(code, ABORTED_UNDER_HYDRA.format(6, "Aborted"), why) for code, why in ((0, None), (75, "stopped; back into the queue"))]
        self.expect_back(rows)

    def expect_back(self, rows, **variables):
        """A training that ends with a code and a text goes back for a reason, or ends with that code."""
        for code, said, why in rows:
            with self.subTest(code=code, said=said):
                self.assertEqual(self.train(code, said, **variables), (75 if why else code, bool(why)), self.log.read_text())
                self.assertIn(why or "start 1: my.toml", self.log.read_text())

    def test_a_training_goes_back_where_a_node_has_lost_its_files_for_a_while(self):
        line = "ddpm: error: rank 1 on node2: /scratch/run/a file: cannot sync: {}\nsrun: error: node2: task 1: Exited with exit code {}\n"
        on_node2 = "a rank on node2 has lost its files (exit code {}); back into the queue"
        rows = [(3 + i % 2, line.format(error, 3 + i % 2), on_node2.format(3 + i % 2)) for i, error in enumerate(PASSING_FILE_ERRORS)]
        rows += [(3, f"ddpm: error: rank 1 on node2: {OF_HDF5}\n", on_node2.format(3))]
        rows += [(4, line.format(error, 4), None) for error in FINAL_FILE_ERRORS]
        passing, final = line.format(PASSING_FILE_ERRORS[0], 4), line.format(FINAL_FILE_ERRORS[0], 4)
        rows += [(4, passing + final, None), (4, final + passing, on_node2.format(4)), (2, passing, None), (6, passing, None)]
        rows += [(4, passing.replace("ddpm: error: ", "ddpm: warning: left in place: "), None)]
        # An earlier word of the line is no reason.
        rows += [(4, line.format("Input/output error: No space left on device", 4), None)]
        unnamed = "a rank has lost its files (exit code 4); back into the queue"
        rows += [(4, "ddpm: error: /scratch/run: cannot sync: Input/output error\n", unnamed)]
        # Rank 0 says it of whichever rank could not.
        rows += [(4, "ddpm: error: rank 0 on node1: MANIFEST.json: cannot open: Stale file handle: it cannot be read now, but may be whole\n", unnamed)]
        self.expect_back(rows)
        self.assertEqual(self.train(4, passing), (75, True))
        self.assertEqual(self.asked("ExcNodeList=node2"), 1)
        self.assertEqual(self.train(4, passing, to_log=False), (4, False))
        # Of a single rank the node is known.
        alone = [(3, "ddpm: error: /scratch/set: cannot read: Stale file handle\n", on_node2.format(3))]
        self.expect_back(alone, SLURM_JOB_NODELIST="node2", SLURM_JOB_NUM_NODES="1")

    def test_starts_that_lose_their_files_are_counted(self):
        passing = f"ddpm: error: rank 1 on node2: /scratch/set: cannot read: {PASSING_FILE_ERRORS[0]}\n"
        for starts, ended in ((8, (75, True)), (9, (3, False))):
            self.assertEqual(self.train(3, passing, before=starts * failed_start("my.toml")), ended, self.log.read_text())
        self.assertEqual(self.train(3, passing, DDPM_MAX_RESTARTS="1", SLURM_RESTART_COUNT="1"), (3, False), self.log.read_text())

    def test_hours_may_begin_with_a_zero(self):
        self.assertEqual(self.train(9, "srun: error: node2: task 1: Killed\n", DDPM_EXCLUDE_HOURS="08"), (75, True), self.log.read_text())
        self.assertIn("node node2 has failed: left out for 8 hours", self.log.read_text())

    def test_the_final_reasons_are_those_that_the_program_gives(self):
        """Each of them is found in the sources, where a text may be broken over lines and has its values in braces."""
        texts = "\n".join(re.sub(r'"\s*"', "", path.read_text()) for path in sorted((SOURCE / "src").rglob("*.cpp")))
        script = (SOURCE / "jobs/failed_nodes.sh").read_text()
        for reason in re.search(r"final_reasons='(.*)'", script).group(1).split("|"):
            self.assertIn(reason.replace("[0-9]+", "{}"), texts)
        for reason in ("; the next start compares the copy with its digests", "{}: it cannot be read now"):
            self.assertIn(reason, texts)

    def test_a_job_without_a_log_does_not_go_back_for_reasons_that_nobody_can_read(self):
        self.assertEqual(self.train(5, "", to_log=False), (5, False))
        self.assertEqual(self.train(9, "", to_log=False), (75, True))

    def test_starts_that_never_come_to_train_end_after_some(self):
        start = failed_start("my.toml")
        resumed = "ddpm: resuming run: 10 parameters, 20 images, steps 3 to 99\n"
        for before, said, again in (
            (8 * start, "", True), (9 * start, "", False), (9 * start, "ddpm: resuming with parallel.zero_stage = 1 (was 0)\n", False),
            (9 * start, resumed, True), (5 * start + resumed + 4 * start, "", True),
        ):  # fmt: skip
            with self.subTest(before=before.count(start), said=said):
                self.assertEqual(self.train(137, said, before=before), (75, True) if again else (137, False), self.log.read_text())
                self.assertEqual("10 starts in a row ended before training began: not once more" in self.log.read_text(), not again)

    def test_what_makes_a_dataset_goes_back_as_a_training_does(self):
        killed = "srun: error: node2: task 1: Killed\n"
        made = str(self.here / "set")
        rows = (("prepare", ("photos", "--output", made)), ("sample", ("--model", "run", "--output", made, "--format", "dataset")))
        for stage, words in rows:
            start = failed_start(" ".join(words))
            stopped = start + "2026-11-30 06:00:00: stopped; back into the queue\n"
            for code, said, before, ended in (
                (137, killed, "", 75), (5, f"ddpm: error: {PASSING[0]}\n", "", 75), (5, f"ddpm: error: {FINAL[1]}\n", "", 5),
                (3, f"ddpm: error: {made}: cannot read: {PASSING_FILE_ERRORS[0]}\n", "", 75), (0, "", "", 0), (2, "", "", 2), (6, "", "", 6),
                (137, killed, 8 * start, 75), (137, killed, 9 * start, 137), (137, killed, 9 * stopped, 75),
            ):  # fmt: skip
                with self.subTest(stage=stage, code=code, before=before.count(" start ")):
                    self.assertEqual(self.job(stage, words, code, said, before=before), (ended, ended == 75), self.log.read_text())
                    self.assertIn(f"start 1: {' '.join(words)}", self.log.read_text())
                    bounded = "10 starts in a row ended before the set was whole: not once more" in self.log.read_text()
                    self.assertEqual(bounded, ended == 137)
            self.assertEqual(self.job(stage, words, 137, killed), (75, True))
            self.assertIn("a rank on node2 is lost (exit code 137); back into the queue", self.log.read_text())
            self.assertEqual(self.asked("ExcNodeList=node2"), 1)
            last = {"DDPM_MAX_RESTARTS": "1", "SLURM_RESTART_COUNT": "1"}
            self.assertEqual(self.job(stage, words, 137, killed, **last), (137, False), self.log.read_text())
        # Pictures would begin anew.
        self.assertEqual(self.job("sample", ("--model", "run", "--output", "grid.png"), 137, killed), (137, False))

    def test_a_busy_controller_is_asked_again(self):
        killed = "srun: error: node2: task 1: Killed\n"
        for times, updated in (({}, 1), ({"job": 2, "requeue": 3}, 1), ({"job": 1000}, 0)):
            with self.subTest(times):
                self.refuse(**times)
                self.assertEqual(self.train(9, killed), (75, True), self.log.read_text())
                self.assertEqual(self.asked("update"), updated)
        self.refuse(requeue=1000)
        self.assertEqual(self.train(9, killed), (9, False), self.log.read_text())
        self.assertIn("it is not taken back", self.log.read_text())

    def test_a_job_that_is_over_does_not_go_back(self):
        for state in ("CANCELLED", "TIMEOUT"):
            self.assertEqual(self.train(9, "", STATE=state), (9, False), self.log.read_text())
        self.assertEqual(self.train(9, "", STATE=""), (75, True), self.log.read_text())

    def test_what_is_excluded_stays_where_slurm_tells_no_nodes(self):
        self.script("sinfo", "#!/bin/sh\nexit 1\n")
        self.assertEqual(self.train(9, "srun: error: node2: task 1: Killed\n", EXCLUDED="node5"), (75, True), self.log.read_text())
        self.assertEqual(self.asked("update"), 0)

    def test_signals_that_come_while_the_job_decides_are_kept(self):
        for number, ended in (("USR1", (75, True)), ("TERM", (9, False))):
            with self.subTest(number):
                (self.here / "meanwhile").write_text(f'kill -{number} "$(cat "$HERE/pid")"; /usr/bin/sleep 0.2\n')
                self.assertEqual(self.train(9, ""), ended, self.log.read_text())

    def test_a_log_that_is_no_file_names_nobody(self):
        self.note("node2", 1)
        (self.here / "said").write_text(SRUN_KILLS_THE_OTHERS)
        again = f"exec 2>/dev/null; bash -c '{COMMON}; . \"{SOURCE}/jobs/failed_nodes.sh\"; cat \"$HERE/said\" >&2; node_of_lost_rank; exclusions \"\"'"
        self.assertEqual(self.call(again), "")

    def test_nodes_that_failed_are_left_out_and_forgotten(self):
        self.note("node2", 1)
        self.note("node3", 13)
        self.assertEqual(self.exclusions(), "node2")
        self.assertEqual(self.exclusions(DDPM_EXCLUDE_HOURS="20"), "node2,node3")
        self.assertEqual(self.exclusions(DDPM_EXCLUDE_HOURS="0"), "")

    def test_what_the_owner_has_excluded_stays(self):
        self.note("node2", 1)
        self.note("node3", 13)
        self.assertEqual(self.exclusions("node3,node5"), "node2,node5")
        self.assertEqual(self.exclusions("node2,node5", DDPM_EXCLUDE_HOURS="0"), "node5")

    def test_the_job_keeps_enough_nodes(self):
        for i in (5, 4, 3, 2):  # node2 failed last
            self.note(f"node{i}", i)
        self.assertEqual(self.exclusions(), "node2,node3,node4")
        self.assertEqual(self.exclusions(SLURM_JOB_NUM_NODES="4"), "node2")
        self.assertEqual(self.exclusions(SLURM_JOB_NUM_NODES="5"), "")
        self.assertEqual(self.exclusions(DDPM_MAX_EXCLUDED="1"), "node2")
        # A node that is down takes no work anyway, and is none of those that are left.
        self.usable("node1 idle", "node2 down*", "node3 idle*", "node4 mix", "node5 alloc")
        self.assertEqual(self.exclusions(), "node2,node3,node4")

    def test_a_node_that_was_lost_before(self):
        start = "2026-11-27 12:00:00: job 7 on node1,node2, start 1: my.toml\n"
        node = "NodeName={} State={} SlurmdStartTime={}\n"
        well = node.format("node1", "IDLE", "2026-11-20T09:00:00")
        cases = {
            "it is down": (start, node.format("node2", "DOWN*", "2026-11-20T09:00:00"), "node2"),
            "it has started anew": (start, node.format("node2", "ALLOCATED", "2026-11-27T12:05:00"), "node2"),
            "it is well": (start, node.format("node2", "ALLOCATED", "2026-11-27T11:59:00"), ""),
            "the script itself went back": (start + "2026-11-27 12:01:00: stopped; back into the queue\n",
                                            node.format("node2", "DOWN*", "2026-11-20T09:00:00"), ""),
            "no start before": ("", node.format("node2", "DOWN*", "2026-11-20T09:00:00"), ""),
        }  # fmt: skip
        for name, (log, second, wanted) in cases.items():
            with self.subTest(name):
                self.log.write_text(log)
                (self.here / "nodes").write_text(well + second)
                self.assertEqual(self.call("nodes_lost_before"), wanted)
        # An administrator who starts all slurmd anew loses nobody a node.
        self.log.write_text(start)
        (self.here / "nodes").write_text("".join(node.format(f"node{i}", "IDLE", "2026-11-27T12:05:00") for i in (1, 2)))
        self.assertEqual(self.call("nodes_lost_before"), "")


if __name__ == "__main__":
    unittest.main(verbosity=2)
