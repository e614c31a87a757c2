"""Files of tensors (safetensors) as the format's description says: 8 bytes with the length of a header, JSON, data."""

import json


def header_end(data):
    """Where the header of a file's bytes ends and its data begin."""
    return 8 + int.from_bytes(data[:8], "little")


def tensors_of(path):
    """The bytes of each tensor of a file, by its name."""
    data = path.read_bytes()
    end = header_end(data)
    header = json.loads(data[8:end])
    header.pop("__metadata__", None)
    return {name: data[end:][slice(*entry["data_offsets"])] for name, entry in header.items()}


def with_header(change):
    """A function of a file's bytes that changes its header by `change`, which keeps the length."""

    def changed(data):
        end = header_end(data)
        text = change(data[8:end])
        assert len(text) == end - 8 and text != data[8:end]
        return data[:8] + text + data[end:]

    return changed
