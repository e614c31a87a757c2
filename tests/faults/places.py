"""Where a run is trained and hurt: under mpirun on this machine, on emulated hosts, or as a job of a local Slurm.

A place begins a training, says when it has ended, and does to it what one fault asks for. It continues it as a user would: the same
command again, or Slurm's own requeue.
"""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time

TESTS = pathlib.Path(__file__).resolve().parents[1]
for name in ("support", "benchmarks", "slurm"):
    sys.path.insert(0, str(TESTS / name))
import processes  # noqa: E402
from launcher import MPIRUN, SRUN_MPI  # noqa: E402

NODE_IS_BACK_AFTER_S = 15
PATIENCE_S = 60


class Place:
    """`said` is the file to which all starts write; `mark` is in the environment of all processes."""

    kinds = ("rank", "launcher", "stop", "term", "hang")

    def __init__(self, program, said, mark):
        self.program, self.said, self.mark = program, said, mark
        self.hosts = 1

    def environment(self):
        values = {**os.environ, processes.MARK: self.mark, "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
        if os.geteuid() == 0:  # Open MPI asks root twice
            values |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        return values

    def ranks(self):
        return processes.ranks(self.mark, self.program)

    def inject(self, fault):
        """Does what a fault says. Returns what was hit, in words, or None where there is nothing yet that it could hit."""
        return getattr(self, f"_{fault.kind}")(fault)

    def tend(self):
        """What has to happen some time after a fault."""

    def _signal_rank(self, fault, number):
        ranks = self.ranks()
        if not ranks:
            return None
        rank = fault.pick(ranks)
        return f"rank {rank}" if processes.send(ranks[rank].pid, number) else None

    def _rank(self, fault):
        return self._signal_rank(fault, signal.SIGKILL)

    def _hang(self, fault):
        return self._signal_rank(fault, signal.SIGSTOP)

    def _term(self, fault):
        return self._signal_rank(fault, signal.SIGTERM)

    def _signal_launcher(self, number):
        pid = self._launcher_pid()
        return f"process {pid}" if pid is not None and processes.send(pid, number) else None

    def _launcher(self, _fault):
        return self._signal_launcher(signal.SIGKILL)

    def _stop(self, _fault):
        # A launcher that has no ranks yet would itself end by the signal: a batch system does not send it so early.
        return self._signal_launcher(signal.SIGUSR1) if self.ranks() else None


class UnderLauncher(Place):
    """A command on this machine: `prefix` starts the ranks, such as mpirun -np 2."""

    def __init__(self, program, said, mark, prefix):
        super().__init__(program, said, mark)
        self._prefix = [str(word) for word in prefix]
        self._process = None

    def begin(self, *arguments):
        with self.said.open("ab") as said:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *self._prefix, self.program, "train", *map(str, arguments)],
                env=self.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said,
            )  # fmt: skip

    def _launcher_pid(self):
        return self._process.pid if self._process.poll() is None else None

    def poll(self):
        """The exit code, or None while it works."""
        code = self._process.poll()
        if code is not None:
            # A user does not repeat the command in the same moment either.
            left = processes.end_all(self.mark, PATIENCE_S)
            if left:
                raise AssertionError(f"these outlived their launcher by {PATIENCE_S} s: {left}")
        return code

    def stop(self):
        """Asks the run to save and end, as soon as its ranks are there, and waits. Returns the exit code, and whether it was asked: without
        ranks it has ended by itself."""
        deadline, asked = time.monotonic() + 2 * PATIENCE_S, None
        while self._process.poll() is None:
            asked = asked or self._stop(None)
            if time.monotonic() > deadline:
                processes.end_all(self.mark, 0)
            time.sleep(0.1)
        return self.poll(), bool(asked)

    def close(self):
        if self._process is not None:
            processes.end_all(self.mark, 0)
            self._process.wait(timeout=PATIENCE_S)


class OnMachine(UnderLauncher):
    """mpirun, without a network."""

    def __init__(self, program, said, mark, ranks):
        super().__init__(program, said, mark, [*MPIRUN, "-np", ranks])


