"""HDF5 files as other programs write them: the oldest version of the format, without any checksum, byte by byte.

One array of bytes or of float32 numbers, /images [n, height, width, channels] or of any shape, in a group of the old
kind (symbol table), laid out as the "HDF5 File Format Specification" says for version 0 of the superblock.
"""

import struct

UNDEFINED = 2**64 - 1
ROOT, HEAP, NAMES, TREE, SYMBOLS, ARRAY, DATA = 96, 136, 168, 184, 728, 1056, 2048
# Datatypes, little-endian: class and version, three bytes of its bits, bytes of an element, and its properties.
UINT8 = struct.pack("<BBBBIHH", 0x10, 0, 0, 0, 1, 0, 8)
FLOAT32 = struct.pack("<BBBBIHHBBBBI", 0x11, 0x20, 31, 0, 4, 0, 32, 23, 8, 0, 23, 127)


def message(kind, body):
    body += bytes(-len(body) % 8)
    return struct.pack("<HHB3x", kind, len(body), 0) + body


def object_header(*messages):
    body = b"".join(messages)
    return struct.pack("<BxHII4x", 1, len(messages), 1, len(body)) + body


def plain_hdf5(shape, values, datatype=UINT8, **odd):
    """The file's bytes, around those of `values`. `odd` fields replace what a whole file has: name_bytes, names, tree, symbols, array."""
    places = {"name_bytes": 16, "names": NAMES, "tree": TREE, "symbols": SYMBOLS, "array": ARRAY, **odd}
    group = struct.pack("<QQ", places["tree"], HEAP)
    superblock = b"\x89HDF\r\n\x1a\n" + bytes([0, 0, 0, 0, 0, 8, 8, 0]) + struct.pack("<HHI", 4, 16, 0)
    superblock += struct.pack("<4Q", 0, UNDEFINED, DATA + len(values), UNDEFINED)
    superblock += struct.pack("<QQI4x", 0, ROOT, 1) + group
    parts = {
        0: superblock,
        ROOT: object_header(message(0x11, group)),
        HEAP: b"HEAP" + struct.pack("<4xQQQ", places["name_bytes"], 1, places["names"]),
        NAMES: bytes(8) + b"images\0\0",
        TREE: b"TREE" + struct.pack("<BBH5Q", 0, 0, 1, UNDEFINED, UNDEFINED, 0, places["symbols"], 8),
        SYMBOLS: b"SNOD" + struct.pack("<BxHQQI20x", 1, 1, 8, places["array"], 0),
        ARRAY: object_header(
            message(0x01, struct.pack("<BBB5x", 1, len(shape), 0) + struct.pack(f"<{len(shape)}Q", *shape)),
            message(0x03, datatype),
            message(0x05, bytes([2, 1, 0, 0])),
            message(0x08, struct.pack("<BBQQ", 3, 1, DATA, len(values))),
        ),
        DATA: bytes(values),
    }
    file = bytearray(DATA + len(values))
    for place, part in parts.items():
        file[place : place + len(part)] = part
    return bytes(file)
