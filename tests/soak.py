#!/usr/bin/env python3
"""Trains for minutes or hours while ranks, launchers and nodes are killed, the disk is filled, files are damaged and signals come, and
continues after each fault as a user would: the same command again, or Slurm's own requeue. In the end the weights have to be those of
a run that nothing has disturbed, bit for bit.

    tests/soak.py --minutes 60 --failure-every 40 --ranks 2
    tests/soak.py --minutes 60 --ranks 2 --link-mbit 100           each rank on an emulated host; nodes are killed, too (root)
    tests/soak.py --minutes 120 --nodes 4 --ranks 4                as a job, under a Slurm that is started for it (root)
    tests/soak.py --launcher "srun --mpi=pmix --kill-on-bad-exit=1" --work /scratch/me/soak    in an allocation of a real one

Prints what was done and what it has cost; docs/fault-tolerance.md explains the figures. Exit code 0: nothing was lost; 1: something
was, and is named; 2: the soak cannot be done here, or more than a tenth of its faults found nothing that they could hit. It ends all
processes that it has started, by their numbers.
"""

import argparse
import contextlib
import json
import os
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
os.environ.setdefault("DDPM", str(ROOT / "build" / "release" / "ddpm"))
for name in ("support", "faults"):
    sys.path.insert(0, str(ROOT / "tests" / name))
import account  # noqa: E402
import places  # noqa: E402
from ddpm_run import make_dataset, metrics, write_config  # noqa: E402
from disk import Disk, with_own_mounts  # noqa: E402
from launcher import without_launchers  # noqa: E402
from record import Acknowledged, Record  # noqa: E402
from schedule import KINDS, Pending, schedule  # noqa: E402

ENDLESS = 10_000_000  # steps
DISK_MIB = 512
MOST_IDLE_STARTS = 12  # in a row, without a step: then the run does not get on
LIMIT_S = 3 * 3600  # of what follows the soak
STOPPED = 75
FAULT_PATIENCE_S = 60  # at least, for a fault that finds nothing yet that it could hit: a start takes seconds


class Lost(Exception):
    """The run is not what it was promised to be."""


