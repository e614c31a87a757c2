"""The ranges of a training as a tool of NVIDIA's sees them: steps, and in each its parts."""

import os
import pathlib
import shutil
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_run import ddpm, make_dataset, write_config  # noqa: E402

WORK = pathlib.Path.cwd()
TOOL = sys.argv.pop(1)
STEPS = 3


class Ranges(unittest.TestCase):
    def test_parts_lie_in_their_steps(self):
        shutil.rmtree(WORK / "run", ignore_errors=True)
        told = WORK / "ranges.txt"
        told.unlink(missing_ok=True)
        config = write_config(WORK / "run.toml", WORK / "run", make_dataset(WORK / "squares"), train={"steps": STEPS})
        ddpm("train", config, env={"NVTX_INJECTION64_PATH": TOOL, "DDPM_TEST_RANGES": str(told)})
        open_ones, within = [], {}
        for line in told.read_text().splitlines():
            if line == "-":
                open_ones.pop()
                continue
            name = line.removeprefix("+ ")
            if open_ones:
                within.setdefault(open_ones[0], []).append(name)
            open_ones.append(name)
        self.assertEqual(open_ones, [])
        self.assertEqual(list(within), [f"step {n}" for n in range(1, STEPS + 1)])
        micro = ["data", "forward", "backward"]
        for step, parts in within.items():
            told = [part for part in parts if part in micro]
            once = [part for before, part in zip([None, *told], told) if part != before]  # data are read, then prepared
            self.assertEqual(once, 4 * micro, step)  # 8 images, 2 at a time
            self.assertIn("update", parts, step)


if __name__ == "__main__":
    unittest.main()