class OnEmulatedHosts(UnderLauncher):
    """One rank on each of several hosts, which are namespaces, over links of a given rate."""

    kinds = (*UnderLauncher.kinds, "node")

    def __init__(self, program, said, mark, ranks, mbit_per_s):
        from hosts import Hosts

        self._hosts = Hosts(ranks, mbit_per_s)
        self._hosts.__enter__()
        super().__init__(program, said, mark, self._hosts.mpirun_command())
        self.hosts = ranks

    def _node(self, fault):
        """The host of mpirun itself has nobody who could repeat the command."""
        launcher = self._launcher_pid()
        if launcher is None:
            return None
        others = {rank: process for rank, process in self.ranks().items() if process.host != processes.uts(launcher)}
        if not others:
            return None
        host = others[fault.pick(others)].host
        for process in processes.marked(self.mark):
            if process.host == host:
                processes.send(process.pid, signal.SIGKILL)
        return "a host"

    def close(self):
        super().close()
        self._hosts.__exit__()


class UnderSlurm(Place):
    """A job of jobs/train.sbatch on `nodes` nodes of a Slurm cluster that has `spares` more."""

    kinds = (*Place.kinds, "node")

    def __init__(self, program, said, mark, ranks, nodes, spares):
        from cluster import ENDED, Cluster

        super().__init__(program, said, mark)
        self.hosts = nodes
        self._ended_states = ENDED
        self._options = (f"--nodes={nodes}", f"--ntasks-per-node={ranks // nodes}", "--time=1-0")
        # The controller finds out by itself that a node is gone.
        self._cluster = Cluster(nodes=nodes + spares, settings={"SlurmdTimeout": 5, "KillWait": 5})
        self._cluster.start()
        self._job, self._asked, self._dead, self._code = None, 0.0, {}, None

    def begin(self, *arguments):
        variables = {"DDPM": self.program, "DDPM_SRUN_MPI": SRUN_MPI, "DDPM_JOBS": str(TESTS.parent / "jobs"), "DDPM_MAX_RESTARTS": "100000"}
        mine = {key: value for key, value in self.environment().items() if key not in os.environ or key == processes.MARK}
        self._job = self._cluster.sbatch(
            *self._options, f"--output={self.said}", TESTS.parent / "jobs" / "train.sbatch", *arguments,
            env=mine | variables, cwd=self.said.parent,
        )  # fmt: skip
        self._code = None

    def poll(self):
        """The job's exit code, when it has ended for good: a requeued one has not."""
        if self._code is None and time.monotonic() > self._asked + 2:
            job = self._cluster.job(self._job)
            self._asked = time.monotonic()
            if job["JobState"] in self._ended_states:
                code, by_signal = map(int, job["ExitCode"].split(":"))
                if job["JobState"] != "COMPLETED" and code == 0:
                    code = -(by_signal or signal.SIGTERM)  # a job that was cancelled in the queue has neither
                self._code = code
        return self._code

    def _launcher_pid(self):
        found = processes.sruns(self.mark)
        return found[0].pid if found else None

    def restarts(self):
        return int(self._cluster.job(self._job)["Restarts"])

    def stop(self):
        ranks_were_there = bool(self.ranks())
        self._cluster.client("scancel", *(["--batch", "--signal=TERM"] if ranks_were_there else []), self._job)
        with contextlib.suppress(AssertionError):
            self._cluster.wait_for(lambda: self.poll() is not None, "the end of the job", 2 * PATIENCE_S)
        if self.poll() is None:
            self._cluster.client("scancel", self._job)
            self._cluster.wait_for(lambda: self.poll() is not None, "the end of the job", 2 * PATIENCE_S)
        return self.poll(), ranks_were_there

    def tend(self):
        for node, since in list(self._dead.items()):
            if time.monotonic() > since + NODE_IS_BACK_AFTER_S:
                del self._dead[node]
                self._cluster.start_node(node, wait=False)

    def _node(self, fault):
        nodes = {name for process in self.ranks().values() if (name := processes.host_of(process.pid)) in self._cluster.nodes}
        nodes -= set(self._dead)
        if not nodes:
            return None
        node = fault.pick(nodes)
        self._cluster.kill_node(node, noticed=False)
        self._dead[node] = time.monotonic()
        return node

    def _stop(self, _fault):
        return self._signal_job("USR1")

    def _term(self, _fault):
        return self._signal_job("TERM")

    def _signal_job(self, name):
        if not self.ranks():
            return None
        done = self._cluster.client("scancel", "--batch", f"--signal={name}", self._job)
        return f"job {self._job}" if done.returncode == 0 else None

    def close(self):
        self._cluster.stop()
