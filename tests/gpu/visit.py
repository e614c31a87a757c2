"""Runs the tests on this machine's GPU and measures training beside PyTorch's; box.sh starts it, and says how.

Nothing here needs more than Python and torch: where there is no GPU, each test says so and fails.
"""

import argparse
import concurrent.futures
import contextlib
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tarfile
import time
import tomllib

SOURCE = pathlib.Path(os.environ["DDPM_SOURCE_DIR"])
DDPM = os.environ["DDPM"]
sys.path[:0] = [str(SOURCE / "tests" / folder) for folder in ("benchmarks", "support", "gpu")]
import kernel_times  # noqa: E402
from ddpm_run import make_dataset, write_config  # noqa: E402
from models import MEDIUM  # noqa: E402

AT_ONCE = 4  # tests that share the GPU
TEST_SECONDS = 300
WARM_UP = 12
PEERS = ("eager", "compiled")


def model_of(job):
    """The [model] of a job of ours without dropout, as keys of diffusers."""
    keys = tomllib.loads((SOURCE / "jobs" / f"{job}.toml").read_text())["model"]
    return {key: value for key, value in keys.items() if key != "dropout"}


SMALL = MEDIUM | {"attention_head_dim": 8}
# name, model, images of a step, steps that are measured
ROWS = (
    ("small UNet (64, 128, 128), 32 px, batch 8", SMALL, 8, 60),
    ("small UNet (64, 128, 128), 32 px, batch 128", SMALL, 128, 60),
    ("ddpm-cifar10, 32 px, batch 128", model_of("cifar10"), 128, 30),
    ("ddpm-celebahq-256, batch 16", model_of("celebahq256"), 16, 10),
)


