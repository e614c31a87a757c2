#!/usr/bin/env python3
"""What `ddpm data create` makes of the decoder's speed, on 1 and on 2 ranks, beside Pillow with h5py.

    PEERS/bin/python tests/benchmarks/creating.py [--count 1500] [--size 64] [--repeats 5] [--format jpg] [--tar]

PEERS is the venv that tests/peers/setup.sh makes. The pictures are files of 500 x 375 pixels, of smooth noise, in the
kernel's cache: jpg, png, webp or tif (LZW); with --tar in one tar file, which Python's tarfile reads for Pillow. The decoder
is that of the format as `ddpm` calls it, with resizing, on one thread, from memory and without writing (bench_decode). Prints a Markdown table: pictures per second, medians with the lowest and the highest value, and the
ratio to the decoder of the same round.
"""

import io
import shutil
import sys
import tarfile
import time

import bench
import ddpm_run
import h5py
import numpy as np
from PIL import Image

WIDTH, HEIGHT = 500, 375
OPTIONS = {"jpg": {"quality": 90}, "png": {}, "webp": {"quality": 90}, "tif": {"compression": "tiff_lzw"}}


def main():
    parser = bench.parser(__doc__)
    parser.add_argument("--count", type=int, default=1500)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--format", choices=sorted(OPTIONS), default="jpg")
    parser.add_argument("--tar", action="store_true")
    args = parser.parse_args()
    pictures = make_pictures(args.work / f"photos-{args.format}-{args.count}", args.count, args.format)
    source = make_tar(pictures) if args.tar else pictures
    rates = {}
    for _ in range(args.repeats):
        words = bench.run([bench.BUILD / "tests/benchmarks/bench_decode", pictures, args.size]).split()
        decoder = float(words[1])
        of_round = {"the decoder, with resizing": decoder, "ddpm data create, 1 rank": create(args, source, 1)}
        of_round["ddpm data create, 2 ranks"] = create(args, source, 2)
        of_round["Pillow and h5py"] = create_in_python(args, source)
        for name, rate in of_round.items():
            rates.setdefault(name, []).append((rate, rate / decoder))
    rows = []
    for name, pairs in rates.items():
        speed, ratio = zip(*pairs)
        rows.append([name, "{:.0f} ({:.0f} to {:.0f})".format(*bench.spread(speed)),
                     "{:.2f} ({:.2f} to {:.2f})".format(*bench.spread(ratio))])  # fmt: skip
    bench.print_table(["", "pictures per second", "ratio to the decoder"], rows)
    print(bench.machine())
    return 0


def make_pictures(folder, count, ending):
    """Made once per count and format."""
    if not folder.exists():
        part = folder.with_name(folder.name + ".part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        random = np.random.default_rng(1)
        for i in range(count):
            coarse = random.integers(0, 256, (HEIGHT // 12, WIDTH // 12, 3), "u1")
            Image.fromarray(coarse).resize((WIDTH, HEIGHT), Image.BICUBIC).save(part / f"{i:05}.{ending}", **OPTIONS[ending])
        part.rename(folder)
    return folder


def make_tar(folder):
    path = folder.with_name(folder.name + ".tar")
    if not path.exists():
        with tarfile.open(path, "w") as tar:
            for picture in sorted(folder.iterdir()):
                tar.add(picture, picture.name)
    return path


def files_of(source):
    """What Pillow opens, one after the other."""
    if source.is_dir():
        yield from sorted(source.iterdir())
        return
    with tarfile.open(source) as tar:
        for entry in tar:
            yield io.BytesIO(tar.extractfile(entry).read())


def create(args, pictures, ranks):
    output = args.work / "created"
    shutil.rmtree(output, ignore_errors=True)
    start = time.monotonic()
    bench.on_ranks(ranks, ddpm_run.DDPM, "data", "create", pictures, "--output", output, "--size", args.size, OMP_NUM_THREADS=1)
    return args.count / (time.monotonic() - start)


def create_in_python(args, pictures):
    """The loop of a Python script, without its start: one process, shorter side to size, the middle, one HDF5 file."""
    output = args.work / "created.h5"
    start = time.monotonic()
    with h5py.File(output, "w") as file:
        images = file.create_dataset("images", (args.count, args.size, args.size, 3), "u1")
        for i, file in enumerate(files_of(pictures)):
            image = Image.open(file).convert("RGB")
            shorter = min(image.size)
            image = image.resize([side * args.size // shorter for side in image.size], Image.BILINEAR)
            left, top = (image.width - args.size) // 2, (image.height - args.size) // 2
            images[i] = np.asarray(image.crop((left, top, left + args.size, top + args.size)))
    return args.count / (time.monotonic() - start)


if __name__ == "__main__":
    sys.exit(main())
