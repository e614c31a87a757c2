"""Sizes that divide nothing, end to end: a model that predicts zeros and is asked for the image itself has a loss that
tells which images a step has seen, and how often."""

import collections
import os
import pathlib
import shutil
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_run import ddpm, fill_weights, metrics, write_config, write_png  # noqa: E402

WORK = pathlib.Path.cwd()
SIZE = 32
VALUES = 3 * SIZE * SIZE
GREY = (128 / 127.5 - 1.0) ** 2  # of a value of 128: nearly nothing
GLOBAL = 12  # of 1 to 4 ranks
MARKED = 7  # images that can be told from one another: 3^7 < VALUES
# Whatever predicts zeros will do.
MODEL = {"block_out_channels": [8, 8], "down_block_types": ["DownBlock2D"] * 2, "up_block_types": ["UpBlock2D"] * 2, "add_attention": False}


def mean_square(white):
    return (white * 1.0 + (VALUES - white) * GREY) / VALUES


def whites(index):
    """White values of a picture, the others are grey: 3^k, so that sums of few pictures can be read like a number."""
    return 3**index if index < MARKED else 0


def seen(loss):
    """How often each marked image is in a global batch of that mean loss (at most twice: sets are larger than that)."""
    white = round((loss - GREY) * GLOBAL * VALUES / (1.0 - GREY))
    digits = []
    for _ in range(MARKED):
        digits.append(white % 3)
        white //= 3
    assert white == 0, loss
    return digits


class Uneven(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        shutil.rmtree(WORK / "zeros", ignore_errors=True)  # an earlier version's model may be another one

    def dataset(self, count, shards):
        folder = WORK / f"set-{count}-{shards}"
        if not folder.exists():
            pictures = WORK / f"{folder.name}-pictures"
            shutil.rmtree(pictures, ignore_errors=True)
            pictures.mkdir()
            for i in range(count):
                data = b"\xff" * whites(i) + b"\x80" * (VALUES - whites(i))
                rows = [data[y * 3 * SIZE : (y + 1) * 3 * SIZE] for y in range(SIZE)]
                write_png(pictures / f"{i:04}.png", SIZE, SIZE, rows)
            ddpm("data", "create", pictures, "--output", folder, "--size", SIZE, "--shards", shards)
        return folder

    def zeros(self, dataset):
        folder = WORK / "zeros"
        if not folder.exists():
            run = WORK / "zeros-run"
            shutil.rmtree(run, ignore_errors=True)
            ddpm("train", write_config(WORK / "zeros.toml", run, dataset, model=MODEL, train={"steps": 1}))
            shutil.copytree(fill_weights(run / "model", 0.0), folder)
        return folder

    def losses(self, dataset, steps, ranks, data, **sections):
        run = WORK / "run"
        shutil.rmtree(run, ignore_errors=True)
        defaults = {
            "data": {"block_images": 5, "pool_images": 12, **data},
            "model": {**MODEL, "pretrained": str(self.zeros(dataset))},
            "diffusion": {"prediction_type": "sample"},
            "batch": {"global_size": GLOBAL, "micro_size": GLOBAL // ranks // 2},  # two or three on each rank
            "train": {"steps": steps},
            "optimizer": {"learning_rate": 0.0},
        }
        config = write_config(WORK / "run.toml", run, dataset, **(defaults | sections))
        ddpm("train", config, ranks=ranks)
        return metrics(run)

    def test_every_marked_image_is_read_once_in_each_epoch(self):
        """12 epochs of 37 images in 37 steps of 12: a batch that straddles two epochs can see an image twice."""
        dataset = self.dataset(37, 5)
        for ranks, data in ((1, {}), (2, {"shuffle": "full"}), (3, {}), (4, {"block_images": 7, "pool_images": 3})):
            lines = self.losses(dataset, 37, ranks, data)
            batches = [seen(line["loss"]) for line in lines]
            for image in range(MARKED):
                times = [step for step, digits in enumerate(batches) for _ in range(digits[image])]
                self.assertEqual(len(times), 12)
                for epoch, step in enumerate(times):
                    first, last = 37 * epoch // GLOBAL, (37 * epoch + 36) // GLOBAL
                    self.assertTrue(first <= step <= last, f"image {image} of epoch {epoch} in step {step + 1}")

    def test_stored_order_is_followed_slot_by_slot(self):
        dataset = self.dataset(37, 5)
        for ranks in (1, 4):
            for step, line in enumerate(self.losses(dataset, 10, ranks, {"shuffle": "none"})):
                images = collections.Counter((step * GLOBAL + p) % 37 for p in range(GLOBAL))
                self.assertEqual(seen(line["loss"]), [images[i] for i in range(MARKED)], f"step {step + 1}")

    def test_a_set_smaller_than_a_batch(self):
        """5 images in batches of 12: each twice or three times; over 5 steps each 12 times."""
        dataset = self.dataset(5, 3)
        wanted = 12 * sum(mean_square(whites(i)) for i in range(5))
        for ranks in (1, 4):
            lines = self.losses(dataset, 5, ranks, {})
            self.assertAlmostEqual(sum(line["loss"] * GLOBAL for line in lines), wanted, delta=1e-6 * wanted)

    def test_epochs_that_no_batch_divides_are_rounded_up(self):
        dataset = self.dataset(37, 5)
        lines = self.losses(dataset, 0, 3, {}, train={"steps": None, "epochs": 2.0})
        self.assertEqual(len(lines), 7)  # 74 images
        self.assertEqual(lines[-1]["images_seen"], 84)
        # Of a binary 2.2, which is a little larger than 2.2, 50 images make 110.00000000000001.
        lines = self.losses(self.dataset(50, 2), 0, 1, {}, train={"steps": None, "epochs": 2.2}, batch={"global_size": 5, "micro_size": 5})
        self.assertEqual((len(lines), lines[-1]["images_seen"]), (22, 110))

    def test_validation_counts_every_image_once_on_any_number_of_ranks(self):
        dataset = self.dataset(37, 5)
        for images, ranks, batch in ((0, 1, 12), (0, 2, 3), (0, 4, 1), (1, 3, 2), (6, 4, 3), (36, 3, 2)):
            count = images or 37
            wanted = sum(mean_square(whites(i)) for i in range(count)) / count
            lines = self.losses(
                dataset,
                1,
                ranks,
                {"validation": str(dataset)},
                validation={"every_steps": 1, "images": images},
                batch={"global_size": GLOBAL, "micro_size": batch},
                parallel={"zero_stage": ranks - 1},
            )
            self.assertAlmostEqual(lines[0]["validation_loss"], wanted, delta=1e-5 * wanted, msg=f"{images} on {ranks}")


if __name__ == "__main__":
    unittest.main(verbosity=2)