class Soak:
    def __init__(self, args, work):
        self.args, self.work = args, work
        self.said = work / "said.txt"
        self.mark = uuid.uuid4().hex
        self.disk = self.place = self.dataset = None
        self.run = work / ("disk/run" if "disk" in args.kinds else "run")
        self.record, self.acknowledged = Record(self.run), Acknowledged()
        self.faults, self.ends, self.launches = [], [], []
        self.idle_starts, self.seen_step = 0, 0
        self.loads = []  # of the machine, twice a minute
        self.began = time.monotonic()

    def set_up(self):
        """Makes what the run needs. Where that fails, the soak cannot be done here."""
        try:
            if "disk" in self.args.kinds:
                self.disk = Disk(self.work / "disk", DISK_MIB)
            self.dataset = make_dataset(self.work / "squares", 256, self.args.size, inherited=without_launchers())
            self.place = make_place(self.args, self.said, self.mark)
        except (AssertionError, OSError, subprocess.SubprocessError) as error:
            refuse(" ".join(str(error).split()))

    @property
    def now(self):
        return time.monotonic() - self.began

    def config(self, run):
        args = self.args
        channels = list(args.channels)
        return write_config(
            self.work / f"{run.name}.toml", run, self.dataset,
            model={"block_out_channels": channels, "norm_num_groups": 8, "layers_per_block": 1},
            run={"reproducible": True, "threads_per_rank": 1},
            batch={"global_size": args.ranks * args.micro_size, "micro_size": args.micro_size},
            train={"steps": ENDLESS}, lr_schedule={"name": "constant_with_warmup", "warmup_steps": 10},
            checkpoint={"every_steps": args.save_every, "keep_latest": 3},
            fault={"step_timeout_s": args.step_timeout, "max_starts_without_progress": 0},
        )  # fmt: skip

    # --- The soak ----------------------------------------------------------------------------------------------------

    def begin(self, *arguments):
        self.launches.append(self.now)
        self.place.begin(self.work / "run.toml", *arguments)

    def disturb(self, faults, seconds):
        """Trains for so long, and lets each fault happen at its time, or as soon as there is something that it can hit. One that has found
        nothing for as long as faults are apart is left out. Returns the seconds, and how many faults were left out and were still to come."""
        self.config(self.run)
        self.began = time.monotonic()
        self.begin()
        pending = Pending(faults, max(self.args.failure_every, FAULT_PATIENCE_S))
        while self.now < seconds:
            self.tend()
            if self.now > 30 * len(self.loads):
                self.loads.append(os.getloadavg()[0])
            pending.tend(self.now, self.inject)
            time.sleep(0.03)
        self.record.look(self.now)
        return self.now, pending.left_out, len(pending.faults)

    def tend(self):
        self.record.look(self.now)
        self.place.tend()
        code = self.place.poll()
        if code is not None:
            self.ended(code)
            self.begin()

    def ended(self, code):
        """What a user does before the command is repeated."""
        self.ends.append((self.now, code))
        self.expect(code)
        self.idle_starts = self.idle_starts + 1 if self.record.newest == self.seen_step else 0
        self.seen_step = self.record.newest
        if self.idle_starts > MOST_IDLE_STARTS:
            raise Lost(f"{self.idle_starts} starts in a row made no step")
        if self.disk is not None:
            self.disk.free()

    def expect(self, code):
        """Throws Lost for an exit code that no fault since the start of the command explains."""
        begun = round(self.launches[-1], 2)
        problem = account.unexplained(code, {fault["kind"] for fault in self.faults if fault["at"] >= begun})
        if problem:
            raise Lost(problem)

    def inject(self, fault):
        # Until its first step a start has fault.init_timeout_s, a quarter of an hour, and would hang for so long.
        begins = self.record.begins
        if fault.kind == "hang" and (not begins or self.record.first_step(begins[-1]) is None):
            return False
        did = {"damage": self.damage, "disk": self.fill}.get(fault.kind, self.place.inject)(fault)
        if did:
            self.faults.append({"at": round(self.now, 2), "kind": fault.kind, "hit": did, "step": self.record.newest})
            print(f"{self.now:8.1f} s  step {self.record.newest:6}  {fault.kind:9} {did}", flush=True)
        return bool(did)

    def checkpoints(self):
        with contextlib.suppress(FileNotFoundError):
            return sorted(path for path in (self.run / "checkpoints").iterdir() if path.name.startswith("step-"))
        return []

    def damage(self, fault):
        """Damages a file of the newest checkpoint and kills a rank; waits until there are two, since the run goes on from the other one."""
        found = self.checkpoints()
        if len(found) < 2 or not self.place.ranks():
            return None
        with contextlib.suppress(OSError):  # retention may remove it in this moment
            file = fault.pick(path for path in found[-1].iterdir())
            how = ("changed", "cut", "removed")[int(fault.draw * 997) % 3]
            content = bytearray(file.read_bytes())
            self.acknowledged.damaged.append((len(self.text()), int(found[-1].name.rpartition("-")[2])))
            if how == "removed":
                file.unlink()
            else:
                content[len(content) // 2] ^= 1
                file.write_bytes(content if how == "changed" else content[: len(content) // 2])
            rank = self.place.inject(type(fault)(fault.at, "rank", fault.draw))
            return f"{found[-1].name}/{file.name} {how}, {rank or 'nobody'} killed"
        return None

    def fill(self, _fault):
        found = self.checkpoints() if self.place.ranks() else []
        with contextlib.suppress(FileNotFoundError, IndexError):  # there is none yet, or retention removes it in this moment
            self.disk.fill(leave=sum(path.stat().st_size for path in found[-1].iterdir()) // 2)
            return f"{self.disk.kind} full"
        return None

    def text(self):
        return self.said.read_text(errors="replace") if self.said.exists() else ""

    # --- Its end -----------------------------------------------------------------------------------------------------

    def stop(self):
        """Asks the run to save and end. Returns the lines of metrics.jsonl of the steps that are saved then."""
        code, asked = self.place.stop()
        self.ends.append((self.now, code))
        recovered = not self.faults or self.record.recovery(self.faults[-1]["at"]) is not None
        if asked and recovered and code != STOPPED:
            raise Lost(f"the run was asked to save and end, and has ended with exit code {code}; wanted: {STOPPED}")
        if self.disk is not None:
            self.disk.free()
        if not self.checkpoints():
            raise Lost("the run has no checkpoint: in so short a time there was none to lose; take more --minutes")
        saved = int(self.checkpoints()[-1].name.rpartition("-")[2])
        lines = (self.run / "metrics.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines[:saved]]

    def finish(self, last):
        """Trains the run to its last step."""
        deadline = time.monotonic() + LIMIT_S
        for _ in range(MOST_IDLE_STARTS):
            self.begin("--train.steps", last)
            while (code := self.place.poll()) is None:
                if time.monotonic() > deadline:
                    raise Lost("the run does not come to its end")
                self.record.look(self.now)
                self.place.tend()
                time.sleep(0.1)
            if code == 0:
                return
            self.expect(code)
        raise Lost(f"the run does not come to its end: exit code {code}")

    def unbroken(self, last):
        """Trains the same run without faults, by the launcher that was given, or else by mpirun on this machine; returns its folder and
        the seconds that it took."""
        run = self.work / "unbroken"
        program, said, mark, words = os.environ["DDPM"], self.work / "unbroken.txt", f"{self.mark}-unbroken", self.args.launcher
        place = (places.UnderLauncher(program, said, mark, shlex.split(words)) if words
                 else places.OnMachine(program, said, mark, self.args.reference_ranks))  # fmt: skip
        began = time.monotonic()
        try:  # nothing hangs here, and the soak's deadline may be short for a machine that does other things meanwhile
            place.begin(self.config(run), "--train.steps", last, "--checkpoint.every_steps", ENDLESS, "--fault.step_timeout_s", 0)
            while (code := place.poll()) is None:
                if time.monotonic() > began + LIMIT_S:
                    raise Lost("the unbroken run does not come to its end")
                time.sleep(0.1)
        finally:
            place.close()
        if code != 0:
            raise Lost(f"the unbroken run has ended with exit code {code}")
        return run, time.monotonic() - began

    def judge(self, last):
        """What is wrong with the run that has come to its last step, as texts."""
        wrong = account.what_is_wrong(self.run, metrics(self.run), last)
        wrong += self.acknowledged.lost(self.text(), self.record.starts_with_steps())
        verified = subprocess.run([os.environ["DDPM"], "checkpoint", "verify", str(self.run)], capture_output=True, text=True,
                                  timeout=600, check=False, env=without_launchers())  # fmt: skip
        if verified.returncode != 0:
            wrong.append(f"ddpm checkpoint verify: exit code {verified.returncode}: {verified.stderr.strip()}")
        return wrong

    def compare(self, last):
        """The weights of this run and of the unbroken one."""
        weights = account.weights(self.run)
        print(f"weights after {last} steps: SHA-256 {weights}; now the same steps without faults", flush=True)
        run, seconds = self.unbroken(last)
        return {"weights": weights, "weights_unbroken": account.weights(run), "unbroken_seconds": round(seconds, 1)}

    def close(self):
        try:
            if self.place is not None:
                self.place.close()
        finally:
            if self.disk is not None:
                self.disk.remove()


def make_place(args, said, mark):
    program = os.environ["DDPM"]
    if args.launcher:
        return places.UnderLauncher(program, said, mark, shlex.split(args.launcher))
    if args.nodes:
        return places.UnderSlurm(program, said, mark, args.ranks, args.nodes, args.spares)
    if args.link_mbit:
        return places.OnEmulatedHosts(program, said, mark, args.ranks, args.link_mbit)
    return places.OnMachine(program, said, mark, args.ranks)


def kinds_of(args):
    """The kinds of faults that the place knows, in the order of KINDS. Ends the program where one was named that it does not know."""
    place = places.UnderSlurm if args.nodes else places.OnEmulatedHosts if args.link_mbit else places.UnderLauncher
    can = {*place.kinds, "damage"}
    if not args.launcher and with_own_mounts():  # the ranks of a site's launcher may see none of our mounts
        can.add("disk")
    wanted = args.faults.split(",") if args.faults else [kind for kind in KINDS if kind in can]
    for kind in wanted:
        if kind not in can:
            known = "it wants root, the right to mount, and no --launcher" if kind == "disk" else f"wanted: {', '.join(sorted(can))}"
            refuse(f"--faults {kind}: not in this place; {known}")
    if not args.faults and "disk" not in can:
        print("the disk is not filled: that wants root, the right to mount, and no --launcher", flush=True)
    return wanted


def refuse(text):
    print(f"tests/soak.py: {text}", file=sys.stderr)
    sys.exit(2)


def arguments():
    kinds = "\n".join(f"  {kind:9} {what}" for kind, what in KINDS.items())
    parser = argparse.ArgumentParser(description=__doc__, epilog=f"faults:\n{kinds}", formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10, metavar="M", help="of training with faults (10); ending and comparing follow")
    parser.add_argument("--failure-every", type=float, default=40, metavar="S", help="seconds between faults, on average (40)")
    parser.add_argument("--ranks", type=int, default=2, help="in all (2)")
    parser.add_argument("--seed", type=int, default=1, help="of the schedule of faults, which is a function of it (1)")
    parser.add_argument("--faults", metavar="KIND,...", help="these only; see below (all that the place knows)")
    parser.add_argument("--nodes", type=int, default=0, metavar="N", help="train as a job on N nodes of a Slurm that is started for it")
    parser.add_argument("--spares", type=int, default=1, metavar="N", help="further nodes of that Slurm (1)")
    parser.add_argument("--link-mbit", type=int, default=0, metavar="R", help="each rank on an emulated host, links of R Mbit/s between them")
    parser.add_argument("--launcher", metavar="WORDS", help="start ranks by this command, in place of mpirun -np RANKS")
    parser.add_argument("--save-every", type=int, default=10, metavar="STEPS", help="checkpoint.every_steps (10)")
    parser.add_argument("--step-timeout", type=float, default=10, metavar="S", help="fault.step_timeout_s, after which a rank hangs (10)")
    parser.add_argument("--channels", type=lambda text: tuple(map(int, text.split(","))), default=(32, 64), metavar="C,C", help="of the model (32,64)")
    parser.add_argument("--size", type=int, default=16, help="of the images (16)")
    parser.add_argument("--micro-size", type=int, default=4, help="images that a rank takes in a step (4)")
    parser.add_argument("--reference-ranks", type=int, metavar="N", help="ranks of the unbroken run (those of the run); 0: leave it out")
    parser.add_argument("--work", type=Path, metavar="FOLDER", help="a new folder for all files, which stays (a temporary one, which does not)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here as well")
    args = parser.parse_args()
    if args.reference_ranks is None:
        args.reference_ranks = args.ranks
    if min(args.minutes, args.failure_every, args.ranks, args.save_every) <= 0 or (args.nodes and args.ranks % args.nodes):
        refuse("minutes, seconds, ranks and steps are above 0, and ranks are a multiple of nodes")
    if 60 * args.minutes < args.failure_every:
        refuse(f"a failure every {args.failure_every:g} s is none in {args.minutes:g} minutes: nothing would be tested")
    if not Path(os.environ["DDPM"]).exists():
        refuse(f"there is no {os.environ['DDPM']}: build it, or set DDPM")
    if args.launcher and args.reference_ranks not in (0, args.ranks):
        refuse(f"--reference-ranks {args.reference_ranks}: --launcher starts {args.ranks} ranks; wanted: 0 or {args.ranks}")
    if args.work and args.work.exists():
        refuse(f"{args.work} is there already; wanted: a new folder")
    return args


def soak(args, work):
    """Returns the figures; "wrong" names what was lost."""
    faults = schedule(args.seed, 60 * args.minutes, args.failure_every, args.kinds)
    print(f"{len(faults)} faults of seed {args.seed}; soaking for {args.minutes:g} minutes", flush=True)
    told = {"command": shlex.join(sys.argv), "seed": args.seed, "processors": os.cpu_count(), "wrong": [], "faults_planned": len(faults)}
    it = Soak(args, work)
    try:
        it.set_up()
        wall, told["faults_left_out"], told["faults_left"] = it.disturb(faults, 60 * args.minutes)
        if not it.faults:
            refuse(f"no fault was injected: the first one ({faults[0].kind}) found nothing that it could hit, so nothing was tested")
        if told["faults_left"]:
            print(f"{told['faults_left']} of {len(faults)} faults found nothing in time that they could hit", flush=True)
        lines = it.stop()
        told |= account.figures(it.record, it.faults, list(it.ends), list(it.launches), wall, lines)
        told |= {"load": {"mean": round(statistics.mean(it.loads), 2), "highest": round(max(it.loads), 2)}, "schedule": it.faults}
        print(account.table(told), flush=True)
        last = lines[-1]["step"] + 5
        it.finish(last)
        told["wrong"] += it.judge(last)
        if args.reference_ranks:
            told |= it.compare(last)
            if told["weights"] != told["weights_unbroken"]:
                told["wrong"].append("the weights differ from those of the unbroken run")
    except (Lost, AssertionError) as error:
        told["wrong"] += [str(error), "the starts said last:\n" + "\n".join(it.text().splitlines()[-20:])]
    finally:
        try:
            it.close()
        except AssertionError as error:
            told["wrong"].append(str(error))
            print(f"tests/soak.py: {error}", file=sys.stderr)
    return told


def verdict(told):
    """Says how the soak has ended. Returns the exit code."""
    print("\n".join(["something was lost:", *told["wrong"]] if told["wrong"] else ["nothing was lost"]))
    if told["wrong"]:
        return 1
    if "weights_unbroken" in told:
        print(f"weights equal to those of the unbroken run: {told['weights']}")
    if 10 * told["faults_left_out"] > told["faults_planned"]:
        refuse(f"{told['faults_left_out']} of {told['faults_planned']} faults found nothing that they could hit, and were not tested")
    return 0


def main():
    args = arguments()
    args.kinds = kinds_of(args)
    # Whoever ends this program by SIGTERM lets it clean up.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    work = args.work or Path(tempfile.mkdtemp(prefix="soak-"))
    work.mkdir(parents=True, exist_ok=True)
    try:
        told = soak(args, work)
    finally:
        if not args.work:
            shutil.rmtree(work, ignore_errors=True)
    if args.json:
        args.json.write_text(json.dumps(told, indent=1) + "\n")
    return verdict(told)


if __name__ == "__main__":
    sys.exit(main())
