"""What a run leaves is its owner's alone, unless run.umask says otherwise; a dataset is as the user's own umask has it."""

import os
import pathlib
import shutil
import stat
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_run import ddpm, make_dataset, write_config  # noqa: E402

WORK = pathlib.Path.cwd()


def modes(folder):
    """Permission bits of a folder and of all in it."""
    return {path: stat.S_IMODE(path.stat().st_mode) for path in [folder, *folder.rglob("*")]}


class Umask(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        os.umask(0o022)
        shutil.rmtree(WORK / "set", ignore_errors=True)
        cls.dataset = make_dataset(WORK / "set")

    def train(self, name, *arguments):
        folder = WORK / name
        shutil.rmtree(folder, ignore_errors=True)
        config = WORK / f"{name}.toml"
        write_config(config, folder, self.dataset, train={"steps": 2})
        ddpm("train", config, *arguments, ranks=2)
        seen = modes(folder)
        names = {path.relative_to(folder).parts[0] for path in seen if path != folder}
        self.assertLessEqual({"config.toml", "metrics.jsonl", "events", "checkpoints", "LATEST", "model"}, names)
        return seen

    def test_a_run_is_its_owners_alone(self):
        for path, mode in self.train("private").items():
            self.assertEqual(mode, 0o700 if path.is_dir() else 0o600, path)

    def test_a_key_opens_it(self):
        for path, mode in self.train("shared", "--run.umask", "027").items():
            self.assertEqual(mode, 0o750 if path.is_dir() else 0o640, path)
        for path, mode in self.train("own", "--run.umask", "user").items():
            self.assertEqual(mode, 0o755 if path.is_dir() else 0o644, path)

    def test_a_resharded_run_has_the_mask_of_its_source(self):
        for mask, folder_mode, file_mode in (("077", 0o700, 0o600), ("027", 0o750, 0o640), ("user", 0o755, 0o644)):
            self.train(f"source-{mask}", *(() if mask == "077" else ("--run.umask", mask)))
            output = WORK / f"resharded-{mask}"
            shutil.rmtree(output, ignore_errors=True)
            ddpm("checkpoint", "reshard", WORK / f"source-{mask}", "--ranks", 3, "--output", output, ranks=2)
            seen = modes(output)
            self.assertEqual(len([path for path in seen if path.name.startswith("shard-")]), 3)
            for path, mode in seen.items():
                self.assertEqual(mode, folder_mode if path.is_dir() else file_mode, path)

    def test_a_mask_may_change_on_resume(self):
        self.train("changed")
        config = WORK / "changed.toml"
        process = ddpm("train", config, "--run.umask", "022", "--train.steps", 3)
        self.assertIn("run.umask", process.stderr)
        shards = list((WORK / "changed" / "checkpoints" / "step-00000003").glob("shard-*"))
        self.assertEqual([stat.S_IMODE(shard.stat().st_mode) for shard in shards], [0o644])

    def test_other_masks_are_refused(self):
        config = WORK / "refused.toml"
        write_config(config, WORK / "refused", self.dataset)
        process = ddpm("train", config, "--run.umask", "777", check=False)
        self.assertEqual(process.returncode, 2)
        self.assertIn("run.umask", process.stderr)
        self.assertFalse((WORK / "refused").exists())

    def test_a_dataset_is_as_the_user_has_it(self):
        for path, mode in modes(self.dataset).items():
            self.assertEqual(mode, 0o755 if path.is_dir() else 0o644, path)


if __name__ == "__main__":
    unittest.main()
