#!/usr/bin/env python3
"""Measures what tiles save: the highest resident memory of any rank in steps on a large field, whole and cut.

    python3 tests/benchmarks/tiles.py [--size 2048x2048] [--cuts 1,1 4,2] [--channels 16,32] [--steps 2]
    python3 tests/benchmarks/tiles.py --size 64x64x64

Prints a Markdown table: of each cut the plan's peak, the highest resident memory (VmHWM) of any rank, how much less than that
of one rank this is, the seconds of the last step and its loss. One thread per rank, a UNet of two levels of these channels. The
whole field of 2,048 x 2,048 takes 10.3 GB.
"""

import json
import math
import shutil

import bench
from models import CONVOLUTIONS


def main():
    parser = bench.parser(__doc__)
    parser.add_argument("--size", default="2048x2048", help="of the field: rows and columns, before them the depth")
    parser.add_argument("--cuts", nargs="+", help="tiles along each axis (default: 1,1 4,2; of volumes 1,1,1 2,2,2)")
    parser.add_argument("--channels", default="16,32", help="of the two levels of the UNet")
    parser.add_argument("--bf16", action="store_true", help="mixed precision instead of float32")
    parser.add_argument("--recompute", action="store_true", help="all blocks in the backward pass")
    parser.add_argument("--steps", type=int, default=2)
    args = parser.parse_args()
    cuts = args.cuts or (["1,1,1", "2,2,2"] if args.size.count("x") == 2 else ["1,1", "4,2"])
    args.work.mkdir(parents=True, exist_ok=True)
    fields = args.work / f"fields-{args.size}-{args.steps}.h5"
    if not fields.exists():
        bench.run([bench.ddpm_run.DDPM, "data", "generate", "grf", "--size", args.size, "--count", args.steps,
                   "--output", fields])  # fmt: skip
    rows, first = [], None
    for cut in cuts:
        planned, line = measure(args, fields, numbers(cut, ","))
        peak = line["peak_memory_bytes"]
        first = first or peak
        rows.append([cut, f"{planned / 1e9:.2f}", f"{peak / 1e9:.2f}", f"1/{first / peak:.2f}",
                     f"{line['seconds_per_step']:.1f}", f"{line['loss']:.7f}"])  # fmt: skip
    how = ("bf16" if args.bf16 else "float32") + (", blocks recomputed" if args.recompute else "")
    print(f"A field of {args.size}, channels {args.channels}, {how}; GB per rank:\n")
    bench.print_table(["spatial_size", "planned peak", "VmHWM", "of the whole", "seconds per step", "loss"], rows)
    print(bench.machine())


def numbers(text, between):
    return list(map(int, text.split(between)))


def measure(args, fields, cut):
    """The planned peak, and the last line of the metrics."""
    folder = args.work / "tiles"
    shutil.rmtree(folder, ignore_errors=True)
    size, channels = numbers(args.size, "x"), numbers(args.channels, ",")
    model = {"in_channels": 1, "out_channels": 1, "block_out_channels": channels, "sample_size": size,
             "dimensions": len(size), "norm_num_groups": channels[0] // 2}  # fmt: skip
    config = bench.ddpm_run.write_config(
        args.work / "tiles.toml", folder, fields, model={**CONVOLUTIONS, **model},
        batch={"global_size": 1, "micro_size": 1}, train={"steps": args.steps}, run={"threads_per_rank": 1},
        parallel={"spatial_size": cut, "activation_checkpointing": "blocks" if args.recompute else "none"},
        precision={"mixed_precision": "bf16" if args.bf16 else "no"}, logging={"tensorboard": False},
    )  # fmt: skip
    ranks = math.prod(cut)
    plan = json.loads(bench.run([bench.ddpm_run.DDPM, "plan", config, "--nodes", 1, "--gpus-per-node", ranks, "--json"]))
    return plan["peak_memory_bytes"], bench.train(config, folder, ranks)[-1]


if __name__ == "__main__":
    main()
