"""Many starts of ranks on several nodes, on a machine that is busy: each of them ends with exit code 0.

    starts_test.py [--starts N] [--busy N] [--fence NAME] PROGRAM

By default 40 starts, beside 2 programs that use up the processor, with the fence "mixed", Slurm's own default.

The PMIx plugin of Slurm lets ranks leave MPI_Init before others can receive messages; see docs/slurm.md. Without ddpm's own
fence, one start in 30 ended with a segmentation fault at address 0.
"""

import argparse
import contextlib
import subprocess
import sys
import time
import unittest

from cluster_case import ClusterCase
from cluster import ClusterError  # cluster_case has made it importable
from launcher import SRUN_MPI

PATIENCE_S = 30  # for a start that takes less than a second on an idle machine

parser = argparse.ArgumentParser()
parser.add_argument("--starts", type=int, default=40)
parser.add_argument("--busy", type=int, default=2)
parser.add_argument("--fence", default="mixed")
parser.add_argument("program", help="the one of late_rank.cpp")
options, sys.argv[1:] = parser.parse_known_args()


@contextlib.contextmanager
def busy_machine(count):
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


class Starts(ClusterCase):
    nodes = 4

    def test_every_start_of_ranks_on_four_nodes_succeeds(self):
        failures = []
        began = time.monotonic()
        with busy_machine(options.busy):
            for number in range(options.starts):
                try:
                    process = self.cluster.srun(
                        "--nodes=4", "--ntasks=4", f"--mpi={SRUN_MPI}", options.program,
                        timeout=PATIENCE_S, env={"SLURM_PMIX_FENCE": options.fence},
                    )  # fmt: skip
                    if process.returncode != 0:
                        failures.append(f"start {number}: exit code {process.returncode}: {process.stderr}")
                except ClusterError as error:
                    failures.append(f"start {number}: {error}")
        print(f"{len(failures)} of {options.starts} starts failed, in {time.monotonic() - began:.0f} s", flush=True)
        self.assertEqual(failures, [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