class Visit:
    def __init__(self, output, minutes):
        self.end = time.monotonic() + 60 * minutes
        self.output = output
        self.work = output / "work"
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        (output / "results.jsonl").unlink(missing_ok=True)
        self.results = []

    def seconds_left(self):
        return max(1, self.end - time.monotonic())

    def add(self, result):
        self.results.append(result)
        with open(self.output / "results.jsonl", "a") as file:
            file.write(json.dumps(result) + "\n")
        print(json.dumps(result), flush=True)

    def run(self, name, command, env=None):
        """Runs a command in a folder of its own, and keeps what it prints; the exit code, None when time was over."""
        folder = self.work / name
        folder.mkdir()
        path = self.work / f"{name}.log"
        start = time.monotonic()
        with open(path, "w") as log:
            process = subprocess.Popen(list(map(str, command)), cwd=folder, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                       start_new_session=True, env=os.environ | (env or {}))
            try:
                code = process.wait(min(TEST_SECONDS, self.seconds_left()))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                process.wait()
                code = None
        self.add({"test": name, "exit_code": code, "seconds": round(time.monotonic() - start, 1), "said": last_words(path)})
        return code

    def run_all(self, tests):
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(lambda test: self.run(*test), tests))

    def check(self):
        tests = [(file.name, [file]) for file in gpu_tests()]
        script = SOURCE / "tests" / "train" / "gpu_test.py"
        self.run_all(tests + [(name, [sys.executable, "-B", script, name]) for name in names_of(script)])

    def sanitize(self):
        tool = shutil.which("compute-sanitizer")
        if tool is None:
            return self.add({"test": "compute-sanitizer", "exit_code": None, "seconds": 0, "said": "there is no compute-sanitizer"})
        return self.run_all([
            (f"{kind}.{file.name}", [tool, "--tool", kind, "--error-exitcode", 9, file, "--gtest_filter=-*AgreesWithFloat64*"])
            for kind in ("memcheck", "racecheck") for file in gpu_tests()
        ])  # fmt: skip

    def bench(self, rows, rounds):
        """One row after the other, with its peers compiled and warm before anything is measured."""
        for row, model, batch, steps in rows:
            config = self.config(model, batch)
            peers = {kind: Peer(kind, model, batch, self.work) for kind in PEERS}
            with contextlib.ExitStack() as stack:
                for peer in peers.values():
                    stack.callback(peer.end)
                    peer.ask(WARM_UP)
                for kind in PEERS:
                    if peers[kind].answer(self.seconds_left()) is None:
                        self.add({"row": row, "program": kind, "error": peers.pop(kind).end() or "time was over"})
                for number in range(rounds):
                    self.ours(row, config, steps, number)
                    for kind in list(peers):
                        peers[kind].ask(steps)
                        result = {"row": row, "program": kind, "round": number}
                        if answer := peers[kind].answer(self.seconds_left()):
                            self.add(result | {"images_per_second": batch / answer["seconds_per_step"], **answer})
                        else:
                            self.add(result | {"error": peers.pop(kind).end() or "time was over"})

    def kernels(self, rows):
        for row, model, batch, _ in rows:
            name = f"kernels {row}"
            times = self.work / f"{name}.tsv"
            command = [DDPM, "bench", "step", self.config(model, batch), "--steps", "8", "--warm-up", "4", "--json"]
            library = pathlib.Path(DDPM).parent / "libkernel_times.so"
            if self.run(name, command, {"CUDA_INJECTION64_PATH": str(library), "KERNEL_TIMES": str(times)}) == 0:
                self.add({"row": row, "table": kernel_times.table_of(times)})

    def config(self, model, batch):
        size = model["sample_size"]
        name = f"bench-{len(list(self.work.glob('bench-*.toml')))}"
        return write_config(
            self.work / f"{name}.toml", self.work / name, make_dataset(self.work / f"squares-{size}", 256 if size < 64 else 32, size),
            run={"device": "cuda", "seed": 0, "threads_per_rank": 4}, data={"block_images": None, "pool_images": None},
            model=model, batch={"global_size": batch, "micro_size": batch}, precision={"mixed_precision": "bf16"},
        )  # fmt: skip

    def ours(self, row, config, steps, number):
        command = [DDPM, "bench", "step", config, "--steps", str(steps), "--warm-up", str(WARM_UP), "--json"]
        result = {"row": row, "program": "ddpm", "round": number}
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=self.seconds_left(), check=False)
        except subprocess.TimeoutExpired:
            return self.add(result | {"error": "time was over"})
        if done.returncode != 0:
            return self.add(result | {"error": (done.stderr.strip().splitlines() or [""])[-1]})
        return self.add(result | json.loads(done.stdout))

    def close(self):
        report = report_of(self.results)
        (self.output / "report.md").write_text(report)
        with tarfile.open(self.output / "logs.tar.gz", "w:gz") as tar:
            for log in sorted(self.work.glob("*.log")):
                tar.add(log, log.name)
        shutil.rmtree(self.work)
        print(report)
        return int(any(r.get("exit_code", 0) != 0 or "error" in r for r in self.results))


class Peer:
    def __init__(self, kind, model, batch, work):
        theirs = model | {"attention_head_dim": model["attention_head_dim"] or None}
        command = [sys.executable, "-B", SOURCE / "tests" / "gpu" / "peers.py", kind, json.dumps(theirs), str(batch)]
        self.path = work / f"peer-{len(list(work.glob('peer-*')))}-{kind}.log"
        with open(self.path, "w") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)

    def ask(self, steps):
        with contextlib.suppress(BrokenPipeError):  # answer() finds that it has ended
            self.process.stdin.write(f"{steps}\n")
            self.process.stdin.flush()

    def answer(self, seconds):
        """What it answers, or None when it has ended, or `seconds` are over."""
        reading = concurrent.futures.ThreadPoolExecutor(1)
        try:
            line = reading.submit(self.process.stdout.readline).result(seconds)
        except concurrent.futures.TimeoutError:
            self.process.kill()
            line = ""
        reading.shutdown(wait=False)
        return json.loads(line) if line else None

    def end(self):
        """Ends it; the last thing that it said."""
        self.process.kill()
        self.process.wait()
        return last_words(self.path)


def gpu_tests():
    return sorted(pathlib.Path(DDPM).parent.glob("*_gpu_test"))


