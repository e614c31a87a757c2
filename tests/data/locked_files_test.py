"""Files that another program has locked are read all the same, whatever HDF5_USE_FILE_LOCKING says."""

import fcntl
import os
import pathlib
import sys
import unittest

import h5py
import numpy as np

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_run import ddpm  # noqa: E402

WORK = pathlib.Path.cwd()


class LockedFiles(unittest.TestCase):
    def test_a_file_with_an_exclusive_lock_is_inspected(self):
        path = WORK / "locked.h5"
        with h5py.File(path, "w") as file:
            file["images"] = np.zeros((3, 8, 8, 1), np.uint8)
        with path.open("rb+") as holder:
            fcntl.flock(holder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with self.assertRaises(OSError):
                h5py.File(path, "r", locking=True)
            for setting in ("TRUE", "BEST_EFFORT", "FALSE", None):
                os.environ.pop("HDF5_USE_FILE_LOCKING", None)
                if setting:
                    os.environ["HDF5_USE_FILE_LOCKING"] = setting
                for ranks in (1, 2):
                    self.assertIn("3", ddpm("data", "inspect", path, ranks=ranks).stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
