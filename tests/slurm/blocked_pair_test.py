"""Four hosts of which two do not hear each other: `ddpm doctor` names them, and a training ends."""

import os
import pathlib
import subprocess
import sys
import unittest

SOURCE = pathlib.Path(os.environ["DDPM_SOURCE_DIR"])
sys.path.insert(0, str(SOURCE / "tests" / "benchmarks"))
import bench  # noqa: E402
from hosts import Hosts, ip  # noqa: E402

DDPM = os.environ["DDPM"]
WORK = pathlib.Path.cwd()


class BlockedPair(unittest.TestCase):
    def setUp(self):
        self.hosts = self.enterContext(Hosts(4, mbit_per_s=1000))
        for one, other in ((1, 2), (2, 1)):  # what is sent goes to an address that no host has
            ip(
                "-n", self.hosts.names[one], "neigh", "replace", f"10.213.77.{other + 1}", "lladdr", "02:00:00:00:00:99",
                "dev", "eth0", "nud", "permanent",
            )  # fmt: skip

    def run_ddpm(self, *words, options=()):
        command = self.hosts.mpirun_command(DDPM, *words, options=options)
        return subprocess.run(
            list(map(str, command)), env=bench.environment(), capture_output=True, text=True, timeout=120, check=False
        )

    def doctor_names_the_two(self, **options):
        process = self.run_ddpm("doctor", "--output", WORK / "run", "--max-mib", 1, "--file-mib", 1, "--timeout", 5, **options)
        self.assertEqual(process.returncode, 5, process.stderr)
        self.assertIn(f"no message arrives between {self.hosts.names[1]} and {self.hosts.names[2]}\n", process.stderr)

    def test_doctor_names_the_two(self):
        self.doctor_names_the_two()

    def test_also_where_all_ranks_are_told_the_name_of_one_node(self):
        """As MPICH's mpiexec does in a job of Slurm."""
        self.doctor_names_the_two(options=("-x", "SLURMD_NODENAME=node1"))

    def test_other_commands_end_at_the_deadline_of_the_start(self):
        process = self.run_ddpm("bench", "comm", "--repeats", 1, options=("-x", "DDPM_START_TIMEOUT_S=5"))
        self.assertEqual(process.returncode, 5, process.stderr)
        self.assertIn("cannot be reached from others", process.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
