"""Reproducible runs of this build and of the one with Open MPI, build/release, end with the same bits on 1, 2 and 4 ranks."""

import os
import pathlib
import shutil
import subprocess
import sys
import unittest

SOURCE = pathlib.Path(os.environ["DDPM_SOURCE_DIR"])
sys.path.insert(0, str(SOURCE / "tests" / "support"))
from ddpm_run import DDPM, MPIRUN, TIMEOUT_S, digest_of_model, make_dataset, write_config  # noqa: E402

WORK = pathlib.Path.cwd()
OPEN_MPI = ("mpirun", "--oversubscribe", "--bind-to", "none")


class BothMpis(unittest.TestCase):
    def weights(self, name, command, ranks):
        run = WORK / f"{name}-{ranks}"
        shutil.rmtree(run, ignore_errors=True)
        config = write_config(
            WORK / f"{name}-{ranks}.toml", run, self.images,
            batch={"global_size": 8, "micro_size": 1},
            train={"steps": 5},
            parallel={"zero_stage": 1},
            run={"reproducible": True, "threads_per_rank": 1},
        )  # fmt: skip
        subprocess.run([*command, "train", config], check=True, timeout=TIMEOUT_S)
        return digest_of_model(run)

    def test_the_same_bits(self):
        self.images = make_dataset(WORK / "set")
        digests = set()
        for ranks in (1, 2, 4):
            digests.add(self.weights("this", (*MPIRUN, "-np", str(ranks), DDPM), ranks))
            digests.add(self.weights("open-mpi", (*OPEN_MPI, "-np", str(ranks), SOURCE / "build/release/ddpm"), ranks))
        self.assertEqual(len(digests), 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
