"""Nodes that fail under jobs/train.sbatch, in a Slurm cluster with one node more than the job needs: the job goes back into the queue
and does without them, and its weights are those of a run that nothing has disturbed."""

import os
import shutil
import signal
import sys
import unittest

from cluster import PATIENCE_S
from cluster_case import SOURCE, WORK, ClusterCase
from ddpm_job import sha256_of_model
from ddpm_run import DDPM, metrics
from launcher import LAUNCHER, variables_of_launcher

sys.path.insert(0, str(SOURCE / "tests" / "faults"))
import processes  # noqa: E402

STEPS = 150
SECTIONS = {
    "train": {"steps": STEPS}, "batch": {"global_size": 8, "micro_size": 2}, "checkpoint": {"every_steps": 10},
    "fault": {"step_timeout_s": 8},
}  # fmt: skip


class FailedNodes(ClusterCase):
    nodes = 3

    def submit(self, name, nodes=2, **environment):
        """A job with two ranks on each of two nodes, or one on each of three, and its log."""
        config = self.config(name, **SECTIONS)
        log = WORK / f"{name}.log"
        log.unlink(missing_ok=True)
        variables = {"DDPM_JOBS": str(SOURCE / "jobs"), processes.MARK: name,
                     **variables_of_launcher(WORK / "bin"), **environment}  # fmt: skip
        number = self.cluster.sbatch(
            f"--nodes={nodes}", f"--ntasks-per-node={2 if nodes < 3 else 1}", f"--output={log}", SOURCE / "jobs" / "train.sbatch", config,
            *(["--batch.global_size", "6"] if nodes == 3 else []), env=variables, cwd=WORK,
        )  # fmt: skip
        return number, log

    def expect_done(self, name, job, restarts):
        number, log = job
        ended = self.cluster.wait_for_job(number, timeout=4 * PATIENCE_S)
        said = log.read_text()
        self.assertEqual((ended["JobState"], ended["ExitCode"]), ("COMPLETED", "0:0"), said)
        self.assertEqual(ended["Restarts"], str(restarts), said)
        self.assertEqual([line["step"] for line in metrics(WORK / name)], list(range(1, STEPS + 1)))
        return ended, said

    def train_unbroken(self, name):
        self.expect_done(name, self.submit(name), 0)

    def rank_on(self, name, node):
        """The process of a rank on a node."""
        for process in processes.ranks(name, DDPM).values():
            if processes.host_of(process.pid) == node:
                return process.pid
        raise AssertionError(f"no rank on {node}")

    def test_a_node_that_fails_and_comes_back_is_left_out(self):
        wanted = self.weights_of_unbroken()
        job = self.submit("flapping")
        self.wait_for_step("flapping", 20)
        self.assertEqual(self.cluster.job(job[0])["NodeList"], "node[1-2]")
        self.cluster.kill_node("node2")
        # It is idle again before the job starts anew, and Slurm would take it as before.
        self.cluster.start_node("node2")
        ended, said = self.expect_done("flapping", job, 2)
        self.assertIn("node node2 has failed", said)
        self.assertEqual((ended["NodeList"], ended["ExcNodeList"]), ("node[1,3]", "node2"), said)
        self.assertEqual(sha256_of_model(WORK / "flapping"), wanted)

    def test_the_node_of_a_lost_rank_is_left_out(self):
        wanted = self.weights_of_unbroken()
        for name, number, launcher in (("killed", signal.SIGKILL, "srun"), ("hanging", signal.SIGSTOP, "srun"), ("killed-other", signal.SIGKILL, LAUNCHER)):
            with self.subTest(name):
                job = self.submit(name, DDPM_LAUNCHER=launcher)
                self.wait_for_step(name, 20)
                os.kill(self.rank_on(name, "node2"), number)
                ended, said = self.expect_done(name, job, 1)
                self.assertIn("a rank on node2 is lost", said)
                self.assertEqual((ended["NodeList"], ended["ExcNodeList"]), ("node[1,3]", "node2"), said)
                self.assertEqual(sha256_of_model(WORK / name), wanted)

    def test_a_job_that_needs_all_nodes_keeps_them(self):
        job = self.submit("all-nodes", nodes=3)
        self.wait_for_step("all-nodes", 20)
        os.kill(self.rank_on("all-nodes", "node2"), signal.SIGKILL)
        ended, said = self.expect_done("all-nodes", job, 1)
        self.assertEqual((ended["NodeList"], ended["ExcNodeList"]), ("node[1-3]", "(null)"), said)

    def test_a_launcher_that_is_killed_is_no_fault_of_a_node(self):
        job = self.submit("no-launcher")
        self.wait_for_step("no-launcher", 20)
        os.kill(processes.sruns("no-launcher")[0].pid, signal.SIGKILL)
        ended, said = self.expect_done("no-launcher", job, 1)
        self.assertIn("a rank or the launcher is lost (exit code ", said)
        self.assertEqual(ended["ExcNodeList"], "(null)", said)

    def test_a_cancelled_job_does_not_come_back(self):
        job = self.submit("cancelled")
        self.wait_for_step("cancelled", 20)
        self.cluster.client("scancel", job[0], check=True)
        ended = self.cluster.wait_for_job(job[0])
        self.assertEqual((ended["JobState"], ended["Restarts"]), ("CANCELLED", "0"), job[1].read_text())
        self.cluster.wait_for(lambda: self.cluster.idle_nodes() == self.cluster.nodes, "the end of the job")
        self.assertEqual(self.cluster.job(job[0])["JobState"], "CANCELLED")
        shutil.rmtree(WORK / "cancelled")


if __name__ == "__main__":
    unittest.main(verbosity=2)
