#!/usr/bin/env python3
"""Measures memory against `ddpm plan`: model state per rank and ZeRO stage, and the peak of trainings.

    python3 tests/benchmarks/memory.py [--ranks 2 4] [--models small medium large] [--parts state stages models]

Prints Markdown tables:

state    what host tensors hold after a step, counted by an allocator that sees every one of them (train_state_memory),
         beside the plan's model state;
stages   highest resident memory (VmHWM) of any rank in a training of some steps, beside the plan's peak, and how much
         less than in stage 0 that is;
models   the same for models of different sizes on one rank and on two.

The large model takes 2.3 GB per rank in stage 0. Exit code 1: state differs by more than 1 %, or a peak or its fall by
more than 10 %.
"""

import json
import sys

import bench
from models import MODELS

MICRO_SIZE = 4
STEPS = 3
STATE_TOLERANCE = 0.01
PEAK_TOLERANCE = 0.10


def main():
    parser = bench.parser(__doc__)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--models", choices=MODELS, nargs="+", default=list(MODELS))
    parser.add_argument("--parts", choices=PARTS, nargs="+", default=list(PARTS))
    args = parser.parse_args()
    worst = [PARTS[part](args) for part in args.parts]
    print(bench.machine())
    return 0 if all(worst) else 1


def measure_state(args):
    """Whether the state is what is planned."""
    config, _ = bench.write_config(args.work, "state", MODELS[args.models[-1]])
    program = bench.BUILD / "tests" / "engine" / "engine_state_memory"
    lines = []
    for ranks in args.ranks:
        for precision in ("no", "bf16"):
            told = bench.on_ranks(ranks, program, config, "--precision.mixed_precision", precision)
            lines += bench.json_lines(told)
            print(told, file=sys.stderr)
    rows = []
    for line in lines:
        off = max(line["most"] - line["planned"], line["planned"] - line["least"], key=abs) / line["planned"]
        line["off"] = abs(off)
        dtype = {"no": "float32"}.get(line["precision"], line["precision"])
        rows.append([line["ranks"], dtype, line["stage"], grouped(line["planned"]), grouped(line["most"]), f"{off:+.3%}"])
    print(f"Model state of the {args.models[-1]} model, bytes per rank:\n")
    bench.print_table(["ranks", "weights", "stage", "planned", "counted", "difference"], rows)
    return all(line["off"] <= STATE_TOLERANCE for line in lines)


def measure_stages(args):
    """Whether peaks, and what a stage saves, are what is planned."""
    rows, good = [], True
    for ranks in args.ranks:
        first = None
        for stage in range(4):
            planned, peak = peaks(args, args.models[-1], ranks, stage)
            first = first or (planned, peak)
            saved = [first[0] - planned, first[1] - peak]
            fall = relative(saved[1], saved[0]) if stage else None
            good = good and within(relative(peak, planned)) and (fall is None or within(fall))
            less = [megabytes(saved[0]), megabytes(saved[1]), f"{fall:+.1%}"] if stage else ["", "", ""]
            rows.append([ranks, stage, megabytes(planned), megabytes(peak), f"{relative(peak, planned):+.1%}", *less])
    print(f"Peak of the {args.models[-1]} model, MB per rank, micro-batches of {MICRO_SIZE}:\n")
    head = ["ranks", "stage", "planned peak", "VmHWM", "difference", "planned fall", "fall", "difference"]
    bench.print_table(head, rows)
    return good


def measure_models(args):
    rows, good = [], True
    for name in args.models:
        for ranks, precision in ((1, "no"), (1, "bf16"), (2, "no")):
            planned, peak = peaks(args, name, ranks, 0, precision)
            off = relative(peak, planned)
            good = good and within(off)
            dtype = {"no": "float32"}.get(precision, precision)
            rows.append([name, ranks, dtype, megabytes(planned), megabytes(peak), f"{off:+.1%}"])
    print(f"Peak of a rank, MB, micro-batches of {MICRO_SIZE}:\n")
    bench.print_table(["model", "ranks", "weights", "planned", "VmHWM", "difference"], rows)
    return good


PARTS = {"state": measure_state, "stages": measure_stages, "models": measure_models}


def peaks(args, model, ranks, stage, precision="no"):
    """(planned, measured) bytes of a training with two micro-batches per step."""
    config, folder = bench.write_config(
        args.work, "memory", MODELS[model],
        batch={"global_size": 2 * MICRO_SIZE * ranks, "micro_size": MICRO_SIZE}, train={"steps": STEPS},
        parallel={"zero_stage": stage}, precision={"mixed_precision": precision},
    )  # fmt: skip
    plan = json.loads(
        bench.run([bench.ddpm_run.DDPM, "plan", config, "--nodes", 1, "--gpus-per-node", ranks, "--json"])
    )
    measured = bench.train(config, folder, ranks)[-1]["peak_memory_bytes"]
    parts = ", ".join(f"{kind} {megabytes(size)}" for kind, size in plan["given"]["memory_bytes"].items() if size)
    print(f"{model}, {ranks} ranks, stage {stage}, {precision}: {megabytes(measured)} MB of {parts}", file=sys.stderr)
    return plan["peak_memory_bytes"], measured


def relative(measured, planned):
    return measured / planned - 1


def within(off):
    return abs(off) <= PEAK_TOLERANCE


def grouped(number):
    return f"{number:,}"


def megabytes(size):
    return f"{size / 1e6:,.0f}"


if __name__ == "__main__":
    sys.exit(main())
