"""The exam's results as a table of Markdown, beside those of diffusers where they are there.

    python3 table.py runs/exam

It reads THEORY/result.json and THEORY/diffusers.json below that folder, as `ddpm eval fields --exact` writes them.
"""

import json
import pathlib
import sys

THEORIES = ("ising", "phi4", "grf", "u1", "su2")


def rows_of(path):
    """What has an exact value, by name and level. Rows without standard errors, such as the links' length, are no test."""
    if not path.exists():
        return {}
    rows = json.loads(path.read_text())["metrics"]
    return {(row["name"], row.get("level", "")): row for row in rows if row.get("sigmas") is not None}


def cells(row):
    if row is None:
        return ["", ""]
    return [f"{row['value']:.5f} ± {row['standard_error']:.5f}", f"{float(row['sigmas']):+.1f}"]


def main(folder):
    peers = any((folder / theory / "diffusers.json").exists() for theory in THEORIES)
    heads = ["theory", "", "exact", "ddpm", "σ", *(["diffusers", "σ"] if peers else [])]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for theory in THEORIES:
        ours, theirs = (rows_of(folder / theory / f"{name}.json") for name in ("result", "diffusers"))
        for key, row in (ours or theirs).items():
            name = " ".join(filter(None, key)).replace("_", " ")
            columns = [theory, name, f"{row['reference']:.5f}", *cells(ours.get(key)), *(cells(theirs.get(key)) if peers else [])]
            print(f"| {' | '.join(columns)} |")


main(pathlib.Path(sys.argv[1]))
