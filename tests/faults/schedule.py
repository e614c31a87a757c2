"""What is done to a run, and when: a function of the seed, so that a soak can be repeated."""

import random
from dataclasses import dataclass

# What each kind of fault is, for --help and for the report.
KINDS = {
    "rank": "SIGKILL to one rank",
    "launcher": "SIGKILL to mpirun or srun",
    "node": "all processes of a node end at once, and the node is back 15 s later",
    "stop": "SIGUSR1 to the launcher, as a batch system sends it before the time limit",
    "term": "SIGTERM to one rank; under Slurm, to the job",
    "hang": "SIGSTOP to one rank, as soon as its start has made a step",
    "damage": "a file of the newest checkpoint is changed, cut or removed, and a rank is killed",
    "disk": "the disk of the run's folder is filled, until the run has ended",
}


@dataclass(frozen=True)
class Fault:
    """One fault, so many seconds after the run began. `draw` (0 to 1) decides which rank, node or file it hits."""

    at: float
    kind: str
    draw: float

    def pick(self, things):
        """One of some things, the same whenever the things are the same."""
        things = sorted(things)
        return things[int(self.draw * len(things))]


class Pending:
    """The faults that are still to come, in their order. One that has found nothing to hit for `patience` seconds is left out."""

    def __init__(self, faults, patience):
        self.faults, self.patience = list(faults), patience
        self.left_out, self._tried_since = 0, None

    def tend(self, now, inject):
        """Has the next one happen, if its time has come and `inject` finds something that it can hit."""
        if not self.faults or now < self.faults[0].at:
            return
        self._tried_since = now if self._tried_since is None else self._tried_since
        if not inject(self.faults[0]):
            if now <= self._tried_since + self.patience:
                return
            self.left_out += 1
            print(f"{now:8.1f} s  {self.faults[0].kind} found nothing in {self.patience:g} s that it could hit: left out", flush=True)
        self.faults.pop(0)
        self._tried_since = None


def schedule(seed, seconds, every, kinds):
    """One fault in each stretch of `every` seconds, in its middle half. All kinds come equally often, in a new order each time."""
    chance = random.Random(f"soak {seed}")
    faults, bag = [], []
    for i in range(int(seconds // every)):
        bag = bag or chance.sample(kinds, len(kinds))
        faults.append(Fault((i + chance.uniform(0.25, 0.75)) * every, bag.pop(), chance.random()))
    return faults
