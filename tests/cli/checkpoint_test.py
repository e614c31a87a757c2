"""`ddpm checkpoint list|verify|reshard` on a run that was trained here; states are compared by a reader of our own."""

import fcntl
import hashlib
import itertools
import json
import math
import os
import pathlib
import re
import shutil
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_run import ddpm, files_below, make_dataset, write_config  # noqa: E402
from safetensors_file import tensors_of  # noqa: E402

WORK = pathlib.Path.cwd()
WIDTH = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "F16": 2, "BF16": 2, "U8": 1}


def places(box, shape):
    """Row-major places in the tensor of a box's elements, in the box's row-major order."""
    strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    for index in itertools.product(*(range(begin, end) for begin, end in box)):
        yield sum(i * stride for i, stride in zip(index, strides))


def read_state(checkpoint):
    """The manifest of a checkpoint and all its tensors: {name: (dtype, shape, bytes)}."""
    manifest = json.loads((checkpoint / "MANIFEST.json").read_text())
    shards = {file["name"]: tensors_of(checkpoint / file["name"]) for file in manifest["files"]}
    state = {}
    for tensor in manifest["tensors"]:
        width = WIDTH[tensor["dtype"]]
        whole = bytearray(math.prod(tensor["shape"]) * width)
        for part in tensor["slices"]:
            stored = shards[part["file"]][part["entry"]]
            assert len(stored) == (part["flat"][1] - part["flat"][0]) * width, part
            for i, place in enumerate(itertools.islice(places(part["box"], tensor["shape"]), *part["flat"])):
                whole[place * width : (place + 1) * width] = stored[i * width : (i + 1) * width]
        state[tensor["name"]] = (tensor["dtype"], tensor["shape"], bytes(whole))
    return manifest, state


def sealed(body):
    """The text of a manifest with a checksum that fits what stands before."""
    return f'{body}"sha256": "{hashlib.sha256(body.encode()).hexdigest()}"\n}}\n'


