"""`srun ddpm doctor` on two nodes: it names them, and tests the folder that they share."""

import json
import unittest

from cluster_case import WORK, ClusterCase
from ddpm_run import DDPM
from launcher import SRUN_MPI

TWO_BY_TWO = ("--nodes=2", "--ntasks-per-node=2", f"--mpi={SRUN_MPI}")
QUICK = ("--max-mib", 1, "--file-mib", 1)


class Doctor(ClusterCase):
    def doctor(self, folder, *options):
        return self.cluster.srun(*TWO_BY_TWO, DDPM, "doctor", "--output", folder, *QUICK, *options)

    def test_two_nodes_and_their_link(self):
        folder = WORK / "checked"
        folder.mkdir(exist_ok=True)
        process = self.doctor(folder, "--json")
        self.assertEqual(process.returncode, 0, process.stderr)
        answer = json.loads(process.stdout)
        self.assertEqual([host["name"] for host in answer["hosts"]], self.cluster.nodes)
        self.assertEqual([host["ranks"] for host in answer["hosts"]], [[0, 1], [2, 3]])
        self.assertEqual([link["hosts"] for link in answer["links"]], [self.cluster.nodes])
        self.assertEqual([visit["rank"] for visit in answer["folder"]["visits"]], [0, 2])
        self.assertEqual(answer["folder"]["exclusive_creators"], [1] * 8)
        for visit in answer["folder"]["visits"]:
            self.assertEqual(visit["locks"], {"flock": "excludes", "fcntl": "excludes"})
        # Two nodes of one machine have one clock.
        other = answer["hosts"][1]
        self.assertLessEqual(abs(other["clock_offset_seconds"]), other["clock_uncertainty_seconds"] + 1e-6)
        self.assertTrue(answer["ranks"][0]["launcher"].startswith("srun (job "), answer["ranks"][0]["launcher"])
        self.assertEqual(list(folder.iterdir()), [])

    def test_a_folder_of_each_nodes_own_is_a_problem(self):
        # /dev/shm is another one on each node.
        for timeout in ((), ("--timeout", 16)):
            process = self.doctor("/dev/shm", "--json", *timeout)
            self.assertEqual(process.returncode, 4, process.stderr)
            problems = [one for one in json.loads(process.stdout)["findings"] if one["severity"] == "problem"]
            self.assertEqual(len(problems), 1, problems)
            self.assertIn(f"/dev/shm is not the folder that {self.cluster.nodes[0]} has", problems[0]["seen"])
            self.assertIn(f"on {self.cluster.nodes[1]}", problems[0]["seen"])

    def test_5_without_ranks_that_know_each_other(self):
        process = self.cluster.srun("--nodes=2", "--ntasks=2", "--mpi=none", DDPM, "doctor", "--output", WORK)
        self.assertEqual(process.returncode, 5, process.stderr)
        self.assertIn(f"srun --mpi={SRUN_MPI}", process.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
