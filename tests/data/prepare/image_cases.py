"""Image files of every kind that `ddpm data create` reads, with the pixels that they must become, and files that it
must refuse. PNG files are written here byte by byte, so that what they mean does not depend on another encoder; JPEG
and WebP files are written and read back by Pillow. TIFF files are those of tiff_cases.py."""

import io
import struct
import zlib

import numpy as np
from PIL import Image, ImageOps

from tiff_cases import bad_tiff_cases, tiff_cases

WIDTH, HEIGHT = 13, 9
ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
GREY, RGB, PALETTE, GREY_ALPHA, RGB_ALPHA = 0, 2, 3, 4, 6
CHANNELS = {GREY: 1, RGB: 3, PALETTE: 1, GREY_ALPHA: 2, RGB_ALPHA: 4}


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def header(width, height, depth, colour, interlaced=False):
    return chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, int(interlaced)))


def packed_rows(samples, depth):
    """Filter type 0 and the samples [height, width, channels] of one pass."""
    if depth >= 8:
        return b"".join(b"\0" + row.astype(f">u{depth // 8}").tobytes() for row in samples)
    out = b""
    for row in samples:
        bits = "".join(format(int(v), f"0{depth}b") for v in row.reshape(-1))
        bits += "0" * (-len(bits) % 8)
        out += b"\0" + int(bits, 2).to_bytes(len(bits) // 8, "big")
    return out


def png(samples, depth, colour, interlaced=False, extra=b"", late=b""):
    """A PNG file of integer samples [height, width, channels]; `extra` chunks come before the image, `late` behind."""
    height, width, _ = samples.shape
    passes = ADAM7 if interlaced else ((0, 0, 1, 1),)
    parts = [samples[y::dy, x::dx] for x, y, dx, dy in passes]
    data = zlib.compress(b"".join(packed_rows(p, depth) for p in parts if p.size))
    middle = len(data) // 2  # two IDAT chunks
    return (b"\x89PNG\r\n\x1a\n" + header(width, height, depth, colour, interlaced) + extra
            + chunk(b"IDAT", data[:middle]) + chunk(b"IDAT", data[middle:]) + late + chunk(b"IEND", b""))


def rounded(x):
    return np.floor(x + 0.5)


def on_white(colour, alpha):
    return rounded((colour * alpha + 255.0 * (255.0 - alpha)) / 255.0)


def as_rgb(colour):
    return np.broadcast_to(colour, colour.shape[:2] + (3,)).astype(np.uint8)


def tiff(orientation, order):
    """An EXIF structure with three entries, the orientation in the middle."""
    mark = b"II" if order == "<" else b"MM"
    entry = lambda tag, kind, value: struct.pack(order + "HHIHH", tag, kind, 1, value, 0)
    entries = entry(0x0100, 3, WIDTH) + entry(0x0112, 3, orientation) + entry(0x0128, 3, 2)
    return mark + struct.pack(order + "HIH", 42, 8, 3) + entries + struct.pack(order + "I", 0)


def direct_png_cases(rng):
    """Colour types without a palette, in each bit depth, interlaced or not, with tRNS where it may stand."""
    depths = {GREY: (1, 2, 4, 8, 16), RGB: (8, 16), GREY_ALPHA: (8, 16), RGB_ALPHA: (8, 16)}
    names = {GREY: "grey", RGB: "rgb", GREY_ALPHA: "grey-alpha", RGB_ALPHA: "rgb-alpha"}
    for colour, name in names.items():
        for depth in depths[colour]:
            samples = rng.integers(0, 2**depth, (HEIGHT, WIDTH, CHANNELS[colour]))
            exact = samples * (255.0 / (2**depth - 1))
            pixels = on_white(exact[..., :-1], exact[..., -1:]) if colour in (GREY_ALPHA, RGB_ALPHA) else rounded(exact)
            yield f"{name}-{depth}.png", png(samples, depth, colour), as_rgb(pixels)
            yield f"{name}-{depth}-interlaced.png", png(samples, depth, colour, True), as_rgb(pixels)
            if colour in (GREY, RGB):
                key = samples[4, 5]  # all pixels of this colour are transparent
                trns = chunk(b"tRNS", b"".join(struct.pack(">H", int(v)) for v in key))
                clear = (samples == key).all(-1, keepdims=True)
                shown = as_rgb(np.where(clear, 255.0, pixels))
                yield f"{name}-{depth}-key.png", png(samples, depth, colour, extra=trns), shown


def palette_png_cases(rng):
    for depth in (1, 2, 4, 8):
        size = min(2**depth, 200)
        palette = rng.integers(0, 256, (size, 3))
        alpha = rng.integers(0, 256, max(1, size // 2))  # entries beyond it are opaque
        samples = rng.integers(0, size, (HEIGHT, WIDTH, 1))
        plte = chunk(b"PLTE", palette.astype(np.uint8).tobytes())
        trns = chunk(b"tRNS", alpha.astype(np.uint8).tobytes())
        pixels = palette[samples[..., 0]].astype(float)
        full = np.full(size, 255.0)
        full[: len(alpha)] = alpha
        yield f"palette-{depth}.png", png(samples, depth, PALETTE, extra=plte), as_rgb(pixels)
        yield (f"palette-{depth}-alpha-interlaced.png", png(samples, depth, PALETTE, True, plte + trns),
               as_rgb(on_white(pixels, full[samples])))


def odd_png_cases(rng):
    samples = rng.integers(0, 256, (HEIGHT, WIDTH, 3))
    pixels = as_rgb(samples.astype(float))
    profile = chunk(b"iCCP", b"p\0\0" + zlib.compress(b"no profile")) + chunk(b"gAMA", struct.pack(">I", 100000))
    text = chunk(b"zTXt", b"t\0\0" + zlib.compress(bytes(1 << 24)))  # 16 MiB of text, never to be unpacked
    yield "extra-chunks.png", png(samples, 8, RGB, extra=profile + text), pixels
    yield "wrong-extension.jpg", png(samples, 8, RGB), pixels
    yield "UPPER.PNG", png(samples, 8, RGB), pixels
    yield "one-pixel.png", png(samples[:1, :1], 8, RGB), pixels[:1, :1]
    yield "one-pixel-interlaced.png", png(samples[:1, :1], 8, RGB, True), pixels[:1, :1]
    turned = as_rgb(np.rot90(samples, -1).astype(float))  # 6: the top is at the right
    yield "exif-before.png", png(samples, 8, RGB, extra=chunk(b"eXIf", tiff(6, ">"))), turned
    yield "exif-behind.png", png(samples, 8, RGB, late=chunk(b"eXIf", tiff(6, "<"))), turned


def saved(image, kind="JPEG", **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def without_segment(data, marker):
    """A JPEG file less the first segment of this kind."""
    at = data.index(marker)
    return data[:at] + data[at + 2 + struct.unpack(">H", data[at + 2 : at + 4])[0] :]


def picture():
    """A smooth picture, so that a wrong turn or channel is far from the right one."""
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    return np.stack([x * 19, y * 28, (x + y) * 12], -1).clip(0, 255).astype(np.uint8)


def jpeg_cases():
    rgb = Image.fromarray(picture())
    inks = np.dstack([picture(), picture()[::-1, :, 0] // 2])
    cmyk = Image.frombytes("CMYK", (WIDTH, HEIGHT), inks.tobytes())
    adobe = saved(cmyk, quality=95)
    transform = adobe.index(b"Adobe") + 11  # 0: CMYK, 2: YCCK
    files = {
        "jpeg-420.jpg": saved(rgb, quality=90),
        "jpeg-444.jpeg": saved(rgb, quality=90, subsampling=0),
        "jpeg-progressive.JPG": saved(rgb, quality=90, progressive=True),
        "jpeg-grey.jpg": saved(rgb.convert("L"), quality=90),
        "jpeg-restarts.jpg": saved(rgb, quality=90, restart_marker_blocks=1),
        "jpeg-as-rgb.jpg": saved(rgb, quality=90, keep_rgb=True),
        "jpeg-cmyk-adobe.jpg": adobe,
        "jpeg-cmyk-plain.jpg": without_segment(adobe, b"\xff\xee"),
        "jpeg-ycck.jpg": adobe[:transform] + b"\x02" + adobe[transform + 1 :],
        "wrong-extension.png": saved(rgb, quality=90),
    }
    for orientation in range(1, 9):
        order = "<>"[orientation % 2]
        files[f"exif-{orientation}.jpg"] = saved(rgb, quality=90, exif=b"Exif\0\0" + tiff(orientation, order))
    files["exif-9.jpg"] = saved(rgb, quality=90, exif=b"Exif\0\0" + tiff(9, "<"))
    for name, data in files.items():
        image = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
        yield name, data, np.asarray(image.convert("RGB"))


def webp_cases(rng):
    rgb = Image.fromarray(picture())
    samples = rng.integers(0, 256, (HEIGHT, WIDTH, 4)).astype(np.uint8)
    clear = Image.fromarray(samples)
    pixels = as_rgb(on_white(samples[..., :3].astype(float), samples[..., 3:].astype(float)))
    yield "webp-lossless.webp", saved(rgb, "WebP", lossless=True), picture()
    yield "webp-lossless-alpha.webp", saved(clear, "WebP", lossless=True, exact=True), pixels
    exif = tiff(6, ">")
    yield "webp-exif.webp", saved(rgb, "WebP", lossless=True, exif=exif), np.rot90(picture(), -1)
    yield "webp-exif-as-in-jpeg.webp", saved(rgb, "WebP", lossless=True, exif=b"Exif\0\0" + exif), np.rot90(picture(), -1)
    yield "webp-wrong-name.jpg", saved(rgb, "WebP", lossless=True), picture()
    for name, options in {"lossy": {}, "lossy-30": {"quality": 30, "method": 6}}.items():
        data = saved(rgb.resize((40, 30)), "WebP", **options)
        yield f"webp-{name}.webp", data, np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
    data = saved(clear.resize((40, 30)), "WebP", quality=90)
    read = np.asarray(Image.open(io.BytesIO(data)).convert("RGBA")).astype(float)
    yield "webp-lossy-alpha.webp", data, as_rgb(on_white(read[..., :3], read[..., 3:]))


def bad_webp_cases():
    rgb = Image.fromarray(picture())
    whole = saved(rgb, "WebP", lossless=True)
    lossy = saved(rgb.resize((40, 30)), "WebP")
    frames = [Image.fromarray(np.roll(picture(), k, 1)) for k in range(3)]
    sides = struct.pack("<I", 16383 | 16383 << 14)  # of 14 bits each, less 1
    lossless = b"VP8L" + struct.pack("<I", 6) + b"\x2f" + sides + b"\0"
    yield "cut.webp", whole[:-9], "WebP: "
    yield "cut-lossy.webp", lossy[: len(lossy) // 2], "WebP: "
    yield "magic-only.webp", whole[:12], "WebP: "
    yield "animation.webp", saved(frames[0], "WebP", save_all=True, append_images=frames[1:]), "WebP: an animation"
    yield "huge.webp", b"RIFF" + struct.pack("<I", 4 + len(lossless)) + b"WEBP" + lossless, "16384 x 16384"


def large_files():
    """Files of pictures within the limits that take hundreds of megabytes as pixels."""
    yield "large.webp", saved(Image.new("RGB", (10000, 10000)), "WebP", lossless=True, quality=0, method=0)


def good_cases():
    """(name, bytes of the file, pixels [height, width, 3]) of each good file."""
    rng = np.random.default_rng(20)
    yield from direct_png_cases(rng)
    yield from palette_png_cases(rng)
    yield from odd_png_cases(rng)
    yield from jpeg_cases()
    yield from webp_cases(rng)
    yield from tiff_cases(rng)


def many_scans(progressive, times):
    """Asks the decoder to pass over the image `times` times: the first scan again and again."""
    begin = progressive.index(b"\xff\xda")
    end = progressive.index(b"\xff\xc4", begin)
    return progressive[:begin] + progressive[begin:end] * times + progressive[end:]


def bad_cases():
    """(name, bytes of the file, a part of the reason that must be given)."""
    rng = np.random.default_rng(21)
    whole = png(rng.integers(0, 256, (HEIGHT, WIDTH, 3)), 8, RGB)
    keyed = png(np.zeros((HEIGHT, WIDTH, 1), int), 8, GREY, extra=chunk(b"tRNS", b"\0\0"))
    jpeg = saved(Image.fromarray(picture()).resize((130, 90)), quality=90)
    frame = jpeg.index(b"\xff\xc0")
    magic = b"\x89PNG\r\n\x1a\n"
    zeros = zlib.compress(bytes((20000 // 8 + 1) * 20000), 9)
    few = chunk(b"IDAT", zlib.compress(bytes(99)))
    end = chunk(b"IEND", b"")
    yield "empty.png", b"", "empty"
    yield "garbage.jpg", b"GIF89a" + bytes(range(256)), "neither PNG, JPEG, WebP nor TIFF"
    yield "magic-only.png", magic, "PNG: "
    yield "magic-only.jpg", b"\xff\xd8\xff", "JPEG: "
    yield "cut-in-image.png", whole[: len(whole) // 2], "PNG: "
    yield "cut-at-end.png", whole[:-6], "PNG: "
    yield "flipped-bit.png", whole[:60] + bytes([whole[60] ^ 4]) + whole[61:], "PNG: "
    yield "damaged-key.png", keyed.replace(b"tRNS\0\0", b"tRNS\0\1"), "PNG: "
    yield "no-data.png", magic + header(4, 4, 8, RGB) + end, "PNG: "
    yield "short-data.png", magic + header(64, 64, 8, RGB) + few + end, "PNG: "
    yield "wide.png", magic + header(2**31 - 1, 1, 8, RGB) + end, "PNG: "
    yield "huge.png", magic + header(60000, 60000, 16, RGB_ALPHA) + chunk(b"IDAT", zlib.compress(b"")), "60000 x 60000"
    yield "bomb.png", magic + header(20000, 20000, 1, GREY) + chunk(b"IDAT", zeros) + end, "20000 x 20000"
    yield "cut.jpg", jpeg[: len(jpeg) * 2 // 3], "JPEG: "
    yield "no-end.jpg", jpeg[:-2], "JPEG: "
    yield "huge.jpg", jpeg[: frame + 5] + struct.pack(">HH", 65500, 65500) + jpeg[frame + 9 :], "65500 x 65500"
    progressive = saved(Image.fromarray(picture()), quality=90, progressive=True)
    yield "scans.jpg", many_scans(progressive, 600), "scans"
    yield from bad_webp_cases()
    yield from bad_tiff_cases(rng)
