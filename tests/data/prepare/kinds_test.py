"""Files that `ddpm data create` does not read are named: those of other kinds, and what is no file at all."""

import json
import os
import pathlib
import shutil
import sys
import unittest

SOURCE = pathlib.Path(os.environ["DDPM_SOURCE_DIR"])
sys.path.insert(0, str(SOURCE / "tests" / "support"))
from ddpm_run import ddpm, write_png  # noqa: E402

WORK = pathlib.Path.cwd()


class Kinds(unittest.TestCase):
    """What is not read is named."""

    def setUp(self):
        self.source = WORK / "kinds"
        shutil.rmtree(self.source, ignore_errors=True)
        self.source.mkdir()
        for name in ("a.gif", "b.GIF", "c.bmp", "d.jp2", "notes.txt", "README"):
            (self.source / name).write_bytes(b"x")

    def create(self, *options):
        output = WORK / "kinds-set"
        shutil.rmtree(output, ignore_errors=True)
        return output, ddpm("data", "create", self.source, "--output", output, "--size", 16, *options, check=False)

    def test_pictures_of_other_kinds_are_listed_and_all_kinds_counted(self):
        write_png(self.source / "good.png", 16, 16, [bytes(48)] * 16)
        output, result = self.create()
        self.assertEqual(result.returncode, 0, result.stderr)
        listed = [json.loads(line) for line in (output / "skipped.jsonl").read_text().splitlines()]
        self.assertEqual([entry["path"] for entry in listed], ["a.gif", "b.GIF", "c.bmp", "d.jp2"])
        self.assertEqual(listed[0]["reason"], ".gif files are not read, PNG, JPEG, WebP and TIFF are")
        self.assertIn("4 images were left out and are listed in", result.stderr)
        self.assertIn(
            "6 other files passed over, PNG, JPEG, WebP and TIFF are read: 2 .gif, 1 without an ending, 1 .bmp, 1 .jp2 and 1 .txt",
            result.stderr,
        )
        self.assertIn("1 image of 16 x 16 x 3 in 1 shard, 4 left out", result.stdout)
        _, result = self.create("--json")
        said = json.loads(result.stdout)
        self.assertEqual(said["other_files"], {"": 1, ".bmp": 1, ".gif": 2, ".jp2": 1, ".txt": 1})

    def test_a_folder_of_other_kinds_is_refused_with_their_names(self):
        output, result = self.create()
        self.assertEqual(result.returncode, 3)
        self.assertIn("no file ends in .png, .jpg, .jpeg, .webp, .tif or .tiff (it has 2 .gif, 1 without an ending, 1 .bmp", result.stderr)
        self.assertFalse(output.exists())

    def test_a_list_names_regular_files_only(self):
        good = self.source / "good.png"
        write_png(good, 16, 16, [bytes(48)] * 16)
        os.mkfifo(self.source / "pipe.png")
        listed = self.source / "list.txt"
        for other in ("/dev/zero", self.source / "pipe.png", self.source):
            for names in ((other, good), (good, other)):
                listed.write_text("".join(f"{name}\n" for name in names))
                output = WORK / "kinds-set"
                result = ddpm("data", "create", listed, "--output", output, "--size", 16, check=False)
                self.assertEqual(result.returncode, 3, result.stderr)
                self.assertIn(f"{other}: not a regular file", result.stderr)
                self.assertFalse(output.exists())

    def test_one_image_was_left_out(self):
        for path in self.source.iterdir():
            path.unlink()
        write_png(self.source / "good.png", 16, 16, [bytes(48)] * 16)
        (self.source / "bad.png").write_bytes(b"no picture")
        _, result = self.create()
        self.assertIn("1 image was left out and is listed in", result.stderr)
        self.assertIn("the first is bad.png: neither PNG, JPEG", result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
