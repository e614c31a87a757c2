"""Event files, pictures and arrays are what TensorBoard, Pillow and numpy take them for.

Usage: peers_test.py PEER_FILES (the program made from peer_files.cpp)
"""

import io
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np
from PIL import Image
from tensorboard.backend.event_processing.data_provider import MultiplexerDataProvider
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
from tensorboard.context import RequestContext
from tensorboard.plugins.base_plugin import TBContext
from tensorboard.plugins.hparams import api_pb2, get_experiment, list_session_groups
from tensorboard.plugins.hparams.backend_context import Context
from tensorboard.util.tensor_util import make_ndarray
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

PEER_FILES = sys.argv.pop(1)


class PeersTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls._temporary = tempfile.TemporaryDirectory()
        cls.folder = Path(cls._temporary.name)
        rng = np.random.default_rng(0)
        cls.array = rng.standard_normal((3, 2, 4, 5)).astype(np.float32)
        np.save(cls.folder / "from_numpy.npy", cls.array)
        subprocess.run([PEER_FILES, cls.folder, cls.folder / "from_numpy.npy"], check=True)

    @classmethod
    def tearDownClass(cls):
        cls._temporary.cleanup()

    def test_tensorboard_reads_every_scalar(self):
        events = EventAccumulator(str(self.folder / "events"))
        events.Reload()
        self.assertEqual(sorted(events.Tags()["scalars"]), ["train/grad_norm", "train/loss"])
        norms = events.Scalars("train/grad_norm")
        self.assertEqual([(e.step, e.wall_time) for e in norms], [(1, 1700000000.25), (2, 1700000000.25)])
        np.testing.assert_allclose([e.value for e in norms], [1e-20, 2e-20], rtol=1e-6)

    def test_tensorboard_forgets_the_steps_after_the_checkpoint(self):
        events = EventAccumulator(str(self.folder / "events"))
        events.Reload()
        losses = [(e.step, e.value) for e in events.Scalars("train/loss")]
        self.assertEqual(losses, [(1, 1.0), (2, 0.5), (3, -3.0), (2**40, -4.0)])

    def test_tensorboard_shows_pictures_texts_and_hyperparameters(self):
        events = EventAccumulator(str(self.folder / "starts"))
        events.Reload()
        # The second start takes the place of the first.
        (picture,) = events.Images("samples")
        self.assertEqual((picture.step, picture.height, picture.width), (3, 8, 16))
        with Image.open(io.BytesIO(picture.encoded_image_string)) as image:
            self.assertEqual(image.size, (16, 8))
        (text,) = events.Tensors("configuration")
        self.assertEqual(events.SummaryMetadata("configuration").plugin_data.plugin_name, "text")
        self.assertEqual(make_ndarray(text.tensor_proto).tolist(), [b"rate **0.0001**"])
        self.assertEqual([e.step for e in events.Scalars("train/loss")], [3])

    def test_the_hparams_plugin_reads_the_session(self):
        multiplexer = EventMultiplexer().AddRunsFromDirectory(str(self.folder))
        multiplexer.Reload()
        provider = MultiplexerDataProvider(multiplexer, str(self.folder))
        context = Context(TBContext(data_provider=provider))
        request = RequestContext()
        experiment = get_experiment.Handler(request, context, "", api_pb2.GetExperimentRequest()).run()
        self.assertEqual(
            {info.name for info in experiment.hparam_infos},
            {"optimizer.learning_rate", "ema.enabled", "lr_schedule.name"},
        )
        answer = list_session_groups.Handler(
            request,
            context,
            "",
            api_pb2.ListSessionGroupsRequest(allowed_statuses=[api_pb2.STATUS_UNKNOWN], slice_size=10),
        ).run()
        (group,) = answer.session_groups
        self.assertEqual(group.name, "my-run")
        self.assertEqual(group.hparams["lr_schedule.name"].string_value, "cosine")
        self.assertTrue(group.hparams["ema.enabled"].bool_value)
        self.assertIn(group.hparams["optimizer.learning_rate"].number_value, (1e-3, 1e-4))

    def test_numpy_reads_what_was_read_from_numpy(self):
        copy = np.load(self.folder / "copy.npy")
        self.assertEqual(copy.dtype, np.float32)
        self.assertTrue(copy.flags.c_contiguous)
        np.testing.assert_array_equal(copy, self.array)

    def test_numpy_would_write_the_same_bytes(self):
        self.assertEqual((self.folder / "copy.npy").read_bytes(), (self.folder / "from_numpy.npy").read_bytes())

    def test_pillow_sees_the_grid(self):
        for name, mode, channels in (("grey.png", "L", 1), ("rgb.png", "RGB", 3)):
            with Image.open(self.folder / name) as image:
                self.assertEqual(image.mode, mode)
                pixels = np.asarray(image).reshape(image.height, image.width, channels)
            i, y, x, c = np.ogrid[:6, :5, :7, :channels]
            images = ((i + 3 * y + 11 * x + 50 * c) % 256).astype(np.uint8)
            wanted = np.full((2 * (5 + 2) + 2, 4 * (7 + 2) + 2, channels), 255, np.uint8)
            for n in range(6):
                top, left = 2 + n // 4 * 7, 2 + n % 4 * 9
                wanted[top : top + 5, left : left + 7] = images[n]
            np.testing.assert_array_equal(pixels, wanted)


if __name__ == "__main__":
    unittest.main()