class Checkpoint(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        shutil.rmtree(WORK / "run", ignore_errors=True)
        dataset = make_dataset(WORK / "squares")
        cls.run_folder = WORK / "run"
        cls.config = write_config(
            WORK / "run.toml",
            cls.run_folder,
            dataset,
            checkpoint={"every_steps": 2},
            parallel={"zero_stage": 2},
            train={"steps": 4},
        )
        ddpm("train", cls.config, ranks=2)

    def fresh(self, name, copied=False):
        folder = WORK / name
        shutil.rmtree(folder, ignore_errors=True)
        if copied:
            shutil.copytree(self.run_folder, folder)
        return folder

    def listed(self, folder, *flags):
        return json.loads(ddpm("checkpoint", "list", folder, "--json", *flags).stdout)["checkpoints"]

    def damage(self, run, step):
        shard = run / f"checkpoints/step-{step:08}/shard-00001-of-00002.safetensors"
        data = bytearray(shard.read_bytes())
        data[-5] ^= 1
        shard.write_bytes(data)
        return shard

    def test_list_names_what_is_there(self):
        found = self.listed(self.run_folder)
        self.assertEqual([c["step"] for c in found], [2, 4])
        self.assertEqual([(c["ranks"], c["state"]) for c in found], [(2, "ok")] * 2)
        self.assertEqual([(c["newest"], c["latest"]) for c in found], [(False, False), (True, True)])
        for c in found:
            shards = pathlib.Path(c["directory"]).glob("*.safetensors")
            self.assertEqual(c["bytes"], sum(s.stat().st_size for s in shards))
            self.assertRegex(c["written"], r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        table = ddpm("checkpoint", "list", self.run_folder / "checkpoints" / "step-00000004", ranks=2).stdout
        self.assertEqual(len(table.splitlines()), 2, table)
        self.assertIn("ok, newest, LATEST", table)

    def test_the_zeros_of_a_checkpoints_name_may_be_left_out(self):
        for ranks in (1, 2):
            said = ddpm("checkpoint", "verify", f"{self.run_folder}/checkpoints/step-2/", ranks=ranks)
            self.assertIn("1 checkpoint", said.stdout)
        said = ddpm("checkpoint", "reshard", self.run_folder / "checkpoints/step-2", "--ranks", 1, "--output", self.fresh("short"))
        self.assertIn("step 2 of", said.stdout)
        for name in ("step-2", "step-00000002"):
            output = WORK / f"drawn-{name}.npy"
            ddpm("sample", "--model", self.run_folder / "checkpoints" / name, "--count", 1, "--steps", 1, "--output", output)
        self.assertEqual((WORK / "drawn-step-2.npy").read_bytes(), (WORK / "drawn-step-00000002.npy").read_bytes())
        for arguments in (("list",), ("verify",), ("reshard", "--ranks", 1, "--output", WORK / "no")):
            absent = ddpm("checkpoint", arguments[0], self.run_folder / "checkpoints/step-3", *arguments[1:], check=False)
            self.assertEqual(absent.returncode, 4)
            self.assertIn("step-3: no such folder", absent.stderr)

    def test_verify_names_the_damaged_one(self):
        run = self.fresh("damaged", copied=True)
        self.assertIn("all as they were written", ddpm("checkpoint", "verify", run, ranks=2).stdout)
        shard = self.damage(run, 4)
        self.assertEqual([c["state"] for c in self.listed(run)], ["ok", "ok"])  # sizes alone do not tell
        deep = self.listed(run, "--deep")
        self.assertEqual([(c["state"], c["newest"]) for c in deep], [("ok", True), ("damaged", False)])
        for ranks in (1, 2):
            bad = ddpm("checkpoint", "verify", run, "--json", ranks=ranks, check=False)
            self.assertEqual(bad.returncode, 4, bad.stderr)
            self.assertIn("1 of 2 checkpoints damaged", bad.stderr)
            self.assertIn(str(shard), bad.stderr)
            self.assertFalse(json.loads(bad.stdout)["valid"])
        self.assertEqual(ddpm("checkpoint", "verify", run / "checkpoints/step-00000002").returncode, 0)
        (run / "checkpoints/step-00000002/MANIFEST.json").unlink()
        self.assertEqual(self.listed(run)[0]["state"], "damaged")
        self.assertRegex(ddpm("checkpoint", "list", run).stdout, r"damaged(, LATEST)?: .*MANIFEST.json")
        self.assertEqual(ddpm("checkpoint", "verify", run / "checkpoints/step-00000002", check=False).returncode, 4)

    def test_a_damaged_header_is_told_in_one_line_and_the_run_goes_on_from_the_checkpoint_before(self):
        length = 2**40
        shard, manifest = "shard-00001-of-00002.safetensors", "MANIFEST.json"
        no_sum = "damaged: its text does not end with the checksum of what stands before"
        cases = (  # file, whether the manifest's checksums fit the damage, change, message
            (shard, False, lambda data: length.to_bytes(8, "little") + data[8:], "damaged: SHA-256 "),
            (shard, True, lambda data: length.to_bytes(8, "little") + data[8:],
             f"damaged or no safetensors file: header of {length} bytes in a file of "),
            (shard, True, lambda data: data[:8] + b"x" + data[9:], "not a safetensors file: no header of JSON"),
            (shard, True, lambda data: data[:9] + b"x" + data[10:], "not valid JSON: "),
            (manifest, False, lambda data: b"x" + data[1:], no_sum),
            (manifest, True, lambda data: b"x" + data[1:], "not valid JSON: "),
        )  # fmt: skip
        for name, fits, change, message in cases:
            with self.subTest(file=name, fits=fits, message=message):
                run = self.fresh("damaged-header", copied=True)
                step = run / "checkpoints/step-00000004"
                good = (step / name).read_bytes()
                (step / name).write_bytes(change(good))
                if fits:
                    sums = [hashlib.sha256(data).hexdigest() for data in (good, (step / name).read_bytes())]
                    body = (step / manifest).read_text().rsplit('"sha256": "', 1)[0]
                    (step / manifest).write_text(sealed(body.replace(*sums)))
                refused = ddpm("checkpoint", "verify", step, check=False)
                self.assertEqual(refused.returncode, 4, refused.stderr)
                self.assertEqual(len(refused.stderr.splitlines()), 1, refused.stderr)
                self.assertIn(f"{step / name}: {message}", refused.stderr)
                said = ddpm("train", self.config, "--run.directory", run, ranks=2).stderr
                (line,) = [line for line in said.splitlines() if "DAMAGED" in line]
                self.assertIn("warning: DAMAGED CHECKPOINT passed over: ", line)
                self.assertIn(f"{step / name}: {message}", line)
                self.assertIn("steps 3 to 4", said)
                self.assertEqual(read_state(step)[1], read_state(self.run_folder / "checkpoints/step-00000004")[1])

    def test_reshard_keeps_every_bit_and_trains_on(self):
        wanted_manifest, wanted = read_state(self.run_folder / "checkpoints/step-00000004")
        texts = set()
        for shards, ranks in ((1, 1), (1, 2), (3, 1), (3, 2), (16, 2)):
            with self.subTest(shards=shards, ranks=ranks):
                output = self.fresh(f"resharded-{shards}-{ranks}")
                said = ddpm(
                    "checkpoint", "reshard", self.run_folder, "--ranks", shards, "--output", output, "--json", ranks=ranks
                )
                result = json.loads(said.stdout)
                manifest, state = read_state(pathlib.Path(result["directory"]))
                self.assertEqual(state, wanted)
                self.assertEqual((manifest["world"], len(manifest["files"])), (shards, shards))
                for key in ("step", "state", "config_hash", "dataset_hash"):
                    self.assertEqual(manifest[key], wanted_manifest[key])
                texts.add((shards, (output / "checkpoints/step-00000004/MANIFEST.json").read_text()))
        self.assertEqual(len(texts), 3)  # who wrote the shards does not show
        more = ("--run.directory", WORK / "resharded-3-1", "--train.steps", 5)
        self.assertIn("resuming", ddpm("train", self.config, *more).stderr)
        self.assertFalse([f for f in files_below(WORK) if ".tmp-" in f])

    def test_reshard_refuses(self):
        output = self.fresh("occupied")
        output.mkdir()
        there = ddpm("checkpoint", "reshard", self.run_folder, "--ranks", 2, "--output", output, check=False)
        self.assertEqual(there.returncode, 4)
        self.assertIn("is already there", there.stderr)
        run = self.fresh("damaged-source", copied=True)
        self.damage(run, 4)
        output = self.fresh("refused")
        one = run / "checkpoints/step-00000004"
        bad = ddpm("checkpoint", "reshard", one, "--ranks", 2, "--output", output, ranks=2, check=False)
        self.assertEqual(bad.returncode, 4, bad.stderr)
        self.assertIn("damaged: SHA-256", bad.stderr)
        self.assertFalse(output.exists())
        for arguments in (("--ranks", 0, "--output", output), ("--ranks", 2), ("--output", output)):
            self.assertEqual(ddpm("checkpoint", "reshard", run, *arguments, check=False).returncode, 2)

    def test_reshard_refuses_a_place_among_checkpoints(self):
        run = self.fresh("inside", copied=True)
        before = files_below(run)
        for place in ("checkpoints/step-00000050", "checkpoints/a", "checkpoints/step-00000004/a"):
            process = ddpm("checkpoint", "reshard", run, "--ranks", 2, "--output", run / place, check=False)
            self.assertEqual(process.returncode, 4, process.stderr)
            self.assertIn(f"{run}-resharded", process.stderr)
        self.assertEqual(files_below(run), before)

    def test_a_folder_with_the_manifest_of_another_step(self):
        run = self.fresh("renamed", copied=True)
        (run / "checkpoints/step-00000004").rename(run / "checkpoints/step-00000030")
        found = self.listed(run)
        self.assertEqual([(c["step"], c["state"]) for c in found], [(2, "ok"), (30, "damaged")])
        self.assertIn("its manifest is of step 4", found[1]["problem"])

    def test_what_a_newer_version_wrote_is_neither_damaged_nor_passed_over(self):
        run = self.fresh("newer", copied=True)
        manifest = run / "checkpoints/step-00000004/MANIFEST.json"
        body = manifest.read_text().rsplit('"sha256": "', 1)[0].replace('"format": 1,', '"format": 2,')
        manifest.write_text(sealed(body))
        before = files_below(run)
        seen = f"{manifest}: format 2, this program reads 1: a newer ddpm wrote it"
        for verb in (("train", self.config, "--run.directory", run, "--train.steps", 6),
                     ("sample", "--model", run, "--count", 1, "--steps", 1, "--output", WORK / "newer.npy"),
                     ("checkpoint", "reshard", run, "--ranks", 1, "--output", WORK / "newer-resharded")):  # fmt: skip
            for ranks in (1, 2):
                with self.subTest(verb=verb[0], ranks=ranks):
                    refused = ddpm(*verb, ranks=ranks, check=False)
                    self.assertEqual(refused.returncode, 4, refused.stderr)
                    (line,) = [line for line in refused.stderr.splitlines() if "error: " in line]
                    self.assertIn(seen, line)
                    self.assertIn(f"{manifest.parent} moved out of the run", line)
                    self.assertNotIn("DAMAGED", refused.stderr)
        self.assertEqual(files_below(run), before)
        self.assertEqual([(c["state"], c["newest"]) for c in self.listed(run)], [("ok", False), ("newer", False)])
        self.assertRegex(ddpm("checkpoint", "list", run).stdout, "newer, LATEST: .*" + re.escape(seen))
        bad = ddpm("checkpoint", "verify", run, check=False)
        self.assertEqual(bad.returncode, 4, bad.stderr)
        self.assertRegex(bad.stderr, "1 of 2 checkpoints of a newer version of ddpm: .*" + re.escape(seen))
        self.assertNotIn("damaged", bad.stderr)

    def test_what_killed_reshards_left_is_removed_and_what_a_living_one_writes_is_not(self):
        output = self.fresh("contested")
        left = WORK / ".contested.tmp-0123456789abcdef"
        shutil.rmtree(left, ignore_errors=True)
        (left / "checkpoints").mkdir(parents=True)
        lock = WORK / ".contested.lock"
        reshard = ("checkpoint", "reshard", self.run_folder, "--ranks", 2, "--output", output)
        with open(lock, "w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)  # as a reshard at work holds it
            for ranks in (1, 2):
                refused = ddpm(*reshard, ranks=ranks, check=False)
                self.assertEqual(refused.returncode, 4, refused.stderr)
                self.assertIn(f"{output}: another process is writing it", refused.stderr)
            self.assertTrue(left.exists() and lock.exists())
        ddpm(*reshard, ranks=2)
        self.assertEqual([path.name for path in WORK.iterdir() if "contested" in path.name], ["contested"])

    def forged(self, name, **changes):
        """A copy of the run whose newest checkpoint says something else in its state, with a fitting checksum."""
        run = self.fresh(name, copied=True)
        manifest = run / "checkpoints/step-00000004/MANIFEST.json"
        body, closing = manifest.read_text().rsplit('"sha256": "', 1)
        lines = body.split("\n")
        at = next(i for i, line in enumerate(lines) if line.startswith('"state": '))
        state = json.loads(lines[at][len('"state": ') : -1])
        lines[at] = '"state": ' + json.dumps({**state, **changes}) + ","
        body = "\n".join(lines)
        manifest.write_text(sealed(body))
        self.assertEqual(len(closing), 64 + len('"\n}\n'))
        return run

    def test_a_forged_state_is_refused(self):
        sample = ("--output", WORK / "forged.npy", "--count", 1, "--steps", 2)
        self.assertEqual(ddpm("sample", "--model", self.forged("true", resumed_from="x"), *sample).returncode, 0)
        for key, values in {
            "image_height": (-5, 2**40, 1e300, 7, 2**63 - 1, 2**64 - 1, "16", None),
            "image_width": (0, 16.0),
            "image_dtype": ("float16", 1),
            "normalization_scale": (0, -1e308, "a"),
            "normalization_offset": (1e308, True),
        }.items():
            for value in values:
                process = ddpm("sample", "--model", self.forged("forged", **{key: value}), *sample, check=False)
                self.assertEqual(process.returncode, 4, f"{key} = {value}: {process.stderr}")
                self.assertEqual(len(process.stderr.splitlines()), 1, process.stderr)
        for key, value in {"images_seen": 2**63 - 1, "validation_waited": 1e300}.items():
            run = self.forged("forged", validation_set="a", **{"validation_waited": 0, key: value})
            process = ddpm("train", self.config, "--run.directory", run, "--train.steps", 5, check=False)
            self.assertEqual(process.returncode, 4, f"{key} = {value}: {process.stderr}")
            self.assertIn(key, process.stderr)

    def test_folders_that_are_no_run(self):
        empty = self.fresh("empty")
        empty.mkdir()
        for folder in (empty, WORK / "absent"):
            for verb in ("list", "verify"):
                self.assertEqual(ddpm("checkpoint", verb, folder, check=False).returncode, 4)
        (empty / "checkpoints").mkdir()
        self.assertEqual(self.listed(empty), [])
        self.assertEqual(ddpm("checkpoint", "verify", empty, check=False).returncode, 4)


if __name__ == "__main__":
    unittest.main()
