"""Training onto a file system that is too small for the next checkpoint: exit code 4 on all ranks, nothing lost.

Wants root: it mounts small tmpfs file systems in a mount namespace of its own, which goes with it.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_run import ddpm, files_below, make_dataset, metrics, write_config  # noqa: E402

WORK = pathlib.Path.cwd()


def mount(folder, size):
    folder.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], check=True)


def used(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


class FullDisk(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dataset = make_dataset(WORK / "squares")
        cls.checkpoint_bytes = {}

    def config(self, name, run, **sections):
        return write_config(
            WORK / f"{name}.toml",
            run,
            self.dataset,
            batch={"global_size": 12, "micro_size": 1},
            checkpoint={"every_steps": 2},
            logging={"tensorboard": False},
            **sections,
        )

    def setUp(self):
        self.mounted = []

    def tearDown(self):
        for folder in self.mounted:
            subprocess.run(["umount", "-l", str(folder)], check=True)

    def small(self, name, size):
        folder = WORK / name
        shutil.rmtree(folder, ignore_errors=True)
        mount(folder, size)
        self.mounted.append(folder)
        return folder

    def bytes_of_a_checkpoint(self, ranks):
        if ranks not in self.checkpoint_bytes:
            run = WORK / f"roomy-{ranks}"
            shutil.rmtree(run, ignore_errors=True)
            ddpm("train", self.config("roomy", run), "--train.steps", 2, ranks=ranks)
            self.checkpoint_bytes[ranks] = used(run / "checkpoints")
        return self.checkpoint_bytes[ranks]

    def test_no_room_for_the_second_checkpoint(self):
        # The share of the second checkpoint for which there is room, beside configuration, lock and metrics. A start wants
        # room for the finished model, a fourth of that.
        for ranks, share in ((1, 0.4), (1, 0.85), (2, 0.4), (2, 0.85), (3, 0.5)):
            with self.subTest(ranks=ranks, share=share):
                room = int(self.bytes_of_a_checkpoint(ranks) * (1 + share)) + 50_000
                folder = self.small(f"small-{ranks}-{share}", room)
                run = folder / "run"
                config = self.config("small", run)
                failed = ddpm("train", config, ranks=ranks, check=False)
                self.assertEqual(failed.returncode, 4, failed.stderr)
                self.assertIn("No space left on device", failed.stderr)
                self.assertEqual(failed.stderr.count("ddpm: error:"), 1, failed.stderr)
                left = files_below(run / "checkpoints")
                shards = [f"step-00000002/shard-{r:05}-of-{ranks:05}.safetensors" for r in range(ranks)]
                self.assertEqual(left, ["step-00000002", "step-00000002/MANIFEST.json", *shards])
                self.assertFalse([f for f in files_below(run) if "tmp" in f or f == "LOCK"])
                ddpm("checkpoint", "verify", run)
                # With room again, repeating the command continues the run.
                subprocess.run(["mount", "-o", "remount,size=64m", str(folder)], check=True)
                self.assertIn("steps 3 to 6", ddpm("train", config, ranks=ranks).stderr)
                self.assertEqual([m["step"] for m in metrics(run)], list(range(1, 7)))

    def test_too_little_room_is_found_before_the_first_step(self):
        folder = self.small("tiny", 60_000 + self.bytes_of_a_checkpoint(1) // 2)
        run = folder / "run"
        config = self.config("tiny", run)
        failed = ddpm("train", config, ranks=2, check=False)
        self.assertEqual(failed.returncode, 4, failed.stderr)
        self.assertRegex(failed.stderr, r"of space are free, a checkpoint with the finished model takes [0-9.]+ MB")
        self.assertEqual(files_below(folder), [])

    def test_the_best_model_wants_room_too(self):
        # Weights, moments and an average: a finished model takes a fourth of a shard, and there is room for one.
        self.bytes_of_a_checkpoint(1)
        (shard,) = (WORK / "roomy-1" / "checkpoints").glob("*/*.safetensors")
        folder = self.small("best", int(shard.stat().st_size * 1.35))
        best = {"data": {"validation": str(self.dataset)}, "validation": {"every_steps": 2, "images": 4}}
        for name, sections, code in (("with-best", best, 4), ("without", {}, 0)):
            for flags in (["--dry-run"], [])[: 2 if code else 1]:
                done = ddpm("train", self.config("best", folder / name, **sections), "--train.steps", 2, *flags, check=False)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertEqual("a checkpoint with the finished model and the best one takes" in done.stderr, code == 4)
            self.assertFalse((folder / name).exists())

    def test_what_a_killed_save_left_gives_its_room_back(self):
        folder = self.small("leftover", int(self.bytes_of_a_checkpoint(1) * 3.5) + 100_000)
        run = folder / "run"
        config = self.config("leftover", run)
        ddpm("train", config, "--train.steps", 2)
        leftover = run / "checkpoints/.tmp-step-00000003-0123456789abcdef"
        leftover.mkdir()
        free = os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize
        (leftover / "shard-00000-of-00001.safetensors").write_bytes(bytes(free - 40_000))
        ddpm("train", config, "--train.steps", 3)
        self.assertFalse(leftover.exists())
        self.assertEqual(len(metrics(run)), 3)

    def test_no_room_for_a_reshard(self):
        folder = self.small("reshard", 60_000 + self.bytes_of_a_checkpoint(1) // 2)
        run = folder / "run"
        roomy = WORK / "roomy-1"
        failed = ddpm("checkpoint", "reshard", roomy, "--ranks", 3, "--output", run, ranks=2, check=False)
        self.assertEqual(failed.returncode, 4, failed.stderr)
        self.assertIn("No space left on device", failed.stderr)
        self.assertEqual(files_below(folder), [])
        self.assertTrue(json.loads(ddpm("checkpoint", "verify", roomy, "--json").stdout)["valid"])


if __name__ == "__main__":
    if "DDPM_OWN_MOUNTS" not in os.environ:
        command = ["unshare", "--mount", sys.executable, *sys.argv]
        os.execvpe(command[0], command, {**os.environ, "DDPM_OWN_MOUNTS": "1"})
    unittest.main()
