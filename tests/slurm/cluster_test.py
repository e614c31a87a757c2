"""The cluster of the tests under Slurm: its nodes are separate hosts that can be killed, and nothing outlives it."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import unittest

from cluster import PATIENCE_S, Cluster, ClusterError
from machine import processes_of

WORK = pathlib.Path.cwd()


def script(name, *lines):
    path = WORK / name
    path.write_text("\n".join(["#!/bin/bash", *lines]) + "\n")
    return path


def sleeping(slurm_conf):
    """How many `sleep` the jobs of a cluster run."""
    return sum(re.match(r"\S*sleep \d+$", command) is not None for command in processes_of(slurm_conf).values())


class OneCluster(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(nodes=2, settings={"KillWait": 2})
        cls.addClassCleanup(cls.cluster.stop)
        cls.cluster.start()

    def output(self, name):
        path = WORK / name
        path.unlink(missing_ok=True)
        return path

    def test_nodes_are_hosts_with_files_in_common(self):
        process = self.cluster.srun("--nodes=2", "--label", "sh", "-c", "hostname; pwd; ls /dev/shm", check=True)
        self.assertEqual(
            sorted(process.stdout.splitlines()), sorted(["0: node1", "1: node2", f"0: {WORK}", f"1: {WORK}"])
        )

    def test_client_that_takes_too_long_is_ended(self):
        with self.assertRaisesRegex(ClusterError, "took more than"):
            self.cluster.srun("--nodes=1", "sleep", 1000, timeout=3)
        self.cluster.client("scancel", "--user=root", check=True)
        self.cluster.wait_for(lambda: self.cluster.idle_nodes() == self.cluster.nodes, "the end of the step")

    def test_batch_job(self):
        output = self.output("batch.out")
        batch = script("batch.sh", "echo $SLURM_JOB_NODELIST", "srun --label hostname | sort", "exit 3")
        job = self.cluster.sbatch("--nodes=2", f"--output={output}", batch)
        ended = self.cluster.wait_for_job(job)
        self.assertEqual((ended["JobState"], ended["ExitCode"], ended["BatchHost"]), ("FAILED", "3:0", "node1"))
        self.assertEqual(output.read_text().split("\n"), ["node[1-2]", "0: node1", "1: node2", ""])

    def test_job_of_a_killed_node_is_requeued_and_runs_again(self):
        output = self.output("requeued.out")
        batch = script(
            "requeued.sh",
            'echo "start ${SLURM_RESTART_COUNT:-0}"',
            'if [ -z "$SLURM_RESTART_COUNT" ]; then srun sleep 1000; fi',
            "srun --label hostname | sort",
        )
        job = self.cluster.sbatch("--nodes=2", "--requeue", "--open-mode=append", f"--output={output}", batch)
        self.cluster.wait_for(lambda: sleeping(self.cluster.slurm_conf) == 2, "the job's step to run")

        self.cluster.kill_node("node2")
        self.assertNotIn("slurmd -D -N node2", self.cluster.processes().values())
        self.assertIn("slurmd -D -N node1", self.cluster.processes().values())
        self.cluster.wait_for_job(job, "PENDING")

        self.cluster.start_node("node2")
        ended = self.cluster.wait_for_job(job)
        self.assertEqual((ended["JobState"], ended["Restarts"]), ("COMPLETED", "1"))
        lines = [line for line in output.read_text().splitlines() if line.startswith(("start", "0:", "1:"))]
        self.assertEqual(lines, ["start 0", "start 1", "0: node1", "1: node2"])

    def test_controller_finds_out_by_itself(self):
        with Cluster(nodes=1, settings={"SlurmdTimeout": 3}) as cluster:
            cluster.kill_node("node1", noticed=False)
            cluster.wait_for(
                lambda: "down" in cluster.client("sinfo", "--noheader", "--format=%t").stdout, "node1 to be down"
            )


class NothingIsLeft(unittest.TestCase):
    # The process ignores SIGTERM and is no longer a child of the job.
    STUBBORN = "setsid --fork sh -c 'trap \"\" TERM HUP; sleep 1234'; sleep 1235"

    def wait_until(self, condition, timeout):
        deadline = time.monotonic() + timeout
        while not condition():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.1)

    def test_stop_ends_clients_and_jobs(self):
        with Cluster(nodes=2) as cluster:
            folder, slurm_conf = cluster.folder, cluster.slurm_conf
            cluster.start_client("srun", "--nodes=2", "sh", "-c", self.STUBBORN)
            cluster.wait_for(lambda: sleeping(slurm_conf) == 4, "the job to run")
        self.assertEqual(processes_of(slurm_conf), {})
        self.assertFalse(folder.exists())
        cluster.stop()

    def test_failed_start_says_why(self):
        cluster = Cluster(nodes=1, settings={"SelectType": "select/nonsense"})
        with self.assertRaisesRegex(ClusterError, "(?s)ended.*controller:.*select/nonsense"):
            cluster.start()
        self.assertIsNone(cluster.folder)

    def test_killed_program_takes_its_cluster_along(self):
        program = f"""
from cluster import Cluster
cluster = Cluster(nodes=1)
cluster.start()
client = cluster.start_client("srun", "sh", "-c", {self.STUBBORN!r})
print(cluster.slurm_conf, flush=True)
client.wait()
"""
        process = subprocess.Popen(
            [sys.executable, "-B", "-c", program], stdout=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": str(pathlib.Path(__file__).parent)},
        )  # fmt: skip
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        slurm_conf = process.stdout.readline().strip()
        self.assertRegex(slurm_conf, "^/tmp/slurm-.*/slurm.conf$")
        self.addCleanup(shutil.rmtree, pathlib.Path(slurm_conf).parent)
        self.wait_until(lambda: sleeping(slurm_conf) == 2, PATIENCE_S)
        process.kill()
        self.wait_until(lambda: not processes_of(slurm_conf), PATIENCE_S)


if __name__ == "__main__":
    unittest.main(verbosity=2)
