"""Training sets that change, are mixed, or are copied first: data.continue_with_other, a list in data.train, data.stage."""

import fcntl
import hashlib
import json
import os
import pathlib
import shutil
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_run import ddpm, make_dataset, make_pictures, metrics, write_config  # noqa: E402

WORK = pathlib.Path.cwd()
REPRODUCIBLE = {
    "batch": {"global_size": 8, "micro_size": 1},
    "run": {"reproducible": True, "threads_per_rank": 1},
    "lr_schedule": {"name": "constant"},
}


def weights(run):
    files = sorted((run / "model" / "unet").glob("*.safetensors"))
    assert files
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


class OtherSet(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.first = make_dataset(WORK / "first", 20)
        cls.grown = make_dataset(WORK / "grown", 28)
        cls.larger = make_dataset(WORK / "larger", 20, 32)

    def config(self, name, images, steps, told=False):
        sections = {**REPRODUCIBLE, "train": {"steps": steps}, "data": {"continue_with_other": told}}
        return write_config(WORK / f"{name}.toml", WORK / name, images, **sections)

    def go_on(self, name, images, steps, ranks=1, told=True):
        return ddpm("train", self.config(name, images, steps, told), ranks=ranks).stderr

    def begun(self, name):
        """A run that was trained on the first set for 3 steps: 24 images, so that epoch 2 has begun."""
        shutil.rmtree(WORK / name, ignore_errors=True)
        ddpm("train", self.config(name, self.first, 3))
        return WORK / name

    def test_goes_on_with_weights_and_counters_and_begins_an_epoch(self):
        run = self.begun("told")
        said = self.go_on("told", self.grown, 6)
        self.assertIn(f"from step 4 on images are those of {self.grown}, 28 images: epoch 3 begins", said)
        lines = metrics(run)
        self.assertEqual([line["step"] for line in lines], [1, 2, 3, 4, 5, 6])
        self.assertEqual(lines[-1]["images_seen"], 48)
        passes = [8 * step / 20 if step <= 3 else 24 / 20 + 8 * (step - 3) / 28 for step in range(1, 7)]
        self.assertEqual([line["epoch"] for line in lines], passes)
        card = (run / "model" / "README.md").read_text()
        self.assertIn("| training set | grown |", card)
        self.assertIn("| training sets before | first, 20 images, steps 1 to 3 |", card)
        manifest = json.loads((max((run / "checkpoints").glob("step-*")) / "MANIFEST.json").read_text())
        history = json.loads(manifest["state"]["data_history"])
        self.assertEqual([period["first_epoch"] for period in history], [0, 2])

    def test_goes_on_with_the_set_that_was_appended_to(self):
        for name in ("growing", "appended"):
            shutil.rmtree(WORK / name, ignore_errors=True)
        shutil.copytree(self.first, WORK / "growing")
        ddpm("train", self.config("appended", WORK / "growing", 3))
        make_pictures(WORK / "more", 8, 16)
        said = ddpm("data", "append", WORK / "growing", WORK / "more", "--shards", 2, ranks=2).stdout
        self.assertIn("8 images added in 2 shards, 28 now in 5 shards", said)
        refused = ddpm("train", self.config("appended", WORK / "growing", 6), check=False)
        self.assertEqual(refused.returncode, 4, refused.stderr)
        said = self.go_on("appended", WORK / "growing", 6)
        self.assertIn(f"from step 4 on images are those of {WORK / 'growing'}, 28 images: epoch 3 begins", said)
        self.assertEqual(metrics(WORK / "appended")[-1]["step"], 6)

    def test_has_the_same_bits_on_2_ranks_and_after_a_resume(self):
        digests = set()
        for name, ranks, stop in (("bits-one", 1, 7), ("bits-two", 2, 7), ("bits-resumed", 1, 5)):
            run = self.begun(name)
            self.go_on(name, self.grown, stop, ranks)
            if stop < 7:  # it knows by itself where the order began
                self.go_on(name, self.grown, 7, told=False)
            digests.add(weights(run))
        self.assertEqual(len(digests), 1)

    def test_changes_nothing_of_a_run_that_keeps_its_set(self):
        runs = [self.begun(name) for name in ("kept", "kept-told")]
        self.go_on("kept", self.first, 6, told=False)
        self.assertNotIn("images are those of", self.go_on("kept-told", self.first, 6))
        self.assertEqual(weights(runs[0]), weights(runs[1]))
        self.assertNotIn("training sets before", (runs[1] / "model" / "README.md").read_text())

    def refused(self, code, words, name, images, told=False):
        config = self.config(name, images, 6, told)
        for command in (("train", config), ("train", config, "--dry-run")):
            process = ddpm(*command, check=False)
            lines = [line for line in process.stderr.splitlines() if "error" in line]
            self.assertEqual((process.returncode, len(lines)), (code, 1), process.stderr)
            self.assertIn(words, lines[0])

    def test_is_refused_where_nobody_said_so_and_for_images_of_another_kind(self):
        self.begun("refused")
        self.refused(4, "restore it, set data.continue_with_other = true, or name another folder", "refused", self.grown)
        self.refused(4, "are of another kind", "refused", self.larger, told=True)
        shutil.rmtree(WORK / "grows", ignore_errors=True)
        shutil.copytree(self.first, WORK / "grows")
        ddpm("train", self.config("grown-in-place", WORK / "grows", 3))
        shutil.rmtree(WORK / "grows")
        shutil.copytree(self.grown, WORK / "grows")
        self.refused(4, "wanted: those, or to go on with these, data.continue_with_other = true", "grown-in-place", WORK / "grows")
        self.go_on("refused", self.grown, 4)

    def test_positions_are_learned_in_images_of_one_size(self):
        """Windows of larger images look alike, but their pixels lie elsewhere."""
        windows = {"data": {"patch": [8, 8]}, "train": {"steps": 1}}
        for positions, channels in ((True, 7), (False, 3)):
            shutil.rmtree(WORK / "places", ignore_errors=True)
            windows["data"]["positions"] = positions
            config = write_config(WORK / "places.toml", WORK / "places", self.first, **windows, model={"in_channels": channels})
            ddpm("train", config)
            told = ("train", config, "--data.train", self.larger, "--data.continue_with_other", "true", "--train.steps", 2)
            for command in ((*told, "--dry-run"), told):
                process = ddpm(*command, check=False)
                self.assertEqual(process.returncode, 4 if positions else 0, process.stderr)
                said = "whole images, in which the model is given positions: 32 × 32, wanted 16 × 16"
                self.assertEqual(said in process.stderr, positions, process.stderr)

    def test_sets_that_are_mixed_train_alike_on_1_and_2_ranks_and_after_a_resume(self):
        mixed = [str(self.first), {"path": str(self.grown), "weight": 2.0}]
        toml = ", ".join(
            json.dumps(item) if isinstance(item, str) else "{ path = %s, weight = %s }" % (json.dumps(item["path"]), item["weight"])
            for item in mixed
        )
        digests = set()
        for name, ranks, first in (("mix-one", 1, 4), ("mix-two", 2, 4), ("mix-resumed", 1, 2)):
            shutil.rmtree(WORK / name, ignore_errors=True)
            config = self.config(name, "SETS", first)
            config.write_text(config.read_text().replace('"SETS"', f"[{toml}]"))
            ddpm("train", config, ranks=ranks)
            if first < 4:
                ddpm("train", config, "--train.steps", 4)
            digests.add(weights(WORK / name))
            self.assertIn("| training set | first, grown |", (WORK / name / "model" / "README.md").read_text())
        self.assertEqual(len(digests), 1)
        epochs = config.read_text().replace("\nsteps = 2", "\nepochs = 0.5").replace(str(WORK / name), str(WORK / "mix-epochs"))
        config.write_text(epochs)
        said = ddpm("train", config, "--dry-run").stdout
        self.assertIn("Images   48 of 16 × 16 × 3", said)
        self.assertIn("Steps    5: 0.5263 epochs", said)  # 20 + 2 · 28 = 76 images make an epoch

    def test_other_weights_of_the_same_sets_begin_an_epoch(self):
        shutil.rmtree(WORK / "weighted", ignore_errors=True)
        first, grown = (json.dumps(str(path)) for path in (self.first, self.grown))
        evenly, weighted = f"[{first}, {grown}]", f"[{{ path = {first}, weight = 2.0 }}, {grown}]"
        begins = f"from step 6 on images are those of {self.first} + {self.grown}, 48 images: epoch 2 begins"
        for steps, told, sets in ((3, False, evenly), (5, True, evenly), (7, True, weighted), (8, False, weighted)):
            config = self.config("weighted", "SETS", steps, told)
            config.write_text(config.read_text().replace('"SETS"', sets))
            said = ddpm("train", config).stderr
            self.assertEqual(begins in said, steps == 7, said)
            self.assertEqual("images are those of" in said, steps == 7, said)
        passes = [8 * step / 48 if step <= 5 else 40 / 48 + 8 * (step - 5) / 68 for step in range(1, 9)]
        self.assertEqual([line["epoch"] for line in metrics(WORK / "weighted")], passes)
        manifest = json.loads((max((WORK / "weighted" / "checkpoints").glob("step-*")) / "MANIFEST.json").read_text())
        earlier, newest = json.loads(manifest["state"]["data_history"])
        self.assertEqual((earlier["first_step"], earlier["first_epoch"], earlier.get("pass")), (0, 0, None))
        self.assertEqual((newest["first_step"], newest["first_epoch"], newest["pass"]), (5, 1, 68))
        self.assertEqual((newest["set_images"], newest["set_slots"]), ([20, 28], [40, 28]))
        self.assertEqual((earlier["set_orders"], newest["set_orders"]), ("own", "own"))

    def test_a_staged_set_is_copied_once_and_trains_alike(self):
        stage = WORK / "stage"
        shutil.rmtree(stage, ignore_errors=True)
        digests, said = set(), []
        for name, ranks, options in (
            ("unstaged", 1, ()),
            ("staged", 2, ("--data.stage", stage)),
            ("staged-again", 1, ("--data.stage", stage)),
        ):
            shutil.rmtree(WORK / name, ignore_errors=True)
            said.append(ddpm("train", self.config(name, self.first, 2), *options, ranks=ranks).stderr)
            digests.add(weights(WORK / name))
            self.assertIn("| training set | first |", (WORK / name / "model" / "README.md").read_text())
        self.assertEqual(len(digests), 1)
        self.assertIn("was copied to", said[1])
        self.assertIn("was copied before to", said[2])
        (copy,) = stage.iterdir()
        for file in self.first.iterdir():
            if file.suffix in (".h5", ".json"):
                self.assertEqual((copy / file.name).read_bytes(), file.read_bytes())
        next(copy.glob("shard-*")).unlink()  # as what clears old files does
        said = ddpm("train", self.config("staged", self.first, 3), "--data.stage", stage).stderr
        self.assertIn("was copied to", said)

    def test_what_a_killed_start_left_half_copied_goes_unless_another_job_is_copying(self):
        stage = WORK / "stage-killed"
        shutil.rmtree(stage, ignore_errors=True)
        shutil.rmtree(WORK / "staged", ignore_errors=True)
        options = ("--data.stage", stage)
        ddpm("train", self.config("staged", self.first, 2), *options)
        (copy,) = stage.iterdir()
        names = sorted(file.name for file in copy.iterdir())
        shard = next(copy.glob("shard-*"))
        half = copy / f".{shard.name}.tmp-0123456789abcdef"
        for other_job, steps in ((True, 3), (False, 4)):
            shard.unlink()
            half.write_bytes(b"half a shard")
            with open(copy / ".lock", "a") as lock:
                fcntl.flock(lock, fcntl.LOCK_SH if other_job else fcntl.LOCK_UN)
                said = ddpm("train", self.config("staged", self.first, steps), *options, ranks=2).stderr
            self.assertIn("was copied to", said)
            self.assertEqual(half.exists(), other_job)
        self.assertEqual(sorted(file.name for file in copy.iterdir()), names)

    def test_a_damaged_copy_is_made_anew_by_the_next_start(self):
        stage = WORK / "stage-flipped"
        for folder in (stage, WORK / "staged", WORK / "unstaged"):
            shutil.rmtree(folder, ignore_errors=True)
        options = ("--data.stage", stage)
        ddpm("train", self.config("staged", self.first, 2), *options)
        (copy,) = stage.iterdir()
        names = sorted(file.name for file in copy.iterdir())
        shard = min(copy.glob("shard-*.h5"))

        def expect_mended():
            self.assertEqual(sorted(file.name for file in copy.iterdir()), names)
            for file in (shard, copy / "dataset.json"):
                self.assertEqual(file.read_bytes(), (self.first / file.name).read_bytes(), file)

        flipped = bytearray(shard.read_bytes())
        flipped[-5] ^= 1
        shard.write_bytes(flipped)
        failed = ddpm("train", self.config("staged", self.first, 8), *options, check=False)
        self.assertEqual(failed.returncode, 3, failed.stderr)
        (error,) = [line for line in failed.stderr.splitlines() if line.startswith("ddpm: error: ")]
        self.assertIn(shard.name, error)
        self.assertIn("the next start compares the copy with its digests", error)
        self.assertEqual(shard.read_bytes(), flipped)  # another job of this node may be reading it
        said = ddpm("train", WORK / "staged.toml", *options, ranks=2).stderr
        self.assertIn("was copied anew, where its copy differed, to", said)
        expect_mended()
        ddpm("train", self.config("unstaged", self.first, 8))
        self.assertEqual(weights(WORK / "staged"), weights(WORK / "unstaged"))

        # A description that is another one casts doubt on everything.
        for steps, text in ((9, b""), (10, (copy / "dataset.json").read_bytes().replace(b"0", b"1"))):
            (copy / "dataset.json").write_bytes(text)
            shard.write_bytes(flipped)
            said = ddpm("train", self.config("staged", self.first, steps), *options, ranks=2).stderr
            self.assertIn("was copied anew, where its copy differed, to", said)
            expect_mended()
        self.assertIn("was copied before to", ddpm("train", self.config("staged", self.first, 11), *options).stderr)

    def test_a_damaged_set_or_a_file_is_not_staged(self):
        stage, damaged = WORK / "stage-damaged", WORK / "damaged"
        for folder in (stage, damaged, WORK / "stage-run"):
            shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.first, damaged)
        shard = min(damaged.glob("shard-*.h5"))
        data = bytearray(shard.read_bytes())
        data[-1] ^= 1
        shard.write_bytes(data)
        for source, words in ((damaged, "the file is damaged"), (shard, "data.stage is for dataset folders")):
            process = ddpm("train", self.config("stage-run", source, 2), "--data.stage", stage, ranks=2, check=False)
            lines = [line for line in process.stderr.splitlines() if "error" in line]
            self.assertEqual((process.returncode, len(lines)), (3, 1), process.stderr)
            self.assertIn(words, lines[0])
            self.assertFalse([file for file in stage.rglob("*") if file.name in ("dataset.json", shard.name)])
        process = ddpm("train", self.config("stage-run", shard, 2), "--data.stage", stage, "--dry-run", check=False)
        self.assertEqual((process.returncode, process.stdout), (3, ""), process.stderr)
        self.assertIn("data.stage is for dataset folders", process.stderr)
        self.assertFalse((WORK / "stage-run").exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)
