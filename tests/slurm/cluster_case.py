"""A test case with a cluster and an image set of its own."""

import os
import pathlib
import shutil
import sys
import unittest

SOURCE = pathlib.Path(os.environ["DDPM_SOURCE_DIR"])
WORK = pathlib.Path.cwd()

sys.path.insert(0, str(SOURCE / "tests" / "support"))
from cluster import Cluster  # noqa: E402
from ddpm_job import sha256_of_model  # noqa: E402
from ddpm_run import make_dataset, metrics, write_config  # noqa: E402
from launcher import SRUN_MPI  # noqa: E402

# The cluster has the default none, with which the job scripts would start ranks that do not know each other.
os.environ["DDPM_SRUN_MPI"] = SRUN_MPI


class ClusterCase(unittest.TestCase):
    """`cluster` and `dataset` are there for all tests of a class, which says how many nodes it wants."""

    nodes = 2

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(nodes=cls.nodes)
        cls.addClassCleanup(cls.cluster.stop)
        cls.cluster.start()
        cls.dataset = make_dataset(WORK / "squares")
        cls.unbroken = None

    def config(self, name, dataset=None, **sections):
        """A configuration whose run folder is not there yet."""
        shutil.rmtree(WORK / name, ignore_errors=True)
        return write_config(WORK / f"{name}.toml", WORK / name, dataset or self.dataset, **sections)

    def wait_for_step(self, name, step):
        path = WORK / name / "metrics.jsonl"
        self.cluster.wait_for(lambda: path.exists() and len(metrics(WORK / name)) >= step, f"{name}: step {step}")

    def weights_of_unbroken(self):
        """The digest of the weights of a run that nothing disturbs, by train_unbroken(), which a class with such tests has."""
        if self.unbroken is None:
            self.train_unbroken("unbroken")
            type(self).unbroken = sha256_of_model(WORK / "unbroken")
        return self.unbroken
