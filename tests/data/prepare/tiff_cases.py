"""TIFF files of every kind that `ddpm data create` reads, with the pixels that they must become. Plain ones are written
here byte by byte, layouts by tifffile, compressions by Pillow."""

import io
import struct

import numpy as np
import tifffile
from PIL import Image

WIDTH, HEIGHT = 13, 9
WHITE_IS_ZERO, BLACK_IS_ZERO, RGB, PALETTE, INKS = 0, 1, 2, 3, 5
SHORT, LONG = 3, 4


def rounded(x):
    return np.floor(x + 0.5)


def as_rgb(colour):
    return np.broadcast_to(rounded(colour), colour.shape[:2] + (3,)).astype(np.uint8)


def packed(samples, depth, order):
    """Rows of samples [height, width, channels], each filled up to whole bytes."""
    if depth >= 8:
        return samples.astype(f"{order}u{depth // 8}").tobytes()
    rows = b""
    for row in samples:
        bits = "".join(format(int(v), f"0{depth}b") for v in row.reshape(-1))
        bits += "0" * (-len(bits) % 8)
        rows += int(bits, 2).to_bytes(len(bits) // 8, "big")
    return rows


def tiff_file(tags, data, order="<"):
    """A file of one directory, with the image's data last. `tags`: number to (type, values); of LONG at 0 to where the data are."""
    entries, behind = b"", b""
    at = 8 + 2 + 12 * len(tags) + 4
    texts = {tag: np.asarray(values, order + ("u2" if kind == SHORT else "u4")).tobytes() for tag, (kind, values) in tags.items()}
    start = at + sum(len(text) for text in texts.values() if len(text) > 4)
    for tag in sorted(tags):
        kind, values = tags[tag]
        text = texts[tag]
        if tag == 273:  # offsets of strips
            text = np.asarray([start + v for v in values], order + "u4").tobytes()
        entries += struct.pack(order + "HHI", tag, kind, len(values))
        if len(text) > 4:
            entries += struct.pack(order + "I", at + len(behind))
            behind += text
        else:
            entries += text.ljust(4, b"\0")
    mark = b"II" if order == "<" else b"MM"
    head = mark + struct.pack(order + "HI", 42, 8) + struct.pack(order + "H", len(tags))
    return head + entries + struct.pack(order + "I", 0) + behind + data


def tags_of(width, height, depth, photometric, channels, **more):
    tags = {256: (LONG, [width]), 257: (LONG, [height]), 258: (SHORT, [depth] * channels), 259: (SHORT, [1]),
            262: (SHORT, [photometric]), 277: (SHORT, [channels])}  # fmt: skip
    return tags | {int(tag[1:]): value for tag, value in more.items()}


def plain(samples, depth, photometric, order="<", strip_rows=4, **more):
    """An uncompressed file of samples [height, width, channels], in strips."""
    height, width, channels = samples.shape
    strips = [packed(samples[y : y + strip_rows], depth, order) for y in range(0, height, strip_rows)]
    ends = np.cumsum([len(strip) for strip in strips])
    tags = tags_of(width, height, depth, photometric, channels, **more)
    tags |= {273: (LONG, [0, *ends[:-1]]), 278: (LONG, [strip_rows]), 279: (LONG, [len(strip) for strip in strips])}
    return tiff_file(tags, b"".join(strips), order)


def plain_cases(rng):
    for depth in (1, 2, 4, 8, 16):
        order = "<>"[depth % 3 == 1]
        samples = rng.integers(0, 2**depth, (HEIGHT, WIDTH, 1))
        grey = rounded(samples * (255.0 / (2**depth - 1)))
        yield f"tiff-grey-{depth}.tif", plain(samples, depth, BLACK_IS_ZERO, order), as_rgb(grey)
        yield f"tiff-white-is-zero-{depth}.tif", plain(samples, depth, WHITE_IS_ZERO, order), as_rgb(255 - grey)
        if depth <= 8:
            palette = rng.integers(0, 256, (3, 2**depth))
            data = plain(samples, depth, PALETTE, order, m320=(SHORT, (palette * 257).reshape(-1)))
            yield f"tiff-palette-{depth}.tiff", data, as_rgb(palette[:, samples[..., 0]].transpose(1, 2, 0).astype(float))
    for depth in (8, 16):
        most = 2**depth - 1
        colours = rng.integers(0, most + 1, (HEIGHT, WIDTH, 3))
        alpha = rng.integers(0, most + 1, (HEIGHT, WIDTH, 1))
        eight = rounded(colours * (255.0 / most))
        yield f"tiff-rgb-{depth}.tif", plain(colours, depth, RGB), as_rgb(eight)
        both = np.concatenate([colours, alpha], -1)
        on_white = (colours * (alpha / most) + (most - alpha)) * (255.0 / most)
        yield f"tiff-rgb-alpha-{depth}.tif", plain(both, depth, RGB, ">", m338=(SHORT, [2])), as_rgb(on_white)
        yield f"tiff-rgb-other-{depth}.tif", plain(both, depth, RGB, m338=(SHORT, [0])), as_rgb(eight)
        dimmed = rounded(colours * (alpha / most))
        both = np.concatenate([dimmed, alpha], -1).astype(int)
        on_white = (dimmed + (most - alpha)) * (255.0 / most)
        yield f"tiff-premultiplied-{depth}.tif", plain(both, depth, RGB, m338=(SHORT, [1])), as_rgb(on_white)
        both = np.concatenate([colours[..., :1], alpha], -1)
        on_white = ((most - colours[..., :1]) * (alpha / most) + (most - alpha)) * (255.0 / most)
        yield f"tiff-white-is-zero-alpha-{depth}.tif", plain(both, depth, WHITE_IS_ZERO, m338=(SHORT, [2])), as_rgb(on_white)
    colours = rng.integers(0, 256, (HEIGHT, WIDTH, 3))
    inks = rng.integers(0, 256, (HEIGHT, WIDTH, 4))
    light = (255.0 - inks[..., :3]) * (255.0 - inks[..., 3:]) / 255.0
    yield "tiff-cmyk.tif", plain(inks, 8, INKS), as_rgb(light)
    turns = {2: lambda p: p[:, ::-1], 3: lambda p: p[::-1, ::-1], 4: lambda p: p[::-1], 5: lambda p: p.transpose(1, 0, 2),
             6: lambda p: np.rot90(p, -1), 7: lambda p: p[::-1, ::-1].transpose(1, 0, 2), 8: np.rot90}  # fmt: skip
    for orientation, turn in turns.items():
        data = plain(colours, 8, RGB, m274=(SHORT, [orientation]))
        yield f"tiff-orientation-{orientation}.tif", data, as_rgb(turn(colours).astype(float))
    yield "tiff-wrong-name.png", plain(colours, 8, RGB), as_rgb(colours.astype(float))


def by_tifffile(values, **options):
    out = io.BytesIO()
    tifffile.imwrite(out, values, metadata=None, **options)
    return out.getvalue()


def layout_cases(rng):
    """Sizes that no tile or strip divides."""
    deep = rng.integers(0, 65536, (37, 53, 3)).astype(np.uint16)
    pixels = as_rgb(deep / 257.0)
    options = {
        "tiles": {"tile": (16, 32)},
        "tiles-zlib": {"tile": (16, 16), "compression": "zlib"},
        "big": {"bigtiff": True, "byteorder": ">"},
        "predictor": {"compression": "zlib", "predictor": True, "rowsperstrip": 5},
    }
    for name, option in options.items():
        yield f"tiff-{name}.tif", by_tifffile(deep, photometric="rgb", **option), pixels
    planes = np.ascontiguousarray(deep.transpose(2, 0, 1))
    for name, option in {"planes": {}, "planes-tiles": {"tile": (16, 16), "compression": "zlib"}}.items():
        yield f"tiff-{name}.tif", by_tifffile(planes, photometric="rgb", planarconfig="separate", **option), pixels
    pages = np.stack([deep[..., 0], deep[..., 1]])
    yield "tiff-pages.tif", by_tifffile(pages, photometric="minisblack"), as_rgb(deep[..., :1] / 257.0)


def compression_cases(rng):
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    smooth = np.stack([x * 19, y * 28, (x + y) * 12], -1).clip(0, 255).astype(np.uint8)
    picture = Image.fromarray(smooth)
    for name, compression in {"lzw": "tiff_lzw", "packbits": "packbits", "deflate": "tiff_adobe_deflate", "jpeg": "jpeg"}.items():
        out = io.BytesIO()
        picture.save(out, "TIFF", compression=compression)
        pixels = np.asarray(Image.open(io.BytesIO(out.getvalue())).convert("RGB"))
        yield f"tiff-{name}.tif", out.getvalue(), pixels
    out = io.BytesIO()
    lines = rng.integers(0, 2, (HEIGHT, WIDTH)).astype(bool)
    Image.fromarray(lines).save(out, "TIFF", compression="group4")
    yield "tiff-fax.tif", out.getvalue(), as_rgb(lines[..., None] * 255.0)


def tiff_cases(rng):
    yield from plain_cases(rng)
    yield from layout_cases(rng)
    yield from compression_cases(rng)


def float_cases(rng):
    """(name, bytes of the file, values [height, width, channels] of float32)."""
    values = rng.normal(size=(24, 24, 3)).astype(np.float32) * 1e3
    grey = values[..., 0]
    yield "float-grey.tif", by_tifffile(grey, photometric="minisblack"), grey[..., None]
    yield "float-big-endian.tif", by_tifffile(grey, photometric="minisblack", byteorder=">"), grey[..., None]
    yield "float-tiles.tif", by_tifffile(grey, photometric="minisblack", tile=(16, 16), compression="zlib"), grey[..., None]
    double = grey.astype(np.float64) * np.pi
    yield "float-64.tif", by_tifffile(double, photometric="minisblack"), double.astype(np.float32)[..., None]
    out = io.BytesIO()
    Image.fromarray(grey).save(out, "TIFF", compression="tiff_lzw")
    yield "float-by-pillow.tif", out.getvalue(), grey[..., None]


def bad_tiff_cases(rng):
    """(name, bytes of the file, a part of the reason that must be given)."""
    samples = rng.integers(0, 256, (HEIGHT, WIDTH, 3))
    whole = plain(samples, 8, RGB)
    yield "cut.tif", whole[:-30], "TIFF: "
    yield "magic-only.tif", whole[:4], "TIFF: "
    one = {273: (LONG, [0]), 279: (LONG, [100])}
    strips = lambda *size, **more: tiff_file(tags_of(*size, 8, RGB, 3, **more) | one, bytes(100))
    yield "huge.tif", strips(60000, 60000), "60000 x 60000"
    yield "wide.tif", strips(2**31 + 5, 1), "TIFF: "
    yield "large.tif", strips(10000, 10000), "TIFF: "
    tiles = {322: (LONG, [65520]), 323: (LONG, [65520]), 324: (LONG, [150]), 325: (LONG, [100])}
    yield "tile.tif", tiff_file(tags_of(4, 4, 8, RGB, 3) | tiles, bytes(200)), "TIFF: tiles of: 65520 x 65520"
    yield "samples.tif", tiff_file(tags_of(4, 4, 8, RGB, 3) | one | {277: (SHORT, [60000])}, bytes(100)), "TIFF: "
    bands = rng.integers(0, 256, (HEIGHT, WIDTH, 8))
    for count, photometric, more in ((2, BLACK_IS_ZERO, [0]), (3, BLACK_IS_ZERO, [2, 0]), (5, RGB, [0, 0]), (8, RGB, [2, 0, 0, 0, 0]),
                                     (8, BLACK_IS_ZERO, [0] * 7), (6, INKS, [0, 0])):  # fmt: skip
        data = plain(bands[..., :count], 8, photometric, m338=(SHORT, more))
        yield f"bands-{count}-{photometric}.tif", data, f"TIFF: {count} samples per pixel, wanted "
    yield "no-palette.tif", plain(samples[..., :1] % 16, 4, PALETTE), "TIFF: "
    yield "lab.tif", plain(samples, 8, 8), "photometric interpretation 8 is not read"
    yield "signed.tif", plain(samples, 8, RGB, m339=(SHORT, [2, 2, 2])), "sample format 2 is not read"
    yield "bits.tif", plain(samples, 32, RGB), "integers of 32 bits are not read"
    yield "old-jpeg.tif", strips(13, 9, m259=(SHORT, [6])), "TIFF: "
    yield "float.tif", by_tifffile(np.zeros((9, 13), np.float32)), "float32 values, while the first picture"
