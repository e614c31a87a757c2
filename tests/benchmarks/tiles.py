#!/usr/bin/env python3
"""Measures what tiles save: the highest resident memory of any rank in steps on a large field, whole and cut.

    python3 tests/benchmarks/tiles.py [--side 2048] [--cuts 1,1 4,2] [--steps 2]

Prints a Markdown table: of each cut the plan's peak, the highest resident memory (VmHWM) of any rank, how much less than that
of one rank this is, the seconds of the last step and its loss. One thread per rank, float32, a UNet of 16 and 32 channels. The
whole field of 2,048 x 2,048 takes 11 GB.
"""

import json
import shutil

import bench
from models import CONVOLUTIONS

MODEL = {**CONVOLUTIONS, "in_channels": 1, "out_channels": 1, "block_out_channels": [16, 32]}


def main():
    parser = bench.parser(__doc__)
    parser.add_argument("--side", type=int, default=2048)
    parser.add_argument("--cuts", nargs="+", default=["1,1", "4,2"], help="tiles along the rows and the columns")
    parser.add_argument("--steps", type=int, default=2)
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    fields = args.work / f"fields-{args.side}.h5"
    if not fields.exists():
        write_fields(fields, args.side, args.steps)
    rows, first = [], None
    for cut in args.cuts:
        planned, line = measure(args, fields, list(map(int, cut.split(","))))
        peak = line["peak_memory_bytes"]
        first = first or peak
        rows.append([cut, f"{planned / 1e9:.2f}", f"{peak / 1e9:.2f}", f"1/{first / peak:.2f}",
                     f"{line['seconds_per_step']:.1f}", f"{line['loss']:.7f}"])  # fmt: skip
    print(f"A field of {args.side} x {args.side}, GB per rank:\n")
    bench.print_table(["spatial_size", "planned peak", "VmHWM", "of the whole", "seconds per step", "loss"], rows)
    print(bench.machine())


def write_fields(path, side, count):
    bench.run([bench.ddpm_run.DDPM, "data", "generate", "grf", "--size", f"{side}x{side}", "--count", count, "--output", path])


def measure(args, fields, cut):
    """The planned peak, and the last line of the metrics."""
    folder = args.work / "tiles"
    shutil.rmtree(folder, ignore_errors=True)
    config = bench.ddpm_run.write_config(
        args.work / "tiles.toml", folder, fields, model={**MODEL, "sample_size": args.side},
        batch={"global_size": 1, "micro_size": 1}, train={"steps": args.steps}, run={"threads_per_rank": 1},
        parallel={"spatial_size": cut}, logging={"tensorboard": False},
    )  # fmt: skip
    ranks = cut[0] * cut[1]
    plan = json.loads(bench.run([bench.ddpm_run.DDPM, "plan", config, "--nodes", 1, "--gpus-per-node", ranks, "--json"]))
    return plan["peak_memory_bytes"], bench.train(config, folder, ranks)[-1]


if __name__ == "__main__":
    main()
