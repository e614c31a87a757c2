"""Writes golden/: the files of image_cases.py, which decode_test.cpp reads, and cases.json with what they must give; and large/.

    ~/.cache/ddpm/peers/bin/python make_golden.py
"""

import json
import pathlib

import image_cases

folder = pathlib.Path(__file__).parent / "golden"
folder.mkdir(exist_ok=True)
for old in folder.iterdir():
    old.unlink()
good, bad = [], []
for name, data, pixels in image_cases.good_cases():
    (folder / name).write_bytes(data)
    good.append({"file": name, "height": pixels.shape[0], "width": pixels.shape[1], "rgb": pixels.tobytes().hex()})
for name, data, reason in image_cases.bad_cases():
    name = "bad-" + name
    (folder / name).write_bytes(data)
    bad.append({"file": name, "reason": reason})
for name, data in image_cases.large_files():
    large = folder.parent / "large"
    large.mkdir(exist_ok=True)
    (large / name).write_bytes(data)
lines = lambda cases: ",\n".join("  " + json.dumps(case) for case in cases)
(folder / "cases.json").write_text('{"good": [\n' + lines(good) + '\n],\n"bad": [\n' + lines(bad) + "\n]}\n")
