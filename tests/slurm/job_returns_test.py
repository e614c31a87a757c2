"""When jobs of Slurm come back, by what their log says of earlier starts, and which signals they keep: with stand-ins for Slurm's
commands. lost_rank_test.py has what exit codes and launchers tell."""

import subprocess
import unittest

from stand_in_case import SOURCE, StandInCase, failed_start

MADE = ("photos", "--output", "/nowhere/set")
WORDS = " ".join(MADE)
OWN_START = f"2026-11-30 05:00:00: job 7 on node1,node2, start 1: {WORDS}\n"
IN_VAIN = "10 starts in a row ended before the set was whole: not once more"


class JobReturns(StandInCase):
    def prepare(self, code, **variables):
        return self.job("prepare", MADE, code, "", **variables)

    def test_starts_that_slurm_has_ended_are_no_failures(self):
        """A requeue that Slurm orders leaves the line of its start alone."""
        self.assertEqual(self.prepare(137, before=20 * OWN_START), (75, True), self.log.read_text())
        self.assertEqual(self.prepare(137, before=8 * (failed_start(WORDS) + OWN_START)), (75, True), self.log.read_text())
        self.assertEqual(self.prepare(137, before=9 * (failed_start(WORDS) + OWN_START)), (137, False), self.log.read_text())
        self.assertIn(IN_VAIN, self.log.read_text())

    def test_what_slurm_takes_back_itself_is_bounded_too(self):
        """A dataset, say, whose every start takes a node down: nothing of that is left in the log to be counted."""
        stages = (("train", ("my.toml",)), ("prepare", MADE), ("sample", ("--model", "run", "--output", "/nowhere/set", "--format", "dataset")))
        for stage, words in stages:
            for count, ended in (("100", 0), ("101", 75)):
                with self.subTest(stage=stage, count=count):
                    returned = self.job(stage, words, 0, "ranks ran\n", before=20 * OWN_START, SLURM_RESTART_COUNT=count)
                    self.assertEqual(returned, (ended, False), self.log.read_text())
                    self.assertEqual("ranks ran" in self.log.read_text(), ended == 0)
                    bounded = "job 7 has come back 101 times, and DDPM_MAX_RESTARTS is 100: it does not begin" in self.log.read_text()
                    self.assertEqual(bounded, ended == 75)

    def test_a_preemption_with_time_to_end_is_no_failure(self):
        when = "2026-11-30T05:00:00"
        self.assertEqual(self.prepare(143, before=9 * failed_start(WORDS), PREEMPTED=when), (75, True), self.log.read_text())
        self.assertIn(": preempted; back into the queue\n", self.log.read_text())
        self.assertEqual(self.prepare(143, before=9 * failed_start(WORDS)), (143, False), self.log.read_text())
        self.assertEqual(self.prepare(137, before=9 * failed_start(WORDS), PREEMPTED=when), (137, False), self.log.read_text())
        preempted = OWN_START + "2026-11-30 05:01:00: preempted; back into the queue\n"
        self.assertEqual(self.prepare(137, before=20 * preempted), (75, True), self.log.read_text())

    def test_other_jobs_in_the_log_do_not_count(self):
        others = 9 * failed_start(WORDS, job="8") + 9 * failed_start(WORDS, job="7 (task 5_1)")
        self.assertEqual(self.prepare(137, before=others), (75, True), self.log.read_text())
        training = OWN_START.replace("job 7", "job 8") + "ddpm: starting run: 10 parameters\n"
        self.assertEqual(self.prepare(137, before=9 * failed_start(WORDS) + training), (137, False), self.log.read_text())

    def test_a_node_is_not_lost_by_another_job(self):
        lost = "NodeName=node1 State=IDLE SlurmdStartTime=None\nNodeName=node2 State=DOWN* SlurmdStartTime=None\n"
        (self.here / "nodes").write_text(lost)
        for job, node in ((7, "node2"), (8, "")):
            self.log.write_text(f"2026-11-27 12:00:00: job {job} on node1,node2, start 1: my.toml\n")
            self.assertEqual(self.call("nodes_lost_before"), node)

    def test_signals_that_come_while_modules_are_loaded_are_kept(self):
        site = self.here / "site.sh"
        drawn = ("--model", "run", "--output", "/nowhere/set", "--format", "dataset")
        for stage, words in (("train", ("my.toml",)), ("prepare", MADE), ("sample", drawn), ("sample", drawn[:4])):
            for name in ("USR1", "TERM"):
                with self.subTest(stage=stage, words=words, signal=name):
                    site.write_text(f"kill -{name} $$\n")
                    again = name == "USR1" and words != drawn[:4]  # pictures are drawn nevertheless
                    ended = (0, False) if words == drawn[:4] and name == "USR1" else (75, again)
                    self.assertEqual(self.job(stage, words, 0, "", DDPM_SITE=str(site)), ended, self.log.read_text())

    def by_hand(self, script):
        """What bash prints that has job.sh, outside of a job."""
        environment = {"PATH": f"{self.here}:/usr/bin:/bin", "HERE": str(self.here), "DDPM": "/bin/ddpm"}
        done = subprocess.run(["bash", "-euc", f". '{SOURCE}/jobs/job.sh'; {script}"], env=environment, capture_output=True, text=True,
                              timeout=20, check=True)  # fmt: skip
        return done.stdout.strip()

    def test_a_signal_between_the_start_and_its_traps_is_passed_on(self):
        between = 'trap() { case $1 in *pass_on) [ -n "$stopped_by" ] || kill -USR1 $$ ;; esac; builtin trap "$@"; }'
        run = "code=0; until_signalled sleep 15 || code=$?; echo $code $stopped_by"
        self.assertEqual(self.by_hand(f"stopped_by=; keep_signals; {between}; {run}"), "75 USR1")

    def test_what_srun_itself_fails_at_has_a_code_that_comes_back(self):
        self.assertEqual(self.by_hand("echo $SLURM_EXIT_ERROR"), "253")
        self.assertEqual(self.job("train", ("my.toml",), 253, "srun: error: Unable to create step\n"), (75, True), self.log.read_text())

    def test_options_that_srun_refuses_end_the_job_as_a_configuration(self):
        """The lines and codes are those of srun 22.05 under SLURM_EXIT_ERROR=253."""
        training, pictures = ("train", ("my.toml",)), ("sample", ("--model", "run", "--output", "grid.png"))
        for (stage, words), code, line in (
            (training, 255, "srun: unrecognized option '--mpj=pmix'"), (("prepare", MADE), 255, "srun: invalid option -- '~'"),
            (training, 255, "srun: option '--k' is ambiguous; possibilities: '--kill-on-bad-exit' '--kill-on-invalid-dep'"),
            (pictures, 255, "srun: error: Invalid --distribution specification"), (training, 255, 'srun: error: "x" is not a valid node count'),
            (training, 253, 'srun: error: unrecognized --hint argument "zz", see --hint=help'),
            (training, 253, "srun: error: Couldn't find the specified plugin name for mpi/pmixx looking at all files"),
            (training, 1, 'srun: error: Invalid numeric value "zz" for --kill-on-bad-exit.'),
        ):  # fmt: skip
            with self.subTest(stage=stage, line=line):
                said = f'{line}\nTry "srun --help" for more information\n'
                self.assertEqual(self.job(stage, words, code, said), (2, False), self.log.read_text())
                self.assertIn(f"the launcher does not take what it is told ({line})", self.log.read_text())
        # Behind a line of the program, or of an earlier start, it is none of this start's launcher.
        line = "srun: unrecognized option '--mpj=pmix'\n"
        self.assertEqual(self.job("train", ("my.toml",), 137, f"ddpm: starting run\n{line}"), (75, True), self.log.read_text())
        self.assertEqual(self.job("train", ("my.toml",), 137, "", before=line), (75, True), self.log.read_text())
        self.assertEqual(self.job("train", ("my.toml",), 75, line), (75, True), self.log.read_text())

    def test_by_hand_a_signal_ends_the_command(self):
        site = self.here / "site.sh"
        site.write_text("kill -USR1 $$\n")
        self.assertEqual(self.job("prepare", MADE, 0, "", DDPM_SITE=str(site), SLURM_JOB_ID=""), (75, False), self.log.read_text())
        self.assertNotIn("back into the queue", self.log.read_text())


if __name__ == "__main__":
    unittest.main(verbosity=2)
