"""Two emulated hosts of two ranks: who is where, what passes the link between them, and that nothing of them stays."""

import os
import pathlib
import subprocess
import sys
import unittest

SOURCE = pathlib.Path(os.environ["DDPM_SOURCE_DIR"])
sys.path.insert(0, str(SOURCE / "tests" / "benchmarks"))
import bench  # noqa: E402
from hosts import Hosts  # noqa: E402

DDPM = os.environ["DDPM"]
WHERE = 'echo "$OMPI_COMM_WORLD_RANK $(hostname) $OMPI_COMM_WORLD_LOCAL_RANK"'
MIB = 4
MBIT = 100
LEAST = 0.9  # of the time that the payload takes: the bucket of tokens is full at first


def all_reduce_seconds(hosts):
    told = bench.json_lines(hosts.mpirun(DDPM, "bench", "comm", "--repeats", 3, "--max-mib", MIB, "--json"))[0]
    lines = {(line["kind"], line["bytes"]): line["seconds"]["median"] for line in told["collectives"]}
    return lines["all_reduce", MIB << 20]


class EmulatedHosts(unittest.TestCase):
    def test_ranks_of_a_host_are_neighbours(self):
        with Hosts(2, mbit_per_s=MBIT, ranks_per_host=2) as hosts:
            first, second = hosts.names
            told = sorted(hosts.mpirun("sh", "-c", WHERE).splitlines())
        self.assertEqual(told, [f"0 {first} 0", f"1 {first} 1", f"2 {second} 0", f"3 {second} 1"])

    def test_only_what_leaves_a_host_is_slow(self):
        """A ring of four ranks sends 3/2 of a buffer over each link between hosts, and none on one host."""
        payload = 1.5 * (MIB << 20) * 8 / (MBIT * 1e6)
        with Hosts(2, mbit_per_s=MBIT, ranks_per_host=2) as hosts:
            self.assertGreater(all_reduce_seconds(hosts), LEAST * payload)
        with Hosts(1, mbit_per_s=MBIT, ranks_per_host=2) as hosts:
            self.assertLess(all_reduce_seconds(hosts), payload)

    def test_nothing_stays(self):
        with Hosts(2, mbit_per_s=MBIT, ranks_per_host=2) as hosts:
            names, bridge, folder = hosts.names, hosts.bridge, hosts.folder
        spaces = subprocess.run(["ip", "netns", "list"], check=True, capture_output=True, text=True).stdout
        links = subprocess.run(["ip", "link"], check=True, capture_output=True, text=True).stdout
        self.assertFalse([name for name in names if name in spaces])
        self.assertNotIn(bridge, links)
        self.assertFalse(folder.exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)
