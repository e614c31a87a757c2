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


def schedule(seed, seconds, every, kinds):
    """One fault in each stretch of `every` seconds, in its middle half. All kinds come equally often, in a new order each time."""
    chance = random.Random(f"soak {seed}")
    faults, bag = [], []
    for i in range(int(seconds // every)):
        bag = bag or chance.sample(kinds, len(kinds))
        faults.append(Fault((i + chance.uniform(0.25, 0.75)) * every, bag.pop(), chance.random()))
    return faults