def last_words(path):
    lines = [line.strip() for line in pathlib.Path(path).read_text(errors="replace").splitlines() if line.strip()]
    told = [line for line in lines if line.startswith(("AssertionError", "ddpm:", "[  FAILED", "GPUs cannot")) or "Error:" in line]
    return (told or lines or [""])[-1][:300]


def names_of(script):
    """The tests of a unittest file, as its command line takes them."""
    listing = "import runpy, sys, unittest; sys.argv[1:] = []; found = runpy.run_path({!r}); print(*(f'{{c.__name__}}.{{t}}' for c in found.values() " \
              "if isinstance(c, type) and issubclass(c, unittest.TestCase) for t in unittest.TestLoader().getTestCaseNames(c)))"  # fmt: skip
    return subprocess.run([sys.executable, "-c", listing.format(str(script))], capture_output=True, text=True, check=True).stdout.split()


def report_of(results):
    lines = [*machine(), "", "| test | result | seconds | what it said |", "|---|---|---|---|"]
    for r in sorted((r for r in results if "test" in r), key=lambda r: r["test"]):
        result = {0: "passed", None: "time was over"}.get(r["exit_code"], f"failed ({r['exit_code']})")
        result = "skipped" if r["exit_code"] == 0 and "skipped=" in r["said"] else result
        lines.append(f"| {r['test']} | {result} | {r['seconds']} | {'' if result == 'passed' else r['said']} |")
    lines += ["", "| model | program | images/s | ms per step | GiB | ddpm over it |", "|---|---|---|---|---|---|"]
    for row, _, batch, _ in ROWS:
        of_row = [r for r in results if r.get("row") == row and "program" in r]
        ours = {r["round"]: r["images_per_second"] for r in of_row if r["program"] == "ddpm" and "error" not in r}
        for program in ("ddpm", *PEERS):
            lines += rate_lines(row, program, batch, [r for r in of_row if r["program"] == program], ours)
    for r in results:
        if "table" in r:
            lines += ["", f"**{r['row']}**: {r['table']}"]
    return "\n".join([*lines, ""])


def rate_lines(row, program, batch, results, ours):
    measured = [r for r in results if "error" not in r]
    failed = [f"| {row} | {program} | {r['error']} | | | |" for r in results if "error" in r]
    if not measured:
        return failed
    rates = [r["images_per_second"] for r in measured]
    ratios = [ours[r["round"]] / r["images_per_second"] for r in measured if r["round"] in ours]
    ratio = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})" if ratios and program != "ddpm" else ""
    peak = max(r["peak_device_bytes"] for r in measured) / 2**30
    return [f"| {row} | {program} | {statistics.median(rates):.0f} ({min(rates):.0f} to {max(rates):.0f}) "
            f"| {1000 * batch / statistics.median(rates):.2f} | {peak:.1f} | {ratio} |", *failed]  # fmt: skip


def machine():
    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    try:
        gpu = subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip()
    except FileNotFoundError:
        gpu = ""
    version = subprocess.run([DDPM, "--version"], capture_output=True, text=True, check=False).stdout.strip()
    return [f"{gpu or 'No NVIDIA driver'}; {len(os.sched_getaffinity(0))} CPUs. {version}"]


def main():
    parser = argparse.ArgumentParser(description="Tests and measures the packed build on this machine's GPU.")
    parser.add_argument("parts", nargs="*", metavar="check, bench, kernels, sanitize")
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("gpu-results"))
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=lambda text: [ROWS[int(i)] for i in text.split(",")], default=ROWS)
    args = parser.parse_args()
    parts = args.parts or ["check", "bench", "kernels"]
    visit = Visit(args.output.resolve(), args.minutes)
    if "check" in parts:
        visit.check()
    if "sanitize" in parts:
        visit.sanitize()
    if "bench" in parts:
        visit.bench(args.rows, args.rounds)
    if "kernels" in parts:
        visit.kernels(args.rows)
    return visit.close()


if __name__ == "__main__":
    sys.exit(main())
